//! Our codec against the `kafka-protocol` crate (schemas of Kafka 4.1), for every message and version both know.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages as theirs;
use kafka_protocol::protocol::{Decodable, Encodable, Message};
use pelton_protocol::fuzz::{Target, targets};
use pelton_protocol::{codec, header};

use crate::generate::{self, Random};

const CASES: u64 = 200;

fn target(name: &str) -> &'static Target {
    targets().iter().find(|target| target.name == name).unwrap()
}

/// Goal: the same bytes mean the same to both. Method: both read random bytes and write them again; then each reads what
/// the other wrote.
fn check<T: Message + Encodable + Decodable>(name: &str) {
    let target = target(name);
    let min = target.versions.min.max(T::VERSIONS.min);
    let max = target.versions.max.min(T::VERSIONS.max);
    assert!(min <= max, "{name}");
    for version in min..=max {
        for seed in 0..CASES {
            let case = format!("{name} v{version} seed {seed}");
            let bytes = Bytes::from(generate::message(target, version, &mut Random(seed)));
            let (ours, left) = (target.recode)(&bytes, version).unwrap();
            assert_eq!(left, 0, "{case}");
            let mut rest = ours.clone();
            let understood = T::decode(&mut rest, version)
                .unwrap_or_else(|error| panic!("{case}: they cannot read ours: {error}"));
            assert!(rest.is_empty(), "{case}: they leave bytes");
            let mut encoded = BytesMut::new();
            understood
                .encode(&mut encoded, version)
                .unwrap_or_else(|error| panic!("{case}: they cannot write it: {error}"));
            let encoded = encoded.freeze();
            assert_eq!(encoded, bytes, "{case}: they write something else");
            let reread = (target.recode)(&encoded, version).unwrap();
            assert_eq!(reread, (bytes, 0), "{case}: we read theirs otherwise");
        }
    }
}

macro_rules! oracle {
    ($($test:ident: $name:ident;)*) => {$(
        #[test]
        fn $test() {
            check::<theirs::$name>(stringify!($name));
        }
    )*};
}

