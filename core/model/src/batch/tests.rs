//! Tests of headers, walks, patches, the builder and the iterators.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::compression::Compression;
use crate::id::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

const BYTES_MAX: u64 = 1 << 30;

fn options(compression: Compression) -> BuilderOptions {
    BuilderOptions {
        compression,
        ..BuilderOptions::default()
    }
}

fn one_record(base_offset: i64) -> Bytes {
    let mut builder = BatchBuilder::new(BuilderOptions {
        base_offset: Offset(base_offset),
        ..BuilderOptions::default()
    });
    builder.append(Timestamp(1000), Some(b"k"), Some(b"v"), &[]);
    builder.build()
}

// Goal: the layout is Kafka's. Method: a batch whose bytes were laid out by hand from the format's documentation.
#[test]
fn known_bytes() {
    let mut builder = BatchBuilder::new(BuilderOptions {
        base_offset: Offset(5),
        leader_epoch: LeaderEpoch(7),
        producer_id: ProducerId(9),
        producer_epoch: ProducerEpoch(3),
        base_sequence: Sequence(11),
        transactional: true,
        ..BuilderOptions::default()
    });
    builder.append(
        Timestamp(1000),
        Some(b"k"),
        None,
        &[(b"h", Some(b"x")), (b"n", None)],
    );
    assert_eq!(builder.append(Timestamp(1002), None, Some(b""), &[]), 1);
    let batch = builder.build();
    let expected_tail = [
        &[0, 0x10][..],
        &1_i32.to_be_bytes(),
        &1000_i64.to_be_bytes(),
        &1002_i64.to_be_bytes(),
        &9_i64.to_be_bytes(),
        &3_i16.to_be_bytes(),
        &11_i32.to_be_bytes(),
        &2_i32.to_be_bytes(),
        &[28, 0, 0, 0, 2, b'k', 1, 4, 2, b'h', 2, b'x', 2, b'n', 1],
        &[12, 0, 4, 2, 1, 0, 0],
    ]
    .concat();
    assert_eq!(batch[..8], 5_i64.to_be_bytes());
    assert_eq!(
        batch[8..12],
        i32::try_from(batch.len() - 12).unwrap().to_be_bytes()
    );
    assert_eq!(batch[12..17], [0, 0, 0, 7, 2]);
    assert_eq!(batch[17..21], crc32c::crc32c(&expected_tail).to_be_bytes());
    assert_eq!(batch[21..], expected_tail);
    let header = BatchHeader::parse(&batch).unwrap();
    assert_eq!(header.to_bytes(), batch[..HEADER_BYTES]);
    assert_eq!(header.size_bytes(), batch.len());
    assert_eq!(header.last_offset(), Offset(6));
    assert_eq!(header.next_offset(), Offset(7));
    assert_eq!(header.last_sequence(), Sequence(12));
    assert!(header.is_transactional() && !header.is_control() && header.has_producer());
}

// Goal: the walk ends where the good batches end. Method: two batches and each kind of tail.
#[test]
fn walk_over_batches() {
    fn check(tail: &[u8], error: Option<BatchError>) {
        let (first, second) = (one_record(0), one_record(1));
        let bytes = [&first[..], &second, tail].concat();
        let mut walk = Batches::new(&bytes);
        assert_eq!(walk.next().unwrap().unwrap().1, first);
        assert_eq!(walk.next().unwrap().unwrap().0.base_offset, Offset(1));
        assert_eq!(walk.next().map(|item| item.unwrap_err()), error);
        assert_eq!(walk.next().map(|item| item.is_err()), None);
        assert_eq!(walk.position(), first.len() + second.len());
    }
    let batch = one_record(2);
    let position = 2 * batch.len();
    check(&[], None);
    check(
        &batch[..60],
        Some(BatchError::Torn {
            position,
            wanted: 61,
            remaining: 60,
        }),
    );
    check(
        &batch[..batch.len() - 1],
        Some(BatchError::Torn {
            position,
            wanted: batch.len() as u64,
            remaining: batch.len() - 1,
        }),
    );
    check(&[0; 70], Some(BatchError::Magic { position, magic: 0 }));
    let mut short = batch.to_vec();
    short[8..12].copy_from_slice(&48_i32.to_be_bytes());
    check(
        &short,
        Some(BatchError::Length {
            position,
            batch_length: 48,
        }),
    );
}

// Goal: patches keep a batch valid. Method: each patch, the CRC before and after.
#[test]
fn patches() {
    let plain = one_record(0);
    let mut batch = plain.to_vec();
    patch::set_base_offset(&mut batch, Offset(77));
    patch::set_leader_epoch(&mut batch, LeaderEpoch(8));
    assert!(verify_crc(&batch));
    assert_eq!(batch[17..], plain[17..]);
    patch::set_max_timestamp(&mut batch, TimestampType::CreateTime, Timestamp(1000));
    assert_eq!(batch[17..], plain[17..]);
    // Bytes of another batch behind this one are not taken into its CRC.
    batch.extend_from_slice(b"beginning of another");
    patch::set_max_timestamp(&mut batch, TimestampType::LogAppendTime, Timestamp(5));
    batch.truncate(plain.len());
    assert!(verify_crc(&batch));
    let header = BatchHeader::parse(&batch).unwrap();
    assert_eq!(header.base_offset, Offset(77));
    assert_eq!(header.leader_epoch, LeaderEpoch(8));
    assert_eq!(header.max_timestamp, Timestamp(5));
    assert_eq!(
        header.attributes.timestamp_type(),
        TimestampType::LogAppendTime
    );
    batch[40] ^= 1;
    assert!(!verify_crc(&batch));
    assert!(!verify_crc(&batch[..60]));
}

