//! Load for any broker of Kafka's protocol, and figures one can trust: open loops without coordinated omission, the broker's
//! own CPU time, all systems in one run beside the least that a program can do.
//!
//! Invariants:
//! 1. What failed, and what was due and not done, is part of every report.
//! 2. A latency counts from when its request was due.
//! 3. The client costs far less than any broker: requests are built before the run and patched in place, answers are read
//!    where they lie, one thread a core, one epoll a thread, no allocation for a request.
//!
//! It has no groups and no transactions, and drives one topic.

#![forbid(unsafe_code)]

mod answer;
mod args;
mod clock;
mod compare;
mod connection;
mod crc;
mod engine;
mod error;
mod frame;
mod interrupt;
mod limit;
mod load;
mod outcome;
mod peer;
mod plot;
mod process;
mod progress;
mod report;
mod schedule;
mod setup;
mod stats;
mod text;
mod worker;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use crate::args::{Cli, Command, CompareArgs, LimitsArgs, LoadArgs};
use crate::compare::scenario::Scenario;
use crate::compare::{Options, compare};
use crate::error::io_error;

pub use crate::engine::{RunOptions, run};
pub use crate::error::PerfError;
pub use crate::load::{Durability, Kind, Load, RampStep};
pub use crate::outcome::{Flowed, Latency, Moment, Outcome};
pub use crate::process::Usage;
pub use crate::report::report;
pub use crate::setup::Target;

/// Runs the command line of this process and returns its exit code: 0, 1 for an error, 3 when anything was shed, or an
/// expectation was missed or unknown.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    raise_file_limit();
    interrupt::watch();
    match command(cli.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("pelton-perf: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Idle connections by the thousand need as many descriptors; where they are refused, connecting says so.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).unwrap_or_default();
}

fn command(command: Command) -> Result<ExitCode, PerfError> {
    match command {
        Command::Produce(args) => load(Kind::Produce, args),
        Command::Fetch(args) => load(Kind::Fetch, args),
        Command::Tail(args) => load(Kind::Tail, args),
        Command::Mixed(args) => load(Kind::Mixed, args),
        Command::Compare(args) => side_by_side(&args),
        Command::Scenarios => {
            for name in Scenario::names() {
                let scenario = Scenario::find(name)?;
                println!("{name:<26} {}", scenario.title);
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Limits(args) => limits(&args),
        Command::LimitServer(args) => {
            limit::serve(args.address, args.directory, args.storing)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn load(kind: Kind, args: LoadArgs) -> Result<ExitCode, PerfError> {
    let topic_settings = args.topic_settings.into_iter().collect();
    let load = Load { kind, topic_settings, ..args.load };
    let own = format!("pelton-perf-{}", std::process::id());
    let target = Target {
        address: args.broker,
        keeps_topic: args.topic.is_some(),
        topic: args.topic.unwrap_or(own),
        is_bare: args.bare,
    };
    let options =
        RunOptions { pid: args.pid, cores: args.cores, sleeps: args.sleep, shows_progress: true };
    let outcome = run(&load, &target, &options)?;
    print!("{}", report(&outcome));
    if let Some(path) = args.json {
        write_json(&path, &outcome)?;
    }
    Ok(if outcome.shed() == 0 { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

fn side_by_side(args: &CompareArgs) -> Result<ExitCode, PerfError> {
    let mut scenarios = Vec::new();
    for name in &args.scenarios {
        if name == "all" {
            for own in Scenario::names() {
                scenarios.push(Scenario::find(own)?);
            }
        } else {
            scenarios.push(Scenario::find(name)?);
        }
    }
    let (ground, client_cores) = args.place.settle()?;
    let options = Options {
        ground,
        client_cores,
        rounds: args.rounds,
        seconds: args.seconds,
        heat: args.heat,
        alone: args.alone,
        scratch_bytes: args.scratch_mib << 20,
        out: args.out.clone(),
    };
    let compared = compare(&scenarios, &args.brokers, &options);
    std::fs::remove_dir_all(&options.ground.directory).unwrap_or_default();
    let compared = compared?;
    let missed =
        compared.iter().flat_map(|each| &each.judged).any(|each| each.is_met != Some(true));
    Ok(if missed { ExitCode::from(3) } else { ExitCode::SUCCESS })
}

fn limits(args: &LimitsArgs) -> Result<ExitCode, PerfError> {
    let (ground, client_cores) = args.place.settle()?;
    let limits = limit::measure(&ground, &client_cores, args.seconds);
    std::fs::remove_dir_all(&ground.directory).unwrap_or_default();
    let limits = limits?;
    if let Some(path) = &args.json {
        write_json(path, &limits)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), PerfError> {
    let failed = || io_error("writing", path.display().to_string());
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| failed()(std::io::Error::from(error)))?;
    std::fs::write(path, text).map_err(failed())
}
