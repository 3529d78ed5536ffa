//! Tests of waiting: one table or story per rule.

use pelton_model::read_level::ReadLevel;
use pelton_model::{Monotonic, Offset, PartitionId, TopicId, TopicPartition};

use super::*;

fn partition(index: i32) -> TopicPartition {
    TopicPartition {
        topic_id: TopicId([1; 16]),
        partition: PartitionId(index),
    }
}

fn watched(index: i32) -> WatchedEnd {
    WatchedEnd {
        partition: partition(index),
        level: ReadLevel::HighWatermark,
        seen: Offset(10),
        current: Offset(10),
    }
}

const FOREVER: Monotonic = Monotonic(u64::MAX);

/// Tells `purgatory` of `bytes` at a partition's high watermark; who wakes.
fn advance(purgatory: &mut Purgatory, index: i32, bytes: u64) -> Vec<u64> {
    let mut woken = Vec::new();
    purgatory.on_advance(
        partition(index),
        ReadLevel::HighWatermark,
        bytes,
        &mut woken,
    );
    woken.into_iter().map(|id| id.0).collect()
}

// Goal: no lost wake-up, and bounds. Method: a watch per row on a purgatory that holds one waiter of two partitions.
#[test]
fn watching() {
    fn check(partitions: &[WatchedEnd], bytes: u64, limits: (usize, usize), expected: Watched) {
        let mut purgatory = Purgatory::with_limits(limits.0, limits.1);
        let first = purgatory.watch(WaiterId(1), &[watched(0), watched(1)], 1, FOREVER);
        assert_eq!(first, Watched::Waiting);
        assert_eq!(
            purgatory.watch(WaiterId(2), partitions, bytes, FOREVER),
            expected
        );
        assert_eq!(
            purgatory.len(),
            if expected == Watched::Waiting { 2 } else { 1 }
        );
    }
    let moved = WatchedEnd {
        current: Offset(11),
        ..watched(1)
    };
    check(&[watched(0)], 1, (2, 3), Watched::Waiting);
    check(&[], 1, (2, 3), Watched::Waiting);
    check(&[watched(0)], 0, (2, 3), Watched::Moved);
    check(&[watched(0), moved], 100, (9, 9), Watched::Moved);
    check(&[watched(0)], 1, (1, 9), Watched::Full);
    check(&[watched(0), watched(1)], 1, (9, 3), Watched::Full);
}

// Goal: bytes add up over partitions; other partitions and levels do not count. Method: one waiter, several advances.
#[test]
fn bytes_add_up() {
    let mut purgatory = Purgatory::default();
    purgatory.watch(WaiterId(1), &[watched(0), watched(1)], 100, FOREVER);
    purgatory.watch(WaiterId(2), &[watched(1)], 30, FOREVER);
    assert_eq!(advance(&mut purgatory, 0, 60), []);
    assert_eq!(advance(&mut purgatory, 2, 60), []);
    let mut woken = Vec::new();
    purgatory.on_advance(partition(0), ReadLevel::LogEnd, 60, &mut woken);
    assert_eq!(woken, []);
    let mut both = advance(&mut purgatory, 1, 40);
    both.sort_unstable();
    assert_eq!(both, [1, 2]);
    assert!(purgatory.is_empty());
    assert_eq!(advance(&mut purgatory, 1, 40), []);
    assert_eq!(purgatory.next_deadline(), None);
}

// Goal: a partition that is gone wakes everyone at every level. Method: three waiters, one elsewhere.
#[test]
fn gone() {
    let mut purgatory = Purgatory::default();
    let follower = WatchedEnd {
        level: ReadLevel::LogEnd,
        ..watched(0)
    };
    purgatory.watch(WaiterId(1), &[watched(0), watched(1)], 100, FOREVER);
    purgatory.watch(WaiterId(2), &[follower, watched(0)], 100, FOREVER);
    purgatory.watch(WaiterId(3), &[watched(1)], 100, FOREVER);
    let mut woken = Vec::new();
    purgatory.on_gone(partition(0), &mut woken);
    woken.sort_unstable();
    assert_eq!(woken, [WaiterId(1), WaiterId(2)]);
    assert_eq!(purgatory.len(), 1);
    woken.clear();
    purgatory.drain(&mut woken);
    assert_eq!(woken, [WaiterId(3)]);
}

// Goal: deadlines in order, at the instant itself. Method: three waiters, one cancelled.
#[test]
fn deadlines() {
    let mut purgatory = Purgatory::default();
    for (id, deadline) in [(1, 30), (2, 10), (3, 20)] {
        purgatory.watch(WaiterId(id), &[watched(0)], 1, Monotonic(deadline));
    }
    assert!(purgatory.cancel(WaiterId(2)));
    assert!(!purgatory.cancel(WaiterId(2)));
    assert_eq!(purgatory.next_deadline(), Some(Monotonic(20)));
    let mut woken = Vec::new();
    purgatory.expire(Monotonic(19), &mut woken);
    assert_eq!(woken, []);
    purgatory.expire(Monotonic(30), &mut woken);
    assert_eq!(woken, [WaiterId(3), WaiterId(1)]);
    assert_eq!(advance(&mut purgatory, 0, 1), []);
}

// Goal: a partition named twice breaks nothing. Method: beside others in the same list; wake, then cancel the rest.
#[test]
fn named_twice() {
    let mut purgatory = Purgatory::default();
    purgatory.watch(
        WaiterId(1),
        &[watched(0), watched(1), watched(0)],
        10,
        FOREVER,
    );
    purgatory.watch(WaiterId(2), &[watched(0)], 100, FOREVER);
    assert_eq!(
        advance(&mut purgatory, 0, 5),
        [1],
        "counted once per mention"
    );
    assert!(purgatory.cancel(WaiterId(2)));
    assert_eq!(advance(&mut purgatory, 0, 500), []);
    assert_eq!(advance(&mut purgatory, 1, 500), []);
}

// Goal: acks=all waits until the watermark covers its batch, in offset order. Method: a story over two partitions.
#[test]
fn commits() {
    let mut waiters = CommitWaiters::with_limit(4);
    let watch = |waiters: &mut CommitWaiters, id, index, next: i64| {
        waiters.watch(
            WaiterId(id),
            partition(index),
            Offset(next),
            Offset(10),
            Monotonic(id),
        )
    };
    assert_eq!(watch(&mut waiters, 9, 0, 10), CommitWatched::Committed);
    for (id, index, next) in [(1, 0, 14), (2, 0, 12), (3, 1, 12), (4, 0, 20)] {
        assert_eq!(watch(&mut waiters, id, index, next), CommitWatched::Waiting);
    }
    assert_eq!(watch(&mut waiters, 5, 0, 12), CommitWatched::Full);
    let mut woken = Vec::new();
    waiters.on_high_watermark(partition(0), Offset(11), &mut woken);
    assert_eq!(woken, []);
    waiters.on_high_watermark(partition(0), Offset(14), &mut woken);
    assert_eq!(woken, [WaiterId(2), WaiterId(1)]);
    assert_eq!(waiters.next_deadline(), Some(Monotonic(3)));
    woken.clear();
    waiters.expire(Monotonic(3), &mut woken);
    assert_eq!(woken, [WaiterId(3)]);
    woken.clear();
    waiters.on_gone(partition(0), &mut woken);
    assert_eq!(woken, [WaiterId(4)]);
    assert!(waiters.is_empty());
    assert!(!waiters.cancel(WaiterId(4)));
    assert_eq!(waiters.next_deadline(), None);
}
