//! What the benches share: logs in a scratch directory, batches to append, a helper with a thread.
//!
//! Scratch space is made below `PELTON_BENCH_DIR`, else below the system's temporary directory. It must be on the filesystem
//! that is to be measured, not on tmpfs.

pub mod hot;

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use bytes::Bytes;
use futures_lite::future::block_on;
use pelton_model::batch::{BatchBuilder, BatchHeader, BuilderOptions};
use pelton_model::{LeaderEpoch, Offset, Timestamp, TopicId};
use pelton_storage::disk::kernel::{Helper, KernelDisk};
use pelton_storage::{BatchFacts, Log, LogConfig, LogStore, PrepareOptions};
use tempfile::TempDir;

type Job = Box<dyn FnOnce() + Send>;

/// Starts jobs on one other thread, as a shard's helper does; what is waited for runs in place.
#[derive(Clone, Debug)]
pub struct OneThread(mpsc::Sender<Job>);

impl Default for OneThread {
    fn default() -> Self {
        let (jobs, queue) = mpsc::channel::<Job>();
        thread::spawn(move || queue.into_iter().for_each(|job| job()));
        Self(jobs)
    }
}

impl Helper for OneThread {
    async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        job()
    }

    fn start(&self, job: impl FnOnce() + Send + 'static) {
        self.0
            .send(Box::new(job))
            .expect("its thread lives as long");
    }
}

/// A directory that goes with the value.
///
/// # Panics
/// When there is no room.
#[must_use]
pub fn scratch() -> TempDir {
    let root = std::env::var_os("PELTON_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    tempfile::tempdir_in(root).expect("room for a scratch directory")
}

/// A batch of one record of `value_bytes`, to be appended at any offset: the log looks at the facts, not at the bytes.
///
/// # Panics
/// Never: what was built can be parsed.
#[must_use]
pub fn batch(value_bytes: usize) -> Bytes {
    let mut builder = BatchBuilder::new(BuilderOptions::default());
    builder.append(Timestamp(1_000), None, Some(&vec![7; value_bytes]), &[]);
    builder.build()
}

/// A log in a scratch directory.
pub struct BenchLog {
    /// The log.
    pub log: Log<KernelDisk<OneThread>>,
    store: LogStore<KernelDisk<OneThread>>,
    _scratch: TempDir,
}

impl BenchLog {
    /// An empty log of segments of `segment_bytes`.
    ///
    /// # Panics
    /// When there is no room.
    #[must_use]
    pub fn new(options: PrepareOptions, segment_bytes: u32) -> Self {
        let scratch = scratch();
        let store = LogStore::new(KernelDisk::new(OneThread::default()));
        store.set_prepare_options(options);
        let config = LogConfig {
            segment_size_bytes_max: segment_bytes,
            ..LogConfig::default()
        };
        let directory = scratch.path().join("bench-0");
        let log = block_on(Log::create(&store, &directory, TopicId([1; 16]), config));
        let log = log.expect("room for a log");
        Self {
            log,
            store,
            _scratch: scratch,
        }
    }

    /// Appends a batch that [`batch`] made.
    ///
    /// # Panics
    /// When the disk fails.
    pub fn append(&self, batch: &Bytes) {
        let offset = self.log.log_end();
        let facts = BatchFacts {
            base_offset: offset,
            last_offset: offset,
            max_timestamp: Timestamp(1_000),
            leader_epoch: LeaderEpoch(0),
        };
        block_on(self.log.append(std::slice::from_ref(batch), &[facts])).expect("room");
    }

    /// Appends `count` batches that can be read back.
    ///
    /// # Panics
    /// When the disk fails.
    pub fn fill(&self, count: i64, value_bytes: usize) {
        for _ in 0..count {
            let offset = self.log.log_end();
            let mut builder = BatchBuilder::new(BuilderOptions {
                base_offset: offset,
                ..BuilderOptions::default()
            });
            builder.append(Timestamp(1_000), None, Some(&vec![7; value_bytes]), &[]);
            let bytes = builder.build();
            let header = BatchHeader::parse(&bytes).expect("built here");
            assert_eq!(header.base_offset, offset);
            self.append(&bytes);
        }
    }

    /// Where its files are.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.log.directory()
    }

    /// A second passes.
    pub fn tick(&self) {
        self.store.tick();
    }

    /// The first offset behind the log.
    #[must_use]
    pub fn end(&self) -> Offset {
        self.log.log_end()
    }
}
