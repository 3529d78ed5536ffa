//! `pelton topic`: create, list, describe, alter, delete.

use pelton_client::{
    Admin, Client, ClientError, ConfigChange, ConfigEntry, ConfigResource, ListedOffset, NewTopic,
    OffsetQuery, PartitionMetadata, Str, TopicMetadata,
};
use pelton_model::ErrorCode;
use pelton_model::config::described::Source;
use pelton_transport::ring::RingNet;

use crate::args::{
    AlterArgs, CreateArgs, DeleteArgs, DescribeArgs, ListArgs, Output, TopicCommand,
};
use crate::client;
use crate::error::CliError;
use crate::output::{self, array, json_text, print};

type Topics = Admin<RingNet>;

/// Runs one of the topic commands.
pub(crate) fn run(command: TopicCommand) -> Result<(), CliError> {
    match command {
        TopicCommand::Create(args) => {
            let connect = args.connect.clone();
            client::run(&connect, |client| create(Admin::new(&client), args))
        }
        TopicCommand::List(args) => {
            let connect = args.connect.clone();
            client::run(&connect, |client| list(Admin::new(&client), args))
        }
        TopicCommand::Describe(args) => {
            let connect = args.connect.clone();
            client::run(&connect, |client| describe(client, args))
        }
        TopicCommand::Alter(args) => {
            let connect = args.connect.clone();
            client::run(&connect, |client| alter(Admin::new(&client), args))
        }
        TopicCommand::Delete(args) => {
            let connect = args.connect.clone();
            client::run(&connect, |client| delete(Admin::new(&client), args))
        }
    }
}

async fn create(admin: Topics, args: CreateArgs) -> Result<(), CliError> {
    let configs = args.settings.iter();
    let topic = NewTopic {
        partitions: args.partitions.unwrap_or(-1),
        replication_factor: args.replication_factor.unwrap_or(-1),
        configs: configs
            .map(|setting| (setting.name.as_str().into(), setting.value.as_str().into()))
            .collect(),
        ..NewTopic::new(args.name.as_str())
    };
    let outcomes = admin.create_topics(&[topic], args.validate_only).await;
    for (name, outcome) in outcomes.map_err(|error| client::failure(&error))? {
        match outcome {
            Ok(_) if args.validate_only => print(&format!("{name} could be created\n"))?,
            Ok(created) => print(&format!(
                "created {name}: {}, {}, id {}\n",
                count(i64::from(created.partitions), "partition"),
                count(i64::from(created.replication_factor), "replica"),
                created.topic_id
            ))?,
            Err(error) if args.if_not_exists && is(&error, ErrorCode::TopicAlreadyExists) => {
                print(&format!("{name} is there already\n"))?;
            }
            Err(error) => return Err(client::failure(&error)),
        }
    }
    Ok(())
}

async fn list(admin: Topics, args: ListArgs) -> Result<(), CliError> {
    let topics = admin
        .list_topics()
        .await
        .map_err(|error| client::failure(&error))?;
    let topics = topics
        .iter()
        .filter(|topic| args.internal || !topic.is_internal);
    print(&match args.output {
        Output::Table => topics.map(|topic| format!("{}\n", topic.name)).collect(),
        Output::Json => array(topics.map(|topic| {
            format!(
                "{{\"topic\":{},\"id\":\"{}\",\"partitions\":{},\"replicas\":{},\"internal\":{}}}",
                json_text(&topic.name),
                topic.topic_id,
                topic.partitions.len(),
                replicas(topic),
                topic.is_internal
            )
        })),
    })
}

/// The number of replicas of the first partition.
fn replicas(topic: &TopicMetadata) -> usize {
    let first = topic.partitions.first();
    first.map_or(0, |first| first.replicas.len())
}

/// A topic with what else is shown of it.
struct Described {
    topic: TopicMetadata,
    ends: Vec<Option<(ListedOffset, ListedOffset)>>,
    /// What is set on it.
    settings: Vec<ConfigEntry>,
}

async fn describe(client: Client<RingNet>, args: DescribeArgs) -> Result<(), CliError> {
    let admin = Admin::new(&client);
    let mut is_complete = true;
    let mut topics = Vec::new();
    if args.names.is_empty() {
        let all = admin
            .list_topics()
            .await
            .map_err(|error| client::failure(&error))?;
        topics.extend(all.into_iter().filter(|topic| !topic.is_internal));
    } else {
        let names: Vec<Str> = args.names.iter().map(|name| name.as_str().into()).collect();
        let described = admin.describe_topics(&names).await;
        for (_, outcome) in described.map_err(|error| client::failure(&error))? {
            match outcome {
                Ok(topic) => topics.push(topic),
                Err(error) => {
                    output::error_line(&client::failure(&error).to_string());
                    is_complete = false;
                }
            }
        }
    }
    // Leaders are looked up by the client's own metadata, which a listing does not fill.
    let names: Vec<Str> = topics.iter().map(|topic| topic.name.clone()).collect();
    client
        .refresh(&names, false)
        .await
        .map_err(|error| client::failure(&error))?;
    let mut described = Vec::new();
    for topic in topics {
        match examine(&admin, topic).await {
            Ok(one) => described.push(one),
            Err(error) => {
                output::error_line(&client::failure(&error).to_string());
                is_complete = false;
            }
        }
    }
    print(&match args.output {
        Output::Table => described.iter().map(table).collect(),
        Output::Json => array(described.iter().map(json)),
    })?;
    if is_complete {
        Ok(())
    } else {
        Err(CliError::Reported)
    }
}

