//! AlterReplicaLogDirs: partitions move between directories under load, slowly, into a kill, and into a deletion.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use kafka_protocol::messages::{ApiKey, DescribeLogDirsResponse, FetchResponse};
use pelton_tests::admin::alter_replica_log_dirs;
use pelton_tests::answer;
use pelton_tests::batch::{Batch, Record};
use pelton_tests::broker::{Broker, Options};
use pelton_tests::raw::Reply;
use pelton_tests::request::{Fetch, MetadataTopic, Produce, delete_topics, describe_log_dirs};

use crate::{Dirs, create, eventually, partitions_in};

/// So slow that a test sees a move under way.
pub(crate) const SLOW: &str = "replica.alter.log.dirs.io.max.bytes.per.second=400000";
/// Batches that a move of so much takes seconds for, at that rate.
const BATCHES: usize = 100;

impl Dirs {
    pub(crate) fn path(&self, index: usize) -> &str {
        self.paths[index].to_str().expect("UTF-8")
    }
}

/// Asks for partitions of `t` to lie in a directory; the answer's line.
pub(crate) fn move_to(broker: &Broker, path: &str, partitions: &[i32]) -> String {
    let topics = [("t", partitions.to_vec())];
    let frame = alter_replica_log_dirs(2, &[(path, &topics)]);
    let Reply::Frame(frame) = broker.connect().ask(&frame) else {
        panic!("AlterReplicaLogDirs is not answered")
    };
    answer::summary(ApiKey::AlterReplicaLogDirs, 2, &frame)
}

/// The copies that are being made, and how far each is behind.
pub(crate) fn copies(broker: &Broker) -> Vec<(usize, i32, i64)> {
    let Reply::Frame(frame) = broker.connect().ask(&describe_log_dirs(4, None)) else {
        panic!("DescribeLogDirs is not answered")
    };
    let answer: DescribeLogDirsResponse =
        answer::decode(ApiKey::DescribeLogDirs, 4, &frame).expect("decodes");
    let mut found = Vec::new();
    for (index, dir) in answer.results.iter().enumerate() {
        let partitions = dir.topics.iter().flat_map(|topic| &topic.partitions);
        let copies = partitions.filter(|partition| partition.is_future_key);
        found.extend(copies.map(|copy| (index, copy.partition_index, copy.offset_lag)));
    }
    found
}

/// Produces a batch of some size; the offset of its first record.
pub(crate) fn produce_batch(broker: &Broker, partition: i32, size: usize) -> i64 {
    let record = Record { value: Some(vec![b'v'; size]), ..Record::at(0) };
    let batch = Batch::with(vec![record]).build();
    let request =
        Produce { partitions: vec![(partition, Some(batch))], ..Produce::to("t", Vec::new()) };
    let Reply::Frame(frame) = broker.connect().ask(&request.frame()) else {
        panic!("Produce is not answered")
    };
    let line = answer::summary(ApiKey::Produce, 7, &frame);
    let base = line.strip_prefix("ok; base ").and_then(|rest| rest.split(';').next());
    base.and_then(|base| base.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

/// All records of a partition from an offset on, as they come, and the high watermark.
fn read_all(broker: &Broker, partition: i32) -> (Vec<u8>, i64) {
    let mut connection = broker.connect();
    let (mut bytes, mut offset) = (Vec::new(), 0);
    loop {
        let fetch = Fetch { partition, offset, max_wait_ms: 0, ..Fetch::of("t") };
        let Reply::Frame(frame) = connection.ask(&fetch.frame()) else {
            panic!("Fetch is not answered")
        };
        let answer: FetchResponse =
            answer::decode(ApiKey::Fetch, fetch.version, &frame).expect("decodes");
        let part = &answer.responses[0].partitions[0];
        assert_eq!(part.error_code, 0);
        let records = part.records.clone().unwrap_or_default();
        if records.is_empty() {
            return (bytes, part.high_watermark);
        }
        offset = end_of(&records);
        bytes.extend_from_slice(&records);
    }
}

/// The offset behind the last whole batch.
fn end_of(records: &[u8]) -> i64 {
    let (mut at, mut end) = (0, 0);
    while at + 61 <= records.len() {
        let size = u32::from_be_bytes(records[at + 8..at + 12].try_into().expect("four bytes"));
        let base = i64::from_be_bytes(records[at..at + 8].try_into().expect("eight bytes"));
        let delta = i32::from_be_bytes(records[at + 23..at + 27].try_into().expect("four bytes"));
        at += 12 + size as usize;
        assert!(end == 0 || base == end, "nothing is missing between {end} and {base}");
        end = base + i64::from(delta) + 1;
    }
    assert_eq!(at, records.len(), "whole batches");
    end
}

/// Waits until every partition of `t` in `expected` lies where it says, and no copy is left.
pub(crate) fn await_places(dirs: &Dirs, expected: [&[&str]; 2]) {
    eventually(&format!("partitions lie in {expected:?}"), || dirs.partitions("t") == expected);
}

/// Goal: a move loses and changes nothing, whatever is written meanwhile, and the partition is whole by itself afterwards. Method: writers
/// go on through moves there and back; what is read is compared before and after a kill.
#[test]
fn under_load() {
    let dirs = Dirs::new(&["a", "b"]);
    let Some(mut broker) = dirs.start() else { return };
    assert_eq!(create(&broker, "t", 2), "ok; topics 1");
    await_places(&dirs, [&["0"], &["1"]]);
    for _ in 0..40 {
        produce_batch(&broker, 0, 100_000);
    }
    let is_done = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut last = 0;
            while !is_done.load(Ordering::Relaxed) {
                last = produce_batch(&broker, 0, 1_000);
            }
            last + 1
        });
        for round in 0..3 {
            assert_eq!(move_to(&broker, dirs.path(1), &[0, 1]), "ok; partitions 2", "{round}");
            await_places(&dirs, [&[], &["0", "1"]]);
            assert_eq!(move_to(&broker, dirs.path(0), &[0]), "ok; partitions 1", "{round}");
            await_places(&dirs, [&["0"], &["1"]]);
        }
        is_done.store(true, Ordering::Relaxed);
        writer.join().expect("the writer goes on")
    });
    assert_eq!(copies(&broker), []);
    let before = read_all(&broker, 0);
    assert_eq!((before.1, end_of(&before.0)), (written, written));
    broker.kill();
    broker.start_again();
    assert_eq!(dirs.partitions("t"), [["0"], ["1"]]);
    assert!(read_all(&broker, 0) == before, "what was acknowledged is there");
    assert_eq!(produce_batch(&broker, 0, 10), written);
}

