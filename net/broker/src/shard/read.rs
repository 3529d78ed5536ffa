//! The owner's side of Fetch, ListOffsets, OffsetForLeaderEpoch and DescribeProducers.

use std::rc::Rc;

use pelton_machine::partition::ReadRefused;
use pelton_model::limits::FETCH_PARTITIONS_PER_TURN;
use pelton_model::read_level::ReadLevel;
use pelton_model::task::yield_now;
use pelton_model::{ErrorCode, LeaderEpoch, Offset, Timestamp, TopicPartition};
use pelton_storage::{ReadError, ReadOptions, ReadResult, StorageError, TimestampOffset};
use pelton_transport::net::Net;

use super::Shard;
use super::message::{
    EpochEndAnswer, EpochEndQuery, KnownProducer, OffsetAnswer, OffsetPosition, OffsetQuery,
    ProducersRequest, ReadItem, ReadOutcome, ReadRequest,
};
use super::slot::Slot;
use crate::env::Env;

/// The level that a consumer of this isolation reads up to.
pub(crate) fn level(read_committed: bool) -> ReadLevel {
    if read_committed {
        ReadLevel::LastStable
    } else {
        ReadLevel::HighWatermark
    }
}

impl<E: Env> Shard<E> {
    /// Reads what is there for each item, in order, within the bytes of the request.
    pub(crate) async fn read(self: &Rc<Self>, request: &ReadRequest) -> Vec<ReadOutcome> {
        let mut outcomes = Vec::with_capacity(request.items.len());
        let mut left = request.bytes_max;
        let mut is_first = true;
        for (index, item) in request.items.iter().enumerate() {
            if index % FETCH_PARTITIONS_PER_TURN == FETCH_PARTITIONS_PER_TURN - 1 {
                yield_now().await;
            }
            let outcome = self
                .read_one(item, level(request.read_committed), left, is_first)
                .await;
            left = left.saturating_sub(outcome.size_bytes);
            is_first &= outcome.size_bytes == 0;
            outcomes.push(outcome);
        }
        outcomes
    }

    async fn read_one(
        self: &Rc<Self>,
        item: &ReadItem,
        level: ReadLevel,
        bytes_left: usize,
        is_first: bool,
    ) -> ReadOutcome {
        let Some(slot) = self.slot(item.partition) else {
            return ReadOutcome::refused(self.missing(item.partition));
        };
        let end = {
            let state = slot.state.borrow();
            state
                .check_epoch(item.current_leader_epoch)
                .and_then(|()| state.read_end(item.offset, level))
        };
        let end = match end {
            Ok(end) => end,
            Err(refused) => return refused_read(&slot, refused),
        };
        let diverging = match diverging(&slot, item) {
            Ok(diverging) => diverging,
            Err(error) => return ReadOutcome::refused(error),
        };
        if let Some(diverging) = diverging {
            return ReadOutcome {
                diverging: Some(diverging),
                ..outcome_of(&slot, ReadResult::default())
            };
        }
        let bytes_max = item.bytes_max.min(bytes_left);
        if end <= item.offset {
            return self.nothing(&slot, item);
        }
        if bytes_max == 0 && !is_first {
            return outcome_of(&slot, ReadResult::default());
        }
        let options = ReadOptions {
            from: item.offset,
            up_to: end,
            bytes_max,
            at_least_one: is_first,
        };
        self.make_room(&slot).await;
        let log = slot.log();
        let result = match log.read(options).await {
            Ok(result) => result,
            Err(error) => return ReadOutcome::refused(self.read_error(&slot, &error)),
        };
        let end = result.end_offset.filter(|_| level == ReadLevel::LastStable);
        let mut outcome = outcome_of(&slot, result);
        if let Some(end) = end {
            // Everything below the last stable offset has its entry: it was written before the marker.
            match log.aborted(item.offset, end).await {
                Ok(aborted) => {
                    let named = aborted
                        .iter()
                        .map(|txn| (txn.producer_id, txn.first_offset));
                    outcome.aborted = named.collect();
                }
                Err(error) => return ReadOutcome::refused(self.read_error(&slot, &error)),
            }
        }
        outcome
    }

    /// There is nothing more to read: whoever keeps a session is told of the next change. No await lies between the look at the
    /// partition and this.
    fn nothing(&self, slot: &Slot<E>, item: &ReadItem) -> ReadOutcome {
        let arm = |interest| self.standing.borrow_mut().arm(slot.id, interest);
        ReadOutcome {
            is_armed: item.interest.is_some_and(arm),
            ..outcome_of(slot, ReadResult::default())
        }
    }

