//! The figures of a round by name, their medians, and how they are judged.

use std::collections::BTreeMap;

use crate::compare::scenario::Expectation;
use crate::outcome::Outcome;
use crate::text::{bytes, bytes_rate, count, three, time_us};

/// The figures of a round.
pub(crate) type Figures = BTreeMap<String, f64>;

/// Every figure there is.
pub(crate) const NAMES: [&str; 23] = [
    "requests_per_second",
    "records_per_second",
    "bytes_per_second",
    "cpu_us_per_request",
    "requests_per_cpu_second",
    "records_per_cpu_second",
    "bytes_per_cpu_second",
    "broker_cores",
    "p50_us",
    "p90_us",
    "p99_us",
    "p999_us",
    "p9999_us",
    "max_us",
    "resident_bytes_peak",
    "context_switches_per_second",
    "client_cpu_us_per_request",
    "shed",
    "start_seconds",
    "restart_seconds",
    "idle_bytes",
    "bytes_per_idle_partition",
    "bytes_per_idle_connection",
];

/// The figures of a run.
pub(crate) fn of(outcome: &Outcome) -> Figures {
    let flow = outcome.main_flow();
    let latency = outcome.main_latency();
    let seconds = outcome.seconds.max(1e-9);
    let requests = flow.requests as f64;
    if flow.requests == 0 {
        // Nothing went through: there is nothing to divide by, and nothing that could pass for fast.
        return Figures::from([("shed".to_owned(), outcome.shed() as f64)]);
    }
    let mut figures = vec![
        ("requests_per_second", flow.requests_per_second),
        ("records_per_second", flow.records_per_second),
        ("bytes_per_second", flow.bytes_per_second),
        ("client_cpu_us_per_request", outcome.client.cpu_seconds * 1e6 / requests),
        ("shed", outcome.shed() as f64),
    ];
    if 0 < latency.count {
        figures.extend([
            ("p50_us", latency.p50_us),
            ("p90_us", latency.p90_us),
            ("p99_us", latency.p99_us),
            ("p999_us", latency.p999_us),
            ("p9999_us", latency.p9999_us),
            ("max_us", latency.max_us),
        ]);
    }
    if let Some(usage) = outcome.broker {
        // A tick of the kernel's clock is the least that can be told apart.
        let cpu = usage.cpu_seconds.max(0.01);
        figures.extend([
            ("cpu_us_per_request", cpu * 1e6 / requests),
            ("requests_per_cpu_second", flow.requests as f64 / cpu),
            ("records_per_cpu_second", flow.records as f64 / cpu),
            ("bytes_per_cpu_second", flow.bytes as f64 / cpu),
            ("broker_cores", cpu / seconds),
            ("resident_bytes_peak", usage.resident_bytes_peak as f64),
            ("context_switches_per_second", usage.context_switches as f64 / seconds),
        ]);
    }
    figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The median of each figure over rounds.
pub(crate) fn medians(rounds: &[&Figures]) -> Figures {
    let mut medians = Figures::new();
    for name in rounds.iter().flat_map(|figures| figures.keys()) {
        if medians.contains_key(name) {
            continue;
        }
        let mut values: Vec<f64> =
            rounds.iter().filter_map(|figures| figures.get(name).copied()).collect();
        medians.insert(name.clone(), median(&mut values));
    }
    medians
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// Whether more of a figure is better.
pub(crate) fn is_better_high(name: &str) -> bool {
    name.ends_with("_per_second") && name != "context_switches_per_second"
        || name.ends_with("_per_cpu_second")
}

/// A figure for people.
pub(crate) fn shown(name: &str, value: f64) -> String {
    match name {
        "bytes_per_second" | "bytes_per_cpu_second" => bytes_rate(value),
        name if name.contains("bytes") => bytes(value),
        name if name.ends_with("_per_request") => format!("{} µs", three(value)),
        name if name.ends_with("_us") => time_us(value),
        name if name.ends_with("_seconds") => format!("{} s", three(value)),
        "broker_cores" => three(value),
        _ => count(value),
    }
}

/// Short names for columns.
pub(crate) fn label(name: &str) -> &str {
    match name {
        "requests_per_second" => "requests/s",
        "records_per_second" => "records/s",
        "bytes_per_second" => "throughput",
        "cpu_us_per_request" => "CPU/request",
        "requests_per_cpu_second" => "requests/CPU s",
        "records_per_cpu_second" => "records/CPU s",
        "bytes_per_cpu_second" => "bytes/CPU s",
        "broker_cores" => "cores",
        "p50_us" => "p50",
        "p90_us" => "p90",
        "p99_us" => "p99",
        "p999_us" => "p99.9",
        "p9999_us" => "p99.99",
        "max_us" => "max",
        "resident_bytes_peak" => "memory",
        "context_switches_per_second" => "switches/s",
        "client_cpu_us_per_request" => "client CPU",
        "start_seconds" => "start",
        "restart_seconds" => "restart",
        "idle_bytes" => "idle",
        "bytes_per_idle_partition" => "per partition",
        "bytes_per_idle_connection" => "per connection",
        other => other,
    }
}

/// How an expectation came out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) text: String,
    /// None: a figure is missing.
    pub(crate) is_met: Option<bool>,
}

/// Judges one expectation. `find` knows the medians of a broker in a variant.
pub(crate) fn judge<'a>(
    expect: &Expectation,
    subject: &str,
    peers: &[&str],
    variant: &str,
    find: impl Fn(&str, &str) -> Option<&'a Figures>,
) -> Verdict {
    let value = |broker: &str, variant: &str| find(broker, variant)?.get(&expect.figure).copied();
    let own = value(subject, variant);
    let other = match (&expect.of, &expect.of_variant) {
        (Some(of), _) if of == "best peer" => {
            let values = peers.iter().filter_map(|peer| value(peer, variant));
            let better = if is_better_high(&expect.figure) { f64::max } else { f64::min };
            values.reduce(better)
        }
        (Some(of), _) => value(of, variant),
        (None, Some(other)) => value(subject, other),
        (None, None) => Some(1.0),
    };
    let found = own.zip(other).map(|(own, other)| own / other.max(f64::MIN_POSITIVE));
    let is_ratio = expect.of.is_some() || expect.of_variant.is_some();
    let say = |value: f64| {
        if is_ratio { format!("{} ×", three(value)) } else { shown(&expect.figure, value) }
    };
    let (sign, bound, holds): (&str, f64, fn(f64, f64) -> bool) =
        match (expect.at_least, expect.at_most) {
            (Some(least), _) => ("≥", least, |found, least| least <= found),
            (None, Some(most)) => ("≤", most, |found, most| found <= most),
            (None, None) => ("≥", 0.0, |_, _| true),
        };
    let of = match (&expect.of, &expect.of_variant) {
        (Some(of), _) => format!(" of {of}"),
        (None, Some(other)) => format!(" of variant {other}"),
        (None, None) => String::new(),
    };
    let what = label(&expect.figure);
    let found_text = found.map_or_else(|| "not measured".to_owned(), say);
    let mut text = format!("{what} {found_text}{of} (want {sign} {})", say(bound));
    if !variant.is_empty() {
        text.push_str(&format!(" at {variant}"));
    }
    if !expect.note.is_empty() {
        text.push_str(&format!(" [{}]", expect.note));
    }
    Verdict { text, is_met: found.map(|found| holds(found, bound)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expectation(figure: &str, of: Option<&str>, at_least: f64) -> Expectation {
        Expectation {
            figure: figure.to_owned(),
            of: of.map(str::to_owned),
            of_variant: None,
            variant: None,
            at_least: Some(at_least),
            at_most: None,
            note: String::new(),
        }
    }

    /// Goal: medians are the middle. Method: odd, even and missing.
    #[test]
    fn middle() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0]), 2.5);
        assert_eq!(median(&mut []), 0.0);
        let one = Figures::from([("a".to_owned(), 1.0)]);
        let two = Figures::from([("a".to_owned(), 3.0), ("b".to_owned(), 7.0)]);
        let found = medians(&[&one, &two]);
        assert_eq!((found["a"], found["b"]), (2.0, 7.0));
    }

    /// Goal: verdicts follow the medians, and what was not measured is not met. Method: three brokers of known figures.
    #[test]
    fn verdicts() {
        let figures = |value: f64| Figures::from([("requests_per_cpu_second".to_owned(), value)]);
        let table = BTreeMap::from([
            ("pelton", figures(600.0)),
            ("kafka", figures(100.0)),
            ("other", figures(200.0)),
            ("limit", figures(1_000.0)),
        ]);
        let check = |of: Option<&str>, at_least: f64, expected: Option<bool>| {
            let expect = expectation("requests_per_cpu_second", of, at_least);
            let peers = ["kafka", "other"];
            let verdict = judge(&expect, "pelton", &peers, "", |broker, _| table.get(broker));
            assert_eq!(verdict.is_met, expected, "{}", verdict.text);
        };
        check(Some("kafka"), 6.0, Some(true));
        check(Some("kafka"), 6.1, Some(false));
        check(Some("limit"), 0.6, Some(true));
        check(Some("best peer"), 3.0, Some(true));
        check(Some("best peer"), 3.1, Some(false));
        check(Some("absent"), 1.0, None);
        check(None, 600.0, Some(true));
    }

    /// Goal: every figure has a unit that suits. Method: a value of each.
    #[test]
    fn units() {
        for name in NAMES {
            assert!(!shown(name, 1_234.5).is_empty());
            assert!(!label(name).is_empty());
        }
        assert_eq!(shown("cpu_us_per_request", 3.2), "3.20 µs");
        assert_eq!(shown("bytes_per_cpu_second", 7.2e9), "7.20 GB/s");
        assert_eq!(shown("idle_bytes", 33_554_432.0), "32.0 MiB");
        assert_eq!(shown("start_seconds", 0.1), "0.10 s");
    }
}
