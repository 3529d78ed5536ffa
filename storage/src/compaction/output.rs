//! A segment being written by compaction, under `.cleaned` names until it is whole and durable.
//!
//! | file | contents |
//! |---|---|
//! | `.log.cleaned` | the batches that stay |
//! | `.index.cleaned`, `.timeindex.cleaned` | its indexes, by the rules of an appended segment |
//! | `.txnindex.cleaned` | its aborted transactions, when there are any |
//!
//! Invariants:
//! 1. The names promise nothing: a start removes whatever ends in `.cleaned`.
//! 2. What is written is synced in small steps, so that no sync keeps the device busy for long.

use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use pelton_model::{Offset, Timestamp};

use super::CleanError;
use crate::config::{CLEAN_SYNC_BYTES, CLEAN_WRITE_BYTES, LogConfig};
use crate::disk::{Disk, DiskError, DiskFile, OpenMode};
use crate::index::{IndexEntry, OffsetEntry, TimeEntry};
use crate::segment::{FileKind, SEGMENT_BYTES_MAX, file_path};
use crate::txn_index::{self, AbortedTxn};

/// The suffix of a segment that is being written.
pub(crate) const CLEANED: &str = ".cleaned";
/// The suffix of a segment that is whole and about to replace others.
pub(crate) const SWAP: &str = ".swap";

/// The kinds of files that compaction writes, in the order in which they are renamed. The log goes first: while another
/// file is still `.cleaned`, a start takes the `.swap` for unfinished and removes it.
pub(crate) const KINDS: [FileKind; 4] = [
    FileKind::Log,
    FileKind::Index,
    FileKind::TimeIndex,
    FileKind::TxnIndex,
];

/// A file's path with a suffix behind its own.
pub(crate) fn suffixed(directory: &Path, base: Offset, kind: FileKind, suffix: &str) -> PathBuf {
    let mut path = file_path(directory, base, kind).into_os_string();
    path.push(suffix);
    PathBuf::from(path)
}

/// A batch to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) last_offset: Offset,
    pub(super) max_timestamp: Timestamp,
    pub(super) size_bytes: u64,
}

/// A segment that is whole and durable under `.cleaned` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cleaned {
    pub(crate) base: Offset,
    pub(crate) size_bytes: u64,
    pub(crate) has_transactions: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Output<D: Disk> {
    disk: D,
    directory: PathBuf,
    base: Offset,
    file: D::File,
    /// Bytes handed to the kernel.
    written: u64,
    /// Bytes of them that were synced.
    synced: u64,
    pending: Vec<Bytes>,
    pending_bytes: u64,
    indexes: Indexes,
    transactions: Vec<AbortedTxn>,
}

impl<D: Disk> Output<D> {
    /// Creates the log file; a leftover is emptied.
    pub(super) async fn create(
        disk: &D,
        directory: &Path,
        base: Offset,
        config: &LogConfig,
    ) -> Result<Self, CleanError> {
        let path = suffixed(directory, base, FileKind::Log, CLEANED);
        let file = disk.open(&path, OpenMode::Truncate).await?;
        Ok(Self {
            disk: disk.clone(),
            directory: directory.to_owned(),
            base,
            file,
            written: 0,
            synced: 0,
            pending: Vec::new(),
            pending_bytes: 0,
            indexes: Indexes::new(base, config.index_interval_bytes),
            transactions: Vec::new(),
        })
    }

    /// Adds whole batches, one `written` for each.
    pub(super) async fn push(
        &mut self,
        bytes: Bytes,
        written: &[Written],
    ) -> Result<(), CleanError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let size = self.written + self.pending_bytes + bytes.len() as u64;
        if SEGMENT_BYTES_MAX < size {
            let path = suffixed(&self.directory, self.base, FileKind::Log, CLEANED);
            return Err(CleanError::TooLarge { path });
        }
        for batch in written {
            self.indexes.note(batch);
        }
        self.pending_bytes += bytes.len() as u64;
        self.pending.push(bytes);
        if CLEAN_WRITE_BYTES <= self.pending_bytes {
            self.write_out().await?;
        }
        if self.synced + CLEAN_SYNC_BYTES <= self.written {
            self.file.sync_data().await?;
            self.synced = self.written;
        }
        Ok(())
    }

    /// The bytes added so far.
    pub(super) fn size_bytes(&self) -> u64 {
        self.written + self.pending_bytes
    }

    /// Adds to the transaction index.
    pub(super) fn push_transactions(&mut self, transactions: &[AbortedTxn]) {
        self.transactions.extend_from_slice(transactions);
    }

    async fn write_out(&mut self) -> Result<(), DiskError> {
        self.file.write_all_at(&self.pending, self.written).await?;
        self.written += self.pending_bytes;
        self.pending.clear();
        self.pending_bytes = 0;
        Ok(())
    }

    /// Makes everything durable.
    pub(super) async fn finish(mut self) -> Result<Cleaned, CleanError> {
        self.write_out().await?;
        self.file.sync_data().await?;
        self.indexes.end();
        let (offsets, times) = self.indexes.take();
        self.write_index(FileKind::Index, offsets).await?;
        self.write_index(FileKind::TimeIndex, times).await?;
        if !self.transactions.is_empty() {
            let entries = txn_index::encode(&self.transactions);
            self.write_index(FileKind::TxnIndex, entries.into()).await?;
        }
        Ok(Cleaned {
            base: self.base,
            size_bytes: self.written,
            has_transactions: !self.transactions.is_empty(),
        })
    }

    async fn write_index(&self, kind: FileKind, contents: Bytes) -> Result<(), DiskError> {
        let path = suffixed(&self.directory, self.base, kind, CLEANED);
        let file = self.disk.open(&path, OpenMode::Truncate).await?;
        file.write_all_at(&[contents], 0).await?;
        file.sync_data().await
    }
}

