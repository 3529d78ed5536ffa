//! IncrementalAlterConfigs and AlterConfigs: what a resource's configuration becomes.
//!
//! Invariants:
//! 1. One result per resource of the request, in its order; a resource is changed whole or not at all.
//! 2. A resource named twice is refused both times, and changes nothing.
//! 3. A record is written only for a value that changes.
//!
//! It does not know which settings take effect where. The levels of loggers are no metadata: a change of theirs is checked here, and
//! carried out by whoever asked. Source: KIP-133, KIP-226, KIP-339, KIP-412, KIP-714, KIP-848, answers of Apache Kafka 4.3.1.

use std::collections::{BTreeMap, BTreeSet};

use pelton_model::config::broker::BrokerConfig;
use pelton_model::config::dynamic::Level;
use pelton_model::config::key::{ConfigKey, Kind, list};
use pelton_model::config::logger::{LOGGERS, LogLevel, ROOT};
use pelton_model::config::resource::{ClientMetricsFault, validate_client_metrics, validate_group};
use pelton_model::config::table::{broker_key, group_key, topic_key};
use pelton_model::config::{Settings, topic};
use pelton_model::record_type::metadata::{
    ConfigRecord, MetadataRecord, RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP, RESOURCE_TOPIC,
};
use pelton_model::{ErrorCode, limits};

use super::{Decision, Refusal, validate_topic_name};
use crate::image::MetadataImage;

/// What is to be done with one value of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigChange {
    /// The configuration's name.
    pub name: String,
    /// Kafka's number of the operation: 0 sets, 1 deletes, 2 appends to a list, 3 subtracts from a list.
    pub operation: i8,
    /// The value.
    pub value: Option<String>,
}

/// What a resource's configuration is to become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigChanges {
    /// The present one with these changes.
    Some(Vec<ConfigChange>),
    /// These values and no others.
    All(Vec<(String, Option<String>)>),
}

/// A resource to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterableResource {
    /// Kafka's number of the resource type.
    pub resource_type: i8,
    /// The resource's name; empty for all brokers.
    pub name: String,
    /// Its changes.
    pub changes: ConfigChanges,
}

/// What a change of configurations depends on besides the image.
pub struct AlterConfigsOptions<'a> {
    /// This broker, with what is set while it runs.
    pub broker: &'a BrokerConfig,
    /// Whether to check only.
    pub validate_only: bool,
}

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// Decides an IncrementalAlterConfigs or AlterConfigs request.
#[must_use]
pub fn alter_configs(
    image: &MetadataImage,
    resources: &[AlterableResource],
    options: &AlterConfigsOptions<'_>,
) -> Decision<Vec<Result<(), Refusal>>> {
    let mut counts: BTreeMap<(i8, &str), usize> = BTreeMap::new();
    for resource in resources {
        *counts.entry(identity(resource)).or_insert(0) += 1;
    }
    let mut records: Vec<ConfigRecord> = Vec::new();
    let mut bytes = 0;
    let mut results = Vec::with_capacity(resources.len());
    for resource in resources {
        let is_repeated = counts
            .get(&identity(resource))
            .is_some_and(|count| 1 < *count);
        let result = if is_repeated {
            Err(invalid("Each resource must appear at most once."))
        } else {
            Alteration {
                image,
                resource,
                options,
            }
            .decide()
        };
        let result = result.and_then(|mut changed| {
            let more = changed.iter().map(size_bytes).sum::<usize>();
            check_size(records.len() + changed.len(), bytes + more)?;
            bytes += more;
            records.append(&mut changed);
            Ok(())
        });
        results.push(result);
    }
    assert_eq!(results.len(), resources.len());
    if options.validate_only {
        records.clear();
    }
    let records = records.into_iter().map(MetadataRecord::from).collect();
    Decision { records, results }
}

fn identity(resource: &AlterableResource) -> (i8, &str) {
    (resource.resource_type, &resource.name)
}

fn invalid(text: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::InvalidRequest, text)
}

fn invalid_config(text: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::InvalidConfig, text)
}

/// One decision is one batch: what would make it too large is refused.
fn check_size(count: usize, bytes: usize) -> Result<(), Refusal> {
    if count <= limits::CONFIG_RECORDS_PER_REQUEST_MAX
        && bytes <= limits::CONFIG_BYTES_PER_REQUEST_MAX
    {
        return Ok(());
    }
    let text = "Unable to perform excessively large batch operation.";
    Err(Refusal::new(ErrorCode::PolicyViolation, text))
}

fn size_bytes(record: &ConfigRecord) -> usize {
    let value = record.value.as_ref().map_or(0, String::len);
    record.resource_name.len() + record.name.len() + value
}

/// One resource of a request.
struct Alteration<'a> {
    image: &'a MetadataImage,
    resource: &'a AlterableResource,
    options: &'a AlterConfigsOptions<'a>,
}

