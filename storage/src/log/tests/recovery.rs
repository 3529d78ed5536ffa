//! Reopening after crashes.

use super::*;
use crate::error::Damage;

// Goal: whatever the length of the torn tail, the log ends with the last whole batch, and a second recovery changes
// nothing. Method: cut the last file at every byte.
#[test]
fn torn_at_every_byte() {
    let mut rig = Rig::new(LogConfig::default());
    rig.append(3, 2);
    let path = rig.file(0, "log");
    let whole = rig.contents(&path);
    let size = whole.len() / 3;
    for cut in 0..=whole.len() {
        rig.disk
            .corrupt(&path, |bytes| *bytes = whole[..cut].to_vec());
        let recovery = rig.reopen(false, 0);
        let batches = cut / size;
        assert_eq!(rig.log.log_end(), Offset(int(batches) * 2));
        assert_eq!(recovery.truncated_bytes, (cut - batches * size) as u64);
        assert_eq!(rig.contents(&path), whole[..batches * size]);
        let again = rig.reopen(false, 0);
        assert_eq!(
            (again.truncated_bytes, again.log_end),
            (0, recovery.log_end)
        );
        // And the log goes on from there.
        rig.append(1, 1);
        assert_eq!(end_of(&rig.read_all(0, 100)), rig.log.log_end());
    }
}

// Goal: a flipped bit in the unsynced region cuts the log before its batch. Method: flip every byte of the last batches.
#[test]
fn flipped_bits_end_the_log() {
    let mut rig = Rig::new(LogConfig::default());
    rig.append(4, 2);
    let path = rig.file(0, "log");
    let whole = rig.contents(&path);
    let size = whole.len() / 4;
    for at in 0..whole.len() {
        rig.disk.corrupt(&path, |bytes| {
            bytes.clone_from(&whole);
            bytes[at] ^= 0x40;
        });
        rig.reopen(false, 0);
        let found = rig.read_all(0, 1_000_000);
        let in_batch = at % size;
        // Base offset and leader epoch lie outside the checksum; a base offset may only grow.
        if in_batch < 8 || (12..16).contains(&in_batch) {
            assert!(found.len() >= at / size * size);
        } else {
            assert_eq!(found, whole[..at / size * size], "byte {at}");
        }
    }
}

// Goal: damage inside what was durable is an error, not a cut. Method: flip a bit below the recovery point with a good
// batch behind it, or in a last batch that is there whole; above it, it is a tail.
#[test]
fn damage_below_the_recovery_point() {
    let check = |batch: usize, recovery_point: i64, refused: bool| {
        let mut rig = Rig::new(LogConfig::default());
        rig.append(6, 2);
        let path = rig.file(0, "log");
        rig.disk.corrupt(&path, |bytes| {
            let size = bytes.len() / 6;
            bytes[batch * size + 70] ^= 1;
        });
        // Without both indexes every batch is looked at.
        block_on(rig.disk.remove_file(&rig.file(0, "index"))).expect("there");
        match rig.try_reopen(false, recovery_point) {
            Ok(_) => {
                assert!(!refused);
                assert_eq!(rig.log.log_end(), Offset(int(batch) * 2));
            }
            Err(StorageError::Corrupt { damage, .. }) => {
                assert!(refused);
                assert_eq!(damage, Damage::Checksum);
            }
            Err(error) => panic!("{error}"),
        }
    };
    check(2, 12, true);
    check(2, 5, true);
    check(2, 4, false);
    check(5, 12, true);
    check(5, 11, false);
}

// Goal: after a crash only the segments from the recovery point on are scanned, and what follows a bad batch goes.
// Method: several segments, one damaged.
#[test]
fn later_segments_go() {
    let mut rig = Rig::new(small_segments());
    rig.append(80, 2);
    let bases = rig.bases();
    assert!(bases.len() > 4);
    let recovery = rig.reopen(false, bases[2]);
    let scanned: usize = bases[2..]
        .iter()
        .map(|&base| rig.contents(&rig.file(base, "log")).len())
        .sum();
    assert_eq!(recovery.scanned_bytes, scanned as u64);
    assert_eq!(recovery.truncated_bytes, 0);
    assert_eq!(rig.log.recovery_point(), Offset(bases[2]));
    rig.disk
        .corrupt(&rig.file(bases[3], "log"), |bytes| bytes[70] ^= 1);
    rig.reopen(false, bases[2]);
    assert_eq!(rig.bases(), bases[..4]);
    assert_eq!(rig.log.log_end(), Offset(bases[3]));
    assert_eq!(
        rig.names()
            .iter()
            .filter(|name| name.ends_with(".index"))
            .count(),
        4
    );
}

