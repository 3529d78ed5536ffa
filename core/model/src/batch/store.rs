//! From a producer's batch to the one that is stored: validated, and with the topic's codec.
//!
//! Invariants:
//! 1. A batch whose codec is the topic's, or whose topic leaves the codec to the producer, keeps its bytes.
//! 2. A batch with another codec keeps its records, their timestamps and its header; offset deltas of records become 0, 1, 2 ….
//! 3. What is stored keeps the topic's bounds on batches, as what was sent did.
//! 4. [`admit_here`] does no more work than its limits name; what it leaves is for [`admit`] on a thread that may take its time.
//!
//! Source: answers of Apache Kafka 4.3.1; KIP-390 (levels).

use bytes::{BufMut, Bytes, BytesMut};

use super::record::{RecordFacts, count_of, records_of};
use super::validate::{InvalidBatch, ProduceRules, ValidBatch, validate_produce};
use super::varint::Cursor;
use super::{
    ATTRIBUTES_AT, Attributes, BATCH_LENGTH_AT, BatchBuilder, BatchError, BatchHeader,
    BuilderOptions, HEADER_BYTES, LOG_OVERHEAD_BYTES, RecordRefs, Scratch, patch,
};
use crate::compression::{Compression, compress};
use crate::error_code::ErrorCode;
use crate::id::Timestamp;
use crate::limits::{
    DECOMPRESSED_BYTES_HERE_MAX, RECOMPRESSED_BYTES_HERE_MAX, RECOMPRESSED_BYTES_MAX,
    VALIDATED_BYTES_HERE_MAX,
};

/// The codec that a topic wants, and its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The codec; `None` leaves it to the producer.
    pub codec: Option<Compression>,
    /// Kafka's `compression.<codec>.level`.
    pub level: Option<i32>,
}

impl Target {
    /// Whatever the producer chose.
    pub const PRODUCER: Self = Self {
        codec: None,
        level: None,
    };
}

/// A batch that may be appended, and what validation found out about it.
pub type Admitted = (BytesMut, ValidBatch);

/// What became of a batch on a thread that others wait for.
#[derive(Debug)]
pub enum Here {
    /// It is judged.
    Done(Result<Admitted, InvalidBatch>),
    /// It is too much work: [`admit`] it elsewhere. The data is as it came.
    Elsewhere(BytesMut),
}

/// As [`admit`], unless that is much work.
pub fn admit_here(
    data: BytesMut,
    rules: &ProduceRules,
    target: Target,
    scratch: &mut Scratch,
) -> Here {
    let header = BatchHeader::parse(&data).ok();
    let codec = header.and_then(|header| header.attributes.compression());
    let is_compressed = codec.is_some_and(|codec| codec != Compression::None);
    if is_compressed && VALIDATED_BYTES_HERE_MAX < data.len() {
        return Here::Elsewhere(data);
    }
    let is_recompressed = target.codec.is_some_and(|wanted| Some(wanted) != codec);
    if is_recompressed && RECOMPRESSED_BYTES_HERE_MAX < data.len() {
        return Here::Elsewhere(data);
    }
    let bytes_max = match is_recompressed {
        true => RECOMPRESSED_BYTES_HERE_MAX as u64,
        false => DECOMPRESSED_BYTES_HERE_MAX,
    };
    let bounded = ProduceRules {
        decompressed_bytes_max: bytes_max.min(rules.decompressed_bytes_max),
        ..*rules
    };
    let judged = validate_produce(&data, &sent_rules(&bounded, is_recompressed), scratch);
    let is_large = |invalid: &InvalidBatch| invalid.error == ErrorCode::MessageTooLarge;
    if is_compressed && judged.as_ref().is_err_and(is_large) {
        // It may be the bound of this place that it passed.
        return Here::Elsewhere(data);
    }
    Here::Done(judged.and_then(|valid| stored(data, valid, rules, target, scratch)))
}

/// Validates the one batch in a partition's data and gives it the topic's codec.
///
/// # Errors
/// As [`validate_produce`]; and the bounds on batches again, once the batch has its codec.
pub fn admit(
    data: BytesMut,
    rules: &ProduceRules,
    target: Target,
    scratch: &mut Scratch,
) -> Result<Admitted, InvalidBatch> {
    let header = BatchHeader::parse(&data).ok();
    let codec = header.and_then(|header| header.attributes.compression());
    let is_recompressed = target.codec.is_some_and(|wanted| Some(wanted) != codec);
    let valid = validate_produce(&data, &sent_rules(rules, is_recompressed), scratch)?;
    stored(data, valid, rules, target, scratch)
}

/// A batch that is going to be recompressed need not fit into a segment as it came.
fn sent_rules(rules: &ProduceRules, is_recompressed: bool) -> ProduceRules {
    ProduceRules {
        segment_bytes: if is_recompressed {
            usize::MAX
        } else {
            rules.segment_bytes
        },
        ..*rules
    }
}

