//! Tests of the partition leader: one table per rule.

use pelton_model::producer_state::{MarkerFacts, ProducerStamp};
use pelton_model::{ProducerEpoch, ProducerId, Sequence};

use super::*;

const LOCAL: NodeId = NodeId(1);
const NO_PROGRESS: Progress = Progress {
    has_released: false,
    log_end: None,
    high_watermark: None,
    last_stable: None,
    is_fenced: false,
};

fn state(leader: i32, leader_epoch: i32, partition_epoch: i32, isr: &[i32]) -> PartitionState {
    PartitionState {
        local: LOCAL,
        leader: NodeId(leader),
        leader_epoch: LeaderEpoch(leader_epoch),
        partition_epoch: PartitionEpoch(partition_epoch),
        replicas: vec![NodeId(1), NodeId(2), NodeId(3)],
        isr: isr.iter().copied().map(NodeId).collect(),
    }
}

fn at(offset: i64) -> LogOffsets {
    LogOffsets {
        log_start: Offset(0),
        log_end: Offset(offset),
        high_watermark: Offset(offset),
    }
}

fn leader_of(isr: &[i32], min_isr: i32) -> Partition {
    Partition::new(state(1, 5, 9, isr), at(10), min_isr, ProducerStates::new())
}

/// The only replica, as on a single node.
fn alone() -> Partition {
    let state = PartitionState {
        replicas: vec![LOCAL],
        ..state(1, 5, 9, &[1])
    };
    Partition::new(state, at(10), 1, ProducerStates::new())
}

fn plain(count: i32) -> BatchFacts {
    BatchFacts {
        last_offset_delta: count - 1,
        producer: None,
        is_transactional: false,
        max_timestamp: Timestamp(1_000),
    }
}

fn idempotent(epoch: i16, sequence: i32, count: i32) -> BatchFacts {
    let stamp = ProducerStamp {
        id: ProducerId(7),
        epoch: ProducerEpoch(epoch),
        base_sequence: Sequence(sequence),
    };
    BatchFacts {
        producer: Some(stamp),
        ..plain(count)
    }
}

fn appended(partition: &mut Partition, count: i32) -> Progress {
    let planned = partition
        .plan_append(&plain(count), Acks::Leader, TxnGuard::None)
        .expect("a leader");
    let Planned::Append(plan) = planned else {
        panic!("no producer, no duplicate")
    };
    partition.on_appended(plan.leader_epoch, plan.next_offset())
}

// Goal: plans take offsets in order, and only written batches are visible. Method: two batches, then one write for both.
#[test]
fn plan_then_append() {
    let mut partition = alone();
    let first = partition.plan_append(&plain(3), Acks::All, TxnGuard::None);
    let plan = Plan {
        base_offset: Offset(10),
        last_offset: Offset(12),
        leader_epoch: LeaderEpoch(5),
    };
    assert_eq!(first, Ok(Planned::Append(plan)));
    let second = partition.plan_append(&plain(1), Acks::Leader, TxnGuard::None);
    assert_eq!(
        second,
        Ok(Planned::Append(Plan {
            base_offset: Offset(13),
            last_offset: Offset(13),
            ..plan
        }))
    );
    assert_eq!(partition.planned_end(), Offset(14));
    assert_eq!(
        (partition.log_end(), partition.high_watermark()),
        (Offset(10), Offset(10))
    );
    let progress = partition.on_appended(LeaderEpoch(5), Offset(14));
    let moved = Some(Offset(14));
    assert_eq!(
        progress,
        Progress {
            log_end: moved,
            high_watermark: moved,
            last_stable: moved,
            has_released: false,
            is_fenced: false
        }
    );
    assert_eq!(
        partition.on_appended(LeaderEpoch(5), Offset(14)),
        NO_PROGRESS
    );
}

