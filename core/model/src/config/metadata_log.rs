//! The settings of the metadata log: its snapshots, its retention, and where its controller would listen. Its directory stands
//! with the others.
//!
//! Source: Apache Kafka 4.3 (KIP-630, KIP-853).

use super::ConfigError;
use super::listener::Listener;
use super::values::Values;

/// Test-only: goes below the 8 MiB that `metadata.log.segment.bytes` asks for at least.
const SEGMENT_BYTES_INTERNAL: &str = "internal.metadata.log.segment.bytes";

/// How the metadata log is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataLogConfig {
    /// `metadata.log.max.record.bytes.between.snapshots`.
    pub snapshot_bytes: u64,
    /// `metadata.log.max.snapshot.interval.ms`; 0 is never.
    pub snapshot_interval_ms: u64,
    /// `internal.metadata.log.segment.bytes`, else `metadata.log.segment.bytes`.
    pub segment_bytes: u32,
    /// `metadata.log.segment.ms`.
    pub segment_ms: i64,
    /// `metadata.max.retention.bytes`, of log and snapshots; negative is for ever.
    pub retention_bytes: i64,
    /// `metadata.max.retention.ms`; negative is for ever.
    pub retention_ms: i64,
    /// Whether `controller.quorum.voters` is set: a new log then belongs to a static quorum, `kraft.version` 0.
    pub is_static_quorum: bool,
    /// The listeners that `controller.listener.names` names, as a Kafka on the same settings would advertise them. Nothing listens
    /// there; they stand in the voter set for whoever takes the log over.
    pub controller_listeners: Vec<Listener>,
}

impl MetadataLogConfig {
    pub(super) fn resolve(
        values: Values<'_>,
        controller_listeners: Vec<Listener>,
    ) -> Result<Self, ConfigError> {
        let unsigned = |name: &'static str| -> Result<u64, ConfigError> {
            let value = values.i64(name)?;
            u64::try_from(value)
                .map_err(|_| ConfigError::invalid(name, &value.to_string(), "must be at least 0"))
        };
        let segment_bytes = if values.set(SEGMENT_BYTES_INTERNAL).is_some() {
            values.u32(SEGMENT_BYTES_INTERNAL)?
        } else {
            values.u32("metadata.log.segment.bytes")?
        };
        Ok(Self {
            snapshot_bytes: unsigned("metadata.log.max.record.bytes.between.snapshots")?,
            snapshot_interval_ms: unsigned("metadata.log.max.snapshot.interval.ms")?,
            segment_bytes,
            segment_ms: values.i64("metadata.log.segment.ms")?,
            retention_bytes: values.i64("metadata.max.retention.bytes")?,
            retention_ms: values.i64("metadata.max.retention.ms")?,
            is_static_quorum: values.list("controller.quorum.voters").next().is_some(),
            controller_listeners,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::broker::BrokerConfig;
    use super::*;

    fn resolve(settings: &[(&str, &str)]) -> Result<MetadataLogConfig, ConfigError> {
        let mut set = super::super::broker::single_node_settings();
        set.extend(
            settings
                .iter()
                .map(|&(name, value)| (name.to_owned(), value.to_owned())),
        );
        BrokerConfig::resolve(set, "host.example").map(|config| config.metadata_log)
    }

    // Goal: Kafka's defaults, and each setting in its place. Method: none set, then all.
    #[test]
    fn values() {
        let defaults = resolve(&[]).unwrap();
        assert_eq!(
            (defaults.snapshot_bytes, defaults.snapshot_interval_ms),
            (20 << 20, 3_600_000)
        );
        assert_eq!(
            (defaults.segment_bytes, defaults.segment_ms),
            (1 << 30, 604_800_000)
        );
        assert_eq!(
            (defaults.retention_bytes, defaults.retention_ms),
            (100 << 20, 604_800_000)
        );
        assert!(!defaults.is_static_quorum);
        assert!(defaults.controller_listeners.is_empty());
        let set = resolve(&[
            ("metadata.log.max.record.bytes.between.snapshots", "1"),
            ("metadata.log.max.snapshot.interval.ms", "0"),
            ("internal.metadata.log.segment.bytes", "2"),
            ("metadata.max.retention.bytes", "-1"),
            ("metadata.max.retention.ms", "-1"),
            ("controller.quorum.voters", "1@localhost:9093"),
            ("controller.listener.names", "CONTROLLER"),
            ("listeners", "PLAINTEXT://127.0.0.1:9092,CONTROLLER://:9093"),
        ])
        .unwrap();
        assert_eq!(
            (
                set.snapshot_bytes,
                set.snapshot_interval_ms,
                set.segment_bytes
            ),
            (1, 0, 2)
        );
        assert_eq!((set.retention_bytes, set.retention_ms), (-1, -1));
        assert!(set.is_static_quorum);
        let shown: Vec<String> = set
            .controller_listeners
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(shown, ["CONTROLLER://host.example:9093"]);
    }
}
