//! The API table: every API served, at exactly the version range of Apache Kafka 4.3.
//!
//! 1. One row per API; ApiVersions advertises the table, [`admit`] checks every request against it before its body is
//!    looked at.
//! 2. `advertised_min` differs from `min` for Produce alone: librdkafka takes the presence of version 0 for the ability to
//!    compress (KAFKA-18659).

use crate::codec::{Message, Versions};
use crate::message::add_offsets_to_txn::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};
use crate::message::add_partitions_to_txn::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
};
use crate::message::alter_configs::{AlterConfigsRequest, AlterConfigsResponse};
use crate::message::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
};
use crate::message::alter_replica_log_dirs::{
    AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse,
};
use crate::message::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use crate::message::consumer_group_describe::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse,
};
use crate::message::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
};
use crate::message::create_acls::{CreateAclsRequest, CreateAclsResponse};
use crate::message::create_partitions::{CreatePartitionsRequest, CreatePartitionsResponse};
use crate::message::create_topics::{CreateTopicsRequest, CreateTopicsResponse};
use crate::message::delete_acls::{DeleteAclsRequest, DeleteAclsResponse};
use crate::message::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use crate::message::delete_records::{DeleteRecordsRequest, DeleteRecordsResponse};
use crate::message::delete_topics::{DeleteTopicsRequest, DeleteTopicsResponse};
use crate::message::describe_acls::{DescribeAclsRequest, DescribeAclsResponse};
use crate::message::describe_cluster::{DescribeClusterRequest, DescribeClusterResponse};
use crate::message::describe_configs::{DescribeConfigsRequest, DescribeConfigsResponse};
use crate::message::describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse};
use crate::message::describe_log_dirs::{DescribeLogDirsRequest, DescribeLogDirsResponse};
use crate::message::describe_producers::{DescribeProducersRequest, DescribeProducersResponse};
use crate::message::describe_quorum::{DescribeQuorumRequest, DescribeQuorumResponse};
use crate::message::describe_topic_partitions::{
    DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
};
use crate::message::describe_transactions::{
    DescribeTransactionsRequest, DescribeTransactionsResponse,
};
use crate::message::elect_leaders::{ElectLeadersRequest, ElectLeadersResponse};
use crate::message::end_txn::{EndTxnRequest, EndTxnResponse};
use crate::message::fetch::{FetchRequest, FetchResponse};
use crate::message::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use crate::message::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use crate::message::incremental_alter_configs::{
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};
use crate::message::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use crate::message::join_group::{JoinGroupRequest, JoinGroupResponse};
use crate::message::leave_group::{LeaveGroupRequest, LeaveGroupResponse};
use crate::message::list_config_resources::{
    ListConfigResourcesRequest, ListConfigResourcesResponse,
};
use crate::message::list_groups::{ListGroupsRequest, ListGroupsResponse};
use crate::message::list_offsets::{ListOffsetsRequest, ListOffsetsResponse};
use crate::message::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};
use crate::message::list_transactions::{ListTransactionsRequest, ListTransactionsResponse};
use crate::message::metadata::{MetadataRequest, MetadataResponse};
use crate::message::offset_commit::{OffsetCommitRequest, OffsetCommitResponse};
use crate::message::offset_delete::{OffsetDeleteRequest, OffsetDeleteResponse};
use crate::message::offset_fetch::{OffsetFetchRequest, OffsetFetchResponse};
use crate::message::offset_for_leader_epoch::{
    OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
};
use crate::message::produce::{ProduceRequest, ProduceResponse};
use crate::message::sync_group::{SyncGroupRequest, SyncGroupResponse};
use crate::message::txn_offset_commit::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};
use crate::message::unregister_broker::{UnregisterBrokerRequest, UnregisterBrokerResponse};
use crate::message::update_features::{UpdateFeaturesRequest, UpdateFeaturesResponse};
use crate::message::write_txn_markers::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};

