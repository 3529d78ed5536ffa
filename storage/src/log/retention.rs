//! Which segments are past their time or beyond the log's size, and their removal.
//!
//! Invariants:
//! 1. Only a prefix of the segments goes, and only such as lie wholly below the high watermark.
//! 2. The order is Kafka's: what lies below the log start, then size, then time. Without the policy `delete` only the first.
//! 3. When every record has expired, the active segment is rolled and goes too; an empty one stays.
//! 4. The age of a segment is that of its largest record timestamp; the file's own time counts where no record has one.
//!
//! 5. A segment whose first batch has no timestamp is rolled here, by the clock, once `segment.ms` has passed since it was first looked at;
//!    after a restart not before the next append, which looks its first batch up.
//!
//! Not here: when to look (the owner's task), keeping the log start over a restart (its checkpoint).
//!
//! Source: Kafka's `deleteOldSegments`.

use std::rc::Rc;

use bytes::Bytes;
use pelton_model::{Monotonic, Offset, Timestamp};

use super::Log;
use crate::config::DISCARD_SEGMENTS_MAX;
use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::segment::{FileKind, Segment};

/// What the owner of a log knows when it asks for what is past its retention to go.
#[derive(Clone, Copy, Debug)]
pub struct RetentionTerms {
    /// The wall clock, which record timestamps are compared with.
    pub now: Timestamp,
    /// The clock by which files are removed later.
    pub instant: Monotonic,
    /// Nothing at or above it goes.
    pub high_watermark: Offset,
}

/// What went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retained {
    /// The log start now.
    pub log_start: Offset,
    /// Segments deleted by this call.
    pub deleted: usize,
    /// Whether more may have to go: ask again soon.
    pub has_more: bool,
    /// Whether the active segment was rolled: what is behind it wants a sync.
    pub has_rolled: bool,
}

impl<D: Disk> Log<D> {
    /// Deletes segments past the topic's retention, at most about [`DISCARD_SEGMENTS_MAX`] of them.
    ///
    /// `producer_snapshot` gives `ProducerStates::encode_snapshot` as of the log end, should the active segment be rolled.
    ///
    /// # Errors
    /// `Disk` when a file could not be renamed or created, and the log failed with it; also, without such consequences,
    /// when a time index could not be read.
    pub async fn retain(
        &self,
        terms: RetentionTerms,
        producer_snapshot: impl FnOnce() -> Option<Bytes>,
    ) -> Result<Retained, StorageError> {
        self.check_open()?;
        let _turn = self.gate.enter().await;
        self.check_open()?;
        let failed = |error| self.fail(error);
        if self.active().age_by_clock(terms.now, &self.config.get()) {
            let snapshot = producer_snapshot();
            self.roll_to(self.log_end.get(), snapshot)
                .await
                .map_err(failed)?;
            return Ok(Retained {
                log_start: self.log_start.get(),
                deleted: 0,
                has_more: true,
                has_rolled: true,
            });
        }
        let active = self.active().base;
        let mut deleted = self
            .discard_below_start(terms.instant)
            .await
            .map_err(failed)?;
        if self.config.get().deletes {
            let count = self.beyond_size(terms.high_watermark);
            let count = count + self.expired(count, terms).await?;
            deleted += self.delete_first(count, terms, producer_snapshot).await?;
        }
        Ok(Retained {
            log_start: self.log_start.get(),
            deleted,
            has_more: deleted >= DISCARD_SEGMENTS_MAX,
            has_rolled: self.active().base != active,
        })
    }

    /// How many of the first segments go by `retention.bytes`: as many as leave at least that much.
    fn beyond_size(&self, high_watermark: Offset) -> usize {
        let Ok(wanted) = u64::try_from(self.config.get().retention_bytes) else {
            return 0;
        };
        let mut size = self.size_bytes();
        let mut count = 0;
        while count < DISCARD_SEGMENTS_MAX
            && let Some(segment) = self.deletable(count, high_watermark)
        {
            let left = size.saturating_sub(segment.size_bytes());
            if left < wanted || size < segment.size_bytes() {
                break;
            }
            size = left;
            count += 1;
        }
        count
    }

    /// How many segments from `first` on go by `retention.ms`.
    async fn expired(&self, first: usize, terms: RetentionTerms) -> Result<usize, StorageError> {
        let retention_ms = self.config.get().retention_ms;
        if retention_ms < 0 {
            return Ok(0);
        }
        let mut count = 0;
        while first + count < DISCARD_SEGMENTS_MAX
            && let Some(segment) = self.deletable(first + count, terms.high_watermark)
        {
            let latest = latest_time(&segment).await?;
            let is_past =
                latest.is_some_and(|latest| terms.now.0.saturating_sub(latest.0) > retention_ms);
            if !is_past {
                break;
            }
            count += 1;
        }
        Ok(count)
    }

    /// The segment at `index`, if it lies below the high watermark and is not the empty active one.
    fn deletable(&self, index: usize, high_watermark: Offset) -> Option<Rc<Segment<D>>> {
        let segments = self.segments.borrow();
        let segment = segments.get(index)?;
        let next = segments.get(index + 1);
        let end = next.map_or(self.log_end.get(), |next| next.base);
        let is_empty_active = next.is_none() && segment.size_bytes() == 0;
        (end <= high_watermark && !is_empty_active).then(|| Rc::clone(segment))
    }

    async fn delete_first(
        &self,
        count: usize,
        terms: RetentionTerms,
        producer_snapshot: impl FnOnce() -> Option<Bytes>,
    ) -> Result<usize, StorageError> {
        if count == 0 {
            return Ok(0);
        }
        if count == self.segment_count() {
            self.roll_to(self.log_end.get(), producer_snapshot())
                .await
                .map_err(|error| self.fail(error))?;
        }
        let next = self
            .segment_at(count)
            .expect("there is always one segment more than those that go");
        self.move_log_start(next.base);
        self.discard_below_start(terms.instant)
            .await
            .map_err(|error| self.fail(error))
    }
}

/// The largest record timestamp, else the file's time of modification; `None` when neither can be told.
async fn latest_time<D: Disk>(segment: &Segment<D>) -> Result<Option<Timestamp>, StorageError> {
    if let Some(max) = segment.max_timestamp().await? {
        return Ok(Some(max.timestamp));
    }
    let disk = segment.disk();
    let file = disk
        .open(&segment.path(FileKind::Log), crate::disk::OpenMode::Read)
        .await?;
    Ok(file.modified().await?)
}
