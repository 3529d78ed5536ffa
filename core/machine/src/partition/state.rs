//! What the metadata image says of a partition, the ISR with its pending changes, and a follower's progress.
//!
//! Invariants:
//! 1. A pending removal never shrinks the ISR that the high watermark waits for; a pending addition grows it at once.
//! 2. A follower's broker epoch, log end and caught-up time change together.
//!
//! Source: KIP-497, KIP-841 (broker epochs in the ISR).

use pelton_model::{LeaderEpoch, Monotonic, NodeId, Offset, PartitionEpoch};

/// A partition as the metadata image has it, seen from one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionState {
    /// This node.
    pub local: NodeId,
    /// The leader, −1 when there is none.
    pub leader: NodeId,
    /// Grows with each leadership.
    pub leader_epoch: LeaderEpoch,
    /// Grows with each change.
    pub partition_epoch: PartitionEpoch,
    /// Every replica.
    pub replicas: Vec<NodeId>,
    /// The in-sync ones.
    pub isr: Vec<NodeId>,
}

/// The in-sync replicas: those the controller committed, and what has been asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Isr {
    members: Vec<NodeId>,
    additions: Vec<NodeId>,
    removals: Vec<NodeId>,
}

impl Isr {
    /// The committed ISR, nothing pending.
    #[must_use]
    pub fn committed(members: Vec<NodeId>) -> Self {
        Self {
            members,
            additions: Vec::new(),
            removals: Vec::new(),
        }
    }

    /// The committed members.
    #[must_use]
    pub fn members(&self) -> &[NodeId] {
        &self.members
    }

    /// The members that the controller has been asked for; `None` when nothing is pending.
    #[must_use]
    pub fn proposed(&self) -> Option<Vec<NodeId>> {
        if self.additions.is_empty() && self.removals.is_empty() {
            return None;
        }
        let kept = self
            .members
            .iter()
            .filter(|node| !self.removals.contains(node));
        Some(kept.chain(&self.additions).copied().collect())
    }

    /// Whether `node` is in the maximal ISR: committed, or about to be added.
    #[must_use]
    pub fn may_contain(&self, node: NodeId) -> bool {
        self.members.contains(&node) || self.additions.contains(&node)
    }

    pub(super) fn add(&mut self, node: NodeId) {
        if !self.may_contain(node) {
            self.additions.push(node);
        }
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        if self.members.contains(&node) && !self.removals.contains(&node) {
            self.removals.push(node);
        }
    }
}

/// How far a follower has come, by its own fetches in the current leader epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follower {
    /// The follower.
    pub node: NodeId,
    /// It has everything below; [`Offset::NONE`] before its first fetch.
    pub log_end: Offset,
    /// The epoch of the broker incarnation that fetched; −1 when it did not say.
    pub broker_epoch: i64,
    /// When it last had everything that was there at its previous fetch; `None`: never.
    pub caught_up_at: Option<Monotonic>,
    /// The leader's log end and the time at the previous fetch.
    previous_fetch: Option<(Offset, Monotonic)>,
}

impl Follower {
    pub(super) fn new(node: NodeId) -> Self {
        Self {
            node,
            log_end: Offset::NONE,
            broker_epoch: -1,
            caught_up_at: None,
            previous_fetch: None,
        }
    }

    pub(super) fn on_fetch(
        &mut self,
        fetch_offset: Offset,
        leader_log_end: Offset,
        broker_epoch: i64,
        now: Monotonic,
    ) {
        if leader_log_end <= fetch_offset {
            self.caught_up_at = Some(now);
        } else if let Some((end_then, then)) = self.previous_fetch
            && end_then <= fetch_offset
        {
            self.caught_up_at = self.caught_up_at.max(Some(then));
        }
        self.log_end = fetch_offset;
        self.broker_epoch = broker_epoch;
        self.previous_fetch = Some((leader_log_end, now));
    }
}
