//! Retention by size and time, and rolling by record time.

use futures_lite::future::block_on;
use pelton_model::{Monotonic, Offset, Timestamp};

use super::{Rig, Spec};
use crate::config::LogConfig;
use crate::log::{Retained, RetentionTerms};

/// A log with one batch (one record) for each timestamp; 0 in `rolls` ends a segment before the batch of that index.
fn rig(config: LogConfig, batches: &[&[i64]]) -> Rig {
    let rig = Rig::new(config);
    for (index, segment) in batches.iter().enumerate() {
        if index > 0 {
            block_on(rig.log.roll(None)).expect("healthy disk");
        }
        for &timestamp in *segment {
            append(&rig, timestamp);
        }
    }
    rig
}

fn append(rig: &Rig, timestamp: i64) {
    let mut spec = Spec::new(rig.log.log_end().0, 1);
    spec.timestamps = vec![timestamp];
    rig.append_spec(&spec);
}

fn retain(rig: &Rig, now: i64, high_watermark: i64) -> Retained {
    let terms = RetentionTerms {
        now: Timestamp(now),
        instant: Monotonic(0),
        high_watermark: Offset(high_watermark),
    };
    block_on(rig.log.retain(terms, || None)).expect("healthy disk")
}

fn deleting() -> LogConfig {
    LogConfig {
        deletes: true,
        retention_ms: 100,
        segment_ms: i64::MAX,
        ..LogConfig::default()
    }
}

/// Segments of two records each at 10, 20, 30; the last is active.
const BATCHES: [&[i64]; 3] = [&[10, 9], &[20, 5], &[30, 30]];

// Goal: by time the oldest segments go, by their largest timestamp, below the high watermark only; when all have expired
// the active one is rolled and goes too. Method: a table over one log: now, high watermark, the bases left.
#[test]
fn by_time() {
    fn check(now: i64, high_watermark: i64, expected: &[i64]) {
        let rig = rig(deleting(), &BATCHES);
        let retained = retain(&rig, now, high_watermark);
        assert_eq!(
            rig.bases(),
            expected,
            "now {now}, high watermark {high_watermark}"
        );
        assert_eq!(retained.log_start, Offset(expected[0]));
        assert_eq!(rig.log.log_end(), Offset(6));
        let before = BATCHES.len() + usize::from(expected == [6]);
        assert_eq!(retained.deleted, before - expected.len());
        // Once is enough.
        assert_eq!(retain(&rig, now, high_watermark).deleted, 0);
    }
    check(0, 6, &[0, 2, 4]);
    check(110, 6, &[0, 2, 4]);
    check(111, 6, &[2, 4]);
    check(120, 6, &[2, 4]);
    check(121, 6, &[4]);
    check(130, 6, &[4]);
    check(131, 6, &[6]);
    check(131, 5, &[4]);
    check(131, 4, &[4]);
    check(131, 3, &[2, 4]);
    check(131, 1, &[0, 2, 4]);
}

// Goal: an older segment behind a younger one waits for it: only a prefix goes. Method: timestamps that go back.
#[test]
fn a_young_segment_holds_up_older_ones() {
    let rig = rig(deleting(), &[&[50], &[10], &[60]]);
    assert_eq!(retain(&rig, 140, 3).deleted, 0);
    assert_eq!(retain(&rig, 155, 3).log_start, Offset(2));
}

// Goal: by size as many of the oldest go as leave at least retention.bytes. Method: a table in units of a segment.
#[test]
fn by_size() {
    fn check(segments_wanted: f64, expected: &[i64]) {
        let rig = rig(deleting(), &BATCHES);
        let one = rig.log.size_bytes() / 3;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            reason = "small"
        )]
        let retention_bytes = (one as f64 * segments_wanted) as i64;
        rig.log.set_config(LogConfig {
            retention_ms: -1,
            retention_bytes,
            ..deleting()
        });
        retain(&rig, i64::MAX, 6);
        assert_eq!(rig.bases(), expected, "{segments_wanted} segments");
    }
    check(-1.0, &[0, 2, 4]);
    check(3.1, &[0, 2, 4]);
    check(3.0, &[0, 2, 4]);
    check(2.1, &[0, 2, 4]);
    check(2.0, &[2, 4]);
    check(1.5, &[2, 4]);
    check(1.0, &[4]);
    check(0.5, &[4]);
    check(0.0, &[6]);
}

// Goal: without the policy `delete` nothing goes but what lies below the log start. Method: everything expired and too
// large, the policies compact and none.
#[test]
fn policies_without_delete() {
    for compacted in [false, true] {
        let config = LogConfig {
            deletes: false,
            compacted,
            retention_bytes: 0,
            ..deleting()
        };
        let rig = rig(config, &BATCHES);
        assert_eq!(retain(&rig, 1_000, 6).deleted, 0);
        block_on(rig.log.advance_log_start(Offset(3), Monotonic(0))).expect("healthy disk");
        assert_eq!(retain(&rig, 1_000, 6).log_start, Offset(3));
        assert_eq!(rig.bases(), [2, 4]);
    }
}

