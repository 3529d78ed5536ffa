//! Whole batches of the metadata log: metadata records, or control records, never both.
//!
//! Invariants:
//! 1. A batch holds the records of one decision: recovery keeps all of them or none.
//! 2. Reading a batch checks its CRC first, and gives every record or an error that says at which offset and why.

use std::fmt;

use bytes::Bytes;
use pelton_model::batch::{
    BatchBuilder, BatchError, BatchHeader, BuilderOptions, RecordIter, verify_crc,
};
use pelton_model::record_type::control::ControlRecord;
use pelton_model::record_type::metadata::MetadataRecord;
use pelton_model::{LeaderEpoch, Offset, Timestamp, limits};

use super::{RecordError, decode, encode};
use crate::control_record::{self, ControlError};

/// A record of the metadata log.
#[derive(Clone, Debug, PartialEq)]
pub enum LogRecord {
    /// Changes the metadata.
    Metadata(MetadataRecord),
    /// Speaks of the quorum, or of the snapshot.
    Control(ControlRecord),
}

/// A record with its place in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    /// Its offset.
    pub offset: Offset,
    /// The leader epoch of its batch.
    pub epoch: LeaderEpoch,
    /// The record.
    pub record: LogRecord,
}

/// Why a batch of the metadata log cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogError {
    /// The offset of the record; of the batch when the batch is at fault; −1 when it has no header.
    pub offset: Offset,
    /// What is wrong.
    pub cause: LogErrorCause,
}

/// What is wrong with a batch of the metadata log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogErrorCause {
    /// The CRC does not match.
    Crc,
    /// The batch or a record in it is malformed.
    Batch(BatchError),
    /// A metadata record is malformed or unknown.
    Metadata(RecordError),
    /// A control record is malformed or unknown.
    Control(ControlError),
    /// A record has no value, or a control record no key.
    Absent,
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at offset {}: ", self.offset)?;
        match &self.cause {
            LogErrorCause::Crc => f.write_str("the batch's CRC does not match"),
            LogErrorCause::Batch(cause) => cause.fmt(f),
            LogErrorCause::Metadata(cause) => cause.fmt(f),
            LogErrorCause::Control(cause) => cause.fmt(f),
            LogErrorCause::Absent => f.write_str("a record lacks its key or value"),
        }
    }
}

impl std::error::Error for LogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            LogErrorCause::Batch(cause) => Some(cause),
            LogErrorCause::Metadata(cause) => Some(cause),
            LogErrorCause::Control(cause) => Some(cause),
            LogErrorCause::Crc | LogErrorCause::Absent => None,
        }
    }
}

/// Encodes metadata records as one batch.
///
/// # Panics
/// Without records: an empty batch has no offset.
#[must_use]
pub fn batch_of(
    records: &[MetadataRecord],
    base_offset: Offset,
    epoch: LeaderEpoch,
    timestamp: Timestamp,
) -> Bytes {
    assert!(!records.is_empty());
    let mut builder = BatchBuilder::new(batch_options(base_offset, epoch));
    for record in records {
        builder.append(timestamp, None, Some(&encode(record)), &[]);
    }
    builder.build()
}

/// Encodes control records as one control batch.
///
/// # Panics
/// Without records: an empty batch has no offset.
#[must_use]
pub fn control_batch_of(
    records: &[ControlRecord],
    base_offset: Offset,
    epoch: LeaderEpoch,
    timestamp: Timestamp,
) -> Bytes {
    assert!(!records.is_empty());
    let mut builder = BatchBuilder::new(BuilderOptions {
        control: true,
        ..batch_options(base_offset, epoch)
    });
    for record in records {
        let (key, value) = control_record::encode(record);
        builder.append(timestamp, Some(&key), Some(&value), &[]);
    }
    builder.build()
}

/// How a batch of metadata records begins.
pub(crate) fn batch_options(base_offset: Offset, leader_epoch: LeaderEpoch) -> BuilderOptions {
    BuilderOptions {
        base_offset,
        leader_epoch,
        ..BuilderOptions::default()
    }
}

/// Decodes the records of one whole batch of the metadata log or of a snapshot.
///
/// # Errors
/// When anything in it is malformed or unknown; the caller must refuse the log.
pub fn records_of(batch: &Bytes) -> Result<Vec<LogEntry>, LogError> {
    let header = BatchHeader::parse(batch).map_err(|cause| LogError {
        offset: Offset::NONE,
        cause: LogErrorCause::Batch(cause),
    })?;
    let at = |offset, cause| LogError { offset, cause };
    let malformed = |cause| at(header.base_offset, LogErrorCause::Batch(cause));
    if batch.len() < header.size_bytes() || !verify_crc(&batch[..header.size_bytes()]) {
        return Err(at(header.base_offset, LogErrorCause::Crc));
    }
    let iter = RecordIter::new(batch, limits::DECOMPRESSED_BYTES_FLOOR).map_err(malformed)?;
    let mut entries = Vec::new();
    for record in iter {
        let record = record.map_err(malformed)?;
        let offset = record.offset(&header);
        let value = record.value.ok_or(at(offset, LogErrorCause::Absent))?;
        let decoded = if header.is_control() {
            let key = record.key.ok_or(at(offset, LogErrorCause::Absent))?;
            control_record::decode(&key, &value)
                .map(LogRecord::Control)
                .map_err(LogErrorCause::Control)
        } else {
            decode(&value)
                .map(LogRecord::Metadata)
                .map_err(LogErrorCause::Metadata)
        };
        entries.push(LogEntry {
            offset,
            epoch: header.leader_epoch,
            record: decoded.map_err(|cause| at(offset, cause))?,
        });
    }
    Ok(entries)
}
