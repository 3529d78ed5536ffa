//! Administration of configurations: of topics, brokers, groups, client metrics and loggers.

use pelton_model::record_type::metadata::{
    RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP,
    RESOURCE_TOPIC,
};
use pelton_protocol::codec::Str;
use pelton_protocol::message::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
    DescribeConfigsResponse,
};
use pelton_protocol::message::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
};
use pelton_protocol::message::list_config_resources::{
    ListConfigResourcesRequest, ListConfigResourcesResponse,
};
use pelton_transport::net::Net;

use crate::admin::Admin;
use crate::connection::Connection;
use crate::error::ClientError;

/// What has a configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigResource {
    /// A topic.
    Topic(Str),
    /// One broker.
    Broker(i32),
    /// All brokers.
    AllBrokers,
    /// The loggers of one broker.
    Loggers(i32),
    /// A client metrics subscription.
    ClientMetrics(Str),
    /// A group.
    Group(Str),
}

impl ConfigResource {
    /// The resource of Kafka's number and name; none when the number is unknown here, or the name is no broker's.
    fn from_wire(resource_type: i8, name: &Str) -> Option<Self> {
        match resource_type {
            RESOURCE_TOPIC => Some(Self::Topic(name.clone())),
            RESOURCE_BROKER if name.is_empty() => Some(Self::AllBrokers),
            RESOURCE_BROKER => name.parse().ok().map(Self::Broker),
            RESOURCE_BROKER_LOGGER => name.parse().ok().map(Self::Loggers),
            RESOURCE_CLIENT_METRICS => Some(Self::ClientMetrics(name.clone())),
            RESOURCE_GROUP => Some(Self::Group(name.clone())),
            _ => None,
        }
    }

    fn wire(&self) -> (i8, Str) {
        match self {
            Self::Topic(name) => (RESOURCE_TOPIC, name.clone()),
            Self::Broker(id) => (RESOURCE_BROKER, Str::from(id.to_string())),
            Self::AllBrokers => (RESOURCE_BROKER, Str::default()),
            Self::Loggers(id) => (RESOURCE_BROKER_LOGGER, Str::from(id.to_string())),
            Self::ClientMetrics(name) => (RESOURCE_CLIENT_METRICS, name.clone()),
            Self::Group(name) => (RESOURCE_GROUP, name.clone()),
        }
    }

    /// The broker that alone can answer.
    fn broker(&self) -> Option<i32> {
        match self {
            Self::Broker(id) | Self::Loggers(id) => Some(*id),
            Self::Topic(_) | Self::AllBrokers | Self::ClientMetrics(_) | Self::Group(_) => None,
        }
    }

    /// As errors name it.
    fn object(&self) -> Str {
        match self {
            Self::Topic(name) => Str::from(format!("topic {name}")),
            Self::Broker(id) => Str::from(format!("broker {id}")),
            Self::AllBrokers => Str::new_static("all brokers"),
            Self::Loggers(id) => Str::from(format!("the loggers of broker {id}")),
            Self::ClientMetrics(name) => Str::from(format!("client metrics {name}")),
            Self::Group(name) => Str::from(format!("group {name}")),
        }
    }
}

/// A line of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The name.
    pub name: Str,
    /// The value; none when it is null, or secret.
    pub value: Option<Str>,
    /// Kafka's number of the place that sets it; see `pelton_model::config::described::Source`.
    pub source: i8,
    /// Whether it cannot be changed.
    pub is_read_only: bool,
    /// Whether the value is secret.
    pub is_sensitive: bool,
    /// The name in words, where the broker has some.
    pub documentation: Option<Str>,
}

/// A change of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigChange {
    /// Sets it.
    Set(Str, Str),
    /// Takes it away: what is below counts again.
    Delete(Str),
    /// Adds to a list.
    Append(Str, Str),
    /// Takes from a list.
    Subtract(Str, Str),
}

