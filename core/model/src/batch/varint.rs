//! Zigzag varints: reading from a slice, writing, and their sizes.
//!
//! Invariants:
//! 1. A varint has at most 5 bytes and a varlong at most 10; bits beyond the value's width are dropped, as Java does.
//! 2. One and two bytes, nearly all there are, take a path without a loop.
//!
//! What it does not do: the unsigned varints of the protocol's flexible versions.
//! Source: the Protocol Buffers encoding guide, whose zigzag form Kafka took over.

use bytes::BufMut;

use super::RecordError;

/// A reader over the bytes of records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, RecordError> {
        let (&byte, rest) = self.rest.split_first().ok_or(RecordError::Truncated)?;
        self.rest = rest;
        Ok(byte)
    }

    #[inline]
    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], RecordError> {
        let (bytes, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(RecordError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<i32, RecordError> {
        match *self.rest {
            [first, ref rest @ ..] if first < 0x80 => {
                self.rest = rest;
                Ok(unzigzag(u32::from(first)))
            }
            [first, second, ref rest @ ..] if second < 0x80 => {
                self.rest = rest;
                Ok(unzigzag(u32::from(first & 0x7f) | u32::from(second) << 7))
            }
            _ => self.varint_slow(),
        }
    }

    #[inline]
    pub(super) fn varlong(&mut self) -> Result<i64, RecordError> {
        match *self.rest {
            [first, ref rest @ ..] if first < 0x80 => {
                self.rest = rest;
                Ok(unzigzag_long(u64::from(first)))
            }
            [first, second, ref rest @ ..] if second < 0x80 => {
                self.rest = rest;
                Ok(unzigzag_long(
                    u64::from(first & 0x7f) | u64::from(second) << 7,
                ))
            }
            _ => self.raw(VARLONG_BYTES_MAX).map(unzigzag_long),
        }
    }

    /// A length whose negative values all mean null.
    #[inline]
    pub(super) fn nullable_bytes(&mut self) -> Result<Option<&'a [u8]>, RecordError> {
        match usize::try_from(self.varint()?) {
            Ok(count) => self.bytes(count).map(Some),
            Err(_) => Ok(None),
        }
    }

    #[cold]
    #[inline(never)]
    fn varint_slow(&mut self) -> Result<i32, RecordError> {
        let raw = self.raw(VARINT_BYTES_MAX)?;
        Ok(unzigzag(low_word(raw)))
    }

    fn raw(&mut self, bytes_max: usize) -> Result<u64, RecordError> {
        let mut value = 0_u64;
        for (index, &byte) in self.rest.iter().take(bytes_max).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        if self.rest.len() < bytes_max {
            Err(RecordError::Truncated)
        } else {
            Err(RecordError::Varint)
        }
    }
}

/// The longest varint of 32 bits.
pub(super) const VARINT_BYTES_MAX: usize = 5;
/// The longest varint of 64 bits.
pub(super) const VARLONG_BYTES_MAX: usize = 10;

/// The low 32 bits: what five bytes of a varint say beyond them is dropped.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "dropping the high bits is the point"
)]
pub(super) fn low_word(raw: u64) -> u32 {
    raw as u32
}

#[inline]
pub(super) fn unzigzag(raw: u32) -> i32 {
    (raw >> 1).cast_signed() ^ -(raw & 1).cast_signed()
}

#[inline]
pub(super) fn unzigzag_long(raw: u64) -> i64 {
    (raw >> 1).cast_signed() ^ -(raw & 1).cast_signed()
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// Writes `value` in zigzag form; a value of 32 bits takes at most 5 bytes.
pub(super) fn put(out: &mut impl BufMut, value: i64) {
    let mut raw = zigzag(value);
    while raw >= 0x80 {
        out.put_u8(low_byte(raw) | 0x80);
        raw >>= 7;
    }
    out.put_u8(low_byte(raw));
}

fn low_byte(raw: u64) -> u8 {
    raw.to_le_bytes()[0]
}

/// The number of bytes that [`put`] writes for `value`.
pub(super) fn size(value: i64) -> usize {
    let bits = usize::try_from(64 - (zigzag(value) | 1).leading_zeros()).expect("at most 64");
    bits.div_ceil(7)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // Goal: Java's bytes. Method: known pairs, both ways, and the two ways to be malformed.
    #[test]
    fn known_bytes() {
        fn check(value: i64, bytes: &[u8]) {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(out, bytes);
            assert_eq!(size(value), bytes.len());
            assert_eq!(Cursor::new(bytes).varlong(), Ok(value));
            if let Ok(narrow) = i32::try_from(value) {
                assert_eq!(Cursor::new(bytes).varint(), Ok(narrow));
            }
        }
        check(0, &[0]);
        check(-1, &[1]);
        check(1, &[2]);
        check(63, &[0x7e]);
        check(-64, &[0x7f]);
        check(64, &[0x80, 0x01]);
        check(8191, &[0xfe, 0x7f]);
        check(8192, &[0x80, 0x80, 0x01]);
        check(i64::from(i32::MAX), &[0xfe, 0xff, 0xff, 0xff, 0x0f]);
        check(i64::from(i32::MIN), &[0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert_eq!(
            Cursor::new(&[0x80; 4]).varint(),
            Err(RecordError::Truncated)
        );
        assert_eq!(Cursor::new(&[0x80; 5]).varint(), Err(RecordError::Varint));
        assert_eq!(
            Cursor::new(&[0x80; 9]).varlong(),
            Err(RecordError::Truncated)
        );
        assert_eq!(Cursor::new(&[0x80; 10]).varlong(), Err(RecordError::Varint));
    }

    proptest! {
        // Goal: reading undoes writing. Method: any value.
        #[test]
        fn round_trip(value: i64) {
            let mut out = Vec::new();
            put(&mut out, value);
            prop_assert_eq!(out.len(), size(value));
            prop_assert_eq!(Cursor::new(&out).varlong(), Ok(value));
        }
    }
}
