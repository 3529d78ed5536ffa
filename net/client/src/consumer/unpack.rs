//! From fetched bytes to records. Pure.
//!
//! 1. Records before the position asked for are dropped: a batch comes whole, though the position lies within it.
//! 2. Control batches, and (when only committed records are wanted) those of aborted transactions, are passed over.
//! 3. The position never moves back, and moves past offsets that compaction has emptied.
//! 4. Bytes are hostile: CRCs are checked before records are read, decompression is bounded, a torn last batch ends the data.
//!
//! Source: KIP-98 (control batches, aborted transactions).

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use pelton_model::batch::{BatchError, BatchHeader, Record, RecordIter, verify_crc};
use pelton_protocol::codec::Str;
use pelton_protocol::message::fetch::AbortedTransaction;

use super::record::ConsumedRecord;
use crate::limits;

/// The kind of a control record that ends a transaction by aborting it.
const ABORT_MARKER: i16 = 0;

/// One partition's fetched bytes, read record by record.
#[derive(Debug)]
pub(crate) struct Unpacker {
    topic: Str,
    partition: i32,
    data: Bytes,
    at: usize,
    next_offset: i64,
    check_crcs: bool,
    /// Ascending by first offset; none when aborted records are wanted too.
    aborted: VecDeque<AbortedTransaction>,
    aborting: BTreeSet<i64>,
    batch: Option<RecordIter>,
}

impl Unpacker {
    pub(crate) fn new(
        topic: Str,
        partition: i32,
        data: Bytes,
        next_offset: i64,
        check_crcs: bool,
    ) -> Self {
        Self {
            topic,
            partition,
            data,
            at: 0,
            next_offset,
            check_crcs,
            aborted: VecDeque::new(),
            aborting: BTreeSet::new(),
            batch: None,
        }
    }

    /// Passes over the records of these transactions.
    pub(crate) fn without(mut self, mut aborted: Vec<AbortedTransaction>) -> Self {
        aborted.sort_by_key(|transaction| transaction.first_offset);
        self.aborted = aborted.into();
        self
    }

    /// Where the next record is, or will be.
    pub(crate) fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// The next record; none at the end of the data.
    pub(crate) fn next(&mut self) -> Result<Option<ConsumedRecord>, BatchError> {
        loop {
            while let Some(batch) = &mut self.batch {
                let header = *batch.header();
                let Some(record) = batch.next() else {
                    self.pass(&header);
                    self.batch = None;
                    break;
                };
                let record = record?;
                let offset = record.offset(&header).0;
                if self.next_offset <= offset {
                    self.next_offset = offset.saturating_add(1);
                    return Ok(Some(self.consumed(&header, offset, record)));
                }
            }
            if !self.open_batch()? {
                return Ok(None);
            }
        }
    }

    /// Opens the next batch that has something to give; false at the end.
    fn open_batch(&mut self) -> Result<bool, BatchError> {
        loop {
            let rest = self.data.slice(self.at..);
            if rest.is_empty() {
                return Ok(false);
            }
            let (header, batch) = match whole(&rest) {
                Ok(found) => found,
                // A broker cuts its answer where it likes, but never in the first batch.
                Err(BatchError::Torn { .. }) if 0 < self.at => return Ok(false),
                Err(error) => return Err(error.at(self.at)),
            };
            if self.check_crcs && !verify_crc(&batch) {
                return Err(BatchError::Crc {
                    position: self.at,
                    claimed: header.crc,
                    computed: 0,
                });
            }
            self.at += batch.len();
            if self.is_wanted(&header, &batch)? {
                self.batch = Some(RecordIter::new(&batch, limits::DECOMPRESSED_BYTES_MAX)?);
                return Ok(true);
            }
            self.pass(&header);
        }
    }

    fn is_wanted(&mut self, header: &BatchHeader, batch: &Bytes) -> Result<bool, BatchError> {
        let last_offset = header.last_offset().0;
        while let Some(next) = self.aborted.front()
            && next.first_offset <= last_offset
        {
            self.aborting.insert(next.producer_id);
            self.aborted.pop_front();
        }
        if header.is_control() {
            if is_abort_marker(batch)? {
                self.aborting.remove(&header.producer_id.0);
            }
            return Ok(false);
        }
        let is_aborted = header.is_transactional() && self.aborting.contains(&header.producer_id.0);
        Ok(!is_aborted && self.next_offset <= last_offset)
    }

    fn pass(&mut self, header: &BatchHeader) {
        self.next_offset = self.next_offset.max(header.next_offset().0);
    }

    fn consumed(&self, header: &BatchHeader, offset: i64, record: Record) -> ConsumedRecord {
        ConsumedRecord {
            topic: self.topic.clone(),
            partition: self.partition,
            offset,
            timestamp: record.timestamp(header),
            timestamp_type: header.attributes.timestamp_type(),
            key: record.key,
            value: record.value,
            headers: record.headers,
        }
    }
}

/// The batch at the start of `bytes`.
fn whole(bytes: &Bytes) -> Result<(BatchHeader, Bytes), BatchError> {
    let header = BatchHeader::parse(bytes)?;
    let size_bytes = header.size_bytes();
    if bytes.len() < size_bytes {
        return Err(BatchError::Torn {
            position: 0,
            wanted: size_bytes as u64,
            remaining: bytes.len(),
        });
    }
    Ok((header, bytes.slice(..size_bytes)))
}

/// Whether a control batch ends a transaction by aborting it: version and kind are the key of its first record.
fn is_abort_marker(batch: &Bytes) -> Result<bool, BatchError> {
    let mut records = RecordIter::new(batch, limits::DECOMPRESSED_BYTES_MAX)?;
    let Some(record) = records.next() else {
        return Ok(false);
    };
    let key = record?.key.unwrap_or_default();
    let kind = key.get(2..4).and_then(|kind| kind.first_chunk::<2>());
    Ok(kind.is_some_and(|kind| i16::from_be_bytes(*kind) == ABORT_MARKER))
}

