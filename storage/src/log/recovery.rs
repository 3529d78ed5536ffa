//! Opening a log: at once after a clean stop, by scanning after any other.
//!
//! Invariants:
//! 1. After an unclean stop every batch from the recovery point on is verified; the first bad one ends the log, later
//!    segments go. What lies below is taken as it is where index and headers lead to the point, else verified too.
//! 2. Damage below the recovery point that is no torn tail is an error: those bytes were durable once, and cutting them
//!    would lose acknowledged records in silence. It is no torn tail when a good batch stands anywhere behind it, or when
//!    the damaged batch is there whole.
//! 3. The recovery point never advances here without a sync, save after a clean stop, which synced everything.
//! 4. Opening twice finds what opening once found.
//!
//! Source: Kafka's recovery of logs; KIP-101 for the epoch history.

use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use pelton_model::Offset;
use pelton_model::batch::BatchHeader;
use pelton_model::producer_state::ProducerStates;

use super::life::Parts;
use super::listing::{Files, Listing};
use super::scan::{Damaged, ScanOptions, Scanned, scan};
use super::{EPOCHS_FILE, Log, LogStore, METADATA_FILE, OpenOptions, Recovery, producers};
use crate::config::{REFILL_BYTES, SNAPSHOT_BYTES_MAX, TEXT_FILE_BYTES_MAX};
use crate::disk::{Disk, DiskError, DiskFile};
use crate::epoch::EpochCache;
use crate::error::{Damage, StorageError};
use crate::format;
use crate::segment::{FileKind, Found, Home, MaxTimestamp, Segment, file_path};

/// Why a segment is scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// For its indexes alone.
    Indexes,
    /// For the state of the log too, from its first byte.
    Whole,
    /// For the state of the log too, behind what was durable.
    Rest,
}

/// A log being opened.
pub(super) struct Opening<D: Disk> {
    pub(super) home: Rc<Home<D>>,
    pub(super) options: OpenOptions,
    pub(super) listing: Listing,
    pub(super) segments: Vec<Rc<Segment<D>>>,
    pub(super) epochs: EpochCache,
    pub(super) epochs_unwritten: bool,
    /// Whether the file of the epochs could be read.
    pub(super) are_epochs_known: bool,
    pub(super) producers: ProducerStates,
    pub(super) log_end: Offset,
    pub(super) truncated_bytes: u64,
    pub(super) scanned_bytes: u64,
    pub(super) rebuilt_indexes: u32,
}

impl<D: Disk> Log<D> {
    /// Opens an existing partition: after a clean stop at once, else by scanning from the recovery point.
    ///
    /// # Errors
    /// `Corrupt` for damage below the recovery point, batches of an old format, or an unreadable `partition.metadata`.
    pub async fn open(
        store: &LogStore<D>,
        directory: &Path,
        options: OpenOptions,
    ) -> Result<(Self, Recovery), StorageError> {
        let home = Rc::new(Home {
            disk: store.disk.clone(),
            directory: directory.to_owned(),
        });
        let listing = Listing::read(&home, &store.trash).await?;
        let topic_id = match listing.has_metadata {
            true => Some(read_metadata(&home).await?),
            false => None,
        };
        let mut opening = Opening {
            home,
            options,
            listing,
            segments: Vec::new(),
            epochs: EpochCache::default(),
            epochs_unwritten: false,
            are_epochs_known: false,
            producers: ProducerStates::new(),
            log_end: Offset::ZERO,
            truncated_bytes: 0,
            scanned_bytes: 0,
            rebuilt_indexes: 0,
        };
        opening.load().await?;
        let recovery = Recovery {
            log_end: opening.log_end,
            producer_states: std::mem::take(&mut opening.producers),
            truncated_bytes: opening.truncated_bytes,
            scanned_bytes: opening.scanned_bytes,
            rebuilt_indexes: opening.rebuilt_indexes,
        };
        let log_start = opening.log_start();
        let recovery_point = if options.clean {
            opening.log_end
        } else {
            options.recovery_point.min(opening.log_end)
        };
        for segment in &opening.segments {
            if opening.has_txn_index(segment.base) {
                segment.set_has_aborted();
            }
            segment.release();
        }
        let parts = Parts {
            snapshot_at: opening.listing.snapshots().next_back(),
            home: opening.home,
            topic_id,
            config: options.config,
            segments: opening.segments,
            log_start,
            log_end: opening.log_end,
            recovery_point,
            epochs: opening.epochs,
            epochs_unwritten: opening.epochs_unwritten,
        };
        Ok((Self::from_parts(store, parts), recovery))
    }
}

