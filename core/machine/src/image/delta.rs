//! What changed in an image, so that a shard touches only what it must.
//!
//! Invariants:
//! 1. A topic created and deleted within one delta appears only among the deleted.
//! 2. `partitions` names every partition that was created or changed and still exists; its state is in the image.

use std::collections::{BTreeMap, BTreeSet};

use pelton_model::{NodeId, TopicId, TopicPartition};

/// A resource that has configs: its type (`record_type::metadata::RESOURCE_*`) and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigResource {
    /// Kafka's number of the resource type.
    pub resource_type: i8,
    /// The resource's name; empty for the default of all brokers.
    pub name: String,
}

/// The difference between two images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataDelta {
    /// Topics that came into being.
    pub topics_created: BTreeSet<TopicId>,
    /// Topics that were deleted, with their names.
    pub topics_deleted: BTreeMap<TopicId, String>,
    /// Partitions that were created or changed and still exist.
    pub partitions: BTreeSet<TopicPartition>,
    /// Resources whose configs changed.
    pub configs: BTreeSet<ConfigResource>,
    /// Brokers that registered, changed or left.
    pub brokers: BTreeSet<NodeId>,
    /// Features whose level changed.
    pub features: BTreeSet<String>,
    /// Whether ACLs, credentials, tokens or quotas changed.
    pub security: bool,
}

impl MetadataDelta {
    /// Whether nothing changed that anyone could see.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what changed after this.
    pub fn merge(&mut self, later: Self) {
        for (topic_id, name) in later.topics_deleted {
            self.topic_deleted(topic_id, name);
        }
        self.topics_created.extend(later.topics_created);
        self.partitions.extend(later.partitions);
        self.configs.extend(later.configs);
        self.brokers.extend(later.brokers);
        self.features.extend(later.features);
        self.security |= later.security;
    }

    pub(super) fn topic_deleted(&mut self, topic_id: TopicId, name: String) {
        self.topics_created.remove(&topic_id);
        self.partitions
            .retain(|partition| partition.topic_id != topic_id);
        self.topics_deleted.insert(topic_id, name);
    }
}
