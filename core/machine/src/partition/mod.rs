//! The leader's decisions for one partition: which offset a batch gets, what is committed, who may read how far.
//!
//! Owns: log start, log end, planned end, high watermark, producer state, the epochs, ISR and followers' progress.
//!
//! How it is used (owner shard only; no borrow is held across an await):
//! 1. [`Partition::plan_append`] gives a batch its offset at the planned end and records its producer;
//! 2. the bytes are queued and written in the order of their plans;
//! 3. [`Partition::on_appended`] moves the log end, perhaps the high watermark, and says what moved, for the purgatory.
//!
//! Invariants:
//! 1. `log_start <= last_stable <= high_watermark <= log_end <= planned_end`.
//! 2. The high watermark never goes back while this node leads, and never passes the log end of a member of the
//!    *maximal* ISR (the committed one with every pending addition and without any pending removal).
//! 3. It does not move while the committed ISR is smaller than min(`min.insync.replicas`, replica count), for acks=1 too.
//! 4. A plan is never undone: a failed write takes the partition offline for good, and its state is rebuilt from the log.
//! 5. A transactional batch is planned only in a transaction that is open here, or that the coordinator vouches for (`transactions`).
//! 6. Epochs only grow: an update below the known partition epoch is ignored; an equal one is accepted; only a grown
//!    leader epoch forgets the followers' progress.
//!
//! Not here: validation of bytes, I/O, waiting, requests to the controller for another ISR, replicas that are caught up
//! but outside the ISR (they matter once the ISR can grow).
//!
//! Source: KIP-101, KIP-320, KIP-497 (pending ISR), KIP-966 for the effective minimum.

mod state;
#[cfg(test)]
mod tests;
mod transactions;

use pelton_model::producer_state::{BatchFacts, Duplicate, ProducerStates, SequenceCheck};
use pelton_model::read_level::ReadLevel;
use pelton_model::{LeaderEpoch, Monotonic, NodeId, Offset, PartitionEpoch, Timestamp};

use transactions::Verifications;

pub use state::{Follower, Isr, PartitionState};
pub use transactions::{Marker, PlannedMarker, TxnGuard, Verification};

/// Which replicas must have a batch before it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// acks=0 and acks=1: the leader alone.
    Leader,
    /// acks=−1: every in-sync replica.
    All,
}

/// Where a log stands when its partition is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOffsets {
    /// The first offset that may be read.
    pub log_start: Offset,
    /// The offset of the next record.
    pub log_end: Offset,
    /// The checkpointed high watermark; clamped to `[log_start, log_end]`.
    pub high_watermark: Offset,
}

/// A batch's place in the log, decided before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The offset to stamp into the batch.
    pub base_offset: Offset,
    /// The offset of its last record.
    pub last_offset: Offset,
    /// The leader epoch to stamp into the batch, and to give back to [`Partition::on_appended`].
    pub leader_epoch: LeaderEpoch,
}

impl Plan {
    /// The offset after the batch. acks=all waits until the high watermark reaches it.
    #[must_use]
    pub fn next_offset(self) -> Offset {
        self.last_offset.plus(1)
    }
}

/// What becomes of a batch that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planned {
    /// Write it.
    Append(Plan),
    /// It is there, or about to be: write nothing and answer with the original's offset and time, but no sooner than the
    /// original: once the log end (acks=1) or the high watermark (acks=all) reaches `last_offset + 1`.
    Duplicate(Duplicate),
}

/// Why a batch was refused; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanRefused {
    /// KAFKA_STORAGE_ERROR.
    Offline,
    /// NOT_LEADER_OR_FOLLOWER.
    NotLeader,
    /// NOT_ENOUGH_REPLICAS: acks=all while the ISR is below the effective minimum.
    NotEnoughReplicas,
    /// OUT_OF_ORDER_SEQUENCE_NUMBER.
    OutOfOrderSequence,
    /// INVALID_PRODUCER_EPOCH.
    InvalidProducerEpoch,
    /// INVALID_TXN_STATE.
    InvalidTxnState,
    /// TRANSACTION_COORDINATOR_FENCED.
    CoordinatorFenced,
}

