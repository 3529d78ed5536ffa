//! The executor of a shard: one thread, one io_uring, one run queue. The only folder of this crate that names io_uring.
//!
//! The ring is for waiting: sockets are read and written by nonblocking system calls, and the ring tells when to try
//! again. Everything that wakes a shard comes by it: sockets, timers (as the timeout of the wait), other threads (by an
//! eventfd, and only when the shard sleeps).
//!
//! Not here: decisions about requests, and any knowledge of who talks; disks, which need no ring. TLS will have its
//! place in `connection.rs`.

mod bell;
mod connection;
mod driver;
pub(crate) mod executor;
mod helper;
mod listener;
mod mesh;
mod queue;
mod readiness;
mod runtime;
mod timers;

pub use connection::RingConnection;
pub(crate) use driver::try_ring;
pub use listener::RingListener;
pub use mesh::RingMesh;
pub(crate) use mesh::{MeshSeed, mesh};
pub use runtime::RingNet;
