//! Fetches that wait, on both sides: here for partitions of any shard, there for partitions of this one.
//!
//! Invariants:
//! 1. No lost wake-up: a watch names the end that its fetch saw; the owner compares it with the present one in the same stretch
//!    without await in which it lets it wait.
//! 2. Wake-ups to one peer are gathered over a turn and sent as one message.
//! 3. A fetch that is over withdraws its watches at every other owner, so none outlives it.

use std::rc::Rc;

use pelton_machine::partition::Progress;
use pelton_machine::purgatory::{Interest, WaiterId, Watched, WatchedEnd};
use pelton_model::map::Map;
use pelton_model::read_level::ReadLevel;
use pelton_model::task::Notify;
use pelton_model::{Monotonic, Offset, ShardId, TopicPartition};

use super::Shard;
use super::message::{Message, WatchId, WatchRequest};
use super::read::level;
use crate::env::Env;

/// Which watch of which shard a waiter of the purgatory is, and the wake-ups to be sent.
#[derive(Default)]
pub(crate) struct PeerWatches {
    by_waiter: Map<WaiterId, (ShardId, WatchId)>,
    by_watch: Map<(ShardId, WatchId), WaiterId>,
    next: u64,
    /// Gathered over a turn, in order of waking.
    woken: Vec<(ShardId, WatchId)>,
    /// Interests of other shards' sessions that fired in this turn.
    fired: Vec<Interest>,
}

impl PeerWatches {
    fn forget(&mut self, waiter: WaiterId) -> Option<(ShardId, WatchId)> {
        let watch = self.by_waiter.remove(&waiter)?;
        self.by_watch.remove(&watch);
        Some(watch)
    }
}

impl<E: Env> Shard<E> {
    /// Begins to wait: gives the number of the watch and what is notified.
    pub(crate) fn begin_wait(&self) -> (WatchId, Rc<Notify>) {
        let id = self.next_wait();
        (id, self.begin_wait_as(id))
    }

    /// The number of a wait that may begin later.
    pub(crate) fn next_wait(&self) -> WatchId {
        let id = self.next_watch.get();
        self.next_watch.set(id + 1);
        id
    }

    /// Begins to wait under a number of [`Shard::next_wait`].
    pub(crate) fn begin_wait_as(&self, id: WatchId) -> Rc<Notify> {
        let notify = Rc::new(Notify::default());
        self.waiting_fetches
            .borrow_mut()
            .insert(id, Rc::clone(&notify));
        notify
    }

    /// Whether a wait begun here goes on.
    pub(crate) fn is_waiting(&self, id: WatchId) -> bool {
        self.waiting_fetches.borrow().contains_key(&id)
    }

    /// Fetches of this shard's connections that wait.
    pub(crate) fn waiting_fetch_count(&self) -> usize {
        self.waiting_fetches.borrow().len()
    }

    /// Ends a wait begun here.
    pub(crate) fn end_wait(&self, id: WatchId) {
        self.waiting_fetches.borrow_mut().remove(&id);
    }

    /// Wakes fetches of this shard.
    pub(crate) fn wake_fetches(&self, watches: &[WatchId]) {
        let waiting = self.waiting_fetches.borrow();
        for notify in watches.iter().filter_map(|id| waiting.get(id)) {
            notify.notify();
        }
    }

    /// Wakes every fetch of this shard: it stops.
    pub(crate) fn wake_all_fetches(&self) {
        for notify in self.waiting_fetches.borrow().values() {
            notify.notify();
        }
    }

    /// Lets a fetch of `peer` (which may be this shard) wait for partitions of this one; wakes it at once when something moved.
    pub(crate) fn watch_for_peer(&self, peer: ShardId, request: WatchRequest) {
        let level = level(request.read_committed);
        let mut ends = Vec::with_capacity(request.items.len());
        let mut is_gone = self.is_stopping.get();
        for &(partition, seen) in &request.items {
            match self
                .slot(partition)
                .map(|slot| slot.state.borrow().end(level))
            {
                Some(current) => ends.push(WatchedEnd {
                    partition,
                    level,
                    seen,
                    current,
                }),
                None => is_gone = true,
            }
        }
        let mut watches = self.peer_watches.borrow_mut();
        let waiter = WaiterId(watches.next);
        watches.next += 1;
        let watched = if is_gone {
            Watched::Moved
        } else {
            let bytes_wanted = request.bytes_wanted as u64;
            self.purgatory
                .borrow_mut()
                .watch(waiter, &ends, bytes_wanted, request.deadline)
        };
        match watched {
            Watched::Waiting => {
                watches.by_waiter.insert(waiter, (peer, request.id));
                watches.by_watch.insert((peer, request.id), waiter);
            }
            Watched::Moved => {
                watches.woken.push((peer, request.id));
                drop(watches);
                self.post_wake_ups();
            }
            // The fetch waits for its deadline and answers with what there is then.
            Watched::Full => {}
        }
    }

