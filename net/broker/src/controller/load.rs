//! Opening and replaying the metadata log.
//!
//! Invariants:
//! 1. Nothing is skipped: what cannot be read or understood stops the start and is named.
//! 2. The epoch of this run is noted in `quorum-state` before anything is written in it.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use pelton_machine::controller;
use pelton_machine::image::MetadataImage;
use pelton_model::batch::Batches;
use pelton_model::{LeaderEpoch, NodeId, Offset, TopicId};
use pelton_protocol::metadata_record::{self, LogRecord};
use pelton_protocol::quorum_state;
use pelton_storage::disk::range::read_slice;
use pelton_storage::disk::{Disk, DiskError};
use pelton_storage::{Log, LogConfig, LogStore, OpenOptions, ReadOptions};

use super::METADATA_TOPIC;
use crate::boot::{BootError, Opening};

/// Where Kafka notes the epoch of the metadata log's leader.
const QUORUM_STATE: &str = "quorum-state";
/// Bytes of that file that are read at most.
const QUORUM_STATE_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the metadata log that are read at once when it is replayed.
const REPLAY_BYTES: usize = 1024 * 1024;

/// The metadata log, opened and replayed.
pub(crate) struct Loaded<D: Disk> {
    pub(super) log: Log<D>,
    pub(super) image: MetadataImage,
    pub(super) epoch: LeaderEpoch,
}

/// Opens (or creates) the metadata log and replays it.
pub(crate) async fn load<D: Disk>(
    store: &LogStore<D>,
    directory: PathBuf,
    opening: &Opening,
) -> Result<Loaded<D>, BootError> {
    let known = opening.partition(METADATA_TOPIC, 0);
    let log = match known {
        Some(known) => {
            let options = OpenOptions {
                config: LogConfig::default(),
                recovery_point: known.recovery_point,
                clean: opening.clean,
                log_start: known.log_start,
            };
            Log::open(store, &directory, options)
                .await
                .map_err(BootError::MetadataLog)?
                .0
        }
        None => Log::create(store, &directory, TopicId::METADATA, LogConfig::default())
            .await
            .map_err(BootError::MetadataLog)?,
    };
    let mut image = MetadataImage::new();
    replay(&log, &mut image).await?;
    let epoch = next_epoch(store.disk(), &directory, &image, opening.identity.node_id)
        .await
        .map_err(BootError::QuorumState)?;
    Ok(Loaded { log, image, epoch })
}

/// The leader epoch of this run, noted in `quorum-state` before anything is written in it.
async fn next_epoch<D: Disk>(
    disk: &D,
    directory: &Path,
    image: &MetadataImage,
    node: NodeId,
) -> Result<LeaderEpoch, DiskError> {
    let path = directory.join(QUORUM_STATE);
    let known = match disk.read_file(&path, QUORUM_STATE_BYTES_MAX).await {
        Ok(text) => quorum_state::leader_epoch(&String::from_utf8_lossy(&text)),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error),
    };
    let epoch = controller::next_epoch(image, known);
    disk.replace_file(&path, quorum_state::encode(node, epoch).as_bytes())
        .await?;
    Ok(epoch)
}

async fn replay<D: Disk>(log: &Log<D>, image: &mut MetadataImage) -> Result<(), BootError> {
    let mut from = log.log_start();
    if Offset::ZERO < from {
        return Err(BootError::MetadataSnapshotNeeded { log_start: from });
    }
    while from < log.log_end() {
        let options = ReadOptions {
            from,
            up_to: log.log_end(),
            bytes_max: REPLAY_BYTES,
            at_least_one: true,
        };
        let read = log.read(options).await.map_err(BootError::MetadataRead)?;
        for slice in read.slices {
            let bytes = read_slice(slice).map_err(BootError::MetadataBytes)?;
            for batch in Batches::new(&bytes) {
                let (header, batch) = batch.map_err(BootError::MetadataBatch)?;
                replay_batch(image, &bytes.slice_ref(batch))?;
                from = header.last_offset().plus(1);
            }
        }
    }
    Ok(())
}

fn replay_batch(image: &mut MetadataImage, batch: &Bytes) -> Result<(), BootError> {
    for entry in metadata_record::records_of(batch).map_err(BootError::MetadataRecord)? {
        match entry.record {
            LogRecord::Metadata(record) => {
                image
                    .replay(entry.offset, entry.epoch, &record)
                    .map_err(BootError::MetadataReplay)?;
            }
            LogRecord::Control(_) => image.advance(entry.offset, entry.epoch),
        }
    }
    Ok(())
}
