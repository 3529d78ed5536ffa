//! The records of `__consumer_offsets`: committed offsets, classic groups and consumer groups.
//!
//! Invariants:
//! 1. A record is a key, which says what it is about, and a value; [`GroupRecord`] pairs them, and a value of `None` is
//!    a tombstone: compaction keeps the last record of each key.
//! 2. `Default` gives Kafka's default of each field.
//! 3. Types that are not here (share and streams groups) are no record of ours: readers leave them alone.
//!
//! Source: KIP-211, KIP-345, KIP-848, KIP-1101; logs written by Apache Kafka 4.3.1.

use bytes::Bytes;

use crate::Str;
use crate::id::TopicId;

macro_rules! group_records {
    ($($(#[$doc:meta])* $variant:ident($key:ident by $group:ident, $value:ident),)+) => {
        /// A record of `__consumer_offsets`.
        #[derive(Clone, Debug, PartialEq)]
        pub enum GroupRecord {
            $($(#[$doc])* $variant($key, Option<$value>),)+
        }

        impl GroupRecord {
            /// The group that the record is about.
            #[must_use]
            pub fn group_id(&self) -> &Str {
                match self {
                    $(Self::$variant(key, _) => &key.$group,)+
                }
            }

            /// Whether the record deletes its key.
            #[must_use]
            pub fn is_tombstone(&self) -> bool {
                match self {
                    $(Self::$variant(_, value) => value.is_none(),)+
                }
            }
        }
    };
}

group_records! {
    /// A committed offset, as Kafka before 0.9 keyed it.
    LegacyOffsetCommit(LegacyOffsetCommitKey by group, LegacyOffsetCommitValue),
    /// A committed offset.
    OffsetCommit(OffsetCommitKey by group, OffsetCommitValue),
    /// A generation of a classic group.
    GroupMetadata(GroupMetadataKey by group, GroupMetadataValue),
    /// The epoch of a consumer group.
    ConsumerGroupMetadata(ConsumerGroupMetadataKey by group_id, ConsumerGroupMetadataValue),
    /// The partitions that a consumer group was last told of; written by Kafka before 4.1.
    ConsumerGroupPartitionMetadata(
        ConsumerGroupPartitionMetadataKey by group_id, ConsumerGroupPartitionMetadataValue
    ),
    /// A member of a consumer group and what it wants.
    ConsumerGroupMemberMetadata(
        ConsumerGroupMemberMetadataKey by group_id, ConsumerGroupMemberMetadataValue
    ),
    /// The epoch of a consumer group's target assignment.
    ConsumerGroupTargetAssignmentMetadata(
        ConsumerGroupTargetAssignmentMetadataKey by group_id, ConsumerGroupTargetAssignmentMetadataValue
    ),
    /// What a member of a consumer group should hold.
    ConsumerGroupTargetAssignmentMember(
        ConsumerGroupTargetAssignmentMemberKey by group_id, ConsumerGroupTargetAssignmentMemberValue
    ),
    /// What a member of a consumer group holds.
    ConsumerGroupCurrentMemberAssignment(
        ConsumerGroupCurrentMemberAssignmentKey by group_id, ConsumerGroupCurrentMemberAssignmentValue
    ),
    /// The topics that a consumer group's pattern stands for.
    ConsumerGroupRegularExpression(
        ConsumerGroupRegularExpressionKey by group_id, ConsumerGroupRegularExpressionValue
    ),
}

/// Keys of a group and nothing more.
macro_rules! group_keys {
    ($($(#[$doc:meta])* $name:ident,)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            /// The group.
            pub group_id: Str,
        }
    )+};
}

/// Keys of a group's member.
macro_rules! member_keys {
    ($($(#[$doc:meta])* $name:ident,)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            /// The group.
            pub group_id: Str,
            /// The member.
            pub member_id: Str,
        }
    )+};
}

/// Keys of a group's partition.
macro_rules! offset_keys {
    ($($(#[$doc:meta])* $name:ident,)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            /// The group.
            pub group: Str,
            /// The topic's name.
            pub topic: Str,
            /// The partition.
            pub partition: i32,
        }
    )+};
}

offset_keys! {
    /// Key of [`GroupRecord::LegacyOffsetCommit`].
    LegacyOffsetCommitKey,
    /// Key of [`GroupRecord::OffsetCommit`].
    OffsetCommitKey,
}

group_keys! {
    /// Key of [`GroupRecord::ConsumerGroupMetadata`].
    ConsumerGroupMetadataKey,
    /// Key of [`GroupRecord::ConsumerGroupPartitionMetadata`].
    ConsumerGroupPartitionMetadataKey,
    /// Key of [`GroupRecord::ConsumerGroupTargetAssignmentMetadata`].
    ConsumerGroupTargetAssignmentMetadataKey,
}

member_keys! {
    /// Key of [`GroupRecord::ConsumerGroupMemberMetadata`].
    ConsumerGroupMemberMetadataKey,
    /// Key of [`GroupRecord::ConsumerGroupTargetAssignmentMember`].
    ConsumerGroupTargetAssignmentMemberKey,
    /// Key of [`GroupRecord::ConsumerGroupCurrentMemberAssignment`].
    ConsumerGroupCurrentMemberAssignmentKey,
}

/// Key of [`GroupRecord::GroupMetadata`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupMetadataKey {
    /// The group.
    pub group: Str,
}

/// Key of [`GroupRecord::ConsumerGroupRegularExpression`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerGroupRegularExpressionKey {
    /// The group.
    pub group_id: Str,
    /// The pattern.
    pub regular_expression: Str,
}

/// Value of [`GroupRecord::LegacyOffsetCommit`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacyOffsetCommitValue {
    /// The offset to go on from.
    pub offset: i64,
    /// The client's note.
    pub metadata: Str,
    /// When it was committed.
    pub commit_timestamp: i64,
}

/// Value of [`GroupRecord::OffsetCommit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetCommitValue {
    /// The offset to go on from.
    pub offset: i64,
    /// The epoch of the last record read; −1 when unknown.
    pub leader_epoch: i32,
    /// The client's note.
    pub metadata: Str,
    /// When it was committed.
    pub commit_timestamp: i64,
    /// When it expires by itself; −1 leaves that to the broker's retention.
    pub expire_timestamp: i64,
    /// The topic's id; zero when the client named it by name only.
    pub topic_id: TopicId,
}

