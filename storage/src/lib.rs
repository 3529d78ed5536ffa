//! The partition log in Kafka's on-disk format, on `trait Disk`.
//!
//! Storage keeps; it does not know requests, spawns nothing and reads no clock.

pub mod disk;
