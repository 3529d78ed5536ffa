//! ElectLeaders: the preferred leader back in its place, or any replica that lives where none in sync does.
//!
//! Invariants:
//! 1. Who leads is active, and its log directory is there.
//! 2. An unclean election begins only where the partition has no leader, and makes who leads the only one in sync.
//! 3. A partition that is named twice is elected once.
//!
//! The record of an unclean election does not say that its leader recovers: with whom it would have to agree, a lone node does not have.
//! Source: KIP-183, KIP-460, KIP-858.

use std::collections::BTreeSet;

use pelton_model::record_type::metadata::{MetadataRecord, PartitionChangeRecord};
use pelton_model::{ErrorCode, NodeId, PartitionId, TopicId, limits};

use super::directories::is_directory_there;
use super::placement::is_active;
use super::{Decision, Refusal, TopicOutcomes};
use crate::image::{MetadataImage, PartitionImage, TopicImage};

/// Which leader is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Election {
    /// The first of the replicas.
    Preferred,
    /// One in sync, else any: records may be lost.
    Unclean,
}

impl Election {
    /// By Kafka's number.
    #[must_use]
    pub fn from_code(code: i8) -> Option<Self> {
        match code {
            0 => Some(Self::Preferred),
            1 => Some(Self::Unclean),
            _ => None,
        }
    }
}

/// Partitions of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPartitions {
    /// The topic's name.
    pub topic: String,
    /// The partitions.
    pub partitions: Vec<i32>,
}

/// Decides an ElectLeaders request; without topics it is about every partition, and those that need no election are not answered.
#[must_use]
pub fn elect_leaders(
    image: &MetadataImage,
    election: Election,
    topics: Option<&[TopicPartitions]>,
) -> Decision<Vec<TopicOutcomes>> {
    let mut elections = Elections {
        image,
        election,
        elected: BTreeSet::new(),
        records: Vec::new(),
    };
    let results = match topics {
        Some(topics) => topics.iter().map(|topic| elections.named(topic)).collect(),
        None => image
            .topics()
            .map(|topic| elections.all_of(topic))
            .collect(),
    };
    Decision {
        records: elections.records,
        results,
    }
}

struct Elections<'a> {
    image: &'a MetadataImage,
    election: Election,
    elected: BTreeSet<(TopicId, PartitionId)>,
    records: Vec<MetadataRecord>,
}

impl Elections<'_> {
    fn named(&mut self, topic: &TopicPartitions) -> TopicOutcomes {
        let unknown = |text: String| {
            let error = ErrorCode::UnknownTopicOrPartition;
            Err(Refusal::new(error, text))
        };
        let known = self.image.topic_by_name(&topic.topic);
        let outcome = |index: &i32| {
            let Some(known) = known else {
                return (
                    *index,
                    unknown(format!("There is no topic {}.", topic.topic)),
                );
            };
            let result = match known.partition(PartitionId(*index)) {
                Some(state) => self.elect(known.id(), PartitionId(*index), state),
                None => unknown(format!("There is no partition {}-{index}.", topic.topic)),
            };
            (*index, result)
        };
        TopicOutcomes {
            topic: topic.topic.clone(),
            partitions: topic.partitions.iter().map(outcome).collect(),
        }
    }

    fn all_of(&mut self, topic: &TopicImage) -> TopicOutcomes {
        let mut partitions = Vec::new();
        for (index, state) in topic.partitions() {
            let result = self.elect(topic.id(), index, state);
            let is_needed = |refusal: &Refusal| refusal.error != ErrorCode::ElectionNotNeeded;
            if result.as_ref().err().is_none_or(is_needed) {
                partitions.push((index.0, result));
            }
        }
        TopicOutcomes {
            topic: topic.name().to_owned(),
            partitions,
        }
    }

    fn elect(
        &mut self,
        topic_id: TopicId,
        index: PartitionId,
        state: &PartitionImage,
    ) -> Result<(), Refusal> {
        let change = match self.election {
            Election::Preferred => self.preferred(state)?,
            Election::Unclean => self.any(state)?,
        };
        if self.elected.contains(&(topic_id, index)) {
            return Ok(());
        }
        if limits::PARTITIONS_CHANGED_MAX <= self.records.len() {
            let text = "More elections than one request may have.";
            return Err(Refusal::new(ErrorCode::PolicyViolation, text));
        }
        self.elected.insert((topic_id, index));
        let change = PartitionChangeRecord {
            partition_id: index.0,
            topic_id,
            ..change
        };
        self.records.push(change.into());
        Ok(())
    }

    fn preferred(&self, state: &PartitionImage) -> Result<PartitionChangeRecord, Refusal> {
        let preferred = state.replicas.first().copied();
        if preferred.is_some() && preferred == state.leader() {
            return Err(Refusal::bare(ErrorCode::ElectionNotNeeded));
        }
        let fit =
            preferred.filter(|node| state.isr.contains(node) && may_lead(self.image, state, *node));
        match fit {
            Some(node) => Ok(PartitionChangeRecord {
                leader: node.0,
                ..PartitionChangeRecord::default()
            }),
            None => Err(Refusal::bare(ErrorCode::PreferredLeaderNotAvailable)),
        }
    }

    fn any(&self, state: &PartitionImage) -> Result<PartitionChangeRecord, Refusal> {
        if state.leader().is_some() {
            return Err(Refusal::bare(ErrorCode::ElectionNotNeeded));
        }
        let replicas = state.replicas.iter();
        let mut fit = replicas.filter(|node| may_lead(self.image, state, **node));
        let in_sync = fit.clone().find(|node| state.isr.contains(node));
        let chosen = in_sync.or_else(|| fit.next());
        let node = chosen.ok_or_else(|| Refusal::bare(ErrorCode::EligibleLeadersNotAvailable))?;
        Ok(PartitionChangeRecord {
            leader: node.0,
            isr: in_sync.is_none().then(|| vec![node.0]),
            ..PartitionChangeRecord::default()
        })
    }
}

/// Whether a replica could lead.
pub(super) fn may_lead(image: &MetadataImage, state: &PartitionImage, node: NodeId) -> bool {
    image.broker(node).is_some_and(|broker| {
        is_active(broker) && is_directory_there(broker, state.directory(node))
    })
}
