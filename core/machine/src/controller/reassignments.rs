//! AlterPartitionReassignments: which brokers hold a partition, and what becomes of those that did.
//!
//! Invariants:
//! 1. A partition that is being moved is held by old and new replicas together; it is done, in one record, as soon as all new ones are
//!    in sync.
//! 2. Replicas that leave leave the ISR; where the leader leaves, one in sync that may lead follows.
//! 3. A move that is called off leaves the partition as it was, unless nobody in sync would be left.
//!
//! A lone node moves nothing by itself, but may find what a larger cluster has left behind: partitions with replicas on brokers that are
//! gone, moves that never end. Source: KIP-455, KIP-860.

use std::collections::BTreeSet;

use pelton_model::record_type::metadata::{
    MetadataRecord, NO_LEADER, NO_LEADER_CHANGE, PartitionChangeRecord,
};
use pelton_model::{ErrorCode, NodeId, PartitionId, TopicId, limits};

use super::directories::DirectoryCounts;
use super::elections::may_lead;
use super::placement::check_assignment;
use super::{Decision, Refusal, TopicOutcomes};
use crate::image::{MetadataImage, PartitionImage};

/// A topic's partitions that are to move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReassignmentTopic {
    /// The topic's name.
    pub topic: String,
    /// The partitions.
    pub partitions: Vec<Reassignment>,
}

/// Where a partition is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reassignment {
    /// The partition.
    pub partition: i32,
    /// The brokers, the preferred leader first; none calls off what is under way.
    pub replicas: Option<Vec<i32>>,
}

/// Decides an AlterPartitionReassignments request. Without `allow_factor_change` a partition keeps its number of replicas.
#[must_use]
pub fn reassign_partitions(
    image: &MetadataImage,
    topics: &[ReassignmentTopic],
    allow_factor_change: bool,
) -> Decision<Vec<TopicOutcomes>> {
    let mut moves = Moves {
        image,
        allow_factor_change,
        counts: DirectoryCounts::of(image),
        moved: BTreeSet::new(),
        records: Vec::new(),
    };
    let results = topics.iter().map(|topic| TopicOutcomes {
        topic: topic.topic.clone(),
        partitions: topic
            .partitions
            .iter()
            .map(|wanted| (wanted.partition, moves.decide(&topic.topic, wanted)))
            .collect(),
    });
    let results = results.collect();
    Decision {
        records: moves.records,
        results,
    }
}

struct Moves<'a> {
    image: &'a MetadataImage,
    allow_factor_change: bool,
    counts: DirectoryCounts,
    moved: BTreeSet<(TopicId, PartitionId)>,
    records: Vec<MetadataRecord>,
}

/// Who holds a partition after a change.
struct Target {
    replicas: Vec<NodeId>,
    isr: Vec<NodeId>,
    adding: Vec<NodeId>,
    removing: Vec<NodeId>,
}

