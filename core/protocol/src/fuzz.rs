//! Every decoder as a plain function over bytes: for fuzzers, for property tests, and for a bounded run in the suite.
//!
//! [`Target::run`] holds what must be true of any bytes: decoding returns, and what it accepts is encoded, read back and
//! encoded again to the very same bytes.

use bytes::Bytes;

use crate::codec::{DecodeError, Kind, Message, Reader, Versions, Writer};
use crate::control_record;
use crate::group_record;
use crate::header::RequestHeader;
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
use crate::metadata_record::{self, LogRecord};

/// Decodes a body of a version, and encodes what was understood; the second value counts the bytes left over.
pub type Recode = fn(&Bytes, i16) -> Result<(Bytes, usize), DecodeError>;

/// One message type with everything a test needs of it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Kafka's name.
    pub name: &'static str,
    /// The API key or record type.
    pub key: i16,
    /// The versions spoken.
    pub versions: Versions,
    /// The flexible versions.
    pub flexible: Versions,
    /// The schema.
    pub kind: Kind,
    /// Reads and writes a body.
    pub recode: Recode,
    /// The target for a fuzzer: the first byte picks the version, the rest is the body.
    pub run: fn(&[u8]),
}

impl Target {
    /// The target of a message type.
    #[must_use]
    pub const fn of<M: Message>() -> Self {
        Self {
            name: M::NAME,
            key: M::KEY,
            versions: M::VERSIONS,
            flexible: M::FLEXIBLE,
            kind: M::KIND,
            recode: recode::<M>,
            run: run::<M>,
        }
    }
}

static TARGETS: &[Target] = &[
    Target::of::<ProduceRequest>(),
    Target::of::<ProduceResponse>(),
    Target::of::<FetchRequest>(),
    Target::of::<FetchResponse>(),
    Target::of::<ListOffsetsRequest>(),
    Target::of::<ListOffsetsResponse>(),
    Target::of::<MetadataRequest>(),
    Target::of::<MetadataResponse>(),
    Target::of::<ApiVersionsRequest>(),
    Target::of::<ApiVersionsResponse>(),
    Target::of::<CreateTopicsRequest>(),
    Target::of::<CreateTopicsResponse>(),
    Target::of::<DeleteTopicsRequest>(),
    Target::of::<DeleteTopicsResponse>(),
    Target::of::<DeleteRecordsRequest>(),
    Target::of::<DeleteRecordsResponse>(),
    Target::of::<InitProducerIdRequest>(),
    Target::of::<InitProducerIdResponse>(),
    Target::of::<OffsetForLeaderEpochRequest>(),
    Target::of::<OffsetForLeaderEpochResponse>(),
    Target::of::<DescribeConfigsRequest>(),
    Target::of::<DescribeConfigsResponse>(),
    Target::of::<AlterConfigsRequest>(),
    Target::of::<AlterConfigsResponse>(),
    Target::of::<CreatePartitionsRequest>(),
    Target::of::<CreatePartitionsResponse>(),
    Target::of::<IncrementalAlterConfigsRequest>(),
    Target::of::<IncrementalAlterConfigsResponse>(),
    Target::of::<DescribeClusterRequest>(),
    Target::of::<DescribeClusterResponse>(),
    Target::of::<DescribeLogDirsRequest>(),
    Target::of::<DescribeLogDirsResponse>(),
    Target::of::<ConsumerGroupDescribeRequest>(),
    Target::of::<ConsumerGroupDescribeResponse>(),
    Target::of::<ConsumerGroupHeartbeatRequest>(),
    Target::of::<ConsumerGroupHeartbeatResponse>(),
    Target::of::<DeleteGroupsRequest>(),
    Target::of::<DeleteGroupsResponse>(),
    Target::of::<DescribeGroupsRequest>(),
    Target::of::<DescribeGroupsResponse>(),
    Target::of::<FindCoordinatorRequest>(),
    Target::of::<FindCoordinatorResponse>(),
    Target::of::<HeartbeatRequest>(),
    Target::of::<HeartbeatResponse>(),
    Target::of::<JoinGroupRequest>(),
    Target::of::<JoinGroupResponse>(),
    Target::of::<LeaveGroupRequest>(),
    Target::of::<LeaveGroupResponse>(),
    Target::of::<ListGroupsRequest>(),
    Target::of::<ListGroupsResponse>(),
    Target::of::<WriteTxnMarkersRequest>(),
    Target::of::<WriteTxnMarkersResponse>(),
    Target::of::<AddPartitionsToTxnRequest>(),
    Target::of::<AddPartitionsToTxnResponse>(),
    Target::of::<AddOffsetsToTxnRequest>(),
    Target::of::<AddOffsetsToTxnResponse>(),
    Target::of::<EndTxnRequest>(),
    Target::of::<EndTxnResponse>(),
    Target::of::<TxnOffsetCommitRequest>(),
    Target::of::<TxnOffsetCommitResponse>(),
    Target::of::<DescribeTransactionsRequest>(),
    Target::of::<DescribeTransactionsResponse>(),
    Target::of::<ListTransactionsRequest>(),
    Target::of::<ListTransactionsResponse>(),
    Target::of::<OffsetCommitRequest>(),
    Target::of::<OffsetCommitResponse>(),
    Target::of::<OffsetDeleteRequest>(),
    Target::of::<OffsetDeleteResponse>(),
    Target::of::<OffsetFetchRequest>(),
    Target::of::<OffsetFetchResponse>(),
    Target::of::<SyncGroupRequest>(),
    Target::of::<SyncGroupResponse>(),
    Target::of::<AlterReplicaLogDirsRequest>(),
    Target::of::<AlterReplicaLogDirsResponse>(),
    Target::of::<DescribeAclsRequest>(),
    Target::of::<DescribeAclsResponse>(),
    Target::of::<CreateAclsRequest>(),
    Target::of::<CreateAclsResponse>(),
    Target::of::<DeleteAclsRequest>(),
    Target::of::<DeleteAclsResponse>(),
    Target::of::<ElectLeadersRequest>(),
    Target::of::<ElectLeadersResponse>(),
    Target::of::<AlterPartitionReassignmentsRequest>(),
    Target::of::<AlterPartitionReassignmentsResponse>(),
    Target::of::<ListPartitionReassignmentsRequest>(),
    Target::of::<ListPartitionReassignmentsResponse>(),
    Target::of::<DescribeQuorumRequest>(),
    Target::of::<DescribeQuorumResponse>(),
    Target::of::<DescribeProducersRequest>(),
    Target::of::<DescribeProducersResponse>(),
    Target::of::<UnregisterBrokerRequest>(),
    Target::of::<UnregisterBrokerResponse>(),
    Target::of::<DescribeTopicPartitionsRequest>(),
    Target::of::<DescribeTopicPartitionsResponse>(),
    Target::of::<UpdateFeaturesRequest>(),
    Target::of::<UpdateFeaturesResponse>(),
    Target::of::<ListConfigResourcesRequest>(),
    Target::of::<ListConfigResourcesResponse>(),
];

