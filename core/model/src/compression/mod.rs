//! The codecs of record batches: gzip, snappy, lz4 and zstd, for reading and writing.
//!
//! Invariants:
//! 1. Decoding is streaming: one chunk at a time into a buffer that is reused; memory follows the bytes that were really
//!    decoded, never a length that the stream claims.
//! 2. Decoding stops with [`DecompressError::TooLarge`] at most one chunk beyond the bound that the caller sets.
//! 3. A stream that ends early, or whose checksum is wrong, is an error, never a short result.
//! 4. What we write, Java's client reads: xerial framing for snappy, independent 64 KiB blocks for lz4.
//!
//! What it does not do: dictionaries; lz4 frames with linked blocks, which Kafka's own reader refuses too.
//! Source: the codec numbers of KIP-98 and KIP-110; RFC 1952; the frame formats of LZ4, Zstandard and snappy-java.

use std::fmt;
use std::io;

mod gzip;
mod lz4;
mod snappy;
#[cfg(test)]
mod tests;
mod zstd;

/// A codec of a batch's records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Records as they are.
    #[default]
    None,
    /// RFC 1952.
    Gzip,
    /// Snappy blocks, in Java's framing or raw.
    Snappy,
    /// LZ4 frames.
    Lz4,
    /// Zstandard frames.
    Zstd,
}

impl Compression {
    /// Every codec, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The number in a batch's attributes.
    #[must_use]
    pub fn id(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// The codec of this number.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.get(usize::from(id)).copied()
    }

    /// Kafka's name in configurations: `none`, `gzip`, `snappy`, `lz4`, `zstd`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// The codec of this name, in lower case; `uncompressed` is another word for `none`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        if name == "uncompressed" {
            return Some(Self::None);
        }
        Self::ALL.into_iter().find(|codec| codec.name() == name)
    }
}

/// Compresses `bytes` as one stream of `codec`. `level` is Kafka's `compression.<codec>.level`; codecs without levels
/// ignore it, others bring it into their range.
#[must_use]
pub fn compress(codec: Compression, bytes: &[u8], level: Option<i32>) -> Vec<u8> {
    match codec {
        Compression::None => bytes.to_vec(),
        Compression::Gzip => gzip::compress(bytes, level),
        Compression::Snappy => snappy::compress(bytes),
        Compression::Lz4 => lz4::compress(bytes),
        Compression::Zstd => zstd::compress(bytes, level),
    }
}

/// Reads the stream `bytes` of `codec`, at most `bytes_max` bytes of it.
///
/// Errors are [`io::Error`]s that hold a [`DecompressError`].
#[must_use]
pub fn decoder(codec: Compression, bytes: &[u8], bytes_max: u64) -> Reader<'_> {
    Reader {
        input: bytes,
        decoder: Decoder::new(codec, bytes_max),
        engines: Engines::default(),
        chunk: Vec::new(),
        start: 0,
        end: 0,
    }
}

/// A decompressing [`io::Read`]; see [`decoder`].
pub struct Reader<'a> {
    input: &'a [u8],
    decoder: Decoder,
    engines: Engines,
    chunk: Vec<u8>,
    start: usize,
    end: usize,
}

impl io::Read for Reader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.start == self.end && !out.is_empty() {
            self.start = 0;
            self.end = 0;
            self.end = self
                .decoder
                .next_chunk(self.input, &mut self.engines, &mut self.chunk)
                .map_err(io::Error::other)?;
        }
        let count = out.len().min(self.end - self.start);
        out[..count].copy_from_slice(&self.chunk[self.start..self.start + count]);
        self.start += count;
        Ok(count)
    }
}

/// Why a compressed stream cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecompressError {
    /// The bytes do not begin as a stream of this codec does.
    NotThisCodec,
    /// The stream is damaged or ends early.
    Corrupt,
    /// The stream grows beyond the bound that the caller set.
    TooLarge {
        /// The bound.
        bytes_max: u64,
    },
}

