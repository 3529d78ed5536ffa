//! The log: key=value lines on stderr, at the level of `--log` or `PELTON_LOG`.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::filter::LevelFilter;

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
pub(crate) fn start(level: LogLevel) {
    let filter = match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt()
        .with_max_level(filter)
        .with_ansi(crate::output::wants_colour(std::io::stderr().is_terminal()))
        .with_writer(std::io::stderr)
        // A line that cannot be written (a full disk behind stderr) is lost. Saying so on stderr would fail again, and panic.
        .log_internal_errors(false)
        .init();
}
