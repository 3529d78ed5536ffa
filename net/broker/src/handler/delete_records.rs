//! DeleteRecords: the owners move their log starts up, and the checkpoint that keeps them is durable before the answer.

use pelton_model::{ErrorCode, Offset, PartitionId, ShardId, TopicPartition};
use pelton_protocol::message::delete_records::{
    DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse,
    DeleteRecordsTopicResult,
};

use super::Handled;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;
use crate::shard::message::{self, Deletion, Response};
use crate::shard::{CONTROLLER_SHARD, Shard};

/// A partition to be asked for: its owner, its place in the response, the question.
type Asked = (ShardId, (usize, usize), Deletion);

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: DeleteRecordsRequest = request.body()?;
    let shard = &client.shard;
    let (mut response, deletions) = resolve(shard, &asked);
    let mut moved = Vec::new();
    for owner in shard.shards() {
        let mine: Vec<&Asked> = deletions
            .iter()
            .filter(|(shard, ..)| *shard == owner)
            .collect();
        if mine.is_empty() {
            continue;
        }
        let asked = mine.iter().map(|(.., deletion)| *deletion).collect();
        let answered = shard
            .ask(owner, message::Request::DeleteRecords(asked))
            .await;
        for (place, (_, (topic, partition), _)) in mine.into_iter().enumerate() {
            let result = &mut response.topics[*topic].partitions[*partition];
            let outcome = if let Response::Deleted(outcomes) = &answered {
                outcomes[place]
            } else {
                Err(ErrorCode::NotLeaderOrFollower)
            };
            match outcome {
                Ok(log_start) => {
                    result.low_watermark = log_start.0;
                    moved.push((*topic, *partition));
                }
                Err(error) => result.error_code = error.code(),
            }
        }
    }
    if !moved.is_empty() {
        let kept = shard.ask(CONTROLLER_SHARD, message::Request::KeepLogStarts);
        let kept = if let Response::KeptLogStarts(kept) = kept.await {
            kept
        } else {
            // The controller's shard has stopped.
            Err(ErrorCode::RequestTimedOut)
        };
        if let Err(error) = kept {
            for (topic, partition) in moved {
                let result = &mut response.topics[topic].partitions[partition];
                result.low_watermark = Offset::NONE.0;
                result.error_code = error.code();
            }
        }
    }
    Ok(request.respond(&response))
}

/// The response with the errors that need no owner, and what the owners are to be asked.
fn resolve<E: Env>(
    shard: &Shard<E>,
    asked: &DeleteRecordsRequest,
) -> (DeleteRecordsResponse, Vec<Asked>) {
    let mut response = DeleteRecordsResponse::default();
    let mut deletions = Vec::new();
    for (at, topic) in asked.topics.iter().enumerate() {
        let known = shard.topic_by_name(&topic.name);
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for (index, partition) in topic.partitions.iter().enumerate() {
            let error = match &known {
                Some(topic) if topic.is_internal => ErrorCode::InvalidTopicException,
                Some(topic) if topic.has_partition(partition.partition_index) => {
                    let id = TopicPartition {
                        topic_id: topic.id,
                        partition: PartitionId(partition.partition_index),
                    };
                    let deletion = Deletion {
                        partition: id,
                        offset: Offset(partition.offset),
                    };
                    deletions.push((shard.owner(id), (at, index), deletion));
                    ErrorCode::None
                }
                Some(_) | None => ErrorCode::UnknownTopicOrPartition,
            };
            partitions.push(DeleteRecordsPartitionResult {
                partition_index: partition.partition_index,
                low_watermark: Offset::NONE.0,
                error_code: error.code(),
            });
        }
        response.topics.push(DeleteRecordsTopicResult {
            name: topic.name.clone(),
            partitions,
        });
    }
    (response, deletions)
}
