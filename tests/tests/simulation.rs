//! Seeds through the simulator: those that once failed, a fixed budget of others, and as many as `PELTON_SIM_SEEDS` asks for.
//!
//! `PELTON_SIM_SEED=n` runs one seed and says what it did; `PELTON_SIM_SEEDS=n` runs n seeds from `PELTON_SIM_FROM` (by default
//! behind those of the budget) on all cores. Both hold for the runs in which records go and for those with transactions, too; name the
//! test to have one kind.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use pelton_tests::sim::simulation::{
    Summary, run, run_transactions, run_vanishing, run_vanishing_transactions,
};
use pelton_tests::sim::stage::play;

/// Seeds that every run of the tests takes, 1 to this.
const BUDGET: u64 = 400;
/// The same for runs in which records go.
const VANISHING_BUDGET: u64 = 200;
/// The same for runs with transactions.
const TRANSACTIONS_BUDGET: u64 = 150;
/// The same for runs with transactions of which records go.
const VANISHING_TRANSACTIONS_BUDGET: u64 = 150;
/// A run as [`run`] and its like are.
type Run = fn(u64) -> Result<Summary, String>;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Seeds of `seeds.txt`: those with this word before the number, or without any.
fn known(word: &str) -> Vec<u64> {
    include_str!("../seeds.txt")
        .lines()
        .filter_map(|line| line.split('#').next())
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| line.rsplit_once(' ').unwrap_or(("", line)))
        .filter(|(before, _)| *before == word)
        .map(|(_, number)| number.parse().expect("seeds.txt holds a number a line"))
        .collect()
}

/// What runs have done together.
#[derive(Debug, Default)]
struct Sums {
    /// Records that went.
    vanished: AtomicU64,
    /// Transactions that were committed.
    committed: AtomicU64,
}

impl Sums {
    fn add(&self, summary: &Summary) {
        self.vanished.fetch_add(summary.vanished, Ordering::Relaxed);
        self.committed.fetch_add(summary.committed, Ordering::Relaxed);
    }
}

/// Runs all seeds on all cores.
fn check(run: Run, seeds: &[u64], shows_progress: bool) -> Sums {
    let (next, sums) = (AtomicU64::new(0), Sums::default());
    let start = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || -> Vec<String> {
        let mut failures = Vec::new();
        loop {
            let index = usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap();
            let Some(&seed) = seeds.get(index) else {
                return failures;
            };
            match run(seed) {
                Ok(summary) => sums.add(&summary),
                Err(report) => {
                    println!("{report}");
                    failures.push(report);
                }
            }
            if shows_progress && (index + 1).is_multiple_of(50) {
                let seconds = start.elapsed().as_secs_f64();
                println!("{} of {} seeds, {seconds:.0} s", index + 1, seeds.len());
            }
        }
    };
    let failures: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect()
    });
    let summary: Vec<String> = failures
        .iter()
        .map(|report| report.lines().rev().take(2).collect::<Vec<_>>().join(" / "))
        .collect();
    assert!(failures.is_empty(), "{} seeds failed:\n{}", failures.len(), summary.join("\n"));
    sums
}

/// Whether the seeds are those of the budget.
fn is_budget() -> bool {
    number("PELTON_SIM_SEED").or(number("PELTON_SIM_SEEDS")).is_none()
}

/// One seed, so many, or those of the budget, as the environment says.
fn check_budget(run: Run, budget: u64) -> Sums {
    if let Some(seed) = number("PELTON_SIM_SEED") {
        let summary = run(seed).unwrap_or_else(|report| panic!("{report}"));
        println!("{summary:?}");
        let sums = Sums::default();
        sums.add(&summary);
        return sums;
    }
    match number("PELTON_SIM_SEEDS") {
        Some(count) => {
            let from = number("PELTON_SIM_FROM").unwrap_or(budget + 1);
            check(run, &(from..from + count).collect::<Vec<_>>(), true)
        }
        None => check(run, &(1..=budget).collect::<Vec<_>>(), false),
    }
}

