//! The settings of the group coordinators.

use super::ConfigError;
use super::values::Values;
use crate::compression::Compression;

/// `group.*`, `offset.*` and `offsets.*`, save how the topic of the offsets is created. Fields carry Kafka's names; times are milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// `group.min.session.timeout.ms`.
    pub min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`.
    pub max_session_timeout_ms: i32,
    /// `group.initial.rebalance.delay.ms`.
    pub initial_rebalance_delay_ms: i32,
    /// `group.max.size`.
    pub max_size: usize,
    /// Whether `group.coordinator.rebalance.protocols` has `consumer`.
    pub consumer_protocol: bool,
    /// `offset.metadata.max.bytes`.
    pub offset_metadata_max_bytes: usize,
    /// `offsets.retention.minutes`, in milliseconds.
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`.
    pub offsets_retention_check_interval_ms: u64,
    /// `offsets.commit.timeout.ms`.
    pub offsets_commit_timeout_ms: u64,
    /// `offsets.load.buffer.size`.
    pub offsets_load_buffer_bytes: usize,
    /// `offsets.topic.compression.codec`.
    pub offsets_topic_compression: Compression,
    /// `group.consumer.*`.
    pub consumer: ConsumerGroupConfig,
}

/// `group.consumer.*`: what concerns groups of the consumer protocol (KIP-848).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerGroupConfig {
    /// `group.consumer.session.timeout.ms`.
    pub session_timeout_ms: i32,
    /// `group.consumer.heartbeat.interval.ms`.
    pub heartbeat_interval_ms: i32,
    /// `group.consumer.assignment.interval.ms`.
    pub assignment_interval_ms: i32,
    /// `group.consumer.max.size`.
    pub max_size: usize,
    /// `group.consumer.assignors`, in order; the first is the default.
    pub assignors: Vec<String>,
    /// Whether `group.consumer.migration.policy` lets a classic group become a consumer group.
    pub upgrade: bool,
    /// Whether `group.consumer.migration.policy` lets a consumer group become a classic group.
    pub downgrade: bool,
    /// `group.consumer.regex.refresh.interval.ms`.
    pub regex_refresh_interval_ms: i32,
}

impl GroupConfig {
    pub(super) fn resolve(values: Values<'_>) -> Result<Self, ConfigError> {
        const CODEC: &str = "offsets.topic.compression.codec";
        let at_least_zero = |name| Ok(u64::try_from(values.i64(name)?).unwrap_or(0));
        let codec = values.i32(CODEC)?;
        let compression = u8::try_from(codec).ok().and_then(Compression::from_id);
        let compression = compression.ok_or_else(|| {
            ConfigError::invalid(CODEC, &codec.to_string(), "must be between 0 and 4")
        })?;
        let minutes = i64::from(values.i32("offsets.retention.minutes")?);
        let mut protocols = values.list("group.coordinator.rebalance.protocols");
        Ok(Self {
            min_session_timeout_ms: values.i32("group.min.session.timeout.ms")?,
            max_session_timeout_ms: values.i32("group.max.session.timeout.ms")?,
            initial_rebalance_delay_ms: values.i32("group.initial.rebalance.delay.ms")?,
            max_size: count(values, "group.max.size")?,
            consumer_protocol: protocols.any(|protocol| protocol.eq_ignore_ascii_case("consumer")),
            offset_metadata_max_bytes: count(values, "offset.metadata.max.bytes")?,
            offsets_retention_ms: minutes.saturating_mul(60_000),
            offsets_retention_check_interval_ms: at_least_zero(
                "offsets.retention.check.interval.ms",
            )?,
            offsets_commit_timeout_ms: at_least_zero("offsets.commit.timeout.ms")?,
            offsets_load_buffer_bytes: count(values, "offsets.load.buffer.size")?,
            offsets_topic_compression: compression,
            consumer: ConsumerGroupConfig::resolve(values)?,
        })
    }
}

impl ConsumerGroupConfig {
    fn resolve(values: Values<'_>) -> Result<Self, ConfigError> {
        let policy = values.get("group.consumer.migration.policy");
        let policy = policy.unwrap_or_default().to_ascii_lowercase();
        let assignors = values.list("group.consumer.assignors");
        Ok(Self {
            session_timeout_ms: values.i32("group.consumer.session.timeout.ms")?,
            heartbeat_interval_ms: values.i32("group.consumer.heartbeat.interval.ms")?,
            assignment_interval_ms: values.i32("group.consumer.assignment.interval.ms")?,
            max_size: count(values, "group.consumer.max.size")?,
            assignors: assignors.map(str::to_owned).collect(),
            upgrade: matches!(policy.as_str(), "upgrade" | "bidirectional"),
            downgrade: matches!(policy.as_str(), "downgrade" | "bidirectional"),
            regex_refresh_interval_ms: values.i32("group.consumer.regex.refresh.interval.ms")?,
        })
    }
}

/// An INT that counts something; below zero is none.
fn count(values: Values<'_>, name: &str) -> Result<usize, ConfigError> {
    Ok(usize::try_from(values.i32(name)?).unwrap_or(0))
}
