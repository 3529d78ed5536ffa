//! CreateTopics (19). Source: KIP-464, KIP-525, KIP-599.

use pelton_model::TopicId;

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Creates topics.
    CreateTopicsRequest, key 19, versions 2-7, flexible 5+ {
        /// The topics.
        topics: Vec<CreatableTopic>, 0+;
        /// How long the client waits for the outcome, in milliseconds.
        timeout_ms: i32, 0+, default 60_000;
        /// Whether to check only, and change nothing.
        validate_only: bool, 1+;
    }
}

structure! {
    /// A topic to create.
    CreatableTopic {
        /// The topic's name.
        name: Str, 0+;
        /// The number of partitions; −1 leaves it to the broker.
        num_partitions: i32, 0+;
        /// The number of replicas; −1 leaves it to the broker.
        replication_factor: i16, 0+;
        /// Where replicas go, by hand.
        assignments: Vec<CreatableReplicaAssignment>, 0+;
        /// The configuration.
        configs: Vec<CreatableTopicConfig>, 0+;
    }
}

structure! {
    /// A partition's replicas, placed by hand.
    CreatableReplicaAssignment {
        /// The partition's index.
        partition_index: i32, 0+;
        /// The nodes that hold the replicas.
        broker_ids: Vec<i32>, 0+;
    }
}

structure! {
    /// A configuration to set.
    CreatableTopicConfig {
        /// The configuration's name.
        name: Str, 0+;
        /// The value; null asks for the default.
        value: Option<Str>, 0+, nullable 0+;
    }
}

message! {
    /// What became of each topic.
    CreateTopicsResponse, key 19, versions 2-7, flexible 5+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 2+;
        /// The outcome per topic.
        topics: Vec<CreatableTopicResult>, 0+;
    }
}

structure! {
    /// A topic's outcome.
    CreatableTopicResult {
        /// The topic's name.
        name: Str, 0+;
        /// The topic's id; zero where the name tells.
        topic_id: TopicId, 7+;
        /// The outcome.
        error_code: i16, 0+;
        /// What went wrong, in words; null when nothing did.
        error_message: Option<Str>, 1+, nullable 0+;
        /// Why the configuration is not told.
        topic_config_error_code: i16, 5+, tag 0 5+;
        /// The number of partitions; −1 when not told.
        num_partitions: i32, 5+, default -1;
        /// The number of replicas; −1 when not told.
        replication_factor: i16, 5+, default -1;
        /// The configuration; null when not told.
        configs: Option<Vec<CreatableTopicConfigs>>, 5+, nullable 5+;
    }
}

structure! {
    /// A configuration of a topic created.
    CreatableTopicConfigs {
        /// The configuration's name.
        name: Str, 5+;
        /// The value.
        value: Option<Str>, 5+, nullable 5+;
        /// Whether it cannot be changed.
        read_only: bool, 5+;
        /// Where the value is set.
        config_source: i8, 5+, default -1;
        /// Whether the value is kept secret.
        is_sensitive: bool, 5+;
    }
}
