//! CreateTopics, and the creation of topics that a client only mentions.
//!
//! Invariants:
//! 1. One result per distinct name of the request, in the request's order.
//! 2. `validate_only` refuses what the real request would refuse, and writes nothing.
//! 3. A topic's records are its name, its configs, its partitions, in this order, as Kafka writes them.

use std::collections::{BTreeMap, BTreeSet};

use pelton_model::record_type::metadata::{
    ConfigRecord, MetadataRecord, PartitionRecord, RESOURCE_TOPIC, TopicRecord,
};
use pelton_model::{ErrorCode, TopicId, limits};

use super::directories::DirectoryCounts;
use super::placement::{check_assignment, new_partition, place};
use super::topic_name::{CLUSTER_METADATA_TOPIC, is_coordinator_topic};
use super::{Decision, Refusal, duplicates, is_internal_topic, validate_topic_name};
use crate::image::{MetadataImage, TopicImage};

/// A topic that a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatableTopic {
    /// Its name.
    pub name: String,
    /// The number of partitions; −1 for the broker's default.
    pub num_partitions: i32,
    /// The number of replicas; −1 for the broker's default.
    pub replication_factor: i16,
    /// Partition indexes with the brokers that hold them; empty to let the controller choose.
    pub assignments: Vec<(i32, Vec<i32>)>,
    /// Config values by name.
    pub configs: Vec<(String, Option<String>)>,
}

impl CreatableTopic {
    /// A topic of which the broker's defaults decide everything.
    #[must_use]
    pub fn with_defaults(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            num_partitions: -1,
            replication_factor: -1,
            assignments: Vec::new(),
            configs: Vec::new(),
        }
    }
}

/// Judges a topic's configs as a whole; the text of a refusal goes to the client.
pub type ConfigsCheck<'a> = &'a dyn Fn(&BTreeMap<String, String>) -> Result<(), String>;

/// What a creation depends on besides the image.
pub struct CreateTopicsOptions<'a> {
    /// The broker's `num.partitions`.
    pub default_num_partitions: i32,
    /// The broker's `default.replication.factor`.
    pub default_replication_factor: i16,
    /// Checks a topic's configs as a whole; the text of a refusal goes to the client.
    pub validate_configs: ConfigsCheck<'a>,
    /// Whether to check only.
    pub validate_only: bool,
    /// Draws a random id.
    pub draw_topic_id: &'a mut dyn FnMut() -> TopicId,
}

/// The result for one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTopicResult {
    /// The topic's name.
    pub name: String,
    /// What was created, or why not.
    pub result: Result<CreatedTopic, Refusal>,
}

/// A topic that was (or, with `validate_only`, would be) created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedTopic {
    /// Its id.
    pub topic_id: TopicId,
    /// Its number of partitions.
    pub num_partitions: i32,
    /// Its number of replicas.
    pub replication_factor: i16,
    /// The config values set on it; all others are the broker's defaults.
    pub configs: BTreeMap<String, String>,
}

/// Decides a CreateTopics request.
#[must_use]
pub fn create_topics(
    image: &MetadataImage,
    topics: &[CreatableTopic],
    options: &mut CreateTopicsOptions<'_>,
) -> Decision<Vec<CreateTopicResult>> {
    let mut creation = Creation::new(image, topics, options);
    let mut results: Vec<CreateTopicResult> = Vec::with_capacity(topics.len());
    let mut answered: BTreeSet<&str> = BTreeSet::new();
    for topic in topics {
        if !answered.insert(&topic.name) {
            continue;
        }
        results.push(CreateTopicResult {
            name: topic.name.clone(),
            result: creation.create(topic),
        });
    }
    let mut records = creation.records;
    if options.validate_only {
        records.clear();
    }
    Decision { records, results }
}

