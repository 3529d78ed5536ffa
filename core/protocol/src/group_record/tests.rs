//! Records as a real Kafka writes them, byte for byte.

use pelton_model::record_type::group::{
    ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue, ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue, ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue, GroupMetadataKey, GroupMetadataValue,
    LegacyOffsetCommitKey, LegacyOffsetCommitValue, MemberMetadata, OffsetCommitKey,
    OffsetCommitValue, TopicPartition, TopicPartitions,
};
use pelton_model::{Str, TopicId};

use super::*;

fn bytes(hex: &str) -> Bytes {
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    assert!(rest.is_empty());
    let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.iter().map(byte).collect()
}

/// Goal: bytes that a real Kafka 4.3.1 wrote are read as what they say and written the same. Method: records captured
/// from its log, beside what its dump of them says.
fn check(key: &str, value: Option<&str>, expected: GroupRecord) {
    let (key, value) = (bytes(key), value.map(bytes));
    assert_eq!(decode(&key, value.as_ref()), Ok(Some(expected.clone())));
    assert_eq!(encode(&expected), (key, value));
}

const TOPIC: TopicId = TopicId([
    0x73, 0x1a, 0xce, 0x9a, 0xd4, 0x50, 0x4f, 0x79, 0xbb, 0xb9, 0x51, 0x65, 0x16, 0x52, 0xd3, 0xbf,
]);
const MEMBER: Str = Str::new_static("Dl4G7ELJR5OaVQ2jisBBCg");
const GROUP: Str = Str::new_static("g-848");

const ID: &str =
    "696e73742d312d33356538393861342d356234652d343232392d626132332d613438303137396665306333";
const SUBSCRIPTION: &str = "00030000000100027431ffffffff00000000ffffffffffff";
const ASSIGNMENT: &str = "0003000000010002743100000003000000000000000100000002ffffffff";

#[test]
fn offsets() {
    let key = || OffsetCommitKey {
        group: "g-admin".into(),
        topic: "t1".into(),
        partition: 2,
    };
    let key_hex = "00010007672d61646d696e0002743100000002";
    let value = OffsetCommitValue {
        offset: 0,
        commit_timestamp: 0x01a2_2d5b_9266,
        topic_id: TOPIC,
        ..OffsetCommitValue::default()
    };
    let hex =
        "00040000000000000000ffffffff01000001a22d5b9266010010731ace9ad4504f79bbb951651652d3bf";
    check(
        key_hex,
        Some(hex),
        GroupRecord::OffsetCommit(key(), Some(value)),
    );
    check(key_hex, None, GroupRecord::OffsetCommit(key(), None));
}

#[test]
fn classic_groups() {
    let key = || GroupMetadataKey {
        group: "g-classic".into(),
    };
    let key_hex = "00020009672d636c6173736963";
    let value = GroupMetadataValue {
        current_state_timestamp: 0x01a2_2d5b_9790,
        ..GroupMetadataValue::default()
    };
    let hex = "0003000000000000ffffffff000001a22d5b979000000000";
    check(
        key_hex,
        Some(hex),
        GroupRecord::GroupMetadata(key(), Some(value)),
    );
    let value = GroupMetadataValue {
        protocol_type: "consumer".into(),
        generation: 2,
        current_state_timestamp: 0x01a2_2d5c_67d1,
        ..GroupMetadataValue::default()
    };
    let hex = "00030008636f6e73756d657200000002ffffffff000001a22d5c67d100000000";
    check(
        key_hex,
        Some(hex),
        GroupRecord::GroupMetadata(key(), Some(value)),
    );
    check(key_hex, None, GroupRecord::GroupMetadata(key(), None));
}

#[test]
fn classic_members() {
    let key = GroupMetadataKey {
        group: "g-classic".into(),
    };
    let member_id = Str::new_static("inst-1-35e898a4-5b4e-4229-ba23-a480179fe0c3");
    let member = MemberMetadata {
        member_id: member_id.clone(),
        group_instance_id: Some("inst-1".into()),
        client_id: "console-consumer".into(),
        client_host: "/127.0.0.1".into(),
        rebalance_timeout: 300_000,
        session_timeout: 45_000,
        subscription: bytes(SUBSCRIPTION),
        assignment: bytes(ASSIGNMENT),
    };
    let value = GroupMetadataValue {
        protocol_type: "consumer".into(),
        generation: 1,
        protocol: Some("range".into()),
        leader: Some(member_id),
        current_state_timestamp: 0x01a2_2d5b_979f,
        members: vec![member],
    };
    let hex = format!(
        "00030008636f6e73756d657200000001000572616e6765002b{ID}000001a22d5b979f00000001002b{ID}\
         0006696e73742d310010636f6e736f6c652d636f6e73756d6572000a2f3132372e302e302e31000493e0\
         0000afc8{:08x}{SUBSCRIPTION}{:08x}{ASSIGNMENT}",
        SUBSCRIPTION.len() / 2,
        ASSIGNMENT.len() / 2,
    );
    let record = GroupRecord::GroupMetadata(key, Some(value));
    check("00020009672d636c6173736963", Some(&hex), record);
}

