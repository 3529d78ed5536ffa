//! Zstandard frames.
//!
//! Invariants:
//! 1. Windows up to 128 MiB are served, as every level of Kafka's own producer may ask for them; the window's memory is
//!    touched only as far as bytes are decoded, so the caller's bound bounds it.
//! 2. A context that grew beyond [`CONTEXT_BYTES_KEPT`] is dropped by the trim that follows each batch.
//!
//! What it does not do: dictionaries.
//! Source: RFC 8878; KIP-110.

use ::zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use super::{DecompressError, Engines};

const MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();
const SKIPPABLE_MAGIC: [u8; 3] = [0x2a, 0x4d, 0x18];
const WINDOW_LOG_MAX: u32 = 27;
/// What a decoding context may hold on to between streams.
pub(super) const CONTEXT_BYTES_KEPT: usize = 4 * 1024 * 1024;

pub(super) fn compress(bytes: &[u8], level: Option<i32>) -> Vec<u8> {
    let levels = ::zstd::compression_level_range();
    let level = level
        .unwrap_or(::zstd::DEFAULT_COMPRESSION_LEVEL)
        .clamp(*levels.start(), *levels.end());
    ::zstd::bulk::compress(bytes, level).expect("memory to memory fails only for want of memory")
}

#[derive(Debug, Default)]
pub(super) struct State {
    position: usize,
    started: bool,
    frame_open: bool,
}

impl State {
    pub(super) fn next(
        &mut self,
        input: &[u8],
        engines: &mut Engines,
        out: &mut [u8],
    ) -> Result<usize, DecompressError> {
        let context = engines.zstd.get_or_insert_with(new_context);
        if !self.started {
            let skippable = input.get(1..4) == Some(&SKIPPABLE_MAGIC);
            if !input.starts_with(&MAGIC) && !skippable {
                return Err(DecompressError::NotThisCodec);
            }
            context.init().map_err(|_| DecompressError::Corrupt)?;
            self.started = true;
            self.frame_open = true;
        }
        loop {
            if self.position == input.len() && !self.frame_open {
                return Ok(0);
            }
            let mut source = InBuffer {
                src: input,
                pos: self.position,
            };
            let mut target = OutBuffer::around(out);
            let hint = context.decompress_stream(&mut target, &mut source);
            let (consumed, produced) = (source.pos - self.position, target.pos());
            self.position = source.pos;
            let failed = hint.is_err() || (consumed == 0 && produced == 0);
            if failed {
                engines.zstd = None;
                return Err(DecompressError::Corrupt);
            }
            self.frame_open = hint != Ok(0);
            if produced > 0 {
                return Ok(produced);
            }
        }
    }
}

fn new_context() -> DCtx<'static> {
    let mut context = DCtx::create();
    let set = context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX));
    debug_assert!(set.is_ok());
    context
}
