//! OffsetFetch (9): where a group is to go on. Source: KIP-447, KIP-709, KIP-848.

use pelton_model::TopicId;

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks for committed offsets.
    OffsetFetchRequest, key 9, versions 1-10, flexible 6+ {
        /// The group's id.
        group_id: Str, 0-7;
        /// The topics; null asks for all.
        topics: Option<Vec<OffsetFetchRequestTopic>>, 0-7, nullable 2-7;
        /// The groups.
        groups: Vec<OffsetFetchRequestGroup>, 8+;
        /// Whether offsets of open transactions hold the answer up.
        require_stable: bool, 7+;
    }
}

structure! {
    /// A topic asked for, before version 8.
    OffsetFetchRequestTopic {
        /// The topic's name.
        name: Str, 0-7;
        /// The partitions.
        partition_indexes: Vec<i32>, 0-7;
    }
}

structure! {
    /// A group asked for.
    OffsetFetchRequestGroup {
        /// The group's id.
        group_id: Str, 8+;
        /// The member's id; null for a client that is none.
        member_id: Option<Str>, 9+, nullable 9+ default null;
        /// The member's epoch.
        member_epoch: i32, 9+, default -1;
        /// The topics; null asks for all.
        topics: Option<Vec<OffsetFetchRequestTopics>>, 8+, nullable 8+;
    }
}

structure! {
    /// A topic asked for.
    OffsetFetchRequestTopics {
        /// The topic's name.
        name: Str, 8-9;
        /// The topic's id.
        topic_id: TopicId, 10+;
        /// The partitions.
        partition_indexes: Vec<i32>, 8+;
    }
}

message! {
    /// The offsets.
    OffsetFetchResponse, key 9, versions 1-10, flexible 6+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 3+;
        /// The topics.
        topics: Vec<OffsetFetchResponseTopic>, 0-7;
        /// The outcome.
        error_code: i16, 2-7;
        /// The groups.
        groups: Vec<OffsetFetchResponseGroup>, 8+;
    }
}

structure! {
    /// A topic's offsets, before version 8.
    OffsetFetchResponseTopic {
        /// The topic's name.
        name: Str, 0-7;
        /// The partitions.
        partitions: Vec<OffsetFetchResponsePartition>, 0-7;
    }
}

structure! {
    /// A partition's offset, before version 8.
    OffsetFetchResponsePartition {
        /// The partition's index.
        partition_index: i32, 0-7;
        /// The offset to go on from; −1 for none.
        committed_offset: i64, 0-7;
        /// The epoch of the last record read; −1 when unknown.
        committed_leader_epoch: i32, 5-7, default -1;
        /// The client's note.
        metadata: Option<Str>, 0-7, nullable 0-7;
        /// The outcome.
        error_code: i16, 0-7;
    }
}

structure! {
    /// A group's offsets.
    OffsetFetchResponseGroup {
        /// The group's id.
        group_id: Str, 8+;
        /// The topics.
        topics: Vec<OffsetFetchResponseTopics>, 8+;
        /// The outcome.
        error_code: i16, 8+;
    }
}

structure! {
    /// A topic's offsets.
    OffsetFetchResponseTopics {
        /// The topic's name.
        name: Str, 8-9;
        /// The topic's id.
        topic_id: TopicId, 10+;
        /// The partitions.
        partitions: Vec<OffsetFetchResponsePartitions>, 8+;
    }
}

structure! {
    /// A partition's offset.
    OffsetFetchResponsePartitions {
        /// The partition's index.
        partition_index: i32, 8+;
        /// The offset to go on from; −1 for none.
        committed_offset: i64, 8+;
        /// The epoch of the last record read; −1 when unknown.
        committed_leader_epoch: i32, 8+, default -1;
        /// The client's note.
        metadata: Option<Str>, 8+, nullable 8+;
        /// The outcome.
        error_code: i16, 8+;
    }
}
