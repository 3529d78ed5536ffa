//! Who this broker is, and what it found on disk: told to every shard with the first image.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pelton_machine::image::MetadataImage;
use pelton_model::config::broker::BrokerConfig;
use pelton_model::{NodeId, PartitionId, TopicId, TopicPartition};
use pelton_protocol::codec::Str;
use pelton_storage::{Inventory, PartitionDir};

use super::BootError;
use crate::controller::METADATA_TOPIC;
use crate::shard::directory::DirIndex;

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
    /// Its id; none of a directory that could not be opened at the start.
    pub id: Option<TopicId>,
    /// Whether it holds partitions of topics; one that is for the metadata log alone does not.
    pub takes_partitions: bool,
    /// Whether it takes no new ones.
    pub is_cordoned: bool,
}

impl Directory {
    /// Its absolute path, by which clients know it.
    #[must_use]
    pub fn absolute(&self) -> PathBuf {
        std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone())
    }
}

/// Who this broker is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The node's id.
    pub node_id: NodeId,
    /// The cluster's id.
    pub cluster_id: String,
    /// The log directories, by [`DirIndex`].
    pub directories: Vec<Directory>,
    /// One for each listener.
    pub endpoints: Vec<Endpoint>,
    /// For each listener: one for each shard where it shows them, else none.
    pub core_endpoints: Vec<Vec<Endpoint>>,
}

impl Identity {
    /// The id of the directory that holds the metadata log.
    ///
    /// # Panics
    /// Without that directory, which no start goes on without.
    #[must_use]
    pub fn metadata_directory_id(&self, config: &BrokerConfig) -> TopicId {
        let mut all = self.directories.iter();
        let found = all.find(|directory| directory.path == config.metadata_log_dir);
        found
            .and_then(|directory| directory.id)
            .expect("a start is refused without the metadata directory")
    }

    /// The directory with this id, if it could be opened.
    #[must_use]
    pub fn directory(&self, id: TopicId) -> Option<DirIndex> {
        let mut numbered = (0_u16..).zip(&self.directories);
        let found = numbered.find(|(_, directory)| directory.id == Some(id));
        found.map(|(index, _)| DirIndex(index))
    }
}

/// A partition's directory as a start found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The log directory it lies in.
    pub dir: DirIndex,
    /// Whether that directory was stopped cleanly.
    pub clean: bool,
    /// What is known of it.
    pub known: PartitionDir,
}

impl Deref for Found {
    type Target = PartitionDir;

    fn deref(&self) -> &PartitionDir {
        &self.known
    }
}

/// What a start found on disk.
#[derive(Debug)]
pub struct Opening {
    /// Who we are.
    pub identity: Arc<Identity>,
    /// More than one for a partition only until [`Opening::settle`].
    partitions: BTreeMap<String, BTreeMap<i32, Vec<Found>>>,
    strays: Vec<PathBuf>,
    deleted: Vec<PathBuf>,
    /// Moves that the last run did not finish: where the partitions were to go.
    moves: BTreeMap<(String, i32), (DirIndex, TopicId)>,
}

impl Opening {
    /// Sorts what the log directories hold (by [`DirIndex`]) by topic and partition.
    #[must_use]
    pub fn new(identity: Arc<Identity>, inventories: Vec<Option<Inventory>>) -> Self {
        let mut partitions: BTreeMap<String, BTreeMap<i32, Vec<Found>>> = BTreeMap::new();
        let (mut deleted, mut moves) = (Vec::new(), BTreeMap::new());
        for (index, inventory) in (0_u16..).zip(inventories) {
            let Some(inventory) = inventory else { continue };
            deleted.extend(inventory.deleted);
            for copy in inventory.futures {
                // What was copied may differ from what its original has become: the move begins anew.
                deleted.push(copy.path);
                if let Some(topic_id) = copy.topic_id {
                    let partition = (copy.topic, copy.partition.0);
                    moves.insert(partition, (DirIndex(index), topic_id));
                }
            }
            for known in inventory.partitions {
                let of_topic = partitions.entry(known.topic.clone()).or_default();
                of_topic.entry(known.partition.0).or_default().push(Found {
                    dir: DirIndex(index),
                    clean: inventory.clean,
                    known,
                });
            }
        }
        Self {
            identity,
            partitions,
            strays: Vec::new(),
            deleted,
            moves,
        }
    }

