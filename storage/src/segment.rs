//! One segment: a `.log` file of consecutive batches with its two sparse indexes.
//!
//! Invariants:
//! 1. `size_bytes` ends behind the last whole batch; bytes of the file beyond it are not part of the log.
//! 2. Files are opened when first used and can be released; a segment that nobody touches holds no descriptor.
//! 3. What an index says is checked against the batch header it leads to; an index that lies is rebuilt or passed over.
//! 4. Positions fit a positive i32, as the index format wants.
//!
//! Places kept for later: the prepared tail belongs to [`Segment::append`], retention and compaction work on closed
//! segments from outside.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;
use pelton_model::batch::{BatchError, BatchHeader, HEADER_BYTES};
use pelton_model::{Offset, Timestamp};

use crate::config::{HEADER_BLOCK_BYTES, NEXT_READS_MAX};
use crate::disk::{Disk, DiskError, DiskFile, OpenMode};
use crate::error::{Damage, StorageError};
use crate::index::{Index, OffsetEntry, TimeEntry};
use crate::log::BatchFacts;

/// The largest size of a segment: index positions are i32.
pub(crate) const SEGMENT_BYTES_MAX: u64 = i32::MAX as u64;

/// The kinds of files that belong to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Log,
    Index,
    TimeIndex,
    Snapshot,
}

impl FileKind {
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Index => "index",
            Self::TimeIndex => "timeindex",
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
    /// The batches at which recent reads stopped: where their readers go on. Empty for a segment nobody reads.
    next_reads: RefCell<VecDeque<Found>>,
}

/// A batch found in a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) position: u64,
    pub(crate) header: BatchHeader,
}

