//! A broker's configuration: the typed form of the settings that are served.
//!
//! Invariants:
//! 1. a `BrokerConfig` only exists when every setting with a known name passed its check;
//! 2. the settings as given are kept by the place that sets them, for DescribeConfigs and for the defaults of topics.
//!
//! What this version cannot do although Kafka can is refused in plain words, never half done.
//! Source: Apache Kafka 4.3; the defaults without a file are its shipped single-node `server.properties`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::ConfigError;
use super::cleaner::CleanerConfig;
use super::connections::{self, ConnectionLimits, RequestLimits};
use super::directories;
use super::dynamic::Dynamic;
use super::group::GroupConfig;
use super::layers::Layers;
use super::listener::{self, Listener};
use super::metadata_log::MetadataLogConfig;
use super::metrics::MetricsConfig;
use super::topic::TopicConfig;
use super::transaction::TransactionConfig;
use super::values::Values;
use crate::id::NodeId;

/// Settings without `--config`: a single node for this machine only.
const SINGLE_NODE: &[(&str, &str)] = &[
    ("listeners", "PLAINTEXT://127.0.0.1:9092"),
    ("log.dirs", "./pelton-data"),
    ("offsets.topic.replication.factor", "1"),
    ("transaction.state.log.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
    ("share.coordinator.state.topic.replication.factor", "1"),
    ("share.coordinator.state.topic.min.isr", "1"),
];

/// The settings of a start without `--config`, to be overlaid with those of the command line.
#[must_use]
pub fn single_node_settings() -> BTreeMap<String, String> {
    SINGLE_NODE
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// How one of Kafka's internal topics is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InternalTopic {
    /// Its partitions.
    pub partitions: i32,
    /// Its replication factor.
    pub replication_factor: i16,
    /// Its `min.insync.replicas`, where Kafka has a setting for it.
    pub min_insync_replicas: Option<i32>,
    /// Its `segment.bytes`.
    pub segment_bytes: u32,
}

/// The typed settings of one broker. Fields carry Kafka's names.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerConfig {
    /// `node.id`, else `broker.id`, else 1.
    pub node_id: NodeId,
    /// `cluster.id`, our own: the id of a new cluster.
    pub cluster_id: Option<String>,
    /// `broker.rack`.
    pub broker_rack: Option<String>,
    /// `listeners` for clients.
    pub listeners: Vec<Listener>,
    /// `advertised.listeners`: one for each listener, in the same order; port 0 means the port that was bound.
    pub advertised_listeners: Vec<Listener>,
    /// The directories of `log.dirs`, in its order.
    pub log_dirs: Vec<PathBuf>,
    /// `metadata.log.dir`: one of `log_dirs`, or one of its own.
    pub metadata_log_dir: PathBuf,
    /// `cordoned.log.dirs`: those of `log_dirs` that take no new partitions.
    pub cordoned_log_dirs: Vec<PathBuf>,
    /// `num.partitions`.
    pub num_partitions: i32,
    /// `default.replication.factor`.
    pub default_replication_factor: i16,
    /// `auto.create.topics.enable`.
    pub auto_create_topics_enable: bool,
    /// `delete.topic.enable`.
    pub delete_topic_enable: bool,
    /// `socket.request.max.bytes`.
    pub socket_request_max_bytes: u32,
    /// `socket.send.buffer.bytes`; `None` leaves it to the system.
    pub socket_send_buffer_bytes: Option<u32>,
    /// `socket.receive.buffer.bytes`; `None` leaves it to the system.
    pub socket_receive_buffer_bytes: Option<u32>,
    /// `socket.listen.backlog.size`.
    pub socket_listen_backlog_size: u32,
    /// `connections.max.idle.ms`; negative is for ever.
    pub connections_max_idle_ms: i64,
    /// `max.connections` and its like.
    pub connection_limits: ConnectionLimits,
    /// `queued.max.*`.
    pub request_limits: RequestLimits,
    /// `core.direct.listeners`, our own: for each of `listeners`, whether it shows every core as a node.
    pub core_direct: Vec<bool>,
    /// `connections.follow.window.ms`, our own; 0: never.
    pub connections_follow_window_ms: i64,
    /// `fetch.max.bytes`.
    pub fetch_max_bytes: u32,
    /// `max.incremental.fetch.session.cache.slots`.
    pub fetch_session_slots: u32,
    /// `max.request.partition.size.limit`.
    pub max_request_partition_size_limit: i32,
    /// `request.timeout.ms`.
    pub request_timeout_ms: i32,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i32,
    /// `log.retention.check.interval.ms`.
    pub log_retention_check_interval_ms: i64,
    /// `log.cleaner.*`.
    pub log_cleaner: CleanerConfig,
    /// `log.flush.offset.checkpoint.interval.ms`.
    pub log_flush_offset_checkpoint_interval_ms: i32,
    /// `log.flush.scheduler.interval.ms`; the largest number where it is not set.
    pub log_flush_scheduler_interval_ms: i64,
    /// `replica.alter.log.dirs.io.max.bytes.per.second`.
    pub move_bytes_per_second: u64,
    /// `log.prepare.fill.bytes`, our own.
    pub log_prepare_fill_bytes: u32,
    /// `log.prepare.reserve.bytes`, our own.
    pub log_prepare_reserve_bytes: u32,
    /// `log.write.back.bytes`, our own.
    pub log_write_back_bytes: u32,
    /// The group coordinators.
    pub group: GroupConfig,
    /// The transaction coordinators.
    pub transaction: TransactionConfig,
    /// `__consumer_offsets`.
    pub offsets_topic: InternalTopic,
    /// `__transaction_state`.
    pub transaction_state_log: InternalTopic,
    /// `__share_group_state`.
    pub share_state_topic: InternalTopic,
    /// The metadata log.
    pub metadata_log: MetadataLogConfig,
    /// What is measured.
    pub metrics: MetricsConfig,
    /// What a topic without overrides has.
    pub topic_defaults: TopicConfig,
    /// What the operator should know once about settings that were bent.
    pub notes: Vec<String>,
    set: BTreeMap<String, String>,
    /// What is set while brokers run; the fields above count it in.
    pub(super) dynamic: Dynamic,
    hostname: String,
}

