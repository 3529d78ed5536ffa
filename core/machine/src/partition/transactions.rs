//! Transactions on the leader's side: which batch may begin one, and the markers that end them.
//!
//! A transaction that the coordinator does not know of would hold the last stable offset for ever. So the first batch of a transaction
//! needs the coordinator's word (KIP-890): [`Partition::begin_verification`] gives a number, the coordinator is asked, and the batch
//! comes with the number. A marker that was planned meanwhile makes the number void, and so does the first batch.
//!
//! Invariants:
//! 1. A batch that needs the coordinator's word is planned only with the number that is in force: what the coordinator said before a marker
//!    is not taken for the transaction after it.
//! 2. Of the batches that wait for one verification, none goes before the one with the lowest sequence: it would never fit again.
//! 3. At most [`PRODUCERS_PER_PARTITION_MAX`] numbers are in force, and as many transactions open.
//!
//! Not here: the coordinator, and asking it.
//!
//! Source: KIP-98, KIP-890, KIP-1228 (markers tell their transaction's version).

use pelton_model::limits::PRODUCERS_PER_PARTITION_MAX;
use pelton_model::map::Map;
use pelton_model::producer_state::{
    BatchFacts, EndedTxn, MarkerCheck, MarkerFacts, ProducerStamp, ProducerState, SequenceCheck,
};
use pelton_model::{Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

use super::{Acks, Partition, Plan, PlanRefused, ReadRefused};

/// Why a transactional batch may be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TxnGuard {
    /// Its transaction is open here already.
    #[default]
    None,
    /// The coordinator vouches for it; the number is that of [`Partition::begin_verification`].
    Given(u64),
    /// Nobody is asked (`transaction.partition.verification.enable=false`).
    Waived,
}

/// A batch whose transaction may have to be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verification {
    /// Whose batch.
    pub stamp: ProducerStamp,
    /// Whether the producer's epoch ends with each transaction (transaction version 2): its sequences then begin at 0.
    pub is_bumped: bool,
}

/// What a coordinator wants written: the end of a producer's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Whose transaction ends.
    pub producer_id: ProducerId,
    /// The epoch that the marker bears.
    pub producer_epoch: ProducerEpoch,
    /// The coordinator's epoch.
    pub coordinator_epoch: i32,
    /// Whether the epoch ends with the transaction (transaction version 2): the marker's is then above that of the records.
    pub is_bumped: bool,
    /// The marker's time.
    pub timestamp: Timestamp,
}

/// A marker's place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedMarker {
    /// Where.
    pub plan: Plan,
    /// The transaction that it ends, if one is open here.
    pub ended: Option<EndedTxn>,
}

/// A verification under way.
#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u64,
    lowest_sequence: Sequence,
    epoch: ProducerEpoch,
    is_bumped: bool,
    begun: Timestamp,
}

/// The verifications under way in one partition.
#[derive(Debug, Default)]
pub(super) struct Verifications {
    entries: Map<ProducerId, Entry>,
    last_number: u64,
}

impl Verifications {
    fn begin(&mut self, verification: &Verification, now: Timestamp) -> u64 {
        let Verification { stamp, is_bumped } = *verification;
        if let Some(entry) = self.entries.get_mut(&stamp.id) {
            if entry.epoch < stamp.epoch {
                entry.epoch = stamp.epoch;
                entry.lowest_sequence = stamp.base_sequence;
            } else if entry.epoch == stamp.epoch {
                entry.lowest_sequence = entry.lowest_sequence.min(stamp.base_sequence);
            }
            return entry.number;
        }
        if PRODUCERS_PER_PARTITION_MAX <= self.entries.len() {
            // Those refused by the coordinator stay behind: the half begun first makes room. Whoever of it still waits is verified anew.
            let newest = PRODUCERS_PER_PARTITION_MAX as u64 / 2;
            let oldest_kept = self.last_number - newest;
            self.entries.retain(|_, entry| oldest_kept < entry.number);
        }
        self.last_number += 1;
        let entry = Entry {
            number: self.last_number,
            lowest_sequence: stamp.base_sequence,
            epoch: stamp.epoch,
            is_bumped,
            begun: now,
        };
        self.entries.insert(stamp.id, entry);
        entry.number
    }

    fn admits(&self, producer: ProducerId, guard: TxnGuard) -> bool {
        match guard {
            TxnGuard::None => false,
            TxnGuard::Given(number) => {
                let entry = self.entries.get(&producer);
                entry.is_some_and(|entry| entry.number == number)
            }
            TxnGuard::Waived => true,
        }
    }

    /// Forgets those that never came back.
    pub(super) fn expire(&mut self, now: Timestamp, expiration_ms: i64) {
        self.entries
            .retain(|_, entry| now.0.saturating_sub(entry.begun.0) < expiration_ms);
    }
}

