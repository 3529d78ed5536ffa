//! What a start of the node writes: bootstrap, registration, leadership.
//!
//! Invariants:
//! 1. The first start writes the bootstrap records, `metadata.version` among them, inside a metadata transaction, as Kafka does.
//! 2. Every start registers a new incarnation; its broker epoch is the offset of its registration record.
//! 3. Every start gives each partition that this broker can lead a present leader field: the leader epoch and the
//!    partition epoch grow by one. So what a client or a record kept from before a crash is told apart from now.
//!    (Kafka writes two changes, no leader and the leader again, because others may see the time between.)
//! 4. A stop writes nothing: a clean and an unclean stop look the same here.
//! 5. A partition lies where it is found; one that is not found and whose directory is not among this start's has no leader.
//!
//! What a new log finalizes is [`super::features`]' business. Without eligible leader replicas the last replica never leaves the ISR; where a Kafka that had them left the ISR empty, the eligible
//! replica (or the last one known) takes over. Source: KIP-631, KIP-778, KIP-966, logs of Apache Kafka 4.3.1.

use std::collections::BTreeMap;
use std::fmt;

use pelton_model::record_type::metadata::{
    AbortTransactionRecord, BeginTransactionRecord, BrokerEndpoint, BrokerFeature,
    BrokerRegistrationChangeRecord, EndTransactionRecord, METADATA_VERSION_FEATURE, MetadataRecord,
    NO_LEADER, PartitionChangeRecord, RegisterBrokerRecord,
};
use pelton_model::{NodeId, PartitionId, TopicId, TopicPartition};

use super::Decision;
use super::directories::{DirectoryCounts, is_unassigned};
use super::features::bootstrap_records;
use crate::image::{MetadataImage, PartitionImage, TopicImage};

/// The metadata version of Apache Kafka 4.3 (4.3-IV0): the highest that we read, and what a new log starts with.
pub const METADATA_VERSION: i16 = 30;
/// The lowest metadata version that Apache Kafka 4.3, and we, still read (3.3-IV3).
pub const METADATA_VERSION_MIN: i16 = 7;

/// The first metadata version with metadata transactions (3.6-IV1).
const TRANSACTIONS_SINCE: i16 = 13;

/// The node as it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerStart {
    /// The node's id.
    pub broker_id: NodeId,
    /// A random id of this run.
    pub incarnation_id: TopicId,
    /// The advertised listeners.
    pub end_points: Vec<BrokerEndpoint>,
    /// The feature ranges it supports; see [`super::supported_features`].
    pub features: Vec<BrokerFeature>,
    /// Its rack.
    pub rack: Option<String>,
    /// The ids of its log directories that can be used.
    pub log_dirs: Vec<TopicId>,
    /// The ids of those among them that take no new partitions.
    pub cordoned_log_dirs: Vec<TopicId>,
    /// Where partitions lie on disk, whatever the log says.
    pub found: BTreeMap<TopicPartition, TopicId>,
}

/// What a start leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// The epoch of this run's registration.
    pub broker_epoch: i64,
    /// Whether the log was new.
    pub first: bool,
}

/// Why a node cannot start on this metadata log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The log's metadata version is one that we cannot read.
    MetadataVersion(i16),
    /// Brokers with other ids are registered: the log is one of a larger cluster.
    OtherBrokers(Vec<NodeId>),
    /// Other nodes vote on the log: it is one of a larger quorum.
    OtherVoters(Vec<NodeId>),
    /// The log's `kraft.version` is one that we do not know.
    KRaftVersion(i16),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MetadataVersion(level) => write!(
                f,
                "the metadata log has metadata.version {level}, supported are \
                 {METADATA_VERSION_MIN} to {METADATA_VERSION}"
            ),
            Self::OtherBrokers(ids) => write!(
                f,
                "the metadata log belongs to a cluster that also has broker {}; a lone node \
                 cannot take it over",
                list(ids)
            ),
            Self::OtherVoters(ids) => write!(
                f,
                "the metadata log belongs to a quorum that also has voter {}; a lone node cannot \
                 take it over",
                list(ids)
            ),
            Self::KRaftVersion(level) => write!(
                f,
                "the metadata log has kraft.version {level}, supported are 0 and 1"
            ),
        }
    }
}

fn list(ids: &[NodeId]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    ids.join(", ")
}

impl std::error::Error for StartError {}

/// As [`start_with`], with [`bootstrap_records`].
///
/// # Errors
/// As [`start_with`].
pub fn start(image: &MetadataImage, node: &BrokerStart) -> Result<Decision<Started>, StartError> {
    start_with(image, node, &bootstrap_records())
}

/// Decides what a start writes. The records follow directly on the image's last offset; a new log begins with `bootstrap`.
///
/// # Errors
/// When the log is not one that this node may write to; the start must be refused.
pub fn start_with(
    image: &MetadataImage,
    node: &BrokerStart,
    bootstrap: &[MetadataRecord],
) -> Result<Decision<Started>, StartError> {
    let stable = image.stable();
    check(stable, node)?;
    let mut records: Vec<MetadataRecord> = Vec::new();
    if image.in_transaction() {
        let reason = Some("The controller stopped within it.".to_owned());
        records.push(AbortTransactionRecord { reason }.into());
    }
    let first = stable.metadata_version().is_none();
    if first {
        check_level(bootstrap_level(bootstrap))?;
        begin(bootstrap, &mut records);
    }
    let index = i64::try_from(records.len()).expect("a handful of records");
    let broker_epoch = image.next_offset().plus(index).0;
    records.push(registration(node, broker_epoch).into());
    let unfence = BrokerRegistrationChangeRecord {
        broker_id: node.broker_id.0,
        broker_epoch,
        fenced: -1,
        ..BrokerRegistrationChangeRecord::default()
    };
    records.push(unfence.into());
    let mut counts = counts(stable, node);
    for topic in stable.topics() {
        let changes = topic
            .partitions()
            .filter_map(|(partition, state)| lead(topic, partition, state, node, &mut counts));
        records.extend(changes.map(MetadataRecord::from));
    }
    let results = Started {
        broker_epoch,
        first,
    };
    Ok(Decision { records, results })
}

