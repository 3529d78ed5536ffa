//! The log start, discarded segments and the trash.

use std::path::Path;

use futures_lite::future::block_on;
use pelton_model::{LeaderEpoch, Monotonic, Offset};

use super::{Rig, Spec, directory, small_segments};
use crate::config::TRASH_FILE_BYTES_MIN;
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::ReadError;
use crate::log::ReadOptions;

const NOW: Monotonic = Monotonic(5_000_000);

fn advance(rig: &Rig, to: i64) -> i64 {
    let moved = block_on(rig.log.advance_log_start(Offset(to), NOW));
    moved.expect("healthy disk").0
}

fn due(rig: &Rig) -> Monotonic {
    NOW.plus_ms(rig.config.file_delete_delay_ms)
}

/// Names in the directory with this ending.
fn ending(rig: &Rig, suffix: &str) -> Vec<String> {
    let names = rig.names().into_iter();
    names.filter(|name| name.ends_with(suffix)).collect()
}

// Goal: the log start moves up only, within the log, and takes along the segments that end below it. Method: a table of
// moves on one log; bases are compared with those that a naive filter leaves.
#[test]
fn moves() {
    let mut rig = Rig::new(small_segments());
    rig.append(80, 3);
    let bases = rig.bases();
    assert!(bases.len() > 3);
    let mut check = |to: i64, expected: i64| {
        assert_eq!(advance(&rig, to), expected, "to {to}");
        assert_eq!(rig.log.log_start(), Offset(expected));
        let next = bases.iter().skip(1).chain([&i64::MAX]);
        let kept = bases.iter().zip(next).filter(|(_, next)| **next > expected);
        let kept: Vec<i64> = kept.map(|(base, _)| *base).collect();
        assert_eq!(rig.bases(), kept, "to {to}");
        rig.reopen(false, 0);
        assert_eq!(rig.bases(), kept);
        // The test's opening knows no checkpoint, so the start falls back to the segment's base.
        assert_eq!(rig.log.log_start(), Offset(kept[0]));
        block_on(rig.log.advance_log_start(Offset(expected), NOW)).expect("healthy disk");
    };
    check(1, 1);
    check(0, 1);
    check(bases[1] - 1, bases[1] - 1);
    check(bases[1], bases[1]);
    check(bases[2] + 1, bases[2] + 1);
    check(7, bases[2] + 1);
    check(1_000, 240);
}

// Goal: reads below the log start are refused, reads above go on. Method: read around a start in the middle of a batch.
#[test]
fn reads_around() {
    let rig = Rig::new(small_segments());
    rig.append(40, 3);
    let all = rig.read_all(0, 500);
    let start = rig.bases()[2] + 1;
    advance(&rig, start);
    let below = ReadOptions {
        from: Offset(start - 1),
        up_to: rig.log.log_end(),
        bytes_max: 100,
        at_least_one: true,
    };
    let refused = block_on(rig.log.read(below));
    assert!(matches!(refused, Err(ReadError::OutOfRange { .. })));
    // The batch that contains the start is returned whole.
    assert!(all.ends_with(&rig.read_all(start, 500)));
}

// Goal: the epoch history begins at the log start. Method: three epochs, starts around their borders.
#[test]
fn epochs_are_trimmed() {
    let rig = Rig::new(small_segments());
    for (base, epoch) in [(0, 0), (10, 1), (20, 4)] {
        let mut spec = Spec::new(base, 10);
        spec.epoch = epoch;
        rig.append_spec(&spec);
    }
    let check = |to: i64, asked: i32, expected: Option<(i32, i64)>| {
        advance(&rig, to);
        let end = rig.log.end_offset_for_epoch(LeaderEpoch(asked));
        assert_eq!(end.map(|end| (end.epoch.0, end.end_offset.0)), expected);
    };
    check(5, 0, Some((0, 10)));
    check(15, 0, Some((0, 15)));
    check(15, 2, Some((1, 20)));
    check(30, 1, Some((1, 30)));
    check(30, 4, Some((4, 30)));
}

// Goal: discarded files wait under another name, indexes and snapshot too, and go when they are due. Method: list before
// and after; the kept segments keep their snapshots.
#[test]
fn discarded_files() {
    let rig = Rig::new(small_segments());
    rig.append(20, 3);
    let snapshot = bytes::Bytes::from_static(b"not read here");
    block_on(rig.log.roll(Some(snapshot.clone()))).expect("healthy disk");
    let rolled = rig.log.log_end().0;
    rig.append(20, 3);
    block_on(rig.log.roll(Some(snapshot))).expect("healthy disk");
    let end = rig.log.log_end().0;
    rig.append(1, 1);
    let doomed = rig.bases().iter().filter(|base| **base < end).count();
    advance(&rig, end);
    assert_eq!(ending(&rig, ".log.deleted").len(), doomed);
    assert_eq!(ending(&rig, ".index.deleted").len(), doomed);
    assert_eq!(ending(&rig, ".timeindex.deleted").len(), doomed);
    assert_eq!(
        ending(&rig, ".snapshot.deleted"),
        [format!("{rolled:020}.snapshot.deleted")]
    );
    assert_eq!(ending(&rig, ".snapshot"), [format!("{end:020}.snapshot")]);
    let trash = rig.store.trash();
    assert_eq!(trash.count(), doomed);
    assert_eq!(trash.next_due(), Some(due(&rig)));
    let early = block_on(trash.empty(NOW, u64::MAX));
    assert_eq!((early.bytes, early.has_more), (0, false));
    let emptied = block_on(trash.empty(due(&rig), 1 << 40));
    assert!(!emptied.has_more);
    assert_eq!(ending(&rig, ".deleted"), [""; 0]);
    assert_eq!(trash.count(), 0);
}

