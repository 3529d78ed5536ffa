//! Producer state as plain rows, every remembered batch included: what a start-up manifest keeps, where Kafka's snapshot keeps the last
//! batch only; and the refill of the window after such a snapshot.
//!
//! Invariants:
//! 1. `from_rows(rows())` is the state, less the transactions whose marker waits for replication: those end with the process.
//! 2. Rows come from a file: what no broker writes is refused, never a panic.
//!
//! Source: KAFKA-5494 (five batches), which a snapshot of Kafka forgets.

use super::{ProducerState, ProducerStates, WrittenBatch};
use crate::id::{Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};
use crate::limits::PRODUCER_BATCHES_MAX;

/// One producer's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerRow {
    /// The producer.
    pub producer: ProducerId,
    /// Its epoch.
    pub epoch: ProducerEpoch,
    /// The epoch of the coordinator that wrote its last marker; −1: none seen.
    pub coordinator_epoch: i32,
    /// The time of the last batch or marker.
    pub last_timestamp: Timestamp,
    /// The first offset of its open transaction, or [`Offset::NONE`].
    pub txn_first_offset: Offset,
    /// The remembered batches, oldest first.
    pub batches: Vec<BatchRow>,
}

/// One remembered batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchRow {
    /// The sequence of its last record, or [`Sequence::NONE`].
    pub last_sequence: Sequence,
    /// The offset of its last record.
    pub last_offset: Offset,
    /// Last offset − base offset.
    pub offset_delta: i32,
    /// Its largest timestamp.
    pub timestamp: Timestamp,
}

impl ProducerStates {
    /// Every producer, in order of id.
    #[must_use]
    pub fn rows(&self) -> Vec<ProducerRow> {
        let mut rows: Vec<ProducerRow> = self
            .producers
            .iter()
            .map(|(&id, state)| state.row(id))
            .collect();
        rows.sort_unstable_by_key(|row| row.producer);
        rows
    }

    /// The state that `rows` speak of, or `None` when no broker wrote them for a log that ends at `end`.
    #[must_use]
    pub fn from_rows(rows: impl IntoIterator<Item = ProducerRow>, end: Offset) -> Option<Self> {
        let mut states = Self::new();
        for row in rows {
            let state = ProducerState::from_row(&row, end)?;
            if let Some(first) = state.current_txn_first_offset() {
                states.open.insert(first);
            }
            states.make_room();
            if states.producers.insert(row.producer, state).is_some() {
                return None;
            }
        }
        Some(states)
    }

    /// Takes the older batches of a producer from `walked`, the batches of the log's last stretch, where that arrives at the batch that
    /// is known here.
    pub fn refill(&mut self, walked: &Self) {
        for row in walked.rows() {
            let (Some(state), Some(more)) = (
                self.producers.get_mut(&row.producer),
                walked.producers.get(&row.producer),
            ) else {
                continue;
            };
            let same_end = more.written().last() == state.written().last();
            if more.epoch == state.epoch && same_end && state.batch_count < more.batch_count {
                state.batches = more.batches;
                state.batch_count = more.batch_count;
            }
        }
    }
}

impl ProducerState {
    fn row(&self, producer: ProducerId) -> ProducerRow {
        let batch = |batch: &WrittenBatch| BatchRow {
            last_sequence: batch.last_sequence,
            last_offset: batch.last_offset,
            offset_delta: batch.offset_delta,
            timestamp: batch.timestamp,
        };
        ProducerRow {
            producer,
            epoch: self.epoch,
            coordinator_epoch: self.coordinator_epoch,
            last_timestamp: self.last_timestamp,
            txn_first_offset: self.current_txn_first_offset,
            batches: self.written().iter().map(batch).collect(),
        }
    }

    fn from_row(row: &ProducerRow, end: Offset) -> Option<Self> {
        let in_log = |offset: Offset| Offset::NONE <= offset && offset < end;
        if row.batches.len() > PRODUCER_BATCHES_MAX || !in_log(row.txn_first_offset) {
            return None;
        }
        let mut state = Self::new(row.epoch);
        for batch in &row.batches {
            let is_whole = 0 <= batch.offset_delta
                && i64::from(batch.offset_delta) <= batch.last_offset.0
                && in_log(batch.last_offset)
                && state.last_offset() < batch.last_offset
                && Sequence::NONE <= batch.last_sequence;
            if !is_whole {
                return None;
            }
            state.push(WrittenBatch {
                last_sequence: batch.last_sequence,
                offset_delta: batch.offset_delta,
                last_offset: batch.last_offset,
                timestamp: batch.timestamp,
            });
        }
        state.coordinator_epoch = row.coordinator_epoch;
        state.last_timestamp = row.last_timestamp;
        state.current_txn_first_offset = row.txn_first_offset;
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BatchFacts, ProducerStamp, SequenceCheck};
    use super::*;

