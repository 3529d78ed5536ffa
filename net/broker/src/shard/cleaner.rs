//! Compaction of the shard's logs: which one, at which pace.
//!
//! Invariants:
//! 1. One log at a time for each shard, the dirtiest first; between two pieces of work everything else runs.
//! 2. Reading, hashing, compressing and writing run on a thread of low priority (`Disk::background`), never on the shard.
//! 3. Only records below the last stable offset are cleaned, in closed segments, and none of a log that is being moved to another
//!    directory: its copy could keep a record whose tombstone is gone.
//! 4. A log that cannot be cleaned (damage, 2 GiB) is left alone until the next start, and said so once.
//! 5. The cleaners of all shards share `log.cleaner.io.max.bytes.per.second` and the memory for key maps evenly.
//!
//! Not here: what a pass does (`storage::compaction`).

use std::cell::Cell;
use std::rc::Rc;

use pelton_model::config::topic::TopicConfig;
use pelton_model::{Monotonic, Offset, Timestamp};
use pelton_storage::StorageError;
use pelton_storage::compaction::plan::{self, LogFacts};
use pelton_storage::compaction::{
    CleanError, Cleaned, HashSeed, LastRecord, LastRecords, Pass, PassOptions, Plan, Policy,
    Settings, Step,
};
use pelton_storage::disk::DiskError;
use pelton_transport::net::Net;

use super::Shard;
use super::slot::Slot;
use crate::boot::Opening;
use crate::env::Env;

/// Rests are taken in pieces of at most so long, so that a stop is not kept waiting.
const REST_MS_MAX: u64 = 500;

/// Between two pieces of work the cleaner rests so many times as long as the last one took: its thread may share the shard's
/// core, and a core that is never idle makes every request wait for its turn.
const PAUSE_SHARE: u64 = 3;
/// But no longer than this: a piece that took long has waited for the device or the core.
const PAUSE_NS_MAX: u64 = 2_000_000;

/// What compaction knows of one log.
#[derive(Debug, Default)]
pub(crate) struct CleanState {
    /// Everything below was cleaned; `None` before the first pass.
    pub(crate) to: Cell<Option<Offset>>,
    /// Whether a pass is under way.
    pub(crate) is_running: Cell<bool>,
    /// Cleaning was given up until the next start.
    is_uncleanable: Cell<bool>,
}

impl<E: Env> Slot<E> {
    /// Goes on where an earlier process stopped cleaning this log.
    pub(crate) fn resume_cleaning(&self, opening: &Opening) {
        let known = opening.partition(&self.topic, self.id.partition.0);
        let same = |found| found == self.id.topic_id;
        let to = known
            .filter(|known| known.topic_id.is_none_or(same))
            .and_then(|known| known.cleaned_to);
        // A log that lost its end is cleaned from its start: what lies there may be other records.
        self.cleaned
            .to
            .set(to.filter(|to| *to <= self.log().log_end()));
    }

    fn is_cleaned_at_all(&self) -> bool {
        self.config.borrow().cleanup_policy.compact
            && !self.cleaned.is_uncleanable.get()
            && !self.is_moving.get()
            && !self.state.borrow().is_offline()
    }

    /// Measures the log; `None` when it is not worth cleaning now.
    async fn plan_cleaning(&self, now: Timestamp) -> Result<Option<Plan>, StorageError> {
        let policy = policy(&self.config.borrow());
        let closed = self
            .log()
            .closed_segments(
                policy.max_compaction_lag_ms < i64::MAX,
                policy.min_compaction_lag_ms > 0,
            )
            .await?;
        let last_stable = self.state.borrow().last_stable();
        let facts = LogFacts {
            closed: &closed,
            active_base: self.log().active_base(),
            log_start: self.log().log_start(),
            log_end: self.log().log_end(),
            last_stable,
            cleaned_to: self.cleaned.to.get(),
        };
        let plan = plan::plan(&facts, &policy, now);
        Ok(plan.is_worthwhile(&policy).then_some(plan))
    }

    /// The last thing that each known producer wrote.
    fn last_records(&self) -> LastRecords {
        let state = self.state.borrow();
        let last = state.producers().iter().map(|(id, producer)| {
            let offset = producer.last_offset();
            let last = LastRecord {
                last_data_offset: (offset != Offset::NONE).then_some(offset),
                epoch: producer.epoch(),
            };
            (id, last)
        });
        last.collect()
    }
}

fn policy(config: &TopicConfig) -> Policy {
    Policy {
        min_cleanable_dirty_ratio: config.min_cleanable_dirty_ratio,
        min_compaction_lag_ms: config.min_compaction_lag_ms,
        max_compaction_lag_ms: config.max_compaction_lag_ms,
    }
}

