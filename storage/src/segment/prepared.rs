//! What lies behind the end of a segment that is being written: filler, reserved blocks; and write-back behind its head.
//!
//! Invariants:
//! 1. No append writes where a helper may be writing filler: [`Segment::claim`] comes before each write.
//! 2. The file of a segment may be longer than the segment; only [`Segment::size_bytes`] says what is log.
//! 3. A segment is cut before the next one can be appended to: recovery would take filler between two segments for the end.
//! 4. Write-back never touches the last bytes: a page that is being written to the device can hold up the next append.

use std::cell::Cell;

use super::Segment;
use super::pace::Ahead;
use crate::disk::prepare::{FILL_PIECE_BYTES, Preparation};
use crate::disk::{Disk, DiskError, DiskFile};

/// Bytes before the end that are not written back early.
const HEAD_BYTES: u64 = FILL_PIECE_BYTES;

/// See the module.
#[derive(Debug)]
pub(super) struct Prepared {
    work: Preparation,
    /// Appends up to here need not ask `work`.
    free_to: Cell<u64>,
    /// Filler was asked up to here.
    filler_to: Cell<u64>,
    /// Blocks were asked up to here.
    reserve_to: Cell<u64>,
    /// The topic wants its files at full size: they are cut only when the segment ends.
    is_allocated: bool,
}

impl Prepared {
    fn new(end: u64, reserved: u64, is_allocated: bool) -> Self {
        Self {
            work: Preparation::new(end, reserved),
            free_to: Cell::new(end),
            filler_to: Cell::new(0),
            reserve_to: Cell::new(reserved),
            is_allocated,
        }
    }

    /// Bytes asked for beyond `end`; what the topic wants allocated is not ours to count.
    fn held_bytes(&self, end: u64) -> u64 {
        let filler = self.filler_to.get().saturating_sub(end);
        let reserved = if self.is_allocated {
            0
        } else {
            self.reserve_to.get()
        };
        filler + reserved.saturating_sub(end)
    }
}

impl<D: Disk> Segment<D> {
    /// Gives a new segment's file its full size at once. Where that fails, it grows as others do.
    pub(crate) async fn allocate(&self, size_bytes: u64) -> Result<(), DiskError> {
        let file = self.file().await?;
        match file.allocate(size_bytes).await {
            Ok(()) => {
                let prepared = Prepared::new(0, size_bytes, true);
                self.prepared.replace(Some(Box::new(prepared)));
            }
            Err(error) => tracing::warn!(%error, "cannot preallocate a segment"),
        }
        Ok(())
    }

    /// The owner writes `[size, end)` next: no filler may be on their way there.
    pub(super) fn claim(&self, end: u64) {
        let prepared = self.prepared.borrow();
        let Some(prepared) = &*prepared else {
            return;
        };
        if prepared.free_to.get() < end && self.size_bytes() < prepared.filler_to.get() {
            prepared.free_to.set(prepared.work.enter(end));
        }
    }

    /// Asks for more ahead of the end when half of it is used up, within `limit`; returns the bytes now held ahead.
    ///
    /// The caller keeps appends out; it has just written.
    pub(crate) fn prepare(&self, ahead: Ahead, limit: u64) -> u64 {
        let Some(file) = self.file.borrow().clone() else {
            return 0;
        };
        let end = self.size_bytes();
        let more = |asked: u64, bytes: u64| {
            let is_due = asked < (end + bytes / 2).min(limit);
            if is_due {
                (end + bytes).min(limit)
            } else {
                asked
            }
        };
        let mut prepared = self.prepared.borrow_mut();
        let prepared = prepared.get_or_insert_with(|| Box::new(Prepared::new(end, end, false)));
        let filler_to = more(prepared.filler_to.get(), ahead.fill_bytes);
        let reserve_to = more(prepared.reserve_to.get(), ahead.reserve_bytes);
        let filler_before = prepared.filler_to.replace(filler_to);
        let reserve_before = prepared.reserve_to.replace(reserve_to);
        if (filler_to, reserve_to) != (filler_before, reserve_before) {
            if prepared.work.ask(end, filler_to, reserve_to) {
                file.prepare(&prepared.work);
            }
            prepared.free_to.set(prepared.free_to.get().max(end));
        }
        prepared.held_bytes(end)
    }

    /// Whether something lies behind the end that goes when the log rests.
    pub(crate) fn is_prepared(&self) -> bool {
        let prepared = self.prepared.borrow();
        prepared
            .as_ref()
            .is_some_and(|prepared| !prepared.is_allocated)
    }

    /// Cuts what lies behind the end, of a segment that rests.
    pub(crate) async fn cut_prepared(&self) -> Result<(), DiskError> {
        if self.is_prepared() {
            self.end_preparing().await?;
        }
        Ok(())
    }

    /// Cuts what lies behind the end, of a segment that ends. The caller keeps appends out.
    pub(crate) async fn end_preparing(&self) -> Result<(), DiskError> {
        let Some(prepared) = self.prepared.take() else {
            return Ok(());
        };
        prepared.work.stop();
        self.file().await?.trim(self.size_bytes()).await?;
        // The cut counts as a part of the contents: what follows the segment is durable only if the cut is.
        self.durable.set(0);
        self.cuts.set(self.cuts.get().wrapping_add(1));
        self.has_changed();
        Ok(())
    }

    /// Bytes that are neither durable nor given to write-back.
    pub(crate) fn write_back_lag_bytes(&self) -> u64 {
        let begun = self.written_back.get().max(self.durable.get());
        self.size_bytes().saturating_sub(begun)
    }

    /// Starts write-back behind the head when a window of it has gathered.
    pub(crate) fn write_back(&self, window_bytes: u64) {
        let end = self.size_bytes().saturating_sub(HEAD_BYTES);
        let from = self.written_back.get();
        if end < from + window_bytes {
            return;
        }
        if let Some(file) = &*self.file.borrow() {
            let to = end / FILL_PIECE_BYTES * FILL_PIECE_BYTES;
            self.written_back.set(to);
            file.write_back(from, to);
        }
    }
}
