//! Tests of rewriting: against what the builder makes of the same records.

use proptest::prelude::*;

use super::*;
use crate::batch::{
    BatchBuilder, BuilderOptions, Record, RecordIter, TimestampType, patch, verify_crc,
};
use crate::id::{LeaderEpoch, ProducerEpoch, ProducerId, Sequence};

const BYTES_MAX: u64 = 1 << 24;

type Row = (i64, Option<Vec<u8>>, Option<Vec<u8>>);

fn build(rows: &[Row], compression: Compression) -> BytesMut {
    let mut builder = BatchBuilder::new(BuilderOptions {
        compression,
        base_offset: Offset(1000),
        leader_epoch: LeaderEpoch(7),
        producer_id: ProducerId(42),
        producer_epoch: ProducerEpoch(3),
        base_sequence: Sequence(i32::MAX - 1),
        ..BuilderOptions::default()
    });
    for (timestamp, key, value) in rows {
        let headers: [(&[u8], Option<&[u8]>); 1] = [(b"h", None)];
        builder.append(
            Timestamp(*timestamp),
            key.as_deref(),
            value.as_deref(),
            &headers,
        );
    }
    builder.build_mut()
}

fn records(batch: &Bytes) -> Vec<(Offset, Timestamp, Record)> {
    let header = BatchHeader::parse(batch).unwrap();
    let records = RecordIter::new(batch, BYTES_MAX).unwrap();
    let whole = records.map(|record| {
        let mut record = record.unwrap();
        let place = (record.offset(&header), record.timestamp(&header));
        record.timestamp_delta = 0;
        (place.0, place.1, record)
    });
    whole.collect()
}

fn run(batch: &Bytes, horizon: Horizon, keep: &[bool]) -> Retained {
    let header = BatchHeader::parse(batch).unwrap();
    let mut scratch = RetainScratch::default();
    let mut index = 0;
    let mut seen = Vec::new();
    visit(&header, batch, BYTES_MAX, &mut scratch, |record| {
        seen.push((record.offset, record.key.map(<[u8]>::to_vec)));
        true
    })
    .unwrap();
    let retained = retain(&header, batch, horizon, BYTES_MAX, &mut scratch, |record| {
        assert_eq!(seen[index], (record.offset, record.key.map(<[u8]>::to_vec)));
        index += 1;
        keep[index - 1]
    });
    retained.unwrap()
}

fn rewritten(retained: Retained) -> Bytes {
    match retained.outcome {
        Outcome::Rewritten(ref bytes) => bytes.clone(),
        Outcome::Unchanged | Outcome::Empty => panic!("{retained:?}"),
    }
}

fn three_rows() -> Vec<Row> {
    let row = |time: i64, key: &[u8], value: Option<&[u8]>| {
        (time, Some(key.to_vec()), value.map(<[u8]>::to_vec))
    };
    vec![
        row(5_000, b"a", Some(b"1")),
        row(9_000, b"b", None),
        row(7_000, b"c", Some(b"3")),
    ]
}

// Goal: what must survive a rewrite does. Method: each codec, the first record goes, the header field by field.
#[test]
fn header_survives() {
    for compression in Compression::ALL {
        let batch = build(&three_rows(), compression).freeze();
        let before = BatchHeader::parse(&batch).unwrap();
        let after = rewritten(run(&batch, Horizon::Keep, &[false, false, true]));
        assert!(verify_crc(&after), "{compression:?}");
        let header = BatchHeader::parse(&after).unwrap();
        assert_eq!(header.size_bytes(), after.len());
        let expected = BatchHeader {
            batch_length: header.batch_length,
            crc: header.crc,
            max_timestamp: Timestamp(7_000),
            record_count: 1,
            ..before
        };
        assert_eq!(header, expected);
        assert_eq!(header.last_offset(), Offset(1002));
        assert_eq!(records(&after), records(&batch)[2..]);
    }
}

// Goal: nothing to do is nothing done, and nothing left is a header with the last offset and sequence. Method: masks.
#[test]
fn whole_and_empty() {
    let batch = build(&three_rows(), Compression::Lz4).freeze();
    let whole = run(&batch, Horizon::Keep, &[true; 3]);
    assert_eq!(whole.outcome, Outcome::Unchanged);
    assert_eq!((whole.records_before, whole.records_after), (3, 3));
    let nothing = run(&batch, Horizon::Always(Timestamp(1)), &[false; 3]);
    assert_eq!(nothing.outcome, Outcome::Empty);
    let header = BatchHeader::parse(&batch).unwrap();
    let shell = empty(&header);
    assert_eq!(shell.len(), HEADER_BYTES);
    assert!(verify_crc(&shell));
    let left = BatchHeader::parse(&shell).unwrap();
    assert_eq!(left.last_offset(), header.last_offset());
    assert_eq!(left.last_sequence(), header.last_sequence());
    assert_eq!(left.max_timestamp, header.max_timestamp);
    assert_eq!(left.leader_epoch, header.leader_epoch);
    assert_eq!((left.record_count, left.attributes), (0, Attributes(0)));
    // And again: an empty batch stays one.
    assert_eq!(run(&shell, Horizon::Keep, &[]).outcome, Outcome::Empty);
    assert_eq!(empty(&left), shell);
}

