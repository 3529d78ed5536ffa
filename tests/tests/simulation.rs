//! Seeds through the simulator: those that once failed, a fixed budget of others, and as many as `PELTON_SIM_SEEDS` asks for.
//!
//! `PELTON_SIM_SEED=n` runs one seed and says what it did; `PELTON_SIM_SEEDS=n` runs n seeds from `PELTON_SIM_FROM` (by default
//! behind those of the budget) on all cores.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use pelton_tests::sim::simulation::run;

/// Seeds that every run of the tests takes, 1 to this.
const BUDGET: u64 = 400;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

fn known() -> Vec<u64> {
    include_str!("../seeds.txt")
        .lines()
        .filter_map(|line| line.split('#').next())
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| line.parse().expect("seeds.txt holds a number a line"))
        .collect()
}

/// Runs all seeds on two threads; the first failure ends the test.
fn check(seeds: &[u64], shows_progress: bool) {
    let next = AtomicU64::new(0);
    let start = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || -> Vec<String> {
        let mut failures = Vec::new();
        loop {
            let index = usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap();
            let Some(&seed) = seeds.get(index) else {
                return failures;
            };
            if let Err(report) = run(seed) {
                println!("{report}");
                failures.push(report);
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
}

// Goal: what once failed stays mended. Method: every seed of `seeds.txt`.
#[test]
fn seeds_that_once_failed() {
    check(&known(), false);
}

// Goal: no acknowledged record is lost, no wait is in vain, whatever the order of things. Method: a fixed budget of seeds.
#[test]
fn seeds_of_the_budget() {
    if let Some(seed) = number("PELTON_SIM_SEED") {
        let summary = run(seed).unwrap_or_else(|report| panic!("{report}"));
        println!("{summary:?}");
        return;
    }
    match number("PELTON_SIM_SEEDS") {
        Some(count) => {
            let from = number("PELTON_SIM_FROM").unwrap_or(BUDGET + 1);
            check(&(from..from + count).collect::<Vec<_>>(), true);
        }
        None => check(&(1..=BUDGET).collect::<Vec<_>>(), false),
    }
}

// Goal: a seed is a run, byte for byte. Method: twice the same seed, and another one.
#[test]
fn one_seed_is_one_run() {
    let of = |seed| run(seed).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(of(7), of(7));
    assert_ne!(of(7).fingerprint, of(8).fingerprint);
}
