//! `pelton slow`: a broker's last slow requests, newest first, each with its stages.

use std::io::Write;

use pelton_transport::boot::block_on;
use serde_json::Value;

use crate::args::{Output, SlowArgs};
use crate::client::not_started;
use crate::error::CliError;
use crate::metrics::{duration, get, number, rows, text};
use crate::output::{columns, written};

/// Shows slow requests.
pub(crate) fn run(args: &SlowArgs) -> Result<(), CliError> {
    let got = block_on(|net| async move { get(&net, &args.at.metrics, "/slow.json").await });
    let (json, document) = got.unwrap_or_else(|error| Err(not_started(&error)))?;
    let text = match args.output {
        Output::Json => json,
        Output::Table => table(&document, args.max),
    };
    written(std::io::stdout().lock().write_all(text.as_bytes()))
}

fn table(document: &Value, count_max: usize) -> String {
    let now_ms = number(document, "unix_ms");
    let requests = rows(document, "requests");
    if requests.is_empty() {
        let threshold_ms = number(document, "threshold_ms");
        return format!("no request took {threshold_ms} ms or longer\n");
    }
    let stages: Vec<&str> = rows(document, "stages")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let head = ["AGO", "API", "CLIENT", "TOPIC", "TOTAL", "STAGES"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for request in requests.iter().take(count_max) {
        let ago_ms = now_ms.saturating_sub(number(request, "ended_unix_ms"));
        let times = stages.iter().filter_map(|stage| {
            let nanoseconds = number(&request["stages_ns"], stage);
            (nanoseconds > 0).then(|| format!("{stage} {}", duration(nanoseconds)))
        });
        lines.push(vec![
            duration(ago_ms.max(1).saturating_mul(1_000_000)),
            text(request, "api"),
            text(request, "client_id"),
            text(request, "topic"),
            duration(number(request, "total_ns")),
            times.collect::<Vec<_>>().join(", "),
        ]);
    }
    columns(&lines)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // Goal: each request is a line with the stages that took time, in their order. Method: one request, and none.
    #[test]
    fn lines() {
        let request = json!({
            "ended_unix_ms": 7_000, "api": "Produce", "client_id": null, "topic": "t", "total_ns": 250_000_000,
            "stages_ns": {"sync": 249_000_000, "append": 1_000_000},
        });
        let document = json!({
            "unix_ms": 10_000, "threshold_ms": 100, "stages": ["append", "sync", "respond"],
            "requests": [request, request],
        });
        assert_eq!(
            table(&document, 1),
            "AGO    API      CLIENT  TOPIC  TOTAL   STAGES\n\
             3.0 s  Produce  -       t      250 ms  append 1.0 ms, sync 249 ms\n"
        );
        let none = json!({"threshold_ms": 100, "requests": []});
        assert_eq!(table(&none, 9), "no request took 100 ms or longer\n");
    }
}
