//! Tests of producer state: one table per rule, and the snapshot format.

use super::*;

fn stamp(epoch: i16, base_sequence: i32) -> ProducerStamp {
    ProducerStamp {
        id: ProducerId(7),
        epoch: ProducerEpoch(epoch),
        base_sequence: Sequence(base_sequence),
    }
}

fn facts(stamp: ProducerStamp, count: i32) -> BatchFacts {
    BatchFacts {
        last_offset_delta: count - 1,
        producer: Some(stamp),
        is_transactional: false,
        max_timestamp: Timestamp(1_000),
    }
}

/// Batches of (epoch, base sequence, record count), one after the other from offset 100.
fn states(batches: &[(i16, i32, i32)]) -> ProducerStates {
    let mut states = ProducerStates::new();
    let mut offset = Offset(100);
    for &(epoch, base, count) in batches {
        states.replay(offset, &facts(stamp(epoch, base), count));
        offset = offset.plus(i64::from(count));
    }
    states
}

// Goal: the sequence rules. Method: a history and one more batch per row; `admit` must agree with `check` and record
// only what it accepts.
#[test]
fn sequence_rules() {
    use SequenceCheck::{Accept, InvalidEpoch, OutOfOrder};
    fn check(history: &[(i16, i32, i32)], batch: (i16, i32, i32), expected: SequenceCheck) {
        let mut states = states(history);
        let (epoch, base, count) = batch;
        assert_eq!(
            states.check(&facts(stamp(epoch, base), count)),
            expected,
            "{history:?} {batch:?}"
        );
        let before = states.get(ProducerId(7)).cloned();
        assert_eq!(
            states.admit(Offset(900), &facts(stamp(epoch, base), count)),
            expected
        );
        let after = states.get(ProducerId(7));
        if expected == Accept {
            let after = after.expect("an accepted batch is recorded");
            assert_eq!(after.last_offset(), Offset(899 + i64::from(count)));
            assert_eq!(after.epoch(), ProducerEpoch(epoch));
        } else {
            assert_eq!(after, before.as_ref());
        }
    }
    fn duplicate(base_offset: i64, last_offset: i64) -> SequenceCheck {
        SequenceCheck::Duplicate(Duplicate {
            base_offset: Offset(base_offset),
            last_offset: Offset(last_offset),
            timestamp: Timestamp(1_000),
        })
    }
    const MAX: i32 = i32::MAX;
    // Nothing known: any sequence and epoch.
    check(&[], (0, 0, 1), Accept);
    check(&[], (3, 5, 2), Accept);
    // The next one, also across the wrap.
    check(&[(0, 0, 3)], (0, 3, 1), Accept);
    check(&[(0, MAX, 1)], (0, 0, 1), Accept);
    check(&[(0, MAX - 1, 4)], (0, 2, 1), Accept);
    // A gap, or a step back that is no repetition.
    check(&[(0, 0, 3)], (0, 4, 1), OutOfOrder);
    check(&[(0, 0, 3)], (0, 2, 1), OutOfOrder);
    check(&[(0, 0, 3)], (0, 0, 2), OutOfOrder);
    check(&[(0, MAX, 1)], (0, 1, 1), OutOfOrder);
    // A repetition of one of the last five, also across the wrap.
    check(&[(0, 0, 3)], (0, 0, 3), duplicate(100, 102));
    check(
        &[(0, MAX - 1, 4), (0, 2, 1)],
        (0, MAX - 1, 4),
        duplicate(100, 103),
    );
    let six = [
        (0, 0, 1),
        (0, 1, 1),
        (0, 2, 1),
        (0, 3, 1),
        (0, 4, 1),
        (0, 5, 1),
    ];
    check(&six, (0, 5, 1), duplicate(105, 105));
    check(&six, (0, 1, 1), duplicate(101, 101));
    check(&six, (0, 0, 1), OutOfOrder);
    check(&six, (0, 6, 1), Accept);
    // Epochs: lower is fenced, higher starts at 0 and forgets the old one's batches.
    check(&[(2, 0, 3)], (1, 3, 1), InvalidEpoch);
    check(&[(2, 0, 3)], (1, 0, 3), InvalidEpoch);
    check(&[(2, 0, 3)], (3, 0, 1), Accept);
    check(&[(2, 0, 3)], (3, 3, 1), OutOfOrder);
    check(&[(2, 0, 3), (3, 0, 1)], (3, 0, 3), OutOfOrder);
    // Batches without sequence, as coordinators write them: the producer's own start at 0.
    check(&[(0, -1, 1)], (0, 0, 1), Accept);
    check(&[(0, -1, 1)], (0, 1, 1), OutOfOrder);
}

