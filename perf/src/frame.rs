//! Request frames that are built once and patched in place: correlation id, sequences, record times, time stamps, offsets.
//!
//! Invariants:
//! 1. Whatever is patched, a batch's CRC agrees with its bytes.
//! 2. Produce goes out in version 7 and Fetch in version 11: what every broker since 2018 and the least of programs speak,
//!    with fields at fixed places.
//! 3. A frame is at most [`FRAME_BYTES_MAX`].

use bytes::Bytes;
use crc32c::crc32c;
use pelton_model::batch::{BatchBuilder, BuilderOptions, HEADER_BYTES};
use pelton_model::compression::Compression;
use pelton_model::{ProducerEpoch, ProducerId, Sequence, Timestamp};
use pelton_protocol::codec::{Message, Records, Str};
use pelton_protocol::header::request_frame;
use pelton_protocol::message::fetch::{FetchPartition, FetchRequest, FetchTopic};
use pelton_protocol::message::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};

use crate::clock::Nanos;
use crate::crc::Field;

/// The version of Produce that is sent.
pub(crate) const PRODUCE_VERSION: i16 = 7;
/// The version of Fetch that is sent.
pub(crate) const FETCH_VERSION: i16 = 11;
/// The largest frame sent or taken.
pub(crate) const FRAME_BYTES_MAX: usize = 256 << 20;

const CLIENT_ID: Str = Str::new_static("pelton-perf");
const CORRELATION_AT: usize = 8;
const CRC_AT: usize = 17;
const CRC_FROM: usize = 21;
const TIMESTAMPS_AT: usize = 27;
const SEQUENCE_AT: usize = 53;

/// What the records of a batch look like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchShape {
    pub(crate) records: u32,
    pub(crate) record_bytes: usize,
    /// Bytes of each record's key; 0 is no key.
    pub(crate) key_bytes: usize,
    pub(crate) compression: Compression,
}

/// An idempotent producer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idempotence {
    pub(crate) producer_id: ProducerId,
    pub(crate) epoch: ProducerEpoch,
}

/// A batch, and where its first value begins when that is not compressed.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) bytes: Bytes,
    stamp_at: Option<usize>,
}

/// The length of a stamp in a payload.
pub(crate) const STAMP_BYTES: usize = 8;

impl Template {
    /// A batch of the shape; `seed` chooses keys and values.
    pub(crate) fn new(
        shape: BatchShape,
        idempotence: Option<Idempotence>,
        seed: u64,
        now_ms: i64,
    ) -> Self {
        let mut options = BuilderOptions { compression: shape.compression, ..Default::default() };
        if let Some(idempotence) = idempotence {
            options.producer_id = idempotence.producer_id;
            options.producer_epoch = idempotence.epoch;
            options.base_sequence = Sequence(0);
        }
        let mut builder = BatchBuilder::new(options);
        let mut random = Random(seed);
        let (mut key, mut value) = (vec![0; shape.key_bytes], vec![0; shape.record_bytes]);
        for _ in 0..shape.records {
            random.fill(&mut key);
            random.fill(&mut value);
            let key = (!key.is_empty()).then_some(key.as_slice());
            builder.append(Timestamp(now_ms), key, Some(&value), &[]);
        }
        let bytes = builder.build();
        let stamped = shape.compression == Compression::None && STAMP_BYTES <= shape.record_bytes;
        let stamp_at = if stamped { first_value(&bytes) } else { None };
        Self { bytes, stamp_at }
    }
}

/// Letters of which two in three are drawn: text that a codec packs to about half.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let drawn = self.next().to_le_bytes();
            for (at, (byte, drawn)) in chunk.iter_mut().zip(drawn).enumerate() {
                *byte = if at % 3 == 2 { b'e' } else { b'a' + drawn % 26 };
            }
        }
    }
}

/// Where the value of the first record of an uncompressed batch begins.
pub(crate) fn first_value(batch: &[u8]) -> Option<usize> {
    // Length, then attributes, then timestamp delta and offset delta.
    let at = after_varint(batch, HEADER_BYTES)?;
    let at = after_varint(batch, after_varint(batch, at + 1)?)?;
    let (key_bytes, at) = length_at(batch, at)?;
    let (_, at) = length_at(batch, at + key_bytes)?;
    Some(at)
}

