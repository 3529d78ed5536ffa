//! Appending, reading, rolling, failing.

use super::*;
use crate::error::ReadError;
use pelton_model::Monotonic;

// Goal: every byte comes back, whatever the read size. Method: many batches over many segments, several read sizes,
// once from the writing log and once after a clean reopen.
#[test]
fn reads_return_what_was_appended() {
    let mut rig = Rig::new(small_segments());
    let mut expected = Vec::new();
    for round in 0..60 {
        let base = rig.log.log_end().0;
        let mut spec = Spec::new(base, 1 + round % 4);
        spec.value_bytes = 10 + (round * 37) % 300;
        expected.extend_from_slice(&spec.build().0);
        rig.append_spec(&spec);
    }
    assert!(rig.log.segment_count() > 5);
    assert_eq!(rig.log.size_bytes(), expected.len() as u64);
    for bytes_max in [1, 100, 700, 5_000, 1_000_000] {
        assert_eq!(rig.read_all(0, bytes_max), expected, "{bytes_max}");
    }
    rig.close();
    let recovery = rig.reopen(true, 0);
    assert_eq!((recovery.scanned_bytes, recovery.truncated_bytes), (0, 0));
    for bytes_max in [1, 100, 700, 5_000, 1_000_000] {
        assert_eq!(rig.read_all(0, bytes_max), expected, "{bytes_max}");
    }
}

// Goal: a read begins with the batch that contains the offset and ends before `up_to`. Method: a table over one segment,
// near the end (from memory) and after a reopen (from the file).
#[test]
fn read_bounds() {
    let mut rig = Rig::new(LogConfig::default());
    rig.append(200, 3);
    let size = Spec::new(0, 3).build().0.len();
    for reopened in [false, true] {
        let check = |from, up_to, bytes_max, one, expected: Option<(i64, i64)>| {
            let bytes = rig.read(from, up_to, bytes_max, one);
            let found = (!bytes.is_empty()).then(|| {
                let first = BatchHeader::parse(&bytes).expect("whole");
                (first.base_offset.0, end_of(&bytes).0)
            });
            assert_eq!(
                found, expected,
                "{from} {up_to} {bytes_max} {one} {reopened}"
            );
        };
        check(0, 600, usize::MAX, true, Some((0, 600)));
        check(4, 600, size, true, Some((3, 6)));
        check(5, 600, size - 1, true, Some((3, 6)));
        check(5, 600, size - 1, false, None);
        check(5, 600, 3 * size + size / 2, false, Some((3, 12)));
        check(0, 300, usize::MAX, true, Some((0, 300)));
        check(299, 300, usize::MAX, true, Some((297, 300)));
        check(300, 300, usize::MAX, true, None);
        check(598, 600, 0, true, Some((597, 600)));
        check(598, 600, 0, false, None);
        check(590, 597, usize::MAX, true, Some((588, 597)));
        check(600, 600, usize::MAX, true, None);
        rig.close();
        rig.reopen(true, 0);
    }
    for from in [-1, 601] {
        let options = ReadOptions {
            from: Offset(from),
            up_to: Offset(600),
            bytes_max: 1,
            at_least_one: true,
        };
        let refused = block_on(rig.log.read(options)).expect_err("out of range");
        assert!(matches!(refused, ReadError::OutOfRange { .. }));
    }
}

// Goal: an append is one write, and a read of small batches near the end is none. Method: count disk operations.
#[test]
fn hot_path_operations() {
    let rig = Rig::new(LogConfig::default());
    rig.append(1, 1);
    let before = rig.disk.counts();
    rig.append(10, 2);
    let after = rig.disk.counts();
    assert_eq!(
        (after.writes - before.writes, after.opens),
        (1, before.opens)
    );
    rig.read(5, 21, 1_000, true);
    assert_eq!(rig.disk.counts(), after);
}

