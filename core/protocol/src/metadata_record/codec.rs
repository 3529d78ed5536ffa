//! The schema of each record type, and the choice among them by number.
//!
//! Field lines are read as [`crate::codec`] says. A test compares them with Kafka's schemas.

use bytes::Bytes;
use pelton_model::TopicId;
use pelton_model::record_type::metadata::{
    AbortTransactionRecord, AccessControlEntryRecord, BeginTransactionRecord, BrokerEndpoint,
    BrokerFeature, BrokerRegistrationChangeRecord, ClearElrRecord, ClientQuotaRecord, ConfigRecord,
    ControllerEndpoint, ControllerFeature, DelegationTokenRecord, EndTransactionRecord, EntityData,
    FeatureLevelRecord, FenceBrokerRecord, MetadataRecord, NoOpRecord, PartitionChangeRecord,
    PartitionRecord, ProducerIdsRecord, RegisterBrokerRecord, RegisterControllerRecord,
    RemoveAccessControlEntryRecord, RemoveDelegationTokenRecord, RemoveTopicRecord,
    RemoveUserScramCredentialRecord, TopicRecord, UnfenceBrokerRecord, UnregisterBrokerRecord,
    UserScramCredentialRecord, ZkMigrationStateRecord,
};

use super::{RecordError, read_body};
use crate::codec::{Message, Reader, Versions, Writer};
use crate::fuzz::Target;
use crate::{message_for, wire};

/// Calls out every record type once: a new variant must be named here or this does not compile.
macro_rules! record_types {
    ($($variant:ident($record:ident),)+) => {
        pub(super) const TARGETS: &[Target] = &[$(Target::of::<$record>(),)+];

        pub(super) fn versions(record: &MetadataRecord) -> Versions {
            match record {
                $(MetadataRecord::$variant(_) => $record::VERSIONS,)+
            }
        }

        pub(super) fn write(record: &MetadataRecord, writer: &mut Writer, version: i16) {
            match record {
                $(MetadataRecord::$variant(record) => record.encode(writer, version),)+
            }
        }

        pub(super) fn read(
            reader: &mut Reader<'_>,
            api_key: u32,
            version: u32,
        ) -> Result<(MetadataRecord, i16), RecordError> {
            match i16::try_from(api_key) {
                $(Ok($record::KEY) => read_body::<$record>(reader, version),)+
                Ok(_) | Err(_) => Err(RecordError::UnknownType { api_key, version }),
            }
        }
    };
}

record_types! {
    RegisterBroker(RegisterBrokerRecord),
    UnregisterBroker(UnregisterBrokerRecord),
    Topic(TopicRecord),
    Partition(PartitionRecord),
    Config(ConfigRecord),
    PartitionChange(PartitionChangeRecord),
    FenceBroker(FenceBrokerRecord),
    UnfenceBroker(UnfenceBrokerRecord),
    RemoveTopic(RemoveTopicRecord),
    DelegationToken(DelegationTokenRecord),
    UserScramCredential(UserScramCredentialRecord),
    FeatureLevel(FeatureLevelRecord),
    ClientQuota(ClientQuotaRecord),
    ProducerIds(ProducerIdsRecord),
    BrokerRegistrationChange(BrokerRegistrationChangeRecord),
    AccessControlEntry(AccessControlEntryRecord),
    RemoveAccessControlEntry(RemoveAccessControlEntryRecord),
    NoOp(NoOpRecord),
    ZkMigrationState(ZkMigrationStateRecord),
    RemoveUserScramCredential(RemoveUserScramCredentialRecord),
    BeginTransaction(BeginTransactionRecord),
    EndTransaction(EndTransactionRecord),
    AbortTransaction(AbortTransactionRecord),
    RemoveDelegationToken(RemoveDelegationTokenRecord),
    RegisterController(RegisterControllerRecord),
    ClearElr(ClearElrRecord),
}

wire! {
    BrokerEndpoint {
        name: String, 0+;
        host: String, 0+;
        port: u16, 0+;
        security_protocol: i16, 0+;
    }
}

wire! {
    BrokerFeature {
        name: String, 0+;
        min_supported_version: i16, 0+;
        max_supported_version: i16, 0+;
    }
}

