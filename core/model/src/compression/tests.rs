//! Tests of the codecs: round trips, foreign streams, damage and bombs.

use std::io::{Read, Write};

use proptest::prelude::*;

use super::*;

const CODECS: [Compression; 4] = [
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

fn read(codec: Compression, bytes: &[u8], bytes_max: u64) -> Result<Vec<u8>, DecompressError> {
    let mut out = Vec::new();
    match decoder(codec, bytes, bytes_max).read_to_end(&mut out) {
        Ok(_) => Ok(out),
        Err(error) => Err(*error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<DecompressError>())
            .expect("our error")),
    }
}

/// Half text that repeats, half noise.
fn sample(size: usize) -> Vec<u8> {
    let mut state = 1_u32;
    (0..size)
        .map(|index| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if index / 1000 % 2 == 0 {
                b"pelton "[index % 7]
            } else {
                state.to_be_bytes()[0]
            }
        })
        .collect()
}

// Goal: what is written is read back. Method: sizes around every block and chunk bound, each codec and level.
#[test]
fn round_trip() {
    for size in [0, 1, 12, 32_768, 65_537, 100_000] {
        let bytes = sample(size);
        for codec in Compression::ALL {
            for level in [None, Some(-1), Some(12)] {
                let packed = compress(codec, &bytes, level);
                assert_eq!(
                    read(codec, &packed, size as u64).as_ref(),
                    Ok(&bytes),
                    "{codec:?}"
                );
                if size > 0 {
                    let short = size as u64 - 1;
                    assert_eq!(
                        read(codec, &packed, short).map(|bytes| bytes.len()),
                        Err(DecompressError::TooLarge { bytes_max: short })
                    );
                }
            }
        }
    }
}

// Goal: numbers and names are Kafka's. Method: all, both ways.
#[test]
fn ids_and_names() {
    for (id, codec) in (0..).zip(Compression::ALL) {
        assert_eq!(codec.id(), id);
        assert_eq!(Compression::from_id(id), Some(codec));
        assert_eq!(Compression::from_name(codec.name()), Some(codec));
    }
    assert_eq!(Compression::from_id(5), None);
    assert_eq!(Compression::from_name("producer"), None);
}

// Goal: other writers' streams are read. Method: streams that our own writer does not make.
#[test]
fn foreign_streams() {
    fn check(codec: Compression, bytes: &[u8], expected: &[u8]) {
        assert_eq!(read(codec, bytes, 1 << 20).as_deref(), Ok(expected));
    }
    let text = sample(5000);
    // librdkafka: raw snappy.
    let raw = snap::raw::Encoder::new().compress_vec(&text).unwrap();
    check(Compression::Snappy, &raw, &text);
    // snappy-java: two streams, one after the other, and an empty one.
    let framed = compress(Compression::Snappy, &text, None);
    check(
        Compression::Snappy,
        &[framed.clone(), framed].concat(),
        &[text.clone(), text.clone()].concat(),
    );
    check(
        Compression::Snappy,
        &[MAGIC_XERIAL, &[0, 0, 0, 1, 0, 0, 0, 1]].concat(),
        b"",
    );
    // gzip: a name, a comment, an extra field and a header CRC; two members; bytes after the last.
    let mut member = flate2::GzBuilder::new()
        .filename("records")
        .comment("a comment")
        .extra(vec![1, 2, 3])
        .write(Vec::new(), flate2::Compression::fast());
    member.write_all(&text).unwrap();
    let member = member.finish().unwrap();
    check(
        Compression::Gzip,
        &[&member[..], &member, b"rest"].concat(),
        &[text.clone(), text.clone()].concat(),
    );
    // zstd: unknown content size (a stream), two frames, a skippable frame in front.
    let frame = ::zstd::stream::encode_all(&text[..], 22).unwrap();
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9];
    check(
        Compression::Zstd,
        &[&skippable[..], &frame, &frame].concat(),
        &[text.clone(), text].concat(),
    );
    // lz4: the command line tool's frame of "hello hello hello hello\n" with content size and content checksum, from
    // its format description: a stored block.
    let hello = b"hello";
    let mut frame = vec![0x04, 0x22, 0x4d, 0x18];
    let descriptor = [0x7c, 0x40, 5, 0, 0, 0, 0, 0, 0, 0];
    frame.extend_from_slice(&descriptor);
    frame.push(twox_hash::XxHash32::oneshot(0, &descriptor).to_le_bytes()[1]);
    frame.extend_from_slice(&(5_u32 | 1 << 31).to_le_bytes());
    frame.extend_from_slice(hello);
    let sum = twox_hash::XxHash32::oneshot(0, hello).to_le_bytes();
    frame.extend_from_slice(&sum);
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(&sum);
    check(Compression::Lz4, &[&frame[..], b"rest"].concat(), hello);
    for at in [4, 14, 19, 24, 28, frame.len() - 1] {
        let mut damaged = frame.clone();
        damaged[at] ^= 1;
        assert!(
            read(Compression::Lz4, &damaged, 1 << 20).is_err(),
            "byte {at}"
        );
    }
}

