//! The records of `__cluster_metadata`: every fact of a cluster, one struct per KRaft record type.
//!
//! Invariants:
//! 1. [`MetadataRecord`] has exactly one variant per record type of Apache Kafka 4.3, so that a log it wrote has no
//!    record that we drop.
//! 2. `Default` gives Kafka's default of each field.
//!
//! What a record does to the image is `machine::image`'s business.

use bytes::Bytes;

use crate::id::TopicId;

/// `PartitionChangeRecord::leader` when the record does not touch the leader.
pub const NO_LEADER_CHANGE: i32 = -2;
/// A partition's leader while it has none.
pub const NO_LEADER: i32 = -1;
/// `PartitionChangeRecord::leader_recovery_state` when the record does not touch it.
pub const NO_RECOVERY_CHANGE: i8 = -1;
/// `ConfigRecord::resource_type` of a topic.
pub const RESOURCE_TOPIC: i8 = 2;
/// `ConfigRecord::resource_type` of a broker; the empty name stands for all brokers.
pub const RESOURCE_BROKER: i8 = 4;
/// Kafka's number of a broker's loggers as a resource; no record has it.
pub const RESOURCE_BROKER_LOGGER: i8 = 8;
/// `ConfigRecord::resource_type` of a client metrics subscription.
pub const RESOURCE_CLIENT_METRICS: i8 = 16;
/// `ConfigRecord::resource_type` of a group.
pub const RESOURCE_GROUP: i8 = 32;
/// The name of the feature that versions the metadata records.
pub const METADATA_VERSION_FEATURE: &str = "metadata.version";
/// The name of the feature that says how transactions work (KIP-890).
pub const TRANSACTION_VERSION_FEATURE: &str = "transaction.version";
/// The name of the feature with the consumer group protocol (KIP-848).
pub const GROUP_VERSION_FEATURE: &str = "group.version";
/// The name of the feature that puts the quorum's voters into its log (KIP-853).
pub const KRAFT_VERSION_FEATURE: &str = "kraft.version";

