//! What a coordinator is asked: requests without their wire form.
//!
//! Handlers check what needs no coordinator (topics exist, ids resolve) and translate; a string here is as the client
//! sent it. Optional ids are `None` where the wire has null.

use bytes::Bytes;
use pelton_model::{ErrorCode, ProducerEpoch, ProducerId, Str, TopicId};

use super::{
    ConsumerGroupHeartbeatReply, DescribedConsumerGroup, DescribedGroup, JoinGroupReply,
    LeaveGroupReply, OffsetDeleteReply, OffsetFetchReply, Reply, SyncGroupReply, TopicCodes,
};

/// Who asks: shown by the tools that describe a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// The client's id as it names itself; empty for none.
    pub id: Str,
    /// Its address in Kafka's form: a slash, then the address.
    pub host: Str,
}

/// A request to one coordinator.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Joins a classic group; the reply waits for the others.
    JoinGroup(JoinGroup),
    /// Hands out or awaits the assignment of a generation.
    SyncGroup(SyncGroup),
    /// Keeps a classic member alive.
    Heartbeat(Heartbeat),
    /// Takes members out of a group.
    LeaveGroup(LeaveGroup),
    /// Commits offsets, perhaps in a transaction.
    OffsetCommit(OffsetCommit),
    /// Reads committed offsets.
    OffsetFetch(OffsetFetch),
    /// Forgets committed offsets.
    OffsetDelete(OffsetDelete),
    /// Lists the groups of this coordinator.
    ListGroups(ListGroups),
    /// Describes classic groups of this coordinator.
    DescribeGroups(DescribeGroups),
    /// Deletes groups of this coordinator.
    DeleteGroups(DeleteGroups),
    /// Joins, keeps alive or leaves a consumer group (KIP-848).
    ConsumerGroupHeartbeat(ConsumerGroupHeartbeat),
    /// Describes consumer groups of this coordinator.
    ConsumerGroupDescribe(ConsumerGroupDescribe),
}

impl Command {
    /// The answer that refuses all of the request, in the shape that clients expect: by item where the response has a
    /// code for each.
    #[must_use]
    pub fn refused(&self, error: ErrorCode) -> Reply {
        match self {
            Self::JoinGroup(join) => {
                Reply::JoinGroup(JoinGroupReply::refused(error, join.member_id.clone()))
            }
            Self::SyncGroup(_) => Reply::SyncGroup(SyncGroupReply::refused(error)),
            // Members of a group that is being loaded are to stay.
            Self::Heartbeat(_) if error == ErrorCode::CoordinatorLoadInProgress => {
                Reply::Heartbeat(ErrorCode::None)
            }
            Self::Heartbeat(_) => Reply::Heartbeat(error),
            Self::LeaveGroup(_) => Reply::LeaveGroup(LeaveGroupReply {
                error,
                members: Vec::new(),
            }),
            Self::OffsetCommit(commit) => Reply::OffsetCommit(commit.refused(error)),
            Self::OffsetFetch(_) => Reply::OffsetFetch(OffsetFetchReply {
                error,
                topics: Vec::new(),
            }),
            Self::OffsetDelete(_) => Reply::OffsetDelete(OffsetDeleteReply {
                error,
                topics: Vec::new(),
            }),
            Self::ListGroups(_) => Reply::ListGroups(Err(error)),
            Self::DescribeGroups(describe) => {
                let refused = |id: &Str| DescribedGroup::refused(error, None, id.clone());
                Reply::DescribeGroups(describe.group_ids.iter().map(refused).collect())
            }
            Self::DeleteGroups(delete) => {
                let refused = |id: &Str| (id.clone(), error);
                Reply::DeleteGroups(delete.group_ids.iter().map(refused).collect())
            }
            Self::ConsumerGroupHeartbeat(_) => {
                let refused = ConsumerGroupHeartbeatReply::refused(error, None);
                Reply::ConsumerGroupHeartbeat(refused)
            }
            Self::ConsumerGroupDescribe(describe) => {
                let refused = |id: &Str| DescribedConsumerGroup::refused(error, None, id.clone());
                Reply::ConsumerGroupDescribe(describe.group_ids.iter().map(refused).collect())
            }
        }
    }
}

impl OffsetCommit {
    /// One code for every partition.
    #[must_use]
    pub fn refused(&self, error: ErrorCode) -> Vec<TopicCodes> {
        let code = |partition: &CommitPartition| (partition.index, error);
        let topic = |topic: &CommitTopic| TopicCodes {
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            partitions: topic.partitions.iter().map(code).collect(),
        };
        self.topics.iter().map(topic).collect()
    }
}

/// A member's request to take part in the next generation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JoinGroup {
    /// The group.
    pub group_id: Str,
    /// The member; empty when it has no id yet.
    pub member_id: Str,
    /// The static member's name.
    pub group_instance_id: Option<Str>,
    /// Who asks.
    pub client: Client,
    /// How long the member may be silent.
    pub session_timeout_ms: i32,
    /// How long the member may take to rejoin; version 0 has the session timeout instead.
    pub rebalance_timeout_ms: i32,
    /// `consumer`, `connect` or whatever the client's kind is.
    pub protocol_type: Str,
    /// The assignment protocols that the member knows, the best first, with its subscription for each.
    pub protocols: Vec<Protocol>,
    /// Why it joins, in the client's words.
    pub reason: Option<Str>,
    /// Whether a new dynamic member is sent back for an id first (KIP-394): versions 4 and later.
    pub requires_member_id: bool,
    /// Whether a leader that rejoins may be told to keep the assignment (KIP-814): versions 9 and later.
    pub skips_assignment: bool,
    /// Random bits for a new member's id.
    pub random: u128,
}

