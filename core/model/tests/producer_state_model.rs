//! Producer state against a naive model that keeps every batch for ever.

use pelton_model::producer_state::{
    BatchFacts, Duplicate, ProducerStamp, ProducerStates, SequenceCheck,
};
use pelton_model::{Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
struct Written {
    stamp: ProducerStamp,
    count: i32,
    base_offset: Offset,
}

/// How the next batch relates to its producer's last one.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Next,
    Repeat(usize),
    Gap(i32),
    NewEpoch,
    Raw { epoch: i16, sequence: i32 },
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        6 => Just(Kind::Next),
        3 => (0_usize..8).prop_map(Kind::Repeat),
        1 => (1_i32..3).prop_map(Kind::Gap),
        1 => Just(Kind::NewEpoch),
        1 => (0_i16..4, prop_oneof![Just(0), Just(i32::MAX), Just(i32::MAX - 2), 0..20])
            .prop_map(|(epoch, sequence)| Kind::Raw { epoch, sequence }),
    ]
}

fn next_sequence(batch: Written) -> i32 {
    let next = (i64::from(batch.stamp.base_sequence.0) + i64::from(batch.count)) % (1 << 31);
    i32::try_from(next).expect("below 2^31")
}

fn naive(log: &[Written], stamp: ProducerStamp, count: i32) -> SequenceCheck {
    let mine: Vec<Written> = log
        .iter()
        .copied()
        .filter(|b| b.stamp.id == stamp.id)
        .collect();
    let Some(&last) = mine.last() else {
        return SequenceCheck::Accept;
    };
    if stamp.epoch < last.stamp.epoch {
        return SequenceCheck::InvalidEpoch;
    }
    let expected = if stamp.epoch == last.stamp.epoch {
        next_sequence(last)
    } else {
        0
    };
    if stamp.base_sequence.0 == expected {
        return SequenceCheck::Accept;
    }
    let recent = mine
        .iter()
        .rev()
        .take_while(|b| b.stamp.epoch == stamp.epoch)
        .take(5);
    for batch in recent {
        if batch.stamp.base_sequence == stamp.base_sequence && batch.count == count {
            return SequenceCheck::Duplicate(Duplicate {
                base_offset: batch.base_offset,
                last_offset: batch.base_offset.plus(i64::from(count) - 1),
                timestamp: Timestamp(batch.base_offset.0),
            });
        }
    }
    SequenceCheck::OutOfOrder
}

fn batch_for(log: &[Written], id: ProducerId, kind: Kind, count: i32) -> (ProducerStamp, i32) {
    let mine: Vec<Written> = log.iter().copied().filter(|b| b.stamp.id == id).collect();
    let stamp = |epoch, sequence| ProducerStamp {
        id,
        epoch,
        base_sequence: Sequence(sequence),
    };
    let Some(&last) = mine.last() else {
        return (stamp(ProducerEpoch(0), i32::MAX - 4), count);
    };
    match kind {
        Kind::Next => (stamp(last.stamp.epoch, next_sequence(last)), count),
        Kind::Repeat(back) => {
            let old = mine[mine.len().saturating_sub(1 + back)];
            (old.stamp, old.count)
        }
        Kind::Gap(by) => (
            stamp(last.stamp.epoch, Sequence(next_sequence(last)).plus(by).0),
            count,
        ),
        Kind::NewEpoch => (stamp(ProducerEpoch(last.stamp.epoch.0 + 1), 0), count),
        Kind::Raw { epoch, sequence } => (stamp(ProducerEpoch(epoch), sequence), count),
    }
}

fn facts(stamp: ProducerStamp, count: i32, base_offset: Offset) -> BatchFacts {
    BatchFacts {
        last_offset_delta: count - 1,
        producer: Some(stamp),
        is_transactional: false,
        max_timestamp: Timestamp(base_offset.0),
    }
}

proptest! {
    // Goal: every verdict is the naive model's, and a snapshot at any end says only what the log below it says.
    // Method: random batches of three producers, mostly legal; then every batch boundary as a snapshot's end.
    #[test]
    fn verdicts_and_snapshots(commands in prop::collection::vec((0_i64..3, kinds(), 1_i32..5), 1..80)) {
        let mut states = ProducerStates::new();
        let mut log: Vec<Written> = Vec::new();
        let mut end = Offset(0);
        for (id, kind, count) in commands {
            let (stamp, count) = batch_for(&log, ProducerId(id), kind, count);
            let expected = naive(&log, stamp, count);
            prop_assert_eq!(states.check(&facts(stamp, count, end)), expected);
            prop_assert_eq!(states.admit(end, &facts(stamp, count, end)), expected);
            if expected == SequenceCheck::Accept {
                log.push(Written { stamp, count, base_offset: end });
                end = end.plus(i64::from(count));
            }
        }
        let ends = log.iter().map(|b| b.base_offset).chain([end]);
        for cut in ends {
            let below = log.iter().filter(|b| b.base_offset < cut);
            let mut prefix = ProducerStates::new();
            for b in below {
                prefix.replay(b.base_offset, &facts(b.stamp, b.count, b.base_offset));
            }
            let exact = ProducerStates::decode_snapshot(&prefix.encode_snapshot(cut)).expect("intact");
            let ahead = ProducerStates::decode_snapshot(&states.encode_snapshot(cut)).expect("intact");
            for id in (0..3).map(ProducerId) {
                if ahead.get(id).is_some() {
                    prop_assert_eq!(ahead.get(id), exact.get(id));
                }
                if cut == end {
                    prop_assert_eq!(ahead.get(id).is_some(), states.get(id).is_some());
                }
            }
        }
    }

    // Goal: no bytes make the decoder panic. Method: random bytes behind a right header and checksum.
    #[test]
    fn any_bytes(entries in prop::collection::vec(any::<u8>(), 0..200), count in 0_i32..5) {
        let mut file = vec![0, 1, 0, 0, 0, 0];
        file.extend(count.to_be_bytes());
        file.extend(entries);
        let crc = crc32c::crc32c(&file[6..]);
        file[2..6].copy_from_slice(&crc.to_be_bytes());
        if let Ok(states) = ProducerStates::decode_snapshot(&file) {
            prop_assert_eq!(i32::try_from(states.len()), Ok(count));
        }
    }
}
