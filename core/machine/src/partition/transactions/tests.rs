//! Tests of transactions in one partition: one table or story per rule.

use pelton_model::producer_state::ProducerStates;
use pelton_model::{LeaderEpoch, NodeId, PartitionEpoch};

use super::*;
use crate::partition::{LogOffsets, PartitionState, Planned};

const PRODUCER: ProducerId = ProducerId(7);

fn partition() -> Partition {
    let state = PartitionState {
        local: NodeId(1),
        leader: NodeId(1),
        leader_epoch: LeaderEpoch(5),
        partition_epoch: PartitionEpoch(1),
        replicas: vec![NodeId(1)],
        isr: vec![NodeId(1)],
    };
    let log = LogOffsets {
        log_start: Offset(0),
        log_end: Offset(0),
        high_watermark: Offset(0),
    };
    Partition::new(state, log, 1, ProducerStates::new())
}

fn stamp(epoch: i16, sequence: i32) -> ProducerStamp {
    ProducerStamp {
        id: PRODUCER,
        epoch: ProducerEpoch(epoch),
        base_sequence: Sequence(sequence),
    }
}

fn batch(epoch: i16, sequence: i32, is_transactional: bool) -> BatchFacts {
    BatchFacts {
        last_offset_delta: 0,
        producer: Some(stamp(epoch, sequence)),
        is_transactional,
        max_timestamp: Timestamp(1_000),
    }
}

fn marker(epoch: i16, coordinator_epoch: i32, is_bumped: bool) -> Marker {
    Marker {
        producer_id: PRODUCER,
        producer_epoch: ProducerEpoch(epoch),
        coordinator_epoch,
        is_bumped,
        timestamp: Timestamp(2_000),
    }
}

fn verify(partition: &mut Partition, epoch: i16, sequence: i32, is_bumped: bool) -> TxnGuard {
    let verification = Verification {
        stamp: stamp(epoch, sequence),
        is_bumped,
    };
    let begun = partition.begin_verification(&verification, Timestamp(1_000));
    begun.expect("a leader")
}

/// Plans and writes a transactional batch; its offset.
fn write(partition: &mut Partition, epoch: i16, sequence: i32, guard: TxnGuard) -> i64 {
    let facts = batch(epoch, sequence, true);
    let planned = partition.plan_append(&facts, Acks::All, guard);
    let Ok(Planned::Append(plan)) = planned else {
        panic!("{planned:?}")
    };
    partition.on_appended(plan.leader_epoch, plan.next_offset());
    plan.base_offset.0
}

// Goal: which markers are taken, by both transaction versions (KIP-1228: under version 2 the marker's epoch is above that of the records;
// one of the same epoch is a retry when nothing is open). Method: a producer of epoch 4 whose transaction is open or was ended by
// coordinator 3, and one marker.
#[test]
fn markers() {
    fn check(is_open: bool, marker: Marker, expected: Result<bool, PlanRefused>) {
        let mut partition = partition();
        write(&mut partition, 4, 0, TxnGuard::Waived);
        partition
            .plan_marker(&self::marker(4, 3, false))
            .expect("in order");
        if is_open {
            write(&mut partition, 4, 1, TxnGuard::Waived);
        }
        let planned = partition.plan_marker(&marker);
        let ended = planned.map(|planned| planned.ended.is_some());
        assert_eq!(ended, expected, "{is_open} {marker:?}");
    }
    let late = Err(PlanRefused::InvalidProducerEpoch);
    let fenced = Err(PlanRefused::CoordinatorFenced);
    check(true, marker(4, 3, false), Ok(true));
    check(true, marker(5, 3, false), Ok(true));
    check(true, marker(5, 4, true), Ok(true));
    check(true, marker(4, 3, true), late);
    check(true, marker(3, 3, false), late);
    check(true, marker(3, 9, true), late);
    check(true, marker(5, 2, true), fenced);
    check(false, marker(4, 3, false), Ok(false));
    check(false, marker(4, 3, true), Ok(false));
    check(false, marker(3, 3, true), late);
    check(false, marker(4, 2, false), fenced);
}

// Goal: what the coordinator said before a marker does not hold after it (KIP-890), nor for two batches. Method: a story.
#[test]
fn a_word_is_good_once() {
    let refused = |partition: &mut Partition, sequence, guard| {
        let facts = batch(0, sequence, true);
        let planned = partition.plan_append(&facts, Acks::All, guard);
        assert_eq!(planned, Err(PlanRefused::InvalidTxnState));
    };
    let mut partition = partition();
    refused(&mut partition, 0, TxnGuard::None);
    refused(&mut partition, 0, TxnGuard::Given(0));
    let late = verify(&mut partition, 0, 0, false);
    assert_eq!(
        verify(&mut partition, 0, 0, false),
        late,
        "asked again, the same"
    );
    partition
        .plan_marker(&marker(0, 0, false))
        .expect("in order");
    refused(&mut partition, 0, late);
    let guard = verify(&mut partition, 0, 0, false);
    assert_ne!(guard, late);
    refused(&mut partition, 0, late);
    write(&mut partition, 0, 0, guard);
    assert_eq!(
        verify(&mut partition, 0, 1, false),
        TxnGuard::None,
        "it is open"
    );
    write(&mut partition, 0, 1, TxnGuard::None);
    let again = partition.plan_append(&batch(0, 1, true), Acks::All, TxnGuard::None);
    assert!(matches!(again, Ok(Planned::Duplicate(_))));
    partition
        .plan_marker(&marker(0, 0, false))
        .expect("in order");
    refused(&mut partition, 2, TxnGuard::None);
    refused(&mut partition, 2, guard);
}

