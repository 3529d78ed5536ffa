//! One client connection: one task that receives, dispatches, and sends answers in order.
//!
//! Invariants:
//! 1. Every whole frame in the buffer is dispatched before the task waits, so the batches of a turn go to disk together and their
//!    answers leave with one write.
//! 2. Produce runs ahead of Produce; any other request begins when all before it are answered and is alone (machine: `Pipeline`).
//! 3. While requests are under way the task goes on receiving and sends each answer as soon as its turn comes.
//! 4. Bytes that are no request close this connection and touch nothing else.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use bytes::BytesMut;
use pelton_machine::budget::{Admission, HolderId, Pool, Reserved};
use pelton_machine::connection::{Frame, FrameReader, Outcome, Outgoing, Pipeline, Step, Ticket};
use pelton_model::Monotonic;
use pelton_model::limits::ACCEPT_BACKOFF_MS;
use pelton_model::slice::Slice;
use pelton_model::task::Notify;
use pelton_protocol::api::ApiKey;
use pelton_transport::net::{Connection, Listener, Net, TaskClass};

use crate::dispatch::{self, Answer, Begun, Request};
use crate::env::{Env, Socket};
use crate::handler::produce::ProduceAnswer;
use crate::metrics::timeline::{Begin, Timeline};
use crate::shard::Shard;
use crate::shard::message::WatchId;
use crate::shard::topics::TopicEntry;

/// The length before each frame.
const FRAME_PREFIX_BYTES: usize = 4;

/// What the shard knows of a connection.
pub(crate) struct Registered<E: Env> {
    pub(crate) socket: Socket<E>,
    pub(crate) last_active: Cell<Monotonic>,
    /// When to close it unless a large frame makes progress.
    pub(crate) stall_deadline: Cell<Option<Monotonic>>,
    /// Wakes the connection's task: an answer is complete, memory is granted, the shard stops.
    pub(crate) wake: Rc<Notify>,
    /// The memory that the connection waited for is reserved.
    pub(crate) is_granted: Cell<bool>,
    /// The fetch that waits for records.
    pub(crate) waiting_fetch: Cell<Option<WatchId>>,
    /// The peer has sent nothing for a while: the receive buffer is to be given back.
    pub(crate) is_silent: Cell<bool>,
    /// We have closed the socket: nobody is there to be answered.
    pub(crate) is_closed: Cell<bool>,
}

/// Accepts connections of one listener until the shard stops.
pub(crate) async fn accept<E: Env>(
    shard: Rc<Shard<E>>,
    listener: <E::Net as Net>::Listener,
    listener_index: usize,
) {
    let stop = shard.listener_stop();
    loop {
        let accepted = {
            let mut accepting = pin!(listener.accept());
            let mut stopping = pin!(stop.notified());
            poll_fn(|context| {
                if stopping.as_mut().poll(context).is_ready() {
                    return Poll::Ready(None);
                }
                accepting.as_mut().poll(context).map(Some)
            })
            .await
        };
        match accepted {
            None => return,
            Some(Ok(socket)) => start(&shard, socket, listener_index),
            Some(Err(error)) => {
                if let Some(untold) = shard.repeats.accept.tell(shard.net.now()) {
                    tracing::warn!(%error, untold, "cannot accept a connection");
                }
                shard
                    .net
                    .sleep_until(shard.net.now().plus_ms(ACCEPT_BACKOFF_MS))
                    .await;
            }
        }
    }
}

