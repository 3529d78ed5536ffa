//! The owner's side of Produce: plan, queue, write once for each partition and turn, answer.
//!
//! The life of a batch here: [`Shard::append`] plans it (sync, no await), stamps offset and epoch into its header and queues it; the
//! shard's flusher, which runs after the connections that are ready, writes everything queued for a partition with one vectored write;
//! then the partition's ends move, and outcomes and waiting fetches are settled.
//!
//! Invariants:
//! 1. No batch is written that was not planned, and none is answered as appended before it is written.
//! 2. After a failed write the partition is offline: everything planned behind it is answered KAFKA_STORAGE_ERROR and never written.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use pelton_machine::partition::{Acks, Plan, PlanRefused, Planned, Progress};
use pelton_machine::purgatory::{CommitWaiters, CommitWatched, WaiterId};
use pelton_model::batch::{TimestampType, patch};
use pelton_model::map::Map;
use pelton_model::producer_state::Duplicate;
use pelton_model::task::Notify;
use pelton_model::{ErrorCode, Monotonic, Offset, ShardId, Timestamp, TopicPartition};
use pelton_storage::{BatchFacts as LoggedBatch, StorageError};
use pelton_transport::net::{Net, TaskClass};

use super::Shard;
use super::message::{AppendItem, AppendOutcome, AppendRequest, CallId, Message, Response};
use super::slot::Slot;
use crate::env::Env;
use crate::metrics::stages::AppendStages;

/// Takes the outcomes, each with its number, and when the last was where: sends them to the shard that asked, or to a coordinator.
type AnswerPeer = Box<dyn Fn(Vec<(u32, AppendOutcome)>, AppendStages)>;

/// Who hears when a group is complete.
enum Listener {
    /// A connection of this shard.
    Connection(Rc<Notify>),
    /// Another shard (the answer to its call), or a coordinator.
    Peer(AnswerPeer),
}

/// The outcomes of the batches of one Produce request (or of one owner's part of it).
pub(crate) struct AppendGroup {
    outcomes: RefCell<Vec<Option<AppendOutcome>>>,
    /// The request's own numbers of the places, where they differ from their order here.
    indexes: Vec<u32>,
    open: Cell<usize>,
    has_failed: Cell<bool>,
    /// Of the place that was decided last.
    stages: Cell<AppendStages>,
    listener: Listener,
}

impl AppendGroup {
    /// A group of `count` places for a connection of this shard.
    pub(crate) fn for_connection(count: usize, wake: Rc<Notify>, now: Monotonic) -> Rc<Self> {
        Rc::new(Self {
            stages: Cell::new(AppendStages::at(now)),
            outcomes: RefCell::new((0..count).map(|_| None).collect()),
            indexes: Vec::new(),
            open: Cell::new(count),
            has_failed: Cell::new(false),
            listener: Listener::Connection(wake),
        })
    }

    /// A group whose outcomes go to `answer`, each with its number.
    pub(crate) fn for_callback(indexes: Vec<u32>, answer: AnswerPeer, now: Monotonic) -> Rc<Self> {
        Rc::new(Self {
            stages: Cell::new(AppendStages {
                mesh: Some((now, now)),
                ..AppendStages::at(now)
            }),
            outcomes: RefCell::new(indexes.iter().map(|_| None).collect()),
            open: Cell::new(indexes.len()),
            has_failed: Cell::new(false),
            indexes,
            listener: Listener::Peer(answer),
        })
    }

    /// Whether every place has its outcome.
    pub(crate) fn is_complete(&self) -> bool {
        self.open.get() == 0
    }

    /// When the place was where that was decided last.
    pub(crate) fn stages(&self) -> AppendStages {
        self.stages.get()
    }

