//! What a leader checks in one partition's record data of a Produce request.
//!
//! Invariants:
//! 1. The order of checks, and so the error that a batch with several faults gets, is Kafka's.
//! 2. An uncompressed batch costs one pass of CRC and one walk over its varints; nothing is allocated unless it is refused.
//! 3. A compressed batch is decompressed as a stream and thrown away; the producer's bytes are what is stored.
//! 4. What is accepted can be appended after [`ValidBatch::patch`]: header and records agree, save for offset deltas of
//!    uncompressed records, which no broker checks.
//!
//! What it does not do: sequences and epochs of producers (that takes state), authorization, the choice of offsets.
//! Source: observed answers of Apache Kafka 4.3.1; KIP-467 (per-record errors); KIP-110 (zstd from Produce v7).

mod records;
#[cfg(test)]
mod tests;

use super::scan::{claimed_size, compute_crc};
use super::{BatchHeader, HEADER_BYTES, MAGIC, MAGIC_AT, Scratch, TimestampType, patch};
use crate::compression::Compression;
use crate::error_code::ErrorCode;
use crate::id::{Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

/// What holds for a Produce request and its topic.
#[derive(Clone, Copy, Debug)]
pub struct ProduceRules {
    /// The time of the append.
    pub now: Timestamp,
    /// `max.message.bytes`: the largest batch, its first 12 bytes included.
    pub max_message_bytes: usize,
    /// `segment.bytes`: a batch must fit into a segment.
    pub segment_bytes: usize,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`.
    pub before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub after_max_ms: i64,
    /// Whether `cleanup.policy` includes `compact`: keys are then mandatory.
    pub compacted: bool,
    /// The version of the Produce request.
    pub produce_version: i16,
    /// Whether the request names a transactional id that the client may use.
    pub has_transactional_id: bool,
    /// Decompressed bytes that this place may look at, below the bound for every batch.
    pub decompressed_bytes_max: u64,
}

/// A batch that may be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidBatch {
    /// The batch's size; the data may hold the beginning of another one, which is to be cut off.
    pub size_bytes: usize,
    /// The number of records, at least 1.
    pub record_count: i32,
    /// The last record's offset less the first one's.
    pub last_offset_delta: i32,
    /// The true max timestamp: the append time under LogAppendTime, else the records' largest; −1 when they have none.
    pub max_timestamp: Timestamp,
    /// Offset delta of the first record with the max timestamp; 0 when the records have none.
    pub max_timestamp_offset_delta: i32,
    /// Type and max timestamp that [`patch::set_max_timestamp`] must set before the append; none when they are there.
    pub timestamp_rewrite: Option<(TimestampType, Timestamp)>,
    /// Producer, epoch and first sequence of an idempotent producer.
    pub producer: Option<(ProducerId, ProducerEpoch, Sequence)>,
    /// The codec of the records.
    pub compression: Compression,
    /// Whether the batch is part of a transaction.
    pub is_transactional: bool,
}

impl ValidBatch {
    /// Makes the timestamp changes that the append needs, in the batch that was validated.
    ///
    /// # Panics
    /// When `batch` is shorter than the batch.
    pub fn patch(&self, batch: &mut [u8]) {
        if let Some((timestamp_type, max_timestamp)) = self.timestamp_rewrite {
            patch::set_max_timestamp(&mut batch[..self.size_bytes], timestamp_type, max_timestamp);
        }
    }
}

/// Why a batch is refused: the partition's part of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidBatch {
    /// The partition's error code.
    pub error: ErrorCode,
    /// The partition's error message.
    pub message: String,
    /// Index and message of each refused record, the first [`crate::limits::RECORD_ERRORS_MAX`] of them.
    pub record_errors: Vec<(i32, String)>,
    /// Whether the answer names the log's start beside the error: of what Kafka's log itself refuses.
    pub tells_log_start: bool,
}

impl InvalidBatch {
    #[cold]
    fn new(error: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            error,
            message: message.into(),
            record_errors: Vec::new(),
            tells_log_start: false,
        }
    }
}

/// Validates one partition's record data; null records count as empty.
///
/// # Errors
/// The answer that Kafka gives for the first fault, see the module's invariants.
pub fn validate_produce(
    data: &[u8],
    rules: &ProduceRules,
    scratch: &mut Scratch,
) -> Result<ValidBatch, InvalidBatch> {
    let batch = only_batch(data, rules)?;
    validate_batch(batch, rules, scratch).map_err(|invalid| InvalidBatch {
        tells_log_start: tells_log_start(invalid.error),
        ..invalid
    })
}

/// Whether a log that refuses a batch with `error` tells its start.
fn tells_log_start(error: ErrorCode) -> bool {
    !matches!(
        error,
        ErrorCode::CorruptMessage
            | ErrorCode::MessageTooLarge
            | ErrorCode::RecordListTooLarge
            | ErrorCode::TransactionalIdAuthorizationFailed
    )
}

fn validate_batch(
    batch: &[u8],
    rules: &ProduceRules,
    scratch: &mut Scratch,
) -> Result<ValidBatch, InvalidBatch> {
    let header = whole_header(batch, rules)?;
    check_bytes(batch, &header)?;
    let compression = header.attributes.compression().ok_or_else(|| {
        let id = header.attributes.compression_id();
        InvalidBatch::new(
            ErrorCode::UnknownServerError,
            format!("no codec has the number {id}"),
        )
    })?;
    check_fields(&header)?;
    let (max_timestamp, max_timestamp_offset_delta) =
        records::check(batch, &header, compression, rules, scratch)?;
    if batch.len() > rules.segment_bytes {
        return Err(InvalidBatch::new(
            ErrorCode::RecordListTooLarge,
            format!(
                "the batch has {} bytes, a segment at most {}",
                batch.len(),
                rules.segment_bytes
            ),
        ));
    }
    let as_claimed = header.attributes.timestamp_type() == rules.timestamp_type
        && header.max_timestamp == max_timestamp;
    let producer = header.has_producer().then_some((
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
    ));
    assert!(header.last_offset_delta >= 0);
    Ok(ValidBatch {
        size_bytes: batch.len(),
        record_count: header.record_count,
        last_offset_delta: header.last_offset_delta,
        max_timestamp,
        max_timestamp_offset_delta,
        timestamp_rewrite: (!as_claimed).then_some((rules.timestamp_type, max_timestamp)),
        producer,
        compression,
        is_transactional: header.is_transactional(),
    })
}

/// Where a batch begins, before its header can be believed.
enum Front<'a> {
    /// Not enough bytes for a batch: the data ends here.
    Incomplete,
    /// A batch as long as it claims, and what follows it.
    Whole { batch: &'a [u8], rest: &'a [u8] },
}

/// Splits a batch of any format off the front of `data`. Only the length and the format are looked at.
fn split_front(data: &[u8]) -> Result<Front<'_>, InvalidBatch> {
    /// The smallest length that any format has.
    const LENGTH_MIN: i32 = 14;
    let Some((length, size)) = claimed_size(data) else {
        return Ok(Front::Incomplete);
    };
    if length < LENGTH_MIN {
        return Err(InvalidBatch::new(
            ErrorCode::CorruptMessage,
            format!("a batch claims the length {length}"),
        ));
    }
    let Some(&magic) = data.get(MAGIC_AT) else {
        return Ok(Front::Incomplete);
    };
    let magic = magic.cast_signed();
    if !(0..=MAGIC).contains(&magic) {
        return Err(InvalidBatch::new(
            ErrorCode::CorruptMessage,
            format!("no record format has the number {magic}"),
        ));
    }
    let split = usize::try_from(size)
        .ok()
        .and_then(|size| data.split_at_checked(size));
    Ok(
        split.map_or(Front::Incomplete, |(batch, rest)| Front::Whole {
            batch,
            rest,
        }),
    )
}

/// Finds the one batch that the data may hold; the beginning of a second one is ignored.
///
/// # Errors
/// As [`validate_produce`], of data that is not one whole batch of format 2.
pub fn only_batch<'a>(data: &'a [u8], rules: &ProduceRules) -> Result<&'a [u8], InvalidBatch> {
    let Front::Whole { batch, rest } = split_front(data)? else {
        return Err(InvalidBatch::new(
            ErrorCode::InvalidRecord,
            "a partition's data must hold one whole batch",
        ));
    };
    if batch[MAGIC_AT].cast_signed() != MAGIC {
        return Err(InvalidBatch::new(
            ErrorCode::InvalidRecord,
            "only record format 2 is accepted",
        ));
    }
    if rules.produce_version < 7
        && let Ok(header) = BatchHeader::parse(batch)
        && header.attributes.compression() == Some(Compression::Zstd)
    {
        return Err(InvalidBatch::new(
            ErrorCode::UnsupportedCompressionType,
            "zstd takes version 7 of Produce",
        ));
    }
    if !rest.is_empty()
        && let Front::Whole { .. } = split_front(rest)?
    {
        return Err(InvalidBatch::new(
            ErrorCode::InvalidRecord,
            "a partition's data must hold no more than one batch",
        ));
    }
    Ok(batch)
}

/// Reads the header of a batch that is whole and of format 2, and checks what comes before the CRC.
fn whole_header(batch: &[u8], rules: &ProduceRules) -> Result<BatchHeader, InvalidBatch> {
    let header = BatchHeader::parse(batch).map_err(|_| {
        InvalidBatch::new(
            ErrorCode::CorruptMessage,
            format!(
                "the batch has {} bytes, a header alone {HEADER_BYTES}",
                batch.len()
            ),
        )
    })?;
    if header.is_transactional() && !rules.has_transactional_id {
        return Err(InvalidBatch::new(
            ErrorCode::TransactionalIdAuthorizationFailed,
            "a transactional batch takes a transactional id in the request",
        ));
    }
    if header.base_offset != Offset::ZERO {
        return Err(InvalidBatch::new(
            ErrorCode::InvalidRecord,
            format!("the base offset must be 0, not {}", header.base_offset),
        ));
    }
    if batch.len() > rules.max_message_bytes {
        return Err(InvalidBatch::new(
            ErrorCode::MessageTooLarge,
            format!(
                "the batch has {} bytes, the topic allows {}",
                batch.len(),
                rules.max_message_bytes
            ),
        ));
    }
    Ok(header)
}

fn check_bytes(batch: &[u8], header: &BatchHeader) -> Result<(), InvalidBatch> {
    let computed = compute_crc(batch);
    if computed == header.crc {
        return Ok(());
    }
    Err(InvalidBatch::new(
        ErrorCode::CorruptMessage,
        format!(
            "the batch claims CRC {:#010x}, its bytes have {computed:#010x}",
            header.crc
        ),
    ))
}

/// Checks that the header's fields agree with each other and with what a client may write.
fn check_fields(header: &BatchHeader) -> Result<(), InvalidBatch> {
    let count = header.record_count;
    let fault = if header.last_offset_delta < 0 {
        format!("the last offset delta is {}", header.last_offset_delta)
    } else if count <= 0 {
        format!("the record count is {count}")
    } else if header.last_offset_delta != count - 1 {
        format!(
            "the last offset delta {} does not fit the record count {count}",
            header.last_offset_delta
        )
    } else if header.is_control() {
        "clients may not write control records".to_owned()
    } else if header.has_producer() && header.base_sequence.0 < 0 {
        format!(
            "producer {} sends the sequence {}",
            header.producer_id, header.base_sequence
        )
    } else {
        return Ok(());
    };
    Err(InvalidBatch::new(ErrorCode::InvalidRecord, fault))
}
