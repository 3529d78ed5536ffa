//! Configuration: every name Kafka 4.3 knows, the check of values, and typed forms of what is served.
//!
//! Invariants:
//! 1. a value that was accepted is kept as given and shown in Kafka's form of it, which can be set again;
//! 2. typed structs are only built from checked values.
//!
//! It reads no files and no environment: text comes in, values go out. Source: Apache Kafka 4.3.

pub mod broker;
pub mod cleaner;
pub mod connections;
pub mod described;
pub mod dynamic;
pub mod group;
pub mod key;
pub mod listener;
pub mod logger;
pub mod metadata_log;
pub mod metrics;
pub mod names;
pub mod properties;
pub mod resource;
pub mod table;
pub mod topic;
pub mod transaction;

mod canonical;
mod directories;
mod layers;
mod values;

use std::fmt;

pub use layers::Settings;

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// One value is not of its type or breaks its rule.
    Invalid {
        /// The configuration name.
        name: String,
        /// The value as given; secrets are masked.
        value: String,
        /// What it must be.
        reason: String,
    },
    /// No topic configuration has this name.
    UnknownTopicName {
        /// The name as given.
        name: String,
    },
    /// No group configuration has this name.
    UnknownGroupName {
        /// The name as given.
        name: String,
    },
    /// Values that are fine alone contradict each other.
    Conflict {
        /// Which, and how.
        reason: String,
    },
    /// Names that may not be set in this place.
    Refused {
        /// Kafka's words for the rule.
        rule: &'static str,
        /// The names that break it.
        names: Vec<String>,
    },
    /// Kafka could do it, this version of Pelton cannot.
    Unsupported {
        /// The configuration name.
        name: &'static str,
        /// The value as given.
        value: String,
        /// What to do instead.
        remedy: &'static str,
    },
}

impl ConfigError {
    fn invalid(name: &str, value: &str, reason: impl Into<String>) -> Self {
        Self::Invalid {
            name: name.to_owned(),
            value: value.to_owned(),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid {
                name,
                value,
                reason,
            } => {
                write!(
                    f,
                    "Invalid value {value} for configuration {name}: {reason}"
                )
            }
            Self::UnknownTopicName { name } => write!(f, "Unknown topic config name: {name}"),
            Self::UnknownGroupName { name } => write!(f, "Unknown group config name: {name}"),
            Self::Conflict { reason } => f.write_str(reason),
            Self::Refused { rule, names } => write!(f, "{rule}: [{}]", names.join(", ")),
            Self::Unsupported {
                name,
                value,
                remedy,
            } => {
                write!(f, "{name}={value} is not supported yet: {remedy}")
            }
        }
    }
}

impl std::error::Error for ConfigError {}
