//! The log on the real filesystem, inside the runtime. Goal: the adapter keeps the contract that the disk in memory
//! models. Method: the same life of a log (create, append, roll, read, sync, close, crash, reopen, delete), in a
//! temporary directory.

use std::path::Path;

use bytes::Bytes;
use pelton_model::batch::{BatchBuilder, BatchHeader, Batches, BuilderOptions};
use pelton_model::slice::Slice;
use pelton_model::{LeaderEpoch, Monotonic, NodeId, Offset, PartitionId, Timestamp, TopicId};
use pelton_storage::disk::kernel::{InPlace, KernelDisk};
use pelton_storage::disk::{Disk, DiskFile, OpenMode};
use pelton_storage::{
    BatchFacts, DirError, DirOptions, Log, LogConfig, LogDir, LogStore, OpenOptions, ReadOptions,
};

fn run(test: impl Future<Output = ()>) {
    futures_lite::future::block_on(test);
}

fn batch(base: i64, records: i64, value_bytes: usize) -> (Bytes, BatchFacts) {
    let mut builder = BatchBuilder::new(BuilderOptions {
        base_offset: Offset(base),
        leader_epoch: LeaderEpoch(0),
        ..BuilderOptions::default()
    });
    for index in 0..records {
        let value = vec![7; value_bytes];
        builder.append(Timestamp(1_000 + base + index), None, Some(&value), &[]);
    }
    let bytes = builder.build();
    let header = BatchHeader::parse(&bytes).expect("built here");
    let facts = BatchFacts::from(&header);
    (bytes, facts)
}

async fn read_all(log: &Log<KernelDisk<InPlace>>, bytes_max: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let mut from = log.log_start();
    while from < log.log_end() {
        let options = ReadOptions {
            from,
            up_to: log.log_end(),
            bytes_max,
            at_least_one: true,
        };
        let result = log.read(options).await.expect("in range");
        let mut bytes = Vec::new();
        for slice in &result.slices {
            match slice {
                Slice::Bytes(slice) => bytes.extend_from_slice(slice),
                Slice::File(range) => {
                    let mut piece = vec![0; range.size_bytes];
                    let read = rustix::io::pread(&range.file, &mut piece[..], range.position);
                    assert_eq!(read.expect("readable"), range.size_bytes);
                    bytes.extend(piece);
                }
            }
        }
        let last = Batches::new(&bytes).last().expect("progress");
        from = last.expect("whole batches").0.next_offset();
        all.extend(bytes);
    }
    all
}

const CONFIG: LogConfig = LogConfig {
    segment_size_bytes_max: 400_000,
    index_interval_bytes: 4096,
    index_size_bytes_max: 10 * 1024 * 1024,
    compacted: false,
    file_delete_delay_ms: 60_000,
    preallocate: false,
    deletes: false,
    retention_ms: -1,
    retention_bytes: -1,
    segment_ms: 604_800_000,
    segment_jitter_ms: 0,
};

fn options(clean: bool) -> OpenOptions {
    OpenOptions {
        config: CONFIG,
        recovery_point: Offset::ZERO,
        clean,
        log_start: None,
    }
}

