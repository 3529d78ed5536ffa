//! The task that sends a producer's batches and settles their outcomes.
//!
//! 1. One turn is synchronous: it looks at every partition, sends what is due and possible, and says when to look again.
//!    Whatever takes time (connecting, metadata, producer id, answers) runs in a task of its own and wakes the sender.
//! 2. At most one such task per node, for metadata, and for the producer id; at most `max_in_flight` requests per node.
//! 3. Every batch that was drained is settled: by its answer, or by the failure of its connection.
//!
//! Not here: decisions about batches (accumulator, sequence).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use futures_lite::future;
use pelton_model::{ErrorCode, Monotonic, ProducerEpoch, ProducerId, Timestamp, TopicId};
use pelton_protocol::codec::{Records, Str};
use pelton_protocol::message::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use pelton_protocol::message::produce::{
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse,
    TopicProduceData,
};
use pelton_transport::net::{Net, TaskClass};

use super::accumulator::{Accumulator, Drained, SlotId};
use super::partitioner::Partitioner;
use super::record::{BatchAck, Delivery, ProducerRecord};
use super::sequence::{self, Identity, Verdict};
use super::transaction::{self, Transaction};
use super::{Acks, ProducerOptions};
use crate::address::Address;
use crate::chores::Chores;
use crate::client::Client;
use crate::connection::{Connection, Reply};
use crate::error::ClientError;
use crate::metadata::{self, TopicMetadata};
use crate::retry;
use crate::time::before;
use crate::wait::Waiters;

/// The first version of Produce that names topics by id.
const PRODUCE_BY_ID_VERSION: i16 = 13;
/// Bytes of records that come in before the sender gets its turn.
const GIVE_WAY_BYTES: usize = 256 * 1024;

pub(super) struct Sender<N: Net> {
    /// For metadata and the producer id.
    pub(super) client: Client<N>,
    chores: Rc<Chores<N>>,
    pub(super) options: ProducerOptions,
    partitioner: Rc<RefCell<dyn Partitioner>>,
    pub(super) accumulator: RefCell<Accumulator>,
    /// To those who wait for room or for settled batches.
    pub(super) changed: Waiters,
    in_flight: RefCell<BTreeMap<i32, usize>>,
    is_identifying: Cell<bool>,
    is_stopped: Cell<bool>,
    /// Bytes of records that came since the sender had its turn.
    waiting_bytes: Cell<usize>,
    first_failure: RefCell<Option<ClientError>>,
    pub(super) transaction: Option<Transaction<N>>,
    turns: Cell<usize>,
}

impl<N: Net> Sender<N> {
    pub(super) fn new(
        client: &Client<N>,
        options: ProducerOptions,
        accumulator: Accumulator,
        partitioner: Rc<RefCell<dyn Partitioner>>,
    ) -> Self {
        Self {
            client: client.clone(),
            chores: Chores::new(client),
            transaction: options
                .transaction
                .clone()
                .map(|options| Transaction::new(client, options)),
            options,
            partitioner,
            accumulator: RefCell::new(accumulator),
            changed: Waiters::default(),
            in_flight: RefCell::default(),
            is_identifying: Cell::new(false),
            is_stopped: Cell::new(false),
            waiting_bytes: Cell::new(0),
            first_failure: RefCell::default(),
            turns: Cell::new(0),
        }
    }

    /// The task's whole life: until [`Sender::stop`].
    pub(super) async fn run(self: Rc<Self>) {
        while !self.is_stopped.get() {
            match self.turn() {
                None => self.chores.wake.notified().await,
                Some(next) => {
                    let timer = self.client.net().sleep_until(next);
                    future::or(timer, self.chores.wake.notified()).await;
                }
            }
        }
    }

    /// Ends the task; what was not sent fails.
    pub(super) fn stop(&self) {
        self.is_stopped.set(true);
        let closed = ClientError::Closed { what: "producer" };
        self.accumulator.borrow_mut().fail_all(&closed);
        self.chores.stop();
        self.changed.wake_all();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.get()
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        self.accumulator.borrow().buffered_bytes()
    }

