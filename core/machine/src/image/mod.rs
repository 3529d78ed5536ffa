//! The metadata image: the state of the cluster as a fold over the records of `__cluster_metadata`.
//!
//! Invariants:
//! 1. Only [`MetadataImage::replay`] changes it, whoever wrote the record; so a restart, a follower and the live path
//!    arrive at the same state.
//! 2. A clone shares everything with its original (persistent maps) and never changes: it may cross threads.
//! 3. `topics_by_name` and `topics` hold the same topics, and a topic's partitions are numbered without a gap once
//!    the records of its creation are in.
//! 4. While a metadata transaction is open, [`MetadataImage::stable`] is the state before it: that is what is shown.
//! 5. Iteration is in order (names, ids), never in hash order.
//!
//! It deliberately knows no offsets of user partitions, no shard and no connection. What lies above the high watermark
//! is truncated by going back to an earlier clone. Source: KIP-631, KIP-868, KIP-966.

mod delta;
mod partition;
mod replay;
mod snapshot;
#[cfg(test)]
mod tests;

use std::ops::Bound;

use imbl::{OrdMap, OrdSet};
use pelton_model::record_type::metadata::{
    AccessControlEntryRecord, DelegationTokenRecord, METADATA_VERSION_FEATURE, RESOURCE_TOPIC,
    RegisterBrokerRecord, RegisterControllerRecord, TRANSACTION_VERSION_FEATURE,
    UserScramCredentialRecord,
};
use pelton_model::{LeaderEpoch, NodeId, Offset, PartitionId, TopicId, TopicPartition};

pub use delta::{ConfigResource, MetadataDelta};
pub use partition::PartitionImage;
pub use replay::{ReplayError, ReplayRefusal};

/// The config values of one resource, by config name.
pub type Configs = OrdMap<String, String>;
/// Whom a client quota binds: (entity type, name or the default), ordered by type.
pub type QuotaEntity = Vec<(String, Option<String>)>;

/// The cluster's metadata after one more record. Cheap to clone; see the module's invariants.
#[derive(Clone, Debug)]
pub struct MetadataImage {
    /// The offset of the last record applied; −1 before the first.
    applied: Offset,
    /// The leader epoch of that record's batch.
    applied_epoch: LeaderEpoch,
    topics: OrdMap<TopicId, TopicImage>,
    topics_by_name: OrdMap<String, TopicId>,
    /// Names with `.` or `_`, under the name with `.` written as `_`: such names must not differ only there.
    colliding_names: OrdMap<String, OrdSet<String>>,
    configs: OrdMap<i8, OrdMap<String, Configs>>,
    brokers: OrdMap<NodeId, RegisterBrokerRecord>,
    controllers: OrdMap<NodeId, RegisterControllerRecord>,
    features: OrdMap<String, i16>,
    next_producer_id: i64,
    acls: OrdMap<TopicId, AccessControlEntryRecord>,
    scram_credentials: OrdMap<(String, i8), UserScramCredentialRecord>,
    delegation_tokens: OrdMap<String, DelegationTokenRecord>,
    client_quotas: OrdMap<QuotaEntity, OrdMap<String, f64>>,
    zk_migration_state: i8,
    delta: MetadataDelta,
    before_transaction: Option<Box<MetadataImage>>,
}

/// A topic of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicImage {
    name: String,
    id: TopicId,
    partitions: OrdMap<PartitionId, PartitionImage>,
}

impl TopicImage {
    /// The topic's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The topic's id.
    #[must_use]
    pub fn id(&self) -> TopicId {
        self.id
    }

    /// The state of one partition.
    #[must_use]
    pub fn partition(&self, partition: PartitionId) -> Option<&PartitionImage> {
        self.partitions.get(&partition)
    }

    /// Every partition, in the order of its index.
    pub fn partitions(&self) -> impl ExactSizeIterator<Item = (PartitionId, &PartitionImage)> {
        self.partitions.iter().map(|(id, state)| (*id, state))
    }

