//! The partitions of a consumer and how far each has come. Pure: time comes in.
//!
//! 1. A partition is fetched only when nothing of it is buffered or under way, so that its position is the fetch's.
//! 2. What an answer says about a position that has changed since is dropped.
//! 3. Partitions take turns in being first: none starves.

use pelton_model::batch::BatchError;
use pelton_model::{ErrorCode, Monotonic, Offset};
use pelton_protocol::codec::Str;

use super::record::{ConsumedRecord, PartitionPosition};
use super::unpack::Unpacker;
use crate::error::ClientError;
use crate::retry::{self, Backoff};

/// The index of a partition here.
pub(crate) type SlotId = usize;

#[derive(Debug)]
pub(crate) struct Assignment {
    slots: Vec<Slot>,
    turn: usize,
}

#[derive(Debug)]
struct Slot {
    topic: Str,
    partition: i32,
    next_offset: i64,
    high_watermark: Option<i64>,
    log_start_offset: Option<i64>,
    fetched: Option<Unpacker>,
    is_in_flight: bool,
    needs_reset: bool,
    backoff: Backoff,
}

/// What a consumer is to do about a partition's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Try again later.
    Retry,
    /// Ask for metadata, and try again later.
    Refresh,
    /// Choose another position, or fail.
    Reset,
    /// Fail.
    Fail,
}

/// The remedy for an error of Fetch.
pub(crate) fn remedy(error: ErrorCode) -> Remedy {
    // Damage on the broker's disk does not go away by asking again.
    let is_damage = error == ErrorCode::CorruptMessage;
    if error == ErrorCode::OffsetOutOfRange {
        Remedy::Reset
    } else if retry::is_stale_metadata(error) {
        Remedy::Refresh
    } else if retry::is_retriable(error) && !is_damage {
        Remedy::Retry
    } else {
        Remedy::Fail
    }
}

impl Assignment {
    pub(crate) fn new(positions: Vec<(Str, i32, i64)>, backoff: Backoff) -> Self {
        let slots = positions
            .into_iter()
            .map(|(topic, partition, next_offset)| Slot {
                topic,
                partition,
                next_offset,
                high_watermark: None,
                log_start_offset: None,
                fetched: None,
                is_in_flight: false,
                needs_reset: false,
                backoff,
            });
        Self {
            slots: slots.collect(),
            turn: 0,
        }
    }

    pub(crate) fn partition_of(&self, slot: SlotId) -> (&Str, i32) {
        (&self.slots[slot].topic, self.slots[slot].partition)
    }

    pub(crate) fn next_offset(&self, slot: SlotId) -> i64 {
        self.slots[slot].next_offset
    }

    pub(crate) fn find(&self, topic: &str, partition: i32) -> Option<SlotId> {
        let is_it = |slot: &Slot| slot.partition == partition && slot.topic == topic;
        self.slots.iter().position(is_it)
    }

    /// The partitions to fetch now, another one first each time.
    pub(crate) fn fetchable(&mut self, now: Monotonic) -> Vec<SlotId> {
        let count = self.slots.len();
        let first = self.turn.checked_rem(count).unwrap_or(0);
        self.turn = self.turn.wrapping_add(1);
        let is_fetchable = |slot: &SlotId| {
            let slot = &self.slots[*slot];
            let is_idle = slot.fetched.is_none() && !slot.is_in_flight && !slot.needs_reset;
            is_idle && slot.backoff.not_before() <= now
        };
        (first..count)
            .chain(0..first)
            .filter(is_fetchable)
            .collect()
    }

    /// When the next partition's pause ends, of those that wait.
    pub(crate) fn resumes_at(&self, now: Monotonic) -> Option<Monotonic> {
        let pauses = self.slots.iter().map(|slot| slot.backoff.not_before());
        pauses.filter(|until| now < *until).min()
    }

    /// The partitions whose position is out of range.
    pub(crate) fn to_reset(&self) -> Vec<SlotId> {
        let needs = |slot: &SlotId| self.slots[*slot].needs_reset;
        (0..self.slots.len()).filter(needs).collect()
    }

    pub(crate) fn on_sent(&mut self, slot: SlotId) {
        self.slots[slot].is_in_flight = true;
    }

