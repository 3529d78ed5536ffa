//! Metrics as Prometheus' text format 0.0.4.
//!
//! Invariants:
//! 1. The samples of a family stand together, behind one HELP and one TYPE line; no sample occurs twice.
//! 2. Durations are seconds, sizes bytes; the buckets of a histogram are cumulative and end with `+Inf`.
//!
//! Source: "Exposition formats" of the Prometheus documentation.

use std::fmt::Write as _;

use pelton_model::ErrorCode;
use pelton_model::histogram::Histogram;
use pelton_protocol::api;
use pelton_transport::process::Usage;

use super::lag::{GroupLag, Lags};
use super::report::{
    Kind, PartitionReport, PartitionSums, SeriesReport, ShardReport, merge, merge_by_api, select,
};

/// The upper bounds of the buckets that are told, in microseconds.
const BOUNDS_US: [u64; 20] = [
    10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
    500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 60_000_000,
];
/// The quantiles of clients and topics.
const QUANTILES: [(&str, u32); 4] = [
    ("0.5", 500_000),
    ("0.9", 900_000),
    ("0.99", 990_000),
    ("0.999", 999_000),
];

/// The whole of a scrape.
pub(super) struct Scrape {
    pub(super) reports: Vec<ShardReport>,
    pub(super) shard_count: u16,
    pub(super) partitions_max: usize,
    pub(super) lags: Lags,
    pub(super) is_ready: bool,
    pub(super) began_ms: i64,
    pub(super) process: Usage,
}

/// A text in the making.
struct Text(String);

impl Text {
    /// Begins a family.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.0.push_str("# HELP ");
        self.0.push_str(name);
        self.0.push(' ');
        for character in help.chars() {
            match character {
                '\\' => self.0.push_str("\\\\"),
                '\n' => self.0.push_str("\\n"),
                other => self.0.push(other),
            }
        }
        let _infallible = writeln!(self.0, "\n# TYPE {name} {kind}");
    }

    /// One sample of the family that was begun last.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: &str) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            self.0.push(if at == 0 { '{' } else { ',' });
            self.0.push_str(label);
            self.0.push_str("=\"");
            for character in text.chars() {
                match character {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    other => self.0.push(other),
                }
            }
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        self.0.push(' ');
        self.0.push_str(value);
        self.0.push('\n');
    }

    fn number(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.sample(name, labels, &value.to_string());
    }

    /// A family of one sample without labels.
    fn single(&mut self, name: &str, kind: &str, help: &str, value: &str) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }
}

/// Writes everything down.
pub(super) fn encode(scrape: &Scrape) -> String {
    let mut text = Text(String::with_capacity(64 * 1024));
    process(&mut text, scrape);
    shards(&mut text, scrape);
    requests(&mut text, &scrape.reports);
    named(
        &mut text,
        "client",
        "client_id",
        scrape.reports.iter().flat_map(|report| &report.clients),
    );
    named(
        &mut text,
        "topic",
        "topic",
        scrape.reports.iter().flat_map(|report| &report.topics),
    );
    syncs(&mut text, &scrape.reports);
    partitions(&mut text, scrape);
    groups(&mut text, &scrape.lags);
    directories(&mut text, &scrape.reports);
    text.0
}

fn process(text: &mut Text, scrape: &Scrape) {
    let usage = &scrape.process;
    text.family("pelton_build_info", "gauge", "The version that runs.");
    let version = env!("CARGO_PKG_VERSION");
    text.number("pelton_build_info", &[("version", version)], 1);
    let ready = if scrape.is_ready { "1" } else { "0" };
    text.single(
        "pelton_ready",
        "gauge",
        "Whether clients can connect.",
        ready,
    );
    text.single(
        "process_start_time_seconds",
        "gauge",
        "When the process began, as seconds since the Unix epoch.",
        &milliseconds(scrape.began_ms),
    );
    text.single(
        "process_cpu_seconds_total",
        "counter",
        "CPU time of all threads.",
        &seconds(usage.cpu_ns),
    );
    text.single(
        "process_resident_memory_bytes",
        "gauge",
        "Resident memory.",
        &usage.resident_bytes.to_string(),
    );
    text.single(
        "process_open_fds",
        "gauge",
        "Open descriptors.",
        &usage.open_files.to_string(),
    );
    if let Some(max) = usage.open_files_max {
        text.single(
            "process_max_fds",
            "gauge",
            "Descriptors that may be open.",
            &max.to_string(),
        );
    }
}

