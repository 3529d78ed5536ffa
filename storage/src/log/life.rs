//! Creation, close and deletion of a log.
//!
//! Invariants:
//! 1. `partition.metadata` is durable before the first batch can be.
//! 2. A closed log is whole on disk: indexes complete, producer snapshot at its end.

use std::cell::{Cell, RefCell};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;
use pelton_model::{Monotonic, Offset, TopicId};

use super::ahead::segment_bytes_max;
use super::gate::Gate;
use super::tail::Tail;
use super::{ClosedLog, Log, LogStore, METADATA_FILE, Status};
use crate::config::LogConfig;
use crate::disk::{Disk, DiskError, DiskFile};
use crate::epoch::EpochCache;
use crate::error::StorageError;
use crate::format;
use crate::segment::{Home, Segment};

/// What a log starts from.
pub(super) struct Parts<D: Disk> {
    pub(super) home: Rc<Home<D>>,
    pub(super) topic_id: Option<TopicId>,
    pub(super) config: LogConfig,
    pub(super) segments: Vec<Rc<Segment<D>>>,
    pub(super) log_start: Offset,
    pub(super) log_end: Offset,
    pub(super) recovery_point: Offset,
    pub(super) snapshot_at: Option<Offset>,
    pub(super) epochs: EpochCache,
    pub(super) epochs_unwritten: bool,
}