impl PlanRefused {
    /// Why a batch of this verdict is refused; `Ok` holds the original of a repeated one.
    fn of(check: SequenceCheck) -> Result<Option<Duplicate>, Self> {
        match check {
            SequenceCheck::Accept => Ok(None),
            SequenceCheck::Duplicate(original) => Ok(Some(original)),
            SequenceCheck::OutOfOrder => Err(Self::OutOfOrderSequence),
            SequenceCheck::InvalidEpoch => Err(Self::InvalidProducerEpoch),
            SequenceCheck::InvalidTxnState => Err(Self::InvalidTxnState),
        }
    }
}

/// Why a reader was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadRefused {
    /// KAFKA_STORAGE_ERROR.
    Offline,
    /// FENCED_LEADER_EPOCH: the reader's metadata is older than ours.
    FencedLeaderEpoch,
    /// UNKNOWN_LEADER_EPOCH: the reader's metadata is newer than ours.
    UnknownLeaderEpoch,
    /// NOT_LEADER_OR_FOLLOWER.
    NotLeader,
    /// OFFSET_OUT_OF_RANGE: below the log start or above the log end.
    OffsetOutOfRange,
}

/// What moved. Wake the waiters of each level that did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The new log end, if it moved: followers wait for it.
    pub log_end: Option<Offset>,
    /// The new high watermark, if it moved: acks=all and consumers wait for it.
    pub high_watermark: Option<Offset>,
    /// The new last stable offset, if it moved: `read_committed` consumers wait for it.
    pub last_stable: Option<Offset>,
    /// Whether the last stable offset passed records that were committed before: more became stable than was appended.
    pub has_released: bool,
    /// Whether leadership was lost, or lost and regained, between plan and write: answer NOT_LEADER_OR_FOLLOWER.
    pub is_fenced: bool,
}

/// What an update from the metadata image did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updated {
    /// The update is older than what is known.
    Ignored,
    /// Same leadership: the ISR, replicas or partition epoch may have changed; the high watermark may have moved.
    Merged(Progress),
    /// This node leads as of a new epoch, which begins at `epoch_start`: note it in the epoch cache before any write, and
    /// wake every waiter.
    Leader {
        /// The first offset of the new epoch.
        epoch_start: Offset,
        /// What moved.
        progress: Progress,
    },
    /// Another node leads, or none: fail every waiter; drain queued writes before following.
    Follower,
}

/// A change of the ISR that the leader wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsrChange {
    /// A follower has caught up.
    Add(NodeId),
    /// A member has fallen behind.
    Remove(NodeId),
}

/// One partition that this shard owns.
#[derive(Debug)]
pub struct Partition {
    state: PartitionState,
    isr: Isr,
    /// One per replica other than the local one.
    followers: Vec<Follower>,
    min_insync_replicas: i32,
    is_offline: bool,
    /// The first epoch of the current unbroken leadership of this node.
    leader_since: LeaderEpoch,
    epoch_start: Offset,
    log_start: Offset,
    log_end: Offset,
    planned_end: Offset,
    high_watermark: Offset,
    last_stable: Offset,
    producers: ProducerStates,
    verifications: Verifications,
}

impl Partition {
    /// The partition as its log was recovered, with the state that the metadata image has for it.
    ///
    /// `min_insync_replicas` is the topic's setting. A leader whose ISR is itself alone commits its whole log at once.
    ///
    /// # Panics
    /// When `log_end < log_start`.
    #[must_use]
    pub fn new(
        state: PartitionState,
        log: LogOffsets,
        min_insync_replicas: i32,
        producers: ProducerStates,
    ) -> Self {
        assert!(log.log_start <= log.log_end);
        let high_watermark = log.high_watermark.clamp(log.log_start, log.log_end);
        let mut producers = producers;
        producers.on_high_watermark(high_watermark);
        let mut partition = Self {
            isr: Isr::committed(state.isr.clone()),
            followers: Vec::new(),
            min_insync_replicas,
            is_offline: false,
            leader_since: state.leader_epoch,
            epoch_start: log.log_end,
            log_start: log.log_start,
            log_end: log.log_end,
            planned_end: log.log_end,
            high_watermark,
            last_stable: log.log_start,
            producers,
            verifications: Verifications::default(),
            state,
        };
        partition.reset_followers();
        partition.advance();
        partition
    }

