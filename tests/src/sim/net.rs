//! A network in memory: bytes arrive late, in pieces of any size, in order or not at all when a connection is reset.
//!
//! Invariants:
//! 1. Within a direction bytes keep their order, none is lost or doubled unless the connection is reset.
//! 2. A sender waits when the pipe is full, so a peer that does not read holds it up.
//! 3. Dropping an end with unread bytes resets the connection, as Linux does; otherwise the peer reads what was sent, then the end.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Poll, Waker};

use bytes::{Buf, Bytes, BytesMut};
use pelton_model::slice::Slice;
use pelton_model::{Monotonic, Timestamp};
use pelton_transport::net::{Connection, Detached, Listener, Load, Net, SocketOptions, TaskClass};

use super::world::{Owner, World};

/// The wall clock at the beginning of every run, ms.
const WALL_CLOCK_MS: i64 = 1_750_000_000_000;

/// One direction of a connection.
struct Pipe {
    chunks: VecDeque<(u64, Bytes)>,
    size_bytes: usize,
    capacity: usize,
    last_arrival: u64,
    /// When the reader learns that there is no more.
    finished_at: Option<u64>,
    is_reset: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn new(capacity: usize) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self {
            chunks: VecDeque::new(),
            size_bytes: 0,
            capacity,
            last_arrival: 0,
            finished_at: None,
            is_reset: false,
            reader: None,
            writer: None,
        }))
    }

    fn reset(&mut self) {
        self.is_reset = true;
        self.chunks.clear();
        self.size_bytes = 0;
        self.wake();
    }

    fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }
}

struct Wire {
    pipes: [Weak<RefCell<Pipe>>; 2],
}

struct Waiting {
    accepted: VecDeque<SimConnection>,
    waker: Option<Waker>,
}

struct NetworkInner {
    world: World,
    /// Longest delay of a piece, nanoseconds.
    delay_max: Cell<u64>,
    capacity_max: Cell<usize>,
    listeners: RefCell<BTreeMap<SocketAddr, Vec<Rc<RefCell<Waiting>>>>>,
    wires: RefCell<Vec<Wire>>,
    next_port: Cell<u16>,
    moves: Cell<u64>,
    moving: RefCell<Vec<(std::sync::Weak<()>, SimConnection)>>,
}

/// A connection between two shards; when it is lost on the way, so is the connection.
struct Moving(Arc<()>);

/// All addresses and wires of a world.
#[derive(Clone)]
pub struct Network(Rc<NetworkInner>);

impl Network {
    /// A quick and roomy network.
    #[must_use]
    pub fn new(world: &World) -> Self {
        Self(Rc::new(NetworkInner {
            world: world.clone(),
            delay_max: Cell::new(200_000),
            capacity_max: Cell::new(256 * 1024),
            listeners: RefCell::default(),
            wires: RefCell::default(),
            next_port: Cell::new(40_000),
            moves: Cell::new(0),
            moving: RefCell::default(),
        }))
    }

    /// How long pieces travel at most (nanoseconds), and how many bytes one direction holds at most.
    pub fn set_quality(&self, delay_max: u64, capacity_max: usize) {
        self.0.delay_max.set(delay_max);
        self.0.capacity_max.set(capacity_max);
    }

    /// The view of one owner.
    #[must_use]
    pub fn for_owner(&self, owner: Owner) -> SimNet {
        SimNet { network: self.clone(), owner }
    }

    /// Resets a connection picked by chance, if there is one.
    pub fn reset_one(&self) {
        let mut wires = self.0.wires.borrow_mut();
        wires.retain(|wire| wire.pipes.iter().any(|pipe| pipe.strong_count() > 0));
        if wires.is_empty() {
            return;
        }
        let index = self.0.world.draw(|random| random.index(wires.len()));
        for pipe in wires.swap_remove(index).pipes.iter().filter_map(Weak::upgrade) {
            pipe.borrow_mut().reset();
        }
        self.0.world.note(|| "network: a connection is reset".to_owned());
    }

