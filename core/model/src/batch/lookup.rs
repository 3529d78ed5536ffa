//! Finding a record of a batch by its timestamp, of any codec, without its key or value.
//!
//! Invariants:
//! 1. Records are looked at one by one, in order: timestamps inside a batch need not grow.
//! 2. Under LogAppendTime every record has the batch's timestamp, so the first record answers.
//!
//! What it does not do: check CRCs.
//! Source: KIP-79 (first record at or after a timestamp), KIP-734 (the record with the max timestamp).

use super::record::{RecordFacts, count_of, records_of};
use super::stream::RecordStream;
use super::varint::Cursor;
use super::{BatchError, BatchHeader, Scratch, TimestampType};
use crate::compression::Compression;
use crate::id::{Offset, Timestamp};
use crate::limits::DECOMPRESSED_BYTES_MAX;

/// The first record of the batch at the start of `batch` whose timestamp is `target` or later and whose offset is `from`
/// or higher.
///
/// # Errors
/// The batch or one of its records cannot be read.
pub fn first_at_or_after(
    batch: &[u8],
    target: Timestamp,
    from: Offset,
    scratch: &mut Scratch,
) -> Result<Option<(Offset, Timestamp)>, BatchError> {
    let mut found = None;
    walk(batch, scratch, |offset, timestamp| {
        let hit = target <= timestamp && from <= offset;
        if hit {
            found = Some((offset, timestamp));
        }
        !hit
    })?;
    Ok(found)
}

/// The first record with the largest timestamp of the batch at the start of `batch`; none when it has no records.
///
/// # Errors
/// The batch or one of its records cannot be read.
pub fn first_with_max_timestamp(
    batch: &[u8],
    scratch: &mut Scratch,
) -> Result<Option<(Offset, Timestamp)>, BatchError> {
    let mut best: Option<(Offset, Timestamp)> = None;
    walk(batch, scratch, |offset, timestamp| {
        if best.is_none_or(|(_, largest)| timestamp > largest) {
            best = Some((offset, timestamp));
        }
        true
    })?;
    Ok(best)
}

/// Calls `visit` with each record's offset and timestamp until it returns false.
fn walk(
    batch: &[u8],
    scratch: &mut Scratch,
    mut visit: impl FnMut(Offset, Timestamp) -> bool,
) -> Result<(), BatchError> {
    let header = BatchHeader::parse(batch)?;
    let records = records_of(&header, batch)?;
    let count = count_of(&header)?;
    let id = header.attributes.compression_id();
    let codec = header
        .attributes
        .compression()
        .ok_or(BatchError::UnknownCompression { id })?;
    let mut see = |facts: &RecordFacts| {
        let offset = header.base_offset.0.wrapping_add(facts.offset_delta.into());
        let timestamp = match header.attributes.timestamp_type() {
            TimestampType::LogAppendTime => header.max_timestamp.0,
            TimestampType::CreateTime => {
                header.base_timestamp.0.wrapping_add(facts.timestamp_delta)
            }
        };
        visit(Offset(offset), Timestamp(timestamp))
    };
    if codec == Compression::None {
        let mut cursor = Cursor::new(records);
        for index in 0..count {
            let facts = RecordFacts::read(&mut cursor)
                .map_err(|reason| BatchError::Record { index, reason })?;
            if !see(&facts) {
                break;
            }
        }
        return Ok(());
    }
    let mut stream =
        RecordStream::with_scratch(codec, DECOMPRESSED_BYTES_MAX, std::mem::take(scratch));
    let mut walked = Ok(());
    for index in 0..count {
        match stream.facts(records) {
            Ok(facts) if see(&facts) => {}
            Ok(_) => break,
            Err(error) => {
                walked = Err(error.of_record(index, &header));
                break;
            }
        }
    }
    *scratch = stream.into_scratch();
    walked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{BatchBuilder, BuilderOptions, patch};

    // Goal: records are found by time. Method: unordered timestamps, each codec, both questions, both timestamp types.
    #[test]
    fn by_timestamp() {
        for compression in Compression::ALL {
            let mut builder = BatchBuilder::new(BuilderOptions {
                compression,
                base_offset: Offset(100),
                ..BuilderOptions::default()
            });
            for timestamp in [10, 30, 20, 30, 40] {
                builder.append(Timestamp(timestamp), None, Some(b"v"), &[]);
            }
            let mut batch = builder.build_mut();
            let mut scratch = Scratch::default();
            let mut check = |target, from, expected: Option<(i64, i64)>| {
                let found =
                    first_at_or_after(&batch, Timestamp(target), Offset(from), &mut scratch);
                let expected = expected.map(|(offset, time)| (Offset(offset), Timestamp(time)));
                assert_eq!(found, Ok(expected), "{compression:?}");
            };
            check(0, 0, Some((100, 10)));
            check(20, 0, Some((101, 30)));
            check(20, 102, Some((102, 20)));
            check(31, 0, Some((104, 40)));
            check(41, 0, None);
            let largest = first_with_max_timestamp(&batch, &mut scratch);
            assert_eq!(largest, Ok(Some((Offset(104), Timestamp(40)))));
            patch::set_max_timestamp(&mut batch, TimestampType::LogAppendTime, Timestamp(99));
            let largest = first_with_max_timestamp(&batch, &mut scratch);
            assert_eq!(largest, Ok(Some((Offset(100), Timestamp(99)))));
            assert!(first_with_max_timestamp(&batch[..70], &mut scratch).is_err());
        }
    }
}
