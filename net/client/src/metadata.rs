//! What the client knows of the cluster: brokers, topics, leaders. Pure: a fold over Metadata responses and hints.
//!
//! 1. A leader is never replaced by one of an older epoch of the same topic: answers of different brokers may cross.
//! 2. Partitions are kept by their index; gaps and repetitions of a broken broker do no harm.
//! 3. At most [`limits::TOPICS_CACHED_MAX`] topics are remembered.

use std::collections::BTreeMap;
use std::rc::Rc;

use pelton_model::map::Map;
use pelton_model::{ErrorCode, TopicId};
use pelton_protocol::codec::Str;
use pelton_protocol::message::metadata::{
    MetadataResponse, MetadataResponsePartition, MetadataResponseTopic,
};

use crate::address::Address;
use crate::limits;

/// A broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// The node's id.
    pub node_id: i32,
    /// Where it is reached.
    pub address: Address,
    /// Its rack.
    pub rack: Option<Str>,
    /// Whether it is fenced; told by `Admin::describe_cluster` only.
    pub is_fenced: bool,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicMetadata {
    /// The name.
    pub name: Str,
    /// The id; zero when the broker tells none.
    pub topic_id: TopicId,
    /// Whether it is Kafka's own.
    pub is_internal: bool,
    /// The partitions, ascending.
    pub partitions: Vec<PartitionMetadata>,
}

impl TopicMetadata {
    /// The partition with this index.
    #[must_use]
    pub fn partition(&self, partition: i32) -> Option<&PartitionMetadata> {
        let found = self
            .partitions
            .binary_search_by_key(&partition, |known| known.partition);
        found.ok().map(|index| &self.partitions[index])
    }
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionMetadata {
    /// The index.
    pub partition: i32,
    /// The leader's node id; none when there is no leader.
    pub leader: Option<i32>,
    /// The leader's epoch; −1 is unknown.
    pub leader_epoch: i32,
    /// The nodes that hold replicas, the preferred leader first.
    pub replicas: Vec<i32>,
    /// The nodes in sync.
    pub isr: Vec<i32>,
    /// The nodes whose replica is offline.
    pub offline_replicas: Vec<i32>,
    /// What is wrong with the partition.
    pub error: ErrorCode,
}

/// The cache.
#[derive(Debug, Default)]
pub(crate) struct ClusterMetadata {
    pub(crate) cluster_id: Option<Str>,
    pub(crate) controller_id: Option<i32>,
    brokers: BTreeMap<i32, Broker>,
    topics: Map<Str, Rc<TopicMetadata>>,
}

impl ClusterMetadata {
    /// Takes an answer in; gives the topics that it reports as broken.
    pub(crate) fn apply(&mut self, response: &MetadataResponse) -> Vec<(Str, ErrorCode)> {
        if response.cluster_id.is_some() {
            self.cluster_id.clone_from(&response.cluster_id);
        }
        self.controller_id = node(response.controller_id);
        if !response.brokers.is_empty() {
            self.brokers.clear();
        }
        for broker in &response.brokers {
            let address = Address::new(broker.host.clone(), port(broker.port));
            let rack = broker.rack.clone();
            self.learn_broker(broker.node_id, address, rack);
        }
        let new_topics = response.topics.len().min(limits::TOPICS_CACHED_MAX);
        if self.topics.len() + new_topics > limits::TOPICS_CACHED_MAX {
            self.topics.clear();
        }
        let mut broken = Vec::new();
        for topic in response.topics.iter().take(limits::TOPICS_CACHED_MAX) {
            let Some(name) = &topic.name else { continue };
            let error = code(topic.error_code);
            if error.is_error() {
                self.topics.remove(name);
                broken.push((name.clone(), error));
            } else {
                self.learn_topic(name, topic);
            }
        }
        broken
    }

    /// Notes where a node is reached.
    pub(crate) fn learn_broker(&mut self, node_id: i32, address: Address, rack: Option<Str>) {
        let broker = Broker {
            node_id,
            address,
            rack,
            is_fenced: false,
        };
        self.brokers.insert(node_id, broker);
    }

    /// Takes in the leader that a Produce or Fetch response names; false when it is old news.
    pub(crate) fn learn_leader(
        &mut self,
        topic: &str,
        partition: i32,
        leader_id: i32,
        leader_epoch: i32,
    ) -> bool {
        let Some(topic) = self.topics.get_mut(topic) else {
            return false;
        };
        let topic = Rc::make_mut(topic);
        let known = topic
            .partitions
            .iter_mut()
            .find(|known| known.partition == partition);
        match known {
            Some(known) if known.leader_epoch < leader_epoch && leader_id >= 0 => {
                known.leader = Some(leader_id);
                known.leader_epoch = leader_epoch;
                true
            }
            Some(_) | None => false,
        }
    }

    /// Forgets a topic: what is known of it is wrong.
    pub(crate) fn forget_topic(&mut self, topic: &str) {
        self.topics.remove(topic);
    }

    pub(crate) fn topic(&self, name: &str) -> Option<&Rc<TopicMetadata>> {
        self.topics.get(name)
    }

