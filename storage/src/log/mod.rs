//! One partition's log.
//!
//! Invariants:
//! 1. Offsets are given by the caller; `append` refuses none, it asserts that they continue the log.
//! 2. No borrow lives across an await. Appends and rolls of one log run one after the other, in the order of the calls.
//! 3. After a failed write or sync the log answers `StorageError::Failed` for ever.
//! 4. The recovery point never passes what was synced.
//! 5. There is always an active segment, the last one; all others are closed and change no more.
//!
//! Absent here: sync policies, which call [`Log::sync`] and [`Log::sync_records`]; what compaction keeps ([`crate::compaction`]).

mod aborted;
mod ahead;
mod append;
mod gate;
mod life;
mod listing;
mod lookup;
mod moves;
mod producers;
mod read;
mod recovery;
mod replace;
mod resume;
mod retention;
mod scan;
mod start;
mod sync;
mod tail;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use pelton_model::batch::BatchHeader;
use pelton_model::producer_state::ProducerStates;
use pelton_model::slice::Slice;
use pelton_model::{LeaderEpoch, Offset, Timestamp, TopicId};

use crate::config::LogConfig;
use crate::disk::{Disk, DiskError};
use crate::epoch::{EpochCache, EpochEnd, EpochEntry};
use crate::error::StorageError;
use crate::segment::pace::Pace;
use crate::segment::{Home, Segment};
use crate::trash::Trash;
use ahead::Preparing;
use gate::Gate;
pub(crate) use producers::{MARKER_BYTES_MAX, marker_kind};
use tail::{Tail, TailBytes};

pub use retention::{Retained, RetentionTerms};

/// What the logs of one shard share: the disk and the memory tail. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LogStore<D: Disk> {
    disk: D,
    tail: Rc<TailBytes>,
    trash: Trash<D>,
    preparing: Rc<Preparing>,
}

impl<D: Disk> LogStore<D> {
    /// Makes the store of one shard.
    pub fn new(disk: D) -> Self {
        Self {
            trash: Trash::new(disk.clone()),
            disk,
            tail: Rc::default(),
            preparing: Rc::default(),
        }
    }

