//! The embedded single-node controller: what a request or a start means, as records of the metadata log.
//!
//! Invariants:
//! 1. Every function here is pure: it reads the image and returns records and results; only the image's `replay` of
//!    those records, once they are synced, changes anything. Ids and randomness come in as arguments.
//! 2. The records of one decision are one batch: they are all in the log or none is.
//! 3. A result never depends on another item of its request, except where Kafka says so (duplicates, totals).
//! 4. Error codes and texts that clients match on are those of Kafka 4.3.
//!
//! It authorises nothing and knows no request version: handlers translate. It has no policy plugins and no quotas.
//! Source: KIP-500, KIP-631, KIP-858, behaviour of Apache Kafka 4.3.1.

mod configs;
mod create_partitions;
mod create_topics;
mod delete_topics;
mod directories;
#[cfg(test)]
mod directory_tests;
mod elections;
mod features;
mod placement;
mod producer_ids;
mod quorum;
mod reassignments;
#[cfg(test)]
mod replica_tests;
mod start;
#[cfg(test)]
mod tests;
mod topic_name;

use std::collections::BTreeSet;
use std::fmt;

use pelton_model::ErrorCode;
use pelton_model::record_type::metadata::MetadataRecord;

pub use configs::{
    AlterConfigsOptions, AlterableResource, ConfigChange, ConfigChanges, alter_configs,
};
pub use create_partitions::{
    CreatePartitionsOptions, CreatePartitionsResult, NewPartitions, create_partitions,
};
pub use create_topics::{
    ConfigsCheck, CreatableTopic, CreateTopicResult, CreateTopicsOptions, CreatedTopic,
    auto_create_topics, create_topics,
};
pub use delete_topics::{DeletableTopic, DeleteTopicResult, delete_topics};
pub use directories::{assign_directory, cordon, fail_directory, is_unassigned};
pub use elections::{Election, TopicPartitions, elect_leaders};
pub use features::{
    FeatureUpdate, UpdateFeaturesOptions, bootstrap_records, finalized_features,
    supported_features, update_features,
};
pub use producer_ids::{ProducerIdBlock, allocate_producer_ids};
pub use quorum::{QuorumImage, QuorumStart, next_epoch, quorum_records};
pub use reassignments::{Reassignment, ReassignmentTopic, reassign_partitions};
pub use start::{
    BrokerStart, METADATA_VERSION, METADATA_VERSION_MIN, StartError, Started, start, start_with,
};
pub use topic_name::{
    InvalidTopicName, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, is_internal_topic, validate_topic_name,
};

/// What a decision comes to: the records to append, and the answer for when they are in the image.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<R> {
    /// Records for one batch; empty when nothing changes.
    pub records: Vec<MetadataRecord>,
    /// The answer.
    pub results: R,
}

/// What became of a topic's partitions, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicOutcomes {
    /// The topic's name.
    pub topic: String,
    /// For each partition whether it was done.
    pub partitions: Vec<(i32, Result<(), Refusal>)>,
}

/// Why an item of a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Kafka's error code.
    pub error: ErrorCode,
    /// Kafka's text for it; none where Kafka sends none.
    pub message: Option<String>,
}

impl Refusal {
    fn new(error: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            error,
            message: Some(message.into()),
        }
    }

    fn bare(error: ErrorCode) -> Self {
        Self {
            error,
            message: None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.error.name())?;
        match &self.message {
            Some(message) => write!(f, ": {message}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}

/// The names that occur more than once.
fn duplicates<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    names.filter(|name| !seen.insert(*name)).collect()
}
