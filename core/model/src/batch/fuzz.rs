//! Entry points for fuzzers: each takes any bytes and must return, without a panic and within bounded memory.
//!
//! What it does not do: fuzz; the fuzz workspace and the tests call these.
//! Source: the list of decoders of foreign bytes in this crate.

use std::io::Read;

use bytes::Bytes;

use super::retain::{Horizon, Outcome, RetainScratch, retain};
use super::validate::{ProduceRules, validate_produce};
use super::{
    BatchBuilder, BatchHeader, Batches, BuilderOptions, HEADER_BYTES, RecordIter, RecordRefs,
    Scratch, TimestampType, lookup, patch,
};
use crate::compression::{Compression, decoder};
use crate::id::Timestamp;

const BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Walks over the bytes as consecutive batches and over the records of each, without looking at CRCs.
pub fn batches(data: &[u8]) {
    let mut walk = Batches::new(data);
    while let Some(Ok((header, batch))) = walk.next() {
        assert!(walk.position() <= data.len());
        let mut scratch = Scratch::default();
        let looked_up = lookup::first_with_max_timestamp(batch, &mut scratch);
        let owned = RecordIter::new(&Bytes::copy_from_slice(batch), BYTES_MAX);
        let owned: Vec<_> = owned.map(|records| records.collect()).unwrap_or_default();
        if !owned.is_empty() && owned.iter().all(Result::is_ok) {
            assert!(looked_up.is_ok_and(|found| found.is_some()));
        }
        rewrite(&header, batch);
        if let Ok(borrowed) = RecordRefs::new(&header, batch) {
            let borrowed: Vec<_> = borrowed.collect();
            assert_eq!(borrowed.len(), owned.len());
            for (borrowed, owned) in borrowed.iter().zip(&owned) {
                match (borrowed, owned) {
                    (Ok(borrowed), Ok(owned)) => {
                        assert_eq!(borrowed.value, owned.value.as_deref());
                        assert_eq!(borrowed.headers().count(), owned.headers.len());
                    }
                    (borrowed, owned) => assert_eq!(borrowed.is_err(), owned.is_err()),
                }
            }
        }
    }
}

/// Drops every other record: what is left is a batch, and the same again when nothing is dropped from it.
fn rewrite(header: &BatchHeader, batch: &[u8]) {
    let mut scratch = RetainScratch::default();
    let mut count = 0_u32;
    let horizon = Horizon::ForTombstones(Timestamp(1));
    let halved = retain(header, batch, horizon, BYTES_MAX, &mut scratch, |_| {
        count += 1;
        count.is_multiple_of(2)
    });
    if let Ok(Outcome::Rewritten(bytes)) = halved.map(|halved| halved.outcome) {
        let header = BatchHeader::parse(&bytes).expect("a batch was written");
        let again = retain(&header, &bytes, horizon, BYTES_MAX, &mut scratch, |_| true);
        assert_eq!(again.map(|again| again.outcome), Ok(Outcome::Unchanged));
    }
}

/// Validates the bytes as a partition's data of a Produce request, as they are.
pub fn produce(data: &[u8]) {
    check_produce(data, &mut Scratch::default());
}

/// Validates the bytes as the attributes and records of a batch whose header is otherwise right: this reaches the walk.
///
/// The first byte holds the attributes' low bits, the second the record count; the records follow.
pub fn produce_records(data: &[u8]) {
    let [attributes, count, records @ ..] = data else {
        return;
    };
    let mut batch = BatchBuilder::new(BuilderOptions::default()).build_mut();
    batch.extend_from_slice(records);
    let mut header = BatchHeader::parse(&batch).expect("just built");
    header.batch_length =
        i32::try_from(batch.len() - super::LOG_OVERHEAD_BYTES).expect("a fuzzer's input is short");
    header.attributes.0 = i16::from(*attributes);
    header.record_count = i32::from(*count);
    header.last_offset_delta = i32::from(*count) - 1;
    batch[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    patch::set_crc(&mut batch);
    check_produce(&batch, &mut Scratch::default());
}

fn check_produce(data: &[u8], scratch: &mut Scratch) {
    let rules = ProduceRules {
        now: Timestamp(1_700_000_000_000),
        max_message_bytes: 1 << 20,
        segment_bytes: 1 << 30,
        timestamp_type: TimestampType::CreateTime,
        before_max_ms: i64::MAX,
        after_max_ms: i64::MAX,
        compacted: false,
        produce_version: 13,
        has_transactional_id: true,
        decompressed_bytes_max: u64::MAX,
    };
    let Ok(valid) = validate_produce(data, &rules, scratch) else {
        return;
    };
    // What was accepted can be stored: patched, it is a whole batch with a right CRC whose records can be read.
    let mut batch = data[..valid.size_bytes].to_vec();
    valid.patch(&mut batch);
    assert!(super::verify_crc(&batch));
    let header = BatchHeader::parse(&batch).expect("accepted");
    assert_eq!(header.max_timestamp, valid.max_timestamp);
    let records = RecordIter::new(&Bytes::from(batch), crate::limits::DECOMPRESSED_BYTES_MAX)
        .expect("accepted");
    let mut count = 0;
    let mut max_timestamp = Timestamp::NONE;
    for record in records {
        let record = record.expect("accepted");
        max_timestamp = max_timestamp.max(record.timestamp(&header));
        count += 1;
    }
    assert_eq!(count, valid.record_count);
    // A producer's LogAppendTime bit is taken off and its time kept, so only CreateTime can be compared.
    if valid.timestamp_rewrite.is_none() {
        assert_eq!(max_timestamp, valid.max_timestamp);
    }
}

/// Decompresses the bytes with each codec.
pub fn decompress(data: &[u8]) {
    for codec in Compression::ALL {
        let mut out = [0; 8192];
        let mut reader = decoder(codec, data, BYTES_MAX);
        let mut total = 0_u64;
        while let Ok(count @ 1..) = reader.read(&mut out) {
            total += count as u64;
            assert!(total <= BYTES_MAX);
        }
    }
}
