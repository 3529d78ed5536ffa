//! One pipelined connection: requests go out in the order they were given, answers come back in that order.
//!
//! 1. A reader, a writer and a watchdog task serve a connection; all end when its last handle is dropped.
//! 2. The frames queued in one turn leave in one vectored write.
//! 3. Answers come in order, so only the oldest request can be late: its time counts from when it became the oldest.
//! 4. The first failure ends the connection and every request in flight with it; nothing is retried here.
//!
//! Not here: reconnecting, choosing a broker.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use futures_lite::future;
use pelton_model::slice::Slice;
use pelton_model::task::{Notify, OnceReceiver, OnceSender, oneshot};
use pelton_model::{ErrorCode, Monotonic};
use pelton_protocol::api;
use pelton_protocol::codec::{Message, Reader, Str};
use pelton_protocol::header::{ResponseHeader, request_frame};
use pelton_protocol::message::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use pelton_transport::net::{Connection as Socket, Net, TaskClass};

use crate::address::Address;
use crate::error::{ClientError, IoFailure};
use crate::limits;
use crate::options::ClientOptions;
use crate::time::before;
use crate::versions::ServedVersions;
use crate::wait::Waiters;

const LENGTH_BYTES: usize = 4;
const CORRELATION_BYTES: usize = 4;

/// A connection to one broker. Clones share it; dropping the last one closes it.
pub struct Connection<N: Net>(Rc<Handle<N>>);

impl<N: Net> Clone for Connection<N> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

struct Handle<N: Net> {
    link: Rc<Link<N>>,
    served: ServedVersions,
}

impl<N: Net> Drop for Handle<N> {
    fn drop(&mut self) {
        self.link.fail(ClientError::Closed { what: "connection" });
    }
}

/// What the tasks share with the handles.
struct Link<N: Net> {
    net: N,
    socket: N::Connection,
    address: Address,
    client_id: Str,
    timeout_ms: u64,
    state: RefCell<State>,
    /// To the writer.
    queued: Notify,
    /// To the watchdog, when it sleeps without a deadline.
    watch: Notify,
    watch_is_idle: Cell<bool>,
    /// To those who wait for room, or for the queue to have left.
    changed: Waiters,
}

struct State {
    outgoing: Vec<Slice>,
    is_writing: bool,
    in_flight: VecDeque<InFlight>,
    head_since: Monotonic,
    next_correlation_id: i32,
    failure: Option<ClientError>,
}

struct InFlight {
    correlation_id: i32,
    api: &'static str,
    timeout_ms: u64,
    answer: OnceSender<Result<Bytes, ClientError>>,
}

impl<N: Net> Connection<N> {
    /// Connects to `address` and learns which versions the broker speaks.
    ///
    /// # Errors
    /// The name does not resolve, nobody listens, the broker does not answer in time or in Kafka's protocol.
    pub async fn open(
        net: &N,
        address: &Address,
        options: &ClientOptions,
    ) -> Result<Self, ClientError> {
        let deadline = net.now().plus_ms(options.connect_timeout_ms);
        let timed_out = || ClientError::TimedOut {
            operation: "connecting to",
            object: address.to_string().into(),
            after_ms: options.connect_timeout_ms,
        };
        let socket = before(net, deadline, connect(net, address)).await;
        let socket = socket.ok_or_else(timed_out)??;
        let link = Link::start(net, socket, address, options);
        let mut handle = Handle {
            link,
            served: ServedVersions::default(),
        };
        let served = before(net, deadline, negotiate(&handle.link)).await;
        handle.served = ServedVersions::new(&served.ok_or_else(timed_out)??);
        Ok(Self(Rc::new(handle)))
    }

