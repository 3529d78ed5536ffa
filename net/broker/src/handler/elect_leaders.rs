//! ElectLeaders: the controller decides; answered when every shard knows the new leaders.

use pelton_machine::controller::{Election, TopicOutcomes, TopicPartitions};
use pelton_model::ErrorCode;
use pelton_protocol::codec::Str;
use pelton_protocol::message::elect_leaders::{
    ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
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
    let asked: ElectLeadersRequest = request.body()?;
    let Some(election) = Election::from_code(asked.election_type) else {
        return Ok(request.respond(&unknown_election(&asked)));
    };
    let named = |topics: Vec<_>| topics.into_iter().map(named).collect();
    let command = Command::ElectLeaders {
        election,
        topics: asked.topic_partitions.map(named),
    };
    let answer = client
        .shard
        .ask(CONTROLLER_SHARD, message::Request::Control(command))
        .await
        .into_control();
    let response = if let Answer::Elected(topics) = answer {
        ElectLeadersResponse {
            replica_election_results: topics.into_iter().map(told).collect(),
            ..ElectLeadersResponse::default()
        }
    } else {
        ElectLeadersResponse {
            error_code: answer.error().code(),
            ..ElectLeadersResponse::default()
        }
    };
    Ok(request.respond(&response))
}

/// As in Kafka: refused for every partition that is named, and as a whole unless none is to be named.
fn unknown_election(asked: &ElectLeadersRequest) -> ElectLeadersResponse {
    let named = asked.topic_partitions.as_deref();
    let error = match named {
        Some([]) => ErrorCode::None,
        Some(_) | None => ErrorCode::InvalidRequest,
    };
    let refused = |partition_id: &i32| PartitionResult {
        partition_id: *partition_id,
        error_code: error.code(),
        error_message: Some(Str::from(format!(
            "Unknown election type {}",
            asked.election_type
        ))),
    };
    let results = named.unwrap_or_default().iter();
    let results = results.map(|topic| ReplicaElectionResult {
        topic: topic.topic.clone(),
        partition_result: topic.partitions.iter().map(refused).collect(),
    });
    ElectLeadersResponse {
        error_code: error.code(),
        replica_election_results: results.collect(),
        ..ElectLeadersResponse::default()
    }
}

fn named(topic: pelton_protocol::message::elect_leaders::TopicPartitions) -> TopicPartitions {
    TopicPartitions {
        topic: topic.topic.to_string(),
        partitions: topic.partitions,
    }
}

fn told(topic: TopicOutcomes) -> ReplicaElectionResult {
    let partitions = topic.partitions.into_iter();
    let partitions = partitions.map(|(partition_id, result)| {
        let (error_code, error_message) = outcome(result);
        PartitionResult {
            partition_id,
            error_code,
            error_message,
        }
    });
    ReplicaElectionResult {
        topic: Str::from(topic.topic),
        partition_result: partitions.collect(),
    }
}
