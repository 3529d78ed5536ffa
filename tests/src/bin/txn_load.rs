//! Load of transactions, on any broker: how many a second and how long each commit takes, and what read_committed costs a reader.
//!
//! ```text
//! txn_load HOST:PORT PID write classic|v2 RECORDS PARTITIONS PRODUCERS SECONDS   transactions of RECORDS records to each of PARTITIONS partitions
//! txn_load HOST:PORT PID fill TRANSACTIONS                                       to partition 0 of topic "read": 100 records of 1 000 B each, every tenth aborted
//! txn_load HOST:PORT PID read committed|uncommitted CONNECTIONS SECONDS          all of it again and again, 1 MiB an answer
//! ```
//!
//! `classic` names each partition with AddPartitionsToTxn before the first write of a transaction (as clients before 4.0 do), `v2` is KIP-890's way:
//! partitions are added by Produce, and each end bumps the epoch. Where the broker is not through with the transaction before
//! (CONCURRENT_TRANSACTIONS), the request is sent again after a millisecond.

use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pelton_protocol::codec::{Records, Str};
use pelton_protocol::message::add_partitions_to_txn::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, AddPartitionsToTxnTopic,
};
use pelton_protocol::message::end_txn::{EndTxnRequest, EndTxnResponse};
use pelton_protocol::message::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic};
use pelton_protocol::message::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use pelton_protocol::message::produce::{
    PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData,
};
use pelton_tests::batch::{Batch, Record};
use pelton_tests::load::{Connection, argument, cpu_us, create_topic, report, us_since};

const CONCURRENT_TRANSACTIONS: i16 = 51;
const TRANSACTIONAL: i16 = 0x10;
const RETRY: Duration = Duration::from_millis(1);
const ANSWER_BYTES: i32 = 1 << 20;

/// Where a producer stands.
struct Producer {
    connection: Connection,
    id: Str,
    topic: Str,
    is_v2: bool,
    producer_id: i64,
    epoch: i16,
    /// The same for each partition, since each gets as many records.
    sequence: i32,
}

impl Producer {
    fn begin(address: &str, id: Str, topic: Str, is_v2: bool) -> Self {
        let mut connection = Connection::open(address);
        connection.find(&id, 1);
        let request = InitProducerIdRequest {
            transactional_id: Some(id.clone()),
            transaction_timeout_ms: 60_000,
            ..Default::default()
        };
        let answer: InitProducerIdResponse = until_ready(|| {
            let answer: InitProducerIdResponse = connection.ask(4, &request);
            (answer.error_code, answer)
        });
        let (producer_id, epoch) = (answer.producer_id, answer.producer_epoch);
        Self { connection, id, topic, is_v2, producer_id, epoch, sequence: 0 }
    }

    fn add(&mut self, partitions: i32) {
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: self.id.clone(),
            v3_and_below_producer_id: self.producer_id,
            v3_and_below_producer_epoch: self.epoch,
            v3_and_below_topics: vec![AddPartitionsToTxnTopic {
                name: self.topic.clone(),
                partitions: (0..partitions).collect(),
            }],
            ..Default::default()
        };
        until_ready(|| {
            let answer: AddPartitionsToTxnResponse = self.connection.ask(3, &request);
            let results = answer.results_by_topic_v3_and_below;
            let first = results[0].results_by_partition[0].partition_error_code;
            (first, ())
        });
    }

    fn write(&mut self, records: i32, record_bytes: usize, partitions: i32) {
        let value = vec![b'v'; record_bytes];
        let each = (0..records).map(|at| Record { value: Some(value.clone()), ..Record::at(at) });
        let mut batch = Batch::with(each.collect()).by(self.producer_id, self.epoch, self.sequence);
        batch.attributes = TRANSACTIONAL;
        let bytes = Bytes::from(batch.build());
        let data = (0..partitions).map(|index| PartitionProduceData {
            index,
            records: Some(Records::Bytes(bytes.clone())),
        });
        let request = ProduceRequest {
            transactional_id: Some(self.id.clone()),
            acks: -1,
            timeout_ms: 60_000,
            topic_data: vec![TopicProduceData {
                name: self.topic.clone(),
                partition_data: data.collect(),
                ..Default::default()
            }],
        };
        let version = if self.is_v2 { 12 } else { 9 };
        until_ready(|| {
            let answer: ProduceResponse = self.connection.ask(version, &request);
            let partitions = &answer.responses[0].partition_responses;
            let failed = partitions.iter().map(|each| each.error_code).find(|&code| code != 0);
            (failed.unwrap_or(0), ())
        });
        self.sequence += records;
    }

    fn end(&mut self, committed: bool) {
        let request = EndTxnRequest {
            transactional_id: self.id.clone(),
            producer_id: self.producer_id,
            producer_epoch: self.epoch,
            committed,
        };
        let version = if self.is_v2 { 5 } else { 3 };
        let answer: EndTxnResponse = until_ready(|| {
            let answer: EndTxnResponse = self.connection.ask(version, &request);
            (answer.error_code, answer)
        });
        if self.is_v2 {
            (self.producer_id, self.epoch) = (answer.producer_id, answer.producer_epoch);
            self.sequence = 0;
        }
    }
}

