//! What a partition remembers of idempotent and transactional producers, and the one transition of it.
//!
//! Owns: the last five batches of each producer, its epoch, its open transaction. Recovery replays it, the leader decides
//! with it, snapshots store it. Pure: time and offsets come in as arguments.
//!
//! Invariants:
//! 1. A batch is recorded when its offset is planned, so that a pipelined successor finds it; there is no undo: a storage
//!    failure takes the partition offline and the state is rebuilt from the log.
//! 2. Only batches of the producer's current epoch are remembered; a new epoch forgets the old one's.
//! 3. Sequences of the remembered batches follow each other, wrapping from 2³¹−1 to 0, unless the log itself says
//!    otherwise (replay takes the log as it is: the leader that wrote it has decided).
//! 4. At most [`PRODUCERS_PER_PARTITION_MAX`] producers, those with a transaction open aside; the half that wrote longest
//!    ago makes room.
//!
//! Not here: what a transaction coordinator may do, aborted-transaction indexes, files.
//!
//! Source: KIP-98, KIP-360, KIP-185; `KAFKA-5494` for five batches.

mod rows;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use rows::{BatchRow, ProducerRow};
pub use snapshot::SnapshotError;

use crate::id::{Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};
use crate::limits::{PRODUCER_BATCHES_MAX, PRODUCERS_PER_PARTITION_MAX};
use crate::map::Map;

/// Who wrote a batch and where it stands in the producer's sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerStamp {
    /// The producer; never [`ProducerId::NONE`].
    pub id: ProducerId,
    /// Its epoch.
    pub epoch: ProducerEpoch,
    /// The sequence of the batch's first record; [`Sequence::NONE`] in batches that a coordinator wrote.
    pub base_sequence: Sequence,
}

impl From<(ProducerId, ProducerEpoch, Sequence)> for ProducerStamp {
    fn from((id, epoch, base_sequence): (ProducerId, ProducerEpoch, Sequence)) -> Self {
        Self {
            id,
            epoch,
            base_sequence,
        }
    }
}

/// What planning an append and replaying a log need to know of one data batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchFacts {
    /// Offset of the last record minus that of the first; never negative.
    pub last_offset_delta: i32,
    /// The producer, when the batch has one.
    pub producer: Option<ProducerStamp>,
    /// Whether the batch belongs to a transaction.
    pub is_transactional: bool,
    /// The largest record timestamp, or the append time under LogAppendTime.
    pub max_timestamp: Timestamp,
}

/// A transaction that a marker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedTxn {
    /// Its first record.
    pub first_offset: Offset,
    /// The first offset of the earliest transaction that is still open, else the one after the marker.
    pub last_stable_offset: Offset,
}

/// A control batch that ends a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkerFacts {
    /// The producer whose transaction ends.
    pub producer_id: ProducerId,
    /// The epoch that the coordinator wrote with.
    pub producer_epoch: ProducerEpoch,
    /// The coordinator's epoch; −1 when unknown.
    pub coordinator_epoch: i32,
    /// The marker's offset.
    pub offset: Offset,
    /// The marker's time.
    pub timestamp: Timestamp,
}

/// What to do with a batch of an idempotent producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceCheck {
    /// It is the next one.
    Accept,
    /// It is one of the last five: answer as for the original.
    Duplicate(Duplicate),
    /// OUT_OF_ORDER_SEQUENCE_NUMBER: a gap, an older duplicate, or a new epoch that does not start at 0.
    OutOfOrder,
    /// INVALID_PRODUCER_EPOCH: the producer has been fenced by a newer epoch.
    InvalidEpoch,
    /// INVALID_TXN_STATE: a record outside of transactions while the producer has one open.
    InvalidTxnState,
}

/// Whether a coordinator's marker may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkerCheck {
    /// It may.
    Accept,
    /// INVALID_PRODUCER_EPOCH: it ends a transaction of the past.
    InvalidEpoch,
    /// TRANSACTION_COORDINATOR_FENCED: a later coordinator has written markers for this producer.
    CoordinatorFenced,
}

/// Where the original of a repeated batch lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// Offset of the original's first record.
    pub base_offset: Offset,
    /// Offset of the original's last record.
    pub last_offset: Offset,
    /// The original's max timestamp, which under LogAppendTime is its append time.
    pub timestamp: Timestamp,
}