    /// Moves a position; what is buffered is dropped.
    pub(crate) fn seek(&mut self, slot: SlotId, next_offset: i64) {
        let slot = &mut self.slots[slot];
        slot.next_offset = next_offset;
        slot.fetched = None;
        slot.needs_reset = false;
    }

    /// Takes in what was fetched at `offset`.
    pub(crate) fn on_fetched(
        &mut self,
        slot: SlotId,
        offset: i64,
        high_watermark: i64,
        log_start_offset: i64,
        fetched: Option<Unpacker>,
    ) {
        let slot = &mut self.slots[slot];
        slot.is_in_flight = false;
        slot.backoff.succeeded();
        slot.high_watermark = Some(high_watermark).filter(|known| *known >= 0);
        slot.log_start_offset = Some(log_start_offset).filter(|known| *known >= 0);
        if slot.next_offset == offset {
            slot.fetched = fetched;
        }
    }

    /// Takes in that a fetch at `offset` failed; gives what to do about it.
    pub(crate) fn on_failed(
        &mut self,
        slot: SlotId,
        offset: i64,
        remedy: Remedy,
        now: Monotonic,
        random: u64,
    ) {
        let slot = &mut self.slots[slot];
        slot.is_in_flight = false;
        match remedy {
            Remedy::Reset if slot.next_offset == offset => slot.needs_reset = true,
            Remedy::Retry | Remedy::Refresh | Remedy::Reset | Remedy::Fail => {
                slot.backoff.failed(now, random);
            }
        }
    }

    /// Up to `records_max` buffered records. Damage is told once the records before it are taken.
    pub(crate) fn take(&mut self, records_max: usize) -> Result<Vec<ConsumedRecord>, ClientError> {
        let mut records = Vec::new();
        let count = self.slots.len();
        let first = self.turn.checked_rem(count).unwrap_or(0);
        for slot in (first..count).chain(0..first) {
            let slot = &mut self.slots[slot];
            while records.len() < records_max
                && let Some(fetched) = &mut slot.fetched
            {
                let next = fetched.next();
                slot.next_offset = fetched.next_offset();
                match next {
                    Ok(Some(record)) => records.push(record),
                    Ok(None) => slot.fetched = None,
                    Err(error) => {
                        // It is fetched again: bytes may have been damaged on their way.
                        slot.fetched = None;
                        if records.is_empty() {
                            return Err(slot.damaged(error));
                        }
                    }
                }
            }
        }
        Ok(records)
    }

    pub(crate) fn positions(&self) -> Vec<PartitionPosition> {
        let position = |slot: &Slot| PartitionPosition {
            topic: slot.topic.clone(),
            partition: slot.partition,
            next_offset: slot.next_offset,
            high_watermark: slot.high_watermark,
            log_start_offset: slot.log_start_offset,
        };
        self.slots.iter().map(position).collect()
    }
}

