//! What a handler may ask of the controller, and how the machine decides it.

use pelton_machine::controller::{
    self, AlterConfigsOptions, AlterableResource, CreatableTopic, CreatePartitionsOptions,
    CreatePartitionsResult, CreateTopicResult, CreateTopicsOptions, Decision, DeletableTopic,
    DeleteTopicResult, Election, FeatureUpdate, NewPartitions, ProducerIdBlock, ReassignmentTopic,
    Refusal, TopicOutcomes, TopicPartitions, UpdateFeaturesOptions,
};
use pelton_model::record_type::metadata::MetadataRecord;
use pelton_model::{ErrorCode, TopicId, TopicPartition, config};

use super::Controller;
use crate::env::Env;
use crate::shard::Shard;

/// A change of the metadata, as a handler wants it.
#[derive(Debug)]
pub enum Command {
    /// CreateTopics.
    CreateTopics {
        /// What to create.
        topics: Vec<CreatableTopic>,
        /// Whether to check only.
        validate_only: bool,
    },
    /// Topics that a client mentioned and that may be created for it, or Kafka's own that the broker needs.
    AutoCreateTopics(Vec<String>),
    /// DeleteTopics.
    DeleteTopics(Vec<DeletableTopic>),
    /// CreatePartitions.
    CreatePartitions {
        /// What to grow.
        topics: Vec<NewPartitions>,
        /// Whether to check only.
        validate_only: bool,
    },
    /// IncrementalAlterConfigs and AlterConfigs.
    AlterConfigs {
        /// What to change.
        resources: Vec<AlterableResource>,
        /// Whether to check only.
        validate_only: bool,
    },
    /// ElectLeaders.
    ElectLeaders {
        /// Which leaders are wanted.
        election: Election,
        /// Of which partitions; none for all.
        topics: Option<Vec<TopicPartitions>>,
    },
    /// AlterPartitionReassignments.
    Reassign {
        /// What goes where.
        topics: Vec<ReassignmentTopic>,
        /// Whether a partition may have more or fewer replicas afterwards.
        allow_factor_change: bool,
    },
    /// UpdateFeatures.
    UpdateFeatures {
        /// What to change.
        updates: Vec<FeatureUpdate>,
        /// Whether to check only.
        validate_only: bool,
    },
    /// A block of producer ids for one shard.
    AllocateProducerIds,
    /// A log directory of this node has failed.
    FailDirectory(TopicId),
    /// A partition of this node lies in another log directory from now on.
    AssignDirectory(TopicPartition, TopicId),
}

impl Command {
    /// Whether it makes partitions, for which a directory must be left.
    pub(super) fn makes_partitions(&self) -> bool {
        match self {
            Self::CreateTopics { .. }
            | Self::AutoCreateTopics(_)
            | Self::CreatePartitions { .. } => true,
            Self::DeleteTopics(_)
            | Self::AlterConfigs { .. }
            | Self::ElectLeaders { .. }
            | Self::Reassign { .. }
            | Self::UpdateFeatures { .. }
            | Self::AllocateProducerIds
            | Self::FailDirectory(_)
            | Self::AssignDirectory(..) => false,
        }
    }
}

/// The answer to a [`Command`].
#[derive(Debug)]
pub enum Answer {
    /// To `CreateTopics` and `AutoCreateTopics`.
    Created(Vec<CreateTopicResult>),
    /// To `DeleteTopics`.
    Deleted(Vec<DeleteTopicResult>),
    /// To `CreatePartitions`.
    Grown(Vec<CreatePartitionsResult>),
    /// To `AlterConfigs`: one for each resource, in order.
    ConfigsAltered(Vec<Result<(), Refusal>>),
    /// To `ElectLeaders`.
    Elected(Vec<TopicOutcomes>),
    /// To `Reassign`.
    Reassigned(Vec<TopicOutcomes>),
    /// To `UpdateFeatures`.
    FeaturesUpdated(Result<(), Refusal>),
    /// To `AllocateProducerIds`.
    ProducerIds(Result<ProducerIdBlock, Refusal>),
    /// To `AssignDirectory`: whether this node has the partition.
    Assigned(bool),
    /// To what nobody asked for.
    Done,
    /// The metadata log cannot be written, or the broker stops.
    Unavailable(ErrorCode),
}

impl Answer {
    /// The error code where this is no answer to what was asked.
    pub(crate) fn error(&self) -> ErrorCode {
        if let Self::Unavailable(error) = self {
            *error
        } else {
            ErrorCode::UnknownServerError
        }
    }
}