/// Decides the creation of topics that a client only mentioned or that the broker itself needs: `wanted` says how each is created.
///
/// A topic that exists meanwhile counts as created: of two clients that race, both succeed. Of Kafka's own topics only those of
/// committed offsets and of transactions are created this way.
#[must_use]
pub fn auto_create_topics(
    image: &MetadataImage,
    wanted: &[CreatableTopic],
    options: &mut CreateTopicsOptions<'_>,
) -> Decision<Vec<CreateTopicResult>> {
    let distinct: BTreeMap<&str, &CreatableTopic> = wanted
        .iter()
        .map(|topic| (topic.name.as_str(), topic))
        .collect();
    let refused = |name: &str| {
        let is_internal = is_internal_topic(name) || name == CLUSTER_METADATA_TOPIC;
        is_internal && !is_coordinator_topic(name)
    };
    let missing: Vec<CreatableTopic> = distinct
        .iter()
        .filter(|(name, _)| !refused(name) && image.topic_by_name(name).is_none())
        .map(|(_, topic)| (*topic).clone())
        .collect();
    let mut decision = create_topics(image, &missing, options);
    for &name in distinct.keys() {
        if refused(name) {
            let refusal = Refusal::bare(ErrorCode::UnknownTopicOrPartition);
            decision.results.push(CreateTopicResult {
                name: name.to_owned(),
                result: Err(refusal),
            });
        } else if let Some(topic) = image.topic_by_name(name) {
            decision.results.push(CreateTopicResult {
                name: name.to_owned(),
                result: Ok(existing(image, topic)),
            });
        }
    }
    decision.results.sort_by(|a, b| a.name.cmp(&b.name));
    decision
}

fn existing(image: &MetadataImage, topic: &TopicImage) -> CreatedTopic {
    let replicas = topic
        .partitions()
        .next()
        .map_or(0, |(_, p)| p.replicas.len());
    let configs = image.topic_configs(topic.name()).into_iter().flatten();
    CreatedTopic {
        topic_id: topic.id(),
        num_partitions: topic.partition_count(),
        replication_factor: i16::try_from(replicas).unwrap_or(i16::MAX),
        configs: configs.map(|(k, v)| (k.clone(), v.clone())).collect(),
    }
}

/// A request under way.
struct Creation<'a, 'b, 'c> {
    image: &'a MetadataImage,
    counts: DirectoryCounts,
    options: &'b mut CreateTopicsOptions<'c>,
    repeated: BTreeSet<&'a str>,
    too_many: bool,
    /// Names that this request creates, with `.` written as `_`.
    unified_names: BTreeMap<String, String>,
    ids: BTreeSet<TopicId>,
    records: Vec<MetadataRecord>,
}

impl<'a, 'b, 'c> Creation<'a, 'b, 'c> {
    fn new(
        image: &'a MetadataImage,
        topics: &'a [CreatableTopic],
        options: &'b mut CreateTopicsOptions<'c>,
    ) -> Self {
        let repeated = duplicates(topics.iter().map(|topic| topic.name.as_str()));
        let partitions = |topic: &CreatableTopic| match topic.num_partitions {
            _ if !topic.assignments.is_empty() => {
                i64::try_from(topic.assignments.len()).unwrap_or(i64::MAX)
            }
            -1 => i64::from(options.default_num_partitions),
            count => i64::from(count.max(0)),
        };
        let total = topics
            .iter()
            .filter(|topic| !repeated.contains(topic.name.as_str()))
            .map(partitions)
            .fold(0_i64, i64::saturating_add);
        Self {
            counts: DirectoryCounts::of(image),
            image,
            options,
            repeated,
            too_many: limits::PARTITIONS_PER_REQUEST_MAX < total,
            unified_names: BTreeMap::new(),
            ids: BTreeSet::new(),
            records: Vec::new(),
        }
    }

    fn is_repeated(&self, topic: &CreatableTopic) -> bool {
        self.repeated.contains(topic.name.as_str())
    }

