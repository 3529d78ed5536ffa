//! A run: sequences one after another, differences by kind, progress and summary.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use kafka_protocol::messages::ApiKey;

use super::compare::{Difference, differences};
use super::findings::Findings;
use super::generate;
use super::shrink::shrink;
use super::side::{Down, Side};
use super::step::{Outcome, Step};
use super::value::{Value, has_code};

/// How often a kind's sequence is played to make it small, and for how long.
const SHRINK_BUDGET: (usize, Duration) = (80, Duration::from_secs(8));
/// So many kinds are made small in one run; further ones are shown as they were found.
const SHRUNK_KINDS_MAX: usize = 40;
/// How often progress is told where nobody looks at a terminal.
const TOLD_EVERY: Duration = Duration::from_secs(10);
/// How long the brokers may take until their coordinators serve.
const WARM_UP: Duration = Duration::from_secs(60);

/// Where the brokers are, and what to play.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Pelton.
    pub pelton: SocketAddr,
    /// Apache Kafka.
    pub kafka: SocketAddr,
    /// The first sequence's seed; each further one's is one more.
    pub seed: u64,
    /// How many sequences.
    pub sequences: u64,
}

/// What a kind of difference came to.
#[derive(Debug)]
struct Kind {
    count: usize,
    is_allowed: bool,
}

/// What became of the requests of an API, as Kafka has it.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    sent: usize,
    answered: usize,
    /// Answered without any error code.
    granted: usize,
}

/// A run under way.
#[derive(Debug)]
pub struct Run {
    plan: Plan,
    /// Tells this run's names from another's on the same brokers.
    nonce: u64,
    played: u64,
    begun: Instant,
    told: Instant,
    done: u64,
    tallies: BTreeMap<i16, Tally>,
    kinds: BTreeMap<String, Kind>,
    unsteady: BTreeMap<String, usize>,
    findings: Findings,
}

impl Run {
    /// A run whose names begin with something made of `nonce`.
    #[must_use]
    pub fn new(plan: Plan, nonce: u64) -> Self {
        Self {
            plan,
            nonce,
            played: 0,
            begun: Instant::now(),
            told: Instant::now(),
            done: 0,
            tallies: BTreeMap::new(),
            kinds: BTreeMap::new(),
            unsteady: BTreeMap::new(),
            findings: Findings::committed(),
        }
    }

    /// Plays everything; whether all differences are allowed.
    ///
    /// # Errors
    /// When a broker cannot be reached, or has gone.
    pub fn go(&mut self) -> Result<bool, Down> {
        self.warm_up()?;
        self.begun = Instant::now();
        for place in 0..self.plan.sequences {
            self.sequence(self.plan.seed.wrapping_add(place))?;
            self.done = place + 1;
            self.progress("");
        }
        eprintln!();
        Ok(self.kinds.values().all(|kind| kind.is_allowed))
    }

    /// Has both brokers make the topics of their coordinators.
    fn warm_up(&mut self) -> Result<(), Down> {
        let find = |key_type: i64| {
            let key = Value::text("~warm");
            let fields = vec![("key", key), ("key_type", Value::Int(key_type))];
            Step::plain(ApiKey::FindCoordinator, 3, 0, Value::Struct(fields))
        };
        let group = Value::Struct(vec![("group_id", Value::text("~warm"))]);
        let producer = Value::Struct(vec![
            ("transactional_id", Value::text("~warm")),
            ("transaction_timeout_ms", Value::Int(60_000)),
        ]);
        let steps = [
            find(0),
            find(1),
            Step::plain(ApiKey::Heartbeat, 3, 0, group),
            Step::plain(ApiKey::InitProducerId, 3, 0, producer),
        ];
        let deadline = Instant::now() + WARM_UP;
        loop {
            let (kafka, pelton) = self.play(&steps)?;
            let is_ready = |outcomes: &[Outcome]| {
                let last = outcomes.last();
                matches!(last, Some(Outcome::Answer(_, it)) if it.int("error_code") == Some(0))
            };
            if is_ready(&kafka) && is_ready(&pelton) || Instant::now() > deadline {
                return Ok(());
            }
        }
    }

