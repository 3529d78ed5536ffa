//! OffsetCommit (8): where a group is to go on. Source: KIP-320, KIP-345, KIP-848.

use pelton_model::TopicId;

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Commits offsets.
    OffsetCommitRequest, key 8, versions 2-10, flexible 8+ {
        /// The group's id.
        group_id: Str, 0+;
        /// The generation of a classic member, the epoch of a consumer group's; −1 for a client without one.
        generation_id_or_member_epoch: i32, 1+, default -1;
        /// The member's id.
        member_id: Str, 1+;
        /// The static member's name; null for a dynamic member.
        group_instance_id: Option<Str>, 7+, nullable 7+ default null;
        /// How long to keep the offsets, in milliseconds; −1 leaves it to the broker.
        retention_time_ms: i64, 2-4, default -1;
        /// The topics.
        topics: Vec<OffsetCommitRequestTopic>, 0+;
    }
}

structure! {
    /// A topic's offsets.
    OffsetCommitRequestTopic {
        /// The topic's name.
        name: Str, 0-9;
        /// The topic's id.
        topic_id: TopicId, 10+;
        /// The partitions.
        partitions: Vec<OffsetCommitRequestPartition>, 0+;
    }
}

structure! {
    /// An offset.
    OffsetCommitRequestPartition {
        /// The partition's index.
        partition_index: i32, 0+;
        /// The offset to go on from.
        committed_offset: i64, 0+;
        /// The epoch of the last record read; −1 when unknown.
        committed_leader_epoch: i32, 6+, default -1;
        /// The client's note.
        committed_metadata: Option<Str>, 0+, nullable 0+;
    }
}

message! {
    /// What became of each partition.
    OffsetCommitResponse, key 8, versions 2-10, flexible 8+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 3+;
        /// The topics.
        topics: Vec<OffsetCommitResponseTopic>, 0+;
    }
}

structure! {
    /// A topic's outcomes.
    OffsetCommitResponseTopic {
        /// The topic's name.
        name: Str, 0-9;
        /// The topic's id.
        topic_id: TopicId, 10+;
        /// The partitions.
        partitions: Vec<OffsetCommitResponsePartition>, 0+;
    }
}

structure! {
    /// A partition's outcome.
    OffsetCommitResponsePartition {
        /// The partition's index.
        partition_index: i32, 0+;
        /// The outcome.
        error_code: i16, 0+;
    }
}