/// Goal: a copy is told of while it is made; a move can be called off, survives the end of the process, clean or not, and a deletion of its
/// topic leaves nothing. Method: a slow move.
#[test]
fn slowly() {
    let dirs = Dirs::new(&["a", "b"]);
    let options = Options { settings: vec![SLOW.to_owned()], ..dirs.options() };
    let Some(mut broker) = Broker::start_own(options) else { return };
    assert_eq!(create(&broker, "t", 1), "ok; topics 1");
    for _ in 0..BATCHES {
        produce_batch(&broker, 0, 50_000);
    }
    let before = read_all(&broker, 0);
    let is_under_way = |broker: &Broker| {
        let copies = copies(broker);
        matches!(copies[..], [(1, 0, lag)] if lag > 0)
    };
    let begin = |broker: &Broker| {
        assert_eq!(move_to(broker, dirs.path(1), &[0]), "ok; partitions 1");
        assert!(is_under_way(broker), "{:?}", copies(broker));
        // Asking again changes nothing.
        assert_eq!(move_to(broker, dirs.path(1), &[0]), "ok; partitions 1");
        assert!(is_under_way(broker), "{:?}", copies(broker));
    };
    begin(&broker);
    assert_eq!(move_to(&broker, dirs.path(0), &[0]), "ok; partitions 1");
    assert_eq!(copies(&broker), [], "called off");
    eventually("the copy is removed", || partitions_in(&dirs.paths[1], "t").is_empty());

    begin(&broker);
    broker.kill();
    broker.start_again();
    eventually("it goes on after a kill", || is_under_way(&broker));
    assert!(broker.stop().success());
    broker.start_again();
    eventually("it goes on after a stop", || is_under_way(&broker));
    assert!(read_all(&broker, 0) == before);
    assert!(broker.stop().success());
    broker.set("replica.alter.log.dirs.io.max.bytes.per.second=100000000");
    broker.start_again();
    await_places(&dirs, [&[], &["0"]]);
    assert!(read_all(&broker, 0) == before);

    assert!(broker.stop().success());
    broker.set(SLOW);
    broker.start_again();
    assert_eq!(move_to(&broker, dirs.path(0), &[0]), "ok; partitions 1");
    let topic = MetadataTopic { name: Some("t".to_owned()), id: [0; 16] };
    let deleted = broker.connect().ask(&delete_topics(4, &[topic]));
    assert!(matches!(deleted, Reply::Frame(_)));
    eventually("nothing is left", || dirs.partitions("t").iter().all(Vec::is_empty));
    assert_eq!(copies(&broker), []);
}

