//! Keeping log starts that clients were told of: the checkpoint outside of its turn.
//!
//! Invariant: rows are gathered and written in one go, under the same flag as the regular checkpoints: an older row never replaces
//! a newer one.

use std::rc::Rc;

use pelton_model::{ErrorCode, PartitionId};
use pelton_storage::dir::{Checkpoint, CheckpointRow, write_checkpoint};
use pelton_storage::{DirError, StorageError};
use pelton_transport::net::Net;

use super::gather;
use crate::env::Env;
use crate::shard::Shard;
use crate::shard::directory::DirIndex;
use crate::shard::message::Request;

/// How often the flag is looked at while the regular checkpoints are being written.
const POLL_MS: u64 = 1;

/// Writes the log starts of every shard (the controller's shard, one call at a time).
///
/// # Errors
/// Why they may not be durable, for clients: a directory has failed, or the broker stops (then the stop writes them, or not).
pub(crate) async fn keep_log_starts<E: Env>(shard: &Rc<Shard<E>>) -> Result<(), ErrorCode> {
    while shard.is_checkpointing.replace(true) {
        let next = shard.net.now().plus_ms(POLL_MS);
        shard.net.sleep_until(next).await;
    }
    let rows = gather(shard, || Request::LogStarts).await;
    let mut is_kept = rows.is_some() && !shard.is_stopping.get();
    let rows = rows.unwrap_or_default();
    for (index, directory) in shard.identity().directories.iter().enumerate() {
        let index = DirIndex(u16::try_from(index).expect("directories are counted by a u16"));
        if !is_kept {
            break;
        }
        if shard.directories.is_failed(index) {
            // A log that was fine when it was asked may have moved its start for this call.
            is_kept = !rows.iter().any(|row| row.dir == index && row.is_clean);
            continue;
        }
        let starts = rows
            .iter()
            .filter(|row| row.dir == index && row.log_start.0 > 0);
        let starts: Vec<CheckpointRow> = starts
            .map(|row| CheckpointRow {
                topic: row.topic.to_string(),
                partition: PartitionId(row.partition),
                offset: row.log_start,
            })
            .collect();
        let disk = shard.store.disk();
        let written = write_checkpoint(disk, &directory.path, Checkpoint::LogStart, starts).await;
        if let Err(error) = written {
            is_kept = false;
            if let DirError::Disk(error) = error {
                shard.fail_directory_unless_of_process(index, &StorageError::Disk(error));
            }
        }
    }
    shard.is_checkpointing.set(false);
    match is_kept {
        true => Ok(()),
        false if shard.is_stopping.get() => Err(ErrorCode::RequestTimedOut),
        false => Err(ErrorCode::KafkaStorageError),
    }
}
