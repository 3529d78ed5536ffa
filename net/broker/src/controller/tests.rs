//! Starting from snapshot and log, on the disk in memory; damage of every file; the retention of snapshots.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_lite::future::block_on;
use pelton_machine::controller::{
    BrokerStart, QuorumStart, quorum_records, start_with, supported_features,
};
use pelton_machine::image::MetadataImage;
use pelton_model::batch::{BatchBuilder, BatchHeader, BuilderOptions};
use pelton_model::config::broker::{BrokerConfig, single_node_settings};
use pelton_model::config::metadata_log::MetadataLogConfig;
use pelton_model::record_type::control::ControlRecord;
use pelton_model::record_type::metadata::{
    AccessControlEntryRecord, MetadataRecord, RemoveTopicRecord, TopicRecord,
};
use pelton_model::{LeaderEpoch, Monotonic, NodeId, Offset, PartitionId, Timestamp, TopicId};
use pelton_protocol::metadata_record::{batch_of, control_batch_of};
use pelton_protocol::metadata_snapshot::{SnapshotId, encode};
use pelton_storage::disk::memory::MemoryDisk;
use pelton_storage::disk::{Disk, DiskFile, OpenMode};
use pelton_storage::{
    BatchFacts, Inventory, Log, LogConfig, LogStore, MetaProperties, OpenOptions, PartitionDir,
};

use super::load::{LoadOptions, Loaded, load};
use super::restore::{SnapshotFacts, Snapshots};
use super::snapshot::{first_to_keep, write_file};
use crate::boot::{BootError, Identity, Opening};

const NODE: NodeId = NodeId(1);
const DIRECTORY_ID: TopicId = TopicId([100; 16]);
const BOOTSTRAP: &[u8] =
    include_bytes!("../../../../core/protocol/tests/golden/bootstrap.kafka-4.3.1.checkpoint.bin");
const FORMATTED: &[u8] =
    include_bytes!("../../../../core/protocol/tests/golden/snapshot.kafka-4.3.1.checkpoint.bin");

/// A data directory in memory with the metadata log of one node.
struct Rig {
    store: LogStore<MemoryDisk>,
    config: MetadataLogConfig,
    /// The partitions beside the metadata log.
    partitions: Vec<&'static str>,
    /// The offset of each topic's record, and the log's end.
    ends: Vec<i64>,
}

fn directory() -> PathBuf {
    PathBuf::from("/data/__cluster_metadata-0")
}

fn node() -> QuorumStart {
    QuorumStart {
        node_id: NODE,
        directory_id: DIRECTORY_ID,
        endpoints: Vec::new(),
    }
}

fn config(settings: &[(&str, &str)]) -> MetadataLogConfig {
    let mut set = single_node_settings();
    let given = settings.iter();
    set.extend(given.map(|&(name, value)| (name.to_owned(), value.to_owned())));
    BrokerConfig::resolve(set, "host").unwrap().metadata_log
}

fn topic(number: u8) -> MetadataRecord {
    let record = TopicRecord {
        name: format!("topic-{number}"),
        topic_id: TopicId([number; 16]),
    };
    record.into()
}

impl Rig {
    fn new() -> Self {
        // A segment holds about two batches.
        let config = config(&[("internal.metadata.log.segment.bytes", "250")]);
        Self {
            store: LogStore::new(MemoryDisk::new()),
            config,
            partitions: Vec::new(),
            ends: Vec::new(),
        }
    }

    fn disk(&self) -> &MemoryDisk {
        self.store.disk()
    }

    fn names(&self) -> Vec<String> {
        let entries = block_on(self.disk().read_dir(&directory())).unwrap_or_default();
        let mut names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
        names.sort();
        names
    }

    fn put(&self, path: &Path, contents: &[u8]) {
        block_on(async {
            let parent = path.parent().unwrap();
            self.disk().create_dir_all(parent).await.unwrap();
            let file = self.disk().open(path, OpenMode::Truncate).await.unwrap();
            let contents = Bytes::copy_from_slice(contents);
            file.write_all_at(&[contents], 0).await.unwrap();
        });
    }

