//! What formatting a directory leaves for the first start: `bootstrap.checkpoint`, and the snapshot at offset 0 with the voters.
//!
//! Invariants:
//! 1. A directory that Apache Kafka formatted starts with what Kafka put there; one that is new gets the same files from us.
//! 2. Both files are written before the first batch of the log.
//!
//! Source: KIP-630, KIP-778, KIP-853; `kafka-storage format` of Apache Kafka 4.3.1.

use std::path::Path;

use bytes::Bytes;
use pelton_machine::controller::{QuorumImage, bootstrap_records};
use pelton_model::record_type::metadata::MetadataRecord;
use pelton_model::{LeaderEpoch, Timestamp};
use pelton_protocol::metadata_record::LogRecord;
use pelton_protocol::metadata_snapshot::{self, SnapshotId, SnapshotReader};
use pelton_storage::disk::Disk;

use super::restore::{SnapshotFacts, Snapshots};
use super::snapshot;
use crate::boot::{BootError, MetadataFault};

const BOOTSTRAP: &str = "bootstrap.checkpoint";
/// Bytes of that file that are read at most.
const BOOTSTRAP_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The records that a new log begins with: those of `bootstrap.checkpoint` in the log directory, which is written where it is missing.
pub(super) async fn bootstrap<D: Disk>(
    disk: &D,
    directory: &Path,
    now: Timestamp,
) -> Result<Vec<MetadataRecord>, BootError> {
    let path = directory.with_file_name(BOOTSTRAP);
    match disk.read_file(&path, BOOTSTRAP_BYTES_MAX).await {
        Ok(bytes) => read(&bytes).map_err(|fault| BootError::Metadata { path, fault }),
        Err(error) if error.is_not_found() => {
            let records = bootstrap_records();
            let batches = metadata_snapshot::encode(LeaderEpoch(0), now, Vec::new(), &records);
            let written = disk.replace_file(&path, &batches.concat()).await;
            written.map_err(BootError::MetadataFile)?;
            Ok(records)
        }
        Err(error) => Err(BootError::MetadataFile(error)),
    }
}

fn read(bytes: &Bytes) -> Result<Vec<MetadataRecord>, MetadataFault> {
    let mut records = Vec::new();
    for entry in SnapshotReader::new(bytes) {
        let entry = entry.map_err(MetadataFault::Snapshot)?;
        if let LogRecord::Metadata(record) = entry.record {
            records.push(record);
        }
    }
    Ok(records)
}

/// Writes the snapshot at offset 0, which tells a Kafka that the quorum is a dynamic one.
pub(super) async fn first_snapshot<D: Disk>(
    disk: &D,
    directory: &Path,
    quorum: &QuorumImage,
    now: Timestamp,
    snapshots: &mut Snapshots,
) -> Result<(), BootError> {
    let id = SnapshotId::BOOTSTRAP;
    let batches = metadata_snapshot::encode(id.epoch, now, quorum.snapshot_records(), &[]);
    let part = directory.join(id.partial_name());
    let path = directory.join(id.file_name());
    let written = snapshot::write_file(disk, &part, &path, &batches).await;
    let size_bytes = written.map_err(BootError::MetadataFile)?;
    let facts = SnapshotFacts {
        size_bytes,
        last_contained: Some(Timestamp(0)),
    };
    snapshots.insert(id, facts);
    Ok(())
}