    /// Whether a record of that size may come in: one always may, however large.
    pub(super) fn has_room(&self, size_bytes: usize) -> bool {
        let buffered_bytes = self.buffered_bytes();
        buffered_bytes == 0 || buffered_bytes + size_bytes <= self.options.buffer_memory_bytes
    }

    /// The topic's metadata; what is old is used and renewed beside.
    pub(super) async fn topic(
        self: &Rc<Self>,
        name: &Str,
    ) -> Result<Rc<TopicMetadata>, ClientError> {
        if let Some(topic) = self.client.known_topic(name) {
            return Ok(topic);
        }
        let old = self.client.metadata().borrow().topic(name).cloned();
        if let Some(topic) = old {
            self.chores.refresh_later(name);
            return Ok(topic);
        }
        let may_create = self.client.options().allow_auto_topic_creation;
        self.client.topic(name, may_create).await
    }

    /// Lets the sender have its turn now and then: a caller that never waits would fill the memory first.
    pub(super) async fn give_way(&self, size_bytes: usize) {
        let waiting_bytes = self.waiting_bytes.get() + size_bytes;
        self.waiting_bytes.set(waiting_bytes);
        if GIVE_WAY_BYTES <= waiting_bytes {
            self.waiting_bytes.set(0);
            self.client.net().yield_now().await;
        }
    }

    pub(super) fn append(&self, record: &ProducerRecord, partition: i32) -> Delivery {
        let net = self.client.net();
        let timestamp = record.timestamp.unwrap_or_else(|| net.wall_clock());
        let now = net.now();
        let appended = {
            let mut accumulator = self.accumulator.borrow_mut();
            accumulator.append(record, partition, timestamp, now)
        };
        if appended.has_closed {
            let mut partitioner = self.partitioner.borrow_mut();
            partitioner.on_batch_closed(&record.topic, partition);
        }
        if appended.is_news {
            self.chores.wake.notify();
        }
        appended.delivery
    }

