//! Snappy, in the framing of snappy-java ("xerial") and raw.
//!
//! | field         | size | meaning                                          |
//! |---------------|-----:|--------------------------------------------------|
//! | magic         |    8 | 82 53 4e 41 50 50 59 00                          |
//! | version       |    4 | 1, big endian                                    |
//! | compatible    |    4 | 1, big endian                                    |
//! | chunks        |      | size (4, big endian), one raw snappy block       |
//!
//! Invariants:
//! 1. Bytes that do not begin with the magic are one raw block, as librdkafka and others write it.
//! 2. A block's buffer is at most what its bytes can expand to: three bytes copy at most 64.
//! 3. A header may stand where a chunk's size is expected: streams may follow each other.
//!
//! What it does not do: the framing of Google's own snappy tools, which Kafka never used.
//! Source: snappy-java's stream format and Google's format description.

use super::{DecompressError, at_least, take};

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const MAGIC_AS_SIZE: i32 = i32::from_be_bytes([0x82, b'S', b'N', b'A']);
const VERSION: [u8; 4] = 1_i32.to_be_bytes();
const HEADER_BYTES: usize = 16;
const WRITE_CHUNK_BYTES: usize = 32 * 1024;
/// A copy element of three bytes yields at most 64.
const EXPANSION_MAX: usize = 64_usize.div_ceil(3);

pub(super) fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() / 2 + 64);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION);
    out.extend_from_slice(&VERSION);
    let mut encoder = snap::raw::Encoder::new();
    for chunk in bytes.chunks(WRITE_CHUNK_BYTES) {
        let size_at = out.len();
        out.resize(size_at + 4 + snap::raw::max_compress_len(chunk.len()), 0);
        let size = encoder
            .compress(chunk, &mut out[size_at + 4..])
            .expect("the output has room for the worst case");
        let field = i32::try_from(size).expect("a chunk is at most 32 KiB");
        out[size_at..size_at + 4].copy_from_slice(&field.to_be_bytes());
        out.truncate(size_at + 4 + size);
    }
    out
}

#[derive(Debug, Default)]
pub(super) struct State {
    position: usize,
}

impl State {
    pub(super) fn next(
        &mut self,
        input: &[u8],
        engine: &mut snap::raw::Decoder,
        out: &mut Vec<u8>,
        room: u64,
    ) -> Result<usize, DecompressError> {
        if self.position == 0 {
            if !input.starts_with(&MAGIC) {
                if input.is_empty() {
                    return Err(DecompressError::NotThisCodec);
                }
                self.position = input.len();
                return block(input, engine, out, room).map_err(|error| match error {
                    DecompressError::Corrupt => DecompressError::NotThisCodec,
                    DecompressError::NotThisCodec | DecompressError::TooLarge { .. } => error,
                });
            }
            if input.len() < HEADER_BYTES {
                return Err(DecompressError::Corrupt);
            }
            self.position = HEADER_BYTES;
        }
        while self.position < input.len() {
            let mut rest = &input[self.position..];
            let size = take(&mut rest)
                .map(i32::from_be_bytes)
                .ok_or(DecompressError::Corrupt)?;
            if size == MAGIC_AS_SIZE {
                take::<{ HEADER_BYTES - 4 }>(&mut rest).ok_or(DecompressError::Corrupt)?;
                self.position = input.len() - rest.len();
                continue;
            }
            let chunk = usize::try_from(size)
                .ok()
                .and_then(|size| rest.get(..size))
                .ok_or(DecompressError::Corrupt)?;
            self.position += 4 + chunk.len();
            let produced = block(chunk, engine, out, room)?;
            if produced > 0 {
                return Ok(produced);
            }
        }
        Ok(0)
    }
}

fn block(
    block: &[u8],
    engine: &mut snap::raw::Decoder,
    out: &mut Vec<u8>,
    room: u64,
) -> Result<usize, DecompressError> {
    let claimed = snap::raw::decompress_len(block).map_err(|_| DecompressError::Corrupt)?;
    if claimed > block.len().saturating_mul(EXPANSION_MAX) {
        return Err(DecompressError::Corrupt);
    }
    if claimed as u64 > room {
        return Err(DecompressError::TooLarge { bytes_max: room });
    }
    engine
        .decompress(block, &mut at_least(out, claimed)[..claimed])
        .map_err(|_| DecompressError::Corrupt)
}