async fn read_metadata<D: Disk>(home: &Home<D>) -> Result<pelton_model::TopicId, StorageError> {
    let path = home.directory.join(METADATA_FILE);
    let contents = home.disk.read_file(&path, TEXT_FILE_BYTES_MAX).await?;
    format::decode_partition_metadata(&contents)
        .map_err(|_| StorageError::corrupt(&path, 0, Damage::PartitionMetadata))
}

impl<D: Disk> Opening<D> {
    fn log_start(&self) -> Offset {
        let first = self
            .segments
            .first()
            .map_or(Offset::ZERO, |first| first.base);
        self.options.log_start.unwrap_or(first).max(first)
    }

    async fn load(&mut self) -> Result<(), StorageError> {
        let files: Vec<(Offset, u64, Files)> = self.listing.segments().collect();
        for &(base, bytes, _) in &files {
            self.segments
                .push(Rc::new(Segment::new(&self.home, base, bytes)));
        }
        if self.segments.is_empty() {
            return self.start_empty().await;
        }
        let scan_from = self.scan_from();
        for (index, (_, _, files)) in files.iter().enumerate().take(scan_from) {
            if !(files.has_index && files.has_time_index) {
                self.rebuild_indexes(index).await?;
            }
            if files.has_txn_index {
                self.check_txn_index(index).await?;
            }
            // The recovery point says so, and no sync needs to open them again.
            self.segments[index].set_synced();
        }
        if files[scan_from].2.has_txn_index {
            self.check_txn_index(scan_from).await?;
        }
        self.load_epochs(scan_from).await?;
        if self.options.clean {
            self.settle_active().await?;
            self.load_producers(self.log_end).await?;
        } else {
            let start = self.start_of_scan(scan_from, &files[scan_from].2).await?;
            self.load_producers(start).await?;
            self.scan_rest(scan_from, start).await?;
        }
        if self.log_end < self.options.log_start.unwrap_or(Offset::ZERO) {
            self.drop_everything().await?;
            return self.start_empty().await;
        }
        self.trim_epochs().await?;
        self.trim_snapshots().await
    }

    /// The first segment to be verified: after a clean stop none, so the active one is only looked at.
    fn scan_from(&self) -> usize {
        let last = self.segments.len() - 1;
        if self.options.clean {
            return last;
        }
        let point = self.options.recovery_point;
        self.segments
            .partition_point(|segment| segment.base <= point)
            .saturating_sub(1)
    }

    async fn start_empty(&mut self) -> Result<(), StorageError> {
        let base = self.options.log_start.unwrap_or(Offset::ZERO);
        let segment = Segment::create(&self.home, base).await?;
        self.home.disk.sync_dir(&self.home.directory).await?;
        self.segments.push(Rc::new(segment));
        self.log_end = base;
        self.options.recovery_point = self.options.recovery_point.min(base);
        self.trim_epochs().await
    }

