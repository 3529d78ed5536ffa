//! Snapshots of the metadata log on disk: which there are, and the newest that is whole.
//!
//! Invariants:
//! 1. What a crash left half written or half removed (`.part`, `.deleted`) is removed.
//! 2. A damaged snapshot is set aside under a name that nobody reads, never overwritten; an older one stands in as long as the log
//!    reaches back to it. Without one the start is refused.
//! 3. A whole snapshot that says what we do not know stops the start: no older one hides it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use pelton_model::{Offset, Timestamp};
use pelton_protocol::metadata_record::LogRecord;
use pelton_protocol::metadata_snapshot::{SnapshotId, SnapshotName, SnapshotReader, parse_name};
use pelton_storage::Log;
use pelton_storage::disk::{Disk, DiskFile, OpenMode};

use super::load::State;
use crate::boot::{BootError, MetadataFault};

/// Bytes of a snapshot that are read at most.
const SNAPSHOT_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Bytes that hold a snapshot's header, with any voter set of this world.
const HEADER_BYTES_MAX: usize = 64 * 1024;

/// A snapshot on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SnapshotFacts {
    /// Bytes of the file.
    pub(super) size_bytes: u64,
    /// The time of the last record contained; none when the header cannot be read.
    pub(super) last_contained: Option<Timestamp>,
}

/// The snapshots on disk, the newest last.
pub(super) type Snapshots = BTreeMap<SnapshotId, SnapshotFacts>;

/// Lists the snapshots in the metadata log's directory and removes leftovers.
pub(super) async fn list<D: Disk>(disk: &D, directory: &Path) -> Result<Snapshots, BootError> {
    let entries = disk.read_dir(directory).await;
    let mut snapshots = Snapshots::new();
    for entry in entries.map_err(BootError::MetadataFile)? {
        let path = directory.join(&entry.name);
        match parse_name(&entry.name) {
            Some(SnapshotName::Complete(id)) if !entry.is_dir => {
                let facts = SnapshotFacts {
                    size_bytes: entry.size_bytes,
                    last_contained: last_contained(disk, &path).await?,
                };
                snapshots.insert(id, facts);
            }
            Some(SnapshotName::Leftover) if !entry.is_dir => {
                tracing::info!(file = %path.display(), "removing what is left of a metadata snapshot");
                let removed = disk.remove_file(&path).await;
                removed.map_err(BootError::MetadataFile)?;
            }
            Some(_) | None => {}
        }
    }
    Ok(snapshots)
}

async fn last_contained<D: Disk>(disk: &D, path: &Path) -> Result<Option<Timestamp>, BootError> {
    let file = disk.open(path, OpenMode::Read).await;
    let file = file.map_err(BootError::MetadataFile)?;
    let bytes = file.read_at(0, HEADER_BYTES_MAX).await;
    let bytes = bytes.map_err(BootError::MetadataFile)?;
    let mut reader = SnapshotReader::new(&bytes);
    // The end may be cut off here; what matters is known after the first step.
    let _first = reader.next();
    Ok(reader.last_contained())
}

/// The state of the newest whole snapshot, or of nothing where the log begins at 0.
pub(super) async fn newest<D: Disk>(
    disk: &D,
    log: &Log<D>,
    snapshots: &mut Snapshots,
) -> Result<State, BootError> {
    let (start, end) = (log.log_start(), log.log_end());
    let ids: Vec<SnapshotId> = snapshots.keys().copied().collect();
    let useless = ids.iter().filter(|id| id.end < start);
    for id in useless {
        remove(disk, &log.directory().join(id.file_name())).await?;
        snapshots.remove(id);
    }
    let ids: Vec<SnapshotId> = snapshots.keys().rev().copied().collect();
    for id in ids {
        let path = log.directory().join(id.file_name());
        if end < id.end {
            return Err(BootError::MetadataLogLost { path, log_end: end });
        }
        let bytes = disk.read_file(&path, SNAPSHOT_BYTES_MAX).await;
        let bytes = bytes.map_err(BootError::MetadataFile)?;
        match read(id, &bytes) {
            Ok(state) => {
                tracing::info!(file = %path.display(), "metadata snapshot read");
                return Ok(state);
            }
            Err(MetadataFault::Snapshot(error)) if error.is_damage() => {
                tracing::error!(file = %path.display(), %error, "a metadata snapshot is damaged; an older state and the log stand in");
                set_aside(disk, &path).await?;
                snapshots.remove(&id);
            }
            Err(fault) => return Err(BootError::Metadata { path, fault }),
        }
    }
    if Offset::ZERO < start {
        return Err(BootError::MetadataSnapshotNeeded { log_start: start });
    }
    Ok(State::default())
}

/// The state that the bytes of a snapshot describe.
pub(super) fn read(id: SnapshotId, bytes: &Bytes) -> Result<State, MetadataFault> {
    let mut state = State::default();
    let mut reader = SnapshotReader::new(bytes);
    for entry in reader.by_ref() {
        let entry = entry.map_err(MetadataFault::Snapshot)?;
        match entry.record {
            LogRecord::Metadata(record) => {
                let replayed = state.image.replay(entry.offset, entry.epoch, &record);
                replayed.map_err(MetadataFault::Replay)?;
            }
            LogRecord::Control(record) => state.quorum.replay(&record),
        }
    }
    if state.image.in_transaction() {
        return Err(MetadataFault::OpenTransaction);
    }
    if id == SnapshotId::BOOTSTRAP {
        state.quorum.is_only_formatted();
    }
    state.last_timestamp = reader.last_contained().unwrap_or(Timestamp(0));
    state.image.stand_at(id.end, id.epoch);
    Ok(state)
}

async fn remove<D: Disk>(disk: &D, path: &Path) -> Result<(), BootError> {
    tracing::info!(file = %path.display(), "removing a metadata snapshot from before the log's start");
    let removed = disk.remove_file(path).await;
    removed.map_err(BootError::MetadataFile)
}

/// Renames a damaged snapshot, so that neither we nor Kafka take it for one.
async fn set_aside<D: Disk>(disk: &D, path: &Path) -> Result<(), BootError> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".corrupt");
    let renamed = disk.rename(path, &PathBuf::from(aside)).await;
    renamed.map_err(BootError::MetadataFile)?;
    let synced = disk.sync_dir(path.parent().unwrap_or(path)).await;
    synced.map_err(BootError::MetadataFile)
}