    /// Where the connection leads.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.0.link.address
    }

    /// Whether requests may still be sent.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.link.state.borrow().failure.is_none()
    }

    /// Requests sent and not answered yet.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.0.link.state.borrow().in_flight.len()
    }

    /// The highest version of a request that both sides speak.
    ///
    /// # Errors
    /// [`ClientError::UnsupportedVersion`] when there is none.
    pub fn version<Q: Message>(&self) -> Result<i16, ClientError> {
        self.version_up_to::<Q>(i16::MAX)
    }

    /// The highest version of a request up to `version_max` that both sides speak.
    ///
    /// # Errors
    /// [`ClientError::UnsupportedVersion`] when there is none.
    pub fn version_up_to<Q: Message>(&self, version_max: i16) -> Result<i16, ClientError> {
        self.0
            .served
            .pick::<Q>(version_max)
            .ok_or_else(|| ClientError::UnsupportedVersion {
                address: self.address().clone(),
                api: Q::NAME,
                ours: Q::VERSIONS,
                theirs: self.0.served.of(Q::KEY),
            })
    }

    /// Sends `request` in `version` and waits for its answer; waits first while too many are in flight.
    ///
    /// # Errors
    /// The connection failed, the answer is late or does not decode.
    ///
    /// # Panics
    /// When `version` is none of `Q`: take it from [`Connection::version`].
    ///
    /// # Cancel safety
    /// Dropping the future before it was sent sends nothing; later, the answer is dropped when it comes.
    pub async fn call<Q: Message, S: Message>(
        &self,
        version: i16,
        request: &Q,
    ) -> Result<S, ClientError> {
        let link = &self.0.link;
        let has_room = || {
            let state = link.state.borrow();
            let has_room = state.in_flight.len() < limits::IN_FLIGHT_MAX;
            (has_room || state.failure.is_some()).then_some(())
        };
        link.changed.until(has_room).await;
        self.start(version, request, link.timeout_ms)?.await
    }

    /// Queues `request` now and gives its answer later: for pipelines. Its time is up `timeout_ms` after it became the
    /// oldest one unanswered.
    ///
    /// # Errors
    /// [`ClientError::Busy`] when too many requests are in flight; the failure of a connection that has ended.
    ///
    /// # Panics
    /// As [`Connection::call`].
    pub fn start<Q: Message, S: Message>(
        &self,
        version: i16,
        request: &Q,
        timeout_ms: u64,
    ) -> Result<Reply<S>, ClientError> {
        assert!(Q::KEY == S::KEY);
        let answer = self.0.link.start_raw(version, request, timeout_ms)?;
        Ok(Reply {
            answer,
            version,
            address: self.address().clone(),
            message: PhantomData,
        })
    }

    /// Queues a request that has no answer (Produce with acks = 0).
    ///
    /// # Errors
    /// The failure of a connection that has ended.
    ///
    /// # Panics
    /// As [`Connection::call`].
    pub fn tell<Q: Message>(&self, version: i16, request: &Q) -> Result<(), ClientError> {
        let link = &self.0.link;
        let correlation_id = link.next_correlation_id()?;
        let frame = request_frame(correlation_id, Some(&link.client_id), version, request);
        link.queue(frame.into_slices());
        Ok(())
    }

    /// Waits until the kernel has taken every frame queued so far.
    ///
    /// # Errors
    /// The failure of a connection that has ended.
    pub async fn written(&self) -> Result<(), ClientError> {
        let link = &self.0.link;
        let is_done = || {
            let state = link.state.borrow();
            if let Some(failure) = &state.failure {
                return Some(Err(failure.clone()));
            }
            (state.outgoing.is_empty() && !state.is_writing).then_some(Ok(()))
        };
        link.changed.until(is_done).await
    }

    /// Ends the connection and every request in flight.
    pub fn close(&self) {
        self.0.link.fail(ClientError::Closed { what: "connection" });
    }
}

/// An answer that is still to come.
#[must_use = "an answer that nobody awaits is dropped"]
pub struct Reply<S> {
    answer: OnceReceiver<Result<Bytes, ClientError>>,
    version: i16,
    address: Address,
    message: PhantomData<fn() -> S>,
}

impl<S: Message> Future for Reply<S> {
    type Output = Result<S, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let frame = ready!(Pin::new(&mut self.answer).poll(context));
        Poll::Ready(match frame {
            Some(Ok(frame)) => decode(&frame, self.version, &self.address),
            Some(Err(error)) => Err(error),
            None => Err(ClientError::Closed { what: "connection" }),
        })
    }
}

fn decode<S: Message>(frame: &Bytes, version: i16, address: &Address) -> Result<S, ClientError> {
    let malformed = |source| ClientError::Malformed {
        address: address.clone(),
        api: S::NAME,
        source,
    };
    let row = api::row(S::KEY).expect("a request of this key was encoded");
    let mut reader = Reader::shared(frame);
    ResponseHeader::decode(&mut reader, row, version).map_err(malformed)?;
    S::decode(&mut reader, version).map_err(malformed)
}

async fn connect<N: Net>(net: &N, address: &Address) -> Result<N::Connection, ClientError> {
    let mut failure = IoFailure::from(io::ErrorKind::NotFound);
    for resolved in address.resolve(net).await? {
        match net.connect(resolved).await {
            Ok(socket) => return Ok(socket),
            Err(error) => failure = IoFailure::from(&error),
        }
    }
    Err(ClientError::Connect {
        address: address.clone(),
        source: failure,
    })
}

/// Asks for the broker's versions, in the newest version first; a broker that does not know it says what it knows.
async fn negotiate<N: Net>(link: &Rc<Link<N>>) -> Result<ApiVersionsResponse, ClientError> {
    let response = ask_versions(link, ApiVersionsRequest::VERSIONS.max).await?;
    if response.error_code != ErrorCode::UnsupportedVersion.code() {
        return accepted(response, link);
    }
    let version = ServedVersions::new(&response)
        .pick::<ApiVersionsRequest>(i16::MAX)
        .unwrap_or(0);
    let response = ask_versions(link, version).await?;
    accepted(response, link)
}

