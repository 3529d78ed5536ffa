//! The start-up manifest of a log directory: written at a clean stop, consumed at the next start.
//!
//! Invariants:
//! 1. It is written after the checkpoints and before the clean marker, and names both.
//! 2. It is removed when it is read; it is believed only with the marker and beside the checkpoints that it names.
//! 3. Nothing that is wrong with it stops a start or a stop.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use pelton_model::PartitionId;

use super::{Checkpoint, LogDir};
use crate::config::{MANIFEST_BYTES_MAX, TEXT_FILE_BYTES_MAX};
use crate::disk::{Disk, DiskError};
use crate::snapshot::{self, LogManifest, Manifest};

/// The rows of a directory's logs.
pub(super) type Rows = BTreeMap<(String, PartitionId), LogManifest>;

impl<D: Disk> LogDir<D> {
    /// Writes the manifest of `logs`, all closed, for the marker that will be written with `broker_epoch`. After the checkpoints, before
    /// [`LogDir::mark_clean`]. Without it the next start opens every log from its files.
    ///
    /// # Errors
    /// `Disk`; there is no manifest then.
    pub async fn write_manifest(
        &self,
        broker_epoch: i64,
        logs: Vec<LogManifest>,
    ) -> Result<(), DiskError> {
        let manifest = Manifest {
            broker_epoch,
            checkpoints_crc: checkpoints_crc(&self.disk, &self.path).await?,
            logs,
        };
        match manifest.encode() {
            Some(contents) if contents.len() <= MANIFEST_BYTES_MAX => {
                let path = self.path.join(snapshot::FILE);
                self.disk.replace_file(&path, &contents).await
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Removes the manifest and gives its rows, if it belongs to the marker just taken; `marker_epoch` is that marker's.
pub(super) async fn take<D: Disk>(
    disk: &D,
    log_dir: &Path,
    marker_epoch: Option<i64>,
) -> Result<Rows, DiskError> {
    let path = log_dir.join(snapshot::FILE);
    let contents = match disk.read_file(&path, MANIFEST_BYTES_MAX).await {
        Ok(contents) => Some(contents),
        Err(error) if error.is_not_found() => return Ok(Rows::new()),
        Err(error) => {
            tracing::warn!(%error, "cannot read the start-up manifest; doing without");
            None
        }
    };
    disk.remove_file(&path).await?;
    let (Some(contents), Some(marker_epoch)) = (contents, marker_epoch) else {
        return Ok(Rows::new());
    };
    let manifest = match Manifest::decode(&contents) {
        Ok(manifest) => manifest,
        Err(error) => {
            tracing::warn!(file = %path.display(), %error, "no use as a start-up manifest; doing without");
            return Ok(Rows::new());
        }
    };
    let belongs = manifest.broker_epoch == marker_epoch
        && manifest.checkpoints_crc == checkpoints_crc(disk, log_dir).await?;
    if !belongs {
        tracing::info!(file = %path.display(), "the start-up manifest is of another stop; doing without");
        return Ok(Rows::new());
    }
    let key = |log: &LogManifest| (log.topic.clone(), PartitionId(log.partition));
    Ok(manifest
        .logs
        .into_iter()
        .map(|log| (key(&log), log))
        .collect())
}

async fn checkpoints_crc<D: Disk>(disk: &D, log_dir: &Path) -> Result<u32, DiskError> {
    let all = [
        Checkpoint::RecoveryPoint,
        Checkpoint::LogStart,
        Checkpoint::HighWatermark,
    ];
    let mut crc = 0;
    for checkpoint in all {
        let path = log_dir.join(checkpoint.file_name());
        let contents = match disk.read_file(&path, TEXT_FILE_BYTES_MAX).await {
            Ok(contents) => contents,
            Err(error) if error.is_not_found() => Bytes::new(),
            Err(error) => return Err(error),
        };
        crc = crc32c::crc32c_append(crc, &contents);
    }
    Ok(crc)
}
