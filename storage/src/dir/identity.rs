//! `meta.properties`: whose directory it is.
//!
//! Invariants:
//! 1. A directory used for the first time gets an identity before anything else is written to it.
//! 2. A file that cannot be understood, or names another node or cluster, is never overwritten.

use std::path::Path;

use super::{DirError, DirOptions, META_FILE, MetaProperties, listing};
use crate::config::TEXT_FILE_BYTES_MAX;
use crate::disk::{DirEntry, Disk};
use crate::format;

/// Reads the identity, with whether the file names the directory's id; none when the directory is new.
pub(super) async fn read<D: Disk>(
    disk: &D,
    log_dir: &Path,
    entries: &[DirEntry],
) -> Result<Option<(MetaProperties, bool)>, DirError> {
    let path = log_dir.join(META_FILE);
    let contents = match disk.read_file(&path, TEXT_FILE_BYTES_MAX).await {
        Ok(contents) => contents,
        Err(error) if error.is_not_found() => {
            if entries.iter().any(listing::is_partition) {
                return Err(DirError::MetaMissing { path });
            }
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    match format::decode_meta(&contents) {
        Ok(decoded) => Ok(Some(decoded)),
        Err(error) => {
            let problem = error.0;
            Err(DirError::MetaCorrupt { path, problem })
        }
    }
}

/// Reads the identity, or writes it when the directory is new.
pub(super) async fn settle<D: Disk>(
    disk: &D,
    log_dir: &Path,
    options: &DirOptions,
    entries: &[DirEntry],
) -> Result<MetaProperties, DirError> {
    let path = log_dir.join(META_FILE);
    let Some((mut meta, has_directory)) = read(disk, log_dir, entries).await? else {
        let cluster_id = options.cluster_id.as_ref();
        let meta = MetaProperties {
            cluster_id: cluster_id.unwrap_or(&options.new_cluster_id).clone(),
            node_id: options.node_id,
            directory_id: options.new_directory_id,
        };
        disk.replace_file(&path, &format::encode_meta(&meta))
            .await?;
        return Ok(meta);
    };
    let mismatch = |property, found: String, expected: String| {
        Err(DirError::MetaMismatch {
            path: path.clone(),
            property,
            found,
            expected,
        })
    };
    if meta.node_id != options.node_id {
        let (found, expected) = (meta.node_id, options.node_id);
        return mismatch("node.id", found.to_string(), expected.to_string());
    }
    if let Some(expected) = &options.cluster_id
        && *expected != meta.cluster_id
    {
        return mismatch("cluster.id", meta.cluster_id, expected.clone());
    }
    if !has_directory {
        // Releases before 3.7 gave directories no id.
        meta.directory_id = options.new_directory_id;
        disk.replace_file(&path, &format::encode_meta(&meta))
            .await?;
    }
    Ok(meta)
}
