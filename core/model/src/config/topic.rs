//! A topic's configuration: checks of single values, the typed form, and the list that clients are shown.
//!
//! Invariants:
//! 1. a value comes from the topic itself, else from the broker's name for it, else from Kafka's default;
//! 2. every topic configuration is listed, whether it does something here or not: tools copy the whole list.
//!
//! Source: Apache Kafka 4.3 (`kafka-configs --describe --all` on a running broker).

use std::collections::BTreeMap;

use super::ConfigError;
use super::broker::BrokerConfig;
use super::described::{Described, Source, describe_rows, effective};
use super::key::{list, parse_bool, parse_double};
use super::layers::Layers;
use super::table::{topic_key, topic_keys};
use crate::batch::TimestampType;
use crate::batch::store::Target;
use crate::compression::Compression;

/// Checks one topic configuration.
///
/// # Errors
/// The message for the client; the error code is INVALID_CONFIG.
pub fn validate(name: &str, value: &str) -> Result<(), String> {
    check(name, value).map_err(|error| error.to_string())
}

fn check(name: &str, value: &str) -> Result<(), ConfigError> {
    topic_key(name)
        .ok_or_else(|| ConfigError::UnknownTopicName {
            name: name.to_owned(),
        })?
        .key
        .validate(value)
}

/// Checks what a client wants a topic's configuration to be, as a whole.
///
/// # Errors
/// The message for the client; the error code is INVALID_CONFIG.
pub fn validate_all<'a>(
    broker: &BrokerConfig,
    overrides: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<(), String> {
    let overrides: BTreeMap<&str, &str> = overrides.into_iter().collect();
    let is_remote = overrides
        .get("remote.storage.enable")
        .copied()
        .and_then(parse_bool);
    TopicConfig::resolve(broker.layers(), &overrides).map_err(|error| error.to_string())?;
    if is_remote == Some(true) {
        return Err(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be \
                    configured with remote log storage."
                .to_owned(),
        );
    }
    Ok(())
}

/// Which codec a topic's batches are stored with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredCompression {
    /// Whatever the producer chose.
    Producer,
    /// This one.
    Codec(Compression),
}

/// What happens to a topic's old segments; neither is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanupPolicy {
    /// Segments past their retention are deleted.
    pub delete: bool,
    /// Only the last record of each key is kept.
    pub compact: bool,
}

/// When a topic's records are synced beyond what `flush.messages` and `flush.ms` ask for; an extension of Pelton.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// At no other time.
    None,
    /// Every `sync.interval.ms` while there are unsynced records.
    Interval,
    /// Before a record is acknowledged or seen by a consumer.
    Group,
}

impl SyncPolicy {
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Self::None),
            "interval" => Some(Self::Interval),
            "group" => Some(Self::Group),
            _ => None,
        }
    }
}

/// A topic's effective configuration. Times are milliseconds; the largest number stands for "never".
#[derive(Clone, Debug, PartialEq)]
pub struct TopicConfig {
    /// `cleanup.policy`.
    pub cleanup_policy: CleanupPolicy,
    /// `compression.type`.
    pub compression_type: StoredCompression,
    /// `compression.gzip.level`; −1 is the library's default.
    pub compression_gzip_level: i32,
    /// `compression.lz4.level`.
    pub compression_lz4_level: i32,
    /// `compression.zstd.level`.
    pub compression_zstd_level: i32,
    /// `delete.retention.ms`.
    pub delete_retention_ms: i64,
    /// `file.delete.delay.ms`.
    pub file_delete_delay_ms: i64,
    /// `flush.messages`.
    pub flush_messages: i64,
    /// `flush.ms`.
    pub flush_ms: i64,
    /// `index.interval.bytes`.
    pub index_interval_bytes: u32,
    /// `max.compaction.lag.ms`.
    pub max_compaction_lag_ms: i64,
    /// `max.message.bytes`: the largest batch.
    pub max_message_bytes: u32,
    /// `message.timestamp.after.max.ms`.
    pub message_timestamp_after_max_ms: i64,
    /// `message.timestamp.before.max.ms`.
    pub message_timestamp_before_max_ms: i64,
    /// `message.timestamp.type`.
    pub message_timestamp_type: TimestampType,
    /// `min.cleanable.dirty.ratio`.
    pub min_cleanable_dirty_ratio: f64,
    /// `min.compaction.lag.ms`.
    pub min_compaction_lag_ms: i64,
    /// `min.insync.replicas`.
    pub min_insync_replicas: u32,
    /// `preallocate`.
    pub preallocate: bool,
    /// `retention.bytes`; negative is no limit.
    pub retention_bytes: i64,
    /// `retention.ms`; negative is for ever.
    pub retention_ms: i64,
    /// `segment.bytes`.
    pub segment_bytes: u32,
    /// `segment.index.bytes`.
    pub segment_index_bytes: u32,
    /// `segment.jitter.ms`.
    pub segment_jitter_ms: i64,
    /// `segment.ms`.
    pub segment_ms: i64,
    /// `sync.interval.ms`, an extension.
    pub sync_interval_ms: i64,
    /// `sync.policy`, an extension.
    pub sync_policy: SyncPolicy,
    /// `unclean.leader.election.enable`.
    pub unclean_leader_election_enable: bool,
}

impl TopicConfig {
    /// The codec and level that batches are stored with.
    #[must_use]
    pub fn stored_codec(&self) -> Target {
        let StoredCompression::Codec(codec) = self.compression_type else {
            return Target::PRODUCER;
        };
        let level = match codec {
            Compression::Gzip => Some(self.compression_gzip_level),
            Compression::Lz4 => Some(self.compression_lz4_level),
            Compression::Zstd => Some(self.compression_zstd_level),
            Compression::None | Compression::Snappy => None,
        };
        Target {
            codec: Some(codec),
            level,
        }
    }

