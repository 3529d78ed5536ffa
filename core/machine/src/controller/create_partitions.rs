//! CreatePartitions: more partitions for topics that exist.
//!
//! Invariants:
//! 1. One result per distinct name of the request, in its order.
//! 2. The partitions of a request are added whole or not at all. (Kafka 4.3.1 answers UNKNOWN_SERVER_ERROR to more
//!    than 10 000 and leaves the topic with a part of them: a defect that is not ours.)

use std::collections::BTreeSet;

use pelton_model::record_type::metadata::{MetadataRecord, PartitionRecord};
use pelton_model::{ErrorCode, limits};

use super::directories::DirectoryCounts;
use super::placement::{check_assignment, new_partition, place};
use super::topic_name::is_coordinator_topic;
use super::{Decision, Refusal, duplicates};
use crate::image::{MetadataImage, TopicImage};

/// A topic that is to have `count` partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPartitions {
    /// The topic's name.
    pub name: String,
    /// The number of partitions it shall have.
    pub count: i32,
    /// The replicas of each new partition; none to let the controller choose.
    pub assignments: Option<Vec<Vec<i32>>>,
}

/// How a request is to be treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreatePartitionsOptions {
    /// Whether to check only.
    pub validate_only: bool,
}

/// The result for one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatePartitionsResult {
    /// The topic's name.
    pub name: String,
    /// Whether it has (or would have) its partitions.
    pub result: Result<(), Refusal>,
}

/// Decides a CreatePartitions request.
#[must_use]
pub fn create_partitions(
    image: &MetadataImage,
    topics: &[NewPartitions],
    options: CreatePartitionsOptions,
) -> Decision<Vec<CreatePartitionsResult>> {
    let repeated = duplicates(topics.iter().map(|topic| topic.name.as_str()));
    let too_many = limits::PARTITIONS_PER_REQUEST_MAX < total(image, topics);
    let mut records: Vec<MetadataRecord> = Vec::new();
    let mut results: Vec<CreatePartitionsResult> = Vec::with_capacity(topics.len());
    let mut answered: BTreeSet<&str> = BTreeSet::new();
    let mut counts = DirectoryCounts::of(image);
    for topic in topics {
        if !answered.insert(&topic.name) {
            continue;
        }
        let added = if repeated.contains(topic.name.as_str()) {
            let text = "Duplicate topic name.";
            Err(Refusal::new(ErrorCode::InvalidRequest, text))
        } else {
            grow(image, &mut counts, topic, too_many)
        };
        let result = added.map(|added| records.extend(added.into_iter().map(Into::into)));
        results.push(CreatePartitionsResult {
            name: topic.name.clone(),
            result,
        });
    }
    if options.validate_only {
        records.clear();
    }
    Decision { records, results }
}

/// The number of partitions that a request would add.
fn total(image: &MetadataImage, topics: &[NewPartitions]) -> i64 {
    let added = |topic: &NewPartitions| {
        let current = image.topic_by_name(&topic.name)?.partition_count();
        Some(
            i64::from(topic.count)
                .saturating_sub(i64::from(current))
                .max(0),
        )
    };
    topics.iter().filter_map(added).fold(0, i64::saturating_add)
}

fn grow(
    image: &MetadataImage,
    counts: &mut DirectoryCounts,
    topic: &NewPartitions,
    too_many: bool,
) -> Result<Vec<PartitionRecord>, Refusal> {
    let existing = image
        .topic_by_name(&topic.name)
        .ok_or_else(|| Refusal::bare(ErrorCode::UnknownTopicOrPartition))?;
    let current = existing.partition_count();
    if is_coordinator_topic(&topic.name) {
        // A group lies in the partition that its name's hash gives for this number: with another, no group would be found.
        let text = format!("The number of partitions of {} is fixed.", topic.name);
        return Err(Refusal::new(ErrorCode::InvalidRequest, text));
    }
    check_count(topic, current)?;
    if too_many {
        let text = "Excessively large number of partitions per request.";
        return Err(Refusal::new(ErrorCode::PolicyViolation, text));
    }
    let additional = topic.count - current;
    let assignments = assign(image, topic, existing, additional)?;
    let records = (current..).zip(&assignments).map(|(index, replicas)| {
        new_partition(image, counts, existing.id(), index, replicas).ok_or_else(|| {
            match topic.assignments {
                Some(_) => {
                    let text = format!(
                        "All brokers specified in the manual partition assignment for partition \
                     {index} are fenced or in controlled shutdown."
                    );
                    Refusal::new(ErrorCode::InvalidReplicaAssignment, text)
                }
                None => {
                    let text = format!(
                        "Unable to replicate the partition {} time(s): All brokers are currently \
                     fenced or in controlled shutdown.",
                        replicas.len()
                    );
                    Refusal::new(ErrorCode::InvalidReplicationFactor, text)
                }
            }
        })
    });
    records.collect()
}

fn check_count(topic: &NewPartitions, current: i32) -> Result<(), Refusal> {
    let refuse = |text: String| Err(Refusal::new(ErrorCode::InvalidPartitions, text));
    if topic.count == current {
        return refuse(format!("Topic already has {current} partition(s)."));
    }
    if topic.count < current {
        return refuse(format!(
            "The topic {} currently has {current} partition(s); {} would not be an increase.",
            topic.name, topic.count
        ));
    }
    Ok(())
}

fn assign(
    image: &MetadataImage,
    topic: &NewPartitions,
    existing: &TopicImage,
    additional: i32,
) -> Result<Vec<Vec<i32>>, Refusal> {
    let first = existing.partitions().next();
    let replicas = first.map_or(1, |(_, partition)| partition.replicas.len());
    let Some(assignments) = &topic.assignments else {
        let replication_factor = i16::try_from(replicas).unwrap_or(i16::MAX);
        return place(
            image,
            existing.partition_count(),
            additional,
            replication_factor,
        );
    };
    if i32::try_from(assignments.len()) != Ok(additional) {
        let text = format!(
            "Attempted to add {additional} additional partition(s), but only {} assignment(s) \
             were specified.",
            assignments.len()
        );
        return Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, text));
    }
    for assignment in assignments {
        check_assignment(image, assignment, Some(replicas))?;
    }
    Ok(assignments.clone())
}
