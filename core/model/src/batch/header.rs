//! The 61-byte header of a batch as a plain struct.
//!
//! Invariants:
//! 1. Parsing and writing are inverse for every header that parses.
//! 2. A parsed header has magic 2 and a batch length that covers at least the header.
//!
//! What it does not do: check the CRC or that the fields agree with each other and with the records.
//! Source: the layout table in [`crate::batch`].

use std::fmt;

use super::{ATTRIBUTES_AT, HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC, MAGIC_AT};
use crate::compression::Compression;
use crate::id::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

/// What a record's timestamp means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// Set by the producer, per record.
    CreateTime,
    /// Set by the leader: every record of the batch has the batch's max timestamp.
    LogAppendTime,
}

/// The attribute bits of a batch. Bits 7 to 15 are unused and kept as they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes(pub i16);

impl Attributes {
    const COMPRESSION: i16 = 0x07;
    const LOG_APPEND_TIME: i16 = 0x08;
    const TRANSACTIONAL: i16 = 0x10;
    const CONTROL: i16 = 0x20;
    const DELETE_HORIZON: i16 = 0x40;

    /// Combines the parts; the delete horizon bit is not set.
    #[must_use]
    pub fn new(
        compression: Compression,
        timestamp_type: TimestampType,
        transactional: bool,
        control: bool,
    ) -> Self {
        let mut bits = i16::from(compression.id());
        if transactional {
            bits |= Self::TRANSACTIONAL;
        }
        if control {
            bits |= Self::CONTROL;
        }
        Self(bits).with_timestamp_type(timestamp_type)
    }

    /// The codec's number, 0 to 7; 5 to 7 name no codec.
    #[must_use]
    pub fn compression_id(self) -> u8 {
        (self.0.to_be_bytes()[1]) & 0x07
    }

    /// The codec; `None` for the numbers 5 to 7.
    #[must_use]
    pub fn compression(self) -> Option<Compression> {
        Compression::from_id(self.compression_id())
    }

    /// Whether the records are one compressed stream (also of an unknown codec).
    #[must_use]
    pub fn is_compressed(self) -> bool {
        self.0 & Self::COMPRESSION != 0
    }

    /// Who set the timestamps.
    #[must_use]
    pub fn timestamp_type(self) -> TimestampType {
        if self.0 & Self::LOG_APPEND_TIME == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// The same bits with another codec.
    #[must_use]
    pub fn with_compression(self, codec: Compression) -> Self {
        Self((self.0 & !Self::COMPRESSION) | i16::from(codec.id()))
    }

    /// The same bits with another timestamp type.
    #[must_use]
    pub fn with_timestamp_type(self, timestamp_type: TimestampType) -> Self {
        match timestamp_type {
            TimestampType::CreateTime => Self(self.0 & !Self::LOG_APPEND_TIME),
            TimestampType::LogAppendTime => Self(self.0 | Self::LOG_APPEND_TIME),
        }
    }

    /// Whether the batch is part of a transaction.
    #[must_use]
    pub fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL != 0
    }

    /// Whether the records are control records (transaction markers, KRaft control records).
    #[must_use]
    pub fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    /// Whether the base timestamp holds the time after which compaction drops the batch's tombstones.
    #[must_use]
    pub fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON != 0
    }

    /// The same bits, with the base timestamp declared a delete horizon.
    #[must_use]
    pub fn with_delete_horizon(self) -> Self {
        Self(self.0 | Self::DELETE_HORIZON)
    }
}

/// The header of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record (also when compaction removed that record).
    pub base_offset: Offset,
    /// Bytes of the batch after this field; at least 49.
    pub batch_length: i32,
    /// Epoch of the leader that appended the batch.
    pub leader_epoch: LeaderEpoch,
    /// CRC-32C as claimed.
    pub crc: u32,
    /// Attribute bits.
    pub attributes: Attributes,
    /// Last offset − base offset, as claimed.
    pub last_offset_delta: i32,
    /// The time that the records' deltas refer to.
    pub base_timestamp: Timestamp,
    /// The largest timestamp of the records, as claimed.
    pub max_timestamp: Timestamp,
    /// The idempotent producer, or [`ProducerId::NONE`].
    pub producer_id: ProducerId,
    /// The producer's epoch, or [`ProducerEpoch::NONE`].
    pub producer_epoch: ProducerEpoch,
    /// Sequence of the first record, or [`Sequence::NONE`].
    pub base_sequence: Sequence,
    /// Number of records, as claimed.
    pub record_count: i32,
}

