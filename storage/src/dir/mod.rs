//! One log directory: its lock, identity, checkpoints, clean-shutdown marker and the list of its partitions.
//!
//! Invariants:
//! 1. One process holds a directory: `.lock` is taken before anything is read.
//! 2. The clean-shutdown marker is deleted when it is read: whatever happens next, only an orderly stop writes it again.
//! 3. A checkpoint file is replaced whole or not at all.
//!
//! One shard owns the `LogDir`; the others open their logs by path from the `Inventory` and send back checkpoint rows.

mod create;
pub mod ensemble;
mod identity;
mod listing;
mod manifest;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use create::create_durably;
use pelton_model::{NodeId, Offset, PartitionId, TopicId};

use crate::config::TEXT_FILE_BYTES_MAX;
use crate::disk::{Disk, DiskError};
use crate::format;
use crate::snapshot::LogManifest;

/// Why a log directory cannot be used. Each is one clear line.
#[derive(Debug)]
pub enum DirError {
    /// The disk refused.
    Disk(DiskError),
    /// Another process holds the directory.
    Locked {
        /// The log directory.
        path: PathBuf,
    },
    /// `meta.properties` cannot be understood.
    MetaCorrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong, in a few words.
        problem: &'static str,
    },
    /// `meta.properties` belongs to another node or cluster.
    MetaMismatch {
        /// The file.
        path: PathBuf,
        /// The property.
        property: &'static str,
        /// What the file says.
        found: String,
        /// What was asked.
        expected: String,
    },
    /// There are partitions but no `meta.properties`.
    MetaMissing {
        /// The file.
        path: PathBuf,
    },
    /// Two directories have the same id: one is a copy of the other.
    SameDirectoryId {
        /// One directory.
        path: PathBuf,
        /// The other.
        other: PathBuf,
        /// Their id.
        directory_id: TopicId,
    },
    /// The metadata directory is new although another directory belongs to a cluster.
    MetadataDirectoryNew {
        /// The metadata directory.
        path: PathBuf,
        /// The other.
        other: PathBuf,
    },
}

impl fmt::Display for DirError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(error) => error.fmt(f),
            Self::Locked { path } => write!(
                f,
                "log directory {} is in use by another broker",
                path.display()
            ),
            Self::MetaCorrupt { path, problem } => {
                write!(f, "{} is corrupt: {problem}", path.display())
            }
            Self::MetaMismatch {
                path,
                property,
                found,
                expected,
            } => write!(
                f,
                "{}: {property} is {found}, expected {expected}",
                path.display()
            ),
            Self::MetaMissing { path } => write!(
                f,
                "{} is missing although the directory holds partitions",
                path.display()
            ),
            Self::SameDirectoryId {
                path,
                other,
                directory_id,
            } => write!(
                f,
                "log directories {} and {} have the same directory.id {directory_id}: one is a copy of the other",
                path.display(),
                other.display()
            ),
            Self::MetadataDirectoryNew { path, other } => write!(
                f,
                "metadata directory {} is new although {} is not: is its device mounted?",
                path.display(),
                other.display()
            ),
        }
    }
}

impl std::error::Error for DirError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Disk(error) => Some(error),
            Self::Locked { .. }
            | Self::MetaCorrupt { .. }
            | Self::MetaMismatch { .. }
            | Self::MetaMissing { .. }
            | Self::SameDirectoryId { .. }
            | Self::MetadataDirectoryNew { .. } => None,
        }
    }
}

impl From<DiskError> for DirError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

/// The contents of `meta.properties` (version 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaProperties {
    /// The cluster's id.
    pub cluster_id: String,
    /// The node's id.
    pub node_id: NodeId,
    /// This directory's id.
    pub directory_id: TopicId,
}

/// What a directory is opened with.
#[derive(Clone, Debug)]
pub struct DirOptions {
    /// The node's id; a directory of another node is refused.
    pub node_id: NodeId,
    /// When given, a directory of another cluster is refused.
    pub cluster_id: Option<String>,
    /// The cluster id of a directory used for the first time, when `cluster_id` is not given.
    pub new_cluster_id: String,
    /// The directory id of a directory used for the first time.
    pub new_directory_id: TopicId,
}

/// A partition's directory as found at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionDir {
    /// `<log dir>/<topic>-<partition>`.
    pub path: PathBuf,
    /// The topic's name.
    pub topic: String,
    /// The partition.
    pub partition: PartitionId,
    /// From `partition.metadata`; `None` when the file is missing or unreadable.
    pub topic_id: Option<TopicId>,
    /// From the recovery point checkpoint; 0 when absent.
    pub recovery_point: Offset,
    /// From the log start checkpoint.
    pub log_start: Option<Offset>,
    /// From the replication checkpoint.
    pub high_watermark: Option<Offset>,
    /// From the cleaner's checkpoint: compaction has cleaned everything below.
    pub cleaned_to: Option<Offset>,
    /// From the start-up manifest of the clean stop before, if there is one to be believed.
    pub manifest: Option<Box<LogManifest>>,
}

