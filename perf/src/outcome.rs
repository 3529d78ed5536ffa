//! What a run has to show, for people and for programs.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::load::{Durability, Load};
use crate::process::Usage;
use crate::stats::{Latencies, Side};

/// Where the curve of percentiles has its points: one minus powers of two, each halved again five times.
const CURVE_TICKS_PER_HALF: u32 = 5;

/// Latencies, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many were measured.
    pub count: u64,
    /// The arithmetic mean.
    pub mean_us: f64,
    /// Half do not exceed it.
    pub p50_us: f64,
    /// Nine in ten.
    pub p90_us: f64,
    /// 99 in a hundred.
    pub p99_us: f64,
    /// 999 in a thousand.
    pub p999_us: f64,
    /// 9 999 in ten thousand.
    pub p9999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Percentile and latency in microseconds, at the points of an HDR plot.
    pub curve: Vec<(f64, f64)>,
}

impl Latency {
    pub(crate) fn new(latencies: &Latencies) -> Self {
        let histogram: &Histogram<u64> = latencies.histogram();
        if histogram.is_empty() {
            return Self::default();
        }
        let at = |quantile: f64| us(histogram.value_at_quantile(quantile));
        let points = histogram.iter_quantiles(CURVE_TICKS_PER_HALF);
        let curve = points
            .map(|point| (point.quantile_iterated_to() * 100.0, us(point.value_iterated_to())))
            .collect();
        Self {
            count: histogram.len(),
            mean_us: histogram.mean() / 1e3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            p9999_us: at(0.9999),
            max_us: us(histogram.max()),
            curve,
        }
    }
}

fn us(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

/// What went through in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flowed {
    /// Requests without an error.
    pub requests: u64,
    /// Their records.
    pub records: u64,
    /// The size of their batches.
    pub bytes: u64,
    /// Requests a second.
    pub requests_per_second: f64,
    /// Records a second.
    pub records_per_second: f64,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// From due to answered.
    pub latency: Latency,
}

impl Flowed {
    pub(crate) fn new(side: &Side, seconds: f64) -> Self {
        let counts = side.counts;
        let rate = |count: u64| {
            if 0.0 < seconds { count as f64 / seconds } else { 0.0 }
        };
        Self {
            requests: counts.requests,
            records: counts.records,
            bytes: counts.bytes,
            requests_per_second: rate(counts.requests),
            records_per_second: rate(counts.records),
            bytes_per_second: rate(counts.bytes),
            latency: Latency::new(&side.latencies),
        }
    }
}

/// What one second of a run looked like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Seconds since the begin, at the end of the interval.
    pub at_seconds: f64,
    /// Requests a second, produced and fetched.
    pub requests_per_second: f64,
    /// Bytes a second, produced and fetched.
    pub bytes_per_second: f64,
    /// Median latency.
    pub p50_us: f64,
    /// 99th percentile of latency.
    pub p99_us: f64,
    /// The largest latency.
    pub max_us: f64,
    /// Cores that the broker kept busy.
    pub broker_cores: f64,
    /// Its resident memory.
    pub resident_bytes: u64,
    /// What failed.
    pub failed: u64,
}

/// Everything about a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The load.
    pub load: Load,
    /// Where it went.
    pub broker_address: String,
    /// What an acknowledged record has survived.
    pub durability: Durability,
    /// Seconds that were measured.
    pub seconds: f64,
    /// What producers sent.
    pub produce: Flowed,
    /// What consumers got.
    pub fetch: Flowed,
    /// Records acknowledged from the begin of the warm-up to the last answer.
    pub records_written: u64,
    /// From due to delivered, where payloads bear stamps.
    pub delivery: Latency,
    /// What the broker's process used; none when it is not known.
    pub broker: Option<Usage>,
    /// Resident bytes of the broker before topics and connections of the load were made, and after.
    pub resident_before: u64,
    /// As above.
    pub resident_ready: u64,
    /// What this process used.
    pub client: Usage,
    /// What failed, by name.
    pub failures: BTreeMap<String, u64>,
    /// Requests that were due and never sent.
    pub unsent: u64,
    /// Requests that nobody answered in time.
    pub unanswered: u64,
    /// Acknowledged records that consumers did not get in time.
    pub undelivered: u64,
    /// How it went over time.
    pub moments: Vec<Moment>,
}

impl Outcome {
    /// The direction that the load is about.
    #[must_use]
    pub fn main_flow(&self) -> &Flowed {
        if self.load.kind.produces() { &self.produce } else { &self.fetch }
    }

    /// The latency that the load is about.
    #[must_use]
    pub fn main_latency(&self) -> &Latency {
        if 0 < self.delivery.count && self.load.kind == crate::load::Kind::Tail {
            &self.delivery
        } else {
            &self.main_flow().latency
        }
    }

    /// Errors and whatever was not done, together: nothing of it is ever left out.
    #[must_use]
    pub fn shed(&self) -> u64 {
        let failed: u64 = self.failures.values().sum();
        failed + self.unsent + self.unanswered + self.undelivered
    }
}
