//! The command lines of what talks to a broker: topics, produce, consume.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::{HostPort, Output, Setting};
use crate::records::position::Position;
use crate::records::template::Template;

/// Which broker to ask.
#[derive(Args, Clone, Debug)]
pub(crate) struct Connect {
    /// Ask this broker first; it names the others
    #[arg(
        long,
        short = 'b',
        value_name = "HOST:PORT",
        env = "PELTON_BOOTSTRAP",
        default_value = "127.0.0.1:9092"
    )]
    pub(crate) bootstrap: HostPort,
    /// Give up on a request after this long
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) timeout: u16,
}

/// `pelton topic`.
#[derive(Debug, Subcommand)]
pub(crate) enum TopicCommand {
    /// Create a topic
    #[command(
        after_help = "Examples:\n  pelton topic create orders --partitions 6\n  \
        pelton topic create state --set cleanup.policy=compact --set segment.bytes=16777216"
    )]
    Create(CreateArgs),
    /// List the topics' names
    #[command(
        after_help = "Examples:\n  pelton topic list\n  pelton topic list --internal --output json"
    )]
    List(ListArgs),
    /// Show the partitions, leaders, replicas, offsets and settings of topics
    #[command(
        after_help = "Examples:\n  pelton topic describe orders\n  pelton topic describe -O json"
    )]
    Describe(DescribeArgs),
    /// Add partitions to a topic, and set or unset its configuration
    #[command(
        after_help = "Examples:\n  pelton topic alter orders --partitions 12\n  \
        pelton topic alter orders --set retention.ms=86400000 --unset segment.ms"
    )]
    Alter(AlterArgs),
    /// Delete topics with all their records
    #[command(after_help = "Example:\n  pelton topic delete orders old-orders")]
    Delete(DeleteArgs),
}