impl BrokerConfig {
    /// Builds the typed form of these settings; names nobody knows are skipped (see [`super::names::review`]).
    ///
    /// `hostname` is this machine's name, told to clients when a listener names no host.
    ///
    /// # Errors
    /// [`ConfigError`]: the first bad value, or something this version does not serve.
    pub fn resolve(set: BTreeMap<String, String>, hostname: &str) -> Result<Self, ConfigError> {
        let values = Values::checked(&set)?;
        check_roles(values)?;
        let mut notes = Vec::new();
        let listeners = listener::resolve(values, hostname)?;
        let directories = directories::resolve(values)?;
        let node_id = node_id(values)?;
        let names: Vec<&str> = listeners.bound.iter().map(|it| it.name.as_str()).collect();
        let core_direct = connections::core_direct(values, node_id, &names)?;
        let config = Self {
            node_id,
            cluster_id: values.set("cluster.id").map(str::to_owned),
            broker_rack: values.set("broker.rack").map(str::to_owned),
            listeners: listeners.bound,
            advertised_listeners: listeners.advertised,
            log_dirs: directories.log_dirs,
            metadata_log_dir: directories.metadata_log_dir,
            cordoned_log_dirs: directories.cordoned_log_dirs,
            num_partitions: values.i32("num.partitions")?,
            default_replication_factor: default_replication_factor(values)?,
            auto_create_topics_enable: values.bool("auto.create.topics.enable")?,
            delete_topic_enable: values.bool("delete.topic.enable")?,
            socket_request_max_bytes: values.u32("socket.request.max.bytes")?,
            socket_send_buffer_bytes: buffer_bytes(values, "socket.send.buffer.bytes")?,
            socket_receive_buffer_bytes: buffer_bytes(values, "socket.receive.buffer.bytes")?,
            socket_listen_backlog_size: values.u32("socket.listen.backlog.size")?,
            connections_max_idle_ms: values.i64("connections.max.idle.ms")?,
            connection_limits: ConnectionLimits::resolve(values)?,
            request_limits: RequestLimits::resolve(values)?,
            core_direct,
            connections_follow_window_ms: values.i64("connections.follow.window.ms")?,
            fetch_max_bytes: values.u32("fetch.max.bytes")?,
            fetch_session_slots: values.u32("max.incremental.fetch.session.cache.slots")?,
            max_request_partition_size_limit: values.i32("max.request.partition.size.limit")?,
            request_timeout_ms: values.i32("request.timeout.ms")?,
            producer_id_expiration_ms: values.i32("producer.id.expiration.ms")?,
            log_retention_check_interval_ms: values.i64("log.retention.check.interval.ms")?,
            log_cleaner: CleanerConfig::resolve(values)?,
            log_flush_offset_checkpoint_interval_ms: values
                .i32("log.flush.offset.checkpoint.interval.ms")?,
            log_flush_scheduler_interval_ms: values.i64("log.flush.scheduler.interval.ms")?,
            move_bytes_per_second: values
                .i64("replica.alter.log.dirs.io.max.bytes.per.second")?
                .unsigned_abs(),
            log_prepare_fill_bytes: values.u32("log.prepare.fill.bytes")?,
            log_prepare_reserve_bytes: values.u32("log.prepare.reserve.bytes")?,
            log_write_back_bytes: values.u32("log.write.back.bytes")?,
            group: GroupConfig::resolve(values)?,
            transaction: TransactionConfig::resolve(values)?,
            offsets_topic: internal_topic(values, "offsets.topic", false, &mut notes)?,
            transaction_state_log: internal_topic(
                values,
                "transaction.state.log",
                true,
                &mut notes,
            )?,
            share_state_topic: internal_topic(
                values,
                "share.coordinator.state.topic",
                true,
                &mut notes,
            )?,
            metadata_log: MetadataLogConfig::resolve(values, listeners.controllers)?,
            metrics: MetricsConfig::resolve(values)?,
            topic_defaults: TopicConfig::resolve(Layers::fixed(&set), &BTreeMap::new())?,
            notes,
            set,
            dynamic: Dynamic::default(),
            hostname: hostname.to_owned(),
        };
        Ok(config)
    }

