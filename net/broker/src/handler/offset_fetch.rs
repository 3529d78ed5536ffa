//! OffsetFetch: where groups are to go on, each from its own coordinator.

use pelton_machine::group::{
    Command, FetchTopic, FetchedTopic, OffsetFetch, OffsetFetchReply, Reply,
};
use pelton_model::ErrorCode;
use pelton_protocol::codec::Str;
use pelton_protocol::message::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};

use super::Handled;
use crate::connection::Client;
use crate::coordinator::Kind;
use crate::dispatch::Request;
use crate::env::Env;

/// From this version on a group as a whole has an error code.
const GROUP_ERROR_VERSION: i16 = 2;
/// From this version on several groups may be asked for.
const BATCH_VERSION: i16 = 8;
/// From this version on topics are named by their ids.
const TOPIC_ID_VERSION: i16 = 10;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let mut asked: OffsetFetchRequest = request.body()?;
    if request.version < BATCH_VERSION {
        let topics = asked.topics.take().map(|topics| {
            let topics = topics.into_iter().map(|topic| OffsetFetchRequestTopics {
                name: topic.name,
                partition_indexes: topic.partition_indexes,
                ..OffsetFetchRequestTopics::default()
            });
            topics.collect()
        });
        asked.groups = vec![OffsetFetchRequestGroup {
            group_id: asked.group_id.clone(),
            topics,
            ..OffsetFetchRequestGroup::default()
        }];
    }
    let groups = fetch(client, &asked, request.version).await;
    let response = if request.version < BATCH_VERSION {
        told_alone(&asked, groups, request.version)
    } else {
        OffsetFetchResponse {
            groups,
            ..OffsetFetchResponse::default()
        }
    };
    Ok(request.respond(&response))
}

async fn fetch<E: Env>(
    client: &Client<E>,
    asked: &OffsetFetchRequest,
    version: i16,
) -> Vec<OffsetFetchResponseGroup> {
    let shard = &client.shard;
    let mut commands = Vec::new();
    let mut replies: Vec<Option<OffsetFetchReply>> = Vec::new();
    for group in &asked.groups {
        let command = Command::OffsetFetch(OffsetFetch {
            group_id: group.group_id.clone(),
            member_id: group.member_id.clone(),
            member_epoch: group.member_epoch,
            topics: group
                .topics
                .as_ref()
                .map(|topics| known(client, topics, version)),
            require_stable: asked.require_stable,
        });
        match shard.coordinator_partition(Kind::Groups, &group.group_id) {
            Some(partition) => {
                commands.push((partition, command));
                replies.push(None);
            }
            None => replies.push(Some(OffsetFetchReply {
                error: ErrorCode::NotCoordinator,
                topics: Vec::new(),
            })),
        }
    }
    let mut got = client.ask_groups(commands).await.into_iter();
    let groups = asked.groups.iter().zip(replies);
    let told = groups.map(|(group, refused)| {
        let reply = refused.unwrap_or_else(|| match got.next() {
            Some(Reply::OffsetFetch(reply)) => reply,
            Some(_) | None => unreachable!("a reply of its kind for each command"),
        });
        told(client, group, reply, version)
    });
    told.collect()
}

/// The topics as the coordinator knows them; by id, only those that exist.
fn known<E: Env>(
    client: &Client<E>,
    topics: &[OffsetFetchRequestTopics],
    version: i16,
) -> Vec<FetchTopic> {
    let named = |topic: &OffsetFetchRequestTopics| {
        let name = if version < TOPIC_ID_VERSION {
            topic.name.clone()
        } else {
            client.shard.topic_by_id(topic.topic_id)?.name.clone()
        };
        Some(FetchTopic {
            name,
            topic_id: topic.topic_id,
            partitions: topic.partition_indexes.clone(),
        })
    };
    topics.iter().filter_map(named).collect()
}