    async fn drop_everything(&mut self) -> Result<(), StorageError> {
        tracing::warn!(
            log = %self.home.directory.display(), log_end = self.log_end.0,
            "log ends before its start; starting empty"
        );
        for segment in std::mem::take(&mut self.segments) {
            self.truncated_bytes += segment.size_bytes();
            self.listing.remove(&self.home, segment.base).await?;
        }
        let snapshots: Vec<Offset> = self.listing.snapshots().collect();
        for snapshot in snapshots {
            self.listing.remove_snapshot(&self.home, snapshot).await?;
        }
        self.epochs = EpochCache::default();
        self.producers = ProducerStates::new();
        Ok(())
    }

    /// Scans one segment that is below the recovery point: damage is an error.
    async fn rebuild_indexes(&mut self, index: usize) -> Result<(), StorageError> {
        let segment = Rc::clone(&self.segments[index]);
        let scanned = self
            .scan_segment(&segment, segment.base, Purpose::Indexes)
            .await?;
        if let Some(damaged) = scanned.damage {
            return Err(self.refuse(&segment, scanned.good_bytes, damaged).await?);
        }
        segment.finish().await?;
        // Recovery will not look at it again.
        segment.sync().await?;
        Ok(())
    }

    async fn scan_segment(
        &mut self,
        segment: &Rc<Segment<D>>,
        expected: Offset,
        purpose: Purpose,
    ) -> Result<Scanned, StorageError> {
        let options = ScanOptions {
            expected,
            interval: self.options.config.index_interval_bytes,
            durable_to: self.options.recovery_point,
            goes_on: purpose == Purpose::Rest,
        };
        let before = match purpose {
            Purpose::Rest => segment.size_bytes(),
            Purpose::Indexes | Purpose::Whole => 0,
        };
        let mut aborted = Vec::new();
        let (epochs, states) = (&mut self.epochs, &mut self.producers);
        let visit = |header: &BatchHeader, batch: &Bytes| {
            if purpose != Purpose::Indexes {
                epochs.assign(header.leader_epoch, header.base_offset);
                if producers::is_marker(header) {
                    aborted.extend(producers::replay_markers(states, header, batch));
                } else {
                    producers::replay(states, header);
                }
            }
        };
        let directory = self.home.directory.clone();
        let scanned = scan(segment, &directory, options, visit).await?;
        self.scanned_bytes += scanned.good_bytes - before;
        self.rebuilt_indexes += if options.goes_on { 0 } else { 2 };
        let kept_below = match purpose {
            Purpose::Indexes => return Ok(scanned),
            Purpose::Whole => segment.base,
            Purpose::Rest => expected,
        };
        self.settle_txn_index(segment.base, kept_below, aborted)
            .await?;
        Ok(scanned)
    }

    /// Finds the end of a cleanly closed log from its last index entry on; scans the active segment if that fails.
    async fn settle_active(&mut self) -> Result<(), StorageError> {
        for segment in &self.segments {
            segment.set_synced();
        }
        let active = Rc::clone(self.segments.last().expect("checked by the caller"));
        let exists = self.listing.files.get(&active.base.0).copied();
        let indexed = exists.is_some_and(|files| files.has_index && files.has_time_index);
        if indexed && let Some(end) = walk_to_end(&active).await? {
            self.log_end = end;
            return Ok(());
        }
        let expected = active.base;
        let scanned = self
            .scan_segment(&active, expected, Purpose::Indexes)
            .await?;
        self.accept(&active, scanned).await?;
        Ok(())
    }

    /// Where the scan begins: at the recovery point, if the segment that holds it can be taken as it is up to there.
    async fn start_of_scan(
        &mut self,
        scan_from: usize,
        files: &Files,
    ) -> Result<Offset, StorageError> {
        let segment = Rc::clone(&self.segments[scan_from]);
        let point = self.options.recovery_point;
        let is_known = files.has_index && files.has_time_index && self.are_epochs_known;
        let goes_on = is_known && segment.base < point && segment.resume_at(point).await?;
        Ok(if goes_on { point } else { segment.base })
    }

