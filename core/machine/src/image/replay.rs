//! Replaying records into the image: the only way that it changes.
//!
//! Invariants:
//! 1. A record that does not fit the state is an error and leaves the image as it was: whoever reads the log stops.
//! 2. Offsets only grow. Control records move the offset and nothing else.
//! 3. Begin and End of a metadata transaction pair up; Abort restores the state before Begin.

use std::fmt;

use pelton_model::record_type::metadata::{
    AccessControlEntryRecord, BrokerRegistrationChangeRecord, ClearElrRecord, ClientQuotaRecord,
    ConfigRecord, DelegationTokenRecord, EntityData, FeatureLevelRecord, MetadataRecord,
    PartitionChangeRecord, PartitionRecord, ProducerIdsRecord, RESOURCE_TOPIC,
    RegisterBrokerRecord, RemoveTopicRecord, TopicRecord, UserScramCredentialRecord,
};
use pelton_model::{LeaderEpoch, NodeId, Offset, PartitionId, TopicId, TopicPartition};

use super::{ConfigResource, MetadataImage, PartitionImage, TopicImage, collision_key};

/// A record that the state before it does not allow: the log is not one that Kafka or Pelton wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayError {
    /// The record's offset.
    pub offset: Offset,
    /// The record type, as Kafka spells it.
    pub record: &'static str,
    /// What does not fit.
    pub reason: ReplayRefusal,
}

/// Why a record cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayRefusal {
    /// The offset does not follow what was applied.
    OffsetNotAfter(Offset),
    /// No topic has this id.
    UnknownTopicId(TopicId),
    /// No topic has this name.
    UnknownTopic(String),
    /// No such partition.
    UnknownPartition(TopicPartition),
    /// The name or the id is taken.
    TopicExists(String, TopicId),
    /// The partition index is negative or an epoch would pass its end.
    InvalidPartition(TopicPartition),
    /// No broker is registered under this id.
    UnknownBroker(NodeId),
    /// The broker's epoch is another one.
    BrokerEpochMismatch(NodeId, i64),
    /// Producer ids would be handed out twice.
    ProducerIdsNotAfter(i64),
    /// A transaction begins within another, or ends without a beginning.
    TransactionState,
}

impl fmt::Display for ReplayRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OffsetNotAfter(applied) => write!(f, "offset {applied} was already applied"),
            Self::UnknownTopicId(id) => write!(f, "no topic has id {id}"),
            Self::UnknownTopic(name) => write!(f, "no topic is named {name}"),
            Self::UnknownPartition(partition) => {
                write!(
                    f,
                    "topic {} has no partition {}",
                    partition.topic_id, partition.partition
                )
            }
            Self::TopicExists(name, id) => write!(f, "topic {name} or id {id} exists already"),
            Self::InvalidPartition(partition) => write!(
                f,
                "partition {} of topic {} has an index or epoch out of range",
                partition.partition, partition.topic_id
            ),
            Self::UnknownBroker(id) => write!(f, "broker {id} is not registered"),
            Self::BrokerEpochMismatch(id, epoch) => {
                write!(f, "broker {id} is registered with epoch {epoch}")
            }
            Self::ProducerIdsNotAfter(next) => write!(f, "producer ids below {next} are in use"),
            Self::TransactionState => f.write_str("begin and end of transactions do not pair up"),
        }
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "metadata record {} at offset {}: {}",
            self.record, self.offset, self.reason
        )
    }
}

impl std::error::Error for ReplayError {}

impl MetadataImage {
    /// Applies the record at `offset`, from a batch of leader epoch `epoch`.
    ///
    /// # Errors
    /// When the record does not fit; the image is unchanged and the caller must stop reading the log.
    pub fn replay(
        &mut self,
        offset: Offset,
        epoch: LeaderEpoch,
        record: &MetadataRecord,
    ) -> Result<(), ReplayError> {
        let result = if offset <= self.applied {
            Err(ReplayRefusal::OffsetNotAfter(self.applied))
        } else {
            self.dispatch(record)
        };
        result.map_err(|reason| ReplayError {
            offset,
            record: record.name(),
            reason,
        })?;
        self.advance(offset, epoch);
        Ok(())
    }

    /// Moves past the control record at `offset`, which changes nothing here.
    ///
    /// # Panics
    /// When `offset` was already applied.
    pub fn advance(&mut self, offset: Offset, epoch: LeaderEpoch) {
        assert!(self.applied < offset);
        self.applied = offset;
        self.applied_epoch = epoch;
    }