message_for! {
    RegisterBrokerRecord, key 0, versions 0-4, flexible 0+ {
        broker_id: i32, 0+;
        is_migrating_zk_broker: bool, 2+, default false;
        incarnation_id: TopicId, 0+;
        broker_epoch: i64, 0+;
        end_points: Vec<BrokerEndpoint>, 0+;
        features: Vec<BrokerFeature>, 0+;
        rack: Option<String>, 0+, nullable 0+;
        fenced: bool, 0+, default true;
        in_controlled_shutdown: bool, 1+, default false;
        log_dirs: Vec<TopicId>, 3+, tag 0 3+;
        cordoned_log_dirs: Option<Vec<TopicId>>, 4+, nullable 4+ default null, tag 1 4+;
    }
}

message_for! {
    UnregisterBrokerRecord, key 1, versions 0-0, flexible 0+ {
        broker_id: i32, 0+;
        broker_epoch: i64, 0+;
    }
}

message_for! {
    TopicRecord, key 2, versions 0-0, flexible 0+ {
        name: String, 0+;
        topic_id: TopicId, 0+;
    }
}

message_for! {
    PartitionRecord, key 3, versions 0-2, flexible 0+ {
        partition_id: i32, 0+, default -1;
        topic_id: TopicId, 0+;
        replicas: Vec<i32>, 0+;
        isr: Vec<i32>, 0+;
        removing_replicas: Vec<i32>, 0+;
        adding_replicas: Vec<i32>, 0+;
        leader: i32, 0+, default -1;
        leader_recovery_state: i8, 0+, tag 0 0+, default 0;
        leader_epoch: i32, 0+, default -1;
        partition_epoch: i32, 0+, default -1;
        directories: Vec<TopicId>, 1+;
        eligible_leader_replicas: Option<Vec<i32>>, 2+, nullable 2+ default null, tag 1 2+;
        last_known_elr: Option<Vec<i32>>, 2+, nullable 2+ default null, tag 2 2+;
    }
}

message_for! {
    ConfigRecord, key 4, versions 0-0, flexible 0+ {
        resource_type: i8, 0+;
        resource_name: String, 0+;
        name: String, 0+;
        value: Option<String>, 0+, nullable 0+;
    }
}

message_for! {
    PartitionChangeRecord, key 5, versions 0-2, flexible 0+ {
        partition_id: i32, 0+, default -1;
        topic_id: TopicId, 0+;
        isr: Option<Vec<i32>>, 0+, nullable 0+ default null, tag 0 0+;
        leader: i32, 0+, tag 1 0+, default -2;
        replicas: Option<Vec<i32>>, 0+, nullable 0+ default null, tag 2 0+;
        removing_replicas: Option<Vec<i32>>, 0+, nullable 0+ default null, tag 3 0+;
        adding_replicas: Option<Vec<i32>>, 0+, nullable 0+ default null, tag 4 0+;
        leader_recovery_state: i8, 0+, tag 5 0+, default -1;
        directories: Option<Vec<TopicId>>, 1+, nullable 1+ default null, tag 8 1+;
        eligible_leader_replicas: Option<Vec<i32>>, 2+, nullable 2+ default null, tag 6 2+;
        last_known_elr: Option<Vec<i32>>, 2+, nullable 2+ default null, tag 7 2+;
    }
}

message_for! {
    FenceBrokerRecord, key 7, versions 0-0, flexible 0+ {
        id: i32, 0+;
        epoch: i64, 0+;
    }
}

message_for! {
    UnfenceBrokerRecord, key 8, versions 0-0, flexible 0+ {
        id: i32, 0+;
        epoch: i64, 0+;
    }
}

message_for! {
    RemoveTopicRecord, key 9, versions 0-0, flexible 0+ {
        topic_id: TopicId, 0+;
    }
}

message_for! {
    DelegationTokenRecord, key 10, versions 0-0, flexible 0+ {
        owner: String, 0+;
        requester: String, 0+;
        renewers: Vec<String>, 0+;
        issue_timestamp: i64, 0+;
        max_timestamp: i64, 0+;
        expiration_timestamp: i64, 0+;
        token_id: String, 0+;
    }
}