fn accepted<N: Net>(
    response: ApiVersionsResponse,
    link: &Link<N>,
) -> Result<ApiVersionsResponse, ClientError> {
    let code = response.error_code;
    ClientError::refused("versions of", link.address.to_string(), code, None)?;
    Ok(response)
}

async fn ask_versions<N: Net>(
    link: &Rc<Link<N>>,
    version: i16,
) -> Result<ApiVersionsResponse, ClientError> {
    let request = ApiVersionsRequest {
        client_software_name: Str::new_static("pelton"),
        client_software_version: Str::new_static(env!("CARGO_PKG_VERSION")),
    };
    let answer = link.start_raw(version, &request, link.timeout_ms)?.await;
    let frame = answer.unwrap_or(Err(ClientError::Closed { what: "connection" }))?;
    let mut body = Reader::shared(&frame);
    // The header has no tagged fields in any version, so that it can be read before the version is known.
    body.int32()
        .and_then(|_| ApiVersionsResponse::decode_or_refused(&mut body, version))
        .map_err(|source| ClientError::Malformed {
            address: link.address.clone(),
            api: "ApiVersions",
            source,
        })
}

impl<N: Net> Link<N> {
    fn start(
        net: &N,
        socket: N::Connection,
        address: &Address,
        options: &ClientOptions,
    ) -> Rc<Self> {
        let link = Rc::new(Self {
            net: net.clone(),
            socket,
            address: address.clone(),
            client_id: options.client_id.clone(),
            timeout_ms: options.request_timeout_ms,
            state: RefCell::new(State {
                outgoing: Vec::new(),
                is_writing: false,
                in_flight: VecDeque::new(),
                head_since: net.now(),
                next_correlation_id: 0,
                failure: None,
            }),
            queued: Notify::default(),
            watch: Notify::default(),
            watch_is_idle: Cell::new(false),
            changed: Waiters::default(),
        });
        net.spawn(TaskClass::Request, read(Rc::clone(&link)));
        net.spawn(TaskClass::Request, write(Rc::clone(&link)));
        net.spawn(TaskClass::Request, watch(Rc::clone(&link)));
        link
    }

    fn next_correlation_id(&self) -> Result<i32, ClientError> {
        let mut state = self.state.borrow_mut();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        let correlation_id = state.next_correlation_id;
        state.next_correlation_id = correlation_id.wrapping_add(1);
        Ok(correlation_id)
    }

    fn queue(&self, frame: Vec<Slice>) {
        self.state.borrow_mut().outgoing.extend(frame);
        self.queued.notify();
    }

    fn start_raw<Q: Message>(
        &self,
        version: i16,
        request: &Q,
        timeout_ms: u64,
    ) -> Result<OnceReceiver<Result<Bytes, ClientError>>, ClientError> {
        if self.state.borrow().in_flight.len() >= limits::IN_FLIGHT_MAX {
            return Err(ClientError::Busy {
                address: self.address.clone(),
            });
        }
        let correlation_id = self.next_correlation_id()?;
        let frame = request_frame(correlation_id, Some(&self.client_id), version, request);
        let (answer, reply) = oneshot();
        {
            let mut state = self.state.borrow_mut();
            if state.in_flight.is_empty() {
                state.head_since = self.net.now();
            }
            state.in_flight.push_back(InFlight {
                correlation_id,
                api: Q::NAME,
                timeout_ms,
                answer,
            });
        }
        self.queue(frame.into_slices());
        if self.watch_is_idle.replace(false) {
            self.watch.notify();
        }
        Ok(reply)
    }

    /// Ends the connection; the first failure counts.
    fn fail(&self, failure: ClientError) {
        let abandoned = {
            let mut state = self.state.borrow_mut();
            if state.failure.is_some() {
                return;
            }
            state.failure = Some(failure.clone());
            state.outgoing.clear();
            mem::take(&mut state.in_flight)
        };
        self.socket.shutdown();
        for request in abandoned {
            request.answer.send(Err(failure.clone()));
        }
        self.queued.notify();
        self.watch.notify();
        self.changed.wake_all();
    }

    fn is_failed(&self) -> bool {
        self.state.borrow().failure.is_some()
    }

    fn disconnected(&self, error: Option<&io::Error>) -> ClientError {
        ClientError::Disconnected {
            address: self.address.clone(),
            source: error.map(IoFailure::from),
        }
    }

