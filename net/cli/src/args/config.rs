//! The command lines about configurations.

use std::str::FromStr;

use clap::{Args, Subcommand};
use pelton_client::ConfigResource;

use super::{Connect, Output, Setting};

/// What a resource must look like.
const RESOURCE_FORM: &str = "must be topic:NAME, broker:ID, brokers (all of them), group:NAME, loggers:ID or client-metrics:NAME";

/// `pelton config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// List what has a configuration
    #[command(after_help = "Examples:\n  pelton config list\n  pelton config list --output json")]
    List(ConfigListArgs),
    /// Show what is set on topics, brokers, groups and loggers
    #[command(after_help = "Examples:\n  pelton config describe topic:orders\n  \
        pelton config describe broker:1 --all\n  pelton config describe brokers group:billing -O json\n\n\
        A RESOURCE is topic:NAME, broker:ID, brokers (all of them), group:NAME, loggers:ID or client-metrics:NAME.")]
    Describe(ConfigDescribeArgs),
    /// Set values; they are in force when the command returns
    #[command(
        after_help = "Examples:\n  pelton config set topic:orders retention.ms=86400000 cleanup.policy=compact,delete\n  \
        pelton config set topic:orders --append cleanup.policy=compact\n  \
        pelton config set brokers log.retention.hours=24\n  \
        pelton config set group:billing consumer.session.timeout.ms=60000\n  \
        pelton config set loggers:1 pelton_broker::coordinator=DEBUG\n\n\
        A RESOURCE is topic:NAME, broker:ID, brokers (all of them), group:NAME, loggers:ID or client-metrics:NAME."
    )]
    Set(ConfigSetArgs),
    /// Take values away, so that what is below counts again
    #[command(
        after_help = "Examples:\n  pelton config delete topic:orders retention.ms\n  \
        pelton config delete group:billing consumer.session.timeout.ms"
    )]
    Delete(ConfigDeleteArgs),
}

/// `pelton config list`.
#[derive(Args, Debug)]
pub(crate) struct ConfigListArgs {
    /// The form of the list
    #[arg(long, short = 'O', value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// `pelton config describe`.
#[derive(Args, Debug)]
pub(crate) struct ConfigDescribeArgs {
    /// What is asked about
    #[arg(required = true, value_name = "RESOURCE")]
    pub(crate) resources: Vec<Resource>,
    /// Also show what is not set: defaults, and what comes from a broker's file
    #[arg(long, short = 'a')]
    pub(crate) all: bool,
    /// Say in words what each name is for
    #[arg(long)]
    pub(crate) docs: bool,
    /// The form of the description
    #[arg(long, short = 'O', value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// `pelton config set`.
#[derive(Args, Debug)]
pub(crate) struct ConfigSetArgs {
    /// What is changed
    #[arg(value_name = "RESOURCE")]
    pub(crate) resource: Resource,
    /// The new values
    #[arg(value_name = "KEY=VALUE", required_unless_present_any = ["append", "subtract"])]
    pub(crate) settings: Vec<Setting>,
    /// Add to a list; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) append: Vec<Setting>,
    /// Take from a list; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) subtract: Vec<Setting>,
    /// Only check whether it could be set
    #[arg(long)]
    pub(crate) validate_only: bool,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// `pelton config delete`.
#[derive(Args, Debug)]
pub(crate) struct ConfigDeleteArgs {
    /// What is changed
    #[arg(value_name = "RESOURCE")]
    pub(crate) resource: Resource,
    /// The names
    #[arg(required = true, value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    /// Only check whether they could be taken away
    #[arg(long)]
    pub(crate) validate_only: bool,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// A resource as it is written on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource(pub(crate) ConfigResource);

impl FromStr for Resource {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "brokers" {
            return Ok(Self(ConfigResource::AllBrokers));
        }
        let (kind, name) = text.split_once(':').ok_or(RESOURCE_FORM)?;
        if name.is_empty() {
            return Err(RESOURCE_FORM);
        }
        let id = || name.parse().map_err(|_| RESOURCE_FORM);
        let resource = match kind {
            "topic" => ConfigResource::Topic(name.into()),
            "broker" => ConfigResource::Broker(id()?),
            "group" => ConfigResource::Group(name.into()),
            "loggers" => ConfigResource::Loggers(id()?),
            "client-metrics" => ConfigResource::ClientMetrics(name.into()),
            _ => return Err(RESOURCE_FORM),
        };
        Ok(Self(resource))
    }
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            ConfigResource::Topic(name) => write!(f, "topic:{name}"),
            ConfigResource::Broker(id) => write!(f, "broker:{id}"),
            ConfigResource::AllBrokers => f.write_str("brokers"),
            ConfigResource::Loggers(id) => write!(f, "loggers:{id}"),
            ConfigResource::ClientMetrics(name) => write!(f, "client-metrics:{name}"),
            ConfigResource::Group(name) => write!(f, "group:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: what is printed can be typed, and nonsense is refused. Method: each kind there and back, then a table.
    #[test]
    fn resources() {
        for text in [
            "topic:a",
            "broker:1",
            "brokers",
            "group:a:b",
            "loggers:1",
            "client-metrics:m",
        ] {
            let resource: Resource = text.parse().expect(text);
            assert_eq!(resource.to_string(), text);
        }
        for text in ["", "topic", "topic:", "broker:x", "loggers", "user:u"] {
            assert_eq!(text.parse::<Resource>(), Err(RESOURCE_FORM), "{text}");
        }
    }
}
