//! Compacted topics of a running broker: the log shrinks, the newest values stay, deleted keys go.
//!
//! Method: librdkafka writes few keys over and over into small segments while the broker compacts all the time; then the
//! topic is read from its beginning. The state that a consumer ends with must be that of what was acknowledged.

use std::path::Path;
use std::time::{Duration, Instant};

use pelton_tests::broker::{Broker, Options};
use pelton_tests::librdkafka::{Deliveries, State, consumer, finish, newest, producer};
use pelton_tests::topic::{self, TestTopic};
use rdkafka::Message as _;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, BaseRecord};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

const KEYS: usize = 200;
const VALUE_BYTES: usize = 1_000;
const SEGMENT_BYTES: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(30);

fn start() -> Option<Broker> {
    let settings = ["log.cleaner.backoff.ms=20", "log.segment.delete.delay.ms=100"];
    let settings = settings.map(str::to_owned).into();
    Broker::start_own(Options { shards: 2, settings, ..Options::default() })
}

fn compacted(broker: &Broker, stem: &str, policy: &str) -> TestTopic {
    let settings = [
        ("cleanup.policy", policy),
        ("segment.bytes", "1048576"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("delete.retention.ms", "100"),
        ("file.delete.delay.ms", "100"),
    ];
    topic::create_with(broker, stem, 1, &settings)
}

/// Writes one record, or a tombstone, and remembers it.
fn write(
    producer: &BaseProducer<Deliveries>,
    topic: &TestTopic,
    state: &mut State,
    key: &str,
    value: Option<Vec<u8>>,
) {
    let mut record =
        BaseRecord::with_opaque_to(&topic.name, Box::new(0_usize)).partition(0).key(key);
    if let Some(value) = &value {
        record = record.payload(value);
    }
    while let Err((_, back)) = producer.send(record) {
        producer.poll(Duration::from_millis(5));
        record = back;
    }
    match value {
        Some(value) => state.insert(key.to_owned(), value),
        None => state.remove(key),
    };
}

/// Writes every key once, with a value that tells the round.
fn write_round(
    producer: &BaseProducer<Deliveries>,
    topic: &TestTopic,
    state: &mut State,
    round: usize,
) {
    for key in 0..KEYS {
        let mut value = format!("{round} {key} ").into_bytes();
        value.resize(VALUE_BYTES, b'x');
        write(producer, topic, state, &format!("key-{key}"), Some(value));
    }
    producer.poll(Duration::ZERO);
}

/// Reads the topic to its end: the state, and how many records there were.
fn read(broker: &Broker, topic: &TestTopic) -> (State, usize) {
    newest(&broker.bootstrap(), &topic.name)
}

/// Names and sizes of the partition's files.
fn files(broker: &Broker, topic: &TestTopic) -> Vec<(String, u64)> {
    let directory = broker.data_dir().join(format!("{}-0", topic.name));
    let entries = std::fs::read_dir(directory).expect("the partition's directory");
    let size = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().expect("ASCII");
        (name, entry.metadata().map_or(0, |metadata| metadata.len()))
    };
    entries.flatten().map(size).collect()
}

fn log_bytes(broker: &Broker, topic: &TestTopic) -> u64 {
    let is_log = |name: &str| Path::new(name).extension().is_some_and(|end| end == "log");
    files(broker, topic).iter().filter(|(name, _)| is_log(name)).map(|(_, size)| size).sum()
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Each codec: write, shrink, delete keys, restart.
#[test]
fn newest_values_stay() {
    let Some(mut broker) = start() else { return };
    let bootstrap = broker.bootstrap();
    for codec in ["none", "lz4"] {
        let topic = compacted(&broker, "compacted", "compact");
        let settings = [("compression.codec", codec), ("linger.ms", "5")];
        let producer = producer(&bootstrap, &settings);
        let mut state = State::new();
        let rounds = if codec == "none" { 60 } else { 300 };
        for round in 0..rounds {
            write_round(&producer, &topic, &mut state, round);
        }
        for key in 0..20 {
            write(&producer, &topic, &mut state, &format!("key-{key}"), None);
        }
        // Closes the segment with the tombstones.
        for filler in 0..1_500 {
            let value = (0..VALUE_BYTES).map(|at| (at * filler % 251) as u8).collect();
            write(&producer, &topic, &mut state, &format!("filler-{filler}"), Some(value));
        }
        finish(&producer);
        let live = 4 * SEGMENT_BYTES;
        wait_for("the log does not shrink", || log_bytes(&broker, &topic) < live);
        let (read_state, _) = read(&broker, &topic);
        assert!(read_state == state, "{codec}");
        // The tombstones go with a later pass.
        let mut round = rounds;
        wait_for("the tombstones stay", || {
            for filler in 0..1_200 {
                let value = (0..VALUE_BYTES).map(|at| (at * filler % 251) as u8).collect();
                write(&producer, &topic, &mut state, &format!("filler-{filler}"), Some(value));
            }
            finish(&producer);
            round += 1;
            tombstones(&broker, &topic) == 0
        });
        assert!(read(&broker, &topic).0 == state, "{codec}");
        assert!(broker.stop().success());
        let names = files(&broker, &topic);
        let strange = |name: &str| name.ends_with(".cleaned") || name.ends_with(".swap");
        assert!(!names.iter().any(|(name, _)| strange(name)), "{names:?}");
        let checkpoint = broker.data_dir().join("cleaner-offset-checkpoint");
        let checkpoint = std::fs::read_to_string(checkpoint).expect("it is written");
        assert!(checkpoint.contains(&format!("{} 0 ", topic.name)), "{checkpoint}");
        broker.start_again();
        assert!(read(&broker, &topic).0 == state, "{codec}");
    }
}

fn tombstones(broker: &Broker, topic: &TestTopic) -> usize {
    let consumer: BaseConsumer = consumer(&broker.bootstrap(), &[("enable.partition.eof", "true")]);
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&topic.name, 0, Offset::Beginning).expect("a valid offset");
    consumer.assign(&list).expect("an assignment");
    let mut count = 0;
    loop {
        match consumer.poll(Duration::from_millis(100)) {
            None => {}
            Some(Ok(message)) => count += usize::from(message.payload().is_none()),
            Some(Err(KafkaError::PartitionEOF(_))) => return count,
            Some(Err(error)) => panic!("{error}"),
        }
    }
}

/// kill -9 at any moment of compaction under load loses no acknowledged record and leaves nothing half done.
#[test]
fn kills_under_compaction() {
    let Some(mut broker) = start() else { return };
    let topic = compacted(&broker, "killed", "compact");
    let mut state = State::new();
    let mut round = 0;
    for kill in 0..6_u64 {
        let bootstrap = broker.bootstrap();
        let producer = producer(&bootstrap, &[("linger.ms", "5"), ("enable.idempotence", "true")]);
        for _ in 0..25 {
            write_round(&producer, &topic, &mut state, round);
            round += 1;
        }
        let failed = finish(&producer).iter().filter(|delivery| delivery.error.is_some()).count();
        assert_eq!(failed, 0);
        std::thread::sleep(Duration::from_millis(kill * 7 % 40));
        broker.kill();
        broker.start_again();
        let (read_state, count) = read(&broker, &topic);
        assert!(read_state == state, "after kill {kill}: {count} records");
    }
    wait_for("the log does not shrink", || log_bytes(&broker, &topic) < 3 * SEGMENT_BYTES);
    assert!(read(&broker, &topic).0 == state);
}
