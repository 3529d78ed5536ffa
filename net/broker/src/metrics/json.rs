//! Progress, latencies and slow requests as JSON: what `pelton latency` and `pelton slow` read.

use pelton_model::Timestamp;
use serde_json::{Value, json};

use super::prometheus::api_name;
use super::report::{SeriesReport, ShardReport, SlowRequest, merge, merge_by_api};
use super::stages::Stage;

/// How far the start is, or what else keeps clients away.
pub(super) fn progress(phase: &str, is_ready: bool, reports: &[ShardReport]) -> String {
    let shards: Vec<Value> = reports
        .iter()
        .map(|report| {
            let opening = &report.opening;
            json!({
                "shard": report.shard,
                "logs_open": opening.done,
                "logs": opening.total,
                "scanned_bytes": opening.scanned_bytes,
                "left_ms": opening.left_ms,
            })
        })
        .collect();
    format!(
        "{}\n",
        json!({"ready": is_ready, "phase": phase, "shards": shards})
    )
}

fn durations(series: &SeriesReport) -> Value {
    let durations = &series.durations;
    let buckets: Vec<[u64; 2]> = durations
        .buckets()
        .map(|(last_ns, count)| [last_ns, count])
        .collect();
    json!({
        "count": durations.count(),
        "p50_ns": durations.quantile_ns(500_000),
        "p90_ns": durations.quantile_ns(900_000),
        "p99_ns": durations.quantile_ns(990_000),
        "p999_ns": durations.quantile_ns(999_000),
        "max_ns": durations.max_ns(),
        // The largest value of each bucket in nanoseconds, and how many requests are in it.
        "buckets": buckets,
    })
}

/// Latencies since the start.
pub(super) fn latency(now: Timestamp, reports: &[ShardReport]) -> String {
    let with = |key: &str, name: &str, api: i16, series: &SeriesReport| {
        let mut row = durations(series);
        row["api"] = Value::from(api_name(api));
        if !key.is_empty() {
            row[key] = Value::from(name);
        }
        row
    };
    let clients = || reports.iter().flat_map(|report| &report.clients);
    let apis: Vec<Value> = merge_by_api(clients())
        .iter()
        .map(|(&api, series)| with("", "", api, series))
        .collect();
    let topics = merge(reports.iter().flat_map(|report| &report.topics));
    let topics: Vec<Value> = topics
        .iter()
        .map(|(&(api, name), series)| with("topic", name, api, series))
        .collect();
    let clients: Vec<Value> = merge(clients())
        .iter()
        .map(|(&(api, name), series)| with("client_id", name, api, series))
        .collect();
    let document = json!({
        "unix_ms": now.0,
        "shards": reports.len(),
        "apis": apis,
        "topics": topics,
        "clients": clients,
    });
    format!("{document}\n")
}

/// The slow requests of all shards, newest first.
pub(super) fn slow(now: Timestamp, threshold_ms: u64, reports: &[ShardReport]) -> String {
    let all = reports.iter().flat_map(|report| {
        let of = report.slow.iter();
        of.map(|(ended, request)| (*ended, report.shard, request))
    });
    let mut all: Vec<(Timestamp, u16, &SlowRequest)> = all.collect();
    all.sort_by_key(|(ended, shard, _)| (std::cmp::Reverse(*ended), *shard));
    let rows: Vec<Value> = all
        .into_iter()
        .map(|(ended, shard, request)| slow_row(ended, shard, request))
        .collect();
    let document = json!({
        "unix_ms": now.0,
        "threshold_ms": threshold_ms,
        "stages": Stage::ALL.map(Stage::name),
        "requests": rows,
    });
    format!("{document}\n")
}

fn slow_row(ended: Timestamp, shard: u16, request: &SlowRequest) -> Value {
    let mut stages = serde_json::Map::new();
    for (stage, &nanoseconds) in Stage::ALL.iter().zip(&request.stages) {
        if nanoseconds > 0 {
            stages.insert(stage.name().to_owned(), Value::from(nanoseconds));
        }
    }
    json!({
        "ended_unix_ms": ended.0,
        "shard": shard,
        "api": api_name(request.api),
        "client_id": request.client_id.as_deref(),
        "topic": request.topic.as_deref(),
        "correlation_id": request.correlation_id,
        "request_bytes": request.bytes_in,
        "response_bytes": request.bytes_out,
        "total_ns": request.stages.iter().sum::<u64>(),
        "stages_ns": stages,
    })
}