impl<E: Env> Shard<E> {
    /// Runs until the shard stops.
    pub(crate) async fn run_cleaner(self: Rc<Self>) {
        while !self.is_stopping.get() {
            if !self.settings().log_cleaner.enable {
                self.rest().await;
                continue;
            }
            match self.dirtiest().await {
                Some((slot, plan)) => {
                    if !self.clean(&slot, plan).await {
                        self.rest().await;
                    }
                }
                None => self.rest().await,
            }
        }
    }

    /// Waits for `log.cleaner.backoff.ms`.
    async fn rest(&self) {
        // At least a little: what cannot be cleaned now is no reason to turn in circles.
        let ms = self.settings().log_cleaner.backoff_ms.max(10);
        self.wait_until(self.net.now().plus_ms(ms)).await;
    }

    async fn wait_until(&self, until: Monotonic) {
        while !self.is_stopping.get() {
            let now = self.net.now();
            if until <= now {
                return;
            }
            let piece = now.plus_ms(REST_MS_MAX);
            self.net.sleep_until(until.min(piece)).await;
        }
    }

    /// The log that is most worth cleaning.
    async fn dirtiest(&self) -> Option<(Rc<Slot<E>>, Plan)> {
        let now = self.net.wall_clock();
        let mut dirtiest: Option<(Rc<Slot<E>>, Plan)> = None;
        let mut compacted = Vec::new();
        self.for_each_slot(|slot| {
            if slot.is_cleaned_at_all() {
                compacted.push(Rc::clone(slot));
            }
        })
        .await;
        for slot in compacted {
            match slot.plan_cleaning(now).await {
                Ok(Some(plan)) => {
                    let known = dirtiest.as_ref().map(|(_, plan)| plan.dirty_ratio());
                    if known.is_none_or(|known| known < plan.dirty_ratio()) {
                        dirtiest = Some((slot, plan));
                    }
                }
                Ok(None) => {}
                // A log that failed or is closed says so elsewhere.
                Err(error) => {
                    tracing::debug!(topic = %slot.topic, partition = %slot.id.partition, %error, "cannot measure a log for compaction");
                }
            }
            self.net.yield_now().await;
        }
        dirtiest
    }

    /// Cleans a log; says whether that went well.
    async fn clean(self: &Rc<Self>, slot: &Rc<Slot<E>>, plan: Plan) -> bool {
        let started = self.net.now();
        slot.cleaned.is_running.set(true);
        let is_done = self.clean_some(slot, plan, started).await;
        slot.cleaned.is_running.set(false);
        is_done
    }

    async fn clean_some(
        self: &Rc<Self>,
        slot: &Rc<Slot<E>>,
        plan: Plan,
        started: Monotonic,
    ) -> bool {
        let mut pass = Pass::new(&slot.log(), self.pass_options(slot, plan));
        let result = self.run_pass(slot, &mut pass).await;
        match result {
            Ok(Some(cleaned)) => {
                slot.cleaned.to.set(Some(cleaned.cleaned_to));
                let counters = &self.metrics.counters;
                counters.cleaner_passes.add(1);
                counters.cleaner_read_bytes.add(cleaned.counts.read_bytes);
                counters
                    .cleaner_written_bytes
                    .add(cleaned.counts.written_bytes);
                let ms = self.net.now().since(started) / 1_000_000;
                tell_cleaned(slot, plan, &cleaned, ms);
                true
            }
            Ok(None) => {
                pass.abandon().await;
                false
            }
            Err(error) => {
                pass.abandon().await;
                self.on_clean_failed(slot, error);
                false
            }
        }
    }

