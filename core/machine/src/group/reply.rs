//! What a coordinator answers: responses without their wire form.

use bytes::Bytes;
use pelton_model::{ErrorCode, Str, TopicId};

use super::TopicPartitions;

/// The answer to the [`super::Command`] of the same name.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// To JoinGroup.
    JoinGroup(JoinGroupReply),
    /// To SyncGroup.
    SyncGroup(SyncGroupReply),
    /// To Heartbeat.
    Heartbeat(ErrorCode),
    /// To LeaveGroup.
    LeaveGroup(LeaveGroupReply),
    /// To OffsetCommit: a code for each partition asked, in the order asked.
    OffsetCommit(Vec<TopicCodes>),
    /// To OffsetFetch.
    OffsetFetch(OffsetFetchReply),
    /// To OffsetDelete.
    OffsetDelete(OffsetDeleteReply),
    /// To ListGroups: this coordinator's share; an error is the whole request's.
    ListGroups(Result<Vec<ListedGroup>, ErrorCode>),
    /// To DescribeGroups, in the order asked.
    DescribeGroups(Vec<DescribedGroup>),
    /// To DeleteGroups, in the order asked.
    DeleteGroups(Vec<(Str, ErrorCode)>),
    /// To ConsumerGroupHeartbeat.
    ConsumerGroupHeartbeat(ConsumerGroupHeartbeatReply),
    /// To ConsumerGroupDescribe, in the order asked.
    ConsumerGroupDescribe(Vec<DescribedConsumerGroup>),
}

/// What a member learns when a generation begins.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinGroupReply {
    /// The outcome.
    pub error: ErrorCode,
    /// The generation; −1 with an error.
    pub generation_id: i32,
    /// The group's kind.
    pub protocol_type: Option<Str>,
    /// The protocol chosen; versions before 7 write null as empty.
    pub protocol_name: Option<Str>,
    /// The leader's member id; empty with an error.
    pub leader: Str,
    /// Whether the leader must keep the assignment there is.
    pub skip_assignment: bool,
    /// The member's id.
    pub member_id: Str,
    /// All members, for the leader alone.
    pub members: Vec<JoinedMember>,
}

impl JoinGroupReply {
    /// A refusal.
    #[must_use]
    pub fn refused(error: ErrorCode, member_id: Str) -> Self {
        Self {
            error,
            generation_id: -1,
            protocol_type: None,
            protocol_name: None,
            leader: Str::default(),
            skip_assignment: false,
            member_id,
            members: Vec::new(),
        }
    }
}

/// A member as its leader sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinedMember {
    /// The member's id.
    pub member_id: Str,
    /// The static member's name.
    pub group_instance_id: Option<Str>,
    /// Its subscription in the terms of the protocol chosen.
    pub metadata: Bytes,
}

/// A member's assignment.
#[derive(Clone, Debug, PartialEq)]
pub struct SyncGroupReply {
    /// The outcome.
    pub error: ErrorCode,
    /// The group's kind.
    pub protocol_type: Option<Str>,
    /// The protocol chosen.
    pub protocol_name: Option<Str>,
    /// Opaque here.
    pub assignment: Bytes,
}

impl SyncGroupReply {
    /// A refusal.
    #[must_use]
    pub fn refused(error: ErrorCode) -> Self {
        Self {
            error,
            protocol_type: None,
            protocol_name: None,
            assignment: Bytes::new(),
        }
    }
}

/// What became of members that leave.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaveGroupReply {
    /// The outcome as a whole; a version before 3 takes the only member's when this is NONE.
    pub error: ErrorCode,
    /// Each member's outcome, in the order asked; empty with an error as a whole.
    pub members: Vec<LeftMember>,
}

/// A member's outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftMember {
    /// The member as it was named.
    pub member_id: Str,
    /// The static member's name as it was named.
    pub group_instance_id: Option<Str>,
    /// The outcome.
    pub error: ErrorCode,
}

/// A code for each partition of a topic.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicCodes {
    /// The topic's name.
    pub name: Str,
    /// The topic's id as it was named; zero where it was not.
    pub topic_id: TopicId,
    /// Partitions and their codes.
    pub partitions: Vec<(i32, ErrorCode)>,
}

/// Committed offsets of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetFetchReply {
    /// The outcome for the group; with an error, no topic is told.
    pub error: ErrorCode,
    /// The offsets, in the order asked; by topic and partition when all were asked.
    pub topics: Vec<FetchedTopic>,
}

/// Committed offsets of a topic.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchedTopic {
    /// The topic's name.
    pub name: Str,
    /// The topic's id as it was named; zero where it was not.
    pub topic_id: TopicId,
    /// The partitions.
    pub partitions: Vec<FetchedPartition>,
}

/// A committed offset.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchedPartition {
    /// The partition.
    pub index: i32,
    /// The offset; −1 for none.
    pub offset: i64,
    /// The epoch of the last record read; −1 when unknown.
    pub leader_epoch: i32,
    /// The client's note; empty for none.
    pub metadata: Str,
    /// The outcome.
    pub error: ErrorCode,
}