    /// Scans from `start` in segment `scan_from` to the end of the log.
    async fn scan_rest(&mut self, scan_from: usize, start: Offset) -> Result<(), StorageError> {
        for segment in &self.segments[..scan_from] {
            segment.set_synced();
        }
        self.log_end = start;
        let mut index = scan_from;
        while index < self.segments.len() {
            let segment = Rc::clone(&self.segments[index]);
            if self.is_hole(index, scan_from, segment.base) {
                tracing::warn!(
                    log = %self.home.directory.display(), from = self.log_end.0,
                    to = segment.base.0, "a segment is missing its end; cutting what follows"
                );
                break;
            }
            let purpose = match index == scan_from && segment.base < start {
                true => Purpose::Rest,
                false => Purpose::Whole,
            };
            let before = segment.size_bytes();
            let scanned = self.scan_segment(&segment, self.log_end, purpose).await?;
            let is_unchanged = purpose == Purpose::Rest && scanned.file_bytes == before;
            let next = self.segments.get(index + 1).map(|next| next.base);
            let is_uncut = scanned.damage.as_ref().is_some_and(|damaged| damaged.blank)
                && next == Some(scanned.next_offset);
            // Prepared space that was never cut, but the next segment goes on where the records end.
            let whole = self.accept(&segment, scanned).await? || is_uncut;
            if purpose == Purpose::Rest && !is_unchanged && segment.size_bytes() == before {
                // Cut back to what was durable: were the cut to come undone, the next start would not see that there was one.
                segment.sync_log().await?;
            }
            if is_unchanged {
                // Nothing was added to what was durable, and nothing cut: a cut may come undone until it is synced.
                segment.set_synced();
            }
            index += 1;
            if index < self.segments.len() && whole {
                segment.finish().await?;
            }
            if !whole {
                break;
            }
        }
        let beyond = self.segments.split_off(index);
        for segment in &beyond {
            self.truncated_bytes += segment.size_bytes();
            self.listing.remove(&self.home, segment.base).await?;
        }
        if !beyond.is_empty() {
            // A power cut must not bring them back behind what is appended from now on.
            self.home.disk.sync_dir(&self.home.directory).await?;
        }
        Ok(())
    }

    /// Whether unsynced records between the log so far and a next segment at `base` are lost.
    fn is_hole(&self, index: usize, scan_from: usize, base: Offset) -> bool {
        index > scan_from
            && self.log_end != base
            && !self.options.config.compacted
            && self.options.recovery_point <= self.log_end
    }

    /// The error of damage that must not be cut, at `position`.
    ///
    /// The half index of the scan goes: it would pass for a whole one at the next opening, and the damage unseen.
    async fn refuse(
        &self,
        segment: &Segment<D>,
        position: u64,
        damaged: Damaged,
    ) -> Result<StorageError, DiskError> {
        segment.release();
        let index = segment.path(FileKind::Index);
        self.home.disk.remove_file(&index).await?;
        Ok(StorageError::corrupt(
            &damaged.path,
            position,
            damaged.damage,
        ))
    }

    /// Cuts what a scan found bad; says whether the segment was whole.
    async fn accept(
        &mut self,
        segment: &Segment<D>,
        scanned: Scanned,
    ) -> Result<bool, StorageError> {
        let whole = scanned.damage.is_none();
        if let Some(damaged) = scanned.damage {
            let was_durable = scanned.next_offset < self.options.recovery_point;
            let old_format = damaged.damage == Damage::OldFormat && scanned.good_bytes == 0;
            // Every byte of a batch that was durable is there, yet it is another batch.
            let is_altered = damaged
                .whole_to
                .is_some_and(|end| end <= self.options.recovery_point);
            if (was_durable && (damaged.inside || is_altered)) || (old_format && damaged.plausible)
            {
                return Err(self.refuse(segment, scanned.good_bytes, damaged).await?);
            }
            let bytes = scanned.file_bytes - scanned.good_bytes;
            if damaged.blank {
                tracing::debug!(
                    file = %damaged.path.display(), position = scanned.good_bytes, bytes,
                    "cutting what was prepared behind the log"
                );
            } else {
                tracing::warn!(
                    file = %damaged.path.display(), position = scanned.good_bytes, bytes,
                    damage = %damaged.damage, "cutting the tail of the log"
                );
            }
            self.truncated_bytes += bytes;
        }
        // Blocks may be reserved behind the last batch also where nothing is damaged.
        segment.cut(scanned.good_bytes).await?;
        self.log_end = scanned.next_offset;
        Ok(whole)
    }

