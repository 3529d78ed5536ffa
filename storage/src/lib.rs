//! The partition log in Kafka's on-disk format, on `trait Disk`.
//!
//! Storage keeps; it does not know requests, spawns nothing and reads no clock.
//!
//! The pieces, from the outside in: [`LogDir`] owns one log directory (lock, identity, checkpoints, the list of
//! partitions); [`LogStore`] is what the logs of one shard share; [`Log`] is one partition: segments with their sparse
//! indexes, the leader epoch history, the memory tail. [`compaction`] rewrites closed segments, [`trash`] removes what was
//! deleted, [`snapshot`] is the start-up manifest.
//!
//! Absent here: when to sync, clean and delete (the owner's business); truncation by followers, which comes with replication.

pub mod compaction;
pub mod config;
pub mod dir;
pub mod disk;
pub mod epoch;
mod error;
pub mod format;
pub mod index;
pub mod log;
pub mod trash;
pub mod txn_index;

mod segment;
pub mod snapshot;

pub use config::{LogConfig, PrepareOptions};
pub use dir::{
    Checkpoint, CheckpointRow, DirError, DirOptions, FutureDir, Inventory, LogDir, MetaProperties,
    PartitionDir,
};
pub use epoch::{EpochCache, EpochEnd, EpochEntry};
pub use error::{Damage, ReadError, StorageError};
pub use log::{
    BatchFacts, ClosedLog, Log, LogStore, OpenOptions, ReadOptions, ReadResult, Recovery, Retained,
    RetentionTerms, TimestampOffset,
};
pub use snapshot::LogManifest;