// Goal: verifications that the coordinator refused keep nobody out, however many there are. Method: as many strangers as there is room for,
// then one who is vouched for.
#[test]
fn refused_verifications_make_room() {
    let mut partition = partition();
    for id in 0..=PRODUCERS_PER_PARTITION_MAX {
        let verification = Verification {
            stamp: ProducerStamp {
                id: ProducerId(1_000 + i64::try_from(id).unwrap()),
                ..stamp(0, 0)
            },
            is_bumped: false,
        };
        let begun = partition.begin_verification(&verification, Timestamp(1_000));
        assert!(matches!(begun, Ok(TxnGuard::Given(_))));
    }
    assert!(partition.verifications.entries.len() <= PRODUCERS_PER_PARTITION_MAX);
    let guard = verify(&mut partition, 0, 0, false);
    write(&mut partition, 0, 0, guard);
}

// Goal: a fenced producer does not stand in front of its successor. Method: a batch of the epoch before asks while a transaction is open.
#[test]
fn the_fenced_hold_up_nobody() {
    let mut partition = partition();
    write(&mut partition, 1, 0, TxnGuard::Waived);
    let guard = verify(&mut partition, 0, 0, false);
    assert_eq!(guard, TxnGuard::None);
    let planned = partition.plan_append(&batch(0, 0, true), Acks::All, guard);
    assert_eq!(planned, Err(PlanRefused::InvalidProducerEpoch));
    let guard = verify(&mut partition, 1, 1, false);
    write(&mut partition, 1, 1, guard);
}

// Goal: of batches that wait for a verification the lowest goes first, and under version 2 an unknown producer begins at 0. Method: a table
// of the sequences that ask, and the one that comes.
#[test]
fn sequences_of_a_verification() {
    fn check(asking: &[i32], is_bumped: bool, sequence: i32, is_planned: bool) {
        let mut partition = partition();
        let guards = asking
            .iter()
            .map(|&first| verify(&mut partition, 0, first, is_bumped));
        let guard = guards.last().expect("one asks");
        let planned = partition.plan_append(&batch(0, sequence, true), Acks::All, guard);
        assert_eq!(planned.is_ok(), is_planned, "{asking:?} {sequence}");
        if !is_planned {
            assert_eq!(planned, Err(PlanRefused::OutOfOrderSequence));
        }
    }
    check(&[0], true, 0, true);
    check(&[3], false, 3, true);
    check(&[3], true, 3, false);
    check(&[3, 1], false, 3, false);
    check(&[3, 1], false, 1, true);
    check(&[1, 3], false, 3, false);
}

// Goal: the last stable offset stands before the first open transaction, and what a marker frees is told as such. Method: a story of two
// producers' transactions, one of them outside.
#[test]
fn last_stable_offset() {
    let mut partition = partition();
    assert_eq!(write(&mut partition, 0, 0, TxnGuard::Waived), 0);
    assert_eq!(write(&mut partition, 0, 1, TxnGuard::None), 1);
    assert_eq!(
        (partition.last_stable(), partition.high_watermark()),
        (Offset(0), Offset(2))
    );
    let outside = partition.plan_append(&batch(0, 2, false), Acks::All, TxnGuard::None);
    assert_eq!(
        outside,
        Err(PlanRefused::InvalidTxnState),
        "its transaction is open"
    );
    let planned = partition
        .plan_marker(&marker(1, 0, true))
        .expect("in order");
    let ended = planned.ended.expect("it was open");
    assert_eq!(
        (ended.first_offset, ended.last_stable_offset),
        (Offset(0), Offset(3))
    );
    assert_eq!(
        partition.last_stable(),
        Offset(0),
        "the marker is not written"
    );
    let progress = partition.on_appended(LeaderEpoch(5), Offset(3));
    assert_eq!(
        (progress.last_stable, progress.has_released),
        (Some(Offset(3)), true)
    );
    let old = partition.plan_append(&batch(0, 2, true), Acks::All, TxnGuard::Waived);
    assert_eq!(
        old,
        Err(PlanRefused::InvalidProducerEpoch),
        "the marker fenced it"
    );
    let plain = partition.plan_append(&batch(1, 0, false), Acks::All, TxnGuard::None);
    assert!(plain.is_ok());
    let progress = partition.on_appended(LeaderEpoch(5), Offset(4));
    assert_eq!(
        (progress.last_stable, progress.has_released),
        (Some(Offset(4)), false)
    );
}

// Goal: a coordinator's batches have no sequences, and are never taken for repeated ones. Method: two in one transaction; an old epoch.
#[test]
fn batches_of_a_coordinator() {
    let mut partition = partition();
    assert_eq!(write(&mut partition, 1, -1, TxnGuard::Waived), 0);
    assert_eq!(write(&mut partition, 1, -1, TxnGuard::None), 1);
    let old = partition.plan_append(&batch(0, -1, true), Acks::All, TxnGuard::Waived);
    assert_eq!(old, Err(PlanRefused::InvalidProducerEpoch));
}
