//! The `.snapshot` file of a partition directory, in Kafka's format. All integers big-endian.
//!
//! | offset | size | field | meaning |
//! |---:|---:|---|---|
//! | 0 | 2 | version | 1 |
//! | 2 | 4 | crc | CRC-32C of everything that follows |
//! | 6 | 4 | count | number of entries |
//! | 10 | 46 × count | entries | below |
//!
//! | offset | size | field | meaning |
//! |---:|---:|---|---|
//! | 0 | 8 | producer id | |
//! | 8 | 2 | epoch | |
//! | 10 | 4 | last sequence | −1: no batch |
//! | 14 | 8 | last offset | −1: no batch |
//! | 22 | 4 | offset delta | last offset − base offset of the last batch |
//! | 26 | 8 | timestamp | of the last batch or marker |
//! | 34 | 4 | coordinator epoch | −1: none seen |
//! | 38 | 8 | current txn first offset | −1: no open transaction |
//!
//! Invariants:
//! 1. A snapshot at an end offset says nothing of batches at or above it: a state ahead of its log would take the resend
//!    of a lost batch for a duplicate, and lose it.
//! 2. Only the last batch of a producer is stored; replay of the log after the snapshot brings further ones.
//!
//! Source: Kafka's `ProducerSnapshot` message, version 1.

use std::collections::BTreeMap;
use std::fmt;

use bytes::{Buf, BufMut};

use super::{ProducerState, ProducerStates, WrittenBatch};
use crate::id::{Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

const VERSION: i16 = 1;
const VERSION_BYTES: usize = 2;
const CRC_BYTES: usize = 4;
const COUNT_BYTES: usize = 4;
const PREFIX_BYTES: usize = VERSION_BYTES + CRC_BYTES;
const ENTRY_BYTES: usize = 46;

const _: () = assert!(PREFIX_BYTES == 6);
const _: () = assert!(ENTRY_BYTES == 8 + 2 + 4 + 8 + 4 + 8 + 4 + 8);

/// Why bytes are not a snapshot. The file is useless: recovery deletes it and takes an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// Fewer bytes than the fixed part.
    Short,
    /// A version that is not 1.
    Version(i16),
    /// The checksum does not match.
    Crc,
    /// The count does not match the size.
    Count(i32),
    /// The entry with this index holds values that no broker writes.
    Entry(usize),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("producer snapshot is cut short"),
            Self::Version(version) => write!(f, "producer snapshot version {version} is unknown"),
            Self::Crc => f.write_str("producer snapshot fails its checksum"),
            Self::Count(count) => {
                write!(f, "producer snapshot of another size than {count} entries")
            }
            Self::Entry(index) => write!(f, "producer snapshot entry {index} is impossible"),
        }
    }
}

impl std::error::Error for SnapshotError {}

impl ProducerStates {
    /// Whether a snapshot of the log up to `end` can say all: it cannot of a transaction that began below while every batch that is
    /// remembered lies behind. O(producers) while any is open.
    #[must_use]
    pub fn is_known_at(&self, end: Offset) -> bool {
        let before = self.states_before(end);
        let is_open = |state: &ProducerState| {
            let first = state.current_txn_first_offset();
            first.is_some_and(|first| first < end)
        };
        let is_lost =
            |state: &ProducerState| is_open(state) && state.last_batch_below(end).is_none();
        let mut open = self
            .producers
            .iter()
            .filter(|(id, _)| !before.contains_key(id));
        let present = !self.open.is_empty() && open.any(|(_, state)| is_lost(state));
        !present && !before.values().any(|state| is_lost(state))
    }

    /// The contents of the snapshot file for the log up to `end` (exclusive), in order of producer id.
    ///
    /// State that was planned at or above `end` is left out: a transaction whose marker lies there is still open. A producer whose last
    /// five batches all lie there is left out altogether, so a caller that can should snapshot at the planned end.
    #[must_use]
    pub fn encode_snapshot(&self, end: Offset) -> Vec<u8> {
        let before = self.states_before(end);
        let mut entries: Vec<(ProducerId, &ProducerState, WrittenBatch)> = self
            .producers
            .iter()
            .filter_map(|(&id, state)| {
                let state = before.get(&id).copied().unwrap_or(state);
                Some((id, state, state.last_batch_below(end)?))
            })
            .collect();
        entries.sort_unstable_by_key(|&(id, ..)| id);
        let count = i32::try_from(entries.len()).expect("bounded by PRODUCERS_PER_PARTITION_MAX");

        let mut file = Vec::with_capacity(PREFIX_BYTES + COUNT_BYTES + entries.len() * ENTRY_BYTES);
        file.put_i16(VERSION);
        file.put_u32(0);
        file.put_i32(count);
        for (id, state, last) in entries {
            state.encode(&mut file, id, last, end);
        }
        let crc = crc32c::crc32c(&file[PREFIX_BYTES..]);
        file[VERSION_BYTES..PREFIX_BYTES].copy_from_slice(&crc.to_be_bytes());
        file
    }

