//! The coordinators of one shard: those of the partitions of `__consumer_offsets` and `__transaction_state` that it owns.
//!
//! What a group or a transactional id means is decided by a machine, one for each partition ([`machine`]); here is what surrounds it. A
//! request goes from its connection's shard to the owner of the partition ([`ask`]); the decision's records join a batch that all
//! decisions of the partition share until the shard's flusher writes it ([`queue`]); replies leave, and markers are written
//! ([`markers`]), when their records are written. A partition is loaded from its log when this shard begins to lead it ([`load`]), and
//! given up when it cannot be led any more.
//!
//! Invariants:
//! 1. A reply leaves, and a marker is written, only after every record that was decided before it, of whatever of its partition, is written
//!    and committed: whoever reads an offset reads one that a restart finds.
//! 2. A failed append throws the partition's state away: everybody who waits is sent to look the coordinator up again, and what is in the
//!    log is loaded anew. So memory is never ahead of a log that refused it.
//! 3. No task and no timer for a group, a member or a transactional id: one timer for the shard, one loader for the shard. A transaction
//!    whose markers are being written has a task as long as that takes.
//! 4. What waits long (JoinGroup, SyncGroup, EndTxn) holds no mesh credit: it is accepted at once and followed by one message.
//! 5. No borrow of a partition's state is held while a reply leaves: a reply may come back as the next request.
//!
//! Not here: the decisions (machine), the codecs (protocol), what requests look like (handlers).

pub(crate) mod ask;
mod load;
mod machine;
mod markers;
mod pending;
mod producer_ids;
mod queue;
mod spoil;
mod topic;
pub(crate) mod transaction;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use pelton_machine::group::{Now, Token};
use pelton_machine::image::MetadataDelta;
use pelton_machine::partition::TxnGuard;
use pelton_machine::transaction::TransactionGauges;
use pelton_model::map::Map;
use pelton_model::task::Notify;
use pelton_model::{ErrorCode, Monotonic, PartitionId, ProducerId, Str, TopicPartition};
use pelton_transport::net::{Net, TaskClass};

pub(crate) use self::machine::Kind;
pub use self::machine::{Command, Reply};
use self::machine::{Effect, Machine, Made, Scene};
pub(crate) use self::pending::Replies;
use self::pending::{Pending, Place, Recipient};
use self::producer_ids::ProducerIds;
use self::queue::Queue;
use crate::env::Env;
use crate::metrics::report::CommittedOffset;
use crate::shard::Shard;
use crate::shard::append::refusal;
use crate::shard::message::{CoordinatorCall, WatchId};
use crate::shard::slot::Slot;

/// The coordinators of a shard.
pub(crate) struct Coordinators<E: Env> {
    hosted: RefCell<BTreeMap<TopicPartition, Rc<Hosted<E>>>>,
    /// Those whose records no batch holds yet.
    unsealed: RefCell<Vec<Rc<Hosted<E>>>>,
    /// Those to load, one after the other.
    to_load: RefCell<VecDeque<Rc<Hosted<E>>>>,
    load_wanted: Notify,
    /// Those whose log could not be read, and when it is tried again.
    to_retry: RefCell<Vec<(Monotonic, Rc<Hosted<E>>)>>,
    next_token: Cell<u64>,
    /// What the timer waits for.
    armed: Cell<Option<Monotonic>>,
    rearm: Notify,
    /// Replies for connections of this shard that wait, by their wait.
    replied: RefCell<BTreeMap<WatchId, Replies>>,
    pub(crate) producer_ids: ProducerIds,
}

impl<E: Env> Default for Coordinators<E> {
    fn default() -> Self {
        Self {
            hosted: RefCell::default(),
            unsealed: RefCell::default(),
            to_load: RefCell::default(),
            load_wanted: Notify::default(),
            to_retry: RefCell::default(),
            next_token: Cell::new(0),
            armed: Cell::new(None),
            rearm: Notify::default(),
            replied: RefCell::default(),
            producer_ids: ProducerIds::default(),
        }
    }
}

impl<E: Env> Coordinators<E> {
    /// Whether every record that was decided is handed to the log.
    pub(crate) fn is_quiet(&self) -> bool {
        self.unsealed.borrow().is_empty()
    }
}

/// One partition's coordinator.
pub(crate) struct Hosted<E: Env> {
    kind: Kind,
    slot: Rc<Slot<E>>,
    phase: Cell<Phase>,
    /// How often its log could not be read.
    failures: Cell<u32>,
    state: RefCell<Machine>,
    /// Who is to be told, by the token of the request.
    waiting: RefCell<Map<Token, Place>>,
    queue: RefCell<Queue>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The log is being read.
    Loading,
    /// Requests are decided.
    Active,
    /// The log could not be read; it is tried again.
    Failed,
    /// Another takes its place, or none.
    Gone,
}

