//! Building batches: for the client, the controller's log and tests.
//!
//! Invariants:
//! 1. What is built parses, has a valid CRC, and its records come back as they were appended.
//! 2. The first record's timestamp is the base timestamp; the largest is the max timestamp.
//!
//! What it does not do: keep a size limit; callers ask [`BatchBuilder::estimated_size_bytes`] first.
//! Source: KIP-98.

use bytes::{Bytes, BytesMut};

use super::record::HeaderRef;
use super::{
    Attributes, BatchHeader, HEADER_BYTES, LOG_OVERHEAD_BYTES, TimestampType, patch, varint,
};
use crate::compression::{Compression, compress};
use crate::id::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

/// What a new batch's header says before its records are known.
#[derive(Clone, Copy, Debug)]
pub struct BuilderOptions {
    /// The codec of the records.
    pub compression: Compression,
    /// The codec's level, as Kafka's `compression.<codec>.level`; none is the codec's default.
    pub level: Option<i32>,
    /// Who sets the timestamps.
    pub timestamp_type: TimestampType,
    /// Offset of the first record: 0 in a Produce request.
    pub base_offset: Offset,
    /// Epoch of the leader: −1 in a Produce request.
    pub leader_epoch: LeaderEpoch,
    /// The idempotent producer, if any.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
    /// Sequence of the first record.
    pub base_sequence: Sequence,
    /// Whether the batch is part of a transaction.
    pub transactional: bool,
    /// Whether the records are control records.
    pub control: bool,
}

impl Default for BuilderOptions {
    /// An uncompressed batch of a plain producer.
    fn default() -> Self {
        Self {
            compression: Compression::None,
            level: None,
            timestamp_type: TimestampType::CreateTime,
            base_offset: Offset::ZERO,
            leader_epoch: LeaderEpoch::NONE,
            producer_id: ProducerId::NONE,
            producer_epoch: ProducerEpoch::NONE,
            base_sequence: Sequence::NONE,
            transactional: false,
            control: false,
        }
    }
}

/// A batch under construction.
#[derive(Debug)]
pub struct BatchBuilder {
    options: BuilderOptions,
    /// Room for the header, then the records, uncompressed.
    buffer: BytesMut,
    record_count: i32,
    last_offset_delta: i32,
    base_timestamp: Timestamp,
    max_timestamp: Timestamp,
}

impl BatchBuilder {
    /// An empty batch.
    #[must_use]
    pub fn new(options: BuilderOptions) -> Self {
        Self::with_capacity(options, HEADER_BYTES)
    }

    /// An empty batch with room for `capacity` bytes, header included.
    #[must_use]
    pub fn with_capacity(options: BuilderOptions, capacity: usize) -> Self {
        let mut buffer = BytesMut::with_capacity(capacity.max(HEADER_BYTES));
        buffer.resize(HEADER_BYTES, 0);
        Self {
            options,
            buffer,
            record_count: 0,
            last_offset_delta: -1,
            base_timestamp: Timestamp::NONE,
            max_timestamp: Timestamp::NONE,
        }
    }