impl Alteration<'_> {
    fn decide(&self) -> Result<Vec<ConfigRecord>, Refusal> {
        self.check_names()?;
        self.check_nulls()?;
        match self.resource.resource_type {
            RESOURCE_TOPIC => {
                let wanted = self.wanted(&|name| topic_key(name).map(|row| &row.key))?;
                self.check_topic(&wanted)?;
                Ok(self.records(&wanted))
            }
            RESOURCE_BROKER => {
                self.check_broker_name()?;
                let wanted = self.wanted(&broker_key)?;
                self.check_broker(&wanted)?;
                Ok(self.records(&wanted))
            }
            RESOURCE_GROUP => {
                let wanted = self.wanted(&|name| group_key(name).map(|row| &row.key))?;
                self.check_group(&wanted)?;
                self.check_room(&wanted)?;
                Ok(self.records(&wanted))
            }
            RESOURCE_CLIENT_METRICS => {
                // Kafka's controller knows no types of these: nothing is appended to them.
                let wanted = self.wanted(&|_| None)?;
                self.check_client_metrics(&wanted)?;
                self.check_room(&wanted)?;
                Ok(self.records(&wanted))
            }
            RESOURCE_BROKER_LOGGER => {
                self.check_loggers()?;
                Ok(Vec::new())
            }
            other => Err(invalid(format!("Unknown resource type {other}"))),
        }
    }

    fn check_names(&self) -> Result<(), Refusal> {
        let names: Vec<&str> = match &self.resource.changes {
            ConfigChanges::Some(changes) => changes.iter().map(|c| c.name.as_str()).collect(),
            ConfigChanges::All(values) => values.iter().map(|(name, _)| name.as_str()).collect(),
        };
        let distinct: BTreeSet<&&str> = names.iter().collect();
        if distinct.len() < names.len() {
            return Err(invalid("Error due to duplicate config keys"));
        }
        Ok(())
    }

    fn check_nulls(&self) -> Result<(), Refusal> {
        let nulls: Vec<&str> = match &self.resource.changes {
            ConfigChanges::Some(changes) => changes
                .iter()
                .filter(|change| change.operation != DELETE && change.value.is_none())
                .map(|change| change.name.as_str())
                .collect(),
            ConfigChanges::All(values) => values
                .iter()
                .filter(|(_, value)| value.is_none())
                .map(|(name, _)| name.as_str())
                .collect(),
        };
        if nulls.is_empty() {
            return Ok(());
        }
        let names = nulls.join(", ");
        Err(invalid(format!("Null value not supported for : {names}")))
    }

    fn present(&self) -> Settings {
        let resource = self.resource;
        let configs = self.image.configs(resource.resource_type, &resource.name);
        let configs = configs.into_iter().flatten();
        configs
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// What the whole configuration of the resource would be.
    fn wanted(
        &self,
        key: &dyn Fn(&str) -> Option<&'static ConfigKey>,
    ) -> Result<Settings, Refusal> {
        let wanted = match &self.resource.changes {
            ConfigChanges::All(values) => values
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), value.clone()?)))
                .collect(),
            ConfigChanges::Some(changes) => {
                let mut wanted = self.present();
                for change in changes {
                    apply(&mut wanted, change, key)?;
                }
                wanted
            }
        };
        if wanted
            .values()
            .any(|value| limits::CONFIG_VALUE_BYTES_MAX < value.len())
        {
            return Err(invalid_config(format!(
                "The configuration value cannot be added because it exceeds the maximum value size \
                 of {} bytes.",
                limits::CONFIG_VALUE_BYTES_MAX
            )));
        }
        Ok(wanted)
    }

    fn check_topic(&self, wanted: &Settings) -> Result<(), Refusal> {
        let name = self.resource.name.as_str();
        if name.is_empty() {
            return Err(invalid("Default topic resources are not allowed."));
        }
        validate_topic_name(name)
            .map_err(|why| Refusal::new(ErrorCode::InvalidTopicException, why.to_string()))?;
        let pairs = wanted
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        topic::validate_all(self.options.broker, pairs).map_err(invalid_config)?;
        if self.image.topic_by_name(name).is_none() {
            let text = format!("The topic '{name}' does not exist.");
            return Err(Refusal::new(ErrorCode::UnknownTopicOrPartition, text));
        }
        Ok(())
    }

    fn check_broker_name(&self) -> Result<(), Refusal> {
        let name = self.resource.name.as_str();
        if name.is_empty() {
            return Ok(());
        }
        let own = self.options.broker.node_id;
        match name.parse::<i32>() {
            Ok(id) if id == own.0 => Ok(()),
            Ok(_) => Err(invalid(format!(
                "Unexpected broker id, expected {own}, but received {name}"
            ))),
            Err(_) => Err(invalid(format!(
                "Node id must be an integer, but it is: {name}"
            ))),
        }
    }

    fn check_broker(&self, wanted: &Settings) -> Result<(), Refusal> {
        let level = if self.resource.name.is_empty() {
            Level::Cluster
        } else {
            Level::Node
        };
        let checked = self.options.broker.check_dynamic(level, wanted);
        checked.map_err(|error| invalid(error.to_string()))
    }

    fn check_group(&self, wanted: &Settings) -> Result<(), Refusal> {
        if self.resource.name.is_empty() {
            return Err(invalid("Default group resources are not allowed."));
        }
        let checked = validate_group(self.options.broker, wanted);
        checked.map_err(|error| invalid_config(error.to_string()))
    }

    fn check_client_metrics(&self, wanted: &Settings) -> Result<(), Refusal> {
        if self.resource.name.is_empty() {
            return Err(invalid("Subscription name can't be empty"));
        }
        validate_client_metrics(wanted).map_err(|fault| match fault {
            ClientMetricsFault::Request(text) => invalid(text),
            ClientMetricsFault::Value(text) => invalid_config(text),
        })
    }

    /// Groups and subscriptions need not exist to have a configuration: their number is bounded here.
    fn check_room(&self, wanted: &Settings) -> Result<(), Refusal> {
        let resource_type = self.resource.resource_type;
        let is_new = self
            .image
            .configs(resource_type, &self.resource.name)
            .is_none();
        let count = self.image.config_resource_count(resource_type);
        if is_new && !wanted.is_empty() && limits::CONFIG_RESOURCES_MAX <= count {
            let text = "As many resources have a configuration as there may be.";
            return Err(Refusal::new(ErrorCode::PolicyViolation, text));
        }
        Ok(())
    }

    fn check_loggers(&self) -> Result<(), Refusal> {
        let ConfigChanges::Some(changes) = &self.resource.changes else {
            // Kafka has no way to replace all levels at once either.
            return Err(invalid("Unexpected resource type BROKER_LOGGER."));
        };
        let own = self.options.broker.node_id;
        let name = self.resource.name.as_str();
        match name.parse::<i32>() {
            Ok(id) if id == own.0 => {}
            Ok(id) => {
                let text = format!("Unexpected node id. Expected {own}, but received {id}");
                return Err(invalid(text));
            }
            Err(_) => {
                let text = format!("Node id must be an integer, but it is: {name}");
                return Err(invalid(text));
            }
        }
        changes.iter().try_for_each(check_logger)
    }

    fn records(&self, wanted: &Settings) -> Vec<ConfigRecord> {
        let present = self.present();
        let record = |name: &String, value: Option<&String>| ConfigRecord {
            resource_type: self.resource.resource_type,
            resource_name: self.resource.name.clone(),
            name: name.clone(),
            value: value.cloned(),
        };
        let set = wanted
            .iter()
            .filter(|(name, value)| present.get(*name) != Some(*value));
        let gone = present.keys().filter(|name| !wanted.contains_key(*name));
        set.map(|(name, value)| record(name, Some(value)))
            .chain(gone.map(|name| record(name, None)))
            .collect()
    }
}

