//! The one binary of Pelton: `pelton` starts a broker, its subcommands talk to one.
//!
//! Invariants:
//! 1. an error is one line on stderr (what, which object, what to do) and exit code 1; misuse is exit code 2;
//! 2. stdout carries only what was asked for (records, lists), so that it can be piped; everything else is stderr;
//! 3. colours appear only on a terminal, and not with `NO_COLOR`.
//!
//! This crate picks the runtime (`transport::ring`) and the allocator; no other crate does either.

mod allocator;
mod args;
mod client;
mod config;
mod consume;
mod doctor;
mod error;
mod group;
mod latency;
mod logging;
mod metrics;
mod output;
mod produce;
mod records;
mod serve;
mod slow;
mod topic;
mod transaction;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory, Parser};
use pelton_broker::loggers::Loggers;

use crate::args::{Cli, Command};
use crate::error::CliError;

/// Runs the command line of this process and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse_from(args::with_default_command(std::env::args_os().collect()));
    let loggers = logging::start(cli.log_level());
    match run(cli.command, loggers) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::error_line(&error.to_string());
            error.exit_code()
        }
    }
}

fn run(command: Command, loggers: Arc<dyn Loggers>) -> Result<(), CliError> {
    match command {
        Command::Serve(args) => serve::run(&args, loggers),
        Command::Topic(command) => topic::run(command),
        Command::Group(command) => group::run(command),
        Command::Txn(command) => transaction::run(command),
        Command::Config(command) => config::run(command),
        Command::Produce(args) => produce::run(&args),
        Command::Consume(args) => consume::run(&args),
        Command::Latency(args) => latency::run(&args),
        Command::Slow(args) => slow::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions(args) => output::written(completions(args.shell)),
    }
}

/// Prints the shell's script.
fn completions(shell: clap_complete::Shell) -> std::io::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "pelton", &mut script);
    std::io::stdout().lock().write_all(&script)
}
