//! The command lines about transactions.

use clap::{Args, Subcommand};

use super::{Connect, Output};

/// The states of a transaction, as Kafka spells them.
const STATES: [&str; 6] = [
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
];

/// `pelton txn`.
#[derive(Debug, Subcommand)]
pub(crate) enum TxnCommand {
    /// List transactional ids with their states
    #[command(
        after_help = "Examples:\n  pelton txn list\n  pelton txn list --state Ongoing --state PrepareAbort"
    )]
    List(TxnListArgs),
    /// Show where transactional ids stand, and which partitions their transactions write to
    #[command(after_help = "Example:\n  pelton txn describe billing-0 --output json")]
    Describe(TxnDescribeArgs),
    /// Abort the open transactions of transactional ids and fence their producers
    #[command(after_help = "Example:\n  pelton txn abort billing-0")]
    Abort(TxnAbortArgs),
}

/// `pelton txn list`.
#[derive(Args, Debug)]
pub(crate) struct TxnListArgs {
    /// Only those in this state; may be repeated
    #[arg(long = "state", value_name = "STATE", value_parser = STATES)]
    pub(crate) states: Vec<String>,
    /// The form of the list
    #[arg(long, short = 'O', value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// `pelton txn describe`.
#[derive(Args, Debug)]
pub(crate) struct TxnDescribeArgs {
    /// The transactional ids
    #[arg(required = true)]
    pub(crate) ids: Vec<String>,
    /// The form of the description
    #[arg(long, short = 'O', value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// `pelton txn abort`.
#[derive(Args, Debug)]
pub(crate) struct TxnAbortArgs {
    /// The transactional ids
    #[arg(required = true)]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
