//! Keeping the active segment of a hot log prepared, and its dirty pages few.
//!
//! Invariants:
//! 1. A log that is cold holds nothing ahead of its end; what all logs of a shard hold is bounded by
//!    [`PREPARED_BYTES_MAX`].
//! 2. What is prepared or written back makes no difference to what is log: it changes cost, never contents.

use std::cell::Cell;

use super::{Log, LogStore};
use crate::config::{LogConfig, PREPARED_BYTES_MAX, PrepareOptions};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::segment::pace::PaceLimits;
use crate::segment::{SEGMENT_BYTES_MAX, Segment};

/// What the logs of a shard share about preparing.
#[derive(Debug, Default)]
pub(super) struct Preparing {
    options: Cell<PrepareOptions>,
    tick: Cell<u64>,
    held_bytes: Cell<u64>,
}

impl<D: Disk> LogStore<D> {
    /// Sets how logs prepare their tails and write back.
    pub fn set_prepare_options(&self, options: PrepareOptions) {
        self.preparing.options.set(options);
    }

    /// One more second has passed: what was appended in it is the pace of the next.
    pub fn tick(&self) {
        self.preparing.tick.set(self.preparing.tick.get() + 1);
    }

    /// Bytes that hot logs hold ahead of their ends: filler written, blocks reserved.
    pub fn prepared_bytes(&self) -> u64 {
        self.preparing.held_bytes.get()
    }
}

impl<D: Disk> Log<D> {
    /// After a write of `bytes` to the active segment, in its turn: asks for more ahead, and for write-back behind.
    pub(super) fn prepare_ahead(&self, active: &Segment<D>, bytes: u64) {
        let shared = &self.preparing;
        let options = shared.options.get();
        let mut pace = self.pace.get();
        pace.wrote(shared.tick.get(), bytes);
        self.pace.set(pace);
        if 0 < options.write_back_bytes {
            active.write_back(u64::from(options.write_back_bytes));
        }
        self.ask_ahead(active);
    }

    /// Asks for what the pace wants ahead of `active`; a segment that was just begun goes on at the pace of the one before.
    pub(super) fn ask_ahead(&self, active: &Segment<D>) {
        let shared = &self.preparing;
        let options = shared.options.get();
        let pace = self.pace.get();
        let ahead = pace.ahead(PaceLimits {
            fill_bytes_max: u64::from(options.fill_bytes_max),
            reserve_bytes_max: u64::from(options.reserve_bytes_max),
        });
        let wanted = ahead.fill_bytes + ahead.reserve_bytes;
        let of_others = shared
            .held_bytes
            .get()
            .saturating_sub(self.held_bytes.get());
        if wanted == 0 || PREPARED_BYTES_MAX < of_others + wanted {
            return;
        }
        let limit = segment_bytes_max(self.config.get());
        self.hold(active.prepare(ahead, limit));
    }

    pub(super) fn hold(&self, bytes: u64) {
        let before = self.held_bytes.replace(bytes);
        let total = &self.preparing.held_bytes;
        total.set((total.get() + bytes).saturating_sub(before));
    }

    /// Whether the log holds something ahead that nobody has used for a while: [`Log::cool`] gives it back.
    pub fn has_cooled(&self) -> bool {
        let now = self.preparing.tick.get();
        0 < self.held_bytes.get() && self.pace.get().is_cold(now)
    }

    /// Gives back what is prepared behind the end.
    ///
    /// # Errors
    /// `Disk` when the file could not be cut, and the log failed with it.
    pub async fn cool(&self) -> Result<(), StorageError> {
        self.check_open()?;
        let _turn = self.gate.enter().await;
        self.check_open()?;
        let cut = self.active().cut_prepared().await;
        cut.map_err(|error| self.fail(error))?;
        self.hold(0);
        Ok(())
    }

    /// The active segment ends: gives back what is prepared behind its end. The caller has the turn.
    pub(super) async fn end_preparing(&self) -> Result<(), crate::disk::DiskError> {
        self.active().end_preparing().await?;
        self.hold(0);
        Ok(())
    }
}

impl<D: Disk> Drop for Log<D> {
    fn drop(&mut self) {
        self.hold(0);
    }
}

pub(super) fn segment_bytes_max(config: LogConfig) -> u64 {
    u64::from(config.segment_size_bytes_max).min(SEGMENT_BYTES_MAX)
}