    /// Plays a sequence on both brokers, under fresh names.
    fn play(&mut self, steps: &[Step]) -> Result<(Vec<Outcome>, Vec<Outcome>), Down> {
        self.played += 1;
        let prefix = format!("o{:x}-{}-", self.nonce, self.played);
        let kafka = Side::new(self.plan.kafka, &prefix);
        let pelton = Side::new(self.plan.pelton, &prefix);
        let (kafka, pelton) = std::thread::scope(|scope| {
            let kafka = scope.spawn(move || kafka.play(steps));
            let pelton = scope.spawn(move || pelton.play(steps));
            (kafka.join(), pelton.join())
        });
        Ok((kafka.expect("a side does not panic")?, pelton.expect("a side does not panic")?))
    }

    fn sequence(&mut self, seed: u64) -> Result<(), Down> {
        let steps = generate::sequence(seed);
        let outcomes = self.play(&steps)?;
        for (step, kafka) in steps.iter().zip(&outcomes.0) {
            let tally = self.tallies.entry(step.api as i16).or_default();
            tally.sent += 1;
            if let Outcome::Answer(_, answer) = kafka {
                tally.answered += 1;
                tally.granted += usize::from(!has_code(answer, |code| code != 0));
            }
        }
        let found = all_differences(&steps, &outcomes);
        let is_new = |(_, difference): &(usize, Difference)| {
            !self.kinds.contains_key(&difference.to_string()) && !self.findings.allow(difference)
        };
        let again = match found.iter().any(is_new) {
            true => all_differences(&steps, &self.play(&steps)?),
            false => found.clone(),
        };
        for (place, difference) in found {
            if again.iter().any(|(_, other)| *other == difference) {
                self.count(seed, &steps[..=place], &difference)?;
            } else {
                *self.unsteady.entry(difference.to_string()).or_default() += 1;
            }
        }
        Ok(())
    }

    /// Counts a difference; one of a new kind is shown, unless it is meant.
    fn count(&mut self, seed: u64, steps: &[Step], of: &Difference) -> Result<(), Down> {
        let name = of.to_string();
        if let Some(kind) = self.kinds.get_mut(&name) {
            kind.count += 1;
            return Ok(());
        }
        let is_allowed = self.findings.allow(of);
        self.kinds.insert(name, Kind { count: 1, is_allowed });
        if !is_allowed {
            let shown = self.kinds.values().filter(|kind| !kind.is_allowed).count();
            let steps = steps.to_vec();
            let small = if shown > SHRUNK_KINDS_MAX { steps } else { self.smallest(steps, of)? };
            println!("\n{}", self.example(seed, &small, of)?);
        }
        Ok(())
    }

    /// The smallest case of a difference.
    fn smallest(&mut self, steps: Vec<Step>, of: &Difference) -> Result<Vec<Step>, Down> {
        let mut down = None;
        let begun = Instant::now();
        let mut attempt = 0;
        let small = shrink(steps, SHRINK_BUDGET.0, |steps| {
            if down.is_some() || begun.elapsed() > SHRINK_BUDGET.1 {
                return false;
            }
            attempt += 1;
            let length = steps.len();
            let (api, path) = (&of.api, &of.path);
            self.progress(&format!(
                "; shrinking {api} {path}: {length} requests, attempt {attempt}"
            ));
            match self.play(steps) {
                Ok(outcomes) => {
                    all_differences(steps, &outcomes).iter().any(|(_, other)| other == of)
                }
                Err(gone) => {
                    down = Some(gone);
                    false
                }
            }
        });
        down.map_or(Ok(small), Err)
    }

