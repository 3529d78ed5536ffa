//! ElectLeaders (43): gives partitions their preferred leader, or any when there is none in sync. Source: KIP-183, KIP-460.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks for elections.
    ElectLeadersRequest, key 43, versions 0-2, flexible 2+ {
        /// 0: the preferred leader; 1: any replica that lives, where none in sync does.
        election_type: i8, 1+;
        /// The partitions; null for all.
        topic_partitions: Option<Vec<TopicPartitions>>, 0+, nullable 0+;
        /// How long to wait, in milliseconds.
        timeout_ms: i32, 0+, default 60_000;
    }
}

structure! {
    /// Partitions of a topic.
    TopicPartitions {
        /// The topic's name.
        topic: Str, 0+;
        /// The partitions.
        partitions: Vec<i32>, 0+;
    }
}

message! {
    /// What became of the elections.
    ElectLeadersResponse, key 43, versions 0-2, flexible 2+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// What went wrong with the request as a whole.
        error_code: i16, 1+;
        /// One for each topic.
        replica_election_results: Vec<ReplicaElectionResult>, 0+;
    }
}

structure! {
    /// A topic's elections.
    ReplicaElectionResult {
        /// The topic's name.
        topic: Str, 0+;
        /// One for each partition.
        partition_result: Vec<PartitionResult>, 0+;
    }
}

structure! {
    /// A partition's election.
    PartitionResult {
        /// The partition.
        partition_id: i32, 0+;
        /// The outcome.
        error_code: i16, 0+;
        /// The outcome in words.
        error_message: Option<Str>, 0+, nullable 0+;
    }
}
