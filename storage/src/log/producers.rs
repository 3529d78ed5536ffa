//! Producer state from what lies in the log.
//!
//! Data batches are replayed by their header; a transaction marker needs its record, for the coordinator's epoch.

use crate::txn_index::AbortedTxn;
use bytes::{Buf, Bytes};
use pelton_model::batch::{BatchHeader, RecordIter};
use pelton_model::producer_state::{BatchFacts, MarkerFacts, ProducerStamp, ProducerStates};

/// Bytes that a transaction marker may take at most; a batch of markers is far below.
pub(crate) const MARKER_BYTES_MAX: u64 = 64 * 1024;

/// Whether replaying the batch needs its records.
pub(super) fn is_marker(header: &BatchHeader) -> bool {
    header.is_control() && header.has_producer()
}

/// Replays a data batch by its header. Batches without a producer change nothing.
pub(super) fn replay(states: &mut ProducerStates, header: &BatchHeader) {
    if !header.has_producer() || header.is_control() || header.last_offset_delta < 0 {
        return;
    }
    let facts = BatchFacts {
        last_offset_delta: header.last_offset_delta,
        producer: Some(ProducerStamp {
            id: header.producer_id,
            epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
        }),
        is_transactional: header.is_transactional(),
        max_timestamp: header.max_timestamp,
    };
    states.replay(header.base_offset, &facts);
}

/// What a control record is, by its key: 0 aborts a transaction, 1 commits it. `None` when the key is none of a control record.
pub(crate) fn marker_kind(key: Option<Bytes>) -> Option<i16> {
    let mut key = key.filter(|key| key.len() >= 4)?;
    key.advance(2);
    Some(key.get_i16())
}

/// Replays the markers of a control batch; returns the transactions that they aborted.
///
/// | bytes | field |
/// |---:|---|
/// | key 0–1, 2–3 | version i16, type i16: 0 abort, 1 commit |
/// | value 0–1, 2–5 | version i16, coordinator epoch i32 |
pub(super) fn replay_markers(
    states: &mut ProducerStates,
    header: &BatchHeader,
    batch: &Bytes,
) -> Vec<AbortedTxn> {
    let mut aborted = Vec::new();
    let Ok(records) = RecordIter::new(batch, MARKER_BYTES_MAX) else {
        return aborted;
    };
    for record in records.map_while(Result::ok) {
        let kind = marker_kind(record.key);
        if !matches!(kind, Some(0 | 1)) {
            continue;
        }
        let coordinator_epoch =
            record
                .value
                .filter(|value| value.len() >= 6)
                .map_or(-1, |mut value| {
                    value.advance(2);
                    value.get_i32()
                });
        let ended = states.replay_marker(&MarkerFacts {
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            coordinator_epoch,
            offset: header.base_offset,
            timestamp: header.max_timestamp,
        });
        if let (Some(ended), Some(0)) = (ended, kind) {
            aborted.push(AbortedTxn {
                producer_id: header.producer_id,
                first_offset: ended.first_offset,
                last_offset: header.base_offset,
                last_stable_offset: ended.last_stable_offset,
            });
        }
    }
    aborted
}
