//! The loggers of a broker and how loud each is, as clients see and set them.
//!
//! A logger is a part of the program by its path, which its lines carry; a logger without a level of its own has that of the longest
//! path before it, at last of [`ROOT`]. Levels hold until the process ends. Source: KIP-412.

use std::collections::BTreeMap;

/// The logger that has every other below it.
pub const ROOT: &str = "root";

/// Every logger, sorted: the crates of a broker that log, and their parts. No name is the beginning of another but a path's.
pub const LOGGERS: &[&str] = &[
    "pelton_broker",
    "pelton_broker::boot",
    "pelton_broker::connection",
    "pelton_broker::controller",
    "pelton_broker::coordinator",
    "pelton_broker::handler",
    "pelton_broker::metrics",
    "pelton_broker::shard",
    "pelton_storage",
    "pelton_storage::compaction",
    "pelton_storage::dir",
    "pelton_storage::disk",
    "pelton_storage::log",
    "pelton_storage::segment",
    "pelton_transport",
    ROOT,
];

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// What ends the program: nothing that is logged.
    Fatal,
    /// What failed.
    Error,
    /// What may become a problem.
    Warn,
    /// What changed.
    Info,
    /// What was decided.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// Every level, from quiet to loud.
    pub const ALL: [Self; 6] = [
        Self::Fatal,
        Self::Error,
        Self::Warn,
        Self::Info,
        Self::Debug,
        Self::Trace,
    ];

    /// Kafka's word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fatal => "FATAL",
            Self::Error => "ERROR",
            Self::Warn => "WARN",
            Self::Info => "INFO",
            Self::Debug => "DEBUG",
            Self::Trace => "TRACE",
        }
    }

    /// Reads Kafka's word, in capitals as Kafka does.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// The levels that loggers have of their own.
pub type OwnLevels = BTreeMap<String, LogLevel>;

/// Every logger with the level that counts, sorted by name.
#[must_use]
pub fn describe(own: &OwnLevels) -> Vec<(&'static str, LogLevel)> {
    let level = |name: &'static str| (name, level_of(name, own));
    LOGGERS.iter().copied().map(level).collect()
}

fn level_of(name: &str, own: &OwnLevels) -> LogLevel {
    let mut path = name;
    loop {
        if let Some(level) = own.get(path) {
            return *level;
        }
        path = match path.rsplit_once("::") {
            Some((above, _)) => above,
            None if path == ROOT => return LogLevel::Info,
            None => ROOT,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: a level holds for what is below, unless that has its own. Method: levels at three heights.
    #[test]
    fn inheritance() {
        assert!(LOGGERS.is_sorted());
        let own: OwnLevels = [
            (ROOT.to_owned(), LogLevel::Warn),
            ("pelton_broker".to_owned(), LogLevel::Debug),
            ("pelton_broker::shard".to_owned(), LogLevel::Trace),
        ]
        .into();
        let levels: BTreeMap<_, _> = describe(&own).into_iter().collect();
        assert_eq!(levels.len(), LOGGERS.len());
        let check = |name, expected| assert_eq!(levels.get(name), Some(&expected), "{name}");
        check("root", LogLevel::Warn);
        check("pelton_storage::log", LogLevel::Warn);
        check("pelton_broker", LogLevel::Debug);
        check("pelton_broker::controller", LogLevel::Debug);
        check("pelton_broker::shard", LogLevel::Trace);
    }
}
