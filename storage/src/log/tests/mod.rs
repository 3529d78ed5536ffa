//! Tests of the log on the disk in memory. The rig here builds batches and reads logs back; the cases are in the modules.

mod aborted;
mod ahead;
mod basics;
mod checkpointed;
mod compaction;
mod everything;
mod files;
mod lookup;
mod manifest;
mod model;
mod moves;
mod recovery;
mod retention;
mod start;
mod sync;
mod transactions;
mod twice;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures_lite::future::block_on;
use pelton_model::batch::{BatchBuilder, BatchHeader, Batches, BuilderOptions};
use pelton_model::compression::Compression;
use pelton_model::producer_state::{BatchFacts as ProducerFacts, ProducerStamp, ProducerStates};
use pelton_model::slice::Slice;
use pelton_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp, TopicId};

use super::{BatchFacts, Log, LogStore, OpenOptions, ReadOptions, Recovery};
use crate::config::LogConfig;
use crate::disk::Disk;
use crate::disk::memory::MemoryDisk;
use crate::error::StorageError;

pub(super) const TOPIC: TopicId = TopicId([9; 16]);

pub(super) fn int(count: usize) -> i64 {
    i64::try_from(count).expect("small")
}

pub(super) fn directory() -> PathBuf {
    PathBuf::from("/data/topic-0")
}

/// A batch to be built.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) base: i64,
    pub(super) timestamps: Vec<i64>,
    pub(super) value_bytes: usize,
    pub(super) epoch: i32,
    pub(super) compression: Compression,
    pub(super) producer: Option<(i64, i32)>,
}

impl Spec {
    pub(super) fn new(base: i64, records: usize) -> Self {
        let first = 1_000 + base;
        Self {
            base,
            timestamps: (first..).take(records).collect(),
            value_bytes: 20,
            epoch: 0,
            compression: Compression::None,
            producer: None,
        }
    }

    pub(super) fn build(&self) -> (Bytes, BatchFacts) {
        let (id, sequence) = self.producer.unwrap_or((-1, -1));
        let mut builder = BatchBuilder::new(BuilderOptions {
            compression: self.compression,
            base_offset: Offset(self.base),
            leader_epoch: LeaderEpoch(self.epoch),
            producer_id: ProducerId(id),
            producer_epoch: ProducerEpoch(if id < 0 { -1 } else { 0 }),
            base_sequence: Sequence(sequence),
            ..BuilderOptions::default()
        });
        for (index, &timestamp) in self.timestamps.iter().enumerate() {
            let byte = u8::try_from((self.base + int(index)) & 0xff).expect("masked");
            let value = vec![byte; self.value_bytes];
            builder.append(Timestamp(timestamp), None, Some(&value), &[]);
        }
        let bytes = builder.build();
        let header = BatchHeader::parse(&bytes).expect("built here");
        let facts = BatchFacts::from(&header);
        (bytes, facts)
    }
}

/// A log on a disk in memory.
pub(super) struct Rig {
    pub(super) disk: MemoryDisk,
    pub(super) store: LogStore<MemoryDisk>,
    pub(super) log: Log<MemoryDisk>,
    pub(super) config: LogConfig,
}

pub(super) fn small_segments() -> LogConfig {
    LogConfig {
        segment_size_bytes_max: 2_000,
        index_interval_bytes: 200,
        ..LogConfig::default()
    }
}

impl Rig {
    pub(super) fn new(config: LogConfig) -> Self {
        let disk = MemoryDisk::new();
        let store = LogStore::new(disk.clone());
        let log = block_on(Log::create(&store, &directory(), TOPIC, config)).expect("healthy disk");
        block_on(disk.sync_dir(Path::new("/"))).expect("healthy disk");
        Self {
            disk,
            store,
            log,
            config,
        }
    }

    /// Appends `count` batches of `records` records each in one call.
    pub(super) fn append(&self, count: usize, records: usize) {
        let mut base = self.log.log_end().0;
        let mut batches = Vec::new();
        let mut facts = Vec::new();
        for _ in 0..count {
            let (bytes, batch) = Spec::new(base, records).build();
            base += int(records);
            batches.push(bytes);
            facts.push(batch);
        }
        let end = block_on(self.log.append(&batches, &facts)).expect("healthy disk");
        assert_eq!(end.0, base);
    }

    pub(super) fn append_spec(&self, spec: &Spec) {
        let (bytes, facts) = spec.build();
        block_on(self.log.append(&[bytes], &[facts])).expect("healthy disk");
    }

