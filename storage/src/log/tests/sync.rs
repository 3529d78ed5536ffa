//! What syncs cost, promise, and do when they fail.

use super::*;

fn syncs(rig: &Rig) -> u64 {
    rig.disk.counts().syncs
}

// Goal: the records of a busy log cost one sync each time, none when nothing is new, and a begun segment one for its name.
// Method: count.
#[test]
fn records_cost_one_sync() {
    fn check(rig: &Rig, expected: u64) {
        let before = syncs(rig);
        let end = block_on(rig.log.sync_records()).expect("healthy disk");
        assert_eq!(end, rig.log.log_end());
        assert_eq!(syncs(rig) - before, expected);
    }
    let rig = Rig::new(LogConfig::default());
    check(&rig, 0);
    for _ in 0..3 {
        rig.append(1, 1);
        check(&rig, 1);
        check(&rig, 0);
    }
    rig.append(1, 1);
    block_on(rig.log.roll(None)).expect("healthy disk");
    // The old segment's records, the new one's name.
    check(&rig, 2);
    rig.append(1, 1);
    check(&rig, 1);
}

// Goal: whatever was synced, with segments begun at any time, survives a power cut; what recovery passes over is sound.
// Method: random seeds, appends with and without syncs and rolls, then a cut; the log must open and hold everything synced.
#[test]
fn synced_records_survive_a_power_cut() {
    for seed in 0..300_u64 {
        let mut rig = Rig::new(small_segments());
        let mut synced = Offset::ZERO;
        for round in 0..12_u64 {
            rig.append(1 + usize::try_from(seed % 3).expect("small"), 2);
            if (seed >> (round % 6)) & 1 == 1 {
                let snapshot = ProducerStates::new().encode_snapshot(rig.log.log_end());
                block_on(rig.log.roll(Some(snapshot.into()))).expect("healthy disk");
            }
            if (seed >> (round % 5)) & 1 == 0 {
                synced = block_on(rig.log.sync_records()).expect("healthy disk");
            } else if round == seed % 12 {
                synced = block_on(rig.log.sync()).expect("healthy disk");
            }
        }
        let before = rig.read_all(0, 1_000);
        let recovery_point = rig.log.recovery_point();
        assert!(recovery_point <= synced);
        rig.disk.crash(seed);
        let recovery = rig.reopen(false, recovery_point.0);
        assert!(synced <= recovery.log_end, "seed {seed}");
        assert!(before.starts_with(&rig.read_all(0, 1_000)), "seed {seed}");
    }
}

// Goal: a failed sync is the log's last word, and nothing is synced again. Method: fail each operation of each kind of sync in turn.
#[test]
fn a_failed_sync_is_never_tried_again() {
    for whole in [false, true] {
        for operation in 0.. {
            let rig = Rig::new(small_segments());
            rig.append(30, 2);
            rig.disk.fail_after(operation, 5);
            let first = match whole {
                true => block_on(rig.log.sync()),
                false => block_on(rig.log.sync_records()),
            };
            if first.is_ok() {
                assert!(operation > 2);
                break;
            }
            let before = syncs(&rig);
            let again = block_on(rig.log.sync_records());
            assert!(matches!(again, Err(StorageError::Failed { .. })));
            let again = block_on(rig.log.sync());
            assert!(matches!(again, Err(StorageError::Failed { .. })));
            let (bytes, facts) = Spec::new(rig.log.log_end().0, 1).build();
            let append = block_on(rig.log.append(&[bytes], &[facts]));
            assert!(matches!(append, Err(StorageError::Failed { .. })));
            let close = block_on(rig.log.close(None));
            assert!(matches!(close, Err(StorageError::Failed { .. })));
            assert_eq!(syncs(&rig), before);
        }
    }
}

// Goal: a snapshot spoiled by a power cut costs nothing but time. Method: roll with a producer, lose the snapshot's bytes.
#[test]
fn an_unsynced_snapshot_may_be_lost() {
    for seed in 0..100 {
        let mut rig = Rig::new(small_segments());
        let mut states = ProducerStates::new();
        for number in 0..6 {
            let mut spec = Spec::new(i64::from(number), 1);
            spec.producer = Some((7, number));
            rig.append_spec(&spec);
            states.replay(Offset(i64::from(number)), &producer_facts(&spec));
            if number == 3 {
                let snapshot = states.encode_snapshot(rig.log.log_end());
                block_on(rig.log.roll(Some(snapshot.into()))).expect("healthy disk");
            }
        }
        block_on(rig.log.sync_records()).expect("healthy disk");
        rig.disk.crash(seed);
        let recovery = rig.reopen(false, 0);
        assert_eq!(recovery.log_end, Offset(6));
        assert_eq!(
            recovery.producer_states.encode_snapshot(Offset(6)),
            states.encode_snapshot(Offset(6)),
            "seed {seed}"
        );
    }
}