/// An API that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i16)]
pub enum ApiKey {
    /// Appends record batches.
    Produce = 0,
    /// Reads records.
    Fetch = 1,
    /// Offsets by time.
    ListOffsets = 2,
    /// Brokers, topics, leaders.
    Metadata = 3,
    /// Commits a group's offsets.
    OffsetCommit = 8,
    /// Committed offsets.
    OffsetFetch = 9,
    /// Who coordinates a group.
    FindCoordinator = 10,
    /// Takes part in a group's next generation.
    JoinGroup = 11,
    /// A member is alive.
    Heartbeat = 12,
    /// Members leave their group.
    LeaveGroup = 13,
    /// The assignment of a generation.
    SyncGroup = 14,
    /// Groups with their members.
    DescribeGroups = 15,
    /// Which groups there are.
    ListGroups = 16,
    /// Which APIs and versions are served.
    ApiVersions = 18,
    /// Creates topics.
    CreateTopics = 19,
    /// Deletes topics.
    DeleteTopics = 20,
    /// Moves log starts up.
    DeleteRecords = 21,
    /// Producer ids.
    InitProducerId = 22,
    /// Where leader epochs end.
    OffsetForLeaderEpoch = 23,
    /// Partitions join transactions.
    AddPartitionsToTxn = 24,
    /// A group's offsets join a transaction.
    AddOffsetsToTxn = 25,
    /// Commits or aborts a transaction.
    EndTxn = 26,
    /// Ends transactions in their partitions.
    WriteTxnMarkers = 27,
    /// Commits a group's offsets in a transaction.
    TxnOffsetCommit = 28,
    /// Which ACLs there are.
    DescribeAcls = 29,
    /// Adds ACLs.
    CreateAcls = 30,
    /// Removes ACLs.
    DeleteAcls = 31,
    /// What is configured.
    DescribeConfigs = 32,
    /// Replaces configurations.
    AlterConfigs = 33,
    /// Moves partitions between log directories.
    AlterReplicaLogDirs = 34,
    /// The log directories.
    DescribeLogDirs = 35,
    /// Adds partitions.
    CreatePartitions = 37,
    /// Deletes groups.
    DeleteGroups = 42,
    /// Elects leaders.
    ElectLeaders = 43,
    /// Changes single configurations.
    IncrementalAlterConfigs = 44,
    /// Moves partitions to other brokers.
    AlterPartitionReassignments = 45,
    /// Which partitions are being moved.
    ListPartitionReassignments = 46,
    /// Forgets committed offsets.
    OffsetDelete = 47,
    /// Who keeps the metadata log.
    DescribeQuorum = 55,
    /// Changes levels of features.
    UpdateFeatures = 57,
    /// Who is in the cluster.
    DescribeCluster = 60,
    /// Which producers a partition remembers.
    DescribeProducers = 61,
    /// Forgets a broker.
    UnregisterBroker = 64,
    /// Where transactional ids stand.
    DescribeTransactions = 65,
    /// Which transactional ids there are.
    ListTransactions = 66,
    /// A member of a consumer group speaks.
    ConsumerGroupHeartbeat = 68,
    /// Consumer groups with their members.
    ConsumerGroupDescribe = 69,
    /// Which resources have a configuration.
    ListConfigResources = 74,
    /// Topics, a page at a time.
    DescribeTopicPartitions = 75,
}

impl ApiKey {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// The API of a number on the wire.
    #[must_use]
    pub fn from_code(code: i16) -> Option<Self> {
        row(code).map(|row| row.key)
    }
}

/// How requests of an API order with others of their connection (DESIGN §8.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Runs beside earlier requests of the same class.
    Produce,
    /// Runs alone.
    Barrier,
}

/// One API's row.
#[derive(Clone, Copy, Debug)]
pub struct ApiRow {
    /// The API.
    pub key: ApiKey,
    /// Kafka's name.
    pub name: &'static str,
    /// The lowest version served.
    pub min: i16,
    /// The highest version served.
    pub max: i16,
    /// The lowest version that ApiVersions names.
    pub advertised_min: i16,
    /// The first version with compact lengths, tagged fields and a flexible header; the largest number when none has.
    pub flexible_from: i16,
    /// How its requests order with others.
    pub class: Class,
}

