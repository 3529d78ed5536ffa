//! Records: borrowed from an uncompressed batch, or owned from any batch.
//!
//! Invariants:
//! 1. An iterator yields exactly the header's record count, or an error and then nothing.
//! 2. Bytes left after the last record are an error, as are records that do not fill their length.
//! 3. A decompressed record's memory grows as its bytes arrive; all of a batch is bounded by the reader's limit.
//!
//! What it does not do: check CRCs or what fields mean.
//! Source: KIP-98; negative lengths other than −1 read as null, as on a real broker.

use bytes::Bytes;

use super::stream::RecordStream;
use super::varint::{Cursor, low_word, unzigzag};
use super::{BatchError, BatchHeader, HEADER_BYTES, RecordError, TimestampType};
use crate::id::{Offset, Timestamp};

/// A header of a record, borrowed: key and value.
pub type HeaderRef<'a> = (&'a [u8], Option<&'a [u8]>);

/// A record, borrowed from an uncompressed batch.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    /// The record's attribute bits; none is defined.
    pub attributes: i8,
    /// Its timestamp less the batch's base timestamp.
    pub timestamp_delta: i64,
    /// Its offset less the batch's base offset.
    pub offset_delta: i32,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub value: Option<&'a [u8]>,
    headers: &'a [u8],
    header_count: u32,
}

impl<'a> RecordRef<'a> {
    /// The number of headers.
    #[must_use]
    pub fn header_count(&self) -> u32 {
        self.header_count
    }

    /// The headers.
    pub fn headers(&self) -> impl Iterator<Item = HeaderRef<'a>> + use<'a> {
        let mut cursor = Cursor::new(self.headers);
        (0..self.header_count).map_while(move |_| {
            Some((
                cursor.nullable_bytes().ok()??,
                cursor.nullable_bytes().ok()?,
            ))
        })
    }

    /// Reads the fields of a record from `body`, which its length delimits.
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, RecordError> {
        let mut cursor = Cursor::new(body);
        let attributes = cursor.byte()?.cast_signed();
        let timestamp_delta = cursor.varlong()?;
        let offset_delta = cursor.varint()?;
        let key = cursor.nullable_bytes()?;
        let value = cursor.nullable_bytes()?;
        let header_count = header_count(&mut cursor)?;
        let headers = cursor.rest;
        for _ in 0..header_count {
            cursor.nullable_bytes()?.ok_or(RecordError::HeaderKey)?;
            cursor.nullable_bytes()?;
        }
        if !cursor.rest.is_empty() {
            return Err(RecordError::LengthMismatch);
        }
        Ok(Self {
            attributes,
            timestamp_delta,
            offset_delta,
            key,
            value,
            headers,
            header_count,
        })
    }
}

/// Reads a header count, bounded by the bytes that remain (a header has at least two).
#[inline]
fn header_count(cursor: &mut Cursor<'_>) -> Result<u32, RecordError> {
    let count = u32::try_from(cursor.varint()?).map_err(|_| RecordError::HeaderCount)?;
    if count as usize > cursor.rest.len() {
        return Err(RecordError::HeaderCount);
    }
    Ok(count)
}

/// What validation looks at in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordFacts {
    pub(super) timestamp_delta: i64,
    pub(super) offset_delta: i32,
    pub(super) has_key: bool,
}

impl RecordFacts {
    /// Reads a record off the front of `cursor`; keys and values are stepped over.
    #[inline]
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self, RecordError> {
        if let Some((facts, end)) = Self::read_common(cursor.rest) {
            cursor.rest = &cursor.rest[end..];
            return Ok(facts);
        }
        Self::read_any(cursor)
    }

