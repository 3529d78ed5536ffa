//! The seam to the runtime. The broker and the client are generic over [`Net`]; only the binary and the tests pick an
//! implementation, so the runtime's names stay in its adapter.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;

use bytes::BytesMut;
use pelton_model::slice::Slice;
use pelton_model::{Monotonic, ShardId, Timestamp};

/// Which share of a shard a task runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskClass {
    /// Requests: latency matters.
    Request,
    /// Maintenance: runs when requests leave time.
    Background,
}

/// How a listening socket is set up.
#[derive(Clone, Copy, Debug, Default)]
pub struct SocketOptions {
    /// SO_SNDBUF of accepted connections, bytes; `None` leaves the kernel's tuning.
    pub send_buffer_bytes: Option<usize>,
    /// SO_RCVBUF of accepted connections, bytes; `None` leaves the kernel's tuning.
    pub receive_buffer_bytes: Option<usize>,
}

/// What a shard's thread has done since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// CPU time, nanoseconds.
    pub cpu_ns: u64,
    /// Time outside of waiting for the kernel, nanoseconds, where the runtime counts it.
    pub busy_ns: Option<u64>,
}

/// A connected socket between two shards.
pub struct Detached(Box<dyn Any + Send>);

impl Detached {
    /// What an implementation of [`Net`] has made of its socket.
    pub fn new(socket: impl Any + Send) -> Self {
        Self(Box::new(socket))
    }

    /// That again.
    ///
    /// # Errors
    /// `InvalidInput` when another implementation made it.
    pub fn into_inner<T: Any>(self) -> io::Result<T> {
        let socket = self.0.downcast();
        socket
            .map(|socket| *socket)
            .map_err(|_| io::ErrorKind::InvalidInput.into())
    }
}

impl fmt::Debug for Detached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Detached")
    }
}

/// One shard's view of time, tasks and the network. Cheap to clone; `!Send`.
#[expect(
    async_fn_in_trait,
    reason = "static generics on one thread: no Send bound wanted (DESIGN 8.1)"
)]
pub trait Net: Clone + 'static {
    /// A listening socket.
    type Listener: Listener<Connection = Self::Connection>;
    /// A connected socket.
    type Connection: Connection;

    /// The time on a clock that only goes forward.
    fn now(&self) -> Monotonic;
    /// The wall clock.
    fn wall_clock(&self) -> Timestamp;
    /// Waits until `deadline`.
    async fn sleep_until(&self, deadline: Monotonic);
    /// Lets every other ready task of the shard run once.
    async fn yield_now(&self);
    /// Starts a task on this shard; it runs until it ends or the shard stops.
    fn spawn(&self, class: TaskClass, task: impl Future<Output = ()> + 'static);
    /// Runs `work` on a helper thread, for what would block or hog the shard.
    async fn run_blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static)
    -> T;
    /// Listens on `address` with SO_REUSEPORT, so that every shard can.
    fn listen(&self, address: SocketAddr, options: SocketOptions) -> io::Result<Self::Listener>;
    /// Connects to `address`.
    async fn connect(&self, address: SocketAddr) -> io::Result<Self::Connection>;
    /// Takes in a socket that another shard of the same process has given up.
    fn attach(&self, socket: Detached) -> io::Result<Self::Connection>;
    /// Fills `bytes` from the system's entropy.
    fn random(&self, bytes: &mut [u8]);
    /// What this shard's thread has done so far.
    fn load(&self) -> Load {
        Load {
            cpu_ns: crate::process::thread_cpu_ns(),
            busy_ns: None,
        }
    }
}

/// A listening socket.
#[expect(
    async_fn_in_trait,
    reason = "static generics on one thread: no Send bound wanted (DESIGN 8.1)"
)]
pub trait Listener: 'static {
    /// What is accepted.
    type Connection: Connection;
    /// Waits for the next connection. Errors of one attempt (aborted, out of descriptors) do not end the listener.
    async fn accept(&self) -> io::Result<Self::Connection>;
    /// The bound address: the real port when 0 was asked.
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

/// A connected stream socket, shared by a reading and a writing task of one shard.
#[expect(
    async_fn_in_trait,
    reason = "static generics on one thread: no Send bound wanted (DESIGN 8.1)"
)]
pub trait Connection: 'static {
    /// Appends what has arrived to `buffer`, up to its spare capacity (which must not be 0); waits when nothing has.
    ///
    /// Returns the bytes taken; 0 is the peer's end of stream.
    ///
    /// # Cancel safety
    /// Dropping the future loses no bytes.
    async fn recv(&self, buffer: &mut BytesMut) -> io::Result<usize>;
    /// Sends all of `slices` in order: one vectored write for what is in memory, `sendfile` for file ranges; waits for
    /// room without copying. Leaves `slices` empty.
    async fn send(&self, slices: &mut Vec<Slice>) -> io::Result<()>;
    /// Bytes that the peer's side has taken from this one since the connection began.
    fn sent_bytes(&self) -> u64;
    /// Gives the socket up for another shard to [`Net::attach`]: nothing may be under way on it, and what is left here is only to be
    /// dropped, which the peer does not notice. What has not been received stays in it.
    fn detach(&self) -> io::Result<Detached>;
    /// Closes both directions: a pending `recv` or `send` ends, the peer sees the end of stream.
    fn shutdown(&self);
    /// The peer's address.
    fn peer_addr(&self) -> SocketAddr;
    /// The local address.
    fn local_addr(&self) -> SocketAddr;
}

/// One shard's end of the mesh: a bounded queue from every shard to every other, messages in order per pair.
///
/// A receiver never awaits a send, and senders hold credits (`limits::MESH_CREDITS`), so a full queue is a programmer's
/// error, not a state to wait in.
#[expect(
    async_fn_in_trait,
    reason = "static generics on one thread: no Send bound wanted (DESIGN 8.1)"
)]
pub trait Mesh<M: Send + 'static>: Clone + 'static {
    /// This shard.
    fn shard(&self) -> ShardId;
    /// The number of shards.
    fn shard_count(&self) -> u16;
    /// Hands `message` to shard `to` (which may be this one) and wakes it.
    ///
    /// # Errors
    /// Gives the message back when the queue is full or `to` has stopped.
    fn send(&self, to: ShardId, message: M) -> Result<(), MeshRefused<M>>;
    /// The next message from any shard, or `None` after [`Mesh::close`]. One task per shard receives.
    async fn recv(&self) -> Option<(ShardId, M)>;
    /// Ends this shard's end: its `recv` returns `None`, sends to it are refused.
    fn close(&self);
}

/// The mesh did not take the message.
pub struct MeshRefused<M>(pub M);

impl<M> fmt::Debug for MeshRefused<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MeshRefused")
    }
}
