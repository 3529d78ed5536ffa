//! Finding batches in a segment: by the offset index, then header by header.
//!
//! Invariants:
//! 1. A walk stays within the segment's size as of its begin and never reads the records of large batches.
//! 2. Offsets of a walk grow and lie in the segment; a header that makes no sense ends it with an error, it is never skipped.
//! 3. What an index says is checked against the batch header it leads to; an index that lies is passed over.

use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use bytes::Bytes;
use pelton_model::Offset;
use pelton_model::batch::{BatchError, BatchHeader, HEADER_BYTES};

use super::{FileKind, Segment};
use crate::config::HEADER_BLOCK_BYTES;
use crate::disk::{Disk, DiskError, DiskFile};
use crate::error::{Damage, StorageError};
use crate::index::OffsetEntry;

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
    /// The header at `position`; `None` at the end of the segment.
    pub(crate) async fn header_at(&self, position: u64) -> Result<Option<Found>, StorageError> {
        self.walk(position).await?.next().await
    }

    /// Walks over the headers from `position`, which must be the begin of a batch.
    pub(crate) async fn walk(&self, position: u64) -> Result<HeaderWalk<D::File>, StorageError> {
        Ok(HeaderWalk {
            file: self.file().await?,
            path: self.path(FileKind::Log),
            position,
            end: self.size.get(),
            base: self.base,
            least: self.base,
            block: Bytes::new(),
            block_start: 0,
        })
    }

    /// Reads `size_bytes` from a batch on, and walks over the headers that lie in them.
    ///
    /// # Errors
    /// The disk's, also when the file ends earlier.
    pub(crate) async fn walk_within(
        &self,
        first: &Found,
        size_bytes: usize,
    ) -> Result<HeaderWalk<D::File>, StorageError> {
        let mut walk = self.walk(first.position).await?;
        walk.block = walk.file.read_at(first.position, size_bytes).await?;
        walk.block_start = first.position;
        if walk.block.len() < size_bytes {
            let source = io::Error::from(io::ErrorKind::UnexpectedEof);
            return Err(DiskError::new("read", &walk.path, source).into());
        }
        Ok(walk)
    }

    /// Walks from a batch at or before the one that contains `offset`, by the index; from 0 when that is no help.
    pub(crate) async fn walk_before(
        &self,
        offset: Offset,
    ) -> Result<HeaderWalk<D::File>, StorageError> {
        if offset < self.base {
            // In a gap before this segment.
            return self.walk(0).await;
        }
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
                    segment = %self.path(FileKind::Index).display(),
                    position, "index entry leads to no batch; scanning instead"
                );
                self.walk(0).await
            }
            Err(error) => Err(error),
        }
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
    /// The segment's.
    base: Offset,
    /// No batch to come begins below.
    least: Offset,
    block: Bytes,
    block_start: u64,
}

impl<F: DiskFile> HeaderWalk<F> {
    /// Where the next batch begins.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The bytes read last, and whether the next header lies in them.
    pub(crate) fn block(&self) -> (&Bytes, bool) {
        let at = self.position - self.block_start;
        let is_within = at + HEADER_BYTES as u64 <= self.block.len() as u64;
        (&self.block, is_within)
    }

    /// Steps back to a batch just found, so that it is found again.
    pub(crate) fn back_to(&mut self, found: &Found) {
        self.position = found.position;
        self.least = found.header.base_offset;
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
        // No checksum covers the base offset, and a reader that believes a wrong one goes on behind records it never saw.
        let span = i64::from(i32::MAX);
        let is_in_segment = header.last_offset().0 - self.base.0 <= span;
        if header.base_offset < self.least || !is_in_segment {
            return corrupt(Damage::Offsets);
        }
        self.least = header.next_offset();
        self.position = found.end();
        Ok(Some(found))
    }
}