    /// The disk.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// What the logs have thrown away.
    pub fn trash(&self) -> &Trash<D> {
        &self.trash
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

impl From<&BatchHeader> for BatchFacts {
    fn from(header: &BatchHeader) -> Self {
        Self {
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            max_timestamp: header.max_timestamp,
            leader_epoch: header.leader_epoch,
        }
    }
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
    /// The idempotent producers as of the log end.
    pub producer_states: ProducerStates,
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
    /// No record at or above it is among them, when there is a batch.
    pub end_offset: Option<Offset>,
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

/// Whether a log takes calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Open,
    Failed,
    Closed,
}

/// One partition's log. Lives on one shard; share it by `Rc`.
#[derive(Debug)]
pub struct Log<D: Disk> {
    home: Rc<Home<D>>,
    topic_id: Option<TopicId>,
    config: Cell<LogConfig>,
    status: Cell<Status>,
    gate: Gate,
    /// Entered after `gate` by whoever needs both.
    sync_gate: Gate,
    /// In order of base offset, never empty.
    segments: RefCell<Vec<Rc<Segment<D>>>>,
    log_start: Cell<Offset>,
    log_end: Cell<Offset>,
    recovery_point: Cell<Offset>,
    durable_end: Cell<Offset>,
    /// The offset of the newest producer snapshot on disk.
    snapshot_at: Cell<Option<Offset>>,
    /// Producer snapshots that no sync has reached yet.
    snapshots_unsynced: RefCell<Vec<Rc<D::File>>>,
    epochs: RefCell<EpochCache>,
    /// The file says something else than `epochs`.
    epochs_unwritten: Cell<bool>,
    tail: RefCell<Tail>,
    trash: Trash<D>,
    /// The closed segment that was read last: only it keeps its files open.
    read_last: RefCell<Option<Rc<Segment<D>>>>,
    pace: Cell<Pace>,
    /// Bytes held ahead of the end.
    held_bytes: Cell<u64>,
    preparing: Rc<Preparing>,
    /// How often segments were replaced: a read that meets it begins again.
    changes: Cell<u64>,
    /// Files of segments that the list still holds are being renamed.
    is_replacing: Cell<bool>,
}

impl<D: Disk> Log<D> {
    /// Where the largest epoch at most `epoch` ends; `None` when unknown (OffsetForLeaderEpoch: −1, −1).
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<EpochEnd> {
        let epochs = self.epochs.borrow();
        epochs.end_offset_for(epoch, self.log_end.get())
    }

    /// The latest leader epoch that the log has recorded.
    pub fn latest_epoch(&self) -> Option<EpochEntry> {
        self.epochs.borrow().latest()
    }

    /// The leader epoch of the record at `offset`.
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.epochs.borrow().epoch_at(offset)
    }

    /// The first offset that can be read.
    pub fn log_start(&self) -> Offset {
        self.log_start.get()
    }

    /// The next offset to be appended.
    pub fn log_end(&self) -> Offset {
        self.log_end.get()
    }

    /// Everything below is durable.
    pub fn recovery_point(&self) -> Offset {
        self.recovery_point.get()
    }

    /// Bytes of all segments.
    pub fn size_bytes(&self) -> u64 {
        self.segments.borrow().iter().map(|s| s.size_bytes()).sum()
    }

    /// The number of segments.
    pub fn segment_count(&self) -> usize {
        self.segments.borrow().len()
    }

    /// Bytes of the active segment that are neither durable nor on their way to the device.
    pub fn write_back_lag_bytes(&self) -> u64 {
        self.active().write_back_lag_bytes()
    }

    /// Whether an earlier write or sync failed.
    pub fn is_failed(&self) -> bool {
        self.status.get() == Status::Failed
    }

    /// Changes the topic settings; they hold from the next append.
    pub fn set_config(&self, config: LogConfig) {
        self.config.set(config);
    }

    /// The topic id in `partition.metadata`, if the file is there.
    pub fn topic_id(&self) -> Option<TopicId> {
        self.topic_id
    }

    /// The partition's directory.
    pub fn directory(&self) -> &Path {
        &self.home.directory
    }

    pub(crate) fn check_open(&self) -> Result<(), StorageError> {
        let path = || self.home.directory.clone();
        match self.status.get() {
            Status::Open => Ok(()),
            Status::Failed => Err(StorageError::Failed { path: path() }),
            Status::Closed => Err(StorageError::Closed { path: path() }),
        }
    }

    /// Marks the log failed by `error`.
    fn fail(&self, error: DiskError) -> StorageError {
        self.status.set(Status::Failed);
        tracing::error!(log = %self.home.directory.display(), %error, "log failed");
        StorageError::Disk(error)
    }

    fn active(&self) -> Rc<Segment<D>> {
        let segments = self.segments.borrow();
        Rc::clone(segments.last().expect("there is always an active segment"))
    }

    /// The segment that holds `offset` (or would), with its index in the list.
    fn segment_of(&self, offset: Offset) -> (usize, Rc<Segment<D>>) {
        let segments = self.segments.borrow();
        let index = segments
            .partition_point(|segment| segment.base <= offset)
            .saturating_sub(1);
        (index, Rc::clone(&segments[index]))
    }

    fn segment_at(&self, index: usize) -> Option<Rc<Segment<D>>> {
        self.segments.borrow().get(index).cloned()
    }

    /// Notes that `segment` is about to be read, and closes the files of the closed segment that was read before it.
    fn touch(&self, segment: &Rc<Segment<D>>) {
        let mut last = self.read_last.borrow_mut();
        if last.as_ref().is_some_and(|last| Rc::ptr_eq(last, segment)) {
            return;
        }
        let active = self.active();
        if Rc::ptr_eq(segment, &active) {
            return;
        }
        let before = last.replace(Rc::clone(segment));
        if let Some(before) = before.filter(|before| !Rc::ptr_eq(before, &active)) {
            before.release();
        }
    }

    fn epoch_path(&self) -> PathBuf {
        self.home.directory.join(EPOCHS_FILE)
    }
}

const EPOCHS_FILE: &str = "leader-epoch-checkpoint";
const METADATA_FILE: &str = "partition.metadata";