    /// The record at the start of `bytes` and its end, when it has the usual shape: sizes, deltas and lengths of one or
    /// two bytes, a key shorter than 64 bytes, no headers. Everything else, damage included, is left to
    /// [`Self::read_any`].
    ///
    /// Fields are shifted out of one word, so that a record costs four bounds checks in all.
    #[inline]
    fn read_common(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut fields = Fields(u64::from_le_bytes(*bytes.first_chunk()?), 0);
        let size = fields.short()?;
        if size & 1 != 0 {
            return None;
        }
        // The next record's place must hang on this load alone, not on the fields below: the processor then works on
        // several records at once.
        let end = fields.1 + (size >> 1) as usize;
        fields.skip_byte();
        let timestamp_delta = unzigzag(fields.short()?);
        let offset_delta = unzigzag(fields.short()?);
        // At most 2 + 1 + 2 + 2 bytes are gone: the word still holds the key length's first byte.
        let key_length = fields.one()?;
        let has_key = key_length & 1 == 0;
        let key_bytes = if has_key { key_length >> 1 } else { 0 };
        let value_at = fields.1 + key_bytes as usize;
        let mut fields = Fields(
            u32::from_le_bytes(*bytes.get(value_at..)?.first_chunk()?).into(),
            value_at,
        );
        let value_length = fields.short()?;
        let value_bytes = if value_length & 1 == 0 {
            value_length >> 1
        } else {
            0
        };
        let count_at = fields.1 + value_bytes as usize;
        let complete = end == count_at + 1 && bytes.get(count_at) == Some(&0);
        complete.then_some((
            Self {
                timestamp_delta: timestamp_delta.into(),
                offset_delta,
                has_key,
            },
            end,
        ))
    }

    #[inline(never)]
    fn read_any(cursor: &mut Cursor<'_>) -> Result<Self, RecordError> {
        let mut body = Cursor::new(body(cursor)?);
        body.byte()?;
        let timestamp_delta = body.varlong()?;
        let offset_delta = body.varint()?;
        let has_key = body.nullable_bytes()?.is_some();
        body.nullable_bytes()?;
        let header_count = header_count(&mut body)?;
        if header_count > 0 {
            skip_headers(&mut body, header_count)?;
        }
        if !body.rest.is_empty() {
            return Err(RecordError::LengthMismatch);
        }
        Ok(Self {
            timestamp_delta,
            offset_delta,
            has_key,
        })
    }
}

/// A word of little-endian bytes from which fields are shifted out, and the position after the last one taken.
struct Fields(u64, usize);

impl Fields {
    #[inline]
    fn skip_byte(&mut self) {
        self.0 >>= 8;
        self.1 += 1;
    }

    /// A raw varint of one byte.
    #[inline]
    fn one(&mut self) -> Option<u32> {
        let byte = low_word(self.0 & 0xff);
        self.skip_byte();
        (byte < 0x80).then_some(byte)
    }

    /// A raw varint of one or two bytes.
    #[inline]
    fn short(&mut self) -> Option<u32> {
        let word = low_word(self.0);
        if word & 0x80 == 0 {
            self.skip_byte();
            return Some(word & 0x7f);
        }
        self.0 >>= 16;
        self.1 += 2;
        (word & 0x8000 == 0).then_some((word & 0x7f) | (word >> 1) & 0x3f80)
    }
}

#[inline(never)]
fn skip_headers(body: &mut Cursor<'_>, count: u32) -> Result<(), RecordError> {
    for _ in 0..count {
        body.nullable_bytes()?.ok_or(RecordError::HeaderKey)?;
        body.nullable_bytes()?;
    }
    Ok(())
}

/// Takes a record's length and the body it delimits.
#[inline]
pub(super) fn body<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], RecordError> {
    let size = usize::try_from(cursor.varint()?).map_err(|_| RecordError::Length)?;
    cursor.bytes(size)
}

/// The records of an uncompressed batch, borrowed.
#[derive(Clone, Debug)]
pub struct RecordRefs<'a> {
    cursor: Cursor<'a>,
    index: u32,
    count: u32,
    failed: bool,
}

