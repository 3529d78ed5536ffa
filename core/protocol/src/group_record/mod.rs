//! Records of `__consumer_offsets` on disk; their outer form stands in [`crate::coordinator_record`].
//!
//! Invariants:
//! 1. What Kafka 4.3's coordinator would write, this writes to the byte: [`encode`] picks its versions.
//! 2. A type that we do not know is no error but `None`, to be left alone, as Kafka does: share and streams groups, or
//!    what a later Kafka writes. A known type that cannot be read is an error that names it.
//!
//! Source: KIP-211, KIP-848, KIP-915, logs written by Apache Kafka 4.3.1.

mod codec;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use pelton_model::record_type::group::GroupRecord;

use crate::codec::Reader;
use crate::coordinator_record::{RecordError, key_type, split_fuzzed};
use crate::fuzz::Target;

/// Encodes a record as key and value; a tombstone has no value.
#[must_use]
pub fn encode(record: &GroupRecord) -> (Bytes, Option<Bytes>) {
    codec::encode(record)
}

/// Decodes a record from its key and value; `None` when its type is not known here.
///
/// # Errors
/// When the type is known but key or value cannot be read.
pub fn decode(key: &Bytes, value: Option<&Bytes>) -> Result<Option<GroupRecord>, RecordError> {
    let mut reader = Reader::shared(key);
    let key_type = key_type(&mut reader)?;
    codec::decode(key_type, &mut reader, value)
}

/// Every key and value with its schema and codec, for tests and fuzzers: keys first.
pub fn targets() -> impl Iterator<Item = &'static Target> {
    codec::KEYS.iter().chain(codec::VALUES)
}

/// The fuzzers' target: a key's length, the key, the value.
pub fn fuzz(bytes: &[u8]) {
    let Some((key, value)) = split_fuzzed(bytes) else {
        return;
    };
    if let Ok(Some(record)) = decode(&key, value.as_ref()) {
        let (key, value) = encode(&record);
        assert_eq!(decode(&key, value.as_ref()), Ok(Some(record)));
    }
}