    /// The topics of which the node leads a partition, sorted.
    pub(crate) fn topics_led_by(&self, node_id: i32) -> Vec<Str> {
        let leads = |topic: &TopicMetadata| {
            let mut leaders = topic.partitions.iter().map(|known| known.leader);
            leaders.any(|leader| leader == Some(node_id))
        };
        let led = self.topics.iter().filter(|(_, topic)| leads(topic));
        let mut names: Vec<Str> = led.map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn broker(&self, node_id: i32) -> Option<&Broker> {
        self.brokers.get(&node_id)
    }

    pub(crate) fn brokers(&self) -> impl Iterator<Item = &Broker> {
        self.brokers.values()
    }

    fn learn_topic(&mut self, name: &Str, response: &MetadataResponseTopic) {
        let mut topic = topic(name, response);
        if let Some(old) = self.topics.get(name) {
            let is_same = old.topic_id == topic.topic_id;
            for partition in topic.partitions.iter_mut().filter(|_| is_same) {
                let known = old.partition(partition.partition);
                if let Some(known) = known.filter(|k| k.leader_epoch > partition.leader_epoch) {
                    *partition = known.clone();
                }
            }
        }
        self.topics.insert(name.clone(), Rc::new(topic));
    }
}

/// A topic as a response describes it.
pub(crate) fn topic(name: &Str, response: &MetadataResponseTopic) -> TopicMetadata {
    let mut partitions: Vec<_> = response.partitions.iter().map(partition).collect();
    partitions.sort_by_key(|partition| partition.partition);
    partitions.dedup_by_key(|partition| partition.partition);
    TopicMetadata {
        name: name.clone(),
        topic_id: response.topic_id,
        is_internal: response.is_internal,
        partitions,
    }
}

fn partition(response: &MetadataResponsePartition) -> PartitionMetadata {
    PartitionMetadata {
        partition: response.partition_index,
        leader: node(response.leader_id),
        leader_epoch: response.leader_epoch,
        replicas: response.replica_nodes.clone(),
        isr: response.isr_nodes.clone(),
        offline_replicas: response.offline_replicas.clone(),
        error: code(response.error_code),
    }
}

fn node(node_id: i32) -> Option<i32> {
    (node_id >= 0).then_some(node_id)
}

/// A port on the wire is an int32; what is no port cannot be connected to.
pub(crate) fn port(port: i32) -> u16 {
    u16::try_from(port).unwrap_or(0)
}

fn code(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError)
}

#[cfg(test)]
mod tests {
    use pelton_protocol::message::metadata::MetadataResponseBroker;

    use super::*;

    fn response(topic_id: u8, leader_id: i32, leader_epoch: i32) -> MetadataResponse {
        MetadataResponse {
            brokers: vec![MetadataResponseBroker {
                node_id: 1,
                host: "h".into(),
                port: 9092,
                rack: None,
            }],
            topics: vec![MetadataResponseTopic {
                name: Some("t".into()),
                topic_id: TopicId([topic_id; 16]),
                partitions: vec![
                    MetadataResponsePartition {
                        partition_index: 1,
                        ..MetadataResponsePartition::default()
                    },
                    MetadataResponsePartition {
                        partition_index: 0,
                        leader_id,
                        leader_epoch,
                        ..MetadataResponsePartition::default()
                    },
                ],
                ..MetadataResponseTopic::default()
            }],
            ..MetadataResponse::default()
        }
    }

    // Goal: leaders move forward only. Method: answers and hints of older and newer epochs, then another topic id.
    #[test]
    fn leaders_move_forward() {
        let mut metadata = ClusterMetadata::default();
        let leader = |metadata: &ClusterMetadata| {
            let topic = metadata.topic("t").unwrap();
            let known = topic.partition(0).unwrap();
            (known.leader, known.leader_epoch)
        };
        assert!(metadata.apply(&response(1, 1, 5)).is_empty());
        assert_eq!(leader(&metadata), (Some(1), 5));
        metadata.apply(&response(1, 2, 4));
        assert_eq!(leader(&metadata), (Some(1), 5));
        assert!(!metadata.learn_leader("t", 0, 3, 5));
        assert!(metadata.learn_leader("t", 0, 3, 6));
        assert!(!metadata.learn_leader("t", 7, 3, 6));
        assert_eq!(leader(&metadata), (Some(3), 6));
        metadata.apply(&response(2, -1, 0));
        assert_eq!(leader(&metadata), (None, 0));
    }

    // Goal: a broken topic is reported and forgotten. Method: the same topic, well and then not.
    #[test]
    fn broken_topics_are_reported() {
        let mut metadata = ClusterMetadata::default();
        metadata.apply(&response(1, 1, 5));
        let mut broken = response(1, 1, 5);
        broken.topics[0].error_code = ErrorCode::UnknownTopicOrPartition.code();
        let expected = vec![("t".into(), ErrorCode::UnknownTopicOrPartition)];
        assert_eq!(metadata.apply(&broken), expected);
        assert!(metadata.topic("t").is_none());
    }
}