/// What became of offsets to forget.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetDeleteReply {
    /// The outcome as a whole; with an error, no topic is told.
    pub error: ErrorCode,
    /// A code for each partition, in the order asked.
    pub topics: Vec<(Str, Vec<(i32, ErrorCode)>)>,
}

/// A group in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedGroup {
    /// The group.
    pub group_id: Str,
    /// Its kind of client.
    pub protocol_type: Str,
    /// Its state, as Kafka spells it.
    pub state: &'static str,
    /// `classic` or `consumer`.
    pub group_type: &'static str,
}

/// A classic group.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedGroup {
    /// The outcome.
    pub error: ErrorCode,
    /// What went wrong, in words: version 6 and later.
    pub error_message: Option<Str>,
    /// The group.
    pub group_id: Str,
    /// Its state, as Kafka spells it.
    pub state: &'static str,
    /// Its kind of client.
    pub protocol_type: Str,
    /// The protocol chosen; empty while there is none.
    pub protocol: Str,
    /// Its members.
    pub members: Vec<DescribedMember>,
}

impl DescribedGroup {
    /// A group that cannot be described.
    #[must_use]
    pub fn refused(error: ErrorCode, error_message: Option<Str>, group_id: Str) -> Self {
        Self {
            error,
            error_message,
            group_id,
            state: "",
            protocol_type: Str::default(),
            protocol: Str::default(),
            members: Vec::new(),
        }
    }
}

/// A member of a classic group.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedMember {
    /// The member's id.
    pub member_id: Str,
    /// The static member's name.
    pub group_instance_id: Option<Str>,
    /// How the client names itself.
    pub client_id: Str,
    /// Where it calls from.
    pub client_host: Str,
    /// Its subscription in the terms of the protocol chosen; empty while there is none.
    pub metadata: Bytes,
    /// Its assignment; empty while there is none.
    pub assignment: Bytes,
}

/// What a member of a consumer group is told.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerGroupHeartbeatReply {
    /// The outcome.
    pub error: ErrorCode,
    /// What went wrong, in words.
    pub error_message: Option<Str>,
    /// The member's id.
    pub member_id: Option<Str>,
    /// The member's epoch.
    pub member_epoch: i32,
    /// How soon to call again.
    pub heartbeat_interval_ms: i32,
    /// What the member should hold; `None` for no change.
    pub assignment: Option<Vec<TopicPartitions>>,
}

impl ConsumerGroupHeartbeatReply {
    /// A refusal.
    #[must_use]
    pub fn refused(error: ErrorCode, error_message: Option<Str>) -> Self {
        Self {
            error,
            error_message,
            member_id: None,
            member_epoch: 0,
            heartbeat_interval_ms: 0,
            assignment: None,
        }
    }
}

/// A consumer group.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedConsumerGroup {
    /// The outcome.
    pub error: ErrorCode,
    /// What went wrong, in words.
    pub error_message: Option<Str>,
    /// The group.
    pub group_id: Str,
    /// Its state, as Kafka spells it.
    pub state: &'static str,
    /// Its epoch.
    pub group_epoch: i32,
    /// The epoch of its target assignment.
    pub assignment_epoch: i32,
    /// The assignor.
    pub assignor: Str,
    /// Its members.
    pub members: Vec<DescribedConsumerMember>,
}

impl DescribedConsumerGroup {
    /// A group that cannot be described.
    #[must_use]
    pub fn refused(error: ErrorCode, error_message: Option<Str>, group_id: Str) -> Self {
        Self {
            error,
            error_message,
            group_id,
            state: "",
            group_epoch: 0,
            assignment_epoch: 0,
            assignor: Str::default(),
            members: Vec::new(),
        }
    }
}

/// A member of a consumer group.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedConsumerMember {
    /// The member's id.
    pub member_id: Str,
    /// The static member's name.
    pub instance_id: Option<Str>,
    /// Its rack.
    pub rack_id: Option<Str>,
    /// Its epoch.
    pub member_epoch: i32,
    /// How the client names itself.
    pub client_id: Str,
    /// Where it calls from.
    pub client_host: Str,
    /// The topics it wants.
    pub subscribed_topic_names: Vec<Str>,
    /// The pattern of the topics it wants.
    pub subscribed_topic_regex: Option<Str>,
    /// What it holds.
    pub assignment: Vec<NamedPartitions>,
    /// What it should hold.
    pub target_assignment: Vec<NamedPartitions>,
    /// 0 for the classic protocol, 1 for the consumer protocol.
    pub member_type: i8,
}

/// Partitions of one topic, with its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedPartitions {
    /// The topic.
    pub topic_id: TopicId,
    /// Its name.
    pub topic_name: Str,
    /// Its partitions.
    pub partitions: Vec<i32>,
}
