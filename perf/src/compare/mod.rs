//! Side by side: brokers started by command, scenarios run alternately, every round printed, medians, ratios and verdicts.
//!
//! Invariants:
//! 1. All brokers of a scenario run on the same cores, this client on others, and take turns in every round.
//! 2. Before each round memory is warmed (a scratch file is written and removed) and what earlier rounds left to write back
//!    is written, so that no round pays for another.
//! 3. A load runs once unmeasured on each broker before the first round; not on the limit, which has nothing to warm but its pages.

pub(crate) mod broker;
pub(crate) mod figures;
mod round;
pub(crate) mod scenario;
mod summary;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::compare::broker::{Broker, Ground, Running};
use crate::compare::figures::{Figures, judge, medians};
use crate::compare::round::Conditions;
use crate::compare::scenario::{Measure, Scenario, Variant};
use crate::error::{PerfError, io_error};
use crate::outcome::Outcome;
use crate::plot;

/// How scenarios are run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) ground: Ground,
    pub(crate) client_cores: Vec<usize>,
    /// In place of the scenario's.
    pub(crate) rounds: Option<u32>,
    /// Seconds in place of the load's.
    pub(crate) seconds: Option<f64>,
    /// Seconds of the unmeasured run.
    pub(crate) heat: f64,
    /// Brokers run one at a time, started anew for each round.
    pub(crate) alone: bool,
    /// Bytes of the scratch file.
    pub(crate) scratch_bytes: u64,
    /// Where results and plots are written.
    pub(crate) out: Option<PathBuf>,
}

/// One broker in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Round {
    /// The variant; empty where there is one load.
    pub(crate) variant: String,
    /// The broker.
    pub(crate) broker: String,
    /// From 1 on.
    pub(crate) round: u32,
    /// What came out, by name.
    pub(crate) figures: BTreeMap<String, f64>,
    /// Everything about the run; none where no load was run.
    pub(crate) outcome: Option<Outcome>,
}

/// A judgement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Judged {
    /// In words.
    pub(crate) text: String,
    /// None: something was not measured.
    pub(crate) is_met: Option<bool>,
}

/// A scenario's results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Compared {
    /// The scenario.
    pub(crate) scenario: String,
    /// What it is about.
    pub(crate) title: String,
    /// The figure it is about.
    pub(crate) figure: String,
    /// The broker under test.
    pub(crate) subject: String,
    /// Every round.
    pub(crate) rounds: Vec<Round>,
    /// What was expected of the subject.
    pub(crate) judged: Vec<Judged>,
}

impl Compared {
    fn medians(&self, variant: &str, broker: &str) -> Option<Figures> {
        let of_this = |round: &&Round| round.variant == variant && round.broker == broker;
        let rounds: Vec<&Figures> =
            self.rounds.iter().filter(of_this).map(|round| &round.figures).collect();
        (!rounds.is_empty()).then(|| medians(&rounds))
    }

    /// Variants or brokers, in the order of their first round.
    fn names<'a>(&'a self, name: impl Fn(&'a Round) -> &'a str) -> Vec<&'a str> {
        let mut names = Vec::new();
        for round in &self.rounds {
            if !names.contains(&name(round)) {
                names.push(name(round));
            }
        }
        names
    }
}

/// Runs scenarios one after the other; the first broker is the one under test.
pub(crate) fn compare(
    scenarios: &[Scenario],
    brokers: &[Broker],
    options: &Options,
) -> Result<Vec<Compared>, PerfError> {
    let mut all = Vec::new();
    for scenario in scenarios {
        let compared = one(scenario, brokers, options)?;
        print!("{}", summary::scenario(&compared));
        if let Some(out) = &options.out {
            write(out, &compared)?;
        }
        all.push(compared);
    }
    print!("{}", summary::all(&all));
    Ok(all)
}

