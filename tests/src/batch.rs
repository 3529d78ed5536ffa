//! Record batches laid out by hand: every field can be set to what it should not be.
//!
//! Fields that are `None` are computed as an honest producer would. Source: Kafka's record batch format, version 2.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::wire::varint;

/// The wall clock in milliseconds.
#[must_use]
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970").as_millis() as i64
}

/// One record. `None` means computed, except for `key` and `value`, where it means null.
#[derive(Clone, Debug)]
pub struct Record {
    /// Record attributes, unused by Kafka.
    pub attributes: i8,
    /// Milliseconds after the batch's base timestamp.
    pub timestamp_delta: i64,
    /// Offset relative to the batch's base offset.
    pub offset_delta: i32,
    /// The key.
    pub key: Option<Vec<u8>>,
    /// The value.
    pub value: Option<Vec<u8>>,
    /// The number of headers claimed.
    pub header_count: i64,
    /// Bytes after the header count: the headers, or rubbish.
    pub extra: Vec<u8>,
    /// The record's length, when it should lie.
    pub size: Option<i64>,
}

impl Record {
    /// A record of key `k` and value `v`.
    #[must_use]
    pub fn at(offset_delta: i32) -> Self {
        Self {
            attributes: 0,
            timestamp_delta: 0,
            offset_delta,
            key: Some(b"k".to_vec()),
            value: Some(b"v".to_vec()),
            header_count: 0,
            extra: Vec::new(),
            size: None,
        }
    }

    /// The record's bytes.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        let mut body = self.attributes.to_be_bytes().to_vec();
        body.extend(varint(self.timestamp_delta));
        body.extend(varint(i64::from(self.offset_delta)));
        for field in [&self.key, &self.value] {
            match field {
                None => body.extend(varint(-1)),
                Some(bytes) => {
                    body.extend(varint(bytes.len() as i64));
                    body.extend_from_slice(bytes);
                }
            }
        }
        body.extend(varint(self.header_count));
        body.extend_from_slice(&self.extra);
        let mut bytes = varint(self.size.unwrap_or(body.len() as i64));
        bytes.extend(body);
        bytes
    }
}

/// One record batch.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Base offset.
    pub base_offset: i64,
    /// The length field, when it should lie.
    pub length: Option<i32>,
    /// Partition leader epoch.
    pub leader_epoch: i32,
    /// Format version.
    pub magic: i8,
    /// The checksum, when it should lie.
    pub crc: Option<u32>,
    /// Codec, timestamp type, transactional, control.
    pub attributes: i16,
    /// Last offset delta, when it should lie.
    pub last_offset_delta: Option<i32>,
    /// Base timestamp.
    pub base_timestamp: i64,
    /// Max timestamp, when it is not the base timestamp.
    pub max_timestamp: Option<i64>,
    /// Producer id.
    pub producer_id: i64,
    /// Producer epoch.
    pub producer_epoch: i16,
    /// Base sequence.
    pub base_sequence: i32,
    /// The record count, when it should lie.
    pub count: Option<i32>,
    /// The number of records in `payload`.
    pub records: i32,
    /// The records' bytes, compressed if the attributes say so.
    pub payload: Vec<u8>,
}

impl Batch {
    /// An honest batch of `records` small records.
    #[must_use]
    pub fn of(records: i32) -> Self {
        Self::with((0..records).map(Record::at).collect())
    }

    /// A batch of the given records.
    #[must_use]
    pub fn with(records: Vec<Record>) -> Self {
        let payload = records.iter().flat_map(Record::build).collect();
        Self::raw(records.len() as i32, payload)
    }

    /// A batch that claims `records` records and holds `payload`.
    #[must_use]
    pub fn raw(records: i32, payload: Vec<u8>) -> Self {
        Self {
            base_offset: 0,
            length: None,
            leader_epoch: -1,
            magic: 2,
            crc: None,
            attributes: 0,
            last_offset_delta: None,
            base_timestamp: now_ms(),
            max_timestamp: None,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            count: None,
            records,
            payload,
        }
    }

    /// The same batch from an idempotent producer.
    #[must_use]
    pub fn by(self, producer_id: i64, producer_epoch: i16, base_sequence: i32) -> Self {
        Self { producer_id, producer_epoch, base_sequence, ..self }
    }

    /// The batch's bytes.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        let mut tail = self.attributes.to_be_bytes().to_vec();
        tail.extend(self.last_offset_delta.unwrap_or(self.records - 1).to_be_bytes());
        tail.extend(self.base_timestamp.to_be_bytes());
        tail.extend(self.max_timestamp.unwrap_or(self.base_timestamp).to_be_bytes());
        tail.extend(self.producer_id.to_be_bytes());
        tail.extend(self.producer_epoch.to_be_bytes());
        tail.extend(self.base_sequence.to_be_bytes());
        tail.extend(self.count.unwrap_or(self.records).to_be_bytes());
        tail.extend_from_slice(&self.payload);

        let mut bytes = self.base_offset.to_be_bytes().to_vec();
        bytes.extend(self.length.unwrap_or(9 + tail.len() as i32).to_be_bytes());
        bytes.extend(self.leader_epoch.to_be_bytes());
        bytes.extend(self.magic.to_be_bytes());
        bytes.extend(self.crc.unwrap_or_else(|| crc32c::crc32c(&tail)).to_be_bytes());
        bytes.extend(tail);
        bytes
    }
}

/// A message of format 0 or 1, as producers wrote them before 2017.
#[must_use]
pub fn old_message(magic: i8) -> Vec<u8> {
    let mut body = vec![magic as u8, 0];
    if magic > 0 {
        body.extend(now_ms().to_be_bytes());
    }
    for field in [b"k", b"v"] {
        body.extend(1_i32.to_be_bytes());
        body.extend_from_slice(field);
    }
    let mut bytes = 0_i64.to_be_bytes().to_vec();
    bytes.extend((4 + body.len() as i32).to_be_bytes());
    bytes.extend(crc32_of(&body).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// The CRC-32 of zlib, which only the old formats use.
fn crc32_of(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| {
        if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 }
    };
    !bytes.iter().fold(!0_u32, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}
