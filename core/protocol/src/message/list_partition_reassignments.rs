//! ListPartitionReassignments (46): which partitions are being moved between brokers. Source: KIP-455.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks what is being moved.
    ListPartitionReassignmentsRequest, key 46, versions 0-0, flexible 0+ {
        /// How long to wait, in milliseconds.
        timeout_ms: i32, 0+, default 60_000;
        /// The topics; null for all.
        topics: Option<Vec<ListPartitionReassignmentsTopics>>, 0+, nullable 0+ default null;
    }
}

structure! {
    /// A topic's partitions.
    ListPartitionReassignmentsTopics {
        /// The topic's name.
        name: Str, 0+;
        /// The partitions.
        partition_indexes: Vec<i32>, 0+;
    }
}

message! {
    /// What is being moved.
    ListPartitionReassignmentsResponse, key 46, versions 0-0, flexible 0+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// What went wrong with the request as a whole.
        error_code: i16, 0+;
        /// That in words.
        error_message: Option<Str>, 0+, nullable 0+;
        /// The topics of which something is moved.
        topics: Vec<OngoingTopicReassignment>, 0+;
    }
}

structure! {
    /// A topic of which something is moved.
    OngoingTopicReassignment {
        /// The topic's name.
        name: Str, 0+;
        /// The partitions that are moved.
        partitions: Vec<OngoingPartitionReassignment>, 0+;
    }
}

structure! {
    /// A partition that is moved.
    OngoingPartitionReassignment {
        /// The partition's index.
        partition_index: i32, 0+;
        /// The brokers that hold it now, old and new.
        replicas: Vec<i32>, 0+;
        /// Those about to join.
        adding_replicas: Vec<i32>, 0+;
        /// Those about to leave.
        removing_replicas: Vec<i32>, 0+;
    }
}
