//! The schema of each key and value, and the choice among them by type.
//!
//! Field lines are read as [`crate::codec`] says. A test compares them with Kafka's schemas.

use bytes::Bytes;
use pelton_model::record_type::group::{
    ClassicMemberMetadata, ClassicProtocol, ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataKey, ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey, GroupMetadataValue, GroupRecord, LegacyOffsetCommitKey,
    LegacyOffsetCommitValue, MemberMetadata, OffsetCommitKey, OffsetCommitValue, PartitionMetadata,
    TopicMetadata, TopicPartition, TopicPartitions,
};
use pelton_model::{Str, TopicId};

use crate::codec::{Message, Reader};
use crate::coordinator_record::{RecordError, read_key, read_value, write_key, write_value};
use crate::fuzz::Target;
use crate::{message_for, wire};

/// Calls out every record type once: a new variant must be named here or this does not compile.
macro_rules! record_types {
    ($($variant:ident($key:ident, $value:ident),)+) => {
        pub(super) const KEYS: &[Target] = &[$(Target::of::<$key>(),)+];
        pub(super) const VALUES: &[Target] = &[$(Target::of::<$value>(),)+];

        pub(super) fn encode(record: &GroupRecord) -> (Bytes, Option<Bytes>) {
            match record {
                $(GroupRecord::$variant(key, value) => {
                    let write = |value: &$value| write_value(value, version(record));
                    (write_key(key), value.as_ref().map(write))
                })+
            }
        }

        pub(super) fn decode(
            key_type: i16,
            reader: &mut Reader<'_>,
            value: Option<&Bytes>,
        ) -> Result<Option<GroupRecord>, RecordError> {
            match key_type {
                $($key::KEY => {
                    let record = GroupRecord::$variant(read_key(reader)?, read_value(value)?);
                    Ok(Some(record))
                })+
                _ => Ok(None),
            }
        }
    };
}

