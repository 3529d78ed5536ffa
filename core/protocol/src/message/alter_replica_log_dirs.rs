//! AlterReplicaLogDirs (34): moves partitions between the log directories of a broker. Source: KIP-113.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks for partitions to lie elsewhere.
    AlterReplicaLogDirsRequest, key 34, versions 1-2, flexible 2+ {
        /// The directories.
        dirs: Vec<AlterReplicaLogDir>, 0+;
    }
}

structure! {
    /// A directory and what shall lie in it.
    AlterReplicaLogDir {
        /// The directory's absolute path.
        path: Str, 0+;
        /// The topics.
        topics: Vec<AlterReplicaLogDirTopic>, 0+;
    }
}

structure! {
    /// A topic's partitions.
    AlterReplicaLogDirTopic {
        /// The topic's name.
        name: Str, 0+;
        /// The partitions.
        partitions: Vec<i32>, 0+;
    }
}

message! {
    /// Which moves have begun, or were not needed.
    AlterReplicaLogDirsResponse, key 34, versions 1-2, flexible 2+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// The topics.
        results: Vec<AlterReplicaLogDirTopicResult>, 0+;
    }
}

structure! {
    /// A topic's answers.
    AlterReplicaLogDirTopicResult {
        /// The topic's name.
        topic_name: Str, 0+;
        /// The partitions.
        partitions: Vec<AlterReplicaLogDirPartitionResult>, 0+;
    }
}

structure! {
    /// What became of a partition.
    AlterReplicaLogDirPartitionResult {
        /// The partition's index.
        partition_index: i32, 0+;
        /// The outcome.
        error_code: i16, 0+;
    }
}