/// What lies where as this start finds it.
fn counts(image: &MetadataImage, node: &BrokerStart) -> DirectoryCounts {
    let mut counts =
        DirectoryCounts::empty(node.broker_id, &node.log_dirs, &node.cordoned_log_dirs);
    for directory in node.found.values() {
        counts.add(node.broker_id, *directory);
    }
    for topic in image.topics() {
        for (partition, state) in topic.partitions() {
            let id = TopicPartition {
                topic_id: topic.id(),
                partition,
            };
            if let (None, Some(named)) = (node.found.get(&id), state.directory(node.broker_id)) {
                counts.add(node.broker_id, named);
            }
        }
    }
    counts
}

fn check(image: &MetadataImage, node: &BrokerStart) -> Result<(), StartError> {
    if let Some(level) = image.metadata_version() {
        check_level(level)?;
    }
    let ids = image.brokers().map(|broker| NodeId(broker.broker_id));
    let others: Vec<NodeId> = ids.filter(|id| *id != node.broker_id).collect();
    if others.is_empty() {
        Ok(())
    } else {
        Err(StartError::OtherBrokers(others))
    }
}

fn check_level(level: i16) -> Result<(), StartError> {
    if (METADATA_VERSION_MIN..=METADATA_VERSION).contains(&level) {
        Ok(())
    } else {
        Err(StartError::MetadataVersion(level))
    }
}

/// The metadata version that these records finalize; 0 when they finalize none.
fn bootstrap_level(records: &[MetadataRecord]) -> i16 {
    let mut levels = records.iter().filter_map(|record| {
        let MetadataRecord::FeatureLevel(record) = record else {
            return None;
        };
        (record.name == METADATA_VERSION_FEATURE).then_some(record.feature_level)
    });
    levels.next().unwrap_or(0)
}

fn begin(bootstrap: &[MetadataRecord], records: &mut Vec<MetadataRecord>) {
    let in_transaction = bootstrap_level(bootstrap) >= TRANSACTIONS_SINCE;
    if in_transaction {
        let name = Some("Bootstrap records".to_owned());
        records.push(BeginTransactionRecord { name }.into());
    }
    records.extend_from_slice(bootstrap);
    if in_transaction {
        records.push(EndTransactionRecord {}.into());
    }
}

fn registration(node: &BrokerStart, broker_epoch: i64) -> RegisterBrokerRecord {
    RegisterBrokerRecord {
        broker_id: node.broker_id.0,
        incarnation_id: node.incarnation_id,
        broker_epoch,
        end_points: node.end_points.clone(),
        features: node.features.clone(),
        rack: node.rack.clone(),
        fenced: true,
        log_dirs: node.log_dirs.clone(),
        cordoned_log_dirs: (!node.cordoned_log_dirs.is_empty())
            .then(|| node.cordoned_log_dirs.clone()),
        ..RegisterBrokerRecord::default()
    }
}

/// The change by which this node leads a partition from now on, or no longer; none when neither applies.
fn lead(
    topic: &TopicImage,
    partition: PartitionId,
    state: &PartitionImage,
    node: &BrokerStart,
    counts: &mut DirectoryCounts,
) -> Option<PartitionChangeRecord> {
    let this = node.broker_id;
    let named = state.directory(this)?;
    let id = TopicPartition {
        topic_id: topic.id(),
        partition,
    };
    let directory = match node.found.get(&id) {
        Some(found) => *found,
        None if is_unassigned(named) && !node.log_dirs.is_empty() => counts.choose(this),
        None => named,
    };
    let mut change = PartitionChangeRecord {
        partition_id: partition.0,
        topic_id: topic.id(),
        leader: this.0,
        ..PartitionChangeRecord::default()
    };
    if !is_online(directory, node) {
        change.leader = NO_LEADER;
        return (state.leader() == Some(this)).then_some(change);
    }
    if !state.isr.contains(&this) {
        let elr = &state.eligible_leader_replicas;
        let eligible = match (state.isr.is_empty(), elr.is_empty()) {
            (true, false) => elr.contains(&this),
            (true, true) => state.last_known_elr == [this],
            (false, _) => false,
        };
        if !eligible {
            return None;
        }
        change.isr = Some(vec![this.0]);
    }
    if state.eligible_leader_replicas.contains(&this) {
        let others = state.eligible_leader_replicas.iter();
        let others = others.filter(|id| **id != this).map(|id| id.0).collect();
        change.eligible_leader_replicas = Some(others);
    }
    if !state.last_known_elr.is_empty() {
        change.last_known_elr = Some(Vec::new());
    }
    if state.recovering {
        // A lone leader has no follower to agree with: whatever it has is the log.
        change.leader_recovery_state = 0;
    }
    if state.directory(this) != Some(directory) {
        let named = state.replicas.iter().zip(&state.directories);
        let directories = named.map(|(id, dir)| if *id == this { directory } else { *dir });
        change.directories = Some(directories.collect());
    }
    Some(change)
}

fn is_online(directory: TopicId, node: &BrokerStart) -> bool {
    is_unassigned(directory) || node.log_dirs.contains(&directory)
}
