//! DescribeTopicPartitions: topics in the order of their names, a page at a time, so that no answer is larger than its reader wants.
//!
//! Kafka's ways that are kept: topics before the cursor's are passed over, those that are asked for and do not exist are told of, a page
//! that is full names the next partition even where that is another topic's first.
//!
//! Source: KIP-966.

use std::collections::BTreeSet;
use std::ops::Bound;

use pelton_machine::controller::{is_internal_topic, validate_topic_name};
use pelton_machine::image::{MetadataImage, PartitionImage, TopicImage};
use pelton_model::record_type::metadata::NO_LEADER;
use pelton_model::{ErrorCode, NodeId, PartitionId, TopicId};
use pelton_protocol::codec::Str;
use pelton_protocol::message::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};

use super::{Handled, Pauses, shown};
use crate::authorized;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: DescribeTopicPartitionsRequest = request.body()?;
    let response = if is_understood(&asked) {
        page(client, &asked).await
    } else {
        refused(&asked)
    };
    Ok(request.respond(&response))
}

/// Whether the cursor names a place among the topics that are asked for.
fn is_understood(asked: &DescribeTopicPartitionsRequest) -> bool {
    let Some(cursor) = &asked.cursor else {
        return true;
    };
    let mut topics = asked.topics.iter();
    let is_asked_for =
        asked.topics.is_empty() || topics.any(|topic| topic.name == cursor.topic_name);
    is_asked_for && cursor.partition_index >= 0
}

fn refused(asked: &DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse {
    let topics = asked
        .topics
        .iter()
        .map(|topic| DescribeTopicPartitionsResponseTopic {
            error_code: ErrorCode::InvalidRequest.code(),
            name: Some(topic.name.clone()),
            ..DescribeTopicPartitionsResponseTopic::default()
        });
    DescribeTopicPartitionsResponse {
        topics: topics.collect(),
        ..DescribeTopicPartitionsResponse::default()
    }
}

/// The topics from the cursor on, by name, with what is known of them.
fn wanted<'a>(
    image: &'a MetadataImage,
    asked: &'a DescribeTopicPartitionsRequest,
) -> Vec<(Str, Option<&'a TopicImage>)> {
    let first = asked.cursor.as_ref();
    let first = first.map_or("", |cursor| cursor.topic_name.as_str());
    if asked.topics.is_empty() {
        let topics = image.topics_within((Bound::Included(first), Bound::Unbounded));
        // One page has no more topics than partitions, and each has one at least.
        let some = topics.take(usize::try_from(asked.response_partition_limit).unwrap_or(1) + 1);
        return some
            .map(|topic| (Str::from(topic.name()), Some(topic)))
            .collect();
    }
    let names = asked.topics.iter().map(|topic| &topic.name);
    let names: BTreeSet<&Str> = names.filter(|name| first <= name.as_str()).collect();
    let known = |name: &Str| (name.clone(), image.topic_by_name(name));
    names.into_iter().map(known).collect()
}

async fn page<E: Env>(
    client: &Client<E>,
    asked: &DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    let image = client.shard.image();
    let limit = client.shard.config.max_request_partition_size_limit;
    let mut room = asked.response_partition_limit.clamp(1, limit.max(1));
    let mut response = DescribeTopicPartitionsResponse::default();
    let mut pauses = Pauses::default();
    for (name, topic) in wanted(&image, asked) {
        let cursor = |partition_index| {
            Some(Cursor {
                topic_name: name.clone(),
                partition_index,
            })
        };
        if room == 0 {
            response.next_cursor = cursor(0);
            break;
        }
        let Some(topic) = topic else {
            response.topics.push(missing(name));
            pauses.after(&client.shard.net, 1).await;
            continue;
        };
        let start = asked.cursor.as_ref();
        let start = start.filter(|cursor| cursor.topic_name == name);
        let start = start.map_or(0, |cursor| cursor.partition_index);
        let end = start.saturating_add(room).min(topic.partition_count());
        let described = described(client, &image, topic, start..end);
        let count = described.partitions.len();
        response.topics.push(described);
        if end < topic.partition_count() {
            response.next_cursor = cursor(end);
            break;
        }
        room -= i32::try_from(count).unwrap_or(room);
        pauses.after(&client.shard.net, count + 1).await;
    }
    response
}

fn missing(name: Str) -> DescribeTopicPartitionsResponseTopic {
    let error = match validate_topic_name(&name) {
        Ok(()) => ErrorCode::UnknownTopicOrPartition,
        Err(_) => ErrorCode::InvalidTopicException,
    };
    DescribeTopicPartitionsResponseTopic {
        error_code: error.code(),
        is_internal: is_internal_topic(&name),
        name: Some(name),
        topic_authorized_operations: authorized::TOPIC_OPERATIONS,
        ..DescribeTopicPartitionsResponseTopic::default()
    }
}

fn described<E: Env>(
    client: &Client<E>,
    image: &MetadataImage,
    topic: &TopicImage,
    indexes: std::ops::Range<i32>,
) -> DescribeTopicPartitionsResponseTopic {
    let partitions = indexes.filter_map(|index| {
        let index = PartitionId(index);
        let partition = topic.partition(index)?;
        Some(described_partition(
            client,
            image,
            topic.id(),
            index,
            partition,
        ))
    });
    DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::None.code(),
        name: Some(Str::from(topic.name())),
        topic_id: topic.id(),
        is_internal: is_internal_topic(topic.name()),
        partitions: partitions.collect(),
        topic_authorized_operations: authorized::TOPIC_OPERATIONS,
    }
}

fn described_partition<E: Env>(
    client: &Client<E>,
    image: &MetadataImage,
    topic: TopicId,
    index: PartitionId,
    partition: &PartitionImage,
) -> DescribeTopicPartitionsResponsePartition {
    let ids = |nodes: &[NodeId]| nodes.iter().map(|node| node.0).collect::<Vec<_>>();
    let shown = shown(&client.shard, image, partition);
    let mut described = DescribeTopicPartitionsResponsePartition {
        error_code: ErrorCode::None.code(),
        partition_index: index.0,
        leader_id: shown.leader.map_or(NO_LEADER, |leader| leader.0),
        leader_epoch: partition.leader_epoch.0,
        replica_nodes: ids(&partition.replicas),
        isr_nodes: ids(&partition.isr),
        eligible_leader_replicas: Some(ids(&partition.eligible_leader_replicas)),
        last_known_elr: Some(ids(&partition.last_known_elr)),
        offline_replicas: shown.offline,
    };
    client.dress_nodes(topic, index, |dress| {
        dress(&mut described.leader_id);
        let known = [
            &mut described.replica_nodes,
            &mut described.isr_nodes,
            &mut described.offline_replicas,
        ];
        known.into_iter().flatten().for_each(dress);
    });
    described
}