fn told<E: Env>(
    client: &Client<E>,
    group: &OffsetFetchRequestGroup,
    reply: OffsetFetchReply,
    version: i16,
) -> OffsetFetchResponseGroup {
    let mut response = OffsetFetchResponseGroup {
        group_id: group.group_id.clone(),
        error_code: reply.error.code(),
        topics: Vec::new(),
    };
    if reply.error != ErrorCode::None {
        return response;
    }
    let topics = reply.topics.into_iter();
    if version < TOPIC_ID_VERSION {
        response.topics = topics.map(told_topic).collect();
        return response;
    }
    match &group.topics {
        // A topic that is gone has no id to be told by.
        None => {
            let with_id = |mut topic: FetchedTopic| {
                topic.topic_id = client.shard.topic_by_name(&topic.name)?.id;
                Some(told_topic(topic))
            };
            response.topics = topics.filter_map(with_id).collect();
        }
        Some(asked) => {
            let mut topics = topics.peekable();
            let in_order = asked.iter().map(|topic| {
                match topics.next_if(|found| found.topic_id == topic.topic_id) {
                    Some(found) => told_topic(found),
                    None => unknown_topic(topic),
                }
            });
            response.topics = in_order.collect();
        }
    }
    response
}

fn told_topic(topic: FetchedTopic) -> OffsetFetchResponseTopics {
    let partitions = topic.partitions.into_iter();
    let partitions = partitions.map(|partition| OffsetFetchResponsePartitions {
        partition_index: partition.index,
        committed_offset: partition.offset,
        committed_leader_epoch: partition.leader_epoch,
        metadata: Some(partition.metadata),
        error_code: partition.error.code(),
    });
    OffsetFetchResponseTopics {
        name: topic.name,
        topic_id: topic.topic_id,
        partitions: partitions.collect(),
    }
}

fn unknown_topic(topic: &OffsetFetchRequestTopics) -> OffsetFetchResponseTopics {
    let partitions = topic.partition_indexes.iter();
    let partitions = partitions.map(|&partition_index| OffsetFetchResponsePartitions {
        partition_index,
        committed_offset: -1,
        committed_leader_epoch: -1,
        metadata: Some(Str::default()),
        error_code: ErrorCode::UnknownTopicId.code(),
    });
    OffsetFetchResponseTopics {
        name: Str::default(),
        topic_id: topic.topic_id,
        partitions: partitions.collect(),
    }
}

/// The answer of a version that knows one group.
fn told_alone(
    asked: &OffsetFetchRequest,
    groups: Vec<OffsetFetchResponseGroup>,
    version: i16,
) -> OffsetFetchResponse {
    let mut groups = groups.into_iter();
    let group = groups.next().expect("one group was asked for");
    let error = group.error_code;
    let topics = if version < GROUP_ERROR_VERSION && error != ErrorCode::None.code() {
        let asked = asked
            .groups
            .iter()
            .flat_map(|group| group.topics.iter().flatten());
        asked.map(|topic| with_error(topic, error)).collect()
    } else {
        group.topics.into_iter().map(alone).collect()
    };
    OffsetFetchResponse {
        topics,
        error_code: error,
        ..OffsetFetchResponse::default()
    }
}

fn alone(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic {
    let partitions = topic.partitions.into_iter();
    let partitions = partitions.map(|partition| OffsetFetchResponsePartition {
        partition_index: partition.partition_index,
        committed_offset: partition.committed_offset,
        committed_leader_epoch: partition.committed_leader_epoch,
        metadata: partition.metadata,
        error_code: partition.error_code,
    });
    OffsetFetchResponseTopic {
        name: topic.name,
        partitions: partitions.collect(),
    }
}

fn with_error(topic: &OffsetFetchRequestTopics, error_code: i16) -> OffsetFetchResponseTopic {
    let partitions = topic.partition_indexes.iter();
    let partitions = partitions.map(|&partition_index| OffsetFetchResponsePartition {
        partition_index,
        committed_offset: -1,
        committed_leader_epoch: -1,
        metadata: Some(Str::default()),
        error_code,
    });
    OffsetFetchResponseTopic {
        name: topic.name.clone(),
        partitions: partitions.collect(),
    }
}