    /// Appends a record at the next offset and returns its offset delta.
    ///
    /// # Panics
    /// When the record or the count passes 2³¹−1: callers keep far smaller bounds.
    pub fn append(
        &mut self,
        timestamp: Timestamp,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[HeaderRef<'_>],
    ) -> i32 {
        let offset_delta = self.last_offset_delta + 1;
        self.append_at(offset_delta, timestamp, key, value, headers);
        offset_delta
    }

    /// Appends a record at a given offset delta, beyond the last one: compaction leaves gaps.
    ///
    /// # Panics
    /// As [`BatchBuilder::append`], and when the delta does not grow.
    pub fn append_at(
        &mut self,
        offset_delta: i32,
        timestamp: Timestamp,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[HeaderRef<'_>],
    ) {
        assert!(self.last_offset_delta < offset_delta);
        if self.record_count == 0 {
            self.base_timestamp = timestamp;
        }
        let timestamp_delta = timestamp.0.wrapping_sub(self.base_timestamp.0);
        let body_size = body_size(timestamp_delta, offset_delta, key, value, headers);
        put_length(&mut self.buffer, body_size);
        self.buffer.extend_from_slice(&[0]);
        varint::put(&mut self.buffer, timestamp_delta);
        varint::put(&mut self.buffer, offset_delta.into());
        put_nullable(&mut self.buffer, key);
        put_nullable(&mut self.buffer, value);
        put_length(&mut self.buffer, headers.len());
        for &(key, value) in headers {
            put_nullable(&mut self.buffer, Some(key));
            put_nullable(&mut self.buffer, value);
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.last_offset_delta = offset_delta;
        self.record_count += 1;
    }

    /// The number of records so far.
    #[must_use]
    pub fn record_count(&self) -> i32 {
        self.record_count
    }

    /// Whether there is no record yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.record_count == 0
    }

    /// The batch's size as it stands, uncompressed, header included.
    #[must_use]
    pub fn estimated_size_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// What a record would add to [`BatchBuilder::estimated_size_bytes`].
    #[must_use]
    pub fn record_size_bytes(
        &self,
        timestamp: Timestamp,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[HeaderRef<'_>],
    ) -> usize {
        let base = if self.record_count == 0 {
            timestamp
        } else {
            self.base_timestamp
        };
        let timestamp_delta = timestamp.0.wrapping_sub(base.0);
        let offset_delta = self.last_offset_delta + 1;
        let body_size = body_size(timestamp_delta, offset_delta, key, value, headers);
        length_size(body_size) + body_size
    }

    /// The finished batch.
    #[must_use]
    pub fn build(self) -> Bytes {
        self.build_mut().freeze()
    }

    /// The finished batch, open for [`patch`].
    ///
    /// # Panics
    /// When the batch passes 2³¹−1 bytes.
    #[must_use]
    pub fn build_mut(self) -> BytesMut {
        let options = &self.options;
        let mut batch = self.buffer;
        if options.compression != Compression::None {
            let packed = compress(options.compression, &batch[HEADER_BYTES..], options.level);
            batch.truncate(HEADER_BYTES);
            batch.extend_from_slice(&packed);
        }
        let header = BatchHeader {
            base_offset: options.base_offset,
            batch_length: i32::try_from(batch.len() - LOG_OVERHEAD_BYTES)
                .expect("callers keep batches far below 2 GiB"),
            leader_epoch: options.leader_epoch,
            crc: 0,
            attributes: Attributes::new(
                options.compression,
                options.timestamp_type,
                options.transactional,
                options.control,
            ),
            last_offset_delta: self.last_offset_delta.max(0),
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            producer_id: options.producer_id,
            producer_epoch: options.producer_epoch,
            base_sequence: options.base_sequence,
            record_count: self.record_count,
        };
        batch[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        patch::set_crc(&mut batch);
        batch
    }
}

fn body_size(
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &[HeaderRef<'_>],
) -> usize {
    let mut size = 1 + varint::size(timestamp_delta) + varint::size(offset_delta.into());
    size += nullable_size(key) + nullable_size(value) + length_size(headers.len());
    for &(key, value) in headers {
        size += nullable_size(Some(key)) + nullable_size(value);
    }
    size
}

fn nullable_size(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |bytes| length_size(bytes.len()) + bytes.len())
}

fn length_size(length: usize) -> usize {
    varint::size(wire_length(length))
}

fn put_nullable(out: &mut BytesMut, bytes: Option<&[u8]>) {
    match bytes {
        None => varint::put(out, -1),
        Some(bytes) => {
            put_length(out, bytes.len());
            out.extend_from_slice(bytes);
        }
    }
}

fn put_length(out: &mut BytesMut, length: usize) {
    varint::put(out, wire_length(length));
}

fn wire_length(length: usize) -> i64 {
    i32::try_from(length)
        .expect("callers keep records far below 2 GiB")
        .into()
}