oracle! {
    produce_request: ProduceRequest;
    produce_response: ProduceResponse;
    fetch_request: FetchRequest;
    fetch_response: FetchResponse;
    list_offsets_request: ListOffsetsRequest;
    list_offsets_response: ListOffsetsResponse;
    metadata_request: MetadataRequest;
    metadata_response: MetadataResponse;
    api_versions_request: ApiVersionsRequest;
    api_versions_response: ApiVersionsResponse;
    create_topics_request: CreateTopicsRequest;
    create_topics_response: CreateTopicsResponse;
    delete_topics_request: DeleteTopicsRequest;
    delete_topics_response: DeleteTopicsResponse;
    init_producer_id_request: InitProducerIdRequest;
    init_producer_id_response: InitProducerIdResponse;
    offset_for_leader_epoch_request: OffsetForLeaderEpochRequest;
    offset_for_leader_epoch_response: OffsetForLeaderEpochResponse;
    describe_configs_request: DescribeConfigsRequest;
    describe_configs_response: DescribeConfigsResponse;
    alter_configs_request: AlterConfigsRequest;
    alter_configs_response: AlterConfigsResponse;
    incremental_alter_configs_request: IncrementalAlterConfigsRequest;
    incremental_alter_configs_response: IncrementalAlterConfigsResponse;
    create_partitions_request: CreatePartitionsRequest;
    create_partitions_response: CreatePartitionsResponse;
    describe_cluster_request: DescribeClusterRequest;
    describe_cluster_response: DescribeClusterResponse;
    describe_log_dirs_request: DescribeLogDirsRequest;
    describe_log_dirs_response: DescribeLogDirsResponse;
    consumer_group_describe_request: ConsumerGroupDescribeRequest;
    consumer_group_describe_response: ConsumerGroupDescribeResponse;
    consumer_group_heartbeat_request: ConsumerGroupHeartbeatRequest;
    consumer_group_heartbeat_response: ConsumerGroupHeartbeatResponse;
    delete_groups_request: DeleteGroupsRequest;
    delete_groups_response: DeleteGroupsResponse;
    describe_groups_request: DescribeGroupsRequest;
    describe_groups_response: DescribeGroupsResponse;
    find_coordinator_request: FindCoordinatorRequest;
    find_coordinator_response: FindCoordinatorResponse;
    heartbeat_request: HeartbeatRequest;
    heartbeat_response: HeartbeatResponse;
    join_group_request: JoinGroupRequest;
    join_group_response: JoinGroupResponse;
    leave_group_request: LeaveGroupRequest;
    leave_group_response: LeaveGroupResponse;
    list_config_resources_request: ListConfigResourcesRequest;
    list_config_resources_response: ListConfigResourcesResponse;
    list_groups_request: ListGroupsRequest;
    list_groups_response: ListGroupsResponse;
    write_txn_markers_request: WriteTxnMarkersRequest;
    write_txn_markers_response: WriteTxnMarkersResponse;
    add_partitions_to_txn_request: AddPartitionsToTxnRequest;
    add_partitions_to_txn_response: AddPartitionsToTxnResponse;
    add_offsets_to_txn_request: AddOffsetsToTxnRequest;
    add_offsets_to_txn_response: AddOffsetsToTxnResponse;
    end_txn_request: EndTxnRequest;
    end_txn_response: EndTxnResponse;
    txn_offset_commit_request: TxnOffsetCommitRequest;
    txn_offset_commit_response: TxnOffsetCommitResponse;
    describe_transactions_request: DescribeTransactionsRequest;
    describe_transactions_response: DescribeTransactionsResponse;
    list_transactions_request: ListTransactionsRequest;
    list_transactions_response: ListTransactionsResponse;
    offset_commit_request: OffsetCommitRequest;
    offset_commit_response: OffsetCommitResponse;
    offset_delete_request: OffsetDeleteRequest;
    offset_delete_response: OffsetDeleteResponse;
    offset_fetch_request: OffsetFetchRequest;
    offset_fetch_response: OffsetFetchResponse;
    sync_group_request: SyncGroupRequest;
    sync_group_response: SyncGroupResponse;
    alter_replica_log_dirs_request: AlterReplicaLogDirsRequest;
    alter_replica_log_dirs_response: AlterReplicaLogDirsResponse;
    describe_acls_request: DescribeAclsRequest;
    describe_acls_response: DescribeAclsResponse;
    create_acls_request: CreateAclsRequest;
    create_acls_response: CreateAclsResponse;
    delete_acls_request: DeleteAclsRequest;
    delete_acls_response: DeleteAclsResponse;
    elect_leaders_request: ElectLeadersRequest;
    elect_leaders_response: ElectLeadersResponse;
    alter_partition_reassignments_request: AlterPartitionReassignmentsRequest;
    alter_partition_reassignments_response: AlterPartitionReassignmentsResponse;
    list_partition_reassignments_request: ListPartitionReassignmentsRequest;
    list_partition_reassignments_response: ListPartitionReassignmentsResponse;
    describe_quorum_request: DescribeQuorumRequest;
    describe_quorum_response: DescribeQuorumResponse;
    describe_producers_request: DescribeProducersRequest;
    describe_producers_response: DescribeProducersResponse;
    unregister_broker_request: UnregisterBrokerRequest;
    unregister_broker_response: UnregisterBrokerResponse;
    describe_topic_partitions_request: DescribeTopicPartitionsRequest;
    describe_topic_partitions_response: DescribeTopicPartitionsResponse;
    update_features_request: UpdateFeaturesRequest;
    update_features_response: UpdateFeaturesResponse;
}

// Goal: headers are those of Kafka for every API and version. Method: each side reads what the other wrote.
#[test]
fn headers() {
    for row in pelton_protocol::api::table() {
        let key = theirs::ApiKey::try_from(row.key.code()).unwrap();
        for version in row.min..=row.max {
            for client_id in [None, Some(""), Some("a client")] {
                request_header(row, key, version, client_id);
            }
            let expected = key.response_header_version(version);
            assert_eq!(
                row.response_header_version(version),
                expected,
                "{key:?} v{version}"
            );
        }
    }
}

fn request_header(
    row: &pelton_protocol::api::ApiRow,
    key: theirs::ApiKey,
    version: i16,
    client_id: Option<&'static str>,
) {
    let header_version = key.request_header_version(version);
    let ours = header::RequestHeader {
        api_key: row.key.code(),
        api_version: version,
        correlation_id: 7,
        client_id: client_id.map(codec::Str::from),
    };
    let mut writer = codec::Writer::new();
    ours.encode(&mut writer, row);
    let bytes = writer.into_bytes();
    let mut rest = bytes.clone();
    let header = theirs::RequestHeader::decode(&mut rest, header_version).unwrap();
    assert!(rest.is_empty());
    assert_eq!(header.client_id.as_deref(), client_id);
    let mut encoded = BytesMut::new();
    header.encode(&mut encoded, header_version).unwrap();
    assert_eq!(encoded, bytes);
    let mut reader = codec::Reader::new(&encoded);
    assert_eq!(header::RequestHeader::decode(&mut reader), Ok(ours));
    assert_eq!(reader.remaining(), 0);
}
