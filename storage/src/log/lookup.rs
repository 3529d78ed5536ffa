//! Finding records by time (ListOffsets).
//!
//! Invariants:
//! 1. Answers are records, not batches: the batch that may hold the answer is read and walked, decompressed if need be.
//! 2. A batch header that promises a time which no record has is passed over.
//! 3. No answer lies before the log start.
//!
//! Source: KIP-33, KIP-734 (max timestamp).

use std::rc::Rc;

use bytes::Bytes;
use pelton_model::batch::RecordIter;
use pelton_model::{Offset, Timestamp};

use super::read::find;
use super::{Log, TimestampOffset};
use crate::config::LOOKUP_BYTES_MAX;
use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, StorageError};
use crate::segment::{FileKind, Found, MaxTimestamp, Segment, file_path};

impl<D: Disk> Log<D> {
    /// The first record with a timestamp of at least `timestamp` (ListOffsets by time). Record level.
    ///
    /// # Errors
    /// `Corrupt` when a batch on the way cannot be decoded.
    pub async fn offset_for_timestamp(
        &self,
        timestamp: Timestamp,
    ) -> Result<Option<TimestampOffset>, StorageError> {
        loop {
            let changes = self.changes.get();
            let result = self.offset_for_timestamp_once(timestamp).await;
            if self.holds(changes, &result).await {
                return result;
            }
        }
    }

    async fn offset_for_timestamp_once(
        &self,
        timestamp: Timestamp,
    ) -> Result<Option<TimestampOffset>, StorageError> {
        self.check_open()?;
        let (mut index, mut segment) = self.segment_of(self.log_start.get());
        loop {
            let max = segment.max_timestamp().await?;
            if max.is_some_and(|max| timestamp <= max.timestamp) {
                self.touch(&segment);
                let found = self.first_since(&segment, timestamp).await?;
                if found.is_some() {
                    return Ok(found);
                }
            }
            index += 1;
            match self.segment_at(index) {
                Some(next) => segment = next,
                None => return Ok(None),
            }
        }
    }

    async fn first_since(
        &self,
        segment: &Segment<D>,
        timestamp: Timestamp,
    ) -> Result<Option<TimestampOffset>, StorageError> {
        let start = self.log_start.get();
        let hint = segment.offset_before_time(timestamp).await?;
        let mut walk = segment.walk_before(hint.max(start)).await?;
        while let Some(found) = walk.next().await? {
            if found.header.max_timestamp < timestamp || found.header.last_offset() < start {
                continue;
            }
            let first = self
                .record_of(segment, &found, |best, record| {
                    best.is_none() && timestamp <= record.timestamp && start <= record.offset
                })
                .await?;
            if first.is_some() {
                return Ok(first);
            }
        }
        Ok(None)
    }

    /// The earliest record that has the largest timestamp of the log (ListOffsets −3).
    ///
    /// # Errors
    /// `Corrupt` when the batch cannot be decoded.
    pub async fn offset_of_max_timestamp(&self) -> Result<Option<TimestampOffset>, StorageError> {
        loop {
            let changes = self.changes.get();
            let result = self.offset_of_max_timestamp_once().await;
            if self.holds(changes, &result).await {
                return result;
            }
        }
    }

    async fn offset_of_max_timestamp_once(&self) -> Result<Option<TimestampOffset>, StorageError> {
        self.check_open()?;
        let start = self.log_start.get();
        let (mut index, mut segment) = self.segment_of(start);
        // What a header says of the batch that the start divides may be true of a record that is gone.
        let (divided, whole_from) = self.max_of_divided(&segment, start).await?;
        let mut best: Option<(MaxTimestamp, Rc<Segment<D>>)> = None;
        loop {
            let max = if segment.base < whole_from {
                // What the index says may lie before the log start.
                segment.max_from(whole_from).await?
            } else {
                segment.max_timestamp().await?
            };
            if let Some(max) = max
                && best
                    .as_ref()
                    .is_none_or(|(best, _)| best.timestamp < max.timestamp)
            {
                best = Some((max, Rc::clone(&segment)));
            }
            index += 1;
            match self.segment_at(index) {
                Some(next) => segment = next,
                None => break,
            }
        }
        let Some((max, segment)) = best else {
            return Ok(divided);
        };
        if let Some(divided) = divided
            && max.timestamp <= divided.timestamp
        {
            return Ok(Some(divided));
        }
        self.touch(&segment);
        let Some(found) = find(&segment, max.offset).await? else {
            return Ok(divided);
        };
        self.record_of(&segment, &found, |best, record| {
            best.is_none_or(|best| best.timestamp < record.timestamp)
        })
        .await
    }

    /// The record with the greatest timestamp that is left of a batch which the log start divides, and where whole batches begin.
    async fn max_of_divided(
        &self,
        segment: &Segment<D>,
        start: Offset,
    ) -> Result<(Option<TimestampOffset>, Offset), StorageError> {
        if start <= segment.base {
            return Ok((None, start));
        }
        let Some(found) = find(segment, start).await? else {
            return Ok((None, start));
        };
        if start <= found.header.base_offset {
            return Ok((None, start));
        }
        let newest = self
            .record_of(segment, &found, |best, record| {
                start <= record.offset && best.is_none_or(|best| best.timestamp < record.timestamp)
            })
            .await?;
        Ok((newest, found.header.last_offset().plus(1)))
    }

    /// The last record of a batch that `better` prefers to the one it preferred before.
    async fn record_of(
        &self,
        segment: &Segment<D>,
        found: &Found,
        better: impl Fn(Option<TimestampOffset>, &TimestampOffset) -> bool,
    ) -> Result<Option<TimestampOffset>, StorageError> {
        let bytes: Bytes = segment
            .file()
            .await?
            .read_at(found.position, found.header.size_bytes())
            .await?;
        let corrupt = || {
            let path = file_path(&self.home.directory, segment.base, FileKind::Log);
            StorageError::corrupt(&path, found.position, Damage::Records)
        };
        let header = &found.header;
        let mut best: Option<TimestampOffset> = None;
        for record in RecordIter::new(&bytes, LOOKUP_BYTES_MAX).map_err(|_| corrupt())? {
            let record = record.map_err(|_| corrupt())?;
            let candidate = TimestampOffset {
                offset: record.offset(header),
                timestamp: record.timestamp(header),
                leader_epoch: header.leader_epoch,
            };
            if better(best, &candidate) {
                best = Some(candidate);
            }
        }
        assert!(best.is_none_or(|best| Offset::ZERO <= best.offset));
        Ok(best)
    }
}