async fn examine(admin: &Topics, topic: TopicMetadata) -> Result<Described, ClientError> {
    let ends = ends(admin, &topic).await?;
    let resource = ConfigResource::Topic(topic.name.clone());
    let mut settings = admin.describe_configs(&resource).await?;
    settings.retain(|entry| entry.source == Source::DynamicTopic.code());
    Ok(Described {
        topic,
        ends,
        settings,
    })
}

/// First and next offset of each partition that has a leader, in the order of the partitions.
async fn ends(
    admin: &Topics,
    topic: &TopicMetadata,
) -> Result<Vec<Option<(ListedOffset, ListedOffset)>>, ClientError> {
    let led = |partition: &&PartitionMetadata| partition.leader.is_some();
    let queries: Vec<_> = topic
        .partitions
        .iter()
        .filter(led)
        .flat_map(|partition| {
            [OffsetQuery::Earliest, OffsetQuery::Latest]
                .map(|query| (topic.name.clone(), partition.partition, query))
        })
        .collect();
    let found = admin.list_offsets(&queries).await?;
    let mut pairs = found.chunks_exact(2);
    let answered = topic.partitions.iter().map(|partition| {
        partition.leader?;
        pairs.next().map(|pair| (pair[0], pair[1]))
    });
    Ok(answered.collect())
}

