//! The group coordinators of one shard: those of the partitions of `__consumer_offsets` that it owns.
//!
//! What a group means is decided by [`GroupShard`], one for each partition; here is what surrounds it. A request goes from its
//! connection's shard to the owner of the group's partition ([`ask`]); the decision's records join a batch that all groups of the
//! partition share until the shard's flusher writes it ([`queue`]); replies leave when their records are written. A partition is loaded
//! from its log when this shard begins to lead it ([`load`]), and given up when it cannot be led any more.
//!
//! Invariants:
//! 1. A reply leaves only after every record that was decided before it, of whichever group of its partition, is written and committed:
//!    whoever reads an offset reads one that a restart finds.
//! 2. A failed append throws the partition's state away: everybody who waits is sent to look the coordinator up again, and what is in the
//!    log is loaded anew. So memory is never ahead of a log that refused it.
//! 3. No task and no timer for a group or a member: one timer for the shard, one loader for the shard.
//! 4. What waits long (JoinGroup, SyncGroup) holds no mesh credit: it is accepted at once and followed by one message.
//! 5. No borrow of a partition's state is held while a reply leaves: a reply may come back as the next request.
//!
//! Not here: the decisions (machine), the codecs (protocol), what requests look like (handlers).

pub(crate) mod ask;
mod load;
mod pending;
mod queue;
mod spoil;
pub(crate) mod transaction;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use pelton_machine::controller::OFFSETS_TOPIC;
use pelton_machine::group::{Decision, GroupShard, Now, Reply, Token};
use pelton_machine::image::MetadataDelta;
use pelton_model::map::Map;
use pelton_model::task::Notify;
use pelton_model::{ErrorCode, Monotonic, PartitionId, ProducerId, Str, TopicPartition};
use pelton_transport::net::Net;

pub(crate) use self::pending::GroupReplies;
use self::pending::{Pending, Place, Recipient};
use self::queue::Queue;
use crate::env::Env;
use crate::shard::Shard;
use crate::shard::message::{GroupCall, WatchId};
use crate::shard::slot::Slot;

/// The coordinators of a shard.
pub(crate) struct Coordinators<E: Env> {
    hosted: RefCell<BTreeMap<PartitionId, Rc<Hosted<E>>>>,
    /// Those whose records no batch holds yet.
    unsealed: RefCell<Vec<Rc<Hosted<E>>>>,
    /// Those to load, one after the other.
    to_load: RefCell<VecDeque<Rc<Hosted<E>>>>,
    load_wanted: Notify,
    next_token: Cell<u64>,
    /// What the timer waits for.
    armed: Cell<Option<Monotonic>>,
    rearm: Notify,
    /// Replies for connections of this shard that wait, by their wait.
    replied: RefCell<BTreeMap<WatchId, GroupReplies>>,
}