impl Default for OffsetCommitValue {
    fn default() -> Self {
        Self {
            offset: 0,
            leader_epoch: -1,
            metadata: Str::default(),
            commit_timestamp: 0,
            expire_timestamp: -1,
            topic_id: TopicId::ZERO,
        }
    }
}

/// Value of [`GroupRecord::GroupMetadata`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMetadataValue {
    /// The group's kind of client; empty for a group of offsets alone.
    pub protocol_type: Str,
    /// The generation.
    pub generation: i32,
    /// The assignment protocol chosen.
    pub protocol: Option<Str>,
    /// The leader's member id.
    pub leader: Option<Str>,
    /// When the group came into its state; −1 when unknown.
    pub current_state_timestamp: i64,
    /// Its members; none when the group is empty.
    pub members: Vec<MemberMetadata>,
}

impl Default for GroupMetadataValue {
    fn default() -> Self {
        Self {
            protocol_type: Str::default(),
            generation: 0,
            protocol: None,
            leader: None,
            current_state_timestamp: -1,
            members: Vec::new(),
        }
    }
}

/// A member of a classic group's generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberMetadata {
    /// The member's id.
    pub member_id: Str,
    /// The static member's name.
    pub group_instance_id: Option<Str>,
    /// How the client names itself.
    pub client_id: Str,
    /// Where it calls from.
    pub client_host: Str,
    /// How long it may take to rejoin; −1 when unknown.
    pub rebalance_timeout: i32,
    /// How long it may be silent.
    pub session_timeout: i32,
    /// Its subscription in the terms of the protocol chosen.
    pub subscription: Bytes,
    /// Its assignment.
    pub assignment: Bytes,
}

impl Default for MemberMetadata {
    fn default() -> Self {
        Self {
            member_id: Str::default(),
            group_instance_id: None,
            client_id: Str::default(),
            client_host: Str::default(),
            rebalance_timeout: -1,
            session_timeout: 0,
            subscription: Bytes::new(),
            assignment: Bytes::new(),
        }
    }
}

/// Value of [`GroupRecord::ConsumerGroupMetadata`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerGroupMetadataValue {
    /// The group's epoch.
    pub epoch: i32,
    /// A hash of what the group's topics looked like; 0 when unknown.
    pub metadata_hash: i64,
}

