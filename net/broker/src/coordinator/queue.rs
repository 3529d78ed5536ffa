//! Records on their way to a partition's log, and the replies that wait for them.
//!
//! The decisions of a turn share one batch: it is sealed when the shard's flusher runs, behind the connections that were ready, and joins
//! the partition's queue of batches like any producer's.
//!
//! Invariants:
//! 1. The records of one decision are in one batch, unless they alone pass the topic's `max.message.bytes`.
//! 2. Replies leave in the order of their decisions, each behind all records queued before it; so do the markers of transactions.
//! 3. Records of a transaction have a batch of their own, which bears its producer.

use std::collections::VecDeque;
use std::rc::Rc;

use bytes::BytesMut;
use pelton_machine::group::Token;
use pelton_machine::partition::TxnGuard;
use pelton_model::batch::{BatchBuilder, BuilderOptions};
use pelton_model::compression::Compression;
use pelton_model::producer_state::{BatchFacts, ProducerStamp};
use pelton_model::{ErrorCode, ProducerEpoch, ProducerId, Sequence, Timestamp};
use pelton_transport::net::Net;

use super::machine::{Effect, Encoded, Kind};
use super::{Hosted, Phase, Reply};
use crate::env::Env;
use crate::shard::Shard;
use crate::shard::append::{AppendGroup, AppendTerms};
use crate::shard::message::{AppendItem, AppendOutcome};
use crate::shard::slot::Slot;

/// What batches of a partition may be like.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchLimits {
    bytes_max: usize,
    compression: Compression,
}

/// A batch and what its append needs to know.
type Sealed = (BytesMut, BatchFacts, TxnGuard);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Queue {
    full: Vec<Sealed>,
    /// The batch that is growing, and its largest timestamp.
    open: Option<(BatchBuilder, Timestamp)>,
    is_listed: bool,
    /// What follows what is not sealed.
    effects: Vec<Effect>,
    /// What follows what is being written, oldest first.
    in_flight: VecDeque<Vec<Effect>>,
}

impl Queue {
    /// Adds one decision's records.
    pub(super) fn add(&mut self, records: &[Encoded], time: Timestamp, limits: BatchLimits) {
        let size = |builder: &BatchBuilder| {
            let sizes = records.iter().map(|(key, value)| {
                builder.record_size_bytes(time, Some(key), value.as_deref(), &[])
            });
            sizes.sum::<usize>()
        };
        let is_crowded = |builder: &BatchBuilder| {
            limits.bytes_max < builder.estimated_size_bytes() + size(builder)
        };
        if self.open.as_ref().is_some_and(|(open, _)| is_crowded(open)) {
            self.close_open();
        }
        for (key, value) in records {
            let (key, value) = (Some(&key[..]), value.as_deref());
            let is_full = |builder: &BatchBuilder| {
                let size = builder.record_size_bytes(time, key, value, &[]);
                !builder.is_empty() && limits.bytes_max < builder.estimated_size_bytes() + size
            };
            if self.open.as_ref().is_some_and(|(open, _)| is_full(open)) {
                self.close_open();
            }
            let (builder, max_timestamp) = self.open.get_or_insert_with(|| {
                let options = BuilderOptions {
                    compression: limits.compression,
                    ..BuilderOptions::default()
                };
                (BatchBuilder::new(options), time)
            });
            builder.append(time, key, value, &[]);
            *max_timestamp = time.max(*max_timestamp);
        }
    }

    /// Adds one decision's records, all of one producer's transaction.
    pub(super) fn add_transactional(
        &mut self,
        records: &[Encoded],
        (producer, guard): ((ProducerId, ProducerEpoch), TxnGuard),
        time: Timestamp,
        limits: BatchLimits,
    ) {
        self.close_open();
        let mut builder = BatchBuilder::new(BuilderOptions {
            compression: limits.compression,
            producer_id: producer.0,
            producer_epoch: producer.1,
            transactional: true,
            ..BuilderOptions::default()
        });
        for (key, value) in records {
            builder.append(time, Some(key), value.as_deref(), &[]);
        }
        self.close(builder, time, Some(producer), guard);
    }

    /// Takes in what follows what is queued; gives it back where nothing holds it up.
    pub(super) fn after_records(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        if self.open.is_some() || !self.full.is_empty() {
            self.effects.extend(effects);
        } else if let Some(last) = self.in_flight.back_mut() {
            last.extend(effects);
        } else {
            return effects;
        }
        Vec::new()
    }

    /// Notes that the queue is on the list of those to seal; whether that is news.
    pub(super) fn list(&mut self) -> bool {
        !std::mem::replace(&mut self.is_listed, true)
    }