impl<E: Env> Default for Coordinators<E> {
    fn default() -> Self {
        Self {
            hosted: RefCell::default(),
            unsealed: RefCell::default(),
            to_load: RefCell::default(),
            load_wanted: Notify::default(),
            next_token: Cell::new(0),
            armed: Cell::new(None),
            rearm: Notify::default(),
            replied: RefCell::default(),
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
    slot: Rc<Slot<E>>,
    phase: Cell<Phase>,
    state: RefCell<GroupShard>,
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
    /// The log could not be read.
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
    fn group_now(&self) -> Now {
        Now {
            clock: self.net.now(),
            time: self.net.wall_clock(),
        }
    }

    /// Brings the coordinators in line with what this shard leads.
    pub(crate) fn follow_coordinators(self: &Rc<Self>) {
        let Some(topic) = self.topic_by_name(OFFSETS_TOPIC) else {
            self.keep_coordinators(|_| false);
            return;
        };
        self.keep_coordinators(|hosted| hosted.slot.id.topic_id == topic.id && hosted.is_led());
        for index in 0..topic.partition_count {
            let id = TopicPartition {
                topic_id: topic.id,
                partition: PartitionId(index),
            };
            if self.owner(id) == self.id {
                self.host_coordinator(id);
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

    fn host_coordinator(self: &Rc<Self>, id: TopicPartition) {
        let is_hosted = self
            .coordinators
            .hosted
            .borrow()
            .contains_key(&id.partition);
        let Some(slot) = self.slot(id).filter(|_| !is_hosted) else {
            return;
        };
        let hosted = Rc::new(Hosted {
            slot,
            phase: Cell::new(Phase::Loading),
            state: RefCell::new(GroupShard::new(self.settings().group.clone())),
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
            .insert(id.partition, Rc::clone(&hosted));
        coordinators.to_load.borrow_mut().push_back(hosted);
        coordinators.load_wanted.notify();
    }

    /// Throws a partition's state away. Whoever waits hears `error`, or what the machine says to those it keeps waiting.
    fn give_up_coordinator(self: &Rc<Self>, hosted: &Rc<Hosted<E>>, error: ErrorCode) {
        if hosted.phase.replace(Phase::Gone) == Phase::Gone {
            return;
        }
        let partition = hosted.slot.id.partition;
        {
            let mut all = self.coordinators.hosted.borrow_mut();
            if all
                .get(&partition)
                .is_some_and(|known| Rc::ptr_eq(known, hosted))
            {
                all.remove(&partition);
            }
        }
        let fresh = GroupShard::new(self.settings().group.clone());
        let state = hosted.state.replace(fresh);
        let unwritten = hosted.queue.take().into_replies();
        for (token, reply) in unwritten {
            self.reply(hosted, token, spoil::spoil(reply, error));
        }
        for (token, reply) in state.resign() {
            self.reply(hosted, token, reply);
        }
        assert!(
            hosted.waiting.borrow().is_empty(),
            "the machine answers every request that it keeps"
        );
    }

    /// Topics are gone: so are the offsets committed for them.
    pub(crate) fn forget_deleted_topics(self: &Rc<Self>, delta: &MetadataDelta) {
        if delta.topics_deleted.is_empty() {
            return;
        }
        let names: Vec<Str> = delta.topics_deleted.values().map(Str::new).collect();
        for hosted in self.active_coordinators() {
            let decision = hosted.state.borrow_mut().topics_deleted(&names);
            self.carry_out(&hosted, decision);
        }
    }

    /// The settings may have changed.
    pub(crate) fn configure_coordinators(&self) {
        let config = self.settings().group.clone();
        for hosted in self.coordinators.hosted.borrow().values() {
            hosted.state.borrow_mut().configure(config.clone());
        }
    }

    /// A marker is about to be planned for `partition`: what its coordinator has decided goes before it. Any other partition has none.
    ///
    /// # Errors
    /// Why no marker can be taken in now.
    pub(crate) fn before_offsets_marker(
        self: &Rc<Self>,
        partition: TopicPartition,
    ) -> Result<(), ErrorCode> {
        if let Some(hosted) = self.coordinator_of_marker(partition)? {
            self.append_groups(&hosted);
        }
        Ok(())
    }

    /// A marker of `partition` is committed: the offsets of its transaction count now, or never will.
    ///
    /// # Errors
    /// As [`Shard::before_offsets_marker`]: the marker is to be written again.
    pub(crate) fn on_offsets_marker(
        self: &Rc<Self>,
        partition: TopicPartition,
        producer_id: ProducerId,
        is_commit: bool,
    ) -> Result<(), ErrorCode> {
        if let Some(hosted) = self.coordinator_of_marker(partition)? {
            hosted.state.borrow_mut().replay_end(producer_id, is_commit);
            self.rearm_groups(&hosted);
        }
        Ok(())
    }

    /// The coordinator that a marker concerns, if any.
    fn coordinator_of_marker(
        &self,
        partition: TopicPartition,
    ) -> Result<Option<Rc<Hosted<E>>>, ErrorCode> {
        let topic = self.topic_by_name(OFFSETS_TOPIC);
        if topic.is_none_or(|topic| topic.id != partition.topic_id) {
            return Ok(None);
        }
        let hosted = self.coordinators.hosted.borrow();
        let hosted = hosted.get(&partition.partition);
        let active = hosted.filter(|hosted| hosted.phase.get() == Phase::Active);
        // A coordinator that reads its log would miss it.
        let active = active.ok_or(ErrorCode::NotLeaderOrFollower)?;
        Ok(Some(Rc::clone(active)))
    }

    fn active_coordinators(&self) -> Vec<Rc<Hosted<E>>> {
        let hosted = self.coordinators.hosted.borrow();
        let active = hosted
            .values()
            .filter(|hosted| hosted.phase.get() == Phase::Active);
        active.cloned().collect()
    }

    /// Takes in calls for partitions of this shard. Gives the replies if all are there at once; else they go to `recipient` later.
    pub(crate) fn submit_groups(
        self: &Rc<Self>,
        calls: Vec<GroupCall>,
        recipient: Recipient,
    ) -> Option<GroupReplies> {
        let pending = Pending::new(calls.len(), recipient);
        for (index, call) in calls.into_iter().enumerate() {
            let place = Place {
                pending: Rc::clone(&pending),
                index,
            };
            self.submit_group(call, place);
        }
        pending.take_or_park()
    }

    fn submit_group(self: &Rc<Self>, call: GroupCall, place: Place) {
        let GroupCall { partition, command } = call;
        let hosted = self.coordinators.hosted.borrow().get(&partition).cloned();
        let phase = hosted
            .as_ref()
            .map_or(Phase::Gone, |hosted| hosted.phase.get());
        let Some(hosted) = hosted.filter(|_| phase.refusal().is_none()) else {
            let error = phase.refusal().unwrap_or(ErrorCode::NotCoordinator);
            self.fill(place, command.refused(error));
            return;
        };
        let token = Token(self.coordinators.next_token.get());
        self.coordinators.next_token.set(token.0 + 1);
        hosted.waiting.borrow_mut().insert(token, place);
        let (now, image) = (self.group_now(), self.image());
        let decision = hosted
            .state
            .borrow_mut()
            .decide(now, token, command, &image);
        self.carry_out(&hosted, decision);
        self.rearm_groups(&hosted);
    }

    /// Queues a decision's records, and its replies behind them.
    fn carry_out(&self, hosted: &Rc<Hosted<E>>, decision: Decision) {
        let Decision { records, replies } = decision;
        let ready = {
            let mut queue = hosted.queue.borrow_mut();
            if !records.is_empty() {
                let limits = self.batch_limits(&hosted.slot);
                queue.add(&records, self.net.wall_clock(), limits);
                if queue.list() {
                    let mut unsealed = self.coordinators.unsealed.borrow_mut();
                    unsealed.push(Rc::clone(hosted));
                    self.want_flush();
                }
            }
            queue.after_records(replies)
        };
        for (token, reply) in ready {
            self.reply(hosted, token, reply);
        }
    }

    fn reply(&self, hosted: &Hosted<E>, token: Token, reply: Reply) {
        let place = hosted.waiting.borrow_mut().remove(&token);
        let place = place.expect("a token is answered once");
        self.fill(place, reply);
    }

    /// Makes sure that the timer goes off no later than a partition needs it.
    fn rearm_groups(&self, hosted: &Hosted<E>) {
        let armed = self.coordinators.armed.get();
        let next = hosted.state.borrow().next_deadline();
        let is_sooner = next.is_some_and(|next| armed.is_none_or(|armed| next < armed));
        if is_sooner {
            self.coordinators.armed.set(next);
            self.coordinators.rearm.notify();
        }
    }

    /// The shard's timer for groups.
    pub(crate) async fn run_group_timer(self: Rc<Self>) {
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
                    self.tick_groups();
                    // A tick does a bounded amount: requests go between.
                    self.net.yield_now().await;
                }
            }
        }
    }

    async fn sleep_or_rearm(&self, deadline: Monotonic) {
        let mut rearmed = pin!(self.coordinators.rearm.notified());
        let mut timer = pin!(self.net.sleep_until(deadline));
        poll_fn(|context| {
            if rearmed.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            timer.as_mut().poll(context)
        })
        .await;
    }

    fn tick_groups(&self) {
        let now = self.group_now();
        let image = self.image();
        for hosted in self.active_coordinators() {
            let is_due = |next: Option<Monotonic>| next.is_some_and(|next| next <= now.clock);
            if is_due(hosted.state.borrow().next_deadline()) {
                let decision = hosted.state.borrow_mut().tick(now, &image);
                self.carry_out(&hosted, decision);
            }
        }
    }
}