    fn dispatch(&mut self, record: &MetadataRecord) -> Result<(), ReplayRefusal> {
        match record {
            MetadataRecord::RegisterBroker(record) => self.register_broker(record),
            MetadataRecord::UnregisterBroker(record) => {
                self.remove_broker(NodeId(record.broker_id), record.broker_epoch)?;
            }
            MetadataRecord::Topic(record) => self.add_topic(record)?,
            MetadataRecord::Partition(record) => self.set_partition(record)?,
            MetadataRecord::Config(record) => self.set_config(record),
            MetadataRecord::PartitionChange(record) => self.change_partition(record)?,
            MetadataRecord::FenceBroker(record) => {
                self.change_broker(record.id, record.epoch, |broker| broker.fenced = true)?;
            }
            MetadataRecord::UnfenceBroker(record) => {
                self.change_broker(record.id, record.epoch, |broker| broker.fenced = false)?;
            }
            MetadataRecord::RemoveTopic(record) => self.remove_topic(record)?,
            MetadataRecord::FeatureLevel(record) => self.set_feature(record),
            MetadataRecord::ProducerIds(record) => self.hand_out_producer_ids(record)?,
            MetadataRecord::BrokerRegistrationChange(record) => self.change_registration(record)?,
            MetadataRecord::BeginTransaction(_) => self.begin()?,
            MetadataRecord::EndTransaction(_) => self.end()?,
            MetadataRecord::AbortTransaction(_) => self.abort()?,
            MetadataRecord::ClearElr(record) => self.clear_elr(record)?,
            MetadataRecord::RegisterController(record) => {
                self.controllers
                    .insert(NodeId(record.controller_id), record.clone());
            }
            MetadataRecord::ZkMigrationState(record) => {
                self.zk_migration_state = record.zk_migration_state;
            }
            MetadataRecord::NoOp(_) => {}
            MetadataRecord::DelegationToken(record) => self.set_token(record),
            MetadataRecord::RemoveDelegationToken(record) => self.remove_token(&record.token_id),
            MetadataRecord::UserScramCredential(record) => self.set_credential(record),
            MetadataRecord::RemoveUserScramCredential(record) => {
                self.remove_credential(&record.name, record.mechanism);
            }
            MetadataRecord::AccessControlEntry(record) => self.set_acl(record),
            MetadataRecord::RemoveAccessControlEntry(record) => self.remove_acl(record.id),
            MetadataRecord::ClientQuota(record) => self.set_quota(record),
        }
        Ok(())
    }

    fn set_token(&mut self, record: &DelegationTokenRecord) {
        self.delegation_tokens
            .insert(record.token_id.clone(), record.clone());
        self.delta.security = true;
    }

    fn remove_token(&mut self, token_id: &str) {
        self.delegation_tokens.remove(token_id);
        self.delta.security = true;
    }

    fn set_credential(&mut self, record: &UserScramCredentialRecord) {
        let key = (record.name.clone(), record.mechanism);
        self.scram_credentials.insert(key, record.clone());
        self.delta.security = true;
    }

    fn remove_credential(&mut self, user: &str, mechanism: i8) {
        self.scram_credentials.remove(&(user.to_owned(), mechanism));
        self.delta.security = true;
    }

    fn set_acl(&mut self, record: &AccessControlEntryRecord) {
        self.acls.insert(record.id, record.clone());
        self.delta.security = true;
    }

    fn remove_acl(&mut self, id: TopicId) {
        self.acls.remove(&id);
        self.delta.security = true;
    }

    fn register_broker(&mut self, record: &RegisterBrokerRecord) {
        let id = NodeId(record.broker_id);
        self.brokers.insert(id, record.clone());
        self.delta.brokers.insert(id);
    }

    fn remove_broker(&mut self, id: NodeId, epoch: i64) -> Result<(), ReplayRefusal> {
        self.change_broker(id.0, epoch, |_| {})?;
        self.brokers.remove(&id);
        Ok(())
    }

    fn change_broker(
        &mut self,
        id: i32,
        epoch: i64,
        change: impl FnOnce(&mut RegisterBrokerRecord),
    ) -> Result<(), ReplayRefusal> {
        let id = NodeId(id);
        let broker = self
            .brokers
            .get_mut(&id)
            .ok_or(ReplayRefusal::UnknownBroker(id))?;
        if broker.broker_epoch != epoch {
            return Err(ReplayRefusal::BrokerEpochMismatch(id, broker.broker_epoch));
        }
        change(broker);
        self.delta.brokers.insert(id);
        Ok(())
    }