impl fmt::Display for DecompressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThisCodec => f.write_str("the bytes are not a stream of this codec"),
            Self::Corrupt => f.write_str("the compressed stream is damaged or cut"),
            Self::TooLarge { bytes_max } => {
                write!(f, "the stream decompresses to more than {bytes_max} bytes")
            }
        }
    }
}

impl std::error::Error for DecompressError {}

impl DecompressError {
    /// The same error, with the whole stream's bound in place of what was left of it.
    fn bounded_by(self, bytes_max: u64) -> Self {
        match self {
            Self::TooLarge { .. } => Self::TooLarge { bytes_max },
            Self::NotThisCodec | Self::Corrupt => self,
        }
    }
}

/// The bytes that a stream codec decodes at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// Decoder states that are costly to make; one set serves any number of streams, one after the other.
#[derive(Default)]
pub(crate) struct Engines {
    inflate: Option<Box<flate2::Decompress>>,
    snappy: snap::raw::Decoder,
    zstd: Option<::zstd::zstd_safe::DCtx<'static>>,
}

impl Engines {
    /// Drops what one unusual stream made large, so that it is not held for ever.
    pub(crate) fn trim(&mut self) {
        if self
            .zstd
            .as_ref()
            .is_some_and(|context| context.sizeof() > zstd::CONTEXT_BYTES_KEPT)
        {
            self.zstd = None;
        }
    }
}

impl fmt::Debug for Engines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engines").finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum State {
    None { position: usize },
    Gzip(gzip::State),
    Snappy(snappy::State),
    Lz4(lz4::State),
    Zstd(zstd::State),
}

/// Where one stream's decoding stands. The caller keeps the input and gives the same bytes to each call.
#[derive(Debug)]
pub(crate) struct Decoder {
    state: State,
    decoded: u64,
    bytes_max: u64,
}

impl Decoder {
    pub(crate) fn new(codec: Compression, bytes_max: u64) -> Self {
        let state = match codec {
            Compression::None => State::None { position: 0 },
            Compression::Gzip => State::Gzip(gzip::State::default()),
            Compression::Snappy => State::Snappy(snappy::State::default()),
            Compression::Lz4 => State::Lz4(lz4::State::default()),
            Compression::Zstd => State::Zstd(zstd::State::default()),
        };
        Self {
            state,
            decoded: 0,
            bytes_max,
        }
    }

    /// Decodes the next chunk to the start of `out`, which grows where it is too short; 0 is the end of the stream.
    pub(crate) fn next_chunk(
        &mut self,
        input: &[u8],
        engines: &mut Engines,
        out: &mut Vec<u8>,
    ) -> Result<usize, DecompressError> {
        let room = self.bytes_max.saturating_sub(self.decoded);
        let count = match &mut self.state {
            State::None { position } => {
                let count = CHUNK_BYTES.min(input.len() - *position);
                let source = &input[*position..*position + count];
                at_least(out, count)[..count].copy_from_slice(source);
                *position += count;
                count
            }
            State::Gzip(state) => state.next(input, engines, at_least(out, CHUNK_BYTES))?,
            State::Snappy(state) => state
                .next(input, &mut engines.snappy, out, room)
                .map_err(|error| error.bounded_by(self.bytes_max))?,
            State::Lz4(state) => state.next(input, out)?,
            State::Zstd(state) => state.next(input, engines, at_least(out, CHUNK_BYTES))?,
        };
        self.decoded = self.decoded.saturating_add(count as u64);
        if self.decoded > self.bytes_max {
            return Err(DecompressError::TooLarge {
                bytes_max: self.bytes_max,
            });
        }
        Ok(count)
    }
}

/// `out` as a slice of at least `count` bytes.
fn at_least(out: &mut Vec<u8>, count: usize) -> &mut [u8] {
    if out.len() < count {
        out.resize(count, 0);
    }
    out
}

/// Takes `N` bytes off the front of `rest`.
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*bytes)
}
