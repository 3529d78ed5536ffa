//! Snapshots of the metadata image, and a metadata log that therefore need not grow for ever.
//!
//! Invariants:
//! 1. A snapshot holds what the log up to its end comes to, all of it durable; its end is the end of a batch.
//! 2. A file with a snapshot's name is whole: it is written under another name, synced, renamed, and the directory synced.
//! 3. The log's start moves to a snapshot's end only when that snapshot is durable, and the newest snapshot is never removed.
//! 4. Changes go on meanwhile: what is written is a clone of the image, with a pause after each batch.
//! 5. A snapshot that cannot be written costs nobody anything: the log has it all. It is tried again later.
//!
//! Source: KIP-630; the retention rules of Apache Kafka 4.3's metadata log.

use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use pelton_machine::controller::QuorumImage;
use pelton_machine::image::MetadataImage;
use pelton_model::config::metadata_log::MetadataLogConfig;
use pelton_model::{Offset, Timestamp};
use pelton_protocol::metadata_snapshot::{SnapshotEncoder, SnapshotId};
use pelton_storage::StorageError;
use pelton_storage::disk::{Disk, DiskError, DiskFile, OpenMode};
use pelton_transport::net::Net;

use super::Controller;
use super::restore::{SnapshotFacts, Snapshots};
use crate::env::Env;
use crate::shard::Shard;

/// How often it is looked whether a snapshot is due.
const LOOK_MS: u64 = 500;
/// How long a snapshot that could not be written is left alone.
const RETRY_MS: u64 = 60_000;

/// Writes a file whole or not at all; returns its size.
pub(super) async fn write_file<D: Disk>(
    disk: &D,
    part: &Path,
    path: &Path,
    batches: &[Bytes],
) -> Result<u64, DiskError> {
    let file = disk.open(part, OpenMode::Truncate).await?;
    file.write_all_at(batches, 0).await?;
    let size_bytes = batches.iter().map(|batch| batch.len() as u64).sum();
    put_in_place(disk, &file, part, path).await?;
    Ok(size_bytes)
}

async fn put_in_place<D: Disk>(
    disk: &D,
    file: &D::File,
    part: &Path,
    path: &Path,
) -> Result<(), DiskError> {
    file.sync_data().await?;
    disk.rename(part, path).await?;
    disk.sync_dir(path.parent().unwrap_or(path)).await
}

/// What one snapshot will contain.
struct Subject {
    id: SnapshotId,
    image: MetadataImage,
    quorum: QuorumImage,
    last_contained: Timestamp,
}

impl<E: Env> Controller<E> {
    /// Writes snapshots and removes what they make superfluous, until the shard stops.
    pub(crate) async fn run_snapshots(self: Rc<Self>, shard: Rc<Shard<E>>) {
        let mut retry_at = shard.net.now();
        self.clean(&shard).await;
        while !shard.is_stopping.get() {
            shard
                .net
                .sleep_until(shard.net.now().plus_ms(LOOK_MS))
                .await;
            let now = shard.net.now();
            if now < retry_at || shard.is_stopping.get() || !self.snapshot_is_due(&shard) {
                continue;
            }
            match self.write_snapshot(&shard).await {
                Ok(()) => self.clean(&shard).await,
                Err(error) => {
                    tracing::error!(%error, "cannot write a metadata snapshot");
                    retry_at = now.plus_ms(RETRY_MS);
                    if error.operation == "sync" {
                        // The device lost something: nobody knows what else.
                        self.on_failed(&shard, &StorageError::Disk(error));
                    }
                }
            }
        }
    }

    fn snapshot_is_due(&self, shard: &Shard<E>) -> bool {
        let config = &shard.config.metadata_log;
        let newest = self.snapshots.borrow().keys().next_back().copied();
        let covered = newest.map_or(Offset::ZERO, |newest| newest.end);
        if self.has_failed.get() || self.image.borrow().next_offset() <= covered {
            return false;
        }
        let since = self.snapshot_at.get();
        let is_old = config.snapshot_interval_ms > 0
            && since.plus_ms(config.snapshot_interval_ms) <= shard.net.now();
        is_old || config.snapshot_bytes <= self.unsnapshotted_bytes.get()
    }

