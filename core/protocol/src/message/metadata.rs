//! Metadata (3): brokers, topics, partitions and their leaders.
//!
//! 1. Topics: in version 0 an empty list asks for all; from version 1 on null does, and empty asks for none.
//! 2. Names may be null on the wire from version 10 on, but ids mean something only from version 12 on.
//!
//! Source: KIP-516, KIP-700.

use pelton_model::TopicId;

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks for the brokers and for topics: their partitions and leaders.
    MetadataRequest, key 3, versions 0-13, flexible 9+ {
        /// The topics asked for; null asks for all, and so does an empty list in version 0.
        topics: Option<Vec<MetadataRequestTopic>>, 0+, nullable 1+;
        /// Whether topics that do not exist may be created.
        allow_auto_topic_creation: bool, 4+, default true;
        /// Whether to tell what the client may do to the cluster.
        include_cluster_authorized_operations: bool, 8-10;
        /// Whether to tell what the client may do to each topic.
        include_topic_authorized_operations: bool, 8+;
    }
}

structure! {
    /// A topic asked for, by name or (from version 12 on) by id.
    MetadataRequestTopic {
        /// The topic's id; zero where the name tells.
        topic_id: TopicId, 10+;
        /// The topic's name; null where the id tells.
        name: Option<Str>, 0+, nullable 10+;
    }
}

message! {
    /// The brokers, the controller, and the topics asked for.
    MetadataResponse, key 3, versions 0-13, flexible 9+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 3+;
        /// The brokers that are alive.
        brokers: Vec<MetadataResponseBroker>, 0+;
        /// The cluster's id; null when unknown.
        cluster_id: Option<Str>, 2+, nullable 2+ default null;
        /// The controller's node id; −1 is unknown.
        controller_id: i32, 1+, default -1;
        /// The topics.
        topics: Vec<MetadataResponseTopic>, 0+;
        /// What the client may do to the cluster, as bits; the least integer when not asked.
        cluster_authorized_operations: i32, 8-10, default -2_147_483_648;
        /// The outcome.
        error_code: i16, 13+;
    }
}

structure! {
    /// A broker and where it is reached on the listener asked.
    MetadataResponseBroker {
        /// The node's id.
        node_id: i32, 0+;
        /// Its host.
        host: Str, 0+;
        /// Its port.
        port: i32, 0+;
        /// Its rack; null when it has none.
        rack: Option<Str>, 1+, nullable 1+ default null;
    }
}

structure! {
    /// A topic and its partitions.
    MetadataResponseTopic {
        /// The outcome.
        error_code: i16, 0+;
        /// The topic's name; null when an id is unknown.
        name: Option<Str>, 0+, nullable 12+;
        /// The topic's id; zero where the name tells.
        topic_id: TopicId, 10+;
        /// Whether the topic is Kafka's own.
        is_internal: bool, 1+;
        /// The partitions.
        partitions: Vec<MetadataResponsePartition>, 0+;
        /// What the client may do to the topic, as bits; the least integer when not asked.
        topic_authorized_operations: i32, 8+, default -2_147_483_648;
    }
}

structure! {
    /// A partition, its leader and its replicas.
    MetadataResponsePartition {
        /// The outcome.
        error_code: i16, 0+;
        /// The partition's index.
        partition_index: i32, 0+;
        /// The leader's node id; −1 is unknown or none.
        leader_id: i32, 0+;
        /// The leader's epoch; −1 is unknown.
        leader_epoch: i32, 7+, default -1;
        /// The nodes that hold replicas, the preferred leader first.
        replica_nodes: Vec<i32>, 0+;
        /// The nodes in sync.
        isr_nodes: Vec<i32>, 0+;
        /// The nodes whose replica is offline.
        offline_replicas: Vec<i32>, 5+;
    }
}