fn stored(
    mut data: BytesMut,
    valid: ValidBatch,
    rules: &ProduceRules,
    target: Target,
    scratch: &mut Scratch,
) -> Result<Admitted, InvalidBatch> {
    data.truncate(valid.size_bytes);
    let Some(codec) = target.codec.filter(|codec| *codec != valid.compression) else {
        return Ok((data, valid));
    };
    let bytes_max = if codec == Compression::None {
        u64::try_from(rules.max_message_bytes).unwrap_or(u64::MAX)
    } else {
        RECOMPRESSED_BYTES_MAX
    };
    let batch = recompress(&data, codec, target.level, bytes_max, scratch).map_err(refusal)?;
    let refuse = |error, limit: &str, bytes| {
        let size = batch.len();
        let message =
            format!("the batch has {size} bytes in the topic's codec, {limit} allows {bytes}");
        Err(InvalidBatch {
            error,
            message,
            record_errors: Vec::new(),
            tells_log_start: false,
        })
    };
    if rules.max_message_bytes < batch.len() {
        let bytes = rules.max_message_bytes;
        return refuse(ErrorCode::MessageTooLarge, "max.message.bytes", bytes);
    }
    if rules.segment_bytes < batch.len() {
        return refuse(
            ErrorCode::RecordListTooLarge,
            "segment.bytes",
            rules.segment_bytes,
        );
    }
    let valid = ValidBatch {
        size_bytes: batch.len(),
        compression: codec,
        ..valid
    };
    Ok((batch, valid))
}

fn refusal(error: BatchError) -> InvalidBatch {
    let code = match error {
        // Producers answer this by sending smaller batches.
        BatchError::TooLarge { .. } => ErrorCode::MessageTooLarge,
        BatchError::Decompress { .. } | BatchError::UnknownCompression { .. } => {
            ErrorCode::CorruptMessage
        }
        BatchError::Torn { .. }
        | BatchError::Length { .. }
        | BatchError::Magic { .. }
        | BatchError::Crc { .. }
        | BatchError::Count { .. }
        | BatchError::Record { .. }
        | BatchError::TrailingBytes => ErrorCode::InvalidRecord,
    };
    InvalidBatch {
        error: code,
        message: error.to_string(),
        record_errors: Vec::new(),
        tells_log_start: false,
    }
}

/// The same batch with its records in another codec; they may take `bytes_max` bytes without one.
///
/// # Errors
/// The records cannot be read, or pass the bound.
pub fn recompress(
    batch: &[u8],
    codec: Compression,
    level: Option<i32>,
    bytes_max: u64,
    scratch: &mut Scratch,
) -> Result<BytesMut, BatchError> {
    let header = BatchHeader::parse(batch)?;
    let records = records_of(&header, batch)?;
    let id = header.attributes.compression_id();
    let source = header
        .attributes
        .compression()
        .ok_or(BatchError::UnknownCompression { id })?;
    let mut unpacked = Vec::new();
    let mut plain = records;
    let rebuilt: Bytes;
    let mut base_timestamp = header.base_timestamp;
    if source != Compression::None {
        scratch
            .decompress(source, records, bytes_max, &mut unpacked)
            .map_err(|error| error.of_record(0, &header))?;
        plain = &unpacked;
    } else if !is_numbered(&header, records)? {
        rebuilt = renumbered(&header, batch)?;
        base_timestamp = BatchHeader::parse(&rebuilt)?.base_timestamp;
        plain = &rebuilt[HEADER_BYTES..];
    }
    let packed = compress(codec, plain, level);
    Ok(assembled(batch, base_timestamp, codec, &packed))
}

/// A batch with the header of `batch`, save for what another codec changes.
fn assembled(
    batch: &[u8],
    base_timestamp: Timestamp,
    codec: Compression,
    packed: &[u8],
) -> BytesMut {
    let mut out = BytesMut::with_capacity(HEADER_BYTES + packed.len());
    out.put_slice(&batch[..HEADER_BYTES]);
    out.put_slice(packed);
    let length = i32::try_from(out.len() - LOG_OVERHEAD_BYTES)
        .expect("packed records are not much larger than their bounded source");
    out[BATCH_LENGTH_AT..BATCH_LENGTH_AT + 4].copy_from_slice(&length.to_be_bytes());
    let field = ATTRIBUTES_AT..ATTRIBUTES_AT + 2;
    let old = Attributes(i16::from_be_bytes([out[field.start], out[field.start + 1]]));
    out[field].copy_from_slice(&old.with_compression(codec).0.to_be_bytes());
    out[BASE_TIMESTAMP_AT..BASE_TIMESTAMP_AT + 8].copy_from_slice(&base_timestamp.0.to_be_bytes());
    patch::set_crc(&mut out);
    out
}

const BASE_TIMESTAMP_AT: usize = 27;

/// Whether the records' offset deltas are 0, 1, 2 ….
fn is_numbered(header: &BatchHeader, records: &[u8]) -> Result<bool, BatchError> {
    let mut cursor = Cursor::new(records);
    for index in 0..count_of(header)? {
        let facts = RecordFacts::read(&mut cursor)
            .map_err(|reason| BatchError::Record { index, reason })?;
        if u32::try_from(facts.offset_delta) != Ok(index) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// An uncompressed batch of the same records with the offset deltas that they should have.
fn renumbered(header: &BatchHeader, batch: &[u8]) -> Result<Bytes, BatchError> {
    let mut builder = BatchBuilder::with_capacity(BuilderOptions::default(), batch.len());
    for record in RecordRefs::new(header, batch)? {
        let record = record?;
        let timestamp = header.base_timestamp.0.wrapping_add(record.timestamp_delta);
        let headers: Vec<_> = record.headers().collect();
        builder.append(Timestamp(timestamp), record.key, record.value, &headers);
    }
    Ok(builder.build())
}

#[cfg(test)]
mod tests;