/// Value of [`GroupRecord::ConsumerGroupPartitionMetadata`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerGroupPartitionMetadataValue {
    /// The topics.
    pub topics: Vec<TopicMetadata>,
}

/// A topic that a consumer group was told of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicMetadata {
    /// The topic's id.
    pub topic_id: TopicId,
    /// Its name.
    pub topic_name: Str,
    /// Its partitions.
    pub num_partitions: i32,
    /// Where its partitions are.
    pub partition_metadata: Vec<PartitionMetadata>,
}

/// A partition that a consumer group was told of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionMetadata {
    /// The partition.
    pub partition: i32,
    /// The racks that hold it.
    pub racks: Vec<Str>,
}

/// Value of [`GroupRecord::ConsumerGroupMemberMetadata`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerGroupMemberMetadataValue {
    /// The static member's name.
    pub instance_id: Option<Str>,
    /// Its rack.
    pub rack_id: Option<Str>,
    /// How the client names itself.
    pub client_id: Str,
    /// Where it calls from.
    pub client_host: Str,
    /// The topics it wants.
    pub subscribed_topic_names: Vec<Str>,
    /// The pattern of the topics it wants.
    pub subscribed_topic_regex: Option<Str>,
    /// How long it may take to give partitions back; −1 when unknown.
    pub rebalance_timeout_ms: i32,
    /// The assignor it prefers.
    pub server_assignor: Option<Str>,
    /// What a member of the classic protocol said when it joined.
    pub classic_member_metadata: Option<ClassicMemberMetadata>,
}

impl Default for ConsumerGroupMemberMetadataValue {
    fn default() -> Self {
        Self {
            instance_id: None,
            rack_id: None,
            client_id: Str::default(),
            client_host: Str::default(),
            subscribed_topic_names: Vec::new(),
            subscribed_topic_regex: None,
            rebalance_timeout_ms: -1,
            server_assignor: None,
            classic_member_metadata: None,
        }
    }
}

/// A member of a consumer group that speaks the classic protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassicMemberMetadata {
    /// How long it may be silent.
    pub session_timeout_ms: i32,
    /// The assignment protocols that it knows.
    pub supported_protocols: Vec<ClassicProtocol>,
}

/// An assignment protocol and a member's subscription in its terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassicProtocol {
    /// The protocol's name.
    pub name: Str,
    /// Opaque.
    pub metadata: Bytes,
}

/// Value of [`GroupRecord::ConsumerGroupTargetAssignmentMetadata`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerGroupTargetAssignmentMetadataValue {
    /// The epoch of the group for which the assignment was computed.
    pub assignment_epoch: i32,
    /// When it was computed; 0 when unknown.
    pub assignment_timestamp: i64,
}

/// Value of [`GroupRecord::ConsumerGroupTargetAssignmentMember`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerGroupTargetAssignmentMemberValue {
    /// The partitions, by topic.
    pub topic_partitions: Vec<TopicPartition>,
}

/// Partitions of one topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicPartition {
    /// The topic.
    pub topic_id: TopicId,
    /// Its partitions.
    pub partitions: Vec<i32>,
}

/// Value of [`GroupRecord::ConsumerGroupCurrentMemberAssignment`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerGroupCurrentMemberAssignmentValue {
    /// The member's epoch.
    pub member_epoch: i32,
    /// Its epoch before.
    pub previous_member_epoch: i32,
    /// Where it stands: 0 stable, 1 giving partitions back, 2 waiting for others to give partitions back.
    pub state: i8,
    /// The partitions that it may hold.
    pub assigned_partitions: Vec<TopicPartitions>,
    /// The partitions that it is to give back.
    pub partitions_pending_revocation: Vec<TopicPartitions>,
}

/// Partitions of one topic that a member holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicPartitions {
    /// The topic.
    pub topic_id: TopicId,
    /// Its partitions.
    pub partitions: Vec<i32>,
    /// The member's epoch when it got each of them; `None` in records of Kafka before 4.3.
    pub assignment_epochs: Option<Vec<i32>>,
}

/// Value of [`GroupRecord::ConsumerGroupRegularExpression`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerGroupRegularExpressionValue {
    /// The names of the topics that match.
    pub topics: Vec<Str>,
    /// The version of the metadata that was looked at.
    pub version: i64,
    /// When it was looked at.
    pub timestamp: i64,
}