impl Partition {
    /// Begins to verify that a transaction of `verification` is open: gives what the batch is planned with once the coordinator has said
    /// so, or [`TxnGuard::None`] when nobody need be asked: the transaction is open here, or the epoch is past.
    ///
    /// # Errors
    /// [`ReadRefused`] when this node does not lead, or cannot.
    pub fn begin_verification(
        &mut self,
        verification: &Verification,
        now: Timestamp,
    ) -> Result<TxnGuard, ReadRefused> {
        self.check_epoch(pelton_model::LeaderEpoch::NONE)?;
        let stamp = verification.stamp;
        let known = self.producers.get(stamp.id);
        // A fenced producer is refused by its epoch: it must not stand in front of its successor.
        let is_decided = |state: &ProducerState| {
            stamp.epoch < state.epoch() || state.is_in_transaction(stamp.epoch)
        };
        if known.is_some_and(is_decided) {
            return Ok(TxnGuard::None);
        }
        let number = self.verifications.begin(verification, now);
        Ok(TxnGuard::Given(number))
    }

    /// Gives a marker its offset. It is committed like any acks=all batch.
    ///
    /// # Errors
    /// [`PlanRefused`], in Kafka's order of checks.
    pub fn plan_marker(&mut self, marker: &Marker) -> Result<PlannedMarker, PlanRefused> {
        self.check_writable(Acks::All)?;
        let facts = MarkerFacts {
            producer_id: marker.producer_id,
            producer_epoch: marker.producer_epoch,
            coordinator_epoch: marker.coordinator_epoch,
            offset: self.planned_end,
            timestamp: marker.timestamp,
        };
        match self.producers.check_marker(&facts, marker.is_bumped) {
            MarkerCheck::Accept => {}
            MarkerCheck::InvalidEpoch => return Err(PlanRefused::InvalidProducerEpoch),
            MarkerCheck::CoordinatorFenced => return Err(PlanRefused::CoordinatorFenced),
        }
        self.verifications.entries.remove(&marker.producer_id);
        let ended = self.producers.replay_marker(&facts);
        let plan = self.place(0);
        assert_eq!(plan.base_offset, facts.offset);
        Ok(PlannedMarker { plan, ended })
    }

    /// Judges a transactional batch and records it when it is accepted.
    #[cold]
    pub(super) fn admit_transactional(
        &mut self,
        base_offset: Offset,
        facts: &BatchFacts,
        stamp: ProducerStamp,
        guard: TxnGuard,
    ) -> SequenceCheck {
        let known = self.producers.get(stamp.id);
        let original = known.and_then(|state| state.duplicate(stamp, facts.last_offset_delta));
        if let Some(original) = original {
            return SequenceCheck::Duplicate(original);
        }
        let admitted = self.check_guard(stamp, guard);
        if admitted != SequenceCheck::Accept {
            return admitted;
        }
        if !self.is_next_verified(stamp) {
            return SequenceCheck::OutOfOrder;
        }
        let check = self.producers.admit(base_offset, facts);
        if check == SequenceCheck::Accept {
            self.verifications.entries.remove(&stamp.id);
        }
        check
    }

    /// Whether a batch that a coordinator writes in a producer's transaction would be planned now.
    ///
    /// # Errors
    /// Why it would not.
    pub fn check_coordinated(
        &self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        guard: TxnGuard,
    ) -> Result<(), PlanRefused> {
        self.check_writable(Acks::All)?;
        let stamp = ProducerStamp::from((producer_id, producer_epoch, Sequence::NONE));
        PlanRefused::of(self.check_guard(stamp, guard)).map(|_| ())
    }

    /// Whether the batch's transaction is open here, or somebody vouches for it.
    fn check_guard(&self, stamp: ProducerStamp, guard: TxnGuard) -> SequenceCheck {
        let known = self.producers.get(stamp.id);
        if known.is_some_and(|state| state.is_in_transaction(stamp.epoch)) {
            return SequenceCheck::Accept;
        }
        if known.is_some_and(|state| stamp.epoch < state.epoch()) {
            return SequenceCheck::InvalidEpoch;
        }
        let is_full = PRODUCERS_PER_PARTITION_MAX <= self.producers.open_count();
        if is_full || !self.verifications.admits(stamp.id, guard) {
            SequenceCheck::InvalidTxnState
        } else {
            SequenceCheck::Accept
        }
    }

    /// Whether the verification under way, if any, has no other batch in front of this one. An open transaction waits for none.
    fn is_next_verified(&self, stamp: ProducerStamp) -> bool {
        let Some(entry) = self.verifications.entries.get(&stamp.id) else {
            return true;
        };
        let known = self.producers.get(stamp.id);
        let is_open = known.is_some_and(|state| state.is_in_transaction(stamp.epoch));
        if is_open || stamp.base_sequence == Sequence::NONE {
            return true;
        }
        let last = known.map(ProducerState::last_offset);
        let has_history = last.is_some_and(|last| last != Offset::NONE);
        let is_beginning = has_history || !entry.is_bumped || stamp.base_sequence == Sequence(0);
        is_beginning && stamp.base_sequence <= entry.lowest_sequence
    }
}

#[cfg(test)]
mod tests;
