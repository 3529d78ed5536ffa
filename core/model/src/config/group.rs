//! The settings of the group coordinators, and what a group's own configuration makes of them.

use std::ops::RangeInclusive;

use super::ConfigError;
use super::resource::{BOUNDS, Bound, SESSIONS};
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
    /// `group.consumer.min.session.timeout.ms` and `max`: what a group may set.
    pub session_timeout_bounds_ms: RangeInclusive<i32>,
    /// `group.consumer.min.heartbeat.interval.ms` and `max`.
    pub heartbeat_interval_bounds_ms: RangeInclusive<i32>,
    /// `group.consumer.min.assignment.interval.ms` and `max`.
    pub assignment_interval_bounds_ms: RangeInclusive<i32>,
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

/// What holds for one consumer group, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerGroupTimes {
    /// How long a silent member stays.
    pub session_timeout_ms: i32,
    /// How often members must call.
    pub heartbeat_interval_ms: i32,
    /// The least time between two assignments.
    pub assignment_interval_ms: i32,
}

/// Checks that the broker's own values lie within what it allows a group, as Kafka does at its start.
fn check_bounds(values: Values<'_>) -> Result<(), ConfigError> {
    let at_most = |less: &str, more: &str, rule: String| {
        if values.i32(less)? <= values.i32(more)? {
            Ok(())
        } else {
            Err(ConfigError::Conflict { reason: rule })
        }
    };
    for Bound { name, min, max } in BOUNDS {
        let own = format!("group.{name}");
        let at_least = "must be greater than or equal to";
        if let (Some(min), Some(max)) = (min, max) {
            at_most(min, max, format!("{max} {at_least} {min}"))?;
        }
        if let Some(min) = min {
            at_most(min, &own, format!("{own} {at_least} {min}"))?;
        }
        if let Some(max) = max {
            let rule = format!("{own} must be less than or equal to {max}");
            at_most(&own, max, rule)?;
        }
    }
    for (session, heartbeat) in SESSIONS {
        let (session, heartbeat) = (format!("group.{session}"), format!("group.{heartbeat}"));
        if values.i32(&session)? <= values.i32(&heartbeat)? {
            let reason = format!("{heartbeat} must be less than {session}");
            return Err(ConfigError::Conflict { reason });
        }
    }
    Ok(())
}

impl ConsumerGroupConfig {
    /// What holds for a group whose own configuration is `own`: its values where it has some, within the broker's bounds.
    pub fn of_group<'a>(&self, own: impl Fn(&str) -> Option<&'a str>) -> ConsumerGroupTimes {
        let value = |name: &str, bounds: &RangeInclusive<i32>, broker: i32| {
            let set = own(name).and_then(|value| value.trim().parse::<i32>().ok());
            set.map_or(broker, |set| set.max(*bounds.start()).min(*bounds.end()))
        };
        ConsumerGroupTimes {
            session_timeout_ms: value(
                "consumer.session.timeout.ms",
                &self.session_timeout_bounds_ms,
                self.session_timeout_ms,
            ),
            heartbeat_interval_ms: value(
                "consumer.heartbeat.interval.ms",
                &self.heartbeat_interval_bounds_ms,
                self.heartbeat_interval_ms,
            ),
            assignment_interval_ms: value(
                "consumer.assignment.interval.ms",
                &self.assignment_interval_bounds_ms,
                self.assignment_interval_ms,
            ),
        }
    }

    fn resolve(values: Values<'_>) -> Result<Self, ConfigError> {
        let policy = values.get("group.consumer.migration.policy");
        let policy = policy.unwrap_or_default().to_ascii_lowercase();
        let assignors = values.list("group.consumer.assignors");
        check_bounds(values)?;
        let bounds = |time: &str| -> Result<RangeInclusive<i32>, ConfigError> {
            let min = values.i32(&format!("group.consumer.min.{time}"))?;
            Ok(min..=values.i32(&format!("group.consumer.max.{time}"))?)
        };
        Ok(Self {
            session_timeout_bounds_ms: bounds("session.timeout.ms")?,
            heartbeat_interval_bounds_ms: bounds("heartbeat.interval.ms")?,
            assignment_interval_bounds_ms: bounds("assignment.interval.ms")?,
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

#[cfg(test)]
mod tests {
    use super::super::broker::{BrokerConfig, single_node_settings};
    use super::*;

    fn resolve(settings: &[(&str, &str)]) -> Result<GroupConfig, String> {
        let mut set = single_node_settings();
        let more = settings.iter();
        set.extend(more.map(|&(name, value)| (name.to_owned(), value.to_owned())));
        let config = BrokerConfig::resolve(set, "host");
        config
            .map(|config| config.group)
            .map_err(|error| error.to_string())
    }

    // Goal: a broker's own values lie within what it allows groups, or it does not start. Method: a row for each rule.
    #[test]
    fn own_bounds() {
        fn check(settings: &[(&str, &str)], expected: &str) {
            assert_eq!(resolve(settings), Err(expected.to_owned()));
        }
        check(
            &[("group.consumer.session.timeout.ms", "44999")],
            "group.consumer.session.timeout.ms must be greater than or equal to \
             group.consumer.min.session.timeout.ms",
        );
        check(
            &[("group.consumer.heartbeat.interval.ms", "15001")],
            "group.consumer.heartbeat.interval.ms must be less than or equal to \
             group.consumer.max.heartbeat.interval.ms",
        );
        check(
            &[("group.share.max.assignment.interval.ms", "999")],
            "group.share.assignment.interval.ms must be less than or equal to \
             group.share.max.assignment.interval.ms",
        );
        check(
            &[("group.streams.min.session.timeout.ms", "60001")],
            "group.streams.max.session.timeout.ms must be greater than or equal to \
             group.streams.min.session.timeout.ms",
        );
        check(
            &[("group.share.partition.max.record.locks", "5000")],
            "group.share.partition.max.record.locks must be less than or equal to \
             group.share.max.partition.max.record.locks",
        );
        check(
            &[("group.streams.num.standby.replicas", "3")],
            "group.streams.num.standby.replicas must be less than or equal to \
             group.streams.max.standby.replicas",
        );
        check(
            &[
                ("group.consumer.min.session.timeout.ms", "5000"),
                ("group.consumer.session.timeout.ms", "5000"),
            ],
            "group.consumer.heartbeat.interval.ms must be less than \
             group.consumer.session.timeout.ms",
        );
    }

    // Goal: a group's own value counts, within the bounds as they are now. Method: values below, within and above.
    #[test]
    fn of_group() {
        let config = resolve(&[]).unwrap().consumer;
        let times = |session: Option<&'static str>| {
            config.of_group(|name| session.filter(|_| name == "consumer.session.timeout.ms"))
        };
        let usual = times(None);
        assert_eq!(
            (
                usual.session_timeout_ms,
                usual.heartbeat_interval_ms,
                usual.assignment_interval_ms
            ),
            (45_000, 5_000, 1_000)
        );
        for (set, expected) in [
            ("1", 45_000),
            (" 50000 ", 50_000),
            ("70000", 60_000),
            ("x", 45_000),
        ] {
            let expected = ConsumerGroupTimes {
                session_timeout_ms: expected,
                ..usual
            };
            assert_eq!(times(Some(set)), expected, "{set}");
        }
    }
}
