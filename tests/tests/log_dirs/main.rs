//! Several log directories in a real process: starts, refusals, failures at run time, and what clients are told of them.

mod describe;
mod failure;
mod moves;
mod start;
mod transactions;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kafka_protocol::messages::{ApiKey, MetadataResponse};
use pelton_tests::answer;
use pelton_tests::batch::Batch;
use pelton_tests::broker::{Broker, Options};
use pelton_tests::raw::Reply;
use pelton_tests::request::{Fetch, NewTopic, Produce, create_topics, metadata_of};
use tempfile::TempDir;

/// How long the broker may take to notice that a directory is gone.
const NOTICE: Duration = Duration::from_secs(15);

/// A few directories below one temporary one.
struct Dirs {
    root: TempDir,
    paths: Vec<PathBuf>,
}

impl Dirs {
    fn new(names: &[&str]) -> Self {
        let root = tempfile::Builder::new().prefix("pelton-dirs-").tempdir().expect("a temp dir");
        let paths = names.iter().map(|name| root.path().join(name)).collect();
        Self { root, paths }
    }

    fn options(&self) -> Options {
        Options { shards: 2, directories: self.paths.clone(), ..Options::default() }
    }

    fn start(&self) -> Option<Broker> {
        Broker::start_own(self.options())
    }

    /// The names of the partitions of `topic` in each directory.
    fn partitions(&self, topic: &str) -> Vec<Vec<String>> {
        self.paths.iter().map(|path| partitions_in(path, topic)).collect()
    }
}

fn partitions_in(path: &Path, topic: &str) -> Vec<String> {
    let prefix = format!("{topic}-");
    let mut names: Vec<String> = fs::read_dir(path)
        .into_iter()
        .flatten()
        .map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8"))
        .filter_map(|name| name.strip_prefix(&prefix).map(str::to_owned))
        // What was deleted stays for a while.
        .filter(|name| !name.ends_with("-delete"))
        .collect();
    names.sort();
    names
}

/// A line of `meta.properties`.
fn property(dir: &Path, key: &str) -> String {
    let text = fs::read_to_string(dir.join("meta.properties")).expect("an identity");
    let found = text.lines().find_map(|line| line.strip_prefix(&format!("{key}=")));
    found.unwrap_or_else(|| panic!("{key} in {text}")).to_owned()
}

/// The errors of a batch for one partition, and its base offset.
fn produce(broker: &Broker, topic: &str, partition: i32) -> String {
    let partitions = vec![(partition, Some(Batch::of(2).build()))];
    let request = Produce { partitions, ..Produce::to(topic, Vec::new()) };
    let Reply::Frame(frame) = broker.connect().ask(&request.frame()) else {
        panic!("Produce is not answered")
    };
    let line = answer::summary(ApiKey::Produce, 7, &frame);
    line.split("; time").next().unwrap_or_default().to_owned()
}

/// The errors and the high watermark of a fetch from the beginning of one partition.
fn fetch(broker: &Broker, topic: &str, partition: i32) -> String {
    let request = Fetch { partition, ..Fetch::of(topic) };
    let version = request.version;
    let Reply::Frame(frame) = broker.connect().ask(&request.frame()) else {
        panic!("Fetch is not answered")
    };
    let line = answer::summary(ApiKey::Fetch, version, &frame);
    line.split("; stable").next().unwrap_or_default().to_owned()
}

/// Error, leader and offline replicas of each partition of a topic.
fn described(broker: &Broker, topic: &str) -> Vec<(i16, i32, Vec<i32>)> {
    let Reply::Frame(frame) = broker.connect().ask(&metadata_of(9, topic)) else {
        panic!("Metadata is not answered")
    };
    let answer: MetadataResponse = answer::decode(ApiKey::Metadata, 9, &frame).expect("decodes");
    let mut partitions = answer.topics[0].partitions.clone();
    partitions.sort_by_key(|partition| partition.partition_index);
    let of =
        |partition: &kafka_protocol::messages::metadata_response::MetadataResponsePartition| {
            let offline = partition.offline_replicas.iter().map(|node| node.0).collect();
            (partition.error_code, partition.leader_id.0, offline)
        };
    partitions.iter().map(of).collect()
}

/// What [`described`] says of a partition that is served, and of one whose directory is gone.
fn served() -> (i16, i32, Vec<i32>) {
    (0, 1, Vec::new())
}

fn offline() -> (i16, i32, Vec<i32>) {
    // LEADER_NOT_AVAILABLE
    (5, -1, vec![1])
}

/// The answer to a CreateTopics for one topic.
fn create(broker: &Broker, topic: &str, partitions: i32) -> String {
    let topic = NewTopic { partitions, ..NewTopic::named(topic) };
    let Reply::Frame(frame) = broker.connect().ask(&create_topics(7, &[topic], false)) else {
        panic!("CreateTopics is not answered")
    };
    answer::summary(ApiKey::CreateTopics, 7, &frame)
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + NOTICE;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}: not within {NOTICE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