impl<D: Disk> Log<D> {
    pub(super) fn from_parts(store: &LogStore<D>, parts: Parts<D>) -> Self {
        assert!(!parts.segments.is_empty());
        assert!(parts.log_start <= parts.log_end);
        assert!(parts.recovery_point <= parts.log_end);
        Self {
            home: parts.home,
            topic_id: parts.topic_id,
            config: Cell::new(parts.config),
            status: Cell::new(Status::Open),
            gate: Gate::default(),
            sync_gate: Gate::default(),
            segments: RefCell::new(parts.segments),
            log_start: Cell::new(parts.log_start),
            log_end: Cell::new(parts.log_end),
            recovery_point: Cell::new(parts.recovery_point),
            durable_end: Cell::new(parts.recovery_point),
            snapshot_at: Cell::new(parts.snapshot_at),
            snapshots_unsynced: RefCell::default(),
            epochs: RefCell::new(parts.epochs),
            epochs_unwritten: Cell::new(parts.epochs_unwritten),
            tail: RefCell::new(Tail::new(&store.tail)),
            trash: store.trash.clone(),
            read_last: RefCell::new(None),
            pace: Cell::default(),
            held_bytes: Cell::new(0),
            preparing: Rc::clone(&store.preparing),
            changes: Cell::new(0),
            is_replacing: Cell::new(false),
        }
    }

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
        let log = Self::create_in_batch(store, directory, topic_id, config).await?;
        if let Some(parent) = directory.parent() {
            store.disk.sync_dir(parent).await?;
        }
        Ok(log)
    }

    /// As [`Log::create`], but the log directory is left to the caller: one sync of it for many new logs, before anybody is told of them.
    ///
    /// # Errors
    /// As [`Log::create`].
    pub async fn create_in_batch(
        store: &LogStore<D>,
        directory: &Path,
        topic_id: TopicId,
        config: LogConfig,
    ) -> Result<Self, StorageError> {
        Self::create_at(store, directory, topic_id, config, Offset::ZERO).await
    }

    /// As [`Log::create_in_batch`], with the first segment at `base`.
    pub(super) async fn create_at(
        store: &LogStore<D>,
        directory: &Path,
        topic_id: TopicId,
        config: LogConfig,
        base: Offset,
    ) -> Result<Self, StorageError> {
        let disk = &store.disk;
        disk.create_dir_all(directory).await?;
        let entries = disk.read_dir(directory).await?;
        if entries.iter().any(|entry| entry.name.ends_with(".log")) {
            let source = io::Error::from(io::ErrorKind::AlreadyExists);
            return Err(DiskError::new("create log in", directory, source).into());
        }
        // Whole or not at all: a start would take half a file for damage and refuse the partition.
        let metadata = directory.join(METADATA_FILE);
        let contents = Bytes::from(format::encode_partition_metadata(topic_id));
        let (file, temporary) = disk.write_temporary(&metadata, contents).await?;
        file.sync_data().await?;
        disk.rename(&temporary, &metadata).await?;
        let home = Rc::new(Home {
            disk: disk.clone(),
            directory: directory.to_owned(),
        });
        let first = Segment::create(&home, base).await?;
        if config.preallocate {
            first.allocate(segment_bytes_max(config)).await?;
        }
        // Many partitions may be made at once; the first append opens the files again.
        first.release();
        disk.sync_dir(directory).await?;
        first.set_named();
        let parts = Parts {
            home,
            topic_id: Some(topic_id),
            config,
            segments: vec![Rc::new(first)],
            log_start: base,
            log_end: base,
            recovery_point: base,
            snapshot_at: None,
            epochs: EpochCache::default(),
            epochs_unwritten: false,
        };
        Ok(Self::from_parts(store, parts))
    }

    /// Gives back the descriptors and buffers of a log that nobody used for a while; the next use opens them again.
    ///
    /// # Errors
    /// `Disk` when the last index entries could not be written, and the log failed with it.
    pub async fn rest(&self) -> Result<(), StorageError> {
        self.check_open()?;
        let _turn = self.gate.enter().await;
        self.check_open()?;
        let active = self.active();
        let written = active.write_out_indexes().await;
        written.map_err(|error| self.fail(error))?;
        let cut = active.cut_prepared().await;
        cut.map_err(|error| self.fail(error))?;
        self.hold(0);
        active.release();
        self.tail.borrow_mut().free();
        if let Some(read) = self.read_last.take() {
            read.release();
        }
        Ok(())
    }

    /// The directory failed: the log answers `Failed` from now on, and writes nothing more.
    pub fn abandon(&self) {
        if self.status.get() == Status::Open {
            self.status.set(Status::Failed);
        }
    }

    /// Gives back the descriptors of a failed log, so that its device can be taken away.
    pub async fn release_failed(&self) {
        let _turn = self.gate.enter().await;
        if self.status.get() != Status::Failed {
            return;
        }
        self.tail.borrow_mut().clear();
        for segment in self.segments.borrow().iter() {
            segment.release();
        }
        self.read_last.borrow_mut().take();
    }

    /// Final sync; writes `producer_snapshot` (`ProducerStates::encode_snapshot` as of the log end). The log then
    /// answers `Closed`.
    ///
    /// # Errors
    /// The clean marker of the directory must then not be written.
    pub async fn close(&self, producer_snapshot: Option<Bytes>) -> Result<ClosedLog, StorageError> {
        self.check_open()?;
        let _turn = self.gate.enter().await;
        self.check_open()?;
        self.close_open(producer_snapshot)
            .await
            .map_err(|error| self.fail(error))?;
        self.status.set(Status::Closed);
        self.tail.borrow_mut().clear();
        self.active().release();
        Ok(ClosedLog {
            recovery_point: self.recovery_point.get(),
            log_start: self.log_start.get(),
        })
    }

    async fn close_open(&self, producer_snapshot: Option<Bytes>) -> Result<(), DiskError> {
        let _turn = self.sync_gate.enter().await;
        self.active().finish().await?;
        self.end_preparing().await?;
        let end = self.log_end.get();
        if let Some(snapshot) = producer_snapshot
            && self.snapshot_at.get() != Some(end)
            && self.log_start.get() < end
        {
            self.write_snapshot(end, &snapshot).await?;
        }
        self.sync_all().await?;
        assert_eq!(end, self.recovery_point.get());
        Ok(())
    }

    /// Renames the directory to `<topic>-<partition>.<topic id>-delete` as Kafka does; it is removed after
    /// `file.delete.delay.ms` ([`LogStore::trash`]). The log answers `Closed` from the call on; file ranges handed out stay
    /// readable.
    ///
    /// # Errors
    /// `Disk`; what is left over is removed at the next start.
    pub async fn delete(&self, now: Monotonic) -> Result<(), StorageError> {
        self.status.set(Status::Closed);
        let _turn = self.gate.enter().await;
        self.tail.borrow_mut().clear();
        self.read_last.take();
        let disk = &self.home.disk;
        let doomed = doomed_path(&self.home.directory, self.topic_id);
        match disk.remove_dir_all(&doomed).await {
            Ok(()) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        disk.rename(&self.home.directory, &doomed).await?;
        self.trash.forget_below(&self.home.directory);
        let lent = {
            let segments = self.segments.borrow();
            segments
                .iter()
                .flat_map(|segment| segment.take_lent())
                .collect()
        };
        let due = now.plus_ms(self.config.get().file_delete_delay_ms);
        self.trash.put_log(doomed.clone(), lent, due);
        if let Some(parent) = doomed.parent() {
            disk.sync_dir(parent).await?;
        }
        Ok(())
    }
}

/// Directory names have at most 255 bytes: the topic's name is cut to leave room for the suffix.
const NAME_BYTES_MAX: usize = 255;

fn doomed_path(directory: &Path, topic_id: Option<TopicId>) -> PathBuf {
    let name = directory
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let (topic, partition) = name.rsplit_once('-').unwrap_or((&name, "0"));
    let id = u128::from_be_bytes(topic_id.unwrap_or(TopicId::ZERO).0);
    let suffix = format!("-{partition}.{id:032x}-delete");
    let room = NAME_BYTES_MAX.saturating_sub(suffix.len());
    let cut = topic.floor_char_boundary(room);
    directory.with_file_name(format!("{}{suffix}", &topic[..cut]))
}
