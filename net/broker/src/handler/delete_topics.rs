//! DeleteTopics: by name, or by id from version 6 on. Answered when every shard has let go of the logs.

use pelton_machine::controller::{DeletableTopic, DeleteTopicResult};
use pelton_model::{ErrorCode, TopicId};
use pelton_protocol::codec::Str;
use pelton_protocol::message::delete_topics::{
    DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse,
};

use super::Handled;
use crate::connection::Client;
use crate::controller::{Answer, Command};
use crate::dispatch::Request;
use crate::env::Env;
use crate::shard::CONTROLLER_SHARD;
use crate::shard::message;

/// Before this version clients do not know TOPIC_DELETION_DISABLED.
const DELETION_DISABLED_VERSION: i16 = 3;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: DeleteTopicsRequest = request.body()?;
    let by_name = asked.topic_names.iter().map(|name| DeletableTopic {
        name: Some(name.to_string()),
        topic_id: TopicId::ZERO,
    });
    let by_state = asked.topics.iter().map(|topic| DeletableTopic {
        name: topic.name.as_ref().map(ToString::to_string),
        topic_id: topic.topic_id,
    });
    let topics: Vec<DeletableTopic> = by_name.chain(by_state).collect();
    let command = message::Request::Control(Command::DeleteTopics(topics.clone()));
    let answer = client
        .shard
        .ask(CONTROLLER_SHARD, command)
        .await
        .into_control();
    let responses = if let Answer::Deleted(results) = answer {
        results
            .into_iter()
            .map(|result| told(result, request.version))
            .collect()
    } else {
        topics
            .iter()
            .map(|topic| failed(topic, answer.error()))
            .collect()
    };
    Ok(request.respond(&DeleteTopicsResponse {
        responses,
        ..DeleteTopicsResponse::default()
    }))
}

fn failed(topic: &DeletableTopic, error: ErrorCode) -> DeletableTopicResult {
    DeletableTopicResult {
        name: topic.name.as_deref().map(Str::from),
        topic_id: topic.topic_id,
        error_code: error.code(),
        error_message: Some(Str::from(error.message())),
    }
}

fn told(result: DeleteTopicResult, version: i16) -> DeletableTopicResult {
    let mut response = DeletableTopicResult {
        name: result.name.map(Str::from),
        topic_id: result.topic_id,
        ..DeletableTopicResult::default()
    };
    if let Err(refusal) = result.result {
        let is_disabled = refusal.error == ErrorCode::TopicDeletionDisabled;
        let error = if is_disabled && version < DELETION_DISABLED_VERSION {
            ErrorCode::InvalidRequest
        } else {
            refusal.error
        };
        response.error_code = error.code();
        let text = refusal
            .message
            .map_or_else(|| Str::from(error.message()), Str::from);
        response.error_message = Some(text);
    }
    response
}