macro_rules! metadata_records {
    ($($(#[$doc:meta])* $variant:ident($record:ident) = $key:literal,)+) => {
        /// A record of the metadata log; [`MetadataRecord::api_key`] is its type on disk.
        #[derive(Clone, Debug, PartialEq)]
        pub enum MetadataRecord {
            $($(#[$doc])* $variant($record),)+
        }

        impl MetadataRecord {
            /// The record type's number on disk.
            #[must_use]
            pub fn api_key(&self) -> u32 {
                match self {
                    $(Self::$variant(_) => $key,)+
                }
            }

            /// The record type's name, as Kafka spells it.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => stringify!($record),)+
                }
            }
        }

        $(impl From<$record> for MetadataRecord {
            fn from(record: $record) -> Self {
                Self::$variant(record)
            }
        })+
    };
}

metadata_records! {
    /// A broker registers.
    RegisterBroker(RegisterBrokerRecord) = 0,
    /// A broker leaves for good.
    UnregisterBroker(UnregisterBrokerRecord) = 1,
    /// A topic comes into being.
    Topic(TopicRecord) = 2,
    /// A partition comes into being (or is set whole, in a snapshot).
    Partition(PartitionRecord) = 3,
    /// A config value is set or removed.
    Config(ConfigRecord) = 4,
    /// Some fields of a partition change.
    PartitionChange(PartitionChangeRecord) = 5,
    /// A broker is fenced.
    FenceBroker(FenceBrokerRecord) = 7,
    /// A broker is unfenced.
    UnfenceBroker(UnfenceBrokerRecord) = 8,
    /// A topic is deleted.
    RemoveTopic(RemoveTopicRecord) = 9,
    /// A delegation token is set.
    DelegationToken(DelegationTokenRecord) = 10,
    /// A SCRAM credential is set.
    UserScramCredential(UserScramCredentialRecord) = 11,
    /// A feature level is finalized.
    FeatureLevel(FeatureLevelRecord) = 12,
    /// A client quota is set or removed.
    ClientQuota(ClientQuotaRecord) = 14,
    /// Producer ids below a bound are handed out.
    ProducerIds(ProducerIdsRecord) = 15,
    /// Some fields of a broker's registration change.
    BrokerRegistrationChange(BrokerRegistrationChangeRecord) = 17,
    /// An ACL is added.
    AccessControlEntry(AccessControlEntryRecord) = 18,
    /// An ACL is removed.
    RemoveAccessControlEntry(RemoveAccessControlEntryRecord) = 19,
    /// Nothing: keeps the log advancing.
    NoOp(NoOpRecord) = 20,
    /// The state of a migration from ZooKeeper; of old logs only.
    ZkMigrationState(ZkMigrationStateRecord) = 21,
    /// A SCRAM credential is removed.
    RemoveUserScramCredential(RemoveUserScramCredentialRecord) = 22,
    /// The records up to the matching end belong together.
    BeginTransaction(BeginTransactionRecord) = 23,
    /// The open metadata transaction counts.
    EndTransaction(EndTransactionRecord) = 24,
    /// The open metadata transaction never happened.
    AbortTransaction(AbortTransactionRecord) = 25,
    /// A delegation token is removed.
    RemoveDelegationToken(RemoveDelegationTokenRecord) = 26,
    /// A controller registers.
    RegisterController(RegisterControllerRecord) = 27,
    /// Eligible leader replicas of a topic, or of all, are forgotten.
    ClearElr(ClearElrRecord) = 28,
}

/// Registers a broker incarnation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterBrokerRecord {
    /// The broker's node id.
    pub broker_id: i32,
    /// Of a migration from ZooKeeper; false today.
    pub is_migrating_zk_broker: bool,
    /// A random id of this run of the broker.
    pub incarnation_id: TopicId,
    /// The broker epoch: the offset of this record.
    pub broker_epoch: i64,
    /// Where clients and brokers reach it.
    pub end_points: Vec<BrokerEndpoint>,
    /// The feature ranges it supports.
    pub features: Vec<BrokerFeature>,
    /// Its rack.
    pub rack: Option<String>,
    /// Whether it is fenced: registered, but not serving.
    pub fenced: bool,
    /// Whether it is on its way down.
    pub in_controlled_shutdown: bool,
    /// The ids of its online log directories.
    pub log_dirs: Vec<TopicId>,
    /// The ids of the directories that take no new partitions.
    pub cordoned_log_dirs: Option<Vec<TopicId>>,
}

impl Default for RegisterBrokerRecord {
    fn default() -> Self {
        Self {
            broker_id: 0,
            is_migrating_zk_broker: false,
            incarnation_id: TopicId::ZERO,
            broker_epoch: 0,
            end_points: Vec::new(),
            features: Vec::new(),
            rack: None,
            fenced: true,
            in_controlled_shutdown: false,
            log_dirs: Vec::new(),
            cordoned_log_dirs: None,
        }
    }
}

/// A listener of a broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerEndpoint {
    /// The listener's name.
    pub name: String,
    /// The host to connect to.
    pub host: String,
    /// The port to connect to.
    pub port: u16,
    /// Kafka's number of the security protocol: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.
    pub security_protocol: i16,
}

/// A feature range of a broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerFeature {
    /// The feature's name.
    pub name: String,
    /// The lowest level.
    pub min_supported_version: i16,
    /// The highest level.
    pub max_supported_version: i16,
}

/// Unregisters a broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnregisterBrokerRecord {
    /// The broker's node id.
    pub broker_id: i32,
    /// The epoch of the registration that ends.
    pub broker_epoch: i64,
}

/// Names a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicRecord {
    /// The topic's name.
    pub name: String,
    /// Its id.
    pub topic_id: TopicId,
}

/// The whole state of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRecord {
    /// The partition's index in its topic.
    pub partition_id: i32,
    /// The topic's id.
    pub topic_id: TopicId,
    /// The brokers that hold it, the preferred leader first.
    pub replicas: Vec<i32>,
    /// The in-sync replicas.
    pub isr: Vec<i32>,
    /// Replicas about to leave.
    pub removing_replicas: Vec<i32>,
    /// Replicas about to join.
    pub adding_replicas: Vec<i32>,
    /// The leader, or [`NO_LEADER`].
    pub leader: i32,
    /// 0 recovered, 1 recovering from an unclean election.
    pub leader_recovery_state: i8,
    /// The leader epoch.
    pub leader_epoch: i32,
    /// The partition epoch.
    pub partition_epoch: i32,
    /// The log directory of each replica, in the order of `replicas`.
    pub directories: Vec<TopicId>,
    /// Replicas that may lead although out of sync (KIP-966).
    pub eligible_leader_replicas: Option<Vec<i32>>,
    /// The last replicas of that set that were known.
    pub last_known_elr: Option<Vec<i32>>,
}

