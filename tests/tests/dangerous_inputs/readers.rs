//! Readers that stall, and readers of what is no longer in memory, beside readers at the end of a log.

use std::os::fd::AsFd;
use std::path::Path;

use kafka_protocol::messages::{ApiKey, FetchResponse, ProduceResponse};
use pelton_tests::answer;
use pelton_tests::batch::{Batch, Record};
use pelton_tests::broker::{Broker, Options};
use pelton_tests::raw::{PATIENCE, Raw, Reply};
use pelton_tests::request::{Fetch, Produce};
use pelton_tests::topic::{self, TestTopic};

const MIB: usize = 1 << 20;
/// The partition with much in it, and the one that is read at its end.
const BULK: i32 = 0;
const TAIL: i32 = 1;
const BATCH_BYTES: usize = MIB / 2;
const BULK_BATCHES: i64 = 64;

fn append(connection: &mut Raw, topic: &TestTopic, partition: i32, value: Vec<u8>) -> i64 {
    let records = Batch::with(vec![Record { value: Some(value), ..Record::at(0) }]).build();
    let partitions = vec![(partition, Some(records))];
    let produce = Produce { partitions, ..Produce::to(topic.name.as_str(), Vec::new()) };
    let Reply::Frame(frame) = connection.ask(&produce.frame()) else {
        panic!("Produce is not answered");
    };
    let answer: ProduceResponse = answer::decode(ApiKey::Produce, 7, &frame).expect("it decodes");
    let partition = &answer.responses[0].partition_responses[0];
    assert_eq!(partition.error_code, 0);
    partition.base_offset
}

fn fetch(topic: &TestTopic, partition: i32, offset: i64) -> Fetch {
    let partition_max_bytes = i32::try_from(MIB).expect("it fits");
    Fetch {
        partition,
        offset,
        partition_max_bytes,
        max_wait_ms: 10_000,
        ..Fetch::of(topic.name.as_str())
    }
}

/// The record bytes of an answer.
fn records(frame: &[u8]) -> Vec<u8> {
    let answer: FetchResponse = answer::decode(ApiKey::Fetch, 11, frame).expect("it decodes");
    let partition = &answer.responses[0].partitions[0];
    assert_eq!(partition.error_code, 0);
    partition.records.clone().unwrap_or_default().to_vec()
}

/// A topic with 32 MiB in one partition, and nothing in the other.
fn seeded(broker: &Broker) -> TestTopic {
    let topic = topic::create_with(broker, "readers", 2, &[("segment.bytes", "8388608")]);
    let mut producer = broker.connect();
    for index in 0..BULK_BATCHES {
        let value = vec![u8::try_from(index).expect("few"); BATCH_BYTES];
        assert_eq!(append(&mut producer, &topic, BULK, value), index);
    }
    topic
}

/// Appends at the tail and reads it back, by a fetch that waits already.
fn follow(broker: &Broker, topic: &TestTopic, turns: i64) {
    let (mut producer, mut consumer) = (broker.connect(), broker.connect());
    let mut next = append(&mut producer, topic, TAIL, vec![0; 100]) + 1;
    for _ in 0..turns {
        assert!(consumer.send(&fetch(topic, TAIL, next).frame()));
        let offset = append(&mut producer, topic, TAIL, vec![1; 100]);
        let Reply::Frame(frame) = consumer.receive(PATIENCE) else {
            panic!("the reader at the end is not answered");
        };
        assert!(records(&frame).len() > 100);
        next = offset + 1;
    }
}

/// Goal: who does not read holds little, and others are served. Method: hundreds of connections ask for large and for small answers, many
/// each, and take none; others follow a log; resident memory may grow by 64 MiB.
#[test]
fn readers_that_do_not_read() {
    let Some(broker) = Broker::start_own(Options::default()) else {
        return;
    };
    let topic = seeded(&broker);
    follow(&broker, &topic, 3);
    let idle = broker.resident_bytes();
    let small = 60 * 1024;
    let mut stalled: Vec<Raw> = (0..300).map(|_| broker.connect()).collect();
    for (index, connection) in stalled.iter_mut().enumerate() {
        let whole = fetch(&topic, BULK, i64::try_from(index).expect("few") % BULK_BATCHES);
        let part = Fetch { partition_max_bytes: small, ..fetch(&topic, TAIL, 0) };
        let frame = if index % 3 == 0 { part.frame() } else { whole.frame() };
        assert!(connection.send(&frame.repeat(50)));
    }
    follow(&broker, &topic, 50);
    let most = broker.resident_bytes();
    assert!(most <= idle + 64 * MIB as u64, "{} MiB more", (most - idle) / MIB as u64);
    // Who reads at last gets what was asked.
    let Reply::Frame(frame) = stalled[1].receive(PATIENCE) else {
        panic!("a stalled reader is not answered");
    };
    assert!(records(&frame).len() > BATCH_BYTES);
    drop(stalled);
    follow(&broker, &topic, 3);
}

/// Goal: what is no longer in the page cache is read right, while a log is followed beside it. Method: the files' pages are dropped, then one
/// thread reads all of them and another follows; three times.
#[test]
fn cold_logs() {
    let Some(broker) = Broker::start_own(Options::default()) else {
        return;
    };
    let topic = seeded(&broker);
    for _ in 0..3 {
        drop_pages(broker.data_dir());
        std::thread::scope(|scope| {
            scope.spawn(|| follow(&broker, &topic, 100));
            let mut consumer = broker.connect();
            let mut offset = 0;
            while offset < BULK_BATCHES {
                let Reply::Frame(frame) = consumer.ask(&fetch(&topic, BULK, offset).frame()) else {
                    panic!("a reader of cold data is not answered");
                };
                let bytes = records(&frame);
                let batch_bytes = bytes.len() / bytes.len().div_ceil(BATCH_BYTES + 4096);
                for batch in bytes.chunks(batch_bytes) {
                    let expected = u8::try_from(offset).expect("few");
                    let value = &batch[batch.len() - BATCH_BYTES / 2..batch.len() - 1];
                    assert!(value.iter().all(|byte| *byte == expected), "offset {offset}");
                    offset += 1;
                }
            }
        });
    }
}

/// Has the kernel forget the contents of every log file.
fn drop_pages(directory: &Path) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            drop_pages(&path);
        } else if path.extension().is_some_and(|extension| extension == "log") {
            let file = std::fs::File::open(&path).expect("a file");
            file.sync_all().expect("a real file");
            let dropped = rustix::fs::fadvise(file.as_fd(), 0, None, rustix::fs::Advice::DontNeed);
            dropped.expect("a real file");
        }
    }
}
