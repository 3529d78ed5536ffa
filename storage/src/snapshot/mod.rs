//! The start-up manifest of a log directory: what a clean stop knew of every log, so that the next start opens and lists no
//! partition's directory.
//!
//! | offset | size | field | meaning |
//! |---:|---:|---|---|
//! | 0 | 8 | magic | `PELTONMF` |
//! | 8 | 4 | version | u32, little-endian |
//! | 12 | 4 | crc | CRC-32C of the body, u32, little-endian |
//! | 16 | rest | body | [`Manifest`], archived |
//!
//! Invariants:
//! 1. It is a cache: whatever is wrong with it, a start without it arrives at the same logs, only later.
//! 2. Bytes are hostile: first the checksum, then a checked access, then each log's rows are checked for sense when it is opened.
//! 3. It speaks of one clean stop: that of the marker with its broker epoch, beside the checkpoint files with its checksum. Apache Kafka
//!    takes the marker at its start and leaves one with another epoch, so a directory that it has used is never opened by this.
//! 4. A log is opened by it only while its directory and its active segment bear the stamps that the stop saw.
//!
//! Not here: when it is written and consumed (`dir`), and what a log makes of its rows (`log::resume`).

#[cfg(test)]
mod tests;

use std::fmt;

use rkyv::rancor::Error;
use rkyv::util::AlignedVec;
use rkyv::{Archive, Deserialize, Serialize};

/// The manifest's file within the log directory; Apache Kafka ignores files that it does not know there.
pub(crate) const FILE: &str = "pelton.manifest";
/// A change of any archived type below is a new version.
const VERSION: u32 = 2;
const MAGIC: &[u8; 8] = b"PELTONMF";
const HEADER_BYTES: usize = 16;

const _: () = assert!(HEADER_BYTES == MAGIC.len() + 4 + 4);

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct Manifest {
    /// The broker epoch in the marker that belongs to it.
    pub broker_epoch: i64,
    /// CRC-32C over the checkpoint files beside it, one after the other.
    pub checkpoints_crc: u32,
    /// Every log that was closed whole.
    pub logs: Vec<LogManifest>,
}

/// One log as a clean stop left it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct LogManifest {
    /// The topic's name.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The topic's id.
    pub topic_id: [u8; 16],
    /// The first offset.
    pub log_start: i64,
    /// The next offset; everything below is durable.
    pub log_end: i64,
    /// The offset of the newest producer snapshot.
    pub snapshot_at: Option<i64>,
    /// Leader epochs and their first offsets.
    pub epochs: Vec<(i32, i64)>,
    /// Whether the file of the epochs says something else that means the same.
    pub epochs_unwritten: bool,
    /// The producers.
    pub producers: Vec<ProducerManifest>,
    /// The segments, in order.
    pub segments: Vec<SegmentManifest>,
    /// When the directory changed last.
    pub directory_changed: i64,
    /// When the active segment's file changed last.
    pub active_changed: i64,
}

/// One producer, with all of its remembered batches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct ProducerManifest {
    /// The producer's id.
    pub id: i64,
    /// Its epoch.
    pub epoch: i16,
    /// The epoch of the coordinator of its last marker.
    pub coordinator_epoch: i32,
    /// The time of its last batch or marker.
    pub last_timestamp: i64,
    /// The first offset of its open transaction; −1: none.
    pub txn_first_offset: i64,
    /// Last sequence, last offset, offset delta, timestamp of each remembered batch, oldest first.
    pub batches: Vec<(i32, i64, i32, i64)>,
}

/// One segment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct SegmentManifest {
    /// The base offset.
    pub base: i64,
    /// Bytes of whole batches.
    pub size_bytes: u64,
    /// The largest timestamp and its offset, when known; −1 both: no batch has one.
    pub max_timestamp: Option<(i64, i64)>,
    /// Bytes since the last index entry.
    pub since_entry: u64,
    /// The indexes, when they were looked at.
    pub indexes: Option<IndexManifest>,
    /// Whether it has an index of aborted transactions.
    pub has_aborted: bool,
}

/// Both indexes of a segment: how many entries, and the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct IndexManifest {
    /// Entries of the offset index.
    pub offset_count: u64,
    /// Relative offset and position.
    pub offset_last: Option<(u32, u32)>,
    /// Entries of the time index.
    pub time_count: u64,
    /// Timestamp and relative offset.
    pub time_last: Option<(i64, u32)>,
}

/// Why bytes are not a manifest. The start goes on without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestError {
    /// Too short, or another file.
    Foreign,
    /// Written by another release.
    Version(u32),
    /// The checksum does not match.
    Crc,
    /// The body is not what it should be, in spite of its checksum.
    Body,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("it is no manifest"),
            Self::Version(version) => write!(f, "its version is {version}, not {VERSION}"),
            Self::Crc => f.write_str("its checksum does not match"),
            Self::Body => f.write_str("its contents make no sense"),
        }
    }
}

impl std::error::Error for ManifestError {}

impl Manifest {
    /// The file's contents; `None` when it is too large to be archived.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        let body = rkyv::to_bytes::<Error>(self).ok()?;
        let mut file = Vec::with_capacity(HEADER_BYTES + body.len());
        file.extend_from_slice(MAGIC);
        file.extend_from_slice(&VERSION.to_le_bytes());
        file.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
        file.extend_from_slice(&body);
        Some(file)
    }

    /// Reads a file's contents.
    ///
    /// # Errors
    /// [`ManifestError`]: nothing of it may be believed.
    pub fn decode(file: &[u8]) -> Result<Self, ManifestError> {
        let (header, body) = file
            .split_at_checked(HEADER_BYTES)
            .ok_or(ManifestError::Foreign)?;
        let (magic, numbers) = header.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(ManifestError::Foreign);
        }
        let number = |at: usize| {
            let bytes = numbers.get(at..at + 4).and_then(|b| b.try_into().ok());
            bytes.map_or(0, u32::from_le_bytes)
        };
        if number(0) != VERSION {
            return Err(ManifestError::Version(number(0)));
        }
        if number(4) != crc32c::crc32c(body) {
            return Err(ManifestError::Crc);
        }
        let mut aligned: AlignedVec = AlignedVec::with_capacity(body.len());
        aligned.extend_from_slice(body);
        rkyv::from_bytes::<Self, Error>(&aligned).map_err(|_| ManifestError::Body)
    }
}