    fn opening(&self) -> Opening {
        let found = |topic: &str, path| PartitionDir {
            path,
            topic: topic.to_owned(),
            partition: PartitionId(0),
            topic_id: None,
            recovery_point: Offset::ZERO,
            log_start: None,
            high_watermark: None,
            cleaned_to: None,
            manifest: None,
        };
        let mut partitions: Vec<PartitionDir> = Vec::new();
        if !self.names().is_empty() {
            partitions.push(found("__cluster_metadata", directory()));
        }
        for topic in &self.partitions {
            partitions.push(found(topic, PathBuf::from(format!("/data/{topic}-0"))));
        }
        let inventory = Inventory {
            futures: Vec::new(),
            meta: MetaProperties {
                cluster_id: "c".to_owned(),
                node_id: NODE,
                directory_id: DIRECTORY_ID,
            },
            clean: false,
            broker_epoch: None,
            partitions,
            deleted: Vec::new(),
        };
        let identity = Identity {
            node_id: NODE,
            cluster_id: "c".to_owned(),
            directories: Vec::new(),
            endpoints: Vec::new(),
            core_endpoints: Vec::new(),
        };
        Opening::new(Arc::new(identity), vec![Some(inventory)])
    }

    fn load(&self) -> Result<Loaded<MemoryDisk>, BootError> {
        let opening = self.opening();
        let options = LoadOptions {
            directory: directory(),
            opening: &opening,
            config: &self.config,
            node: &node(),
            now: Timestamp(1),
        };
        block_on(load(&self.store, options))
    }

    /// Loads a log that is in order, and gives the image.
    fn image(&self) -> MetadataImage {
        let loaded = self.load().unwrap_or_else(|error| panic!("{error}"));
        loaded.state.image
    }

    /// Appends one batch for each of `records` as the controller does.
    fn append(&self, batches: &[Bytes]) {
        block_on(async {
            let config = LogConfig {
                segment_size_bytes_max: self.config.segment_bytes,
                ..LogConfig::default()
            };
            let options = OpenOptions {
                config,
                recovery_point: Offset::ZERO,
                clean: false,
                log_start: None,
            };
            let opened = Log::open(&self.store, &directory(), options).await;
            let (log, _) = opened.unwrap();
            for batch in batches {
                let header = BatchHeader::parse(batch).unwrap();
                let facts = BatchFacts {
                    base_offset: header.base_offset,
                    last_offset: header.last_offset(),
                    max_timestamp: header.max_timestamp,
                    leader_epoch: header.leader_epoch,
                };
                log.append(std::slice::from_ref(batch), &[facts])
                    .await
                    .unwrap();
            }
            log.close(None).await.unwrap();
        });
    }

    /// Six topics in six batches, from the first start on; gives the offset before each of them, and the end.
    fn filled() -> (Self, Vec<i64>) {
        let mut rig = Self::new();
        let loaded = rig.load().unwrap_or_else(|error| panic!("{error}"));
        let epoch = loaded.epoch;
        let control = quorum_records(&loaded.state.quorum, &node());
        let mut batches = vec![control_batch_of(&control, Offset(0), epoch, Timestamp(1))];
        let mut image = loaded.state.image;
        for (at, _) in (0..).zip(&control) {
            image.advance(Offset(at), epoch);
        }
        let broker = BrokerStart {
            broker_id: NODE,
            incarnation_id: TopicId([7; 16]),
            end_points: Vec::new(),
            features: supported_features(),
            rack: None,
            log_dirs: vec![DIRECTORY_ID],
            cordoned_log_dirs: Vec::new(),
            found: BTreeMap::new(),
        };
        let started = start_with(&image, &broker, &loaded.bootstrap).unwrap();
        let mut next = image.next_offset();
        batches.push(batch_of(&started.records, next, epoch, Timestamp(2)));
        next = next.plus(i64::try_from(started.records.len()).unwrap());
        let mut ends = Vec::new();
        for number in 0..6 {
            ends.push(next.0);
            batches.push(batch_of(&[topic(number)], next, epoch, Timestamp(3)));
            next = next.plus(1);
        }
        ends.push(next.0);
        rig.append(&batches);
        rig.ends.clone_from(&ends);
        (rig, ends)
    }

