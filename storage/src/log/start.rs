//! The log start: where it moves, and the segments that it leaves behind.
//!
//! Invariants:
//! 1. The log start never goes back and never passes the log end.
//! 2. A segment goes when the next one begins at or below the log start: the active one never.
//! 3. Segments leave the list before their files are renamed, oldest first: whatever a crash leaves is the end of a log.
//! 4. The epoch history begins at the log start. Its file may say more: every opening trims it again.
//!
//! Not here: keeping the log start over a restart (a checkpoint of the log directory, the broker's business).

use std::rc::Rc;

use pelton_model::{Monotonic, Offset};

use super::Log;
use crate::config::DISCARD_SEGMENTS_MAX;
use crate::disk::{Disk, DiskError};
use crate::error::StorageError;
use crate::segment::Segment;

impl<D: Disk> Log<D> {
    /// Moves the log start up to `to` (at most the log end; never down) and throws away whole segments below it, at most
    /// [`DISCARD_SEGMENTS_MAX`] of them: call again with any offset for the rest. Returns the log start.
    ///
    /// # Errors
    /// `Disk` when a file could not be renamed, and the log failed with it.
    pub async fn advance_log_start(
        &self,
        to: Offset,
        now: Monotonic,
    ) -> Result<Offset, StorageError> {
        self.check_open()?;
        let _turn = self.gate.enter().await;
        self.check_open()?;
        self.move_log_start(to);
        self.discard_below_start(now)
            .await
            .map_err(|error| self.fail(error))?;
        Ok(self.log_start.get())
    }

    pub(super) fn move_log_start(&self, to: Offset) {
        let to = to.min(self.log_end.get());
        if to <= self.log_start.get() {
            return;
        }
        self.log_start.set(to);
        self.epochs.borrow_mut().truncate_from_start(to);
    }

    /// Throws away segments that lie wholly below the log start; says how many. The caller has the turn.
    pub(super) async fn discard_below_start(&self, now: Monotonic) -> Result<usize, DiskError> {
        let start = self.log_start.get();
        let doomed: Vec<Rc<Segment<D>>> = {
            let mut segments = self.segments.borrow_mut();
            let later = segments.iter().skip(1);
            let below = later.take_while(|next| next.base <= start).count();
            segments.drain(..below.min(DISCARD_SEGMENTS_MAX)).collect()
        };
        let count = doomed.len();
        if count > 0 {
            self.changes.set(self.changes.get() + 1);
            tracing::info!(
                log = %self.home.directory.display(), count, log_start = start.0,
                "deleting segments below the log start"
            );
            self.discard(doomed, now).await?;
        }
        Ok(count)
    }

    /// Renames the files of closed segments, which the list no longer holds, to `.deleted`; they go after
    /// `file.delete.delay.ms`. The caller has the turn.
    ///
    /// A producer snapshot at a segment's base goes with it, unless a segment of the list has the same base.
    pub(crate) async fn discard(
        &self,
        segments: Vec<Rc<Segment<D>>>,
        now: Monotonic,
    ) -> Result<(), DiskError> {
        let due = now.plus_ms(self.config.get().file_delete_delay_ms);
        for segment in segments {
            let serves_another = {
                let kept = self.segments.borrow();
                assert!(!kept.iter().any(|kept| Rc::ptr_eq(kept, &segment)));
                kept.binary_search_by_key(&segment.base, |kept| kept.base)
                    .is_ok()
            };
            self.forget_read(&segment);
            segment.doom(!serves_another).await?;
            if !serves_another && self.snapshot_at.get() == Some(segment.base) {
                self.snapshot_at.set(None);
            }
            self.trash.put_segment(segment, due);
        }
        Ok(())
    }

    fn forget_read(&self, segment: &Rc<Segment<D>>) {
        let mut last = self.read_last.borrow_mut();
        if last.as_ref().is_some_and(|last| Rc::ptr_eq(last, segment)) {
            *last = None;
        }
    }
}
