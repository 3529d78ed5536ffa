//! What a core-direct listener shows of this node: every core as a node of its own, so that any client sends to the core that
//! owns what it asks for.
//!
//! Invariants:
//! 1. The ids of cores lie above all ids that nodes may have where such a listener is configured, and follow from the node's id and
//!    the core's number: the same after a restart with as many cores.
//! 2. Only answers on such a listener name them, and only requests on such a listener may: what is stored and what other listeners
//!    show knows the node alone.
//! 3. Who asks another core than the owner is served all the same.

use pelton_machine::image::MetadataImage;
use pelton_model::{NodeId, PartitionId, ShardId, TopicId, TopicPartition};
use pelton_protocol::codec::Str;
use pelton_protocol::message::describe_cluster::DescribeClusterResponse;
use pelton_protocol::message::metadata::{MetadataResponse, MetadataResponseTopic};

use crate::boot::Endpoint;
use crate::connection::Client;
use crate::env::Env;
use crate::shard::CONTROLLER_SHARD;

/// Ids of cores begin here; the configuration keeps nodes with such a listener far below.
const CORE_ID_START: i32 = 1 << 30;
/// Cores that are shown; what further ones own is asked of the first, which serves it as well.
const CORES_SHOWN_MAX: u16 = 1 << 10;

/// The id by which a core is known.
fn core_id(node: NodeId, core: ShardId) -> i32 {
    let core = if core.0 < CORES_SHOWN_MAX { core.0 } else { 0 };
    CORE_ID_START + node.0 * i32::from(CORES_SHOWN_MAX) + i32::from(core)
}

/// A node as one listener shows it.
pub(crate) struct ShownNode<'a> {
    pub(crate) id: i32,
    pub(crate) endpoint: &'a Endpoint,
}

/// What an answer tells of a broker, whatever the answer.
struct Told<'a> {
    id: &'a mut i32,
    host: &'a mut Str,
    port: &'a mut i32,
}

impl<E: Env> Client<E> {
    /// Where its listener shows the cores; empty when it shows the node.
    fn cores(&self) -> &[Endpoint] {
        &self.shard.identity().core_endpoints[self.listener_index]
    }

    /// Whether its listener shows cores as nodes.
    pub(crate) fn is_core_direct(&self) -> bool {
        !self.cores().is_empty()
    }

