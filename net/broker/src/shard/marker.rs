//! The owner's side of transactions: markers that end them, and the look whether one is open.
//!
//! Invariants:
//! 1. A marker takes the way of every batch: planned, queued, written in the order of the plans. Who asked for it hears when the high
//!    watermark covers it.
//! 2. An aborted transaction is in the log's index before its marker counts as appended.
//! 3. A marker in `__consumer_offsets` lies behind every record that its group coordinator decided before, and is told to the coordinator
//!    before whoever asked for it hears.
//!
//! Not here: which transactions end and how (the transaction coordinator), how a batch is verified (`handler::produce`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use pelton_machine::partition::{Marker, PlannedMarker, TxnGuard, Verification};
use pelton_model::batch::{BatchBuilder, BuilderOptions};
use pelton_model::task::oneshot;
use pelton_model::{ErrorCode, Offset, ShardId, TopicPartition};
use pelton_storage::BatchFacts as LoggedBatch;
use pelton_storage::txn_index::AbortedTxn;
use pelton_transport::net::Net;

use super::Shard;
use super::append::{AppendGroup, AppendTerms, Pending, Place, refusal};
use super::message::{AppendOutcome, Request, Response, TxnEnd, VerifyItem, WriteMarkersRequest};
use super::read::refused_code;
use super::slot::Slot;
use crate::env::Env;

/// Key of a marker: version 0, then the type.
const ABORT_KEY: [u8; 4] = [0, 0, 0, 0];
const COMMIT_KEY: [u8; 4] = [0, 0, 0, 1];
/// Version of a marker's value, in front of the coordinator's epoch.
const VALUE_VERSION: [u8; 2] = [0, 0];

impl<E: Env> Slot<E> {
    /// The aborted transactions whose markers lie below `end` and are about to be written.
    pub(crate) fn take_aborted(&self, end: Offset) -> Vec<AbortedTxn> {
        let mut aborted = self.aborted.borrow_mut();
        if aborted.is_empty() {
            return Vec::new();
        }
        let below = aborted.partition_point(|txn| txn.last_offset < end);
        aborted.drain(..below).collect()
    }
}

impl<E: Env> Shard<E> {
    /// Ends a producer's transaction in `partitions`, of whatever shards: one code for each, in order, once its marker is below the high
    /// watermark. Harmless when repeated.
    pub(crate) async fn write_markers(
        self: &Rc<Self>,
        end: TxnEnd,
        partitions: &[TopicPartition],
    ) -> Vec<ErrorCode> {
        let mut codes = vec![ErrorCode::NotLeaderOrFollower; partitions.len()];
        let mut asked = Vec::new();
        let mut mine = Vec::new();
        for (owner, indexes) in self.by_owner(partitions.iter().copied()) {
            if owner == self.id {
                mine = indexes;
                continue;
            }
            let request = Request::WriteMarkers(WriteMarkersRequest {
                end,
                partitions: indexes.iter().map(|&index| partitions[index]).collect(),
            });
            asked.push((indexes, self.calls.start(owner, request).await));
        }
        let own: Vec<TopicPartition> = mine.iter().map(|&index| partitions[index]).collect();
        let answers = self.write_markers_here(end, &own).await;
        for (index, code) in mine.into_iter().zip(answers) {
            codes[index] = code;
        }
        for (indexes, answer) in asked {
            if let Some(Response::Markers(answers)) = answer.await {
                for (index, code) in indexes.into_iter().zip(answers) {
                    codes[index] = code;
                }
            }
        }
        codes
    }

    /// As [`Shard::write_markers`], in partitions of this shard.
    pub(crate) async fn write_markers_here(
        self: &Rc<Self>,
        end: TxnEnd,
        partitions: &[TopicPartition],
    ) -> Vec<ErrorCode> {
        if partitions.is_empty() {
            return Vec::new();
        }
        let (sender, receiver) = oneshot();
        let sender = RefCell::new(Some(sender));
        let answer = move |outcomes: Vec<(u32, AppendOutcome)>, _stages| {
            if let Some(sender) = sender.take() {
                sender.send(outcomes);
            }
        };
        let indexes = (0_u32..).zip(partitions).map(|(index, _)| index).collect();
        let group = AppendGroup::for_callback(indexes, Box::new(answer), self.net.now());
        for (index, &partition) in (0_u32..).zip(partitions) {
            self.append_marker(&end, partition, index, &group);
        }
        let Some(outcomes) = receiver.await else {
            return vec![ErrorCode::NotLeaderOrFollower; partitions.len()];
        };
        let told = outcomes.iter().zip(partitions);
        let told = told.map(|((_, outcome), &partition)| {
            if outcome.error != ErrorCode::None {
                return outcome.error;
            }
            let told = self.on_offsets_marker(partition, end.producer_id, end.is_commit);
            told.err().unwrap_or(ErrorCode::None)
        });
        told.collect()
    }