    /// The settings of the file and the command line as given, by name.
    #[must_use]
    pub fn set_values(&self) -> &BTreeMap<String, String> {
        &self.set
    }

    pub(super) fn hostname(&self) -> &str {
        &self.hostname
    }

    /// The same typed values, told as set in these places.
    pub(super) fn with_layers(self, set: BTreeMap<String, String>, dynamic: Dynamic) -> Self {
        Self {
            set,
            dynamic,
            ..self
        }
    }

    pub(super) fn layers(&self) -> Layers<'_> {
        Layers {
            node: &self.dynamic.node,
            cluster: &self.dynamic.cluster,
            fixed: &self.set,
        }
    }
}

/// Without roles the embedded controller is implied; a process that is no broker, or leans on other controllers, is not
/// served.
fn check_roles(values: Values<'_>) -> Result<(), ConfigError> {
    const ROLES: &str = "process.roles";
    let Some(shown) = values.set(ROLES) else {
        return Ok(());
    };
    let has = |role| values.list(ROLES).any(|given| given == role);
    if !has("broker") {
        return Err(ConfigError::Unsupported {
            name: ROLES,
            value: shown.to_owned(),
            remedy: "Pelton is a broker with its own controller; set it to broker,controller",
        });
    }
    if !has("controller") {
        return Err(ConfigError::Unsupported {
            name: ROLES,
            value: shown.to_owned(),
            remedy: "it cannot join other controllers; set it to broker,controller",
        });
    }
    if values.list("controller.quorum.voters").count() > 1 {
        return Err(ConfigError::Unsupported {
            name: "controller.quorum.voters",
            value: values
                .get("controller.quorum.voters")
                .unwrap_or_default()
                .to_owned(),
            remedy: "the embedded controller is alone; name one voter or none",
        });
    }
    Ok(())
}

fn node_id(values: Values<'_>) -> Result<NodeId, ConfigError> {
    let given = |name| match values.set(name) {
        Some(_) => values.i32(name).map(Some),
        None => Ok(None),
    };
    let (node, broker) = (given("node.id")?, given("broker.id")?.filter(|&id| id >= 0));
    if let (Some(node), Some(broker)) = (node, broker)
        && node != broker
    {
        return Err(ConfigError::Conflict {
            reason: format!("node.id={node} and broker.id={broker} differ; remove broker.id"),
        });
    }
    Ok(NodeId(node.or(broker).unwrap_or(1)))
}

fn default_replication_factor(values: Values<'_>) -> Result<i16, ConfigError> {
    const NAME: &str = "default.replication.factor";
    let factor = values.i32(NAME)?;
    i16::try_from(factor)
        .ok()
        .filter(|&factor| factor == -1 || factor >= 1)
        .ok_or_else(|| {
            ConfigError::invalid(NAME, &factor.to_string(), "must be between 1 and 32767")
        })
}

/// A socket buffer: negative leaves it to the system.
fn buffer_bytes(values: Values<'_>, name: &str) -> Result<Option<u32>, ConfigError> {
    Ok(u32::try_from(values.i32(name)?).ok())
}

/// The settings of one internal topic; a lone node caps replication at 1 and says so.
fn internal_topic(
    values: Values<'_>,
    prefix: &str,
    has_min_isr: bool,
    notes: &mut Vec<String>,
) -> Result<InternalTopic, ConfigError> {
    let mut capped = |name: String, value: i32| {
        if value > 1 {
            notes.push(format!(
                "{name}={value} counts as 1: this node is alone in its cluster"
            ));
        }
        value.min(1)
    };
    let factor_name = format!("{prefix}.replication.factor");
    let factor = capped(factor_name.clone(), i32::from(values.i16(&factor_name)?));
    let min_isr_name = format!("{prefix}.min.isr");
    let min_insync_replicas = if has_min_isr {
        let given = values.i32(&min_isr_name)?;
        Some(capped(min_isr_name, given))
    } else {
        None
    };
    Ok(InternalTopic {
        partitions: values.i32(&format!("{prefix}.num.partitions"))?,
        replication_factor: i16::try_from(factor).unwrap_or(1),
        min_insync_replicas,
        segment_bytes: values.u32(&format!("{prefix}.segment.bytes"))?,
    })
}

#[cfg(test)]
mod tests;