impl Phase {
    /// Why requests are refused, if they are.
    fn refusal(self) -> Option<ErrorCode> {
        match self {
            Self::Active => None,
            Self::Loading => Some(ErrorCode::CoordinatorLoadInProgress),
            Self::Failed => Some(ErrorCode::CoordinatorNotAvailable),
            Self::Gone => Some(ErrorCode::NotCoordinator),
        }
    }
}

impl<E: Env> Hosted<E> {
    /// Whether the partition can be led.
    fn is_led(&self) -> bool {
        let state = self.slot.state.borrow();
        state.is_leader() && !state.is_offline()
    }
}

impl<E: Env> Shard<E> {
    /// Both clocks now.
    fn both_clocks(&self) -> Now {
        Now {
            clock: self.net.now(),
            time: self.net.wall_clock(),
        }
    }

    /// Brings the coordinators in line with what this shard leads.
    pub(crate) fn follow_coordinators(self: &Rc<Self>) {
        let topics = Kind::ALL.map(|kind| (kind, self.topic_by_name(kind.topic())));
        let is_known = |id: TopicPartition| {
            let mut known = topics.iter().flat_map(|(_, topic)| topic);
            known.any(|topic| topic.id == id.topic_id)
        };
        self.keep_coordinators(|hosted| is_known(hosted.slot.id) && hosted.is_led());
        for (kind, topic) in &topics {
            let Some(topic) = topic else { continue };
            for index in 0..topic.partition_count {
                let id = TopicPartition {
                    topic_id: topic.id,
                    partition: PartitionId(index),
                };
                if self.owner(id) == self.id {
                    self.host_coordinator(*kind, id);
                }
            }
        }
    }

    fn keep_coordinators(self: &Rc<Self>, keeps: impl Fn(&Hosted<E>) -> bool) {
        let hosted: Vec<Rc<Hosted<E>>> = self
            .coordinators
            .hosted
            .borrow()
            .values()
            .cloned()
            .collect();
        for hosted in hosted.into_iter().filter(|hosted| !keeps(hosted)) {
            self.give_up_coordinator(&hosted, ErrorCode::NotCoordinator);
        }
    }

    fn host_coordinator(self: &Rc<Self>, kind: Kind, id: TopicPartition) {
        let is_hosted = self.coordinators.hosted.borrow().contains_key(&id);
        let Some(slot) = self.slot(id).filter(|_| !is_hosted) else {
            return;
        };
        let hosted = Rc::new(Hosted {
            kind,
            slot,
            phase: Cell::new(Phase::Loading),
            failures: Cell::new(0),
            state: RefCell::new(Machine::new(kind, &self.coordinator_settings())),
            waiting: RefCell::default(),
            queue: RefCell::default(),
        });
        if !hosted.is_led() {
            return;
        }
        let coordinators = &self.coordinators;
        coordinators
            .hosted
            .borrow_mut()
            .insert(id, Rc::clone(&hosted));
        coordinators.to_load.borrow_mut().push_back(hosted);
        coordinators.load_wanted.notify();
    }

    /// Throws a partition's state away. Whoever waits hears `error`, or what the machine says to those it keeps waiting.
    fn give_up_coordinator(self: &Rc<Self>, hosted: &Rc<Hosted<E>>, error: ErrorCode) {
        if hosted.phase.replace(Phase::Gone) == Phase::Gone {
            return;
        }
        let id = hosted.slot.id;
        {
            let mut all = self.coordinators.hosted.borrow_mut();
            if all.get(&id).is_some_and(|known| Rc::ptr_eq(known, hosted)) {
                all.remove(&id);
            }
        }
        let fresh = Machine::new(hosted.kind, &self.coordinator_settings());
        let state = hosted.state.replace(fresh);
        let unwritten = hosted.queue.take().into_replies();
        for (token, reply) in unwritten {
            self.reply(hosted, token, reply.spoiled(error));
        }
        for (token, reply) in state.resign() {
            self.reply(hosted, token, reply);
        }
        assert!(
            hosted.waiting.borrow().is_empty(),
            "the machine answers every request that it keeps"
        );
    }

    /// Topics are gone: so are the offsets committed for them. Nobody hears of the deletion before, so that a topic of the same name
    /// cannot have offsets yet.
    pub(crate) async fn forget_deleted_topics(self: &Rc<Self>, delta: &MetadataDelta) {
        if delta.topics_deleted.is_empty() {
            return;
        }
        let names: Vec<Str> = delta.topics_deleted.values().map(Str::new).collect();
        for hosted in self.active_coordinators() {
            let mut from = None;
            loop {
                let (made, next) = {
                    let mut state = hosted.state.borrow_mut();
                    state.topics_deleted(&names, from.as_ref())
                };
                self.carry_out(&hosted, made);
                if next.is_none() {
                    break;
                }
                self.net.yield_now().await;
                if hosted.phase.get() != Phase::Active {
                    break;
                }
                from = next;
            }
        }
    }