// Goal: a large file goes in steps of the budget. Method: a file of eight budgets; sizes after each call.
#[test]
fn large_files_shrink() {
    let rig = Rig::new(small_segments());
    let path = Path::new("/data/gone-0.delete");
    block_on(rig.disk.create_dir_all(path)).expect("healthy disk");
    let step = TRASH_FILE_BYTES_MIN;
    let file = path.join("00000000000000000000.log");
    let opened = block_on(rig.disk.open(&file, OpenMode::CreateNew)).expect("healthy disk");
    block_on(opened.set_size(step * 4)).expect("healthy disk");
    let trash = rig.store.trash();
    trash.put_directory(path.to_owned(), NOW);
    for left in [3, 2, 1] {
        let emptied = block_on(trash.empty(NOW, step));
        assert_eq!((emptied.bytes, emptied.has_more), (step, true));
        assert_eq!(block_on(opened.size_bytes()).expect("open"), step * left);
    }
    // Unlinking the rest uses up the budget, so the directory goes with the next call.
    assert!(!block_on(trash.empty(NOW, step)).has_more);
    assert!(block_on(rig.disk.read_dir(path)).is_err());
}

// Goal: a segment that somebody still holds is not truncated. Method: hold one over its removal and read on.
#[test]
fn readers_keep_their_bytes() {
    let rig = Rig::new(small_segments());
    rig.append(40, 3);
    let held = rig.log.segment_at(0).expect("the first segment");
    let size = held.size_bytes();
    let file = block_on(held.file()).expect("healthy disk");
    let before = block_on(file.read_at(0, 10_000)).expect("healthy disk");
    advance(&rig, 1_000);
    // Released and opened again under its new name.
    held.release();
    let renamed = block_on(held.file()).expect("healthy disk");
    assert_eq!(block_on(renamed.size_bytes()).expect("open"), size);
    block_on(rig.store.trash().empty(due(&rig), 1 << 40));
    assert_eq!(block_on(file.read_at(0, 10_000)).expect("open"), before);
    assert_eq!(ending(&rig, ".deleted"), [""; 0]);
}

// Goal: leftovers of an earlier run go after the next start, in pieces and not before it is over, and are never in the way of what
// is deleted then. Method: discard, do not empty, reopen, twice; discard again beside them; then empty with a small budget.
#[test]
fn leftovers_go_after_the_next_start() {
    let mut rig = Rig::new(small_segments());
    rig.append(40, 3);
    advance(&rig, 60);
    let left = ending(&rig, ".deleted").len();
    let bytes = rig.deleted_bytes();
    assert!(0 < left);
    for _ in 0..2 {
        rig.reopen(false, 0);
        assert_eq!(ending(&rig, ".1.deleted").len(), left);
        assert_eq!(
            (ending(&rig, ".deleted").len(), rig.deleted_bytes()),
            (left, bytes)
        );
    }
    let trash = rig.store.trash().clone();
    assert_eq!(trash.count(), left);
    let segments = rig.bases().len();
    advance(&rig, 1_000);
    assert!(rig.bases().len() < segments);
    assert!(left < ending(&rig, ".deleted").len());
    let mut pieces = 0;
    while block_on(trash.empty(NOW, 300)).has_more {
        pieces += 1;
    }
    assert!(2 < pieces, "{pieces}");
    assert_eq!(ending(&rig, ".1.deleted"), [""; 0]);
    assert!(
        !ending(&rig, ".deleted").is_empty(),
        "what is not due yet stays"
    );
    while block_on(trash.empty(due(&rig), 300)).has_more {}
    assert_eq!(ending(&rig, ".deleted"), [""; 0]);
}

// Goal: a power cut at any time during a discard leaves the end of the log whole. Method: many seeds; whatever is left
// reads as the end of what was there, and a second opening finds the same.
#[test]
fn power_cuts() {
    for seed in 0..200 {
        let mut rig = Rig::new(small_segments());
        rig.append(40, 3);
        let all = rig.read_all(0, 500);
        block_on(rig.log.sync()).expect("healthy disk");
        advance(&rig, 100);
        if seed % 3 == 0 {
            block_on(rig.store.trash().empty(due(&rig), 3_000));
        }
        rig.disk.crash(seed);
        rig.reopen(false, 120);
        let first = rig.log.log_start().0;
        assert_eq!(rig.log.log_end(), Offset(120), "seed {seed}");
        assert!(all.ends_with(&rig.read_all(first, 500)), "seed {seed}");
        rig.reopen(false, 120);
        assert_eq!(rig.log.log_start().0, first, "seed {seed}");
    }
}

// Goal: a rename that fails ends the log, and what is on disk opens again. Method: let each of the first operations fail
// in turn.
#[test]
fn failing_renames() {
    const EIO: i32 = 5;
    for operation in 0..10 {
        let mut rig = Rig::new(small_segments());
        rig.append(40, 3);
        rig.disk.fail_after(operation, EIO);
        let failed = block_on(rig.log.advance_log_start(Offset(1_000), NOW));
        assert!(failed.is_err(), "operation {operation}");
        assert!(rig.log.is_failed());
        rig.reopen(false, 0);
        assert_eq!(rig.log.log_end(), Offset(120), "operation {operation}");
        let first = rig.bases()[0];
        assert_eq!(rig.log.log_start(), Offset(first));
        assert!(rig.disk.counts().reads > 0, "{}", directory().display());
    }
}
