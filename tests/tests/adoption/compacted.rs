//! A directory that Pelton compacted goes to a real Kafka and back.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use pelton_tests::librdkafka::{self, State, newest};
use rdkafka::consumer::Consumer as _;
use rdkafka::producer::BaseRecord;

use super::in_place::create;
use super::kafka::{End, Kafka, Pelton, log_files};

const KEYS: usize = 40;
const RECORDS: usize = 4_000;
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes that no codec makes small: segments must fill up.
fn noise(seed: usize) -> Vec<u8> {
    let mut state = (seed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..128).flat_map(|_| next()).collect()
}

/// Writes `RECORDS` records of few keys with an idempotent producer; now and then a key is deleted.
fn write(at: SocketAddr, topic: &str, codec: &str, round: usize, state: &mut State) {
    let settings = [("compression.codec", codec), ("enable.idempotence", "true")];
    let producer = librdkafka::producer(&at.to_string(), &settings);
    for id in 0..RECORDS {
        let key = format!("key-{}", id % KEYS);
        let is_deleted = id % 101 == 100;
        let value = noise(id + round * RECORDS);
        let record = BaseRecord::with_opaque_to(topic, Box::new(id)).partition(0).key(&key);
        let mut record = if is_deleted { record } else { record.payload(&value) };
        while let Err((_, back)) = producer.send(record) {
            producer.poll(Duration::from_millis(5));
            record = back;
        }
        match is_deleted {
            true => state.remove(&key),
            false => state.insert(key, value),
        };
    }
    let failed = librdkafka::finish(&producer).into_iter().filter_map(|it| it.error).next();
    assert_eq!(failed, None);
}

/// Where the topic ends.
fn end(at: SocketAddr, topic: &str) -> i64 {
    let consumer = librdkafka::consumer(&at.to_string(), &[]);
    consumer.fetch_watermarks(topic, 0, PATIENCE).expect("the ends are told").1
}

fn log_bytes(kafka: &Kafka, topic: &str) -> usize {
    log_files(&kafka.data_dir(), topic).values().map(Vec::len).sum()
}

// Goal: a log that Pelton compacted is one that Kafka opens, recovers from scratch, serves and goes on with, and the reverse. Method: few
// keys in small segments, with each codec; then the state of the keys and the log's end on both sides, after a clean stop, after a kill,
// and with every index and checkpoint taken away.
#[test]
fn peltons_compacted_logs() {
    let Some(kafka) = Kafka::find(23892) else { return };
    std::fs::create_dir_all(kafka.data_dir()).expect("a directory");
    let at = kafka.address();
    kafka.write_properties(&[]);
    let settings = ["log.cleaner.backoff.ms=50", "log.segment.delete.delay.ms=100"];
    let pelton = Pelton::start(&kafka, &settings);
    let configs = [
        ("cleanup.policy", "compact"),
        ("segment.bytes", "1048576"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("delete.retention.ms", "100"),
        ("file.delete.delay.ms", "100"),
    ];
    let topics =
        ["none", "gzip", "snappy", "lz4", "zstd"].map(|codec| (codec, format!("c-{codec}")));
    let mut states = BTreeMap::new();
    for (codec, topic) in &topics {
        create(at, topic, 1, &configs);
        let mut state = State::new();
        write(at, topic, codec, 0, &mut state);
        states.insert(topic.clone(), state);
    }
    let written = RECORDS * 1024;
    let deadline = Instant::now() + PATIENCE;
    for (_, topic) in &topics {
        while log_bytes(&kafka, topic) > written / 2 {
            assert!(Instant::now() < deadline, "{topic} is not compacted: {}", pelton.text());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    let check = |states: &BTreeMap<String, State>, rounds: i64, who: &str| {
        for (_, topic) in &topics {
            let (state, count) = newest(&at.to_string(), topic);
            assert!(state == states[topic], "{topic}: {who}: another state");
            assert_eq!(
                end(at, topic),
                rounds * i64::try_from(RECORDS).expect("small"),
                "{topic}: {who}"
            );
            assert!(count < RECORDS, "{topic}: {who}: {count} records");
        }
    };
    check(&states, 1, "Pelton");
    let digest = kafka.digest();
    pelton.end(End::Clean);
    kafka.adopts(&digest);
    kafka.start(&[]);
    check(&states, 1, "Kafka after Pelton");
    let complaints = kafka.complaints();
    assert!(complaints.is_empty(), "{complaints:#?}");
    for (codec, topic) in &topics {
        write(at, topic, codec, 1, states.get_mut(topic).expect("known"));
    }
    kafka.end(End::Killed);
    let pelton = Pelton::start(&kafka, &settings);
    for (_, topic) in &topics {
        let (state, _) = newest(&at.to_string(), topic);
        assert!(state == states[topic], "{topic}: Pelton after Kafka: another state");
        assert_eq!(end(at, topic), 2 * i64::try_from(RECORDS).expect("small"));
    }
    pelton.end(End::Killed);
    kafka.start(&[]);
    for (_, topic) in &topics {
        let (state, _) = newest(&at.to_string(), topic);
        assert!(state == states[topic], "{topic}: Kafka after a kill of Pelton: another state");
    }
    kafka.end(End::Clean);
}