    /// A fetch of `peer` is over.
    pub(crate) fn unwatch_for_peer(&self, peer: ShardId, id: WatchId) {
        let mut watches = self.peer_watches.borrow_mut();
        if let Some(waiter) = watches.by_watch.get(&(peer, id)).copied() {
            watches.forget(waiter);
            self.purgatory.borrow_mut().cancel(waiter);
        }
    }

    /// A partition moved: settles acks=all appends and notes whom to wake.
    pub(crate) fn on_progress(&self, partition: TopicPartition, progress: Progress, bytes: usize) {
        if let Some(high_watermark) = progress.high_watermark {
            self.settle_committed(partition, high_watermark);
        }
        let moved: [(ReadLevel, Option<Offset>); 3] = [
            (ReadLevel::LastStable, progress.last_stable),
            (ReadLevel::HighWatermark, progress.high_watermark),
            (ReadLevel::LogEnd, progress.log_end),
        ];
        let mut woken = Vec::new();
        for (level, end) in moved {
            if end.is_some() {
                // What a transaction held back is more than what was appended: whoever waits reads and sees.
                let is_more = level == ReadLevel::LastStable && progress.has_released;
                let bytes = if is_more { u64::MAX } else { bytes as u64 };
                let mut purgatory = self.purgatory.borrow_mut();
                purgatory.on_advance(partition, level, bytes, &mut woken);
            }
        }
        self.note_woken(&woken);
        if progress.high_watermark.is_some() || progress.last_stable.is_some() {
            self.fire_interests(partition);
        }
    }

    /// A partition was deleted, failed or changed its leader: whoever waits for it reads again and learns so.
    pub(crate) fn on_gone(&self, partition: TopicPartition) {
        let mut woken = Vec::new();
        self.purgatory.borrow_mut().on_gone(partition, &mut woken);
        self.note_woken(&woken);
        self.fire_interests(partition);
        self.post_wake_ups();
    }

    /// A partition changed: own sessions learn it at once, those of others with the wake-ups of the turn.
    fn fire_interests(&self, partition: TopicPartition) {
        let mut fired = Vec::new();
        self.standing.borrow_mut().fire(partition, &mut fired);
        for interest in fired {
            if interest.shard == self.id {
                self.session_fired(interest.session, interest.cell);
            } else {
                self.peer_watches.borrow_mut().fired.push(interest);
            }
        }
    }

    fn note_woken(&self, waiters: &[WaiterId]) {
        if waiters.is_empty() {
            return;
        }
        let mut watches = self.peer_watches.borrow_mut();
        for &waiter in waiters {
            if let Some(watch) = watches.forget(waiter) {
                watches.woken.push(watch);
            }
        }
    }

    /// Sends the wake-ups of a turn: one message to each shard concerned.
    pub(crate) fn post_wake_ups(&self) {
        let (woken, fired) = {
            let mut watches = self.peer_watches.borrow_mut();
            let woken = std::mem::take(&mut watches.woken);
            (woken, std::mem::take(&mut watches.fired))
        };
        if woken.is_empty() && fired.is_empty() {
            return;
        }
        for shard in self.shards() {
            let mine = fired.iter().filter(|interest| interest.shard == shard);
            let mine: Vec<(i32, u32)> = mine.map(|i| (i.session, i.cell)).collect();
            if !mine.is_empty() {
                self.calls.post(shard, Message::Fired(mine));
            }
            let watches: Vec<WatchId> = woken
                .iter()
                .filter(|(peer, _)| *peer == shard)
                .map(|&(_, id)| id)
                .collect();
            if shard == self.id {
                self.wake_fetches(&watches);
            } else if !watches.is_empty() {
                self.calls.post(shard, Message::Woken(watches));
            }
        }
    }

    /// Forgets watches whose deadline has passed (their fetches have gone on by themselves).
    pub(crate) fn expire_watches(&self, now: Monotonic) {
        let mut expired = Vec::new();
        self.purgatory.borrow_mut().expire(now, &mut expired);
        let mut watches = self.peer_watches.borrow_mut();
        for waiter in expired {
            watches.forget(waiter);
        }
    }
}
