//! What can go wrong in a log, and what the caller does about it.
//!
//! 1. Every error names its object; nothing here is an answer to a client (the broker maps variants to `ErrorCode`).
//! 2. `Failed` is final for a log until the process restarts: after a failed write or sync the kernel may already have
//!    dropped the dirty pages, so nothing may be appended behind them.

use std::fmt;
use std::path::{Path, PathBuf};

use pelton_model::Offset;

use crate::disk::DiskError;

/// A failed operation on a log.
#[derive(Debug)]
pub enum StorageError {
    /// The disk refused. After a write or sync the log is failed; after a read it goes on.
    Disk(DiskError),
    /// An earlier write or sync of this log failed; the log answers nothing more.
    Failed {
        /// The partition's directory.
        path: PathBuf,
    },
    /// The log was closed or deleted.
    Closed {
        /// The partition's directory.
        path: PathBuf,
    },
    /// Bytes below the recovery point, which were once durable, are damaged. They are neither served nor cut.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it.
        position: u64,
        /// What is wrong.
        damage: Damage,
    },
}

/// What is wrong with bytes on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The batch header makes no sense here.
    Header,
    /// The batch's checksum does not match.
    Checksum,
    /// Records of the batch cannot be decoded.
    Records,
    /// The batch's offsets fall outside its segment or behind its predecessor.
    Offsets,
    /// A message format older than 2, which is not read here.
    OldFormat,
    /// `partition.metadata` cannot be read.
    PartitionMetadata,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "the batch header makes no sense",
            Self::Checksum => "the batch checksum does not match",
            Self::Records => "the records cannot be decoded",
            Self::Offsets => "the batch offsets do not fit the segment",
            Self::OldFormat => "the message format is older than 2",
            Self::PartitionMetadata => "partition.metadata cannot be read",
        })
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(error) => error.fmt(f),
            Self::Failed { path } => {
                write!(f, "{}: an earlier write or sync failed", path.display())
            }
            Self::Closed { path } => write!(f, "{}: the log is closed", path.display()),
            Self::Corrupt {
                path,
                position,
                damage,
            } => write!(f, "{} at byte {position}: {damage}", path.display()),
        }
    }
}

impl std::error::Error for StorageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Disk(error) => Some(error),
            Self::Failed { .. } | Self::Closed { .. } | Self::Corrupt { .. } => None,
        }
    }
}

impl From<DiskError> for StorageError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

impl StorageError {
    /// Names damaged bytes.
    pub(crate) fn corrupt(path: &Path, position: u64, damage: Damage) -> Self {
        Self::Corrupt {
            path: path.to_owned(),
            position,
            damage,
        }
    }
}

/// A refused or failed read.
#[derive(Debug)]
pub enum ReadError {
    /// `from` is outside `[log_start, log_end]`: the client must reset its position.
    OutOfRange {
        /// The asked offset.
        from: Offset,
        /// The first offset there is.
        log_start: Offset,
        /// The next offset to be appended.
        log_end: Offset,
    },
    /// The log could not be read.
    Storage(StorageError),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange {
                from,
                log_start,
                log_end,
            } => write!(f, "offset {from} is outside [{log_start}, {log_end}]"),
            Self::Storage(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Storage(error) => Some(error),
            Self::OutOfRange { .. } => None,
        }
    }
}

impl From<StorageError> for ReadError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<DiskError> for ReadError {
    fn from(error: DiskError) -> Self {
        Self::Storage(StorageError::Disk(error))
    }
}
