//! DescribeProducers: the idempotent and transactional producers that partitions remember, from their owners.
//!
//! An answer holds [`PRODUCERS_PER_ANSWER_MAX`] producers and those of one partition more; what does not fit is refused. Kafka has no
//! such bound.
//!
//! Source: KIP-664.

use pelton_machine::controller::validate_topic_name;
use pelton_model::limits::PRODUCERS_PER_ANSWER_MAX;
use pelton_model::{ErrorCode, PartitionId, ShardId, TopicPartition};
use pelton_protocol::codec::Str;
use pelton_protocol::message::describe_producers::{
    DescribeProducersRequest, DescribeProducersResponse, PartitionResponse, ProducerState,
    TopicResponse,
};

use super::Handled;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;
use crate::shard::Shard;
use crate::shard::message::{self, KnownProducer, ProducersRequest, Response};

/// A partition to be asked for: its owner, its place in the response, which it is.
type Asked = (ShardId, (usize, usize), TopicPartition);

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: DescribeProducersRequest = request.body()?;
    let shard = &client.shard;
    let (mut response, mut wanted) = resolve(shard, &asked);
    wanted.sort_by_key(|(owner, ..)| *owner);
    let mut room = PRODUCERS_PER_ANSWER_MAX;
    for mine in wanted.chunk_by(|(a, ..), (b, ..)| a == b) {
        let owner = mine[0].0;
        let partitions = mine.iter().map(|(.., partition)| *partition).collect();
        let question = ProducersRequest { partitions, room };
        let answered = shard
            .ask(owner, message::Request::Producers(question))
            .await;
        let outcomes = if let Response::Producers(outcomes) = answered {
            outcomes
        } else {
            vec![Err(ErrorCode::NotLeaderOrFollower); mine.len()]
        };
        for ((_, (topic, place), _), outcome) in mine.iter().zip(outcomes) {
            let partition = &mut response.topics[*topic].partitions[*place];
            match outcome {
                Ok(producers) => {
                    room = room.saturating_sub(producers.len());
                    partition.active_producers = producers.into_iter().map(told).collect();
                }
                Err(error) => partition.error_code = error.code(),
            }
        }
    }
    Ok(request.respond(&response))
}

/// The response with the errors that need no owner, and what the owners are to be asked.
fn resolve<E: Env>(
    shard: &Shard<E>,
    asked: &DescribeProducersRequest,
) -> (DescribeProducersResponse, Vec<Asked>) {
    let mut response = DescribeProducersResponse::default();
    let mut wanted = Vec::new();
    for (at, topic) in asked.topics.iter().enumerate() {
        let known = shard.topic_by_name(&topic.name);
        let invalid = validate_topic_name(&topic.name).err();
        let mut partitions = Vec::with_capacity(topic.partition_indexes.len());
        for (place, &index) in topic.partition_indexes.iter().enumerate() {
            let mut partition = PartitionResponse {
                partition_index: index,
                ..PartitionResponse::default()
            };
            match &known {
                Some(topic) if topic.has_partition(index) => {
                    let id = TopicPartition {
                        topic_id: topic.id,
                        partition: PartitionId(index),
                    };
                    wanted.push((shard.owner(id), (at, place), id));
                }
                Some(_) | None if invalid.is_none() => {
                    partition.error_code = ErrorCode::UnknownTopicOrPartition.code();
                }
                Some(_) | None => {
                    partition.error_code = ErrorCode::InvalidTopicException.code();
                    let text = invalid.as_ref().map(ToString::to_string);
                    partition.error_message = text.map(Str::from);
                }
            }
            partitions.push(partition);
        }
        response.topics.push(TopicResponse {
            name: topic.name.clone(),
            partitions,
        });
    }
    (response, wanted)
}

fn told(producer: KnownProducer) -> ProducerState {
    ProducerState {
        producer_id: producer.id.0,
        producer_epoch: i32::from(producer.epoch.0),
        last_sequence: producer.last_sequence.0,
        last_timestamp: producer.last_timestamp.0,
        coordinator_epoch: producer.coordinator_epoch,
        current_txn_start_offset: producer.txn_start.0,
    }
}