fn check_logger(change: &ConfigChange) -> Result<(), Refusal> {
    let name = change.name.as_str();
    let exists = || {
        if LOGGERS.contains(&name) {
            Ok(())
        } else {
            Err(invalid_config(format!("Logger {name} does not exist!")))
        }
    };
    let not_allowed = |verb: &str| {
        let text = format!("{verb} operation is not allowed for the BROKER_LOGGER resource");
        Err(invalid(text))
    };
    match change.operation {
        SET => {
            exists()?;
            let value = change.value.as_deref().unwrap_or_default();
            if LogLevel::from_name(value).is_some() {
                return Ok(());
            }
            let levels = LogLevel::ALL.map(LogLevel::name).join(", ");
            Err(invalid_config(format!(
                "Cannot set the log level of {name} to {value} as it is not a supported log \
                 level. Valid log levels are {levels}"
            )))
        }
        DELETE => {
            exists()?;
            if name == ROOT {
                return Err(invalid(
                    "Removing the log level of the root logger is not allowed",
                ));
            }
            Ok(())
        }
        APPEND => not_allowed("APPEND"),
        SUBTRACT => not_allowed("SUBTRACT"),
        other => Err(invalid(format!(
            "Unknown operation type {other} is not allowed for the BROKER_LOGGER resource"
        ))),
    }
}

fn apply(
    settings: &mut Settings,
    change: &ConfigChange,
    key: &dyn Fn(&str) -> Option<&'static ConfigKey>,
) -> Result<(), Refusal> {
    let name = &change.name;
    let value = change.value.clone().unwrap_or_default();
    let (present, verb) = match change.operation {
        SET => {
            settings.insert(name.clone(), value);
            return Ok(());
        }
        DELETE => {
            settings.remove(name);
            return Ok(());
        }
        APPEND => (settings.get(name), "APPEND"),
        SUBTRACT => (settings.get(name), "SUBTRACT"),
        other => return Err(invalid(format!("Unknown operations type {other}"))),
    };
    let Some(key) = key(name).filter(|key| key.kind == Kind::List) else {
        return Err(invalid_config(format!(
            "Can't {verb} to key {name} because its type is not LIST."
        )));
    };
    let present = present.map_or(key.default.unwrap_or(""), String::as_str);
    let mut elements: Vec<&str> = list(present).collect();
    for element in value.split(',').map(str::trim) {
        if change.operation == SUBTRACT {
            elements.retain(|known| *known != element);
        } else if !elements.contains(&element) {
            elements.push(element);
        }
    }
    let joined = elements.join(",");
    settings.insert(name.clone(), joined);
    Ok(())
}

#[cfg(test)]
mod tests;