fn table(described: &Described) -> String {
    let topic = &described.topic;
    let mut text = format!(
        "{}  id {}  {}  {}\n",
        topic.name,
        topic.topic_id,
        count(signed(topic.partitions.len()), "partition"),
        count(signed(replicas(topic)), "replica"),
    );
    for entry in &described.settings {
        let value = entry.value.as_deref().unwrap_or("(secret)");
        text.push_str(&format!("  {}={value}\n", entry.name));
    }
    let mut rows = vec![
        [
            "  partition",
            "leader",
            "epoch",
            "replicas",
            "in sync",
            "first offset",
            "next offset",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    for (partition, ends) in topic.partitions.iter().zip(&described.ends) {
        let offset = |listed: Option<ListedOffset>| {
            listed
                .and_then(|listed| listed.offset)
                .map_or_else(|| "-".to_owned(), |offset| offset.to_string())
        };
        rows.push(vec![
            format!("  {}", partition.partition),
            partition
                .leader
                .map_or_else(|| "none".to_owned(), |leader| leader.to_string()),
            partition.leader_epoch.to_string(),
            ids(&partition.replicas),
            ids(&partition.isr),
            offset(ends.map(|(first, _)| first)),
            offset(ends.map(|(_, next)| next)),
        ]);
    }
    text.push_str(&output::columns(&rows));
    text
}

fn json(described: &Described) -> String {
    let topic = &described.topic;
    let number = |listed: Option<ListedOffset>| {
        let offset = listed.and_then(|listed| listed.offset);
        offset.map_or_else(|| "null".to_owned(), |offset| offset.to_string())
    };
    let partitions = topic.partitions.iter().zip(&described.ends);
    let partitions = partitions.map(|(partition, ends)| {
        let leader = partition.leader.map(|leader| leader.to_string());
        format!(
            "{{\"partition\":{},\"leader\":{},\"epoch\":{},\"replicas\":[{}],\"inSync\":[{}],\"first\":{},\"next\":{}}}",
            partition.partition,
            leader.unwrap_or_else(|| "null".to_owned()),
            partition.leader_epoch,
            ids(&partition.replicas),
            ids(&partition.isr),
            number(ends.map(|(first, _)| first)),
            number(ends.map(|(_, next)| next))
        )
    });
    let settings = described.settings.iter().map(|entry| {
        let value = entry.value.as_deref().map(json_text);
        let value = value.unwrap_or_else(|| "null".to_owned());
        format!("{}:{value}", json_text(&entry.name))
    });
    format!(
        "{{\"topic\":{},\"id\":\"{}\",\"settings\":{{{}}},\"partitions\":[{}]}}",
        json_text(&topic.name),
        topic.topic_id,
        settings.collect::<Vec<_>>().join(","),
        partitions.collect::<Vec<_>>().join(",")
    )
}

/// Both changes are checked before either is made.
async fn alter(admin: Topics, args: AlterArgs) -> Result<(), CliError> {
    let resource = ConfigResource::Topic(args.name.as_str().into());
    let set = args.settings.iter();
    let set = set.map(|one| ConfigChange::Set(one.name.as_str().into(), one.value.as_str().into()));
    let unset = args.unset.iter();
    let unset = unset.map(|key| ConfigChange::Delete(key.as_str().into()));
    let changes: Vec<ConfigChange> = set.chain(unset).collect();
    for validate_only in [true, false] {
        if args.validate_only && !validate_only {
            continue;
        }
        if !changes.is_empty() {
            let altered = admin
                .alter_configs(&resource, &changes, validate_only)
                .await;
            altered.map_err(|error| client::failure(&error))?;
        }
        if let Some(partitions) = args.partitions {
            let wanted = [(args.name.as_str().into(), partitions)];
            let grown = admin.create_partitions(&wanted, validate_only).await;
            for (_, outcome) in grown.map_err(|error| client::failure(&error))? {
                outcome.map_err(|error| client::failure(&error))?;
            }
        }
    }
    let name = &args.name;
    if args.validate_only {
        return print(&format!("{name} could be changed\n"));
    }
    let partitions = args.partitions.map(|count| format!(", {count} partitions"));
    print(&format!(
        "changed {name}{}\n",
        partitions.unwrap_or_default()
    ))
}

async fn delete(admin: Topics, args: DeleteArgs) -> Result<(), CliError> {
    let names: Vec<Str> = args.names.iter().map(|name| name.as_str().into()).collect();
    let outcomes = admin.delete_topics(&names).await;
    let mut is_complete = true;
    for (name, outcome) in outcomes.map_err(|error| client::failure(&error))? {
        match outcome {
            Ok(()) => print(&format!("deleted {name}\n"))?,
            Err(error) if args.if_exists && is(&error, ErrorCode::UnknownTopicOrPartition) => {
                print(&format!("{name} is not there\n"))?;
            }
            Err(error) => {
                output::error_line(&client::failure(&error).to_string());
                is_complete = false;
            }
        }
    }
    if is_complete {
        Ok(())
    } else {
        Err(CliError::Reported)
    }
}

fn is(error: &ClientError, code: ErrorCode) -> bool {
    error.error_code() == Some(code)
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn count(count: i64, what: &str) -> String {
    if count == 1 {
        format!("1 {what}")
    } else {
        format!("{count} {what}s")
    }
}

fn ids(nodes: &[i32]) -> String {
    nodes
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: a description reads as a table and as JSON. Method: a topic with a led and an orphaned partition, and a setting.
    #[test]
    fn descriptions() {
        let partition = |partition, leader| PartitionMetadata {
            partition,
            leader,
            leader_epoch: 3,
            replicas: vec![1, 2],
            isr: vec![1],
            offline_replicas: Vec::new(),
            error: ErrorCode::None,
        };
        let topic = TopicMetadata {
            name: "t".into(),
            topic_id: pelton_model::TopicId::ZERO,
            is_internal: false,
            partitions: vec![partition(0, Some(1)), partition(1, None)],
        };
        let at = |offset| ListedOffset {
            offset: Some(offset),
            timestamp: None,
            leader_epoch: 0,
        };
        let setting = ConfigEntry {
            name: "retention.ms".into(),
            value: Some("5".into()),
            source: Source::DynamicTopic.code(),
            is_read_only: false,
            is_sensitive: false,
            documentation: None,
        };
        let described = Described {
            topic,
            ends: vec![Some((at(5), at(17))), None],
            settings: vec![setting],
        };
        assert_eq!(
            json(&described),
            "{\"topic\":\"t\",\"id\":\"AAAAAAAAAAAAAAAAAAAAAA\",\
             \"settings\":{\"retention.ms\":\"5\"},\"partitions\":[\
             {\"partition\":0,\"leader\":1,\"epoch\":3,\"replicas\":[1,2],\"inSync\":[1],\
             \"first\":5,\"next\":17},\
             {\"partition\":1,\"leader\":null,\"epoch\":3,\"replicas\":[1,2],\"inSync\":[1],\
             \"first\":null,\"next\":null}]}"
        );
        assert_eq!(
            table(&described),
            "t  id AAAAAAAAAAAAAAAAAAAAAA  2 partitions  2 replicas\n  retention.ms=5\n  \
             partition  leader  epoch  replicas  in sync  first offset  next offset\n  \
             0          1       3      1,2       1        5             17\n  \
             1          none    3      1,2       1        -             -\n"
        );
        assert_eq!(count(1, "replica"), "1 replica");
    }
}
