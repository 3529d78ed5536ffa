//! One partition's log.
//!
//! Invariants:
//! 1. Offsets are given by the caller; `append` refuses none, it asserts that they continue the log.
//! 2. No borrow lives across an await. Appends and rolls of one log run one after the other, in the order of the calls.
//! 3. After a failed write or sync the log answers `StorageError::Failed` for ever.
//! 4. The recovery point never passes what was synced.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use pelton_model::slice::Slice;
use pelton_model::{LeaderEpoch, Offset, Timestamp, TopicId};

use crate::config::LogConfig;
use crate::disk::Disk;
use crate::epoch::{EpochEnd, EpochEntry};
use crate::error::{ReadError, StorageError};

/// What the logs of one shard share: the disk and the memory tail. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LogStore<D: Disk> {
    disk: D,
}

impl<D: Disk> LogStore<D> {
    /// Makes the store of one shard.
    pub fn new(disk: D) -> Self {
        Self { disk }
    }
    /// The disk.
    pub fn disk(&self) -> &D {
        &self.disk
    }
}

/// What the log must know about a batch that it appends; the caller has parsed and patched it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchFacts {
    /// The batch's first offset, as patched into the header.
    pub base_offset: Offset,
    /// The batch's last offset.
    pub last_offset: Offset,
    /// The batch's largest timestamp.
    pub max_timestamp: Timestamp,
    /// The leader epoch, as patched into the header.
    pub leader_epoch: LeaderEpoch,
}

/// How a log is opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// The topic settings.
    pub config: LogConfig,
    /// From the recovery point checkpoint; `Offset::ZERO` when absent.
    pub recovery_point: Offset,
    /// Whether the directory was stopped cleanly (`Inventory::clean`).
    pub clean: bool,
    /// From the log start checkpoint, if it has the partition.
    pub log_start: Option<Offset>,
}

/// What opening a log found and did.
#[derive(Debug)]
pub struct Recovery {
    /// The next offset.
    pub log_end: Offset,
    /// Bytes cut as a torn tail, over all segments.
    pub truncated_bytes: u64,
    /// Bytes whose checksums were verified.
    pub scanned_bytes: u64,
    /// Index files that were rebuilt.
    pub rebuilt_indexes: u32,
}

/// What to read.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// The first wanted offset; the batch that contains it is the first returned.
    pub from: Offset,
    /// Exclusive bound, at a batch boundary: the high watermark, last stable offset or log end.
    pub up_to: Offset,
    /// At most so many bytes.
    pub bytes_max: usize,
    /// Whether the first batch is returned even if it is larger than `bytes_max`.
    pub at_least_one: bool,
}

/// Whole, consecutive batches.
#[derive(Clone, Debug, Default)]
pub struct ReadResult {
    /// The bytes, in order; empty when there is nothing to return.
    pub slices: Vec<Slice>,
    /// The sum of the slices.
    pub size_bytes: usize,
    /// The first batch's base offset (at most `from`), when there is one.
    pub base_offset: Option<Offset>,
}

/// A record found by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampOffset {
    /// The record's offset.
    pub offset: Offset,
    /// The record's timestamp.
    pub timestamp: Timestamp,
    /// The leader epoch of its batch; `LeaderEpoch::NONE` when unknown.
    pub leader_epoch: LeaderEpoch,
}

/// What a closed log contributes to the checkpoints of its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedLog {
    /// Everything below is durable.
    pub recovery_point: Offset,
    /// The first offset.
    pub log_start: Offset,
}

/// One partition's log. Lives on one shard; share it by `Rc`.
#[derive(Debug)]
pub struct Log<D: Disk> {
    store: LogStore<D>,
}

const LATER: &str = "lands within the hour";

impl<D: Disk> Log<D> {
    /// Creates the directory of a new partition with its `partition.metadata` and an empty first segment.
    ///
    /// `directory` is `<log dir>/<topic>-<partition>`.
    ///
    /// # Errors
    /// `Disk` when the directory exists with a log in it or cannot be written.
    pub async fn create(
        store: &LogStore<D>,
        directory: &Path,
        topic_id: TopicId,
        config: LogConfig,
    ) -> Result<Self, StorageError> {
        let _ = (store, directory, topic_id, config);
        unimplemented!("{LATER}")
    }

    /// Opens an existing partition: after a clean stop at once, else by scanning from the recovery point.
    pub async fn open(
        store: &LogStore<D>,
        directory: &Path,
        options: OpenOptions,
    ) -> Result<(Self, Recovery), StorageError> {
        let _ = (store, directory, options);
        unimplemented!("{LATER}")
    }

