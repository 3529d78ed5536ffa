//! What a load is: its settings, for the command line and for scenario files alike, and which of them make sense.
//!
//! Invariant: a [`Load`] that [`Load::check`] let pass is bounded in connections, memory and time.

use std::collections::BTreeMap;
use std::fmt;

use clap::{Args, ValueEnum};
use pelton_model::compression::Compression;
use serde::{Deserialize, Serialize};

use crate::error::PerfError;
use crate::frame::{BatchShape, FetchShape, STAMP_BYTES};
use crate::schedule::Step;

/// The most connections of one kind.
pub(crate) const CONNECTIONS_MAX: usize = 100_000;
/// The most requests in flight on a connection.
pub(crate) const DEPTH_MAX: usize = 4_096;
/// The most memory that prebuilt frames may take.
pub(crate) const FRAMES_BYTES_MAX: usize = 1 << 30;

/// What is done to the broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Producers alone.
    #[default]
    Produce,
    /// Consumers of what was written before, again and again.
    Fetch,
    /// Producers, and consumers that wait for each record: the time from due to delivered.
    Tail,
    /// Producers and consumers, each measured by itself.
    Mixed,
}

impl Kind {
    /// Whether producers run.
    #[must_use]
    pub fn produces(self) -> bool {
        self != Self::Fetch
    }

    /// Whether consumers run that follow the producers.
    #[must_use]
    pub fn follows(self) -> bool {
        matches!(self, Self::Tail | Self::Mixed)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Fetch => "fetch",
            Self::Tail => "tail",
            Self::Mixed => "mixed",
        }
    }
}

/// A load.
#[derive(Clone, Debug, PartialEq, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Load {
    /// What is done.
    #[arg(skip)]
    pub kind: Kind,
    /// Connections of producers (of consumers for `fetch`).
    #[arg(short = 'c', long, default_value_t = Load::default().connections)]
    pub connections: usize,
    /// Connections of consumers, for `tail` and `mixed`.
    #[arg(long, default_value_t = Load::default().consumers)]
    pub consumers: usize,
    /// Requests in flight on each connection.
    #[arg(short = 'k', long, default_value_t = Load::default().depth)]
    pub depth: usize,
    /// Partitions of the topic.
    #[arg(short = 'p', long, default_value_t = Load::default().partitions)]
    pub partitions: u32,
    /// Partitions that each producer writes to, in turn; 0: as many as it takes to reach them all.
    #[arg(long, default_value_t = Load::default().partitions_each)]
    pub partitions_each: u32,
    /// Partitions that one Produce request brings a batch to.
    #[arg(long, default_value_t = Load::default().partitions_per_request)]
    pub partitions_per_request: u32,
    /// Records in a batch.
    #[arg(short = 'r', long, default_value_t = Load::default().records)]
    pub records: u32,
    /// Bytes of a record's value.
    #[arg(short = 's', long, default_value_t = Load::default().record_bytes)]
    pub record_bytes: usize,
    /// Bytes of a record's key; 0 is no key.
    #[arg(long, default_value_t = Load::default().key_bytes)]
    pub key_bytes: usize,
    /// 1: the leader has it; -1: all in sync have it; 0: no answer.
    #[arg(short = 'a', long, default_value_t = Load::default().acks, allow_negative_numbers = true)]
    pub acks: i16,
    /// none, gzip, snappy, lz4 or zstd; batches are packed once.
    #[arg(long, default_value_t = Load::default().compression)]
    pub compression: String,
    /// Each producer is idempotent: sequences are patched into each request.
    #[arg(long)]
    pub idempotent: bool,
    /// Requests per second of all producers, on schedule (open loop); 0: as fast as answers come (closed loop).
    #[arg(short = 'R', long, default_value_t = Load::default().rate)]
    pub rate: f64,
    /// A ramp in place of --rate and --seconds: RATE:SECONDS,RATE:SECONDS,…
    #[arg(long, value_delimiter = ',')]
    pub ramp: Vec<RampStep>,
    /// Seconds that are measured.
    #[arg(short = 't', long, default_value_t = Load::default().seconds)]
    pub seconds: f64,
    /// Seconds before that, not measured.
    #[arg(short = 'w', long, default_value_t = Load::default().warm_up)]
    pub warm_up: f64,
    /// End after so many measured requests, if that comes first; 0 is no bound.
    #[arg(long, default_value_t = Load::default().requests_max)]
    pub requests_max: u64,
    /// End after so many measured bytes, if that comes first; 0 is no bound.
    #[arg(long, default_value_t = Load::default().bytes_max)]
    pub bytes_max: u64,
    /// Bytes of one partition that an answer to Fetch should not exceed.
    #[arg(short = 'b', long, default_value_t = Load::default().fetch_bytes)]
    pub fetch_bytes: u32,
    /// Milliseconds that a Fetch may wait for records.
    #[arg(long, default_value_t = Load::default().fetch_wait_ms)]
    pub fetch_wait_ms: u32,
    /// Bytes written to each partition before a `fetch` load begins.
    #[arg(long, default_value_t = Load::default().prefill_bytes)]
    pub prefill_bytes: u64,
    /// Further connections that do nothing.
    #[arg(long, default_value_t = Load::default().idle_connections)]
    pub idle_connections: usize,
    /// Further partitions that nobody uses.
    #[arg(long, default_value_t = Load::default().idle_partitions)]
    pub idle_partitions: u32,
    /// Settings of the topic.
    #[arg(skip)]
    pub topic_settings: BTreeMap<String, String>,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            kind: Kind::Produce,
            connections: 1,
            consumers: 1,
            depth: 1,
            partitions: 1,
            partitions_each: 0,
            partitions_per_request: 1,
            records: 1,
            record_bytes: 100,
            key_bytes: 0,
            acks: 1,
            compression: Compression::None.name().to_owned(),
            idempotent: false,
            rate: 0.0,
            ramp: Vec::new(),
            seconds: 5.0,
            warm_up: 1.0,
            requests_max: 0,
            bytes_max: 0,
            fetch_bytes: 1 << 20,
            fetch_wait_ms: 500,
            prefill_bytes: 256 << 20,
            idle_connections: 0,
            idle_partitions: 0,
            topic_settings: BTreeMap::new(),
        }
    }
}