// Goal: a failed write or sync is final. Method: let each kind fail; every later call answers Failed.
#[test]
fn failures_are_final() {
    fn check(act: impl Fn(&Rig) -> Result<(), StorageError>) {
        let rig = Rig::new(LogConfig::default());
        rig.append(3, 1);
        rig.disk.fail_after(0, 5);
        assert!(matches!(act(&rig), Err(StorageError::Disk(_))));
        assert!(rig.log.is_failed());
        assert!(matches!(act(&rig), Err(StorageError::Failed { .. })));
        let read = block_on(rig.log.read(ReadOptions {
            from: Offset(0),
            up_to: Offset(3),
            bytes_max: 100,
            at_least_one: true,
        }));
        assert!(matches!(
            read,
            Err(ReadError::Storage(StorageError::Failed { .. }))
        ));
    }
    check(|rig| {
        let (bytes, facts) = Spec::new(3, 1).build();
        block_on(rig.log.append(&[bytes], &[facts])).map(|_| ())
    });
    check(|rig| block_on(rig.log.sync()).map(|_| ()));
    check(|rig| block_on(rig.log.roll(None)));
    check(|rig| block_on(rig.log.close(None)).map(|_| ()));
}

// Goal: ENOSPC at every single operation leaves a log that recovers to a prefix. Method: fail the n-th operation of a
// long run, reopen, compare with what was acknowledged.
#[test]
fn any_failed_operation_leaves_a_prefix() {
    for operation in 0..60 {
        let mut rig = Rig::new(small_segments());
        rig.disk.fail_after(operation, 28);
        let mut acked = Vec::new();
        for _ in 0..40 {
            let (bytes, facts) = Spec::new(rig.log.log_end().0, 2).build();
            match block_on(rig.log.append(std::slice::from_ref(&bytes), &[facts])) {
                Ok(_) => acked.extend_from_slice(&bytes),
                Err(_) => break,
            }
        }
        rig.disk.fail_after(u64::MAX, 0);
        rig.reopen(false, 0);
        let found = rig.read_all(0, 1_000_000);
        assert!(found.starts_with(&acked), "operation {operation}");
    }
}

// Goal: a batch larger than a segment still gets one of its own. Method: one huge batch between small ones.
#[test]
fn oversized_batch() {
    let rig = Rig::new(small_segments());
    rig.append(1, 1);
    let mut spec = Spec::new(1, 1);
    spec.value_bytes = 10_000;
    rig.append_spec(&spec);
    rig.append(1, 1);
    assert_eq!(rig.bases(), [0, 1, 2]);
    assert_eq!(end_of(&rig.read_all(0, 1)), Offset(3));
}

// Goal: a roll asked for by the owner writes the snapshot first and needs no data twice. Method: roll, roll again.
#[test]
fn explicit_roll() {
    let rig = Rig::new(small_segments());
    assert!(
        !rig.log.roll_wanted(1_000_000),
        "an empty segment takes anything"
    );
    rig.append(2, 2);
    assert!(!rig.log.roll_wanted(100));
    assert!(rig.log.roll_wanted(10_000));
    let snapshot = Bytes::from(ProducerStates::new().encode_snapshot(Offset(4)));
    for _ in 0..2 {
        block_on(rig.log.roll(Some(snapshot.clone()))).expect("healthy disk");
    }
    assert_eq!(rig.bases(), [0, 4]);
    assert!(rig.names().contains(&format!("{:020}.snapshot", 4)));
}

// Goal: epochs are recorded as they begin, with and without data. Method: assign, append, ask.
#[test]
fn epochs_are_kept() {
    let mut rig = Rig::new(LogConfig::default());
    block_on(rig.log.assign_epoch(LeaderEpoch(0))).expect("healthy disk");
    rig.append(1, 3);
    let mut spec = Spec::new(3, 2);
    spec.epoch = 4;
    rig.append_spec(&spec);
    let check = |rig: &Rig| {
        let end = |epoch| {
            let end = rig.log.end_offset_for_epoch(LeaderEpoch(epoch));
            end.map(|end| (end.epoch.0, end.end_offset.0))
        };
        assert_eq!(
            (end(0), end(3), end(4), end(5)),
            (Some((0, 3)), Some((0, 3)), Some((4, 5)), None)
        );
        assert_eq!(rig.log.epoch_at(Offset(4)), Some(LeaderEpoch(4)));
    };
    check(&rig);
    let text = rig.contents(&directory().join("leader-epoch-checkpoint"));
    assert_eq!(text, b"0\n2\n0 0\n4 3\n");
    rig.close();
    rig.reopen(true, 0);
    check(&rig);
    rig.reopen(false, 0);
    check(&rig);
}