impl Found {
    pub(crate) fn end(&self) -> u64 {
        self.position + self.header.size_bytes() as u64
    }
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
            next_reads: RefCell::new(VecDeque::new()),
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

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size.get()
    }

    /// Forgets the contents, to be noted anew.
    pub(crate) fn restart(&self) {
        self.size.set(0);
        self.synced.set(false);
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.synced.get()
    }

    /// Declares the contents durable: they were when the last clean stop or the recovery point says so.
    pub(crate) fn set_synced(&self) {
        self.synced.set(true);
    }

    /// The log file, opened when needed.
    pub(crate) async fn file(&self) -> Result<Rc<D::File>, DiskError> {
        if let Some(file) = &*self.file.borrow() {
            return Ok(Rc::clone(file));
        }
        let path = file_path(&self.home.directory, self.base, FileKind::Log);
        let file = Rc::new(self.home.disk.open(&path, OpenMode::Write).await?);
        self.file.replace(Some(Rc::clone(&file)));
        Ok(file)
    }

    /// Opens the indexes when needed.
    pub(crate) async fn load_indexes(&self) -> Result<(), DiskError> {
        if self.offsets.is_open() && self.times.is_open() {
            return Ok(());
        }
        let path = |kind| file_path(&self.home.directory, self.base, kind);
        self.offsets
            .load(&self.home.disk, &path(FileKind::Index))
            .await?;
        self.times
            .load(&self.home.disk, &path(FileKind::TimeIndex))
            .await
    }

    /// Empties the indexes to be filled by [`Segment::note`].
    pub(crate) async fn reset_indexes(&self) -> Result<(), DiskError> {
        let path = |kind| file_path(&self.home.directory, self.base, kind);
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
        self.file.replace(None);
        self.next_reads.take();
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
        file.write_all_at(batches, self.size.get()).await
    }

    /// Accounts for a batch that now stands at the end; says whether index entries want to be written out.
    pub(crate) fn note(&self, facts: &BatchFacts, size_bytes: usize, interval: u32) -> bool {
        let position = self.size.get();
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
        self.synced.set(false);
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
        let size = self.size.get();
        self.file().await?.sync_data().await?;
        if self.offsets.is_loaded() {
            // They may rest, with entries on file that nobody has synced.
            self.load_indexes().await?;
        }
        self.offsets.sync().await?;
        self.times.sync().await?;
        if self.size.get() == size {
            self.synced.set(true);
        }
        Ok(())
    }

    /// Ends the writing: the last time entry, as Kafka does, and both indexes whole on file. A segment that was not
    /// written to since it was opened is whole already.
    pub(crate) async fn finish(&self) -> Result<(), DiskError> {
        if !self.offsets.is_loaded() {
            return Ok(());
        }
        self.load_indexes().await?;
        let entries = self.times.count();
        self.push_time();
        if entries < self.times.count() {
            self.synced.set(false);
        }
        self.write_out_indexes().await?;
        self.offsets.trim().await?;
        self.times.trim().await
    }

    /// Cuts the log file behind `size` bytes.
    pub(crate) async fn cut(&self, size: u64) -> Result<(), DiskError> {
        let file = self.file().await?;
        if file.size_bytes().await? != size {
            file.set_size(size).await?;
        }
        self.size.set(size);
        self.synced.set(false);
        Ok(())
    }

    /// The header at `position`; `None` at the end of the segment.
    pub(crate) async fn header_at(&self, position: u64) -> Result<Option<Found>, StorageError> {
        self.walk(position).await?.next().await
    }

    /// Walks over the headers from `position`, which must be the begin of a batch.
    pub(crate) async fn walk(&self, position: u64) -> Result<HeaderWalk<D::File>, StorageError> {
        Ok(HeaderWalk {
            file: self.file().await?,
            path: file_path(&self.home.directory, self.base, FileKind::Log),
            position,
            end: self.size.get(),
            block: Bytes::new(),
            block_start: 0,
        })
    }

    /// Walks from a batch at or before the one that contains `offset`, by the index; from 0 when that is no help.
    pub(crate) async fn walk_before(
        &self,
        offset: Offset,
    ) -> Result<HeaderWalk<D::File>, StorageError> {
        self.load_indexes().await?;
        let wanted = self.relative(offset).unwrap_or(u32::MAX);
        let last = self.offsets.last().map_or(0, |last| last.relative_offset);
        let guess = share(self.offsets.count(), u64::from(wanted), u64::from(last));
        let holds = |e: &OffsetEntry| e.relative_offset <= wanted;
        let entry = self.offsets.search(guess, holds).await?;
        self.walk_checked(entry).await
    }

    /// Walks from a batch boundary at or before `limit`, by the index; from 0 when that is no help.
    pub(crate) async fn walk_before_position(
        &self,
        limit: u64,
    ) -> Result<HeaderWalk<D::File>, StorageError> {
        self.load_indexes().await?;
        let guess = share(self.offsets.count(), limit, self.size.get());
        let holds = |e: &OffsetEntry| u64::from(e.position) <= limit;
        let entry = self.offsets.search(guess, holds).await?;
        self.walk_checked(entry).await
    }

    async fn walk_checked(
        &self,
        entry: Option<OffsetEntry>,
    ) -> Result<HeaderWalk<D::File>, StorageError> {
        let Some(entry) = entry else {
            return self.walk(0).await;
        };
        let position = u64::from(entry.position);
        let mut walk = self.walk(position).await?;
        match walk.next().await {
            Ok(Some(found)) if self.entry_leads_to(entry, &found.header) => {
                walk.back_to(&found);
                Ok(walk)
            }
            Ok(_) | Err(StorageError::Corrupt { .. }) => {
                tracing::warn!(
                    segment = %file_path(&self.home.directory, self.base, FileKind::Index).display(),
                    position, "index entry leads to no batch; scanning instead"
                );
                self.walk(0).await
            }
            Err(error) => Err(error),
        }
    }

    /// The offset that the time index gives for `timestamp`: all records before its batch are older.
    pub(crate) async fn offset_before_time(
        &self,
        timestamp: Timestamp,
    ) -> Result<Offset, StorageError> {
        self.load_indexes().await?;
        let guess = self.times.count() / 2;
        let entry = self
            .times
            .search(guess, |e| e.timestamp <= timestamp)
            .await?;
        let relative = entry.map_or(0, |entry| entry.relative_offset);
        Ok(Offset(self.base.0.saturating_add(i64::from(relative))))
    }

    /// The largest timestamp; read from the time index of a closed segment, from the headers when that is empty.
    pub(crate) async fn max_timestamp(&self) -> Result<Option<MaxTimestamp>, StorageError> {
        if self.max_known.get() {
            return Ok(self.max_timestamp.get());
        }
        self.times
            .load(
                &self.home.disk,
                &file_path(&self.home.directory, self.base, FileKind::TimeIndex),
            )
            .await?;
        let last = self.times.last();
        self.times.release();
        let max = match last {
            Some(last) => Some(MaxTimestamp {
                timestamp: last.timestamp,
                offset: Offset(self.base.0.saturating_add(i64::from(last.relative_offset))),
            }),
            None => self.max_from(self.base).await?,
        };
        if !self.max_known.get() {
            self.max_timestamp.set(max);
            self.max_known.set(true);
        }
        Ok(max)
    }

    /// The largest timestamp of the batches that end at or after `start`, by their headers.
    pub(crate) async fn max_from(
        &self,
        start: Offset,
    ) -> Result<Option<MaxTimestamp>, StorageError> {
        let mut walk = self.walk_before(start).await?;
        let mut max: Option<MaxTimestamp> = None;
        while let Some(found) = walk.next().await? {
            let timestamp = found.header.max_timestamp;
            let offset = found.header.last_offset();
            let newer = max.is_none_or(|max| max.timestamp < timestamp);
            if start <= offset && newer && timestamp.0 >= 0 {
                max = Some(MaxTimestamp { timestamp, offset });
            }
        }
        Ok(max)
    }

    /// Takes over what a scan of the tail found when the segment is opened for appending.
    pub(crate) fn resume(&self, since_entry: u64, tail_max: Option<MaxTimestamp>) {
        let indexed = self.times.last().map(|last| MaxTimestamp {
            timestamp: last.timestamp,
            offset: Offset(self.base.0.saturating_add(i64::from(last.relative_offset))),
        });
        let newest = match (indexed, tail_max) {
            (Some(indexed), Some(tail)) if tail.timestamp > indexed.timestamp => Some(tail),
            (Some(indexed), _) => Some(indexed),
            (None, tail) => tail,
        };
        self.max_timestamp.set(newest);
        self.max_known.set(true);
        self.since_entry.set(since_entry);
    }

    /// Where the last entry of the offset index leads to. Loaded indexes only.
    pub(crate) fn last_indexed_position(&self) -> u64 {
        self.offsets
            .last()
            .map_or(0, |last| u64::from(last.position))
    }
}