fn start<E: Env>(shard: &Rc<Shard<E>>, socket: Socket<E>, listener_index: usize) {
    if shard.is_stopping.get() || shard.connections.borrow().len() >= shard.connections_max {
        shard.metrics.counters.connections_refused.add(1);
        tracing::debug!(peer = %socket.peer_addr(), "refusing a connection");
        return;
    }
    shard.metrics.counters.connections_accepted.add(1);
    let id = HolderId(shard.next_connection.get());
    shard.next_connection.set(id.0 + 1);
    let registered = Rc::new(Registered {
        socket,
        last_active: Cell::new(shard.net.now()),
        stall_deadline: Cell::new(None),
        wake: Rc::new(Notify::default()),
        is_granted: Cell::new(false),
        waiting_fetch: Cell::new(None),
        is_silent: Cell::new(false),
        is_closed: Cell::new(false),
    });
    shard
        .connections
        .borrow_mut()
        .insert(id, Rc::clone(&registered));
    let client = Client {
        timeline: Timeline::new(&shard.metrics, registered.last_active.get()),
        shard: Rc::clone(shard),
        registered,
        listener_index,
        id,
    };
    shard.net.clone().spawn(TaskClass::Request, async move {
        let mut task = ConnectionTask::new(client);
        let end = task.run().await;
        task.end(&end);
    });
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
        }
    }

    async fn run(&mut self) -> End {
        let mut buffer = BytesMut::new();
        loop {
            if let Err(end) = self.dispatch_all(&mut buffer).await {
                return end;
            }
            self.client
                .registered
                .stall_deadline
                .set(self.reader.stall_deadline());
            let was_empty = buffer.is_empty();
            match self.receive(&mut buffer).await {
                Ok(None) => self.reader.on_silence(&mut buffer),
                Ok(Some(0)) => {
                    // What was received whole is finished; its answers find nobody, or a half-closed peer.
                    return self.settle_all().await.err().unwrap_or(End::Closed);
                }
                Ok(Some(received)) => {
                    let now = self.client.shard.net.now();
                    self.reader.on_read(received, now);
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
                Ok(Step::Reserve { pool, bytes }) => self.reserve(pool, bytes).await?,
                Err(refused) => {
                    self.settle_all().await?;
                    return Err(End::Malformed(format!("{refused:?}")));
                }
            }
        }
    }

    async fn dispatch(&mut self, frame: Frame) -> Result<(), End> {
        let Frame { bytes, reserved } = frame;
        let request = match Request::parse(bytes) {
            Ok(request) => request,
            Err(problem) => {
                self.settle_all().await?;
                self.client.release(reserved);
                return Err(End::Malformed(problem));
            }
        };
        let class = request.class();
        while !self.pipeline.admits(class) {
            self.settle_some().await?;
        }
        if self.client.shard.is_stopping.get() {
            self.client.release(reserved);
            self.settle_all().await?;
            return Err(End::Stopping);
        }
        // The frame is here: how long its request takes is no matter of its peer's.
        self.client.registered.stall_deadline.set(None);
        let ticket = self.pipeline.begin(class);
        let number = self.client.on_begun(&request);
        match dispatch::begin(&self.client, request).await {
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
                self.client.release(reserved);
                self.pipeline.finish(ticket, outcome);
                self.send_ready().await
            }
        }
    }

    /// Waits until the shard's budget has `bytes` more, sending answers meanwhile.
    async fn reserve(&mut self, pool: Pool, bytes: usize) -> Result<(), End> {
        let shard = Rc::clone(&self.client.shard);
        let registered = Rc::clone(&self.client.registered);
        registered.is_granted.set(false);
        let admission = shard
            .budget
            .borrow_mut()
            .reserve(self.client.id, pool, bytes);
        let waited = match admission {
            Admission::Granted => {
                registered.is_granted.set(true);
                Ok(())
            }
            Admission::Queued => self.await_grant(&registered).await,
        };
        // Also when the wait ended in an error: what was granted must be given back.
        if registered.is_granted.get() {
            self.reader.on_reserved(pool, bytes, shard.net.now());
        }
        waited
    }

    async fn await_grant(&mut self, registered: &Registered<E>) -> Result<(), End> {
        // Whoever waits for memory has nothing to show for it yet.
        registered.stall_deadline.set(None);
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
                poll_fn(|context| {
                    // An answer that is ready leaves before more is taken in.
                    if woken.as_mut().poll(context).is_ready() {
                        return Poll::Ready(None);
                    }
                    Pin::new(&mut receiving).poll(context).map(Some)
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
            registered
                .socket
                .send(&mut self.out)
                .await
                .map_err(End::Io)?;
            let shard = &self.client.shard;
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
            self.client.release(reserved);
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

    fn end(&mut self, end: &End) {
        let peer = self.client.registered.socket.peer_addr();
        match end {
            End::Closed | End::Stopping => tracing::debug!(%peer, "connection closed"),
            End::Io(error) => tracing::debug!(%peer, %error, "connection lost"),
            End::Malformed(problem) => self.client.tell_malformed(problem),
        }
        self.client.registered.socket.shutdown();
        self.client
            .shard
            .connections
            .borrow_mut()
            .remove(&self.client.id);
        let held = self.reader.take_reserved();
        self.client.release(held);
        for in_flight in std::mem::take(&mut self.in_flight) {
            self.client.release(in_flight.reserved);
        }
        let mut granted = Vec::new();
        self.client
            .shard
            .budget
            .borrow_mut()
            .cancel(self.client.id, &mut granted);
        self.client.shard.grant(&granted);
    }
}

impl<E: Env> Client<E> {
    /// The other end of the connection.
    pub(crate) fn peer_addr(&self) -> SocketAddr {
        self.registered.socket.peer_addr()
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

    fn release(&self, reserved: Reserved) {
        if reserved.is_empty() {
            return;
        }
        let mut granted = Vec::new();
        self.shard
            .budget
            .borrow_mut()
            .release(reserved, &mut granted);
        self.shard.grant(&granted);
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

    /// Tells connections that the memory they waited for is theirs.
    fn grant(&self, holders: &[HolderId]) {
        let connections = self.connections.borrow();
        for registered in holders.iter().filter_map(|holder| connections.get(holder)) {
            registered.is_granted.set(true);
            registered.wake.notify();
        }
    }
}