async fn life_of_a_log(root: &Path) {
    let disk = KernelDisk::new(InPlace);
    let store = LogStore::new(disk);
    let directory = root.join("topic-3");
    let log = Log::create(&store, &directory, TopicId([1; 16]), CONFIG).await;
    let log = log.expect("created");
    let mut expected = Vec::new();
    for round in 0..200 {
        let mut batches = Vec::new();
        let mut facts = Vec::new();
        let mut base = log.log_end().0;
        // More pieces than one system call takes, now and then.
        for _ in 0..if round % 50 == 0 { 150 } else { 2 } {
            let (bytes, batch) = batch(base, 3, round * 13);
            base += 3;
            expected.extend_from_slice(&bytes);
            batches.push(bytes);
            facts.push(batch);
        }
        log.append(&batches, &facts)
            .await
            .expect("room on the disk");
    }
    assert!(log.segment_count() > 2);
    for bytes_max in [1, 50_000, 10_000_000] {
        assert!(read_all(&log, bytes_max).await == expected);
    }
    assert_eq!(log.sync().await.expect("healthy disk"), log.log_end());
    log.close(None).await.expect("healthy disk");
    for clean in [true, false] {
        let (log, recovery) = Log::open(&store, &directory, options(clean))
            .await
            .expect("sound");
        assert_eq!(recovery.truncated_bytes, 0);
        assert_eq!(
            recovery.scanned_bytes,
            if clean { 0 } else { expected.len() as u64 }
        );
        assert!(read_all(&log, 10_000_000).await == expected);
    }
    let (log, _) = Log::open(&store, &directory, options(true))
        .await
        .expect("sound");
    let whole = ReadOptions {
        from: Offset::ZERO,
        up_to: log.log_end(),
        bytes_max: 300_000,
        at_least_one: true,
    };
    let kept = log.read(whole).await.expect("in range");
    log.delete(Monotonic(0)).await.expect("healthy disk");
    let due = Monotonic(0).plus_ms(LogConfig::default().file_delete_delay_ms);
    store.trash().empty(due, 1 << 40).await;
    assert!(disk.read_dir(root).await.expect("it exists").is_empty());
    let [Slice::File(range)] = &kept.slices[..] else {
        panic!("a large range comes as a file");
    };
    let mut piece = vec![0; range.size_bytes];
    rustix::io::pread(&range.file, &mut piece[..], range.position).expect("still readable");
    assert!(expected.starts_with(&piece));
}

// Goal: see the file's head.
#[test]
fn log() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let path = root.path().to_owned();
    run(life_of_a_log(&path));
}

// Goal: locks, renames, listings and errors of the adapter. Method: each once.
#[test]
fn directory_and_errors() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let path = root.path().join("a/b");
    run(async move {
        let disk = KernelDisk::new(InPlace);
        let options = DirOptions {
            node_id: NodeId(1),
            cluster_id: None,
            new_cluster_id: "c".to_owned(),
            new_directory_id: TopicId([2; 16]),
        };
        let (dir, first) = LogDir::open(&disk, &path, &options).await.expect("new");
        let refused = LogDir::open(&disk, &path, &options)
            .await
            .expect_err("held");
        assert!(matches!(refused, DirError::Locked { .. }), "{refused}");
        assert_eq!(dir.partition_path("t", PartitionId(0)), path.join("t-0"));
        dir.mark_clean(1).await.expect("healthy disk");
        drop(dir);
        let (_dir, again) = LogDir::open(&disk, &path, &options).await.expect("known");
        assert_eq!(again.meta, first.meta);
        assert!(again.clean);
        let missing = disk.open(&path.join("none"), OpenMode::Read).await;
        assert!(missing.expect_err("absent").is_not_found());
        let file = disk
            .open(&path.join("f"), OpenMode::CreateNew)
            .await
            .expect("new");
        assert!(
            disk.open(&path.join("f"), OpenMode::CreateNew)
                .await
                .is_err()
        );
        file.write_all_at(&[], 0).await.expect("nothing to write");
        file.write_all_at(&[Bytes::new(), Bytes::from_static(b"abc"), Bytes::new()], 2)
            .await
            .expect("room on the disk");
        assert_eq!(
            file.read_at(0, 100).await.expect("readable"),
            &b"\0\0abc"[..]
        );
        file.set_size(3).await.expect("healthy disk");
        assert_eq!(file.size_bytes().await.expect("healthy disk"), 3);
        assert!(disk.create_dir_all(&path.join("f/g")).await.is_err());
        let refused = disk.read_file(&path.join("f"), 2).await;
        assert!(refused.is_err(), "larger than asked");
    });
}
