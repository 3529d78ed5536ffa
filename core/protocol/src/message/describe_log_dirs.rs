//! DescribeLogDirs (35): the log directories of a broker and what lies in them. Source: KIP-113, KIP-827, KIP-1066.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks for the log directories.
    DescribeLogDirsRequest, key 35, versions 1-5, flexible 2+ {
        /// The topics to be described; null for all.
        topics: Option<Vec<DescribableLogDirTopic>>, 0+, nullable 0+;
    }
}

structure! {
    /// Partitions of a topic to be described.
    DescribableLogDirTopic {
        /// The topic's name.
        topic: Str, 0+;
        /// The partitions.
        partitions: Vec<i32>, 0+;
    }
}

message! {
    /// The log directories.
    DescribeLogDirsResponse, key 35, versions 1-5, flexible 2+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// What went wrong with the request as a whole.
        error_code: i16, 3+;
        /// One for each log directory.
        results: Vec<DescribeLogDirsResult>, 0+;
    }
}

structure! {
    /// A log directory.
    DescribeLogDirsResult {
        /// KAFKA_STORAGE_ERROR when it is offline.
        error_code: i16, 0+;
        /// Its absolute path.
        log_dir: Str, 0+;
        /// The topics that it holds partitions of.
        topics: Vec<DescribeLogDirsTopic>, 0+;
        /// Bytes of its volume; −1 when unknown.
        total_bytes: i64, 4+, default -1;
        /// Bytes of its volume that may still be written; −1 when unknown.
        usable_bytes: i64, 4+, default -1;
        /// Whether it takes no new partitions.
        is_cordoned: bool, 5+;
    }
}

structure! {
    /// Partitions of a topic in a log directory.
    DescribeLogDirsTopic {
        /// The topic's name.
        name: Str, 0+;
        /// The partitions.
        partitions: Vec<DescribeLogDirsPartition>, 0+;
    }
}

structure! {
    /// A partition in a log directory.
    DescribeLogDirsPartition {
        /// The partition.
        partition_index: i32, 0+;
        /// Bytes of its segments.
        partition_size: i64, 0+;
        /// How far its log end is behind the high watermark, or a copy being moved is behind its original.
        offset_lag: i64, 0+;
        /// Whether it is a copy being moved from another directory.
        is_future_key: bool, 0+;
    }
}