/// One batch that a producer wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WrittenBatch {
    last_sequence: Sequence,
    offset_delta: i32,
    last_offset: Offset,
    timestamp: Timestamp,
}

impl WrittenBatch {
    const NONE: Self = Self {
        last_sequence: Sequence::NONE,
        offset_delta: 0,
        last_offset: Offset::NONE,
        timestamp: Timestamp::NONE,
    };

    fn base_sequence(self) -> Sequence {
        if self.last_sequence == Sequence::NONE {
            return Sequence::NONE;
        }
        self.last_sequence.plus(-self.offset_delta)
    }

    fn duplicate(self) -> Duplicate {
        Duplicate {
            base_offset: Offset(self.last_offset.0 - i64::from(self.offset_delta)),
            last_offset: self.last_offset,
            timestamp: self.timestamp,
        }
    }
}

/// One producer's state in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerState {
    epoch: ProducerEpoch,
    coordinator_epoch: i32,
    last_timestamp: Timestamp,
    /// [`Offset::NONE`] when no transaction is open.
    current_txn_first_offset: Offset,
    /// Oldest first; the first `batch_count` are in use.
    batches: [WrittenBatch; PRODUCER_BATCHES_MAX],
    batch_count: u8,
}

impl ProducerState {
    fn new(epoch: ProducerEpoch) -> Self {
        Self {
            epoch,
            coordinator_epoch: -1,
            last_timestamp: Timestamp::NONE,
            current_txn_first_offset: Offset::NONE,
            batches: [WrittenBatch::NONE; PRODUCER_BATCHES_MAX],
            batch_count: 0,
        }
    }

    /// The producer's current epoch.
    #[must_use]
    pub fn epoch(&self) -> ProducerEpoch {
        self.epoch
    }

    /// The sequence of the last record, or [`Sequence::NONE`].
    #[must_use]
    pub fn last_sequence(&self) -> Sequence {
        self.written()
            .last()
            .map_or(Sequence::NONE, |batch| batch.last_sequence)
    }

    /// The offset of the last data record, or [`Offset::NONE`].
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        self.written()
            .last()
            .map_or(Offset::NONE, |batch| batch.last_offset)
    }

    /// The time of the last batch or marker: expiry counts from it.
    #[must_use]
    pub fn last_timestamp(&self) -> Timestamp {
        self.last_timestamp
    }

    /// The epoch of the coordinator that ended the last transaction; −1 when none did.
    #[must_use]
    pub fn coordinator_epoch(&self) -> i32 {
        self.coordinator_epoch
    }

    /// The first offset of the open transaction.
    #[must_use]
    pub fn current_txn_first_offset(&self) -> Option<Offset> {
        (self.current_txn_first_offset != Offset::NONE).then_some(self.current_txn_first_offset)
    }

    fn written(&self) -> &[WrittenBatch] {
        &self.batches[..usize::from(self.batch_count)]
    }

    /// Whether a transaction of this epoch is open.
    #[must_use]
    pub fn is_in_transaction(&self, epoch: ProducerEpoch) -> bool {
        self.epoch == epoch && self.current_txn_first_offset != Offset::NONE
    }

    /// The original of a batch that was sent again, if it is one of the last five.
    #[must_use]
    pub fn duplicate(&self, stamp: ProducerStamp, last_offset_delta: i32) -> Option<Duplicate> {
        if stamp.epoch != self.epoch || stamp.base_sequence == Sequence::NONE {
            return None;
        }
        let last = last_sequence(stamp.base_sequence, last_offset_delta);
        let mut newest_first = self.written().iter().rev();
        newest_first
            .find(|b| b.last_sequence == last && b.base_sequence() == stamp.base_sequence)
            .map(|b| b.duplicate())
    }

    fn check(&self, stamp: ProducerStamp, facts: &BatchFacts) -> SequenceCheck {
        if stamp.epoch < self.epoch {
            return SequenceCheck::InvalidEpoch;
        }
        let is_next = match stamp.base_sequence {
            // A coordinator's batch: its writer has no sequence.
            Sequence::NONE => true,
            first if self.epoch < stamp.epoch => first == Sequence(0),
            first => first == self.last_sequence().plus(1),
        };
        if is_next {
            let is_outside =
                !facts.is_transactional && self.current_txn_first_offset != Offset::NONE;
            return match is_outside {
                true => SequenceCheck::InvalidTxnState,
                false => SequenceCheck::Accept,
            };
        }
        self.duplicate(stamp, facts.last_offset_delta)
            .map_or(SequenceCheck::OutOfOrder, SequenceCheck::Duplicate)
    }

    fn set_epoch(&mut self, epoch: ProducerEpoch) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.batch_count = 0;
        }
    }

    fn push(&mut self, batch: WrittenBatch) {
        if usize::from(self.batch_count) == PRODUCER_BATCHES_MAX {
            self.batches.copy_within(1.., 0);
            self.batch_count -= 1;
        }
        self.batches[usize::from(self.batch_count)] = batch;
        self.batch_count += 1;
        self.last_timestamp = batch.timestamp;
    }
}

