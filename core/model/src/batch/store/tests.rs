//! Tests of batches on their way to the log.

use super::*;
use crate::batch::{HeaderRef, RecordIter, TimestampType, verify_crc};

fn rules() -> ProduceRules {
    ProduceRules {
        now: Timestamp(1_000_000),
        max_message_bytes: 1_048_588,
        segment_bytes: 1 << 30,
        timestamp_type: TimestampType::CreateTime,
        before_max_ms: i64::MAX,
        after_max_ms: 3_600_000,
        compacted: false,
        produce_version: 9,
        has_transactional_id: false,
        decompressed_bytes_max: u64::MAX,
    }
}

fn to(codec: Compression) -> Target {
    Target {
        codec: Some(codec),
        level: None,
    }
}

/// A batch of `count` records of `size` bytes, unordered in time, every third without a key.
fn batch(codec: Compression, count: i64, size: usize) -> BytesMut {
    let mut builder = BatchBuilder::new(BuilderOptions {
        compression: codec,
        ..BuilderOptions::default()
    });
    let headers: [HeaderRef<'_>; 2] = [(b"a", Some(b"1")), (b"b", None)];
    for index in 0..count {
        let key = index.to_be_bytes();
        let key = (index % 3 != 0).then_some(&key[..]);
        let value = vec![b'v'; size];
        let timestamp = Timestamp(999_000 + (index * 7) % 11);
        builder.append(timestamp, key, Some(&value), &headers);
    }
    builder.build_mut()
}

type Seen = (i64, i64, Option<Bytes>, Option<Bytes>);

fn records(batch: &BytesMut) -> Vec<Seen> {
    let bytes = batch.clone().freeze();
    let header = BatchHeader::parse(&bytes).unwrap();
    let all = RecordIter::new(&bytes, u64::MAX).unwrap();
    all.map(|record| {
        let record = record.unwrap();
        let (offset, timestamp) = (record.offset(&header), record.timestamp(&header));
        (
            offset.0,
            timestamp.0,
            record.key.clone(),
            record.value.clone(),
        )
    })
    .collect()
}

// Goal: a topic's codec is what is stored, and nothing else changes. Method: from every codec to every codec; records,
// CRC, count and max timestamp before and after; a batch that has the codec keeps its bytes.
#[test]
fn every_codec_to_every_codec() {
    for from in Compression::ALL {
        for into in Compression::ALL {
            let sent = batch(from, 50, 100);
            let admitted = admit(sent.clone(), &rules(), to(into), &mut Scratch::default());
            let (stored, valid) = admitted.unwrap();
            assert_eq!(records(&stored), records(&sent), "{from:?} to {into:?}");
            assert!(verify_crc(&stored));
            assert_eq!(valid.compression, into);
            assert_eq!(valid.size_bytes, stored.len());
            assert_eq!(valid.max_timestamp, Timestamp(999_010));
            let header = BatchHeader::parse(&stored).unwrap();
            assert_eq!(header.attributes.compression(), Some(into));
            assert_eq!(header.size_bytes(), stored.len());
            if from == into {
                assert_eq!(stored, sent);
            }
        }
        let sent = batch(from, 5, 10);
        let kept = admit(
            sent.clone(),
            &rules(),
            Target::PRODUCER,
            &mut Scratch::default(),
        );
        assert_eq!(kept.unwrap().0, sent);
    }
}

// Goal: levels are used. Method: gzip and zstd at their lowest and highest give different bytes of the same records.
#[test]
fn levels() {
    let mut sent = BatchBuilder::new(BuilderOptions::default());
    for index in 0..2_000_u32 {
        let value = format!("{} {}", index % 97, index.wrapping_mul(2_654_435_761));
        sent.append(Timestamp(999_000), None, Some(value.as_bytes()), &[]);
    }
    let sent = sent.build_mut();
    for (codec, low, high) in [(Compression::Gzip, 1, 9), (Compression::Zstd, 1, 19)] {
        let at = |level| {
            let level = Some(level);
            recompress(&sent, codec, level, u64::MAX, &mut Scratch::default()).unwrap()
        };
        assert!(at(high).len() < at(low).len(), "{codec:?}");
    }
}

// Goal: what is stored keeps the bounds, and what is sent need not fit a segment. Method: a batch that shrinks below the
// segment, one that grows beyond the largest batch, and one beyond what may be unpacked.
#[test]
fn bounds_hold_for_what_is_stored() {
    let check = |from, into, rules: &ProduceRules, expected: Result<(), ErrorCode>| {
        let admitted = admit(
            batch(from, 10, 5_000),
            rules,
            to(into),
            &mut Scratch::default(),
        );
        let result = admitted.map(drop).map_err(|invalid| invalid.error);
        assert_eq!(result, expected, "{from:?} to {into:?}");
    };
    let segment = ProduceRules {
        segment_bytes: 10_000,
        ..rules()
    };
    let (none, gzip) = (Compression::None, Compression::Gzip);
    check(none, gzip, &segment, Ok(()));
    check(none, none, &segment, Err(ErrorCode::RecordListTooLarge));
    check(gzip, none, &segment, Err(ErrorCode::RecordListTooLarge));
    let small = ProduceRules {
        max_message_bytes: 10_000,
        ..rules()
    };
    check(gzip, none, &small, Err(ErrorCode::MessageTooLarge));
    check(none, gzip, &small, Err(ErrorCode::MessageTooLarge));
    check(gzip, Compression::Zstd, &small, Ok(()));
}

// Goal: records with odd offset deltas, which Kafka lets pass uncompressed, are numbered when they are compressed. Method:
// two records that both claim delta 1.
#[test]
fn odd_deltas_are_numbered() {
    let mut odd = batch(Compression::None, 2, 1);
    // The first record's offset delta: length, attributes and timestamp delta take a byte each.
    odd[HEADER_BYTES + 3] = 2;
    patch::set_crc(&mut odd);
    let (stored, _) = admit(odd, &rules(), to(Compression::Lz4), &mut Scratch::default()).unwrap();
    let offsets: Vec<i64> = records(&stored).iter().map(|record| record.0).collect();
    assert_eq!(offsets, [0, 1]);
    assert_eq!(records(&stored), records(&batch(Compression::None, 2, 1)));
}

// Goal: work beyond the limits is left to another thread, and judged there as here. Method: sizes around each limit; a
// small batch that unpacks to much; a bad one of any size is refused in the end.
#[test]
fn much_work_is_done_elsewhere() {
    let here = |data: BytesMut, target| match admit_here(
        data.clone(),
        &rules(),
        target,
        &mut Scratch::default(),
    ) {
        Here::Done(judged) => {
            let elsewhere = admit(data, &rules(), target, &mut Scratch::default());
            assert_eq!(judged, elsewhere);
            true
        }
        Here::Elsewhere(left) => {
            assert_eq!(left, data);
            false
        }
    };
    let plain = batch(Compression::None, 100, 5_000);
    assert!(here(plain.clone(), Target::PRODUCER));
    assert!(here(plain.clone(), to(Compression::None)));
    assert!(!here(plain, to(Compression::Zstd)));
    assert!(here(
        batch(Compression::None, 5, 100),
        to(Compression::Zstd)
    ));
    assert!(here(batch(Compression::Gzip, 5, 100), Target::PRODUCER));
    // Well packed: few bytes that stand for many.
    let bomb = batch(Compression::Zstd, 100, 40_000);
    assert!(bomb.len() < VALIDATED_BYTES_HERE_MAX);
    assert!(!here(bomb, Target::PRODUCER));
    // Few enough bytes to be unpacked here, too many to be packed again.
    let small = batch(Compression::Zstd, 10, 4_000);
    assert!(small.len() < RECOMPRESSED_BYTES_HERE_MAX);
    assert!(here(small.clone(), Target::PRODUCER));
    assert!(!here(small, to(Compression::Gzip)));
    let mut noise = BatchBuilder::new(BuilderOptions {
        compression: Compression::Snappy,
        ..BuilderOptions::default()
    });
    let mut state = 1_u32;
    let value: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    })
    .take(2 * VALIDATED_BYTES_HERE_MAX)
    .collect();
    noise.append(Timestamp(999_000), None, Some(&value), &[]);
    assert!(!here(noise.build_mut(), Target::PRODUCER));
    let mut bad = batch(Compression::Gzip, 5, 100);
    bad[70] ^= 0xff;
    assert!(here(bad, Target::PRODUCER));
}

// Goal: bytes of any sort end in an answer. Method: every cut and every flipped byte of a small batch, to another codec.
#[test]
fn hostile_bytes() {
    for codec in Compression::ALL {
        let good = batch(codec, 3, 20);
        for at in 0..good.len() {
            let mut cut = good.clone();
            cut.truncate(at);
            let target = to(Compression::Gzip);
            assert!(admit(cut.clone(), &rules(), target, &mut Scratch::default()).is_err());
            drop(recompress(
                &cut,
                Compression::Gzip,
                None,
                1 << 20,
                &mut Scratch::default(),
            ));
            let mut flipped = good.clone();
            flipped[at] ^= 0x55;
            let result = recompress(
                &flipped,
                Compression::Gzip,
                None,
                1 << 20,
                &mut Scratch::default(),
            );
            drop(result);
        }
    }
}
