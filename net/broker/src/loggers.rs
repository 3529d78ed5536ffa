//! The log of the process, turned up and down while it runs.
//!
//! The broker only writes events; whoever set up where they go says how loud each part is. Levels are the process', not a shard's,
//! and no metadata: they hold until it ends.

use std::fmt;

use pelton_model::config::logger::{LogLevel, OwnLevels};

/// How loud the parts of the program are; any shard may ask and set.
pub trait Loggers: fmt::Debug + Send + Sync {
    /// The levels that loggers have of their own, the root's among them.
    fn own_levels(&self) -> OwnLevels;

    /// Gives a logger a level of its own, or takes it away.
    fn set_level(&self, logger: &str, level: Option<LogLevel>);
}

/// Where nobody listens: there are no loggers.
#[derive(Clone, Copy, Debug)]
pub struct NoLoggers;

impl Loggers for NoLoggers {
    fn own_levels(&self) -> OwnLevels {
        OwnLevels::new()
    }

    fn set_level(&self, _logger: &str, _level: Option<LogLevel>) {}
}
