//! ListOffsets: one question to each owner; negative timestamps are words.

use std::collections::BTreeMap;
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

/// Before this version clients do not know OFFSET_NOT_AVAILABLE (KIP-207).
const OFFSET_NOT_AVAILABLE_VERSION: i16 = 5;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: ListOffsetsRequest = request.body()?;
    let shard = &client.shard;
    let mut response = ListOffsetsResponse::default();
    let mut queries: Vec<Query> = Vec::new();
    let mut seen = Seen::of(&asked);
    for (at, topic) in asked.topics.iter().enumerate() {
        let known = shard.topic_by_name(&topic.name);
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let is_repeated = match seen.count(&topic.name, partition.partition_index) {
                0 => continue,
                count => 1 < count,
            };
            let mut answer = ListOffsetsPartitionResponse {
                partition_index: partition.partition_index,
                ..ListOffsetsPartitionResponse::default()
            };
            let query = if is_repeated {
                Err(ErrorCode::InvalidRequest)
            } else {
                query(&asked, request.version, known.as_ref(), partition)
            };
            match query {
                Ok(query) => {
                    let owner = shard.owner(query.partition);
                    queries.push((owner, (at, partitions.len()), query));
                }
                Err(error) => answer.error_code = error.code(),
            }
            partitions.push(answer);
        }
        response.topics.push(ListOffsetsTopicResponse {
            name: topic.name.clone(),
            partitions,
        });
    }
    ask_owners(shard, &queries, &mut response).await;
    if request.version < OFFSET_NOT_AVAILABLE_VERSION {
        rename_unavailable(&mut response);
    }
    Ok(request.respond(&response))
}

/// A question, its owner, and the place of its answer: topic, partition.
type Query = (ShardId, (usize, usize), OffsetQuery);

/// How often each partition is named: one that is named twice is refused, once.
struct Seen<'a>(BTreeMap<(&'a str, i32), usize>);

impl<'a> Seen<'a> {
    fn of(request: &'a ListOffsetsRequest) -> Self {
        let mut counts = BTreeMap::new();
        for topic in &request.topics {
            for partition in &topic.partitions {
                *counts
                    .entry((topic.name.as_str(), partition.partition_index))
                    .or_insert(0) += 1;
            }
        }
        Self(counts)
    }

    /// How often the partition is named; 0 when that was asked before.
    fn count(&mut self, topic: &'a str, partition: i32) -> usize {
        self.0.remove(&(topic, partition)).unwrap_or(0)
    }
}

/// One question to each owner; the answers go to their places.
async fn ask_owners<E: Env>(
    shard: &Rc<Shard<E>>,
    queries: &[Query],
    response: &mut ListOffsetsResponse,
) {
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
    request: &ListOffsetsRequest,
    version: i16,
    topic: Option<&Rc<TopicEntry>>,
    partition: &ListOffsetsPartition,
) -> Result<OffsetQuery, ErrorCode> {
    if !(0..=1).contains(&request.isolation_level) {
        // Kafka has no word for it; its answer is the same.
        return Err(ErrorCode::UnknownServerError);
    }
    let position = position(version, partition.timestamp)?;
    let topic = topic.ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if !topic.has_partition(partition.partition_index) {
        return Err(ErrorCode::UnknownTopicOrPartition);
    }
    Ok(OffsetQuery {
        partition: TopicPartition {
            topic_id: topic.id,
            partition: PartitionId(partition.partition_index),
        },
        // Only −1 is none here; another negative one is older than any leader's.
        current_leader_epoch: LeaderEpoch(partition.current_leader_epoch),
        position,
        read_committed: request.isolation_level == 1,
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

/// Says in an older client's word that the leader does not know its end yet.
fn rename_unavailable(response: &mut ListOffsetsResponse) {
    let topics = response.topics.iter_mut();
    for partition in topics.flat_map(|topic| &mut topic.partitions) {
        if partition.error_code == ErrorCode::OffsetNotAvailable.code() {
            partition.error_code = ErrorCode::LeaderNotAvailable.code();
        }
    }
}