    /// How many transactions the coordinators of this shard know.
    pub(crate) fn transactions(&self) -> TransactionGauges {
        let mut all = TransactionGauges::default();
        for hosted in self.coordinators.hosted.borrow().values() {
            if let Machine::Transactions(transactions) = &*hosted.state.borrow() {
                all.add(transactions.gauges());
            }
        }
        all
    }

    /// The settings may have changed.
    pub(crate) fn configure_coordinators(&self) {
        let config = self.coordinator_settings();
        for hosted in self.coordinators.hosted.borrow().values() {
            hosted.state.borrow_mut().configure(&config);
        }
    }

    fn active_coordinators(&self) -> Vec<Rc<Hosted<E>>> {
        let hosted = self.coordinators.hosted.borrow();
        let active = hosted
            .values()
            .filter(|hosted| hosted.phase.get() == Phase::Active);
        active.cloned().collect()
    }

    /// What groups have committed, the first by group, topic and partition; and how many there are.
    pub(crate) fn committed_offsets(&self, count_max: usize) -> (Vec<CommittedOffset>, u64) {
        let mut rows = Vec::new();
        let mut count = 0;
        for hosted in self.active_coordinators() {
            let state = hosted.state.borrow();
            let Machine::Groups(groups) = &*state else {
                continue;
            };
            count += groups.offset_count() as u64;
            // Groups are in order, so that each coordinator's first are enough.
            let first = groups.committed_offsets().take(count_max);
            let row = |(group, topic, partition, offset): (&Str, &Str, i32, i64)| CommittedOffset {
                group: group.clone(),
                topic: topic.clone(),
                partition,
                offset,
            };
            rows.extend(first.map(row));
        }
        rows.sort_unstable();
        rows.truncate(count_max);
        (rows, count)
    }

    /// Takes in calls for partitions of this shard. Gives the replies if all are there at once; else they go to `recipient` later.
    fn submit(
        self: &Rc<Self>,
        calls: Vec<CoordinatorCall>,
        recipient: Recipient,
    ) -> Option<Replies> {
        let pending = Pending::new(calls.len(), recipient);
        for (index, call) in calls.into_iter().enumerate() {
            let place = Place {
                pending: Rc::clone(&pending),
                index,
            };
            self.submit_call(call, place);
        }
        pending.take_or_park()
    }

    fn submit_call(self: &Rc<Self>, call: CoordinatorCall, place: Place) {
        if call.command.may_draw() && !self.has_producer_ids() {
            // Getting some waits for the controller.
            let shard = Rc::clone(self);
            self.net.spawn(TaskClass::Request, async move {
                // Without any, the coordinator says what that means.
                shard.get_producer_ids().await.ok();
                shard.decide_call(call, place);
            });
        } else {
            self.decide_call(call, place);
        }
    }

    fn decide_call(self: &Rc<Self>, call: CoordinatorCall, place: Place) {
        let CoordinatorCall {
            partition,
            command,
            guard,
        } = call;
        let hosted = self.coordinators.hosted.borrow().get(&partition).cloned();
        let phase = hosted
            .as_ref()
            .map_or(Phase::Gone, |hosted| hosted.phase.get());
        let Some(hosted) = hosted.filter(|_| phase.refusal().is_none()) else {
            let error = phase.refusal().unwrap_or(ErrorCode::NotCoordinator);
            self.fill(place, command.refused(error));
            return;
        };
        if self.adds_unknown(&command) {
            // The client's shard knew them: this one hears of them soon.
            self.fill(place, command.refused(ErrorCode::CoordinatorLoadInProgress));
            return;
        }
        if let Err(error) = check_guard(&hosted, &command, guard) {
            self.fill(place, command.refused(error));
            return;
        }
        let token = Token(self.coordinators.next_token.get());
        self.coordinators.next_token.set(token.0 + 1);
        hosted.waiting.borrow_mut().insert(token, place);
        let made = self.with_scene(|scene| hosted.state.borrow_mut().decide(scene, token, command));
        let is_guarded = made.producer.is_some();
        self.carry_out_guarded(&hosted, made, guard);
        if is_guarded {
            // What was checked above holds as long as nothing comes between.
            self.append_decided(&hosted);
        }
        self.rearm_coordinators(&hosted);
    }

