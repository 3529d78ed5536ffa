//! The groups and committed offsets of one partition of `__consumer_offsets`: a coordinator, sans-IO.
//!
//! [`GroupShard`] is one such partition. Its owner loads it ([`GroupShard::replay`] for each record of the log, then
//! [`GroupShard::loaded`]), hands it requests ([`GroupShard::decide`]) and wakes it at [`GroupShard::next_deadline`]
//! ([`GroupShard::tick`]). Each gives a [`Decision`]: records to append as one batch, and replies that may leave once
//! those records, and all records of earlier decisions, are durable. A request without a reply in its own decision is
//! answered by a later one, under its [`Token`]. When an append fails or leadership goes, [`GroupShard::resign`] answers
//! whoever waits and the state is thrown away: what is durable is loaded again, here or elsewhere.
//!
//! Invariants:
//! 1. Hard state is what the records say: committed offsets, the last generation of each classic group that was written,
//!    consumer groups. Only `replay` changes it, also on the live path, so that a restart arrives at the same state.
//! 2. Soft state is what only a running coordinator knows: who has joined, who is awaited, when a member was last heard
//!    of, pending member ids, deadlines. It is made from hard state by `loaded` and lost with the coordinator; clients
//!    then rejoin.
//! 3. Nothing is decided on a clock of its own: `now` comes in, deadlines go out, and a tick does a bounded amount.
//! 4. A request costs what it names: heartbeats look up one member and move no timer.
//! 5. Everything a client can grow is bounded: members and their bytes for each group, groups for each partition, bytes
//!    of a note.
//!
//! Not here: who leads the partition, whether topics exist, authorisation, wire forms. Share and streams groups are
//! unknown here; their records are left alone.
//! Source: KIP-62, KIP-134, KIP-211, KIP-345, KIP-394, KIP-429, KIP-800, KIP-814, KIP-848, behaviour of Apache Kafka 4.3.

mod admin;
mod classic;
mod command;
mod consumer;
mod offsets;
mod reply;
mod requests;
mod scene;
mod shard;
mod snapshot;
mod timers;

pub use command::{
    Client, Command, CommitPartition, CommitTopic, ConsumerGroupDescribe, ConsumerGroupHeartbeat,
    DeleteGroups, DescribeGroups, FetchTopic, Heartbeat, JoinGroup, LeaveGroup, LeavingMember,
    ListGroups, OffsetCommit, OffsetDelete, OffsetFetch, Protocol, SyncGroup, TopicPartitions,
};
pub use pelton_model::coordinator::{Now, Token, partition_of};
pub use reply::{
    ConsumerGroupHeartbeatReply, DescribedConsumerGroup, DescribedConsumerMember, DescribedGroup,
    DescribedMember, FetchedPartition, FetchedTopic, JoinGroupReply, JoinedMember, LeaveGroupReply,
    LeftMember, ListedGroup, NamedPartitions, OffsetDeleteReply, OffsetFetchReply, Reply,
    SyncGroupReply, TopicCodes,
};
pub use shard::{Decision, GroupShard};