impl BatchHeader {
    /// Reads the header at the start of `bytes`, which may end anywhere after it. Checks magic and size, not the CRC.
    ///
    /// # Errors
    /// [`BatchError::Torn`] when fewer than 61 bytes are there, [`BatchError::Length`] and [`BatchError::Magic`] when
    /// this is no v2 batch. Positions are 0.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(BatchError::Torn {
                position: 0,
                wanted: HEADER_BYTES as u64,
                remaining: bytes.len(),
            });
        };
        let batch_length = i32::from_be_bytes(field(header, 8));
        let magic = i8::from_be_bytes(field(header, MAGIC_AT));
        if magic != MAGIC {
            return Err(BatchError::Magic { position: 0, magic });
        }
        if batch_length < BATCH_LENGTH_MIN {
            return Err(BatchError::Length {
                position: 0,
                batch_length,
            });
        }
        Ok(Self {
            base_offset: Offset(i64::from_be_bytes(field(header, 0))),
            batch_length,
            leader_epoch: LeaderEpoch(i32::from_be_bytes(field(header, 12))),
            crc: u32::from_be_bytes(field(header, 17)),
            attributes: Attributes(i16::from_be_bytes(field(header, ATTRIBUTES_AT))),
            last_offset_delta: i32::from_be_bytes(field(header, 23)),
            base_timestamp: Timestamp(i64::from_be_bytes(field(header, 27))),
            max_timestamp: Timestamp(i64::from_be_bytes(field(header, 35))),
            producer_id: ProducerId(i64::from_be_bytes(field(header, 43))),
            producer_epoch: ProducerEpoch(i16::from_be_bytes(field(header, 51))),
            base_sequence: Sequence(i32::from_be_bytes(field(header, 53))),
            record_count: i32::from_be_bytes(field(header, 57)),
        })
    }

    /// Writes the header as it stands, the claimed CRC included.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.base_offset.0.to_be_bytes());
        put(8, &self.batch_length.to_be_bytes());
        put(12, &self.leader_epoch.0.to_be_bytes());
        put(MAGIC_AT, &MAGIC.to_be_bytes());
        put(17, &self.crc.to_be_bytes());
        put(ATTRIBUTES_AT, &self.attributes.0.to_be_bytes());
        put(23, &self.last_offset_delta.to_be_bytes());
        put(27, &self.base_timestamp.0.to_be_bytes());
        put(35, &self.max_timestamp.0.to_be_bytes());
        put(43, &self.producer_id.0.to_be_bytes());
        put(51, &self.producer_epoch.0.to_be_bytes());
        put(53, &self.base_sequence.0.to_be_bytes());
        put(57, &self.record_count.to_be_bytes());
        out
    }

    /// The size of the whole batch: 12 bytes more than the batch length.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        LOG_OVERHEAD_BYTES + usize::try_from(self.batch_length).unwrap_or(0)
    }

    /// Offset of the last record, wrapping on nonsense.
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        Offset(
            self.base_offset
                .0
                .wrapping_add(i64::from(self.last_offset_delta)),
        )
    }

    /// The offset after the last record, wrapping on nonsense.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        Offset(self.last_offset().0.wrapping_add(1))
    }

    /// Sequence of the last record; none when the batch has no sequence.
    #[must_use]
    pub fn last_sequence(&self) -> Sequence {
        if self.base_sequence == Sequence::NONE {
            Sequence::NONE
        } else {
            self.base_sequence.plus(self.last_offset_delta)
        }
    }

    /// Whether an idempotent producer wrote the batch.
    #[must_use]
    pub fn has_producer(&self) -> bool {
        self.producer_id.0 > ProducerId::NONE.0
    }

    /// Whether the batch is part of a transaction.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.attributes.is_transactional()
    }

    /// Whether the records are control records.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.attributes.is_control()
    }
}

/// The smallest batch length: a header without records, less what the length does not count.
const BATCH_LENGTH_MIN: i32 = 49;
const _: () = assert!(BATCH_LENGTH_MIN as usize + LOG_OVERHEAD_BYTES == HEADER_BYTES);

fn field<const N: usize>(header: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&header[at..at + N]);
    bytes
}