// Goal: a marker fences older epochs, keeps sequences going, and ends the transaction only once it is replicated.
// Method: the life of one transaction, step by step.
#[test]
fn transactions() {
    let mut states = ProducerStates::new();
    let transactional = |base| BatchFacts {
        is_transactional: true,
        ..facts(stamp(4, base), 2)
    };
    states.replay(Offset(10), &transactional(0));
    states.replay(Offset(12), &transactional(2));
    assert_eq!(states.first_unstable_offset(), Some(Offset(10)));
    let marker = |epoch, offset| MarkerFacts {
        producer_id: ProducerId(7),
        producer_epoch: ProducerEpoch(epoch),
        coordinator_epoch: 1,
        offset: Offset(offset),
        timestamp: Timestamp(2_000),
    };
    states.replay_marker(&marker(4, 14));
    assert_eq!(
        states.first_unstable_offset(),
        Some(Offset(10)),
        "the marker is not replicated"
    );
    states.on_high_watermark(Offset(14));
    assert_eq!(states.first_unstable_offset(), Some(Offset(10)));
    states.on_high_watermark(Offset(15));
    assert_eq!(states.first_unstable_offset(), None);
    assert_eq!(
        states.check(&facts(stamp(4, 4), 1)),
        SequenceCheck::Accept,
        "same epoch: goes on"
    );
    states.replay_marker(&marker(5, 15));
    assert_eq!(
        states.check(&facts(stamp(4, 4), 1)),
        SequenceCheck::InvalidEpoch
    );
    assert_eq!(states.check(&facts(stamp(5, 0), 1)), SequenceCheck::Accept);
    assert_eq!(
        states.check(&facts(stamp(5, 4), 1)),
        SequenceCheck::OutOfOrder
    );
}

// Goal: expiry drops idle producers but none with a transaction open. Method: both, at and before the limit.
#[test]
fn expiry() {
    fn check(is_transactional: bool, now: i64, survives: bool) {
        let mut states = ProducerStates::new();
        let batch = BatchFacts {
            is_transactional,
            ..facts(stamp(0, 0), 1)
        };
        states.replay(Offset(0), &batch);
        states.expire(Timestamp(now), 500);
        assert_eq!(states.is_empty(), !survives);
    }
    check(false, 1_499, true);
    check(false, 1_500, false);
    check(false, i64::MIN, true);
    check(true, 9_999, true);
}

// Goal: the number of producers is bounded and those who wrote last stay. Method: two more than fit.
#[test]
fn room_is_made() {
    let mut states = ProducerStates::new();
    let total = i64::try_from(PRODUCERS_PER_PARTITION_MAX).expect("fits") + 2;
    for id in 0..total {
        let stamp = ProducerStamp {
            id: ProducerId(id),
            ..stamp(0, 0)
        };
        states.admit(Offset(id), &facts(stamp, 1));
    }
    assert!(states.len() <= PRODUCERS_PER_PARTITION_MAX);
    assert!(PRODUCERS_PER_PARTITION_MAX / 3 < states.len());
    assert!(states.get(ProducerId(0)).is_none());
    assert!(states.get(ProducerId(total - 1)).is_some());
    assert!(states.get(ProducerId(total - 1_000)).is_some());
}

fn golden() -> Vec<u8> {
    let mut file = vec![
        0, 1, // version
        0, 0, 0, 0, // crc, below
        0, 0, 0, 1, // one entry
        0, 0, 0, 0, 0, 0, 0, 7, // producer id
        0, 3, // epoch
        0, 0, 0, 9, // last sequence
        0, 0, 0, 0, 0, 0, 0, 104, // last offset
        0, 0, 0, 4, // offset delta
        0, 0, 0, 0, 0, 0, 3, 232, // timestamp
        0xff, 0xff, 0xff, 0xff, // coordinator epoch
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, // no open transaction
    ];
    seal(&mut file);
    file
}

