//! The two kinds of index entry and their bytes.

use std::fmt::Debug;

use bytes::{Buf, BufMut};
use pelton_model::Timestamp;

/// A fixed-size entry of an index file.
pub trait IndexEntry: Copy + Debug + PartialEq + 'static {
    /// Bytes of one entry.
    const BYTES: usize;
    /// Reads an entry.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`IndexEntry::BYTES`].
    fn decode(bytes: &[u8]) -> Self;
    /// Writes the entry.
    fn encode(&self, out: &mut impl BufMut);
    /// Whether this is unused space: no broker writes an entry for a segment's first byte.
    fn is_blank(self) -> bool;
    /// Whether `next` may follow this entry.
    fn precedes(self, next: Self) -> bool;
}

/// Where a batch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetEntry {
    /// The batch's last offset less the segment's base offset.
    pub relative_offset: u32,
    /// The batch's first byte in the segment.
    pub position: u32,
}

/// The largest timestamp up to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeEntry {
    /// No record up to the batch is newer.
    pub timestamp: Timestamp,
    /// The last offset of the batch that has it, less the segment's base offset.
    pub relative_offset: u32,
}

impl IndexEntry for OffsetEntry {
    const BYTES: usize = 8;

    fn decode(mut bytes: &[u8]) -> Self {
        Self {
            relative_offset: bytes.get_u32(),
            position: bytes.get_u32(),
        }
    }

    fn encode(&self, out: &mut impl BufMut) {
        out.put_u32(self.relative_offset);
        out.put_u32(self.position);
    }

    fn is_blank(self) -> bool {
        self.relative_offset == 0 && self.position == 0
    }

    fn precedes(self, next: Self) -> bool {
        self.relative_offset < next.relative_offset && self.position < next.position
    }
}

impl IndexEntry for TimeEntry {
    const BYTES: usize = 12;

    fn decode(mut bytes: &[u8]) -> Self {
        Self {
            timestamp: Timestamp(bytes.get_i64()),
            relative_offset: bytes.get_u32(),
        }
    }

    fn encode(&self, out: &mut impl BufMut) {
        out.put_i64(self.timestamp.0);
        out.put_u32(self.relative_offset);
    }

    fn is_blank(self) -> bool {
        self.timestamp.0 == 0 && self.relative_offset == 0
    }

    fn precedes(self, next: Self) -> bool {
        self.timestamp < next.timestamp && self.relative_offset <= next.relative_offset
    }
}