    pub(super) fn options(&self, clean: bool, recovery_point: i64) -> OpenOptions {
        OpenOptions {
            config: self.config,
            recovery_point: Offset(recovery_point),
            clean,
            log_start: None,
        }
    }

    pub(super) fn try_reopen(
        &mut self,
        clean: bool,
        recovery_point: i64,
    ) -> Result<Recovery, StorageError> {
        let options = self.options(clean, recovery_point);
        // A new process has an empty memory tail.
        self.store = LogStore::new(self.disk.clone());
        let (log, recovery) = block_on(Log::open(&self.store, &directory(), options))?;
        self.log = log;
        Ok(recovery)
    }

    pub(super) fn reopen(&mut self, clean: bool, recovery_point: i64) -> Recovery {
        let opened = self.try_reopen(clean, recovery_point);
        opened.expect("the log opens")
    }

    pub(super) fn close(&self) {
        let states = ProducerStates::new();
        let snapshot = Bytes::from(states.encode_snapshot(self.log.log_end()));
        block_on(self.log.close(Some(snapshot))).expect("healthy disk");
    }

    /// Removes all that was thrown away.
    pub(super) fn empty_trash(&self) {
        let late = pelton_model::Monotonic(u64::MAX / 2);
        while block_on(self.store.trash().empty(late, 10_000)).has_more {}
    }

    /// Bytes of the files that wait to be removed.
    pub(super) fn deleted_bytes(&self) -> u64 {
        let entries = block_on(self.disk.read_dir(&directory())).expect("it exists");
        let deleted = entries
            .iter()
            .filter(|entry| entry.name.ends_with(".deleted"));
        deleted.map(|entry| entry.size_bytes).sum()
    }

    /// Every byte from `from` to the log end, by reads of at most `bytes_max`.
    pub(super) fn read_all(&self, from: i64, bytes_max: usize) -> Vec<u8> {
        let mut all = Vec::new();
        let mut from = Offset(from);
        while from < self.log.log_end() {
            let bytes = self.read(from.0, self.log.log_end().0, bytes_max, true);
            assert!(!bytes.is_empty(), "no progress at {from}");
            from = end_of(&bytes);
            all.extend(bytes);
        }
        all
    }

    pub(super) fn read(&self, from: i64, up_to: i64, bytes_max: usize, one: bool) -> Vec<u8> {
        let options = ReadOptions {
            from: Offset(from),
            up_to: Offset(up_to),
            bytes_max,
            at_least_one: one,
        };
        let result = block_on(self.log.read(options)).expect("in range");
        let mut bytes = Vec::new();
        for slice in &result.slices {
            match slice {
                Slice::Bytes(slice) => bytes.extend_from_slice(slice),
                Slice::File(_) => panic!("the disk in memory has no descriptors"),
            }
        }
        assert_eq!(bytes.len(), result.size_bytes);
        let first = Batches::new(&bytes).next();
        let base = first.map(|batch| batch.expect("whole batches").0.base_offset);
        assert_eq!(base, result.base_offset);
        bytes
    }

    /// The path of a file of the segment at `base`.
    pub(super) fn file(&self, base: i64, suffix: &str) -> PathBuf {
        directory().join(format!("{base:020}.{suffix}"))
    }

    pub(super) fn contents(&self, path: &Path) -> Vec<u8> {
        let mut contents = Vec::new();
        self.disk.corrupt(path, |bytes| contents.clone_from(bytes));
        contents
    }

    pub(super) fn names(&self) -> Vec<String> {
        let entries = block_on(self.disk.read_dir(&directory())).expect("it exists");
        entries.into_iter().map(|entry| entry.name).collect()
    }

    pub(super) fn bases(&self) -> Vec<i64> {
        self.names()
            .iter()
            .filter_map(|name| name.strip_suffix(".log")?.parse().ok())
            .collect()
    }
}

/// The offset after the last batch of `bytes`; every batch must be whole.
pub(super) fn end_of(bytes: &[u8]) -> Offset {
    let last = Batches::new(bytes)
        .map(|batch| batch.expect("whole batches").0)
        .last();
    last.expect("at least one batch").next_offset()
}

pub(super) fn producer_facts(spec: &Spec) -> ProducerFacts {
    let (id, sequence) = spec.producer.expect("a spec with a producer");
    ProducerFacts {
        last_offset_delta: i32::try_from(spec.timestamps.len()).expect("small") - 1,
        producer: Some(ProducerStamp {
            id: ProducerId(id),
            epoch: ProducerEpoch(0),
            base_sequence: Sequence(sequence),
        }),
        is_transactional: false,
        max_timestamp: Timestamp(*spec.timestamps.iter().max().expect("records")),
    }
}