// Goal: what once failed stays mended. Method: every seed of `seeds.txt`.
#[test]
fn seeds_that_once_failed() {
    check(run, &known(""), false);
    check(run_vanishing, &known("vanishing"), false);
    check(run_transactions, &known("transactions"), false);
    check(run_vanishing_transactions, &known("vanishing transactions"), false);
}

// Goal: no acknowledged record is lost, no wait is in vain, whatever the order of things. Method: a fixed budget of seeds.
#[test]
fn seeds_of_the_budget() {
    let sums = check_budget(run, BUDGET);
    assert_eq!(sums.vanished.into_inner(), 0);
}

// Goal: retention, DeleteRecords and compaction take what they may and nothing else, whatever comes between. Method: a fixed budget of
// seeds; some of them must have taken something.
#[test]
fn seeds_with_vanishing_records() {
    let sums = check_budget(run_vanishing, VANISHING_BUDGET);
    assert!(0 < sums.vanished.into_inner() || !is_budget(), "nothing ever went");
}

// Goal: transactions happen whole or not at all, in one order, exactly once, and every one of them ends. Method: a fixed budget of seeds
// with producers that fence each other, go away, come back late and lose answers; most of their transactions must have been committed.
#[test]
fn seeds_with_transactions() {
    let sums = check_budget(run_transactions, TRANSACTIONS_BUDGET);
    let committed = sums.committed.into_inner();
    assert!(10 * TRANSACTIONS_BUDGET < committed || !is_budget(), "{committed} committed");
}

// Goal: what retention, DeleteRecords and compaction take of transactions, open, aborted and committed ones, is what they may take, and
// what is left of one is all of it. Method: a fixed budget of seeds in which also the coordinators' logs are compacted; something must
// have gone, and much have been committed.
#[test]
fn seeds_with_vanishing_transactions() {
    let sums = check_budget(run_vanishing_transactions, VANISHING_TRANSACTIONS_BUDGET);
    let (vanished, committed) = (sums.vanished.into_inner(), sums.committed.into_inner());
    println!("{vanished} records went, {committed} transactions are left");
    assert!(0 < vanished || !is_budget(), "nothing ever went");
    assert!(5 * VANISHING_TRANSACTIONS_BUDGET < committed || !is_budget(), "{committed} committed");
}

// Goal: a connection moves to the shard that its requests go to, once, and its client notices nothing; without the setting it stays.
// Method: long runs of Produce over one connection for each of eight partitions of two shards, with seeds.
#[test]
fn connections_follow_their_traffic() {
    let moves = |seed: u64, window_ms: &str| {
        let moves = std::rc::Rc::new(std::cell::Cell::new(0));
        let seen = std::rc::Rc::clone(&moves);
        play(seed, 2, &[("connections.follow.window.ms", window_ms)], move |stage| {
            let topic = stage.create_topic("t", 8, &[]);
            for partition in 0..8 {
                stage.produce_many(&topic, partition, 150);
            }
            seen.set(stage.moves());
        })
        .unwrap_or_else(|report| panic!("{report}"));
        moves.get()
    };
    let counts: Vec<u64> = (0..20).map(|seed| moves(seed, "1")).collect();
    assert!(counts.iter().all(|&moves| moves <= 8), "more than one move: {counts:?}");
    assert!(counts.iter().sum::<u64>() >= 20, "hardly any moves: {counts:?}");
    assert_eq!(moves(1, "0"), 0);
}

// Goal: a seed is a run, byte for byte. Method: twice the same seed, and another one.
#[test]
fn one_seed_is_one_run() {
    for run in [run, run_transactions, run_vanishing_transactions] {
        let of = |seed| run(seed).unwrap_or_else(|report| panic!("{report}"));
        assert_eq!(of(7), of(7));
        assert_ne!(of(7).fingerprint, of(8).fingerprint);
    }
}