fn after_varint(bytes: &[u8], at: usize) -> Option<usize> {
    let length = bytes.get(at..)?.iter().position(|byte| byte & 0x80 == 0)?;
    Some(at + length + 1)
}

/// A zigzag varint that is a length (null counts as 0), and where the next byte is.
fn length_at(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let end = after_varint(bytes, at)?;
    let mut value = 0_u64;
    for (index, byte) in bytes[at..end].iter().enumerate().take(5) {
        value |= u64::from(byte & 0x7f) << (7 * index);
    }
    let length = if value & 1 == 1 { 0 } else { value >> 1 };
    Some((usize::try_from(length).ok()?, end))
}

/// Where patches go in batches of one shape.
#[derive(Debug)]
struct Patches {
    sequence: Field<4>,
    stamp: Option<Field<STAMP_BYTES>>,
}

#[derive(Clone, Debug)]
struct Placed {
    at: usize,
    end: usize,
    partition: i32,
    next_sequence: i32,
}

/// A Produce request that is sent again and again.
#[derive(Debug)]
pub(crate) struct ProduceFrame {
    bytes: Vec<u8>,
    batches: Vec<Placed>,
    records_per_batch: i32,
    idempotent: bool,
    stamp_at: Option<usize>,
    patches: Option<Patches>,
}

impl ProduceFrame {
    /// A request that brings the same batch to each of `partitions`.
    pub(crate) fn new(
        topic: &str,
        partitions: &[i32],
        template: &Template,
        acks: i16,
        idempotent: bool,
    ) -> Self {
        let data = |&index: &i32| PartitionProduceData {
            index,
            records: Some(Records::Bytes(template.bytes.clone())),
        };
        let request = ProduceRequest {
            transactional_id: None,
            acks,
            timeout_ms: 30_000,
            topic_data: vec![TopicProduceData {
                name: Str::from(topic),
                partition_data: partitions.iter().map(data).collect(),
                ..Default::default()
            }],
        };
        let bytes = encode(PRODUCE_VERSION, &request);
        let mut batches = Vec::with_capacity(partitions.len());
        let mut from = 0;
        for &partition in partitions {
            let at = find(&bytes, &template.bytes, from).expect("the batch was put there");
            from = at + template.bytes.len();
            batches.push(Placed { at, end: from, partition, next_sequence: 0 });
        }
        let count: [u8; 4] =
            template.bytes[57..61].try_into().expect("a batch's header has a record count");
        Self {
            bytes,
            batches,
            records_per_batch: i32::from_be_bytes(count),
            idempotent,
            stamp_at: template.stamp_at,
            patches: None,
        }
    }

    /// The frame as it stands.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The size of its batches together.
    pub(crate) fn batch_bytes(&self) -> usize {
        self.batches.iter().map(|placed| placed.end - placed.at).sum()
    }

    /// Its records.
    pub(crate) fn records(&self) -> u64 {
        self.batches.len() as u64 * u64::from(self.records_per_batch.unsigned_abs())
    }

