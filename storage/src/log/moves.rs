//! Moving a log to another log directory of the node (KIP-113): a second log receives a copy of every batch while the first goes on, and then
//! takes its place.
//!
//! Invariants:
//! 1. Until it takes the place, the copy lies in a directory of Kafka's name for it, `<topic>-<partition>.<32 hex digits>-future`, which no
//!    start takes for the partition's.
//! 2. A log that bears the partition's name is whole and durable.
//! 3. A copy begins with the batch that holds its original's log start.
//!
//! Not here: what is copied when, and when the copy takes the place (the owner's task).

use std::path::Path;

use bytes::Bytes;
use pelton_model::producer_state::ProducerStates;
use pelton_model::{Offset, PartitionId, TopicId};

use super::{Log, LogStore, OpenOptions, ReadOptions};
use crate::disk::Disk;
use crate::error::{ReadError, StorageError};

impl<D: Disk> Log<D> {
    /// Where a copy of this log begins.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub async fn copy_base(&self) -> Result<Offset, StorageError> {
        let log_start = self.log_start.get();
        let first = ReadOptions {
            from: log_start,
            up_to: self.log_end.get(),
            bytes_max: 1,
            at_least_one: true,
        };
        let first = match self.read(first).await {
            Ok(read) => read.base_offset,
            // It moved meanwhile: the copy passes over what is gone.
            Err(ReadError::OutOfRange { .. }) => None,
            Err(ReadError::Storage(error)) => return Err(error),
        };
        Ok(first.map_or(log_start, |base| base.min(log_start)))
    }

    /// Creates an empty log in `directory` that begins at `base` and is to become a copy of this one.
    ///
    /// # Errors
    /// `Disk`; this log has not failed by it.
    pub async fn create_copy(
        &self,
        store: &LogStore<D>,
        directory: &Path,
        topic_id: TopicId,
        base: Offset,
    ) -> Result<Self, StorageError> {
        let copy = Self::create_at(store, directory, topic_id, self.config.get(), base).await?;
        if let Some(parent) = directory.parent() {
            store.disk.sync_dir(parent).await?;
        }
        Ok(copy)
    }

    /// Closes this log, renames its directory to `to`, and opens it there. `producers` are those as of its end.
    ///
    /// # Errors
    /// `Disk`; the log has failed then, and its directory has either name.
    pub async fn rename_to(
        &self,
        store: &LogStore<D>,
        to: &Path,
        (topic, partition): (&str, PartitionId),
        producers: &ProducerStates,
    ) -> Result<Self, StorageError> {
        let end = self.log_end.get();
        // What is queued behind the end may have pushed out what a snapshot at the end needs: recovery reads the log then.
        let snapshot = producers
            .is_known_at(end)
            .then(|| producers.encode_snapshot(end));
        self.close(snapshot.map(Bytes::from)).await?;
        let rows = self.manifest(topic, partition, &producers.rows()).await;
        let disk = &self.home.disk;
        disk.rename(&self.home.directory, to).await?;
        if let Some(parent) = to.parent() {
            disk.sync_dir(parent).await?;
        }
        let options = OpenOptions {
            config: self.config.get(),
            recovery_point: end,
            clean: true,
            log_start: Some(self.log_start.get()),
        };
        let resumed = rows.and_then(|rows| Self::from_rows(store, to, &rows, options));
        match resumed {
            Some((log, _)) => Ok(log),
            None => Ok(Self::open(store, to, options).await?.0),
        }
    }
}