// Goal: offset gaps, as compaction leaves them, are legal. Method: one gap through the owning iterator.
#[test]
fn offset_gaps() {
    let mut builder = BatchBuilder::new(options(Compression::None));
    builder.append(Timestamp(10), None, Some(b"a"), &[]);
    builder.append_at(7, Timestamp(5), None, Some(b"b"), &[]);
    let batch = builder.build();
    let records: Vec<_> = RecordIter::new(&batch, BYTES_MAX)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let header = BatchHeader::parse(&batch).unwrap();
    assert_eq!(header.last_offset_delta, 7);
    assert_eq!(header.max_timestamp, Timestamp(10));
    assert_eq!(records[1].offset(&header), Offset(7));
    assert_eq!(records[1].timestamp(&header), Timestamp(5));
}

type Row = (
    i64,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Vec<(Vec<u8>, Option<Vec<u8>>)>,
);

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..300);
    let nullable = move || prop::option::of(bytes());
    let headers = prop::collection::vec((bytes(), nullable()), 0..3);
    let timestamp = prop_oneof![0..3_000_i64, any::<i64>(), Just(-1)];
    prop::collection::vec((timestamp, nullable(), nullable(), headers), 1..40)
}

fn build(rows: &[Row], compression: Compression) -> Bytes {
    let mut builder = BatchBuilder::new(options(compression));
    for (timestamp, key, value, headers) in rows {
        let headers: Vec<HeaderRef<'_>> = headers
            .iter()
            .map(|(key, value)| (&key[..], value.as_deref()))
            .collect();
        let (timestamp, key, value) = (Timestamp(*timestamp), key.as_deref(), value.as_deref());
        let before = builder.estimated_size_bytes();
        let expected = builder.record_size_bytes(timestamp, key, value, &headers);
        builder.append(timestamp, key, value, &headers);
        assert_eq!(builder.estimated_size_bytes(), before + expected);
    }
    builder.build()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // Goal: what is appended comes back. Method: random records, each codec, both iterators.
    #[test]
    fn round_trip(rows in rows()) {
        for compression in Compression::ALL {
            let batch = build(&rows, compression);
            prop_assert!(verify_crc(&batch));
            let header = BatchHeader::parse(&batch).unwrap();
            let records: Vec<_> = RecordIter::new(&batch, BYTES_MAX).unwrap().collect();
            prop_assert_eq!(records.len(), rows.len());
            for (index, (record, row)) in records.into_iter().zip(&rows).enumerate() {
                let record = record.unwrap();
                prop_assert_eq!(usize::try_from(record.offset_delta), Ok(index));
                prop_assert_eq!(record.timestamp(&header), Timestamp(row.0));
                prop_assert_eq!(record.key.as_deref(), row.1.as_deref());
                prop_assert_eq!(record.value.as_deref(), row.2.as_deref());
                prop_assert_eq!(record.headers.len(), row.3.len());
                for (header, (key, value)) in record.headers.iter().zip(&row.3) {
                    prop_assert_eq!(&header.0[..], &key[..]);
                    prop_assert_eq!(header.1.as_deref(), value.as_deref());
                }
            }
            fuzz::batches(&batch);
        }
    }

    // Goal: a cut batch is an error at every length. Method: prefixes of a batch, by both walks.
    #[test]
    fn truncations(rows in rows(), cut: prop::sample::Index) {
        let batch = build(&rows, Compression::None);
        let end = cut.index(batch.len());
        let first = Batches::new(&batch[..end]).next();
        prop_assert_eq!(first.is_none(), end == 0);
        prop_assert!(first.is_none_or(|first| first.is_err()));
        prop_assert!(RecordIter::new(&batch.slice(..end), BYTES_MAX).is_err());
    }

    // Goal: any bytes are safe. Method: noise, and noise behind headers that parse, to every entry point.
    #[test]
    fn noise_never_panics(
        noise in prop::collection::vec(any::<u8>(), 0..400),
        codec in 0_u8..8,
        count in 0_u8..20,
    ) {
        fuzz::batches(&noise);
        fuzz::produce(&noise);
        fuzz::decompress(&noise);
        let shaped = [&[codec, count], &noise[..]].concat();
        fuzz::produce_records(&shaped);
    }

    // Goal: damage is survived and what passes can be read. Method: good batches with flipped record bytes and a new CRC.
    #[test]
    fn damaged_records(
        rows in rows(),
        codec in 0_u8..5,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let batch = build(&rows, Compression::from_id(codec).unwrap());
        let mut batch = batch.to_vec();
        for (at, bits) in flips {
            let at = HEADER_BYTES + at.index(batch.len() - HEADER_BYTES);
            batch[at] ^= bits;
        }
        patch::set_crc(&mut batch);
        fuzz::produce(&batch);
        fuzz::batches(&batch);
    }
}
