//! The walk over the records of a batch that is being validated.
//!
//! Invariants:
//! 1. Faults of structure end the walk; faults of single records (no key, a timestamp out of range) are collected.
//! 2. The walk over a compressed batch ends within the bound of [`decompressed_bytes_max`].
//!
//! What it does not do: look at values.
//! Source: observed answers of Apache Kafka 4.3.1.

use super::{InvalidBatch, ProduceRules};
use crate::batch::record::RecordFacts;
use crate::batch::stream::{RecordStream, StreamError};
use crate::batch::varint::Cursor;
use crate::batch::{BatchHeader, HEADER_BYTES, RecordError, Scratch, TimestampType};
use crate::compression::{Compression, DecompressError};
use crate::error_code::ErrorCode;
use crate::id::Timestamp;
use crate::limits::{
    DECOMPRESSED_BYTES_FLOOR, DECOMPRESSED_BYTES_MAX, DECOMPRESSED_RATIO_MAX, RECORD_ERRORS_MAX,
};

/// Checks the records; returns the true max timestamp and the offset delta of its first record.
pub(super) fn check(
    batch: &[u8],
    header: &BatchHeader,
    compression: Compression,
    rules: &ProduceRules,
    scratch: &mut Scratch,
) -> Result<(Timestamp, i32), InvalidBatch> {
    let records = &batch[HEADER_BYTES..];
    let mut checks = Checks::new(header, rules);
    if compression == Compression::None {
        walk_plain(records, header.record_count, &mut checks)?;
    } else {
        let bytes_max = decompressed_bytes_max(records.len()).min(rules.decompressed_bytes_max);
        let mut stream =
            RecordStream::with_scratch(compression, bytes_max, std::mem::take(scratch));
        let walked = walk_stream(&mut stream, records, header.record_count, &mut checks);
        *scratch = stream.into_scratch();
        walked?;
    }
    checks.finish(rules)
}

/// How far a batch of `compressed` bytes may expand.
fn decompressed_bytes_max(compressed: usize) -> u64 {
    (compressed as u64)
        .saturating_mul(DECOMPRESSED_RATIO_MAX)
        .clamp(DECOMPRESSED_BYTES_FLOOR, DECOMPRESSED_BYTES_MAX)
}

fn walk_plain(records: &[u8], count: i32, checks: &mut Checks) -> Result<(), InvalidBatch> {
    let mut cursor = Cursor::new(records);
    for index in 0..count {
        match RecordFacts::read(&mut cursor) {
            Ok(facts) => checks.record(index, &facts),
            Err(reason) => return Err(bad_record(index, reason)),
        }
    }
    if cursor.rest.is_empty() {
        Ok(())
    } else {
        Err(trailing_bytes(count))
    }
}

fn walk_stream(
    stream: &mut RecordStream,
    records: &[u8],
    count: i32,
    checks: &mut Checks,
) -> Result<(), InvalidBatch> {
    for index in 0..count {
        let facts = stream
            .facts(records)
            .map_err(|error| bad_stream(index, error))?;
        if facts.offset_delta != index {
            return Err(InvalidBatch::new(
                ErrorCode::InvalidRecord,
                format!(
                    "record {index} of a compressed batch has the offset delta {}",
                    facts.offset_delta
                ),
            ));
        }
        checks.record(index, &facts);
    }
    match stream.at_end(records) {
        Ok(true) => Ok(()),
        Ok(false) => Err(trailing_bytes(count)),
        Err(error) => Err(bad_stream(count, error)),
    }
}

#[cold]
fn bad_record(index: i32, reason: RecordError) -> InvalidBatch {
    InvalidBatch::new(
        ErrorCode::InvalidRecord,
        format!("record {index}: {}", reason.message()),
    )
}

#[cold]
fn trailing_bytes(count: i32) -> InvalidBatch {
    InvalidBatch::new(
        ErrorCode::InvalidRecord,
        format!("bytes are left after the {count} records that the batch claims"),
    )
}

#[cold]
fn bad_stream(index: i32, error: StreamError) -> InvalidBatch {
    let error = match error {
        StreamError::Record(reason) => return bad_record(index, reason),
        StreamError::Decompress(error) => error,
    };
    let code = match error {
        // Kafka's code for data that was never compressed, or not with the codec of the attributes.
        DecompressError::NotThisCodec => ErrorCode::UnknownServerError,
        DecompressError::Corrupt => ErrorCode::CorruptMessage,
        // Producers answer this by sending smaller batches, which is what an honest one should do.
        DecompressError::TooLarge { .. } => ErrorCode::MessageTooLarge,
    };
    InvalidBatch::new(code, error.to_string())
}

