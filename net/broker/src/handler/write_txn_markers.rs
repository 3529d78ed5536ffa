//! WriteTxnMarkers: ends transactions at the word of a coordinator elsewhere, or of an operator who found one hanging.
//!
//! Kafka's ways that are kept: a partition that is not here is UNKNOWN_TOPIC_OR_PARTITION and does not hold up the others; the outcomes of
//! several markers of one producer stand together; a marker without a producer id or epoch spoils the request. One with an id that nobody has
//! (below −1) is fine, and ends nothing: Kafka writes it, here it is not worth a record.

use std::collections::{BTreeMap, BTreeSet};

use pelton_model::{ErrorCode, PartitionId, ProducerEpoch, ProducerId, Str, TopicPartition};
use pelton_protocol::message::write_txn_markers::{
    WritableTxnMarker, WritableTxnMarkerPartitionResult, WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult, WriteTxnMarkersRequest, WriteTxnMarkersResponse,
};

use super::Handled;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;
use crate::shard::message::TxnEnd;

/// No producer id, and no epoch.
const NO_PRODUCER: i64 = ProducerId::NONE.0;
const NO_EPOCH: i16 = ProducerEpoch::NONE.0;
/// From this transaction version on a marker's epoch is above that of the records.
const BUMPING_VERSION: i8 = 2;

/// A marker's transaction version, when nobody knows it: no leader takes that.
const UNKNOWN_VERSION: i8 = -1;

/// Outcomes by topic and partition.
type Outcomes = BTreeMap<Str, BTreeMap<i32, ErrorCode>>;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: WriteTxnMarkersRequest = request.body()?;
    let mut by_producer: BTreeMap<i64, Outcomes> = BTreeMap::new();
    let is_spoiled = asked.markers.iter().any(|marker| {
        let has_producer = marker.producer_id != NO_PRODUCER && marker.producer_epoch != NO_EPOCH;
        !has_producer && has_partition(client, marker)
    });
    for marker in &asked.markers {
        let outcomes = by_producer.entry(marker.producer_id).or_default();
        if is_spoiled {
            refuse(marker, ErrorCode::UnknownServerError, outcomes);
        } else {
            write(client, marker, outcomes).await;
        }
    }
    let markers = by_producer.into_iter().map(|(producer_id, outcomes)| {
        let topics = outcomes.into_iter().map(|(name, partitions)| {
            let partitions = partitions.into_iter().map(|(partition_index, error)| {
                WritableTxnMarkerPartitionResult {
                    partition_index,
                    error_code: error.code(),
                }
            });
            WritableTxnMarkerTopicResult {
                name,
                partitions: partitions.collect(),
            }
        });
        WritableTxnMarkerResult {
            producer_id,
            topics: topics.collect(),
        }
    });
    let response = WriteTxnMarkersResponse {
        markers: markers.collect(),
    };
    Ok(request.respond(&response))
}

/// Whether any of the marker's partitions is there.
fn has_partition<E: Env>(client: &Client<E>, marker: &WritableTxnMarker) -> bool {
    marker.topics.iter().any(|topic| {
        let known = client.shard.topic_by_name(&topic.name);
        let mut indexes = topic.partition_indexes.iter();
        known.is_some_and(|known| indexes.any(|&index| known.has_partition(index)))
    })
}

/// Gives all of a marker's partitions one outcome.
fn refuse(marker: &WritableTxnMarker, error: ErrorCode, outcomes: &mut Outcomes) {
    for topic in &marker.topics {
        let of_topic = outcomes.entry(topic.name.clone()).or_default();
        of_topic.extend(topic.partition_indexes.iter().map(|&index| (index, error)));
    }
}

/// Writes one marker to its partitions, all at once.
async fn write<E: Env>(client: &Client<E>, marker: &WritableTxnMarker, outcomes: &mut Outcomes) {
    let shard = &client.shard;
    let mut places = Vec::new();
    let mut partitions = Vec::new();
    // Named twice, written once.
    let mut named = BTreeSet::new();
    let instead = if marker.producer_id < NO_PRODUCER {
        Some(ErrorCode::None)
    } else if marker.transaction_version == UNKNOWN_VERSION {
        Some(ErrorCode::UnknownServerError)
    } else {
        None
    };
    for topic in &marker.topics {
        let known = shard.topic_by_name(&topic.name);
        for &index in &topic.partition_indexes {
            let known = known.as_ref().filter(|known| known.has_partition(index));
            let settled = match known {
                None => Some(ErrorCode::UnknownTopicOrPartition),
                Some(_) if instead.is_some() => instead,
                Some(known) => {
                    let id = TopicPartition {
                        topic_id: known.id,
                        partition: PartitionId(index),
                    };
                    if named.insert(id) {
                        places.push((topic.name.clone(), index));
                        partitions.push(id);
                    }
                    None
                }
            };
            if let Some(error) = settled {
                let topic = outcomes.entry(topic.name.clone()).or_default();
                topic.insert(index, error);
            }
        }
    }
    let end = TxnEnd {
        producer_id: ProducerId(marker.producer_id),
        producer_epoch: ProducerEpoch(marker.producer_epoch),
        coordinator_epoch: marker.coordinator_epoch,
        is_commit: marker.transaction_result,
        is_bumped: BUMPING_VERSION <= marker.transaction_version,
    };
    let codes = shard.write_markers(end, &partitions).await;
    for ((topic, index), code) in places.into_iter().zip(codes) {
        outcomes.entry(topic).or_default().insert(index, code);
    }
}