    /// A case with both answers.
    fn example(&mut self, seed: u64, steps: &[Step], of: &Difference) -> Result<String, Down> {
        let (kafka, pelton) = self.play(steps)?;
        let mut text = format!("{of}\n  seed {seed}\n");
        for ((step, kafka), pelton) in steps.iter().zip(&kafka).zip(&pelton) {
            let found = differences(step, kafka, pelton);
            writeln!(text, "  {step}").expect("a string takes everything");
            if found.iter().all(|difference| self.findings.allow(difference)) {
                writeln!(text, "    both:   {}", clip(kafka, 200))
                    .expect("a string takes everything");
            } else {
                let (kafka, pelton) = (clip(kafka, 900), clip(pelton, 900));
                writeln!(text, "    Kafka:  {kafka}\n    Pelton: {pelton}")
                    .expect("a string takes everything");
            }
        }
        Ok(text)
    }

    /// Tells how far the run is: on a terminal always, elsewhere now and then.
    fn progress(&mut self, doing: &str) {
        let is_seen = std::io::stderr().is_terminal();
        if !is_seen && self.told.elapsed() < TOLD_EVERY {
            return;
        }
        self.told = Instant::now();
        let requests: usize = self.tallies.values().map(|tally| tally.sent).sum();
        let new = self.kinds.values().filter(|kind| !kind.is_allowed).count();
        let line = format!(
            "{}/{} sequences, {requests} requests, {} kinds of difference, {new} not allowed, {} s{doing}",
            self.done,
            self.plan.sequences,
            self.kinds.len(),
            self.begun.elapsed().as_secs()
        );
        if is_seen {
            eprint!("\r\x1b[K{line}");
        } else {
            eprintln!("{line}");
        }
        // A terminal that is gone does not end the run.
        drop(std::io::stderr().flush());
    }

    /// What was asked, and what differed.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = String::from("requests of each API: sent, answered, granted by Kafka\n");
        let mut row = |name: &str, tally: Tally| {
            let Tally { sent, answered, granted } = tally;
            text += &format!("  {name:<32} {sent:>6} {answered:>6} {granted:>6}\n");
        };
        let mut all = Tally::default();
        for api in generate::apis() {
            let tally = self.tallies.get(&(api as i16)).copied().unwrap_or_default();
            row(&format!("{api:?}"), tally);
            all.sent += tally.sent;
            all.answered += tally.answered;
            all.granted += tally.granted;
        }
        row("all", all);
        for (title, allowed) in [("allowed by FINDINGS.md", true), ("not allowed", false)] {
            let kinds = self.kinds.iter().filter(|(_, kind)| kind.is_allowed == allowed);
            let counts = kinds.map(|(name, kind)| (name.as_str(), kind.count));
            table(&mut text, &format!("differences {title}"), counts);
        }
        let counts = self.unsteady.iter().map(|(name, count)| (name.as_str(), *count));
        table(&mut text, "differences that did not come again", counts);
        text
    }
}

/// Kinds and how often each came, the most frequent first.
fn table<'a>(text: &mut String, title: &str, counts: impl Iterator<Item = (&'a str, usize)>) {
    let mut counts: Vec<_> = counts.collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    let all: usize = counts.iter().map(|(_, count)| count).sum();
    *text += &format!("{title}: {} kinds, {all} in all\n", counts.len());
    for (name, count) in counts {
        *text += &format!("  {count:>5} × {name}\n");
    }
}

/// An outcome, as much of it as a reader takes in.
fn clip(outcome: &Outcome, chars_max: usize) -> String {
    let text = outcome.to_string();
    if text.chars().count() <= chars_max {
        return text;
    }
    text.chars().take(chars_max).chain(['…']).collect()
}

/// Differences and the places of their steps, up to where the brokers part: what the one has done and the other has refused
/// explains whatever follows.
fn all_differences(
    steps: &[Step],
    outcomes: &(Vec<Outcome>, Vec<Outcome>),
) -> Vec<(usize, Difference)> {
    let mut all: Vec<(usize, Difference)> = Vec::new();
    for (place, (step, (kafka, pelton))) in
        steps.iter().zip(outcomes.0.iter().zip(&outcomes.1)).enumerate()
    {
        let found = differences(step, kafka, pelton);
        let do_part = step.is_ambiguous(kafka) || found.iter().any(Difference::parts);
        for difference in found {
            if all.iter().all(|(_, other)| *other != difference) {
                all.push((place, difference));
            }
        }
        if do_part {
            break;
        }
    }
    all
}