message_for! {
    UserScramCredentialRecord, key 11, versions 0-0, flexible 0+ {
        name: String, 0+;
        mechanism: i8, 0+;
        salt: Bytes, 0+;
        stored_key: Bytes, 0+;
        server_key: Bytes, 0+;
        iterations: i32, 0+;
    }
}

message_for! {
    FeatureLevelRecord, key 12, versions 0-0, flexible 0+ {
        name: String, 0+;
        feature_level: i16, 0+;
    }
}

wire! {
    EntityData {
        entity_type: String, 0+;
        entity_name: Option<String>, 0+, nullable 0+;
    }
}

message_for! {
    ClientQuotaRecord, key 14, versions 0-0, flexible 0+ {
        entity: Vec<EntityData>, 0+;
        key: String, 0+;
        value: f64, 0+;
        remove: bool, 0+;
    }
}

message_for! {
    ProducerIdsRecord, key 15, versions 0-0, flexible 0+ {
        broker_id: i32, 0+;
        broker_epoch: i64, 0+, default -1;
        next_producer_id: i64, 0+;
    }
}

message_for! {
    BrokerRegistrationChangeRecord, key 17, versions 0-3, flexible 0+ {
        broker_id: i32, 0+;
        broker_epoch: i64, 0+;
        fenced: i8, 0+, tag 0 0+;
        in_controlled_shutdown: i8, 1+, tag 1 1+;
        log_dirs: Vec<TopicId>, 2+, tag 2 2+;
        cordoned_log_dirs: Option<Vec<TopicId>>, 3+, nullable 3+ default null, tag 3 3+;
    }
}

message_for! {
    AccessControlEntryRecord, key 18, versions 0-0, flexible 0+ {
        id: TopicId, 0+;
        resource_type: i8, 0+;
        resource_name: String, 0+;
        pattern_type: i8, 0+;
        principal: String, 0+;
        host: String, 0+;
        operation: i8, 0+;
        permission_type: i8, 0+;
    }
}

message_for! {
    RemoveAccessControlEntryRecord, key 19, versions 0-0, flexible 0+ {
        id: TopicId, 0+;
    }
}

message_for! {
    NoOpRecord, key 20, versions 0-0, flexible 0+ {}
}

message_for! {
    ZkMigrationStateRecord, key 21, versions 0-0, flexible 0+ {
        zk_migration_state: i8, 0+;
    }
}

message_for! {
    RemoveUserScramCredentialRecord, key 22, versions 0-0, flexible 0+ {
        name: String, 0+;
        mechanism: i8, 0+;
    }
}

message_for! {
    BeginTransactionRecord, key 23, versions 0-0, flexible 0+ {
        name: Option<String>, 0+, nullable 0+ default null, tag 0 0+;
    }
}

message_for! {
    EndTransactionRecord, key 24, versions 0-0, flexible 0+ {}
}

message_for! {
    AbortTransactionRecord, key 25, versions 0-0, flexible 0+ {
        reason: Option<String>, 0+, nullable 0+ default null, tag 0 0+;
    }
}

message_for! {
    RemoveDelegationTokenRecord, key 26, versions 0-0, flexible 0+ {
        token_id: String, 0+;
    }
}

wire! {
    ControllerEndpoint {
        name: String, 0+;
        host: String, 0+;
        port: u16, 0+;
        security_protocol: i16, 0+;
    }
}

wire! {
    ControllerFeature {
        name: String, 0+;
        min_supported_version: i16, 0+;
        max_supported_version: i16, 0+;
    }
}

message_for! {
    RegisterControllerRecord, key 27, versions 0-0, flexible 0+ {
        controller_id: i32, 0+;
        incarnation_id: TopicId, 0+;
        zk_migration_ready: bool, 0+;
        end_points: Vec<ControllerEndpoint>, 0+;
        features: Vec<ControllerFeature>, 0+;
    }
}

message_for! {
    ClearElrRecord, key 28, versions 0-0, flexible 0+ {
        topic_name: String, 0+;
    }
}