/// The entry to look at first: entries lie about evenly over a segment.
fn share(count: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(count) * u128::from(part.min(whole)) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(count)
}

/// Walks over the batch headers of a segment, reading little blocks, never the records of large batches.
#[derive(Debug)]
pub(crate) struct HeaderWalk<F> {
    file: Rc<F>,
    path: PathBuf,
    position: u64,
    end: u64,
    block: Bytes,
    block_start: u64,
}

impl<F: DiskFile> HeaderWalk<F> {
    /// Where the next batch begins.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Steps back to a batch just found, so that it is found again.
    pub(crate) fn back_to(&mut self, found: &Found) {
        self.position = found.position;
    }

    /// The next batch; `None` at the end of the segment.
    ///
    /// # Errors
    /// `Corrupt` when there is no whole batch before the end; [`HeaderWalk::position`] then is the last good boundary.
    pub(crate) async fn next(&mut self) -> Result<Option<Found>, StorageError> {
        if self.position >= self.end {
            return Ok(None);
        }
        let mut at =
            usize::try_from(self.position.wrapping_sub(self.block_start)).unwrap_or(usize::MAX);
        if at.saturating_add(HEADER_BYTES) > self.block.len() {
            let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
            let size = left.min(HEADER_BLOCK_BYTES);
            self.block = self.file.read_at(self.position, size).await?;
            self.block_start = self.position;
            at = 0;
        }
        let corrupt = |damage| Err(StorageError::corrupt(&self.path, self.position, damage));
        let header = match BatchHeader::parse(self.block.get(at..).unwrap_or_default()) {
            Ok(header) => header,
            Err(BatchError::Magic { magic: 0 | 1, .. }) => return corrupt(Damage::OldFormat),
            Err(_) => return corrupt(Damage::Header),
        };
        let found = Found {
            position: self.position,
            header,
        };
        if found.end() > self.end || header.last_offset_delta < 0 || header.base_offset.0 < 0 {
            return corrupt(Damage::Header);
        }
        self.position = found.end();
        Ok(Some(found))
    }
}
