//! Kafka and Pelton in turn on one directory: what one wrote the other serves, and neither complains.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use kafka_protocol::messages::{ApiKey, CreateTopicsResponse};
use pelton_tests::raw::{Raw, Reply};
use pelton_tests::request::{MetadataTopic, NewTopic, create_topics, delete_topics};
use pelton_tests::{answer, librdkafka};
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::producer::BaseRecord;
use rdkafka::{Offset, TopicPartitionList};

use super::kafka::{End, Kafka, Pelton, log_files};
use super::topics;

const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];
/// Small, so that Kafka writes snapshots during a test.
const SETTINGS: [&str; 2] =
    ["metadata.log.max.record.bytes.between.snapshots=3000", "offsets.topic.num.partitions=2"];

pub(super) fn create(address: SocketAddr, name: &str, partitions: i32, configs: &[(&str, &str)]) {
    let owned = |&(key, value): &(&str, &str)| (key.to_owned(), Some(value.to_owned()));
    let configs = configs.iter().map(owned).collect();
    let topic = NewTopic { partitions, configs, ..NewTopic::named(name) };
    let Reply::Frame(frame) = Raw::connect(address).ask(&create_topics(7, &[topic], false)) else {
        panic!("CreateTopics is not answered");
    };
    let response: CreateTopicsResponse =
        answer::decode(ApiKey::CreateTopics, 7, &frame).expect("CreateTopics decodes");
    assert_eq!(response.topics[0].error_code, 0, "{name}");
}

fn delete(address: SocketAddr, name: &str) {
    let doomed = MetadataTopic { name: Some(name.to_owned()), ..MetadataTopic::default() };
    let Reply::Frame(_) = Raw::connect(address).ask(&delete_topics(5, &[doomed])) else {
        panic!("DeleteTopics is not answered");
    };
}

/// Idempotent producers with every codec, to three partitions.
fn produce(address: SocketAddr, topic: &str, partitions: i32, count: usize) {
    for codec in CODECS {
        let settings = [("compression.codec", codec), ("enable.idempotence", "true")];
        let producer = librdkafka::producer(&address.to_string(), &settings);
        for id in 0..count {
            let (key, value) = (format!("key-{}", id % 7), format!("{codec} record {id}"));
            let partition = i32::try_from(id).expect("small") % partitions;
            let record = BaseRecord::with_opaque_to(topic, Box::new(id)).key(&key).payload(&value);
            if let Err((error, _)) = producer.send(record.partition(partition)) {
                panic!("{error}");
            }
        }
        let failed = librdkafka::finish(&producer).into_iter().filter_map(|it| it.error).next();
        assert_eq!(failed, None);
    }
}

fn of_group(address: SocketAddr) -> rdkafka::consumer::BaseConsumer {
    let mut config = rdkafka::ClientConfig::new();
    config.set("bootstrap.servers", address.to_string()).set("group.id", "readers");
    config.create().expect("a consumer")
}

fn commit(address: SocketAddr, topic: &str, offset: i64) {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Offset(offset)).expect("a valid offset");
    let consumer = of_group(address);
    // The first commits meet a coordinator that is about to load.
    let is_done = |_| consumer.commit(&list, CommitMode::Sync).is_ok();
    let pause = || std::thread::sleep(Duration::from_millis(500));
    assert!((0..60).any(|attempt| is_done(attempt) || {
        pause();
        false
    }));
}

fn committed(address: SocketAddr, topic: &str) -> Offset {
    let mut list = TopicPartitionList::new();
    list.add_partition(topic, 0);
    let found = of_group(address).committed_offsets(list, Duration::from_secs(60));
    found.expect("the group's offsets").find_partition(topic, 0).expect("asked for").offset()
}

/// Topics of several kinds, records of every codec, a log start above 0, a group's offsets, and a topic that is gone again.
fn fill(kafka: &Kafka) {
    let at = kafka.address();
    create(at, "orders", 3, &[("retention.bytes", "100000000"), ("segment.bytes", "1048576")]);
    create(at, "compacted", 2, &[("cleanup.policy", "compact"), ("segment.ms", "3600000")]);
    create(at, "cut", 1, &[]);
    create(at, "gone", 2, &[]);
    produce(at, "orders", 3, 60);
    produce(at, "compacted", 2, 40);
    produce(at, "cut", 1, 20);
    let offsets = kafka.home().join("offsets.json");
    let wanted = r#"{"partitions":[{"topic":"cut","partition":0,"offset":30}],"version":1}"#;
    std::fs::write(&offsets, wanted).expect("written");
    kafka.tool("delete-records", &["--offset-json-file", offsets.to_str().expect("UTF-8")]);
    commit(at, "orders", 17);
    delete(at, "gone");
    let scram = ["--add-config", "SCRAM-SHA-256=[password=secret]"];
    let alice = ["--alter", "--entity-type", "users", "--entity-name", "alice"];
    kafka.tool("configs", &[&alice[..], &scram].concat());
    kafka.tool("configs", &[&alice[..], &["--add-config", "producer_byte_rate=1000"]].concat());
}

/// The newest snapshot in the metadata log's directory.
fn newest_snapshot(kafka: &Kafka) -> PathBuf {
    let entries = std::fs::read_dir(kafka.data_dir().join("__cluster_metadata-0")).expect("there");
    let paths = entries.map(|entry| entry.expect("readable").path());
    let snapshots = paths.filter(|path| path.extension().is_some_and(|it| it == "checkpoint"));
    snapshots.max().expect("a snapshot")
}