    fn change_registration(
        &mut self,
        record: &BrokerRegistrationChangeRecord,
    ) -> Result<(), ReplayRefusal> {
        self.change_broker(record.broker_id, record.broker_epoch, |broker| {
            match record.fenced {
                ..0 => broker.fenced = false,
                0 => {}
                1.. => broker.fenced = true,
            }
            broker.in_controlled_shutdown |= record.in_controlled_shutdown > 0;
            if !record.log_dirs.is_empty() {
                broker.log_dirs.clone_from(&record.log_dirs);
            }
            if record.cordoned_log_dirs.is_some() {
                broker
                    .cordoned_log_dirs
                    .clone_from(&record.cordoned_log_dirs);
            }
        })
    }

    fn add_topic(&mut self, record: &TopicRecord) -> Result<(), ReplayRefusal> {
        if self.topics.contains_key(&record.topic_id) || self.topic_id(&record.name).is_some() {
            let name = record.name.clone();
            return Err(ReplayRefusal::TopicExists(name, record.topic_id));
        }
        let topic = TopicImage {
            name: record.name.clone(),
            id: record.topic_id,
            partitions: imbl::OrdMap::new(),
        };
        self.topics.insert(record.topic_id, topic);
        self.topics_by_name
            .insert(record.name.clone(), record.topic_id);
        if let Some(key) = collision_key(&record.name) {
            let names = self.colliding_names.entry(key).or_default();
            names.insert(record.name.clone());
        }
        self.delta.topics_created.insert(record.topic_id);
        assert_eq!(self.topics.len(), self.topics_by_name.len());
        Ok(())
    }

    fn remove_topic(&mut self, record: &RemoveTopicRecord) -> Result<(), ReplayRefusal> {
        let id = record.topic_id;
        let topic = self
            .topics
            .remove(&id)
            .ok_or(ReplayRefusal::UnknownTopicId(id))?;
        self.topics_by_name.remove(&topic.name);
        self.forget_colliding_name(&topic.name);
        let had_configs = self
            .configs
            .get_mut(&RESOURCE_TOPIC)
            .is_some_and(|topics| topics.remove(&topic.name).is_some());
        if had_configs {
            self.configs_changed(RESOURCE_TOPIC, &topic.name);
        }
        self.delta.topic_deleted(id, topic.name);
        assert_eq!(self.topics.len(), self.topics_by_name.len());
        Ok(())
    }

    fn forget_colliding_name(&mut self, name: &str) {
        let Some(key) = collision_key(name) else {
            return;
        };
        if let Some(names) = self.colliding_names.get_mut(&key) {
            names.remove(name);
            if names.is_empty() {
                self.colliding_names.remove(&key);
            }
        }
    }

    fn set_partition(&mut self, record: &PartitionRecord) -> Result<(), ReplayRefusal> {
        let partition = TopicPartition {
            topic_id: record.topic_id,
            partition: PartitionId(record.partition_id),
        };
        if record.partition_id < 0 {
            return Err(ReplayRefusal::InvalidPartition(partition));
        }
        let topic = self
            .topics
            .get_mut(&record.topic_id)
            .ok_or(ReplayRefusal::UnknownTopicId(record.topic_id))?;
        topic
            .partitions
            .insert(partition.partition, PartitionImage::from_record(record));
        self.delta.partitions.insert(partition);
        Ok(())
    }

    fn change_partition(&mut self, record: &PartitionChangeRecord) -> Result<(), ReplayRefusal> {
        let partition = TopicPartition {
            topic_id: record.topic_id,
            partition: PartitionId(record.partition_id),
        };
        let topic = self
            .topics
            .get_mut(&record.topic_id)
            .ok_or(ReplayRefusal::UnknownTopicId(record.topic_id))?;
        let state = topic
            .partitions
            .get_mut(&partition.partition)
            .ok_or(ReplayRefusal::UnknownPartition(partition))?;
        if !state.apply(record) {
            return Err(ReplayRefusal::InvalidPartition(partition));
        }
        self.delta.partitions.insert(partition);
        Ok(())
    }

