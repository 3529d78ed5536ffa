//! The `.txnindex` files when a log is opened: checked, and written anew where they make no sense.
//!
//! Invariants:
//! 1. A segment that recovery scans gets the index that its markers give, and none when no transaction was aborted in it.
//! 2. A segment that is not scanned keeps its file if it can be read; if not, its markers are replayed from the newest
//!    producer snapshot before it.

use std::rc::Rc;

use pelton_model::Offset;
use pelton_model::producer_state::ProducerStates;

use super::producers;
use super::recovery::{Opening, read_batch};
use crate::config::TXN_INDEX_BYTES_MAX;
use crate::disk::Disk;
use crate::error::StorageError;
use crate::segment::{FileKind, file_path};
use crate::txn_index::{self, AbortedTxn};

impl<D: Disk> Opening<D> {
    /// After a scan of the segment at `base` from `from` on: its index is what stood there below, and `aborted`.
    pub(super) async fn settle_txn_index(
        &mut self,
        base: Offset,
        from: Offset,
        aborted: Vec<AbortedTxn>,
    ) -> Result<(), StorageError> {
        let mut entries = Vec::new();
        if base < from && self.has_txn_index(base) {
            let path = file_path(&self.home.directory, base, FileKind::TxnIndex);
            let contents = self.home.disk.read_file(&path, TXN_INDEX_BYTES_MAX).await?;
            entries = txn_index::decode(&contents, base).unwrap_or_default();
            entries.retain(|entry| entry.last_offset < from);
        }
        entries.extend(aborted);
        self.write_txn_index(base, &entries).await
    }

    fn has_txn_index(&self, base: Offset) -> bool {
        let files = self.listing.files.get(&base.0);
        files.is_some_and(|files| files.has_txn_index)
    }

    /// Makes `aborted` the index of the segment at `base`.
    async fn write_txn_index(
        &mut self,
        base: Offset,
        aborted: &[AbortedTxn],
    ) -> Result<(), StorageError> {
        let path = file_path(&self.home.directory, base, FileKind::TxnIndex);
        let has_file = self.has_txn_index(base);
        if !aborted.is_empty() {
            let contents = txn_index::encode(aborted);
            self.home.disk.replace_file(&path, &contents).await?;
        } else if has_file {
            self.home.disk.remove_file(&path).await?;
        }
        if let Some(files) = self.listing.files.get_mut(&base.0) {
            files.has_txn_index = !aborted.is_empty();
        }
        Ok(())
    }

    /// Reads the index of a segment that is not scanned; rebuilds one that makes no sense.
    pub(super) async fn check_txn_index(&mut self, index: usize) -> Result<(), StorageError> {
        let base = self.segments[index].base;
        let path = file_path(&self.home.directory, base, FileKind::TxnIndex);
        let contents = self.home.disk.read_file(&path, TXN_INDEX_BYTES_MAX).await?;
        let Err(error) = txn_index::decode(&contents, base) else {
            return Ok(());
        };
        tracing::warn!(file = %path.display(), %error, "rebuilding an index of aborted transactions");
        self.load_producers(base).await?;
        let segment = Rc::clone(&self.segments[index]);
        let mut aborted = Vec::new();
        let mut walk = segment.walk(0).await?;
        // A torn end is the scan's business.
        while let Ok(Some(found)) = walk.next().await {
            if producers::is_marker(&found.header) {
                let batch = read_batch(&segment, &found).await?;
                let states = &mut self.producers;
                aborted.extend(producers::replay_markers(states, &found.header, &batch));
            } else {
                producers::replay(&mut self.producers, &found.header);
            }
        }
        self.producers = ProducerStates::new();
        self.rebuilt_indexes += 1;
        self.write_txn_index(base, &aborted).await
    }
}