    /// The partitions it goes to.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = i32> + '_ {
        self.batches.iter().map(|placed| placed.partition)
    }

    /// Names the request.
    pub(crate) fn set_correlation(&mut self, correlation: i32) {
        put(&mut self.bytes, CORRELATION_AT, correlation.to_be_bytes());
    }

    /// Writes each batch's next sequence, from 0 on; nothing without idempotence.
    pub(crate) fn advance_sequences(&mut self) {
        if !self.idempotent {
            return;
        }
        self.prepare();
        let Self { bytes, batches, patches: Some(patches), records_per_batch, .. } = self else {
            return;
        };
        for placed in batches {
            let batch = &mut bytes[placed.at..placed.end];
            let sequence = placed.next_sequence.to_be_bytes();
            patch(batch, SEQUENCE_AT, &patches.sequence, sequence);
            // Kafka's sequences go on at 0 after the largest one.
            let next = i64::from(placed.next_sequence) + i64::from(*records_per_batch);
            placed.next_sequence = (next & i64::from(i32::MAX)) as i32;
        }
    }

    /// Writes a stamp into the first record of each batch, where there is room.
    pub(crate) fn set_stamp(&mut self, stamp: Nanos) {
        let Some(stamp_at) = self.stamp_at else {
            return;
        };
        self.prepare();
        let Self { bytes, batches, patches: Some(Patches { stamp: Some(field), .. }), .. } = self
        else {
            return;
        };
        for placed in batches {
            patch(&mut bytes[placed.at..placed.end], stamp_at, field, stamp.to_be_bytes());
        }
    }

    /// Writes the records' time.
    pub(crate) fn set_time(&mut self, now_ms: i64) {
        for placed in &self.batches {
            let batch = &mut self.bytes[placed.at..placed.end];
            put(batch, TIMESTAMPS_AT, now_ms.to_be_bytes());
            put(batch, TIMESTAMPS_AT + 8, now_ms.to_be_bytes());
            let crc = crc32c(&batch[CRC_FROM..]);
            put(batch, CRC_AT, crc.to_be_bytes());
        }
    }

    fn prepare(&mut self) {
        if self.patches.is_some() {
            return;
        }
        let length = self.batches[0].end - self.batches[0].at;
        let stamp = self.stamp_at.map(|at| Field::new(length - at - STAMP_BYTES));
        self.patches = Some(Patches { sequence: Field::new(length - SEQUENCE_AT - 4), stamp });
    }
}

fn patch<const N: usize>(batch: &mut [u8], at: usize, field: &Field<N>, value: [u8; N]) {
    let crc: [u8; 4] = batch[CRC_AT..CRC_FROM].try_into().expect("the range is four bytes");
    let place = batch[at..].first_chunk_mut().expect("the field is in the batch");
    let crc = field.set(place, value, u32::from_be_bytes(crc));
    put(batch, CRC_AT, crc.to_be_bytes());
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

/// What a consumer asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FetchShape {
    /// The bytes of one partition that an answer should not exceed.
    pub(crate) partition_bytes_max: i32,
    pub(crate) min_bytes: i32,
    pub(crate) wait_ms_max: i32,
}

/// A Fetch request that is sent again and again.
#[derive(Debug)]
pub(crate) struct FetchFrame {
    bytes: Vec<u8>,
    offsets_at: Vec<usize>,
}

