//! Metadata (3): brokers, topics, partitions and their leaders.
//!
//! 1. Topics: in version 0 an empty list asks for all; from version 1 on null does, and empty asks for none.
//! 2. Names may be null on the wire from version 10 on, but ids mean something only from version 12 on.
//!
//! Source: KIP-516, KIP-700.

use bytes::Bytes;
use pelton_model::TopicId;
use pelton_model::slice::Slice;

use crate::api;
use crate::codec::{Context, Message, Str, Wire, Writer};
use crate::header::ResponseHeader;
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

/// A response of many topics that is encoded a few topics at a time, and once for all who ask alike.
#[derive(Debug)]
pub struct MetadataEncoder {
    version: i16,
    writer: Writer,
    /// What follows the topics.
    rest: Bytes,
    left: usize,
}

impl MetadataEncoder {
    /// Begins with everything but the topics, of which `response` has none; `count` of them are to follow.
    ///
    /// # Panics
    /// When `response` has topics, or `version` is not spoken.
    #[must_use]
    pub fn new(version: i16, response: &MetadataResponse, count: usize) -> Self {
        assert!(response.topics.is_empty());
        let context = Self::context(version);
        let mut whole = Writer::new();
        response.write(&mut whole, context);
        let mut whole = whole.into_bytes();
        // Behind the topics: a number in versions 8 to 10, the error code from 13 on, and tagged fields, of which there are none.
        let mut behind = usize::from(context.flexible);
        behind += if (8..=10).contains(&version) { 4 } else { 0 };
        behind += if 13 <= version { 2 } else { 0 };
        let count_bytes = if context.flexible { 1 } else { 4 };
        let rest = whole.split_off(whole.len() - behind);
        whole.truncate(whole.len() - count_bytes);
        let mut writer = Writer::new();
        writer.raw(&whole);
        writer.length(count, context.flexible);
        Self {
            version,
            writer,
            rest,
            left: count,
        }
    }

    /// Adds a topic.
    ///
    /// # Panics
    /// When all have been added.
    pub fn topic(&mut self, topic: &MetadataResponseTopic) {
        assert!(0 < self.left);
        self.left -= 1;
        topic.write(&mut self.writer, Self::context(self.version));
    }

    /// The body of the response.
    ///
    /// # Panics
    /// When a topic is missing.
    #[must_use]
    pub fn finish(mut self) -> Bytes {
        assert_eq!(self.left, 0);
        self.writer.raw(&self.rest);
        self.writer.into_bytes()
    }

    fn context(version: i16) -> Context {
        Context {
            version,
            flexible: MetadataResponse::FLEXIBLE.contains(version),
            nullable: false,
            tagged: false,
        }
    }
}

/// A whole response frame around a body that was encoded before.
///
/// # Panics
/// When `api_version` is not spoken.
#[must_use]
pub fn metadata_frame(correlation_id: i32, api_version: i16, body: &Bytes) -> Vec<Slice> {
    let row = api::row(MetadataResponse::KEY).expect("a response's key has a row");
    let mut writer = Writer::frame(16);
    ResponseHeader { correlation_id }.encode(&mut writer, row, api_version);
    writer.splice(Slice::Bytes(body.clone()));
    writer.into_slices()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::response_frame;

    // Goal: encoded in pieces is encoded. Method: every version, with no, one and 200 topics.
    #[test]
    fn in_pieces() {
        fn check(version: i16, count: usize) {
            let broker = MetadataResponseBroker {
                node_id: 7,
                host: "host".into(),
                port: 9092,
                rack: Some("rack".into()),
            };
            let partition = MetadataResponsePartition {
                partition_index: 3,
                leader_id: 7,
                leader_epoch: 4,
                replica_nodes: vec![7, 8],
                isr_nodes: vec![7],
                offline_replicas: vec![8],
                ..MetadataResponsePartition::default()
            };
            let topic = |index: usize| MetadataResponseTopic {
                name: Some(format!("topic-{index}").into()),
                topic_id: TopicId([5; 16]),
                partitions: vec![partition.clone(); index % 3],
                ..MetadataResponseTopic::default()
            };
            let mut response = MetadataResponse {
                brokers: vec![broker],
                cluster_id: Some("cluster".into()),
                controller_id: 7,
                cluster_authorized_operations: 264,
                ..MetadataResponse::default()
            };
            let mut encoder = MetadataEncoder::new(version, &response, count);
            response.topics = (0..count).map(topic).collect();
            for topic in &response.topics {
                encoder.topic(topic);
            }
            let join = |slices: Vec<Slice>| {
                let mut all = Vec::new();
                for slice in slices {
                    let Slice::Bytes(bytes) = slice else {
                        panic!("no file")
                    };
                    all.extend_from_slice(&bytes);
                }
                all
            };
            let frame = join(metadata_frame(9, version, &encoder.finish()));
            let whole = join(response_frame(9, version, &response).into_slices());
            assert_eq!(frame, whole, "version {version}, {count} topics");
        }
        for version in 0..=13 {
            for count in [0, 1, 200] {
                check(version, count);
            }
        }
    }
}
