//! What a shard tells of itself when it is asked, and how the answers of several add up.

use std::collections::BTreeMap;
use std::sync::Arc;

use pelton_model::Timestamp;
use pelton_model::histogram::Histogram;

pub use super::lag::CommittedOffset;
pub use super::series::SeriesReport;
pub use super::slow::SlowRequest;
use crate::shard::progress::OpeningProgress;

/// What is asked of a shard; how far its start is comes always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Plain numbers, partitions and log directories.
    pub numbers: bool,
    /// Latencies.
    pub series: bool,
    /// The last slow requests.
    pub slow: bool,
    /// What groups have committed.
    pub groups: bool,
}

/// What one shard answers.
#[derive(Clone, Debug)]
pub struct ShardReport {
    /// Which shard.
    pub shard: u16,
    /// How far its start is.
    pub opening: OpeningProgress,
    /// Its plain numbers: the same list on every shard.
    pub scalars: Vec<Scalar>,
    /// Latencies by API and client.
    pub clients: Vec<SeriesReport>,
    /// Latencies by API and topic.
    pub topics: Vec<SeriesReport>,
    /// How often each API answered each error code.
    pub errors: Vec<(i16, i16, u64)>,
    /// How long syncs took.
    pub syncs: Histogram,
    /// Partitions that are told one by one, in order.
    pub partitions: Vec<PartitionReport>,
    /// All others together.
    pub others: PartitionSums,
    /// Log directories: the path, and whether it failed. Of the asked shard only.
    pub directories: Vec<(String, bool)>,
    /// Committed offsets of this shard's coordinators, the first by group, topic and partition.
    pub committed: Vec<CommittedOffset>,
    /// How many there are.
    pub committed_count: u64,
    /// Slow requests with the time at which they ended, oldest first.
    pub slow: Vec<(Timestamp, SlowRequest)>,
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It comes and goes.
    Gauge,
    /// A counter of nanoseconds that is told in seconds.
    SecondsCounter,
    /// Nanoseconds that come and go, told in seconds.
    SecondsGauge,
}

/// A plain number of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar {
    /// The metric's name.
    pub name: &'static str,
    /// What it is.
    pub help: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// Its value.
    pub value: u64,
}

/// A partition's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionReport {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's index.
    pub partition: i32,
    /// The first offset.
    pub log_start: i64,
    /// Records below are committed.
    pub high_watermark: i64,
    /// The next offset.
    pub log_end: i64,
    /// What adds up.
    pub sums: PartitionSums,
}

/// What adds up over partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionSums {
    /// Partitions.
    pub partitions: u64,
    /// Of them, those that are offline.
    pub offline: u64,
    /// Bytes of their logs.
    pub log_bytes: u64,
    /// Segments of their logs.
    pub segments: u64,
    /// Records that no sync has covered.
    pub unsynced_records: u64,
    /// Bytes of active segments whose write-back was not begun.
    pub write_back_lag_bytes: u64,
    /// Batches that wait to be written.
    pub queued_batches: u64,
}

impl PartitionSums {
    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        self.partitions += other.partitions;
        self.offline += other.offline;
        self.log_bytes += other.log_bytes;
        self.segments += other.segments;
        self.unsynced_records += other.unsynced_records;
        self.write_back_lag_bytes += other.write_back_lag_bytes;
        self.queued_batches += other.queued_batches;
    }
}

/// Keeps the first `count_max` partitions by topic and index, and adds up the others.
#[must_use]
pub fn select(
    mut partitions: Vec<PartitionReport>,
    count_max: usize,
) -> (Vec<PartitionReport>, PartitionSums) {
    fn key(partition: &PartitionReport) -> (&str, i32) {
        (&partition.topic, partition.partition)
    }
    let mut others = PartitionSums::default();
    if count_max < partitions.len() {
        partitions.select_nth_unstable_by(count_max, |a, b| key(a).cmp(&key(b)));
        for partition in partitions.drain(count_max..) {
            others.add(&partition.sums);
        }
    }
    partitions.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
    (partitions, others)
}

/// Series of the same API and name on several shards, added up.
#[must_use]
pub fn merge<'a>(
    reports: impl Iterator<Item = &'a SeriesReport>,
) -> BTreeMap<(i16, &'a str), SeriesReport> {
    let mut merged: BTreeMap<(i16, &str), SeriesReport> = BTreeMap::new();
    for report in reports {
        let known = merged.get_mut(&(report.api, report.name.as_str()));
        if let Some(known) = known {
            known.durations.merge(&report.durations);
            known.bytes_in += report.bytes_in;
            known.bytes_out += report.bytes_out;
        } else {
            merged.insert((report.api, &report.name), report.clone());
        }
    }
    merged
}

/// Series of the same API, whatever their names, added up.
#[must_use]
pub fn merge_by_api<'a>(
    reports: impl Iterator<Item = &'a SeriesReport>,
) -> BTreeMap<i16, SeriesReport> {
    let mut merged: BTreeMap<i16, SeriesReport> = BTreeMap::new();
    for report in reports {
        if let Some(known) = merged.get_mut(&report.api) {
            known.durations.merge(&report.durations);
            known.bytes_in += report.bytes_in;
            known.bytes_out += report.bytes_out;
        } else {
            merged.insert(report.api, report.clone());
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(topic: &str, partition: i32) -> PartitionReport {
        PartitionReport {
            topic: Arc::from(topic),
            partition,
            log_start: 0,
            high_watermark: 0,
            log_end: 0,
            sums: PartitionSums {
                partitions: 1,
                log_bytes: 10,
                ..PartitionSums::default()
            },
        }
    }

    // Goal: the partitions that are told are the same at every scrape, and sums stay whole. Method: a table of bounds.
    #[test]
    fn partitions_beyond_the_bound() {
        fn check(count_max: usize, kept: &[(&str, i32)]) {
            let all = [("b", 1), ("a", 10), ("b", 0), ("a", 9)].map(|(t, p)| partition(t, p));
            let (told, others) = select(all.to_vec(), count_max);
            let told: Vec<_> = told.iter().map(|p| (&*p.topic, p.partition)).collect();
            assert_eq!(told, kept);
            assert_eq!(others.partitions, (4 - kept.len()) as u64);
            assert_eq!(others.log_bytes, 10 * others.partitions);
        }
        check(0, &[]);
        check(1, &[("a", 9)]);
        check(3, &[("a", 9), ("a", 10), ("b", 0)]);
        check(4, &[("a", 9), ("a", 10), ("b", 0), ("b", 1)]);
        check(5, &[("a", 9), ("a", 10), ("b", 0), ("b", 1)]);
    }
}