    /// Takes what is to be appended; what follows it waits as one.
    fn seal(&mut self) -> Vec<Sealed> {
        self.is_listed = false;
        self.close_open();
        let batches = std::mem::take(&mut self.full);
        if !batches.is_empty() {
            self.in_flight.push_back(std::mem::take(&mut self.effects));
        }
        batches
    }

    fn close_open(&mut self) {
        if let Some((builder, max_timestamp)) = self.open.take() {
            self.close(builder, max_timestamp, None, TxnGuard::None);
        }
    }

    fn close(
        &mut self,
        builder: BatchBuilder,
        max_timestamp: Timestamp,
        producer: Option<(ProducerId, ProducerEpoch)>,
        guard: TxnGuard,
    ) {
        let stamp = |(id, epoch)| ProducerStamp::from((id, epoch, Sequence::NONE));
        let facts = BatchFacts {
            last_offset_delta: builder.record_count() - 1,
            producer: producer.map(stamp),
            is_transactional: producer.is_some(),
            max_timestamp,
        };
        self.full.push((builder.build_mut(), facts, guard));
    }

    /// What follows the oldest append, which is written.
    fn written(&mut self) -> Vec<Effect> {
        self.in_flight
            .pop_front()
            .expect("appends of a partition end in their order")
    }

    /// Every reply that waits for records. Markers are dropped: whoever loads the log next knows better which are due.
    pub(super) fn into_replies(self) -> Vec<(Token, Reply)> {
        let in_flight = self.in_flight.into_iter().flatten();
        let replies = in_flight
            .chain(self.effects)
            .filter_map(|effect| match effect {
                Effect::Reply(token, reply) => Some((token, reply)),
                Effect::Markers(_) => None,
            });
        replies.collect()
    }
}

impl<E: Env> Shard<E> {
    /// What the records of a partition's coordinator must keep to.
    pub(super) fn batch_limits(&self, kind: Kind, slot: &Slot<E>) -> BatchLimits {
        let config = slot.config.borrow();
        let bytes_max = config.max_message_bytes.min(config.segment_bytes);
        BatchLimits {
            bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX),
            compression: kind.compression(&self.settings()),
        }
    }

    /// Hands what coordinators have queued to the logs. Called by the flusher before it takes what is to be written.
    pub(crate) fn seal_coordinators(self: &Rc<Self>) {
        let unsealed = std::mem::take(&mut *self.coordinators.unsealed.borrow_mut());
        for hosted in unsealed {
            self.append_decided(&hosted);
        }
    }

    pub(super) fn append_decided(self: &Rc<Self>, hosted: &Rc<Hosted<E>>) {
        let batches = hosted.queue.borrow_mut().seal();
        if batches.is_empty() {
            return;
        }
        let timeout_ms = hosted.kind.write_timeout_ms(&self.settings());
        let terms = AppendTerms {
            until_committed: true,
            deadline: self.net.now().plus_ms(timeout_ms),
        };
        let (shard, owner) = (Rc::clone(self), Rc::clone(hosted));
        let written = move |outcomes: Vec<(u32, AppendOutcome)>, _stages| {
            shard.on_decided_appended(&owner, outcomes.iter().map(|(_, outcome)| outcome.error));
        };
        let indexes = (0_u32..).zip(&batches).map(|(index, _)| index).collect();
        let group = AppendGroup::for_callback(indexes, Box::new(written), self.net.now());
        for (index, (batch, facts, guard)) in (0_u32..).zip(batches) {
            let item = AppendItem {
                index,
                partition: hosted.slot.id,
                batch,
                facts,
                rewrite: None,
                guard,
            };
            self.append(item, index, terms, &group);
        }
    }

    fn on_decided_appended(
        self: &Rc<Self>,
        hosted: &Rc<Hosted<E>>,
        mut errors: impl Iterator<Item = ErrorCode>,
    ) {
        if hosted.phase.get() == Phase::Gone {
            return;
        }
        if let Some(error) = errors.find(|error| *error != ErrorCode::None) {
            tracing::warn!(topic = hosted.kind.topic(), partition = %hosted.slot.id.partition, error = error.name(), "a coordinator's records could not be written");
            self.give_up_coordinator(hosted, told(error));
            // Where the log goes on, so does its coordinator, from what is written.
            self.follow_coordinators();
            return;
        }
        let effects = hosted.queue.borrow_mut().written();
        self.perform(hosted, effects);
    }
}

/// What clients hear of an append that failed; Kafka's words for it.
fn told(error: ErrorCode) -> ErrorCode {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the append path answers few of Kafka's codes; whatever else, the client looks the coordinator up again"
    )]
    match error {
        ErrorCode::NotEnoughReplicas
        | ErrorCode::RequestTimedOut
        | ErrorCode::UnknownTopicOrPartition => ErrorCode::CoordinatorNotAvailable,
        _ => ErrorCode::NotCoordinator,
    }
}
