//! CreatePartitions (37): adds partitions to topics. Source: KIP-195, KIP-599.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Adds partitions to topics.
    CreatePartitionsRequest, key 37, versions 0-3, flexible 2+ {
        /// The topics.
        topics: Vec<CreatePartitionsTopic>, 0+;
        /// How long the client waits for the outcome, in milliseconds.
        timeout_ms: i32, 0+;
        /// Whether to check only, and change nothing.
        validate_only: bool, 0+;
    }
}

structure! {
    /// A topic to add partitions to.
    CreatePartitionsTopic {
        /// The topic's name.
        name: Str, 0+;
        /// The number of partitions there shall be.
        count: i32, 0+;
        /// Where the new partitions' replicas go, by hand; null leaves it to the broker.
        assignments: Option<Vec<CreatePartitionsAssignment>>, 0+, nullable 0+;
    }
}

structure! {
    /// A new partition's replicas, placed by hand.
    CreatePartitionsAssignment {
        /// The nodes that hold the new partition's replicas.
        broker_ids: Vec<i32>, 0+;
    }
}

message! {
    /// What became of each topic.
    CreatePartitionsResponse, key 37, versions 0-3, flexible 2+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// The outcome per topic.
        results: Vec<CreatePartitionsTopicResult>, 0+;
    }
}

structure! {
    /// A topic's outcome.
    CreatePartitionsTopicResult {
        /// The topic's name.
        name: Str, 0+;
        /// The outcome.
        error_code: i16, 0+;
        /// What went wrong, in words; null when nothing did.
        error_message: Option<Str>, 0+, nullable 0+ default null;
    }
}
