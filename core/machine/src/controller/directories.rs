//! The log directories of brokers: where a new partition goes, and what the failure of one means.
//!
//! Invariants:
//! 1. A new partition goes to the open directory of its broker that holds the fewest partitions; the first of equals.
//! 2. A cordoned directory takes no new partition; what it holds is served as ever.
//! 3. A partition whose only directory is gone keeps its replica in the ISR and has no leader: nobody else has its records.
//!
//! Kafka leaves the choice to the broker, which reports it (KIP-858); controller and broker are one here, so the record names the
//! directory at once. Source: KIP-112, KIP-858, KIP-1066.

use std::collections::BTreeMap;

use pelton_model::record_type::metadata::{
    BrokerRegistrationChangeRecord, MetadataRecord, NO_LEADER, PartitionChangeRecord,
    RegisterBrokerRecord,
};
use pelton_model::{NodeId, TopicId, TopicPartition};

use super::Decision;
use crate::image::MetadataImage;

/// Directory ids up to this one stand for no directory: unassigned, lost, migrating.
const RESERVED_DIRECTORY_ID_LAST: u128 = 2;
const LOST_DIRECTORY_ID: u128 = 1;

/// Whether the id says that nobody has chosen a directory yet.
#[must_use]
pub fn is_unassigned(directory: TopicId) -> bool {
    let id = u128::from_be_bytes(directory.0);
    id <= RESERVED_DIRECTORY_ID_LAST && id != LOST_DIRECTORY_ID
}

/// The directories of a broker that take new partitions.
fn open_directories(broker: &RegisterBrokerRecord) -> impl Iterator<Item = TopicId> {
    let cordoned = broker.cordoned_log_dirs.as_deref().unwrap_or(&[]);
    let open = broker.log_dirs.iter().filter(|dir| !cordoned.contains(dir));
    open.copied()
}

/// Whether a broker could hold one more partition: one that names no directory is taken at its word.
pub(super) fn has_room(broker: &RegisterBrokerRecord) -> bool {
    broker.log_dirs.is_empty() || open_directories(broker).next().is_some()
}

/// Whether a broker has the log directory that a partition names, as far as it said.
pub(super) fn is_directory_there(
    broker: &RegisterBrokerRecord,
    directory: Option<TopicId>,
) -> bool {
    let Some(directory) = directory else {
        return false;
    };
    is_unassigned(directory) || broker.log_dirs.is_empty() || broker.log_dirs.contains(&directory)
}

/// How many partitions lie in the open directories of each broker. Lives for one decision.
#[derive(Clone, Debug, Default)]
pub(super) struct DirectoryCounts {
    /// In the order of the registration.
    brokers: BTreeMap<NodeId, Vec<(TopicId, usize)>>,
}

impl DirectoryCounts {
    /// Counts the image: O(partitions), and O(1) where no broker has a choice.
    pub(super) fn of(image: &MetadataImage) -> Self {
        let mut counts = Self::default();
        let mut has_choice = false;
        for broker in image.brokers() {
            let open: Vec<_> = open_directories(broker).map(|dir| (dir, 0)).collect();
            has_choice |= open.len() > 1;
            counts.brokers.insert(NodeId(broker.broker_id), open);
        }
        if has_choice {
            for (_, partition) in image.topics().flat_map(|topic| topic.partitions()) {
                let lies = partition.replicas.iter().zip(&partition.directories);
                for (node, directory) in lies {
                    counts.add(*node, *directory);
                }
            }
        }
        counts
    }

    /// Nothing lies in the directories of this one broker. When all are cordoned, all count as open: somewhere it must be.
    pub(super) fn empty(node: NodeId, directories: &[TopicId], cordoned: &[TopicId]) -> Self {
        let open = |all: bool| {
            let open = directories
                .iter()
                .filter(|dir| all || !cordoned.contains(dir));
            open.map(|dir| (*dir, 0)).collect::<Vec<_>>()
        };
        let some = open(false);
        let open = if some.is_empty() { open(true) } else { some };
        Self {
            brokers: BTreeMap::from([(node, open)]),
        }
    }