    /// The configuration of a topic with these overrides on this broker.
    ///
    /// # Errors
    /// [`ConfigError`] for an unknown name, a bad value, or values that contradict each other.
    pub fn from_overrides<'a>(
        broker: &BrokerConfig,
        overrides: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ConfigError> {
        Self::resolve(broker.layers(), &overrides.into_iter().collect())
    }

    /// As [`Self::from_overrides`], from the broker's bare settings.
    pub(super) fn resolve(
        broker: Layers<'_>,
        overrides: &BTreeMap<&str, &str>,
    ) -> Result<Self, ConfigError> {
        for (name, value) in overrides {
            check(name, value)?;
        }
        let read = Effective { broker, overrides };
        let config = Self {
            cleanup_policy: read.cleanup_policy()?,
            compression_type: read.compression_type()?,
            compression_gzip_level: read.i32("compression.gzip.level")?,
            compression_lz4_level: read.i32("compression.lz4.level")?,
            compression_zstd_level: read.i32("compression.zstd.level")?,
            delete_retention_ms: read.i64("delete.retention.ms")?,
            file_delete_delay_ms: read.i64("file.delete.delay.ms")?,
            flush_messages: read.i64("flush.messages")?,
            flush_ms: read.i64("flush.ms")?,
            index_interval_bytes: read.u32("index.interval.bytes")?,
            max_compaction_lag_ms: read.i64("max.compaction.lag.ms")?,
            max_message_bytes: read.u32("max.message.bytes")?,
            message_timestamp_after_max_ms: read.i64("message.timestamp.after.max.ms")?,
            message_timestamp_before_max_ms: read.i64("message.timestamp.before.max.ms")?,
            message_timestamp_type: read.timestamp_type()?,
            min_cleanable_dirty_ratio: read.parsed("min.cleanable.dirty.ratio", parse_double)?,
            min_compaction_lag_ms: read.i64("min.compaction.lag.ms")?,
            min_insync_replicas: read.u32("min.insync.replicas")?,
            preallocate: read.parsed("preallocate", parse_bool)?,
            retention_bytes: read.i64("retention.bytes")?,
            retention_ms: read.i64("retention.ms")?.max(-1),
            segment_bytes: read.u32("segment.bytes")?,
            segment_index_bytes: read.u32("segment.index.bytes")?,
            segment_jitter_ms: read.i64("segment.jitter.ms")?,
            segment_ms: read.i64("segment.ms")?,
            sync_interval_ms: read.i64("sync.interval.ms")?,
            sync_policy: read.parsed("sync.policy", SyncPolicy::from_name)?,
            unclean_leader_election_enable: read
                .parsed("unclean.leader.election.enable", parse_bool)?,
        };
        config.check_lags()?;
        Ok(config)
    }

    fn check_lags(&self) -> Result<(), ConfigError> {
        let (min, max) = (self.min_compaction_lag_ms, self.max_compaction_lag_ms);
        if min <= max {
            return Ok(());
        }
        Err(ConfigError::Conflict {
            reason: format!(
                "conflict topic config setting min.compaction.lag.ms ({min}) > \
                 max.compaction.lag.ms ({max})"
            ),
        })
    }
}

/// A topic's values by name, whichever place they come from.
struct Effective<'a> {
    broker: Layers<'a>,
    overrides: &'a BTreeMap<&'a str, &'a str>,
}

impl Effective<'_> {
    fn parsed<T>(&self, name: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, ConfigError> {
        let key = topic_key(name).ok_or_else(|| ConfigError::UnknownTopicName {
            name: name.to_owned(),
        })?;
        let own = self.overrides.get(name).copied();
        let value = effective(key, self.broker, own).unwrap_or_default();
        parse(value.trim()).ok_or_else(|| ConfigError::invalid(name, &value, "has no usable value"))
    }

    fn i32(&self, name: &str) -> Result<i32, ConfigError> {
        self.parsed(name, |value| value.parse().ok())
    }

    fn u32(&self, name: &str) -> Result<u32, ConfigError> {
        self.parsed(name, |value| value.parse::<i32>().ok()?.try_into().ok())
    }

    fn i64(&self, name: &str) -> Result<i64, ConfigError> {
        self.parsed(name, |value| value.parse().ok())
    }

    fn cleanup_policy(&self) -> Result<CleanupPolicy, ConfigError> {
        self.parsed("cleanup.policy", |value| {
            Some(CleanupPolicy {
                delete: list(value).any(|word| word == "delete"),
                compact: list(value).any(|word| word == "compact"),
            })
        })
    }

    fn compression_type(&self) -> Result<StoredCompression, ConfigError> {
        self.parsed("compression.type", |value| match value {
            "producer" => Some(StoredCompression::Producer),
            codec => Compression::from_name(codec).map(StoredCompression::Codec),
        })
    }

    fn timestamp_type(&self) -> Result<TimestampType, ConfigError> {
        self.parsed("message.timestamp.type", |value| match value {
            "CreateTime" => Some(TimestampType::CreateTime),
            "LogAppendTime" => Some(TimestampType::LogAppendTime),
            _ => None,
        })
    }
}

/// Every configuration of a topic with these overrides, sorted by name.
pub fn describe<'a>(
    broker: &BrokerConfig,
    overrides: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<Described> {
    describe_rows(
        topic_keys(),
        broker.layers(),
        overrides,
        Source::DynamicTopic,
    )
}

#[cfg(test)]
mod tests;
