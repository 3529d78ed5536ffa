//! Appending and rolling.
//!
//! Invariants:
//! 1. One append is one vectored write to the active segment, unless a roll falls in between.
//! 2. Offsets, sizes and the tail change only after the write has returned: a reader never sees what is not there.
//! 3. The leader epoch's start is on disk before the first batch of the epoch is; an epoch without a batch is known in memory
//!    only, so that a start with many idle partitions does not wait for as many syncs.
//! 4. An append that was dropped half-way leaves the log failed: nobody knows what it wrote.

use std::rc::Rc;

use bytes::Bytes;
use pelton_model::{LeaderEpoch, Offset, Timestamp};

use super::ahead::segment_bytes_max;
use super::{BatchFacts, Log, Status};
use crate::config::LogConfig;
use crate::disk::{Disk, DiskError};
use crate::error::StorageError;
use crate::format;
use crate::segment::Segment;
use crate::txn_index::AbortedTxn;

/// Fails the log unless disarmed.
struct Armed<'a, D: Disk>(Option<&'a Log<D>>);

impl<D: Disk> Drop for Armed<'_, D> {
    fn drop(&mut self) {
        if let Some(log) = self.0
            && log.status.get() == Status::Open
        {
            log.status.set(Status::Failed);
            tracing::error!(log = %log.home.directory.display(), "an append was abandoned half-way");
        }
    }
}

impl<D: Disk> Log<D> {
    /// Writes `batches` (whole, patched, in order; `facts` one for one) at the end of the log.
    ///
    /// One vectored write per call where no roll falls in between. Returns the next offset.
    ///
    /// # Errors
    /// `Disk` when the write failed, and the log with it; `Failed` and `Closed` afterwards.
    /// # Panics
    /// When the lengths differ or the offsets do not continue the log.
    /// # Cancel safety
    /// None once it is the caller's turn: a dropped append leaves the log failed.
    pub async fn append(
        &self,
        batches: &[Bytes],
        facts: &[BatchFacts],
    ) -> Result<Offset, StorageError> {
        self.append_with_aborted(batches, facts, &[]).await
    }

    /// As [`Log::append`]; some of the batches are markers that abort the transactions of `aborted`, in their order.
    ///
    /// # Errors
    /// As [`Log::append`].
    /// # Panics
    /// As [`Log::append`].
    /// # Cancel safety
    /// As [`Log::append`].
    pub async fn append_with_aborted(
        &self,
        batches: &[Bytes],
        facts: &[BatchFacts],
        aborted: &[AbortedTxn],
    ) -> Result<Offset, StorageError> {
        self.check_open()?;
        assert_eq!(batches.len(), facts.len());
        let _turn = self.gate.enter().await;
        self.check_open()?;
        self.assert_continues(facts);
        self.active().load_first_timestamp().await;
        let mut armed = Armed(Some(self));
        let mut start = 0;
        while start < batches.len() {
            let mut count = self.fitting(&batches[start..], &facts[start..]);
            if count == 0 {
                let base = facts[start].base_offset;
                self.roll_to(base, None)
                    .await
                    .map_err(|error| self.fail(error))?;
                count = self.fitting(&batches[start..], &facts[start..]).max(1);
            }
            let end = start + count;
            let (batches, facts) = (&batches[start..end], &facts[start..end]);
            self.write_aborted(facts, aborted)
                .await
                .map_err(|error| self.fail(error))?;
            self.write_run(batches, facts)
                .await
                .map_err(|error| self.fail(error))?;
            start = end;
        }
        armed.0 = None;
        Ok(self.log_end.get())
    }

    /// Whether `size_bytes` more would roll the active segment. The owner then calls [`Log::roll`] with a producer
    /// snapshot before it plans the append; otherwise `append` rolls without one, and a crash replays further back.
    pub fn roll_wanted(&self, size_bytes: usize) -> bool {
        let active = self.active();
        active.size_bytes() > 0
            && (room(&active, self.config.get()) < size_bytes as u64
                || index_full(&active, self.config.get()))
    }

    /// As [`Log::roll_wanted`], for the time of a batch: whether it comes `segment.ms` after the active segment's first.
    pub fn roll_due(&self, max_timestamp: Timestamp) -> bool {
        let active = self.active();
        let first = active.begun_at();
        first.is_some_and(|first| active.is_aged(first, max_timestamp, &self.config.get()))
    }

    /// Starts a new segment at the log end; does nothing while the active one is empty.
    ///
    /// `producer_snapshot` is `ProducerStates::encode_snapshot` as of the log end.
    ///
    /// # Errors
    /// `Disk` when a file could not be written, and the log failed with it.
    pub async fn roll(&self, producer_snapshot: Option<Bytes>) -> Result<(), StorageError> {
        self.check_open()?;
        let _turn = self.gate.enter().await;
        self.check_open()?;
        if self.active().size_bytes() == 0 {
            return Ok(());
        }
        self.roll_to(self.log_end.get(), producer_snapshot)
            .await
            .map_err(|error| self.fail(error))
    }

    /// Records that `epoch` begins at the log end: called on becoming leader, before the first append in it.
    ///
    /// # Errors
    /// `Failed` and `Closed`.
    pub async fn assign_epoch(&self, epoch: LeaderEpoch) -> Result<(), StorageError> {
        self.check_open()?;
        let _turn = self.gate.enter().await;
        self.check_open()?;
        self.begin_epoch(epoch, self.log_end.get());
        Ok(())
    }