/// Asks again while the transaction before is not through; any other error ends the program.
fn until_ready<T>(mut ask: impl FnMut() -> (i16, T)) -> T {
    loop {
        match ask() {
            (0, answer) => return answer,
            (CONCURRENT_TRANSACTIONS, _) => thread::sleep(RETRY),
            (code, _) => panic!("error {code}"),
        }
    }
}

/// What every producer writes.
#[derive(Clone, Copy)]
struct Shape {
    is_v2: bool,
    records: i32,
    partitions: i32,
}

fn write(address: &str, pid: &str, shape: Shape, producers: usize, seconds: u64) {
    let topic = Str::from(format!("write-{}", shape.partitions));
    create_topic(address, &topic, shape.partitions);
    let open = |number: usize| {
        let id = Str::from(format!("load-{}-{number}", shape.is_v2));
        Producer::begin(address, id, topic.clone(), shape.is_v2)
    };
    let all: Vec<Producer> = (0..producers).map(open).collect();
    let before = cpu_us(pid);
    let begin = Instant::now();
    let end = begin + Duration::from_secs(seconds);
    let work = |mut producer: Producer| {
        let (mut whole, mut commits) = (Vec::new(), Vec::new());
        while Instant::now() < end {
            let sent = Instant::now();
            if !shape.is_v2 {
                producer.add(shape.partitions);
            }
            producer.write(shape.records, 100, shape.partitions);
            let commit = Instant::now();
            producer.end(true);
            commits.push(us_since(commit));
            whole.push(us_since(sent));
        }
        (whole, commits)
    };
    let (whole, commits): (Vec<_>, Vec<_>) = thread::scope(|scope| {
        let threads: Vec<_> =
            all.into_iter().map(|producer| scope.spawn(move || work(producer))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).unzip()
    });
    let (elapsed, used) = (begin.elapsed(), cpu_us(pid) - before);
    report("transactions", whole.concat(), elapsed, used);
    report("commits of them", commits.concat(), elapsed, used);
}

fn fill(address: &str, transactions: u64) {
    let topic = Str::new_static("read");
    create_topic(address, &topic, 1);
    let mut producer = Producer::begin(address, "fill".into(), topic, true);
    for number in 0..transactions {
        producer.write(100, 1_000, 1);
        producer.end(number % 10 != 9);
    }
}

/// The offset after the last batch of `records`.
fn next_offset(records: &[u8]) -> Option<i64> {
    let (mut rest, mut next) = (records, None);
    while let Some((header, _)) = rest.split_first_chunk::<27>() {
        let base = i64::from_be_bytes(header[..8].try_into().ok()?);
        let length = u32::from_be_bytes(header[8..12].try_into().ok()?);
        let delta = i32::from_be_bytes(header[23..27].try_into().ok()?);
        let Some(behind) = rest.get(12 + usize::try_from(length).ok()?..) else {
            break;
        };
        next = Some(base + i64::from(delta) + 1);
        rest = behind;
    }
    next
}

fn read(address: &str, pid: &str, isolation_level: i8, connections: usize, seconds: u64) {
    let before = cpu_us(pid);
    let begin = Instant::now();
    let end = begin + Duration::from_secs(seconds);
    let work = || {
        let mut connection = Connection::open(address);
        let (mut us, mut bytes, mut from) = (Vec::new(), 0, 0);
        while Instant::now() < end {
            let partition = FetchPartition {
                fetch_offset: from,
                partition_max_bytes: ANSWER_BYTES,
                ..Default::default()
            };
            let request = FetchRequest {
                max_bytes: ANSWER_BYTES,
                isolation_level,
                topics: vec![FetchTopic {
                    topic: "read".into(),
                    partitions: vec![partition],
                    ..Default::default()
                }],
                ..Default::default()
            };
            let sent = Instant::now();
            let answer: FetchResponse = connection.ask(11, &request);
            us.push(us_since(sent));
            let partition = &answer.responses[0].partitions[0];
            assert!(partition.error_code == 0, "error {}", partition.error_code);
            let Some(Records::Bytes(records)) = &partition.records else {
                panic!("a Fetch answer whose records are {:?}", partition.records);
            };
            bytes += records.len();
            // Behind the last one, from the beginning again.
            from = next_offset(records).unwrap_or(0);
        }
        (us, bytes)
    };
    let (us, bytes): (Vec<_>, Vec<_>) = thread::scope(|scope| {
        let threads: Vec<_> = (0..connections).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).unzip()
    });
    let (elapsed, used) = (begin.elapsed(), cpu_us(pid) - before);
    let bytes: usize = bytes.iter().sum();
    println!("{:.2} GB a CPU second", bytes as f64 / 1e3 / used.max(1) as f64);
    report("answers", us.concat(), elapsed, used);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [
            address,
            pid,
            "write",
            way @ ("classic" | "v2"),
            records,
            partitions,
            producers,
            seconds,
        ] => {
            let shape = Shape {
                is_v2: way == "v2",
                records: argument(records),
                partitions: argument(partitions),
            };
            write(address, pid, shape, argument(producers), argument(seconds));
        }
        [address, _, "fill", transactions] => fill(address, argument(transactions)),
        [address, pid, "read", isolation @ ("committed" | "uncommitted"), connections, seconds] => {
            let level = i8::from(isolation == "committed");
            read(address, pid, level, argument(connections), argument(seconds));
        }
        _ => panic!("usage: see the head of txn_load.rs"),
    }
}