/// Kafka runs; it ends, Pelton serves the same and adds to it; Kafka serves all of that.
fn round(kafka: &Kafka, settings: &[&str], how: End, name: &str) {
    let at = kafka.address();
    let (digest, described, listed) = (kafka.digest(), kafka.describe(), topics(Raw::connect(at)));
    kafka.end(how);
    let offsets = log_files(&kafka.data_dir(), "__consumer_offsets");

    let pelton = Pelton::start(kafka, &[]);
    assert_eq!(kafka.digest(), digest, "Pelton after Kafka, {how:?}");
    assert_eq!(topics(Raw::connect(at)), listed);
    create(at, name, 40, &[("retention.ms", "7200000")]);
    produce(at, name, 3, 30);
    produce(at, "orders", 3, 30);
    // A snapshot of Pelton's own: it looks twice a second.
    std::thread::sleep(Duration::from_millis(1500));
    let (digest, listed) = (kafka.digest(), topics(Raw::connect(at)));
    pelton.end(how);
    let after = log_files(&kafka.data_dir(), "__consumer_offsets");
    assert_eq!(after, offsets, "the committed offsets' files are not ours to touch");
    let dump = kafka.dump(&newest_snapshot(kafka));
    assert!(dump.contains(name), "the newest snapshot is Pelton's\n{dump}");
    assert!(!dump.contains("isvalid: false"), "{dump}");

    kafka.start(settings);
    assert_eq!(kafka.digest(), digest, "Kafka after Pelton, {how:?}");
    assert_eq!(topics(Raw::connect(at)), listed);
    let of_before = |line: &String| !line.contains(name);
    let now: Vec<String> = kafka.describe().into_iter().filter(of_before).collect();
    assert_eq!(now, described, "ids and settings");
    let complaints = kafka.complaints();
    let is_severe = |line: &&String| !line.contains(" WARN ");
    if how == End::Clean {
        assert!(complaints.is_empty(), "{complaints:#?}");
    } else {
        assert_eq!(complaints.iter().find(is_severe), None);
    }
}

// Goal: a directory of Kafka's goes to Pelton and back, after clean stops and after kills: records, offsets, topic ids, settings,
// committed offsets, credentials and quotas. Method: Kafka's own tools before and after.
#[test]
fn kafkas_directory_and_back() {
    let Some(kafka) = Kafka::find(23092) else { return };
    kafka.start(&SETTINGS);
    fill(&kafka);
    round(&kafka, &SETTINGS, End::Clean, "extra-a");
    assert_eq!(committed(kafka.address(), "orders"), Offset::Offset(17));
    let alice = ["--describe", "--entity-type", "users", "--entity-name", "alice"];
    let alice = kafka.tool("configs", &alice);
    assert!(alice.contains("SCRAM-SHA-256=iterations=4096"), "{alice}");
    assert!(alice.contains("producer_byte_rate=1000"), "{alice}");
    round(&kafka, &SETTINGS, End::Killed, "extra-b");
    assert_eq!(committed(kafka.address(), "orders"), Offset::Offset(17));
    kafka.end(End::Clean);
}

// Goal: the same with a static quorum (`kraft.version` 0), whose log and snapshots name no voters. Method: a directory formatted so.
#[test]
fn static_quorum() {
    let Some(kafka) = Kafka::find(23292) else { return };
    let voters = kafka.format_static();
    let settings = [&SETTINGS[..], &[voters.as_str()]].concat();
    kafka.start(&settings);
    create(kafka.address(), "orders", 3, &[]);
    produce(kafka.address(), "orders", 3, 30);
    commit(kafka.address(), "orders", 3);
    round(&kafka, &settings, End::Killed, "extra-c");
    let state = kafka.data_dir().join("__cluster_metadata-0/quorum-state");
    let state = std::fs::read_to_string(state).expect("there");
    assert!(state.contains("\"data_version\":0"), "{state}");
    kafka.end(End::Clean);
}

// Goal: a directory that Pelton made goes to Kafka and back. Method: Pelton alone at first, with settings that Kafka will have too.
#[test]
fn peltons_directory_and_back() {
    let Some(kafka) = Kafka::find(23492) else { return };
    std::fs::create_dir_all(kafka.data_dir()).expect("a directory");
    let at = kafka.address();
    kafka.write_properties(&SETTINGS);
    let pelton = Pelton::start(&kafka, &[]);
    create(at, "orders", 3, &[("retention.bytes", "100000000")]);
    create(at, "compacted", 2, &[("cleanup.policy", "compact")]);
    create(at, "gone", 2, &[]);
    produce(at, "orders", 3, 30);
    produce(at, "compacted", 2, 30);
    delete(at, "gone");
    let (digest, listed) = (kafka.digest(), topics(Raw::connect(at)));
    pelton.end(End::Clean);
    kafka.start(&SETTINGS);
    assert_eq!(kafka.digest(), digest);
    assert_eq!(topics(Raw::connect(at)), listed);
    let described = kafka.describe().join("\n");
    assert!(described.contains("cleanup.policy=compact"), "{described}");
    assert!(described.contains("retention.bytes=100000000"), "{described}");
    let complaints = kafka.complaints();
    assert!(complaints.is_empty(), "{complaints:#?}");
    commit(at, "orders", 5);
    round(&kafka, &SETTINGS, End::Clean, "extra-d");
    assert_eq!(committed(at, "orders"), Offset::Offset(5));
    kafka.end(End::Clean);
}
