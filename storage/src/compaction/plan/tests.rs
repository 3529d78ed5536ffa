//! Tables of plans and groups.

use super::*;

/// Segments of 100 bytes at these bases, with first and largest timestamps of `base` and `base + 5`.
fn segments(bases: &[i64]) -> Vec<SegmentFacts> {
    let segment = |&base: &i64| SegmentFacts {
        base: Offset(base),
        size_bytes: 100,
        first_timestamp: Some(Timestamp(base)),
        largest_timestamp: Some(Timestamp(base + 5)),
    };
    bases.iter().map(segment).collect()
}

const POLICY: Policy = Policy {
    min_cleanable_dirty_ratio: 0.5,
    min_compaction_lag_ms: 0,
    max_compaction_lag_ms: i64::MAX,
};

/// What of a log is cleaned: first dirty, up to, clean and dirty bytes, overdue.
type Expected = (i64, i64, u64, u64, bool);

fn check(change: impl Fn(&mut LogFacts<'_>, &mut Policy), expected: Expected) {
    let closed = segments(&[10, 20, 30, 40]);
    let mut log = LogFacts {
        closed: &closed,
        active_base: Offset(50),
        log_start: Offset(10),
        log_end: Offset(60),
        last_stable: Offset(60),
        cleaned_to: None,
    };
    let mut policy = POLICY;
    change(&mut log, &mut policy);
    let plan = plan(&log, &policy, Timestamp(100));
    let found = (
        plan.first_dirty.0,
        plan.up_to.0,
        plan.clean_bytes,
        plan.dirty_bytes,
        plan.is_overdue,
    );
    assert_eq!(found, expected);
}

// Goal: the range is Kafka's. Method: a log of four closed segments, one thing changed at a time.
#[test]
fn ranges() {
    check(|_, _| {}, (10, 50, 0, 400, false));
    // Cleaned before, to a boundary and to the middle of a segment.
    check(
        |log, _| log.cleaned_to = Some(Offset(30)),
        (30, 50, 200, 200, false),
    );
    check(
        |log, _| log.cleaned_to = Some(Offset(35)),
        (35, 50, 200, 200, false),
    );
    check(
        |log, _| log.cleaned_to = Some(Offset(50)),
        (50, 50, 400, 0, false),
    );
    check(
        |log, _| log.cleaned_to = Some(Offset(55)),
        (55, 55, 400, 0, false),
    );
    // A checkpoint beyond the log end or before the log start counts as none.
    check(
        |log, _| log.cleaned_to = Some(Offset(61)),
        (10, 50, 0, 400, false),
    );
    check(
        |log, _| log.cleaned_to = Some(Offset(3)),
        (10, 50, 0, 400, false),
    );
    check(
        |log, _| log.log_start = Offset(25),
        (25, 50, 100, 300, false),
    );
    // Nothing at or above the last stable offset.
    check(
        |log, _| log.last_stable = Offset(40),
        (10, 40, 0, 300, false),
    );
    check(
        |log, _| log.last_stable = Offset(39),
        (10, 30, 0, 200, false),
    );
    check(|log, _| log.last_stable = Offset(5), (10, 10, 0, 0, false));
    // Nothing younger than the min lag, nor behind it: 30 is the largest timestamp that has waited.
    check(
        |_, policy| policy.min_compaction_lag_ms = 70,
        (10, 30, 0, 200, false),
    );
    check(
        |_, policy| policy.min_compaction_lag_ms = 100,
        (10, 10, 0, 0, false),
    );
    check(
        |_, policy| policy.min_compaction_lag_ms = i64::MAX,
        (10, 10, 0, 0, false),
    );
    // A first record at 10 waits for 90 ms.
    check(
        |_, policy| policy.max_compaction_lag_ms = 89,
        (10, 50, 0, 400, true),
    );
    check(
        |_, policy| policy.max_compaction_lag_ms = 90,
        (10, 50, 0, 400, false),
    );
    check(
        |log, policy| {
            policy.max_compaction_lag_ms = 89;
            log.cleaned_to = Some(Offset(20));
        },
        (20, 50, 100, 300, false),
    );
}

// Goal: the thresholds are strict, and nothing is done for nothing. Method: ratios around the bound.
#[test]
fn worthwhile() {
    let check = |clean: u64, dirty: u64, ratio: f64, is_overdue: bool, expected: bool| {
        let plan = Plan {
            first_dirty: Offset(0),
            up_to: Offset(9),
            clean_bytes: clean,
            dirty_bytes: dirty,
            is_overdue,
        };
        let policy = Policy {
            min_cleanable_dirty_ratio: ratio,
            ..POLICY
        };
        assert_eq!(
            plan.is_worthwhile(&policy),
            expected,
            "{clean} {dirty} {ratio}"
        );
    };
    check(100, 100, 0.5, false, false);
    check(100, 101, 0.5, false, true);
    check(0, 1, 0.99, false, true);
    check(0, 1, 1.0, false, false);
    check(100, 0, 0.0, false, false);
    check(100, 1, 0.0, false, true);
    check(1000, 1, 0.5, true, true);
    check(1000, 0, 0.5, true, false);
    check(0, 0, 0.0, true, false);
}

// Goal: an empty log plans nothing. Method: no closed segment.
#[test]
fn no_closed_segment() {
    check(|log, _| log.closed = &[], (10, 50, 0, 0, false));
}

// Goal: a new segment keeps its bounds. Method: sizes, index sizes and offset ranges at the edge.
#[test]
fn joining() {
    let config = LogConfig {
        segment_size_bytes_max: 1000,
        index_interval_bytes: 100,
        index_size_bytes_max: 120,
        ..LogConfig::default()
    };
    let check = |size: u64, has_records: bool, next: u64, end: i64, expected: bool| {
        let gathered = Gathered {
            base: Offset(7),
            size_bytes: size,
            has_records,
        };
        let found = may_join(&gathered, next, Offset(end), &config);
        assert_eq!(found, expected, "{size} {has_records} {next} {end}");
    };
    check(400, true, 499, 50, true);
    check(400, true, 500, 50, true);
    check(400, true, 601, 50, false);
    // Ten entries of twelve bytes: the index is full before the segment.
    check(400, true, 600, 50, false);
    // Headers alone are never enough.
    check(61, false, 10_000, 50, true);
    let far = 7 + i64::from(i32::MAX);
    check(400, true, 100, far + 1, true);
    check(400, true, 100, far + 2, false);
    check(0, false, 100, far + 2, false);
}
