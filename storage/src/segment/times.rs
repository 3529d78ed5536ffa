//! Times of a segment: the time index, and the largest timestamp.

use pelton_model::{Offset, Timestamp};

use super::{FileKind, MaxTimestamp, Segment};
use crate::disk::Disk;
use crate::error::StorageError;

impl<D: Disk> Segment<D> {
    /// The largest timestamp of the first batch (how long compaction has waited for the segment's records); read once.
    pub(crate) async fn first_timestamp(&self) -> Result<Option<Timestamp>, StorageError> {
        if let Some(known) = self.first_timestamp.get() {
            return Ok(Some(known));
        }
        let first = self.header_at(0).await?;
        let first = first.map(|found| found.header.max_timestamp);
        self.first_timestamp.set(first);
        Ok(first)
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
            .load(&self.home.disk, &self.path(FileKind::TimeIndex))
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
}
