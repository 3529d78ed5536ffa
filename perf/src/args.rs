//! The command line.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use pelton_transport::cores::available;

use crate::compare::broker::{Broker, Ground};
use crate::error::{PerfError, io_error};
use crate::limit::Storing;
use crate::load::Load;

/// Loads brokers of Kafka's protocol and measures them.
#[derive(Debug, Parser)]
#[command(name = "pelton-perf", version, about)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Producers: throughput (closed loop) or latency at a rate (open loop).
    Produce(LoadArgs),
    /// Consumers that read what was written before, again and again.
    Fetch(LoadArgs),
    /// From the time a record is due to the time a consumer has it.
    Tail(LoadArgs),
    /// Producers and consumers at once.
    Mixed(LoadArgs),
    /// Runs scenarios alternately against several brokers and judges the first one.
    Compare(CompareArgs),
    /// Lists the scenarios that come along.
    Scenarios,
    /// The least a program can do for the same bytes on this machine.
    Limits(LimitsArgs),
    /// Runs the program that does the least.
    #[command(hide = true)]
    LimitServer(LimitServerArgs),
}

/// Where brokers and this client run.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// Cores of the brokers; by default the first one we may use.
    #[arg(long, value_delimiter = ',')]
    pub(crate) broker_cores: Vec<usize>,
    /// Cores of this client's workers; by default those that the brokers do not use.
    #[arg(long, value_delimiter = ',')]
    pub(crate) client_cores: Vec<usize>,
    /// Where brokers keep their data, on the disk that is to be measured; by default a new directory among the temporary ones.
    #[arg(long, value_name = "DIR")]
    pub(crate) work_dir: Option<PathBuf>,
}

impl PlaceArgs {
    /// The ground for brokers, and the client's cores.
    pub(crate) fn settle(&self) -> Result<(Ground, Vec<usize>), PerfError> {
        let available = available();
        let mut broker_cores = self.broker_cores.clone();
        if broker_cores.is_empty() {
            broker_cores.extend(available.first());
        }
        let mut client_cores = self.client_cores.clone();
        if client_cores.is_empty() {
            client_cores.extend(available.iter().filter(|core| !broker_cores.contains(core)));
        }
        if client_cores.is_empty() {
            client_cores.clone_from(&broker_cores);
        }
        let own = format!("pelton-perf-{}", std::process::id());
        let directory = self.work_dir.clone().unwrap_or_else(std::env::temp_dir).join(own);
        std::fs::create_dir_all(&directory)
            .map_err(io_error("creating", directory.display().to_string()))?;
        Ok((Ground { directory, broker_cores }, client_cores))
    }
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Names of scenarios that come along, files, or `all`.
    #[arg(required = true)]
    pub(crate) scenarios: Vec<String>,
    /// NAME=COMMAND, the one under test first; the command is sh's, with {port}, {dir}, {cpus}, {settings} and {settings:PREFIX}.
    #[arg(long = "broker", required = true, value_name = "NAME=COMMAND", value_parser = broker)]
    pub(crate) brokers: Vec<Broker>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Rounds, in place of the scenarios'.
    #[arg(long)]
    pub(crate) rounds: Option<u32>,
    /// Seconds that each round measures, in place of the scenarios'.
    #[arg(short = 't', long)]
    pub(crate) seconds: Option<f64>,
    /// Seconds that each broker is under the load before the first round.
    #[arg(long, default_value_t = 8.0)]
    pub(crate) heat: f64,
    /// Start each broker anew for each round, with no other running.
    #[arg(long)]
    pub(crate) alone: bool,
    /// MiB of the scratch file that is written and removed before each round; 0: none.
    #[arg(long, default_value_t = 1_536)]
    pub(crate) scratch_mib: u64,
    /// Write results (JSON) and plots (SVG) into this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

fn broker(text: &str) -> Result<Broker, String> {
    let (name, command) = setting(text)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
    if name.is_empty() || !name.chars().all(plain) || name == "limit" {
        return Err("a broker's name is of letters and digits, and not `limit`".to_owned());
    }
    Ok(Broker { name, command, is_bare: false })
}

#[derive(Debug, Args)]
pub(crate) struct LimitsArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Seconds that each limit is measured.
    #[arg(short = 't', long, default_value_t = 3.0)]
    pub(crate) seconds: f64,
    /// Write everything to this file as JSON.
    #[arg(short = 'j', long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct LimitServerArgs {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Where its files lie.
    pub(crate) directory: PathBuf,
    /// What it does with what it gets.
    #[arg(long, value_enum, default_value_t = Storing::Prepared)]
    pub(crate) storing: Storing,
}

/// A load, where it goes, and how.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// HOST:PORT of the broker.
    #[arg(value_parser = resolve)]
    pub(crate) broker: SocketAddr,
    /// The topic; one of our own, deleted afterwards, if it is not given.
    pub(crate) topic: Option<String>,
    #[command(flatten)]
    pub(crate) load: Load,
    /// NAME=VALUE: a setting of the topic.
    #[arg(long = "topic-config", value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) topic_settings: Vec<(String, String)>,
    /// The broker speaks Produce, Fetch and ListOffsets only: no topic is created, no leader asked for.
    #[arg(long)]
    pub(crate) bare: bool,
    /// The broker's process, for its CPU time and memory; by default whoever listens on the port.
    #[arg(short = 'P', long)]
    pub(crate) pid: Option<u32>,
    /// Cores of the workers, one for each; by default as many workers as we may use cores (one in an open loop), not pinned.
    #[arg(long, value_delimiter = ',')]
    pub(crate) cores: Vec<usize>,
    /// Sleep between requests of an open loop: friendlier, less exact.
    #[arg(long)]
    pub(crate) sleep: bool,
    /// Write everything to this file as JSON.
    #[arg(short = 'j', long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

fn resolve(text: &str) -> Result<SocketAddr, String> {
    let mut addresses = text.to_socket_addrs().map_err(|error| error.to_string())?;
    addresses.next().ok_or_else(|| "no such host".to_owned())
}

fn setting(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').ok_or("want NAME=VALUE")?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// Goal: the command line is consistent, and its defaults are the load's. Method: clap's own check, and a parse.
    #[test]
    fn defaults() {
        Cli::command().debug_assert();
        let cli = Cli::try_parse_from(["pelton-perf", "produce", "127.0.0.1:9092"]);
        let Command::Produce(args) = cli.expect("it parses").command else {
            panic!("another command");
        };
        assert_eq!(args.load, Load::default());
    }
}