    fn facts(id: i64, sequence: i32) -> BatchFacts {
        BatchFacts {
            last_offset_delta: 0,
            producer: Some(ProducerStamp {
                id: ProducerId(id),
                epoch: ProducerEpoch(0),
                base_sequence: Sequence(sequence),
            }),
            is_transactional: id == 9,
            max_timestamp: Timestamp(1_000 + i64::from(sequence)),
        }
    }

    fn states(batches: &[(i64, i32)]) -> ProducerStates {
        let mut states = ProducerStates::new();
        for (offset, &(id, sequence)) in (0_i64..).zip(batches) {
            states.replay(Offset(offset), &facts(id, sequence));
        }
        states
    }

    // Goal: rows keep all that a retry needs. Method: there and back; a retry of the oldest remembered batch is a duplicate.
    #[test]
    fn there_and_back() {
        let before = states(&[
            (1, 0),
            (1, 1),
            (9, 0),
            (1, 2),
            (1, 3),
            (1, 4),
            (1, 5),
            (2, 7),
        ]);
        let after = ProducerStates::from_rows(before.rows(), Offset(8)).expect("of a broker");
        assert_eq!(after.rows(), before.rows());
        assert_eq!(after.first_unstable_offset(), Some(Offset(2)));
        assert!(
            matches!(after.check(&facts(1, 1)), SequenceCheck::Duplicate(d) if d.base_offset == Offset(1))
        );
    }

    // Goal: rows that no broker writes are refused. Method: one wrong value at a time.
    #[test]
    fn wrong_rows() {
        fn check(spoil: impl FnOnce(&mut ProducerRow), is_good: bool) {
            let mut rows = states(&[(1, 0), (1, 1)]).rows();
            spoil(&mut rows[0]);
            let states = ProducerStates::from_rows(rows, Offset(2));
            assert_eq!(states.is_some(), is_good);
        }
        check(|_| {}, true);
        check(|row| row.batches[1].last_offset = Offset(2), false);
        check(|row| row.batches[1].last_offset = Offset(0), false);
        check(|row| row.batches[0].last_offset = Offset(-1), false);
        check(|row| row.batches[0].offset_delta = -1, false);
        check(|row| row.batches[0].offset_delta = 1, false);
        check(|row| row.batches[0].last_sequence = Sequence(-2), false);
        check(|row| row.txn_first_offset = Offset(2), false);
        check(|row| row.txn_first_offset = Offset(-2), false);
        check(|row| row.batches = vec![row.batches[0]; 6], false);
        let rows = states(&[(1, 0)]).rows();
        let twice = [rows[0].clone(), rows[0].clone()];
        assert!(ProducerStates::from_rows(twice, Offset(2)).is_none());
    }

    // Goal: a snapshot's single batch becomes five again, and only where the walk arrives at that batch. Method: a table.
    #[test]
    fn refills() {
        fn check(walked: &[(i64, i32)], oldest: i32) {
            let log = [(1, 0), (1, 1), (1, 2), (1, 3)];
            let mut found =
                ProducerStates::decode_snapshot(&states(&log).encode_snapshot(Offset(4)))
                    .expect("a snapshot");
            found.refill(&states(walked));
            let sequences: Vec<i32> = found.rows()[0]
                .batches
                .iter()
                .map(|batch| batch.last_sequence.0)
                .collect();
            assert_eq!(sequences, (oldest..4).collect::<Vec<_>>());
        }
        check(&[], 3);
        check(&[(1, 0), (1, 1), (1, 2), (1, 3)], 0);
        check(&[(7, 0), (7, 1), (1, 2), (1, 3)], 2);
        check(&[(1, 0), (1, 1), (1, 2)], 3);
        check(&[(1, 0), (1, 1), (1, 2), (7, 0), (1, 3)], 3);
    }
}
