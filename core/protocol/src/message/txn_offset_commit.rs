//! TxnOffsetCommit (28): where a group is to go on once a transaction commits. Source: KIP-98, KIP-447, KIP-890.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Commits offsets in a transaction.
    TxnOffsetCommitRequest, key 28, versions 0-5, flexible 3+ {
        /// The transactional id.
        transactional_id: Str, 0+;
        /// The group.
        group_id: Str, 0+;
        /// The producer's id.
        producer_id: i64, 0+;
        /// The producer's epoch.
        producer_epoch: i16, 0+;
        /// The consumer's generation; −1 for none.
        generation_id: i32, 3+, default -1;
        /// The consumer's member id; empty for none.
        member_id: Str, 3+;
        /// The static member's name.
        group_instance_id: Option<Str>, 3+, nullable 3+ default null;
        /// The offsets, by topic.
        topics: Vec<TxnOffsetCommitRequestTopic>, 0+;
    }
}

structure! {
    /// A topic's offsets.
    TxnOffsetCommitRequestTopic {
        /// The topic's name.
        name: Str, 0+;
        /// The partitions.
        partitions: Vec<TxnOffsetCommitRequestPartition>, 0+;
    }
}

structure! {
    /// A partition's offset.
    TxnOffsetCommitRequestPartition {
        /// The partition's index.
        partition_index: i32, 0+;
        /// The offset to go on from.
        committed_offset: i64, 0+;
        /// The epoch of the last record read; −1 when unknown.
        committed_leader_epoch: i32, 2+, default -1;
        /// The client's note.
        committed_metadata: Option<Str>, 0+, nullable 0+;
    }
}

message! {
    /// What became of each partition.
    TxnOffsetCommitResponse, key 28, versions 0-5, flexible 3+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// The topics.
        topics: Vec<TxnOffsetCommitResponseTopic>, 0+;
    }
}

structure! {
    /// A topic's outcomes.
    TxnOffsetCommitResponseTopic {
        /// The topic's name.
        name: Str, 0+;
        /// The partitions.
        partitions: Vec<TxnOffsetCommitResponsePartition>, 0+;
    }
}

structure! {
    /// A partition's outcome.
    TxnOffsetCommitResponsePartition {
        /// The partition's index.
        partition_index: i32, 0+;
        /// The outcome.
        error_code: i16, 0+;
    }
}
