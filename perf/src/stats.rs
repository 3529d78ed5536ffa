//! What a worker counts, and how the counts of workers become one.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use pelton_model::ErrorCode;

use crate::clock::{Nanos, SECOND};

/// Longer latencies count as this one.
const LATENCY_MAX: Nanos = 3_600 * SECOND;
/// Shorter ones as this one.
const LATENCY_MIN: Nanos = 100;

/// Latencies in nanoseconds, to three digits.
#[derive(Clone, Debug)]
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(LATENCY_MIN, LATENCY_MAX, 3);
        Self(histogram.expect("the bounds are in order"))
    }

    #[inline]
    pub(crate) fn record(&mut self, latency: Nanos) {
        self.0.saturating_record(latency.max(LATENCY_MIN));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    pub(crate) fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }
}

/// How much went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.records += other.records;
        self.bytes += other.bytes;
    }
}

/// What went through in one direction.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) counts: Counts,
    pub(crate) latencies: Latencies,
}

impl Side {
    pub(crate) fn new() -> Self {
        Self { counts: Counts::default(), latencies: Latencies::new() }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.counts.add(other.counts);
        self.latencies.merge(&other.latencies);
    }
}

/// What is counted in one interval: small, because a new one is made while requests are due.
#[derive(Clone, Debug)]
pub(crate) struct Interval {
    pub(crate) produce: Counts,
    pub(crate) fetch: Counts,
    pub(crate) failed: u64,
    /// The latencies that the load is about, to two digits.
    latencies: Histogram<u32>,
}

impl Interval {
    pub(crate) fn new() -> Self {
        let latencies = Histogram::new_with_bounds(LATENCY_MIN, LATENCY_MAX, 2);
        Self {
            produce: Counts::default(),
            fetch: Counts::default(),
            failed: 0,
            latencies: latencies.expect("the bounds are in order"),
        }
    }

    #[inline]
    pub(crate) fn record(&mut self, latency: Nanos) {
        self.latencies.saturating_record(latency.max(LATENCY_MIN));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.produce.add(other.produce);
        self.fetch.add(other.fetch);
        self.failed += other.failed;
        self.latencies.add(&other.latencies).expect("all have the same bounds");
    }

    /// The latency that so many in a hundred do not exceed; 0 of none.
    pub(crate) fn percentile(&self, percent: f64) -> Nanos {
        self.latencies.value_at_percentile(percent)
    }
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failure {
    /// The broker answered a partition with this code.
    Code(i16),
    /// The broker closed a connection.
    Closed,
    /// A request was in flight on a connection that the broker closed.
    Lost,
}

impl Failure {
    /// Its name.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Code(code) => ErrorCode::from_code(code)
                .map_or_else(|| format!("code {code}"), |known| known.name().to_owned()),
            Self::Closed => "connection closed".to_owned(),
            Self::Lost => "request lost with its connection".to_owned(),
        }
    }
}

/// Everything a worker counts, or all of them.
#[derive(Clone, Debug)]
pub(crate) struct Stats {
    pub(crate) produce: Side,
    pub(crate) fetch: Side,
    /// From due to delivered.
    pub(crate) delivery: Latencies,
    pub(crate) failures: BTreeMap<Failure, u64>,
}

impl Stats {
    pub(crate) fn new() -> Self {
        Self {
            produce: Side::new(),
            fetch: Side::new(),
            delivery: Latencies::new(),
            failures: BTreeMap::new(),
        }
    }

    pub(crate) fn fail(&mut self, failure: Failure, count: u64) {
        if 0 < count {
            *self.failures.entry(failure).or_default() += count;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.produce.merge(&other.produce);
        self.fetch.merge(&other.fetch);
        self.delivery.merge(&other.delivery);
        for (&failure, &count) in &other.failures {
            self.fail(failure, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: percentiles are those of all workers, to three digits, and what is out of bounds is kept at the bound.
    /// Method: two halves of known values.
    #[test]
    fn merged() {
        let (mut low, mut high) = (Stats::new(), Stats::new());
        for value in 1..=500 {
            low.produce.latencies.record(value * 1_000);
            high.produce.latencies.record((500 + value) * 1_000);
        }
        low.fail(Failure::Code(6), 2);
        high.fail(Failure::Code(6), 1);
        high.fail(Failure::Closed, 0);
        low.merge(&high);
        let median = low.produce.latencies.histogram().value_at_percentile(50.0);
        assert!((499_000..=501_000).contains(&median), "{median}");
        assert_eq!(low.produce.latencies.histogram().len(), 1_000);
        assert_eq!(low.failures, BTreeMap::from([(Failure::Code(6), 3)]));
        low.produce.latencies.record(u64::MAX);
        assert!(LATENCY_MAX <= low.produce.latencies.histogram().max());
        let (mut one, mut other) = (Interval::new(), Interval::new());
        one.record(1_000_000);
        other.record(3_000_000);
        one.merge(&other);
        assert!((2_900_000..=3_100_000).contains(&one.percentile(99.0)));
    }
}
