//! Making a log durable.
//!
//! Two kinds: [`Log::sync`] makes everything of the log durable and lets recovery pass it over; [`Log::sync_records`] only what a record
//! needs to survive a power cut: the log files and their names. Recovery rebuilds the rest of a segment that it looks at.
//!
//! Invariants:
//! 1. What is promised durable was written before its sync began.
//! 2. The syncs of one log run one after the other: of two at once, the kernel would tell only one of a failure.
//! 3. The order is Kafka's: log, indexes (that of aborted transactions included), producer snapshot, directory. No name becomes durable before what it names.
//! 4. The recovery point moves to an offset only after everything below it was synced, the indexes of closed segments included:
//!    recovery looks at the segment that holds it, and at none before.
//! 5. After a failed sync the log answers nothing more, and the sync is not tried again.

use std::rc::Rc;

use bytes::Bytes;
use pelton_model::Offset;

use super::Log;
use crate::disk::{Disk, DiskError, DiskFile};
use crate::error::StorageError;
use crate::segment::{FileKind, Segment, file_path};

impl<D: Disk> Log<D> {
    /// Makes everything appended before the call durable; returns the new recovery point. Appends may go on meanwhile.
    ///
    /// # Errors
    /// `Disk` when the sync failed, and the log with it: what the kernel dropped cannot be synced again.
    pub async fn sync(&self) -> Result<Offset, StorageError> {
        self.check_open()?;
        let _turn = self.sync_gate.enter().await;
        self.check_open()?;
        let synced = self.sync_all().await;
        synced.map_err(|error| self.fail_open(error))?;
        Ok(self.recovery_point.get())
    }

    /// Makes every record appended before the call durable; returns [`Log::durable_end`]. Costs one fdatasync where no segment was begun
    /// since the last sync. Appends may go on meanwhile.
    ///
    /// # Errors
    /// As [`Log::sync`].
    pub async fn sync_records(&self) -> Result<Offset, StorageError> {
        self.check_open()?;
        let _turn = self.sync_gate.enter().await;
        self.check_open()?;
        let synced = self.sync_log_files().await;
        synced.map_err(|error| self.fail_open(error))?;
        Ok(self.durable_end.get())
    }

    /// Every record below survives a power cut; never below the recovery point.
    pub fn durable_end(&self) -> Offset {
        self.durable_end.get()
    }

    async fn sync_log_files(&self) -> Result<(), DiskError> {
        let end = self.log_end.get();
        let unsynced = self.segments_where(|segment| {
            !segment.is_durable() || !segment.is_named() || segment.has_unsynced_aborted()
        });
        for segment in &unsynced {
            if !segment.is_durable() {
                segment.forgive(segment.sync_log().await)?;
            }
            // Recovery believes it below the recovery point.
            segment.forgive(segment.sync_aborted().await)?;
        }
        if unsynced.iter().any(|segment| !segment.is_named()) {
            self.sync_names(&unsynced).await?;
        }
        self.release_closed(&unsynced);
        self.advance_to(end);
        Ok(())
    }

    /// A sync failed: the log has, unless it was closed or deleted meanwhile.
    fn fail_open(&self, error: DiskError) -> StorageError {
        match self.check_open() {
            Ok(()) => self.fail(error),
            Err(closed) => closed,
        }
    }

    /// Gives back the descriptors of closed segments.
    fn release_closed(&self, segments: &[Rc<Segment<D>>]) {
        let active = self.active();
        for segment in segments.iter().filter(|segment| segment.base < active.base) {
            segment.release();
        }
    }

    /// What [`Log::sync`] does, for whoever has the turn.
    pub(super) async fn sync_all(&self) -> Result<(), DiskError> {
        let end = self.log_end.get();
        let unsynced = self.segments_where(|segment| !segment.is_synced() || !segment.is_named());
        for segment in &unsynced {
            segment.forgive(segment.sync().await)?;
        }
        let snapshots = self.snapshots_unsynced.borrow().clone();
        for snapshot in &snapshots {
            snapshot.sync_data().await?;
        }
        if !snapshots.is_empty() || unsynced.iter().any(|segment| !segment.is_named()) {
            self.sync_names(&unsynced).await?;
        }
        self.snapshots_unsynced
            .borrow_mut()
            .drain(..snapshots.len());
        self.release_closed(&unsynced);
        self.advance_to(end);
        Ok(())
    }

    fn segments_where(&self, wanted: impl Fn(&Segment<D>) -> bool) -> Vec<Rc<Segment<D>>> {
        let segments = self.segments.borrow();
        let found = segments.iter().filter(|segment| wanted(segment));
        found.map(Rc::clone).collect()
    }

    /// Makes the directory durable, and with it the names of `segments`.
    async fn sync_names(&self, segments: &[Rc<Segment<D>>]) -> Result<(), DiskError> {
        let added: Vec<u32> = segments.iter().map(|segment| segment.added()).collect();
        self.home.disk.sync_dir(&self.home.directory).await?;
        for (segment, added) in segments.iter().zip(added) {
            if segment.added() == added {
                segment.set_named();
            }
        }
        Ok(())
    }

    /// Takes note that all records below `end` are durable.
    fn advance_to(&self, end: Offset) {
        self.durable_end.set(self.durable_end.get().max(end));
        // A segment closed meanwhile has a new index entry: recovery must look at it again.
        let segments = self.segments.borrow();
        let closed = &segments[..segments.len() - 1];
        let unsynced = closed.iter().find(|segment| !segment.is_synced());
        let point = unsynced.map_or(end, |segment| segment.base.min(end));
        self.recovery_point
            .set(self.recovery_point.get().max(point));
    }

    /// Writes the producer snapshot of the log up to `end`; the next [`Log::sync`] makes it durable. One that a power cut spoils is
    /// dropped at the next start, and the one before it is used.
    pub(super) async fn write_snapshot(
        &self,
        end: Offset,
        contents: &Bytes,
    ) -> Result<(), DiskError> {
        let disk = &self.home.disk;
        let path = file_path(&self.home.directory, end, FileKind::Snapshot);
        let (file, temporary) = disk.write_temporary(&path, contents.clone()).await?;
        disk.rename(&temporary, &path).await?;
        self.snapshots_unsynced.borrow_mut().push(Rc::new(file));
        self.snapshot_at.set(Some(end));
        Ok(())
    }
}
