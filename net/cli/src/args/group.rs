//! The command lines about groups.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::Connect;
use crate::records::position::Position;

/// `pelton group`.
#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// List the groups with their states
    #[command(after_help = "Examples:\n  pelton group list\n  pelton group list --output json")]
    List(GroupListArgs),
    /// Show who reads what in a group, and how far behind it is in records and in time
    #[command(
        after_help = "Examples:\n  pelton group describe billing\n  pelton group describe billing audit -O json"
    )]
    Describe(GroupDescribeArgs),
    /// Set the offsets of a group without members
    #[command(
        after_help = "Examples:\n  pelton group reset billing --topic orders --to beginning\n  \
        pelton group reset billing --topic orders --partition 0,2 --to 42 --dry-run\n  \
        pelton group reset billing --all-topics --to @2026-01-31T12:00:00Z\n  \
        pelton group reset billing --topic orders --by -100"
    )]
    Reset(GroupResetArgs),
    /// Delete groups without members, with their offsets
    #[command(after_help = "Example:\n  pelton group delete billing old-billing")]
    Delete(GroupDeleteArgs),
}

/// The form of what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Columns for people.
    Table,
    /// JSON for programs.
    Json,
}

/// `pelton group list`.
#[derive(Args, Debug)]
pub(crate) struct GroupListArgs {
    /// The form of the list
    #[arg(long, short = 'O', value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// `pelton group describe`.
#[derive(Args, Debug)]
pub(crate) struct GroupDescribeArgs {
    /// The groups [default: all]
    pub(crate) groups: Vec<String>,
    /// The form of the description
    #[arg(long, short = 'O', value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// `pelton group reset`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("what").required(true).args(["topic", "all_topics"]))]
#[command(group = ArgGroup::new("where").required(true).args(["to", "by"]))]
pub(crate) struct GroupResetArgs {
    /// The group
    pub(crate) group: String,
    /// Of this topic
    #[arg(long)]
    pub(crate) topic: Option<String>,
    /// Only these partitions of it [default: all]
    #[arg(
        long,
        short = 'p',
        value_name = "N,…",
        value_delimiter = ',',
        requires = "topic",
        value_parser = clap::value_parser!(i32).range(0..)
    )]
    pub(crate) partition: Vec<i32>,
    /// Of every topic for which the group has offsets
    #[arg(long)]
    pub(crate) all_topics: bool,
    /// Go on at: beginning, end, an offset, -N (N records before the end), or @TIME
    #[arg(long, value_name = "WHERE", allow_hyphen_values = true)]
    pub(crate) to: Option<Position>,
    /// Move by so many records: forward, or back with a minus
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) by: Option<i64>,
    /// Only show what would be set
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The form of what is shown
    #[arg(long, short = 'O', value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// `pelton group delete`.
#[derive(Args, Debug)]
pub(crate) struct GroupDeleteArgs {
    /// The groups
    #[arg(required = true)]
    pub(crate) groups: Vec<String>,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