    pub(super) async fn flush(&self) -> Result<(), ClientError> {
        let mark = self.accumulator.borrow_mut().flush();
        self.chores.wake.notify();
        let is_done = || {
            let is_settled = self.accumulator.borrow().is_settled(mark);
            (is_settled || self.is_stopped()).then_some(())
        };
        self.changed.until(is_done).await;
        self.first_failure.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// Sends what is due and possible; gives when to look again even if nothing happens.
    fn turn(self: &Rc<Self>) -> Option<Monotonic> {
        self.waiting_bytes.set(0);
        let now = self.client.net().now();
        let expired = self.accumulator.borrow_mut().expire(now);
        self.report(expired);
        if self.accumulator.borrow().wants_producer() {
            self.identify_later();
        }
        let slot_count = self.accumulator.borrow().slot_count();
        let first = self.turns.get().checked_rem(slot_count).unwrap_or(0);
        self.turns.set(self.turns.get().wrapping_add(1));
        let mut due: BTreeMap<i32, Vec<SlotId>> = BTreeMap::new();
        let mut next: Option<Monotonic> = None;
        for slot in (first..slot_count).chain(0..first) {
            let look_at = match self.accumulator.borrow().ready_at(slot) {
                Some(ready) if ready <= now => {
                    if let Some(leader) = self.leader_of(slot) {
                        due.entry(leader).or_default().push(slot);
                    }
                    None
                }
                later => later,
            };
            let expires = self.accumulator.borrow().expires_at(slot);
            next = next.into_iter().chain(look_at).chain(expires).min();
        }
        for (node_id, slots) in due {
            self.send_to(node_id, &slots, now);
        }
        next
    }

    /// The slot's leader; without one, metadata is asked for.
    fn leader_of(&self, slot: SlotId) -> Option<i32> {
        let accumulator = self.accumulator.borrow();
        let (topic, partition) = accumulator.partition_of(slot);
        self.chores.leader_of(topic, partition)
    }

    /// Sends batches of `slots` to their leader, as many requests as it may have.
    fn send_to(self: &Rc<Self>, node_id: i32, slots: &[SlotId], now: Monotonic) {
        let Some(connection) = self.chores.connection_to(node_id) else {
            return;
        };
        while self.in_flight_to(node_id) < self.options.max_in_flight.max(1) {
            let drained = self.drain(slots, now);
            if drained.is_empty() {
                return;
            }
            self.send(node_id, &connection, drained);
        }
    }

    fn in_flight_to(&self, node_id: i32) -> usize {
        self.in_flight.borrow().get(&node_id).copied().unwrap_or(0)
    }

    /// One batch of each slot at most, as many as fit into one request.
    fn drain(&self, slots: &[SlotId], now: Monotonic) -> Vec<Drained> {
        let mut batches = Vec::new();
        let mut size_bytes = 0;
        for &slot in slots {
            let drained = self.accumulator.borrow_mut().drain(slot, now);
            let Some(drained) = drained else { continue };
            if drained.was_open {
                let mut partitioner = self.partitioner.borrow_mut();
                partitioner.on_batch_closed(&drained.topic, drained.partition);
            }
            size_bytes += drained.bytes.len();
            batches.push(drained);
            if self.options.max_request_bytes <= size_bytes {
                break;
            }
        }
        batches
    }

    fn send(self: &Rc<Self>, node_id: i32, connection: &Connection<N>, batches: Vec<Drained>) {
        *self.in_flight.borrow_mut().entry(node_id).or_default() += 1;
        let (request, has_ids) = self.request(&batches);
        let version_max = match (&self.transaction, has_ids) {
            // From the next one on the broker would add partitions to the transaction by itself.
            (Some(_), _) => transaction::PRODUCE_VERSION_MAX,
            (None, true) => i16::MAX,
            (None, false) => PRODUCE_BY_ID_VERSION - 1,
        };
        let version = connection.version_up_to::<ProduceRequest>(version_max);
        let timeout_ms = self.client.options().request_timeout_ms;
        let sender = Rc::clone(self);
        if self.options.acks == Acks::None {
            let told = version.and_then(|version| connection.tell(version, &request));
            let connection = connection.clone();
            self.client.net().spawn(TaskClass::Request, async move {
                let written = match told {
                    Ok(()) => connection.written().await,
                    Err(error) => Err(error),
                };
                sender.on_written(node_id, batches, written);
            });
            return;
        }
        let reply = version.and_then(|version| connection.start(version, &request, timeout_ms));
        self.client.net().spawn(TaskClass::Request, async move {
            let answer = answer(reply).await;
            sender.on_answer(node_id, batches, answer);
        });
    }

    /// The request, and whether all of its topics have ids.
    fn request(&self, batches: &[Drained]) -> (ProduceRequest, bool) {
        let metadata = self.client.metadata().borrow();
        let mut topics: Vec<TopicProduceData> = Vec::new();
        for batch in batches {
            let data = PartitionProduceData {
                index: batch.partition,
                records: Some(Records::Bytes(batch.bytes.clone())),
            };
            // Slots of a topic were made at about the same time, but need not be neighbours.
            match topics.iter_mut().find(|topic| topic.name == batch.topic) {
                Some(topic) => topic.partition_data.push(data),
                None => topics.push(TopicProduceData {
                    name: batch.topic.clone(),
                    topic_id: metadata
                        .topic(&batch.topic)
                        .map_or(TopicId::ZERO, |topic| topic.topic_id),
                    partition_data: vec![data],
                }),
            }
        }
        let has_ids = topics.iter().all(|topic| !topic.topic_id.is_zero());
        let timeout_ms = self.client.options().request_timeout_ms;
        let request = ProduceRequest {
            transactional_id: self.transaction.as_ref().map(|it| it.id().clone()),
            acks: self.options.acks.wire(),
            timeout_ms: i32::try_from(timeout_ms).unwrap_or(i32::MAX),
            topic_data: topics,
        };
        (request, has_ids)
    }

    /// Batches that nobody acknowledges have left, or not.
    fn on_written(
        self: &Rc<Self>,
        node_id: i32,
        batches: Vec<Drained>,
        written: Result<(), ClientError>,
    ) {
        let ack = BatchAck {
            base_offset: None,
            log_append_time: None,
        };
        self.on_settled(node_id, batches, |_, _| match &written {
            Ok(()) => Verdict::Acked(ack),
            Err(error) => verdict_of_failure(error),
        });
    }

    fn on_answer(
        self: &Rc<Self>,
        node_id: i32,
        batches: Vec<Drained>,
        answer: Result<ProduceResponse, ClientError>,
    ) {
        match answer {
            Ok(response) => {
                self.learn_nodes(&response);
                let ids: Vec<TopicId> = {
                    let metadata = self.client.metadata().borrow();
                    let id = |batch: &Drained| {
                        let topic = metadata.topic(&batch.topic);
                        topic.map_or(TopicId::ZERO, |topic| topic.topic_id)
                    };
                    batches.iter().map(id).collect()
                };
                let mut ids = ids.into_iter();
                self.on_settled(node_id, batches, |sender, batch| {
                    let topic_id = ids.next().unwrap_or(TopicId::ZERO);
                    match find(&response, batch, topic_id) {
                        Some(outcome) => sender.verdict(batch, outcome),
                        None => Verdict::Retry(ClientError::Refused {
                            operation: "producing to",
                            object: format!("{}-{}", batch.topic, batch.partition).into(),
                            error: ErrorCode::UnknownTopicOrPartition,
                            message: None,
                        }),
                    }
                });
            }
            Err(error) => {
                for batch in &batches {
                    self.chores.refresh_later(&batch.topic);
                }
                self.on_settled(node_id, batches, |_, _| verdict_of_failure(&error));
            }
        }
    }

    /// What the broker's answer means for one batch; also learns who leads instead.
    fn verdict(self: &Rc<Self>, batch: &Drained, outcome: &PartitionProduceResponse) -> Verdict {
        let object = || format!("{}-{}", batch.topic, batch.partition);
        let code = outcome.error_code;
        let message = outcome.error_message.clone();
        let Err(refusal) = ClientError::refused("producing to", object(), code, message) else {
            return Verdict::Acked(BatchAck {
                base_offset: Some(outcome.base_offset).filter(|offset| *offset >= 0),
                log_append_time: Some(outcome.log_append_time_ms)
                    .filter(|time| *time >= 0)
                    .map(Timestamp),
            });
        };
        let error = refusal
            .error_code()
            .unwrap_or(ErrorCode::UnknownServerError);
        if retry::is_stale_metadata(error) {
            let leader = &outcome.current_leader;
            let is_known = self.client.metadata().borrow_mut().learn_leader(
                &batch.topic,
                batch.partition,
                leader.leader_id,
                leader.leader_epoch,
            );
            if !is_known {
                self.chores.refresh_later(&batch.topic);
            }
        }
        let is_oldest = self.accumulator.borrow().is_oldest(batch);
        let verdict = sequence::judge(error, refusal, self.options.is_idempotent(), is_oldest);
        // Only the coordinator gives epochs to a transactional producer.
        if self.transaction.is_some()
            && let Verdict::RetryInNewEpoch(error) = verdict
        {
            return Verdict::Fail(error);
        }
        verdict
    }

    /// Settles the batches of one request.
    fn on_settled(
        self: &Rc<Self>,
        node_id: i32,
        batches: Vec<Drained>,
        mut judge: impl FnMut(&Rc<Self>, &Drained) -> Verdict,
    ) {
        if let Some(count) = self.in_flight.borrow_mut().get_mut(&node_id) {
            *count -= 1;
        }
        let now = self.client.net().now();
        let mut failures = Vec::new();
        for batch in batches {
            let mut verdict = judge(self, &batch);
            let is_failed = |transaction: &Transaction<N>| transaction.has_failed();
            if (self.is_stopped() || self.transaction.as_ref().is_some_and(is_failed))
                && let Verdict::Retry(error) | Verdict::RetryInNewEpoch(error) = verdict
            {
                verdict = Verdict::Fail(error);
            }
            let random = self.client.random();
            let failure = {
                let mut accumulator = self.accumulator.borrow_mut();
                accumulator.settle(batch, verdict, now, random)
            };
            failures.extend(failure);
        }
        self.report(failures);
        self.chores.wake.notify();
        self.changed.wake_all();
    }

    /// Keeps the first failure for the next flush.
    fn report(&self, failures: Vec<ClientError>) {
        let Some(first) = failures.into_iter().next() else {
            return;
        };
        if let Some(transaction) = &self.transaction {
            // None of it will be committed: the rest need not leave.
            transaction.fail();
            self.accumulator.borrow_mut().fail_all(&first);
        }
        self.first_failure.borrow_mut().get_or_insert(first);
        self.changed.wake_all();
    }

    /// KIP-951: an answer that names another leader says where it is, too.
    fn learn_nodes(&self, response: &ProduceResponse) {
        let mut metadata = self.client.metadata().borrow_mut();
        for node in &response.node_endpoints {
            let address = Address::new(node.host.clone(), metadata::port(node.port));
            metadata.learn_broker(node.node_id, address, node.rack.clone());
        }
    }

    /// Asks for a producer id beside, until there is one or it is refused for good.
    fn identify_later(self: &Rc<Self>) {
        if self.is_identifying.replace(true) {
            return;
        }
        let sender = Rc::clone(self);
        self.client.net().spawn(TaskClass::Request, async move {
            let mut backoff = sender.client.retry_backoff();
            while !sender.is_stopped() {
                match sender.identify().await {
                    Ok(producer) => {
                        sender.accumulator.borrow_mut().set_producer(producer);
                        break;
                    }
                    Err(error) if error.is_retriable() => {
                        let net = sender.client.net();
                        backoff.failed(net.now(), sender.client.random());
                        net.sleep_until(backoff.not_before()).await;
                    }
                    Err(error) => {
                        let failures = sender.accumulator.borrow_mut().fail_all(&error);
                        sender.report(failures);
                        break;
                    }
                }
            }
            sender.is_identifying.set(false);
            sender.chores.wake.notify();
        });
    }

    async fn identify(&self) -> Result<Identity, ClientError> {
        let request = InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: i32::MAX,
            ..InitProducerIdRequest::default()
        };
        let call = self.client.call::<_, InitProducerIdResponse>(&request);
        let after_ms = self.client.options().operation_timeout_ms;
        let deadline = self.client.net().now().plus_ms(after_ms);
        let response = before(self.client.net(), deadline, call).await;
        let response = response.unwrap_or(Err(ClientError::TimedOut {
            operation: "asking for",
            object: Str::new_static("a producer id"),
            after_ms,
        }))?;
        ClientError::refused("asking for", "a producer id", response.error_code, None)?;
        Ok(Identity {
            producer_id: ProducerId(response.producer_id),
            epoch: ProducerEpoch(response.producer_epoch),
        })
    }
}

async fn answer(
    reply: Result<Reply<ProduceResponse>, ClientError>,
) -> Result<ProduceResponse, ClientError> {
    reply?.await
}

/// The fate of a batch whose request got no answer.
fn verdict_of_failure(error: &ClientError) -> Verdict {
    if error.is_retriable() || matches!(error, ClientError::Closed { .. }) {
        Verdict::Retry(error.clone())
    } else {
        Verdict::Fail(error.clone())
    }
}

/// The outcome of a batch; topics go by name or by id, as they were asked.
fn find<'a>(
    response: &'a ProduceResponse,
    batch: &Drained,
    topic_id: TopicId,
) -> Option<&'a PartitionProduceResponse> {
    let is_asked = |topic: &&pelton_protocol::message::produce::TopicProduceResponse| {
        if topic.topic_id.is_zero() {
            topic.name == batch.topic
        } else {
            topic.topic_id == topic_id
        }
    };
    let mut topics = response.responses.iter().filter(is_asked);
    topics.find_map(|topic| {
        let mut outcomes = topic.partition_responses.iter();
        outcomes.find(|outcome| outcome.index == batch.partition)
    })
}
