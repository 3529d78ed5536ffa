//! OffsetForLeaderEpoch (23): where leader epochs end. Source: KIP-101, KIP-279, KIP-320.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks where leader epochs end, to find where logs part.
    OffsetForLeaderEpochRequest, key 23, versions 2-4, flexible 4+ {
        /// The follower's node id; −1 is a consumer, −2 a debugging one.
        replica_id: i32, 3+, default -2;
        /// The topics.
        topics: Vec<OffsetForLeaderTopic>, 0+;
    }
}

structure! {
    /// A topic asked about.
    OffsetForLeaderTopic {
        /// The topic's name.
        topic: Str, 0+;
        /// The partitions.
        partitions: Vec<OffsetForLeaderPartition>, 0+;
    }
}

structure! {
    /// A partition and epoch asked about.
    OffsetForLeaderPartition {
        /// The partition's index.
        partition: i32, 0+;
        /// The epoch the client believes in, checked by the leader; −1 asks for no check.
        current_leader_epoch: i32, 2+, default -1;
        /// The epoch whose end is asked for.
        leader_epoch: i32, 0+;
    }
}

message! {
    /// Where the epochs end.
    OffsetForLeaderEpochResponse, key 23, versions 2-4, flexible 4+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 2+;
        /// The topics.
        topics: Vec<OffsetForLeaderTopicResult>, 0+;
    }
}

structure! {
    /// A topic's answers.
    OffsetForLeaderTopicResult {
        /// The topic's name.
        topic: Str, 0+;
        /// The partitions.
        partitions: Vec<EpochEndOffset>, 0+;
    }
}

structure! {
    /// The end of an epoch.
    EpochEndOffset {
        /// The outcome.
        error_code: i16, 0+;
        /// The partition's index.
        partition: i32, 0+;
        /// The largest epoch not above the one asked for; −1 is none.
        leader_epoch: i32, 1+, default -1;
        /// Where the epoch ends; −1 is unknown.
        end_offset: i64, 0+, default -1;
    }
}