    /// Writes the snapshot that ends at `end`, as a start up to there would find it.
    fn snapshot(&self, end: i64) -> PathBuf {
        let loaded = self.load().unwrap_or_else(|error| panic!("{error}"));
        let id = SnapshotId {
            end: Offset(end),
            epoch: LeaderEpoch(1),
        };
        let quorum = loaded.state.quorum.snapshot_records();
        let mut image = loaded.state.image;
        for (number, created) in (0..).zip(&self.ends[..6]) {
            if end <= *created {
                let record = RemoveTopicRecord {
                    topic_id: TopicId([number; 16]),
                };
                let next = image.next_offset();
                image.replay(next, LeaderEpoch(1), &record.into()).unwrap();
            }
        }
        let batches = encode(id.epoch, Timestamp(9), quorum, &image.to_records());
        let path = directory().join(id.file_name());
        self.put(&path, &batches.concat());
        path
    }

    /// Drops the segments below `start`, as a cleaning does.
    fn advance(&self, start: i64) {
        block_on(async {
            let options = OpenOptions {
                config: LogConfig {
                    segment_size_bytes_max: self.config.segment_bytes,
                    file_delete_delay_ms: 0,
                    ..LogConfig::default()
                },
                recovery_point: Offset::ZERO,
                clean: false,
                log_start: None,
            };
            let opened = Log::open(&self.store, &directory(), options).await;
            let (log, _) = opened.unwrap();
            let now = Monotonic(1);
            log.advance_log_start(Offset(start), now).await.unwrap();
            log.close(None).await.unwrap();
        });
    }

    fn damage(&self, path: &Path) {
        self.disk().corrupt(path, |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x55;
        });
    }
}

fn refusal(rig: &Rig) -> String {
    match rig.load() {
        Ok(_) => panic!("it starts"),
        Err(error) => error.to_string(),
    }
}

// Goal: a new directory gets what Kafka's formatting leaves, and starts the same twice. Method: the files, of both kinds of quorum.
#[test]
fn new_directory() {
    let rig = Rig::new();
    let loaded = rig.load().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(loaded.state.quorum.kraft_version(), 1);
    assert_eq!(quorum_records(&loaded.state.quorum, &node()).len(), 3);
    let first = SnapshotId::BOOTSTRAP.file_name();
    assert!(rig.names().contains(&first));
    let again = rig.load().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.bootstrap, loaded.bootstrap);
    assert_eq!(again.state.quorum, loaded.state.quorum);
    assert_eq!(again.epoch, LeaderEpoch(loaded.epoch.0 + 1));

    let mut rig = Rig::new();
    rig.config = config(&[("controller.quorum.voters", "1@localhost:9093")]);
    let loaded = rig.load().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(loaded.state.quorum.kraft_version(), 0);
    assert_eq!(quorum_records(&loaded.state.quorum, &node()).len(), 1);
    assert!(!rig.names().contains(&first));
    let state = block_on(
        rig.disk()
            .read_file(&directory().join("quorum-state"), 1000),
    )
    .unwrap();
    assert!(state.ends_with(b"\"data_version\":0}"));
}

// Goal: what Kafka's formatting left is what a first start begins with. Method: its two files, and no log.
#[test]
fn directory_formatted_by_kafka() {
    let rig = Rig::new();
    rig.put(Path::new("/data/bootstrap.checkpoint"), BOOTSTRAP);
    let first = directory().join(SnapshotId::BOOTSTRAP.file_name());
    rig.put(&first, FORMATTED);
    let loaded = rig.load().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(loaded.bootstrap.len(), 6);
    let formatted = QuorumStart {
        directory_id: "yd8JCgM2SbudV810Jq6rmw".parse().unwrap(),
        ..node()
    };
    let records = quorum_records(&loaded.state.quorum, &formatted);
    let Some(ControlRecord::Voters(voters)) = records.last() else {
        panic!("{records:?}");
    };
    assert_eq!(voters.voters[0].endpoints[0].port, 29093);
    // A cut bootstrap file is damage, and named.
    rig.put(Path::new("/data/bootstrap.checkpoint"), &BOOTSTRAP[..300]);
    let refusal = refusal(&rig);
    assert!(refusal.contains("bootstrap.checkpoint"), "{refusal}");
}

