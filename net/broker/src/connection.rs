//! One client connection: one task that receives, dispatches, and sends answers in order.
//!
//! Invariants:
//! 1. Every whole frame in the buffer is dispatched before the task waits, so the batches of a turn go to disk together and their
//!    answers leave with one write.
//! 2. Produce runs ahead of Produce; any other request begins when all before it are answered and is alone (machine: `Pipeline`).
//! 3. While requests are under way the task goes on receiving and sends each answer as soon as its turn comes.
//! 4. Bytes that are no request close this connection and touch nothing else.
//! 5. What it holds in memory is granted first: the parts of a frame as it grows, a Produce request while it is under way. An answer
//!    is counted while it is sent, and while there are too many of them no other is begun. Who waits for memory receives nothing.
//! 6. After so many requests in a row the rest of the shard has its turn.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use bytes::BytesMut;
use pelton_machine::budget::{Admission, HolderId, Pool, Reserved};
use pelton_machine::connection::{
    Frame, FrameReader, Outcome, Outgoing, Pipeline, RequestClass, Room, Stall, Step, Ticket,
    Traffic,
};
use pelton_model::limits::{ANSWER_FREE_BYTES_MAX, ANSWER_SLICES_KEPT_MAX, REQUESTS_RUN_MAX};
use pelton_model::slice::Slice;
use pelton_model::task::Notify;
use pelton_model::{Monotonic, ShardId};
use pelton_protocol::api::ApiKey;
use pelton_transport::net::{Connection, Detached, Net};

mod accept;

pub(crate) use self::accept::{Arrived, accept, start};
use crate::dispatch::{self, Answer, Begun, Request};
use crate::env::{Env, Socket};
use crate::handler::produce::ProduceAnswer;
use crate::metrics::timeline::{Begin, Timeline};
use crate::shard::Shard;
use crate::shard::gate::Permit;
use crate::shard::message::WatchId;
use crate::shard::migration::Adoption;
use crate::shard::topics::TopicEntry;

/// The length before each frame.
const FRAME_PREFIX_BYTES: usize = 4;

/// What the shard knows of a connection.
pub(crate) struct Registered<E: Env> {
    pub(crate) socket: Socket<E>,
    /// Its place among the connections of the process.
    permit: Cell<Option<Permit>>,
    /// Where its requests go.
    traffic: Cell<Traffic>,
    pub(crate) last_active: Cell<Monotonic>,
    /// When to close it unless its frame makes progress.
    pub(crate) stall: Cell<Option<Stall>>,
    /// Wakes the connection's task: an answer is complete, memory is granted, the shard stops.
    pub(crate) wake: Rc<Notify>,
    /// It waits for memory.
    pub(crate) is_waiting: Cell<bool>,
    /// The memory that it waited for is reserved.
    is_granted: Cell<bool>,
    /// Memory of the answers that are being sent; 0 when they need none to speak of, or none are.
    pub(crate) answer_bytes: Cell<usize>,
    /// What its peer had taken when somebody last looked, and since when.
    pub(crate) sent_bytes: Cell<u64>,
    pub(crate) sent_at: Cell<Monotonic>,
    /// The fetch that waits for records.
    pub(crate) waiting_fetch: Cell<Option<WatchId>>,
    /// The peer has sent nothing for a while: the receive buffer is to be given back.
    pub(crate) is_silent: Cell<bool>,
    /// We have closed the socket: nobody is there to be answered.
    pub(crate) is_closed: Cell<bool>,
}

impl<E: Env> Registered<E> {
    /// What it waits for is reserved.
    pub(crate) fn grant(&self) {
        self.is_waiting.set(false);
        self.is_granted.set(true);
        self.wake.notify();
    }
}

/// What handlers know of the connection whose request they serve.
pub(crate) struct Client<E: Env> {
    pub(crate) shard: Rc<Shard<E>>,
    pub(crate) registered: Rc<Registered<E>>,
    /// When its requests were where.
    pub(crate) timeline: Timeline,
    /// Which of the configured listeners it came through.
    pub(crate) listener_index: usize,
    id: HolderId,
}

/// Why a connection ended.
#[derive(Debug)]
enum End {
    /// The peer closed, or we did after an answer that demands it.
    Closed,
    /// Bytes that are no request.
    Malformed(String),
    /// The socket failed.
    Io(io::Error),
    /// The shard stops.
    Stopping,
    /// Another shard serves it from now on.
    Moves {
        to: ShardId,
        socket: Detached,
        unread: BytesMut,
    },
}

