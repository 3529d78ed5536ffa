//! CreateTopics: the controller decides; what comes back is told with the topic's whole configuration (KIP-525).

use pelton_machine::controller::{self, CreateTopicResult, CreatedTopic, Refusal};
use pelton_model::config::topic;
use pelton_model::{ErrorCode, TopicId};
use pelton_protocol::codec::Str;
use pelton_protocol::message::create_topics::{
    CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreateTopicsRequest,
    CreateTopicsResponse,
};

use super::Handled;
use crate::connection::Client;
use crate::controller::{Answer, Command};
use crate::dispatch::Request;
use crate::env::Env;
use crate::shard::CONTROLLER_SHARD;
use crate::shard::message;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: CreateTopicsRequest = request.body()?;
    let names: Vec<Str> = asked
        .topics
        .iter()
        .map(|topic| topic.name.clone())
        .collect();
    let named = asked.topics.into_iter();
    let topics = named.map(|topic| wanted(client, topic)).collect();
    let command = Command::CreateTopics {
        topics,
        validate_only: asked.validate_only,
    };
    let answer = client
        .shard
        .ask(CONTROLLER_SHARD, message::Request::Control(command))
        .await
        .into_control();
    let topics = if let Answer::Created(results) = answer {
        results
            .into_iter()
            .map(|result| told(client, result))
            .collect()
    } else {
        names
            .iter()
            .map(|name| failed(name, answer.error()))
            .collect()
    };
    Ok(request.respond(&CreateTopicsResponse {
        topics,
        ..CreateTopicsResponse::default()
    }))
}

fn wanted<E: Env>(client: &Client<E>, topic: CreatableTopic) -> controller::CreatableTopic {
    let meant = |ids: Vec<i32>| ids.into_iter().map(|id| client.meant_node(id)).collect();
    controller::CreatableTopic {
        name: topic.name.to_string(),
        num_partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: topic
            .assignments
            .into_iter()
            .map(|a| (a.partition_index, meant(a.broker_ids)))
            .collect(),
        configs: topic
            .configs
            .into_iter()
            .map(|config| {
                (
                    config.name.to_string(),
                    config.value.map(|value| value.to_string()),
                )
            })
            .collect(),
    }
}

fn failed(name: &Str, error: ErrorCode) -> CreatableTopicResult {
    CreatableTopicResult {
        name: name.clone(),
        topic_id: TopicId::ZERO,
        error_code: error.code(),
        error_message: Some(Str::from(error.message())),
        // Null means that the client may not see them.
        configs: Some(Vec::new()),
        ..CreatableTopicResult::default()
    }
}

fn told<E: Env>(client: &Client<E>, result: CreateTopicResult) -> CreatableTopicResult {
    let name = Str::from(result.name);
    match result.result {
        Ok(created) => CreatableTopicResult {
            name,
            topic_id: created.topic_id,
            num_partitions: created.num_partitions,
            replication_factor: created.replication_factor,
            configs: Some(configs(client, &created)),
            error_message: None,
            ..CreatableTopicResult::default()
        },
        Err(Refusal { error, message }) => {
            let text = message.map_or_else(|| Str::from(error.message()), Str::from);
            CreatableTopicResult {
                error_message: Some(text),
                ..failed(&name, error)
            }
        }
    }
}

fn configs<E: Env>(client: &Client<E>, created: &CreatedTopic) -> Vec<CreatableTopicConfigs> {
    let overrides = created
        .configs
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let described = topic::describe(&client.shard.settings(), overrides);
    described
        .into_iter()
        .map(|config| CreatableTopicConfigs {
            name: Str::from(config.key.name),
            value: config.value.map(Str::from),
            read_only: false,
            config_source: config.source.code(),
            is_sensitive: false,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a refused topic has no configurations, which is not the null of those that may not be seen.
    #[test]
    fn a_refused_topic_has_no_configurations() {
        let refused = failed(&Str::from("t"), ErrorCode::InvalidTopicException);
        assert_eq!(refused.configs, Some(Vec::new()));
    }
}
