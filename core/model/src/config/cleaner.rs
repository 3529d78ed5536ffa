//! The settings of the cleaners, which compact logs in the background.

use super::ConfigError;
use super::key::parse_double;
use super::values::Values;

/// `log.cleaner.*`; what a topic may override is in its own configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CleanerConfig {
    /// `log.cleaner.enable`, and `log.cleaner.threads` above 0.
    pub enable: bool,
    /// `log.cleaner.backoff.ms`: the rest when no log needs cleaning.
    pub backoff_ms: u64,
    /// `log.cleaner.dedupe.buffer.size`: bytes of all key maps together.
    pub dedupe_buffer_size: usize,
    /// `log.cleaner.io.buffer.load.factor`: how full a key map may become.
    pub load_factor: f64,
    /// `log.cleaner.io.max.bytes.per.second`: bytes read and written by all cleaners together.
    pub io_max_bytes_per_second: f64,
}

impl CleanerConfig {
    pub(super) fn resolve(values: Values<'_>) -> Result<Self, ConfigError> {
        let at_least_zero = |name| Ok(u64::try_from(values.i64(name)?).unwrap_or(0));
        let buffer = at_least_zero("log.cleaner.dedupe.buffer.size")?;
        Ok(Self {
            enable: values.bool("log.cleaner.enable")? && values.i32("log.cleaner.threads")? > 0,
            backoff_ms: at_least_zero("log.cleaner.backoff.ms")?,
            dedupe_buffer_size: usize::try_from(buffer).unwrap_or(usize::MAX),
            load_factor: values.read("log.cleaner.io.buffer.load.factor", parse_double)?,
            io_max_bytes_per_second: values
                .read("log.cleaner.io.max.bytes.per.second", parse_double)?,
        })
    }
}