// Goal: snapshot and log tail come to the same as the whole log. Method: an image of the whole; then a snapshot at each batch, the log
// before it dropped; leftovers of every kind in the directory.
#[test]
fn snapshot_and_tail() {
    for batch in 0..=6 {
        let (rig, ends) = Rig::filled();
        let whole = rig.image();
        assert_eq!(whole.topic_count(), 6);
        rig.snapshot(ends[batch]);
        rig.advance(ends[batch]);
        let name = "00000000000000000001-0000000001";
        for leftover in [
            "-77.checkpoint.part",
            ".checkpoint.part",
            ".checkpoint.deleted",
        ] {
            rig.put(&directory().join(format!("{name}{leftover}")), b"half");
        }
        let loaded = rig.load().unwrap_or_else(|error| panic!("{error}"));
        assert!(loaded.state.image.same_state(&whole));
        assert_eq!(loaded.state.image.applied(), whole.applied());
        assert_eq!(loaded.state.quorum.kraft_version(), 1);
        assert_eq!(quorum_records(&loaded.state.quorum, &node()).len(), 1);
        // What was deleted before waits in the trash.
        let names = rig.names();
        let mut left = names.iter().filter(|name| name.contains(".checkpoint."));
        assert!(left.all(|name| name.ends_with(".deleted")), "{names:?}");
        if batch > 0 {
            assert!(Offset::ZERO < loaded.log.log_start());
            // The snapshot at offset 0 lies before the log now.
            assert!(!rig.names().contains(&SnapshotId::BOOTSTRAP.file_name()));
        }
    }
}

// Goal: a damaged snapshot costs nothing while an older one and the log reach; else the start is refused. Method: damage one, then both.
#[test]
fn damaged_snapshots() {
    let (rig, ends) = Rig::filled();
    let whole = rig.image();
    let older = rig.snapshot(ends[2]);
    let newer = rig.snapshot(ends[5]);
    rig.advance(ends[2]);
    rig.damage(&newer);
    for _ in 0..2 {
        assert!(rig.image().same_state(&whole));
    }
    let names = rig.names();
    assert!(!names.iter().any(|name| newer.ends_with(name)));
    assert!(
        names
            .iter()
            .any(|name| name.ends_with(".checkpoint.corrupt"))
    );
    let loaded = rig.load().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(loaded.snapshots.len(), 1);
    rig.damage(&older);
    let refusal = refusal(&rig);
    assert!(refusal.contains("no whole snapshot"), "{refusal}");
}

// Goal: a crash at any moment of writing a snapshot leaves it whole or not at all, and the next start is as before. Method: the disk
// fails after each number of operations and then loses what was not synced, torn in several ways.
#[test]
fn crash_while_writing() {
    let mut finished = 0;
    for (operations, seed) in (0..10).flat_map(|operations| [(operations, 1), (operations, 7)]) {
        let (rig, ends) = Rig::filled();
        let loaded = rig.load().unwrap_or_else(|error| panic!("{error}"));
        let (whole, quorum) = (loaded.state.image, loaded.state.quorum);
        let id = SnapshotId {
            end: Offset(ends[6]),
            epoch: LeaderEpoch(1),
        };
        let records = whole.to_records();
        let batches = encode(id.epoch, Timestamp(9), quorum.snapshot_records(), &records);
        let (part, path) = (
            directory().join(id.partial_name()),
            directory().join(id.file_name()),
        );
        rig.disk().fail_after(operations, 5);
        let written = block_on(write_file(rig.disk(), &part, &path, &batches));
        rig.disk().fail_after(u64::MAX, 5);
        rig.disk().crash(seed);
        for _ in 0..2 {
            assert!(rig.image().same_state(&whole), "{operations} {seed}");
        }
        let names = rig.names();
        assert!(!names.iter().any(|name| name.contains(".checkpoint.")));
        if written.is_ok() {
            finished += 1;
            assert!(names.contains(&id.file_name()));
        }
    }
    assert!(0 < finished);
    assert!(finished < 20);
}

