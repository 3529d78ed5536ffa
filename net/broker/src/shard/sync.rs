//! When logs are synced, and many at once.
//!
//! A topic's settings come down to two rules ([`SyncTerms`]): how many records may be unsynced when one is acknowledged
//! (`flush.messages`; none with `sync.policy=group`), and for how long (`flush.ms`; `sync.interval.ms` with `sync.policy=interval`).
//!
//! Group commit: the flush of a partition writes what is queued, syncs, and only then moves the partition's ends, so that nothing is
//! acknowledged or seen before it is durable. Whatever arrives meanwhile is queued and shares the next sync. Partitions sync beside
//! each other: the device and the filesystem's journal group what comes together.
//!
//! Invariants:
//! 1. Under `group`, what is acknowledged or seen was written before a sync began that has ended well.
//! 2. A partition with a time limit is listed from its first unsynced record until a sync begins; one tick looks at the list. No timer
//!    and no task for each partition.
//! 3. At most [`AT_ONCE_MAX`] logs of a shard are under way in one sweep: the disk shares its work among those, and each holds files.
//! 4. A failed sync takes the log directory offline and is never tried again.
//!
//! Not here: what a sync of one log is (`storage::log`).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use pelton_model::config::topic::{SyncPolicy, TopicConfig};
use pelton_model::task::Notify;
use pelton_model::{Monotonic, Offset};
use pelton_storage::disk::Disk;
use pelton_storage::{Log, LogConfig, StorageError};
use pelton_transport::net::{Net, TaskClass};

use super::Shard;
use super::directory::DirIndex;
use super::image::LogPlace;
use super::slot::Slot;
use crate::env::Env;

/// Logs that are worked on at once.
pub(crate) const AT_ONCE_MAX: usize = 64;
/// What the settings say for "never".
const NEVER: i64 = i64::MAX;

/// When a partition's records must be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyncTerms {
    /// A record is acknowledged only with fewer unsynced ones than this.
    records_max: i64,
    flush_ms: i64,
    interval_ms: i64,
}

impl SyncTerms {
    /// What a topic's settings come down to.
    pub(crate) fn of(config: &TopicConfig) -> Self {
        let policy = config.sync_policy;
        Self {
            records_max: match policy {
                SyncPolicy::Group => 1,
                SyncPolicy::None | SyncPolicy::Interval => config.flush_messages,
            },
            flush_ms: config.flush_ms,
            interval_ms: match policy {
                SyncPolicy::Interval => config.sync_interval_ms,
                SyncPolicy::None | SyncPolicy::Group => NEVER,
            },
        }
    }

    /// Whether an append may have to wait for a sync.
    pub(crate) fn may_wait(self) -> bool {
        self.records_max < NEVER
    }

    /// Whether a record may be acknowledged only after a sync, with `unsynced` records of its log, itself included.
    fn must_wait(self, unsynced: i64) -> bool {
        self.records_max <= unsynced
    }

    fn is_timed(self) -> bool {
        self.flush_ms.min(self.interval_ms) < NEVER
    }

    /// When what was written at `since` must be synced. `flush.ms` is looked at every `scheduler_ms`.
    fn deadline(self, since: Monotonic, scheduler_ms: i64) -> Option<Monotonic> {
        let after = |ms: i64| {
            let ms = u64::try_from(ms).unwrap_or(0);
            (ms < NEVER.cast_unsigned()).then(|| since.plus_ms(ms))
        };
        let flush = after(self.flush_ms).and_then(|due| scheduled(due, scheduler_ms));
        flush.into_iter().chain(after(self.interval_ms)).min()
    }
}

/// The first look at `due` or later, where looks come every `scheduler_ms`; "never" stands for every tick, since whoever sets
/// `flush.ms` alone wants it to hold.
fn scheduled(due: Monotonic, scheduler_ms: i64) -> Option<Monotonic> {
    let Some(step) = u64::try_from(scheduler_ms)
        .ok()
        .filter(|&ms| 0 < ms && ms < NEVER.cast_unsigned())
    else {
        return Some(due);
    };
    let step = step.checked_mul(1_000_000)?;
    due.0.div_ceil(step).checked_mul(step).map(Monotonic)
}

/// A partition's part in all this.
#[derive(Debug)]
pub(crate) struct SyncState {
    terms: Cell<SyncTerms>,
    /// When the oldest record was written that no sync has begun for; only while there is a time limit.
    unsynced_since: Cell<Option<Monotonic>>,
}