    /// Takes note of a partition that lies there.
    pub(super) fn add(&mut self, node: NodeId, directory: TopicId) {
        let Some(open) = self.brokers.get_mut(&node) else {
            return;
        };
        if let Some((_, count)) = open.iter_mut().find(|(known, _)| *known == directory) {
            *count += 1;
        }
    }

    /// Chooses the directory of one more partition and counts it; zero ("unassigned") without any.
    pub(super) fn choose(&mut self, node: NodeId) -> TopicId {
        let open = self.brokers.get_mut(&node).into_iter().flatten();
        match open.min_by_key(|(_, count)| *count) {
            Some((directory, count)) => {
                *count += 1;
                *directory
            }
            None => TopicId::ZERO,
        }
    }
}

/// Decides what the failure of a directory of `node` writes: the registration without it, no leader for what lay there.
#[must_use]
pub fn fail_directory(image: &MetadataImage, node: NodeId, directory: TopicId) -> Decision<()> {
    let mut records: Vec<MetadataRecord> = Vec::new();
    let Some(broker) = image.broker(node) else {
        let results = ();
        return Decision { records, results };
    };
    let left = broker.log_dirs.iter().filter(|dir| **dir != directory);
    let left: Vec<TopicId> = left.copied().collect();
    // An empty list would say that nothing has changed.
    if left.len() < broker.log_dirs.len() && !left.is_empty() {
        let change = BrokerRegistrationChangeRecord {
            broker_id: node.0,
            broker_epoch: broker.broker_epoch,
            log_dirs: left,
            ..BrokerRegistrationChangeRecord::default()
        };
        records.push(change.into());
    }
    for topic in image.topics() {
        for (partition, state) in topic.partitions() {
            if state.directory(node) == Some(directory) && state.leader() == Some(node) {
                let change = PartitionChangeRecord {
                    partition_id: partition.0,
                    topic_id: topic.id(),
                    leader: NO_LEADER,
                    ..PartitionChangeRecord::default()
                };
                records.push(change.into());
            }
        }
    }
    let results = ();
    Decision { records, results }
}

/// Decides that the replica of a partition on `node` lies in another directory from now on; whether there is such a replica.
#[must_use]
pub fn assign_directory(
    image: &MetadataImage,
    node: NodeId,
    partition: TopicPartition,
    directory: TopicId,
) -> Decision<bool> {
    let state = image.partition(partition);
    let held = state.and_then(|state| Some((state, state.directory(node)?)));
    let records = match held {
        Some((state, held)) if held != directory => {
            let lies = state.replicas.iter().zip(&state.directories);
            let lies = lies.map(|(id, dir)| if *id == node { directory } else { *dir });
            let change = PartitionChangeRecord {
                partition_id: partition.partition.0,
                topic_id: partition.topic_id,
                directories: Some(lies.collect()),
                ..PartitionChangeRecord::default()
            };
            vec![change.into()]
        }
        Some(_) | None => Vec::new(),
    };
    Decision {
        records,
        results: held.is_some(),
    }
}

/// Decides which directories of `node` take no new partitions from now on.
#[must_use]
pub fn cordon(image: &MetadataImage, node: NodeId, cordoned: &[TopicId]) -> Decision<()> {
    let results = ();
    let records = match image.broker(node) {
        Some(broker) if broker.cordoned_log_dirs.as_deref().unwrap_or(&[]) != cordoned => {
            let change = BrokerRegistrationChangeRecord {
                broker_id: node.0,
                broker_epoch: broker.broker_epoch,
                cordoned_log_dirs: Some(cordoned.to_vec()),
                ..BrokerRegistrationChangeRecord::default()
            };
            vec![change.into()]
        }
        Some(_) | None => Vec::new(),
    };
    Decision { records, results }
}