fn shards(text: &mut Text, scrape: &Scrape) {
    text.family(
        "pelton_shard_up",
        "gauge",
        "Whether the shard answered this scrape.",
    );
    for shard in 0..scrape.shard_count {
        let is_there = scrape.reports.iter().any(|report| report.shard == shard);
        let label = shard.to_string();
        text.number("pelton_shard_up", &[("shard", &label)], u64::from(is_there));
    }
    let Some(first) = scrape.reports.first() else {
        return;
    };
    for (at, scalar) in first.scalars.iter().enumerate() {
        let kind = match scalar.kind {
            Kind::Counter | Kind::SecondsCounter => "counter",
            Kind::Gauge | Kind::SecondsGauge => "gauge",
        };
        text.family(scalar.name, kind, scalar.help);
        for report in &scrape.reports {
            let Some(own) = report.scalars.get(at) else {
                continue;
            };
            let value = match own.kind {
                Kind::Counter | Kind::Gauge => own.value.to_string(),
                Kind::SecondsCounter | Kind::SecondsGauge => seconds(own.value),
            };
            let label = report.shard.to_string();
            text.sample(scalar.name, &[("shard", &label)], &value);
        }
    }
}

fn requests(text: &mut Text, reports: &[ShardReport]) {
    type OfSeries = fn(&SeriesReport) -> u64;
    let by_api = merge_by_api(reports.iter().flat_map(|report| &report.clients));
    let counters: [(&str, &str, OfSeries); 3] = [
        (
            "pelton_requests_total",
            "Requests that were answered, or needed no answer.",
            |series| series.durations.count(),
        ),
        (
            "pelton_request_bytes_total",
            "Bytes of requests.",
            |series| series.bytes_in,
        ),
        (
            "pelton_response_bytes_total",
            "Bytes of answers.",
            |series| series.bytes_out,
        ),
    ];
    for (name, help, value) in counters {
        text.family(name, "counter", help);
        for (api, series) in &by_api {
            text.number(name, &[("api", &api_name(*api))], value(series));
        }
    }
    errors(text, reports);
    let name = "pelton_request_duration_seconds";
    text.family(
        name,
        "histogram",
        "From the last byte of a request to its answer in the kernel's hands, without the time that a fetch asked to wait.",
    );
    for (api, series) in &by_api {
        let api = api_name(*api);
        histogram(text, name, &[("api", &api)], &series.durations);
    }
}

fn errors(text: &mut Text, reports: &[ShardReport]) {
    let mut counts = std::collections::BTreeMap::new();
    for &(api, code, count) in reports.iter().flat_map(|report| &report.errors) {
        *counts.entry((api, code)).or_insert(0) += count;
    }
    let name = "pelton_request_errors_total";
    text.family(
        name,
        "counter",
        "Error codes in answers; one answer may hold one for each partition.",
    );
    for ((api, code), count) in counts {
        let code = ErrorCode::from_code(code).map_or("UNKNOWN", ErrorCode::name);
        text.number(name, &[("api", &api_name(api)), ("code", code)], count);
    }
}

fn histogram(text: &mut Text, name: &str, labels: &[(&str, &str)], durations: &Histogram) {
    let bucket = format!("{name}_bucket");
    let mut with_bound = |bound: &str, count| {
        let labels: Vec<_> = labels.iter().copied().chain([("le", bound)]).collect();
        text.number(&bucket, &labels, count);
    };
    for bound_us in BOUNDS_US {
        let bound_ns = bound_us * 1_000;
        with_bound(&seconds(bound_ns), durations.count_up_to(bound_ns));
    }
    let count = durations.count();
    with_bound("+Inf", count);
    let sum = seconds(durations.sum_ns());
    text.sample(&format!("{name}_sum"), labels, &sum);
    text.number(&format!("{name}_count"), labels, count);
}

