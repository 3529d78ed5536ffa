//! acks=all batches that wait for the high watermark.
//!
//! Invariants:
//! 1. Each partition's waiters are ordered by the offset they wait for; those reached leave from the front.
//! 2. A waiter leaves once: reached, gone, expired or cancelled.
//!
//! With one in-sync replica nothing ever waits here: the watermark moves with the write.
//!
//! Source: Kafka's delayed produce.

use std::collections::BTreeSet;

use pelton_model::limits::COMMIT_WAITERS_MAX;
use pelton_model::map::Map;
use pelton_model::{Monotonic, Offset, TopicPartition};

use super::WaiterId;

/// The answer to [`CommitWaiters::watch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitWatched {
    /// The waiter waits.
    Waiting,
    /// The high watermark is there: answer now.
    Committed,
    /// Too many wait: answer REQUEST_TIMED_OUT; the batch stays.
    Full,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    partition: TopicPartition,
    offset: Offset,
    deadline: Monotonic,
}

/// The waiting batches of one shard. One id per batch: a request with several partitions has several.
#[derive(Debug)]
pub struct CommitWaiters {
    waiters_max: usize,
    waiters: Map<WaiterId, Waiter>,
    by_offset: Map<TopicPartition, BTreeSet<(Offset, WaiterId)>>,
    deadlines: BTreeSet<(Monotonic, WaiterId)>,
}

impl Default for CommitWaiters {
    fn default() -> Self {
        Self::new()
    }
}

impl CommitWaiters {
    /// Nobody waits; the bound is that of a shard.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(COMMIT_WAITERS_MAX)
    }

    /// Nobody waits; at most `waiters_max` will.
    #[must_use]
    pub fn with_limit(waiters_max: usize) -> Self {
        Self {
            waiters_max,
            waiters: Map::default(),
            by_offset: Map::default(),
            deadlines: BTreeSet::new(),
        }
    }

    /// Lets `id` wait until the high watermark of `partition`, now at `high_watermark`, reaches `next_offset` (the offset
    /// after the batch).
    ///
    /// # Panics
    /// When `id` waits already.
    pub fn watch(
        &mut self,
        id: WaiterId,
        partition: TopicPartition,
        next_offset: Offset,
        high_watermark: Offset,
        deadline: Monotonic,
    ) -> CommitWatched {
        if next_offset <= high_watermark {
            return CommitWatched::Committed;
        }
        if self.waiters.len() == self.waiters_max {
            return CommitWatched::Full;
        }
        let waiter = Waiter {
            partition,
            offset: next_offset,
            deadline,
        };
        let known = self.waiters.insert(id, waiter);
        assert!(known.is_none());
        self.by_offset
            .entry(partition)
            .or_default()
            .insert((next_offset, id));
        self.deadlines.insert((deadline, id));
        CommitWatched::Waiting
    }

    /// The high watermark of `partition` has moved: appends to `woken` whose batches are committed, in offset order.
    pub fn on_high_watermark(
        &mut self,
        partition: TopicPartition,
        high_watermark: Offset,
        woken: &mut Vec<WaiterId>,
    ) {
        self.wake_up_to(partition, high_watermark, woken);
    }

    /// `partition` was deleted, failed, or is led by someone else: appends its waiters to `woken`.
    pub fn on_gone(&mut self, partition: TopicPartition, woken: &mut Vec<WaiterId>) {
        self.wake_up_to(partition, Offset(i64::MAX), woken);
    }

    /// Lets `id` wait no longer. Returns whether it did.
    pub fn cancel(&mut self, id: WaiterId) -> bool {
        let Some(waiter) = self.waiters.remove(&id) else {
            return false;
        };
        self.deadlines.remove(&(waiter.deadline, id));
        if let Some(offsets) = self.by_offset.get_mut(&waiter.partition) {
            offsets.remove(&(waiter.offset, id));
            if offsets.is_empty() {
                self.by_offset.remove(&waiter.partition);
            }
        }
        true
    }

    /// Appends to `expired` everyone whose deadline is at or before `now`: REQUEST_TIMED_OUT.
    pub fn expire(&mut self, now: Monotonic, expired: &mut Vec<WaiterId>) {
        while let Some(&(deadline, id)) = self.deadlines.first() {
            if now < deadline {
                break;
            }
            expired.push(id);
            self.cancel(id);
        }
    }

    /// When to call [`CommitWaiters::expire`] next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// The number of waiters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    fn wake_up_to(&mut self, partition: TopicPartition, end: Offset, woken: &mut Vec<WaiterId>) {
        let Some(offsets) = self.by_offset.get_mut(&partition) else {
            return;
        };
        while let Some(&(offset, id)) = offsets.first() {
            if end < offset {
                return;
            }
            offsets.pop_first();
            let waiter = self
                .waiters
                .remove(&id)
                .expect("every offset belongs to a waiter");
            self.deadlines.remove(&(waiter.deadline, id));
            woken.push(id);
        }
        self.by_offset.remove(&partition);
    }
}
