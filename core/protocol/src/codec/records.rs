//! Record data inside a message: never copied, never looked into here.

use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};
use pelton_model::slice::Slice;

/// The record batches of one partition in a Produce request or a Fetch response.
#[derive(Clone, Debug)]
pub enum Records {
    /// Where they lie in the decoded input. Cannot be encoded: the input is not at hand.
    Range(Range<usize>),
    /// The bytes.
    Bytes(Bytes),
    /// The bytes in pieces, some still in files.
    Slices(Vec<Slice>),
}

impl Records {
    /// No records, as opposed to null.
    pub const EMPTY: Self = Self::Bytes(Bytes::new());

    /// Length in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Slices(slices) => slices.iter().map(Slice::size_bytes).sum(),
        }
    }

    /// The range, when decoded by [`super::Reader::new`].
    #[must_use]
    pub fn range(&self) -> Option<Range<usize>> {
        match self {
            Self::Range(range) => Some(range.clone()),
            Self::Bytes(_) | Self::Slices(_) => None,
        }
    }

    /// The bytes, when given as one piece in memory or decoded by [`super::Reader::shared`].
    #[must_use]
    pub fn bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Range(_) | Self::Slices(_) => None,
        }
    }
}

impl PartialEq for Records {
    /// Ranges compare by position, bytes by content; pieces are never equal to anything.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Range(left), Self::Range(right)) => left == right,
            (Self::Bytes(left), Self::Bytes(right)) => left == right,
            (Self::Range(_) | Self::Bytes(_) | Self::Slices(_), _) => false,
        }
    }
}

/// Cuts a received frame into one mutable buffer per partition, without copying.
///
/// Ranges are those of a decoded Produce request: ascending and disjoint, as decoding yields them.
#[derive(Debug)]
pub struct FrameSplitter {
    rest: BytesMut,
    position: usize,
}

impl FrameSplitter {
    /// Begins with the very bytes that were decoded.
    #[must_use]
    pub fn new(frame: BytesMut) -> Self {
        Self {
            rest: frame,
            position: 0,
        }
    }

    /// Takes the bytes of `range` out of the frame.
    ///
    /// # Panics
    /// When `range` begins before the end of the one taken last, or passes the frame's end: not a range decoded from it.
    #[must_use]
    pub fn take(&mut self, range: Range<usize>) -> BytesMut {
        self.skip_to(range.start);
        self.position += range.len();
        self.rest.split_to(range.len())
    }

    /// Takes the bytes of the last `range`, dropping the rest: spares what sharing the frame would cost.
    ///
    /// # Panics
    /// As [`FrameSplitter::take`].
    #[must_use]
    pub fn take_last(mut self, range: Range<usize>) -> BytesMut {
        self.skip_to(range.start);
        assert!(range.len() <= self.rest.len());
        self.rest.truncate(range.len());
        self.rest
    }

    fn skip_to(&mut self, start: usize) {
        assert!(self.position <= start, "ranges ascend");
        self.rest.advance(start - self.position);
        self.position = start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: each partition's bytes come out, and nothing else. Method: ranges with gaps, with and without a tail.
    #[test]
    fn splits_a_frame() {
        let frame = BytesMut::from(&b"--abc-defg--"[..]);
        let mut splitter = FrameSplitter::new(frame.clone());
        assert_eq!(splitter.take(2..5), &b"abc"[..]);
        assert_eq!(splitter.take(5..5), &b""[..]);
        assert_eq!(splitter.take_last(6..10), &b"defg"[..]);
        assert_eq!(FrameSplitter::new(frame).take_last(0..12).len(), 12);
    }
}
