//! The hot functions of a request's life, each as a step that can be repeated: for criterion and for counting instructions.
//!
//! Everything here is the same in every run: no clock, no chance, hashers seeded.

use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use futures_lite::future::block_on;
use pelton_machine::connection::{FrameReader, Step};
use pelton_machine::partition::{Acks, LogOffsets, Partition, PartitionState, Planned, TxnGuard};
use pelton_model::batch::validate::{ProduceRules, validate_produce};
use pelton_model::batch::{BatchBuilder, BuilderOptions, Scratch, TimestampType, patch};
use pelton_model::compression::Compression;
use pelton_model::producer_state::{BatchFacts, ProducerStates};
use pelton_model::{
    LeaderEpoch, NodeId, Offset, PartitionEpoch, ProducerEpoch, ProducerId, Sequence, Timestamp,
    TopicId, limits,
};
use pelton_protocol::codec::{Message, Reader, Records, Str};
use pelton_protocol::header::{RequestHeader, request_frame, response_frame};
use pelton_protocol::message::fetch::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, FetchableTopicResponse, PartitionData,
    encode_fetch_response,
};
use pelton_protocol::message::produce::{
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse,
    TopicProduceData, TopicProduceResponse,
};
use pelton_storage::{PrepareOptions, ReadOptions};

use crate::{BenchLog, batch};

const PRODUCE_VERSION: i16 = 12;
const FETCH_VERSION: i16 = 17;

/// A function with its input.
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// Does it once.
    pub step: Box<dyn FnMut()>,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

fn case(name: &'static str, step: impl FnMut() + 'static) -> Case {
    let step = Box::new(step);
    Case { name, step }
}

/// The name of every case.
pub const NAMES: [&str; 19] = [
    "frame of 300 B",
    "decode Produce, 1 partition",
    "decode Produce, 100 partitions",
    "decode Fetch, 1 partition",
    "decode Fetch, 100 partitions",
    "validate 1 record of 100 B",
    "validate 160 records of 64 B",
    "validate 1 record of 16 KiB",
    "validate 160 records of 64 B, lz4",
    "patch offset and epoch",
    "plan an append",
    "plan an idempotent append",
    "encode Produce answer, 1 partition",
    "encode Produce answer, 100 partitions",
    "encode Fetch answer, 1 partition",
    "encode Fetch answer, 100 partitions",
    "append 1 KiB to a log",
    "read from the memory tail",
    "read by the index",
];

/// The case of this name, ready to run.
#[must_use]
pub fn find(name: &str) -> Option<Case> {
    let name = *NAMES.iter().find(|known| **known == name)?;
    Some(match name {
        "frame of 300 B" => frame(name),
        "decode Produce, 1 partition" => decode_produce(name, 1),
        "decode Produce, 100 partitions" => decode_produce(name, 100),
        "decode Fetch, 1 partition" => decode_fetch(name, 1),
        "decode Fetch, 100 partitions" => decode_fetch(name, 100),
        "validate 1 record of 100 B" => validate(name, 1, 100, Compression::None),
        "validate 160 records of 64 B" => validate(name, 160, 64, Compression::None),
        "validate 1 record of 16 KiB" => validate(name, 1, 16 * 1024, Compression::None),
        "validate 160 records of 64 B, lz4" => validate(name, 160, 64, Compression::Lz4),
        "patch offset and epoch" => patch_batch(name),
        "plan an append" => plan(name, false),
        "plan an idempotent append" => plan(name, true),
        "encode Produce answer, 1 partition" => encode_produce(name, 1),
        "encode Produce answer, 100 partitions" => encode_produce(name, 100),
        "encode Fetch answer, 1 partition" => encode_fetch(name, 1),
        "encode Fetch answer, 100 partitions" => encode_fetch(name, 100),
        "append 1 KiB to a log" => append(name),
        "read from the memory tail" => read(name, Place::Tail),
        "read by the index" => read(name, Place::Middle),
        _ => return None,
    })
}

fn records(count: usize, value_bytes: usize, compression: Compression) -> Bytes {
    let mut builder = BatchBuilder::new(BuilderOptions {
        compression,
        ..BuilderOptions::default()
    });
    for index in 0..count {
        let byte = index.to_le_bytes()[0];
        let value = vec![byte; value_bytes];
        builder.append(Timestamp(1_000), None, Some(&value), &[]);
    }
    builder.build()
}

fn frame(name: &'static str) -> Case {
    let whole = request_frame(7, None, PRODUCE_VERSION, &produce_request(1)).into_bytes();
    let mut reader = FrameReader::new(limits::REQUEST_BYTES_MAX);
    let mut buffer = BytesMut::with_capacity(4096);
    case(name, move || {
        buffer.extend_from_slice(&whole);
        let step = reader.next(&mut buffer).expect("a frame");
        assert!(matches!(step, Step::Frame(_)));
        black_box(step);
    })
}

fn produce_request(partitions: i32) -> ProduceRequest {
    let records = records(1, 100, Compression::None);
    let data = |index| PartitionProduceData {
        index,
        records: Some(Records::Bytes(records.clone())),
    };
    ProduceRequest {
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![TopicProduceData {
            name: Str::from("a-topic-of-usual-length"),
            partition_data: (0..partitions).map(data).collect(),
            ..TopicProduceData::default()
        }],
        ..ProduceRequest::default()
    }
}

/// Decodes header and body of a frame, as dispatch does.
fn decode<M: Message>(name: &'static str, version: i16, request: &M) -> Case {
    let client = Str::from("a-client");
    let frame = request_frame(7, Some(&client), version, request).into_bytes();
    let frame = frame.slice(4..);
    case(name, move || {
        let mut reader = Reader::shared(black_box(&frame));
        let header = RequestHeader::decode(&mut reader).expect("a header");
        black_box(M::decode(&mut reader, header.api_version).expect("a body"));
    })
}

