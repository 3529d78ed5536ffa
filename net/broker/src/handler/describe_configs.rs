//! DescribeConfigs: from the image and the settings of this shard; nobody else is asked.

use pelton_machine::controller::validate_topic_name;
use pelton_machine::image::MetadataImage;
use pelton_model::ErrorCode;
use pelton_model::config::described::{Described, Source};
use pelton_model::config::dynamic::BrokerLine;
use pelton_model::config::key::Kind;
use pelton_model::config::logger;
use pelton_model::config::resource::{describe_client_metrics, describe_group};
use pelton_model::config::topic;
use pelton_model::record_type::metadata::{
    RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP,
    RESOURCE_TOPIC,
};
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
    // As in Kafka, one resource of an unknown type refuses the whole request.
    let mut types = asked.resources.iter().map(|one| one.resource_type);
    let unknown = types.find(|resource_type| !is_known(*resource_type));
    let mut results = Vec::with_capacity(asked.resources.len());
    for resource in asked.resources {
        results.push(result(client, resource, columns, unknown));
        // Thousands of topics in one request are nothing unusual.
        client.shard.net.yield_now().await;
    }
    Ok(request.respond(&DescribeConfigsResponse {
        results,
        ..DescribeConfigsResponse::default()
    }))
}

fn is_known(resource_type: i8) -> bool {
    matches!(
        resource_type,
        RESOURCE_TOPIC
            | RESOURCE_BROKER
            | RESOURCE_BROKER_LOGGER
            | RESOURCE_GROUP
            | RESOURCE_CLIENT_METRICS
    )
}

fn result<E: Env>(
    client: &Client<E>,
    resource: DescribeConfigsResource,
    columns: Columns,
    unknown: Option<i8>,
) -> DescribeConfigsResult {
    let name = resource.resource_name.as_str();
    let described = match unknown.unwrap_or(resource.resource_type) {
        RESOURCE_TOPIC => topic_lines(&client.shard, name, columns),
        RESOURCE_BROKER => broker_lines(&client.shard, &client.meant_broker(name), columns),
        RESOURCE_BROKER_LOGGER => logger_lines(&client.shard, &client.meant_broker(name)),
        RESOURCE_GROUP => group_lines(&client.shard, name, columns),
        RESOURCE_CLIENT_METRICS => client_metrics_lines(&client.shard, name, columns),
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
    let lines = topic::describe(&shard.settings(), set_on(&image, RESOURCE_TOPIC, name));
    Ok(shown(lines, columns))
}

/// What is set on a resource.
fn set_on<'a>(
    image: &'a MetadataImage,
    resource_type: i8,
    name: &str,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let set = image.configs(resource_type, name).into_iter().flatten();
    set.map(|(name, value)| (name.as_str(), value.as_str()))
}

fn shown(lines: Vec<Described>, columns: Columns) -> Vec<DescribeConfigsResourceResult> {
    let lines = lines.into_iter();
    lines.map(|line| shown_line(line, columns)).collect()
}

/// Groups need not exist to have a configuration.
fn group_lines<E: Env>(
    shard: &Shard<E>,
    name: &str,
    columns: Columns,
) -> Result<Vec<DescribeConfigsResourceResult>, Refused> {
    if name.is_empty() {
        return Err(invalid("Group name must not be empty".to_owned()));
    }
    let image = shard.image();
    let lines = describe_group(&shard.settings(), set_on(&image, RESOURCE_GROUP, name));
    Ok(shown(lines, columns))
}

fn client_metrics_lines<E: Env>(
    shard: &Shard<E>,
    name: &str,
    columns: Columns,
) -> Result<Vec<DescribeConfigsResourceResult>, Refused> {
    if name.is_empty() {
        let text = "Client metrics subscription name must not be empty";
        return Err(invalid(text.to_owned()));
    }
    let image = shard.image();
    let set = set_on(&image, RESOURCE_CLIENT_METRICS, name);
    let lines = describe_client_metrics(&shard.settings(), set);
    Ok(shown(lines, columns))
}

fn logger_lines<E: Env>(
    shard: &Shard<E>,
    name: &str,
) -> Result<Vec<DescribeConfigsResourceResult>, Refused> {
    if name.is_empty() {
        return Err(invalid("Broker id must not be empty".to_owned()));
    }
    let own = shard.config.node_id;
    if broker_id(name)? != own.0 {
        let text = format!("Unexpected broker id, expected {own} but received {name}");
        return Err(invalid(text));
    }
    let lines = logger::describe(&shard.loggers.own_levels()).into_iter();
    let line = |(name, level): (&str, logger::LogLevel)| DescribeConfigsResourceResult {
        name: Str::from(name),
        value: Some(Str::new_static(level.name())),
        config_source: Source::DynamicLogger.code(),
        config_type: Kind::String.code(),
        ..DescribeConfigsResourceResult::default()
    };
    Ok(lines.map(line).collect())
}

fn broker_id(name: &str) -> Result<i32, Refused> {
    let id = name.parse::<i32>();
    id.map_err(|_| invalid(format!("Broker id must be an integer, but it is: {name}")))
}

fn shown_line(line: Described, columns: Columns) -> DescribeConfigsResourceResult {
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
        if broker_id(name)? != own.0 {
            return Err(invalid(format!(
                "Unexpected broker id, expected {own} or empty string, but received {name}"
            )));
        }
        settings.describe()
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