/// A Produce request whose batches are under way.
struct InFlight {
    ticket: Ticket,
    /// The timeline's number of it.
    number: u64,
    answer: ProduceAnswer,
    reserved: Reserved,
}

struct ConnectionTask<E: Env> {
    client: Client<E>,
    reader: FrameReader,
    pipeline: Pipeline<Answer>,
    in_flight: Vec<InFlight>,
    out: Vec<Slice>,
    /// What a request has reserved that has not begun yet.
    beginning: Reserved,
    /// Requests since the rest of the shard had its turn.
    run: u32,
}

impl<E: Env> ConnectionTask<E> {
    fn new(client: Client<E>) -> Self {
        let frame_bytes_max = client.shard.config.socket_request_max_bytes;
        Self {
            client,
            reader: FrameReader::new(frame_bytes_max),
            pipeline: Pipeline::default(),
            in_flight: Vec::new(),
            out: Vec::new(),
            beginning: Reserved::default(),
            run: 0,
        }
    }

    async fn run(&mut self, unread: BytesMut) -> End {
        let mut buffer = unread;
        loop {
            if let Err(end) = self.dispatch_all(&mut buffer).await {
                return end;
            }
            match self.leave_if_due().await {
                Ok(None) => {}
                Ok(Some((to, socket))) => {
                    // A copy: the buffer's memory is this shard's room.
                    let unread = BytesMut::from(&buffer[..]);
                    return End::Moves { to, socket, unread };
                }
                Err(end) => return end,
            }
            self.client
                .registered
                .stall
                .set(self.reader.stall_deadline());
            let was_empty = buffer.is_empty();
            match self.receive(&mut buffer).await {
                Ok(None) => {
                    let room = self.reader.on_silence(&mut buffer);
                    self.client.shard.release_from(Pool::Room, room);
                }
                Ok(Some(0)) => {
                    // What was received whole is finished; its answers find nobody, or a half-closed peer.
                    return self.settle_all().await.err().unwrap_or(End::Closed);
                }
                Ok(Some(received)) => {
                    let now = self.client.shard.net.now();
                    let room = self.reader.on_read(received, now);
                    self.adapt(room);
                    self.client.timeline.on_received(now, was_empty);
                    self.client.registered.is_silent.set(false);
                    self.client.registered.last_active.set(now);
                }
                Err(end) => return end,
            }
        }
    }

    /// Dispatches every whole frame of `buffer`.
    async fn dispatch_all(&mut self, buffer: &mut BytesMut) -> Result<(), End> {
        loop {
            match self.reader.next(buffer) {
                Ok(Step::Frame(frame)) => self.dispatch(frame).await?,
                Ok(Step::Read) => return Ok(()),
                Ok(Step::Reserve { pool, bytes }) => self.reserve_for_frame(pool, bytes).await?,
                Err(refused) => {
                    self.settle_all().await?;
                    return Err(End::Malformed(format!("{refused:?}")));
                }
            }
        }
    }

    /// Gives the socket up when the connection's traffic goes to another shard, which takes it. What is under way is answered
    /// first: a peer that always has requests under way would never be found without.
    async fn leave_if_due(&mut self) -> Result<Option<(ShardId, Detached)>, End> {
        let registered = Rc::clone(&self.client.registered);
        let mut traffic = registered.traffic.get();
        if !traffic.is_telling() || !self.reader.holds_nothing() {
            return Ok(None);
        }
        let shard = Rc::clone(&self.client.shard);
        let window_ms = u64::try_from(shard.config.connections_follow_window_ms).unwrap_or(0);
        let verdict = traffic.verdict(shard.id, window_ms, shard.net.now());
        registered.traffic.set(traffic);
        let Some(to) = verdict.filter(|_| window_ms > 0 && shard.may_hand_away()) else {
            return Ok(None);
        };
        self.settle_all().await?;
        if shard.is_taken_by(to).await
            && !registered.is_closed.get()
            && let Ok(socket) = registered.socket.detach()
        {
            return Ok(Some((to, socket)));
        }
        traffic.rest(shard.net.now());
        registered.traffic.set(traffic);
        Ok(None)
    }