    /// Reads the epoch history; rebuilds it from the batches before segment `scan_from` when it is unreadable.
    async fn load_epochs(&mut self, scan_from: usize) -> Result<(), StorageError> {
        let path = self.home.directory.join(EPOCHS_FILE);
        if self.listing.has_epochs {
            let contents = self.home.disk.read_file(&path, TEXT_FILE_BYTES_MAX).await?;
            if let Ok(entries) = format::decode_epochs(&contents) {
                self.epochs = EpochCache::from_entries(entries);
                self.are_epochs_known = true;
                return Ok(());
            }
            tracing::warn!(file = %path.display(), "unreadable; rebuilding it from the batches");
        }
        let to = scan_from + usize::from(self.options.clean);
        for segment in &self.segments[..to] {
            let mut walk = segment.walk(0).await?;
            // A torn end is the scan's business.
            while let Ok(Some(found)) = walk.next().await {
                let header = &found.header;
                self.epochs.assign(header.leader_epoch, header.base_offset);
            }
        }
        Ok(())
    }

    async fn trim_epochs(&mut self) -> Result<(), StorageError> {
        self.epochs.truncate_from_end(self.log_end);
        self.epochs.truncate_from_start(self.log_start());
        let path = self.home.directory.join(EPOCHS_FILE);
        let contents = format::encode_epochs(self.epochs.entries());
        let old = match self.listing.has_epochs {
            true => self.home.disk.read_file(&path, TEXT_FILE_BYTES_MAX).await?,
            false if self.epochs.entries().is_empty() => return Ok(()),
            false => Bytes::new(),
        };
        // Entries behind the log end are trimmed at each opening: they need not go before something is appended.
        self.epochs_unwritten = old != contents && self.is_implied_by(&old);
        if old != contents && !self.epochs_unwritten {
            self.home.disk.replace_file(&path, &contents).await?;
        }
        Ok(())
    }

    /// Whether an epoch file, trimmed to the log, gives the present history.
    fn is_implied_by(&self, contents: &[u8]) -> bool {
        let Ok(entries) = format::decode_epochs(contents) else {
            return false;
        };
        let mut epochs = EpochCache::from_entries(entries);
        epochs.truncate_from_end(self.log_end);
        epochs.truncate_from_start(self.log_start());
        epochs == self.epochs
    }

    /// Loads the newest good snapshot at or below `end` and replays the headers from there to `end`.
    pub(super) async fn load_producers(&mut self, end: Offset) -> Result<(), StorageError> {
        let candidates: Vec<Offset> = self.listing.snapshots().filter(|&at| at <= end).collect();
        let mut from = Offset::ZERO;
        for &at in candidates.iter().rev() {
            let path = file_path(&self.home.directory, at, FileKind::Snapshot);
            let contents = self.home.disk.read_file(&path, SNAPSHOT_BYTES_MAX).await?;
            match ProducerStates::decode_snapshot(&contents) {
                Ok(states) => {
                    self.producers = states;
                    self.refill_producers(at).await?;
                    from = at;
                    break;
                }
                Err(error) => {
                    tracing::warn!(file = %path.display(), %error, "removing an unusable snapshot");
                    self.listing.remove_snapshot(&self.home, at).await?;
                }
            }
        }
        self.replay(from, end).await
    }

