//! Writes wire types into one buffer; large record data stays outside and is spliced between its pieces.
//!
//! 1. Bytes of records above [`SPLICE_BYTES_MIN`] and file ranges are never copied.
//! 2. A frame's length is exact before the first byte is sent, whatever is spliced.

use bytes::{BufMut, Bytes, BytesMut};
use pelton_model::TopicId;
use pelton_model::slice::Slice;

use super::Records;

/// Records below this are copied: a copy is cheaper than one more piece in a vectored write.
const SPLICE_BYTES_MIN: usize = 512;
/// The longest string on the wire.
const STRING_BYTES_MAX: usize = 0x7fff;
/// The length prefix of a frame.
const FRAME_LENGTH_BYTES: usize = 4;
/// What an ordinary response fits in.
const CAPACITY_BYTES: usize = 256;

/// An encoder's output.
#[derive(Debug)]
pub struct Writer {
    buffer: BytesMut,
    /// Pieces to put in front of the byte at this position of `buffer`; positions ascend.
    spliced: Vec<(usize, Slice)>,
    spliced_bytes: usize,
    is_frame: bool,
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer {
    /// Begins with nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::over(BytesMut::with_capacity(CAPACITY_BYTES))
    }

    /// Begins a frame: a four-byte length, filled in at the end, and `capacity` bytes of room.
    #[must_use]
    pub fn frame(capacity: usize) -> Self {
        let mut writer = Self::over(BytesMut::with_capacity(capacity + FRAME_LENGTH_BYTES));
        writer.int32(0);
        writer.is_frame = true;
        writer
    }

    fn over(buffer: BytesMut) -> Self {
        Self {
            buffer,
            spliced: Vec::new(),
            spliced_bytes: 0,
            is_frame: false,
        }
    }

    /// Bytes written so far, with those spliced and with a frame's length prefix.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.buffer.len() + self.spliced_bytes
    }

    /// The output as one buffer.
    ///
    /// # Panics
    /// When a file range was spliced: what may hold one is taken by [`Writer::into_slices`].
    #[must_use]
    pub fn into_bytes(mut self) -> Bytes {
        self.finish();
        if self.spliced.is_empty() {
            return self.buffer.freeze();
        }
        let mut whole = BytesMut::with_capacity(self.size_bytes());
        for slice in self.into_slices() {
            match slice {
                Slice::Bytes(bytes) => whole.extend_from_slice(&bytes),
                Slice::File(_) => panic!("a file range is sent as a slice, not as bytes"),
            }
        }
        whole.freeze()
    }

    /// The output in pieces, in order.
    #[must_use]
    pub fn into_slices(mut self) -> Vec<Slice> {
        self.finish();
        let mut slices = Vec::with_capacity(self.spliced.len() * 2 + 1);
        let mut position = 0;
        for (at, slice) in self.spliced {
            if position < at {
                slices.push(Slice::Bytes(self.buffer.split_to(at - position).freeze()));
                position = at;
            }
            slices.push(slice);
        }
        if !self.buffer.is_empty() {
            slices.push(Slice::Bytes(self.buffer.freeze()));
        }
        slices
    }

    /// Fills in a frame's length.
    fn finish(&mut self) {
        if self.is_frame {
            let length = i32::try_from(self.size_bytes() - FRAME_LENGTH_BYTES)
                .expect("fetch limits keep a frame below 2 GiB");
            self.buffer[..FRAME_LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
        }
    }

    /// Writes raw bytes.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Writes an `int8`.
    #[inline]
    pub fn int8(&mut self, value: i8) {
        self.buffer.put_i8(value);
    }

    /// Writes an `int16`.
    #[inline]
    pub fn int16(&mut self, value: i16) {
        self.buffer.put_i16(value);
    }

    /// Writes an `int32`.
    #[inline]
    pub fn int32(&mut self, value: i32) {
        self.buffer.put_i32(value);
    }

    /// Writes an `int64`.
    #[inline]
    pub fn int64(&mut self, value: i64) {
        self.buffer.put_i64(value);
    }

    /// Writes a `uuid`.
    #[inline]
    pub fn uuid(&mut self, value: TopicId) {
        self.raw(&value.0);
    }

    /// Writes an unsigned varint.
    #[inline]
    pub fn unsigned_varint(&mut self, value: u32) {
        let (bytes, length) = varint(value);
        self.raw(&bytes[..length]);
    }

    /// Writes a string. What passes 32767 bytes is cut at a character: a name read leniently may have grown.
    pub fn string(&mut self, text: &str, flexible: bool) {
        let text = cut(text);
        if flexible {
            self.compact_length(text.len());
        } else {
            self.int16(i16::try_from(text.len()).expect("cut to 32767 bytes"));
        }
        self.raw(text.as_bytes());
    }

    /// Writes a null string.
    pub fn null_string(&mut self, flexible: bool) {
        if flexible {
            self.unsigned_varint(0);
        } else {
            self.int16(-1);
        }
    }

    /// Writes the length of bytes or records, or the count of an array.
    ///
    /// # Panics
    /// When it does not fit 31 bits: nothing in memory is that long.
    #[inline]
    pub fn length(&mut self, length: usize, flexible: bool) {
        if flexible {
            self.compact_length(length);
        } else {
            self.int32(i32::try_from(length).expect("a response holds less than 2 GiB"));
        }
    }

    /// Writes the null of bytes, records or an array.
    pub fn null_length(&mut self, flexible: bool) {
        if flexible {
            self.unsigned_varint(0);
        } else {
            self.int32(-1);
        }
    }

    #[inline]
    fn compact_length(&mut self, length: usize) {
        let length = u32::try_from(length).expect("a response holds less than 2 GiB");
        self.unsigned_varint(length + 1);
    }

    /// Writes records, by reference where they are large.
    ///
    /// # Panics
    /// For a range of a decoded input: resolve it to bytes first.
    pub fn records(&mut self, records: &Records, flexible: bool) {
        self.length(records.size_bytes(), flexible);
        match records {
            Records::Range(_) => panic!("a range of another frame cannot be encoded"),
            Records::Bytes(bytes) => self.splice_bytes(bytes),
            Records::Slices(slices) => {
                for slice in slices {
                    match slice {
                        Slice::Bytes(bytes) => self.splice_bytes(bytes),
                        Slice::File(_) => self.splice(slice.clone()),
                    }
                }
            }
        }
    }

    fn splice_bytes(&mut self, bytes: &Bytes) {
        if bytes.len() < SPLICE_BYTES_MIN {
            self.raw(bytes);
        } else {
            self.splice(Slice::Bytes(bytes.clone()));
        }
    }

    /// Puts bytes in between, by reference.
    pub(crate) fn splice(&mut self, slice: Slice) {
        self.spliced_bytes += slice.size_bytes();
        self.spliced.push((self.buffer.len(), slice));
    }

    /// Writes one tagged field: tag, size, and the value that `write` writes.
    ///
    /// # Panics
    /// When `write` splices records: Kafka has none in tagged fields.
    pub fn tagged(&mut self, tag: u32, write: impl FnOnce(&mut Self)) {
        let spliced_bytes = self.spliced_bytes;
        self.unsigned_varint(tag);
        let size_at = self.buffer.len();
        self.buffer.put_u8(0);
        let start = size_at + 1;
        write(self);
        assert_eq!(spliced_bytes, self.spliced_bytes, "no records under a tag");
        let size = self.buffer.len() - start;
        let (bytes, length) = varint(u32::try_from(size).expect("a tagged field is small"));
        if length > 1 {
            // The size takes more than the byte set aside: move the value up.
            let shift = length - 1;
            self.buffer.put_bytes(0, shift);
            self.buffer.copy_within(start..start + size, start + shift);
        }
        self.buffer[size_at..size_at + length].copy_from_slice(&bytes[..length]);
    }
}