/// Latencies of clients or topics.
fn named<'a>(
    text: &mut Text,
    what: &str,
    label: &str,
    series: impl Iterator<Item = &'a SeriesReport>,
) {
    let merged = merge(series);
    let name = format!("pelton_{what}_request_duration_seconds");
    let help = format!("As pelton_request_duration_seconds, by {what}; since the start.");
    text.family(&name, "summary", &help);
    let (sum, count) = (format!("{name}_sum"), format!("{name}_count"));
    for ((api, own), series) in &merged {
        let api = api_name(*api);
        let labels = [("api", api.as_str()), (label, *own)];
        for (quantile, per_million) in QUANTILES {
            let value = seconds(series.durations.quantile_ns(per_million));
            let labels = [labels[0], labels[1], ("quantile", quantile)];
            text.sample(&name, &labels, &value);
        }
        text.sample(&sum, &labels, &seconds(series.durations.sum_ns()));
        text.number(&count, &labels, series.durations.count());
    }
}

fn syncs(text: &mut Text, reports: &[ShardReport]) {
    let mut durations = Histogram::default();
    for report in reports {
        durations.merge(&report.syncs);
    }
    let name = "pelton_sync_duration_seconds";
    text.family(name, "histogram", "How long syncs of partition logs took.");
    histogram(text, name, &[], &durations);
}

type OfSums = fn(&PartitionSums) -> u64;
type OfPartition = fn(&PartitionReport) -> i64;

/// What adds up, by the last part of its name.
const SUMS: [(&str, &str, OfSums); 6] = [
    ("offline", "Whether the partition is offline.", |s| {
        s.offline
    }),
    ("log_bytes", "Bytes of the log.", |s| s.log_bytes),
    ("log_segments", "Segments of the log.", |s| s.segments),
    (
        "unsynced_records",
        "Records that no sync of the broker's has covered.",
        |s| s.unsynced_records,
    ),
    (
        "write_back_lag_bytes",
        "Bytes of the active segment that are neither synced nor on their way to the device.",
        |s| s.write_back_lag_bytes,
    ),
    ("queued_batches", "Batches that wait to be written.", |s| {
        s.queued_batches
    }),
];
const OFFSETS: [(&str, &str, OfPartition); 3] = [
    ("log_start_offset", "The first offset.", |p| p.log_start),
    (
        "high_watermark",
        "The offset below which records are committed.",
        |p| p.high_watermark,
    ),
    ("log_end_offset", "The next offset.", |p| p.log_end),
];

fn partitions(text: &mut Text, scrape: &Scrape) {
    let mut others = PartitionSums::default();
    let mut rows = Vec::new();
    for report in &scrape.reports {
        others.add(&report.others);
        rows.extend(report.partitions.iter().cloned());
    }
    let (rows, more) = select(rows, scrape.partitions_max);
    others.add(&more);
    let mut all = others;
    rows.iter().for_each(|row| all.add(&row.sums));
    text.single(
        "pelton_partitions",
        "gauge",
        "Partitions of this broker.",
        &all.partitions.to_string(),
    );
    text.single(
        "pelton_other_partitions",
        "gauge",
        "Partitions beyond metrics.partitions.max, which are told together.",
        &others.partitions.to_string(),
    );
    let mut each = |name: &str, help: &str, value: &dyn Fn(&PartitionReport) -> String| {
        let name = format!("pelton_partition_{name}");
        text.family(&name, "gauge", help);
        for row in &rows {
            let partition = row.partition.to_string();
            let labels = [("topic", &*row.topic), ("partition", partition.as_str())];
            text.sample(&name, &labels, &value(row));
        }
    };
    for (name, help, value) in OFFSETS {
        each(name, help, &|row| value(row).to_string());
    }
    for (name, help, value) in SUMS {
        each(name, help, &|row| value(&row.sums).to_string());
    }
    for (name, help, value) in SUMS {
        let (of_all, of_others) = (
            format!("pelton_partitions_{name}"),
            format!("pelton_other_partitions_{name}"),
        );
        text.single(
            &of_all,
            "gauge",
            &format!("{help} Of all partitions together."),
            &value(&all).to_string(),
        );
        let help = format!("{help} Of the partitions beyond metrics.partitions.max together.");
        text.single(&of_others, "gauge", &help, &value(&others).to_string());
    }
}

type OfLag = fn(&GroupLag) -> Option<String>;

