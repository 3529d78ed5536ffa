//! Reading records from a compressed stream, chunk by chunk.
//!
//! Invariants:
//! 1. Only one chunk and at most one record's bytes are in memory.
//! 2. Every byte that a record's fields take is counted against the record's length.
//!
//! What it does not do: judge what it reads.
//! Source: KIP-98; the bound answers what Kafka leaves open (it limits only compressed sizes).

use bytes::Bytes;

use super::record::RecordFacts;
use super::varint::{VARINT_BYTES_MAX, VARLONG_BYTES_MAX, low_word, unzigzag, unzigzag_long};
use super::{BatchError, BatchHeader, RecordError};
use crate::compression::{Compression, Decoder, DecompressError, Engines};

/// Buffers and decoder states that survive from batch to batch. One per shard.
#[derive(Debug, Default)]
pub struct Scratch {
    engines: Engines,
    chunk: Vec<u8>,
}

impl Scratch {
    /// Appends the whole stream `input` to `out`.
    pub(super) fn decompress(
        &mut self,
        codec: Compression,
        input: &[u8],
        bytes_max: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), StreamError> {
        let mut decoder = Decoder::new(codec, bytes_max);
        loop {
            let count = decoder.next_chunk(input, &mut self.engines, &mut self.chunk)?;
            if count == 0 {
                return Ok(());
            }
            out.extend_from_slice(&self.chunk[..count]);
        }
    }
}

/// What the chunk buffer may hold on to between batches: raw snappy and large lz4 blocks take more.
const CHUNK_BYTES_KEPT: usize = 256 * 1024;

/// Why a record cannot be read from a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamError {
    Decompress(DecompressError),
    Record(RecordError),
}

impl StreamError {
    pub(super) fn of_record(self, index: u32, header: &BatchHeader) -> BatchError {
        match self {
            Self::Record(reason) => BatchError::Record { index, reason },
            Self::Decompress(DecompressError::TooLarge { bytes_max }) => {
                BatchError::TooLarge { bytes_max }
            }
            Self::Decompress(DecompressError::Corrupt | DecompressError::NotThisCodec) => {
                BatchError::Decompress {
                    id: header.attributes.compression_id(),
                }
            }
        }
    }
}

impl From<DecompressError> for StreamError {
    fn from(error: DecompressError) -> Self {
        Self::Decompress(error)
    }
}

impl From<RecordError> for StreamError {
    fn from(error: RecordError) -> Self {
        Self::Record(error)
    }
}

/// A position in a decompressed stream of records. Each call gets the same compressed `input`.
#[derive(Debug)]
pub(super) struct RecordStream {
    decoder: Decoder,
    scratch: Scratch,
    start: usize,
    end: usize,
    /// Decompressed bytes before the current chunk.
    before: u64,
}

impl RecordStream {
    pub(super) fn new(codec: Compression, bytes_max: u64) -> Self {
        Self::with_scratch(codec, bytes_max, Scratch::default())
    }

    pub(super) fn with_scratch(codec: Compression, bytes_max: u64, scratch: Scratch) -> Self {
        Self {
            decoder: Decoder::new(codec, bytes_max),
            scratch,
            start: 0,
            end: 0,
            before: 0,
        }
    }

    /// Gives the buffers back, without what an unusual stream made large.
    pub(super) fn into_scratch(mut self) -> Scratch {
        self.scratch.engines.trim();
        if self.scratch.chunk.capacity() > CHUNK_BYTES_KEPT {
            self.scratch.chunk = Vec::new();
        }
        self.scratch
    }

    /// Whether the stream ends here; also verifies the stream's own checksum, which lies at its end.
    pub(super) fn at_end(&mut self, input: &[u8]) -> Result<bool, StreamError> {
        Ok(self.start == self.end && !self.refill(input)?)
    }

    /// Takes a record's length and collects its body.
    pub(super) fn body(&mut self, input: &[u8]) -> Result<Bytes, StreamError> {
        let mut missing = usize::try_from(self.varint(input)?).map_err(|_| RecordError::Length)?;
        let mut body = Vec::with_capacity(missing.min(self.end - self.start));
        while missing > 0 {
            if self.start == self.end && !self.refill(input)? {
                return Err(RecordError::Truncated.into());
            }
            let count = missing.min(self.end - self.start);
            body.extend_from_slice(&self.scratch.chunk[self.start..self.start + count]);
            self.start += count;
            missing -= count;
        }
        Ok(body.into())
    }

    /// Reads a record; keys, values and headers are stepped over.
    pub(super) fn facts(&mut self, input: &[u8]) -> Result<RecordFacts, StreamError> {
        let size = u64::try_from(self.varint(input)?).map_err(|_| RecordError::Length)?;
        let end = self.position() + size;
        self.byte(input)?;
        let timestamp_delta = unzigzag_long(self.raw(input, VARLONG_BYTES_MAX)?);
        let offset_delta = self.varint(input)?;
        let has_key = self.skip_nullable(input, end)?;
        self.skip_nullable(input, end)?;
        let header_count =
            u64::try_from(self.varint(input)?).map_err(|_| RecordError::HeaderCount)?;
        if header_count > end.saturating_sub(self.position()) {
            return Err(RecordError::HeaderCount.into());
        }
        for _ in 0..header_count {
            if !self.skip_nullable(input, end)? {
                return Err(RecordError::HeaderKey.into());
            }
            self.skip_nullable(input, end)?;
        }
        if self.position() != end {
            return Err(RecordError::LengthMismatch.into());
        }
        Ok(RecordFacts {
            timestamp_delta,
            offset_delta,
            has_key,
        })
    }

    fn position(&self) -> u64 {
        self.before + self.start as u64
    }

    fn refill(&mut self, input: &[u8]) -> Result<bool, StreamError> {
        assert!(self.start == self.end);
        self.before += self.end as u64;
        self.start = 0;
        self.end = 0;
        self.end =
            self.decoder
                .next_chunk(input, &mut self.scratch.engines, &mut self.scratch.chunk)?;
        Ok(self.end > 0)
    }

    #[inline]
    fn byte(&mut self, input: &[u8]) -> Result<u8, StreamError> {
        if self.start == self.end && !self.refill(input)? {
            return Err(RecordError::Truncated.into());
        }
        let byte = self.scratch.chunk[self.start];
        self.start += 1;
        Ok(byte)
    }

    #[inline]
    fn varint(&mut self, input: &[u8]) -> Result<i32, StreamError> {
        Ok(unzigzag(low_word(self.raw(input, VARINT_BYTES_MAX)?)))
    }

    #[inline]
    fn raw(&mut self, input: &[u8], bytes_max: usize) -> Result<u64, StreamError> {
        let mut value = 0_u64;
        for index in 0..bytes_max {
            let byte = self.byte(input)?;
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(RecordError::Varint.into())
    }

    /// Steps over a length and its bytes, which must lie before `end`; false for null.
    #[inline]
    fn skip_nullable(&mut self, input: &[u8], end: u64) -> Result<bool, StreamError> {
        let Ok(mut missing) = usize::try_from(self.varint(input)?) else {
            return Ok(false);
        };
        if missing as u64 > end.saturating_sub(self.position()) {
            return Err(RecordError::LengthMismatch.into());
        }
        while missing > self.end - self.start {
            missing -= self.end - self.start;
            self.start = self.end;
            if !self.refill(input)? {
                return Err(RecordError::Truncated.into());
            }
        }
        self.start += missing;
        Ok(true)
    }
}