impl ApiRow {
    const fn of<Q: Message, S: Message>(key: ApiKey, name: &'static str, class: Class) -> Self {
        assert!(Q::KEY == key.code());
        assert!(S::KEY == key.code());
        assert!(Q::VERSIONS.min == S::VERSIONS.min);
        assert!(Q::VERSIONS.max == S::VERSIONS.max);
        assert!(Q::FLEXIBLE.min == S::FLEXIBLE.min);
        Self {
            key,
            name,
            min: Q::VERSIONS.min,
            max: Q::VERSIONS.max,
            advertised_min: Q::VERSIONS.min,
            flexible_from: if Q::FLEXIBLE.min <= Q::FLEXIBLE.max {
                Q::FLEXIBLE.min
            } else {
                i16::MAX
            },
            class,
        }
    }

    /// The versions served.
    #[must_use]
    pub const fn versions(&self) -> Versions {
        Versions::range(self.min, self.max)
    }

    /// The version of a request's header.
    #[must_use]
    pub const fn request_header_version(&self, version: i16) -> i16 {
        if self.flexible_from <= version { 2 } else { 1 }
    }

    /// The version of a response's header: 0 for ApiVersions, always, since its reader may know no better.
    #[must_use]
    pub const fn response_header_version(&self, version: i16) -> i16 {
        let is_flexible = self.flexible_from <= version;
        if is_flexible && self.key.code() != ApiKey::ApiVersions.code() {
            1
        } else {
            0
        }
    }
}

