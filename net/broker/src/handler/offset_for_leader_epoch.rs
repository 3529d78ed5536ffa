//! OffsetForLeaderEpoch: where leader epochs end, from the logs of the owners.

use pelton_model::{ErrorCode, LeaderEpoch, PartitionId, ShardId, TopicPartition};
use pelton_protocol::message::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
};

use super::Handled;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;
use crate::shard::message::{self, EpochEndQuery, Response};

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: OffsetForLeaderEpochRequest = request.body()?;
    let shard = &client.shard;
    let mut response = OffsetForLeaderEpochResponse::default();
    let mut queries: Vec<(ShardId, (usize, usize), EpochEndQuery)> = Vec::new();
    for (at, topic) in asked.topics.iter().enumerate() {
        let known = shard.topic_by_name(&topic.topic);
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for (index, partition) in topic.partitions.iter().enumerate() {
            let mut answer = EpochEndOffset {
                partition: partition.partition,
                ..EpochEndOffset::default()
            };
            match &known {
                Some(topic) if topic.has_partition(partition.partition) => {
                    let id = TopicPartition {
                        topic_id: topic.id,
                        partition: PartitionId(partition.partition),
                    };
                    let query = EpochEndQuery {
                        partition: id,
                        // Only −1 is none here; another negative one is older than any leader's.
                        current_leader_epoch: LeaderEpoch(partition.current_leader_epoch),
                        leader_epoch: LeaderEpoch(partition.leader_epoch),
                    };
                    queries.push((shard.owner(id), (at, index), query));
                }
                Some(_) | None => answer.error_code = ErrorCode::UnknownTopicOrPartition.code(),
            }
            partitions.push(answer);
        }
        response.topics.push(OffsetForLeaderTopicResult {
            topic: topic.topic.clone(),
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
        let answered = shard.ask(owner, message::Request::EpochEnds(asked)).await;
        for (place, (_, (topic, partition), _)) in mine.into_iter().enumerate() {
            let end = &mut response.topics[*topic].partitions[*partition];
            if let Response::EpochEnds(answers) = &answered {
                end.error_code = answers[place].error.code();
                end.leader_epoch = answers[place].leader_epoch.0;
                end.end_offset = answers[place].end_offset.0;
            } else {
                end.error_code = ErrorCode::NotLeaderOrFollower.code();
            }
        }
    }
    Ok(request.respond(&response))
}