    fn create(&mut self, topic: &CreatableTopic) -> Result<CreatedTopic, Refusal> {
        self.check_name(topic)?;
        let configs = self.check_configs(topic)?;
        let assignments = self.assign(topic)?;
        let topic_id = self.new_topic_id()?;
        let partitions = self.partitions(topic_id, &assignments)?;
        let replication_factor = assignments.first().map_or(0, Vec::len);
        let created = CreatedTopic {
            topic_id,
            num_partitions: i32::try_from(partitions.len()).expect("bounded per request"),
            replication_factor: i16::try_from(replication_factor).unwrap_or(i16::MAX),
            configs,
        };
        assert!(0 < created.num_partitions);
        self.write(&topic.name, &created, partitions);
        Ok(created)
    }

    fn check_name(&self, topic: &CreatableTopic) -> Result<(), Refusal> {
        let name = topic.name.as_str();
        let refuse = |error, text: String| Err(Refusal::new(error, text));
        if self.is_repeated(topic) {
            return refuse(ErrorCode::InvalidRequest, "Duplicate topic name.".into());
        }
        if name == CLUSTER_METADATA_TOPIC {
            let text = format!("Creation of internal topic {name} is prohibited.");
            return refuse(ErrorCode::InvalidRequest, text);
        }
        if self.too_many {
            let text = "Excessively large number of partitions per request.";
            return refuse(ErrorCode::PolicyViolation, text.into());
        }
        if self.image.topic_by_name(name).is_some() {
            let text = format!("Topic '{name}' already exists.");
            return refuse(ErrorCode::TopicAlreadyExists, text);
        }
        validate_topic_name(name)
            .map_err(|why| Refusal::new(ErrorCode::InvalidTopicException, why.to_string()))?;
        // Two such names in one request pass Kafka's check, which looks only at what exists: here they do not.
        let colliding = self.image.colliding_topic(name).or_else(|| {
            self.unified_names
                .get(&name.replace('.', "_"))
                .map(String::as_str)
        });
        match colliding {
            Some(other) => refuse(
                ErrorCode::InvalidTopicException,
                format!("Topic '{name}' collides with existing topic: {other}"),
            ),
            None => Ok(()),
        }
    }

    fn check_configs(&self, topic: &CreatableTopic) -> Result<BTreeMap<String, String>, Refusal> {
        let refuse = |text: String| Err(Refusal::new(ErrorCode::InvalidConfig, text));
        let nulls = topic.configs.iter().filter(|(_, value)| value.is_none());
        let nulls: Vec<&str> = nulls.map(|(name, _)| name.as_str()).collect();
        if !nulls.is_empty() {
            let names = nulls.join(",");
            return refuse(format!(
                "Null value not supported for topic configs: {names}"
            ));
        }
        let mut configs = BTreeMap::new();
        for (name, value) in &topic.configs {
            let value = value.clone().unwrap_or_default();
            if limits::CONFIG_VALUE_BYTES_MAX < value.len() {
                return refuse(format!(
                    "The configuration value cannot be added because it exceeds the maximum value \
                     size of {} bytes.",
                    limits::CONFIG_VALUE_BYTES_MAX
                ));
            }
            // The last value of a repeated config counts, as in Kafka.
            configs.insert(name.clone(), value);
        }
        (self.options.validate_configs)(&configs)
            .map_err(|text| Refusal::new(ErrorCode::InvalidConfig, text))?;
        Ok(configs)
    }

    /// The replicas of each partition, by index.
    fn assign(&self, topic: &CreatableTopic) -> Result<Vec<Vec<i32>>, Refusal> {
        let refuse = |error, text: &str| Err(Refusal::new(error, text));
        if !topic.assignments.is_empty() {
            return self.assign_manually(topic);
        }
        if topic.replication_factor < -1 || topic.replication_factor == 0 {
            return refuse(
                ErrorCode::InvalidReplicationFactor,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            );
        }
        if topic.num_partitions < -1 || topic.num_partitions == 0 {
            return refuse(
                ErrorCode::InvalidPartitions,
                "Number of partitions was set to an invalid non-positive value.",
            );
        }
        let num_partitions = match topic.num_partitions {
            -1 => self.options.default_num_partitions.max(1),
            count => count,
        };
        let replication_factor = match topic.replication_factor {
            -1 => self.options.default_replication_factor,
            count => count,
        };
        place(self.image, 0, num_partitions, replication_factor)
    }