impl<'a> RecordRefs<'a> {
    /// Walks over the records of `batch`, one whole batch with this header.
    ///
    /// # Errors
    /// [`BatchError::UnknownCompression`] when the batch is compressed at all, [`BatchError::Count`] and
    /// [`BatchError::Torn`] when the header does not fit.
    pub fn new(header: &BatchHeader, batch: &'a [u8]) -> Result<Self, BatchError> {
        if header.attributes.is_compressed() {
            return Err(BatchError::UnknownCompression {
                id: header.attributes.compression_id(),
            });
        }
        Ok(Self {
            cursor: Cursor::new(records_of(header, batch)?),
            index: 0,
            count: count_of(header)?,
            failed: false,
        })
    }

    fn step(&mut self) -> Result<RecordRef<'a>, BatchError> {
        let index = self.index;
        let at = |reason| BatchError::Record { index, reason };
        let record = RecordRef::parse(body(&mut self.cursor).map_err(at)?).map_err(at)?;
        self.index += 1;
        if self.index == self.count && !self.cursor.rest.is_empty() {
            return Err(BatchError::TrailingBytes);
        }
        Ok(record)
    }
}

impl<'a> Iterator for RecordRefs<'a> {
    type Item = Result<RecordRef<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.index == self.count {
            return None;
        }
        let item = self.step();
        self.failed = item.is_err();
        Some(item)
    }
}

impl std::iter::FusedIterator for RecordRefs<'_> {}

pub(super) fn records_of<'a>(
    header: &BatchHeader,
    batch: &'a [u8],
) -> Result<&'a [u8], BatchError> {
    batch
        .get(HEADER_BYTES..header.size_bytes())
        .ok_or(BatchError::Torn {
            position: 0,
            wanted: header.size_bytes() as u64,
            remaining: batch.len(),
        })
}

pub(super) fn count_of(header: &BatchHeader) -> Result<u32, BatchError> {
    u32::try_from(header.record_count).map_err(|_| BatchError::Count {
        record_count: header.record_count,
    })
}

/// A record that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The record's attribute bits; none is defined.
    pub attributes: i8,
    /// Its timestamp less the batch's base timestamp.
    pub timestamp_delta: i64,
    /// Its offset less the batch's base offset.
    pub offset_delta: i32,
    /// Its key.
    pub key: Option<Bytes>,
    /// Its value.
    pub value: Option<Bytes>,
    /// Its headers: key and value.
    pub headers: Vec<(Bytes, Option<Bytes>)>,
}

impl Record {
    /// Its offset in a batch with this header, wrapping on nonsense.
    #[must_use]
    pub fn offset(&self, header: &BatchHeader) -> Offset {
        Offset(header.base_offset.0.wrapping_add(self.offset_delta.into()))
    }

    /// Its timestamp in a batch with this header: the batch's under LogAppendTime.
    #[must_use]
    pub fn timestamp(&self, header: &BatchHeader) -> Timestamp {
        match header.attributes.timestamp_type() {
            TimestampType::LogAppendTime => header.max_timestamp,
            TimestampType::CreateTime => {
                Timestamp(header.base_timestamp.0.wrapping_add(self.timestamp_delta))
            }
        }
    }

    fn from_body(body: &Bytes) -> Result<Self, RecordError> {
        let record = RecordRef::parse(body)?;
        let owned = |bytes: &[u8]| body.slice_ref(bytes);
        Ok(Self {
            attributes: record.attributes,
            timestamp_delta: record.timestamp_delta,
            offset_delta: record.offset_delta,
            key: record.key.map(owned),
            value: record.value.map(owned),
            headers: record
                .headers()
                .map(|(key, value)| (owned(key), value.map(owned)))
                .collect(),
        })
    }
}

/// The records of any batch, owned: slices of the batch when it is uncompressed, else decompressed one by one.
#[derive(Debug)]
pub struct RecordIter {
    header: BatchHeader,
    source: Source,
    index: u32,
    count: u32,
    failed: bool,
}

#[derive(Debug)]
enum Source {
    Plain {
        records: Bytes,
    },
    Compressed {
        records: Bytes,
        stream: Box<RecordStream>,
    },
}

