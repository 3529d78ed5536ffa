//! A run: sequences one after another, differences by kind, progress and summary.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use kafka_protocol::messages::ApiKey;

use super::compare::{Difference, differences};
use super::findings::Findings;
use super::generate;
use super::shrink::shrink;
use super::side::{Down, Side};
use super::step::{Outcome, Step};
use super::value::Value;

/// How often a difference's sequence is played to make it small, and for how long.
const SHRINK_BUDGET: (usize, Duration) = (150, Duration::from_secs(8));
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

/// A run under way.
#[derive(Debug)]
pub struct Run {
    plan: Plan,
    /// Tells this run's names from another's on the same brokers.
    nonce: u64,
    played: u64,
    requests: BTreeMap<i16, usize>,
    answers: BTreeMap<i16, usize>,
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
            requests: BTreeMap::new(),
            answers: BTreeMap::new(),
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
        let begun = Instant::now();
        for place in 0..self.plan.sequences {
            self.sequence(self.plan.seed.wrapping_add(place))?;
            self.progress(place + 1, begun);
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
            *self.requests.entry(step.api as i16).or_default() += 1;
            let is_answer = matches!(kafka, Outcome::Answer(..));
            *self.answers.entry(step.api as i16).or_default() += usize::from(is_answer);
        }
        let found = all_differences(&steps, &outcomes);
        if found.is_empty() {
            return Ok(());
        }
        let again = self.play(&steps)?;
        let again = all_differences(&steps, &again);
        for difference in found {
            if again.contains(&difference) {
                self.count(seed, &steps, difference)?;
            } else {
                *self.unsteady.entry(difference.to_string()).or_default() += 1;
            }
        }
        Ok(())
    }

    fn count(&mut self, seed: u64, steps: &[Step], difference: Difference) -> Result<(), Down> {
        let name = difference.to_string();
        if let Some(kind) = self.kinds.get_mut(&name) {
            kind.count += 1;
            return Ok(());
        }
        let is_allowed = self.findings.allow(&difference);
        if !is_allowed {
            println!("\n{}", self.example(seed, steps, &difference)?);
        }
        self.kinds.insert(name, Kind { count: 1, is_allowed });
        Ok(())
    }

    /// The smallest case of a difference, with both answers.
    fn example(&mut self, seed: u64, steps: &[Step], of: &Difference) -> Result<String, Down> {
        let mut down = None;
        let begun = Instant::now();
        let small = shrink(steps.to_vec(), SHRINK_BUDGET.0, |steps| {
            if down.is_some() || begun.elapsed() > SHRINK_BUDGET.1 {
                return false;
            }
            match self.play(steps) {
                Ok(outcomes) => all_differences(steps, &outcomes).contains(of),
                Err(gone) => {
                    down = Some(gone);
                    false
                }
            }
        });
        if let Some(gone) = down {
            return Err(gone);
        }
        let (kafka, pelton) = self.play(&small)?;
        let mut text = format!("{of}\n  seed {seed}\n");
        for ((step, kafka), pelton) in small.iter().zip(&kafka).zip(&pelton) {
            let same = differences(step, kafka, pelton).is_empty();
            writeln!(text, "  {step}").expect("a string takes everything");
            if same {
                writeln!(text, "    both:   {}", clip(kafka)).expect("a string takes everything");
            } else {
                let (kafka, pelton) = (clip(kafka), clip(pelton));
                writeln!(text, "    Kafka:  {kafka}\n    Pelton: {pelton}")
                    .expect("a string takes everything");
            }
        }
        Ok(text)
    }

    fn progress(&self, done: u64, begun: Instant) {
        let requests: usize = self.requests.values().sum();
        let new = self.kinds.values().filter(|kind| !kind.is_allowed).count();
        eprint!(
            "\r{done}/{} sequences, {requests} requests, {} kinds of difference, {new} not allowed, {} s ",
            self.plan.sequences,
            self.kinds.len(),
            begun.elapsed().as_secs()
        );
        // A terminal that is gone does not end the run.
        drop(std::io::stderr().flush());
    }

    /// What was asked, and what differed.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = String::from("requests (answered by Kafka) of each API:\n");
        for api in generate::apis() {
            let count = |of: &BTreeMap<i16, usize>| of.get(&(api as i16)).copied().unwrap_or(0);
            let (sent, answered) = (count(&self.requests), count(&self.answers));
            text += &format!("  {:<32} {sent:>6} ({answered})\n", format!("{api:?}"));
        }
        for (title, allowed) in [("allowed by FINDINGS.md", true), ("not allowed", false)] {
            let kinds = self.kinds.iter().filter(|(_, kind)| kind.is_allowed == allowed);
            let kinds: Vec<_> = kinds.collect();
            text += &format!("differences {title}: {}\n", kinds.len());
            for (name, kind) in kinds {
                text += &format!("  {:>4} × {name}\n", kind.count);
            }
        }
        let unsteady: usize = self.unsteady.values().sum();
        text += &format!("differences that did not come again: {unsteady}\n");
        for (name, count) in &self.unsteady {
            text += &format!("  {count:>4} × {name}\n");
        }
        text
    }
}

/// An outcome, as much of it as a reader takes in.
fn clip(outcome: &Outcome) -> String {
    let text = outcome.to_string();
    if text.chars().count() > 600 { text.chars().take(600).chain(['…']).collect() } else { text }
}

fn all_differences(steps: &[Step], outcomes: &(Vec<Outcome>, Vec<Outcome>)) -> Vec<Difference> {
    let pairs = outcomes.0.iter().zip(&outcomes.1);
    let each = steps.iter().zip(pairs);
    let mut all: Vec<Difference> =
        each.flat_map(|(step, (kafka, pelton))| differences(step, kafka, pelton)).collect();
    all.sort();
    all.dedup();
    all
}
