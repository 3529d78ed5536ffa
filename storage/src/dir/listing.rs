//! The partitions of a log directory and what its checkpoints say of them.
//!
//! Invariants:
//! 1. `…-delete` directories are told apart, for the trash, and `…-future` ones, copies that a move did not finish; what is no partition is
//!    left alone.
//! 2. A partition whose creation never finished (unreadable identity, no data) is removed: nobody was told of it.
//! 3. An unreadable checkpoint counts as empty: recovery then verifies more, never less.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pelton_model::{Offset, PartitionId, TopicId};

use super::{
    Checkpoint, CheckpointRow, FUTURE_DIGITS, FUTURE_SUFFIX, FutureDir, PartitionDir, manifest,
};
use crate::config::TEXT_FILE_BYTES_MAX;
use crate::disk::{DirEntry, Disk, DiskError};
use crate::format;

type Rows = BTreeMap<(String, PartitionId), Offset>;

/// What lies in a log directory.
pub(super) struct Listed {
    /// The partitions in order of topic and partition.
    pub(super) partitions: Vec<PartitionDir>,
    /// Directories of deleted partitions.
    pub(super) deleted: Vec<PathBuf>,
    /// Copies that were being made.
    pub(super) futures: Vec<FutureDir>,
}

/// Lists the directory.
pub(super) async fn list<D: Disk>(
    disk: &D,
    log_dir: &Path,
    entries: &[DirEntry],
    mut manifest: manifest::Rows,
) -> Result<Listed, DiskError> {
    let mut recovery_points = checkpoint(disk, log_dir, Checkpoint::RecoveryPoint).await?;
    let mut log_starts = checkpoint(disk, log_dir, Checkpoint::LogStart).await?;
    let mut high_watermarks = checkpoint(disk, log_dir, Checkpoint::HighWatermark).await?;
    let mut cleaned = checkpoint(disk, log_dir, Checkpoint::Cleaner).await?;
    let (mut partitions, mut deleted, mut futures) = (Vec::new(), Vec::new(), Vec::new());
    for entry in entries.iter().filter(|entry| entry.is_dir) {
        let path = log_dir.join(&entry.name);
        if entry.name.ends_with("-delete") {
            deleted.push(path);
            continue;
        }
        if let Some((topic, partition)) = parse_future(&entry.name) {
            futures.push(FutureDir {
                topic: topic.to_owned(),
                partition,
                topic_id: identity(disk, &path).await?.flatten(),
                path,
            });
            continue;
        }
        let Some((topic, partition)) = parse_name(&entry.name) else {
            tracing::warn!(directory = %path.display(), "not a partition; left alone");
            continue;
        };
        let key = (topic.to_owned(), partition);
        let manifest = manifest.remove(&key).map(Box::new);
        let known = manifest.as_ref().map(|rows| Some(TopicId(rows.topic_id)));
        let found = match known {
            Some(known) => Some(known),
            None => identity(disk, &path).await?,
        };
        let Some(topic_id) = found else {
            tracing::warn!(directory = %path.display(), "its creation never finished; removed");
            disk.remove_dir_all(&path).await?;
            continue;
        };
        partitions.push(PartitionDir {
            path,
            topic: topic.to_owned(),
            partition,
            topic_id,
            recovery_point: recovery_points.remove(&key).unwrap_or(Offset::ZERO),
            log_start: log_starts.remove(&key),
            high_watermark: high_watermarks.remove(&key),
            cleaned_to: cleaned.remove(&key),
            manifest,
        });
    }
    partitions.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
    Ok(Listed {
        partitions,
        deleted,
        futures,
    })
}

/// Whether a directory entry looks like a partition.
pub(super) fn is_partition(entry: &DirEntry) -> bool {
    entry.is_dir && parse_name(&entry.name).is_some()
}

fn parse_name(name: &str) -> Option<(&str, PartitionId)> {
    let (topic, digits) = name.rsplit_once('-')?;
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if topic.is_empty() || !plain {
        return None;
    }
    Some((topic, PartitionId(digits.parse().ok()?)))
}

/// The partition of which a directory was to become a copy.
fn parse_future(name: &str) -> Option<(&str, PartitionId)> {
    let (name, digits) = name.strip_suffix(FUTURE_SUFFIX)?.rsplit_once('.')?;
    let is_id = digits.len() == FUTURE_DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if is_id { parse_name(name) } else { None }
}

/// The topic id (`Some(None)`: unknown, yet there is data); `None` when the partition never came to be.
async fn identity<D: Disk>(disk: &D, path: &Path) -> Result<Option<Option<TopicId>>, DiskError> {
    let file = path.join("partition.metadata");
    let contents = match disk.read_file(&file, TEXT_FILE_BYTES_MAX).await {
        Ok(contents) => Some(contents),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error),
    };
    if let Some(Ok(id)) = contents.as_deref().map(format::decode_partition_metadata) {
        return Ok(Some(Some(id)));
    }
    let files = disk.read_dir(path).await?;
    let has_data = |file: &DirEntry| !file.is_dir && file.size_bytes > 0 && is_log(&file.name);
    Ok(files.iter().any(has_data).then_some(None))
}

fn is_log(name: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|extension| extension == "log")
}

async fn checkpoint<D: Disk>(
    disk: &D,
    log_dir: &Path,
    checkpoint: Checkpoint,
) -> Result<Rows, DiskError> {
    let path = log_dir.join(checkpoint.file_name());
    let contents = match disk.read_file(&path, TEXT_FILE_BYTES_MAX).await {
        Ok(contents) => contents,
        Err(error) if error.is_not_found() => return Ok(Rows::new()),
        Err(error) => return Err(error),
    };
    match format::decode_checkpoint(&contents) {
        Ok(rows) => Ok(rows.into_iter().map(key).collect()),
        Err(error) => {
            tracing::warn!(file = %path.display(), problem = error.0, "unreadable; counts as empty");
            Ok(Rows::new())
        }
    }
}

fn key(row: CheckpointRow) -> ((String, PartitionId), Offset) {
    ((row.topic, row.partition), row.offset)
}
