//! One segment: a `.log` file of consecutive batches with its two sparse indexes.
//!
//! Invariants:
//! 1. `size_bytes` ends behind the last whole batch; bytes of the file beyond it are not part of the log.
//! 2. Files are opened when first used and can be released; a segment that nobody touches holds no descriptor.
//! 3. What an index says is checked against the batch header it leads to; an index that lies is rebuilt or passed over.
//! 4. Positions fit a positive i32, as the index format wants.
//!
//! Retention and compaction work on closed segments from outside.

mod aborted;
mod age;
mod checkpoint;
mod doom;
pub(crate) mod pace;
mod prepared;
mod state;
mod times;
mod walk;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;
use pelton_model::batch::BatchHeader;
use pelton_model::{Offset, Timestamp};

use crate::config::NEXT_READS_MAX;
use crate::disk::{Disk, DiskError, DiskFile, OpenMode};
use crate::error::StorageError;
use crate::index::{Index, OffsetEntry, TimeEntry};
use crate::log::BatchFacts;

pub(crate) use walk::Found;

/// The largest size of a segment: index positions are i32.
pub(crate) const SEGMENT_BYTES_MAX: u64 = i32::MAX as u64;

/// The kinds of files that belong to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Log,
    Index,
    TimeIndex,
    TxnIndex,
    Snapshot,
}

impl FileKind {
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Index => "index",
            Self::TimeIndex => "timeindex",
            Self::TxnIndex => "txnindex",
            Self::Snapshot => "snapshot",
        }
    }
}

/// The path of a segment's file: the base offset in 20 digits and a suffix.
pub(crate) fn file_path(directory: &Path, base: Offset, kind: FileKind) -> PathBuf {
    directory.join(format!("{:020}.{}", base.0, kind.suffix()))
}

/// The largest timestamp of a segment and the last offset of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MaxTimestamp {
    pub(crate) timestamp: Timestamp,
    pub(crate) offset: Offset,
}

/// Where the files of one partition live.
#[derive(Debug)]
pub(crate) struct Home<D> {
    pub(crate) disk: D,
    pub(crate) directory: PathBuf,
}

/// A segment.
#[derive(Debug)]
pub(crate) struct Segment<D: Disk> {
    home: Rc<Home<D>>,
    pub(crate) base: Offset,
    size: Cell<u64>,
    file: RefCell<Option<Rc<D::File>>>,
    offsets: Index<D::File, OffsetEntry>,
    times: Index<D::File, TimeEntry>,
    max_timestamp: Cell<Option<MaxTimestamp>>,
    max_known: Cell<bool>,
    since_entry: Cell<u64>,
    synced: Cell<bool>,
    /// Counts what makes the files differ from what was synced.
    changes: Cell<u64>,
    /// Bytes of the log file that are durable.
    durable: Cell<u64>,
    /// How often the file was cut.
    cuts: Cell<u32>,
    /// Whether the files' names are durable.
    named: Cell<bool>,
    /// How often a file was added.
    added: Cell<u32>,
    /// What lies behind the end; nothing in a segment that is not hot.
    prepared: RefCell<Option<Box<prepared::Prepared>>>,
    /// Write-back was started up to here.
    written_back: Cell<u64>,
    /// The batches at which recent reads stopped: where their readers go on. Empty for a segment nobody reads.
    next_reads: RefCell<VecDeque<Found>>,
    doom: doom::Doom,
    aborted: aborted::Aborted<D::File>,
    /// The largest timestamp of the first batch; `None` while unknown or empty.
    first_timestamp: Cell<Option<Timestamp>>,
    /// When the clock of a segment without timestamps was started.
    seen_at: Cell<Timestamp>,
}

impl<D: Disk> Segment<D> {
    /// A segment whose files exist (or will be created by the first use) and hold `size` bytes of whole batches.
    pub(crate) fn new(home: &Rc<Home<D>>, base: Offset, size: u64) -> Self {
        Self {
            home: Rc::clone(home),
            base,
            size: Cell::new(size),
            file: RefCell::new(None),
            offsets: Index::unloaded(),
            times: Index::unloaded(),
            max_timestamp: Cell::new(None),
            max_known: Cell::new(size == 0),
            since_entry: Cell::new(0),
            synced: Cell::new(false),
            changes: Cell::new(0),
            durable: Cell::new(0),
            cuts: Cell::new(0),
            named: Cell::new(false),
            added: Cell::new(0),
            prepared: RefCell::new(None),
            written_back: Cell::new(size),
            next_reads: RefCell::new(VecDeque::new()),
            doom: doom::Doom::default(),
            aborted: aborted::Aborted::default(),
            first_timestamp: Cell::new(None),
            seen_at: Cell::new(Timestamp::NONE),
        }
    }

    /// Remembers where the reader that stops before `found` will go on.
    pub(crate) fn remember_next(&self, found: Found) {
        let mut next_reads = self.next_reads.borrow_mut();
        if next_reads.len() == NEXT_READS_MAX {
            next_reads.pop_front();
        }
        next_reads.push_back(found);
    }