fn one(scenario: &Scenario, brokers: &[Broker], options: &Options) -> Result<Compared, PerfError> {
    let mut entrants: Vec<Broker> =
        brokers.iter().filter(|broker| scenario.takes(&broker.name)).cloned().collect();
    if let Some(storing) = &scenario.limit {
        entrants.push(Broker::limit(storing)?);
    }
    let subject = brokers.first().map_or_else(String::new, |first| first.name.clone());
    let mut compared = Compared {
        scenario: scenario.name.clone(),
        title: scenario.title.clone(),
        figure: scenario.figure.clone(),
        subject,
        rounds: Vec::new(),
        judged: Vec::new(),
    };
    for variant in &scenario.variants {
        print!("{}", summary::opening(scenario, variant));
        variant_rounds(scenario, variant, &entrants, options, &mut compared)?;
    }
    compared.judged = judged(scenario, &compared);
    Ok(compared)
}

fn variant_rounds(
    scenario: &Scenario,
    variant: &Variant,
    entrants: &[Broker],
    options: &Options,
    compared: &mut Compared,
) -> Result<(), PerfError> {
    let conditions = Conditions { scenario, variant, options };
    let mut running: Vec<Option<Running>> = entrants.iter().map(|_| None).collect();
    let together = scenario.measure == Measure::Load && !options.alone;
    if together {
        let started = running.iter_mut().zip(entrants).filter(|(_, broker)| !broker.is_disk());
        for (slot, broker) in started {
            *slot = Some(conditions.start(broker)?);
        }
    }
    let count = entrants.len();
    for round in 1..=options.rounds.unwrap_or(scenario.rounds) {
        for turn in 0..count {
            // Nobody is always the first, or always behind the same neighbour's write-back.
            let index = (turn + round as usize - 1) % count;
            let broker = &entrants[index];
            let (figures, outcome) = match &running[index] {
                Some(running) => conditions.load(running, broker, round)?,
                None if broker.is_disk() => conditions.disk()?,
                None => conditions.alone(broker, round)?,
            };
            let round = Round {
                variant: variant.name.clone(),
                broker: broker.name.clone(),
                round,
                figures,
                outcome,
            };
            print!("{}", summary::round(&compared.figure, &round));
            compared.rounds.push(round);
        }
    }
    for running in running.into_iter().flatten() {
        running.stop()?;
    }
    Ok(())
}

fn judged(scenario: &Scenario, compared: &Compared) -> Vec<Judged> {
    let brokers = compared.names(|round| &round.broker);
    let peers: Vec<&str> = brokers
        .iter()
        .copied()
        .filter(|name| *name != compared.subject && *name != "limit")
        .collect();
    let mut table = BTreeMap::new();
    for variant in &scenario.variants {
        for broker in &brokers {
            if let Some(figures) = compared.medians(&variant.name, broker) {
                table.insert(((*broker).to_owned(), variant.name.clone()), figures);
            }
        }
    }
    let mut judged = Vec::new();
    for expect in &scenario.expect {
        for variant in &scenario.variants {
            let elsewhere = expect.variant.as_ref().is_some_and(|only| *only != variant.name);
            if elsewhere || expect.of_variant.as_ref() == Some(&variant.name) {
                continue;
            }
            let verdict =
                judge(expect, &compared.subject, &peers, &variant.name, |broker, name| {
                    table.get(&(broker.to_owned(), name.to_owned()))
                });
            judged.push(Judged { text: verdict.text, is_met: verdict.is_met });
        }
    }
    judged
}

/// Writes a scenario's results and plots.
fn write(out: &Path, compared: &Compared) -> Result<(), PerfError> {
    std::fs::create_dir_all(out).map_err(io_error("creating", out.display().to_string()))?;
    let path = |suffix: &str| out.join(format!("{}{suffix}", compared.scenario));
    crate::write_json(&path(".json"), compared)?;
    for variant in compared.names(|round| &round.variant) {
        let mark = if variant.is_empty() { String::new() } else { format!("-{variant}") };
        let rounds: Vec<&Round> = compared
            .rounds
            .iter()
            .filter(|round| round.variant == variant && round.outcome.is_some())
            .collect();
        if rounds.is_empty() {
            continue;
        }
        let title = format!("{} {variant}", compared.title);
        let plots = [
            ("latency", plot::latency(&title, &summary::curves(&rounds))),
            ("time", plot::over_time(&title, &summary::courses(&rounds))),
        ];
        for (name, svg) in plots {
            let path = path(&format!("{mark}-{name}.svg"));
            std::fs::write(&path, svg).map_err(io_error("writing", path.display().to_string()))?;
        }
    }
    Ok(())
}
