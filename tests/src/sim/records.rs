//! Batches whose records say who they are, and reading them back.

use std::collections::BTreeSet;

use bytes::Bytes;
use pelton_model::batch::{
    BatchBuilder, BatchHeader, Batches, BuilderOptions, RecordIter, verify_crc,
};
use pelton_model::compression::Compression;
use pelton_model::{ProducerEpoch, ProducerId, Sequence, Timestamp};
use pelton_protocol::message::fetch::AbortedTransaction;

use super::oracle::RecordId;

/// What stamps a batch as an idempotent producer's.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// The producer's id.
    pub producer_id: i64,
    /// Its epoch.
    pub epoch: i16,
    /// The first record's sequence.
    pub sequence: i32,
    /// Whether the batch is part of a transaction.
    pub is_transactional: bool,
}

impl Stamp {
    /// A producer outside transactions.
    #[must_use]
    pub fn idempotent(producer_id: i64, sequence: i32) -> Self {
        Self { producer_id, epoch: 0, sequence, is_transactional: false }
    }
}

/// Keys of a compacted topic.
const KEYS: u32 = 5;

/// The key of a record, where records have keys.
#[must_use]
pub fn key_of(id: RecordId) -> u32 {
    id.producer.wrapping_mul(7).wrapping_add(id.number) % KEYS
}

/// A batch of these records, each followed by `filler` bytes that follow from its identity.
#[must_use]
pub fn batch(ids: &[RecordId], stamp: Option<Stamp>, filler: usize, codec: Compression) -> Bytes {
    build(ids, stamp, filler, codec, false)
}

/// As [`batch`], with the records' keys.
#[must_use]
pub fn keyed_batch(
    ids: &[RecordId],
    stamp: Option<Stamp>,
    filler: usize,
    codec: Compression,
) -> Bytes {
    build(ids, stamp, filler, codec, true)
}

fn build(
    ids: &[RecordId],
    stamp: Option<Stamp>,
    filler: usize,
    codec: Compression,
    is_keyed: bool,
) -> Bytes {
    let mut options = BuilderOptions { compression: codec, ..BuilderOptions::default() };
    if let Some(stamp) = stamp {
        options.producer_id = ProducerId(stamp.producer_id);
        options.producer_epoch = ProducerEpoch(stamp.epoch);
        options.base_sequence = Sequence(stamp.sequence);
        options.transactional = stamp.is_transactional;
    }
    let mut builder = BatchBuilder::new(options);
    for id in ids {
        let mut value = Vec::with_capacity(8 + filler);
        value.extend(id.producer.to_be_bytes());
        value.extend(id.number.to_be_bytes());
        value.resize(8 + filler, filler_byte(*id));
        let timestamp = Timestamp(1_750_000_000_000 + i64::from(id.number));
        let key = key_of(*id).to_be_bytes();
        builder.append(timestamp, is_keyed.then_some(&key), Some(&value), &[]);
    }
    builder.build()
}

fn filler_byte(id: RecordId) -> u8 {
    (id.producer.wrapping_mul(31) ^ id.number).to_le_bytes()[0]
}

/// The records of whole batches, with their offsets; markers are none.
///
/// # Panics
/// When the bytes are damaged.
#[must_use]
pub fn records(bytes: &Bytes) -> Vec<(i64, RecordId)> {
    committed_records(bytes, Vec::new())
}

/// As [`records`], without those of these transactions: as clients that want what is committed take an answer in (KIP-98).
///
/// # Panics
/// When the bytes are damaged.
#[must_use]
pub fn committed_records(
    bytes: &Bytes,
    mut aborted: Vec<AbortedTransaction>,
) -> Vec<(i64, RecordId)> {
    aborted.sort_by_key(|transaction| std::cmp::Reverse(transaction.first_offset));
    let (mut aborting, mut found) = (BTreeSet::new(), Vec::new());
    for batch in Batches::new(bytes) {
        let (header, batch) = batch.unwrap_or_else(|error| panic!("a damaged answer: {error}"));
        assert!(verify_crc(batch), "a batch at {} has a bad CRC", header.base_offset);
        let batch = bytes.slice_ref(batch);
        let last_offset = header.last_offset().0;
        while let Some(next) = aborted.pop_if(|next| next.first_offset <= last_offset) {
            aborting.insert(next.producer_id);
        }
        if header.is_control() {
            if is_abort(&batch) {
                aborting.remove(&header.producer_id.0);
            }
        } else if !header.is_transactional() || !aborting.contains(&header.producer_id.0) {
            records_of(&header, &batch, &mut found);
        }
    }
    found
}

/// Whether a marker aborts: its key is a version and a type, 0 for an abort. One that compaction has emptied says nothing any more.
fn is_abort(marker: &Bytes) -> bool {
    let mut records = RecordIter::new(marker, 1 << 10).expect("a batch");
    records.next().is_some_and(|record| {
        let record = record.expect("a record");
        record.key.expect("a marker has a key")[2..4] == [0, 0]
    })
}

/// The offset behind whole batches, also when records of them are gone; `None` without any.
///
/// # Panics
/// When the bytes are damaged.
#[must_use]
pub fn end_of(bytes: &Bytes) -> Option<i64> {
    let ends = Batches::new(bytes).map(|batch| batch.expect("whole batches").0.last_offset().0 + 1);
    ends.last()
}

fn records_of(header: &BatchHeader, batch: &Bytes, found: &mut Vec<(i64, RecordId)>) {
    for record in RecordIter::new(batch, 1 << 30).expect("a batch") {
        let record = record.expect("a record");
        let offset = record.offset(header).0;
        let value = record.value.as_ref().expect("a value");
        let (head, filler) = value.split_at(8);
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("4 bytes"));
        let id = RecordId { producer: word(0), number: word(4) };
        assert!(
            filler.iter().all(|byte| *byte == filler_byte(id)),
            "offset {offset}: {id:?} has another record's bytes"
        );
        found.push((offset, id));
    }
}
