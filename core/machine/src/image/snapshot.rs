//! The image as records: what a KRaft snapshot of it holds.
//!
//! Invariants:
//! 1. Replaying [`MetadataImage::to_records`] into an empty image gives the same state.
//! 2. The first record is the metadata version, since it says how the others are read.
//! 3. The order is a function of the state.

use imbl::OrdMap;
use pelton_model::record_type::metadata::{
    ClientQuotaRecord, ConfigRecord, EntityData, FeatureLevelRecord, METADATA_VERSION_FEATURE,
    MetadataRecord, ProducerIdsRecord, TopicRecord, ZkMigrationStateRecord,
};
use pelton_model::{LeaderEpoch, Offset};

use super::{MetadataImage, QuotaEntity, TopicImage};

impl MetadataImage {
    /// Takes the place in the log that a snapshot stands for, once its records are replayed: `next` is the offset after the last
    /// record contained, `epoch` the leader epoch of that record. Offsets within a snapshot mean nothing.
    pub fn stand_at(&mut self, next: Offset, epoch: LeaderEpoch) {
        self.applied = next.plus(-1);
        self.applied_epoch = epoch;
    }

    /// The records that build this state from nothing, for a snapshot.
    ///
    /// # Panics
    /// Within a metadata transaction: a snapshot holds only what counts, so take [`MetadataImage::stable`].
    #[must_use]
    pub fn to_records(&self) -> Vec<MetadataRecord> {
        assert!(!self.in_transaction());
        let mut records = Vec::new();
        self.features_to_records(&mut records);
        records.extend(self.brokers.values().cloned().map(MetadataRecord::from));
        records.extend(self.controllers.values().cloned().map(MetadataRecord::from));
        for topic in self.topics() {
            topic_to_records(topic, &mut records);
        }
        for (resource_type, resources) in &self.configs {
            for (name, configs) in resources {
                configs_to_records(*resource_type, name, configs, &mut records);
            }
        }
        for (entity, quotas) in &self.client_quotas {
            quotas_to_records(entity, quotas, &mut records);
        }
        if self.next_producer_id > 0 {
            let record = ProducerIdsRecord {
                broker_id: -1,
                broker_epoch: -1,
                next_producer_id: self.next_producer_id,
            };
            records.push(record.into());
        }
        records.extend(self.acls.values().cloned().map(MetadataRecord::from));
        let credentials = self.scram_credentials.values().cloned();
        records.extend(credentials.map(MetadataRecord::from));
        let tokens = self.delegation_tokens.values().cloned();
        records.extend(tokens.map(MetadataRecord::from));
        if self.zk_migration_state != 0 {
            let zk_migration_state = self.zk_migration_state;
            records.push(ZkMigrationStateRecord { zk_migration_state }.into());
        }
        records
    }

    fn features_to_records(&self, records: &mut Vec<MetadataRecord>) {
        let level = |name: &str, feature_level: i16| {
            MetadataRecord::from(FeatureLevelRecord {
                name: name.to_owned(),
                feature_level,
            })
        };
        records.extend(
            self.metadata_version()
                .map(|version| level(METADATA_VERSION_FEATURE, version)),
        );
        let others = self
            .features()
            .filter(|(name, _)| *name != METADATA_VERSION_FEATURE);
        records.extend(others.map(|(name, feature_level)| level(name, feature_level)));
    }
}

fn topic_to_records(topic: &TopicImage, records: &mut Vec<MetadataRecord>) {
    let record = TopicRecord {
        name: topic.name().to_owned(),
        topic_id: topic.id(),
    };
    records.push(record.into());
    for (partition, state) in topic.partitions() {
        records.push(state.to_record(topic.id(), partition).into());
    }
}

fn configs_to_records(
    resource_type: i8,
    resource_name: &str,
    configs: &super::Configs,
    records: &mut Vec<MetadataRecord>,
) {
    for (name, value) in configs {
        let record = ConfigRecord {
            resource_type,
            resource_name: resource_name.to_owned(),
            name: name.clone(),
            value: Some(value.clone()),
        };
        records.push(record.into());
    }
}

fn quotas_to_records(
    entity: &QuotaEntity,
    quotas: &OrdMap<String, f64>,
    records: &mut Vec<MetadataRecord>,
) {
    let part = |(entity_type, entity_name): &(String, Option<String>)| EntityData {
        entity_type: entity_type.clone(),
        entity_name: entity_name.clone(),
    };
    let entity: Vec<EntityData> = entity.iter().map(part).collect();
    for (key, value) in quotas {
        let record = ClientQuotaRecord {
            entity: entity.clone(),
            key: key.clone(),
            value: *value,
            remove: false,
        };
        records.push(record.into());
    }
}