    /// Whether any outcome so far is an error.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.get()
    }

    /// Takes the outcomes of a complete group, in the order of the places.
    pub(crate) fn take(&self) -> impl Iterator<Item = AppendOutcome> + use<> {
        assert!(self.is_complete());
        let outcomes = std::mem::take(&mut *self.outcomes.borrow_mut());
        outcomes
            .into_iter()
            .map(|outcome| outcome.expect("a complete group has every outcome"))
    }

    /// Fills one place; the last one tells whoever listens.
    pub(crate) fn complete(&self, index: u32, outcome: AppendOutcome) {
        if outcome.error != ErrorCode::None {
            self.has_failed.set(true);
        }
        {
            let place = &mut self.outcomes.borrow_mut()[index as usize];
            assert!(place.is_none(), "an outcome is given once");
            *place = Some(outcome);
        }
        self.open.set(self.open.get() - 1);
        if !self.is_complete() {
            return;
        }
        match &self.listener {
            Listener::Connection(wake) => wake.notify(),
            Listener::Peer(answer) => {
                let outcomes = self.indexes.iter().copied().zip(self.take()).collect();
                answer(outcomes, self.stages.get());
            }
        }
    }

    /// Fills the places that another shard answered.
    pub(crate) fn complete_remote(&self, response: Response) {
        if let Response::Appended(outcomes, stages) = response {
            self.stages.set(stages);
            for (index, outcome) in outcomes {
                self.complete(index, outcome);
            }
        } else {
            // The owner stops: whether the records were appended is unknown, which is what the code says.
            self.complete_open(ErrorCode::RequestTimedOut);
        }
    }

    fn complete_open(&self, error: ErrorCode) {
        let open: Vec<usize> = {
            let outcomes = self.outcomes.borrow();
            (0..outcomes.len())
                .filter(|&index| outcomes[index].is_none())
                .collect()
        };
        for index in open {
            let index = u32::try_from(index).expect("places are counted by u32");
            self.complete(index, AppendOutcome::refused(error));
        }
    }
}

/// Where an outcome goes, and what it will be if all goes well.
pub(crate) struct Place {
    pub(crate) outcome: AppendOutcome,
    pub(crate) group: Rc<AppendGroup>,
    pub(crate) index: u32,
}

impl Place {
    /// The place `index` of `group`, with what is told there if all goes well.
    pub(super) fn new(outcome: AppendOutcome, group: &Rc<AppendGroup>, index: u32) -> Self {
        Self {
            outcome,
            group: Rc::clone(group),
            index,
        }
    }

    /// Written and made durable at these times.
    fn on_written(&self, written: Written) {
        self.group.stages.set(AppendStages {
            written: written.written,
            synced: written.synced,
            decided: written.synced,
            mesh: self.group.stages.get().mesh,
        });
    }

    /// The high watermark covers it.
    fn on_committed(&self, now: Monotonic) {
        self.group.stages.set(AppendStages {
            decided: now,
            ..self.group.stages.get()
        });
    }

    fn settle(self) {
        self.group.complete(self.index, self.outcome);
    }

    fn refuse(self, outcome: AppendOutcome) {
        self.group.complete(self.index, outcome);
    }
}

/// What is queued for a partition: a batch to write, or a repeated one that waits for what is queued before it.
pub(crate) struct Pending {
    pub(crate) write: Option<(Bytes, LoggedBatch)>,
    next_offset: Offset,
    place: Place,
    terms: AppendTerms,
}

impl Pending {
    /// `write` goes to the log; then `place` is settled by `terms`, by what stands below `next_offset`.
    pub(super) fn new(
        write: Option<(Bytes, LoggedBatch)>,
        next_offset: Offset,
        place: Place,
        terms: AppendTerms,
    ) -> Self {
        Self {
            write,
            next_offset,
            place,
            terms,
        }
    }
}

/// When batches were written, and durable where that is waited for; zero where nothing is timed.
#[derive(Clone, Copy)]
struct Written {
    written: Monotonic,
    synced: Monotonic,
}

/// The outcomes that wait for a high watermark (acks=all).
#[derive(Default)]
pub(crate) struct Commits {
    waiters: CommitWaiters,
    places: Map<WaiterId, Place>,
    next_id: u64,
}

/// How one request's batches are answered.
#[derive(Clone, Copy)]
pub(crate) struct AppendTerms {
    /// Answer when the high watermark covers the records, not when they are written.
    pub(crate) until_committed: bool,
    /// When to give up waiting for that.
    pub(crate) deadline: Monotonic,
}

impl<E: Env> Shard<E> {
    /// Takes in another shard's part of a Produce request.
    pub(crate) fn append_for_peer(
        self: &Rc<Self>,
        peer: ShardId,
        id: CallId,
        request: AppendRequest,
    ) {
        let indexes = request.items.iter().map(|item| item.index).collect();
        let shard = Rc::clone(self);
        let answer = move |outcomes, stages| {
            shard.calls.post(
                peer,
                Message::Response {
                    id,
                    response: Response::Appended(outcomes, stages),
                },
            );
        };
        let now = self.net.now();
        let group = AppendGroup::for_callback(indexes, Box::new(answer), now);
        let terms = AppendTerms {
            until_committed: request.until_committed,
            deadline: now.plus_ms(request.timeout_ms),
        };
        for (place, item) in (0_u32..).zip(request.items) {
            self.append(item, place, terms, &group);
        }
    }