/// A directory in which a copy of a partition was being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FutureDir {
    /// `<log dir>/<topic>-<partition>.<32 hexadecimal digits>-future`.
    pub path: PathBuf,
    /// The topic's name.
    pub topic: String,
    /// The partition.
    pub partition: PartitionId,
    /// From `partition.metadata`; `None` when the file is missing or unreadable.
    pub topic_id: Option<TopicId>,
}

/// What a log directory holds. Plain data: it may be sent to the shards that own the partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// The directory's identity.
    pub meta: MetaProperties,
    /// Whether the last stop was clean.
    pub clean: bool,
    /// The broker epoch in the clean-shutdown marker.
    pub broker_epoch: Option<i64>,
    /// Every partition, in order of topic and partition (`__cluster_metadata-0` among them).
    pub partitions: Vec<PartitionDir>,
    /// Directories of deleted partitions that the last run did not get rid of, for a [`crate::trash::Trash`].
    pub deleted: Vec<PathBuf>,
    /// Copies that moves did not finish.
    pub futures: Vec<FutureDir>,
}

/// A row of a checkpoint file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CheckpointRow {
    /// The topic's name.
    pub topic: String,
    /// The partition.
    pub partition: PartitionId,
    /// The offset.
    pub offset: Offset,
}

/// Which checkpoint file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpoint {
    /// `recovery-point-offset-checkpoint`: everything below is durable.
    RecoveryPoint,
    /// `log-start-offset-checkpoint`: log starts that are not the first segment's base offset.
    LogStart,
    /// `replication-offset-checkpoint`: high watermarks.
    HighWatermark,
    /// `cleaner-offset-checkpoint`: how far compaction has cleaned.
    Cleaner,
}

/// An open log directory; dropping it releases the lock.
#[derive(Debug)]
pub struct LogDir<D: Disk> {
    disk: D,
    path: PathBuf,
    _lock: D::Lock,
}

impl<D: Disk> LogDir<D> {
    /// [`LogDir::take`] and [`LogDir::load`] in one: for a directory that stands alone.
    ///
    /// # Errors
    /// Each variant of [`DirError`] is one clear line for whoever starts the broker.
    pub async fn open(
        disk: &D,
        path: &Path,
        options: &DirOptions,
    ) -> Result<(Self, Inventory), DirError> {
        let dir = Self::take(disk, path).await?;
        let inventory = dir.load(options).await?;
        Ok((dir, inventory))
    }

