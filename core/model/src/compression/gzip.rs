//! Gzip (RFC 1952) around raw deflate.
//!
//! Invariants:
//! 1. A member's CRC and length are checked; members may follow each other.
//! 2. Bytes after a member that begin no other member are ignored, as Java's reader ignores them.
//!
//! What it does not do: look at names, comments or times.
//! Source: RFC 1952.

use std::io::Write;

use flate2::{Crc, FlushDecompress, Status};

use super::{DecompressError, Engines, take};

const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
const FLAG_HEADER_CRC: u8 = 2;
const FLAG_EXTRA: u8 = 4;
const FLAG_NAME: u8 = 8;
const FLAG_COMMENT: u8 = 16;

pub(super) fn compress(bytes: &[u8], level: Option<i32>) -> Vec<u8> {
    let level = match level {
        // Kafka's −1 is the library's default.
        None | Some(..0) => flate2::Compression::default(),
        Some(level) => flate2::Compression::new(level.min(9).unsigned_abs()),
    };
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    encoder
        .write_all(bytes)
        .expect("writing to memory does not fail");
    encoder.finish().expect("writing to memory does not fail")
}

#[derive(Debug, Default)]
pub(super) struct State {
    position: usize,
    member: Option<Crc>,
    past_first: bool,
}

impl State {
    pub(super) fn next(
        &mut self,
        input: &[u8],
        engines: &mut Engines,
        out: &mut [u8],
    ) -> Result<usize, DecompressError> {
        loop {
            let engine = engines
                .inflate
                .get_or_insert_with(|| Box::new(flate2::Decompress::new(false)));
            let Some(crc) = &mut self.member else {
                match header_size(&input[self.position..]) {
                    Some(size) => self.position += size,
                    None if self.past_first => return Ok(0),
                    None if input.starts_with(&MAGIC) => return Err(DecompressError::Corrupt),
                    None => return Err(DecompressError::NotThisCodec),
                }
                engine.reset(false);
                self.member = Some(Crc::new());
                continue;
            };
            let (before_in, before_out) = (engine.total_in(), engine.total_out());
            let status = engine
                .decompress(&input[self.position..], out, FlushDecompress::None)
                .map_err(|_| DecompressError::Corrupt)?;
            let consumed = moved(before_in, engine.total_in());
            let produced = moved(before_out, engine.total_out());
            self.position += consumed;
            crc.update(&out[..produced]);
            if matches!(status, Status::StreamEnd) {
                let mut rest = &input[self.position..];
                let sum = take(&mut rest).map(u32::from_le_bytes);
                let amount = take(&mut rest).map(u32::from_le_bytes);
                if sum != Some(crc.sum()) || amount != Some(crc.amount()) {
                    return Err(DecompressError::Corrupt);
                }
                self.position += 8;
                self.member = None;
                self.past_first = true;
            } else if consumed == 0 && produced == 0 {
                return Err(DecompressError::Corrupt);
            }
            if produced > 0 {
                return Ok(produced);
            }
        }
    }
}

fn moved(before: u64, after: u64) -> usize {
    usize::try_from(after - before).expect("at most the length of a slice")
}

/// The size of the member header at the start of `bytes`.
fn header_size(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes.strip_prefix(&MAGIC)?;
    let [flags, ..] = take::<7>(&mut rest)?;
    if flags & FLAG_EXTRA != 0 {
        let size = u16::from_le_bytes(take(&mut rest)?);
        rest = rest.get(usize::from(size)..)?;
    }
    for flag in [FLAG_NAME, FLAG_COMMENT] {
        if flags & flag != 0 {
            let end = rest.iter().position(|&byte| byte == 0)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & FLAG_HEADER_CRC != 0 {
        take::<2>(&mut rest)?;
    }
    Some(bytes.len() - rest.len())
}
