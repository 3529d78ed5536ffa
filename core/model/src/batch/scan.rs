//! Walking over consecutive batches, and the CRC of one.
//!
//! Invariants:
//! 1. What [`Batches`] yields lies back to back, each exactly as long as its header says.
//! 2. The first error ends the walk; [`Batches::position`] then is the end of the last good batch.
//!
//! What it does not do: look into records.
//! Source: KIP-98.

use super::{
    ATTRIBUTES_AT, BATCH_LENGTH_AT, BatchError, BatchHeader, CRC_AT, HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
};

/// Whether `batch`, one whole batch and nothing else, has the CRC it claims.
#[must_use]
pub fn verify_crc(batch: &[u8]) -> bool {
    let Some(header) = batch.first_chunk::<HEADER_BYTES>() else {
        return false;
    };
    let claimed = [
        header[CRC_AT],
        header[CRC_AT + 1],
        header[CRC_AT + 2],
        header[CRC_AT + 3],
    ];
    u32::from_be_bytes(claimed) == compute_crc(batch)
}

/// The CRC-32C that `batch`, one whole batch and nothing else, should claim; 0 for less than a header.
#[must_use]
pub(super) fn compute_crc(batch: &[u8]) -> u32 {
    batch.get(ATTRIBUTES_AT..).map_or(0, crc32c::crc32c)
}

/// The size that the batch at the start of `bytes` claims, once its first 12 bytes are there; `None` before.
///
/// Not validated: the length may be negative, which gives `Some(0)`.
pub(super) fn claimed_size(bytes: &[u8]) -> Option<(i32, u64)> {
    let (_, rest) = bytes.split_first_chunk::<BATCH_LENGTH_AT>()?;
    let length = i32::from_be_bytes(*rest.first_chunk()?);
    let size = u64::try_from(length).map_or(0, |length| length + LOG_OVERHEAD_BYTES as u64);
    Some((length, size))
}

/// Iterates over consecutive whole batches, as read from a segment or a response.
///
/// A torn tail yields [`BatchError::Torn`] with its position and ends the iteration, as every other error does.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    bytes: &'a [u8],
    position: usize,
    failed: bool,
}

impl<'a> Batches<'a> {
    /// Walks over `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            position: 0,
            failed: false,
        }
    }

    /// Where the next batch begins; after the end or an error, where the last good batch ended.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    fn step(&mut self) -> Result<(BatchHeader, &'a [u8]), BatchError> {
        let rest = &self.bytes[self.position..];
        let header = BatchHeader::parse(rest).map_err(|error| error.at(self.position))?;
        let size_bytes = header.size_bytes();
        let Some(batch) = rest.get(..size_bytes) else {
            return Err(BatchError::Torn {
                position: self.position,
                wanted: size_bytes as u64,
                remaining: rest.len(),
            });
        };
        self.position += size_bytes;
        Ok((header, batch))
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<(BatchHeader, &'a [u8]), BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        assert!(self.position <= self.bytes.len());
        if self.failed || self.position == self.bytes.len() {
            return None;
        }
        let item = self.step();
        self.failed = item.is_err();
        Some(item)
    }
}

impl std::iter::FusedIterator for Batches<'_> {}
