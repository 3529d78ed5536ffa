//! The command lines of what reads a broker's metrics.

use clap::{Args, ValueEnum};

use super::{HostPort, Output};

/// Which broker's metrics to read.
#[derive(Args, Clone, Debug)]
pub(crate) struct MetricsAt {
    /// The address that the broker was given as --metrics
    #[arg(
        long,
        short = 'm',
        value_name = "HOST:PORT",
        env = "PELTON_METRICS",
        default_value = "127.0.0.1:9644"
    )]
    pub(crate) metrics: HostPort,
}

/// By what latencies are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Grouping {
    /// By API.
    Api,
    /// By API and topic.
    Topic,
    /// By API and client id.
    Client,
}

/// `pelton latency`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  pelton latency                          a live table of the last seconds\n  \
    pelton latency --once --by topic        since the start of the broker, by topic\n  \
    pelton latency --output json | jq .apis\n\n\
    A duration ends when the answer is in the kernel's hands; what a fetch asked to wait does not count. \
    The broker must run with --metrics."
)]
pub(crate) struct LatencyArgs {
    #[command(flatten)]
    pub(crate) at: MetricsAt,
    /// Show the latencies since the broker's start once, instead of those of each interval
    #[arg(long)]
    pub(crate) once: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub(crate) interval: u16,
    /// What gets a line of its own
    #[arg(long, value_enum, default_value_t = Grouping::Api)]
    pub(crate) by: Grouping,
    /// How to show it; json implies --once
    #[arg(long, short = 'o', value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
}

/// `pelton slow`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  pelton slow\n  pelton slow -n 5 --metrics broker:9644\n\n\
    What counts as slow is slow.request.threshold.ms of the broker. The stages, in order: receive (its bytes came in), \
    queue (behind requests of its connection), handle (decode and check), mesh (to another core and back), append (written), \
    sync (made durable), commit (replicated), wait (a fetch that asked to wait), respond (the answer left)."
)]
pub(crate) struct SlowArgs {
    #[command(flatten)]
    pub(crate) at: MetricsAt,
    /// Show so many at most
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    pub(crate) max: usize,
    /// How to show them
    #[arg(long, short = 'o', value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
}
