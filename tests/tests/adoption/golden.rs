//! A directory that Apache Kafka 4.3.1 left: its metadata log, a snapshot of it, what formatting wrote.
//!
//! It had topics of several kinds (one deleted, one grown), a SCRAM credential, a quota, an ACL, settings of brokers and of client
//! metrics; and never a no-op record, so that it is small.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use pelton_machine::image::MetadataImage;
use pelton_model::batch::Batches;
use pelton_model::record_type::metadata::MetadataRecord;
use pelton_model::{LeaderEpoch, Offset};
use pelton_protocol::metadata_record::{LogRecord, records_of};
use pelton_protocol::metadata_snapshot::SnapshotReader;
use pelton_tests::broker::{Broker, Options};
use pelton_tests::peer::own_file;

use super::topics;

const FOLDER: &str = "golden/kafka-4.3.1-metadata";
const SNAPSHOT_END: i64 = 79;

fn file(name: &str) -> Bytes {
    let path = own_file(FOLDER).join("__cluster_metadata-0").join(name);
    std::fs::read(path).expect("checked in").into()
}

fn replay(image: &mut MetadataImage, log: &Bytes, offsets: std::ops::Range<i64>) {
    for batch in Batches::new(log) {
        let batch = log.slice_ref(batch.expect("whole").1);
        for entry in records_of(&batch).expect("known") {
            if !offsets.contains(&entry.offset.0) {
                continue;
            }
            match entry.record {
                LogRecord::Metadata(record) => {
                    image.replay(entry.offset, entry.epoch, &record).expect("in order");
                }
                LogRecord::Control(_) => image.advance(entry.offset, entry.epoch),
            }
        }
    }
}

fn of_snapshot() -> MetadataImage {
    let bytes = file("00000000000000000079-0000000001.checkpoint");
    let mut image = MetadataImage::new();
    for entry in SnapshotReader::new(&bytes) {
        let entry = entry.expect("whole");
        if let LogRecord::Metadata(record) = entry.record {
            image.replay(entry.offset, entry.epoch, &record).expect("in order");
        }
    }
    image.stand_at(Offset(SNAPSHOT_END), LeaderEpoch(1));
    image
}

/// The state as records; features of registrations in the order of names, since Kafka writes them in any order.
fn records(image: &MetadataImage) -> Vec<MetadataRecord> {
    let mut records = image.to_records();
    for record in &mut records {
        match record {
            MetadataRecord::RegisterBroker(record) => {
                record.features.sort_by(|a, b| a.name.cmp(&b.name));
            }
            MetadataRecord::RegisterController(record) => {
                record.features.sort_by(|a, b| a.name.cmp(&b.name));
            }
            _ => {}
        }
    }
    records
}

// Goal: what Kafka thinks its log comes to is what we think. Method: Kafka's snapshot against our replay of Kafka's log up to it, and
// against the rest of the log behind both.
#[test]
fn kafkas_snapshot_is_our_replay() {
    let log = file("00000000000000000000.log");
    let mut replayed = MetadataImage::new();
    replay(&mut replayed, &log, 0..SNAPSHOT_END);
    let mut image = of_snapshot();
    assert_eq!(records(&image), records(&replayed));
    replay(&mut replayed, &log, SNAPSHOT_END..i64::MAX);
    replay(&mut image, &log, SNAPSHOT_END..i64::MAX);
    assert_eq!(records(&image), records(&replayed));
    assert_eq!(image.applied(), replayed.applied());
    assert!(image.scram_credential("alice", 1).is_some());
    assert_eq!((image.acls().count(), image.client_quotas().count()), (1, 1));
    assert!(image.topic_by_name("gone").is_none());
    let orders = image.topic_by_name("orders").expect("a topic");
    assert_eq!(orders.partition_count(), 3);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a temp dir");
    for entry in std::fs::read_dir(from).expect("checked in") {
        let entry = entry.expect("readable");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("copied");
        }
    }
}

// Goal: Pelton starts on Kafka's directory and serves its topics under their ids, again and again. Method: a copy; clean and unclean
// restarts; then with the snapshot damaged, which the log from 0 makes up for.
#[test]
fn start_on_kafkas_directory() {
    let directory = tempfile::tempdir().expect("a temp dir");
    copy(&own_file(FOLDER), directory.path());
    let log = file("00000000000000000000.log");
    let mut image = MetadataImage::new();
    replay(&mut image, &log, 0..i64::MAX);
    let expected: BTreeMap<String, ([u8; 16], usize)> = image
        .topics()
        .map(|topic| {
            let count = usize::try_from(topic.partition_count()).expect("a count");
            (topic.name().to_owned(), (topic.id().0, count))
        })
        .collect();
    let snapshot =
        directory.path().join("__cluster_metadata-0/00000000000000000079-0000000001.checkpoint");
    let mut broker = Broker::start_in(directory, Options::default());
    assert_eq!(topics(broker.connect()), expected);
    broker.kill();
    broker.start_again();
    assert_eq!(topics(broker.connect()), expected);
    broker.stop();
    let mut bytes = std::fs::read(&snapshot).expect("still there");
    bytes[2000] ^= 1;
    std::fs::write(&snapshot, bytes).expect("written");
    broker.start_again();
    assert_eq!(topics(broker.connect()), expected);
    assert!(broker.stderr().contains("damaged"), "{}", broker.stderr());
    assert!(broker.stop().success());
}