    /// The number of partitions.
    #[must_use]
    pub fn partition_count(&self) -> i32 {
        i32::try_from(self.partitions.len()).expect("partitions are numbered by an i32")
    }
}

/// What names that collide have in common; none when the name has neither `.` nor `_`.
fn collision_key(name: &str) -> Option<String> {
    name.contains(['.', '_']).then(|| name.replace('.', "_"))
}

impl Default for MetadataImage {
    fn default() -> Self {
        Self {
            applied: Offset::NONE,
            applied_epoch: LeaderEpoch::NONE,
            topics: OrdMap::new(),
            topics_by_name: OrdMap::new(),
            colliding_names: OrdMap::new(),
            configs: OrdMap::new(),
            brokers: OrdMap::new(),
            controllers: OrdMap::new(),
            features: OrdMap::new(),
            next_producer_id: 0,
            acls: OrdMap::new(),
            scram_credentials: OrdMap::new(),
            delegation_tokens: OrdMap::new(),
            client_quotas: OrdMap::new(),
            zk_migration_state: 0,
            delta: MetadataDelta::default(),
            before_transaction: None,
        }
    }
}

impl MetadataImage {
    /// The image of an empty log.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The offset of the last record applied; −1 before the first.
    #[must_use]
    pub fn applied(&self) -> Offset {
        self.applied
    }

    /// The leader epoch of the last record's batch; −1 before the first.
    #[must_use]
    pub fn applied_epoch(&self) -> LeaderEpoch {
        self.applied_epoch
    }

