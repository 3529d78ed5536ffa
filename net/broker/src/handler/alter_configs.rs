//! AlterConfigs and IncrementalAlterConfigs: the controller decides; answered when every shard acts on the new values.

use pelton_machine::controller::{AlterableResource, ConfigChange, ConfigChanges, Refusal};
use pelton_model::ErrorCode;
use pelton_model::config::logger::LogLevel;
use pelton_model::record_type::metadata::{RESOURCE_BROKER, RESOURCE_BROKER_LOGGER};
use pelton_protocol::codec::Str;
use pelton_protocol::message::alter_configs::{
    self, AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse,
};
use pelton_protocol::message::incremental_alter_configs::{
    self as incremental, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};

use super::Handled;
use crate::connection::Client;
use crate::controller::{Answer, Command};
use crate::dispatch::Request;
use crate::env::Env;
use crate::shard::CONTROLLER_SHARD;
use crate::shard::message;

/// The operation that sets a value.
const SET: i8 = 0;

/// Serves one AlterConfigs request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: AlterConfigsRequest = request.body()?;
    let resources = asked.resources.into_iter().map(whole).collect();
    let outcomes = alter(client, resources, asked.validate_only).await;
    Ok(request.respond(&AlterConfigsResponse {
        responses: outcomes
            .into_iter()
            .map(|outcome| AlterConfigsResourceResponse {
                error_code: outcome.error.code(),
                error_message: outcome.message,
                resource_type: outcome.resource_type,
                resource_name: outcome.name,
            })
            .collect(),
        ..AlterConfigsResponse::default()
    }))
}

/// Serves one IncrementalAlterConfigs request.
pub(crate) async fn handle_incremental<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: IncrementalAlterConfigsRequest = request.body()?;
    let resources = asked.resources.into_iter().map(changed).collect();
    let outcomes = alter(client, resources, asked.validate_only).await;
    Ok(request.respond(&IncrementalAlterConfigsResponse {
        responses: outcomes
            .into_iter()
            .map(|outcome| incremental::AlterConfigsResourceResponse {
                error_code: outcome.error.code(),
                error_message: outcome.message,
                resource_type: outcome.resource_type,
                resource_name: outcome.name,
            })
            .collect(),
        ..IncrementalAlterConfigsResponse::default()
    }))
}

fn whole(resource: alter_configs::AlterConfigsResource) -> AlterableResource {
    let values = resource.configs.into_iter().map(|config| {
        let value = config.value.map(|value| value.to_string());
        (config.name.to_string(), value)
    });
    AlterableResource {
        resource_type: resource.resource_type,
        name: resource.resource_name.to_string(),
        changes: ConfigChanges::All(values.collect()),
    }
}

fn changed(resource: incremental::AlterConfigsResource) -> AlterableResource {
    let changes = resource.configs.into_iter().map(|config| ConfigChange {
        name: config.name.to_string(),
        operation: config.config_operation,
        value: config.value.map(|value| value.to_string()),
    });
    AlterableResource {
        resource_type: resource.resource_type,
        name: resource.resource_name.to_string(),
        changes: ConfigChanges::Some(changes.collect()),
    }
}

/// What became of one resource.
struct Outcome {
    resource_type: i8,
    name: Str,
    error: ErrorCode,
    message: Option<Str>,
}

async fn alter<E: Env>(
    client: &Client<E>,
    mut resources: Vec<AlterableResource>,
    validate_only: bool,
) -> Vec<Outcome> {
    let identities: Vec<(i8, Str)> = resources
        .iter()
        .map(|resource| (resource.resource_type, Str::from(resource.name.as_str())))
        .collect();
    let brokers = resources.iter_mut().filter(|resource| {
        matches!(
            resource.resource_type,
            RESOURCE_BROKER | RESOURCE_BROKER_LOGGER
        )
    });
    for resource in brokers {
        resource.name = client.meant_broker(&resource.name);
    }
    let of_loggers = |resource: &AlterableResource| match &resource.changes {
        ConfigChanges::Some(changes) if resource.resource_type == RESOURCE_BROKER_LOGGER => {
            changes.clone()
        }
        ConfigChanges::Some(_) | ConfigChanges::All(_) => Vec::new(),
    };
    let loggers: Vec<Vec<ConfigChange>> = resources.iter().map(of_loggers).collect();
    let command = Command::AlterConfigs {
        resources,
        validate_only,
    };
    let answer = client
        .shard
        .ask(CONTROLLER_SHARD, message::Request::Control(command))
        .await
        .into_control();
    let results = if let Answer::ConfigsAltered(results) = answer {
        results
    } else {
        let failed = Refusal {
            error: answer.error(),
            message: None,
        };
        identities.iter().map(|_| Err(failed.clone())).collect()
    };
    if !validate_only {
        let granted = loggers.iter().zip(&results);
        for (changes, _) in granted.filter(|(_, result)| result.is_ok()) {
            turn_loggers(client, changes);
        }
    }
    let told = |((resource_type, name), result): ((i8, Str), Result<(), Refusal>)| {
        let (error, message) = match result {
            Ok(()) => (ErrorCode::None, None),
            Err(Refusal { error, message }) => {
                let text = message.map_or_else(|| Str::from(error.message()), Str::from);
                (error, Some(text))
            }
        };
        Outcome {
            resource_type,
            name,
            error,
            message,
        }
    };
    identities.into_iter().zip(results).map(told).collect()
}

/// Carries out what the controller checked: the log is the process', and no metadata.
fn turn_loggers<E: Env>(client: &Client<E>, changes: &[ConfigChange]) {
    for change in changes {
        // Only two operations pass the check: a value sets the level, none takes it away.
        let level = match change.operation {
            SET => change.value.as_deref().and_then(LogLevel::from_name),
            _ => None,
        };
        client.shard.loggers.set_level(&change.name, level);
        let (logger, level) = (&change.name, level.map_or("none", LogLevel::name));
        tracing::info!(%logger, level, "a log level was changed");
    }
}