impl FetchFrame {
    /// A request for `partitions`, in their order.
    pub(crate) fn new(topic: &str, partitions: &[i32], shape: FetchShape) -> Self {
        let mark = |index: usize| i64::MAX - index as i64;
        let partition = |(index, &partition): (usize, &i32)| FetchPartition {
            partition,
            fetch_offset: mark(index),
            partition_max_bytes: shape.partition_bytes_max,
            ..Default::default()
        };
        let request = FetchRequest {
            max_wait_ms: shape.wait_ms_max,
            min_bytes: shape.min_bytes,
            topics: vec![FetchTopic {
                topic: Str::from(topic),
                partitions: partitions.iter().enumerate().map(partition).collect(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let bytes = encode(FETCH_VERSION, &request);
        let mut from = 0;
        let offsets_at = (0..partitions.len())
            .map(|index| {
                let mark = mark(index).to_be_bytes();
                from = find(&bytes, &mark, from).expect("the mark was put there");
                from
            })
            .collect();
        Self { bytes, offsets_at }
    }

    /// The frame as it stands.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Names the request.
    pub(crate) fn set_correlation(&mut self, correlation: i32) {
        put(&mut self.bytes, CORRELATION_AT, correlation.to_be_bytes());
    }

    /// Says where the partition at `index` is to be read from.
    pub(crate) fn set_offset(&mut self, index: usize, offset: i64) {
        put(&mut self.bytes, self.offsets_at[index], offset.to_be_bytes());
    }
}

/// A whole frame with correlation id 0.
pub(crate) fn encode<M: Message>(version: i16, request: &M) -> Vec<u8> {
    request_frame(0, Some(&CLIENT_ID), version, request).into_bytes().to_vec()
}

fn find(bytes: &[u8], piece: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(piece.len()).position(|window| window == piece).map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use pelton_model::batch::{BatchHeader, verify_crc};
    use pelton_protocol::codec::Reader;
    use pelton_protocol::header::RequestHeader;

    use super::*;

    fn shape(records: u32, record_bytes: usize, key_bytes: usize) -> BatchShape {
        BatchShape { records, record_bytes, key_bytes, compression: Compression::None }
    }

    fn body(frame: &[u8]) -> (RequestHeader, Reader<'_>) {
        let length = u32::from_be_bytes(frame[..4].try_into().expect("four bytes"));
        assert_eq!(length as usize, frame.len() - 4);
        let mut reader = Reader::new(&frame[4..]);
        let header = RequestHeader::decode(&mut reader).expect("a header");
        (header, reader)
    }

    /// Goal: whatever is patched, a broker reads what was meant, and every CRC holds. Method: patched frames through
    /// the broker's decoder.
    #[test]
    fn patched_produce() {
        let check = |shape: BatchShape, partitions: &[i32]| {
            let idempotence = Idempotence { producer_id: ProducerId(7), epoch: ProducerEpoch(0) };
            let template = Template::new(shape, Some(idempotence), 3, 1_000);
            let mut frame = ProduceFrame::new("topic", partitions, &template, 1, true);
            assert_eq!(frame.records(), partitions.len() as u64 * u64::from(shape.records));
            for round in 0..3_i32 {
                frame.set_correlation(40 + round);
                frame.advance_sequences();
                frame.set_stamp(0x0102_0304_0506_0708 + round as Nanos);
                if round == 2 {
                    frame.set_time(5_000);
                }
                let (header, mut reader) = body(frame.bytes());
                assert_eq!(header.correlation_id, 40 + round);
                let request =
                    ProduceRequest::decode(&mut reader, PRODUCE_VERSION).expect("Produce");
                let data = &request.topic_data[0].partition_data;
                let found: Vec<i32> = data.iter().map(|each| each.index).collect();
                assert_eq!(found, partitions);
                for each in data {
                    let range = each.records.as_ref().and_then(Records::range).expect("records");
                    let batch = &frame.bytes()[4..][range];
                    assert!(verify_crc(batch), "the CRC holds");
                    let header = BatchHeader::parse(batch).expect("a batch");
                    assert_eq!(header.base_sequence.0, round * shape.records as i32);
                    let time = if round == 2 { 5_000 } else { 1_000 };
                    assert_eq!(header.max_timestamp, Timestamp(time));
                    if STAMP_BYTES <= shape.record_bytes {
                        let at = first_value(batch).expect("a value");
                        let stamp = batch[at..at + 8].try_into().expect("eight bytes");
                        let expected = 0x0102_0304_0506_0708 + round as Nanos;
                        assert_eq!(Nanos::from_be_bytes(stamp), expected);
                    }
                }
            }
        };
        check(shape(1, 100, 0), &[0]);
        check(shape(1, 4, 0), &[0]);
        check(shape(16, 1_024, 0), &[3, 1, 2]);
        check(shape(5, 8, 200), &[9]);
    }

    /// Goal: a consumer asks for what it should. Method: patched frames through the broker's decoder.
    #[test]
    fn patched_fetch() {
        let shape = FetchShape { partition_bytes_max: 1 << 20, min_bytes: 1, wait_ms_max: 500 };
        let mut frame = FetchFrame::new("topic", &[4, 2], shape);
        frame.set_correlation(9);
        frame.set_offset(0, 77);
        frame.set_offset(1, 1 << 40);
        let (header, mut reader) = body(frame.bytes());
        assert_eq!(header.correlation_id, 9);
        let request = FetchRequest::decode(&mut reader, FETCH_VERSION).expect("Fetch");
        let found: Vec<(i32, i64)> = request.topics[0]
            .partitions
            .iter()
            .map(|each| (each.partition, each.fetch_offset))
            .collect();
        assert_eq!(found, [(4, 77), (2, 1 << 40)]);
    }
}