    /// The node, or its cores.
    pub(crate) fn shown_nodes(&self) -> Vec<ShownNode<'_>> {
        let identity = self.shard.identity();
        if !self.is_core_direct() {
            return vec![ShownNode {
                id: identity.node_id.0,
                endpoint: &identity.endpoints[self.listener_index],
            }];
        }
        let cores = (0..CORES_SHOWN_MAX).map(ShardId).zip(self.cores());
        cores
            .map(|(core, endpoint)| ShownNode {
                id: core_id(identity.node_id, core),
                endpoint,
            })
            .collect()
    }

    /// The node or core that clients of its listener are to ask for what `owner` has.
    pub(crate) fn shown_owner(&self, owner: ShardId) -> ShownNode<'_> {
        let identity = self.shard.identity();
        let owner = if owner.0 < CORES_SHOWN_MAX {
            owner
        } else {
            CONTROLLER_SHARD
        };
        match self.cores().get(usize::from(owner.0)) {
            Some(endpoint) => ShownNode {
                id: core_id(identity.node_id, owner),
                endpoint,
            },
            None => ShownNode {
                id: identity.node_id.0,
                endpoint: &identity.endpoints[self.listener_index],
            },
        }
    }

    /// The node or core that clients are to ask for a partition that this node leads.
    pub(crate) fn shown_leader(&self, topic_id: TopicId, partition: PartitionId) -> ShownNode<'_> {
        let partition = TopicPartition {
            topic_id,
            partition,
        };
        self.shown_owner(self.shard.owner(partition))
    }

    /// The node that a client of its listener means by an id.
    pub(crate) fn meant_node(&self, id: i32) -> i32 {
        let is_shown = |node: &ShownNode<'_>| node.id == id;
        if self.is_core_direct() && self.shown_nodes().iter().any(is_shown) {
            return self.shard.identity().node_id.0;
        }
        id
    }

    /// The broker that a client of its listener means by a resource's name.
    pub(crate) fn meant_broker(&self, name: &str) -> String {
        match name.parse::<i32>() {
            Ok(id) if self.meant_node(id) != id => self.meant_node(id).to_string(),
            Ok(_) | Err(_) => name.to_owned(),
        }
    }

    /// Shows cores in place of the node, where the listener does.
    pub(crate) fn dress_metadata(&self, response: &mut MetadataResponse) {
        if !self.is_core_direct() {
            return;
        }
        self.spread(&mut response.brokers, |broker| Told {
            id: &mut broker.node_id,
            host: &mut broker.host,
            port: &mut broker.port,
        });
        self.dress_controller(&mut response.controller_id);
        let image = self.shard.image();
        for topic in &mut response.topics {
            self.dress_topic(&image, topic);
        }
    }

    /// Puts the cores that are shown in the node's place.
    fn spread<B: Clone>(&self, brokers: &mut Vec<B>, told: impl Fn(&mut B) -> Told<'_>) {
        let own = self.shard.identity().node_id.0;
        let Some(at) = brokers
            .iter_mut()
            .position(|broker| *told(broker).id == own)
        else {
            return;
        };
        let cores = self.shown_nodes().into_iter().map(|shown| {
            let mut core = brokers[at].clone();
            let fields = told(&mut core);
            *fields.id = shown.id;
            *fields.host = shown.endpoint.host.clone();
            *fields.port = i32::from(shown.endpoint.port);
            core
        });
        let cores: Vec<B> = cores.collect();
        brokers.splice(at..=at, cores);
    }

    fn dress_controller(&self, id: &mut i32) {
        if *id == self.shard.identity().node_id.0 {
            *id = self.shown_owner(CONTROLLER_SHARD).id;
        }
    }

    /// Names the owners of a topic's partitions in place of the node, where the listener does.
    pub(crate) fn dress_topic(&self, image: &MetadataImage, topic: &mut MetadataResponseTopic) {
        if !self.is_core_direct() {
            return;
        }
        let Some(id) = known_id(image, topic.topic_id, topic.name.as_ref()) else {
            return;
        };
        for partition in &mut topic.partitions {
            let index = PartitionId(partition.partition_index);
            self.dress_nodes(id, index, |dress| {
                dress(&mut partition.leader_id);
                partition.replica_nodes.iter_mut().for_each(dress);
                partition.isr_nodes.iter_mut().for_each(dress);
                partition.offline_replicas.iter_mut().for_each(dress);
            });
        }
    }

    /// Names the owner of a partition in place of the node, where the listener does: `visit` gives what is told of it to the function
    /// that it is given.
    pub(crate) fn dress_nodes(
        &self,
        topic_id: TopicId,
        index: PartitionId,
        visit: impl FnOnce(&dyn Fn(&mut i32)),
    ) {
        if !self.is_core_direct() {
            return;
        }
        let own = self.shard.identity().node_id.0;
        let shown = self.shown_leader(topic_id, index).id;
        visit(&|node| {
            if *node == own {
                *node = shown;
            }
        });
    }

    /// Shows cores in place of the node, where the listener does.
    pub(crate) fn dress_cluster(&self, response: &mut DescribeClusterResponse) {
        if !self.is_core_direct() {
            return;
        }
        self.spread(&mut response.brokers, |broker| Told {
            id: &mut broker.broker_id,
            host: &mut broker.host,
            port: &mut broker.port,
        });
        self.dress_controller(&mut response.controller_id);
    }
}

fn known_id(image: &MetadataImage, id: TopicId, name: Option<&Str>) -> Option<TopicId> {
    if !id.is_zero() {
        return Some(id);
    }
    image.topic_by_name(name?).map(|topic| topic.id())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: no core has the id of a node or of another node's core, and none overflows. Method: the ends of the range.
    #[test]
    fn ids() {
        fn check(node: i32, core: u16, expected: i32) {
            assert_eq!(core_id(NodeId(node), ShardId(core)), expected);
        }
        check(0, 0, 1 << 30);
        check(0, 1023, (1 << 30) + 1023);
        check(1, 0, (1 << 30) + 1024);
        check(1, 1024, (1 << 30) + 1024);
        check((1 << 20) - 1, 1023, i32::MAX);
    }
}