    /// Gives a validated batch its offset. `guard` says why a transactional one may be the first of its transaction here; a batch
    /// outside of transactions ignores it.
    ///
    /// O(1), and without allocation unless the producer is new.
    ///
    /// # Errors
    /// [`PlanRefused`], in Kafka's order of checks.
    pub fn plan_append(
        &mut self,
        facts: &BatchFacts,
        acks: Acks,
        guard: TxnGuard,
    ) -> Result<Planned, PlanRefused> {
        assert!(0 <= facts.last_offset_delta);
        self.check_writable(acks)?;
        let base_offset = self.planned_end;
        let check = match facts.producer {
            Some(stamp) if facts.is_transactional => {
                self.admit_transactional(base_offset, facts, stamp, guard)
            }
            Some(_) | None => self.producers.admit(base_offset, facts),
        };
        if let Some(original) = PlanRefused::of(check)? {
            return Ok(Planned::Duplicate(original));
        }
        Ok(Planned::Append(self.place(facts.last_offset_delta)))
    }

    fn check_writable(&self, acks: Acks) -> Result<(), PlanRefused> {
        if self.is_offline {
            return Err(PlanRefused::Offline);
        }
        if !self.is_leader() {
            return Err(PlanRefused::NotLeader);
        }
        if acks == Acks::All && self.is_under_min_isr() {
            return Err(PlanRefused::NotEnoughReplicas);
        }
        Ok(())
    }

    /// Gives the next offsets away.
    fn place(&mut self, last_offset_delta: i32) -> Plan {
        let base_offset = self.planned_end;
        let last_offset = base_offset.plus(i64::from(last_offset_delta));
        self.planned_end = last_offset.plus(1);
        Plan {
            base_offset,
            last_offset,
            leader_epoch: self.state.leader_epoch,
        }
    }

    /// Takes note that everything below `next_offset` is written; `leader_epoch` is that of the plans.
    ///
    /// # Panics
    /// When `next_offset` is behind the log end or beyond the planned end: writes follow the plans.
    pub fn on_appended(&mut self, leader_epoch: LeaderEpoch, next_offset: Offset) -> Progress {
        assert!(self.log_end <= next_offset);
        assert!(next_offset <= self.planned_end);
        let is_fenced = self.is_offline || !self.is_leader() || leader_epoch < self.leader_since;
        let has_moved = self.log_end < next_offset;
        self.log_end = next_offset;
        let mut progress = self.advance();
        progress.log_end = has_moved.then_some(next_offset);
        progress.is_fenced = is_fenced;
        progress
    }

    /// Takes note of a follower's fetch at `fetch_offset`: it has everything below.
    ///
    /// `broker_epoch` is the fetching broker's, −1 when it did not say. A fetch from a node that is no replica changes
    /// nothing. O(replicas).
    pub fn on_follower_fetch(
        &mut self,
        node: NodeId,
        fetch_offset: Offset,
        broker_epoch: i64,
        now: Monotonic,
    ) -> Progress {
        let log_end = self.log_end;
        let Some(follower) = self.followers.iter_mut().find(|f| f.node == node) else {
            return Progress::default();
        };
        follower.on_fetch(fetch_offset.min(log_end), log_end, broker_epoch, now);
        self.advance()
    }