// Goal: where no record has a timestamp, the file's own time counts; unknown, the segment stays. Method: records at −1.
#[test]
fn without_timestamps() {
    let rig = rig(deleting(), &[&[-1], &[-1], &[500]]);
    assert_eq!(retain(&rig, 200, 3).deleted, 0);
    rig.disk.set_modified(&rig.file(0, "log"), Timestamp(50));
    rig.disk.set_modified(&rig.file(1, "log"), Timestamp(150));
    assert_eq!(retain(&rig, 200, 3).log_start, Offset(1));
}

// Goal: an empty log is left alone, also one that retention has emptied. Method: ask often; nothing is created.
#[test]
fn empty_logs() {
    let rig = rig(deleting(), &[]);
    assert_eq!(retain(&rig, i64::MAX, 0).deleted, 0);
    append(&rig, 10);
    assert_eq!(retain(&rig, i64::MAX, 1).deleted, 1);
    assert_eq!(retain(&rig, i64::MAX, 1).deleted, 0);
    assert_eq!(rig.bases(), [1]);
    append(&rig, 20);
    assert_eq!(rig.log.log_end(), Offset(2));
}

// Goal: the producer snapshot of a roll by retention is there for the next start. Method: expire all, look.
#[test]
fn a_roll_leaves_a_snapshot() {
    let rig = rig(deleting(), &[&[10]]);
    let terms = RetentionTerms {
        now: Timestamp(1_000),
        instant: Monotonic(0),
        high_watermark: Offset(1),
    };
    let snapshot = || Some(bytes::Bytes::from_static(b"states"));
    block_on(rig.log.retain(terms, snapshot)).expect("healthy disk");
    assert_eq!(rig.contents(&rig.file(1, "snapshot")), b"states");
}

// Goal: a batch that comes segment.ms after the first of its segment begins a new one, by record time alone. Method: a
// table: timestamps of batches, the bases that result; also over a restart, which has forgotten the first timestamp.
#[test]
fn rolls_by_record_time() {
    fn check(timestamps: &[i64], expected: &[i64]) {
        let config = LogConfig {
            segment_ms: 100,
            ..LogConfig::default()
        };
        let mut rig = rig(config, &[timestamps]);
        assert_eq!(rig.bases(), expected, "{timestamps:?}");
        // The same in one call.
        let at_once = Rig::new(config);
        let specs = timestamps.iter().enumerate().map(|(base, &timestamp)| {
            let mut spec = Spec::new(i64::try_from(base).expect("small"), 1);
            spec.timestamps = vec![timestamp];
            spec.build()
        });
        let (batches, facts): (Vec<_>, Vec<_>) = specs.unzip();
        block_on(at_once.log.append(&batches, &facts)).expect("healthy disk");
        assert_eq!(at_once.bases(), expected, "{timestamps:?} at once");
        // The same with a clean restart before the last.
        let Some((last, before)) = timestamps.split_last() else {
            return;
        };
        rig = self::rig(config, &[before]);
        rig.close();
        rig.reopen(true, 0);
        append(&rig, *last);
        assert_eq!(rig.bases(), expected, "{timestamps:?} over a restart");
    }
    check(&[0, 100], &[0]);
    check(&[0, 101], &[0, 1]);
    check(&[0, 50, 101, 150, 202], &[0, 2, 4]);
    check(&[500, 10, 20], &[0]);
    check(&[10, 500, 10, 601], &[0, 1, 3]);
    check(&[-1, 1_000_000], &[0]);
    check(&[10, -1, 111], &[0, 2]);
}

// Goal: jitter makes segments roll earlier, each by its own amount, the same at each start. Method: many logs' worth of
// bases; the time at which each would roll.
#[test]
fn jitter() {
    let config = LogConfig {
        segment_ms: 1_000,
        segment_jitter_ms: 400,
        ..LogConfig::default()
    };
    let rig = rig(config, &[]);
    let mut waits = Vec::new();
    for _ in 0..20 {
        append(&rig, 0);
        let wait = (0..)
            .find(|&ms| rig.log.roll_due(Timestamp(ms)))
            .expect("it ends");
        assert!((601..=1_001).contains(&wait), "{wait}");
        waits.push(wait);
        block_on(rig.log.roll(None)).expect("healthy disk");
    }
    waits.sort_unstable();
    waits.dedup();
    assert!(waits.len() > 10, "{waits:?}");
}

// Goal: a segment without timestamps is rolled by the clock of the retention task. Method: calls around segment.ms.
#[test]
fn rolls_by_the_clock() {
    let config = LogConfig {
        segment_ms: 100,
        ..LogConfig::default()
    };
    let rig = rig(config, &[&[-1]]);
    for (now, expected) in [(1_000, &[0][..]), (1_100, &[0]), (1_101, &[0, 1])] {
        retain(&rig, now, 1);
        assert_eq!(rig.bases(), expected, "at {now}");
    }
}
