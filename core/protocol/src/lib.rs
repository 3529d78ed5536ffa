//! Kafka's wire protocol: the codec, the API table, headers, and one file of messages per API.
//!
//! Pure: bytes in, values out, and back. It decides nothing about topics, offsets or clients. See [`codec`] for how a
//! message is written down and for what decoding guarantees about hostile bytes.

#![forbid(unsafe_code)]

pub mod api;
pub mod codec;
pub mod control_record;
pub mod coordinator_record;
pub mod fuzz;
pub mod group_record;
pub mod header;
pub mod message;
pub mod metadata_record;
pub mod metadata_snapshot;
pub mod quorum_state;
pub mod transaction_record;
