//! The state of one partition in the image, and the merge rules of its change records.
//!
//! Invariants:
//! 1. Every change adds exactly one to the partition epoch.
//! 2. A present leader field, even with the same leader, adds exactly one to the leader epoch; nothing else does.
//! 3. Neither epoch ever decreases.
//!
//! Source: KIP-631, KIP-841, KIP-858, KIP-966.

use pelton_model::record_type::metadata::{
    NO_LEADER, NO_LEADER_CHANGE, NO_RECOVERY_CHANGE, PartitionChangeRecord, PartitionRecord,
};
use pelton_model::{LeaderEpoch, NodeId, PartitionEpoch, PartitionId, TopicId};

/// The state of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionImage {
    /// The leader, or `NodeId(-1)`; see [`PartitionImage::leader`].
    pub leader_id: NodeId,
    /// The leader epoch.
    pub leader_epoch: LeaderEpoch,
    /// The partition epoch.
    pub partition_epoch: PartitionEpoch,
    /// The brokers that hold it, the preferred leader first.
    pub replicas: Vec<NodeId>,
    /// The in-sync replicas.
    pub isr: Vec<NodeId>,
    /// Replicas about to leave.
    pub removing_replicas: Vec<NodeId>,
    /// Replicas about to join.
    pub adding_replicas: Vec<NodeId>,
    /// Whether the leader recovers from an unclean election.
    pub recovering: bool,
    /// The log directory of each replica, in the order of `replicas`; zero ids where unassigned.
    pub directories: Vec<TopicId>,
    /// Replicas that may lead although out of sync.
    pub eligible_leader_replicas: Vec<NodeId>,
    /// The last known replicas of that set.
    pub last_known_elr: Vec<NodeId>,
}

fn nodes(ids: &[i32]) -> Vec<NodeId> {
    ids.iter().map(|id| NodeId(*id)).collect()
}

fn ids(nodes: &[NodeId]) -> Vec<i32> {
    nodes.iter().map(|node| node.0).collect()
}

impl PartitionImage {
    /// The leader, while there is one.
    #[must_use]
    pub fn leader(&self) -> Option<NodeId> {
        (self.leader_id.0 != NO_LEADER).then_some(self.leader_id)
    }

    /// Whether replicas of it are about to join or to leave.
    #[must_use]
    pub fn is_reassigned(&self) -> bool {
        !self.adding_replicas.is_empty() || !self.removing_replicas.is_empty()
    }

    /// The log directory that the replica on `node` uses; none without a replica there.
    #[must_use]
    pub fn directory(&self, node: NodeId) -> Option<TopicId> {
        let index = self.replicas.iter().position(|replica| *replica == node)?;
        self.directories.get(index).copied()
    }

    pub(super) fn from_record(record: &PartitionRecord) -> Self {
        Self {
            leader_id: NodeId(record.leader),
            leader_epoch: LeaderEpoch(record.leader_epoch),
            partition_epoch: PartitionEpoch(record.partition_epoch),
            replicas: nodes(&record.replicas),
            isr: nodes(&record.isr),
            removing_replicas: nodes(&record.removing_replicas),
            adding_replicas: nodes(&record.adding_replicas),
            recovering: record.leader_recovery_state == 1,
            directories: directories(record.replicas.len(), &record.directories),
            eligible_leader_replicas: nodes(
                record.eligible_leader_replicas.as_deref().unwrap_or(&[]),
            ),
            last_known_elr: nodes(record.last_known_elr.as_deref().unwrap_or(&[])),
        }
    }

    /// The record that sets this state whole, as a snapshot holds it.
    pub(super) fn to_record(&self, topic_id: TopicId, partition: PartitionId) -> PartitionRecord {
        let elr = |nodes: &[NodeId]| (!nodes.is_empty()).then(|| ids(nodes));
        PartitionRecord {
            partition_id: partition.0,
            topic_id,
            replicas: ids(&self.replicas),
            isr: ids(&self.isr),
            removing_replicas: ids(&self.removing_replicas),
            adding_replicas: ids(&self.adding_replicas),
            leader: self.leader_id.0,
            leader_recovery_state: i8::from(self.recovering),
            leader_epoch: self.leader_epoch.0,
            partition_epoch: self.partition_epoch.0,
            directories: self.directories.clone(),
            eligible_leader_replicas: elr(&self.eligible_leader_replicas),
            last_known_elr: elr(&self.last_known_elr),
        }
    }

    /// Merges a change record; false when an epoch would pass its end.
    pub(super) fn apply(&mut self, change: &PartitionChangeRecord) -> bool {
        let leader_changes = change.leader != NO_LEADER_CHANGE;
        let leader_epoch = self.leader_epoch.0.checked_add(i32::from(leader_changes));
        let (Some(leader_epoch), Some(partition_epoch)) =
            (leader_epoch, self.partition_epoch.0.checked_add(1))
        else {
            return false;
        };
        self.leader_epoch = LeaderEpoch(leader_epoch);
        self.partition_epoch = PartitionEpoch(partition_epoch);
        if leader_changes {
            self.leader_id = NodeId(change.leader);
        }
        if change.leader_recovery_state != NO_RECOVERY_CHANGE {
            self.recovering = change.leader_recovery_state == 1;
        }
        let set = |to: &mut Vec<NodeId>, from: &Option<Vec<i32>>| {
            if let Some(from) = from {
                *to = nodes(from);
            }
        };
        if let Some(new) = &change.replicas {
            // A replica that stays keeps its directory unless the record names new ones.
            let kept = |id: &i32| self.directory(NodeId(*id)).unwrap_or(TopicId::ZERO);
            self.directories = new.iter().map(kept).collect();
        }
        set(&mut self.replicas, &change.replicas);
        set(&mut self.isr, &change.isr);
        set(&mut self.removing_replicas, &change.removing_replicas);
        set(&mut self.adding_replicas, &change.adding_replicas);
        set(
            &mut self.eligible_leader_replicas,
            &change.eligible_leader_replicas,
        );
        set(&mut self.last_known_elr, &change.last_known_elr);
        if let Some(new) = &change.directories {
            self.directories = directories(self.replicas.len(), new);
        }
        true
    }
}

/// One directory per replica: records before KIP-858 name none.
fn directories(replica_count: usize, named: &[TopicId]) -> Vec<TopicId> {
    let mut all = named.to_vec();
    all.resize(replica_count, TopicId::ZERO);
    all
}
