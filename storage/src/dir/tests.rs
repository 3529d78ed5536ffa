//! Tests of the log directory on the disk in memory.

use bytes::Bytes;
use futures_lite::future::block_on;

use super::*;
use crate::disk::memory::MemoryDisk;
use crate::disk::{DiskFile, OpenMode};
use crate::{Log, LogConfig, LogStore};

fn root() -> PathBuf {
    PathBuf::from("/data")
}

fn options() -> DirOptions {
    DirOptions {
        node_id: NodeId(1),
        cluster_id: None,
        new_cluster_id: "cluster-a".to_owned(),
        new_directory_id: TopicId([3; 16]),
    }
}

fn open(disk: &MemoryDisk) -> Result<(LogDir<MemoryDisk>, Inventory), DirError> {
    block_on(LogDir::open(disk, &root(), &options()))
}

fn write(disk: &MemoryDisk, name: &str, contents: &[u8]) {
    let path = root().join(name);
    let parent = path.parent().expect("below the root");
    block_on(disk.create_dir_all(parent)).expect("healthy disk");
    let file = block_on(disk.open(&path, OpenMode::Truncate)).expect("healthy disk");
    let contents = Bytes::copy_from_slice(contents);
    block_on(file.write_all_at(&[contents], 0)).expect("healthy disk");
}

// Goal: a new directory gets an identity that stays, also over a power cut. Method: open, cut, open with other ids.
#[test]
fn identity_stays() {
    for seed in 0..50 {
        let disk = MemoryDisk::new();
        let (dir, inventory) = open(&disk).expect("new");
        assert_eq!(inventory.meta.cluster_id, "cluster-a");
        assert!(!inventory.clean);
        drop(dir);
        disk.crash(seed);
        let other = DirOptions {
            new_cluster_id: "cluster-b".to_owned(),
            new_directory_id: TopicId([4; 16]),
            ..options()
        };
        let (_dir, again) = block_on(LogDir::open(&disk, &root(), &other)).expect("known");
        assert_eq!(again.meta, inventory.meta);
    }
}

// Goal: one process per directory. Method: open twice, then after the first one went.
#[test]
fn lock_is_exclusive() {
    let disk = MemoryDisk::new();
    let held = open(&disk).expect("free");
    assert!(matches!(open(&disk), Err(DirError::Locked { .. })));
    drop(held);
    open(&disk).expect("free again");
}

// Goal: every bad `meta.properties` is one clear error and stays as it is. Method: a table.
#[test]
fn bad_meta() {
    fn check(contents: &str, cluster_id: Option<&str>, expected: &str) {
        let disk = MemoryDisk::new();
        write(&disk, META_FILE, contents.as_bytes());
        let options = DirOptions {
            cluster_id: cluster_id.map(str::to_owned),
            ..options()
        };
        let refused = block_on(LogDir::open(&disk, &root(), &options)).expect_err("bad meta");
        assert_eq!(refused.to_string(), expected);
        let left = block_on(disk.read_file(&root().join(META_FILE), 1000)).expect("still there");
        assert_eq!(left, contents);
    }
    let file = "/data/meta.properties";
    check("", None, &format!("{file} is corrupt: version is not 1"));
    check(
        "\u{0}\u{1}",
        None,
        &format!("{file} is corrupt: a line without a value"),
    );
    let other = "version=1\ncluster.id=x\nnode.id=2\n";
    check(other, None, &format!("{file}: node.id is 2, expected 1"));
    let mine = "version=1\ncluster.id=x\nnode.id=1\n";
    check(
        mine,
        Some("y"),
        &format!("{file}: cluster.id is x, expected y"),
    );
}

// Goal: partitions without identity are not taken over. Method: a partition directory, no meta.properties.
#[test]
fn missing_meta() {
    let disk = MemoryDisk::new();
    block_on(disk.create_dir_all(&root().join("topic-0"))).expect("healthy disk");
    assert!(matches!(open(&disk), Err(DirError::MetaMissing { .. })));
}