impl RecordIter {
    /// Walks over the records of the batch at the start of `batch`, decompressing at most `bytes_max` bytes.
    ///
    /// The CRC is not checked: see [`super::verify_crc`].
    ///
    /// # Errors
    /// The header does not parse, the batch is torn, the codec is unknown or the count negative.
    pub fn new(batch: &Bytes, bytes_max: u64) -> Result<Self, BatchError> {
        let header = BatchHeader::parse(batch)?;
        let records = batch.slice_ref(records_of(&header, batch)?);
        let source = if header.attributes.is_compressed() {
            let id = header.attributes.compression_id();
            let codec = header
                .attributes
                .compression()
                .ok_or(BatchError::UnknownCompression { id })?;
            Source::Compressed {
                records,
                stream: Box::new(RecordStream::new(codec, bytes_max)),
            }
        } else {
            Source::Plain { records }
        };
        Ok(Self {
            header,
            source,
            index: 0,
            count: count_of(&header)?,
            failed: false,
        })
    }

    /// The batch's header.
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    fn step(&mut self) -> Result<Record, BatchError> {
        let index = self.index;
        let at = |reason| BatchError::Record { index, reason };
        let last = index + 1 == self.count;
        let (body, at_end) = match &mut self.source {
            Source::Plain { records } => {
                let mut cursor = Cursor::new(records);
                let body = records.slice_ref(body(&mut cursor).map_err(at)?);
                *records = records.slice_ref(cursor.rest);
                (body, !last || records.is_empty())
            }
            Source::Compressed { records, stream } => {
                let body = stream
                    .body(records)
                    .map_err(|error| error.of_record(index, &self.header))?;
                let at_end = !last
                    || stream
                        .at_end(records)
                        .map_err(|error| error.of_record(index, &self.header))?;
                (body, at_end)
            }
        };
        let record = Record::from_body(&body).map_err(at)?;
        self.index += 1;
        if at_end {
            Ok(record)
        } else {
            Err(BatchError::TrailingBytes)
        }
    }
}

impl Iterator for RecordIter {
    type Item = Result<Record, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.index == self.count {
            return None;
        }
        let item = self.step();
        self.failed = item.is_err();
        Some(item)
    }
}

impl std::iter::FusedIterator for RecordIter {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::batch::varint;

    proptest! {
        // Goal: the quick path finds what the careful one finds. Method: records of every shape, some damaged, by both.
        #[test]
        fn quick_path_agrees(
            size_change in prop_oneof![4 => Just(0_i64), 1 => -3_i64..3],
            timestamp_delta in prop_oneof![-9000_i64..9000, any::<i64>()],
            offset_delta in prop_oneof![0_i32..9000, any::<i32>()],
            key_length in -2_i64..70,
            value_length in prop_oneof![-2_i64..200, 8000_i64..8400],
            header_count in prop_oneof![4 => Just(0_i64), 1 => -1_i64..3],
            tail in prop::collection::vec(0_u8..4, 0..12),
        ) {
            let mut body = vec![0];
            varint::put(&mut body, timestamp_delta);
            varint::put(&mut body, offset_delta.into());
            for length in [key_length, value_length] {
                varint::put(&mut body, length);
                body.resize(body.len() + usize::try_from(length).unwrap_or(0), 7);
            }
            varint::put(&mut body, header_count);
            let mut bytes = Vec::new();
            varint::put(&mut bytes, i64::try_from(body.len()).unwrap() + size_change);
            bytes.extend_from_slice(&body);
            bytes.extend_from_slice(&tail);
            for end in [bytes.len(), bytes.len() - 1, body.len() / 2] {
                let (mut quick, mut careful) = (Cursor::new(&bytes[..end]), Cursor::new(&bytes[..end]));
                let facts = RecordFacts::read(&mut quick);
                prop_assert_eq!(facts, RecordFacts::read_any(&mut careful));
                if facts.is_ok() {
                    prop_assert_eq!(quick.rest, careful.rest);
                }
            }
        }
    }
}