fn decode_produce(name: &'static str, partitions: i32) -> Case {
    decode(name, PRODUCE_VERSION, &produce_request(partitions))
}

fn decode_fetch(name: &'static str, partitions: i32) -> Case {
    let partition = |partition| FetchPartition {
        partition,
        fetch_offset: 1_000,
        partition_max_bytes: 1 << 20,
        ..FetchPartition::default()
    };
    let request = FetchRequest {
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 50 << 20,
        topics: vec![FetchTopic {
            topic_id: TopicId([3; 16]),
            partitions: (0..partitions).map(partition).collect(),
            ..FetchTopic::default()
        }],
        ..FetchRequest::default()
    };
    decode(name, FETCH_VERSION, &request)
}

fn validate(
    name: &'static str,
    count: usize,
    value_bytes: usize,
    compression: Compression,
) -> Case {
    let data = records(count, value_bytes, compression);
    let rules = ProduceRules {
        now: Timestamp(2_000),
        max_message_bytes: 1 << 20,
        segment_bytes: 1 << 30,
        timestamp_type: TimestampType::CreateTime,
        before_max_ms: i64::MAX,
        after_max_ms: i64::MAX,
        compacted: false,
        produce_version: PRODUCE_VERSION,
        has_transactional_id: false,
        decompressed_bytes_max: u64::MAX,
    };
    let mut scratch = Scratch::default();
    case(name, move || {
        let valid = validate_produce(black_box(&data), &rules, &mut scratch);
        black_box(valid.expect("a good batch"));
    })
}

fn patch_batch(name: &'static str) -> Case {
    let mut batch = BytesMut::from(&records(1, 100, Compression::None)[..]);
    let mut offset = Offset(0);
    case(name, move || {
        offset = offset.plus(1);
        patch::set_base_offset(&mut batch, offset);
        patch::set_leader_epoch(&mut batch, LeaderEpoch(5));
        black_box(&batch);
    })
}

fn plan(name: &'static str, is_idempotent: bool) -> Case {
    let node = NodeId(1);
    let state = PartitionState {
        local: node,
        leader: node,
        leader_epoch: LeaderEpoch(3),
        partition_epoch: PartitionEpoch(3),
        replicas: vec![node],
        isr: vec![node],
    };
    let log = LogOffsets {
        log_start: Offset(0),
        log_end: Offset(0),
        high_watermark: Offset(0),
    };
    let mut partition = Partition::new(state, log, 1, ProducerStates::new());
    let mut sequence = 0_i32;
    case(name, move || {
        let stamp = (ProducerId(9), ProducerEpoch(0), Sequence(sequence));
        let facts = BatchFacts {
            last_offset_delta: 0,
            producer: is_idempotent.then_some(stamp.into()),
            is_transactional: false,
            max_timestamp: Timestamp(1_000),
        };
        sequence = sequence.checked_add(1).unwrap_or(0);
        let planned = partition.plan_append(black_box(&facts), Acks::All, TxnGuard::None);
        let Ok(Planned::Append(plan)) = planned else {
            panic!("{planned:?}");
        };
        black_box(partition.on_appended(plan.leader_epoch, plan.next_offset()));
    })
}

fn encode_produce(name: &'static str, partitions: i32) -> Case {
    let partition = |index| PartitionProduceResponse {
        index,
        base_offset: 1_000,
        log_append_time_ms: -1,
        log_start_offset: 0,
        ..PartitionProduceResponse::default()
    };
    let response = ProduceResponse {
        responses: vec![TopicProduceResponse {
            name: Str::from("a-topic-of-usual-length"),
            partition_responses: (0..partitions).map(partition).collect(),
            ..TopicProduceResponse::default()
        }],
        ..ProduceResponse::default()
    };
    case(name, move || {
        black_box(response_frame(7, PRODUCE_VERSION, black_box(&response)));
    })
}

fn encode_fetch(name: &'static str, partitions: i32) -> Case {
    let records = records(1, 100, Compression::None);
    let partition = |partition_index| PartitionData {
        partition_index,
        high_watermark: 1_000,
        last_stable_offset: 1_000,
        log_start_offset: 0,
        records: Some(Records::Bytes(records.clone())),
        ..PartitionData::default()
    };
    let response = FetchResponse {
        responses: vec![FetchableTopicResponse {
            topic_id: TopicId([3; 16]),
            partitions: (0..partitions).map(partition).collect(),
            ..FetchableTopicResponse::default()
        }],
        ..FetchResponse::default()
    };
    case(name, move || {
        black_box(encode_fetch_response(
            7,
            FETCH_VERSION,
            black_box(&response),
        ));
    })
}

fn append(name: &'static str) -> Case {
    let log = BenchLog::new(PrepareOptions::default(), 1 << 30);
    let batch = batch(1024);
    case(name, move || log.append(&batch))
}

/// Where a read begins.
#[derive(Clone, Copy, Debug)]
enum Place {
    Tail,
    Middle,
}

fn read(name: &'static str, place: Place) -> Case {
    const BATCHES: i64 = 5_000;
    let log = BenchLog::new(PrepareOptions::default(), 1 << 30);
    log.fill(BATCHES, 1024);
    let mut offset = 1;
    case(name, move || {
        offset = match place {
            Place::Tail => BATCHES - 1,
            Place::Middle => (offset * 7919 + 104_729) % (BATCHES / 2),
        };
        let options = ReadOptions {
            from: Offset(offset),
            up_to: log.end(),
            bytes_max: 4096,
            at_least_one: true,
        };
        black_box(block_on(log.log.read(options)).expect("in range"));
    })
}