// Goal: the marker is believed once, whatever happens after. Method: mark, open, cut the power, open.
#[test]
fn clean_marker_is_consumed() {
    for seed in 0..50 {
        let disk = MemoryDisk::new();
        let (dir, _) = open(&disk).expect("new");
        block_on(dir.mark_clean(77)).expect("healthy disk");
        drop(dir);
        let (dir, inventory) = open(&disk).expect("known");
        assert_eq!((inventory.clean, inventory.broker_epoch), (true, Some(77)));
        drop(dir);
        disk.crash(seed);
        let (_dir, inventory) = open(&disk).expect("known");
        assert!(!inventory.clean);
    }
}

// Goal: the inventory joins directories and checkpoints, tidies up and ignores what is not ours. Method: plant one of
// each kind.
#[test]
fn inventory() {
    let disk = MemoryDisk::new();
    let (dir, _) = open(&disk).expect("new");
    let store = LogStore::new(disk.clone());
    for (topic, partition) in [("b", 1), ("a.b-c", 10), ("a.b-c", 9)] {
        let path = dir.partition_path(topic, PartitionId(partition));
        let created = Log::create(&store, &path, TopicId([5; 16]), LogConfig::default());
        block_on(created).expect("healthy disk");
    }
    write(
        &disk,
        "b-0.00000000000000000000000000000001-delete/00000000000000000000.log",
        b"x",
    );
    write(&disk, "half-0/partition.metadata", b"");
    write(&disk, "half-0/00000000000000000000.log", b"");
    write(&disk, "nameless-0/00000000000000000000.log", b"data");
    write(&disk, "lost+found/file", b"x");
    let rows = |offset| {
        vec![CheckpointRow {
            topic: "a.b-c".to_owned(),
            partition: PartitionId(10),
            offset: Offset(offset),
        }]
    };
    for (checkpoint, offset) in [
        (Checkpoint::RecoveryPoint, 5),
        (Checkpoint::LogStart, 3),
        (Checkpoint::HighWatermark, 7),
    ] {
        block_on(dir.write_checkpoint(checkpoint, rows(offset))).expect("healthy disk");
    }
    drop(dir);
    let (dir, inventory) = open(&disk).expect("known");
    let found: Vec<_> = inventory
        .partitions
        .iter()
        .map(|p| (p.topic.as_str(), p.partition.0, p.topic_id.is_some()))
        .collect();
    assert_eq!(
        found,
        [
            ("a.b-c", 9, true),
            ("a.b-c", 10, true),
            ("b", 1, true),
            ("nameless", 0, false)
        ]
    );
    let ten = &inventory.partitions[1];
    assert_eq!(
        (ten.recovery_point, ten.log_start),
        (Offset(5), Some(Offset(3)))
    );
    assert_eq!(ten.high_watermark, Some(Offset(7)));
    let entries = block_on(disk.read_dir(&root())).expect("it exists");
    let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
    assert!(names.contains(&"lost+found"));
    assert!(!names.iter().any(|name| name.starts_with("half")));
    let deleted = root().join("b-0.00000000000000000000000000000001-delete");
    assert_eq!(inventory.deleted, [deleted]);
    drop(dir);
    // Goal: a corrupt checkpoint counts as 0.
    let path = root().join("recovery-point-offset-checkpoint");
    disk.corrupt(&path, |bytes| bytes.truncate(3));
    let (_dir, inventory) = open(&disk).expect("known");
    assert_eq!(inventory.partitions[1].recovery_point, Offset::ZERO);
    assert_eq!(inventory.partitions[1].log_start, Some(Offset(3)));
}

