//! Putting a segment that compaction wrote in the place of those it was made from.
//!
//! Invariants:
//! 1. Before the new files are `.swap`, durably, nothing is gone; from then on a start finishes what a crash left.
//! 2. The list changes in one piece, under the gate, when the files are in place: a reader sees the old segments or the
//!    new one. A read that was under way when it changed begins again; one that does not find a file meanwhile waits for the change.
//! 3. What retention dropped meanwhile is not brought back: the replacement is given up.

use std::rc::Rc;

use pelton_model::{Monotonic, Offset};

use super::Log;
use crate::compaction::CleanError;
use crate::compaction::output::{self, CLEANED, Cleaned, SWAP, suffixed};
use crate::compaction::plan::SegmentFacts;
use crate::config::LogConfig;
use crate::disk::{Disk, DiskError};
use crate::error::StorageError;
use crate::segment::{Segment, file_path};

impl<D: Disk> Log<D> {
    /// What planning must know of the closed segments. Timestamps are read only when asked for.
    ///
    /// # Errors
    /// `Disk` and `Corrupt` when an index or a header cannot be read.
    pub async fn closed_segments(
        &self,
        with_first: bool,
        with_largest: bool,
    ) -> Result<Vec<SegmentFacts>, StorageError> {
        self.check_open()?;
        let closed = self.closed_below(self.active_base());
        let mut facts = Vec::with_capacity(closed.len());
        for segment in closed {
            let first_timestamp = match with_first {
                true => segment.first_timestamp().await?,
                false => None,
            };
            let largest_timestamp = match with_largest {
                true => segment.max_timestamp().await?.map(|max| max.timestamp),
                false => None,
            };
            facts.push(SegmentFacts {
                base: segment.base,
                size_bytes: segment.size_bytes(),
                first_timestamp,
                largest_timestamp,
            });
            if with_first || with_largest {
                segment.release();
            }
        }
        Ok(facts)
    }

    /// Where the active segment begins.
    pub fn active_base(&self) -> Offset {
        self.active().base
    }

    /// The topic settings.
    pub(crate) fn config(&self) -> LogConfig {
        self.config.get()
    }

    /// The disk that the log lies on.
    pub(crate) fn disk(&self) -> &D {
        &self.home.disk
    }

    /// The closed segments that lie below `end` as a whole.
    pub(crate) fn closed_below(&self, end: Offset) -> Vec<Rc<Segment<D>>> {
        let segments = self.segments.borrow();
        let closed = segments.len() - 1;
        let below = segments[1..].partition_point(|next| next.base <= end);
        segments[..below.min(closed)].to_vec()
    }

    /// Puts the segment written as `.cleaned` in the place of `old`.
    ///
    /// # Errors
    /// `Changed` when `old` is no longer part of the log, `Disk` before the point of no return, `Log` after it: the log
    /// has failed then, and the next start finishes the replacement.
    pub(crate) async fn replace(
        &self,
        disk: &D,
        old: &[Rc<Segment<D>>],
        cleaned: Cleaned,
        now: Monotonic,
    ) -> Result<(), CleanError> {
        assert_eq!(old[0].base, cleaned.base);
        if let Err(error) = self.check_open() {
            output::remove(disk, &self.home.directory, cleaned.base, CLEANED).await?;
            return Err(CleanError::Log(error));
        }
        if self.place_of(old).is_none() {
            output::remove(disk, &self.home.directory, cleaned.base, CLEANED).await?;
            return Err(CleanError::Changed);
        }
        self.make_swap(disk, cleaned).await?;
        let turn = self.gate.enter().await;
        if let Err(error) = self.check_open() {
            drop(turn);
            output::remove(disk, &self.home.directory, cleaned.base, SWAP).await?;
            return Err(CleanError::Log(error));
        }
        let Some(at) = self.place_of(old) else {
            drop(turn);
            output::remove(disk, &self.home.directory, cleaned.base, SWAP).await?;
            return Err(CleanError::Changed);
        };
        self.is_replacing.set(true);
        let replaced = self.replace_files(old, cleaned).await;
        self.is_replacing.set(false);
        replaced.map_err(|error| CleanError::Log(self.fail(error)))?;
        let new = Segment::new(&self.home, cleaned.base, cleaned.size_bytes);
        new.set_synced();
        if cleaned.has_transactions {
            new.set_has_aborted();
        }
        {
            let mut segments = self.segments.borrow_mut();
            segments.splice(at..at + old.len(), [Rc::new(new)]);
            assert!(segments.is_sorted_by(|a, b| a.base < b.base));
        }
        self.changes.set(self.changes.get() + 1);
        self.read_last.take();
        let is_gone = |base: Offset| old[1..].iter().any(|segment| segment.base == base);
        if self.snapshot_at.get().is_some_and(is_gone) {
            self.snapshot_at.set(None);
        }
        drop(turn);
        self.throw_away(old, now);
        let synced = disk.sync_dir(&self.home.directory).await;
        synced.map_err(|error| CleanError::Log(self.fail(error)))
    }

    /// Whether what a lookup found holds, which began when there had been `changes`. One that failed while files were renamed under
    /// it waits until they are in place.
    pub(super) async fn holds<T, E>(&self, changes: u64, found: &Result<T, E>) -> bool {
        if found.is_err() && self.is_replacing.get() {
            drop(self.gate.enter().await);
            return false;
        }
        self.changes.get() == changes
    }

    /// Makes the new files count: the point of no return.
    async fn make_swap(&self, disk: &D, cleaned: Cleaned) -> Result<(), CleanError> {
        let directory = &self.home.directory;
        let base = cleaned.base;
        for kind in cleaned.kinds() {
            let from = suffixed(directory, base, kind, CLEANED);
            let to = suffixed(directory, base, kind, SWAP);
            if let Err(error) = disk.rename(&from, &to).await {
                output::remove(disk, directory, base, SWAP).await?;
                output::remove(disk, directory, base, CLEANED).await?;
                return Err(error.into());
            }
        }
        disk.sync_dir(directory).await?;
        Ok(())
    }

    /// What `old` leaves behind goes after `file.delete.delay.ms`.
    fn throw_away(&self, old: &[Rc<Segment<D>>], now: Monotonic) {
        let due = now.plus_ms(self.config.get().file_delete_delay_ms);
        for segment in old {
            self.trash.put_segment(Rc::clone(segment), due);
        }
    }

    /// Where `old` stands in the list of segments.
    fn place_of(&self, old: &[Rc<Segment<D>>]) -> Option<usize> {
        let segments = self.segments.borrow();
        let at = segments.iter().position(|s| Rc::ptr_eq(s, &old[0]))?;
        let same = segments
            .get(at..at + old.len())?
            .iter()
            .zip(old)
            .all(|(a, b)| Rc::ptr_eq(a, b));
        (same && at + old.len() < segments.len()).then_some(at)
    }

    async fn replace_files(
        &self,
        old: &[Rc<Segment<D>>],
        cleaned: Cleaned,
    ) -> Result<(), DiskError> {
        for segment in old {
            // The snapshot at the base serves the new segment.
            segment.doom(segment.base != cleaned.base).await?;
        }
        for kind in cleaned.kinds() {
            let directory = &self.home.directory;
            let from = suffixed(directory, cleaned.base, kind, SWAP);
            let to = file_path(directory, cleaned.base, kind);
            self.home.disk.rename(&from, &to).await?;
        }
        Ok(())
    }
}
