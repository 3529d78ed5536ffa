//! `pelton consume --group`: as one member of a group.
//!
//! Invariants:
//! 1. what is committed was printed and flushed before;
//! 2. without `--follow` the command ends when its partitions have come to the ends that were there when it began, and leaves the group.

use std::collections::{BTreeMap, BTreeSet};

use pelton_client::{
    Client, ClientError, ConsumedRecord, GroupConsumer, GroupOptions, OffsetReset,
    PartitionPosition, Str,
};
use pelton_transport::ring::RingNet;

use super::{POLL, Printer, ends, options, partitions};
use crate::args::ConsumeArgs;
use crate::client;
use crate::error::CliError;
use crate::output;
use crate::records::position::Position;

/// A person who stops the command does not wait long for the group to go on without it.
const SESSION_TIMEOUT_MS: i32 = 10_000;

/// Prints records of the member's partitions.
pub(super) async fn consume(
    client: Client<RingNet>,
    args: &ConsumeArgs,
    group: &str,
) -> Result<(), CliError> {
    let failed = |error: ClientError| client::failure(&error);
    let topic = Str::from(args.topic.as_str());
    let all = partitions(&client, args).await.map_err(failed)?;
    let ends = ends(&client, args, &all).await.map_err(failed)?;
    let mut member = GroupConsumer::new(&client, [topic], group_options(args, group)?);
    let mut printer = Printer::new(args)?;
    let mut printed = BTreeMap::new();
    let mut has_joined = false;
    while printer.left > 0 {
        let is_done = |at: &PartitionPosition| {
            let end = ends.get(&at.partition);
            end.is_none_or(|&end| end <= at.next_offset)
        };
        if has_joined && !args.follow && member.positions().iter().all(is_done) {
            break;
        }
        let records: Vec<ConsumedRecord> = member.poll(POLL).await.map_err(failed)?;
        has_joined = true;
        let left = usize::try_from(printer.left).unwrap_or(usize::MAX);
        for record in records.iter().take(left) {
            let partition = (record.topic.clone(), record.partition);
            printed.insert(partition, record.offset + 1);
        }
        output::written(printer.print(records.iter()))?;
    }
    if args.max.is_some() && !args.no_commit {
        // What a rebalance took away is another member's to commit.
        let held = member.positions().into_iter();
        let held: BTreeSet<_> = held.map(|at| (at.topic, at.partition)).collect();
        printed.retain(|key, _| held.contains(key));
        member.commit_offsets(printed).await.map_err(failed)?;
    }
    member.close().await.map_err(failed)
}

fn group_options(args: &ConsumeArgs, group: &str) -> Result<GroupOptions, CliError> {
    let mut consumer = options(args);
    consumer.offset_reset = match args.from {
        Position::Beginning => OffsetReset::Earliest,
        Position::End => OffsetReset::Latest,
        Position::Offset(_) | Position::BeforeEnd(_) | Position::Timestamp(_) => {
            return Err(CliError::with_remedy(
                "a group begins at the beginning or at the end".to_owned(),
                "pelton group reset sets its offsets",
            ));
        }
    };
    let every_ms = u64::from(args.commit_every.max(1)) * 1_000;
    Ok(GroupOptions {
        session_timeout_ms: SESSION_TIMEOUT_MS,
        // With a maximum not everything that was given is printed: what was is committed at the end.
        auto_commit_interval_ms: (!args.no_commit && args.max.is_none()).then_some(every_ms),
        consumer,
        ..GroupOptions::new(group)
    })
}