impl Slot {
    fn damaged(&self, source: BatchError) -> ClientError {
        ClientError::Batch {
            topic: self.topic.clone(),
            partition: self.partition,
            offset: Offset(self.next_offset),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use pelton_model::Timestamp;
    use pelton_model::batch::{BatchBuilder, BuilderOptions};

    use super::*;

    const NOW: Monotonic = Monotonic(1_000_000_000);

    fn assignment(count: i32) -> Assignment {
        let positions = (0..count).map(|partition| ("t".into(), partition, 0));
        Assignment::new(positions.collect(), Backoff::new(100, 1000))
    }

    fn fetched(partition: i32, offset: i64, count: i32) -> Option<Unpacker> {
        let mut builder = BatchBuilder::new(BuilderOptions {
            base_offset: Offset(offset),
            ..BuilderOptions::default()
        });
        for _ in 0..count {
            builder.append(Timestamp(0), None, None, &[]);
        }
        Some(Unpacker::new(
            "t".into(),
            partition,
            builder.build(),
            offset,
            true,
        ))
    }

    // Goal: a partition is fetched when nothing of it is buffered or under way. Method: one through its whole cycle.
    #[test]
    fn fetches_what_is_idle() {
        let mut assignment = assignment(2);
        assert_eq!(assignment.fetchable(NOW), [0, 1]);
        assignment.on_sent(0);
        assert_eq!(assignment.fetchable(NOW), [1]);
        assignment.on_fetched(0, 0, 3, 0, fetched(0, 0, 3));
        assert_eq!(assignment.fetchable(NOW), [1]);
        assert_eq!(assignment.take(2).unwrap().len(), 2);
        assert_eq!(assignment.next_offset(0), 2);
        assert_eq!(assignment.take(9).unwrap().len(), 1);
        assert_eq!(assignment.next_offset(0), 3);
        assert_eq!(assignment.take(9).unwrap(), []);
        assert_eq!(assignment.fetchable(NOW).len(), 2);
        assert_eq!(assignment.positions()[0].high_watermark, Some(3));
    }

    // Goal: answers to a position that was left are dropped. Method: seek while a fetch is under way.
    #[test]
    fn seek_outruns_answers() {
        let mut assignment = assignment(1);
        assignment.on_sent(0);
        assignment.seek(0, 100);
        assignment.on_fetched(0, 0, 3, 0, fetched(0, 0, 3));
        assert_eq!(assignment.take(9).unwrap(), []);
        assignment.on_sent(0);
        assignment.on_failed(0, 0, Remedy::Reset, NOW, 0);
        assert_eq!(assignment.to_reset(), []);
        assert_eq!(assignment.next_offset(0), 100);
    }

    // Goal: errors pause one partition or ask for a new position. Method: one of each.
    #[test]
    fn errors_pause_or_reset() {
        let mut assignment = assignment(2);
        assignment.on_failed(0, 0, Remedy::Refresh, NOW, 0);
        assignment.on_failed(1, 0, Remedy::Reset, NOW, 0);
        assert_eq!(assignment.fetchable(NOW), []);
        assert_eq!(assignment.to_reset(), [1]);
        assert_eq!(assignment.resumes_at(NOW), Some(NOW.plus_ms(80)));
        assert_eq!(assignment.fetchable(NOW.plus_ms(80)), [0]);
        assignment.seek(1, 5);
        assert_eq!(assignment.fetchable(NOW.plus_ms(80)).len(), 2);
    }

    // Goal: records before damage are given first, then the damage. Method: a bad CRC behind a good batch.
    #[test]
    fn damage_comes_after_good_records() {
        let batch = |offset: i64| {
            let mut builder = BatchBuilder::new(BuilderOptions {
                base_offset: Offset(offset),
                ..BuilderOptions::default()
            });
            builder.append(Timestamp(0), None, None, &[]);
            builder.build()
        };
        let mut data = [batch(0), batch(1)].concat();
        *data.last_mut().unwrap() ^= 1;
        let damaged = |at: usize, offset| {
            let data = Bytes::copy_from_slice(&data[at..]);
            Some(Unpacker::new("t".into(), 0, data, offset, true))
        };
        let mut assignment = assignment(1);
        assignment.on_fetched(0, 0, 2, 0, damaged(0, 0));
        assert_eq!(assignment.take(9).unwrap().len(), 1);
        assert_eq!(assignment.fetchable(NOW), [0]);
        assignment.on_fetched(0, 1, 2, 0, damaged(data.len() / 2, 1));
        let error = assignment.take(9).unwrap_err();
        assert!(
            matches!(
                error,
                ClientError::Batch {
                    offset: Offset(1),
                    ..
                }
            ),
            "{error}"
        );
    }

    // Goal: every kind of error has its remedy. Method: a table.
    #[test]
    fn remedies() {
        assert_eq!(remedy(ErrorCode::OffsetOutOfRange), Remedy::Reset);
        assert_eq!(remedy(ErrorCode::NotLeaderOrFollower), Remedy::Refresh);
        assert_eq!(remedy(ErrorCode::FencedLeaderEpoch), Remedy::Refresh);
        assert_eq!(remedy(ErrorCode::OffsetNotAvailable), Remedy::Retry);
        assert_eq!(remedy(ErrorCode::CorruptMessage), Remedy::Fail);
        assert_eq!(remedy(ErrorCode::TopicAuthorizationFailed), Remedy::Fail);
    }
}