/// All requests and responses.
#[must_use]
pub fn targets() -> &'static [Target] {
    TARGETS
}

/// All record types: metadata records, control records, keys and values of groups and offsets.
pub fn records() -> impl Iterator<Item = &'static Target> {
    metadata_record::targets()
        .iter()
        .chain(control_record::targets())
        .chain(group_record::targets())
}

/// The target for a batch of the metadata log as a disk or a peer gives it: what is read is written and read again.
pub fn metadata_batch(bytes: &[u8]) {
    let Ok(entries) = metadata_record::records_of(&Bytes::copy_from_slice(bytes)) else {
        return;
    };
    for entry in entries {
        if let LogRecord::Metadata(record) = entry.record {
            metadata_value(&metadata_record::encode(&record));
        }
    }
}

/// The target for the value of one metadata record.
pub fn metadata_value(bytes: &[u8]) {
    if let Ok((record, version)) = metadata_record::decode_with_version(bytes) {
        let first = metadata_record::encode_version(&record, version);
        let again = metadata_record::decode(&first).expect("what we encode, we decode");
        assert_eq!(metadata_record::encode_version(&again, version), first);
    }
}

/// The target for a whole request as a client sends it: header, then the body it names.
pub fn request(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    let Ok(header) = RequestHeader::decode(&mut reader) else {
        return;
    };
    let body = Bytes::copy_from_slice(reader.rest());
    for target in targets() {
        if target.key == header.api_key && target.name.ends_with("Request") {
            check(target.recode, &body, header.api_version);
        }
    }
}

fn recode<M: Message>(body: &Bytes, version: i16) -> Result<(Bytes, usize), DecodeError> {
    let mut reader = Reader::shared(body);
    let message = M::decode(&mut reader, version)?;
    let mut writer = Writer::new();
    message.encode(&mut writer, version);
    Ok((writer.into_bytes(), reader.remaining()))
}

fn run<M: Message>(bytes: &[u8]) {
    let Some((&version, body)) = bytes.split_first() else {
        return;
    };
    // A borrowed reader must agree with a shared one on what is a message.
    let version = i16::from(version);
    let body = Bytes::copy_from_slice(body);
    let borrowed = M::decode(&mut Reader::new(&body), version);
    let accepted = check(recode::<M>, &body, version);
    assert_eq!(borrowed.is_ok(), accepted);
}

fn check(recode: Recode, body: &Bytes, version: i16) -> bool {
    let Ok((first, left)) = recode(body, version) else {
        return false;
    };
    assert!(left <= body.len());
    assert_eq!(recode(&first, version), Ok((first.clone(), 0)));
    true
}