    /// Plans one batch for a partition of this shard and queues it; the outcome goes to `place` of `group`.
    pub(crate) fn append(
        &self,
        item: AppendItem,
        place: u32,
        terms: AppendTerms,
        group: &Rc<AppendGroup>,
    ) {
        let Some(slot) = self.slot(item.partition) else {
            let error = self.missing(item.partition);
            group.complete(place, AppendOutcome::refused(error));
            return;
        };
        if self.is_closing.get() {
            group.complete(place, AppendOutcome::refused(ErrorCode::RequestTimedOut));
            return;
        }
        let acks = if terms.until_committed {
            Acks::All
        } else {
            Acks::Leader
        };
        let (planned, log_start) = {
            let mut state = slot.state.borrow_mut();
            let planned = state.plan_append(&item.facts, acks, item.guard);
            (planned, state.log_start())
        };
        let place_of = |outcome| Place::new(outcome, group, place);
        match planned {
            Ok(Planned::Append(plan)) => {
                let (write, outcome) = stamp(item, plan, log_start);
                let place = place_of(outcome);
                let pending = Pending::new(Some(write), plan.next_offset(), place, terms);
                self.queue(&slot, pending);
            }
            Ok(Planned::Duplicate(original)) => {
                // Behind whatever is queued, so that it is answered no sooner than its original.
                let outcome = duplicate_outcome(original, log_start);
                let next_offset = original.last_offset.plus(1);
                let pending = Pending::new(None, next_offset, place_of(outcome), terms);
                self.queue(&slot, pending);
            }
            Err(refused) => group.complete(place, refusal(&slot, refused)),
        }
    }

    /// Queues what is planned; the flusher writes it.
    pub(super) fn queue(&self, slot: &Rc<Slot<E>>, pending: Pending) {
        slot.is_used.set(true);
        slot.pending.borrow_mut().push(pending);
        if !slot.is_dirty.replace(true) {
            self.dirty.borrow_mut().push(Rc::clone(slot));
            self.flush_wanted.notify();
        }
    }

    /// Has the flusher run behind the tasks that are ready.
    pub(crate) fn want_flush(&self) {
        self.flush_wanted.notify();
    }

    /// The shard's flusher: one write for each partition with queued batches and turn.
    pub(crate) async fn run_flusher(self: Rc<Self>) {
        loop {
            self.flush_wanted.notified().await;
            loop {
                self.seal_coordinators();
                let dirty = std::mem::take(&mut *self.dirty.borrow_mut());
                if dirty.is_empty() {
                    break;
                }
                for slot in dirty {
                    self.start_flush(slot).await;
                }
            }
            self.post_wake_ups();
        }
    }

    /// Flushes in place what the disk takes at once; a roll and a sync, which wait for the disk, get a task of their own, so that they do
    /// not hold up other partitions.
    async fn start_flush(self: &Rc<Self>, slot: Rc<Slot<E>>) {
        slot.is_dirty.set(false);
        if slot.is_held.get() || slot.is_flushing.replace(true) {
            return;
        }
        let queued = slot.queued_bytes();
        if slot.sync.terms().may_wait() || slot.log().roll_wanted(queued) || slot.is_roll_due() {
            let shard = Rc::clone(self);
            self.net.spawn(TaskClass::Request, async move {
                shard.flush(&slot).await;
                shard.post_wake_ups();
            });
        } else {
            self.flush(&slot).await;
        }
    }

