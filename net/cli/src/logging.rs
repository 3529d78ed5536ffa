//! The log: key=value lines on stderr, at the level of `--log` or `PELTON_LOG`, turned up and down in parts while a broker runs.

use std::fmt;
use std::io::IsTerminal;
use std::sync::Arc;

use clap::ValueEnum;
use pelton_broker::loggers::Loggers;
use pelton_model::config::logger::{self, OwnLevels, ROOT};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    /// Nothing.
    Off,
    /// What failed.
    Error,
    /// What may become a problem.
    Warn,
    /// What changed: starts, elections, rolls.
    Info,
    /// What was decided.
    Debug,
    /// Everything.
    Trace,
}

/// Sends events of this level and above to stderr from now on.
pub(crate) fn start(level: LogLevel) -> Arc<dyn Loggers> {
    let filter = match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let (targets, handle) = reload::Layer::new(Targets::new().with_default(filter));
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_ansi(crate::output::wants_colour(std::io::stderr().is_terminal()))
        .with_writer(std::io::stderr)
        // A line that cannot be written (a full disk behind stderr) is lost. Saying so on stderr would fail again, and panic.
        .log_internal_errors(false)
        .finish()
        .with(targets)
        .init();
    Arc::new(Live { handle })
}

/// The filter in front of stderr.
struct Live<S> {
    handle: reload::Handle<Targets, S>,
}

impl<S> fmt::Debug for Live<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Live").field(&self.own_levels()).finish()
    }
}

impl<S> Loggers for Live<S> {
    fn own_levels(&self) -> OwnLevels {
        self.handle.with_current(levels_of).unwrap_or_default()
    }

    fn set_level(&self, logger: &str, level: Option<logger::LogLevel>) {
        let changed = self.handle.modify(|targets| {
            let mut levels = levels_of(targets);
            match level {
                Some(level) => levels.insert(logger.to_owned(), level),
                None => levels.remove(logger),
            };
            *targets = targets_of(&levels);
        });
        if let Err(error) = changed {
            tracing::warn!(%error, "cannot change what is logged");
        }
    }
}

fn levels_of(targets: &Targets) -> OwnLevels {
    let level = |filter: LevelFilter| {
        let levels = logger::LogLevel::ALL.into_iter();
        let mut levels = levels.filter(|level| filter_of(*level) == filter);
        levels.next().unwrap_or(logger::LogLevel::Info)
    };
    let root = targets.default_level().unwrap_or(LevelFilter::OFF);
    let mut levels: OwnLevels = targets
        .iter()
        .map(|(name, filter)| (name.to_owned(), level(filter)))
        .collect();
    levels.insert(ROOT.to_owned(), level(root));
    levels
}

fn targets_of(levels: &OwnLevels) -> Targets {
    let root = levels.get(ROOT).copied().unwrap_or(logger::LogLevel::Info);
    let others = levels.iter().filter(|(name, _)| *name != ROOT);
    let others = others.map(|(name, level)| (name.clone(), filter_of(*level)));
    Targets::new()
        .with_default(filter_of(root))
        .with_targets(others)
}

/// Nothing that is logged is fatal: what is ends the program with its error.
fn filter_of(level: logger::LogLevel) -> LevelFilter {
    match level {
        logger::LogLevel::Fatal => LevelFilter::OFF,
        logger::LogLevel::Error => LevelFilter::ERROR,
        logger::LogLevel::Warn => LevelFilter::WARN,
        logger::LogLevel::Info => LevelFilter::INFO,
        logger::LogLevel::Debug => LevelFilter::DEBUG,
        logger::LogLevel::Trace => LevelFilter::TRACE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: levels come back from the filter as they went in. Method: every level, for the root and a part.
    #[test]
    fn there_and_back() {
        for level in logger::LogLevel::ALL {
            let levels: OwnLevels = [
                (ROOT.to_owned(), level),
                ("pelton_broker".to_owned(), logger::LogLevel::Trace),
            ]
            .into();
            assert_eq!(levels_of(&targets_of(&levels)), levels);
        }
    }
}