    /// Answers the questions of a ListOffsets, one for one.
    pub(crate) async fn offsets(self: &Rc<Self>, queries: &[OffsetQuery]) -> Vec<OffsetAnswer> {
        let mut answers = Vec::with_capacity(queries.len());
        for query in queries {
            let answer = match self.slot(query.partition) {
                Some(slot) => self.offset(&slot, query).await,
                None => Err(self.missing(query.partition)),
            };
            answers.push(answer.unwrap_or_else(|error| OffsetAnswer {
                error,
                offset: Offset::NONE,
                timestamp: Timestamp::NONE,
                leader_epoch: LeaderEpoch::NONE,
            }));
        }
        answers
    }

    /// The answer to one question of ListOffsets.
    async fn offset(
        self: &Rc<Self>,
        slot: &Rc<Slot<E>>,
        query: &OffsetQuery,
    ) -> Result<OffsetAnswer, ErrorCode> {
        let (log_start, end, epoch) = {
            let state = slot.state.borrow();
            state
                .check_epoch(query.current_leader_epoch)
                .map_err(refused_code)?;
            let is_known = matches!(
                query.position,
                OffsetPosition::Earliest | OffsetPosition::LatestTiered
            );
            if !is_known && !state.is_confirmed() {
                return Err(ErrorCode::OffsetNotAvailable);
            }
            (
                state.log_start(),
                state.end(level(query.read_committed)),
                state.leader_epoch(),
            )
        };
        let answer = |offset, timestamp, leader_epoch| OffsetAnswer {
            error: ErrorCode::None,
            offset,
            timestamp,
            leader_epoch,
        };
        let nothing = answer(Offset::NONE, Timestamp::NONE, LeaderEpoch::NONE);
        match query.position {
            OffsetPosition::Earliest => {
                let epoch = slot.log().epoch_at(log_start).unwrap_or(LeaderEpoch::NONE);
                Ok(answer(log_start, Timestamp::NONE, epoch))
            }
            OffsetPosition::Latest => Ok(answer(end, Timestamp::NONE, epoch)),
            OffsetPosition::LatestTiered => Ok(nothing),
            OffsetPosition::MaxTimestamp | OffsetPosition::Time(_) => {
                self.make_room(slot).await;
                let found = self.record(slot, query.position).await?;
                let found = found.filter(|found| found.offset < end);
                Ok(found.map_or(nothing, |found| {
                    answer(found.offset, found.timestamp, found.leader_epoch)
                }))
            }
        }
    }

