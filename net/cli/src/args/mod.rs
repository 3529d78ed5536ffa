//! The command line: names, help texts and examples; no work.

mod client;
mod config;
mod group;
mod metrics;
mod transaction;

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand};
use pelton_model::config::listener::parse_host_port;

use crate::logging::LogLevel;

pub(crate) use self::client::{
    AcksArg, AlterArgs, Codec, Connect, ConsumeArgs, CreateArgs, DeleteArgs, DescribeArgs,
    Isolation, ListArgs, ProduceArgs, TopicCommand,
};
pub(crate) use self::config::{
    ConfigCommand, ConfigDeleteArgs, ConfigDescribeArgs, ConfigListArgs, ConfigSetArgs, Resource,
};
pub(crate) use self::group::{
    GroupCommand, GroupDeleteArgs, GroupDescribeArgs, GroupListArgs, GroupResetArgs, Output,
};
pub(crate) use self::metrics::{Grouping, LatencyArgs, SlowArgs};
pub(crate) use self::transaction::{TxnAbortArgs, TxnCommand, TxnDescribeArgs, TxnListArgs};

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "pelton",
    version,
    about = "A Kafka-protocol broker: one thread per core, io_uring, one binary",
    long_about = "A Kafka-protocol broker: one thread per core, io_uring, one binary.\n\n\
        Without a command it starts a single-node broker on 127.0.0.1:9092 with its data in ./pelton-data.",
    after_help = "Examples:\n  \
        pelton                                         start a broker with its data in ./pelton-data\n  \
        pelton serve --listen 0.0.0.0:9092 --advertise kafka.example:9092 --data-dir /var/lib/pelton\n  \
        pelton serve --config server.properties        start with the settings of an Apache Kafka broker\n  \
        pelton topic create orders --partitions 6\n  \
        seq 10 | pelton produce orders\n  \
        pelton consume orders --from beginning --follow\n  \
        pelton consume orders --group billing          share the topic with others of the group\n  \
        pelton group describe billing                  who reads what, and how far behind\n  \
        pelton txn list --state Ongoing                transactions that are open\n  \
        pelton config set topic:orders retention.ms=86400000\n  \
        pelton --metrics 127.0.0.1:9644                also serve metrics, for Prometheus and pelton latency\n  \
        pelton doctor                                  check what this machine offers\n\n\
        Exit codes: 0 done, 1 failed, 2 wrong usage."
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// How much to log on stderr [default: info for serve, warn for other commands]
    #[arg(
        long,
        global = true,
        env = "PELTON_LOG",
        value_name = "LEVEL",
        value_enum
    )]
    log: Option<LogLevel>,
}