    async fn dispatch(&mut self, frame: Frame) -> Result<(), End> {
        let Frame { bytes, reserved } = frame;
        let frame_bytes = bytes.len();
        self.beginning = reserved;
        let request = match Request::parse(bytes, self.client.shard.metrics.is_on) {
            Ok(request) => request,
            Err(problem) => {
                self.settle_all().await?;
                return Err(End::Malformed(problem));
            }
        };
        let class = request.class();
        while !self.pipeline.admits(class) {
            self.settle_some().await?;
        }
        // The frame is here: how long its request takes is no matter of its peer's.
        self.client.registered.stall.set(None);
        match class {
            RequestClass::Produce => self.make_room_for_produce(frame_bytes).await?,
            RequestClass::Barrier => self.await_room_for_answer().await?,
        }
        if self.client.shard.is_stopping.get() {
            self.settle_all().await?;
            return Err(End::Stopping);
        }
        self.pause().await;
        let ticket = self.pipeline.begin(class);
        let number = self.client.on_begun(&request);
        let begun = dispatch::begin(&self.client, request).await;
        let reserved = std::mem::take(&mut self.beginning);
        match begun {
            Begun::Produce(answer) => {
                self.in_flight.push(InFlight {
                    ticket,
                    number,
                    answer,
                    reserved,
                });
                Ok(())
            }
            Begun::Done(outcome) => {
                self.client.on_done(number, &outcome);
                self.client.shard.release(reserved);
                self.pipeline.finish(ticket, outcome);
                self.send_ready().await
            }
        }
    }

    /// Lets others have their turn after so many requests without a wait: a peer that always has more is not alone. A batch of a
    /// peer that waits for its answers stays whole, and leaves with one write.
    async fn pause(&mut self) {
        self.run += 1;
        if self.run == REQUESTS_RUN_MAX {
            self.run = 0;
            self.client.shard.net.yield_now().await;
        }
    }

    /// Takes or gives back room for reads.
    fn adapt(&mut self, room: Room) {
        let shard = &self.client.shard;
        match room {
            Room::Keep => {}
            Room::Grow(bytes) => {
                if shard.memory.try_reserve(Pool::Room, bytes) {
                    self.reader.on_room(bytes);
                }
            }
            Room::GiveBack(bytes) => shard.release_from(Pool::Room, bytes),
        }
    }

    /// Waits until the shard has memory for the next part of a frame.
    async fn reserve_for_frame(&mut self, pool: Pool, bytes: usize) -> Result<(), End> {
        let waited = self.reserve(pool, bytes).await;
        // Also when the wait ended in an error: what was granted must be given back.
        if self.client.registered.is_granted.get() {
            let now = self.client.shard.net.now();
            self.reader.on_reserved(pool, bytes, now);
        }
        waited
    }

    /// Waits until one more Produce request may be under way.
    async fn make_room_for_produce(&mut self, frame_bytes: usize) -> Result<(), End> {
        let running = frame_bytes.saturating_sub(self.beginning.frame_bytes());
        for (pool, amount) in [(Pool::Requests, 1), (Pool::Running, running)] {
            if self.client.shard.memory.try_reserve(pool, amount) {
                self.beginning.add(pool, amount);
                continue;
            }
            let waited = self.reserve(pool, amount).await;
            if self.client.registered.is_granted.get() {
                self.beginning.add(pool, amount);
            }
            waited?;
        }
        Ok(())
    }

    /// Waits while answers hold all the memory that they may.
    async fn await_room_for_answer(&mut self) -> Result<(), End> {
        if !self.client.shard.memory.are_answers_crowded() {
            return Ok(());
        }
        let waited = self.reserve(Pool::Answers, 1).await;
        if self.client.registered.is_granted.get() {
            // It was a place in line; the answer is counted when it is there.
            self.client.shard.release_from(Pool::Answers, 1);
        }
        waited
    }

    /// Waits until the shard has `amount` more, sending answers meanwhile. Whether it was granted, also when the wait ended in an
    /// error, says `is_granted`.
    async fn reserve(&mut self, pool: Pool, amount: usize) -> Result<(), End> {
        let shard = Rc::clone(&self.client.shard);
        let registered = Rc::clone(&self.client.registered);
        registered.is_granted.set(false);
        registered.is_waiting.set(true);
        let admission = shard.reserve(self.client.id, pool, amount);
        if admission == Admission::Granted {
            registered.is_waiting.set(false);
            registered.is_granted.set(true);
            return Ok(());
        }
        self.await_grant(&registered).await
    }

    async fn await_grant(&mut self, registered: &Registered<E>) -> Result<(), End> {
        // Whoever waits for memory has nothing to show for it yet.
        registered.stall.set(None);
        while !registered.is_granted.get() {
            self.send_ready().await?;
            if self.client.shard.is_stopping.get() {
                self.settle_all().await?;
                return Err(End::Stopping);
            }
            registered.wake.notified().await;
        }
        Ok(())
    }