    /// Writes `batches` (whole, patched, in order; `facts` one for one) at the end of the log.
    ///
    /// One vectored write per call where no roll falls in between. Returns the next offset.
    ///
    /// # Panics
    /// When the lengths differ or the offsets do not continue the log.
    /// # Cancel safety
    /// None: poll it to its end. A dropped append leaves the log failed.
    pub async fn append(
        &self,
        batches: &[Bytes],
        facts: &[BatchFacts],
    ) -> Result<Offset, StorageError> {
        let _ = (batches, facts);
        unimplemented!("{LATER}")
    }

    /// Whether `size_bytes` more would roll the active segment. The owner then calls [`Log::roll`] with a producer
    /// snapshot before it plans the append; otherwise `append` rolls without one, and a crash replays further back.
    pub fn roll_wanted(&self, size_bytes: usize) -> bool {
        let _ = size_bytes;
        unimplemented!("{LATER}")
    }

    /// Starts a new segment at the log end; `producer_snapshot` is `ProducerStates` encoded as of the log end.
    pub async fn roll(&self, producer_snapshot: Option<Bytes>) -> Result<(), StorageError> {
        let _ = producer_snapshot;
        unimplemented!("{LATER}")
    }

    /// Returns whole batches in `[from, up_to)`, starting with the one that *contains* `from`. See [`ReadOptions`].
    ///
    /// # Errors
    /// `OutOfRange` when `from` is outside `[log_start, log_end]`.
    pub async fn read(&self, options: ReadOptions) -> Result<ReadResult, ReadError> {
        let _ = options;
        unimplemented!("{LATER}")
    }

    /// The first record with a timestamp of at least `timestamp` (ListOffsets by time). Record level.
    pub async fn offset_for_timestamp(
        &self,
        timestamp: Timestamp,
    ) -> Result<Option<TimestampOffset>, StorageError> {
        let _ = timestamp;
        unimplemented!("{LATER}")
    }

    /// The earliest record that has the largest timestamp of the log (ListOffsets −3).
    pub async fn offset_of_max_timestamp(&self) -> Result<Option<TimestampOffset>, StorageError> {
        unimplemented!("{LATER}")
    }

    /// Where the largest epoch at most `epoch` ends; `None` when unknown (OffsetForLeaderEpoch: −1, −1).
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<EpochEnd> {
        let _ = epoch;
        unimplemented!("{LATER}")
    }

    /// The latest leader epoch that the log has recorded.
    pub fn latest_epoch(&self) -> Option<EpochEntry> {
        unimplemented!("{LATER}")
    }

    /// The leader epoch of the record at `offset`.
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let _ = offset;
        unimplemented!("{LATER}")
    }

    /// Records that `epoch` begins at the log end: called on becoming leader, before the first append in it.
    pub async fn assign_epoch(&self, epoch: LeaderEpoch) -> Result<(), StorageError> {
        let _ = epoch;
        unimplemented!("{LATER}")
    }

    /// Makes everything appended before the call durable; returns the new recovery point.
    pub async fn sync(&self) -> Result<Offset, StorageError> {
        unimplemented!("{LATER}")
    }

    /// Final sync; writes `producer_snapshot` (as of the log end). The log then answers `Closed`.
    ///
    /// # Errors
    /// The clean marker of the directory must then not be written.
    pub async fn close(&self, producer_snapshot: Option<Bytes>) -> Result<ClosedLog, StorageError> {
        let _ = producer_snapshot;
        unimplemented!("{LATER}")
    }

    /// Renames the directory to `<topic>-<partition>.<topic id>-delete` as Kafka does, then removes it.
    /// File ranges handed out stay readable.
    pub async fn delete(&self) -> Result<(), StorageError> {
        unimplemented!("{LATER}")
    }

    /// The first offset that can be read.
    pub fn log_start(&self) -> Offset {
        unimplemented!("{LATER}")
    }

    /// The next offset to be appended.
    pub fn log_end(&self) -> Offset {
        unimplemented!("{LATER}")
    }

    /// Everything below is durable.
    pub fn recovery_point(&self) -> Offset {
        unimplemented!("{LATER}")
    }

    /// Bytes of all segments.
    pub fn size_bytes(&self) -> u64 {
        unimplemented!("{LATER}")
    }

    /// Whether an earlier write or sync failed.
    pub fn is_failed(&self) -> bool {
        unimplemented!("{LATER}")
    }

    /// Changes the topic settings; they hold from the next append.
    pub fn set_config(&self, config: LogConfig) {
        let _ = config;
        unimplemented!("{LATER}")
    }

    /// The topic id in `partition.metadata`, if the file is there.
    pub fn topic_id(&self) -> Option<TopicId> {
        unimplemented!("{LATER}")
    }

    /// The partition's directory.
    pub fn directory(&self) -> PathBuf {
        let _ = &self.store;
        unimplemented!("{LATER}")
    }
}