// Goal: copies that a move did not finish are told apart from partitions and from what is not ours. Method: one, and names close to its.
#[test]
fn unfinished_copies() {
    let disk = MemoryDisk::new();
    let (dir, _) = open(&disk).expect("new");
    drop(dir);
    let store = LogStore::new(disk.clone());
    let copy = future_path(&root(), "b-1.c", PartitionId(7), TopicId([0xab; 16]));
    let copy = copy.expect("a short name");
    let created = Log::create(&store, &copy, TopicId([5; 16]), LogConfig::default());
    block_on(created).expect("healthy disk");
    write(&disk, "b-0.xyz-future/file", b"x");
    write(
        &disk,
        "0.00000000000000000000000000000001-future/file",
        b"x",
    );
    let (_dir, inventory) = open(&disk).expect("known");
    let found: Vec<_> = inventory
        .futures
        .iter()
        .map(|copy| (copy.topic.as_str(), copy.partition.0, copy.topic_id))
        .collect();
    assert_eq!(found, [("b-1.c", 7, Some(TopicId([5; 16])))]);
    assert!(inventory.partitions.is_empty());
}

/// A directory with one log and a manifest of it, after a clean stop.
fn cleanly_stopped() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let (dir, _) = open(&disk).expect("new");
    let store = LogStore::new(disk.clone());
    let path = dir.partition_path("a", PartitionId(0));
    let log = block_on(Log::create(
        &store,
        &path,
        TopicId([7; 16]),
        LogConfig::default(),
    ));
    let log = log.expect("healthy disk");
    block_on(log.close(None)).expect("healthy disk");
    let rows = block_on(log.manifest("a", PartitionId(0), &[])).expect("closed whole");
    let watermark = CheckpointRow {
        topic: "a".to_owned(),
        partition: PartitionId(0),
        offset: Offset(0),
    };
    block_on(dir.write_checkpoint(Checkpoint::HighWatermark, vec![watermark]))
        .expect("healthy disk");
    block_on(dir.write_manifest(77, vec![rows])).expect("healthy disk");
    block_on(dir.mark_clean(77)).expect("healthy disk");
    drop(dir);
    disk
}

// Goal: the manifest is believed once, with its own marker and checkpoints, and never after Apache Kafka has run. Method: a clean stop of
// one log, then something happens, then a start; `true` when the start has the log's rows.
#[test]
fn manifest_belongs_to_its_stop() {
    fn check(between: impl FnOnce(&MemoryDisk), is_believed: bool) {
        let disk = cleanly_stopped();
        between(&disk);
        let (dir, inventory) = open(&disk).expect("known");
        assert_eq!(inventory.partitions.len(), 1);
        assert_eq!(inventory.partitions[0].topic_id, Some(TopicId([7; 16])));
        assert_eq!(inventory.partitions[0].manifest.is_some(), is_believed);
        // It is gone with the marker, believed or not.
        drop(dir);
        write(
            &disk,
            ".kafka_cleanshutdown",
            b"{\"version\":0,\"brokerEpoch\":77}",
        );
        let (_dir, again) = open(&disk).expect("known");
        assert!(again.clean);
        assert!(again.partitions[0].manifest.is_none());
    }
    let manifest = root().join("pelton.manifest");
    check(|_| {}, true);
    check(
        |disk| {
            write(
                disk,
                ".kafka_cleanshutdown",
                b"{\"version\":0,\"brokerEpoch\":78}",
            )
        },
        false,
    );
    check(|disk| write(disk, ".kafka_cleanshutdown", b""), false);
    check(
        |disk| {
            let marker = root().join(".kafka_cleanshutdown");
            block_on(disk.remove_file(&marker)).expect("there");
        },
        false,
    );
    check(
        |disk| write(disk, "replication-offset-checkpoint", b"0\n1\na 0 1\n"),
        false,
    );
    check(
        |disk| disk.corrupt(&manifest, |bytes| bytes[30] ^= 1),
        false,
    );
    check(|disk| disk.corrupt(&manifest, |bytes| bytes[8] = 9), false);
    check(|disk| disk.corrupt(&manifest, Vec::clear), false);
    check(
        |disk| disk.corrupt(&manifest, |bytes| bytes.truncate(40)),
        false,
    );
}