/// The checks of single records, set up once per batch.
struct Checks {
    base_timestamp: i64,
    /// All ones; zero in a batch that claims LogAppendTime, where every record has the batch's timestamp.
    delta_mask: i64,
    earliest: i64,
    /// Latest − earliest.
    span: u64,
    /// The producer may not claim LogAppendTime: every record is refused.
    refuse_timestamps: bool,
    compacted: bool,
    max_timestamp: i64,
    max_timestamp_index: i32,
    refused: Refused,
}

#[derive(Default)]
struct Refused {
    count: usize,
    any_timestamp: bool,
    errors: Vec<(i32, String)>,
}

impl Checks {
    fn new(header: &BatchHeader, rules: &ProduceRules) -> Self {
        let claims_append_time = header.attributes.timestamp_type() == TimestampType::LogAppendTime;
        let (earliest, latest, topic_append_time) = match rules.timestamp_type {
            TimestampType::LogAppendTime => (i64::MIN, i64::MAX, true),
            TimestampType::CreateTime => (
                rules.now.0.saturating_sub(rules.before_max_ms),
                rules.now.0.saturating_add(rules.after_max_ms),
                false,
            ),
        };
        Self {
            base_timestamp: if claims_append_time {
                header.max_timestamp.0
            } else {
                header.base_timestamp.0
            },
            delta_mask: if claims_append_time { 0 } else { -1 },
            earliest,
            span: latest.wrapping_sub(earliest).cast_unsigned(),
            refuse_timestamps: claims_append_time
                && (topic_append_time || header.max_timestamp == Timestamp::NONE),
            compacted: rules.compacted,
            max_timestamp: Timestamp::NONE.0,
            max_timestamp_index: 0,
            refused: Refused::default(),
        }
    }

    #[inline]
    fn record(&mut self, index: i32, facts: &RecordFacts) {
        let timestamp = self
            .base_timestamp
            .wrapping_add(facts.timestamp_delta & self.delta_mask);
        if timestamp > self.max_timestamp {
            self.max_timestamp = timestamp;
            self.max_timestamp_index = index;
        }
        let out_of_range = timestamp.wrapping_sub(self.earliest).cast_unsigned() > self.span
            && timestamp != Timestamp::NONE.0;
        let no_key = self.compacted & !facts.has_key;
        if out_of_range || no_key || self.refuse_timestamps {
            self.refuse(index, timestamp, no_key);
        }
    }

    #[cold]
    #[inline(never)]
    fn refuse(&mut self, index: i32, timestamp: i64, no_key: bool) {
        self.refused.count += 1;
        self.refused.any_timestamp |= !no_key;
        if self.refused.errors.len() == RECORD_ERRORS_MAX {
            return;
        }
        let message = if no_key {
            "a compacted topic takes no record without a key".to_owned()
        } else if self.refuse_timestamps {
            "a producer may not set the timestamp type to LogAppendTime".to_owned()
        } else {
            format!(
                "timestamp {timestamp} is outside [{}, {}]",
                self.earliest,
                self.earliest.wrapping_add(self.span.cast_signed())
            )
        };
        self.refused.errors.push((index, message));
    }

    fn finish(self, rules: &ProduceRules) -> Result<(Timestamp, i32), InvalidBatch> {
        if self.refused.count > 0 {
            return Err(self.refused.into_invalid());
        }
        Ok(match rules.timestamp_type {
            TimestampType::CreateTime => (Timestamp(self.max_timestamp), self.max_timestamp_index),
            TimestampType::LogAppendTime => (rules.now, 0),
        })
    }
}

impl Refused {
    #[cold]
    fn into_invalid(self) -> InvalidBatch {
        let (error, why) = if self.any_timestamp {
            (ErrorCode::InvalidTimestamp, "their timestamps")
        } else {
            (ErrorCode::InvalidRecord, "missing keys")
        };
        InvalidBatch {
            error,
            message: format!("{} records were refused for {why}", self.count),
            record_errors: self.errors,
            tells_log_start: true,
        }
    }
}