    /// Keeps what belongs to a partition of the image; the rest are strays. Of two directories of a partition, as a move leaves them that was
    /// cut short, it is the one that the metadata names: until it names the new one, nothing is written there.
    ///
    /// # Errors
    /// `PartitionTwice` when two directories could be the same partition's and the metadata names neither.
    pub fn settle(&mut self, image: &MetadataImage) -> Result<(), BootError> {
        let identity = Arc::clone(&self.identity);
        for (topic, of_topic) in &mut self.partitions {
            if topic == METADATA_TOPIC {
                continue;
            }
            for (&partition, found) in of_topic {
                let id = known_id(image, topic, partition);
                let is_its =
                    |f: &Found| id.is_some_and(|id| f.topic_id.is_none_or(|its| its == id));
                let strays = found.iter().filter(|found| !is_its(found));
                self.strays.extend(strays.map(|f| f.path.clone()));
                found.retain(is_its);
                if found.len() > 1
                    && let Some(id) = id
                    && let Some(named) = named(image, &identity, id, partition)
                {
                    self.strays.extend(keep_named(found, named));
                }
                if let [one, other, ..] = &found[..] {
                    return Err(BootError::PartitionTwice {
                        path: one.path.clone(),
                        other: other.path.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    /// The directory of a partition, if there is one.
    #[must_use]
    pub fn partition(&self, topic: &str, partition: i32) -> Option<&Found> {
        self.partitions.get(topic)?.get(&partition)?.first()
    }

    /// Whether partitions of topics were found.
    #[must_use]
    pub fn has_topics(&self) -> bool {
        self.partitions.keys().any(|topic| topic != METADATA_TOPIC)
    }

    /// Where a partition was being moved to when the last run ended.
    #[must_use]
    pub fn unfinished_move(&self, topic: &str, partition: i32, id: TopicId) -> Option<DirIndex> {
        let (dir, topic_id) = self.moves.get(&(topic.to_owned(), partition))?;
        (*topic_id == id).then_some(*dir)
    }

    /// Directories of deleted partitions, which only wait to be removed.
    pub fn deleted(&self) -> impl Iterator<Item = &Path> {
        self.deleted.iter().map(PathBuf::as_path)
    }

    /// Directories of partitions that the metadata does not know.
    pub fn strays(&self) -> impl Iterator<Item = &Path> {
        self.strays.iter().map(PathBuf::as_path)
    }

    /// The log directories that could not be opened.
    pub fn offline(&self) -> impl Iterator<Item = DirIndex> {
        let numbered = (0_u16..).zip(&self.identity.directories);
        let offline = numbered.filter(|(_, directory)| directory.id.is_none());
        offline.map(|(index, _)| DirIndex(index))
    }

    /// Where every partition of the image lies that was found: the id of its log directory.
    #[must_use]
    pub fn places(&self, image: &MetadataImage) -> BTreeMap<TopicPartition, TopicId> {
        let mut places = BTreeMap::new();
        for (topic, of_topic) in &self.partitions {
            for (&partition, found) in of_topic {
                let topic_id = known_id(image, topic, partition);
                let found = found
                    .first()
                    .and_then(|found| self.identity.directories[found.dir.index()].id);
                if let (Some(topic_id), Some(directory)) = (topic_id, found) {
                    let partition = PartitionId(partition);
                    let id = TopicPartition {
                        topic_id,
                        partition,
                    };
                    places.insert(id, directory);
                }
            }
        }
        places
    }
}

/// The log directory of this node in which the metadata says that a partition lies.
fn named(
    image: &MetadataImage,
    identity: &Identity,
    topic_id: TopicId,
    partition: i32,
) -> Option<DirIndex> {
    let partition = PartitionId(partition);
    let state = image.partition(TopicPartition {
        topic_id,
        partition,
    })?;
    identity.directory(state.directory(identity.node_id)?)
}

/// Keeps the directory that lies in `named`, if one does, with what the checkpoints of the others know of the partition; gives the paths of
/// those.
fn keep_named(found: &mut Vec<Found>, named: DirIndex) -> Vec<PathBuf> {
    let Some(at) = found.iter().position(|found| found.dir == named) else {
        return Vec::new();
    };
    let mut kept = found.swap_remove(at);
    for other in found.iter() {
        let known = &mut kept.known;
        known.log_start = known.log_start.max(other.log_start);
        known.high_watermark = known.high_watermark.max(other.high_watermark);
    }
    let paths = found.drain(..).map(|other| other.known.path).collect();
    found.push(kept);
    paths
}

/// The id of the topic of this name, when it has the partition.
fn known_id(image: &MetadataImage, topic: &str, partition: i32) -> Option<TopicId> {
    let topic_id = image.topic_by_name(topic)?.id();
    let partition = PartitionId(partition);
    let id = TopicPartition {
        topic_id,
        partition,
    };
    image.partition(id).map(|_| topic_id)
}
