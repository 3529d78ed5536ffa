//! Records of `__cluster_metadata` on disk.
//!
//! ```text
//! size   | field         | meaning
//! varint | frame version | 1
//! varint | api key       | the record type
//! varint | version       | of the record type
//! rest   | body          | by the record type's schema; nothing may follow it
//! ```
//!
//! Invariants:
//! 1. A record type, version or tagged field that we do not know is an error that names it: nothing is skipped.
//! 2. Encoding uses the highest version of Kafka 4.3, which its brokers write at metadata version 30.
//!
//! The record's key is null. Source: KIP-631, logs written by Apache Kafka 4.3.1.

mod batch;
mod codec;
#[cfg(test)]
mod tests;

use std::fmt;

use bytes::Bytes;
use pelton_model::record_type::metadata::MetadataRecord;

use crate::codec::{DecodeError, Message, Reader, Writer};
use crate::fuzz::Target;

pub(crate) use batch::batch_options;
pub use batch::{
    LogEntry, LogError, LogErrorCause, LogRecord, batch_of, control_batch_of, records_of,
};

/// The only frame version there is.
const FRAME_VERSION: u32 = 1;

/// Why bytes are not a metadata record. The log cannot be read on: a start must be refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The frame version is not 1.
    FrameVersion(u32),
    /// No record type of Kafka 4.3 has this number.
    UnknownType {
        /// The number.
        api_key: u32,
        /// The record's version.
        version: u32,
    },
    /// The record type has no such version.
    UnknownVersion {
        /// The record type, as Kafka spells it.
        record: &'static str,
        /// The version.
        version: u32,
    },
    /// The header or the body is not what the schema says.
    Body {
        /// The record type, as Kafka spells it; empty when the header is at fault.
        record: &'static str,
        /// What is wrong.
        cause: DecodeError,
    },
    /// The record has a tagged field that we do not know: keeping the record would drop it.
    UnknownTag {
        /// The record type, as Kafka spells it.
        record: &'static str,
        /// The tag.
        tag: u32,
    },
    /// Bytes follow the body.
    Trailing {
        /// The record type, as Kafka spells it.
        record: &'static str,
        /// How many bytes follow.
        size_bytes: usize,
    },
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FrameVersion(version) => write!(f, "metadata record of frame version {version}"),
            Self::UnknownType { api_key, version } => {
                write!(
                    f,
                    "unknown metadata record type {api_key} (version {version})"
                )
            }
            Self::UnknownVersion { record, version } => {
                write!(f, "unknown version {version} of metadata record {record}")
            }
            Self::Body { record, cause } => {
                write!(f, "malformed metadata record {record}: {cause}")
            }
            Self::UnknownTag { record, tag } => {
                write!(f, "unknown tagged field {tag} of metadata record {record}")
            }
            Self::Trailing { record, size_bytes } => {
                write!(f, "{size_bytes} bytes follow metadata record {record}")
            }
        }
    }
}

impl std::error::Error for RecordError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Body { cause, .. } => Some(cause),
            Self::FrameVersion(_)
            | Self::UnknownType { .. }
            | Self::UnknownVersion { .. }
            | Self::UnknownTag { .. }
            | Self::Trailing { .. } => None,
        }
    }
}

/// Encodes a record as the value of a record in a batch.
#[must_use]
pub fn encode(record: &MetadataRecord) -> Bytes {
    encode_version(record, codec::versions(record).max)
}

/// Encodes a record in one of its versions; fields that the version lacks are left out.
///
/// # Panics
/// When the record type has no such version.
#[must_use]
pub fn encode_version(record: &MetadataRecord, version: i16) -> Bytes {
    let mut writer = Writer::new();
    writer.unsigned_varint(FRAME_VERSION);
    writer.unsigned_varint(record.api_key());
    writer.unsigned_varint(u32::try_from(version).expect("versions are not negative"));
    codec::write(record, &mut writer, version);
    writer.into_bytes()
}

/// Decodes the value of a record in a batch.
///
/// # Errors
/// When it is no record that Kafka 4.3 knows.
pub fn decode(value: &[u8]) -> Result<MetadataRecord, RecordError> {
    decode_with_version(value).map(|(record, _)| record)
}

/// Decodes the value of a record in a batch, and tells the version in which it was written.
///
/// # Errors
/// When it is no record that Kafka 4.3 knows.
pub fn decode_with_version(value: &[u8]) -> Result<(MetadataRecord, i16), RecordError> {
    let mut reader = Reader::new(value);
    let header = |cause| RecordError::Body { record: "", cause };
    let frame_version = reader.unsigned_varint().map_err(header)?;
    if frame_version != FRAME_VERSION {
        return Err(RecordError::FrameVersion(frame_version));
    }
    let api_key = reader.unsigned_varint().map_err(header)?;
    let version = reader.unsigned_varint().map_err(header)?;
    let (record, version) = codec::read(&mut reader, api_key, version)?;
    if let Some(tag) = reader.unknown_tag() {
        let record = record.name();
        return Err(RecordError::UnknownTag { record, tag });
    }
    if reader.remaining() > 0 {
        return Err(RecordError::Trailing {
            record: record.name(),
            size_bytes: reader.remaining(),
        });
    }
    assert!(record.api_key() == api_key);
    Ok((record, version))
}

/// Every record type with its schema and codec, for tests and fuzzers.
#[must_use]
pub fn targets() -> &'static [Target] {
    codec::TARGETS
}

/// Reads the body of record type `M`.
fn read_body<M: Message + Into<MetadataRecord>>(
    reader: &mut Reader<'_>,
    version: u32,
) -> Result<(MetadataRecord, i16), RecordError> {
    let record = M::NAME;
    let unknown = RecordError::UnknownVersion { record, version };
    let version = match i16::try_from(version) {
        Ok(version) if M::VERSIONS.contains(version) => version,
        Ok(_) | Err(_) => return Err(unknown),
    };
    let body = M::decode(reader, version).map_err(|cause| RecordError::Body { record, cause })?;
    Ok((body.into(), version))
}