    fn clear_elr(&mut self, record: &ClearElrRecord) -> Result<(), ReplayRefusal> {
        let names: Vec<String> = if record.topic_name.is_empty() {
            self.topics_by_name.keys().cloned().collect()
        } else {
            vec![record.topic_name.clone()]
        };
        for name in names {
            let changes = self.elr_clearings(&name)?;
            for change in &changes {
                self.change_partition(change)?;
            }
        }
        Ok(())
    }

    fn elr_clearings(&self, name: &str) -> Result<Vec<PartitionChangeRecord>, ReplayRefusal> {
        let topic = self
            .topic_by_name(name)
            .ok_or_else(|| ReplayRefusal::UnknownTopic(name.to_owned()))?;
        let with_elr = topic.partitions().filter(|(_, state)| {
            !state.eligible_leader_replicas.is_empty() || !state.last_known_elr.is_empty()
        });
        Ok(with_elr
            .map(|(partition, _)| PartitionChangeRecord {
                partition_id: partition.0,
                topic_id: topic.id(),
                eligible_leader_replicas: Some(Vec::new()),
                last_known_elr: Some(Vec::new()),
                ..PartitionChangeRecord::default()
            })
            .collect())
    }

    fn set_config(&mut self, record: &ConfigRecord) {
        let resources = self.configs.entry(record.resource_type).or_default();
        let configs = resources.entry(record.resource_name.clone()).or_default();
        match &record.value {
            Some(value) => {
                configs.insert(record.name.clone(), value.clone());
            }
            None => {
                configs.remove(&record.name);
            }
        }
        if configs.is_empty() {
            resources.remove(&record.resource_name);
        }
        self.configs_changed(record.resource_type, &record.resource_name);
    }

    /// Notes the change, and keeps no empty map: equal states must compare equal.
    fn configs_changed(&mut self, resource_type: i8, name: &str) {
        if self
            .configs
            .get(&resource_type)
            .is_some_and(imbl::OrdMap::is_empty)
        {
            self.configs.remove(&resource_type);
        }
        self.delta.configs.insert(ConfigResource {
            resource_type,
            name: name.to_owned(),
        });
    }

    fn set_feature(&mut self, record: &FeatureLevelRecord) {
        if record.feature_level == 0 {
            self.features.remove(&record.name);
        } else {
            self.features
                .insert(record.name.clone(), record.feature_level);
        }
        self.delta.features.insert(record.name.clone());
    }

    fn hand_out_producer_ids(&mut self, record: &ProducerIdsRecord) -> Result<(), ReplayRefusal> {
        if record.next_producer_id <= self.next_producer_id {
            return Err(ReplayRefusal::ProducerIdsNotAfter(self.next_producer_id));
        }
        self.next_producer_id = record.next_producer_id;
        Ok(())
    }

    fn set_quota(&mut self, record: &ClientQuotaRecord) {
        let part = |part: &EntityData| (part.entity_type.clone(), part.entity_name.clone());
        let mut entity: super::QuotaEntity = record.entity.iter().map(part).collect();
        entity.sort();
        let quotas = self.client_quotas.entry(entity.clone()).or_default();
        if record.remove {
            quotas.remove(&record.key);
        } else {
            quotas.insert(record.key.clone(), record.value);
        }
        if quotas.is_empty() {
            self.client_quotas.remove(&entity);
        }
        self.delta.security = true;
    }

    fn begin(&mut self) -> Result<(), ReplayRefusal> {
        if self.in_transaction() {
            return Err(ReplayRefusal::TransactionState);
        }
        let before = self.clone();
        self.delta = super::MetadataDelta::default();
        self.before_transaction = Some(Box::new(before));
        Ok(())
    }

    fn end(&mut self) -> Result<(), ReplayRefusal> {
        let before = self
            .before_transaction
            .take()
            .ok_or(ReplayRefusal::TransactionState)?;
        let later = std::mem::replace(&mut self.delta, before.delta);
        self.delta.merge(later);
        Ok(())
    }

    fn abort(&mut self) -> Result<(), ReplayRefusal> {
        let before = self
            .before_transaction
            .take()
            .ok_or(ReplayRefusal::TransactionState)?;
        // The offset goes on from here: what was undone stays in the log.
        let (applied, applied_epoch) = (self.applied, self.applied_epoch);
        *self = *before;
        (self.applied, self.applied_epoch) = (applied, applied_epoch);
        Ok(())
    }
}