impl SyncState {
    pub(crate) fn new(config: &TopicConfig) -> Self {
        Self {
            terms: Cell::new(SyncTerms::of(config)),
            unsynced_since: Cell::new(None),
        }
    }

    pub(crate) fn terms(&self) -> SyncTerms {
        self.terms.get()
    }
}

/// The slots with a time limit that hold unsynced records.
pub(crate) type Unsynced<E> = RefCell<Vec<Rc<Slot<E>>>>;

/// The log directories in which logs were created that are not durable yet.
pub(crate) type CreatedIn = RefCell<BTreeSet<DirIndex>>;

impl<E: Env> Shard<E> {
    /// Syncs what was appended up to `next_offset` if it may not be acknowledged otherwise, else sees to it that it will be in time. Says
    /// whether it synced.
    pub(crate) async fn sync_appended(
        &self,
        slot: &Rc<Slot<E>>,
        next_offset: Offset,
    ) -> Result<bool, StorageError> {
        let terms = slot.sync.terms.get();
        if terms.may_wait() && terms.must_wait(next_offset.0 - slot.log().durable_end().0) {
            self.timed(slot.log().sync_records()).await?;
            return Ok(true);
        } else if terms.is_timed() {
            self.list_unsynced(slot);
        }
        Ok(false)
    }

    /// Counts a sync, and how long it took.
    async fn timed(
        &self,
        sync: impl Future<Output = Result<Offset, StorageError>>,
    ) -> Result<Offset, StorageError> {
        let begun = self.net.now();
        let synced = sync.await;
        if !matches!(synced, Err(StorageError::Closed { .. })) {
            self.metrics
                .on_synced(begun, self.net.now(), synced.is_ok());
        }
        synced
    }

    fn list_unsynced(&self, slot: &Rc<Slot<E>>) {
        if slot.sync.unsynced_since.get().is_none() {
            slot.sync.unsynced_since.set(Some(self.net.now()));
            self.unsynced.borrow_mut().push(Rc::clone(slot));
        }
    }

    /// Follows a change of the topic's settings.
    pub(crate) fn change_sync(&self, slot: &Rc<Slot<E>>, config: &TopicConfig) {
        let terms = SyncTerms::of(config);
        slot.sync.terms.set(terms);
        if terms.is_timed() && slot.log().durable_end() < slot.log().log_end() {
            self.list_unsynced(slot);
        }
    }

    /// Makes durable what an unclean stop left, where records count only when they are: a record sent again would be answered as
    /// appended.
    pub(crate) async fn sync_recovered(self: &Rc<Self>, slot: &Rc<Slot<E>>) {
        let unsynced = slot.log().log_end().0 - slot.log().durable_end().0;
        if unsynced == 0 || !slot.sync.terms.get().must_wait(unsynced) {
            return;
        }
        let synced = self.timed(slot.log().sync_records()).await;
        let rested = slot.log().rest().await;
        if let Err(error) = synced.and(rested) {
            self.fail_log(slot, &error);
        }
    }

    /// Begins the syncs whose time has come (maintenance).
    pub(crate) fn sync_due(self: &Rc<Self>, now: Monotonic) {
        if self.unsynced.borrow().is_empty() {
            return;
        }
        let scheduler_ms = self.config.log_flush_scheduler_interval_ms;
        let mut due = Vec::new();
        self.unsynced.borrow_mut().retain(|slot| {
            if slot.state.borrow().is_offline() || self.slot(slot.id).is_none() {
                return false;
            }
            let since = slot.sync.unsynced_since.get();
            let deadline =
                since.and_then(|since| slot.sync.terms.get().deadline(since, scheduler_ms));
            if deadline.is_some_and(|deadline| now < deadline) {
                return true;
            }
            slot.sync.unsynced_since.set(None);
            if deadline.is_some() && slot.log().durable_end() < slot.log().log_end() {
                due.push(Rc::clone(slot));
            }
            false
        });
        if due.is_empty() {
            return;
        }
        let shard = Rc::clone(self);
        self.net.spawn(TaskClass::Background, async move {
            let net = shard.net.clone();
            let sync = move |slot| {
                let shard = Rc::clone(&shard);
                async move { shard.sync_log(&slot).await }
            };
            for_each(&net, TaskClass::Background, due, sync).await;
        });
    }

    /// Creates the log of a partition; [`Shard::sync_created`] makes it last.
    pub(crate) async fn create_log(
        &self,
        place: &LogPlace,
        config: LogConfig,
    ) -> Result<Log<E::Disk>, StorageError> {
        self.created_in.borrow_mut().insert(place.dir);
        Log::create_in_batch(&self.store, &place.directory, place.id.topic_id, config).await
    }

