//! `pelton latency`: how long requests take, live or since the broker's start, and where slow ones spend their time.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};

use pelton_model::histogram::Histogram;
use pelton_transport::boot::block_on;
use pelton_transport::net::Net;
use serde_json::Value;

use crate::args::{Grouping, LatencyArgs, Output};
use crate::client::not_started;
use crate::error::CliError;
use crate::metrics::{duration, get, number, rows, text};
use crate::output::{columns, written};

/// The quantiles that are shown.
const QUANTILES: [(&str, u32); 4] = [
    ("p50", 500_000),
    ("p90", 900_000),
    ("p99", 990_000),
    ("p99.9", 999_000),
];
/// Back to the top left, and nothing below.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Shows latencies.
pub(crate) fn run(args: &LatencyArgs) -> Result<(), CliError> {
    block_on(|net| async move { show(&net, args).await })
        .unwrap_or_else(|error| Err(not_started(&error)))
}

/// One look at a broker.
struct Look {
    at_ms: u64,
    durations: BTreeMap<(String, String), Histogram>,
}

async fn show<N: Net>(net: &N, args: &LatencyArgs) -> Result<(), CliError> {
    let (json, document) = get(net, &args.at.metrics, "/latency.json").await?;
    if args.output == Output::Json {
        return print(&json);
    }
    let mut before = look(&document, args.by);
    if args.once || !io::stdout().is_terminal() {
        let table = table(&before, None, args.by);
        let stages = stages(&get(net, &args.at.metrics, "/slow.json").await?.1);
        return print(&format!("{table}{stages}"));
    }
    loop {
        net.sleep_until(net.now().plus_ms(u64::from(args.interval) * 1_000))
            .await;
        let now = look(
            &get(net, &args.at.metrics, "/latency.json").await?.1,
            args.by,
        );
        let stages = stages(&get(net, &args.at.metrics, "/slow.json").await?.1);
        let table = table(&now, Some(&before), args.by);
        print(&format!("{CLEAR}{table}{stages}"))?;
        before = now;
    }
}

fn print(text: &str) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    written(
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush()),
    )
}

fn look(document: &Value, by: Grouping) -> Look {
    let (list, name) = match by {
        Grouping::Api => ("apis", ""),
        Grouping::Topic => ("topics", "topic"),
        Grouping::Client => ("clients", "client_id"),
    };
    let mut durations = BTreeMap::new();
    for row in rows(document, list) {
        let name = if name.is_empty() {
            String::new()
        } else {
            text(row, name)
        };
        let histogram: &mut Histogram = durations.entry((name, text(row, "api"))).or_default();
        for bucket in rows(row, "buckets") {
            if let (Some(last_ns), Some(count)) = (bucket[0].as_u64(), bucket[1].as_u64()) {
                histogram.record_many(last_ns, count);
            }
        }
    }
    Look {
        at_ms: number(document, "unix_ms"),
        durations,
    }
}

/// What happened since `before`, or since the broker's start.
fn table(now: &Look, before: Option<&Look>, by: Grouping) -> String {
    let mut head = match by {
        Grouping::Api => vec![],
        Grouping::Topic => vec!["TOPIC"],
        Grouping::Client => vec!["CLIENT"],
    };
    head.extend(["API", "REQUESTS"]);
    head.extend(before.is_some().then_some("PER SECOND"));
    head.extend(QUANTILES.map(|(name, _)| name));
    head.push("MAX");
    let mut lines = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for ((name, api), durations) in &now.durations {
        let mut durations = durations.clone();
        let earlier = before.and_then(|before| before.durations.get(&(name.clone(), api.clone())));
        if let Some(earlier) = earlier {
            durations.subtract(earlier);
        }
        let count = durations.count();
        if count == 0 {
            continue;
        }
        let mut line = if by == Grouping::Api {
            vec![]
        } else {
            vec![name.clone()]
        };
        line.extend([api.clone(), count.to_string()]);
        if let Some(before) = before {
            let ms = now.at_ms.saturating_sub(before.at_ms).max(1);
            line.push((count.saturating_mul(1_000) / ms).to_string());
        }
        line.extend(QUANTILES.map(|(_, per_million)| duration(durations.quantile_ns(per_million))));
        line.push(duration(durations.max_ns()));
        lines.push(line);
    }
    if lines.len() == 1 {
        return "no requests\n".to_owned();
    }
    columns(&lines)
}