impl Default for PartitionRecord {
    fn default() -> Self {
        Self {
            partition_id: -1,
            topic_id: TopicId::ZERO,
            replicas: Vec::new(),
            isr: Vec::new(),
            removing_replicas: Vec::new(),
            adding_replicas: Vec::new(),
            leader: NO_LEADER,
            leader_recovery_state: 0,
            leader_epoch: -1,
            partition_epoch: -1,
            directories: Vec::new(),
            eligible_leader_replicas: None,
            last_known_elr: None,
        }
    }
}

/// Sets or removes one config value of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigRecord {
    /// Kafka's number of the resource type: 2 topic, 4 broker, 16 client metrics, 32 group.
    pub resource_type: i8,
    /// The resource's name; empty for the default of all brokers.
    pub resource_name: String,
    /// The config's name.
    pub name: String,
    /// Its value; none removes it.
    pub value: Option<String>,
}

/// Changes some fields of a partition; what is absent stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionChangeRecord {
    /// The partition's index in its topic.
    pub partition_id: i32,
    /// The topic's id.
    pub topic_id: TopicId,
    /// The new in-sync replicas.
    pub isr: Option<Vec<i32>>,
    /// The new leader, [`NO_LEADER`], or [`NO_LEADER_CHANGE`]. Present, it raises the leader epoch even when equal.
    pub leader: i32,
    /// The new replicas.
    pub replicas: Option<Vec<i32>>,
    /// The new replicas about to leave.
    pub removing_replicas: Option<Vec<i32>>,
    /// The new replicas about to join.
    pub adding_replicas: Option<Vec<i32>>,
    /// The new recovery state, or [`NO_RECOVERY_CHANGE`].
    pub leader_recovery_state: i8,
    /// The new log directory of each replica.
    pub directories: Option<Vec<TopicId>>,
    /// The new eligible leader replicas.
    pub eligible_leader_replicas: Option<Vec<i32>>,
    /// The new last known eligible leader replicas.
    pub last_known_elr: Option<Vec<i32>>,
}

impl Default for PartitionChangeRecord {
    fn default() -> Self {
        Self {
            partition_id: -1,
            topic_id: TopicId::ZERO,
            isr: None,
            leader: NO_LEADER_CHANGE,
            replicas: None,
            removing_replicas: None,
            adding_replicas: None,
            leader_recovery_state: NO_RECOVERY_CHANGE,
            directories: None,
            eligible_leader_replicas: None,
            last_known_elr: None,
        }
    }
}

/// Fences a broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FenceBrokerRecord {
    /// The broker's node id.
    pub id: i32,
    /// Its epoch.
    pub epoch: i64,
}

/// Unfences a broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnfenceBrokerRecord {
    /// The broker's node id.
    pub id: i32,
    /// Its epoch.
    pub epoch: i64,
}

/// Deletes a topic with its partitions and configs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoveTopicRecord {
    /// The topic's id.
    pub topic_id: TopicId,
}

/// Sets a delegation token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DelegationTokenRecord {
    /// The owner's principal.
    pub owner: String,
    /// The principal that asked for it.
    pub requester: String,
    /// The principals that may renew it.
    pub renewers: Vec<String>,
    /// When it was issued, in ms.
    pub issue_timestamp: i64,
    /// When it ends at the latest, in ms.
    pub max_timestamp: i64,
    /// When it ends unless renewed, in ms.
    pub expiration_timestamp: i64,
    /// The token's id.
    pub token_id: String,
}

/// Sets a SCRAM credential.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UserScramCredentialRecord {
    /// The user.
    pub name: String,
    /// 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.
    pub mechanism: i8,
    /// The salt.
    pub salt: Bytes,
    /// The stored key.
    pub stored_key: Bytes,
    /// The server key.
    pub server_key: Bytes,
    /// The number of iterations.
    pub iterations: i32,
}

