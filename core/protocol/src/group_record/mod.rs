//! Records of `__consumer_offsets` on disk.
//!
//! ```text
//! key:   type int16 | body by the type's schema, never flexible
//! value: version int16 | body by the type's schema; a null value is a tombstone
//! ```
//!
//! Invariants:
//! 1. What Kafka 4.3's coordinator would write, this writes to the byte: [`encode`] picks its versions.
//! 2. A type that we do not know is no error but `None`, to be left alone, as Kafka does: share and streams groups, or
//!    what a later Kafka writes. A known type that cannot be read is an error that names it.
//! 3. Unknown tagged fields are skipped, as Kafka's coordinator does.
//!
//! Source: KIP-211, KIP-848, KIP-915, logs written by Apache Kafka 4.3.1.

mod codec;
#[cfg(test)]
mod tests;

use std::fmt;

use bytes::Bytes;
use pelton_model::record_type::group::GroupRecord;

use crate::codec::{DecodeError, Message, Reader, Writer};
use crate::fuzz::Target;

/// Why bytes are no record of `__consumer_offsets`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupRecordError {
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

impl fmt::Display for GroupRecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key => f.write_str("group record without a type in its key"),
            Self::Body { message, cause } => write!(f, "malformed group record {message}: {cause}"),
            Self::UnknownVersion { message, version } => {
                write!(f, "unknown version {version} of group record {message}")
            }
        }
    }
}

impl std::error::Error for GroupRecordError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Body { cause, .. } => Some(cause),
            Self::Key | Self::UnknownVersion { .. } => None,
        }
    }
}

/// Encodes a record as key and value; a tombstone has no value.
#[must_use]
pub fn encode(record: &GroupRecord) -> (Bytes, Option<Bytes>) {
    codec::encode(record)
}

/// Decodes a record from its key and value; `None` when its type is not known here.
///
/// # Errors
/// When the type is known but key or value cannot be read.
pub fn decode(key: &Bytes, value: Option<&Bytes>) -> Result<Option<GroupRecord>, GroupRecordError> {
    let mut reader = Reader::shared(key);
    let key_type = reader.int16().map_err(|_| GroupRecordError::Key)?;
    codec::decode(key_type, &mut reader, value)
}

/// Every key and value with its schema and codec, for tests and fuzzers: keys first.
pub fn targets() -> impl Iterator<Item = &'static Target> {
    codec::KEYS.iter().chain(codec::VALUES)
}

/// The fuzzers' target: a key's length, the key, the value.
pub fn fuzz(bytes: &[u8]) {
    let Some((&length, rest)) = bytes.split_first() else {
        return;
    };
    let Some((key, value)) = rest.split_at_checked(usize::from(length)) else {
        return;
    };
    let value = Bytes::copy_from_slice(value);
    let value = (!value.is_empty()).then_some(value);
    if let Ok(Some(record)) = decode(&Bytes::copy_from_slice(key), value.as_ref()) {
        let (key, value) = encode(&record);
        assert_eq!(decode(&key, value.as_ref()), Ok(Some(record)));
    }
}

fn write_key<K: Message>(key: &K) -> Bytes {
    let mut writer = Writer::new();
    writer.int16(K::KEY);
    key.encode(&mut writer, 0);
    writer.into_bytes()
}

fn write_value<V: Message>(value: &V, version: i16) -> Bytes {
    let mut writer = Writer::new();
    writer.int16(version);
    value.encode(&mut writer, version);
    writer.into_bytes()
}

fn read_key<K: Message>(reader: &mut Reader<'_>) -> Result<K, GroupRecordError> {
    let message = K::NAME;
    K::decode(reader, 0).map_err(|cause| GroupRecordError::Body { message, cause })
}

fn read_value<V: Message>(value: Option<&Bytes>) -> Result<Option<V>, GroupRecordError> {
    let Some(value) = value else {
        return Ok(None);
    };
    let message = V::NAME;
    let body = |cause| GroupRecordError::Body { message, cause };
    // Copies: a member's few bytes must not keep the piece of the log that they were read with.
    let mut reader = Reader::new(value);
    let version = reader.int16().map_err(body)?;
    if !V::VERSIONS.contains(version) {
        return Err(GroupRecordError::UnknownVersion { message, version });
    }
    V::decode(&mut reader, version).map(Some).map_err(body)
}