    /// Writes everything queued, also what is queued meanwhile, unless the partition is held.
    pub(crate) async fn flush(self: &Rc<Self>, slot: &Rc<Slot<E>>) {
        while !slot.is_held.get() {
            let queued = std::mem::take(&mut *slot.pending.borrow_mut());
            if queued.is_empty() {
                break;
            }
            let (bytes, facts): (Vec<Bytes>, Vec<LoggedBatch>) = queued
                .iter()
                .filter_map(|pending| pending.write.clone())
                .unzip();
            match self.write(slot, &bytes, &facts).await {
                Ok((progress, written)) => {
                    let size_bytes = bytes.iter().map(Bytes::len).sum();
                    let counters = &self.metrics.counters;
                    counters.append_writes.add(1);
                    counters.append_batches.add(bytes.len() as u64);
                    counters.append_bytes.add(size_bytes as u64);
                    for pending in queued {
                        self.settle_written(slot, pending, progress, written);
                    }
                    self.on_progress(slot.id, progress, size_bytes);
                }
                Err(StorageError::Closed { .. }) => {
                    // Deleted (or the shard stops) while this was queued.
                    self.fail(slot, queued, ErrorCode::UnknownTopicOrPartition);
                }
                Err(
                    error @ (StorageError::Disk(_)
                    | StorageError::Failed { .. }
                    | StorageError::Corrupt { .. }),
                ) => {
                    self.fail_log(slot, &error);
                    self.fail(slot, queued, ErrorCode::KafkaStorageError);
                }
            }
        }
        slot.is_flushing.set(false);
    }

    async fn write(
        self: &Rc<Self>,
        slot: &Rc<Slot<E>>,
        bytes: &[Bytes],
        facts: &[LoggedBatch],
    ) -> Result<(Progress, Written), StorageError> {
        if slot.state.borrow().is_offline() {
            return Err(StorageError::Failed {
                path: slot.log().directory().to_owned(),
            });
        }
        let (Some(first), Some(last)) = (facts.first(), facts.last()) else {
            return Ok((Progress::default(), self.written_now()));
        };
        self.make_room(slot).await;
        let size_bytes = bytes.iter().map(Bytes::len).sum();
        if slot.log().roll_wanted(size_bytes) || slot.log().roll_due(first.max_timestamp) {
            slot.log().roll(slot.producer_snapshot()).await?;
            self.sync_behind(slot);
        }
        let aborted = slot.take_aborted(last.last_offset.plus(1));
        let next_offset = slot
            .log()
            .append_with_aborted(bytes, facts, &aborted)
            .await?;
        let mut written = self.written_now();
        if self.sync_appended(slot, next_offset).await? {
            written.synced = self.written_now().written;
        }
        let mut state = slot.state.borrow_mut();
        let progress = state.on_appended(first.leader_epoch, next_offset);
        Ok((progress, written))
    }

    /// The time, where requests are timed.
    fn written_now(&self) -> Written {
        let now = if self.metrics.is_on {
            self.net.now()
        } else {
            Monotonic(0)
        };
        Written {
            written: now,
            synced: now,
        }
    }

    fn settle_written(
        &self,
        slot: &Slot<E>,
        pending: Pending,
        progress: Progress,
        written: Written,
    ) {
        let Pending {
            next_offset,
            place,
            terms,
            ..
        } = pending;
        place.on_written(written);
        if slot.state.borrow().is_offline() {
            // Its directory failed elsewhere meanwhile.
            place.refuse(AppendOutcome::refused(ErrorCode::KafkaStorageError));
        } else if progress.is_fenced {
            place.refuse(AppendOutcome {
                leader: Some(slot.leader_hint()),
                ..AppendOutcome::refused(ErrorCode::NotLeaderOrFollower)
            });
        } else if terms.until_committed {
            let high_watermark = slot.state.borrow().high_watermark();
            self.await_commit(slot.id, next_offset, high_watermark, terms.deadline, place);
        } else {
            place.settle();
        }
    }

    fn await_commit(
        &self,
        partition: TopicPartition,
        next_offset: Offset,
        high_watermark: Offset,
        deadline: Monotonic,
        place: Place,
    ) {
        let mut commits = self.commits.borrow_mut();
        let id = WaiterId(commits.next_id);
        match commits
            .waiters
            .watch(id, partition, next_offset, high_watermark, deadline)
        {
            CommitWatched::Committed => {
                drop(commits);
                place.settle();
            }
            CommitWatched::Full => {
                drop(commits);
                place.refuse(AppendOutcome::refused(ErrorCode::RequestTimedOut));
            }
            CommitWatched::Waiting => {
                commits.next_id += 1;
                commits.places.insert(id, place);
            }
        }
    }

    /// Settles what has waited for this high watermark.
    pub(crate) fn settle_committed(&self, partition: TopicPartition, high_watermark: Offset) {
        let mut woken = Vec::new();
        self.commits
            .borrow_mut()
            .waiters
            .on_high_watermark(partition, high_watermark, &mut woken);
        if woken.is_empty() {
            return;
        }
        let now = self.written_now().written;
        for place in self.take_commits(&woken) {
            place.on_committed(now);
            place.settle();
        }
    }

