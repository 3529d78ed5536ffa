//! Rewriting a batch with a part of its records: what compaction does to it.
//!
//! Invariants:
//! 1. Base offset, last offset delta, leader epoch, producer fields, codec and timestamp type stay: offsets never move, and
//!    the producer's sequences can still be read from the header.
//! 2. Records that stay keep their bytes; only a new delete horizon rewrites their timestamp deltas, since the horizon takes
//!    the place of the base timestamp.
//! 3. A batch that needs no change is not copied. A changed one gets its CRC anew, and the max timestamp of what is left.
//! 4. Bytes are hostile: a batch that does not decode whole is an error, and nothing of it is used.
//!
//! What it does not do: decide which records stay; check the CRC that was there.
//! Source: KIP-534 (delete horizon), KIP-98 (empty batches keep a producer's last sequence).

use bytes::{Bytes, BytesMut};

use super::record::{RecordRef, body, count_of, records_of};
use super::varint::{self, Cursor};
use super::{
    Attributes, BatchError, BatchHeader, HEADER_BYTES, LOG_OVERHEAD_BYTES, Scratch, TimestampType,
    patch,
};
use crate::compression::{Compression, compress};
use crate::id::{Offset, Timestamp};

/// What compaction looks at in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordKey<'a> {
    /// Its offset.
    pub offset: Offset,
    /// Its key; compacted topics should have none without.
    pub key: Option<&'a [u8]>,
    /// Whether it has a value: without one it is a tombstone.
    pub has_value: bool,
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retained {
    /// Records of the batch.
    pub records_before: u32,
    /// Records that stay.
    pub records_after: u32,
    /// The bytes that stand for the batch from now on.
    pub outcome: Outcome,
}

/// The bytes of a batch after compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Those it had.
    Unchanged,
    /// These.
    Rewritten(Bytes),
    /// No record stays: nothing, or [`empty`].
    Empty,
}

/// When tombstones and markers may go (KIP-534).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Horizon {
    /// The batch keeps what it has.
    Keep,
    /// Set to this time if the batch has none and a tombstone stays in it.
    ForTombstones(Timestamp),
    /// Set to this time if the batch has none.
    Always(Timestamp),
}

/// The time after which the tombstones (or the markers) of this batch may go.
#[must_use]
pub fn delete_horizon(header: &BatchHeader) -> Option<Timestamp> {
    let has_horizon = header.attributes.has_delete_horizon();
    has_horizon.then_some(header.base_timestamp)
}

/// Decompressing buffers that survive from batch to batch.
#[derive(Debug, Default)]
pub struct RetainScratch {
    scratch: Scratch,
    records: Vec<u8>,
}

/// Decompressed records that the scratch may hold on to between batches.
const RECORDS_BYTES_KEPT: usize = 4 * 1024 * 1024;

impl RetainScratch {
    /// The records of `batch` as one run of bytes, decompressed to at most `bytes_max` bytes when need be.
    fn records<'a>(
        &'a mut self,
        header: &BatchHeader,
        batch: &'a [u8],
        bytes_max: u64,
    ) -> Result<&'a [u8], BatchError> {
        let stored = records_of(header, batch)?;
        let id = header.attributes.compression_id();
        let codec = header
            .attributes
            .compression()
            .ok_or(BatchError::UnknownCompression { id })?;
        if codec == Compression::None {
            return Ok(stored);
        }
        if self.records.capacity() > RECORDS_BYTES_KEPT {
            self.records = Vec::new();
        }
        self.records.clear();
        self.scratch
            .decompress(codec, stored, bytes_max, &mut self.records)
            .map_err(|error| error.of_record(0, header))?;
        Ok(&self.records)
    }
}