impl Moves<'_> {
    fn decide(&mut self, topic: &str, wanted: &Reassignment) -> Result<(), Refusal> {
        let unknown = |text| Refusal::new(ErrorCode::UnknownTopicOrPartition, text);
        let known = self.image.topic_by_name(topic);
        let known = known.ok_or_else(|| unknown(format!("There is no topic {topic}.")))?;
        let index = PartitionId(wanted.partition);
        let state = known.partition(index);
        let state =
            state.ok_or_else(|| unknown(format!("There is no partition {topic}-{index}.")))?;
        let target = match &wanted.replicas {
            Some(replicas) => self.moved_to(state, replicas)?,
            None => called_off(topic, index, state)?,
        };
        if let Some(change) = self.change(known.id(), index, state, target) {
            self.push(known.id(), index, change)?;
        }
        Ok(())
    }

    fn push(
        &mut self,
        topic_id: TopicId,
        index: PartitionId,
        change: PartitionChangeRecord,
    ) -> Result<(), Refusal> {
        if limits::PARTITIONS_CHANGED_MAX <= self.records.len() {
            let text = "More partitions than one request may move.";
            return Err(Refusal::new(ErrorCode::PolicyViolation, text));
        }
        if !self.moved.insert((topic_id, index)) {
            let text = "The partition is named more than once.";
            return Err(Refusal::new(ErrorCode::InvalidRequest, text));
        }
        self.records.push(change.into());
        Ok(())
    }

    fn moved_to(&self, state: &PartitionImage, replicas: &[i32]) -> Result<Target, Refusal> {
        check_assignment(self.image, replicas, None)?;
        let wanted: Vec<NodeId> = replicas.iter().copied().map(NodeId).collect();
        // Where a move under way leads: what it adds counts, what it removes does not.
        let held = without(&state.replicas, &state.removing_replicas);
        if !self.allow_factor_change && wanted.len() != held.len() {
            let text = format!(
                "The replication factor is changed from {} to {}",
                held.len(),
                wanted.len()
            );
            return Err(Refusal::new(ErrorCode::InvalidReplicationFactor, text));
        }
        let adding = without(&wanted, &state.replicas);
        // One that is still about to join goes on doing so.
        let pending = state
            .adding_replicas
            .iter()
            .filter(|id| wanted.contains(id));
        let adding: Vec<NodeId> = adding.into_iter().chain(pending.copied()).collect();
        let removing = without(&state.replicas, &wanted);
        let target = Target {
            replicas: wanted.iter().chain(&removing).copied().collect(),
            isr: state.isr.clone(),
            adding,
            removing,
        };
        Ok(completed(target))
    }

    /// The record that leads there; none when nothing changes.
    fn change(
        &mut self,
        topic_id: TopicId,
        index: PartitionId,
        state: &PartitionImage,
        target: Target,
    ) -> Option<PartitionChangeRecord> {
        let news = |old: &[NodeId], new: &[NodeId]| (old != new).then(|| ids(new));
        let leader = self.leader(state, &target);
        let replicas = news(&state.replicas, &target.replicas);
        let directories = replicas.as_ref().map(|_| {
            let held = |node: &NodeId| {
                let known = state.directory(*node);
                known.unwrap_or_else(|| self.counts.choose(*node))
            };
            target.replicas.iter().map(held).collect()
        });
        let change = PartitionChangeRecord {
            partition_id: index.0,
            topic_id,
            isr: news(&state.isr, &target.isr),
            leader,
            replicas,
            removing_replicas: news(&state.removing_replicas, &target.removing),
            adding_replicas: news(&state.adding_replicas, &target.adding),
            directories,
            ..PartitionChangeRecord::default()
        };
        let nothing = PartitionChangeRecord {
            partition_id: index.0,
            topic_id,
            ..PartitionChangeRecord::default()
        };
        (change != nothing).then_some(change)
    }

    /// Who leads afterwards. Where a replica leaves, a new leader epoch begins even under the same leader: what it has fetched counts no more.
    fn leader(&self, state: &PartitionImage, target: &Target) -> i32 {
        let leader = state.leader();
        let stays = leader.filter(|leader| target.isr.contains(leader));
        if leader.is_some() && stays.is_none() {
            let mut next = target.replicas.iter();
            let next =
                next.find(|node| target.isr.contains(node) && may_lead(self.image, state, **node));
            return next.map_or(NO_LEADER, |node| node.0);
        }
        match stays {
            Some(leader) if !without(&state.replicas, &target.replicas).is_empty() => leader.0,
            Some(_) | None => NO_LEADER_CHANGE,
        }
    }
}

/// The replicas that a partition has when nothing of it is moved.
fn settled(state: &PartitionImage) -> Vec<NodeId> {
    without(&state.replicas, &state.adding_replicas)
}

/// The target once it is reached, if it is.
fn completed(target: Target) -> Target {
    let isr = without(&target.isr, &target.removing);
    let has_all = target.adding.iter().all(|node| isr.contains(node));
    if isr.is_empty() || !has_all {
        return target;
    }
    Target {
        replicas: without(&target.replicas, &target.removing),
        isr,
        adding: Vec::new(),
        removing: Vec::new(),
    }
}

fn called_off(topic: &str, index: PartitionId, state: &PartitionImage) -> Result<Target, Refusal> {
    if !state.is_reassigned() {
        return Err(Refusal::bare(ErrorCode::NoReassignmentInProgress));
    }
    let isr = without(&state.isr, &state.adding_replicas);
    if isr.is_empty() {
        let text = format!(
            "Unable to revert partition assignment for {topic}:{index} because it would require an \
             unclean leader election."
        );
        return Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, text));
    }
    Ok(Target {
        replicas: settled(state),
        isr,
        adding: Vec::new(),
        removing: Vec::new(),
    })
}

fn without(nodes: &[NodeId], gone: &[NodeId]) -> Vec<NodeId> {
    let left = nodes.iter().filter(|node| !gone.contains(node));
    left.copied().collect()
}

fn ids(nodes: &[NodeId]) -> Vec<i32> {
    nodes.iter().map(|node| node.0).collect()
}