    /// Merges what the metadata image says.
    pub fn update(&mut self, state: PartitionState) -> Updated {
        if state.partition_epoch < self.state.partition_epoch
            || state.leader_epoch < self.state.leader_epoch
        {
            return Updated::Ignored;
        }
        let was_leader = self.is_leader();
        let is_new_epoch = self.state.leader_epoch < state.leader_epoch;
        let has_new_replicas = self.state.replicas != state.replicas;
        self.isr = Isr::committed(state.isr.clone());
        self.state = state;
        if !self.is_leader() {
            self.followers.clear();
            return if was_leader || is_new_epoch {
                Updated::Follower
            } else {
                Updated::Merged(Progress::default())
            };
        }
        if !was_leader {
            self.leader_since = self.state.leader_epoch;
        }
        if is_new_epoch || !was_leader {
            self.reset_followers();
            // Batches that are planned but not written carry the old epoch and lie before the new one's start.
            self.epoch_start = self.planned_end;
            let progress = self.advance();
            return Updated::Leader {
                epoch_start: self.epoch_start,
                progress,
            };
        }
        if has_new_replicas {
            self.keep_followers();
        }
        Updated::Merged(self.advance())
    }

    /// Changes the topic's `min.insync.replicas`.
    pub fn set_min_insync_replicas(&mut self, min_insync_replicas: i32) -> Progress {
        self.min_insync_replicas = min_insync_replicas;
        self.advance()
    }

    /// Asks the ISR to be what `change` makes of it, until [`Partition::update`] brings the controller's answer.
    /// The high watermark waits for an addition at once and for a removal until it is committed.
    pub fn propose_isr(&mut self, change: IsrChange) {
        assert!(self.is_leader());
        match change {
            IsrChange::Add(node) => self.isr.add(node),
            IsrChange::Remove(node) => self.isr.remove(node),
        }
    }

    /// Moves the log start up to `offset` (DeleteRecords, retention); never down, never past the high watermark.
    ///
    /// Returns the log start.
    pub fn advance_log_start(&mut self, offset: Offset) -> Offset {
        self.log_start = offset.clamp(self.log_start, self.high_watermark);
        self.last_stable = self.last_stable.max(self.log_start);
        self.log_start
    }

    /// The log directory failed: everything answers KAFKA_STORAGE_ERROR from now on. Fail every waiter.
    pub fn go_offline(&mut self) {
        self.is_offline = true;
    }

    /// Checks a reader's idea of the leader epoch (−1: none) and that this node leads.
    ///
    /// # Errors
    /// [`ReadRefused`], in Kafka's order of checks; never `OffsetOutOfRange`.
    pub fn check_epoch(&self, current_leader_epoch: LeaderEpoch) -> Result<(), ReadRefused> {
        if self.is_offline {
            return Err(ReadRefused::Offline);
        }
        if current_leader_epoch != LeaderEpoch::NONE {
            if current_leader_epoch < self.state.leader_epoch {
                return Err(ReadRefused::FencedLeaderEpoch);
            }
            if self.state.leader_epoch < current_leader_epoch {
                return Err(ReadRefused::UnknownLeaderEpoch);
            }
        }
        if !self.is_leader() {
            return Err(ReadRefused::NotLeader);
        }
        Ok(())
    }

    /// The exclusive end of a fetch from `from`; at or below `from` there is nothing to read yet.
    ///
    /// # Errors
    /// `OffsetOutOfRange` unless `log_start <= from <= log_end`.
    pub fn read_end(&self, from: Offset, level: ReadLevel) -> Result<Offset, ReadRefused> {
        if from < self.log_start || self.log_end < from {
            return Err(ReadRefused::OffsetOutOfRange);
        }
        Ok(self.end(level))
    }

    /// The exclusive end of what readers of `level` see.
    #[must_use]
    pub fn end(&self, level: ReadLevel) -> Offset {
        match level {
            ReadLevel::LastStable => self.last_stable,
            ReadLevel::HighWatermark => self.high_watermark,
            ReadLevel::LogEnd => self.log_end,
        }
    }

    /// The first readable offset.
    #[must_use]
    pub fn log_start(&self) -> Offset {
        self.log_start
    }

