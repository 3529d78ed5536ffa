//! Reading answers without building them: where the outcome of each partition is, and where its batches are.
//!
//! Invariants:
//! 1. Bytes are a broker's: nothing here panics on them, loops beyond them, or believes a length before it is checked.
//! 2. Versions are those of [`crate::frame`].

use crate::clock::Nanos;
use crate::error::PerfError;
use crate::frame::{STAMP_BYTES, first_value};
use pelton_model::batch::HEADER_BYTES;

/// A position in an answer.
struct Cursor<'a> {
    rest: &'a [u8],
    request: &'static str,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], PerfError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(PerfError::Answer { request: self.request, what: "it is too short" })?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PerfError> {
        Ok(self.take(N)?.try_into().expect("as many bytes were taken"))
    }

    fn int16(&mut self) -> Result<i16, PerfError> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    fn int32(&mut self) -> Result<i32, PerfError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    fn int64(&mut self) -> Result<i64, PerfError> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// A count or a length; −1 is 0.
    fn length(&mut self) -> Result<usize, PerfError> {
        Ok(usize::try_from(self.int32()?).unwrap_or(0))
    }

    fn name(&mut self) -> Result<&'a [u8], PerfError> {
        let length = usize::try_from(self.int16()?).unwrap_or(0);
        self.take(length)
    }
}

/// The correlation id that an answer begins with.
pub(crate) fn correlation(frame: &[u8], request: &'static str) -> Result<i32, PerfError> {
    Cursor { rest: frame, request }.int32()
}

/// Tells the error code and base offset of each partition of an answer to Produce.
pub(crate) fn produce(frame: &[u8], mut each: impl FnMut(i16, i64)) -> Result<(), PerfError> {
    let mut cursor = Cursor { rest: frame, request: "Produce" };
    cursor.int32()?;
    for _ in 0..cursor.length()? {
        cursor.name()?;
        for _ in 0..cursor.length()? {
            cursor.int32()?;
            let code = cursor.int16()?;
            let base_offset = cursor.int64()?;
            cursor.take(16)?;
            each(code, base_offset);
        }
    }
    Ok(())
}

/// The outcome of one partition of a Fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fetched<'a> {
    pub(crate) partition: i32,
    pub(crate) code: i16,
    pub(crate) high_watermark: i64,
    pub(crate) records: &'a [u8],
}

/// Tells the outcome of each partition of an answer to Fetch; the code of the whole is the result.
pub(crate) fn fetch<'a>(
    frame: &'a [u8],
    mut each: impl FnMut(Fetched<'a>),
) -> Result<i16, PerfError> {
    let mut cursor = Cursor { rest: frame, request: "Fetch" };
    cursor.take(8)?;
    let whole = cursor.int16()?;
    cursor.int32()?;
    for _ in 0..cursor.length()? {
        cursor.name()?;
        for _ in 0..cursor.length()? {
            let partition = cursor.int32()?;
            let code = cursor.int16()?;
            let high_watermark = cursor.int64()?;
            cursor.take(16)?;
            for _ in 0..cursor.length()? {
                cursor.take(16)?;
            }
            cursor.int32()?;
            let length = cursor.length()?;
            let records = cursor.take(length)?;
            each(Fetched { partition, code, high_watermark, records });
        }
    }
    Ok(whole)
}

/// A batch in fetched records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batch<'a> {
    /// The offset after its last record.
    pub(crate) end_offset: i64,
    pub(crate) records: u64,
    bytes: &'a [u8],
}

impl Batch<'_> {
    /// The stamp in its first record.
    pub(crate) fn stamp(&self) -> Option<Nanos> {
        let at = first_value(self.bytes)?;
        let stamp = self.bytes.get(at..at.checked_add(STAMP_BYTES)?)?;
        Some(Nanos::from_be_bytes(stamp.try_into().ok()?))
    }
}

