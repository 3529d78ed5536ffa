//! Who this broker is, and what it found on disk: told to every shard with the first image.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use pelton_model::{NodeId, TopicId};
use pelton_protocol::codec::Str;
use pelton_storage::{Inventory, PartitionDir};

/// Where clients reach this node through one listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The host as clients are told.
    pub host: Str,
    /// The port as clients are told.
    pub port: u16,
}

/// One log directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Where it is, as configured.
    pub path: PathBuf,
    /// Its id.
    pub id: TopicId,
}

/// Who this broker is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The node's id.
    pub node_id: NodeId,
    /// The cluster's id.
    pub cluster_id: String,
    /// The log directories, by [`crate::shard::directory::DirIndex`].
    pub directories: Vec<Directory>,
    /// One for each listener.
    pub endpoints: Vec<Endpoint>,
}

/// What a start found on disk.
#[derive(Debug)]
pub struct Opening {
    /// Who we are.
    pub identity: Arc<Identity>,
    /// Whether the last stop was clean.
    pub clean: bool,
    partitions: BTreeMap<String, BTreeMap<i32, PartitionDir>>,
}

impl Opening {
    /// Sorts what the log directory holds by topic and partition.
    #[must_use]
    pub fn new(identity: Arc<Identity>, inventory: Inventory) -> Self {
        let mut partitions: BTreeMap<String, BTreeMap<i32, PartitionDir>> = BTreeMap::new();
        for found in inventory.partitions {
            let of_topic = partitions.entry(found.topic.clone()).or_default();
            of_topic.insert(found.partition.0, found);
        }
        Self {
            identity,
            clean: inventory.clean,
            partitions,
        }
    }

    /// The directory of a partition, if there is one.
    #[must_use]
    pub fn partition(&self, topic: &str, partition: i32) -> Option<&PartitionDir> {
        self.partitions.get(topic)?.get(&partition)
    }

    /// Everything found: topic, partition.
    pub fn partitions(&self) -> impl Iterator<Item = (&str, i32)> {
        self.partitions.iter().flat_map(|(topic, found)| {
            found
                .keys()
                .map(move |&partition| (topic.as_str(), partition))
        })
    }
}
