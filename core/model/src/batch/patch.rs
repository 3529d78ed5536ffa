//! The header fields that a leader sets in a batch it appends.
//!
//! Invariants:
//! 1. Base offset and leader epoch lie outside the CRC: setting them leaves it valid.
//! 2. Attributes and max timestamp lie inside: setting them writes the CRC anew, when anything changed.
//!
//! What it does not do: change records or their count.
//! Source: KIP-98 (why the CRC begins after the leader epoch), KIP-32 (LogAppendTime).

use super::scan::{claimed_size, compute_crc};
use super::{
    ATTRIBUTES_AT, Attributes, CRC_AT, HEADER_BYTES, LEADER_EPOCH_AT, MAX_TIMESTAMP_AT,
    TimestampType,
};
use crate::id::{LeaderEpoch, Offset, Timestamp};

/// Sets the base offset.
///
/// # Panics
/// When `batch` is shorter than a header: callers hold a batch that was validated.
pub fn set_base_offset(batch: &mut [u8], base_offset: Offset) {
    assert!(batch.len() >= HEADER_BYTES);
    batch[..8].copy_from_slice(&base_offset.0.to_be_bytes());
}

/// Sets the leader epoch.
///
/// # Panics
/// When `batch` is shorter than a header: callers hold a batch that was validated.
pub fn set_leader_epoch(batch: &mut [u8], leader_epoch: LeaderEpoch) {
    assert!(batch.len() >= HEADER_BYTES);
    batch[LEADER_EPOCH_AT..LEADER_EPOCH_AT + 4].copy_from_slice(&leader_epoch.0.to_be_bytes());
}

/// Sets timestamp type and max timestamp of the batch at the start of `batch`, and the CRC when either changed.
///
/// # Panics
/// When the bytes do not hold one whole batch: callers hold a batch that was validated.
pub fn set_max_timestamp(
    batch: &mut [u8],
    timestamp_type: TimestampType,
    max_timestamp: Timestamp,
) {
    assert!(batch.len() >= HEADER_BYTES);
    let old = Attributes(i16::from_be_bytes([
        batch[ATTRIBUTES_AT],
        batch[ATTRIBUTES_AT + 1],
    ]));
    let new = old.with_timestamp_type(timestamp_type);
    let timestamp = max_timestamp.0.to_be_bytes();
    let timestamp_field = MAX_TIMESTAMP_AT..MAX_TIMESTAMP_AT + 8;
    if old == new && batch[timestamp_field.clone()] == timestamp {
        return;
    }
    batch[ATTRIBUTES_AT..ATTRIBUTES_AT + 2].copy_from_slice(&new.0.to_be_bytes());
    batch[timestamp_field].copy_from_slice(&timestamp);
    set_crc(batch);
}

/// Writes the CRC anew.
///
/// # Panics
/// When the bytes do not hold one whole batch.
pub(super) fn set_crc(batch: &mut [u8]) {
    let (_, size_bytes) = claimed_size(batch).expect("the caller asserted a whole header");
    let size_bytes = usize::try_from(size_bytes).expect("a batch is smaller than the memory");
    assert!(HEADER_BYTES <= size_bytes);
    assert!(size_bytes <= batch.len());
    let crc = compute_crc(&batch[..size_bytes]);
    batch[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_be_bytes());
}