    fn assign_manually(&self, topic: &CreatableTopic) -> Result<Vec<Vec<i32>>, Refusal> {
        let refuse = |error, text: String| Err(Refusal::new(error, text));
        if topic.replication_factor != -1 {
            let text = "A manual partition assignment was specified, but replication factor was \
                        not set to -1.";
            return refuse(ErrorCode::InvalidRequest, text.into());
        }
        if topic.num_partitions != -1 {
            let text = "A manual partition assignment was specified, but numPartitions was not \
                        set to -1.";
            return refuse(ErrorCode::InvalidRequest, text.into());
        }
        let mut by_index: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        let mut replication_factor = None;
        for (index, replicas) in &topic.assignments {
            if by_index.contains_key(index) {
                let text =
                    format!("Found multiple manual partition assignments for partition {index}");
                return refuse(ErrorCode::InvalidReplicaAssignment, text);
            }
            check_assignment(self.image, replicas, replication_factor)?;
            replication_factor = Some(replicas.len());
            let mut no_counts = DirectoryCounts::default();
            if new_partition(self.image, &mut no_counts, TopicId::ZERO, *index, replicas).is_none()
            {
                let text = format!(
                    "All brokers specified in the manual partition assignment for partition \
                     {index} are fenced or in controlled shutdown."
                );
                return refuse(ErrorCode::InvalidReplicaAssignment, text);
            }
            by_index.insert(*index, replicas.clone());
        }
        let consecutive = by_index.keys().copied().eq((0..).take(by_index.len()));
        if !consecutive {
            let text = "partitions should be a consecutive 0-based integer sequence";
            return refuse(ErrorCode::InvalidReplicaAssignment, text.into());
        }
        Ok(by_index.into_values().collect())
    }

    /// Draws an id that is neither taken nor reserved.
    fn new_topic_id(&mut self) -> Result<TopicId, Refusal> {
        for _ in 0..limits::TOPIC_ID_DRAWS_MAX {
            let id = (self.options.draw_topic_id)();
            let taken = self.image.topic(id).is_some() || self.ids.contains(&id);
            if !taken && !is_reserved(id) {
                self.ids.insert(id);
                return Ok(id);
            }
        }
        let text = "No free topic id was drawn.";
        Err(Refusal::new(ErrorCode::UnknownServerError, text))
    }

    fn partitions(
        &mut self,
        topic_id: TopicId,
        assignments: &[Vec<i32>],
    ) -> Result<Vec<PartitionRecord>, Refusal> {
        let numbered = (0..).zip(assignments);
        numbered
            .map(|(index, replicas)| {
                new_partition(self.image, &mut self.counts, topic_id, index, replicas).ok_or_else(|| {
                    let text = format!(
                        "Unable to replicate the partition {} time(s): All brokers are currently \
                         fenced or in controlled shutdown.",
                        replicas.len()
                    );
                    Refusal::new(ErrorCode::InvalidReplicationFactor, text)
                })
            })
            .collect()
    }

    fn write(&mut self, name: &str, created: &CreatedTopic, partitions: Vec<PartitionRecord>) {
        if name.contains(['.', '_']) {
            self.unified_names
                .insert(name.replace('.', "_"), name.to_owned());
        }
        let topic = TopicRecord {
            name: name.to_owned(),
            topic_id: created.topic_id,
        };
        self.records.push(topic.into());
        let configs = created.configs.iter().map(|(config, value)| ConfigRecord {
            resource_type: RESOURCE_TOPIC,
            resource_name: name.to_owned(),
            name: config.clone(),
            value: Some(value.clone()),
        });
        self.records.extend(configs.map(MetadataRecord::from));
        self.records
            .extend(partitions.into_iter().map(MetadataRecord::from));
    }
}

/// Ids that mean something else (zero, one) or that read like an option on a command line (`-…`).
fn is_reserved(id: TopicId) -> bool {
    u128::from_be_bytes(id.0) <= 1 || id.0[0] >> 2 == 62
}