    fn append_marker(
        self: &Rc<Self>,
        end: &TxnEnd,
        partition: TopicPartition,
        index: u32,
        group: &Rc<AppendGroup>,
    ) {
        let refuse = |error| group.complete(index, AppendOutcome::refused(error));
        let Some(slot) = self.slot(partition) else {
            return refuse(self.missing(partition));
        };
        if self.is_closing.get() {
            return refuse(ErrorCode::RequestTimedOut);
        }
        if let Err(error) = self.before_offsets_marker(partition) {
            return refuse(error);
        }
        let now = self.net.wall_clock();
        let marker = Marker {
            producer_id: end.producer_id,
            producer_epoch: end.producer_epoch,
            coordinator_epoch: end.coordinator_epoch,
            is_bumped: end.is_bumped,
            timestamp: now,
        };
        let planned = slot.state.borrow_mut().plan_marker(&marker);
        let PlannedMarker { plan, ended } = match planned {
            Ok(planned) => planned,
            Err(refused) => return group.complete(index, refusal(&slot, refused)),
        };
        if let Some(ended) = ended.filter(|_| !end.is_commit) {
            slot.aborted.borrow_mut().push(AbortedTxn {
                producer_id: end.producer_id,
                first_offset: ended.first_offset,
                last_offset: plan.base_offset,
                last_stable_offset: ended.last_stable_offset,
            });
        }
        let facts = LoggedBatch {
            base_offset: plan.base_offset,
            last_offset: plan.last_offset,
            max_timestamp: now,
            leader_epoch: plan.leader_epoch,
        };
        let timeout_ms = u64::try_from(self.settings().request_timeout_ms).unwrap_or(0);
        let terms = AppendTerms {
            until_committed: true,
            deadline: self.net.now().plus_ms(timeout_ms),
        };
        let outcome = AppendOutcome {
            base_offset: plan.base_offset,
            ..AppendOutcome::refused(ErrorCode::None)
        };
        let place = Place::new(outcome, group, index);
        let write = Some((marker_batch(end, &facts), facts));
        self.queue(&slot, Pending::new(write, plan.next_offset(), place, terms));
    }

    /// Begins to verify that transactional batches may be written: what each is appended with once the coordinator has said so, or
    /// [`TxnGuard::None`] where nobody need be asked.
    pub(crate) async fn begin_verification(
        self: &Rc<Self>,
        items: Vec<VerifyItem>,
    ) -> Vec<Result<TxnGuard, ErrorCode>> {
        let mut guards = vec![Err(ErrorCode::NotLeaderOrFollower); items.len()];
        let mut asked = Vec::new();
        for (owner, indexes) in self.by_owner(items.iter().map(|item| item.partition)) {
            let of_owner: Vec<VerifyItem> = indexes.iter().map(|&index| items[index]).collect();
            if owner == self.id {
                let answers = self.begin_verification_here(&of_owner);
                for (index, guard) in indexes.into_iter().zip(answers) {
                    guards[index] = guard;
                }
            } else {
                let request = Request::Verify(of_owner);
                asked.push((indexes, self.calls.start(owner, request).await));
            }
        }
        for (indexes, answer) in asked {
            // An owner that stops says nothing.
            if let Some(Response::Verifying(answers)) = answer.await {
                for (index, guard) in indexes.into_iter().zip(answers) {
                    guards[index] = guard;
                }
            }
        }
        guards
    }

    /// The indexes of partitions by the shard that owns them.
    fn by_owner(
        &self,
        partitions: impl Iterator<Item = TopicPartition>,
    ) -> BTreeMap<ShardId, Vec<usize>> {
        let mut indexes: BTreeMap<ShardId, Vec<usize>> = BTreeMap::new();
        for (index, partition) in partitions.enumerate() {
            indexes
                .entry(self.owner(partition))
                .or_default()
                .push(index);
        }
        indexes
    }

    /// As [`Shard::begin_verification`], in partitions of this shard.
    pub(crate) fn begin_verification_here(
        &self,
        items: &[VerifyItem],
    ) -> Vec<Result<TxnGuard, ErrorCode>> {
        let now = self.net.wall_clock();
        let begin = |item: &VerifyItem| {
            let slot = self
                .slot(item.partition)
                .ok_or_else(|| self.missing(item.partition))?;
            let verification = Verification {
                stamp: item.stamp,
                is_bumped: item.is_bumped,
            };
            let mut state = slot.state.borrow_mut();
            let begun = state.begin_verification(&verification, now);
            begun.map_err(refused_code)
        };
        items.iter().map(begin).collect()
    }
}

/// The batch of a marker, with its place in it.
fn marker_batch(end: &TxnEnd, facts: &LoggedBatch) -> Bytes {
    let mut builder = BatchBuilder::new(BuilderOptions {
        base_offset: facts.base_offset,
        leader_epoch: facts.leader_epoch,
        producer_id: end.producer_id,
        producer_epoch: end.producer_epoch,
        transactional: true,
        control: true,
        ..BuilderOptions::default()
    });
    let key = match end.is_commit {
        true => COMMIT_KEY,
        false => ABORT_KEY,
    };
    let mut value = Vec::from(VALUE_VERSION);
    value.extend_from_slice(&end.coordinator_epoch.to_be_bytes());
    builder.append(facts.max_timestamp, Some(&key), Some(&value), &[]);
    builder.build()
}