// Goal: a segment that lost its whole tail ends the log; a hole is never served, save in compacted topics. Method: cut
// a middle segment at a batch boundary.
#[test]
fn no_holes() {
    for compacted in [false, true] {
        let mut rig = Rig::new(LogConfig {
            compacted,
            ..small_segments()
        });
        rig.append(80, 2);
        let bases = rig.bases();
        let size = Spec::new(0, 2).build().0.len();
        let cut = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() - size);
        rig.disk.corrupt(&rig.file(bases[1], "log"), cut);
        rig.reopen(false, 0);
        let expected = if compacted { 160 } else { bases[2] - 2 };
        assert_eq!(rig.log.log_end(), Offset(expected));
        // Reads step over a gap that is there.
        assert_eq!(end_of(&rig.read_all(0, 300)), Offset(expected));
    }
}

// Goal: a log that ends before its start is emptied. Method: a log start beyond the end.
#[test]
fn end_before_start() {
    for clean in [false, true] {
        let mut rig = Rig::new(small_segments());
        rig.append(20, 2);
        rig.close();
        let options = OpenOptions {
            log_start: Some(Offset(100)),
            ..rig.options(clean, 0)
        };
        let (log, recovery) =
            block_on(Log::open(&rig.store, &directory(), options)).expect("sound");
        rig.log = log;
        assert_eq!(rig.bases(), [100]);
        assert_eq!(
            (recovery.log_end, rig.log.log_start()),
            (Offset(100), Offset(100))
        );
        assert_eq!(rig.log.latest_epoch(), None);
        rig.append(1, 1);
    }
}

// Goal: an old message format is refused, zeros are not. Method: a plausible magic 1 message first in the file.
#[test]
fn old_format_is_refused() {
    let mut rig = Rig::new(LogConfig::default());
    rig.append(1, 1);
    let path = rig.file(0, "log");
    rig.disk.corrupt(&path, |bytes| bytes[16] = 1);
    let refused = rig.try_reopen(false, 0).expect_err("old format");
    assert!(matches!(
        refused,
        StorageError::Corrupt {
            damage: Damage::OldFormat,
            ..
        }
    ));
    rig.disk.corrupt(&path, |bytes| bytes.fill(0));
    assert_eq!(rig.reopen(false, 0).log_end, Offset(0));
}

// Goal: idempotent producers survive every kind of stop. Method: batches of several producers over several segments,
// with snapshots at some rolls; the recovered state must encode like the live one.
#[test]
fn producer_states() {
    for (clean, with_rolls) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut rig = Rig::new(small_segments());
        let mut states = ProducerStates::new();
        for round in 0..90_i64 {
            let base = rig.log.log_end();
            let mut spec = Spec::new(base.0, 2);
            let sequence = i32::try_from(round / 3 * 2).expect("small");
            spec.producer = Some((7 + round % 3, sequence));
            let (bytes, facts) = spec.build();
            if with_rolls && rig.log.roll_wanted(bytes.len()) {
                let snapshot = Bytes::from(states.encode_snapshot(base));
                block_on(rig.log.roll(Some(snapshot))).expect("healthy disk");
            }
            block_on(rig.log.append(&[bytes], &[facts])).expect("healthy disk");
            states.replay(base, &producer_facts(&spec));
        }
        let end = rig.log.log_end();
        let expected = states.encode_snapshot(end);
        if clean {
            block_on(rig.log.close(Some(expected.clone().into()))).expect("healthy disk");
        }
        let bases = rig.bases();
        for recovery_point in [0, bases[2], end.0] {
            let recovery = rig.reopen(clean, recovery_point);
            assert_eq!(recovery.producer_states.encode_snapshot(end), expected);
        }
        // A damaged newest snapshot is replaced by an older one and a longer replay.
        let newest = rig
            .names()
            .into_iter()
            .filter(|name| name.ends_with(".snapshot"))
            .max();
        if let Some(newest) = newest {
            rig.disk
                .corrupt(&directory().join(&newest), |bytes| bytes[8] ^= 1);
            let recovery = rig.reopen(clean, end.0);
            assert_eq!(recovery.producer_states.encode_snapshot(end), expected);
            let left = rig.names().contains(&newest);
            assert!(!left || !clean);
        }
    }
}

// Goal: what recovery cut stays cut when the log is rolled right there and the power goes again. Method: the recovery
// point at the end of a segment with a torn tail behind it, a roll, many power cuts.
#[test]
fn a_cut_before_a_roll_is_durable() {
    for seed in 0..200 {
        let mut rig = Rig::new(LogConfig::default());
        rig.append(2, 3);
        block_on(rig.log.sync()).expect("healthy disk");
        let (bytes, facts) = Spec::new(6, 2).build();
        block_on(rig.log.append(&[bytes], &[facts])).expect("healthy disk");
        rig.disk.corrupt(&rig.file(0, "log"), |bytes| {
            let end = bytes.len();
            bytes[end - 5] ^= 1;
        });
        assert_eq!(rig.reopen(false, 6).log_end, Offset(6));
        block_on(rig.log.roll(None)).expect("healthy disk");
        rig.disk.crash(seed);
        let recovery = rig.reopen(false, 6);
        assert_eq!((recovery.log_end, recovery.truncated_bytes), (Offset(6), 0));
        assert_eq!(
            rig.read_all(0, 1).len(),
            rig.contents(&rig.file(0, "log")).len()
        );
    }
}
