//! Old records go: by retention, by DeleteRecords, with their topic. And they do not come back with a restart.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use kafka_protocol::messages::{ApiKey, FetchResponse, ListOffsetsResponse};
use pelton_tests::answer;
use pelton_tests::batch::{Batch, now_ms};
use pelton_tests::broker::{Broker, Options};
use pelton_tests::raw::Reply;
use pelton_tests::request::{
    Fetch, ListOffsets, MetadataTopic, Produce, delete_records, delete_topics,
};
use pelton_tests::topic::{self, TestTopic};

const HOUR_MS: i64 = 3_600_000;
const PATIENCE: Duration = Duration::from_secs(15);

fn broker(shards: usize) -> Option<Broker> {
    let settings = ["log.retention.check.interval.ms=100", "log.segment.delete.delay.ms=500"];
    let settings = settings.map(str::to_owned).to_vec();
    Broker::start_own(Options { shards, settings, ..Options::default() })
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn produce(broker: &Broker, topic: &TestTopic, records: i32, timestamp: i64) {
    let batch = Batch { base_timestamp: timestamp, ..Batch::of(records) };
    let Reply::Frame(frame) =
        broker.connect().ask(&Produce::to(topic.name.as_str(), batch.build()).frame())
    else {
        panic!("Produce is not answered");
    };
    let line = answer::summary(ApiKey::Produce, 7, &frame);
    assert!(line.starts_with("ok"), "{line}");
}

fn offset(broker: &Broker, topic: &str, partition: i32, timestamp: i64) -> i64 {
    let request =
        ListOffsets { partitions: vec![partition], ..ListOffsets::at(topic, 5, timestamp) };
    let Reply::Frame(frame) = broker.connect().ask(&request.frame()) else {
        panic!("ListOffsets is not answered");
    };
    let answer: ListOffsetsResponse =
        answer::decode(ApiKey::ListOffsets, 5, &frame).expect("ListOffsets decodes");
    answer.topics[0].partitions[0].offset
}

fn earliest(broker: &Broker, topic: &TestTopic) -> i64 {
    offset(broker, &topic.name, 0, -2)
}

fn latest(broker: &Broker, topic: &TestTopic) -> i64 {
    offset(broker, &topic.name, 0, -1)
}

fn names(broker: &Broker, topic: &TestTopic) -> Vec<String> {
    let directory: PathBuf = broker.data_dir().join(format!("{}-0", topic.name));
    let entries = std::fs::read_dir(directory).expect("the partition's directory");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn deletes(broker: &Broker, version: i16, topic: &str, partitions: &[(i32, i64)]) -> String {
    match broker.connect().ask(&delete_records(version, topic, partitions)) {
        Reply::Frame(frame) => answer::summary(ApiKey::DeleteRecords, version, &frame),
        Reply::Closed | Reply::Silence => panic!("DeleteRecords is not answered"),
    }
}

/// Goal: segments past retention.ms go, offsets move, files are freed, and nothing comes back after a kill. Method: three
/// batches an hour and more apart, which segment.ms puts into segments of their own; only the youngest may stay.
#[test]
fn by_time() {
    let Some(mut broker) = broker(1) else { return };
    let settings = [("retention.ms", "3600000"), ("segment.ms", "60000")];
    let topic = topic::create_with(&broker, "aging", 1, &settings);
    let emptied = topic::create_with(&broker, "aged", 1, &settings);
    let now = now_ms();
    for (records, timestamp) in [(3, now - 3 * HOUR_MS), (2, now - 2 * HOUR_MS), (4, now)] {
        produce(&broker, &topic, records, timestamp);
    }
    produce(&broker, &emptied, 7, now - 3 * HOUR_MS);
    until("the old segments go", || earliest(&broker, &topic) == 5);
    until("the last segment is rolled and goes", || earliest(&broker, &emptied) == 7);
    until("deleted files are removed", || {
        let mut names = names(&broker, &topic);
        names.extend(self::names(&broker, &emptied));
        !names.iter().any(|name| name.ends_with(".deleted"))
    });
    let segments = |topic| {
        let names = names(&broker, topic).into_iter();
        names.filter(|name| name.ends_with(".log")).collect::<Vec<_>>()
    };
    assert_eq!(segments(&topic), ["00000000000000000005.log"]);
    assert_eq!(segments(&emptied), ["00000000000000000007.log"]);
    broker.kill();
    broker.start_again();
    assert_eq!((earliest(&broker, &topic), latest(&broker, &topic)), (5, 9));
    assert_eq!((earliest(&broker, &emptied), latest(&broker, &emptied)), (7, 7));
    produce(&broker, &emptied, 1, now_ms());
    assert_eq!((earliest(&broker, &emptied), latest(&broker, &emptied)), (7, 8));
}

/// Goal: DeleteRecords answers as Apache Kafka does. Method: a table of partitions and offsets, in every version; two
/// shards, so that requests cross them.
#[test]
fn delete_records_answers() {
    let Some(broker) = broker(2) else { return };
    let topic = topic::create_with(&broker, "cut", 3, &[]);
    let compacted = topic::create_with(&broker, "kept", 1, &[("cleanup.policy", "compact")]);
    let both = topic::create_with(&broker, "both", 1, &[("cleanup.policy", "compact,delete")]);
    for partition in 0..3 {
        topic::seed(&broker, &topic, partition, 10);
    }
    topic::seed(&broker, &compacted, 0, 10);
    topic::seed(&broker, &both, 0, 10);
    let check = |version, topic: &str, partitions: &[(i32, i64)], expected: &str| {
        let line = deletes(&broker, version, topic, partitions);
        assert_eq!(line, expected, "v{version} {partitions:?}");
    };
    let name = topic.name.as_str();
    check(0, name, &[(0, 0)], "ok; low 0");
    check(0, name, &[(0, 3), (1, 5), (2, 11)], "OffsetOutOfRange; low 3 5 -1");
    check(1, name, &[(0, 2)], "ok; low 3");
    check(2, name, &[(0, -2), (1, 6)], "OffsetOutOfRange; low -1 6");
    check(2, name, &[(9, 0), (2, -1)], "UnknownTopicOrPartition; low -1 10");
    check(2, name, &[(0, 10)], "ok; low 10");
    check(2, "nobody", &[(0, 0)], "UnknownTopicOrPartition; low -1");
    check(2, &compacted.name, &[(0, 5)], "PolicyViolation; low -1");
    check(2, &both.name, &[(0, 5)], "ok; low 5");
    for (partition, expected) in [(0, 10), (1, 6), (2, 10)] {
        assert_eq!(offset(&broker, name, partition, -2), expected, "partition {partition}");
        assert_eq!(offset(&broker, name, partition, -1), 10);
    }
}

/// Goal: a log start that a client was told of survives a kill. Method: kill right after the answer; the segment holds all
/// records, so only the checkpoint can tell.
#[test]
fn deleted_records_stay_deleted() {
    let Some(mut broker) = broker(2) else { return };
    let topic = topic::create_with(&broker, "gone", 4, &[]);
    for partition in 0..4 {
        topic::seed(&broker, &topic, partition, 10);
    }
    for round in 1..4 {
        let partitions: Vec<(i32, i64)> = (0..4).map(|index| (index, round * 2)).collect();
        let line = deletes(&broker, 2, &topic.name, &partitions);
        assert!(line.starts_with("ok"), "{line}");
        broker.kill();
        broker.start_again();
        for partition in 0..4 {
            assert_eq!(offset(&broker, &topic.name, partition, -2), round * 2);
            assert_eq!(offset(&broker, &topic.name, partition, -1), 10);
        }
    }
}

/// Goal: a fetch that waits below the new log start is told so at once. Method: one that would wait for a minute.
#[test]
fn waiting_fetches_are_answered() {
    let Some(broker) = broker(1) else { return };
    let topic = topic::create(&broker, "watched");
    topic::seed(&broker, &topic, 0, 10);
    let fetch =
        Fetch { max_wait_ms: 60_000, min_bytes: 1_000_000, ..Fetch::of(topic.name.as_str()) };
    let mut waiting = broker.connect();
    assert!(waiting.send(&fetch.frame()));
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(deletes(&broker, 2, &topic.name, &[(0, 4)]), "ok; low 4");
    let Reply::Frame(frame) = waiting.receive(Duration::from_secs(10)) else {
        panic!("the fetch is not answered");
    };
    let answer: FetchResponse =
        answer::decode(ApiKey::Fetch, fetch.version, &frame).expect("Fetch decodes");
    let partition = &answer.responses[0].partitions[0];
    assert_eq!(partition.error_code, 1, "OFFSET_OUT_OF_RANGE");
}

/// Goal: deleting a topic frees its files, after the delay and under another name until then. Method: list the data
/// directory; what a kill leaves goes with the next start.
#[test]
fn deleted_topics_leave_nothing() {
    let Some(mut broker) = broker(2) else { return };
    let directories = |broker: &Broker| {
        let entries = std::fs::read_dir(broker.data_dir()).expect("the data directory");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let names = names.map(|name| name.to_string_lossy().into_owned());
        names.filter(|name| name.contains("short-lived")).collect::<Vec<_>>()
    };
    for delay in ["1000", "600000"] {
        let settings = [("file.delete.delay.ms", delay)];
        let topic = topic::create_with(&broker, "short-lived", 3, &settings);
        topic::seed(&broker, &topic, 1, 10);
        let named = MetadataTopic { name: Some(topic.name.clone()), id: [0; 16] };
        let asked = delete_topics(6, &[named]);
        assert!(matches!(broker.connect().ask(&asked), Reply::Frame(_)));
        let doomed = directories(&broker);
        assert_eq!(doomed.len(), 3);
        assert!(doomed.iter().all(|name| name.ends_with("-delete")), "{doomed:?}");
        if delay == "600000" {
            broker.kill();
            broker.start_again();
        }
        until("the directories are removed", || directories(&broker).is_empty());
    }
}