/// A rate and for how long it holds, written `RATE:SECONDS`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RampStep {
    /// Requests per second.
    pub rate: f64,
    /// Seconds.
    pub seconds: f64,
}

impl std::str::FromStr for RampStep {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (rate, seconds) = text.split_once(':').ok_or("want RATE:SECONDS")?;
        let number = |text: &str| text.parse().map_err(|_| "want RATE:SECONDS");
        Ok(Self { rate: number(rate)?, seconds: number(seconds)? })
    }
}

impl Load {
    /// Whether requests are sent on schedule.
    #[must_use]
    pub fn is_open_loop(&self) -> bool {
        0.0 < self.rate || !self.ramp.is_empty()
    }

    /// Seconds that are measured.
    #[must_use]
    pub fn measured_seconds(&self) -> f64 {
        if self.ramp.is_empty() {
            self.seconds
        } else {
            self.ramp.iter().map(|step| step.seconds).sum()
        }
    }

    /// The steps of the schedule from the warm-up on.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> =
            self.ramp.iter().map(|step| Step { rate: step.rate, seconds: step.seconds }).collect();
        if steps.is_empty() && 0.0 < self.rate {
            steps.push(Step { rate: self.rate, seconds: self.seconds });
        }
        if let Some(first) = steps.first_mut() {
            first.seconds += self.warm_up;
        }
        steps
    }

    /// The partitions that each producer writes to.
    #[must_use]
    pub fn partitions_of_each(&self) -> u32 {
        let connections = u32::try_from(self.connections).unwrap_or(u32::MAX).max(1);
        let each = if self.partitions_each == 0 {
            self.partitions.div_ceil(connections).max(self.partitions_per_request)
        } else {
            self.partitions_each
        };
        each.min(self.partitions)
    }

    pub(crate) fn codec(&self) -> Option<Compression> {
        Compression::from_name(&self.compression)
    }

    pub(crate) fn batch_shape(&self) -> BatchShape {
        BatchShape {
            records: self.records,
            record_bytes: self.record_bytes,
            key_bytes: self.key_bytes,
            compression: self.codec().unwrap_or(Compression::None),
        }
    }

    pub(crate) fn fetch_shape(&self) -> FetchShape {
        let wait_ms_max = i32::try_from(self.fetch_wait_ms).unwrap_or(i32::MAX);
        let partition_bytes_max = i32::try_from(self.fetch_bytes).unwrap_or(i32::MAX);
        FetchShape { partition_bytes_max, min_bytes: 1, wait_ms_max }
    }

    /// Whether what is acknowledged would survive a power cut.
    #[must_use]
    pub fn durability(&self) -> Durability {
        let setting = |name: &str| self.topic_settings.get(name).map(String::as_str);
        if setting("sync.policy") == Some("group") || setting("flush.messages") == Some("1") {
            Durability::Synced
        } else {
            Durability::PageCache
        }
    }

    /// Refuses what makes no sense.
    pub(crate) fn check(&self) -> Result<(), PerfError> {
        let refuse = |setting, what| Err(PerfError::Load { setting, what });
        let counts = [
            ("connections", self.connections, CONNECTIONS_MAX),
            ("consumers", self.consumers, CONNECTIONS_MAX),
            ("depth", self.depth, DEPTH_MAX),
            ("partitions", self.partitions as usize, 1_000_000),
            ("records", self.records as usize, 1_000_000),
            ("fetch_bytes", self.fetch_bytes as usize, 128 << 20),
            ("partitions_per_request", self.partitions_per_request as usize, 10_000),
        ];
        for (setting, count, most) in counts {
            if count == 0 || most < count {
                return refuse(setting, "must be at least 1, and not that many");
            }
        }
        if self.codec().is_none() {
            return refuse("compression", "must be none, gzip, snappy, lz4 or zstd");
        }
        if CONNECTIONS_MAX < self.idle_connections {
            return refuse("idle_connections", "that many ports do not exist");
        }
        let is_time = |seconds: f64| (0.0..=1e6).contains(&seconds);
        if !is_time(self.measured_seconds()) || !is_time(self.warm_up) {
            return refuse("seconds", "must be a time");
        }
        if self.steps().iter().any(|step| !(0.0..=1e8).contains(&step.rate)) {
            return refuse("rate", "must be a rate");
        }
        if self.kind == Kind::Fetch && self.depth != 1 {
            return refuse("depth", "a consumer has one Fetch in flight");
        }
        let stamped = STAMP_BYTES <= self.record_bytes && self.compression == "none";
        if self.kind == Kind::Tail && !stamped {
            return refuse("record_bytes", "`tail` stamps 8 bytes of uncompressed records");
        }
        if self.kind == Kind::Tail && !self.is_open_loop() {
            return refuse("rate", "`tail` needs a rate");
        }
        let record_bytes = (self.record_bytes + self.key_bytes + 32) * self.records as usize;
        let frames = self.connections * self.partitions_of_each() as usize;
        if FRAMES_BYTES_MAX < frames.saturating_mul(record_bytes) {
            return refuse("record_bytes", "prebuilt requests would take more than 1 GiB");
        }
        Ok(())
    }
}