/// What is told of a group in a partition.
const LAGS: [(&str, &str, OfLag); 3] = [
    (
        "pelton_group_committed_offset",
        "The offset of the next record that the group reads.",
        |lag| Some(lag.committed.offset.to_string()),
    ),
    (
        "pelton_group_lag_records",
        "Records of the partition that the group has not committed.",
        |lag| Some(lag.records.to_string()),
    ),
    (
        "pelton_group_lag_seconds",
        "How long ago the first record was written that the group has not committed, by its timestamp; 0 when there is none.",
        |lag| lag.age_ms.map(milliseconds),
    ),
];

fn groups(text: &mut Text, lags: &Lags) {
    text.single(
        "pelton_other_group_partitions",
        "gauge",
        "Committed offsets beyond metrics.group.partitions.max, whose lag is not told.",
        &lags.left_out.to_string(),
    );
    for (name, help, value) in LAGS {
        text.family(name, "gauge", help);
        for lag in &lags.rows {
            let partition = lag.committed.partition.to_string();
            let labels = [
                ("group", &*lag.committed.group),
                ("topic", &*lag.committed.topic),
                ("partition", partition.as_str()),
            ];
            if let Some(value) = value(lag) {
                text.sample(name, &labels, &value);
            }
        }
    }
}

fn directories(text: &mut Text, reports: &[ShardReport]) {
    let name = "pelton_log_dir_offline";
    text.family(name, "gauge", "Whether the log directory has failed.");
    // Every shard knows them all; one that just learned of a failure is right.
    let mut states = std::collections::BTreeMap::new();
    for (path, is_failed) in reports.iter().flat_map(|report| &report.directories) {
        *states.entry(path).or_insert(false) |= is_failed;
    }
    for (path, is_failed) in states {
        text.number(name, &[("dir", path)], u64::from(is_failed));
    }
}

pub(super) fn api_name(api: i16) -> String {
    api::row(api).map_or_else(|| api.to_string(), |row| row.name.to_owned())
}

/// Nanoseconds as seconds, exactly.
fn seconds(nanoseconds: u64) -> String {
    const SECOND: u64 = 1_000_000_000;
    let text = format!("{}.{:09}", nanoseconds / SECOND, nanoseconds % SECOND);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn milliseconds(value: i64) -> String {
    seconds(u64::try_from(value).unwrap_or(0).saturating_mul(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: texts of clients cannot break the format. Method: characters with a meaning in labels and help.
    #[test]
    fn escaping() {
        let mut text = Text(String::new());
        text.family("a", "gauge", "b\\c\nd");
        text.sample("a", &[("l", "x\"y\\z\nw{}"), ("m", "")], "1");
        text.number("a", &[], 2);
        assert_eq!(
            text.0,
            "# HELP a b\\\\c\\nd\n# TYPE a gauge\na{l=\"x\\\"y\\\\z\\nw{}\",m=\"\"} 1\na 2\n"
        );
    }

    // Goal: seconds are exact. Method: a table.
    #[test]
    fn exact_seconds() {
        fn check(nanoseconds: u64, expected: &str) {
            assert_eq!(seconds(nanoseconds), expected);
        }
        check(0, "0");
        check(1, "0.000000001");
        check(10_000, "0.00001");
        check(1_000_000_000, "1");
        check(61_500_000_000, "61.5");
        check(u64::MAX, "18446744073.709551615");
    }

    // Goal: buckets are cumulative and end in the count. Method: one value below, one between, one beyond the bounds.
    #[test]
    fn histograms() {
        let mut durations = Histogram::default();
        for nanoseconds in [1_000, 400_000, 100_000_000_000] {
            durations.record(nanoseconds);
        }
        let mut text = Text(String::new());
        histogram(&mut text, "h", &[("api", "x")], &durations);
        let lines: Vec<_> = text.0.lines().collect();
        assert_eq!(lines[0], "h_bucket{api=\"x\",le=\"0.00001\"} 1");
        assert_eq!(lines[4], "h_bucket{api=\"x\",le=\"0.00025\"} 1");
        assert_eq!(lines[5], "h_bucket{api=\"x\",le=\"0.0005\"} 2");
        assert_eq!(lines[19], "h_bucket{api=\"x\",le=\"60\"} 2");
        assert_eq!(lines[20], "h_bucket{api=\"x\",le=\"+Inf\"} 3");
        assert!(lines[21].starts_with("h_sum{api=\"x\"} 100."));
        assert_eq!(lines[22], "h_count{api=\"x\"} 3");
    }
}
