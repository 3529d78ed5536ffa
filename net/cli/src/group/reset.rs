//! `pelton group reset`: new offsets for a group without members.
//!
//! 1. Nothing is set unless every partition's new offset is known.
//! 2. New offsets lie between what a partition keeps and its end.

use std::collections::{BTreeMap, BTreeSet};

use pelton_client::{Admin, Client, ListedOffset, OffsetQuery, Str};
use pelton_transport::ring::RingNet;

use super::{advised, failed, print};
use crate::args::{GroupResetArgs, Output};
use crate::error::CliError;
use crate::output::{columns, json_text};
use crate::records::position::Position;

type Partition = (Str, i32);

/// What is known of a partition before it is reset.
#[derive(Clone, Copy, Debug)]
struct Known {
    committed: Option<i64>,
    first: i64,
    end: i64,
}

pub(super) async fn reset(client: Client<RingNet>, args: GroupResetArgs) -> Result<(), CliError> {
    let admin = Admin::new(&client);
    let group = Str::from(&args.group);
    let known = known(&client, &group, &args).await?;
    let mut offsets: BTreeMap<Partition, i64> = BTreeMap::new();
    for (partition, known) in &known {
        offsets.insert(
            partition.clone(),
            target(&admin, &args, partition, *known).await?,
        );
    }
    if !args.dry_run {
        let set = admin.set_group_offsets(&group, &offsets).await;
        set.map_err(|error| advised(&error))?;
    }
    print(&shown(&known, &offsets, args.output))
}

async fn known(
    client: &Client<RingNet>,
    group: &Str,
    args: &GroupResetArgs,
) -> Result<BTreeMap<Partition, Known>, CliError> {
    let admin = Admin::new(client);
    let committed = admin.group_offsets(group).await.map_err(failed)?;
    let partitions: BTreeSet<Partition> = match &args.topic {
        None => committed.keys().cloned().collect(),
        Some(topic) => {
            let found = client.topic(topic, false).await.map_err(failed)?;
            let all = found.partitions.iter().map(|known| known.partition);
            let is_asked =
                |partition: &i32| args.partition.is_empty() || args.partition.contains(partition);
            let chosen: BTreeSet<Partition> = all
                .filter(is_asked)
                .map(|partition| (Str::from(topic), partition))
                .collect();
            if let Some(stranger) = args
                .partition
                .iter()
                .find(|partition| !chosen.contains(&(Str::from(topic), **partition)))
            {
                return Err(CliError::failed(format!(
                    "{topic} has no partition {stranger}"
                )));
            }
            chosen
        }
    };
    if partitions.is_empty() {
        return Err(CliError::with_remedy(
            format!("group {group} has no offsets"),
            "name a topic with --topic",
        ));
    }
    let queries: Vec<_> = partitions
        .iter()
        .flat_map(|(topic, partition)| {
            [OffsetQuery::Earliest, OffsetQuery::Latest]
                .map(|query| (topic.clone(), *partition, query))
        })
        .collect();
    let found = admin.list_offsets(&queries).await.map_err(failed)?;
    let offset = |listed: &ListedOffset| listed.offset.unwrap_or(0);
    let pairs = partitions.into_iter().zip(found.chunks_exact(2));
    let known = pairs.map(|(partition, pair)| {
        let known = Known {
            committed: committed.get(&partition).map(|found| found.offset),
            first: offset(&pair[0]),
            end: offset(&pair[1]),
        };
        (partition, known)
    });
    Ok(known.collect())
}

async fn target(
    admin: &Admin<RingNet>,
    args: &GroupResetArgs,
    partition: &Partition,
    known: Known,
) -> Result<i64, CliError> {
    let wanted = match (args.to, args.by) {
        (Some(Position::Beginning), _) => known.first,
        (Some(Position::Offset(offset)), _) => offset,
        (Some(Position::BeforeEnd(count)), _) => known.end.saturating_sub(count),
        (Some(Position::Timestamp(time)), _) => {
            let (topic, index) = partition.clone();
            let query = (topic, index, OffsetQuery::Timestamp(time));
            let found = admin.list_offsets(&[query]).await.map_err(failed)?;
            let found = found.first().and_then(|listed| listed.offset);
            found.unwrap_or(known.end)
        }
        (None, Some(by)) => known.committed.unwrap_or(known.first).saturating_add(by),
        (Some(Position::End) | None, _) => known.end,
    };
    Ok(wanted.clamp(known.first, known.end.max(known.first)))
}

fn shown(
    known: &BTreeMap<Partition, Known>,
    offsets: &BTreeMap<Partition, i64>,
    output: Output,
) -> String {
    let rows = known.iter().zip(offsets.values());
    match output {
        Output::Json => {
            let rows = rows.map(|(((topic, partition), known), offset)| {
                let before = known.committed.map_or("null".to_owned(), |at| at.to_string());
                format!(
                    "{{\"topic\":{},\"partition\":{partition},\"before\":{before},\"offset\":{offset}}}",
                    json_text(topic)
                )
            });
            let rows: Vec<String> = rows.collect();
            format!("[{}]\n", rows.join(","))
        }
        Output::Table => {
            let head = ["TOPIC", "PARTITION", "BEFORE", "OFFSET"];
            let mut table = vec![head.map(str::to_owned).to_vec()];
            table.extend(rows.map(|(((topic, partition), known), offset)| {
                vec![
                    topic.to_string(),
                    partition.to_string(),
                    known.committed.map_or("-".to_owned(), |at| at.to_string()),
                    offset.to_string(),
                ]
            }));
            columns(&table)
        }
    }
}