/// Shows every record of `batch`, one whole batch with this header, until `visit` says stop (false).
///
/// # Errors
/// The batch or one of its records cannot be read, or decompresses to more than `bytes_max` bytes.
pub fn visit(
    header: &BatchHeader,
    batch: &[u8],
    bytes_max: u64,
    scratch: &mut RetainScratch,
    mut visit: impl FnMut(RecordKey<'_>) -> bool,
) -> Result<(), BatchError> {
    let records = scratch.records(header, batch, bytes_max)?;
    let mut walk = Walk::new(header, records)?;
    while let Some(step) = walk.next()? {
        if !visit(step.key(header)) {
            break;
        }
    }
    Ok(())
}

/// Rewrites `batch`, one whole batch with this header, with the records for which `keep` says true.
///
/// # Errors
/// As [`visit`].
pub fn retain(
    header: &BatchHeader,
    batch: &[u8],
    horizon: Horizon,
    bytes_max: u64,
    scratch: &mut RetainScratch,
    mut keep: impl FnMut(RecordKey<'_>) -> bool,
) -> Result<Retained, BatchError> {
    let records = scratch.records(header, batch, bytes_max)?;
    let mut walk = Walk::new(header, records)?;
    let mut kept = Kept::default();
    while let Some(step) = walk.next()? {
        let key = step.key(header);
        if keep(key) {
            kept.add(&step, key.has_value);
        }
    }
    let outcome = if kept.count == 0 {
        Outcome::Empty
    } else {
        let new_horizon = match (delete_horizon(header), horizon) {
            (None, Horizon::Always(time)) => Some(time),
            (None, Horizon::ForTombstones(time)) => kept.has_tombstone.then_some(time),
            (Some(_), _) | (None, Horizon::Keep) => None,
        };
        if kept.count == walk.count && new_horizon.is_none() {
            Outcome::Unchanged
        } else {
            Outcome::Rewritten(rewrite(header, records, &kept, new_horizon)?)
        }
    };
    Ok(Retained {
        records_before: walk.count,
        records_after: kept.count,
        outcome,
    })
}

/// The batch without its records: a header that keeps the last offset and the producer's last sequence.
#[must_use]
pub fn empty(header: &BatchHeader) -> Bytes {
    let attributes = Attributes::new(
        Compression::None,
        header.attributes.timestamp_type(),
        header.is_transactional(),
        header.is_control(),
    );
    let emptied = BatchHeader {
        attributes,
        base_timestamp: Timestamp::NONE,
        record_count: 0,
        ..*header
    };
    finish(emptied, BytesMut::zeroed(HEADER_BYTES))
}

/// A record and the bytes it lies in.
struct Step<'a> {
    record: RecordRef<'a>,
    start: usize,
    end: usize,
}

impl<'a> Step<'a> {
    fn key(&self, header: &BatchHeader) -> RecordKey<'a> {
        let delta = i64::from(self.record.offset_delta);
        RecordKey {
            offset: Offset(header.base_offset.0.wrapping_add(delta)),
            key: self.record.key,
            has_value: self.record.value.is_some(),
        }
    }
}

/// Walks over uncompressed records.
struct Walk<'a> {
    cursor: Cursor<'a>,
    size: usize,
    index: u32,
    count: u32,
}

impl<'a> Walk<'a> {
    fn new(header: &BatchHeader, records: &'a [u8]) -> Result<Self, BatchError> {
        Ok(Self {
            cursor: Cursor::new(records),
            size: records.len(),
            index: 0,
            count: count_of(header)?,
        })
    }

    fn next(&mut self) -> Result<Option<Step<'a>>, BatchError> {
        if self.index == self.count {
            let at_end = self.cursor.rest.is_empty();
            return at_end.then_some(None).ok_or(BatchError::TrailingBytes);
        }
        let index = self.index;
        let at = |reason| BatchError::Record { index, reason };
        let start = self.size - self.cursor.rest.len();
        let record = RecordRef::parse(body(&mut self.cursor).map_err(at)?).map_err(at)?;
        self.index += 1;
        Ok(Some(Step {
            record,
            start,
            end: self.size - self.cursor.rest.len(),
        }))
    }
}

