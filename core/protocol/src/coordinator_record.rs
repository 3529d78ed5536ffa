//! What the records of the coordinators' topics have in common on disk.
//!
//! ```text
//! key:   type int16 | body by the type's schema, never flexible
//! value: version int16 | body by the type's schema; a null value is a tombstone
//! ```
//!
//! Invariants:
//! 1. Unknown tagged fields are skipped, as Kafka's coordinators do.
//! 2. Values are copied out of the log: a few bytes must not keep the piece of the log that they were read with.

use std::fmt;

use bytes::Bytes;

use crate::codec::{DecodeError, Message, Reader, Writer};

/// Why bytes are no record of a coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The key is too short to have a type.
    Key,
    /// The key or the value is not what the schema says.
    Body {
        /// The message, as Kafka spells it.
        message: &'static str,
        /// What is wrong.
        cause: DecodeError,
    },
    /// The value's version is unknown.
    UnknownVersion {
        /// The message, as Kafka spells it.
        message: &'static str,
        /// The version.
        version: i16,
    },
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key => f.write_str("record without a type in its key"),
            Self::Body { message, cause } => write!(f, "malformed record {message}: {cause}"),
            Self::UnknownVersion { message, version } => {
                write!(f, "unknown version {version} of record {message}")
            }
        }
    }
}

impl std::error::Error for RecordError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Body { cause, .. } => Some(cause),
            Self::Key | Self::UnknownVersion { .. } => None,
        }
    }
}

/// The type that a key begins with.
pub(crate) fn key_type(reader: &mut Reader<'_>) -> Result<i16, RecordError> {
    reader.int16().map_err(|_| RecordError::Key)
}

/// Encodes a key with its type.
pub(crate) fn write_key<K: Message>(key: &K) -> Bytes {
    let mut writer = Writer::new();
    writer.int16(K::KEY);
    key.encode(&mut writer, 0);
    writer.into_bytes()
}

/// Encodes a value with its version.
pub(crate) fn write_value<V: Message>(value: &V, version: i16) -> Bytes {
    let mut writer = Writer::new();
    writer.int16(version);
    value.encode(&mut writer, version);
    writer.into_bytes()
}

/// Decodes a key behind its type.
pub(crate) fn read_key<K: Message>(reader: &mut Reader<'_>) -> Result<K, RecordError> {
    let message = K::NAME;
    K::decode(reader, 0).map_err(|cause| RecordError::Body { message, cause })
}

/// Decodes a value; a tombstone is none.
pub(crate) fn read_value<V: Message>(value: Option<&Bytes>) -> Result<Option<V>, RecordError> {
    let Some(value) = value else {
        return Ok(None);
    };
    let message = V::NAME;
    let body = |cause| RecordError::Body { message, cause };
    let mut reader = Reader::new(value);
    let version = reader.int16().map_err(body)?;
    if !V::VERSIONS.contains(version) {
        return Err(RecordError::UnknownVersion { message, version });
    }
    V::decode(&mut reader, version).map(Some).map_err(body)
}

/// What fuzzers give to a decoder of records: a key's length, the key, the value.
pub(crate) fn split_fuzzed(bytes: &[u8]) -> Option<(Bytes, Option<Bytes>)> {
    let (&length, rest) = bytes.split_first()?;
    let (key, value) = rest.split_at_checked(usize::from(length))?;
    let value = (!value.is_empty()).then(|| Bytes::copy_from_slice(value));
    Some((Bytes::copy_from_slice(key), value))
}