    /// How many connections have moved from one shard to another.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.0.moves.get()
    }

    /// The number of open listening sockets.
    #[must_use]
    pub fn listener_count(&self) -> usize {
        self.0.listeners.borrow().values().map(Vec::len).sum()
    }

    /// Ends connections that were on their way to a shard that is gone.
    fn drop_lost(&self) {
        let is_lost =
            |(token, _): &mut (std::sync::Weak<()>, SimConnection)| token.strong_count() == 0;
        let lost: Vec<_> = self.0.moving.borrow_mut().extract_if(.., is_lost).collect();
        drop(lost);
    }

    fn delay(&self) -> u64 {
        let last = self.0.delay_max.get();
        self.0.world.draw(|random| random.magnitude(last))
    }

    fn wire(&self, near: SocketAddr, far: SocketAddr) -> (SimConnection, SimConnection) {
        let capacity = self.0.world.draw(|random| {
            usize::try_from(random.between(4096, self.0.capacity_max.get() as u64)).unwrap()
        });
        let (there, back) = (Pipe::new(capacity), Pipe::new(capacity));
        let wire = Wire { pipes: [Rc::downgrade(&there), Rc::downgrade(&back)] };
        self.0.wires.borrow_mut().push(wire);
        let end = |incoming: &Rc<RefCell<Pipe>>, outgoing: &Rc<RefCell<Pipe>>, local, peer| {
            SimConnection {
                network: self.clone(),
                incoming: Rc::clone(incoming),
                outgoing: Rc::clone(outgoing),
                is_shut: Cell::new(false),
                has_moved: Cell::new(false),
                sent_bytes: Cell::new(0),
                local,
                peer,
            }
        };
        (end(&back, &there, near, far), end(&there, &back, far, near))
    }
}

/// One owner's network, clock and tasks.
#[derive(Clone)]
pub struct SimNet {
    network: Network,
    owner: Owner,
}

impl SimNet {
    fn world(&self) -> &World {
        &self.network.0.world
    }
}

impl Net for SimNet {
    type Listener = SimListener;
    type Connection = SimConnection;

    fn now(&self) -> Monotonic {
        Monotonic(self.world().now())
    }

    fn wall_clock(&self) -> Timestamp {
        Timestamp(WALL_CLOCK_MS + i64::try_from(self.world().now_ms()).unwrap())
    }

    async fn sleep_until(&self, deadline: Monotonic) {
        self.world().sleep_until(deadline.0).await;
    }

    async fn yield_now(&self) {
        self.world().yield_now().await;
    }

    fn spawn(&self, _: TaskClass, task: impl Future<Output = ()> + 'static) {
        self.world().spawn(self.owner, task);
    }

    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let delay = self.world().draw(|random| random.magnitude(1_000_000));
        self.world().sleep(delay).await;
        work()
    }

    fn listen(&self, address: SocketAddr, _: SocketOptions) -> io::Result<SimListener> {
        let mut address = address;
        if address.port() == 0 {
            address.set_port(self.network.0.next_port.get());
            self.network.0.next_port.set(address.port() + 1);
        }
        let waiting = Rc::new(RefCell::new(Waiting { accepted: VecDeque::new(), waker: None }));
        let mut listeners = self.network.0.listeners.borrow_mut();
        listeners.entry(address).or_default().push(Rc::clone(&waiting));
        Ok(SimListener { network: self.network.clone(), address, waiting })
    }

    fn load(&self) -> Load {
        // Any load may be told, and every answer must be right.
        let percent = self.world().draw(|random| random.between(0, 100));
        Load { cpu_ns: self.world().now() / 100 * percent, ..Load::default() }
    }

    fn attach(&self, socket: Detached) -> io::Result<SimConnection> {
        let Moving(token) = socket.into_inner()?;
        let mut moving = self.network.0.moving.borrow_mut();
        let is_this = |(other, _): &(std::sync::Weak<()>, SimConnection)| {
            std::ptr::eq(other.as_ptr(), Arc::as_ptr(&token))
        };
        let index = moving.iter().position(is_this).ok_or(io::ErrorKind::NotFound)?;
        let (_, connection) = moving.swap_remove(index);
        self.network.0.moves.set(self.network.0.moves.get() + 1);
        self.world().note(|| format!("network: {} moved to another shard", connection.peer));
        Ok(connection)
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<SimConnection> {
        self.network.drop_lost();
        self.world().sleep(self.network.delay()).await;
        let listener = {
            let listeners = self.network.0.listeners.borrow();
            match listeners.get(&address).map(Vec::as_slice) {
                None | Some([]) => return Err(io::ErrorKind::ConnectionRefused.into()),
                Some(bound) => Rc::clone(&bound[self.world().draw(|r| r.index(bound.len()))]),
            }
        };
        let port = self.network.0.next_port.get();
        self.network.0.next_port.set(port.checked_add(1).unwrap_or(40_000));
        let near = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let (near, far) = self.network.wire(near, address);
        let mut listener = listener.borrow_mut();
        listener.accepted.push_back(far);
        if let Some(waker) = listener.waker.take() {
            waker.wake();
        }
        Ok(near)
    }

    fn random(&self, bytes: &mut [u8]) {
        self.world().draw(|random| {
            for byte in bytes {
                *byte = random.draw().to_le_bytes()[0];
            }
        });
    }
}