/// An unsigned varint's bytes and their number.
#[inline]
fn varint(mut value: u32) -> ([u8; 5], usize) {
    let mut bytes = [0; 5];
    let mut length = 0;
    loop {
        let low = value.to_le_bytes()[0] & 0x7f;
        value >>= 7;
        if value == 0 {
            bytes[length] = low;
            return (bytes, length + 1);
        }
        bytes[length] = low | 0x80;
        length += 1;
    }
}

fn cut(text: &str) -> &str {
    if text.len() <= STRING_BYTES_MAX {
        return text;
    }
    let end = (0..=STRING_BYTES_MAX)
        .rev()
        .find(|&end| text.is_char_boundary(end))
        .unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::super::Reader;
    use super::*;

    // Goal: varints are read back at every length. Method: both sides of each length's edge.
    #[test]
    fn varints() {
        fn check(value: u32, length: usize) {
            let mut writer = Writer::new();
            writer.unsigned_varint(value);
            let bytes = writer.into_bytes();
            assert_eq!(bytes.len(), length);
            assert_eq!(Reader::new(&bytes).unsigned_varint(), Ok(value));
        }
        for (value, length) in [
            (0, 1),
            (0x7f, 1),
            (0x80, 2),
            (0x3fff, 2),
            (0x4000, 3),
            (0x1f_ffff, 3),
            (0x20_0000, 4),
            (0x0fff_ffff, 4),
            (0x1000_0000, 5),
            (u32::MAX, 5),
        ] {
            check(value, length);
        }
    }

    // Goal: a string that grew past the wire's limit is cut at a character. Method: one of three-byte characters.
    #[test]
    fn long_strings_are_cut() {
        let mut writer = Writer::new();
        writer.string(&"\u{fffd}".repeat(11_000), false);
        let bytes = writer.into_bytes();
        let text = Reader::new(&bytes).str(false).unwrap().unwrap();
        assert_eq!(text.len(), 32_766);
    }

    // Goal: large records are spliced, small ones copied, and the frame's length counts both. Method: read it back.
    #[test]
    fn frames_splice_records() {
        let large = Bytes::from(vec![7; 4096]);
        let mut writer = Writer::frame(16);
        writer.records(&Records::Bytes(large.clone()), false);
        writer.records(&Records::Bytes(Bytes::from_static(b"small")), true);
        let slices = writer.into_slices();
        let [Slice::Bytes(head), Slice::Bytes(middle), Slice::Bytes(tail)] = &slices[..] else {
            panic!("three pieces: {slices:?}");
        };
        assert_eq!(head[..], [0, 0, 0x10, 0x0a, 0, 0, 0x10, 0]);
        assert_eq!(middle.as_ptr(), large.as_ptr());
        assert_eq!(&tail[..], b"\x06small");
    }
}