/// The records that stay, as runs of bytes.
#[derive(Default)]
struct Kept {
    runs: Vec<(usize, usize)>,
    count: u32,
    max_delta: Option<i64>,
    has_tombstone: bool,
}

impl Kept {
    fn add(&mut self, step: &Step<'_>, has_value: bool) {
        match self.runs.last_mut() {
            Some((_, end)) if *end == step.start => *end = step.end,
            Some(_) | None => self.runs.push((step.start, step.end)),
        }
        self.count += 1;
        self.max_delta = self.max_delta.max(Some(step.record.timestamp_delta));
        self.has_tombstone |= !has_value;
    }
}

fn rewrite(
    header: &BatchHeader,
    records: &[u8],
    kept: &Kept,
    new_horizon: Option<Timestamp>,
) -> Result<Bytes, BatchError> {
    let size: usize = kept.runs.iter().map(|(start, end)| end - start).sum();
    let mut out = BytesMut::with_capacity(HEADER_BYTES + size);
    out.resize(HEADER_BYTES, 0);
    let base_timestamp = new_horizon.unwrap_or(header.base_timestamp);
    for &(start, end) in &kept.runs {
        let run = &records[start..end];
        if base_timestamp == header.base_timestamp {
            out.extend_from_slice(run);
        } else {
            let moved = header.base_timestamp.0.wrapping_sub(base_timestamp.0);
            put_moved(&mut out, run, moved)?;
        }
    }
    let codec = header.attributes.compression().unwrap_or_default();
    if codec != Compression::None {
        let packed = compress(codec, &out[HEADER_BYTES..], None);
        out.truncate(HEADER_BYTES);
        out.extend_from_slice(&packed);
    }
    let max_timestamp = match (header.attributes.timestamp_type(), kept.max_delta) {
        (TimestampType::CreateTime, Some(delta)) => {
            Timestamp(header.base_timestamp.0.wrapping_add(delta))
        }
        (TimestampType::LogAppendTime, _) | (TimestampType::CreateTime, None) => {
            header.max_timestamp
        }
    };
    let attributes = match new_horizon {
        Some(_) => header.attributes.with_delete_horizon(),
        None => header.attributes,
    };
    let rewritten = BatchHeader {
        attributes,
        base_timestamp,
        max_timestamp,
        record_count: i32::try_from(kept.count).expect("at most the batch's own count"),
        ..*header
    };
    Ok(finish(rewritten, out))
}

/// Copies the records of `run` with `moved` added to their timestamp deltas.
fn put_moved(out: &mut BytesMut, run: &[u8], moved: i64) -> Result<(), BatchError> {
    let at = |reason| BatchError::Record { index: 0, reason };
    let mut cursor = Cursor::new(run);
    while !cursor.rest.is_empty() {
        let mut record = Cursor::new(body(&mut cursor).map_err(at)?);
        let attributes = record.byte().map_err(at)?;
        let delta = record.varlong().map_err(at)?.wrapping_add(moved);
        let size = 1 + varint::size(delta) + record.rest.len();
        let size = i64::try_from(size).expect("a record lies in memory");
        varint::put(out, size);
        out.extend_from_slice(&[attributes]);
        varint::put(out, delta);
        out.extend_from_slice(record.rest);
    }
    Ok(())
}

/// Puts the header before the records in `out`, with the length and the CRC that belong to them.
fn finish(header: BatchHeader, mut out: BytesMut) -> Bytes {
    let batch_length = i32::try_from(out.len() - LOG_OVERHEAD_BYTES)
        .expect("what is left of a batch stays below 2 GiB");
    let header = BatchHeader {
        batch_length,
        ..header
    };
    out[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    patch::set_crc(&mut out);
    out.freeze()
}

#[cfg(test)]
mod tests;