    /// The batch that begins at `offset`, if a reader has just stopped before it.
    pub(crate) fn take_next(&self, offset: Offset) -> Option<Found> {
        let mut next_reads = self.next_reads.borrow_mut();
        let known = next_reads
            .iter()
            .position(|found| found.header.base_offset == offset)?;
        next_reads.remove(known)
    }

    /// Creates the files of a new, empty segment. A leftover of the same name held no batch and is emptied.
    pub(crate) async fn create(home: &Rc<Home<D>>, base: Offset) -> Result<Self, DiskError> {
        let segment = Self::new(home, base, 0);
        let path = file_path(&home.directory, base, FileKind::Log);
        let file = home.disk.open(&path, OpenMode::Truncate).await?;
        segment.file.replace(Some(Rc::new(file)));
        segment.reset_indexes().await?;
        Ok(segment)
    }

    /// The disk of its files.
    pub(crate) fn disk(&self) -> &D {
        &self.home.disk
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size.get()
    }

    /// Forgets the contents, to be noted anew.
    pub(crate) fn restart(&self) {
        self.size.set(0);
        self.first_timestamp.set(None);
        self.durable.set(0);
        self.has_changed();
    }

    fn has_changed(&self) {
        self.synced.set(false);
        self.changes.set(self.changes.get() + 1);
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.synced.get()
    }

    /// Declares the files durable: they were when the last clean stop or the recovery point says so.
    pub(crate) fn set_synced(&self) {
        self.synced.set(true);
        self.durable.set(self.size.get());
        self.named.set(true);
    }