/// An assignment protocol and a member's subscription in its terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protocol {
    /// The protocol's name.
    pub name: Str,
    /// Opaque here.
    pub metadata: Bytes,
}

/// A member's request for its assignment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncGroup {
    /// The group.
    pub group_id: Str,
    /// The generation that the member joined.
    pub generation_id: i32,
    /// The member.
    pub member_id: Str,
    /// The static member's name.
    pub group_instance_id: Option<Str>,
    /// What the member believes to be the group's kind: version 5 and later.
    pub protocol_type: Option<Str>,
    /// What the member believes to be the protocol chosen: version 5 and later.
    pub protocol_name: Option<Str>,
    /// The leader's decision, by member id; empty for followers.
    pub assignments: Vec<(Str, Bytes)>,
}

/// A sign of life.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heartbeat {
    /// The group.
    pub group_id: Str,
    /// The member's generation.
    pub generation_id: i32,
    /// The member.
    pub member_id: Str,
    /// The static member's name.
    pub group_instance_id: Option<Str>,
}

/// Members that leave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaveGroup {
    /// The group.
    pub group_id: Str,
    /// The members; versions before 3 name one.
    pub members: Vec<LeavingMember>,
}

/// A member that leaves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeavingMember {
    /// The member; empty when only its name is known.
    pub member_id: Str,
    /// The static member's name.
    pub group_instance_id: Option<Str>,
    /// Why, in the client's words.
    pub reason: Option<Str>,
}

/// Offsets to commit. The handler keeps back what names no topic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetCommit {
    /// The group.
    pub group_id: Str,
    /// The member; empty for a client without one.
    pub member_id: Str,
    /// The static member's name.
    pub group_instance_id: Option<Str>,
    /// The generation of a classic member, the epoch of a consumer group's; −1 for a client without one.
    pub generation_id_or_member_epoch: i32,
    /// How long to keep the offsets: versions 2 to 4, `None` leaves it to the broker.
    pub retention_ms: Option<i64>,
    /// Whether a member that is behind its group hears STALE_MEMBER_EPOCH (versions 9 and later).
    pub knows_stale_epochs: bool,
    /// The producer in whose transaction the offsets are committed, if in one.
    pub producer: Option<(ProducerId, ProducerEpoch)>,
    /// What to commit.
    pub topics: Vec<CommitTopic>,
}

/// A topic's offsets to commit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommitTopic {
    /// The topic's name: offsets are kept by name.
    pub name: Str,
    /// Its id; zero where the client did not name it by id.
    pub topic_id: TopicId,
    /// Its partitions.
    pub partitions: Vec<CommitPartition>,
}

/// An offset to commit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommitPartition {
    /// The partition.
    pub index: i32,
    /// The offset to go on from.
    pub offset: i64,
    /// The epoch of the last record read; −1 when unknown.
    pub leader_epoch: i32,
    /// The client's note.
    pub metadata: Option<Str>,
}

/// Offsets to read, for one group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetFetch {
    /// The group.
    pub group_id: Str,
    /// The member, when it names itself (version 9 and later).
    pub member_id: Option<Str>,
    /// Its epoch; −1 when it has none.
    pub member_epoch: i32,
    /// Which; `None` for all there are.
    pub topics: Option<Vec<FetchTopic>>,
    /// Whether offsets of open transactions hold the answer up.
    pub require_stable: bool,
}

/// Partitions of a topic to read offsets of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchTopic {
    /// The topic's name.
    pub name: Str,
    /// Its id, echoed; zero where the client did not name it by id.
    pub topic_id: TopicId,
    /// Its partitions.
    pub partitions: Vec<i32>,
}

/// Offsets to forget.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetDelete {
    /// The group.
    pub group_id: Str,
    /// Topics and partitions.
    pub topics: Vec<(Str, Vec<i32>)>,
}

/// Which groups to list; empty filters let all pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListGroups {
    /// States, in any case.
    pub states: Vec<Str>,
    /// Types, in any case.
    pub types: Vec<Str>,
}

/// Classic groups to describe.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeGroups {
    /// The groups.
    pub group_ids: Vec<Str>,
    /// Whether an unknown group is an error (version 6 and later) or dead.
    pub knows_group_id_not_found: bool,
}

/// Groups to delete.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteGroups {
    /// The groups.
    pub group_ids: Vec<Str>,
}

/// A member of a consumer group speaks. What is `None` has not changed since the last time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupHeartbeat {
    /// The group.
    pub group_id: Str,
    /// The member; version 0 lets it be empty at first.
    pub member_id: Str,
    /// Its epoch: 0 joins, −1 leaves, −2 leaves for a while (static members).
    pub member_epoch: i32,
    /// The static member's name.
    pub instance_id: Option<Str>,
    /// Its rack.
    pub rack_id: Option<Str>,
    /// How long it may take to give partitions back; −1 for no change.
    pub rebalance_timeout_ms: i32,
    /// The topics it wants.
    pub subscribed_topic_names: Option<Vec<Str>>,
    /// The pattern of the topics it wants: version 1 and later.
    pub subscribed_topic_regex: Option<Str>,
    /// The assignor it prefers.
    pub server_assignor: Option<Str>,
    /// The partitions it holds.
    pub owned: Option<Vec<TopicPartitions>>,
    /// Who asks.
    pub client: Client,
    /// Whether the member must bring its own id: version 1 and later.
    pub requires_member_id: bool,
    /// Random bits for a new member's id.
    pub random: u128,
}

/// Partitions of one topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicPartitions {
    /// The topic.
    pub topic_id: TopicId,
    /// Its partitions.
    pub partitions: Vec<i32>,
}

/// Consumer groups to describe.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupDescribe {
    /// The groups.
    pub group_ids: Vec<Str>,
}
