//! The vocabulary of Pelton: ids, offsets, epochs, error codes, record batches, config values, limits.
//!
//! Pure data and pure functions: no I/O, no clock, no runtime. Everything else imports this crate; it imports nothing
//! of ours.

#![forbid(unsafe_code)]

pub mod batch;
pub mod compression;
pub mod config;
pub mod coordinator;
pub mod error_code;
pub mod histogram;
pub mod id;
pub mod limits;
pub mod map;
pub mod placement;
pub mod producer_state;
pub mod read_level;
pub mod record_type;
pub mod slice;
pub mod task;

pub use error_code::ErrorCode;
pub use id::{
    LeaderEpoch, Monotonic, NodeId, Offset, PartitionEpoch, PartitionId, ProducerEpoch, ProducerId,
    Sequence, ShardId, Timestamp, TopicId, TopicPartition,
};
/// A short immutable string: in place up to 23 bytes, shared beyond; clones cost no allocation.
pub use smol_str::SmolStr as Str;