    /// Creates the directory if absent and takes its lock; nothing in it is read or changed.
    ///
    /// # Errors
    /// `Locked`, `Disk`.
    pub async fn take(disk: &D, path: &Path) -> Result<Self, DirError> {
        create_durably(disk, path).await?;
        let lock = match disk.lock(&path.join(LOCK_FILE)).await {
            Ok(lock) => lock,
            Err(error) if error.source.kind() == io::ErrorKind::WouldBlock => {
                let path = path.to_owned();
                return Err(DirError::Locked { path });
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            disk: disk.clone(),
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// The identity that the directory carries; none when it is new. Changes nothing.
    ///
    /// # Errors
    /// `Disk`, `MetaCorrupt`, `MetaMissing`.
    pub async fn identity(&self) -> Result<Option<MetaProperties>, DirError> {
        let entries = self.disk.read_dir(&self.path).await?;
        let read = identity::read(&self.disk, &self.path, &entries).await?;
        Ok(read.map(|(meta, _)| meta))
    }

    /// Whether the directory is still there, with its identity in it.
    ///
    /// # Errors
    /// `Disk`: it was removed, or its device is gone.
    pub async fn probe(&self) -> Result<(), DiskError> {
        probe(&self.disk, &self.path).await
    }

    /// Reads or creates `meta.properties`, consumes the clean marker, reads the checkpoints (unreadable: as if empty),
    /// and lists the partitions and the `…-delete` leftovers.
    ///
    /// # Errors
    /// Each variant of [`DirError`] is one clear line for whoever starts the broker.
    pub async fn load(&self, options: &DirOptions) -> Result<Inventory, DirError> {
        let (disk, path) = (&self.disk, &self.path);
        let entries = disk.read_dir(path).await?;
        let meta = identity::settle(disk, path, options, &entries).await?;
        let (clean, broker_epoch) = take_clean_marker(disk, path).await?;
        let manifest = manifest::take(disk, path, broker_epoch.filter(|_| clean)).await?;
        let listed = listing::list(disk, path, &entries, manifest).await?;
        Ok(Inventory {
            meta,
            clean,
            broker_epoch,
            partitions: listed.partitions,
            deleted: listed.deleted,
            futures: listed.futures,
        })
    }

    /// The directory of a partition.
    #[must_use]
    pub fn partition_path(&self, topic: &str, partition: PartitionId) -> PathBuf {
        partition_path(&self.path, topic, partition)
    }

    /// The log directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces a checkpoint file by `rows` (of all shards).
    ///
    /// # Errors
    /// `Disk`; the old file then still stands.
    pub async fn write_checkpoint(
        &self,
        checkpoint: Checkpoint,
        rows: Vec<CheckpointRow>,
    ) -> Result<(), DirError> {
        write_checkpoint(&self.disk, &self.path, checkpoint, rows).await
    }

    /// Writes the clean-shutdown marker: the last act of an orderly stop, only when every log closed without an error
    /// and the checkpoints are written.
    ///
    /// # Errors
    /// `Disk`; the next start then scans.
    pub async fn mark_clean(&self, broker_epoch: i64) -> Result<(), DirError> {
        let path = self.path.join(CLEAN_FILE);
        let contents = format::encode_clean_marker(broker_epoch);
        self.disk.replace_file(&path, &contents).await?;
        Ok(())
    }
}

/// What a directory's name ends with that receives a copy of a partition (KIP-113).
const FUTURE_SUFFIX: &str = "-future";
/// Hexadecimal digits that tell such a directory from another of the same partition.
const FUTURE_DIGITS: usize = 32;

/// The directory in which a copy of a partition is made, told from others by `id`; none where the topic's name leaves no room for the rest.
#[must_use]
pub fn future_path(
    log_dir: &Path,
    topic: &str,
    partition: PartitionId,
    id: TopicId,
) -> Option<PathBuf> {
    const NAME_BYTES_MAX: usize = 255;
    let id = u128::from_be_bytes(id.0);
    let name = format!("{topic}-{partition}.{id:0FUTURE_DIGITS$x}{FUTURE_SUFFIX}");
    (name.len() <= NAME_BYTES_MAX).then(|| log_dir.join(name))
}

/// The directory of a partition within the log directory `log_dir`; needs no lock, so every shard may use it.
#[must_use]
pub fn partition_path(log_dir: &Path, topic: &str, partition: PartitionId) -> PathBuf {
    log_dir.join(format!("{topic}-{partition}"))
}

/// Whether the log directory is still there, with its identity in it; needs no lock, so every shard may ask.
///
/// # Errors
/// The disk's.
pub async fn probe<D: Disk>(disk: &D, log_dir: &Path) -> Result<(), DiskError> {
    let path = log_dir.join(META_FILE);
    disk.read_file(&path, TEXT_FILE_BYTES_MAX).await?;
    Ok(())
}

/// As [`LogDir::write_checkpoint`], by the path of the log directory. Of two at once on one file, each spoils the other.
///
/// The file is put together where the disk's slow calls run: it has a line for each partition.
///
/// # Errors
/// `Disk`; the old file then still stands.
pub async fn write_checkpoint<D: Disk>(
    disk: &D,
    log_dir: &Path,
    checkpoint: Checkpoint,
    rows: Vec<CheckpointRow>,
) -> Result<(), DirError> {
    let path = log_dir.join(checkpoint.file_name());
    let encode = move || format::encode_checkpoint(&rows);
    let contents = disk.offload(encode).await;
    disk.replace_file(&path, &contents).await?;
    Ok(())
}

const LOCK_FILE: &str = ".lock";
const META_FILE: &str = "meta.properties";
const CLEAN_FILE: &str = ".kafka_cleanshutdown";

impl Checkpoint {
    fn file_name(self) -> &'static str {
        match self {
            Self::RecoveryPoint => "recovery-point-offset-checkpoint",
            Self::LogStart => "log-start-offset-checkpoint",
            Self::HighWatermark => "replication-offset-checkpoint",
            Self::Cleaner => "cleaner-offset-checkpoint",
        }
    }
}

/// Reads and deletes the marker, durably: a marker that came back after a power cut would be believed.
async fn take_clean_marker<D: Disk>(
    disk: &D,
    path: &Path,
) -> Result<(bool, Option<i64>), DirError> {
    let marker = path.join(CLEAN_FILE);
    let contents = match disk.read_file(&marker, TEXT_FILE_BYTES_MAX).await {
        Ok(contents) => contents,
        Err(error) if error.is_not_found() => return Ok((false, None)),
        Err(error) => return Err(error.into()),
    };
    disk.remove_file(&marker).await?;
    disk.sync_dir(path).await?;
    Ok((true, format::decode_clean_marker(&contents)))
}