    /// A snapshot keeps a producer's last batch: the others are found in the last stretch before it.
    async fn refill_producers(&mut self, end: Offset) -> Result<(), StorageError> {
        if self.producers.is_empty() {
            return Ok(());
        }
        let mut walked = ProducerStates::new();
        let before = self.segments.partition_point(|segment| segment.base < end);
        // The last batches may have been written before a roll.
        for segment in &self.segments[before.saturating_sub(2)..before] {
            let mut walk = segment.walk_before(end).await?;
            let stretch = walk.position().saturating_sub(REFILL_BYTES);
            if stretch < walk.position() {
                walk = segment.walk_before_position(stretch).await?;
            }
            // A torn end is the scan's business.
            while let Ok(Some(found)) = walk.next().await {
                if end <= found.header.base_offset {
                    break;
                }
                producers::replay(&mut walked, &found.header);
            }
        }
        self.producers.refill(&walked);
        Ok(())
    }

    async fn replay(&mut self, from: Offset, end: Offset) -> Result<(), StorageError> {
        if end <= from {
            return Ok(());
        }
        let first = self
            .segments
            .partition_point(|segment| segment.base <= from)
            .saturating_sub(1);
        for segment in self.segments[first..].iter().filter(|s| s.base < end) {
            let mut walk = match segment.base < from {
                true => segment.walk_before(from).await?,
                false => segment.walk(0).await?,
            };
            while let Some(found) = walk.next().await? {
                let header = &found.header;
                if header.last_offset() < from {
                    continue;
                }
                if producers::is_marker(header) {
                    let batch = read_batch(segment, &found).await?;
                    let _aborted = producers::replay_markers(&mut self.producers, header, &batch);
                } else {
                    producers::replay(&mut self.producers, header);
                }
            }
        }
        Ok(())
    }

    /// Removes snapshots that speak of offsets the log does not have.
    async fn trim_snapshots(&mut self) -> Result<(), StorageError> {
        let (start, end) = (self.log_start(), self.log_end);
        let stale: Vec<Offset> = self
            .listing
            .snapshots()
            .filter(|&at| at < start || end < at)
            .collect();
        for &at in &stale {
            self.listing.remove_snapshot(&self.home, at).await?;
        }
        if stale.iter().any(|&at| end < at) {
            // A power cut must not bring it back once the log has reached its offset again.
            self.home.disk.sync_dir(&self.home.directory).await?;
        }
        Ok(())
    }
}

pub(super) async fn read_batch<D: Disk>(
    segment: &Segment<D>,
    found: &Found,
) -> Result<Bytes, DiskError> {
    let file = segment.file().await?;
    file.read_at(found.position, found.header.size_bytes())
        .await
}

/// Walks from the last index entry to the end of a cleanly closed segment. `None` when index or batches make no sense.
async fn walk_to_end<D: Disk>(active: &Segment<D>) -> Result<Option<Offset>, StorageError> {
    active.load_indexes().await?;
    let position = active.last_indexed_position();
    if active.size_bytes() <= position && position > 0 {
        return Ok(None);
    }
    let mut walk = active.walk(position).await?;
    let mut end = active.base;
    let mut max: Option<MaxTimestamp> = None;
    loop {
        match walk.next().await {
            Ok(Some(found)) if end <= found.header.base_offset => {
                end = found.header.next_offset();
                let timestamp = found.header.max_timestamp;
                if timestamp.0 >= 0 && max.is_none_or(|max| max.timestamp < timestamp) {
                    let offset = found.header.last_offset();
                    max = Some(MaxTimestamp { timestamp, offset });
                }
            }
            Ok(None) => break,
            Ok(Some(_)) | Err(StorageError::Corrupt { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    if !active.indexes_plausible(end).await? {
        return Ok(None);
    }
    active.resume(active.size_bytes() - position, max);
    Ok(Some(end))
}