impl ConfigChange {
    fn wire(&self) -> AlterableConfig {
        let (config_operation, name, value) = match self {
            Self::Set(name, value) => (0, name, Some(value)),
            Self::Delete(name) => (1, name, None),
            Self::Append(name, value) => (2, name, Some(value)),
            Self::Subtract(name, value) => (3, name, Some(value)),
        };
        AlterableConfig {
            name: name.clone(),
            config_operation,
            value: value.cloned(),
        }
    }
}

impl<N: Net> Admin<N> {
    /// Every resource that has a configuration, sorted.
    ///
    /// # Errors
    /// Nobody answers, or the broker is older than this API's version 1.
    pub async fn list_config_resources(&self) -> Result<Vec<ConfigResource>, ClientError> {
        let request = ListConfigResourcesRequest::default();
        let response: ListConfigResourcesResponse = self.client().call(&request).await?;
        let code = response.error_code;
        ClientError::refused("listing configurations of", "the cluster", code, None)?;
        let resources = response.config_resources.iter();
        let mut resources: Vec<ConfigResource> = resources
            .filter_map(|one| ConfigResource::from_wire(one.resource_type, &one.resource_name))
            .collect();
        resources.sort();
        Ok(resources)
    }

    /// The configuration of a resource, in the broker's order.
    ///
    /// # Errors
    /// The resource does not exist, or its broker does not answer.
    pub async fn describe_configs(
        &self,
        resource: &ConfigResource,
    ) -> Result<Vec<ConfigEntry>, ClientError> {
        let (resource_type, resource_name) = resource.wire();
        let request = DescribeConfigsRequest {
            resources: vec![DescribeConfigsResource {
                resource_type,
                resource_name,
                configuration_keys: None,
            }],
            include_synonyms: false,
            include_documentation: true,
        };
        let connection = self.connection_for(resource).await?;
        let version = connection.version::<DescribeConfigsRequest>()?;
        let response: DescribeConfigsResponse = connection.call(version, &request).await?;
        let mut entries = Vec::new();
        for result in response.results {
            let (code, message) = (result.error_code, result.error_message);
            let operation = "describing the configuration of";
            ClientError::refused(operation, resource.object(), code, message)?;
            entries.extend(result.configs.into_iter().map(entry));
        }
        Ok(entries)
    }

    /// Changes values of a resource: all of them or none.
    ///
    /// # Errors
    /// The broker refuses; or it was not reached, or lost, and the outcome is unknown.
    pub async fn alter_configs(
        &self,
        resource: &ConfigResource,
        changes: &[ConfigChange],
        validate_only: bool,
    ) -> Result<(), ClientError> {
        let (resource_type, resource_name) = resource.wire();
        let request = IncrementalAlterConfigsRequest {
            resources: vec![AlterConfigsResource {
                resource_type,
                resource_name,
                configs: changes.iter().map(ConfigChange::wire).collect(),
            }],
            validate_only,
        };
        let connection = self.connection_for(resource).await?;
        let version = connection.version::<IncrementalAlterConfigsRequest>()?;
        let response: IncrementalAlterConfigsResponse = connection.call(version, &request).await?;
        response.responses.into_iter().try_for_each(|result| {
            let (code, message) = (result.error_code, result.error_message);
            let operation = "changing the configuration of";
            ClientError::refused(operation, resource.object(), code, message)
        })
    }

    async fn connection_for(
        &self,
        resource: &ConfigResource,
    ) -> Result<Connection<N>, ClientError> {
        match resource.broker() {
            Some(id) => self.client().connection_to(id).await,
            None => self.client().controller().await,
        }
    }
}

fn entry(line: DescribeConfigsResourceResult) -> ConfigEntry {
    ConfigEntry {
        name: line.name,
        value: line.value,
        source: line.config_source,
        is_read_only: line.read_only,
        is_sensitive: line.is_sensitive,
        documentation: line.documentation,
    }
}