#[test]
fn consumer_groups() {
    let key = || ConsumerGroupMetadataKey { group_id: GROUP };
    let value = ConsumerGroupMetadataValue {
        epoch: 2,
        metadata_hash: 0x4266_1c37_6d23_ff28,
    };
    check(
        "00030005672d383438",
        Some("00000000000201000842661c376d23ff28"),
        GroupRecord::ConsumerGroupMetadata(key(), Some(value)),
    );
    let value = ConsumerGroupMetadataValue {
        epoch: 3,
        metadata_hash: 0,
    };
    check(
        "00030005672d383438",
        Some("00000000000300"),
        GroupRecord::ConsumerGroupMetadata(key(), Some(value)),
    );
    let key = ConsumerGroupTargetAssignmentMetadataKey { group_id: GROUP };
    let value = ConsumerGroupTargetAssignmentMetadataValue {
        assignment_epoch: 2,
        assignment_timestamp: 0x01a2_2d5b_e622,
    };
    check(
        "00060005672d383438",
        Some("000000000002010008000001a22d5be622"),
        GroupRecord::ConsumerGroupTargetAssignmentMetadata(key, Some(value)),
    );
}

#[test]
fn consumer_members() {
    let key = ConsumerGroupMemberMetadataKey {
        group_id: GROUP,
        member_id: MEMBER,
    };
    let value = ConsumerGroupMemberMetadataValue {
        client_id: "console-consumer".into(),
        client_host: "/127.0.0.1".into(),
        subscribed_topic_names: vec!["t1".into()],
        subscribed_topic_regex: Some(Str::default()),
        rebalance_timeout_ms: 300_000,
        ..ConsumerGroupMemberMetadataValue::default()
    };
    check(
        "00050005672d3834380016446c344737454c4a52354f615651326a697342424367",
        Some(
            "0000000011636f6e736f6c652d636f6e73756d65720b2f3132372e302e302e3102037431\
             01000493e00001000100",
        ),
        GroupRecord::ConsumerGroupMemberMetadata(key, Some(value)),
    );
    let key = ConsumerGroupTargetAssignmentMemberKey {
        group_id: GROUP,
        member_id: MEMBER,
    };
    let value = ConsumerGroupTargetAssignmentMemberValue {
        topic_partitions: vec![TopicPartition {
            topic_id: TOPIC,
            partitions: vec![0, 1, 2],
        }],
    };
    check(
        "00070005672d3834380016446c344737454c4a52354f615651326a697342424367",
        Some("000002731ace9ad4504f79bbb951651652d3bf040000000000000001000000020000"),
        GroupRecord::ConsumerGroupTargetAssignmentMember(key, Some(value)),
    );
    let key = ConsumerGroupCurrentMemberAssignmentKey {
        group_id: GROUP,
        member_id: MEMBER,
    };
    let value = ConsumerGroupCurrentMemberAssignmentValue {
        member_epoch: 2,
        assigned_partitions: vec![TopicPartitions {
            topic_id: TOPIC,
            partitions: vec![0, 1, 2],
            assignment_epochs: Some(vec![2, 2, 2]),
        }],
        ..ConsumerGroupCurrentMemberAssignmentValue::default()
    };
    check(
        "00080005672d3834380016446c344737454c4a52354f615651326a697342424367",
        Some(
            "000000000002000000000002731ace9ad4504f79bbb951651652d3bf040000000000000001\
             0000000201000d040000000200000002000000020100",
        ),
        GroupRecord::ConsumerGroupCurrentMemberAssignment(key, Some(value)),
    );
}

// Goal: old records are understood, foreign ones are left alone, broken ones are named. Method: bytes by hand.
#[test]
fn old_foreign_and_broken() {
    let key = LegacyOffsetCommitKey {
        group: "g".into(),
        topic: "t".into(),
        partition: 1,
    };
    let value = LegacyOffsetCommitValue {
        offset: 5,
        metadata: "m".into(),
        commit_timestamp: 9,
    };
    let record = GroupRecord::LegacyOffsetCommit(key, Some(value));
    check(
        "000000016700017400000001",
        Some("0000000000000000000500016d0000000000000009"),
        record,
    );
    let key = bytes("000a000167");
    assert_eq!(decode(&key, Some(&bytes("0000"))), Ok(None));
    assert_eq!(decode(&bytes("00"), None), Err(RecordError::Key));
    let (key, value) = (bytes("0002000167"), bytes("0005"));
    let unknown = RecordError::UnknownVersion {
        message: "GroupMetadataValue",
        version: 5,
    };
    assert_eq!(decode(&key, Some(&value)), Err(unknown));
    assert!(matches!(
        decode(&key, Some(&bytes("000300"))),
        Err(RecordError::Body {
            message: "GroupMetadataValue",
            ..
        })
    ));
}