    /// Receives more, sending answers as they become ready; `None` when the peer turns out to be silent.
    async fn receive(&mut self, buffer: &mut BytesMut) -> Result<Option<usize>, End> {
        let registered = Rc::clone(&self.client.registered);
        let was_silent = registered.is_silent.get();
        let mut receiving = pin!(registered.socket.recv(buffer));
        loop {
            let received = {
                let mut woken = pin!(registered.wake.notified());
                let run = &mut self.run;
                poll_fn(|context| {
                    // An answer that is ready leaves before more is taken in.
                    if woken.as_mut().poll(context).is_ready() {
                        return Poll::Ready(None);
                    }
                    let received = Pin::new(&mut receiving).poll(context).map(Some);
                    if received.is_pending() {
                        *run = 0;
                    }
                    received
                })
                .await
            };
            match received {
                Some(Ok(bytes)) => return Ok(Some(bytes)),
                Some(Err(error)) => return Err(End::Io(error)),
                None => self.send_ready().await?,
            }
            if self.client.shard.is_stopping.get() && self.pipeline.is_idle() {
                return Err(End::Stopping);
            }
            if registered.is_silent.get() && !was_silent {
                return Ok(None);
            }
        }
    }

    /// Waits for at least one wake-up and sends what is ready.
    async fn settle_some(&mut self) -> Result<(), End> {
        self.client.registered.wake.notified().await;
        self.send_ready().await
    }

    /// Waits until every request is answered.
    async fn settle_all(&mut self) -> Result<(), End> {
        self.send_ready().await?;
        while !self.pipeline.is_idle() {
            self.settle_some().await?;
        }
        Ok(())
    }

    /// Finishes what is complete and sends every answer whose turn has come, with one call.
    async fn send_ready(&mut self) -> Result<(), End> {
        self.finish_complete();
        let mut is_closing = false;
        while let Some(outgoing) = self.pipeline.pop() {
            match outgoing {
                Outgoing::Answer(answer) => {
                    let before = self.out.len();
                    answer.push(&self.client, &mut self.out);
                    let pushed = self.out[before..].iter().map(Slice::size_bytes);
                    self.client.timeline.on_popped(pushed.sum());
                }
                Outgoing::Close => {
                    is_closing = true;
                    break;
                }
            }
        }
        if !self.out.is_empty() {
            let registered = &self.client.registered;
            let shard = Rc::clone(&self.client.shard);
            let bytes = memory_of(&self.out);
            if bytes <= ANSWER_FREE_BYTES_MAX {
                registered
                    .socket
                    .send(&mut self.out)
                    .await
                    .map_err(End::Io)?;
            } else {
                shard.memory.charge_answer(bytes);
                registered.answer_bytes.set(bytes);
                registered.sent_at.set(shard.net.now());
                let sent = registered.socket.send(&mut self.out).await;
                registered.answer_bytes.set(0);
                shard.release_from(Pool::Answers, bytes);
                sent.map_err(End::Io)?;
            }
            if ANSWER_SLICES_KEPT_MAX < self.out.capacity() {
                self.out = Vec::new();
            }
            let now = shard.net.now();
            registered.last_active.set(now);
            registered.is_silent.set(false);
            self.client.timeline.on_sent(&shard.metrics, now);
        }
        if is_closing { Err(End::Closed) } else { Ok(()) }
    }

    fn finish_complete(&mut self) {
        let mut index = 0;
        while index < self.in_flight.len() {
            if !self.in_flight[index].answer.is_complete() {
                index += 1;
                continue;
            }
            let InFlight {
                ticket,
                number,
                answer,
                reserved,
            } = self.in_flight.remove(index);
            self.client.shard.release(reserved);
            self.client.on_decided(number, &answer);
            let outcome = if answer.is_silent() {
                if answer.has_failed() {
                    Outcome::Close
                } else {
                    Outcome::Silent
                }
            } else {
                Outcome::Answer(Answer::Produce(answer))
            };
            self.pipeline.finish(ticket, outcome);
        }
    }