// Goal: every refusal, in Kafka's order. Method: one partition and one batch per row; nothing is planned.
#[test]
fn refusals() {
    fn check(mut partition: Partition, facts: BatchFacts, acks: Acks, expected: PlanRefused) {
        let planned_end = partition.planned_end();
        assert_eq!(
            partition.plan_append(&facts, acks, TxnGuard::None),
            Err(expected)
        );
        assert_eq!(partition.planned_end(), planned_end);
    }
    let follower = || Partition::new(state(2, 5, 9, &[1, 2]), at(10), 1, ProducerStates::new());
    let leaderless = Partition::new(state(-1, 5, 9, &[1]), at(10), 1, ProducerStates::new());
    check(follower(), plain(1), Acks::Leader, PlanRefused::NotLeader);
    check(leaderless, plain(1), Acks::All, PlanRefused::NotLeader);
    check(
        leader_of(&[1], 2),
        plain(1),
        Acks::All,
        PlanRefused::NotEnoughReplicas,
    );
    let mut offline = follower();
    offline.go_offline();
    check(offline, plain(1), Acks::All, PlanRefused::Offline);
    let known = || {
        let mut partition = alone();
        partition
            .plan_append(&idempotent(2, 0, 3), Acks::Leader, TxnGuard::None)
            .expect("accepted");
        partition
    };
    check(
        known(),
        idempotent(2, 4, 1),
        Acks::Leader,
        PlanRefused::OutOfOrderSequence,
    );
    check(
        known(),
        idempotent(3, 3, 1),
        Acks::Leader,
        PlanRefused::OutOfOrderSequence,
    );
    check(
        known(),
        idempotent(1, 0, 3),
        Acks::Leader,
        PlanRefused::InvalidProducerEpoch,
    );
}

// Goal: the effective minimum is min(min.insync.replicas, replicas), so one replica accepts acks=all whatever the
// setting. Method: rows of replicas, ISR, setting.
#[test]
fn effective_min_isr() {
    fn check(replicas: &[i32], isr: &[i32], min_isr: i32, accepted: bool) {
        let replicas = replicas.iter().copied().map(NodeId).collect();
        let state = PartitionState {
            replicas,
            ..state(1, 5, 9, isr)
        };
        let mut partition = Partition::new(state, at(10), min_isr, ProducerStates::new());
        assert_eq!(
            partition
                .plan_append(&plain(1), Acks::All, TxnGuard::None)
                .is_ok(),
            accepted
        );
        assert!(
            partition
                .plan_append(&plain(1), Acks::Leader, TxnGuard::None)
                .is_ok()
        );
    }
    check(&[1], &[1], 1, true);
    check(&[1], &[1], 2, true);
    check(&[1, 2], &[1], 2, false);
    check(&[1, 2], &[1], 1, true);
    check(&[1, 2], &[1, 2], 3, true);
    check(&[1, 2, 3], &[1, 2], 3, false);
}

// Goal: a resent batch answers with the original's place, also before the original is written. Method: plan, resend,
// write, resend.
#[test]
fn duplicates() {
    let mut partition = alone();
    partition
        .plan_append(&idempotent(0, 0, 3), Acks::All, TxnGuard::None)
        .expect("accepted");
    let original = Planned::Duplicate(Duplicate {
        base_offset: Offset(10),
        last_offset: Offset(12),
        timestamp: Timestamp(1_000),
    });
    assert_eq!(
        partition.plan_append(&idempotent(0, 0, 3), Acks::All, TxnGuard::None),
        Ok(original)
    );
    assert_eq!(partition.planned_end(), Offset(13));
    partition.on_appended(LeaderEpoch(5), Offset(13));
    assert_eq!(
        partition.plan_append(&idempotent(0, 0, 3), Acks::All, TxnGuard::None),
        Ok(original)
    );
    let next = partition.plan_append(&idempotent(0, 3, 1), Acks::All, TxnGuard::None);
    assert!(matches!(
        next,
        Ok(Planned::Append(Plan {
            base_offset: Offset(13),
            ..
        }))
    ));
}