impl Cli {
    /// The level asked for, else the command's own.
    pub(crate) fn log_level(&self) -> LogLevel {
        self.log.unwrap_or(match self.command {
            Command::Serve(_) => LogLevel::Info,
            Command::Topic(_)
            | Command::Group(_)
            | Command::Txn(_)
            | Command::Config(_)
            | Command::Completions(_)
            | Command::Produce(_)
            | Command::Consume(_)
            | Command::Latency(_)
            | Command::Slow(_)
            | Command::Doctor(_) => LogLevel::Warn,
        })
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a broker
    Serve(ServeArgs),
    /// Create, list, describe, alter and delete topics
    #[command(subcommand)]
    Topic(TopicCommand),
    /// List, describe, reset and delete groups
    #[command(subcommand)]
    Group(GroupCommand),
    /// List, describe and abort transactions
    #[command(subcommand)]
    Txn(TxnCommand),
    /// List, describe, set and delete configurations of topics, brokers, groups and loggers
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Send records from stdin to a topic
    Produce(Box<ProduceArgs>),
    /// Print records of a topic
    Consume(Box<ConsumeArgs>),
    /// Show how long a broker's requests take
    Latency(LatencyArgs),
    /// Show a broker's last slow requests, each with its stages
    Slow(SlowArgs),
    /// Check what this machine offers and what to do about the rest
    Doctor(DoctorArgs),
    /// Print a script that completes this command line in a shell
    Completions(CompletionsArgs),
}

/// Inserts `serve` where the command is missing: `pelton` and `pelton --listen …` start a broker.
pub(crate) fn with_default_command(mut line: Vec<OsString>) -> Vec<OsString> {
    const TOP_LEVEL: [&str; 4] = ["-h", "--help", "-V", "--version"];
    let word = |index: usize| line.get(index).and_then(|word| word.to_str());
    let mut index = 1;
    while let Some(option) = word(index).filter(|word| word.starts_with("--log")) {
        index += if option.contains('=') { 1 } else { 2 };
    }
    let is_missing = match word(index) {
        None => line.len() <= index,
        Some(first) => first.starts_with('-') && !TOP_LEVEL.contains(&first),
    };
    if is_missing {
        line.insert(index.min(line.len()), OsString::from("serve"));
    }
    line
}

/// `pelton serve`.
#[derive(Args, Debug, Default)]
#[command(after_help = "Examples:\n  \
    pelton serve --listen 0.0.0.0:9092 --advertise kafka.example:9092\n  \
    pelton serve --config server.properties --data-dir /var/lib/pelton --cores 0-3\n  \
    pelton serve --set num.partitions=6 --set log.retention.hours=24\n\n\
    Settings are Apache Kafka's. Those of the file come first, then --set, then the other options.")]
pub(crate) struct ServeArgs {
    /// Read settings from this Kafka server.properties file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Listen here; port 0 lets the system choose [default: 127.0.0.1:9092]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<HostPort>,
    /// Tell clients to connect here [default: the address of --listen]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) advertise: Option<HostPort>,
    /// Keep data in this directory [default: ./pelton-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Serve metrics and health here over HTTP (/metrics, /healthz, /readyz), and time requests [default: nowhere]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) metrics: Option<HostPort>,
    /// Shards: a number of threads wherever the system puts them, or a list of cores (0,2 or 0-3) to pin one to each
    /// [default: one pinned to each core this process may use]
    #[arg(long, value_name = "N|LIST")]
    pub(crate) cores: Option<Cores>,
    /// Set one configuration; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<Setting>,
    /// Refuse to start on settings nobody knows, instead of warning
    #[arg(long)]
    pub(crate) strict: bool,
    /// Let an idle pinned shard look for work this long before it sleeps: lower latency for CPU time
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0)]
    pub(crate) spin: u32,
}

/// `pelton doctor`.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  pelton doctor --data-dir /var/lib/pelton\n\n\
    Exit code 1 when a broker would not start here."
)]
pub(crate) struct DoctorArgs {
    /// The directory whose filesystem is looked at
    #[arg(long, value_name = "DIR", default_value = "./pelton-data")]
    pub(crate) data_dir: PathBuf,
}

/// `pelton completions`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    pelton completions bash > /etc/bash_completion.d/pelton\n  \
    pelton completions zsh > ~/.zfunc/_pelton\n  \
    pelton completions fish > ~/.config/fish/completions/pelton.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    /// The host, without brackets.
    pub(crate) host: String,
    /// The port.
    pub(crate) port: u16,
}

impl FromStr for HostPort {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_host_port(text)
            .map(|(host, port)| Self {
                host: host.to_owned(),
                port,
            })
            .ok_or("must look like HOST:PORT, such as 127.0.0.1:9092 or [::1]:9092")
    }
}

/// One `--set`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The configuration name.
    pub(crate) name: String,
    /// Its value.
    pub(crate) value: String,
}

impl FromStr for Setting {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) = text
            .split_once('=')
            .filter(|(name, _)| !name.trim().is_empty())
            .ok_or("must look like KEY=VALUE, such as num.partitions=6")?;
        Ok(Self {
            name: name.trim().to_owned(),
            value: value.trim().to_owned(),
        })
    }
}