/// The whole batches in fetched records; the last one may be cut off.
pub(crate) fn batches(records: &[u8]) -> impl Iterator<Item = Batch<'_>> {
    let mut rest = records;
    std::iter::from_fn(move || {
        let header = rest.first_chunk::<HEADER_BYTES>()?;
        let base = i64::from_be_bytes(header[..8].try_into().ok()?);
        let length = i32::from_be_bytes(header[8..12].try_into().ok()?);
        let last_delta = i32::from_be_bytes(header[23..27].try_into().ok()?);
        let count = i32::from_be_bytes(header[57..61].try_into().ok()?);
        let size = usize::try_from(length).ok()?.checked_add(12)?;
        let (bytes, behind) = rest.split_at_checked(size)?;
        rest = behind;
        Some(Batch {
            end_offset: base.saturating_add(i64::from(last_delta)).saturating_add(1),
            records: u64::try_from(count).unwrap_or(0),
            bytes,
        })
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use pelton_model::compression::Compression;
    use pelton_protocol::codec::{Records, Str};
    use pelton_protocol::header::response_frame;
    use pelton_protocol::message::fetch::{
        AbortedTransaction, FetchResponse, FetchableTopicResponse, PartitionData,
    };
    use pelton_protocol::message::produce::{
        PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
    };

    use super::*;
    use crate::frame::{BatchShape, FETCH_VERSION, PRODUCE_VERSION, Template};

    /// Goal: outcomes are found where the codec puts them, and no cut answer panics. Method: encoded answers, whole and
    /// cut at every byte.
    #[test]
    fn produce_answers() {
        let outcome = |index, error_code, base_offset| PartitionProduceResponse {
            index,
            error_code,
            base_offset,
            ..Default::default()
        };
        let answer = ProduceResponse {
            responses: vec![TopicProduceResponse {
                name: Str::from("topic"),
                partition_responses: vec![outcome(0, 0, 5), outcome(3, 6, -1)],
                ..Default::default()
            }],
            ..Default::default()
        };
        let frame = response_frame(8, PRODUCE_VERSION, &answer).into_bytes();
        let mut found = Vec::new();
        produce(&frame[4..], |code, base| found.push((code, base))).expect("an answer");
        assert_eq!(found, [(0, 5), (6, -1)]);
        assert_eq!(correlation(&frame[4..], "Produce").expect("an answer"), 8);
        // The throttle time at the end is not read.
        for end in 0..frame.len() - 4 - 4 {
            assert!(produce(&frame[4..4 + end], |_, _| ()).is_err(), "{end} bytes");
        }
    }

    fn fetch_answer(records: Bytes) -> Bytes {
        let aborted = AbortedTransaction { producer_id: 1, first_offset: 2 };
        let data = PartitionData {
            partition_index: 2,
            high_watermark: 99,
            aborted_transactions: Some(vec![aborted]),
            records: Some(Records::Bytes(records)),
            ..Default::default()
        };
        let topic = FetchableTopicResponse {
            topic: Str::from("topic"),
            partitions: vec![data],
            ..Default::default()
        };
        let answer = FetchResponse { responses: vec![topic], ..Default::default() };
        response_frame(8, FETCH_VERSION, &answer).into_bytes()
    }

    /// Goal: as for Produce, and batches are walked as far as they are whole. Method: the same.
    #[test]
    fn fetch_answers() {
        let shape = BatchShape {
            records: 3,
            record_bytes: 20,
            key_bytes: 4,
            compression: Compression::None,
        };
        let batch = Template::new(shape, None, 1, 0).bytes;
        let two = Bytes::from([batch.as_ref(), batch.as_ref()].concat());
        for cut in [0, 1, 12, batch.len()] {
            let frame = fetch_answer(two.slice(..two.len() - cut));
            let mut seen = Vec::new();
            let code = fetch(&frame[4..], |fetched| {
                let found: Vec<_> = batches(fetched.records).collect();
                seen.push((fetched.partition, fetched.high_watermark, found.len()));
                assert!(found.iter().all(|each| (each.end_offset, each.records) == (3, 3)));
                assert!(found.iter().all(|each| each.stamp().is_some()));
            });
            assert_eq!(code.expect("an answer"), 0);
            assert_eq!(seen, [(2, 99, if cut == 0 { 2 } else { 1 })]);
            for end in 0..frame.len() - 4 {
                assert!(fetch(&frame[4..4 + end], |_| ()).is_err(), "{end} bytes");
            }
        }
    }
}