// Goal: idle partitions cost a start no syncs, and an epoch is on disk before its first batch. Method: reopen and lead in new
// epochs, counting syncs; then append and look at the file, also after a crash.
#[test]
fn idle_epochs_cost_nothing() {
    let path = directory().join("leader-epoch-checkpoint");
    let mut rig = Rig::new(LogConfig::default());
    let lead = |rig: &Rig, epoch| {
        block_on(rig.log.assign_epoch(LeaderEpoch(epoch))).expect("healthy disk");
        assert_eq!(rig.log.latest_epoch().map(|e| e.epoch.0), Some(epoch));
    };
    lead(&rig, 0);
    rig.append(1, 3);
    rig.close();
    let before = rig.disk.counts().syncs;
    for epoch in 1..4 {
        rig.reopen(true, 0);
        lead(&rig, epoch);
    }
    assert_eq!(rig.disk.counts().syncs, before);
    let mut spec = Spec::new(3, 2);
    spec.epoch = 3;
    rig.append_spec(&spec);
    assert_eq!(rig.contents(&path), b"0\n2\n0 0\n3 3\n");
    rig.reopen(false, 0);
    let end = rig.log.end_offset_for_epoch(LeaderEpoch(2));
    assert_eq!(end.map(|end| (end.epoch.0, end.end_offset.0)), Some((0, 3)));
}

// Goal: deletion renames the directory away at once, removes it when it is due and ends the log. Method: delete, list, ask.
#[test]
fn deletion() {
    let rig = Rig::new(small_segments());
    rig.append(30, 2);
    block_on(rig.log.delete(Monotonic(0))).expect("healthy disk");
    let names = || {
        let left = block_on(rig.disk.read_dir(Path::new("/data"))).expect("it exists");
        left.into_iter().map(|entry| entry.name).collect::<Vec<_>>()
    };
    let doomed = format!("topic-0.{}-delete", "09".repeat(16));
    assert_eq!(names(), [&*doomed]);
    let delay = small_segments().file_delete_delay_ms;
    block_on(
        rig.store
            .trash()
            .empty(Monotonic(0).plus_ms(delay - 1), u64::MAX),
    );
    assert_eq!(names(), [&*doomed]);
    block_on(
        rig.store
            .trash()
            .empty(Monotonic(0).plus_ms(delay), u64::MAX),
    );
    assert_eq!(names(), [""; 0]);
    assert!(matches!(
        block_on(rig.log.sync()),
        Err(StorageError::Closed { .. })
    ));
}

// Goal: a resting log holds no files and goes on as before; reading many closed segments keeps one open. Method: count
// the files opened by the reads after it.
#[test]
fn resting() {
    let rig = Rig::new(small_segments());
    rig.append(60, 2);
    let expected = rig.read_all(0, 500);
    let before = rig.disk.counts().opens;
    rig.read(119, 120, 1, true);
    assert_eq!(rig.disk.counts().opens, before);
    block_on(rig.log.rest()).expect("healthy disk");
    rig.read(119, 120, 1, true);
    assert_eq!(rig.disk.counts().opens, before + 3);
    assert_eq!(rig.read_all(0, 500), expected);
    rig.append(1, 2);
    assert_eq!(end_of(&rig.read_all(0, 500)), Offset(122));
}

// Goal: a read from a gap between two segments, as compaction leaves them, goes on with the first batch behind it. Method: a
// second segment that begins 100 offsets later and has index entries, read from within the gap.
#[test]
fn reads_from_a_gap() {
    let rig = Rig::new(small_segments());
    rig.append(10, 1);
    let end = rig.log.log_end().0;
    let mut spec = Spec::new(end + 100, 1);
    spec.value_bytes = 1_500;
    rig.append_spec(&spec);
    rig.append(4, 1);
    assert_eq!(rig.bases(), [0, end + 100]);
    for from in [end, end + 1, end + 99, end + 100] {
        let bytes = rig.read(from, rig.log.log_end().0, 100_000, true);
        let first = Batches::new(&bytes).next().expect("a batch");
        assert_eq!(first.expect("whole").0.base_offset.0, end + 100, "{from}");
        assert_eq!(end_of(&bytes), rig.log.log_end(), "{from}");
    }
}