    /// Lets a machine decide with what there is now.
    fn with_scene(self: &Rc<Self>, decide: impl FnOnce(&mut Scene<'_>) -> Made) -> Made {
        let image = self.image();
        let mut lacks = false;
        let made = decide(&mut Scene {
            now: self.both_clocks(),
            image: &image,
            draw: &mut || {
                let drawn = self.producer_ids.borrow_mut().next();
                lacks |= drawn.is_none();
                drawn.map(ProducerId)
            },
        });
        if lacks {
            self.want_producer_ids();
        }
        made
    }

    /// Queues a decision's records, and what follows behind them.
    fn carry_out(self: &Rc<Self>, hosted: &Rc<Hosted<E>>, made: Made) {
        self.carry_out_guarded(hosted, made, TxnGuard::None);
    }

    fn carry_out_guarded(self: &Rc<Self>, hosted: &Rc<Hosted<E>>, made: Made, guard: TxnGuard) {
        let Made {
            records,
            producer,
            effects,
            ended,
        } = made;
        for ended in &ended {
            self.metrics.count_ended(ended);
        }
        let ready = {
            let mut queue = hosted.queue.borrow_mut();
            if !records.is_empty() {
                let limits = self.batch_limits(hosted.kind, &hosted.slot);
                let time = self.net.wall_clock();
                match producer {
                    Some(producer) => {
                        queue.add_transactional(&records, (producer, guard), time, limits);
                    }
                    None => queue.add(&records, time, limits),
                }
                if queue.list() {
                    let mut unsealed = self.coordinators.unsealed.borrow_mut();
                    unsealed.push(Rc::clone(hosted));
                    self.want_flush();
                }
            }
            queue.after_records(effects)
        };
        self.perform(hosted, ready);
    }

    fn perform(self: &Rc<Self>, hosted: &Rc<Hosted<E>>, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Reply(token, reply) => self.reply(hosted, token, reply),
                Effect::Markers(markers) => self.start_marking(hosted, markers),
            }
        }
    }

    fn reply(&self, hosted: &Hosted<E>, token: Token, reply: Reply) {
        let place = hosted.waiting.borrow_mut().remove(&token);
        let place = place.expect("a token is answered once");
        self.fill(place, reply);
    }

    /// Makes sure that the timer goes off no later than a partition needs it.
    fn rearm_coordinators(&self, hosted: &Hosted<E>) {
        let armed = self.coordinators.armed.get();
        let next = hosted.state.borrow().next_deadline();
        let is_sooner = next.is_some_and(|next| armed.is_none_or(|armed| next < armed));
        if is_sooner {
            self.coordinators.armed.set(next);
            self.coordinators.rearm.notify();
        }
    }

    /// The shard's timer for coordinators.
    pub(crate) async fn run_coordinator_timer(self: Rc<Self>) {
        loop {
            let next = {
                let active = self.active_coordinators();
                let deadlines = active.iter();
                let deadlines =
                    deadlines.filter_map(|hosted| hosted.state.borrow().next_deadline());
                deadlines.min()
            };
            self.coordinators.armed.set(next);
            match next {
                None => self.coordinators.rearm.notified().await,
                Some(next) if self.net.now() < next => self.sleep_or_rearm(next).await,
                Some(_) => {
                    if self.is_stopping.get() {
                        return;
                    }
                    self.tick_coordinators();
                    // A tick does a bounded amount: requests go between.
                    self.net.yield_now().await;
                }
            }
        }
    }

    async fn sleep_or_rearm(&self, deadline: Monotonic) {
        self.sleep_or_notified(deadline, &self.coordinators.rearm)
            .await;
    }

    /// Waits until the deadline, or until it is woken.
    async fn sleep_or_notified(&self, deadline: Monotonic, notify: &Notify) {
        let mut rearmed = pin!(notify.notified());
        let mut timer = pin!(self.net.sleep_until(deadline));
        poll_fn(|context| {
            if rearmed.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            timer.as_mut().poll(context)
        })
        .await;
    }

    fn tick_coordinators(self: &Rc<Self>) {
        let now = self.net.now();
        for hosted in self.active_coordinators() {
            let next = hosted.state.borrow().next_deadline();
            if next.is_some_and(|next| next <= now) {
                let made = self.with_scene(|scene| hosted.state.borrow_mut().tick(scene));
                self.carry_out(&hosted, made);
            }
        }
    }
}

/// Whether the records of a command that is part of a transaction would be appended. A refused append would cost the coordinator its
/// state, which must not be in a producer's hands.
fn check_guard<E: Env>(
    hosted: &Hosted<E>,
    command: &Command,
    guard: TxnGuard,
) -> Result<(), ErrorCode> {
    let Some((producer_id, producer_epoch)) = command.producer() else {
        return Ok(());
    };
    let state = hosted.slot.state.borrow();
    let checked = state.check_coordinated(producer_id, producer_epoch, guard);
    checked.map_err(|refused| refusal(&hosted.slot, refused).error)
}