    /// The offset after the last written record.
    #[must_use]
    pub fn log_end(&self) -> Offset {
        self.log_end
    }

    /// The offset after the last planned record.
    #[must_use]
    pub fn planned_end(&self) -> Offset {
        self.planned_end
    }

    /// The offset after the last committed record.
    #[must_use]
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// The offset before which every transaction has ended.
    #[must_use]
    pub fn last_stable(&self) -> Offset {
        self.last_stable
    }

    /// Whether the high watermark has reached this leadership's first offset. Until then "latest" cannot be told
    /// (OFFSET_NOT_AVAILABLE): the previous leader may have committed more.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.epoch_start <= self.high_watermark
    }

    /// Whether this node leads.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.state.leader == self.state.local
    }

    /// Whether the log directory failed.
    #[must_use]
    pub fn is_offline(&self) -> bool {
        self.is_offline
    }

    /// The leader, −1 when there is none.
    #[must_use]
    pub fn leader(&self) -> NodeId {
        self.state.leader
    }

    /// The current leader epoch.
    #[must_use]
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.state.leader_epoch
    }

    /// The current partition epoch.
    #[must_use]
    pub fn partition_epoch(&self) -> PartitionEpoch {
        self.state.partition_epoch
    }

    /// The in-sync replicas, committed and proposed.
    #[must_use]
    pub fn isr(&self) -> &Isr {
        &self.isr
    }

    /// The followers' progress.
    #[must_use]
    pub fn followers(&self) -> &[Follower] {
        &self.followers
    }

    /// The producers' state as of the planned end.
    #[must_use]
    pub fn producers(&self) -> &ProducerStates {
        &self.producers
    }

    /// Forgets producers that were idle for `expiration_ms`. O(producers): for the maintenance task.
    pub fn expire_producers(&mut self, now: Timestamp, expiration_ms: i64) {
        self.producers.expire(now, expiration_ms);
        self.verifications.expire(now, expiration_ms);
    }

    /// Whether the committed ISR is below min(`min.insync.replicas`, replica count).
    #[must_use]
    pub fn is_under_min_isr(&self) -> bool {
        let replicas = i32::try_from(self.state.replicas.len()).unwrap_or(i32::MAX);
        let members = i32::try_from(self.isr.members().len()).unwrap_or(i32::MAX);
        members < self.min_insync_replicas.min(replicas)
    }

    /// Moves high watermark and last stable offset as far as the followers allow.
    fn advance(&mut self) -> Progress {
        let mut progress = Progress::default();
        if self.is_offline {
            return progress;
        }
        let was_held = self.last_stable < self.high_watermark;
        if self.is_leader() && !self.is_under_min_isr() {
            let mut committed = self.log_end;
            for follower in &self.followers {
                if self.isr.may_contain(follower.node) {
                    committed = committed.min(follower.log_end);
                }
            }
            if self.high_watermark < committed {
                self.high_watermark = committed;
                self.producers.on_high_watermark(committed);
                progress.high_watermark = Some(committed);
            }
        }
        let stable = self
            .producers
            .first_unstable_offset()
            .map_or(self.high_watermark, |first| first.min(self.high_watermark));
        // An open transaction may have begun below a log start that moved since.
        if self.last_stable < stable {
            self.last_stable = stable;
            progress.last_stable = Some(stable);
            progress.has_released = was_held;
        }
        assert!(self.last_stable <= self.high_watermark);
        assert!(self.high_watermark <= self.log_end);
        progress
    }

    fn reset_followers(&mut self) {
        let local = self.state.local;
        let others = self.state.replicas.iter().filter(|&&node| node != local);
        self.followers = others.map(|&node| Follower::new(node)).collect();
    }

    /// Follows the replica list within one leader epoch: who stays keeps its progress.
    fn keep_followers(&mut self) {
        let known = std::mem::take(&mut self.followers);
        self.reset_followers();
        for follower in &mut self.followers {
            if let Some(old) = known.iter().find(|f| f.node == follower.node) {
                *follower = *old;
            }
        }
    }
}
