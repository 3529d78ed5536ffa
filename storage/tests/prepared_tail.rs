//! The prepared tail with real threads and files. Goal: filler that another thread writes never comes over records, and a
//! directory left by a kill recovers. Method: a helper with a thread of its own, appends as fast as they go, in sizes that
//! overtake it now and then; all records are read back, before and after an unclean start.

use std::path::Path;
use std::sync::mpsc;
use std::thread;

use bytes::Bytes;
use futures_lite::future::block_on;
use pelton_model::batch::{BatchBuilder, BatchHeader, BuilderOptions, verify_crc};
use pelton_model::{LeaderEpoch, Offset, Timestamp, TopicId};
use pelton_storage::disk::kernel::{Helper, KernelDisk};
use pelton_storage::{BatchFacts, Log, LogConfig, LogStore, OpenOptions, ReadOptions};

type Job = Box<dyn FnOnce() + Send>;

/// Starts jobs on one other thread; runs the rest in place.
#[derive(Clone, Debug)]
struct OneThread(mpsc::Sender<Job>);

impl OneThread {
    #[expect(
        clippy::disallowed_methods,
        reason = "a helper of the runtime's has a thread too"
    )]
    fn new() -> (Self, thread::JoinHandle<()>) {
        let (jobs, queue) = mpsc::channel::<Job>();
        let worker = move || queue.into_iter().for_each(|job| job());
        (Self(jobs), thread::spawn(worker))
    }
}

impl Helper for OneThread {
    async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        job()
    }

    fn start(&self, job: impl FnOnce() + Send + 'static) {
        self.0
            .send(Box::new(job))
            .expect("the thread lives as long");
    }
}

/// A batch of one record whose bytes tell its offset.
fn batch(base: i64, value_bytes: usize) -> (Bytes, BatchFacts) {
    let mut builder = BatchBuilder::new(BuilderOptions {
        base_offset: Offset(base),
        leader_epoch: LeaderEpoch(0),
        ..BuilderOptions::default()
    });
    let value = vec![u8::try_from(base % 255).expect("small") + 1; value_bytes];
    builder.append(Timestamp(1_000 + base), None, Some(&value), &[]);
    let bytes = builder.build();
    let header = BatchHeader::parse(&bytes).expect("built here");
    let facts = BatchFacts::from(&header);
    (bytes, facts)
}

fn check(log: &Log<KernelDisk<OneThread>>, count: i64) {
    for offset in 0..count {
        let read = ReadOptions {
            from: Offset(offset),
            up_to: Offset(count),
            bytes_max: 1,
            at_least_one: true,
        };
        let read = block_on(log.read(read)).expect("in range");
        for slice in read.slices {
            let bytes = pelton_storage::disk::range::read_slice(slice).expect("readable");
            assert!(verify_crc(&bytes), "offset {offset}");
            let header = BatchHeader::parse(&bytes).expect("a batch");
            assert_eq!(header.base_offset, Offset(offset));
        }
    }
}

fn run(directory: &Path, seed: i64) {
    let (helper, worker) = OneThread::new();
    let store = LogStore::new(KernelDisk::new(helper));
    let config = LogConfig {
        segment_size_bytes_max: 8 * 1024 * 1024,
        ..LogConfig::default()
    };
    let log = block_on(Log::create(&store, directory, TopicId([1; 16]), config));
    let log = log.expect("room on the disk");
    let count = 3_000;
    let mut prepared = 0;
    for base in 0..count {
        let mixed = (base * 7919 + seed * 104_729) % 61;
        let size = if mixed == 0 {
            150_000
        } else {
            usize::try_from(mixed * 300).expect("small")
        };
        let (bytes, facts) = batch(base, size);
        block_on(log.append(&[bytes], &[facts])).expect("room on the disk");
        if base % 500 == 499 {
            store.tick();
            prepared = store.prepared_bytes().max(prepared);
        }
        if base % 700 == 699 {
            block_on(log.rest()).expect("healthy disk");
        }
    }
    assert!(0 < prepared, "the log was hot");
    check(&log, count);
    let log_bytes = log.size_bytes();
    // The process is gone; what its helper still does comes before the next one starts.
    drop(log);
    drop(store);
    worker.join().expect("no panic");

    let (helper, worker) = OneThread::new();
    let store = LogStore::new(KernelDisk::new(helper));
    let options = OpenOptions {
        config,
        recovery_point: Offset::ZERO,
        clean: false,
        log_start: None,
    };
    let (log, recovery) = block_on(Log::open(&store, directory, options)).expect("a torn tail");
    assert_eq!(
        (recovery.log_end, recovery.scanned_bytes),
        (Offset(count), log_bytes)
    );
    check(&log, count);
    block_on(log.close(None)).expect("healthy disk");
    drop((log, store));
    worker.join().expect("no panic");
}

// Goal and method: the file's head.
#[test]
fn filler_never_come_over_records() {
    for seed in 0..4 {
        let root = tempfile::tempdir().expect("a temporary directory");
        run(&root.path().join("topic-0"), seed);
    }
}