    fn pass_options(&self, slot: &Slot<E>, plan: Plan) -> PassOptions {
        let mut seed = [0; 16];
        self.net.random(&mut seed);
        let (low, high) = seed.split_at(8);
        let word = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |word, byte| word << 8 | u64::from(*byte))
        };
        let cleaner = self.settings().log_cleaner;
        PassOptions {
            plan,
            settings: Settings {
                delete_retention_ms: slot.config.borrow().delete_retention_ms,
                last_records: slot.last_records(),
            },
            aborted: Vec::new(),
            now: self.net.wall_clock(),
            map_bytes_max: cleaner.dedupe_buffer_size / usize::from(self.shard_count),
            load_factor: cleaner.load_factor,
            seed: HashSeed([word(low), word(high)]),
        }
    }

    /// Steps through a pass; `None` when the shard stops first.
    async fn run_pass(
        &self,
        slot: &Slot<E>,
        pass: &mut Pass<E::Disk>,
    ) -> Result<Option<Cleaned>, CleanError> {
        let share =
            self.settings().log_cleaner.io_max_bytes_per_second / f64::from(self.shard_count);
        let mut pace = Pace::new(share, self.net.now());
        loop {
            let is_left = slot.is_moving.get() || self.slot(slot.id).is_none();
            if self.is_stopping.get() || is_left {
                return Ok(None);
            }
            let begun = self.net.now();
            match pass.step(&slot.log(), begun).await? {
                Step::Done(cleaned) => return Ok(Some(cleaned)),
                Step::Working { bytes } => {
                    self.net.yield_now().await;
                    let now = self.net.now();
                    let pause_ns = (now.since(begun) * PAUSE_SHARE).min(PAUSE_NS_MAX);
                    self.net
                        .sleep_until(Monotonic(now.0.saturating_add(pause_ns)))
                        .await;
                    if let Some(until) = pace.spend(bytes, self.net.now()) {
                        self.wait_until(until).await;
                    }
                }
            }
        }
    }

    fn on_clean_failed(self: &Rc<Self>, slot: &Rc<Slot<E>>, error: CleanError) {
        let (topic, partition) = (&slot.topic, slot.id.partition);
        match error {
            CleanError::Changed => {
                tracing::debug!(%topic, %partition, "segments changed under compaction");
            }
            CleanError::Log(StorageError::Closed { .. }) => {}
            CleanError::Log(error) => self.fail_log(slot, &error),
            CleanError::Disk(error) if is_passing(&error) => {
                tracing::warn!(%topic, %partition, %error, "compaction was given up for now");
            }
            CleanError::Disk(error) => self.fail_log(slot, &StorageError::Disk(error)),
            CleanError::Damaged { .. } | CleanError::TooLarge { .. } => {
                slot.cleaned.is_uncleanable.set(true);
                tracing::error!(%topic, %partition, %error, "the log cannot be compacted: it is left as it is until the next start");
            }
        }
    }
}

/// A full disk, or a want of descriptors or memory: the log itself lost nothing.
pub(super) fn is_passing(error: &DiskError) -> bool {
    const ENOSPC: i32 = 28;
    const EDQUOT: i32 = 122;
    let errno = error.source.raw_os_error();
    error.is_shortage() || matches!(errno, Some(ENOSPC | EDQUOT))
}

fn tell_cleaned<E: Env>(slot: &Slot<E>, plan: Plan, cleaned: &Cleaned, ms: u64) {
    let counts = cleaned.counts;
    tracing::info!(
        topic = %slot.topic, partition = %slot.id.partition,
        from = plan.first_dirty.0, to = cleaned.cleaned_to.0, is_partial = cleaned.is_partial,
        segments_before = cleaned.segments_before, segments_after = cleaned.segments_after,
        read_bytes = counts.read_bytes, kept_bytes = counts.written_bytes,
        read_records = counts.records_read, kept_records = counts.records_kept,
        keyless_records = counts.records_without_key, ms,
        "compacted"
    );
}

/// What is spent in so short a time is not waited for.
const BURST_MS: u64 = 100;

/// Bytes per second.
pub(super) struct Pace {
    bytes_per_second: f64,
    /// When what was spent so far is paid off.
    free_at: Monotonic,
}

impl Pace {
    pub(super) fn new(bytes_per_second: f64, now: Monotonic) -> Self {
        Self {
            bytes_per_second,
            free_at: now,
        }
    }

    /// Spends `bytes`; says until when to wait.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a time that need not be exact; casts of floats saturate"
    )]
    pub(super) fn spend(&mut self, bytes: u64, now: Monotonic) -> Option<Monotonic> {
        let cost_ns = (bytes as f64 * 1e9 / self.bytes_per_second.max(1.0)) as u64;
        let paid = self.free_at.max(now).0;
        self.free_at = Monotonic(paid.saturating_add(cost_ns));
        (now.plus_ms(BURST_MS) < self.free_at).then_some(self.free_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: the rate holds over time, whatever the size of the steps, and nothing is saved up. Method: a second of steps.
    #[test]
    fn pace() {
        let check = |bytes_per_second: f64, step: u64, expected_ms: u64| {
            let mut now = Monotonic(0);
            let mut pace = Pace::new(bytes_per_second, now);
            now = now.plus_ms(10_000);
            let start = now;
            for _ in 0..100 {
                if let Some(until) = pace.spend(step, now) {
                    assert!(now.plus_ms(BURST_MS) < until);
                    now = until;
                }
            }
            let ms = now.since(start) / 1_000_000;
            assert!(ms <= expected_ms, "{ms}");
            assert!(expected_ms <= ms + BURST_MS, "{ms}");
        };
        check(1e6, 10_000, 1_000);
        check(1e6, 100_000, 10_000);
        check(f64::MAX, 1 << 20, 0);
        check(0.5, 1, 100_000);
    }
}