// Goal: the watermark waits for the maximal ISR and the minimum. Method: rows of ISR, minimum and follower positions
// after the leader has written up to 20.
#[test]
fn high_watermark() {
    fn check(isr: &[i32], min_isr: i32, followers: &[(i32, i64)], expected: i64) {
        let mut partition = leader_of(isr, min_isr);
        appended(&mut partition, 10);
        for &(node, fetch_offset) in followers {
            partition.on_follower_fetch(NodeId(node), Offset(fetch_offset), 3, Monotonic(1));
        }
        assert_eq!(
            partition.high_watermark(),
            Offset(expected),
            "{isr:?} {followers:?}"
        );
    }
    check(&[1], 1, &[], 20);
    check(&[1], 1, &[(2, 12)], 20);
    check(&[1], 2, &[], 10);
    check(&[1, 2], 1, &[], 10);
    check(&[1, 2], 1, &[(2, 15)], 15);
    check(&[1, 2], 1, &[(2, 20), (2, 16)], 20);
    check(&[1, 2, 3], 1, &[(2, 15)], 10);
    check(&[1, 2, 3], 1, &[(2, 15), (3, 13)], 13);
    check(&[1, 2], 1, &[(2, 999)], 20);
    check(&[1, 2], 1, &[(8, 20)], 10);
}

// Goal: a pending addition holds the watermark back at once, a pending removal frees it only when committed.
// Method: both proposals, before and after the image confirms.
#[test]
fn pending_isr() {
    let mut partition = leader_of(&[1, 2], 1);
    partition.on_follower_fetch(NodeId(2), Offset(10), 3, Monotonic(1));
    partition.propose_isr(IsrChange::Add(NodeId(3)));
    assert_eq!(
        partition.isr().proposed(),
        Some(vec![NodeId(1), NodeId(2), NodeId(3)])
    );
    appended(&mut partition, 5);
    partition.on_follower_fetch(NodeId(2), Offset(15), 3, Monotonic(2));
    assert_eq!(
        partition.high_watermark(),
        Offset(10),
        "3 may be in the ISR already"
    );
    partition.update(state(1, 5, 10, &[1, 2]));
    assert_eq!(
        partition.high_watermark(),
        Offset(15),
        "the controller refused it"
    );

    partition.propose_isr(IsrChange::Remove(NodeId(2)));
    assert_eq!(partition.isr().proposed(), Some(vec![NodeId(1)]));
    appended(&mut partition, 5);
    assert_eq!(
        partition.high_watermark(),
        Offset(15),
        "2 may still be in the ISR"
    );
    let updated = partition.update(state(1, 5, 11, &[1]));
    let moved = Some(Offset(20));
    let progress = Progress {
        high_watermark: moved,
        last_stable: moved,
        ..NO_PROGRESS
    };
    assert_eq!(updated, Updated::Merged(progress));
    assert_eq!(partition.isr().proposed(), None);
}

// Goal: merge rules of the two epochs. Method: an update per row against leader epoch 5, partition epoch 9.
#[test]
fn updates() {
    fn check(update: PartitionState, expected: Updated, followers_kept: bool) {
        let mut partition = leader_of(&[1, 2], 1);
        partition.on_follower_fetch(NodeId(2), Offset(10), 3, Monotonic(1));
        assert_eq!(partition.update(update), expected);
        let kept = partition
            .followers()
            .iter()
            .any(|f| f.log_end == Offset(10));
        assert_eq!(kept, followers_kept);
    }
    let merged = Updated::Merged(NO_PROGRESS);
    let leads = Updated::Leader {
        epoch_start: Offset(10),
        progress: NO_PROGRESS,
    };
    check(state(1, 5, 8, &[1]), Updated::Ignored, true);
    check(state(1, 4, 10, &[1]), Updated::Ignored, true);
    check(state(1, 5, 9, &[1, 2]), merged, true);
    check(state(1, 5, 10, &[1, 2, 3]), merged, true);
    check(state(1, 6, 10, &[1, 2]), leads, false);
    check(state(2, 6, 10, &[1, 2]), Updated::Follower, false);
    check(state(-1, 6, 10, &[1, 2]), Updated::Follower, false);
    let mut follower = Partition::new(state(2, 5, 9, &[1, 2]), at(10), 1, ProducerStates::new());
    assert_eq!(follower.update(state(2, 5, 10, &[2])), merged);
    assert_eq!(follower.update(state(3, 6, 11, &[3])), Updated::Follower);
    assert_eq!(follower.update(state(1, 7, 12, &[1, 2])), leads);
}