#[cfg(test)]
mod tests {
    use pelton_model::batch::{BatchBuilder, BuilderOptions, TimestampType};
    use pelton_model::compression::Compression;
    use pelton_model::{Offset, ProducerId, Timestamp};

    use super::*;

    fn options(base_offset: i64) -> BuilderOptions {
        BuilderOptions {
            base_offset: Offset(base_offset),
            ..BuilderOptions::default()
        }
    }

    fn transactional(base_offset: i64, producer_id: i64) -> BuilderOptions {
        BuilderOptions {
            producer_id: ProducerId(producer_id),
            transactional: true,
            ..options(base_offset)
        }
    }

    /// A batch with a record per offset delta, timed 1000 + delta.
    fn batch(options: BuilderOptions, deltas: &[i32]) -> Bytes {
        let mut builder = BatchBuilder::new(options);
        for delta in deltas {
            let value = delta.to_string();
            let time = Timestamp(1000 + i64::from(*delta));
            builder.append_at(*delta, time, None, Some(value.as_bytes()), &[]);
        }
        builder.build()
    }

    fn marker(base_offset: i64, producer_id: i64, kind: u8) -> Bytes {
        let mut builder = BatchBuilder::new(BuilderOptions {
            control: true,
            ..transactional(base_offset, producer_id)
        });
        builder.append(Timestamp(0), Some(&[0, 0, 0, kind]), Some(&[0; 6]), &[]);
        builder.build()
    }

    /// The offsets that come out, and where the position is then.
    fn check(mut unpacker: Unpacker, offsets: &[i64], next_offset: i64) {
        let mut seen = Vec::new();
        while let Some(record) = unpacker.next().unwrap() {
            seen.push(record.offset);
        }
        assert_eq!(seen, offsets);
        assert_eq!(unpacker.next_offset(), next_offset);
    }

    fn unpacker(parts: &[Bytes], next_offset: i64) -> Unpacker {
        Unpacker::new("t".into(), 0, parts.concat().into(), next_offset, true)
    }

    // Goal: the prefix is dropped and gaps are passed, with every codec. Method: two batches, the second compacted.
    #[test]
    fn drops_the_prefix_and_passes_gaps() {
        for compression in Compression::ALL {
            let with = |base_offset| BuilderOptions {
                compression,
                ..options(base_offset)
            };
            let parts = [batch(with(10), &[0, 1, 2]), batch(with(13), &[1, 4])];
            check(unpacker(&parts, 10), &[10, 11, 12, 14, 17], 18);
            check(unpacker(&parts, 12), &[12, 14, 17], 18);
            check(unpacker(&parts, 13), &[14, 17], 18);
            check(unpacker(&parts, 18), &[], 18);
        }
    }

    // Goal: a cut answer ends quietly, save in its first batch. Method: cuts everywhere.
    #[test]
    fn ends_at_a_torn_batch() {
        let (first, second) = (batch(options(0), &[0]), batch(options(1), &[0]));
        let all = [first.clone(), second].concat();
        for end in 1..all.len() {
            let mut cut = unpacker(&[Bytes::copy_from_slice(&all[..end])], 0);
            match cut.next() {
                Ok(record) => {
                    assert!(first.len() <= end);
                    assert_eq!(record.map(|record| record.offset), Some(0));
                    assert_eq!(cut.next(), Ok(None));
                }
                Err(error) => {
                    assert!(end < first.len());
                    assert!(matches!(error, BatchError::Torn { .. }), "{error}");
                }
            }
        }
    }

    // Goal: a flipped bit is found before its records are believed. Method: one bit in the second batch.
    #[test]
    fn checks_crcs() {
        let first = batch(options(0), &[0]);
        let mut all = [first.clone(), batch(options(1), &[0])].concat();
        *all.last_mut().unwrap() ^= 1;
        let mut unpacker = unpacker(&[all.into()], 0);
        assert!(unpacker.next().unwrap().is_some());
        assert!(matches!(unpacker.next(), Err(BatchError::Crc { .. })));
        assert_eq!(unpacker.next_offset(), 1);
    }

    // Goal: the broker's time counts where the topic says so. Method: one batch of each type.
    #[test]
    fn honours_log_append_time() {
        let appended = BuilderOptions {
            timestamp_type: TimestampType::LogAppendTime,
            ..options(2)
        };
        let parts = [batch(options(0), &[0, 1]), batch(appended, &[0, 1])];
        let mut unpacker = unpacker(&parts, 0);
        let mut times = Vec::new();
        while let Some(record) = unpacker.next().unwrap() {
            times.push(record.timestamp.0);
        }
        assert_eq!(times, [1000, 1001, 1001, 1001]);
    }

    // Goal: aborted records and markers are passed over, others of the same producer are not. Method: a transaction that
    // aborts, another that commits, and records outside.
    #[test]
    fn passes_aborted_transactions() {
        let parts = [
            batch(options(0), &[0]),
            batch(transactional(1, 7), &[0, 1]),
            batch(transactional(3, 8), &[0]),
            marker(4, 7, 0),
            batch(transactional(5, 7), &[0]),
            marker(6, 8, 1),
            marker(7, 7, 1),
        ];
        check(unpacker(&parts, 0), &[0, 1, 2, 3, 5], 8);
        let aborted = vec![AbortedTransaction {
            producer_id: 7,
            first_offset: 1,
        }];
        check(unpacker(&parts, 0).without(aborted), &[0, 3, 5], 8);
    }
}
