//! Which runtime the broker runs on: one type parameter instead of three.

use pelton_storage::disk::Disk;
use pelton_transport::net::{Mesh, Net};

use crate::shard::message::Message;

/// The disk, network and mesh of a shard. The binary picks the kernel's, the simulator its own.
pub trait Env: 'static {
    /// The filesystem.
    type Disk: Disk;
    /// Time, tasks and sockets.
    type Net: Net;
    /// The way to the other shards.
    type Mesh: Mesh<Message>;

    /// Gives memory that this shard has freed back to the system, where the allocator keeps it. May take milliseconds.
    fn give_memory_back() {}
}

/// The environment's connected socket.
pub type Socket<E> = <<E as Env>::Net as Net>::Connection;