// Goal: writes planned before a change of leadership. Method: re-elected at once: the write counts; led by another in
// between: fenced.
#[test]
fn fenced_writes() {
    fn check(updates: &[PartitionState], is_fenced: bool, high_watermark: i64) {
        let mut partition = leader_of(&[1], 1);
        partition
            .plan_append(&plain(4), Acks::Leader, TxnGuard::None)
            .expect("a leader");
        for update in updates {
            partition.update(update.clone());
        }
        let progress = partition.on_appended(LeaderEpoch(5), Offset(14));
        assert_eq!(
            (progress.is_fenced, progress.log_end),
            (is_fenced, Some(Offset(14)))
        );
        assert_eq!(partition.high_watermark(), Offset(high_watermark));
    }
    check(&[], false, 14);
    check(&[state(1, 6, 10, &[1])], false, 14);
    check(&[state(2, 6, 10, &[1, 2])], true, 10);
    check(&[state(2, 6, 10, &[1, 2]), state(1, 7, 11, &[1])], true, 14);
}

// Goal: a new epoch starts behind what is planned, and "latest" is unknown until the watermark is there. Method: elected
// with a write under way and a follower to wait for.
#[test]
fn epoch_start() {
    let mut partition = leader_of(&[1, 2], 1);
    assert!(partition.is_confirmed());
    partition
        .plan_append(&plain(4), Acks::Leader, TxnGuard::None)
        .expect("a leader");
    let updated = partition.update(state(1, 6, 10, &[1, 2]));
    assert!(matches!(
        updated,
        Updated::Leader {
            epoch_start: Offset(14),
            ..
        }
    ));
    partition.on_appended(LeaderEpoch(5), Offset(14));
    assert!(!partition.is_confirmed());
    partition.on_follower_fetch(NodeId(2), Offset(14), 3, Monotonic(1));
    assert!(partition.is_confirmed());
}

// Goal: readers' epochs. Method: rows against leader epoch 5, led here, led elsewhere, offline.
#[test]
fn reader_epochs() {
    use ReadRefused::{FencedLeaderEpoch, NotLeader, Offline, UnknownLeaderEpoch};
    fn check(leader: i32, is_offline: bool, epoch: i32, expected: Result<(), ReadRefused>) {
        let state = state(leader, 5, 9, &[1]);
        let mut partition = Partition::new(state, at(10), 1, ProducerStates::new());
        if is_offline {
            partition.go_offline();
        }
        assert_eq!(partition.check_epoch(LeaderEpoch(epoch)), expected);
    }
    check(1, false, -1, Ok(()));
    check(1, false, 5, Ok(()));
    check(1, false, 4, Err(FencedLeaderEpoch));
    check(1, false, -2, Err(FencedLeaderEpoch));
    check(1, false, 6, Err(UnknownLeaderEpoch));
    check(2, false, -1, Err(NotLeader));
    check(2, false, 5, Err(NotLeader));
    check(2, false, 4, Err(FencedLeaderEpoch));
    check(1, true, 5, Err(Offline));
}