/// The producers of one partition.
#[derive(Clone, Debug, Default)]
pub struct ProducerStates {
    producers: Map<ProducerId, ProducerState>,
    /// First offsets of open transactions.
    open: BTreeSet<Offset>,
    /// Ended transactions whose marker may not be replicated yet, by their first offset.
    unreplicated: BTreeMap<Offset, Ended>,
}

/// A transaction whose marker may not be replicated yet.
#[derive(Clone, Debug)]
struct Ended {
    marker: Offset,
    producer: ProducerId,
    /// The producer's state without the marker: what a snapshot of the log before it must say.
    before: Box<ProducerState>,
}

impl ProducerStates {
    /// No producer at all.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of producers known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.producers.len()
    }

    /// Whether no producer is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    /// Every producer and its state, in no order that matters.
    pub fn iter(&self) -> impl Iterator<Item = (ProducerId, &ProducerState)> {
        self.producers.iter().map(|(&id, state)| (id, state))
    }

    /// One producer's state.
    #[must_use]
    pub fn get(&self, producer: ProducerId) -> Option<&ProducerState> {
        self.producers.get(&producer)
    }

    /// Judges a client's batch without recording it. A producer that is not known may start at any sequence.
    #[must_use]
    pub fn check(&self, facts: &BatchFacts) -> SequenceCheck {
        facts.producer.map_or(SequenceCheck::Accept, |stamp| {
            self.producers
                .get(&stamp.id)
                .map_or(SequenceCheck::Accept, |state| state.check(stamp, facts))
        })
    }

    /// Judges a coordinator's marker. `is_bumped`: whether its transaction's epoch ended with it (transaction version 2), so that a
    /// marker of the present epoch is one written before.
    #[must_use]
    pub fn check_marker(&self, marker: &MarkerFacts, is_bumped: bool) -> MarkerCheck {
        let known = self.producers.get(&marker.producer_id);
        let epoch = known.map_or(ProducerEpoch::NONE, |state| state.epoch);
        let coordinator_epoch = known.map_or(-1, |state| state.coordinator_epoch);
        let is_open = known.is_some_and(|state| state.current_txn_first_offset != Offset::NONE);
        let is_late = marker.producer_epoch < epoch;
        let is_of_next = is_bumped && marker.producer_epoch == epoch && is_open;
        if is_late || is_of_next {
            MarkerCheck::InvalidEpoch
        } else if marker.coordinator_epoch < coordinator_epoch {
            MarkerCheck::CoordinatorFenced
        } else {
            MarkerCheck::Accept
        }
    }

    /// Judges a client's batch and, when it is accepted, records it at `base_offset`: [`ProducerStates::check`] and
    /// [`ProducerStates::replay`] in one look-up. A batch without producer is accepted.
    pub fn admit(&mut self, base_offset: Offset, facts: &BatchFacts) -> SequenceCheck {
        let Some(stamp) = facts.producer else {
            return SequenceCheck::Accept;
        };
        if let Some(state) = self.producers.get_mut(&stamp.id) {
            let verdict = state.check(stamp, facts);
            if verdict == SequenceCheck::Accept {
                record(state, &mut self.open, base_offset, stamp, facts);
            }
            return verdict;
        }
        self.insert(base_offset, stamp, facts);
        SequenceCheck::Accept
    }

    /// Records a data batch that lies in the log, whatever its sequence.
    pub fn replay(&mut self, base_offset: Offset, facts: &BatchFacts) {
        let Some(stamp) = facts.producer else {
            return;
        };
        match self.producers.get_mut(&stamp.id) {
            Some(state) => record(state, &mut self.open, base_offset, stamp, facts),
            None => self.insert(base_offset, stamp, facts),
        }
    }

    /// Records a marker that lies in the log: the producer's transaction ends, its sequences go on. Returns the transaction that
    /// ended, if one was open.
    pub fn replay_marker(&mut self, marker: &MarkerFacts) -> Option<EndedTxn> {
        if !self.producers.contains_key(&marker.producer_id) {
            self.make_room();
        }
        let state = self
            .producers
            .entry(marker.producer_id)
            .or_insert_with(|| ProducerState::new(marker.producer_epoch));
        let first = state.current_txn_first_offset();
        let before = first.map(|_| Box::new(state.clone()));
        state.set_epoch(marker.producer_epoch);
        state.coordinator_epoch = marker.coordinator_epoch;
        state.last_timestamp = marker.timestamp;
        state.current_txn_first_offset = Offset::NONE;
        let (first, before) = first.zip(before)?;
        self.open.remove(&first);
        let ended = Ended {
            marker: marker.offset,
            producer: marker.producer_id,
            before,
        };
        self.unreplicated.insert(first, ended);
        let next_open = self.open.first().copied();
        Some(EndedTxn {
            first_offset: first,
            last_stable_offset: next_open.unwrap_or(marker.offset.plus(1)),
        })
    }

    /// The number of open transactions.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Forgets ended transactions whose marker lies below `high_watermark`.
    pub fn on_high_watermark(&mut self, high_watermark: Offset) {
        while let Some(entry) = self.unreplicated.first_entry() {
            if high_watermark <= entry.get().marker {
                break;
            }
            entry.remove();
        }
    }

    /// The first offset of the earliest transaction that is open or whose marker is not replicated: readers of committed
    /// data stop before it.
    #[must_use]
    pub fn first_unstable_offset(&self) -> Option<Offset> {
        let open = self.open.first().copied();
        let unreplicated = self.unreplicated.first_key_value().map(|(&first, _)| first);
        match (open, unreplicated) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, None) | (None, one) => one,
        }
    }

    /// Forgets producers that wrote nothing for `expiration_ms` and have no transaction open. O(producers).
    pub fn expire(&mut self, now: Timestamp, expiration_ms: i64) {
        self.producers.retain(|_, state| {
            state.current_txn_first_offset().is_some()
                || now.0.saturating_sub(state.last_timestamp.0) < expiration_ms
        });
    }

    fn insert(&mut self, base_offset: Offset, stamp: ProducerStamp, facts: &BatchFacts) {
        self.make_room();
        let state = self
            .producers
            .entry(stamp.id)
            .or_insert_with(|| ProducerState::new(stamp.epoch));
        record(state, &mut self.open, base_offset, stamp, facts);
    }

    /// Drops the half that wrote longest ago when full: O(1) per insertion over time, where dropping one would be O(n).
    fn make_room(&mut self) {
        // Those with an open transaction stay, aside of the bound; each has one first offset.
        let idle_count = self.producers.len().saturating_sub(self.open.len());
        if idle_count < PRODUCERS_PER_PARTITION_MAX {
            return;
        }
        let idle = self.producers.values();
        let idle = idle.filter(|state| state.current_txn_first_offset().is_none());
        let mut offsets: Vec<Offset> = idle.map(ProducerState::last_offset).collect();
        if offsets.is_empty() {
            return;
        }
        let middle = offsets.len() / 2;
        let (_, &mut median, _) = offsets.select_nth_unstable(middle);
        self.producers.retain(|_, state| {
            median < state.last_offset() || state.current_txn_first_offset().is_some()
        });
    }
}

fn last_sequence(base: Sequence, last_offset_delta: i32) -> Sequence {
    if base == Sequence::NONE {
        return Sequence::NONE;
    }
    base.plus(last_offset_delta)
}

fn record(
    state: &mut ProducerState,
    open: &mut BTreeSet<Offset>,
    base_offset: Offset,
    stamp: ProducerStamp,
    facts: &BatchFacts,
) {
    assert!(0 <= facts.last_offset_delta);
    state.set_epoch(stamp.epoch);
    state.push(WrittenBatch {
        last_sequence: last_sequence(stamp.base_sequence, facts.last_offset_delta),
        offset_delta: facts.last_offset_delta,
        last_offset: base_offset.plus(i64::from(facts.last_offset_delta)),
        timestamp: facts.max_timestamp,
    });
    if facts.is_transactional && state.current_txn_first_offset == Offset::NONE {
        state.current_txn_first_offset = base_offset;
        open.insert(base_offset);
    }
}