static TABLE: [ApiRow; 49] = [
    ApiRow {
        advertised_min: 0,
        ..ApiRow::of::<ProduceRequest, ProduceResponse>(ApiKey::Produce, "Produce", Class::Produce)
    },
    ApiRow::of::<FetchRequest, FetchResponse>(ApiKey::Fetch, "Fetch", Class::Barrier),
    ApiRow::of::<ListOffsetsRequest, ListOffsetsResponse>(
        ApiKey::ListOffsets,
        "ListOffsets",
        Class::Barrier,
    ),
    ApiRow::of::<MetadataRequest, MetadataResponse>(ApiKey::Metadata, "Metadata", Class::Barrier),
    ApiRow::of::<OffsetCommitRequest, OffsetCommitResponse>(
        ApiKey::OffsetCommit,
        "OffsetCommit",
        Class::Barrier,
    ),
    ApiRow::of::<OffsetFetchRequest, OffsetFetchResponse>(
        ApiKey::OffsetFetch,
        "OffsetFetch",
        Class::Barrier,
    ),
    ApiRow::of::<FindCoordinatorRequest, FindCoordinatorResponse>(
        ApiKey::FindCoordinator,
        "FindCoordinator",
        Class::Barrier,
    ),
    ApiRow::of::<JoinGroupRequest, JoinGroupResponse>(
        ApiKey::JoinGroup,
        "JoinGroup",
        Class::Barrier,
    ),
    ApiRow::of::<HeartbeatRequest, HeartbeatResponse>(
        ApiKey::Heartbeat,
        "Heartbeat",
        Class::Barrier,
    ),
    ApiRow::of::<LeaveGroupRequest, LeaveGroupResponse>(
        ApiKey::LeaveGroup,
        "LeaveGroup",
        Class::Barrier,
    ),
    ApiRow::of::<SyncGroupRequest, SyncGroupResponse>(
        ApiKey::SyncGroup,
        "SyncGroup",
        Class::Barrier,
    ),
    ApiRow::of::<DescribeGroupsRequest, DescribeGroupsResponse>(
        ApiKey::DescribeGroups,
        "DescribeGroups",
        Class::Barrier,
    ),
    ApiRow::of::<ListGroupsRequest, ListGroupsResponse>(
        ApiKey::ListGroups,
        "ListGroups",
        Class::Barrier,
    ),
    ApiRow::of::<ApiVersionsRequest, ApiVersionsResponse>(
        ApiKey::ApiVersions,
        "ApiVersions",
        Class::Barrier,
    ),
    ApiRow::of::<CreateTopicsRequest, CreateTopicsResponse>(
        ApiKey::CreateTopics,
        "CreateTopics",
        Class::Barrier,
    ),
    ApiRow::of::<DeleteTopicsRequest, DeleteTopicsResponse>(
        ApiKey::DeleteTopics,
        "DeleteTopics",
        Class::Barrier,
    ),
    ApiRow::of::<DeleteRecordsRequest, DeleteRecordsResponse>(
        ApiKey::DeleteRecords,
        "DeleteRecords",
        Class::Barrier,
    ),
    ApiRow::of::<InitProducerIdRequest, InitProducerIdResponse>(
        ApiKey::InitProducerId,
        "InitProducerId",
        Class::Barrier,
    ),
    ApiRow::of::<OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse>(
        ApiKey::OffsetForLeaderEpoch,
        "OffsetForLeaderEpoch",
        Class::Barrier,
    ),
    ApiRow::of::<AddPartitionsToTxnRequest, AddPartitionsToTxnResponse>(
        ApiKey::AddPartitionsToTxn,
        "AddPartitionsToTxn",
        Class::Barrier,
    ),
    ApiRow::of::<AddOffsetsToTxnRequest, AddOffsetsToTxnResponse>(
        ApiKey::AddOffsetsToTxn,
        "AddOffsetsToTxn",
        Class::Barrier,
    ),
    ApiRow::of::<EndTxnRequest, EndTxnResponse>(ApiKey::EndTxn, "EndTxn", Class::Barrier),
    ApiRow::of::<WriteTxnMarkersRequest, WriteTxnMarkersResponse>(
        ApiKey::WriteTxnMarkers,
        "WriteTxnMarkers",
        Class::Barrier,
    ),
    ApiRow::of::<TxnOffsetCommitRequest, TxnOffsetCommitResponse>(
        ApiKey::TxnOffsetCommit,
        "TxnOffsetCommit",
        Class::Barrier,
    ),
    ApiRow::of::<DescribeAclsRequest, DescribeAclsResponse>(
        ApiKey::DescribeAcls,
        "DescribeAcls",
        Class::Barrier,
    ),
    ApiRow::of::<CreateAclsRequest, CreateAclsResponse>(
        ApiKey::CreateAcls,
        "CreateAcls",
        Class::Barrier,
    ),
    ApiRow::of::<DeleteAclsRequest, DeleteAclsResponse>(
        ApiKey::DeleteAcls,
        "DeleteAcls",
        Class::Barrier,
    ),
    ApiRow::of::<DescribeConfigsRequest, DescribeConfigsResponse>(
        ApiKey::DescribeConfigs,
        "DescribeConfigs",
        Class::Barrier,
    ),
    ApiRow::of::<AlterConfigsRequest, AlterConfigsResponse>(
        ApiKey::AlterConfigs,
        "AlterConfigs",
        Class::Barrier,
    ),
    ApiRow::of::<AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse>(
        ApiKey::AlterReplicaLogDirs,
        "AlterReplicaLogDirs",
        Class::Barrier,
    ),
    ApiRow::of::<DescribeLogDirsRequest, DescribeLogDirsResponse>(
        ApiKey::DescribeLogDirs,
        "DescribeLogDirs",
        Class::Barrier,
    ),
    ApiRow::of::<CreatePartitionsRequest, CreatePartitionsResponse>(
        ApiKey::CreatePartitions,
        "CreatePartitions",
        Class::Barrier,
    ),
    ApiRow::of::<DeleteGroupsRequest, DeleteGroupsResponse>(
        ApiKey::DeleteGroups,
        "DeleteGroups",
        Class::Barrier,
    ),
    ApiRow::of::<ElectLeadersRequest, ElectLeadersResponse>(
        ApiKey::ElectLeaders,
        "ElectLeaders",
        Class::Barrier,
    ),
    ApiRow::of::<IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse>(
        ApiKey::IncrementalAlterConfigs,
        "IncrementalAlterConfigs",
        Class::Barrier,
    ),
    ApiRow::of::<AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse>(
        ApiKey::AlterPartitionReassignments,
        "AlterPartitionReassignments",
        Class::Barrier,
    ),
    ApiRow::of::<ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse>(
        ApiKey::ListPartitionReassignments,
        "ListPartitionReassignments",
        Class::Barrier,
    ),
    ApiRow::of::<OffsetDeleteRequest, OffsetDeleteResponse>(
        ApiKey::OffsetDelete,
        "OffsetDelete",
        Class::Barrier,
    ),
    ApiRow::of::<DescribeQuorumRequest, DescribeQuorumResponse>(
        ApiKey::DescribeQuorum,
        "DescribeQuorum",
        Class::Barrier,
    ),
    ApiRow::of::<UpdateFeaturesRequest, UpdateFeaturesResponse>(
        ApiKey::UpdateFeatures,
        "UpdateFeatures",
        Class::Barrier,
    ),
    ApiRow::of::<DescribeClusterRequest, DescribeClusterResponse>(
        ApiKey::DescribeCluster,
        "DescribeCluster",
        Class::Barrier,
    ),
    ApiRow::of::<DescribeProducersRequest, DescribeProducersResponse>(
        ApiKey::DescribeProducers,
        "DescribeProducers",
        Class::Barrier,
    ),
    ApiRow::of::<UnregisterBrokerRequest, UnregisterBrokerResponse>(
        ApiKey::UnregisterBroker,
        "UnregisterBroker",
        Class::Barrier,
    ),
    ApiRow::of::<DescribeTransactionsRequest, DescribeTransactionsResponse>(
        ApiKey::DescribeTransactions,
        "DescribeTransactions",
        Class::Barrier,
    ),
    ApiRow::of::<ListTransactionsRequest, ListTransactionsResponse>(
        ApiKey::ListTransactions,
        "ListTransactions",
        Class::Barrier,
    ),
    ApiRow::of::<ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse>(
        ApiKey::ConsumerGroupHeartbeat,
        "ConsumerGroupHeartbeat",
        Class::Barrier,
    ),
    ApiRow::of::<ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse>(
        ApiKey::ConsumerGroupDescribe,
        "ConsumerGroupDescribe",
        Class::Barrier,
    ),
    ApiRow::of::<ListConfigResourcesRequest, ListConfigResourcesResponse>(
        ApiKey::ListConfigResources,
        "ListConfigResources",
        Class::Barrier,
    ),
    ApiRow::of::<DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse>(
        ApiKey::DescribeTopicPartitions,
        "DescribeTopicPartitions",
        Class::Barrier,
    ),
];

/// All rows, by key.
#[must_use]
pub fn table() -> &'static [ApiRow] {
    &TABLE
}

/// The row of the API with this number on the wire.
#[must_use]
pub fn row(code: i16) -> Option<&'static ApiRow> {
    TABLE.iter().find(|row| row.key.code() == code)
}

/// What becomes of a request, judged by its key and version alone.
#[derive(Clone, Copy, Debug)]
pub enum Admission {
    /// Decode it.
    Serve(&'static ApiRow),
    /// Answer [`ApiVersionsResponse::unsupported_version`] in version 0 and go on; the body is not looked at.
    AnswerUnsupportedVersion,
    /// Close the connection.
    Close,
}

/// Judges a request by its key and version.
#[must_use]
pub fn admit(api_key: i16, api_version: i16) -> Admission {
    match row(api_key) {
        Some(row) if row.versions().contains(api_version) => Admission::Serve(row),
        Some(row) if row.key == ApiKey::ApiVersions => Admission::AnswerUnsupportedVersion,
        Some(_) | None => Admission::Close,
    }
}
