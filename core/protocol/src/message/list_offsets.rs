//! ListOffsets (2): offsets by time, and the ends of partitions.
//!
//! Which negative times a version may use is the handler's business. Source: KIP-79, KIP-734, KIP-405, KIP-1005.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks for offsets by time, or for the ends of partitions.
    ListOffsetsRequest, key 2, versions 1-11, flexible 6+ {
        /// The follower's node id; −1 is a consumer.
        replica_id: i32, 0+;
        /// 0 reads all committed records, 1 only those of finished transactions too.
        isolation_level: i8, 2+;
        /// The topics.
        topics: Vec<ListOffsetsTopic>, 0+;
        /// How long the client waits for the outcome, in milliseconds.
        timeout_ms: i32, 10+;
    }
}

structure! {
    /// A topic asked about.
    ListOffsetsTopic {
        /// The topic's name.
        name: Str, 0+;
        /// The partitions.
        partitions: Vec<ListOffsetsPartition>, 0+;
    }
}

structure! {
    /// A partition asked about.
    ListOffsetsPartition {
        /// The partition's index.
        partition_index: i32, 0+;
        /// The epoch the client believes in, checked by the leader; −1 asks for no check.
        current_leader_epoch: i32, 4+, default -1;
        /// The time looked for, or a negative code: −1 latest, −2 earliest, −3 the latest time.
        timestamp: i64, 0+;
    }
}

message! {
    /// The offsets found.
    ListOffsetsResponse, key 2, versions 1-11, flexible 6+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 2+;
        /// The topics.
        topics: Vec<ListOffsetsTopicResponse>, 0+;
    }
}

structure! {
    /// A topic's offsets.
    ListOffsetsTopicResponse {
        /// The topic's name.
        name: Str, 0+;
        /// The partitions.
        partitions: Vec<ListOffsetsPartitionResponse>, 0+;
    }
}

structure! {
    /// A partition's offset.
    ListOffsetsPartitionResponse {
        /// The partition's index.
        partition_index: i32, 0+;
        /// The outcome.
        error_code: i16, 0+;
        /// The time of the record found; −1 is none.
        timestamp: i64, 1+, default -1;
        /// The offset found; −1 is none.
        offset: i64, 1+, default -1;
        /// The leader epoch of the record found; −1 is unknown.
        leader_epoch: i32, 4+, default -1;
    }
}