    /// The record at a time, or with the greatest one; never one below the log start, which may move while it is looked for.
    async fn record(
        self: &Rc<Self>,
        slot: &Rc<Slot<E>>,
        position: OffsetPosition,
    ) -> Result<Option<TimestampOffset>, ErrorCode> {
        // Each turn means that records were deleted meanwhile.
        const TURNS_MAX: usize = 8;
        for _ in 0..TURNS_MAX {
            let found = match position {
                OffsetPosition::Time(timestamp) => slot.log().offset_for_timestamp(timestamp).await,
                OffsetPosition::MaxTimestamp
                | OffsetPosition::Earliest
                | OffsetPosition::Latest
                | OffsetPosition::LatestTiered => slot.log().offset_of_max_timestamp().await,
            };
            let found = found.map_err(|error| self.storage_error(slot, &error))?;
            let log_start = slot.state.borrow().log_start();
            if found.is_none_or(|found| log_start <= found.offset) {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Answers the questions of an OffsetForLeaderEpoch, one for one.
    pub(crate) fn epoch_ends(&self, queries: &[EpochEndQuery]) -> Vec<EpochEndAnswer> {
        queries.iter().map(|query| self.epoch_end(query)).collect()
    }

    fn epoch_end(&self, query: &EpochEndQuery) -> EpochEndAnswer {
        let unknown = |error| EpochEndAnswer {
            error,
            leader_epoch: LeaderEpoch::NONE,
            end_offset: Offset::NONE,
        };
        let Some(slot) = self.slot(query.partition) else {
            return unknown(self.missing(query.partition));
        };
        if let Err(refused) = slot.state.borrow().check_epoch(query.current_leader_epoch) {
            return unknown(refused_code(refused));
        }
        match slot.log().end_offset_for_epoch(query.leader_epoch) {
            Some(end) => EpochEndAnswer {
                error: ErrorCode::None,
                leader_epoch: end.epoch,
                end_offset: end.end_offset,
            },
            None => unknown(ErrorCode::None),
        }
    }

    /// The producers that partitions remember, one answer for each.
    pub(crate) fn producers(
        &self,
        asked: &ProducersRequest,
    ) -> Vec<Result<Vec<KnownProducer>, ErrorCode>> {
        let mut room = asked.room;
        let mut answers = Vec::with_capacity(asked.partitions.len());
        for partition in &asked.partitions {
            let answer = if room == 0 {
                Err(ErrorCode::InvalidRequest)
            } else {
                self.producers_of(*partition)
            };
            room = room.saturating_sub(answer.as_ref().map_or(0, Vec::len));
            answers.push(answer);
        }
        answers
    }

    fn producers_of(&self, partition: TopicPartition) -> Result<Vec<KnownProducer>, ErrorCode> {
        let Some(slot) = self.slot(partition) else {
            return Err(self.missing(partition));
        };
        let state = slot.state.borrow();
        if state.is_offline() {
            return Err(ErrorCode::KafkaStorageError);
        }
        let known = state
            .producers()
            .iter()
            .map(|(id, producer)| KnownProducer {
                id,
                epoch: producer.epoch(),
                last_sequence: producer.last_sequence(),
                last_timestamp: producer.last_timestamp(),
                coordinator_epoch: producer.coordinator_epoch(),
                txn_start: producer.current_txn_first_offset().unwrap_or(Offset::NONE),
            });
        let mut known: Vec<KnownProducer> = known.collect();
        known.sort_unstable_by_key(|producer| producer.id);
        Ok(known)
    }

    fn read_error(self: &Rc<Self>, slot: &Slot<E>, error: &ReadError) -> ErrorCode {
        match error {
            ReadError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
            ReadError::Storage(error) => self.storage_error(slot, error),
        }
    }

    fn storage_error(self: &Rc<Self>, slot: &Slot<E>, error: &StorageError) -> ErrorCode {
        match error {
            StorageError::Closed { .. } => ErrorCode::UnknownTopicOrPartition,
            StorageError::Disk(_) | StorageError::Failed { .. } | StorageError::Corrupt { .. } => {
                if let Some(untold) = self.repeats.read.tell(self.net.now()) {
                    tracing::warn!(topic = %slot.topic, partition = %slot.id.partition, %error, untold, "a read failed");
                }
                // A device that cannot be read is as good as gone, as in Kafka.
                self.blame(slot.dir(), error);
                ErrorCode::KafkaStorageError
            }
        }
    }
}

/// Where the fetcher's log parts from ours, when the epoch of its last record says so (KIP-595).
fn diverging<E: Env>(
    slot: &Slot<E>,
    item: &ReadItem,
) -> Result<Option<(LeaderEpoch, Offset)>, ErrorCode> {
    if item.last_fetched_epoch == LeaderEpoch::NONE {
        return Ok(None);
    }
    let end = slot.log().end_offset_for_epoch(item.last_fetched_epoch);
    let end = end.ok_or(ErrorCode::OffsetOutOfRange)?;
    let parts = end.epoch < item.last_fetched_epoch || end.end_offset < item.offset;
    Ok(parts.then_some((end.epoch, end.end_offset)))
}

fn outcome_of<E: Env>(slot: &Slot<E>, result: ReadResult) -> ReadOutcome {
    let state = slot.state.borrow();
    ReadOutcome {
        error: ErrorCode::None,
        high_watermark: state.high_watermark(),
        last_stable: state.last_stable(),
        log_start: state.log_start(),
        records: result.slices,
        size_bytes: result.size_bytes,
        leader: None,
        diverging: None,
        is_armed: false,
        aborted: Vec::new(),
    }
}

fn refused_read<E: Env>(slot: &Slot<E>, refused: ReadRefused) -> ReadOutcome {
    let wrong_leader = match refused {
        ReadRefused::NotLeader | ReadRefused::FencedLeaderEpoch => true,
        ReadRefused::Offline | ReadRefused::UnknownLeaderEpoch | ReadRefused::OffsetOutOfRange => {
            false
        }
    };
    let leader = wrong_leader.then(|| slot.leader_hint());
    ReadOutcome {
        leader,
        ..ReadOutcome::refused(refused_code(refused))
    }
}

pub(super) fn refused_code(refused: ReadRefused) -> ErrorCode {
    match refused {
        ReadRefused::Offline => ErrorCode::KafkaStorageError,
        ReadRefused::FencedLeaderEpoch => ErrorCode::FencedLeaderEpoch,
        ReadRefused::UnknownLeaderEpoch => ErrorCode::UnknownLeaderEpoch,
        ReadRefused::NotLeader => ErrorCode::NotLeaderOrFollower,
        ReadRefused::OffsetOutOfRange => ErrorCode::OffsetOutOfRange,
    }
}