/// The mean of each stage over the slow requests that the broker keeps, by API.
fn stages(slow: &Value) -> String {
    let requests = rows(slow, "requests");
    if requests.is_empty() {
        return String::new();
    }
    let stages: Vec<&str> = rows(slow, "stages")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let mut sums: BTreeMap<String, (u64, Vec<u64>)> = BTreeMap::new();
    for request in requests {
        let empty = || (0, vec![0; stages.len()]);
        let (count, sum) = sums.entry(text(request, "api")).or_insert_with(empty);
        *count += 1;
        for (sum, stage) in sum.iter_mut().zip(&stages) {
            *sum = sum.saturating_add(number(&request["stages_ns"], stage));
        }
    }
    let mut head = vec!["SLOW".to_owned(), "KEPT".to_owned()];
    head.extend(stages.iter().map(|stage| stage.to_uppercase()));
    let mut lines = vec![head];
    for (api, (count, sums)) in sums {
        let mut line = vec![api, count.to_string()];
        line.extend(sums.iter().map(|sum| duration(sum / count)));
        lines.push(line);
    }
    let threshold_ms = number(slow, "threshold_ms");
    let table = columns(&lines);
    format!("\nWhere requests of {threshold_ms} ms and more spent their time, on average:\n{table}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(unix_ms: u64, fast: u64, slow: u64) -> Value {
        json!({
            "unix_ms": unix_ms,
            "apis": [{"api": "Produce", "buckets": [[69_631, fast], [1_998_847, slow]]}],
            "topics": [{"api": "Fetch", "topic": "t", "buckets": []}],
            "clients": 7,
        })
    }

    // Goal: the live table shows the interval only, the other everything. Method: two looks two seconds apart.
    #[test]
    fn tables() {
        let before = look(&document(1_000, 100, 10), Grouping::Api);
        let now = look(&document(3_000, 300, 10), Grouping::Api);
        let whole = table(&now, None, Grouping::Api);
        let lines: Vec<Vec<&str>> = whole
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            lines[0],
            ["API", "REQUESTS", "p50", "p90", "p99", "p99.9", "MAX"]
        );
        assert_eq!(lines[1][..2], ["Produce", "310"]);
        assert!(lines[1].ends_with(&["1.9", "ms"]), "{whole}");
        let live = table(&now, Some(&before), Grouping::Api);
        let line: Vec<&str> = live
            .lines()
            .nth(1)
            .expect("a row")
            .split_whitespace()
            .collect();
        assert_eq!(line[..3], ["Produce", "200", "100"]);
        assert!(line.ends_with(&["69", "µs"]), "{live}");
    }

    // Goal: a document that is not what it should be is shown as nothing. Method: no rows, empty rows, rows of another kind.
    #[test]
    fn odd_documents() {
        for by in [Grouping::Topic, Grouping::Client] {
            let look = look(&document(0, 1, 1), by);
            assert_eq!(table(&look, None, by), "no requests\n");
        }
        assert_eq!(stages(&json!([1])), "");
    }

    // Goal: stages are averaged by API. Method: two requests.
    #[test]
    fn stage_means() {
        let slow = json!({
            "threshold_ms": 5,
            "stages": ["append", "sync"],
            "requests": [
                {"api": "Produce", "stages_ns": {"sync": 4_000_000}},
                {"api": "Produce", "stages_ns": {"sync": 8_000_000, "append": 2_000_000}},
            ],
        });
        let text = stages(&slow);
        let line: Vec<&str> = text
            .lines()
            .last()
            .expect("a row")
            .split_whitespace()
            .collect();
        assert_eq!(line, ["Produce", "2", "1.0", "ms", "6.0", "ms"]);
        assert!(text.contains("requests of 5 ms and more"));
    }
}
