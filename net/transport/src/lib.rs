//! Sockets, cross-core mesh, shard boot, timers: everything that talks, behind [`net::Net`].
//!
//! Knows no Kafka: frames, requests and partitions are other crates' words.

pub mod net;