fn seal(file: &mut [u8]) {
    let crc = crc32c::crc32c(&file[6..]);
    file[2..6].copy_from_slice(&crc.to_be_bytes());
}

// Goal: the file is Kafka's. Method: bytes laid out by hand, both ways.
#[test]
fn snapshot_bytes() {
    let mut states = ProducerStates::new();
    states.replay(Offset(100), &facts(stamp(3, 5), 5));
    assert_eq!(states.encode_snapshot(Offset(105)), golden());
    let read = ProducerStates::decode_snapshot(&golden()).expect("intact");
    assert_eq!(read.get(ProducerId(7)), states.get(ProducerId(7)));
    assert_eq!(
        ProducerStates::decode_snapshot(&ProducerStates::new().encode_snapshot(Offset(0)))
            .map(|states| states.len()),
        Ok(0)
    );
}

// Goal: a snapshot never runs ahead of its log. Method: one history, every end.
#[test]
fn snapshot_stops_at_its_end() {
    fn check(end: i64, expected_last: Option<i64>) {
        let states = states(&[(0, 0, 2), (0, 2, 2), (0, 4, 2)]);
        let read = ProducerStates::decode_snapshot(&states.encode_snapshot(Offset(end)));
        let last = read
            .expect("intact")
            .get(ProducerId(7))
            .map(|state| state.last_offset().0);
        assert_eq!(last, expected_last);
    }
    check(106, Some(105));
    check(105, Some(103));
    check(104, Some(103));
    check(102, Some(101));
    check(101, None);
}

// Goal: an open transaction and a marker-only producer survive the file. Method: write, read, compare.
#[test]
fn snapshot_keeps_transactions() {
    let mut states = ProducerStates::new();
    states.replay(
        Offset(5),
        &BatchFacts {
            is_transactional: true,
            ..facts(stamp(1, 0), 3)
        },
    );
    states.replay_marker(&MarkerFacts {
        producer_id: ProducerId(9),
        producer_epoch: ProducerEpoch(2),
        coordinator_epoch: 6,
        offset: Offset(8),
        timestamp: Timestamp(77),
    });
    let read = ProducerStates::decode_snapshot(&states.encode_snapshot(Offset(9))).expect("intact");
    assert_eq!(read.get(ProducerId(7)), states.get(ProducerId(7)));
    assert_eq!(read.get(ProducerId(9)), states.get(ProducerId(9)));
    assert_eq!(read.first_unstable_offset(), Some(Offset(5)));
}

// Goal: damaged and hostile files are errors. Method: every cut, every flipped bit, and impossible values under a right
// checksum.
#[test]
fn hostile_snapshots() {
    let good = golden();
    for end in 0..good.len() {
        assert!(
            ProducerStates::decode_snapshot(&good[..end]).is_err(),
            "cut at {end}"
        );
    }
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(ProducerStates::decode_snapshot(&bad).is_err(), "bit {bit}");
    }
    fn check(at: usize, bytes: &[u8], expected: SnapshotError) {
        let mut bad = golden();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        seal(&mut bad);
        assert_eq!(ProducerStates::decode_snapshot(&bad).err(), Some(expected));
    }
    check(0, &[0, 2], SnapshotError::Version(2));
    check(6, &[0x7f, 0xff, 0xff, 0xff], SnapshotError::Count(i32::MAX));
    check(6, &[0xff; 4], SnapshotError::Count(-1));
    check(20, &[0x80, 0, 0, 0], SnapshotError::Entry(0));
    check(24, &[0x80, 0, 0, 0], SnapshotError::Entry(0));
    check(32, &[0, 0, 0, 105], SnapshotError::Entry(0));
    check(32, &[0xff; 4], SnapshotError::Entry(0));
    check(48, &[0x80, 0, 0, 0], SnapshotError::Entry(0));
    let mut twice = golden();
    let entry = twice[10..].to_vec();
    twice.extend(entry);
    twice[9] = 2;
    seal(&mut twice);
    assert_eq!(
        ProducerStates::decode_snapshot(&twice).err(),
        Some(SnapshotError::Entry(1))
    );
}