impl<E: Env> Controller<E> {
    pub(super) fn decide(
        &self,
        shard: &Shard<E>,
        command: Command,
    ) -> (Vec<MetadataRecord>, Answer) {
        let image = self.image.borrow();
        match command {
            Command::CreateTopics {
                topics,
                validate_only,
            } => create(shard, validate_only, |options| {
                controller::create_topics(&image, &topics, options)
            }),
            Command::AutoCreateTopics(names) => {
                let wanted: Vec<CreatableTopic> =
                    names.iter().map(|name| as_wanted(shard, name)).collect();
                create(shard, false, |options| {
                    controller::auto_create_topics(&image, &wanted, options)
                })
            }
            Command::DeleteTopics(topics) => {
                let enabled = shard.config.delete_topic_enable;
                split(
                    controller::delete_topics(&image, &topics, enabled),
                    Answer::Deleted,
                )
            }
            Command::CreatePartitions {
                topics,
                validate_only,
            } => {
                let options = CreatePartitionsOptions { validate_only };
                split(
                    controller::create_partitions(&image, &topics, options),
                    Answer::Grown,
                )
            }
            Command::AlterConfigs {
                resources,
                validate_only,
            } => self.alter_configs(shard, &resources, validate_only),
            Command::ElectLeaders { election, topics } => {
                let decision = controller::elect_leaders(&image, election, topics.as_deref());
                split(decision, Answer::Elected)
            }
            Command::Reassign {
                topics,
                allow_factor_change,
            } => {
                let decision =
                    controller::reassign_partitions(&image, &topics, allow_factor_change);
                split(decision, Answer::Reassigned)
            }
            Command::UpdateFeatures {
                updates,
                validate_only,
            } => self.update_features(shard, &updates, validate_only),
            Command::FailDirectory(id) => {
                let decision = controller::fail_directory(&image, shard.config.node_id, id);
                split(decision, |()| Answer::Done)
            }
            Command::AssignDirectory(id, directory) => {
                let node = shard.config.node_id;
                let decision = controller::assign_directory(&image, node, id, directory);
                split(decision, Answer::Assigned)
            }
            Command::AllocateProducerIds => {
                let node = shard.config.node_id;
                let epoch = self.broker_epoch.get();
                producer_ids(controller::allocate_producer_ids(&image, node, epoch))
            }
        }
    }

    fn alter_configs(
        &self,
        shard: &Shard<E>,
        resources: &[AlterableResource],
        validate_only: bool,
    ) -> (Vec<MetadataRecord>, Answer) {
        let options = AlterConfigsOptions {
            broker: &shard.settings(),
            validate_only,
        };
        let decision = controller::alter_configs(&self.image.borrow(), resources, &options);
        split(decision, Answer::ConfigsAltered)
    }

    fn update_features(
        &self,
        shard: &Shard<E>,
        updates: &[FeatureUpdate],
        validate_only: bool,
    ) -> (Vec<MetadataRecord>, Answer) {
        let options = UpdateFeaturesOptions {
            node: shard.config.node_id,
            kraft_version: self.quorum.borrow().kraft_version(),
            validate_only,
        };
        let decision = controller::update_features(&self.image.borrow(), updates, options);
        split(decision, Answer::FeaturesUpdated)
    }
}

fn producer_ids(
    decided: Result<Decision<ProducerIdBlock>, Refusal>,
) -> (Vec<MetadataRecord>, Answer) {
    match decided {
        Ok(decision) => split(decision, |block| Answer::ProducerIds(Ok(block))),
        Err(refusal) => (Vec::new(), Answer::ProducerIds(Err(refusal))),
    }
}

/// How a topic is created that nobody described: by the broker's defaults, Kafka's own by their own settings.
fn as_wanted<E: Env>(shard: &Shard<E>, name: &str) -> CreatableTopic {
    let settings = shard.settings();
    let (topic, compression) = match name {
        controller::OFFSETS_TOPIC => (&settings.offsets_topic, "producer"),
        controller::TRANSACTIONS_TOPIC => (&settings.transaction_state_log, "uncompressed"),
        _ => return CreatableTopic::with_defaults(name),
    };
    let set = |name: &str, value: String| (name.to_owned(), Some(value));
    let mut configs = vec![
        set("cleanup.policy", "compact".to_owned()),
        set("compression.type", compression.to_owned()),
        set("segment.bytes", topic.segment_bytes.to_string()),
    ];
    if let Some(replicas) = topic.min_insync_replicas {
        configs.push(set("min.insync.replicas", replicas.to_string()));
        configs.push(set("unclean.leader.election.enable", "false".to_owned()));
    }
    CreatableTopic {
        num_partitions: topic.partitions,
        replication_factor: topic.replication_factor,
        configs,
        ..CreatableTopic::with_defaults(name)
    }
}

/// Creates topics with what the broker's settings are now.
fn create<E: Env>(
    shard: &Shard<E>,
    validate_only: bool,
    decide: impl FnOnce(&mut CreateTopicsOptions<'_>) -> Decision<Vec<CreateTopicResult>>,
) -> (Vec<MetadataRecord>, Answer) {
    let settings = shard.settings();
    let validate_configs = |configs: &config::Settings| {
        let pairs = configs.iter();
        let pairs = pairs.map(|(name, value)| (name.as_str(), value.as_str()));
        config::topic::validate_all(&settings, pairs)
    };
    let mut options = CreateTopicsOptions {
        default_num_partitions: shard.config.num_partitions,
        default_replication_factor: shard.config.default_replication_factor,
        validate_configs: &validate_configs,
        validate_only,
        draw_topic_id: &mut || shard.draw_id(),
    };
    split(decide(&mut options), Answer::Created)
}

fn split<R>(
    decision: Decision<R>,
    answer: impl FnOnce(R) -> Answer,
) -> (Vec<MetadataRecord>, Answer) {
    (decision.records, answer(decision.results))
}
