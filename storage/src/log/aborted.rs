//! The aborted transactions of a log: looked up for readers; and their `.txnindex` files when a log is opened: checked, and written anew
//! where they make no sense.
//!
//! Invariants:
//! 1. A segment that recovery scans gets the index that its markers give, and none when no transaction was aborted in it.
//! 2. A segment that is not scanned keeps its file if it can be read; if not, its markers are replayed from the newest
//!    producer snapshot before it.

use std::rc::Rc;

use pelton_model::Offset;
use pelton_model::producer_state::ProducerStates;

use super::recovery::{Opening, read_batch};
use super::{Log, producers};
use crate::config::TXN_INDEX_BYTES_MAX;
use crate::disk::Disk;
use crate::error::{ReadError, StorageError};
use crate::segment::{FileKind, Segment, file_path};
use crate::txn_index::{self, AbortedTxn};

impl<D: Disk> Log<D> {
    /// The aborted transactions with a record or marker in `[from, up_to)`, in the order of their markers. `up_to` is at most the last
    /// stable offset: of what is open nobody knows how it ends.
    ///
    /// # Errors
    /// `OutOfRange` when the log start has passed `from`: indexes may be gone that speak of records read before.
    pub async fn aborted(&self, from: Offset, up_to: Offset) -> Result<Vec<AbortedTxn>, ReadError> {
        loop {
            let changes = self.changes.get();
            let found = self.aborted_once(from, up_to).await;
            // Compaction may have put another segment in the place of one that was looked at.
            if self.holds(changes, &found).await {
                let (log_start, log_end) = (self.log_start.get(), self.log_end.get());
                if from < log_start {
                    return Err(ReadError::OutOfRange {
                        from,
                        log_start,
                        log_end,
                    });
                }
                return Ok(found?);
            }
        }
    }

    async fn aborted_once(
        &self,
        from: Offset,
        up_to: Offset,
    ) -> Result<Vec<AbortedTxn>, StorageError> {
        self.check_open()?;
        let mut found = Vec::new();
        let (first, _) = self.segment_of(from);
        let mut next = first;
        while let Some((index, segment)) = self.aborted_from(next) {
            let is_complete = segment.find_aborted(from, up_to, &mut found).await?;
            if index != first && !Rc::ptr_eq(&segment, &self.active()) {
                segment.forget_aborted();
            }
            if is_complete {
                break;
            }
            next = index + 1;
        }
        Ok(found)
    }

    /// The first segment at or behind `index` in which a transaction was aborted.
    fn aborted_from(&self, index: usize) -> Option<(usize, Rc<Segment<D>>)> {
        let segments = self.segments.borrow();
        let mut from = segments.iter().enumerate().skip(index);
        let (index, segment) = from.find(|(_, segment)| segment.has_aborted())?;
        Some((index, Rc::clone(segment)))
    }
}

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

    pub(super) fn has_txn_index(&self, base: Offset) -> bool {
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
