//! Which brokers hold a new partition, and in which of their directories.
//!
//! Invariants:
//! 1. The leader is an active broker: registered, unfenced, not on its way down.
//! 2. Replicas of a partition are distinct registered brokers; the ISR is the active ones among them.
//! 3. The directory is named for every replica whose broker names any; a broker whose directories are all cordoned takes none.
//!
//! Leaders go round the active brokers by partition index; there are no racks yet (one node has none).

use pelton_model::record_type::metadata::{PartitionRecord, RegisterBrokerRecord};
use pelton_model::{ErrorCode, NodeId, TopicId};

use super::Refusal;
use super::directories::{DirectoryCounts, has_room};
use crate::image::MetadataImage;

pub(super) fn is_active(broker: &RegisterBrokerRecord) -> bool {
    !broker.fenced && !broker.in_controlled_shutdown
}

/// Chooses the replicas of `count` partitions from index `first` on.
pub(super) fn place(
    image: &MetadataImage,
    first: i32,
    count: i32,
    replication_factor: i16,
) -> Result<Vec<Vec<i32>>, Refusal> {
    let refuse = |why: String| {
        let text = format!("Unable to replicate the partition {replication_factor} time(s): {why}");
        Err(Refusal::new(ErrorCode::InvalidReplicationFactor, text))
    };
    let ids = |active: bool| {
        let brokers = image
            .brokers()
            .filter(move |b| is_active(b) == active && has_room(b));
        brokers.map(|broker| broker.broker_id).collect::<Vec<_>>()
    };
    let (active, fenced) = (ids(true), ids(false));
    let registered = active.len() + fenced.len();
    let wanted = usize::try_from(replication_factor).unwrap_or(0);
    if wanted == 0 {
        return refuse(format!(
            "Invalid replication factor {replication_factor}: the replication factor must be positive."
        ));
    }
    if active.is_empty() {
        return refuse(
            "All brokers are currently fenced, or have all their log directories cordoned.".into(),
        );
    }
    if registered < wanted {
        return refuse(format!(
            "The target replication factor of {replication_factor} cannot be reached because only \
             {registered} broker(s) are registered or some brokers have all their log directories cordoned."
        ));
    }
    let replicas_of = |index: i32| {
        let start = usize::try_from(index).unwrap_or(0) % active.len();
        let rotated = active[start..].iter().chain(&active[..start]);
        rotated.chain(&fenced).take(wanted).copied().collect()
    };
    Ok((first..first.saturating_add(count))
        .map(replicas_of)
        .collect())
}

/// Checks replicas that a client chose.
pub(super) fn check_assignment(
    image: &MetadataImage,
    replicas: &[i32],
    replication_factor: Option<usize>,
) -> Result<(), Refusal> {
    let refuse = |text: String| {
        let text = format!("The manual partition assignment includes {text}");
        Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, text))
    };
    if replicas.is_empty() {
        return refuse("an empty replica list.".into());
    }
    let mut sorted = replicas.to_vec();
    sorted.sort_unstable();
    let mut previous = None;
    for id in &sorted {
        if image.broker(NodeId(*id)).is_none() {
            return refuse(format!("broker {id}, but no such broker is registered."));
        }
        if previous == Some(id) {
            return refuse(format!("the broker {id} more than once."));
        }
        previous = Some(id);
    }
    match replication_factor {
        Some(others) if others != replicas.len() => refuse(format!(
            "a partition with {} replica(s), but this is not consistent with previous partitions, \
             which have {others} replica(s).",
            replicas.len()
        )),
        Some(_) | None => Ok(()),
    }
}

/// The record of a new partition on `replicas`; none when no replica is active.
pub(super) fn new_partition(
    image: &MetadataImage,
    counts: &mut DirectoryCounts,
    topic_id: TopicId,
    partition_id: i32,
    replicas: &[i32],
) -> Option<PartitionRecord> {
    let active = |id: &&i32| image.broker(NodeId(**id)).is_some_and(is_active);
    let isr: Vec<i32> = replicas.iter().filter(active).copied().collect();
    let leader = *isr.first()?;
    let directory = |id: &i32| counts.choose(NodeId(*id));
    Some(PartitionRecord {
        partition_id,
        topic_id,
        replicas: replicas.to_vec(),
        leader,
        leader_epoch: 0,
        partition_epoch: 0,
        directories: replicas.iter().map(directory).collect(),
        isr,
        ..PartitionRecord::default()
    })
}