    /// Answers everything that waits on a partition that is gone or failed.
    pub(crate) fn refuse_commits(&self, partition: TopicPartition, error: ErrorCode) {
        let mut woken = Vec::new();
        self.commits
            .borrow_mut()
            .waiters
            .on_gone(partition, &mut woken);
        for place in self.take_commits(&woken) {
            place.refuse(AppendOutcome::refused(error));
        }
    }

    /// Batches that wait for the high watermark.
    pub(crate) fn waiting_commit_count(&self) -> usize {
        self.commits.borrow().places.len()
    }

    fn take_commits(&self, ids: &[WaiterId]) -> Vec<Place> {
        let places = &mut self.commits.borrow_mut().places;
        ids.iter().filter_map(|id| places.remove(id)).collect()
    }

    /// The log failed or is gone: nothing planned behind it will ever be written.
    fn fail(&self, slot: &Slot<E>, queued: Vec<Pending>, error: ErrorCode) {
        slot.state.borrow_mut().go_offline();
        for pending in queued {
            pending.place.refuse(AppendOutcome::refused(error));
        }
        self.refuse_commits(slot.id, error);
        self.on_gone(slot.id);
    }

    /// Answers what has waited for the high watermark until its time is up (maintenance).
    pub(crate) fn expire_commits(&self) {
        let mut expired = Vec::new();
        self.commits
            .borrow_mut()
            .waiters
            .expire(self.net.now(), &mut expired);
        for place in self.take_commits(&expired) {
            place.refuse(AppendOutcome::refused(ErrorCode::RequestTimedOut));
        }
    }
}

/// A repeated batch is answered with its original's offset and time (Kafka names the time whatever the topic's type).
fn duplicate_outcome(original: Duplicate, log_start: Offset) -> AppendOutcome {
    AppendOutcome {
        error: ErrorCode::None,
        base_offset: original.base_offset,
        log_append_time: original.timestamp,
        log_start,
        leader: None,
    }
}

/// Stamps the leader's part of the header: what is written, and what is answered when it is.
fn stamp(item: AppendItem, plan: Plan, log_start: Offset) -> ((Bytes, LoggedBatch), AppendOutcome) {
    let mut batch = item.batch;
    let mut log_append_time = Timestamp::NONE;
    if let Some((kind, timestamp)) = item.rewrite {
        patch::set_max_timestamp(&mut batch, kind, timestamp);
        if kind == TimestampType::LogAppendTime {
            log_append_time = timestamp;
        }
    }
    patch::set_base_offset(&mut batch, plan.base_offset);
    patch::set_leader_epoch(&mut batch, plan.leader_epoch);
    let facts = LoggedBatch {
        base_offset: plan.base_offset,
        last_offset: plan.last_offset,
        max_timestamp: item.facts.max_timestamp,
        leader_epoch: plan.leader_epoch,
    };
    let outcome = AppendOutcome {
        error: ErrorCode::None,
        base_offset: plan.base_offset,
        log_append_time,
        log_start,
        leader: None,
    };
    ((batch.freeze(), facts), outcome)
}

/// What is answered to a batch that is refused.
pub(crate) fn refusal<E: Env>(slot: &Slot<E>, refused: PlanRefused) -> AppendOutcome {
    let (unknown, log_start) = (Offset::NONE, slot.state.borrow().log_start());
    // What the log itself refuses is told with its start.
    let (error, log_start) = match refused {
        PlanRefused::Offline => (ErrorCode::KafkaStorageError, unknown),
        PlanRefused::NotLeader => (ErrorCode::NotLeaderOrFollower, unknown),
        PlanRefused::NotEnoughReplicas => (ErrorCode::NotEnoughReplicas, log_start),
        PlanRefused::OutOfOrderSequence => (ErrorCode::OutOfOrderSequenceNumber, log_start),
        PlanRefused::InvalidProducerEpoch => (ErrorCode::InvalidProducerEpoch, log_start),
        PlanRefused::InvalidTxnState => (ErrorCode::InvalidTxnState, log_start),
        PlanRefused::CoordinatorFenced => (ErrorCode::TransactionCoordinatorFenced, log_start),
    };
    let leader = (refused == PlanRefused::NotLeader).then(|| slot.leader_hint());
    AppendOutcome {
        leader,
        log_start,
        ..AppendOutcome::refused(error)
    }
}
