//! A log from the rows of the start-up manifest: two stamps are compared, nothing is opened or listed.
//!
//! Invariants:
//! 1. A log made from rows is what opening its directory after the same clean stop would give, with all five batches of each producer
//!    where Kafka's snapshot has one.
//! 2. Rows that contradict themselves or the disk give nothing: the log is then opened from its files.
//! 3. Only a log that was closed whole has rows.

use std::path::Path;
use std::rc::Rc;

use pelton_model::producer_state::{BatchRow, ProducerRow, ProducerStates};
use pelton_model::{
    LeaderEpoch, Offset, PartitionId, ProducerEpoch, ProducerId, Sequence, Timestamp, TopicId,
};

use super::life::Parts;
use super::{Log, LogStore, OpenOptions, Recovery, Status};
use crate::disk::Disk;
use crate::epoch::{EpochCache, EpochEntry};
use crate::segment::{FileKind, Home, Segment, file_path};
use crate::snapshot::{LogManifest, ProducerManifest, SegmentManifest};

impl<D: Disk> Log<D> {
    /// The rows of a closed log, or `None` when it was not closed whole. `producers` as of the log end.
    pub async fn manifest(
        &self,
        topic: &str,
        partition: PartitionId,
        producers: &[ProducerRow],
    ) -> Option<LogManifest> {
        let is_whole = self.status.get() == Status::Closed
            && self.recovery_point.get() == self.log_end.get()
            && self.segments.borrow().iter().all(|s| s.is_synced())
            // Opening the directory removes those at the next start.
            && !self.trash.has_below(&self.home.directory);
        if !is_whole {
            return None;
        }
        let active = self.active();
        let disk = &self.home.disk;
        let active_file = file_path(&self.home.directory, active.base, FileKind::Log);
        let active_stamp = disk.stamp(&active_file).await.ok()?;
        let directory_stamp = disk.stamp(&self.home.directory).await.ok()?;
        if active_stamp.size_bytes != active.size_bytes() {
            return None;
        }
        let epochs = self.epochs.borrow();
        Some(LogManifest {
            topic: topic.to_owned(),
            partition: partition.0,
            topic_id: self.topic_id?.0,
            log_start: self.log_start.get().0,
            log_end: self.log_end.get().0,
            snapshot_at: self.snapshot_at.get().map(|at| at.0),
            epochs: epochs
                .entries()
                .iter()
                .map(|entry| (entry.epoch.0, entry.start_offset.0))
                .collect(),
            epochs_unwritten: self.epochs_unwritten.get(),
            producers: producers.iter().map(producer_manifest).collect(),
            segments: self
                .segments
                .borrow()
                .iter()
                .map(|s| s.manifest())
                .collect(),
            directory_changed: directory_stamp.changed,
            active_changed: active_stamp.changed,
        })
    }

    /// The log that `rows` speak of; `None` when the directory is not as the clean stop left it, or the rows make no sense.
    pub async fn resume(
        store: &LogStore<D>,
        directory: &Path,
        rows: &LogManifest,
        options: OpenOptions,
    ) -> Option<(Self, Recovery)> {
        if !options.clean || !is_untouched(store, directory, rows).await {
            return None;
        }
        Self::from_rows(store, directory, rows, options)
    }

    /// The log that `rows` speak of, in a directory that is as they were made; `None` when they make no sense.
    pub(super) fn from_rows(
        store: &LogStore<D>,
        directory: &Path,
        rows: &LogManifest,
        options: OpenOptions,
    ) -> Option<(Self, Recovery)> {
        let home = Rc::new(Home {
            disk: store.disk.clone(),
            directory: directory.to_owned(),
        });
        let (start, end) = (Offset(rows.log_start), Offset(rows.log_end));
        let segments = segments(&home, &rows.segments, start, end)?;
        let entries = rows.epochs.iter().map(|&(epoch, start)| EpochEntry {
            epoch: LeaderEpoch(epoch),
            start_offset: Offset(start),
        });
        let epochs = EpochCache::from_entries(entries);
        let producers = ProducerStates::from_rows(rows.producers.iter().map(producer_row), end)?;
        let snapshot_at = rows.snapshot_at.map(Offset);
        if epochs.entries().len() != rows.epochs.len() || snapshot_at.is_some_and(|at| end < at) {
            return None;
        }
        let parts = Parts {
            home,
            topic_id: Some(TopicId(rows.topic_id)),
            config: options.config,
            segments,
            log_start: start,
            log_end: end,
            recovery_point: end,
            snapshot_at,
            epochs,
            epochs_unwritten: rows.epochs_unwritten,
        };
        let recovery = Recovery {
            log_end: end,
            producer_states: producers,
            truncated_bytes: 0,
            scanned_bytes: 0,
            rebuilt_indexes: 0,
        };
        Some((Self::from_parts(store, parts), recovery))
    }
}

async fn is_untouched<D: Disk>(store: &LogStore<D>, directory: &Path, rows: &LogManifest) -> bool {
    let Some(active) = rows.segments.last() else {
        return false;
    };
    let disk = &store.disk;
    let same_entries = disk
        .stamp(directory)
        .await
        .is_ok_and(|stamp| stamp.changed == rows.directory_changed);
    let file = file_path(directory, Offset(active.base), FileKind::Log);
    same_entries
        && disk.stamp(&file).await.is_ok_and(|stamp| {
            stamp.changed == rows.active_changed && stamp.size_bytes == active.size_bytes
        })
}

fn segments<D: Disk>(
    home: &Rc<Home<D>>,
    rows: &[SegmentManifest],
    start: Offset,
    end: Offset,
) -> Option<Vec<Rc<Segment<D>>>> {
    let mut segments: Vec<Rc<Segment<D>>> = Vec::with_capacity(rows.len());
    for row in rows {
        let segment = Segment::from_manifest(home, row, end)?;
        if segments
            .last()
            .is_some_and(|last| segment.base <= last.base)
        {
            return None;
        }
        segments.push(Rc::new(segment));
    }
    let first_holds_start = segments.first()?.base <= start && start <= end;
    let active = segments.last()?;
    let is_consistent = active.size_bytes() > 0 || active.base == end;
    (first_holds_start && is_consistent).then_some(segments)
}

fn producer_manifest(row: &ProducerRow) -> ProducerManifest {
    let batch = |batch: &BatchRow| {
        (
            batch.last_sequence.0,
            batch.last_offset.0,
            batch.offset_delta,
            batch.timestamp.0,
        )
    };
    ProducerManifest {
        id: row.producer.0,
        epoch: row.epoch.0,
        coordinator_epoch: row.coordinator_epoch,
        last_timestamp: row.last_timestamp.0,
        txn_first_offset: row.txn_first_offset.0,
        batches: row.batches.iter().map(batch).collect(),
    }
}

fn producer_row(rows: &ProducerManifest) -> ProducerRow {
    let batch = |&(sequence, offset, offset_delta, timestamp): &(i32, i64, i32, i64)| BatchRow {
        last_sequence: Sequence(sequence),
        last_offset: Offset(offset),
        offset_delta,
        timestamp: Timestamp(timestamp),
    };
    ProducerRow {
        producer: ProducerId(rows.id),
        epoch: ProducerEpoch(rows.epoch),
        coordinator_epoch: rows.coordinator_epoch,
        last_timestamp: Timestamp(rows.last_timestamp),
        txn_first_offset: Offset(rows.txn_first_offset),
        batches: rows.batches.iter().map(batch).collect(),
    }
}