impl std::fmt::Debug for UserScramCredentialRecord {
    /// Keys stay out of logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserScramCredentialRecord")
            .field("name", &self.name)
            .field("mechanism", &self.mechanism)
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

/// Finalizes a feature level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureLevelRecord {
    /// The feature's name.
    pub name: String,
    /// The level; 0 removes the feature.
    pub feature_level: i16,
}

/// Sets or removes a client quota.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientQuotaRecord {
    /// Whom it binds.
    pub entity: Vec<EntityData>,
    /// The quota's name.
    pub key: String,
    /// Its value.
    pub value: f64,
    /// Whether it is removed.
    pub remove: bool,
}

/// A part of a quota's entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntityData {
    /// `user`, `client-id` or `ip`.
    pub entity_type: String,
    /// The name; none for the default entity.
    pub entity_name: Option<String>,
}

/// Hands out producer ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerIdsRecord {
    /// The broker that asked.
    pub broker_id: i32,
    /// Its epoch.
    pub broker_epoch: i64,
    /// The first id that is still free.
    pub next_producer_id: i64,
}

impl Default for ProducerIdsRecord {
    fn default() -> Self {
        Self {
            broker_id: 0,
            broker_epoch: -1,
            next_producer_id: 0,
        }
    }
}

/// Changes some fields of a broker's registration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerRegistrationChangeRecord {
    /// The broker's node id.
    pub broker_id: i32,
    /// The epoch of the registration.
    pub broker_epoch: i64,
    /// −1 unfence, 0 no change, 1 fence.
    pub fenced: i8,
    /// 0 no change, 1 on its way down.
    pub in_controlled_shutdown: i8,
    /// The new online log directories; empty is no change.
    pub log_dirs: Vec<TopicId>,
    /// The new cordoned directories; none is no change.
    pub cordoned_log_dirs: Option<Vec<TopicId>>,
}

/// Adds an ACL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessControlEntryRecord {
    /// The ACL's id.
    pub id: TopicId,
    /// Kafka's number of the resource type.
    pub resource_type: i8,
    /// The resource's name or prefix.
    pub resource_name: String,
    /// Kafka's number of the pattern type.
    pub pattern_type: i8,
    /// The principal.
    pub principal: String,
    /// The host.
    pub host: String,
    /// Kafka's number of the operation.
    pub operation: i8,
    /// Kafka's number of the permission.
    pub permission_type: i8,
}

/// Removes an ACL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoveAccessControlEntryRecord {
    /// The ACL's id.
    pub id: TopicId,
}

/// Does nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoOpRecord {}

/// The state of a migration from ZooKeeper.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZkMigrationStateRecord {
    /// 0 none, 1 migration, 2 pre-migration, 3 post-migration.
    pub zk_migration_state: i8,
}

/// Removes a SCRAM credential.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoveUserScramCredentialRecord {
    /// The user.
    pub name: String,
    /// 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.
    pub mechanism: i8,
}

/// Opens a metadata transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BeginTransactionRecord {
    /// What it is for.
    pub name: Option<String>,
}

/// Commits the open metadata transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndTransactionRecord {}

/// Aborts the open metadata transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AbortTransactionRecord {
    /// Why.
    pub reason: Option<String>,
}

/// Removes a delegation token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoveDelegationTokenRecord {
    /// The token's id.
    pub token_id: String,
}

/// Registers a controller incarnation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegisterControllerRecord {
    /// The controller's node id.
    pub controller_id: i32,
    /// A random id of this run of the controller.
    pub incarnation_id: TopicId,
    /// Of a migration from ZooKeeper; false today.
    pub zk_migration_ready: bool,
    /// Where it is reached.
    pub end_points: Vec<ControllerEndpoint>,
    /// The feature ranges it supports.
    pub features: Vec<ControllerFeature>,
}

/// A listener of a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerEndpoint {
    /// The listener's name.
    pub name: String,
    /// The host to connect to.
    pub host: String,
    /// The port to connect to.
    pub port: u16,
    /// Kafka's number of the security protocol.
    pub security_protocol: i16,
}

/// A feature range of a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerFeature {
    /// The feature's name.
    pub name: String,
    /// The lowest level.
    pub min_supported_version: i16,
    /// The highest level.
    pub max_supported_version: i16,
}

/// Forgets eligible leader replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClearElrRecord {
    /// The topic's name; empty for every topic.
    pub topic_name: String,
}