    fn end(&mut self, end: End) {
        let registered = Rc::clone(&self.client.registered);
        let peer = registered.socket.peer_addr();
        self.client
            .shard
            .connections
            .borrow_mut()
            .remove(&self.client.id);
        self.give_back();
        match end {
            End::Closed | End::Stopping => tracing::debug!(%peer, "connection closed"),
            End::Io(error) => tracing::debug!(%peer, %error, "connection lost"),
            End::Malformed(problem) => self.client.tell_malformed(&problem),
            End::Moves { to, socket, unread } => {
                let permit = registered.permit.take();
                let adoption = Adoption {
                    socket,
                    unread,
                    listener_index: self.client.listener_index,
                    id: self.client.id,
                    permit: permit.expect("only this place takes it"),
                    traffic: registered.traffic.get(),
                };
                self.client.shard.hand_away(to, adoption);
                return;
            }
        }
        registered.socket.shutdown();
    }

    /// Gives back all memory that is reserved.
    fn give_back(&mut self) {
        let shard = &self.client.shard;
        shard.release(self.reader.take_reserved());
        shard.release(std::mem::take(&mut self.beginning));
        shard.release_from(Pool::Room, self.reader.take_room());
        for in_flight in std::mem::take(&mut self.in_flight) {
            shard.release(in_flight.reserved);
        }
        if self.client.registered.is_waiting.get() {
            shard.withdraw(self.client.id);
        }
    }
}

/// The memory that answers hold; ranges of files hold none.
fn memory_of(slices: &[Slice]) -> usize {
    let in_memory = |slice: &Slice| match slice {
        Slice::Bytes(bytes) => bytes.len(),
        Slice::File(_) => 0,
    };
    slices.iter().map(in_memory).sum()
}

impl<E: Env> Client<E> {
    /// The other end of the connection.
    pub(crate) fn peer_addr(&self) -> SocketAddr {
        self.registered.socket.peer_addr()
    }

    /// Takes note that a request asks partitions of `owner`.
    pub(crate) fn note_owner(&self, owner: ShardId) {
        let mut traffic = self.registered.traffic.get();
        traffic.note(owner);
        self.registered.traffic.set(traffic);
    }

    /// Logs, not too often, why this connection is closed.
    pub(crate) fn tell_malformed(&self, problem: &str) {
        self.shard.metrics.counters.connections_malformed.add(1);
        if let Some(untold) = self.shard.repeats.malformed.tell(self.shard.net.now()) {
            let peer = self.peer_addr();
            tracing::info!(%peer, problem, untold, "closing a connection: not a request");
        }
    }

    /// What becomes of bytes that are no request.
    pub(crate) fn refuse(&self, problem: &str) -> Outcome<Answer> {
        self.tell_malformed(problem);
        Outcome::Close
    }

    /// The request that is handled concerns this topic.
    pub(crate) fn on_topic(&self, api: ApiKey, topic: &TopicEntry) {
        let metrics = &self.shard.metrics;
        if metrics.is_on {
            let now = self.registered.last_active.get();
            self.timeline.on_topic(&topic.series(metrics, api, now));
        }
    }

    /// A request begins; returns the timeline's number of it.
    fn on_begun(&self, request: &Request) -> u64 {
        let begin = Begin {
            api: request.api_code(),
            correlation_id: request.correlation_id,
            client_id: request.client_id.as_deref(),
            bytes: request.frame.len() + FRAME_PREFIX_BYTES,
        };
        self.timeline.begin(&self.shard.metrics, &begin)
    }

    /// A request other than Produce is done.
    fn on_done(&self, number: u64, outcome: &Outcome<Answer>) {
        let Self {
            shard, timeline, ..
        } = self;
        if shard.metrics.is_on {
            timeline.on_handled(shard.net.now());
            let is_silent = !matches!(outcome, Outcome::Answer(_));
            timeline.on_finished(&shard.metrics, number, None, is_silent);
        }
    }

    /// The batches of a Produce request are decided.
    fn on_decided(&self, number: u64, answer: &ProduceAnswer) {
        let Self {
            shard, timeline, ..
        } = self;
        if shard.metrics.is_on {
            let mut stages = answer.stages();
            if let Some((arrived, _)) = stages.mesh {
                stages.mesh = Some((arrived, shard.net.now()));
            }
            timeline.on_finished(&shard.metrics, number, Some(stages), answer.is_silent());
        }
    }
}

impl<E: Env> Shard<E> {
    /// Closes a connection's socket; its task finds out, also when a fetch of it waits for records.
    pub(crate) fn close_connection(&self, connection: &Registered<E>) {
        connection.is_closed.set(true);
        connection.socket.shutdown();
        if let Some(watch) = connection.waiting_fetch.get() {
            self.wake_fetches(&[watch]);
        }
    }
}