record_types! {
    LegacyOffsetCommit(LegacyOffsetCommitKey, LegacyOffsetCommitValue),
    OffsetCommit(OffsetCommitKey, OffsetCommitValue),
    GroupMetadata(GroupMetadataKey, GroupMetadataValue),
    ConsumerGroupMetadata(ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    ConsumerGroupPartitionMetadata(
        ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue
    ),
    ConsumerGroupMemberMetadata(
        ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue
    ),
    ConsumerGroupTargetAssignmentMetadata(
        ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue
    ),
    ConsumerGroupTargetAssignmentMember(
        ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue
    ),
    ConsumerGroupCurrentMemberAssignment(
        ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue
    ),
    ConsumerGroupRegularExpression(
        ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue
    ),
}

/// The version in which Kafka 4.3 writes a value.
fn version(record: &GroupRecord) -> i16 {
    match record {
        // Only version 1 has room for a retention of its own.
        GroupRecord::OffsetCommit(_, Some(value)) if value.expire_timestamp != -1 => 1,
        GroupRecord::OffsetCommit(..) => 4,
        GroupRecord::GroupMetadata(..) => 3,
        GroupRecord::LegacyOffsetCommit(..)
        | GroupRecord::ConsumerGroupMetadata(..)
        | GroupRecord::ConsumerGroupPartitionMetadata(..)
        | GroupRecord::ConsumerGroupMemberMetadata(..)
        | GroupRecord::ConsumerGroupTargetAssignmentMetadata(..)
        | GroupRecord::ConsumerGroupTargetAssignmentMember(..)
        | GroupRecord::ConsumerGroupCurrentMemberAssignment(..)
        | GroupRecord::ConsumerGroupRegularExpression(..) => 0,
    }
}

message_for! {
    LegacyOffsetCommitKey, key 0, versions 0-0, flexible none {
        group: Str, 0-0;
        topic: Str, 0-0;
        partition: i32, 0-0;
    }
}

message_for! {
    LegacyOffsetCommitValue, key 0, versions 0-0, flexible none {
        offset: i64, 0-0;
        metadata: Str, 0-0;
        commit_timestamp: i64, 0-0;
    }
}

message_for! {
    OffsetCommitKey, key 1, versions 0-0, flexible none {
        group: Str, 0-0;
        topic: Str, 0-0;
        partition: i32, 0-0;
    }
}

message_for! {
    OffsetCommitValue, key 1, versions 0-4, flexible 4+ {
        offset: i64, 0+;
        leader_epoch: i32, 3+, default -1;
        metadata: Str, 0+;
        commit_timestamp: i64, 0+;
        expire_timestamp: i64, 1-1, default -1;
        topic_id: TopicId, 4+, tag 0 4+;
    }
}

message_for! {
    GroupMetadataKey, key 2, versions 0-0, flexible none {
        group: Str, 0-0;
    }
}

wire! {
    MemberMetadata {
        member_id: Str, 0+;
        group_instance_id: Option<Str>, 3+, nullable 3+ default null;
        client_id: Str, 0+;
        client_host: Str, 0+;
        rebalance_timeout: i32, 1+, default -1;
        session_timeout: i32, 0+;
        subscription: Bytes, 0+;
        assignment: Bytes, 0+;
    }
}

message_for! {
    GroupMetadataValue, key 2, versions 0-4, flexible 4+ {
        protocol_type: Str, 0+;
        generation: i32, 0+;
        protocol: Option<Str>, 0+, nullable 0+;
        leader: Option<Str>, 0+, nullable 0+;
        current_state_timestamp: i64, 2+, default -1;
        members: Vec<MemberMetadata>, 0+;
    }
}

message_for! {
    ConsumerGroupMetadataKey, key 3, versions 0-0, flexible none {
        group_id: Str, 0-0;
    }
}

message_for! {
    ConsumerGroupMetadataValue, key 3, versions 0-0, flexible 0+ {
        epoch: i32, 0+;
        metadata_hash: i64, 0+, tag 0 0+;
    }
}

message_for! {
    ConsumerGroupPartitionMetadataKey, key 4, versions 0-0, flexible none {
        group_id: Str, 0-0;
    }
}

wire! {
    PartitionMetadata {
        partition: i32, 0+;
        racks: Vec<Str>, 0+;
    }
}

wire! {
    TopicMetadata {
        topic_id: TopicId, 0+;
        topic_name: Str, 0+;
        num_partitions: i32, 0+;
        partition_metadata: Vec<PartitionMetadata>, 0+;
    }
}

message_for! {
    ConsumerGroupPartitionMetadataValue, key 4, versions 0-0, flexible 0+ {
        topics: Vec<TopicMetadata>, 0+;
    }
}

message_for! {
    ConsumerGroupMemberMetadataKey, key 5, versions 0-0, flexible none {
        group_id: Str, 0-0;
        member_id: Str, 0-0;
    }
}

wire! {
    ClassicProtocol {
        name: Str, 0+;
        metadata: Bytes, 0+;
    }
}

wire! {
    ClassicMemberMetadata {
        session_timeout_ms: i32, 0+;
        supported_protocols: Vec<ClassicProtocol>, 0+;
    }
}

message_for! {
    ConsumerGroupMemberMetadataValue, key 5, versions 0-0, flexible 0+ {
        instance_id: Option<Str>, 0+, nullable 0+;
        rack_id: Option<Str>, 0+, nullable 0+;
        client_id: Str, 0+;
        client_host: Str, 0+;
        subscribed_topic_names: Vec<Str>, 0+;
        subscribed_topic_regex: Option<Str>, 0+, nullable 0+;
        rebalance_timeout_ms: i32, 0+, default -1;
        server_assignor: Option<Str>, 0+, nullable 0+;
        classic_member_metadata: Option<ClassicMemberMetadata>, 0+, nullable 0+ default written, tag 0 0+;
    }
}

message_for! {
    ConsumerGroupTargetAssignmentMetadataKey, key 6, versions 0-0, flexible none {
        group_id: Str, 0-0;
    }
}

message_for! {
    ConsumerGroupTargetAssignmentMetadataValue, key 6, versions 0-0, flexible 0+ {
        assignment_epoch: i32, 0+;
        assignment_timestamp: i64, 0+, tag 0 0+;
    }
}

message_for! {
    ConsumerGroupTargetAssignmentMemberKey, key 7, versions 0-0, flexible none {
        group_id: Str, 0-0;
        member_id: Str, 0-0;
    }
}

wire! {
    TopicPartition {
        topic_id: TopicId, 0+;
        partitions: Vec<i32>, 0+;
    }
}

message_for! {
    ConsumerGroupTargetAssignmentMemberValue, key 7, versions 0-0, flexible 0+ {
        topic_partitions: Vec<TopicPartition>, 0+;
    }
}

message_for! {
    ConsumerGroupCurrentMemberAssignmentKey, key 8, versions 0-0, flexible none {
        group_id: Str, 0-0;
        member_id: Str, 0-0;
    }
}

wire! {
    TopicPartitions {
        topic_id: TopicId, 0+;
        partitions: Vec<i32>, 0+;
        assignment_epochs: Option<Vec<i32>>, 0+, nullable 0+ default null, tag 0 0+;
    }
}

message_for! {
    ConsumerGroupCurrentMemberAssignmentValue, key 8, versions 0-0, flexible 0+ {
        member_epoch: i32, 0+;
        previous_member_epoch: i32, 0+;
        state: i8, 0+;
        assigned_partitions: Vec<TopicPartitions>, 0+;
        partitions_pending_revocation: Vec<TopicPartitions>, 0+;
    }
}

message_for! {
    ConsumerGroupRegularExpressionKey, key 16, versions 0-0, flexible none {
        group_id: Str, 0-0;
        regular_expression: Str, 0-0;
    }
}

message_for! {
    ConsumerGroupRegularExpressionValue, key 16, versions 0-0, flexible 0+ {
        topics: Vec<Str>, 0+;
        version: i64, 0+;
        timestamp: i64, 0+;
    }
}
