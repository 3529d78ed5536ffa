//! DescribeConfigs: from the image and the settings of this shard; nobody else is asked.

use pelton_machine::controller::validate_topic_name;
use pelton_model::ErrorCode;
use pelton_model::config::dynamic::BrokerLine;
use pelton_model::config::key::Kind;
use pelton_model::config::topic::{self, Described};
use pelton_model::record_type::metadata::{RESOURCE_BROKER, RESOURCE_TOPIC};
use pelton_protocol::codec::Str;
use pelton_protocol::message::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
    DescribeConfigsResponse, DescribeConfigsResult, DescribeConfigsSynonym,
};
use pelton_transport::net::Net;

use super::Handled;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;
use crate::shard::Shard;

/// What a client gets instead of a configuration.
struct Refused {
    error: ErrorCode,
    message: String,
}

/// Which columns a client wants.
#[derive(Clone, Copy)]
struct Columns {
    synonyms: bool,
    documentation: bool,
}

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: DescribeConfigsRequest = request.body()?;
    let columns = Columns {
        synonyms: asked.include_synonyms,
        documentation: asked.include_documentation,
    };
    let mut results = Vec::with_capacity(asked.resources.len());
    for resource in asked.resources {
        results.push(result(client, resource, columns));
        // Thousands of topics in one request are nothing unusual.
        client.shard.net.yield_now().await;
    }
    Ok(request.respond(&DescribeConfigsResponse {
        results,
        ..DescribeConfigsResponse::default()
    }))
}

fn result<E: Env>(
    client: &Client<E>,
    resource: DescribeConfigsResource,
    columns: Columns,
) -> DescribeConfigsResult {
    let name = resource.resource_name.as_str();
    let described = match resource.resource_type {
        RESOURCE_TOPIC => topic_lines(&client.shard, name, columns),
        RESOURCE_BROKER => broker_lines(&client.shard, &client.meant_broker(name), columns),
        other => Err(invalid(format!("Unsupported resource type: {other}"))),
    };
    let told = DescribeConfigsResult {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name,
        ..DescribeConfigsResult::default()
    };
    match described {
        Ok(mut configs) => {
            if let Some(keys) = resource.configuration_keys.filter(|keys| !keys.is_empty()) {
                configs.retain(|config| keys.contains(&config.name));
            }
            DescribeConfigsResult {
                // Kafka's word for "nothing" here is the empty text.
                error_message: Some(Str::from("")),
                configs,
                ..told
            }
        }
        Err(Refused { error, message }) => DescribeConfigsResult {
            error_code: error.code(),
            error_message: Some(Str::from(message)),
            ..told
        },
    }
}

fn invalid(message: String) -> Refused {
    Refused {
        error: ErrorCode::InvalidRequest,
        message,
    }
}

fn topic_lines<E: Env>(
    shard: &Shard<E>,
    name: &str,
    columns: Columns,
) -> Result<Vec<DescribeConfigsResourceResult>, Refused> {
    validate_topic_name(name).map_err(|why| Refused {
        error: ErrorCode::InvalidTopicException,
        message: why.to_string(),
    })?;
    let image = shard.image();
    if image.topic_by_name(name).is_none() {
        return Err(Refused {
            error: ErrorCode::UnknownTopicOrPartition,
            message: ErrorCode::UnknownTopicOrPartition.message().to_owned(),
        });
    }
    let overrides = image.topic_configs(name).into_iter().flatten();
    let overrides = overrides.map(|(name, value)| (name.as_str(), value.as_str()));
    let lines = topic::describe(&shard.settings(), overrides);
    Ok(lines
        .into_iter()
        .map(|line| topic_line(line, columns))
        .collect())
}

fn topic_line(line: Described, columns: Columns) -> DescribeConfigsResourceResult {
    let is_sensitive = line.key.kind == Kind::Password;
    let synonyms = line.synonyms.into_iter().filter(|_| columns.synonyms);
    DescribeConfigsResourceResult {
        name: Str::from(line.key.name),
        value: line.value.filter(|_| !is_sensitive).map(Str::from),
        read_only: false,
        config_source: line.source.code(),
        is_sensitive,
        synonyms: synonyms
            .map(|synonym| DescribeConfigsSynonym {
                name: Str::from(synonym.name),
                value: synonym.value.map(Str::from),
                source: synonym.source.code(),
            })
            .collect(),
        config_type: line.key.kind.code(),
        documentation: columns.documentation.then(|| Str::from(line.key.doc)),
    }
}

fn broker_lines<E: Env>(
    shard: &Shard<E>,
    name: &str,
    columns: Columns,
) -> Result<Vec<DescribeConfigsResourceResult>, Refused> {
    let settings = shard.settings();
    let lines = if name.is_empty() {
        settings.describe_cluster()
    } else {
        let own = settings.node_id;
        match name.parse::<i32>() {
            Ok(id) if id == own.0 => settings.describe(),
            Ok(_) => {
                return Err(invalid(format!(
                    "Unexpected broker id, expected {own} or empty string, but received {name}"
                )));
            }
            Err(_) => {
                return Err(invalid(format!(
                    "Broker id must be an integer, but it is: {name}"
                )));
            }
        }
    };
    Ok(lines
        .into_iter()
        .map(|line| broker_line(line, columns))
        .collect())
}

fn broker_line(line: BrokerLine, columns: Columns) -> DescribeConfigsResourceResult {
    let synonyms = line.synonyms.into_iter().filter(|_| columns.synonyms);
    let doc = line.key.map_or("Not a name of Pelton's.", |key| key.doc);
    DescribeConfigsResourceResult {
        name: Str::from(line.name),
        value: line.value.map(Str::from),
        read_only: line.is_read_only,
        config_source: line.source.code(),
        is_sensitive: line.is_sensitive,
        synonyms: synonyms
            .map(|synonym| DescribeConfigsSynonym {
                name: Str::from(synonym.name),
                value: synonym.value.map(Str::from),
                source: synonym.source.code(),
            })
            .collect(),
        config_type: line.key.map_or(0, |key| key.kind.code()),
        documentation: columns.documentation.then(|| Str::from(doc)),
    }
}
