//! The aborted transactions of a segment: appended as their markers are, looked up for readers of committed data.
//!
//! Invariants:
//! 1. An entry is in the file before its marker counts as appended, so that no reader passes the marker without it; what stands there
//!    without its marker is dropped by recovery.
//! 2. Whoever makes the log file's records durable makes these durable too: recovery does not rebuild them below the recovery point.
//! 3. A segment without aborted transactions has no file, and a look at it costs a comparison.
//! 4. What was read while entries were appended is not kept: it may lack them. Whoever read it asks for nothing behind them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use pelton_model::Offset;

use super::{FileKind, Segment};
use crate::config::TXN_INDEX_BYTES_MAX;
use crate::disk::{Disk, DiskError, DiskFile, OpenMode};
use crate::error::{Damage, StorageError};
use crate::txn_index::{self, AbortedTxn, ENTRY_BYTES};

/// What is known of a segment's aborted transactions.
#[derive(Debug)]
pub(super) struct Aborted<F> {
    entries: RefCell<Entries>,
    /// Open while entries are appended.
    file: RefCell<Option<Rc<F>>>,
    is_unsynced: Cell<bool>,
    /// Odd while entries are being written; grows with each append.
    appends: Cell<u64>,
}

#[derive(Debug)]
enum Entries {
    /// There are none, and no file.
    None,
    /// In the file.
    OnFile,
    /// In the file and here, in order of their markers.
    Here(Vec<AbortedTxn>),
}

impl<F> Default for Aborted<F> {
    fn default() -> Self {
        Self {
            entries: RefCell::new(Entries::None),
            file: RefCell::new(None),
            is_unsynced: Cell::new(false),
            appends: Cell::new(0),
        }
    }
}

impl<D: Disk> Segment<D> {
    /// The segment has an index of aborted transactions, which can be read.
    pub(crate) fn set_has_aborted(&self) {
        self.aborted.entries.replace(Entries::OnFile);
    }

    /// Whether a transaction was aborted in this segment.
    pub(crate) fn has_aborted(&self) -> bool {
        !matches!(&*self.aborted.entries.borrow(), Entries::None)
    }

    /// Appends transactions whose markers are about to be appended.
    pub(crate) async fn append_aborted(&self, aborted: &[AbortedTxn]) -> Result<(), DiskError> {
        let is_first = !self.has_aborted();
        let known = self.aborted.file.borrow().clone();
        let file = match known {
            Some(file) => file,
            None => {
                let mode = match is_first {
                    true => OpenMode::Truncate,
                    false => OpenMode::Write,
                };
                let path = self.path(FileKind::TxnIndex);
                let file = Rc::new(self.home.disk.open(&path, mode).await?);
                self.aborted.file.replace(Some(Rc::clone(&file)));
                file
            }
        };
        let position = file.size_bytes().await?;
        assert!(position.is_multiple_of(ENTRY_BYTES as u64));
        let bytes = Bytes::from(txn_index::encode(aborted));
        // A write that fails fails the log, so that the number may stay odd.
        let appends = &self.aborted.appends;
        appends.set(appends.get().wrapping_add(1));
        file.write_all_at(&[bytes], position).await?;
        appends.set(appends.get().wrapping_add(1));
        if is_first {
            self.added.set(self.added.get().wrapping_add(1));
            self.named.set(false);
            self.aborted
                .entries
                .replace(Entries::Here(aborted.to_vec()));
        } else if let Entries::Here(entries) = &mut *self.aborted.entries.borrow_mut() {
            entries.extend_from_slice(aborted);
        }
        self.aborted.is_unsynced.set(true);
        self.has_changed();
        Ok(())
    }

    /// Whether entries were appended since the last sync.
    pub(crate) fn has_unsynced_aborted(&self) -> bool {
        self.aborted.is_unsynced.get()
    }

    /// Makes the entries durable, save for the file's name.
    pub(crate) async fn sync_aborted(&self) -> Result<(), DiskError> {
        if !self.aborted.is_unsynced.replace(false) {
            return Ok(());
        }
        let known = self.aborted.file.borrow().clone();
        if let Some(file) = known {
            return file.sync_data().await;
        }
        let path = self.path(FileKind::TxnIndex);
        let file = self.home.disk.open(&path, OpenMode::Write).await?;
        file.sync_data().await
    }

    /// Adds the transactions that overlap `[from, up_to)` to `found`; says whether no later segment has further ones.
    pub(crate) async fn find_aborted(
        &self,
        from: Offset,
        up_to: Offset,
        found: &mut Vec<AbortedTxn>,
    ) -> Result<bool, StorageError> {
        if matches!(&*self.aborted.entries.borrow(), Entries::OnFile) {
            let appends = self.aborted.appends.get();
            let entries = self.read_aborted().await?;
            if !appends.is_multiple_of(2) || appends != self.aborted.appends.get() {
                return Ok(overlapping(&entries, from, up_to, found));
            }
            self.aborted.entries.replace(Entries::Here(entries));
        }
        match &*self.aborted.entries.borrow() {
            Entries::Here(entries) => Ok(overlapping(entries, from, up_to, found)),
            Entries::None | Entries::OnFile => Ok(false),
        }
    }

    /// The whole entries in the file; the last may just be being written.
    async fn read_aborted(&self) -> Result<Vec<AbortedTxn>, StorageError> {
        let path = self.path(FileKind::TxnIndex);
        let read = self.home.disk.read_file(&path, TXN_INDEX_BYTES_MAX).await?;
        let whole = read.len() - read.len() % ENTRY_BYTES;
        txn_index::decode(&read[..whole], self.base)
            .map_err(|_| StorageError::corrupt(&path, 0, Damage::Records))
    }

    /// Forgets what can be read again.
    pub(crate) fn forget_aborted(&self) {
        self.aborted.file.replace(None);
        let mut entries = self.aborted.entries.borrow_mut();
        if matches!(&*entries, Entries::Here(_)) {
            *entries = Entries::OnFile;
        }
    }
}

/// Adds those of `entries` that overlap `[from, up_to)` to `found`; says whether no later segment has further ones.
fn overlapping(
    entries: &[AbortedTxn],
    from: Offset,
    up_to: Offset,
    found: &mut Vec<AbortedTxn>,
) -> bool {
    let first = entries.partition_point(|entry| entry.last_offset < from);
    for entry in &entries[first..] {
        if entry.first_offset < up_to {
            found.push(*entry);
        }
        if up_to <= entry.last_stable_offset {
            return true;
        }
    }
    false
}
