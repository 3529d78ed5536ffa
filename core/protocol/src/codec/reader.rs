//! A bounded reader over bytes that a stranger sent.
//!
//! 1. No read passes the end; no length, count or varint is trusted before it was compared with what remains.
//! 2. The memory of decoded arrays is bounded by the size of the input ([`ARRAY_BYTES_FREE`], [`ARRAY_BYTES_FACTOR`]),
//!    so that many tiny elements cannot blow a frame up.
//! 3. Positions are relative to the start of the input given: records are found again in the frame by them.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use pelton_model::TopicId;

use super::{Records, Str};

/// Bytes of decoded arrays that any input may take.
const ARRAY_BYTES_FREE: usize = 16 * 1024 * 1024;
/// Bytes of decoded arrays that each byte of input may take beyond that.
const ARRAY_BYTES_FACTOR: usize = 4;
/// The longest string on the wire.
const STRING_BYTES_MAX: i32 = 0x7fff;

/// Why bytes are not a message. The caller closes the connection; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The input ends before what it announces.
    Truncated {
        /// Where the read began.
        position: usize,
        /// Bytes asked for.
        wanted: usize,
        /// Bytes that were left.
        remaining: usize,
    },
    /// An array claims more elements than the remaining bytes could hold.
    CountTooLarge {
        /// Where the elements would begin.
        position: usize,
        /// The claim.
        count: i32,
        /// Bytes that were left.
        remaining: usize,
    },
    /// The decoded arrays would take more memory than the input's size justifies.
    TooManyElements {
        /// Where the elements would begin.
        position: usize,
        /// The claim.
        count: usize,
    },
    /// A field is null that must not be.
    UnexpectedNull {
        /// Just after the length.
        position: usize,
    },
    /// A string is longer than 32767 bytes.
    StringTooLong {
        /// Just after the length.
        position: usize,
        /// The claim.
        length: i32,
    },
    /// A varint goes on after its fifth byte.
    VarintTooLong {
        /// Just after the fifth byte.
        position: usize,
    },
    /// A tagged field is longer than its size says.
    TagOverrun {
        /// Just after the field.
        position: usize,
        /// The tag.
        tag: u32,
    },
    /// The message has no such version.
    UnsupportedVersion {
        /// The API or record key.
        key: i16,
        /// The version asked for.
        version: i16,
    },
    /// No message has this key.
    UnknownKey {
        /// The API or record key.
        key: i16,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated {
                position,
                wanted,
                remaining,
            } => write!(f, "{wanted} bytes wanted at {position}, {remaining} left"),
            Self::CountTooLarge {
                position,
                count,
                remaining,
            } => write!(
                f,
                "{count} elements claimed at {position}, {remaining} bytes left"
            ),
            Self::TooManyElements { position, count } => write!(
                f,
                "{count} elements at {position} take more memory than allowed"
            ),
            Self::UnexpectedNull { position } => write!(f, "null before {position}"),
            Self::StringTooLong { position, length } => {
                write!(f, "string of {length} bytes at {position}")
            }
            Self::VarintTooLong { position } => write!(f, "endless varint before {position}"),
            Self::TagOverrun { position, tag } => {
                write!(f, "tagged field {tag} runs past its size at {position}")
            }
            Self::UnsupportedVersion { key, version } => {
                write!(f, "key {key} has no version {version}")
            }
            Self::UnknownKey { key } => write!(f, "no message has key {key}"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Reads wire types from a byte slice; see the module for what it guarantees.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    /// The end of `bytes`, not read yet.
    rest: &'a [u8],
    shared: Option<&'a Bytes>,
    array_bytes_left: usize,
    unknown_tag: Option<u32>,
}

impl<'a> Reader<'a> {
    /// Reads from `bytes`: records come out as [`Records::Range`], positions within `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        let allowance = bytes.len().saturating_mul(ARRAY_BYTES_FACTOR);
        Self {
            bytes,
            rest: bytes,
            shared: None,
            array_bytes_left: allowance.saturating_add(ARRAY_BYTES_FREE),
            unknown_tag: None,
        }
    }

    /// Reads from `bytes`: records and byte fields come out as slices that share its memory.
    #[must_use]
    pub fn shared(bytes: &'a Bytes) -> Self {
        Self {
            shared: Some(bytes),
            ..Self::new(bytes)
        }
    }

    /// The position of the next byte, from the start of the input.
    #[must_use]
    #[inline]
    pub fn position(&self) -> usize {
        self.bytes.len() - self.rest.len()
    }

    /// Bytes not read yet.
    #[must_use]
    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The bytes not read yet, without reading them.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes the next `length` bytes.
    ///
    /// # Errors
    /// `Truncated` when fewer remain.
    #[inline]
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(length) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(self.truncated(length)),
        }
    }

    /// Takes the next `N` bytes as an array.
    ///
    /// # Errors
    /// `Truncated` when fewer remain.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.rest.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(*taken)
            }
            None => Err(self.truncated(N)),
        }
    }

    #[cold]
    fn truncated(&self, wanted: usize) -> DecodeError {
        DecodeError::Truncated {
            position: self.position(),
            wanted,
            remaining: self.remaining(),
        }
    }

    /// Reads an `int8`.
    ///
    /// # Errors
    /// `Truncated`.
    #[inline]
    pub fn int8(&mut self) -> Result<i8, DecodeError> {
        Ok(i8::from_be_bytes(self.array()?))
    }

    /// Reads an `int16`.
    ///
    /// # Errors
    /// `Truncated`.
    #[inline]
    pub fn int16(&mut self) -> Result<i16, DecodeError> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    /// Reads an `int32`.
    ///
    /// # Errors
    /// `Truncated`.
    #[inline]
    pub fn int32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// Reads an `int64`.
    ///
    /// # Errors
    /// `Truncated`.
    #[inline]
    pub fn int64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// Reads a `uuid`.
    ///
    /// # Errors
    /// `Truncated`.
    #[inline]
    pub fn uuid(&mut self) -> Result<TopicId, DecodeError> {
        Ok(TopicId(self.array()?))
    }

    /// Reads an unsigned varint of at most five bytes; bits above the 32nd are dropped, as in Kafka.
    ///
    /// # Errors
    /// `Truncated`; `VarintTooLong` when the fifth byte says that more follow.
    #[inline]
    pub fn unsigned_varint(&mut self) -> Result<u32, DecodeError> {
        let mut value: u32 = 0;
        for shift in [0_u32, 7, 14, 21, 28] {
            let [byte] = self.array()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::VarintTooLong {
            position: self.position(),
        })
    }

    /// Reads a compact length: an unsigned varint of the length plus one. Negative is null.
    #[inline]
    fn compact_length(&mut self) -> Result<i32, DecodeError> {
        // Kafka computes in 32-bit two's complement: a varint of 0 or above 2^31 is a negative length, thus null.
        Ok(self.unsigned_varint()?.cast_signed().wrapping_sub(1))
    }

    /// Reads the length prefix of bytes, records or an array. Negative is null.
    #[inline]
    fn long_length(&mut self, flexible: bool) -> Result<i32, DecodeError> {
        if flexible {
            self.compact_length()
        } else {
            self.int32()
        }
    }

    /// Reads a nullable string; ill-formed UTF-8 is replaced by U+FFFD, as Java does.
    ///
    /// # Errors
    /// `Truncated`, `VarintTooLong`, `StringTooLong`.
    #[inline]
    pub fn string(&mut self, flexible: bool) -> Result<Option<&'a [u8]>, DecodeError> {
        let length = if flexible {
            self.compact_length()?
        } else {
            i32::from(self.int16()?)
        };
        let Ok(size) = usize::try_from(length) else {
            return Ok(None);
        };
        if length > STRING_BYTES_MAX {
            return Err(DecodeError::StringTooLong {
                position: self.position(),
                length,
            });
        }
        self.take(size).map(Some)
    }

    /// Reads a nullable string as [`Str`].
    ///
    /// # Errors
    /// As [`Reader::string`].
    #[inline]
    pub fn str(&mut self, flexible: bool) -> Result<Option<Str>, DecodeError> {
        Ok(self
            .string(flexible)?
            .map(|text| match std::str::from_utf8(text) {
                Ok(text) => Str::new(text),
                Err(_) => Str::from(String::from_utf8_lossy(text)),
            }))
    }

    /// Reads nullable bytes; gives their range in the input.
    ///
    /// # Errors
    /// `Truncated`, `VarintTooLong`.
    #[inline]
    pub fn byte_range(&mut self, flexible: bool) -> Result<Option<Range<usize>>, DecodeError> {
        let length = self.long_length(flexible)?;
        let Ok(size) = usize::try_from(length) else {
            return Ok(None);
        };
        let start = self.position();
        self.take(size)?;
        Ok(Some(start..self.position()))
    }

    /// Reads nullable bytes, sharing the input's memory where it can be shared.
    ///
    /// # Errors
    /// As [`Reader::byte_range`].
    pub fn bytes(&mut self, flexible: bool) -> Result<Option<Bytes>, DecodeError> {
        let range = self.byte_range(flexible)?;
        Ok(range.map(|range| match self.shared {
            Some(shared) => shared.slice(range),
            None => Bytes::copy_from_slice(&self.bytes[range]),
        }))
    }

    /// Reads nullable records without copying them.
    ///
    /// # Errors
    /// As [`Reader::byte_range`].
    #[inline]
    pub fn records(&mut self, flexible: bool) -> Result<Option<Records>, DecodeError> {
        let range = self.byte_range(flexible)?;
        Ok(range.map(|range| match self.shared {
            Some(shared) => Records::Bytes(shared.slice(range)),
            None => Records::Range(range),
        }))
    }

    /// Reads a nullable array's count, of elements that take at least `element_bytes_min` on the wire and
    /// `element_bytes` in memory.
    ///
    /// # Errors
    /// `Truncated`, `VarintTooLong`; `CountTooLarge` when so many cannot follow; `TooManyElements` when they would
    /// take more memory than the input's size justifies.
    #[inline]
    pub fn count(
        &mut self,
        flexible: bool,
        element_bytes_min: usize,
        element_bytes: usize,
    ) -> Result<Option<usize>, DecodeError> {
        let claim = self.long_length(flexible)?;
        let Ok(count) = usize::try_from(claim) else {
            return Ok(None);
        };
        if count.saturating_mul(element_bytes_min.max(1)) > self.remaining() {
            return Err(DecodeError::CountTooLarge {
                position: self.position(),
                count: claim,
                remaining: self.remaining(),
            });
        }
        let memory = count.saturating_mul(element_bytes);
        match self.array_bytes_left.checked_sub(memory) {
            Some(left) => self.array_bytes_left = left,
            None => {
                return Err(DecodeError::TooManyElements {
                    position: self.position(),
                    count,
                });
            }
        }
        Ok(Some(count))
    }

    /// Reads the number of tagged fields that follow.
    ///
    /// # Errors
    /// `Truncated`, `VarintTooLong`.
    #[inline]
    pub fn tag_count(&mut self) -> Result<u32, DecodeError> {
        // A count of 2^31 and above is negative for Kafka, whose loop then does not run.
        let count = self.unsigned_varint()?;
        Ok(if count > i32::MAX.unsigned_abs() {
            0
        } else {
            count
        })
    }

    /// Reads a tagged field's tag, and where the field ends.
    ///
    /// # Errors
    /// `Truncated` when its size passes the end; `VarintTooLong`.
    pub fn tag(&mut self) -> Result<(u32, usize), DecodeError> {
        let tag = self.unsigned_varint()?;
        let size = usize::try_from(self.unsigned_varint()?).unwrap_or(usize::MAX);
        if size > self.remaining() {
            return Err(self.truncated(size));
        }
        Ok((tag, self.position() + size))
    }

    /// Goes to the end of a tagged field whose value was read or is unknown.
    ///
    /// # Errors
    /// `TagOverrun` when the value read passed `end`.
    pub fn finish_tag(&mut self, tag: u32, end: usize) -> Result<(), DecodeError> {
        if self.position() > end {
            return Err(DecodeError::TagOverrun {
                position: self.position(),
                tag,
            });
        }
        if self.position() < end {
            self.unknown_tag = Some(tag);
        }
        self.rest = &self.bytes[end..];
        Ok(())
    }

    /// A tagged field of which bytes were passed over. Whoever must keep everything refuses what bears one.
    #[must_use]
    pub fn unknown_tag(&self) -> Option<u32> {
        self.unknown_tag
    }

    /// Skips all tagged fields, for a struct that knows none.
    ///
    /// # Errors
    /// As [`Reader::tag`].
    pub fn skip_tags(&mut self) -> Result<(), DecodeError> {
        for _ in 0..self.tag_count()? {
            let (tag, end) = self.tag()?;
            self.finish_tag(tag, end)?;
        }
        Ok(())
    }

    /// The error of a field that must not be null.
    #[cold]
    #[must_use]
    pub fn unexpected_null(&self) -> DecodeError {
        DecodeError::UnexpectedNull {
            position: self.position(),
        }
    }
}