// Goal: a log that ends before its snapshot has lost something. Method: a snapshot from the future.
#[test]
fn log_shorter_than_its_snapshot() {
    let (rig, ends) = Rig::filled();
    let path = rig.snapshot(ends[6]);
    let later = SnapshotId {
        end: Offset(ends[6] + 1),
        epoch: LeaderEpoch(1),
    };
    let later = directory().join(later.file_name());
    block_on(rig.disk().rename(&path, &later)).unwrap();
    let refusal = refusal(&rig);
    assert!(refusal.contains("a part of it is lost"), "{refusal}");
}

// Goal: partitions that no metadata log names stop the start, so that nobody calls them strays. Method: one beside no log.
#[test]
fn partitions_without_metadata() {
    let mut rig = Rig::new();
    rig.partitions.push("orders");
    let refusal = refusal(&rig);
    assert!(refusal.contains("no metadata log"), "{refusal}");
}

/// A batch with one record of a type that does not exist.
fn stranger(base: i64) -> Bytes {
    let mut builder = BatchBuilder::new(BuilderOptions {
        base_offset: Offset(base),
        leader_epoch: LeaderEpoch(1),
        ..BuilderOptions::default()
    });
    builder.append(Timestamp(1), None, Some(&[1, 99, 0, 0]), &[]);
    builder.build()
}

// Goal: nothing unknown is skipped; type, offset and file are named. Method: such a record in the log, and in the newest snapshot.
#[test]
fn unknown_records() {
    let (rig, ends) = Rig::filled();
    let end = ends[6];
    rig.append(&[stranger(end)]);
    let text = refusal(&rig);
    assert!(text.contains("unknown metadata record type 99"), "{text}");
    assert!(text.contains(&format!("offset {end}")), "{text}");
    assert!(text.contains(".log"), "{text}");

    let (rig, ends) = Rig::filled();
    let path = rig.snapshot(ends[3]);
    let header = encode(LeaderEpoch(1), Timestamp(1), Vec::new(), &[]);
    let [first, last] = &header[..] else { panic!() };
    rig.put(&path, &[first.clone(), stranger(1), last.clone()].concat());
    let text = refusal(&rig);
    assert!(text.contains("unknown metadata record type 99"), "{text}");
    assert!(text.contains(".checkpoint"), "{text}");
}

// Goal: records that nothing here acts on come out again. Method: an ACL through log, snapshot and back.
#[test]
fn records_of_others_are_kept() {
    let (rig, ends) = Rig::filled();
    let acl = AccessControlEntryRecord {
        id: TopicId([55; 16]),
        principal: "User:alice".to_owned(),
        ..AccessControlEntryRecord::default()
    };
    let batch = batch_of(
        &[acl.clone().into()],
        Offset(ends[6]),
        LeaderEpoch(1),
        Timestamp(4),
    );
    rig.append(&[batch]);
    let image = rig.image();
    assert_eq!(image.acls().collect::<Vec<_>>(), [&acl]);
    assert!(image.to_records().contains(&acl.into()));
}

// Goal: retention by size and by time, as Kafka has it; the newest stays. Method: a table of snapshots and limits.
#[test]
fn retention() {
    fn check(limits: (&str, &str), ages: &[i64], log_bytes: u64, expected: Option<i64>) {
        let config = config(&[
            ("metadata.max.retention.bytes", limits.0),
            ("metadata.max.retention.ms", limits.1),
        ]);
        let now = 1_000_000;
        let snapshots: Snapshots = (1_i64..)
            .zip(ages)
            .map(|(end, age)| {
                let id = SnapshotId {
                    end: Offset(end),
                    epoch: LeaderEpoch(1),
                };
                let facts = SnapshotFacts {
                    size_bytes: 100,
                    last_contained: Some(Timestamp(now - age)),
                };
                (id, facts)
            })
            .collect();
        let kept = first_to_keep(&snapshots, log_bytes, &config, Timestamp(now));
        assert_eq!(kept.map(|id| id.end.0), expected);
    }
    check(("1000", "-1"), &[9, 8, 7], 700, None);
    check(("1000", "-1"), &[9, 8, 7], 701, Some(2));
    check(("-1", "-1"), &[9, 8, 7], 1 << 40, None);
    check(("0", "0"), &[9], 1 << 40, None);
    check(("0", "0"), &[], 1 << 40, None);
    check(("-1", "8"), &[9, 8, 7], 0, Some(2));
    check(("-1", "9"), &[9, 8, 7], 0, None);
}