    /// Hands a frame to the oldest request.
    fn deliver(&self, frame: Bytes) -> Result<(), ClientError> {
        let violation = |what| ClientError::Protocol {
            address: self.address.clone(),
            what,
        };
        let Some(correlation_id) = frame.first_chunk::<CORRELATION_BYTES>() else {
            return Err(violation("sent a frame without a header"));
        };
        let correlation_id = i32::from_be_bytes(*correlation_id);
        let now = self.net.now();
        let request = {
            let mut state = self.state.borrow_mut();
            match state.in_flight.front() {
                None => return Err(violation("answered what was not asked")),
                Some(head) if head.correlation_id != correlation_id => {
                    return Err(violation("answered out of order"));
                }
                Some(_) => {}
            }
            state.head_since = now;
            state.in_flight.pop_front().expect("there is a front")
        };
        request.answer.send(Ok(frame));
        self.changed.wake_all();
        Ok(())
    }

    /// When the oldest request is late, and what it asked.
    fn deadline(&self) -> Option<(Monotonic, &'static str, u64)> {
        let state = self.state.borrow();
        let head = state.in_flight.front()?;
        let deadline = state.head_since.plus_ms(head.timeout_ms);
        Some((deadline, head.api, head.timeout_ms))
    }
}

async fn read<N: Net>(link: Rc<Link<N>>) {
    let failure = match receive(&link).await {
        Ok(()) => link.disconnected(None),
        Err(failure) => failure,
    };
    link.fail(failure);
}

/// Reads frames until the peer closes.
async fn receive<N: Net>(link: &Link<N>) -> Result<(), ClientError> {
    let mut buffer = BytesMut::with_capacity(limits::RECV_BYTES);
    loop {
        while let Some(size_bytes) = frame_size(&buffer, &link.address)? {
            if buffer.len() < LENGTH_BYTES + size_bytes {
                let missing = LENGTH_BYTES + size_bytes - buffer.len();
                buffer.reserve(missing.min(limits::RESPONSE_GROW_BYTES_MAX));
                break;
            }
            buffer.advance(LENGTH_BYTES);
            link.deliver(buffer.split_to(size_bytes).freeze())?;
        }
        if buffer.len() == buffer.capacity() {
            buffer.reserve(limits::RECV_BYTES);
        }
        match link.socket.recv(&mut buffer).await {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(link.disconnected(Some(&error))),
        }
    }
}

/// The size of the frame that `buffer` begins with, once its length is there.
fn frame_size(buffer: &[u8], address: &Address) -> Result<Option<usize>, ClientError> {
    let Some(length) = buffer.first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    match usize::try_from(i32::from_be_bytes(*length)) {
        Ok(size_bytes) if size_bytes <= limits::RESPONSE_BYTES_MAX => Ok(Some(size_bytes)),
        Ok(_) | Err(_) => Err(ClientError::Protocol {
            address: address.clone(),
            what: "announced a frame of impossible size",
        }),
    }
}

async fn write<N: Net>(link: Rc<Link<N>>) {
    let mut slices = Vec::new();
    loop {
        link.queued.notified().await;
        if link.is_failed() {
            return;
        }
        {
            let mut state = link.state.borrow_mut();
            mem::swap(&mut slices, &mut state.outgoing);
            state.is_writing = true;
        }
        let sent = link.socket.send(&mut slices).await;
        link.state.borrow_mut().is_writing = false;
        slices.clear();
        if let Err(error) = sent {
            link.fail(link.disconnected(Some(&error)));
            return;
        }
        link.changed.wake_all();
    }
}

/// Ends the connection when the oldest request is late.
async fn watch<N: Net>(link: Rc<Link<N>>) {
    while !link.is_failed() {
        match link.deadline() {
            None => {
                link.watch_is_idle.set(true);
                link.watch.notified().await;
            }
            Some((deadline, api, after_ms)) if deadline <= link.net.now() => {
                link.fail(ClientError::TimedOut {
                    operation: api,
                    object: link.address.to_string().into(),
                    after_ms,
                });
            }
            Some((deadline, ..)) => {
                let timer = link.net.sleep_until(deadline);
                future::or(timer, link.watch.notified()).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: a peer cannot make the client reserve what it claims. Method: lengths at and past the bounds.
    #[test]
    fn frame_sizes_are_bounded() {
        fn check(bytes: &[u8], expected: Option<Option<usize>>) {
            let address = Address::new("h", 1);
            assert_eq!(frame_size(bytes, &address).ok(), expected);
        }
        check(&[0, 0, 1], Some(None));
        check(&[0, 0, 1, 2], Some(Some(258)));
        check(&[0x10, 0, 0, 0], Some(Some(limits::RESPONSE_BYTES_MAX)));
        check(&[0x10, 0, 0, 1], None);
        check(&[0xff, 0xff, 0xff, 0xff], None);
    }
}
