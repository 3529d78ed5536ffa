//! DeleteRecords (21): moves log starts up. Source: KIP-107.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks for everything below an offset to be deleted.
    DeleteRecordsRequest, key 21, versions 0-2, flexible 2+ {
        /// The topics.
        topics: Vec<DeleteRecordsTopic>, 0+;
        /// How long to wait for replicas, in milliseconds.
        timeout_ms: i32, 0+;
    }
}

structure! {
    /// A topic's partitions.
    DeleteRecordsTopic {
        /// The topic's name.
        name: Str, 0+;
        /// The partitions.
        partitions: Vec<DeleteRecordsPartition>, 0+;
    }
}

structure! {
    /// A partition and its new log start.
    DeleteRecordsPartition {
        /// The partition's index.
        partition_index: i32, 0+;
        /// Everything below goes; −1 is the high watermark.
        offset: i64, 0+;
    }
}

message! {
    /// Where the logs begin now.
    DeleteRecordsResponse, key 21, versions 0-2, flexible 2+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// The topics.
        topics: Vec<DeleteRecordsTopicResult>, 0+;
    }
}

structure! {
    /// A topic's answers.
    DeleteRecordsTopicResult {
        /// The topic's name.
        name: Str, 0+;
        /// The partitions.
        partitions: Vec<DeleteRecordsPartitionResult>, 0+;
    }
}

structure! {
    /// What became of a partition.
    DeleteRecordsPartitionResult {
        /// The partition's index.
        partition_index: i32, 0+;
        /// The smallest log start of its replicas; −1 on error.
        low_watermark: i64, 0+;
        /// The outcome.
        error_code: i16, 0+;
    }
}