/// The shards asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cores {
    /// So many, not pinned.
    Count(usize),
    /// One pinned to each.
    List(Vec<usize>),
}

/// More shards than any machine we know has cores.
const SHARDS_MAX: usize = 1024;

impl FromStr for Cores {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "must be a number from 1 to 1024, or a list of cores such as 0,2 or 0-3";
        if !text.contains([',', '-']) {
            let count = text.parse().map_err(|_| FORM)?;
            return (1..=SHARDS_MAX)
                .contains(&count)
                .then_some(Self::Count(count))
                .ok_or(FORM);
        }
        let mut cores = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: usize = first.parse().map_err(|_| FORM)?;
            let last: usize = last.parse().map_err(|_| FORM)?;
            if first > last || last - first >= SHARDS_MAX || cores.len() > SHARDS_MAX {
                return Err(FORM);
            }
            cores.extend(first..=last);
        }
        cores.sort_unstable();
        cores.dedup();
        if cores.is_empty() {
            Err(FORM)
        } else {
            Ok(Self::List(cores))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::position::Position;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        let words = line.split_whitespace().map(OsString::from).collect();
        Cli::try_parse_from(with_default_command(words))
    }

    fn serve(line: &str) -> ServeArgs {
        let Command::Serve(args) = parse(line).expect("a valid line").command else {
            panic!("{line}");
        };
        args
    }

    // Goal: the definition is consistent. Method: clap's own check.
    #[test]
    fn definition() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    // Goal: a broker starts without a command word. Method: lines with and without it.
    #[test]
    fn default_command() {
        assert_eq!(serve("pelton").config, None);
        assert_eq!(serve("pelton --config a").config, Some(PathBuf::from("a")));
        assert_eq!(
            serve("pelton serve --config a").config,
            Some(PathBuf::from("a"))
        );
        assert!(serve("pelton --strict").strict);
        assert!(serve("pelton --log=debug --strict").strict);
        assert!(!serve("pelton --log debug").strict);
        assert!(parse("pelton --log").is_err());
        assert!(matches!(
            parse("pelton doctor").expect("valid").command,
            Command::Doctor(_)
        ));
        assert!(matches!(
            parse("pelton --log debug doctor").expect("valid").command,
            Command::Doctor(_)
        ));
        let help = parse("pelton --help").expect_err("help");
        assert_eq!(help.kind(), clap::error::ErrorKind::DisplayHelp);
    }

    // Goal: every option of serve is understood. Method: one line with all of them.
    #[test]
    fn serve_options() {
        let args = serve(
            "pelton serve --config f --listen [::1]:0 --advertise h:1 --metrics m:2 --data-dir d --cores 1,3-4 \
             --set a=b=c --set num.partitions=3 --strict --spin 50",
        );
        assert_eq!(
            args.listen,
            Some(HostPort {
                host: "::1".to_owned(),
                port: 0
            })
        );
        assert_eq!(
            args.advertise,
            Some(HostPort {
                host: "h".to_owned(),
                port: 1
            })
        );
        assert_eq!(
            args.metrics.map(|at| (at.host, at.port)),
            Some(("m".to_owned(), 2))
        );
        assert_eq!(args.data_dir, Some(PathBuf::from("d")));
        assert_eq!(args.cores, Some(Cores::List(vec![1, 3, 4])));
        assert_eq!(
            args.settings[0],
            Setting {
                name: "a".to_owned(),
                value: "b=c".to_owned()
            }
        );
        assert_eq!(args.settings.len(), 2);
        assert_eq!(args.spin, 50);
    }

    // Goal: the client commands are understood. Method: one line each.
    #[test]
    fn client_commands() {
        let line = "pelton topic create t -p 3 -r 1 --set a=b --if-not-exists -b h:1";
        let Command::Topic(TopicCommand::Create(args)) = parse(line).expect("valid").command else {
            panic!("{line}");
        };
        assert_eq!(
            (args.partitions, args.replication_factor),
            (Some(3), Some(1))
        );
        assert_eq!(args.connect.bootstrap.host, "h");
        let line = "pelton config set group:g a=b --append c=d --validate-only -b h:1";
        let Command::Config(ConfigCommand::Set(args)) = parse(line).expect("valid").command else {
            panic!("{line}");
        };
        assert_eq!(args.resource.to_string(), "group:g");
        assert_eq!((args.settings.len(), args.append.len()), (1, 1));
        let line = "pelton topic alter t -p 7 --set a=b --unset c";
        let Command::Topic(TopicCommand::Alter(args)) = parse(line).expect("valid").command else {
            panic!("{line}");
        };
        assert_eq!((args.partitions, args.unset.len()), (Some(7), 1));
        let line = "pelton produce t -k : -H a=b -H c= -p 0 -c zstd --acks 1 --log debug";
        let Command::Produce(args) = parse(line).expect("valid").command else {
            panic!("{line}");
        };
        assert_eq!(args.headers.len(), 2);
        assert_eq!(
            (args.compression, args.acks),
            (Codec::Zstd, AcksArg::Leader)
        );
        let line = "pelton consume t -p 0,2 --from -5 -n 7 -f --format {key}={value}";
        let Command::Consume(args) = parse(line).expect("valid").command else {
            panic!("{line}");
        };
        assert_eq!(args.partition, [0, 2]);
        assert_eq!(args.from, Position::BeforeEnd(5));
        assert_eq!((args.max, args.follow), (Some(7), true));
        let line = "pelton latency --metrics h:1 --once --by topic --output json";
        let Command::Latency(args) = parse(line).expect("valid").command else {
            panic!("{line}");
        };
        assert_eq!((args.by, args.output), (Grouping::Topic, Output::Json));
        assert_eq!((args.at.metrics.port, args.once), (1, true));
        let line = "pelton slow -n 3";
        let Command::Slow(args) = parse(line).expect("valid").command else {
            panic!("{line}");
        };
        assert_eq!((args.max, args.at.metrics.port), (3, 9644));
    }

    // Goal: wrong usage is refused with code 2. Method: a table.
    #[test]
    fn misuse() {
        fn check(line: &str) {
            assert_eq!(parse(line).expect_err("refused").exit_code(), 2, "{line}");
        }
        check("pelton frobnicate");
        check("pelton serve --listen nowhere");
        check("pelton serve --listen a:b");
        check("pelton serve --set novalue");
        check("pelton serve --set =x");
        check("pelton serve --cores 0");
        check("pelton serve --cores 3-1");
        check("pelton serve --cores ,");
        check("pelton serve --cores a");
        check("pelton serve --cores 0-99999999");
        check("pelton --log loud");
        check("pelton topic");
        check("pelton topic delete");
        check("pelton topic alter t");
        check("pelton config set topic:t");
        check("pelton config set t a=b");
        check("pelton config delete topic:t");
        check("pelton config describe");
        check("pelton completions");
        check("pelton topic create t -p 0");
        check("pelton produce");
        check("pelton produce t --acks 2");
        check("pelton consume t --from yesterday");
        check("pelton consume t --format {nothing}");
        check("pelton consume t --keys --format {key}");
        check("pelton consume t --group g --partition 0");
        check("pelton consume t --no-commit");
        check("pelton group reset g --to end");
        check("pelton group reset g --topic t");
        check("pelton group reset g --topic t --to end --by 3");
        check("pelton group delete");
        check("pelton latency --metrics nowhere");
        check("pelton latency --by partition");
        check("pelton slow --output xml");
    }

    // Goal: numbers are counts, lists are places. Method: both, and a list of one.
    #[test]
    fn cores() {
        assert_eq!("2".parse(), Ok(Cores::Count(2)));
        assert_eq!("2,".parse(), Ok(Cores::List(vec![2])));
        assert_eq!("0-2,1".parse(), Ok(Cores::List(vec![0, 1, 2])));
    }
}