impl Cleaned {
    /// The kinds of files that it has.
    pub(crate) fn kinds(self) -> impl Iterator<Item = FileKind> {
        let is_there = move |kind: &FileKind| self.has_transactions || *kind != FileKind::TxnIndex;
        KINDS.into_iter().filter(is_there)
    }
}

/// Removes what a pass left under `suffix` names at `base`. The log goes last: an index alone would pass for one that replaces the
/// live log's.
pub(crate) async fn remove<D: Disk>(
    disk: &D,
    directory: &Path,
    base: Offset,
    suffix: &str,
) -> Result<(), DiskError> {
    for kind in KINDS.into_iter().rev() {
        match disk
            .remove_file(&suffixed(directory, base, kind, suffix))
            .await
        {
            Err(error) if error.is_not_found() => {}
            removed => removed?,
        }
    }
    match disk.sync_dir(directory).await {
        Err(error) if error.is_not_found() => Ok(()),
        synced => synced,
    }
}

/// Removes every `.swap` and `.cleaned` file of the directory. Only between passes: the log has all that it needs.
pub(super) async fn remove_leftovers<D: Disk>(disk: &D, directory: &Path) -> Result<(), DiskError> {
    let entries = disk.read_dir(directory).await?;
    for suffix in [SWAP, CLEANED] {
        for entry in entries.iter().filter(|entry| entry.name.ends_with(suffix)) {
            tracing::warn!(directory = %directory.display(), file = %entry.name, "removing what an earlier pass left");
            disk.remove_file(&directory.join(&entry.name)).await?;
        }
    }
    Ok(())
}

/// The index entries of the segment, gathered in memory: `segment.index.bytes` bounds them.
#[derive(Debug)]
struct Indexes {
    base: Offset,
    interval: u64,
    position: u64,
    since_entry: u64,
    max: Option<(Timestamp, Offset)>,
    offsets: Entries<OffsetEntry>,
    times: Entries<TimeEntry>,
}

#[derive(Debug)]
struct Entries<E> {
    last: Option<E>,
    bytes: BytesMut,
}

impl<E: IndexEntry> Entries<E> {
    fn new() -> Self {
        Self {
            last: None,
            bytes: BytesMut::new(),
        }
    }

    fn push(&mut self, entry: E) {
        if entry.is_blank() || self.last.is_some_and(|last| !last.precedes(entry)) {
            return;
        }
        entry.encode(&mut self.bytes);
        self.last = Some(entry);
    }
}

impl Indexes {
    fn new(base: Offset, interval: u32) -> Self {
        Self {
            base,
            interval: interval.into(),
            position: 0,
            since_entry: 0,
            max: None,
            offsets: Entries::new(),
            times: Entries::new(),
        }
    }

    fn note(&mut self, batch: &Written) {
        let timestamp = batch.max_timestamp;
        if self.max.is_none_or(|(max, _)| max < timestamp) && timestamp.0 >= 0 {
            self.max = Some((timestamp, batch.last_offset));
        }
        if self.interval < self.since_entry {
            self.since_entry = 0;
            if let (Some(relative_offset), Ok(position)) = (
                self.relative(batch.last_offset),
                u32::try_from(self.position),
            ) {
                self.offsets.push(OffsetEntry {
                    relative_offset,
                    position,
                });
            }
            self.end();
        }
        self.since_entry += batch.size_bytes;
        self.position += batch.size_bytes;
    }

    /// Adds the time entry that is due.
    fn end(&mut self) {
        if let Some((timestamp, offset)) = self.max
            && let Some(relative_offset) = self.relative(offset)
        {
            self.times.push(TimeEntry {
                timestamp,
                relative_offset,
            });
        }
    }

    fn relative(&self, offset: Offset) -> Option<u32> {
        let relative = i32::try_from(offset.0.checked_sub(self.base.0)?).ok()?;
        u32::try_from(relative).ok()
    }

    fn take(&mut self) -> (Bytes, Bytes) {
        (
            self.offsets.bytes.split().freeze(),
            self.times.bytes.split().freeze(),
        )
    }
}
