//! ListPartitionReassignments: what is being moved between brokers. On a lone node that is what a larger cluster has left behind.

use pelton_machine::image::TopicImage;
use pelton_model::{NodeId, PartitionId};
use pelton_protocol::codec::Str;
use pelton_protocol::message::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment, OngoingTopicReassignment,
};

use super::{Handled, Pauses};
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: ListPartitionReassignmentsRequest = request.body()?;
    let image = client.shard.image();
    let mut pauses = Pauses::default();
    let mut topics = Vec::new();
    let Some(wanted) = &asked.topics else {
        for topic in image.topics() {
            let all = topic.partitions().map(|(index, _)| index);
            topics.extend(ongoing(client, topic, all));
            pauses
                .after(&client.shard.net, topic.partitions().len())
                .await;
        }
        return Ok(request.respond(&answer(topics)));
    };
    for topic in wanted {
        let indexes = topic.partition_indexes.iter().copied().map(PartitionId);
        if let Some(known) = image.topic_by_name(&topic.name) {
            topics.extend(ongoing(client, known, indexes));
        }
        pauses
            .after(&client.shard.net, topic.partition_indexes.len())
            .await;
    }
    Ok(request.respond(&answer(topics)))
}

fn answer(topics: Vec<OngoingTopicReassignment>) -> ListPartitionReassignmentsResponse {
    ListPartitionReassignmentsResponse {
        topics,
        ..ListPartitionReassignmentsResponse::default()
    }
}

/// Those of a topic's partitions that are being moved; none when there are none.
fn ongoing<E: Env>(
    client: &Client<E>,
    topic: &TopicImage,
    indexes: impl Iterator<Item = PartitionId>,
) -> Option<OngoingTopicReassignment> {
    let ids = |nodes: &[NodeId]| nodes.iter().map(|node| node.0).collect::<Vec<_>>();
    let moved = indexes.filter_map(|index| {
        let state = topic.partition(index)?;
        if !state.is_reassigned() {
            return None;
        }
        let mut moved = OngoingPartitionReassignment {
            partition_index: index.0,
            replicas: ids(&state.replicas),
            adding_replicas: ids(&state.adding_replicas),
            removing_replicas: ids(&state.removing_replicas),
        };
        client.dress_nodes(topic.id(), index, |dress| {
            let known = [
                &mut moved.replicas,
                &mut moved.adding_replicas,
                &mut moved.removing_replicas,
            ];
            known.into_iter().flatten().for_each(dress);
        });
        Some(moved)
    });
    let partitions: Vec<_> = moved.collect();
    (!partitions.is_empty()).then(|| OngoingTopicReassignment {
        name: Str::from(topic.name()),
        partitions,
    })
}