    /// The offset at which the controller writes next.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        self.applied.plus(1)
    }

    /// The topic with this id.
    #[must_use]
    pub fn topic(&self, id: TopicId) -> Option<&TopicImage> {
        self.topics.get(&id)
    }

    /// The topic with this name.
    #[must_use]
    pub fn topic_by_name(&self, name: &str) -> Option<&TopicImage> {
        self.topics.get(self.topics_by_name.get(name)?)
    }

    /// The id of the topic with this name.
    #[must_use]
    pub fn topic_id(&self, name: &str) -> Option<TopicId> {
        self.topics_by_name.get(name).copied()
    }

    /// A topic whose name differs from `name` at most in `.` against `_`, when `name` has one of the two.
    #[must_use]
    pub fn colliding_topic(&self, name: &str) -> Option<&str> {
        let names = self.colliding_names.get(&collision_key(name)?)?;
        names.get_min().map(String::as_str)
    }

    /// Every topic, in the order of names.
    pub fn topics(&self) -> impl Iterator<Item = &TopicImage> {
        self.topics_by_name
            .values()
            .filter_map(|id| self.topics.get(id))
    }

    /// Every topic whose name lies within `names`, in the order of names.
    pub fn topics_within<'a>(
        &'a self,
        names: (Bound<&str>, Bound<&str>),
    ) -> impl Iterator<Item = &'a TopicImage> {
        let named = self.topics_by_name.range::<_, str>(names);
        named.filter_map(|(_, id)| self.topics.get(id))
    }

    /// The number of topics.
    #[must_use]
    pub fn topic_count(&self) -> usize {
        self.topics.len()
    }

    /// The state of one partition.
    #[must_use]
    pub fn partition(&self, partition: TopicPartition) -> Option<&PartitionImage> {
        self.topic(partition.topic_id)?
            .partition(partition.partition)
    }

    /// The broker with this id, fenced or not.
    #[must_use]
    pub fn broker(&self, id: NodeId) -> Option<&RegisterBrokerRecord> {
        self.brokers.get(&id)
    }

    /// Every registered broker, in the order of ids; clients see only those that are not `fenced`.
    pub fn brokers(&self) -> impl ExactSizeIterator<Item = &RegisterBrokerRecord> {
        self.brokers.values()
    }

    /// Every registered controller, in the order of ids.
    pub fn controllers(&self) -> impl ExactSizeIterator<Item = &RegisterControllerRecord> {
        self.controllers.values()
    }

    /// The config values set on a resource; see `record_type::metadata::RESOURCE_*`. None when nothing is set.
    #[must_use]
    pub fn configs(&self, resource_type: i8, name: &str) -> Option<&Configs> {
        self.configs.get(&resource_type)?.get(name)
    }

    /// The names of the resources of a type on which something is set, sorted.
    pub fn config_resources(&self, resource_type: i8) -> impl Iterator<Item = &str> {
        let resources = self.configs.get(&resource_type);
        resources
            .into_iter()
            .flat_map(|resources| resources.keys().map(String::as_str))
    }

    /// How many resources of a type have something set on them.
    #[must_use]
    pub fn config_resource_count(&self, resource_type: i8) -> usize {
        self.configs.get(&resource_type).map_or(0, OrdMap::len)
    }

    /// The config values set on a topic. None when nothing is set.
    #[must_use]
    pub fn topic_configs(&self, name: &str) -> Option<&Configs> {
        self.configs(RESOURCE_TOPIC, name)
    }

    /// The finalized features, in the order of names.
    pub fn features(&self) -> impl ExactSizeIterator<Item = (&str, i16)> {
        self.features
            .iter()
            .map(|(name, level)| (name.as_str(), *level))
    }

    /// The finalized transaction version; 0 when none is.
    #[must_use]
    pub fn transaction_version(&self) -> i16 {
        self.feature(TRANSACTION_VERSION_FEATURE).unwrap_or(0)
    }

    /// The finalized level of a feature; none when it is not finalized.
    #[must_use]
    pub fn feature(&self, name: &str) -> Option<i16> {
        self.features.get(name).copied()
    }

    /// The finalized `metadata.version`; none in an empty log.
    #[must_use]
    pub fn metadata_version(&self) -> Option<i16> {
        self.feature(METADATA_VERSION_FEATURE)
    }

    /// The first producer id that no broker was given.
    #[must_use]
    pub fn next_producer_id(&self) -> i64 {
        self.next_producer_id
    }

    /// Every ACL, in the order of ids.
    pub fn acls(&self) -> impl ExactSizeIterator<Item = &AccessControlEntryRecord> {
        self.acls.values()
    }

    /// A user's SCRAM credential for a mechanism (1 SCRAM-SHA-256, 2 SCRAM-SHA-512).
    #[must_use]
    pub fn scram_credential(
        &self,
        user: &str,
        mechanism: i8,
    ) -> Option<&UserScramCredentialRecord> {
        self.scram_credentials.get(&(user.to_owned(), mechanism))
    }

    /// Every client quota: whom it binds and the values by key.
    pub fn client_quotas(
        &self,
    ) -> impl ExactSizeIterator<Item = (&QuotaEntity, &OrdMap<String, f64>)> {
        self.client_quotas.iter()
    }

    /// What clients may see: this image, or the one before the metadata transaction that is open.
    #[must_use]
    pub fn stable(&self) -> &Self {
        self.before_transaction.as_deref().unwrap_or(self)
    }

    /// Whether a metadata transaction is open.
    #[must_use]
    pub fn in_transaction(&self) -> bool {
        self.before_transaction.is_some()
    }

    /// What changed in [`MetadataImage::stable`] since the last call. Take it before cloning an image to publish it.
    pub fn take_delta(&mut self) -> MetadataDelta {
        match &mut self.before_transaction {
            Some(before) => std::mem::take(&mut before.delta),
            None => std::mem::take(&mut self.delta),
        }
    }

    /// Whether both describe the same cluster, wherever in a log they stand.
    #[must_use]
    pub fn same_state(&self, other: &Self) -> bool {
        self.topics == other.topics
            && self.topics_by_name == other.topics_by_name
            && self.configs == other.configs
            && self.brokers == other.brokers
            && self.controllers == other.controllers
            && self.features == other.features
            && self.next_producer_id == other.next_producer_id
            && self.acls == other.acls
            && self.scram_credentials == other.scram_credentials
            && self.delegation_tokens == other.delegation_tokens
            && self.client_quotas == other.client_quotas
            && self.zk_migration_state == other.zk_migration_state
            && self.in_transaction() == other.in_transaction()
    }
}
