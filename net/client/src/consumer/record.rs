//! Records as they are consumed, and where to begin.

use bytes::Bytes;
use pelton_model::Timestamp;
use pelton_model::batch::TimestampType;
use pelton_protocol::codec::Str;

/// Where a partition's consumption begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// At the first record kept.
    Beginning,
    /// After the last record committed now.
    End,
    /// At this offset.
    Offset(i64),
    /// At the first record not older than this (milliseconds since the Unix epoch); at the end when there is none.
    Timestamp(i64),
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumedRecord {
    /// The topic.
    pub topic: Str,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// Its time.
    pub timestamp: Timestamp,
    /// Whose time that is.
    pub timestamp_type: TimestampType,
    /// The key.
    pub key: Option<Bytes>,
    /// The value.
    pub value: Option<Bytes>,
    /// The headers: key and value.
    pub headers: Vec<(Bytes, Option<Bytes>)>,
}

/// How far a partition has been consumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionPosition {
    /// The topic.
    pub topic: Str,
    /// The partition.
    pub partition: i32,
    /// The offset of the next record.
    pub next_offset: i64,
    /// The offset below which records are committed, as of the last answer.
    pub high_watermark: Option<i64>,
    /// The first offset kept, as of the last answer.
    pub log_start_offset: Option<i64>,
}