/// What an acknowledged record has survived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// It is in the page cache: it survives the broker, not the machine.
    #[default]
    PageCache,
    /// It is on the device: it survives a power cut.
    Synced,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PageCache => "page cache",
            Self::Synced => "synced before the answer",
        })
    }
}

impl fmt::Display for Load {
    /// One line for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connections, depth, partitions, records, record_bytes, .. } = self;
        write!(f, "{}: {connections} × {depth} in flight, ", self.kind.name())?;
        if self.kind.follows() {
            write!(f, "{} consumers, ", self.consumers)?;
        }
        write!(f, "{partitions} partitions, ")?;
        if self.kind == Kind::Fetch {
            write!(f, "{} bytes a partition, ", self.fetch_bytes)?;
        }
        write!(f, "{records} records of {record_bytes} bytes a batch")?;
        if self.compression != "none" {
            write!(f, " ({})", self.compression)?;
        }
        if self.kind.produces() {
            write!(f, ", acks={}", self.acks)?;
        }
        if !self.ramp.is_empty() {
            write!(f, ", open loop, {} steps", self.ramp.len())
        } else if self.is_open_loop() {
            write!(f, ", open loop at {}/s", self.rate)
        } else {
            f.write_str(", closed loop")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what makes no sense is refused before a broker is bothered. Method: one bad setting each.
    #[test]
    fn refusals() {
        let check = |change: fn(&mut Load), expected: Option<&str>| {
            let mut load = Load::default();
            change(&mut load);
            let found = match load.check() {
                Err(PerfError::Load { setting, .. }) => Some(setting),
                Ok(()) => None,
                Err(error) => panic!("{error}"),
            };
            assert_eq!(found, expected, "{load:?}");
        };
        check(|_| (), None);
        check(|load| load.connections = 0, Some("connections"));
        check(|load| load.depth = 5_000, Some("depth"));
        check(|load| load.compression = "brotli".to_owned(), Some("compression"));
        check(|load| load.seconds = f64::NAN, Some("seconds"));
        check(|load| load.warm_up = -1.0, Some("seconds"));
        check(|load| load.rate = f64::INFINITY, Some("rate"));
        check(|load| load.kind = Kind::Tail, Some("rate"));
        check(
            |load| (load.kind, load.rate, load.record_bytes) = (Kind::Tail, 1.0, 4),
            Some("record_bytes"),
        );
        check(|load| (load.kind, load.depth) = (Kind::Fetch, 2), Some("depth"));
        check(|load| (load.records, load.record_bytes) = (1_000_000, 10_000), Some("record_bytes"));
    }

    /// Goal: a ramp is the schedule, and warm-up comes at its first rate. Method: one of two steps.
    #[test]
    fn ramps() {
        let ramp = vec!["10:2".parse().expect("a step"), "20:3.5".parse().expect("a step")];
        let load = Load { ramp, warm_up: 1.0, ..Load::default() };
        assert!(load.is_open_loop());
        let steps = [Step { rate: 10.0, seconds: 3.0 }, Step { rate: 20.0, seconds: 3.5 }];
        assert_eq!(load.steps(), steps);
        assert!((load.measured_seconds() - 5.5).abs() < 1e-9);
        assert!("10".parse::<RampStep>().is_err());
    }

    /// Goal: every partition has a producer. Method: counts that do and do not divide.
    #[test]
    fn partitions_of_each_producer() {
        let check = |connections, partitions, each, per_request, expected| {
            let load = Load {
                connections,
                partitions,
                partitions_each: each,
                partitions_per_request: per_request,
                ..Load::default()
            };
            assert_eq!(load.partitions_of_each(), expected, "{load:?}");
        };
        check(64, 1, 0, 1, 1);
        check(50, 100, 0, 1, 2);
        check(50, 100, 1, 1, 1);
        check(3, 100, 0, 1, 34);
        check(8, 100, 0, 20, 20);
        check(8, 4, 0, 20, 4);
    }
}
