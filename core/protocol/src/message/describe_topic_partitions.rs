//! DescribeTopicPartitions (75): topics with their leaders, a page at a time. Source: KIP-966.

use pelton_model::TopicId;

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks for topics.
    DescribeTopicPartitionsRequest, key 75, versions 0-0, flexible 0+ {
        /// The topics; all when there are none.
        topics: Vec<TopicRequest>, 0+;
        /// How many partitions the answer may have.
        response_partition_limit: i32, 0+, default 2000;
        /// Where to go on.
        cursor: Option<Cursor>, 0+, nullable 0+ default null;
    }
}

structure! {
    /// A topic to be described.
    TopicRequest {
        /// The topic's name.
        name: Str, 0+;
    }
}

structure! {
    /// The first partition of the next page.
    Cursor {
        /// Its topic's name.
        topic_name: Str, 0+;
        /// Its index.
        partition_index: i32, 0+;
    }
}

message! {
    /// A page of topics.
    DescribeTopicPartitionsResponse, key 75, versions 0-0, flexible 0+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// The topics, by name.
        topics: Vec<DescribeTopicPartitionsResponseTopic>, 0+;
        /// Where the next page begins; null after the last.
        next_cursor: Option<Cursor>, 0+, nullable 0+ default null;
    }
}

structure! {
    /// A topic.
    DescribeTopicPartitionsResponseTopic {
        /// The outcome.
        error_code: i16, 0+;
        /// The topic's name.
        name: Option<Str>, 0+, nullable 0+;
        /// The topic's id; zero when it does not exist.
        topic_id: TopicId, 0+;
        /// Whether it is one of Kafka's own.
        is_internal: bool, 0+;
        /// Those of its partitions that are on the page.
        partitions: Vec<DescribeTopicPartitionsResponsePartition>, 0+;
        /// What the client may do, as bits; the least number when it is not told.
        topic_authorized_operations: i32, 0+, default -2_147_483_648;
    }
}

structure! {
    /// A partition.
    DescribeTopicPartitionsResponsePartition {
        /// The outcome.
        error_code: i16, 0+;
        /// The partition's index.
        partition_index: i32, 0+;
        /// The leader; −1 when there is none.
        leader_id: i32, 0+;
        /// The leader epoch.
        leader_epoch: i32, 0+, default -1;
        /// The brokers that hold it.
        replica_nodes: Vec<i32>, 0+;
        /// The in-sync replicas.
        isr_nodes: Vec<i32>, 0+;
        /// Replicas that may lead although out of sync.
        eligible_leader_replicas: Option<Vec<i32>>, 0+, nullable 0+ default null;
        /// The last known replicas of that set.
        last_known_elr: Option<Vec<i32>>, 0+, nullable 0+ default null;
        /// Replicas whose broker or directory is gone.
        offline_replicas: Vec<i32>, 0+;
    }
}