// Goal: the range of a fetch. Method: rows against log start 4, watermark 10, log end 15.
#[test]
fn read_ends() {
    fn check(from: i64, level: ReadLevel, expected: Result<i64, ReadRefused>) {
        let mut partition = leader_of(&[1, 2], 1);
        partition.advance_log_start(Offset(4));
        appended(&mut partition, 5);
        assert_eq!(
            partition.read_end(Offset(from), level),
            expected.map(Offset)
        );
    }
    check(
        3,
        ReadLevel::HighWatermark,
        Err(ReadRefused::OffsetOutOfRange),
    );
    check(4, ReadLevel::HighWatermark, Ok(10));
    check(4, ReadLevel::LastStable, Ok(10));
    check(4, ReadLevel::LogEnd, Ok(15));
    check(12, ReadLevel::HighWatermark, Ok(10));
    check(15, ReadLevel::LogEnd, Ok(15));
    check(16, ReadLevel::LogEnd, Err(ReadRefused::OffsetOutOfRange));
    check(-1, ReadLevel::LogEnd, Err(ReadRefused::OffsetOutOfRange));
}

// Goal: the log start only grows and stays below the watermark. Method: three requests.
#[test]
fn log_start() {
    let mut partition = leader_of(&[1, 2], 1);
    appended(&mut partition, 5);
    assert_eq!(partition.advance_log_start(Offset(7)), Offset(7));
    assert_eq!(partition.advance_log_start(Offset(3)), Offset(7));
    assert_eq!(partition.advance_log_start(Offset(15)), Offset(10));
}

// Goal: committed readers stop before an open transaction, also one recovered from the log. Method: replay, load, write.
#[test]
fn last_stable() {
    let mut producers = ProducerStates::new();
    let transactional = BatchFacts {
        is_transactional: true,
        ..idempotent(0, 0, 2)
    };
    producers.replay(Offset(6), &transactional);
    let marker = |offset| MarkerFacts {
        producer_id: ProducerId(7),
        producer_epoch: ProducerEpoch(0),
        coordinator_epoch: 0,
        offset: Offset(offset),
        timestamp: Timestamp(1),
    };
    let mut open = Partition::new(state(1, 5, 9, &[1]), at(10), 1, producers.clone());
    assert_eq!(
        (open.last_stable(), open.high_watermark()),
        (Offset(6), Offset(10))
    );
    assert_eq!(appended(&mut open, 2).last_stable, None);
    open.advance_log_start(Offset(8));
    assert_eq!(open.last_stable(), Offset(8));
    producers.replay_marker(&marker(9));
    let ended = Partition::new(state(1, 5, 9, &[1]), at(10), 1, producers);
    assert_eq!(ended.last_stable(), Offset(10));
}

// Goal: an offline partition moves nothing, whatever still arrives. Method: a write that ends after the failure.
#[test]
fn offline_stays() {
    let mut partition = leader_of(&[1], 1);
    partition
        .plan_append(&plain(1), Acks::Leader, TxnGuard::None)
        .expect("a leader");
    partition.go_offline();
    let progress = partition.on_appended(LeaderEpoch(5), Offset(11));
    assert!(progress.is_fenced);
    assert_eq!(partition.high_watermark(), Offset(10));
    partition.update(state(1, 6, 10, &[1]));
    assert!(partition.is_offline());
}

// Goal: when a follower counts as caught up. Method: fetches at, behind, and behind but past the end of the last fetch.
#[test]
fn caught_up() {
    let mut partition = leader_of(&[1, 2], 1);
    let fetch = |partition: &mut Partition, offset, now| {
        partition.on_follower_fetch(NodeId(2), Offset(offset), 3, Monotonic(now));
        partition.followers()[0].caught_up_at
    };
    assert_eq!(fetch(&mut partition, 5, 1), None);
    appended(&mut partition, 5);
    assert_eq!(
        fetch(&mut partition, 10, 2),
        Some(Monotonic(1)),
        "it has what was there at 1"
    );
    assert_eq!(fetch(&mut partition, 12, 3), Some(Monotonic(1)));
    assert_eq!(fetch(&mut partition, 15, 4), Some(Monotonic(4)));
}
