//! Compaction: of each key only the newest record stays, at its offset.
//!
//! A pass over one log has two halves. First the keys from the first dirty offset on are gathered in a map of fixed memory
//! ([`KeyMap`]); when it is full, the pass ends there, and a later one goes on. Then every segment below the map's end is
//! written anew without the records that have a newer one, several small segments into one, and takes the old ones' place.
//!
//! The pieces: [`plan`] says what is worth cleaning and which segments become one; [`filter`] what stays of a batch;
//! [`transactions`] what was aborted; [`Pass`] does it, step by step, at its caller's pace.
//!
//! Invariants:
//! 1. Segments are replaced as Kafka does it: `.cleaned` (written, synced) → `.swap` (the point of no return) → the final
//!    name, the old ones as `.deleted`. A crash at any step leaves the old segments or the new one, never both or neither.
//! 2. A group's end stays readable from its last batch, which is kept at least as a header: offsets have no unexplained gap
//!    between segments, and a swap found at a start covers all that it replaces.
//! 3. Readers that hold an old segment go on reading it; a read that met the replacement begins again.
//! 4. Nothing here runs for long: a step reads, filters or writes one piece, on the helper of the disk's background.
//!
//! Absent here: which logs and when (the broker's cleaner decides), throttling, the checkpoint of cleaned offsets.

pub mod filter;
pub mod key_map;
pub(crate) mod output;
mod pass;
pub mod plan;
mod source;
pub mod transactions;

use std::fmt;
use std::path::PathBuf;

pub use filter::{Counts, LastRecord, LastRecords, Settings};
pub use key_map::{HashSeed, KeyMap};
pub use pass::{Cleaned, Pass, PassOptions, Step};
pub use plan::{Plan, Policy};

use crate::disk::DiskError;
use crate::error::{Damage, StorageError};

/// Why a pass ended early. The log is as it was, or has a group of segments less.
#[derive(Debug)]
pub enum CleanError {
    /// The disk refused while the replacement was written: nothing is lost, and the pass may be tried again.
    Disk(DiskError),
    /// The log failed or was closed, or failed in the moment of replacement.
    Log(StorageError),
    /// The segments changed under the pass (retention, deletion of records): try again.
    Changed,
    /// A batch is damaged: it is neither copied nor dropped, and the log must not be cleaned again.
    Damaged {
        /// The segment.
        path: PathBuf,
        /// The batch, or a place shortly before it.
        position: u64,
        /// What is wrong.
        damage: Damage,
    },
    /// Delete horizons made a segment grow beyond 2 GiB: the log must not be cleaned again.
    TooLarge {
        /// The segment.
        path: PathBuf,
    },
}

impl fmt::Display for CleanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(error) => error.fmt(f),
            Self::Log(error) => error.fmt(f),
            Self::Changed => f.write_str("the segments changed meanwhile"),
            Self::Damaged {
                path,
                position,
                damage,
            } => write!(f, "{} at byte {position}: {damage}", path.display()),
            Self::TooLarge { path } => {
                write!(f, "{} would grow beyond 2 GiB", path.display())
            }
        }
    }
}

impl std::error::Error for CleanError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Disk(error) => Some(error),
            Self::Log(error) => Some(error),
            Self::Changed | Self::Damaged { .. } | Self::TooLarge { .. } => None,
        }
    }
}

impl From<DiskError> for CleanError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}
