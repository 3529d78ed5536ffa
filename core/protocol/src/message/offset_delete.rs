//! OffsetDelete (47): forgets committed offsets. Source: KIP-496.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Forgets committed offsets.
    OffsetDeleteRequest, key 47, versions 0-0, flexible none {
        /// The group's id.
        group_id: Str, 0+;
        /// The topics.
        topics: Vec<OffsetDeleteRequestTopic>, 0+;
    }
}

structure! {
    /// A topic.
    OffsetDeleteRequestTopic {
        /// The topic's name.
        name: Str, 0+;
        /// The partitions.
        partitions: Vec<OffsetDeleteRequestPartition>, 0+;
    }
}

structure! {
    /// A partition.
    OffsetDeleteRequestPartition {
        /// The partition's index.
        partition_index: i32, 0+;
    }
}

message! {
    /// What became of each partition.
    OffsetDeleteResponse, key 47, versions 0-0, flexible none {
        /// The outcome.
        error_code: i16, 0+;
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// The topics.
        topics: Vec<OffsetDeleteResponseTopic>, 0+;
    }
}

structure! {
    /// A topic's outcomes.
    OffsetDeleteResponseTopic {
        /// The topic's name.
        name: Str, 0+;
        /// The partitions.
        partitions: Vec<OffsetDeleteResponsePartition>, 0+;
    }
}

structure! {
    /// A partition's outcome.
    OffsetDeleteResponsePartition {
        /// The partition's index.
        partition_index: i32, 0+;
        /// The outcome.
        error_code: i16, 0+;
    }
}