    /// Whether all batches are durable, save for the file's name.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable.get() == self.size.get()
    }

    /// Whether the log file's name is durable.
    pub(crate) fn is_named(&self) -> bool {
        self.named.get()
    }

    /// Declares the files' names durable: the directory was synced after they were made.
    pub(crate) fn set_named(&self) {
        self.named.set(true);
    }

    /// How many files were added so far: a sync of the directory does not count for one that came meanwhile.
    pub(crate) fn added(&self) -> u32 {
        self.added.get()
    }

    /// Makes the batches durable that are in the log file now, not the indexes.
    pub(crate) async fn sync_log(&self) -> Result<(), DiskError> {
        let (size, cuts) = (self.size.get(), self.cuts.get());
        self.file().await?.sync_data().await?;
        if self.cuts.get() == cuts {
            // What was cut meanwhile may come back.
            self.durable.set(self.durable.get().max(size));
        }
        Ok(())
    }

    /// The log file, opened when needed.
    pub(crate) async fn file(&self) -> Result<Rc<D::File>, DiskError> {
        if let Some(file) = &*self.file.borrow() {
            return Ok(Rc::clone(file));
        }
        let path = self.path(FileKind::Log);
        let file = Rc::new(self.home.disk.open(&path, OpenMode::Write).await?);
        self.file.replace(Some(Rc::clone(&file)));
        Ok(file)
    }

    /// Opens the indexes when needed.
    pub(crate) async fn load_indexes(&self) -> Result<(), DiskError> {
        if self.offsets.is_open() && self.times.is_open() {
            return Ok(());
        }
        let path = |kind| self.path(kind);
        self.offsets
            .load(&self.home.disk, &path(FileKind::Index))
            .await?;
        self.times
            .load(&self.home.disk, &path(FileKind::TimeIndex))
            .await
    }

    /// Empties the indexes to be filled by [`Segment::note`].
    pub(crate) async fn reset_indexes(&self) -> Result<(), DiskError> {
        let path = |kind| self.path(kind);
        self.offsets
            .reset(&self.home.disk, &path(FileKind::Index))
            .await?;
        self.times
            .reset(&self.home.disk, &path(FileKind::TimeIndex))
            .await?;
        self.max_timestamp.set(None);
        self.max_known.set(true);
        self.since_entry.set(0);
        Ok(())
    }

    /// Closes the files of a segment at rest; they are opened again when needed.
    pub(crate) fn release(&self) {
        self.note_lent();
        self.file.replace(None);
        self.next_reads.take();
        self.forget_aborted();
        self.offsets.release();
        self.times.release();
    }

    /// Whether the indexes make sense for this segment: sizes, order of the ends, bounds.
    pub(crate) async fn indexes_plausible(&self, end: Offset) -> Result<bool, StorageError> {
        self.load_indexes().await?;
        let in_range = |relative: u32| self.base.0.saturating_add(i64::from(relative)) < end.0;
        if let Some(last) = self.offsets.last() {
            if u64::from(last.position) >= self.size.get() || !in_range(last.relative_offset) {
                return Ok(false);
            }
            let found = self.header_at(u64::from(last.position)).await;
            let leads_to_batch = found.is_ok_and(|found| {
                found.is_some_and(|found| self.entry_leads_to(last, &found.header))
            });
            if !leads_to_batch {
                return Ok(false);
            }
        }
        Ok(self
            .times
            .last()
            .is_none_or(|last| in_range(last.relative_offset)))
    }

    fn entry_leads_to(&self, entry: OffsetEntry, header: &BatchHeader) -> bool {
        let offset = self.base.0.saturating_add(i64::from(entry.relative_offset));
        self.base <= header.base_offset && header.base_offset.0 <= offset
    }

    /// Writes whole batches at the end. One vectored write. The caller then calls [`Segment::note`] for each.
    pub(crate) async fn append(&self, batches: &[Bytes]) -> Result<(), DiskError> {
        let file = self.file().await?;
        let start = self.size.get();
        self.claim(start + batches.iter().map(|batch| batch.len() as u64).sum::<u64>());
        file.write_all_at(batches, start).await
    }

    /// Accounts for a batch that now stands at the end; says whether index entries want to be written out.
    pub(crate) fn note(&self, facts: &BatchFacts, size_bytes: usize, interval: u32) -> bool {
        let position = self.size.get();
        if position == 0 {
            self.first_timestamp.set(Some(facts.max_timestamp));
        }
        if self
            .max_timestamp
            .get()
            .is_none_or(|max| max.timestamp < facts.max_timestamp)
            && facts.max_timestamp.0 >= 0
        {
            self.max_timestamp.set(Some(MaxTimestamp {
                timestamp: facts.max_timestamp,
                offset: facts.last_offset,
            }));
        }
        let mut full = false;
        if self.since_entry.get() > u64::from(interval) {
            self.since_entry.set(0);
            full |= self.push_offset(facts.last_offset, position);
            full |= self.push_time();
        }
        self.since_entry
            .set(self.since_entry.get() + size_bytes as u64);
        self.size.set(position + size_bytes as u64);
        self.has_changed();
        full
    }

    fn push_offset(&self, last_offset: Offset, position: u64) -> bool {
        match (self.relative(last_offset), u32::try_from(position)) {
            (Some(relative_offset), Ok(position)) => self.offsets.push(OffsetEntry {
                relative_offset,
                position,
            }),
            _ => false,
        }
    }

    fn push_time(&self) -> bool {
        let Some(max) = self.max_timestamp.get() else {
            return false;
        };
        match self.relative(max.offset) {
            Some(relative_offset) => self.times.push(TimeEntry {
                timestamp: max.timestamp,
                relative_offset,
            }),
            None => false,
        }
    }

    /// `offset` less the base, when an index entry can hold it.
    pub(crate) fn relative(&self, offset: Offset) -> Option<u32> {
        let relative = offset.0.checked_sub(self.base.0)?;
        i32::try_from(relative)
            .ok()
            .and_then(|relative| u32::try_from(relative).ok())
    }

    /// The larger of the two index files, as it will be.
    pub(crate) fn index_size_bytes(&self) -> u64 {
        self.offsets.size_bytes().max(self.times.size_bytes())
    }

    /// Writes the index entries gathered in memory.
    pub(crate) async fn write_out_indexes(&self) -> Result<(), DiskError> {
        self.offsets.write_out().await?;
        self.times.write_out().await
    }

    /// Makes log and indexes durable, in Kafka's order.
    pub(crate) async fn sync(&self) -> Result<(), DiskError> {
        let changes = self.changes.get();
        self.sync_log().await?;
        if self.offsets.is_loaded() {
            // They may rest, with entries on file that nobody has synced.
            self.load_indexes().await?;
        }
        self.offsets.sync().await?;
        if self.times.is_loaded() {
            // A reader may have let go of them meanwhile.
            self.load_indexes().await?;
        }
        self.times.sync().await?;
        self.sync_aborted().await?;
        if self.changes.get() == changes {
            self.synced.set(true);
        }
        Ok(())
    }

    /// Ends the writing: the last time entry, as Kafka does, and both indexes whole on file. A segment that was not
    /// written to since it was opened is whole already.
    pub(crate) async fn finish(&self) -> Result<(), DiskError> {
        if !self.offsets.is_loaded() || (self.synced.get() && self.is_finished()) {
            return Ok(());
        }
        self.load_indexes().await?;
        let entries = self.times.count();
        self.push_time();
        if entries < self.times.count() {
            self.has_changed();
        }
        self.write_out_indexes().await?;
        self.offsets.trim().await?;
        self.times.trim().await
    }

    /// Whether the time index ends with the largest timestamp already. Loaded indexes only.
    fn is_finished(&self) -> bool {
        let last = self.times.last().map(|last| last.timestamp);
        let max = self.max_timestamp.get().map(|max| max.timestamp);
        last == max
    }

    /// Cuts the log file behind `size` bytes, durably.
    pub(crate) async fn cut(&self, size: u64) -> Result<(), DiskError> {
        let file = self.file().await?;
        let is_longer = file.holds_more(size).await?;
        if is_longer {
            file.set_size(size).await?;
        }
        self.size.set(size);
        self.cuts.set(self.cuts.get().wrapping_add(1));
        self.durable.set(self.durable.get().min(size));
        self.has_changed();
        if is_longer {
            // The next opening finds the file whole and cannot know that a power cut would undo this.
            self.sync_log().await?;
        }
        Ok(())
    }

    /// Where the last entry of the offset index leads to. Loaded indexes only.
    pub(crate) fn last_indexed_position(&self) -> u64 {
        self.offsets
            .last()
            .map_or(0, |last| u64::from(last.position))
    }
}