const MAGIC_XERIAL: &[u8] = &[0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];

// Goal: plain data is told from damage. Method: record-like bytes against each codec.
#[test]
fn plain_data_is_not_this_codec() {
    for codec in CODECS {
        for plain in [&b"\x10\0\0\0\x02k\x02v\0"[..], b""] {
            assert_eq!(
                read(codec, plain, 1 << 20),
                Err(DecompressError::NotThisCodec),
                "{codec:?}"
            );
        }
    }
}

// Goal: a cut stream is an error, never a short result. Method: every prefix.
#[test]
fn truncation_is_an_error() {
    let text = sample(1500);
    for codec in CODECS {
        let packed = compress(codec, &text, None);
        for end in 0..packed.len() {
            // Snappy has no end mark: a cut between chunks is not seen, so there only the first chunk's bytes count.
            if codec == Compression::Snappy && end == 16 {
                continue;
            }
            assert!(
                read(codec, &packed[..end], 1 << 20).is_err(),
                "{codec:?} cut at {end}"
            );
        }
    }
}

// Goal: a bomb is refused at the bound. Method: 3 MiB of zeros in each codec, a bound of 1 MiB, and what was read.
#[test]
fn bombs_stop_at_the_bound() {
    let bytes_max = 1 << 20;
    let zeros = vec![0; 3 << 20];
    for codec in CODECS {
        let bomb = compress(codec, &zeros, None);
        assert_eq!(
            read(codec, &bomb, bytes_max),
            Err(DecompressError::TooLarge { bytes_max }).map(|()| Vec::new())
        );
        let mut decoder = Decoder::new(codec, bytes_max);
        let (mut engines, mut chunk) = (Engines::default(), Vec::new());
        while decoder.next_chunk(&bomb, &mut engines, &mut chunk).is_ok() {}
        assert!(chunk.len() <= CHUNK_BYTES, "{codec:?} used {}", chunk.len());
    }
}

// Goal: no allocation by claim. Method: a raw snappy block that claims 4 GiB, a chunk that claims 2 GiB.
#[test]
fn claims_are_not_believed() {
    let claim = [0xff, 0xff, 0xff, 0xff, 0x0f, 0];
    assert!(read(Compression::Snappy, &claim, u64::MAX).is_err());
    let chunk = [
        MAGIC_XERIAL,
        &[0, 0, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff],
    ]
    .concat();
    assert_eq!(
        read(Compression::Snappy, &chunk, u64::MAX),
        Err(DecompressError::Corrupt)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // Goal: no panic on damage. Method: good streams with bytes flipped and cut off.
    #[test]
    fn damage_never_panics(
        seed in prop::collection::vec(any::<u8>(), 0..2000),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut: prop::sample::Index,
    ) {
        for codec in CODECS {
            let mut packed = compress(codec, &seed, None);
            for (at, bits) in &flips {
                let at = at.index(packed.len());
                packed[at] ^= bits;
            }
            let end = cut.index(packed.len()) + 1;
            let _result = read(codec, &packed[..end], 1 << 20);
        }
    }
}
