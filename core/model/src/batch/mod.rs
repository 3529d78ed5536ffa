//! Record batches of Kafka's format v2: header, patches, iteration, building, validation.
//!
//! | offset | size | field                | meaning                                                        |
//! |-------:|-----:|----------------------|----------------------------------------------------------------|
//! |      0 |    8 | base offset          | offset of the first record; set by the leader, outside the CRC  |
//! |      8 |    4 | batch length         | bytes after this field: whole batch − 12                       |
//! |     12 |    4 | leader epoch         | of the leader that appended; set by it, outside the CRC         |
//! |     16 |    1 | magic                | 2                                                              |
//! |     17 |    4 | crc                  | CRC-32C of everything from offset 21 to the end                |
//! |     21 |    2 | attributes           | 0–2 codec, 3 timestamp type, 4 transactional, 5 control, 6 horizon |
//! |     23 |    4 | last offset delta    | last offset − base offset; survives compaction                 |
//! |     27 |    8 | base timestamp       | records hold deltas to it                                      |
//! |     35 |    8 | max timestamp        | of its records, or the append time                             |
//! |     43 |    8 | producer id          | −1 without idempotence                                         |
//! |     51 |    2 | producer epoch       | −1 without idempotence                                         |
//! |     53 |    4 | base sequence        | −1 without idempotence                                         |
//! |     57 |    4 | record count         | records that follow, compressed as one stream when a codec is set |
//!
//! A record is `length varint, attributes i8, timestamp delta varlong, offset delta varint, key length varint, key,
//! value length varint, value, header count varint, {key length varint, key, value length varint, value}*`; lengths of
//! key, value and header value are negative for null. Varints are zigzag LEB128.
//!
//! Invariants:
//! 1. Bytes are hostile: no function here panics on them, allocates by a length they claim, or loops without bound.
//! 2. A batch is stored as its producer sent it; [`patch`] changes bytes, only in the header; [`store`] packs records anew where a topic
//!    wants another codec.
//! 3. A CRC is checked before anything that it covers is believed, save by [`BatchHeader::parse`], which says so.
//!
//! What it does not do: read formats v0 and v1 (no Kafka 4 broker or client writes them).
//! Source: KIP-98 and the public message format documentation of Apache Kafka.

mod builder;
pub mod fuzz;
mod header;
pub mod lookup;
pub mod patch;
mod record;
pub mod retain;
mod scan;
pub mod store;
mod stream;
#[cfg(test)]
mod tests;
pub mod validate;
mod varint;

pub use builder::{BatchBuilder, BuilderOptions};
pub use header::{Attributes, BatchError, BatchHeader, RecordError, TimestampType};
pub use record::{HeaderRef, Record, RecordIter, RecordRef, RecordRefs};
pub use scan::{Batches, verify_crc};
pub use stream::Scratch;

/// The size of a batch's header.
pub const HEADER_BYTES: usize = 61;
/// The size of the two fields (base offset and batch length) that the batch length does not count.
pub const LOG_OVERHEAD_BYTES: usize = 12;
/// The only format served.
pub const MAGIC: i8 = 2;

const BATCH_LENGTH_AT: usize = 8;
const LEADER_EPOCH_AT: usize = 12;
const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
const ATTRIBUTES_AT: usize = 21;
const MAX_TIMESTAMP_AT: usize = 35;
const RECORD_COUNT_AT: usize = 57;

const _: () = assert!(BATCH_LENGTH_AT + 4 == LOG_OVERHEAD_BYTES);
const _: () = assert!(CRC_AT + 4 == ATTRIBUTES_AT);
const _: () = assert!(RECORD_COUNT_AT + 4 == HEADER_BYTES);
