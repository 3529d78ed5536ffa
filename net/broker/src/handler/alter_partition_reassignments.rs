//! AlterPartitionReassignments: the controller decides; answered when every shard knows where the partitions lie.

use pelton_machine::controller::{Reassignment, ReassignmentTopic, TopicOutcomes};
use pelton_protocol::codec::Str;
use pelton_protocol::message::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ReassignablePartition,
    ReassignablePartitionResponse, ReassignableTopic, ReassignableTopicResponse,
};

use super::{Handled, outcome};
use crate::connection::Client;
use crate::controller::{Answer, Command};
use crate::dispatch::Request;
use crate::env::Env;
use crate::shard::CONTROLLER_SHARD;
use crate::shard::message;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: AlterPartitionReassignmentsRequest = request.body()?;
    let command = Command::Reassign {
        topics: asked
            .topics
            .iter()
            .map(|topic| wanted(client, topic))
            .collect(),
        allow_factor_change: asked.allow_replication_factor_change,
    };
    let answer = client
        .shard
        .ask(CONTROLLER_SHARD, message::Request::Control(command))
        .await
        .into_control();
    let mut response = AlterPartitionReassignmentsResponse {
        // Where nothing is asked Kafka says the field's default.
        allow_replication_factor_change: asked.topics.is_empty()
            || asked.allow_replication_factor_change,
        ..AlterPartitionReassignmentsResponse::default()
    };
    if let Answer::Reassigned(topics) = answer {
        response.responses = topics.into_iter().map(told).collect();
    } else {
        response.error_code = answer.error().code();
        response.error_message = Some(Str::from(answer.error().message()));
    }
    Ok(request.respond(&response))
}

fn wanted<E: Env>(client: &Client<E>, topic: &ReassignableTopic) -> ReassignmentTopic {
    let meant = |ids: &Vec<i32>| ids.iter().map(|&id| client.meant_node(id)).collect();
    let of = |partition: &ReassignablePartition| Reassignment {
        partition: partition.partition_index,
        replicas: partition.replicas.as_ref().map(meant),
    };
    ReassignmentTopic {
        topic: topic.name.to_string(),
        partitions: topic.partitions.iter().map(of).collect(),
    }
}

fn told(topic: TopicOutcomes) -> ReassignableTopicResponse {
    let partitions = topic.partitions.into_iter();
    let partitions = partitions.map(|(partition_index, result)| {
        let (error_code, error_message) = outcome(result);
        ReassignablePartitionResponse {
            partition_index,
            error_code,
            error_message,
        }
    });
    ReassignableTopicResponse {
        name: Str::from(topic.topic),
        partitions: partitions.collect(),
    }
}