    /// Makes the directories of new logs durable in their log directories, before the topics are seen.
    pub(crate) async fn sync_created(self: &Rc<Self>) {
        for dir in self.created_in.take() {
            let directories = &self.identity().directories;
            let path = &directories[dir.index()].path;
            if let Err(error) = self.store.disk().sync_dir(path).await {
                self.fail_directory(dir, &StorageError::Disk(error));
            }
        }
    }

    /// Makes what has been rolled durable beside the requests, so that a recovery scans no further back.
    pub(crate) fn sync_behind(self: &Rc<Self>, slot: &Rc<Slot<E>>) {
        let (shard, slot) = (Rc::clone(self), Rc::clone(slot));
        self.net.spawn(TaskClass::Background, async move {
            shard.sync_log(&slot).await;
        });
    }

    async fn sync_log(self: &Rc<Self>, slot: &Rc<Slot<E>>) {
        self.make_room(slot).await;
        let Err(error) = self.timed(slot.log().sync()).await else {
            return;
        };
        // Closed by a stop, which syncs by itself, or deleted: nothing has failed.
        if matches!(error, StorageError::Closed { .. }) {
            return;
        }
        self.fail_log(slot, &error);
    }
}

/// Does `work` for each of `items`, [`AT_ONCE_MAX`] at a time, and waits until all is done.
pub(crate) async fn for_each<N: Net, T: 'static, F: Future<Output = ()>>(
    net: &N,
    class: TaskClass,
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> F + 'static,
) {
    struct Sweep<T, W> {
        items: RefCell<VecDeque<T>>,
        work: W,
        workers: Cell<usize>,
        done: Notify,
    }
    let items: VecDeque<T> = items.into_iter().collect();
    let workers = items.len().min(AT_ONCE_MAX);
    if workers == 0 {
        return;
    }
    let sweep = Rc::new(Sweep {
        items: RefCell::new(items),
        work,
        workers: Cell::new(workers),
        done: Notify::default(),
    });
    for _ in 0..workers {
        let sweep = Rc::clone(&sweep);
        net.spawn(class, async move {
            loop {
                let next = sweep.items.borrow_mut().pop_front();
                let Some(item) = next else { break };
                (sweep.work)(item).await;
            }
            sweep.workers.set(sweep.workers.get() - 1);
            if sweep.workers.get() == 0 {
                sweep.done.notify();
            }
        });
    }
    sweep.done.notified().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(records_max: i64, flush_ms: i64, interval_ms: i64) -> SyncTerms {
        SyncTerms {
            records_max,
            flush_ms,
            interval_ms,
        }
    }

    // Goal: who waits for a sync. Method: a table of limits and unsynced records.
    #[test]
    fn acknowledgements_that_wait() {
        fn check(records_max: i64, unsynced: i64, waits: bool) {
            let terms = terms(records_max, NEVER, NEVER);
            assert_eq!(terms.may_wait() && terms.must_wait(unsynced), waits);
        }
        check(1, 1, true);
        check(1, 500, true);
        check(10, 9, false);
        check(10, 10, true);
        check(10, 11, true);
        check(NEVER, 1, false);
        check(NEVER, NEVER, false);
    }

    // Goal: when a sync is due. Method: a table of limits in ms, with the record written at 1 050 ms.
    #[test]
    fn deadlines() {
        fn check(flush_ms: i64, interval_ms: i64, scheduler_ms: i64, expected: Option<u64>) {
            let since = Monotonic(1_050 * 1_000_000);
            let deadline = terms(NEVER, flush_ms, interval_ms).deadline(since, scheduler_ms);
            let expected = expected.map(|ms| Monotonic(ms * 1_000_000));
            assert_eq!(
                deadline, expected,
                "{flush_ms} {interval_ms} {scheduler_ms}"
            );
        }
        check(NEVER, NEVER, NEVER, None);
        check(NEVER, NEVER, 100, None);
        check(500, NEVER, NEVER, Some(1_550));
        check(0, NEVER, NEVER, Some(1_050));
        check(500, NEVER, 1_000, Some(2_000));
        check(950, NEVER, 1_000, Some(2_000));
        check(951, NEVER, 1_000, Some(3_000));
        check(500, NEVER, 0, Some(1_550));
        check(500, NEVER, -1, Some(1_550));
        check(500, NEVER, NEVER - 1, None);
        check(NEVER, 300, 1_000, Some(1_350));
        check(500, 300, 1_000, Some(1_350));
        check(100, 1_200, 1_000, Some(2_000));
    }
}
