//! What is printed while brokers are compared, and after.

use std::fmt::Write;

use crate::compare::figures::{Figures, is_better_high, label, shown};
use crate::compare::scenario::{Scenario, Variant};
use crate::compare::{Compared, Round};
use crate::plot::{Course, Curve};
use crate::report;
use crate::text::three;

/// The columns of every scenario under load, beside the figure it is about.
const COLUMNS: [&str; 8] = [
    "requests_per_second",
    "bytes_per_second",
    "cpu_us_per_request",
    "p50_us",
    "p99_us",
    "p999_us",
    "p9999_us",
    "max_us",
];

/// What stands above a variant's rounds.
pub(super) fn opening(scenario: &Scenario, variant: &Variant) -> String {
    let mark = if variant.name.is_empty() { String::new() } else { format!(" ({})", variant.name) };
    format!("\n{}{mark}: {}\n  {}\n", scenario.name, scenario.title, variant.load)
}

fn columns(figure: &str, figures: &Figures) -> String {
    let mut out = String::new();
    let extra = (!COLUMNS.contains(&figure)).then_some(figure);
    let others = ["start_seconds", "restart_seconds", "idle_bytes", "bytes_per_idle_partition"];
    let others = others.into_iter().chain(["bytes_per_idle_connection"]);
    let mut seen = Vec::new();
    for name in extra.into_iter().chain(COLUMNS).chain(others) {
        let Some(value) = figures.get(name).filter(|_| !seen.contains(&name)) else { continue };
        seen.push(name);
        write!(out, "  {} {}", label(name), shown(name, *value)).expect("strings take text");
    }
    out
}

/// A line for a round.
pub(super) fn round(figure: &str, round: &Round) -> String {
    let mut line =
        format!("  round {} {:<10}{}", round.round, round.broker, columns(figure, &round.figures));
    if let Some(outcome) = &round.outcome {
        write!(line, "  [{}]", outcome.durability).expect("strings take text");
        if outcome.shed() != 0 {
            write!(line, "  NOT DONE: {}", report::shed(outcome)).expect("strings take text");
        }
    }
    line.push('\n');
    line
}

/// Medians, ratios and verdicts of a scenario.
pub(super) fn scenario(compared: &Compared) -> String {
    let mut out = String::new();
    let figure = compared.figure.as_str();
    let mut line = |text: String| writeln!(out, "  {text}").expect("strings take text");
    for variant in compared.names(|round| &round.variant) {
        let mark = if variant.is_empty() { String::new() } else { format!(" ({variant})") };
        let brokers = compared.names(|round| &round.broker);
        for broker in &brokers {
            if let Some(figures) = compared.medians(variant, broker) {
                line(format!("median  {broker:<10}{}{mark}", columns(figure, &figures)));
            }
        }
        for broker in &brokers {
            let ratios = ratios(compared, variant, broker, &brokers);
            if !ratios.is_empty() {
                line(format!("ratio   {broker:<10}  {} {ratios}{mark}", label(figure)));
            }
        }
    }
    for judged in &compared.judged {
        line(format!("{} {}", verdict(judged.is_met), judged.text));
    }
    out
}

/// How many times better a broker is than each other one; below one it is worse.
fn ratios(compared: &Compared, variant: &str, broker: &str, brokers: &[&str]) -> String {
    let figure = &compared.figure;
    let value = |broker: &str| compared.medians(variant, broker)?.get(figure).copied();
    let Some(own) = value(broker).filter(|_| broker != "limit") else { return String::new() };
    let others = brokers.iter().filter(|other| **other != broker).filter_map(|other| {
        let theirs = value(other)?;
        let (better, worse) = if is_better_high(figure) { (own, theirs) } else { (theirs, own) };
        Some(format!("{} × {other}", three(better / worse.max(f64::MIN_POSITIVE))))
    });
    others.collect::<Vec<_>>().join(", ")
}

fn verdict(is_met: Option<bool>) -> &'static str {
    match is_met {
        Some(true) => "met    ",
        Some(false) => "MISSED ",
        None => "unknown",
    }
}

/// All scenarios against what was expected.
pub(super) fn all(all: &[Compared]) -> String {
    let mut out = String::from("\nsummary\n");
    for compared in all {
        for judged in &compared.judged {
            let (verdict, name, text) = (verdict(judged.is_met), &compared.scenario, &judged.text);
            writeln!(out, "  {verdict} {name:<24} {text}").expect("strings take text");
        }
        if compared.judged.is_empty() {
            writeln!(out, "          {:<24} nothing expected", compared.scenario)
                .expect("strings take text");
        }
    }
    let count = |wanted: Option<bool>| {
        all.iter().flat_map(|each| &each.judged).filter(|each| each.is_met == wanted).count()
    };
    writeln!(
        out,
        "  {} met, {} missed, {} unknown",
        count(Some(true)),
        count(Some(false)),
        count(None)
    )
    .expect("strings take text");
    out
}

/// The latency curves of rounds, one colour for each broker.
pub(super) fn curves<'a>(rounds: &[&'a Round]) -> Vec<Curve<'a>> {
    let curve = |round: &&'a Round| {
        let outcome = round.outcome.as_ref()?;
        let points = outcome.main_latency().curve.as_slice();
        Some(Curve { name: &round.broker, points })
    };
    rounds.iter().filter_map(curve).collect()
}

/// The course of each broker's last round.
pub(super) fn courses<'a>(rounds: &[&'a Round]) -> Vec<Course<'a>> {
    let mut courses: Vec<Course<'a>> = Vec::new();
    for round in rounds {
        let Some(outcome) = &round.outcome else { continue };
        let course = Course { name: &round.broker, moments: &outcome.moments };
        match courses.iter_mut().find(|known| known.name == course.name) {
            Some(known) => *known = course,
            None => courses.push(course),
        }
    }
    courses
}
