//! Records of `__transaction_state` on disk; their outer form stands in [`crate::coordinator_record`].
//!
//! Invariants:
//! 1. What Kafka 4.3's coordinator would write, this writes to the byte: version 1 from transaction version 1 on, else version 0,
//!    which has no room for more than one producer id.
//! 2. A type that we do not know is no error but `None`, to be left alone.
//!
//! Source: KIP-98, KIP-890, KIP-915, logs written by Apache Kafka 4.3.1.

#[cfg(test)]
mod tests;

use bytes::Bytes;
use pelton_model::Str;
use pelton_model::record_type::transaction::{
    PartitionsSchema, TransactionLogKey, TransactionLogValue, TransactionRecord,
};

use crate::codec::{Message, Reader};
use crate::coordinator_record::{
    RecordError, key_type, read_key, read_value, split_fuzzed, write_key, write_value,
};
use crate::fuzz::Target;
use crate::{message_for, wire};

message_for! {
    TransactionLogKey, key 0, versions 0-0, flexible none {
        transactional_id: Str, 0-0;
    }
}

wire! {
    PartitionsSchema {
        topic: Str, 0+;
        partition_ids: Vec<i32>, 0+;
    }
}

message_for! {
    TransactionLogValue, key 0, versions 0-1, flexible 1+ {
        producer_id: i64, 0+;
        previous_producer_id: i64, 1+, tag 0 1+, default -1;
        next_producer_id: i64, 1+, tag 1 1+, default -1;
        producer_epoch: i16, 0+;
        next_producer_epoch: i16, 1+, tag 3 1+, default -1;
        transaction_timeout_ms: i32, 0+;
        transaction_status: i8, 0+;
        transaction_partitions: Option<Vec<PartitionsSchema>>, 0+, nullable 0+;
        transaction_last_update_timestamp_ms: i64, 0+;
        transaction_start_timestamp_ms: i64, 0+;
        client_transaction_version: i16, 1+, tag 2 1+, default 0;
    }
}

/// Encodes a record as key and value; a tombstone has no value. `is_flexible`: whether the finalized transaction version is 1 or more.
#[must_use]
pub fn encode(record: &TransactionRecord, is_flexible: bool) -> (Bytes, Option<Bytes>) {
    let TransactionRecord::TransactionLog(key, value) = record;
    let write = |value: &TransactionLogValue| write_value(value, i16::from(is_flexible));
    (write_key(key), value.as_ref().map(write))
}

/// Decodes a record from its key and value; `None` when its type is not known here.
///
/// # Errors
/// When the type is known but key or value cannot be read.
pub fn decode(
    key: &Bytes,
    value: Option<&Bytes>,
) -> Result<Option<TransactionRecord>, RecordError> {
    let mut reader = Reader::new(key);
    if key_type(&mut reader)? != TransactionLogKey::KEY {
        return Ok(None);
    }
    let key = read_key(&mut reader)?;
    Ok(Some(TransactionRecord::TransactionLog(
        key,
        read_value(value)?,
    )))
}

/// Key and value with their schema and codec, for tests and fuzzers.
pub fn targets() -> impl Iterator<Item = &'static Target> {
    const TARGETS: &[Target] = &[
        Target::of::<TransactionLogKey>(),
        Target::of::<TransactionLogValue>(),
    ];
    TARGETS.iter()
}

/// The fuzzers' target: a key's length, the key, the value.
pub fn fuzz(bytes: &[u8]) {
    let Some((key, value)) = split_fuzzed(bytes) else {
        return;
    };
    if let Ok(Some(record)) = decode(&key, value.as_ref()) {
        let (key, value) = encode(&record, true);
        assert_eq!(decode(&key, value.as_ref()), Ok(Some(record)));
    }
}