/// A listening socket.
pub struct SimListener {
    network: Network,
    address: SocketAddr,
    waiting: Rc<RefCell<Waiting>>,
}

impl Listener for SimListener {
    type Connection = SimConnection;

    async fn accept(&self) -> io::Result<SimConnection> {
        poll_fn(|context| {
            let mut waiting = self.waiting.borrow_mut();
            match waiting.accepted.pop_front() {
                Some(connection) => Poll::Ready(Ok(connection)),
                None => {
                    waiting.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let mut listeners = self.network.0.listeners.borrow_mut();
        if let Some(bound) = listeners.get_mut(&self.address) {
            bound.retain(|other| !Rc::ptr_eq(other, &self.waiting));
        }
        drop(listeners);
        let unaccepted = std::mem::take(&mut self.waiting.borrow_mut().accepted);
        for connection in unaccepted {
            connection.reset();
        }
    }
}

/// One end of a connection.
pub struct SimConnection {
    network: Network,
    incoming: Rc<RefCell<Pipe>>,
    outgoing: Rc<RefCell<Pipe>>,
    is_shut: Cell<bool>,
    /// Another end is this one now.
    has_moved: Cell<bool>,
    sent_bytes: Cell<u64>,
    local: SocketAddr,
    peer: SocketAddr,
}

impl SimConnection {
    fn world(&self) -> &World {
        &self.network.0.world
    }

    fn reset(&self) {
        self.incoming.borrow_mut().reset();
        self.outgoing.borrow_mut().reset();
    }

    /// Ends the outgoing direction: the peer reads what was sent, then the end.
    fn finish(&self) {
        let mut pipe = self.outgoing.borrow_mut();
        if pipe.finished_at.is_some() {
            return;
        }
        let arrival = pipe.last_arrival.max(self.world().now() + self.network.delay());
        pipe.finished_at = Some(arrival);
        drop(pipe);
        self.wake_reader_at(arrival);
    }

    fn wake_reader_at(&self, at: u64) {
        let pipe = Rc::clone(&self.outgoing);
        self.world().call_at(at, move || {
            if let Some(waker) = pipe.borrow_mut().reader.take() {
                waker.wake();
            }
        });
    }

    fn poll_recv(&self, buffer: &mut BytesMut) -> Poll<io::Result<usize>> {
        if self.is_shut.get() {
            return Poll::Ready(Ok(0));
        }
        let spare = buffer.capacity() - buffer.len();
        assert!(spare > 0, "recv needs room");
        let mut pipe = self.incoming.borrow_mut();
        if pipe.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let now = self.world().now();
        let mut taken = 0;
        while let Some((arrival, chunk)) = pipe.chunks.front_mut() {
            if now < *arrival
                || taken == spare
                || (taken > 0 && self.world().draw(|r| r.percent(30)))
            {
                break;
            }
            let room = (spare - taken).min(chunk.len());
            let cut = self.world().draw(|r| r.percent(20)).then(|| {
                usize::try_from(self.world().draw(|r| r.between(1, room as u64))).unwrap()
            });
            let part = chunk.split_to(cut.unwrap_or(room));
            let is_spent = chunk.is_empty();
            buffer.extend_from_slice(&part);
            taken += part.len();
            if is_spent {
                pipe.chunks.pop_front();
            }
        }
        if taken > 0 {
            pipe.size_bytes -= taken;
            if let Some(writer) = pipe.writer.take() {
                writer.wake();
            }
            return Poll::Ready(Ok(taken));
        }
        let is_finished = pipe.finished_at.is_some_and(|at| at <= now);
        if pipe.chunks.is_empty() && is_finished { Poll::Ready(Ok(0)) } else { Poll::Pending }
    }

    async fn send_bytes(&self, mut bytes: Bytes) -> io::Result<()> {
        while bytes.has_remaining() {
            poll_fn(|context| {
                let mut pipe = self.outgoing.borrow_mut();
                if self.is_shut.get() || pipe.is_reset {
                    return Poll::Ready(Err(io::Error::from(io::ErrorKind::BrokenPipe)));
                }
                let room = (pipe.capacity - pipe.size_bytes).min(bytes.len());
                if room == 0 {
                    pipe.writer = Some(context.waker().clone());
                    return Poll::Pending;
                }
                let cut = self.world().draw(|r| r.percent(25));
                let length = if cut {
                    self.world().draw(|r| r.between(1, room as u64))
                } else {
                    room as u64
                };
                let part = bytes.split_to(usize::try_from(length).unwrap());
                let arrival = pipe.last_arrival.max(self.world().now() + self.network.delay());
                pipe.last_arrival = arrival;
                pipe.size_bytes += part.len();
                self.sent_bytes.set(self.sent_bytes.get() + part.len() as u64);
                pipe.chunks.push_back((arrival, part));
                drop(pipe);
                self.wake_reader_at(arrival);
                Poll::Ready(Ok(()))
            })
            .await?;
        }
        Ok(())
    }
}

impl Connection for SimConnection {
    async fn recv(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        poll_fn(|context| {
            let received = self.poll_recv(buffer);
            if received.is_pending() {
                self.incoming.borrow_mut().reader = Some(context.waker().clone());
            }
            received
        })
        .await
    }

    async fn send(&self, slices: &mut Vec<Slice>) -> io::Result<()> {
        for slice in slices.drain(..) {
            match slice {
                Slice::Bytes(bytes) => self.send_bytes(bytes).await?,
                Slice::File(_) => unreachable!("the disk in memory has no descriptors"),
            }
        }
        Ok(())
    }

    fn sent_bytes(&self) -> u64 {
        self.sent_bytes.get()
    }

    fn detach(&self) -> io::Result<Detached> {
        let token = Arc::new(());
        let connection = SimConnection {
            network: self.network.clone(),
            incoming: Rc::clone(&self.incoming),
            outgoing: Rc::clone(&self.outgoing),
            is_shut: Cell::new(self.is_shut.get()),
            has_moved: Cell::new(false),
            sent_bytes: Cell::new(self.sent_bytes.get()),
            local: self.local,
            peer: self.peer,
        };
        self.has_moved.set(true);
        let mut moving = self.network.0.moving.borrow_mut();
        moving.push((Arc::downgrade(&token), connection));
        Ok(Detached::new(Moving(token)))
    }

    fn shutdown(&self) {
        if self.is_shut.replace(true) {
            return;
        }
        self.finish();
        // Our own pending calls end now; the peer's reader has its alarm, its writer learns of it here.
        self.incoming.borrow_mut().reset();
        self.outgoing.borrow_mut().wake();
    }

    fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

impl Drop for SimConnection {
    fn drop(&mut self) {
        if self.has_moved.get() {
            return;
        }
        if self.incoming.borrow().chunks.is_empty() {
            self.is_shut.set(true);
            self.finish();
            self.incoming.borrow_mut().reset();
        } else {
            self.reset();
        }
    }
}
