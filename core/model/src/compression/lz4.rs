//! LZ4 frames with independent blocks.
//!
//! | field        | size | meaning                                                              |
//! |--------------|-----:|----------------------------------------------------------------------|
//! | magic        |    4 | 0x184d2204, little endian                                            |
//! | FLG          |    1 | 7–6 version 1, 5 independent, 4 block checksums, 3 content size, 2 content checksum, 0 dictionary |
//! | BD           |    1 | 6–4: largest block, 4 = 64 KiB to 7 = 4 MiB                           |
//! | content size |  0/8 | not believed                                                         |
//! | HC           |    1 | second byte of xxh32 over the descriptor                             |
//! | blocks       |      | size (top bit: stored), bytes, checksum when announced               |
//! | end mark     |    4 | 0, then the content checksum when announced                          |
//!
//! Invariants:
//! 1. Every checksum present is verified; bytes after the end mark are ignored, as in Kafka's reader.
//! 2. A block's buffer is at most the frame's block size and at most what its bytes can expand to (255 : 1).
//!
//! What it does not do: linked blocks, dictionaries, legacy frames: Kafka's reader refuses them too.
//! Source: the LZ4 frame format, version 1.6.

use std::hash::Hasher;

use twox_hash::XxHash32;

use super::{DecompressError, at_least, take};

const MAGIC: [u8; 4] = 0x184d_2204_u32.to_le_bytes();
const VERSION_MASK: u8 = 0xc0;
const VERSION: u8 = 0x40;
const INDEPENDENT: u8 = 0x20;
const BLOCK_CHECKSUMS: u8 = 0x10;
const CONTENT_SIZE: u8 = 0x08;
const CONTENT_CHECKSUM: u8 = 0x04;
const RESERVED_OR_DICTIONARY: u8 = 0x03;
const STORED: u32 = 1 << 31;
const WRITE_BLOCK_BYTES: usize = 64 * 1024;
const WRITE_BLOCK_CODE: u8 = 4 << 4;
const EXPANSION_MAX: usize = 255;

pub(super) fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() / 2 + 64);
    let descriptor = [VERSION | INDEPENDENT, WRITE_BLOCK_CODE];
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&descriptor);
    out.push(descriptor_checksum(&descriptor));
    let bound = lz4_flex::block::get_maximum_output_size(WRITE_BLOCK_BYTES.min(bytes.len()));
    for block in bytes.chunks(WRITE_BLOCK_BYTES) {
        let size_at = out.len();
        out.resize(size_at + 4 + bound, 0);
        let packed = lz4_flex::block::compress_into(block, &mut out[size_at + 4..])
            .expect("the output has room for the worst case");
        let (size, field) = if packed < block.len() {
            (packed, block_size(packed))
        } else {
            out[size_at + 4..size_at + 4 + block.len()].copy_from_slice(block);
            (block.len(), block_size(block.len()) | STORED)
        };
        out[size_at..size_at + 4].copy_from_slice(&field.to_le_bytes());
        out.truncate(size_at + 4 + size);
    }
    out.extend_from_slice(&[0; 4]);
    out
}

fn block_size(size: usize) -> u32 {
    u32::try_from(size).expect("a block is at most 64 KiB")
}

fn descriptor_checksum(descriptor: &[u8]) -> u8 {
    XxHash32::oneshot(0, descriptor).to_le_bytes()[1]
}

#[derive(Debug, Default)]
pub(super) struct State {
    position: usize,
    frame: Option<Frame>,
    ended: bool,
}

#[derive(Debug)]
struct Frame {
    block_bytes_max: usize,
    block_checksums: bool,
    content: Option<XxHash32>,
}

impl State {
    pub(super) fn next(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<usize, DecompressError> {
        let mut rest = &input[self.position..];
        if self.frame.is_none() {
            self.frame = Some(read_descriptor(&mut rest)?);
        }
        let frame = self.frame.as_mut().expect("set above");
        while !self.ended {
            let produced = frame
                .block(&mut rest, out)
                .ok_or(DecompressError::Corrupt)?;
            self.position = input.len() - rest.len();
            match produced {
                None => self.ended = true,
                // An empty block is legal and says nothing; 0 would mean the end.
                Some(0) => {}
                Some(produced) => return Ok(produced),
            }
        }
        Ok(0)
    }
}

impl Frame {
    /// Decodes one block; `Some(None)` is the end mark, `None` damage.
    fn block(&mut self, rest: &mut &[u8], out: &mut Vec<u8>) -> Option<Option<usize>> {
        let field = u32::from_le_bytes(take(rest)?);
        if field == 0 {
            if let Some(content) = &self.content
                && u32::from_le_bytes(take(rest)?) != content.finish_32()
            {
                return None;
            }
            return Some(None);
        }
        let size = usize::try_from(field & !STORED).ok()?;
        if size > self.block_bytes_max {
            return None;
        }
        let (block, after) = rest.split_at_checked(size)?;
        *rest = after;
        if self.block_checksums && u32::from_le_bytes(take(rest)?) != XxHash32::oneshot(0, block) {
            return None;
        }
        let produced = if field & STORED != 0 {
            at_least(out, size)[..size].copy_from_slice(block);
            size
        } else {
            let bound = self.block_bytes_max.min(size * EXPANSION_MAX);
            lz4_flex::block::decompress_into(block, &mut at_least(out, bound)[..bound]).ok()?
        };
        if let Some(content) = &mut self.content {
            content.write(&out[..produced]);
        }
        Some(Some(produced))
    }
}

/// Reads magic and frame descriptor.
fn read_descriptor(rest: &mut &[u8]) -> Result<Frame, DecompressError> {
    *rest = rest
        .strip_prefix(&MAGIC)
        .ok_or(DecompressError::NotThisCodec)?;
    let descriptor = *rest;
    let [flags, block] = take(rest).ok_or(DecompressError::Corrupt)?;
    let served = flags & VERSION_MASK == VERSION
        && flags & INDEPENDENT != 0
        && flags & RESERVED_OR_DICTIONARY == 0
        && block & 0x8f == 0
        && block >> 4 >= 4;
    if !served {
        return Err(DecompressError::Corrupt);
    }
    if flags & CONTENT_SIZE != 0 {
        take::<8>(rest).ok_or(DecompressError::Corrupt)?;
    }
    let descriptor = &descriptor[..descriptor.len() - rest.len()];
    let [checksum] = take(rest).ok_or(DecompressError::Corrupt)?;
    if checksum != descriptor_checksum(descriptor) {
        return Err(DecompressError::Corrupt);
    }
    Ok(Frame {
        block_bytes_max: 1 << (8 + 2 * (block >> 4)),
        block_checksums: flags & BLOCK_CHECKSUMS != 0,
        content: (flags & CONTENT_CHECKSUM != 0).then(|| XxHash32::with_seed(0)),
    })
}
