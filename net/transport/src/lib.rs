//! Sockets, cross-core mesh, shard boot, timers: everything that talks, behind [`net::Net`].
//!
//! Knows no Kafka: frames, requests and partitions are other crates' words.

pub mod boot;
pub mod checks;
pub mod cores;
pub mod net;
pub mod process;
pub mod ring;
mod socket;

pub use socket::probe_bind;