    async fn write_snapshot(&self, shard: &Shard<E>) -> Result<(), DiskError> {
        let subject = {
            let image = self.image.borrow();
            assert!(!image.in_transaction(), "a decision is one batch");
            Subject {
                id: SnapshotId {
                    end: image.next_offset(),
                    epoch: image.applied_epoch(),
                },
                image: image.clone(),
                quorum: self.quorum.borrow().clone(),
                last_contained: self.last_timestamp.get(),
            }
        };
        assert!(subject.id.end <= self.log.recovery_point());
        let bytes_before = self.unsnapshotted_bytes.get();
        let Some(size_bytes) = self.write_subject(shard, &subject).await? else {
            return Ok(());
        };
        let facts = SnapshotFacts {
            size_bytes,
            last_contained: Some(subject.last_contained),
        };
        self.snapshots.borrow_mut().insert(subject.id, facts);
        let written_meanwhile = self.unsnapshotted_bytes.get() - bytes_before;
        self.unsnapshotted_bytes.set(written_meanwhile);
        self.snapshot_at.set(shard.net.now());
        tracing::info!(snapshot = %subject.id, size_bytes, "wrote a metadata snapshot");
        Ok(())
    }

    /// Writes the file; none when the shard stops meanwhile.
    async fn write_subject(
        &self,
        shard: &Shard<E>,
        subject: &Subject,
    ) -> Result<Option<u64>, DiskError> {
        let disk = shard.store.disk();
        let part = self.log.directory().join(subject.id.partial_name());
        let path = self.log.directory().join(subject.id.file_name());
        let file = disk.open(&part, OpenMode::Truncate).await?;
        let mut encoder = SnapshotEncoder::new(subject.id.epoch, shard.net.wall_clock());
        let header = encoder.header(subject.last_contained, subject.quorum.snapshot_records());
        let mut position = 0;
        put(&file, header, &mut position).await?;
        let records = subject.image.to_records();
        let mut rest = records.as_slice();
        while !rest.is_empty() {
            let (batch, count) = encoder.records(rest);
            rest = &rest[count..];
            put(&file, batch, &mut position).await?;
            shard.net.yield_now().await;
            if shard.is_stopping.get() {
                return Ok(None);
            }
        }
        put(&file, encoder.footer(), &mut position).await?;
        put_in_place(disk, &file, &part, &path).await?;
        Ok(Some(position))
    }

    /// Moves the log's start to the end of `next`, and removes the snapshots before it.
    async fn drop_before(&self, shard: &Shard<E>, next: SnapshotId) -> Result<(), StorageError> {
        // Segments go a few at a time; the start moves at once.
        let mut segments = self.log.segment_count();
        loop {
            self.log
                .advance_log_start(next.end, shard.net.now())
                .await?;
            let left = self.log.segment_count();
            if left == segments {
                break;
            }
            segments = left;
        }
        let doomed: Vec<SnapshotId> = {
            let snapshots = self.snapshots.borrow();
            snapshots.range(..next).map(|(id, _)| *id).collect()
        };
        let disk = shard.store.disk();
        for id in doomed {
            let path = self.log.directory().join(id.file_name());
            disk.remove_file(&path).await?;
            self.snapshots.borrow_mut().remove(&id);
            tracing::info!(snapshot = %id, "removed a metadata snapshot beyond its retention");
        }
        disk.sync_dir(self.log.directory()).await?;
        Ok(())
    }

    /// Removes the oldest snapshots beyond the retention, and the part of the log before the next ones.
    async fn clean(&self, shard: &Shard<E>) {
        loop {
            let next = {
                let snapshots = self.snapshots.borrow();
                let now = shard.net.wall_clock();
                let config = &shard.config.metadata_log;
                first_to_keep(&snapshots, self.log.size_bytes(), config, now)
            };
            let Some(next) = next else {
                return;
            };
            if let Err(error) = self.drop_before(shard, next).await {
                tracing::error!(%error, "cannot remove old metadata");
                return;
            }
        }
    }
}

async fn put<F: DiskFile>(file: &F, batch: Bytes, position: &mut u64) -> Result<(), DiskError> {
    let size_bytes = batch.len() as u64;
    file.write_all_at(&[batch], *position).await?;
    *position += size_bytes;
    Ok(())
}

/// The second oldest snapshot, when the oldest is beyond the retention by size or by time.
pub(super) fn first_to_keep(
    snapshots: &Snapshots,
    log_bytes: u64,
    config: &MetadataLogConfig,
    now: Timestamp,
) -> Option<SnapshotId> {
    let mut oldest_first = snapshots.iter();
    let (_, oldest) = oldest_first.next()?;
    let (next, _) = oldest_first.next()?;
    let snapshot_bytes: u64 = snapshots.values().map(|facts| facts.size_bytes).sum();
    let is_too_large = u64::try_from(config.retention_bytes)
        .is_ok_and(|bytes_max| bytes_max < log_bytes + snapshot_bytes);
    let is_too_old = config.retention_ms >= 0
        && oldest
            .last_contained
            .is_some_and(|at| config.retention_ms < now.0.saturating_sub(at.0));
    (is_too_large || is_too_old).then_some(*next)
}