// Goal: a horizon is set once, where asked, and moves no timestamp. Method: the three ways, twice, and both time types.
#[test]
fn horizons() {
    let batch = build(&three_rows(), Compression::None).freeze();
    let tombstones = Horizon::ForTombstones(Timestamp(1 << 40));
    let no_tombstone = run(&batch, tombstones, &[true, false, true]);
    let header = BatchHeader::parse(&rewritten(no_tombstone)).unwrap();
    assert_eq!(delete_horizon(&header), None);

    let marked = rewritten(run(&batch, tombstones, &[true; 3]));
    let header = BatchHeader::parse(&marked).unwrap();
    assert_eq!(delete_horizon(&header), Some(Timestamp(1 << 40)));
    assert_eq!(header.max_timestamp, Timestamp(9_000));
    assert!(verify_crc(&marked));
    assert_eq!(records(&marked), records(&batch));
    for later in [tombstones, Horizon::Always(Timestamp(5))] {
        assert_eq!(run(&marked, later, &[true; 3]).outcome, Outcome::Unchanged);
    }
    let always = rewritten(run(
        &batch,
        Horizon::Always(Timestamp(5)),
        &[true, false, true],
    ));
    let header = BatchHeader::parse(&always).unwrap();
    assert_eq!(delete_horizon(&header), Some(Timestamp(5)));

    let mut appended = build(&three_rows(), Compression::None);
    patch::set_max_timestamp(
        &mut appended,
        TimestampType::LogAppendTime,
        Timestamp(20_000),
    );
    let appended = appended.freeze();
    let marked = rewritten(run(&appended, tombstones, &[false, true, false]));
    let header = BatchHeader::parse(&marked).unwrap();
    assert_eq!(header.max_timestamp, Timestamp(20_000));
    assert_eq!(records(&marked), records(&appended)[1..2]);
}

// Goal: damage is an error, whatever is kept. Method: bytes after the records, a record cut short, an unknown codec.
#[test]
fn damage() {
    let batch = build(&three_rows(), Compression::None).freeze();
    let check = |change: &dyn Fn(&mut BatchHeader, &mut BytesMut)| {
        let mut bytes = BytesMut::from(&batch[..]);
        let mut header = BatchHeader::parse(&batch).unwrap();
        change(&mut header, &mut bytes);
        let bytes = finish(header, bytes);
        let header = BatchHeader::parse(&bytes).unwrap();
        let mut scratch = RetainScratch::default();
        let retained = retain(
            &header,
            &bytes,
            Horizon::Keep,
            BYTES_MAX,
            &mut scratch,
            |_| true,
        );
        assert!(retained.is_err(), "{retained:?}");
    };
    check(&|header, _| header.record_count = 2);
    check(&|header, _| header.record_count = 4);
    check(&|header, _| header.record_count = -1);
    check(&|header, _| header.attributes = Attributes(6));
    check(&|header, _| header.attributes = Attributes(4));
    check(&|_, bytes| bytes.truncate(bytes.len() - 1));
}

fn rows() -> impl Strategy<Value = Vec<(Row, bool)>> {
    let bytes = || prop::option::of(prop::collection::vec(any::<u8>(), 0..20));
    let time = prop_oneof![0_i64..100_000, any::<i64>()];
    prop::collection::vec(((time, bytes(), bytes()), any::<bool>()), 1..30)
}

proptest! {
    // Goal: the records that stay are those asked for, unchanged. Method: any records, masks and horizons, each codec.
    #[test]
    fn model(rows in rows(), codec in 0_u8..5, time: i64, kind in 0_u8..3) {
        let (rows, keep): (Vec<Row>, Vec<bool>) = rows.into_iter().unzip();
        let codec = Compression::from_id(codec).unwrap();
        let batch = build(&rows, codec).freeze();
        let time = Timestamp(time);
        let horizon = [Horizon::Keep, Horizon::ForTombstones(time), Horizon::Always(time)];
        let retained = run(&batch, horizon[usize::from(kind)], &keep);
        let mut expected = records(&batch).into_iter().zip(&keep);
        let expected: Vec<_> = expected.by_ref().filter(|(_, keep)| **keep).map(|(r, _)| r).collect();
        prop_assert_eq!(retained.records_after as usize, expected.len());
        match retained.outcome {
            Outcome::Empty => prop_assert!(expected.is_empty()),
            Outcome::Unchanged => prop_assert_eq!(expected.len(), rows.len()),
            Outcome::Rewritten(bytes) => {
                prop_assert!(verify_crc(&bytes));
                let header = BatchHeader::parse(&bytes).unwrap();
                prop_assert_eq!(header.last_offset(), BatchHeader::parse(&batch).unwrap().last_offset());
                prop_assert_eq!(header.attributes.compression(), Some(codec));
                prop_assert_eq!(records(&bytes), expected);
            }
        }
    }
}
