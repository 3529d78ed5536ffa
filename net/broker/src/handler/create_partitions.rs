//! CreatePartitions: the controller decides; answered when every shard has the new partitions.

use pelton_machine::controller::{CreatePartitionsResult, NewPartitions};
use pelton_model::ErrorCode;
use pelton_protocol::codec::Str;
use pelton_protocol::message::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic,
    CreatePartitionsTopicResult,
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
    let asked: CreatePartitionsRequest = request.body()?;
    let topics = asked
        .topics
        .iter()
        .map(|topic| wanted(client, topic))
        .collect();
    let command = Command::CreatePartitions {
        topics,
        validate_only: asked.validate_only,
    };
    let answer = client
        .shard
        .ask(CONTROLLER_SHARD, message::Request::Control(command))
        .await
        .into_control();
    let results = if let Answer::Grown(results) = answer {
        results.into_iter().map(told).collect()
    } else {
        asked
            .topics
            .iter()
            .map(|topic| failed(topic, answer.error()))
            .collect()
    };
    Ok(request.respond(&CreatePartitionsResponse {
        results,
        ..CreatePartitionsResponse::default()
    }))
}

fn wanted<E: Env>(client: &Client<E>, topic: &CreatePartitionsTopic) -> NewPartitions {
    let meant = |ids: &Vec<i32>| ids.iter().map(|&id| client.meant_node(id)).collect();
    let assignments = topic.assignments.as_ref();
    NewPartitions {
        name: topic.name.to_string(),
        count: topic.count,
        assignments: assignments.map(|all| all.iter().map(|one| meant(&one.broker_ids)).collect()),
    }
}

fn failed(topic: &CreatePartitionsTopic, error: ErrorCode) -> CreatePartitionsTopicResult {
    CreatePartitionsTopicResult {
        name: topic.name.clone(),
        error_code: error.code(),
        error_message: Some(Str::from(error.message())),
    }
}

fn told(result: CreatePartitionsResult) -> CreatePartitionsTopicResult {
    let (error_code, error_message) = outcome(result.result);
    CreatePartitionsTopicResult {
        name: Str::from(result.name),
        error_code,
        error_message,
    }
}
