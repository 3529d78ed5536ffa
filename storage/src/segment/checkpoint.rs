//! A segment after an unclean stop, as far as the recovery point says that it is durable: what lies below is taken as it is.
//!
//! Invariants:
//! 1. Nothing below the recovery point is read but indexes and the headers behind the last index entry kept.
//! 2. Index entries that speak of batches at or above the point go: they may never have reached the disk whole.
//! 3. Where index and headers do not meet at the point, nothing is believed: the segment is then scanned from its first byte.

use pelton_model::Offset;

use super::{FileKind, MaxTimestamp, Segment};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::index::{OffsetEntry, TimeEntry};

impl<D: Disk> Segment<D> {
    /// Makes this the segment of the batches below `point`, ready to go on from there; says whether that was possible. Both indexes
    /// exist.
    ///
    /// # Errors
    /// `Disk`.
    pub(crate) async fn resume_at(&self, point: Offset) -> Result<bool, StorageError> {
        let Some(limit) = self.relative(point).filter(|&limit| 0 < limit) else {
            return Ok(false);
        };
        let disk = &self.home.disk;
        let (index, times) = (self.path(FileKind::Index), self.path(FileKind::TimeIndex));
        let is_below = |entry: &OffsetEntry| entry.relative_offset < limit;
        let are_offsets_kept = self.offsets.keep(disk, &index, is_below).await?;
        let is_below = |entry: &TimeEntry| entry.relative_offset < limit;
        if !(self.times.keep(disk, &times, is_below).await? && are_offsets_kept) {
            return Ok(false);
        }
        let start = self.last_indexed_position();
        if self.size.get() <= start {
            return Ok(false);
        }
        let mut walk = self.walk(start).await?;
        let mut next_offset = self.base;
        let mut max: Option<MaxTimestamp> = None;
        while next_offset < point {
            let found = match walk.next().await {
                Ok(Some(found)) => found,
                Ok(None) | Err(StorageError::Corrupt { .. }) => return Ok(false),
                Err(error) => return Err(error),
            };
            let header = &found.header;
            let is_first = found.position == start;
            let meets_index = match self.offsets.last().filter(|_| is_first) {
                Some(entry) => Some(entry.relative_offset) == self.relative(header.last_offset()),
                None => true,
            };
            if header.base_offset < next_offset || point < header.next_offset() || !meets_index {
                return Ok(false);
            }
            next_offset = header.next_offset();
            let (timestamp, offset) = (header.max_timestamp, header.last_offset());
            if timestamp.0 >= 0 && max.is_none_or(|max| max.timestamp < timestamp) {
                max = Some(MaxTimestamp { timestamp, offset });
            }
        }
        self.size.set(walk.position());
        self.durable.set(walk.position());
        self.named.set(true);
        self.resume(walk.position() - start, max);
        Ok(true)
    }
}
