//! AlterPartitionReassignments (45): moves partitions to other brokers, or calls that off. Source: KIP-455, KIP-860.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks for replicas to be moved.
    AlterPartitionReassignmentsRequest, key 45, versions 0-1, flexible 0+ {
        /// How long to wait, in milliseconds.
        timeout_ms: i32, 0+, default 60_000;
        /// Whether a partition may have more or fewer replicas afterwards.
        allow_replication_factor_change: bool, 1+, default true;
        /// The topics.
        topics: Vec<ReassignableTopic>, 0+;
    }
}

structure! {
    /// A topic's partitions.
    ReassignableTopic {
        /// The topic's name.
        name: Str, 0+;
        /// The partitions.
        partitions: Vec<ReassignablePartition>, 0+;
    }
}

structure! {
    /// A partition and where it shall lie.
    ReassignablePartition {
        /// The partition's index.
        partition_index: i32, 0+;
        /// The brokers, the preferred leader first; null calls off what is under way.
        replicas: Option<Vec<i32>>, 0+, nullable 0+ default null;
    }
}

message! {
    /// What became of it.
    AlterPartitionReassignmentsResponse, key 45, versions 0-1, flexible 0+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// As in the request.
        allow_replication_factor_change: bool, 1+, default true;
        /// What went wrong with the request as a whole.
        error_code: i16, 0+;
        /// That in words.
        error_message: Option<Str>, 0+, nullable 0+;
        /// The topics.
        responses: Vec<ReassignableTopicResponse>, 0+;
    }
}

structure! {
    /// A topic's answers.
    ReassignableTopicResponse {
        /// The topic's name.
        name: Str, 0+;
        /// The partitions.
        partitions: Vec<ReassignablePartitionResponse>, 0+;
    }
}

structure! {
    /// What became of a partition.
    ReassignablePartitionResponse {
        /// The partition's index.
        partition_index: i32, 0+;
        /// The outcome.
        error_code: i16, 0+;
        /// The outcome in words.
        error_message: Option<Str>, 0+, nullable 0+;
    }
}