/// `pelton topic create`.
#[derive(Args, Debug)]
pub(crate) struct CreateArgs {
    /// The topic's name
    pub(crate) name: String,
    /// The number of partitions [default: the broker's num.partitions]
    #[arg(long, short = 'p', value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) partitions: Option<i32>,
    /// The number of replicas [default: the broker's default.replication.factor]
    #[arg(long, short = 'r', value_name = "N", value_parser = clap::value_parser!(i16).range(1..))]
    pub(crate) replication_factor: Option<i16>,
    /// Set one topic configuration; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<Setting>,
    /// Do nothing if the topic is there already
    #[arg(long)]
    pub(crate) if_not_exists: bool,
    /// Only check whether it could be created
    #[arg(long)]
    pub(crate) validate_only: bool,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// `pelton topic list`.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// Also list the topics that brokers keep for themselves
    #[arg(long)]
    pub(crate) internal: bool,
    /// The form of the list
    #[arg(long, short = 'O', value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// `pelton topic describe`.
#[derive(Args, Debug)]
pub(crate) struct DescribeArgs {
    /// The topics' names [default: all but internal ones]
    pub(crate) names: Vec<String>,
    /// The form of the description
    #[arg(long, short = 'O', value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// `pelton topic alter`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["partitions", "settings", "unset"]))]
pub(crate) struct AlterArgs {
    /// The topic's name
    pub(crate) name: String,
    /// Raise the number of partitions to this; keys then go to other partitions than before
    #[arg(long, short = 'p', value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) partitions: Option<i32>,
    /// Set one topic configuration; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<Setting>,
    /// Take one topic configuration away, so that the broker's counts again; may be repeated
    #[arg(long, value_name = "KEY")]
    pub(crate) unset: Vec<String>,
    /// Only check whether it could be changed
    #[arg(long)]
    pub(crate) validate_only: bool,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// `pelton topic delete`.
#[derive(Args, Debug)]
pub(crate) struct DeleteArgs {
    /// The topics' names
    #[arg(required = true)]
    pub(crate) names: Vec<String>,
    /// Do nothing about topics that are not there
    #[arg(long)]
    pub(crate) if_exists: bool,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// A codec for produced batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Codec {
    /// As they are.
    None,
    /// gzip.
    Gzip,
    /// snappy.
    Snappy,
    /// lz4.
    Lz4,
    /// zstd.
    Zstd,
}

/// Whose confirmation a producer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AcksArg {
    /// Every replica in sync.
    All,
    /// The leader.
    #[value(name = "1")]
    Leader,
    /// Nobody.
    #[value(name = "0")]
    None,
}

/// `pelton produce`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    seq 1000 | pelton produce numbers\n  \
    echo 'user-7:logged in' | pelton produce events --key-separator :\n  \
    pelton produce events --header source=shell --partition 0 --compression zstd < events.txt\n  \
    pelton produce blobs --record-separator '\\0' < blobs\n  \
    pelton produce ledger --transactional-id bank-1 < day.txt    all of the file is seen, or nothing\n\n\
    Separators may hold \\t \\n \\r \\0 \\\\ and \\xHH.")]
pub(crate) struct ProduceArgs {
    /// The topic
    pub(crate) topic: String,
    /// What stands between key and value in a record [default: records have no key]
    #[arg(long, short = 'k', value_name = "TEXT")]
    pub(crate) key_separator: Option<String>,
    /// What ends a record
    #[arg(long, value_name = "TEXT", default_value = "\\n")]
    pub(crate) record_separator: String,
    /// Send a key or value that is exactly this text as null (a null value deletes a key in a compacted topic)
    #[arg(long, value_name = "TEXT")]
    pub(crate) null: Option<String>,
    /// Give every record this header; may be repeated
    #[arg(long = "header", short = 'H', value_name = "NAME=VALUE")]
    pub(crate) headers: Vec<Setting>,
    /// Send everything to this partition [default: by the key's hash, or evenly without key]
    #[arg(long, short = 'p', value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) partition: Option<i32>,
    /// Compress batches
    #[arg(long, short = 'c', value_enum, default_value_t = Codec::None)]
    pub(crate) compression: Codec,
    /// Whose confirmation to wait for
    #[arg(long, value_enum, default_value_t = AcksArg::All)]
    pub(crate) acks: AcksArg,
    /// Allow retries to write a record twice; implied by --acks 0 and 1
    #[arg(long)]
    pub(crate) no_idempotence: bool,
    /// Send the whole input as one transaction of this transactional id: readers of what is committed see all of it, or nothing. An
    /// input that lasts longer than a minute is aborted
    #[arg(long, value_name = "ID", conflicts_with_all = ["acks", "no_idempotence"])]
    pub(crate) transactional_id: Option<String>,
    /// Wait this long for more records before a batch is sent
    #[arg(long, value_name = "MS", default_value_t = 5)]
    pub(crate) linger: u32,
    /// Print the partition and offset of every record on stdout
    #[arg(long)]
    pub(crate) print_offsets: bool,
    /// Say nothing about progress and totals
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// Which records are printed, in Kafka's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Isolation {
    /// All.
    #[value(name = "read_uncommitted")]
    ReadUncommitted,
    /// Of transactions, only those that were committed.
    #[value(name = "read_committed")]
    ReadCommitted,
}

/// `pelton consume`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    pelton consume orders                                  print all values and end\n  \
    pelton consume orders --from end --follow              print what comes from now on\n  \
    pelton consume orders --partition 0,2 --from 42 --max 10\n  \
    pelton consume orders --from @2026-01-31T12:00:00Z --keys\n  \
    pelton consume orders --group billing --follow         share the work with the group's other members\n  \
    pelton consume orders --format '{partition}:{offset} {key}={value} {headers}\\n'\n\n\
    Fields: {topic} {partition} {offset} {timestamp} {key} {value} {headers}.\n\
    Escapes: \\t \\n \\r \\0 \\\\ \\xHH.")]
pub(crate) struct ConsumeArgs {
    /// The topic
    pub(crate) topic: String,
    /// Read only these partitions [default: all]
    #[arg(
        long,
        short = 'p',
        value_name = "N,…",
        value_delimiter = ',',
        value_parser = clap::value_parser!(i32).range(0..)
    )]
    pub(crate) partition: Vec<i32>,
    /// Begin at: beginning, end, an offset, -N (N records before the end), or @TIME (milliseconds, or
    /// 2026-01-31T12:00:00Z)
    #[arg(
        long,
        short = 'o',
        value_name = "WHERE",
        default_value = "beginning",
        allow_hyphen_values = true
    )]
    pub(crate) from: Position,
    /// Read as a member of this group: partitions are shared out, and it goes on where the group stopped; --from says where
    /// it begins without committed offsets (beginning or end)
    #[arg(long, short = 'g', value_name = "GROUP", conflicts_with = "partition")]
    pub(crate) group: Option<String>,
    /// Commit the group's offsets this often, and at the end; with --max at the end only
    #[arg(long, value_name = "SECONDS", default_value_t = 5, requires = "group")]
    pub(crate) commit_every: u16,
    /// Leave the group's offsets as they are
    #[arg(long, requires = "group")]
    pub(crate) no_commit: bool,
    /// Stop after this many records
    #[arg(long, short = 'n', value_name = "N")]
    pub(crate) max: Option<u64>,
    /// Wait for new records instead of stopping at the end
    #[arg(long, short = 'f')]
    pub(crate) follow: bool,
    /// Print the key and a tab before each value
    #[arg(long, short = 'k', conflicts_with = "format")]
    pub(crate) keys: bool,
    /// Print records like this
    #[arg(long, value_name = "FORMAT", default_value = "{value}\\n")]
    pub(crate) format: Template,
    /// Print null keys and values as this text
    #[arg(long, value_name = "TEXT", default_value = "null")]
    pub(crate) null: String,
    /// Which records: read_committed leaves out those of transactions that are open or were aborted
    #[arg(long, value_name = "LEVEL", default_value = "read_uncommitted")]
    pub(crate) isolation: Isolation,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
