//! The table that a person reads after a run.

use std::fmt::Write;

use crate::outcome::{Flowed, Latency, Outcome};
use crate::text::{bytes, bytes_rate, count, three, time_us};

/// Everything about a run, in a few lines.
#[must_use]
pub fn report(outcome: &Outcome) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: &str| {
        writeln!(out, "{name:<11}{text}").expect("strings take text");
    };
    line("load", &outcome.load.to_string());
    line("durability", &format!("{}; measured {} s", outcome.durability, three(outcome.seconds)));
    if 0 < outcome.produce.requests {
        line("produced", &flow(&outcome.produce));
        line("  latency", &latency(&outcome.produce.latency));
    }
    if 0 < outcome.fetch.requests {
        line("fetched", &flow(&outcome.fetch));
        line("  latency", &latency(&outcome.fetch.latency));
    }
    if 0 < outcome.delivery.count {
        line("delivered", &latency(&outcome.delivery));
    }
    let requests = (outcome.produce.requests + outcome.fetch.requests).max(1) as f64;
    let moved = (outcome.produce.bytes + outcome.fetch.bytes).max(1) as f64;
    let per = |cpu: f64| {
        format!(
            "{} s CPU, {} cores, {} µs a request, {} ns a byte",
            three(cpu),
            three(cpu / outcome.seconds.max(1e-9)),
            three(cpu * 1e6 / requests),
            three(cpu * 1e9 / moved),
        )
    };
    match &outcome.broker {
        None => line("broker", "process unknown (name it by --pid)"),
        Some(usage) => line(
            "broker",
            &format!(
                "{}; resident {} at most; {} context switches; pid {}",
                per(usage.cpu_seconds),
                bytes(usage.resident_bytes_peak as f64),
                count(usage.context_switches as f64),
                usage.pid,
            ),
        ),
    }
    line("client", &per(outcome.client.cpu_seconds));
    line("not done", &shed(outcome));
    out
}

fn flow(flow: &Flowed) -> String {
    format!(
        "{} requests, {}/s; {} records/s; {}",
        count(flow.requests as f64),
        count(flow.requests_per_second),
        count(flow.records_per_second),
        bytes_rate(flow.bytes_per_second),
    )
}

fn latency(latency: &Latency) -> String {
    format!(
        "p50 {}  p90 {}  p99 {}  p99.9 {}  p99.99 {}  max {}",
        time_us(latency.p50_us),
        time_us(latency.p90_us),
        time_us(latency.p99_us),
        time_us(latency.p999_us),
        time_us(latency.p9999_us),
        time_us(latency.max_us),
    )
}

/// Errors and whatever was not done; said even when there is nothing of it.
pub(crate) fn shed(outcome: &Outcome) -> String {
    let errors: u64 = outcome.failures.values().sum();
    let mut text = format!(
        "{errors} errors, {} unsent, {} unanswered, {} undelivered",
        outcome.unsent, outcome.unanswered, outcome.undelivered
    );
    for (name, times) in &outcome.failures {
        write!(text, "; {name} × {times}").expect("strings take text");
    }
    text
}