    /// The producers that have a marker at or above `end`, as they were before the first of those.
    fn states_before(&self, end: Offset) -> BTreeMap<ProducerId, &ProducerState> {
        let mut first: BTreeMap<ProducerId, (Offset, &ProducerState)> = BTreeMap::new();
        for ended in self.unreplicated.values() {
            let known = first.get(&ended.producer).map(|&(marker, _)| marker);
            if end <= ended.marker && known.is_none_or(|known| ended.marker < known) {
                first.insert(ended.producer, (ended.marker, &*ended.before));
            }
        }
        let states = first.into_iter();
        states.map(|(id, (_, state))| (id, state)).collect()
    }

    /// Reads a snapshot file; allocates no more than the bytes that are there justify.
    ///
    /// # Errors
    /// [`SnapshotError`] when the bytes are not a whole, intact snapshot of version 1.
    pub fn decode_snapshot(file: &[u8]) -> Result<Self, SnapshotError> {
        if file.len() < PREFIX_BYTES + COUNT_BYTES {
            return Err(SnapshotError::Short);
        }
        let mut rest = file;
        let version = rest.get_i16();
        if version != VERSION {
            return Err(SnapshotError::Version(version));
        }
        if rest.get_u32() != crc32c::crc32c(&file[PREFIX_BYTES..]) {
            return Err(SnapshotError::Crc);
        }
        let count = rest.get_i32();
        if usize::try_from(count)
            .ok()
            .and_then(|n| n.checked_mul(ENTRY_BYTES))
            != Some(rest.len())
        {
            return Err(SnapshotError::Count(count));
        }
        let mut states = Self::new();
        for (index, entry) in rest.chunks_exact(ENTRY_BYTES).enumerate() {
            let (id, state) = ProducerState::decode(entry).ok_or(SnapshotError::Entry(index))?;
            if let Some(first) = state.current_txn_first_offset() {
                states.open.insert(first);
            }
            states.make_room();
            if states.producers.insert(id, state).is_some() {
                return Err(SnapshotError::Entry(index));
            }
        }
        Ok(states)
    }
}

impl ProducerState {
    /// The newest batch below `end`, a [`WrittenBatch::NONE`] when only markers are known, or `None` when everything
    /// known lies at or above `end`.
    fn last_batch_below(&self, end: Offset) -> Option<WrittenBatch> {
        match self.written() {
            [] => Some(WrittenBatch::NONE),
            written => written
                .iter()
                .rev()
                .find(|batch| batch.last_offset < end)
                .copied(),
        }
    }

    fn encode(&self, file: &mut Vec<u8>, id: ProducerId, last: WrittenBatch, end: Offset) {
        let timestamp = if last.last_offset == self.last_offset() {
            self.last_timestamp
        } else {
            last.timestamp
        };
        let txn = self.current_txn_first_offset().filter(|&first| first < end);
        file.put_i64(id.0);
        file.put_i16(self.epoch.0);
        file.put_i32(last.last_sequence.0);
        file.put_i64(last.last_offset.0);
        file.put_i32(last.offset_delta);
        file.put_i64(timestamp.0);
        file.put_i32(self.coordinator_epoch);
        file.put_i64(txn.unwrap_or(Offset::NONE).0);
    }

    fn decode(mut entry: &[u8]) -> Option<(ProducerId, Self)> {
        let id = ProducerId(entry.get_i64());
        let mut state = Self::new(ProducerEpoch(entry.get_i16()));
        let batch = WrittenBatch {
            last_sequence: Sequence(entry.get_i32()),
            last_offset: Offset(entry.get_i64()),
            offset_delta: entry.get_i32(),
            timestamp: Timestamp(entry.get_i64()),
        };
        state.last_timestamp = batch.timestamp;
        state.coordinator_epoch = entry.get_i32();
        state.current_txn_first_offset = Offset(entry.get_i64());
        if batch.last_sequence < Sequence::NONE
            || batch.last_offset < Offset::NONE
            || state.current_txn_first_offset < Offset::NONE
        {
            return None;
        }
        if batch.last_offset != Offset::NONE {
            let delta = i64::from(batch.offset_delta);
            if delta < 0 || batch.last_offset.0 < delta {
                return None;
            }
            state.push(batch);
        }
        Some((id, state))
    }
}