/// Goal: what a crash leaves in the midst of the exchange is sorted out: the directory that the metadata names is the partition's. Method: the
/// other directory gets a copy of it, as it would be there.
#[test]
fn found_twice() {
    let dirs = Dirs::new(&["a", "b"]);
    let Some(mut broker) = dirs.start() else { return };
    assert_eq!(create(&broker, "t", 1), "ok; topics 1");
    produce_batch(&broker, 0, 10);
    assert_eq!(move_to(&broker, dirs.path(1), &[0]), "ok; partitions 1");
    await_places(&dirs, [&[], &["0"]]);
    assert!(broker.stop().success());
    copy_dir(&dirs.paths[1].join("t-0"), &dirs.paths[0].join("t-0"));
    broker.start_again();
    let [old, new] = [&dirs.paths[0], &dirs.paths[1]].map(|path| partitions_in(path, "t"));
    assert_eq!(new, ["0"]);
    assert!(old.iter().all(|name| name.ends_with("-stray")), "{old:?}");
    assert_eq!(produce_batch(&broker, 0, 10), 1);
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir(to).expect("it is not there");
    for entry in fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
    }
}

/// Goal: Kafka's codes for directories and partitions that are none, each item by itself. Method: a table, as a real Kafka answered it.
#[test]
fn refusals() {
    let dirs = Dirs::new(&["a", "b", "c"]);
    let cordoned = format!("cordoned.log.dirs={}", dirs.path(2));
    let options = Options { settings: vec![cordoned], ..dirs.options() };
    let Some(broker) = Broker::start_own(options) else { return };
    assert_eq!(create(&broker, "t", 2), "ok; topics 1");
    let long = "L".repeat(249);
    assert_eq!(create(&broker, &long, 1), "ok; topics 1");
    let (a, b, c) = (dirs.path(0), dirs.path(1), dirs.path(2));
    let slash = format!("{a}/");
    let t = |partitions: &[i32]| vec![("t", partitions.to_vec())];
    let unknown = "UnknownTopicOrPartition";
    type Case<'a> = (&'a str, Vec<(&'a str, Vec<(&'a str, Vec<i32>)>)>, String);
    let cases: Vec<Case<'_>> = vec![
        ("nothing", vec![], "ok; partitions 0".to_owned()),
        (
            "no such directory",
            vec![("/nowhere", t(&[0]))],
            "LogDirNotFound; partitions 1".to_owned(),
        ),
        ("a relative path", vec![("a", t(&[0]))], "LogDirNotFound; partitions 1".to_owned()),
        ("a slash behind", vec![(&slash, t(&[0]))], "LogDirNotFound; partitions 1".to_owned()),
        ("no path", vec![("", t(&[0]))], "LogDirNotFound; partitions 1".to_owned()),
        ("cordoned", vec![(c, t(&[0]))], "InvalidReplicaAssignment; partitions 1".to_owned()),
        (
            "no such partitions",
            vec![(a, t(&[-1, 0, 9]))],
            format!("{unknown} {unknown}; partitions 3"),
        ),
        ("no such topic", vec![(a, vec![("nobody", vec![0])])], format!("{unknown}; partitions 1")),
        (
            "a long name",
            vec![(a, vec![(&long, vec![0])])],
            "InvalidTopicException; partitions 1".to_owned(),
        ),
        ("where it is", vec![(a, t(&[0])), (b, t(&[1]))], "ok; partitions 2".to_owned()),
        ("the last one counts", vec![(b, t(&[0])), (a, t(&[0, 0]))], "ok; partitions 1".to_owned()),
        (
            "some",
            vec![(a, t(&[0])), ("/nowhere", t(&[1]))],
            "LogDirNotFound; partitions 2".to_owned(),
        ),
    ];
    for (name, wanted, expected) in cases {
        let wanted: Vec<(&str, &pelton_tests::admin::Partitions<'_>)> =
            wanted.iter().map(|(path, topics)| (*path, &topics[..])).collect();
        for version in 1..=2 {
            let frame = alter_replica_log_dirs(version, &wanted);
            let Reply::Frame(frame) = broker.connect().ask(&frame) else {
                panic!("{name}: not answered")
            };
            let line = answer::summary(ApiKey::AlterReplicaLogDirs, version, &frame);
            assert_eq!(line, expected, "{name}, version {version}");
        }
    }
    await_places_of_three(&dirs);
}

fn await_places_of_three(dirs: &Dirs) {
    let places = dirs.partitions("t");
    assert_eq!(places, [vec!["0".to_owned()], vec!["1".to_owned()], Vec::new()]);
}
