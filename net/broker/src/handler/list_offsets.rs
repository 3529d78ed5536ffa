//! ListOffsets: one question to each owner; negative timestamps are words.

use std::rc::Rc;

use pelton_model::{
    ErrorCode, LeaderEpoch, Offset, PartitionId, ShardId, Timestamp, TopicPartition,
};
use pelton_protocol::message::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};

use super::Handled;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;
use crate::shard::Shard;
use crate::shard::message::{self, OffsetAnswer, OffsetPosition, OffsetQuery, Response};
use crate::shard::topics::TopicEntry;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: ListOffsetsRequest = request.body()?;
    let shard = &client.shard;
    let mut response = ListOffsetsResponse::default();
    let mut queries: Vec<(ShardId, (usize, usize), OffsetQuery)> = Vec::new();
    for (at, topic) in asked.topics.iter().enumerate() {
        let known = shard.topic_by_name(&topic.name);
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for (index, partition) in topic.partitions.iter().enumerate() {
            let mut answer = ListOffsetsPartitionResponse {
                partition_index: partition.partition_index,
                ..ListOffsetsPartitionResponse::default()
            };
            match query(
                request.version,
                known.as_ref(),
                partition,
                asked.isolation_level == 1,
            ) {
                Ok(query) => queries.push((shard.owner(query.partition), (at, index), query)),
                Err(error) => answer.error_code = error.code(),
            }
            partitions.push(answer);
        }
        response.topics.push(ListOffsetsTopicResponse {
            name: topic.name.clone(),
            partitions,
        });
    }
    for owner in shard.shards() {
        let mine: Vec<_> = queries
            .iter()
            .filter(|(shard, ..)| *shard == owner)
            .collect();
        if mine.is_empty() {
            continue;
        }
        let asked = mine.iter().map(|(.., query)| *query).collect();
        let answers = ask(shard, owner, asked).await;
        for ((_, (topic, partition), _), answer) in mine.into_iter().zip(answers) {
            fill(&mut response.topics[*topic].partitions[*partition], answer);
        }
    }
    Ok(request.respond(&response))
}

async fn ask<E: Env>(
    shard: &Rc<Shard<E>>,
    owner: ShardId,
    queries: Vec<OffsetQuery>,
) -> Vec<OffsetAnswer> {
    let count = queries.len();
    let answered = shard.ask(owner, message::Request::Offsets(queries)).await;
    if let Response::Offsets(answers) = answered {
        return answers;
    }
    let stopping = OffsetAnswer {
        error: ErrorCode::NotLeaderOrFollower,
        offset: Offset::NONE,
        timestamp: Timestamp::NONE,
        leader_epoch: LeaderEpoch::NONE,
    };
    vec![stopping; count]
}

fn query(
    version: i16,
    topic: Option<&Rc<TopicEntry>>,
    partition: &ListOffsetsPartition,
    read_committed: bool,
) -> Result<OffsetQuery, ErrorCode> {
    let topic = topic.ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if !topic.has_partition(partition.partition_index) {
        return Err(ErrorCode::UnknownTopicOrPartition);
    }
    Ok(OffsetQuery {
        partition: TopicPartition {
            topic_id: topic.id,
            partition: PartitionId(partition.partition_index),
        },
        current_leader_epoch: LeaderEpoch(partition.current_leader_epoch),
        position: position(version, partition.timestamp)?,
        read_committed,
    })
}

/// What a timestamp asks for; the words came with versions (KIP-734: −3, KIP-405: −4, KIP-1005: −5, KIP-1075: −6).
fn position(version: i16, timestamp: i64) -> Result<OffsetPosition, ErrorCode> {
    match timestamp {
        -1 => Ok(OffsetPosition::Latest),
        -2 => Ok(OffsetPosition::Earliest),
        -3 if version >= 7 => Ok(OffsetPosition::MaxTimestamp),
        -4 if version >= 8 => Ok(OffsetPosition::Earliest),
        -5 if version >= 9 => Ok(OffsetPosition::LatestTiered),
        // The earliest offset that waits for upload to remote storage: there is none here.
        -6 if version >= 11 => Ok(OffsetPosition::LatestTiered),
        0.. => Ok(OffsetPosition::Time(Timestamp(timestamp))),
        _ => Err(ErrorCode::UnsupportedVersion),
    }
}

fn fill(response: &mut ListOffsetsPartitionResponse, answer: OffsetAnswer) {
    response.error_code = answer.error.code();
    response.timestamp = answer.timestamp.0;
    response.offset = answer.offset.0;
    response.leader_epoch = answer.leader_epoch.0;
}