    fn assert_continues(&self, facts: &[BatchFacts]) {
        let mut end = self.log_end.get();
        for batch in facts {
            // A follower may see gaps where its leader has compacted; nobody may go back.
            assert!(end <= batch.base_offset);
            assert!(batch.base_offset <= batch.last_offset);
            end = batch.last_offset.plus(1);
        }
    }

    /// How many of the batches fit the active segment. An empty segment takes one of any size.
    fn fitting(&self, batches: &[Bytes], facts: &[BatchFacts]) -> usize {
        let active = self.active();
        if index_full(&active, self.config.get()) {
            return 0;
        }
        let mut room = room(&active, self.config.get());
        let config = self.config.get();
        let mut first = active.begun_at();
        let mut count = 0;
        for (batch, facts) in batches.iter().zip(facts) {
            let size = batch.len() as u64;
            if first.is_some_and(|first| active.is_aged(first, facts.max_timestamp, &config)) {
                break;
            }
            first.get_or_insert(facts.max_timestamp);
            let alone = active.size_bytes() == 0 && count == 0;
            let fits = size <= room || alone;
            if !fits || active.relative(facts.last_offset).is_none() {
                break;
            }
            room = room.saturating_sub(size);
            count += 1;
        }
        count
    }

    /// Adds those of `aborted` whose markers are in the run to the active segment's index, before the log counts them.
    async fn write_aborted(
        &self,
        facts: &[BatchFacts],
        aborted: &[AbortedTxn],
    ) -> Result<(), DiskError> {
        let (Some(first), Some(last)) = (facts.first(), facts.last()) else {
            return Ok(());
        };
        let from = aborted.partition_point(|txn| txn.last_offset < first.base_offset);
        let to = aborted.partition_point(|txn| txn.last_offset <= last.last_offset);
        if from < to {
            self.active().append_aborted(&aborted[from..to]).await?;
        }
        Ok(())
    }

    async fn write_run(&self, batches: &[Bytes], facts: &[BatchFacts]) -> Result<(), DiskError> {
        let last = facts.last().expect("a run holds at least one batch");
        let latest = self.epochs.borrow().latest();
        if latest.is_none_or(|latest| latest.epoch < last.leader_epoch) {
            for batch in facts {
                self.begin_epoch(batch.leader_epoch, batch.base_offset);
            }
        }
        if self.epochs_unwritten.get() {
            let contents = format::encode_epochs(self.epochs.borrow().entries());
            let disk = &self.home.disk;
            disk.replace_file(&self.epoch_path(), &contents).await?;
            self.epochs_unwritten.set(false);
        }
        let active = self.active();
        active.load_indexes().await?;
        active.append(batches).await?;
        let indexes_full = self.note(&active, batches, facts);
        self.log_end.set(last.last_offset.plus(1));
        if indexes_full {
            active.write_out_indexes().await?;
        }
        let bytes = batches.iter().map(|batch| batch.len() as u64).sum();
        self.prepare_ahead(&active, bytes);
        Ok(())
    }

    fn note(&self, active: &Segment<D>, batches: &[Bytes], facts: &[BatchFacts]) -> bool {
        let interval = self.config.get().index_interval_bytes;
        let mut tail = self.tail.borrow_mut();
        let mut full = false;
        for (batch, facts) in batches.iter().zip(facts) {
            let position = active.size_bytes();
            full |= active.note(facts, batch.len(), interval);
            tail.push(facts.base_offset, facts.last_offset, position, batch);
        }
        full
    }

    fn begin_epoch(&self, epoch: LeaderEpoch, start: Offset) {
        if self.epochs.borrow_mut().assign(epoch, start) {
            self.epochs_unwritten.set(true);
        }
    }

    /// Closes the active segment and begins one at `base`. Nothing that was appended is synced here: [`Log::sync`] does,
    /// and until then the recovery point stays before the end of the closed segment.
    pub(super) async fn roll_to(
        &self,
        base: Offset,
        snapshot: Option<Bytes>,
    ) -> Result<(), DiskError> {
        let old = self.active();
        assert!(old.base < base);
        old.finish().await?;
        self.end_preparing().await?;
        if base <= self.recovery_point.get() && !old.is_synced() {
            // Recovery will not look before `base` again: what was written there must be durable first.
            let _turn = self.sync_gate.enter().await;
            old.sync().await?;
        }
        if let Some(snapshot) = snapshot {
            self.write_snapshot(base, &snapshot).await?;
        }
        let new = Rc::new(Segment::create(&self.home, base).await?);
        let config = self.config.get();
        if config.preallocate {
            new.allocate(segment_bytes_max(config)).await?;
        }
        self.ask_ahead(&new);
        self.tail.borrow_mut().clear();
        self.segments.borrow_mut().push(new);
        tracing::debug!(log = %self.home.directory.display(), base = base.0, "rolled");
        Ok(())
    }
}

fn room<D: Disk>(active: &Segment<D>, config: LogConfig) -> u64 {
    segment_bytes_max(config).saturating_sub(active.size_bytes())
}

fn index_full<D: Disk>(active: &Segment<D>, config: LogConfig) -> bool {
    // One more entry of the larger kind must fit, and one for the roll.
    active.size_bytes() > 0
        && active.index_size_bytes() + 24 > u64::from(config.index_size_bytes_max)
}
