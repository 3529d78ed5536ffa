//! Batches whose records say who they are, and reading them back.

use bytes::Bytes;
use pelton_model::batch::{
    BatchBuilder, BatchHeader, Batches, BuilderOptions, RecordIter, verify_crc,
};
use pelton_model::compression::Compression;
use pelton_model::{ProducerEpoch, ProducerId, Sequence, Timestamp};

use super::oracle::RecordId;

/// What stamps a batch as an idempotent producer's.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// The producer's id.
    pub producer_id: i64,
    /// The first record's sequence.
    pub sequence: i32,
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
        options.producer_epoch = ProducerEpoch(0);
        options.base_sequence = Sequence(stamp.sequence);
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

/// The records of whole batches, with their offsets.
///
/// # Panics
/// When the bytes are damaged.
#[must_use]
pub fn records(bytes: &Bytes) -> Vec<(i64, RecordId)> {
    let mut found = Vec::new();
    for batch in Batches::new(bytes) {
        let (header, batch) = batch.unwrap_or_else(|error| panic!("a damaged answer: {error}"));
        assert!(verify_crc(batch), "a batch at {} has a bad CRC", header.base_offset);
        records_of(&header, &bytes.slice_ref(batch), &mut found);
    }
    found
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