/// Why bytes are not a batch, or not one that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchError {
    /// The bytes end before the batch does: a torn write, or a read that was cut.
    Torn {
        /// Where the batch begins in the bytes given.
        position: usize,
        /// Bytes the batch claims from there.
        wanted: u64,
        /// Bytes there are from there.
        remaining: usize,
    },
    /// The batch length does not even cover the header.
    Length {
        /// Where the batch begins in the bytes given.
        position: usize,
        /// The length as claimed.
        batch_length: i32,
    },
    /// The format is not v2.
    Magic {
        /// Where the batch begins in the bytes given.
        position: usize,
        /// The format as claimed.
        magic: i8,
    },
    /// The CRC does not match the bytes.
    Crc {
        /// Where the batch begins in the bytes given.
        position: usize,
        /// As claimed.
        claimed: u32,
        /// As computed.
        computed: u32,
    },
    /// The attributes name no known codec.
    UnknownCompression {
        /// The codec's number.
        id: u8,
    },
    /// The compressed stream is damaged.
    Decompress {
        /// The codec's number.
        id: u8,
    },
    /// The compressed stream grows beyond the bound set by the reader.
    TooLarge {
        /// The bound.
        bytes_max: u64,
    },
    /// A record breaks the format.
    Record {
        /// Its index in the batch.
        index: u32,
        /// What is wrong with it.
        reason: RecordError,
    },
    /// Bytes are left after the last record.
    TrailingBytes,
    /// The record count is negative.
    Count {
        /// As claimed.
        record_count: i32,
    },
}

/// How a record breaks the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The batch ends before the record does.
    Truncated,
    /// A varint has more than five bytes, or a varlong more than ten.
    Varint,
    /// The record's length is negative or beyond a bound.
    Length,
    /// The fields take more or fewer bytes than the record's length says.
    LengthMismatch,
    /// The header count is negative or larger than the bytes that remain.
    HeaderCount,
    /// A header's key is null.
    HeaderKey,
}

impl RecordError {
    /// What is wrong, for people.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::Truncated => "the batch ends before the record does",
            Self::Varint => "a variable-length integer is too long",
            Self::Length => "the record's length is impossible",
            Self::LengthMismatch => "the fields do not fill the record's length",
            Self::HeaderCount => "the number of headers is impossible",
            Self::HeaderKey => "a header's key is null",
        }
    }
}

impl BatchError {
    /// The same error about a batch that begins at `base` instead of 0.
    #[must_use]
    pub fn at(self, base: usize) -> Self {
        match self {
            Self::Torn {
                wanted, remaining, ..
            } => Self::Torn {
                position: base,
                wanted,
                remaining,
            },
            Self::Length { batch_length, .. } => Self::Length {
                position: base,
                batch_length,
            },
            Self::Magic { magic, .. } => Self::Magic {
                position: base,
                magic,
            },
            Self::Crc {
                claimed, computed, ..
            } => Self::Crc {
                position: base,
                claimed,
                computed,
            },
            Self::UnknownCompression { .. }
            | Self::Decompress { .. }
            | Self::TooLarge { .. }
            | Self::Record { .. }
            | Self::TrailingBytes
            | Self::Count { .. } => self,
        }
    }
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Torn {
                position,
                wanted,
                remaining,
            } => write!(
                f,
                "torn batch at byte {position}: {wanted} bytes claimed, {remaining} there"
            ),
            Self::Length {
                position,
                batch_length,
            } => write!(
                f,
                "batch at byte {position} has the impossible length {batch_length}"
            ),
            Self::Magic { position, magic } => {
                write!(
                    f,
                    "batch at byte {position} has format {magic}, not {MAGIC}"
                )
            }
            Self::Crc {
                position,
                claimed,
                computed,
            } => write!(
                f,
                "batch at byte {position} has CRC {claimed:#010x}, its bytes have {computed:#010x}"
            ),
            Self::UnknownCompression { id } => write!(f, "no codec has the number {id}"),
            Self::Decompress { id } => {
                write!(f, "the records do not decompress with codec number {id}")
            }
            Self::TooLarge { bytes_max } => {
                write!(f, "the records decompress to more than {bytes_max} bytes")
            }
            Self::Record { index, reason } => write!(f, "record {index}: {}", reason.message()),
            Self::TrailingBytes => f.write_str("bytes are left after the last record"),
            Self::Count { record_count } => write!(f, "the record count is {record_count}"),
        }
    }
}

impl std::error::Error for BatchError {}
