//! What is worth cleaning, and which segments become one.
//!
//! Pure: facts come in, a plan goes out.
//!
//! Invariants:
//! 1. The active segment, and what lies at or above the last stable offset (which is never above the high watermark), is
//!    never cleaned; neither is a segment with a record younger than `min.compaction.lag.ms`, nor any behind it.
//! 2. Only whole segments are cleaned.
//! 3. Old segments join a new one as long as it cannot outgrow `segment.bytes`, `segment.index.bytes` or the range of
//!    relative offsets, whatever stays of them. Kafka counts their old sizes, so that much dirt leaves many small segments.
//!
//! Source: Kafka's `LogCleanerManager`; KIP-354 (max compaction lag).

use pelton_model::{Offset, Timestamp};

use crate::config::LogConfig;
use crate::segment::SEGMENT_BYTES_MAX;

/// What planning must know of a closed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFacts {
    /// Its base offset.
    pub base: Offset,
    /// Its size.
    pub size_bytes: u64,
    /// The timestamp of its first batch; only needed when there is a max lag.
    pub first_timestamp: Option<Timestamp>,
    /// Its largest timestamp; only needed when there is a min lag.
    pub largest_timestamp: Option<Timestamp>,
}

/// What planning must know of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogFacts<'a> {
    /// The closed segments, in order.
    pub closed: &'a [SegmentFacts],
    /// Where the active segment begins.
    pub active_base: Offset,
    /// The first offset that can be read.
    pub log_start: Offset,
    /// The next offset to be appended.
    pub log_end: Offset,
    /// The last stable offset.
    pub last_stable: Offset,
    /// Everything below was cleaned once; `None` for a log that never was.
    pub cleaned_to: Option<Offset>,
}

/// The topic's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// `min.cleanable.dirty.ratio`.
    pub min_cleanable_dirty_ratio: f64,
    /// `min.compaction.lag.ms`.
    pub min_compaction_lag_ms: i64,
    /// `max.compaction.lag.ms`.
    pub max_compaction_lag_ms: i64,
}

/// What a log's cleaning would be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The first offset that was never cleaned.
    pub first_dirty: Offset,
    /// Where cleaning ends, exclusive: the base of a segment.
    pub up_to: Offset,
    /// Bytes of the segments before `first_dirty`.
    pub clean_bytes: u64,
    /// Bytes of the segments from `first_dirty` to `up_to`.
    pub dirty_bytes: u64,
    /// Whether a record has waited for `max.compaction.lag.ms`.
    pub is_overdue: bool,
}

impl Plan {
    /// The share of uncleaned bytes: the log with the highest is cleaned first.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "a ratio needs no more than 52 bits"
    )]
    pub fn dirty_ratio(&self) -> f64 {
        let total = self.clean_bytes + self.dirty_bytes;
        if total == 0 {
            return 0.0;
        }
        self.dirty_bytes as f64 / total as f64
    }

    /// Whether the log is worth cleaning now.
    #[must_use]
    pub fn is_worthwhile(&self, policy: &Policy) -> bool {
        let is_dirty_enough = policy.min_cleanable_dirty_ratio < self.dirty_ratio();
        0 < self.dirty_bytes && (self.is_overdue || is_dirty_enough)
    }
}

/// Measures a log.
#[must_use]
pub fn plan(log: &LogFacts<'_>, policy: &Policy, now: Timestamp) -> Plan {
    let first_dirty = first_dirty(log);
    let is_dirty = |index: usize| first_dirty < end_of(log, index);
    let dirty_from = (0..log.closed.len())
        .find(|&index| is_dirty(index))
        .unwrap_or(log.closed.len());
    let (clean, dirty) = log.closed.split_at(dirty_from);
    let is_young = |segment: &SegmentFacts| {
        let bound = now.0.saturating_sub(policy.min_compaction_lag_ms.max(0));
        let largest = segment.largest_timestamp;
        0 < policy.min_compaction_lag_ms && largest.is_some_and(|largest| bound < largest.0)
    };
    let is_stable = |index: usize| end_of(log, index) <= log.last_stable;
    let count = (dirty_from..log.closed.len())
        .zip(dirty)
        .take_while(|(index, segment)| is_stable(*index) && !is_young(segment))
        .count();
    let up_to = match log.closed.get(dirty_from + count) {
        Some(next) => next.base,
        None => log.active_base,
    };
    let bytes = |segments: &[SegmentFacts]| segments.iter().map(|s| s.size_bytes).sum();
    let waits_since = dirty
        .iter()
        .filter_map(|segment| segment.first_timestamp)
        .filter(|timestamp| 0 < timestamp.0)
        .min();
    let due = now.0.saturating_sub(policy.max_compaction_lag_ms.max(0));
    Plan {
        first_dirty,
        up_to: up_to.max(first_dirty),
        clean_bytes: bytes(clean),
        dirty_bytes: bytes(&dirty[..count]),
        is_overdue: waits_since.is_some_and(|since| since.0 < due),
    }
}

/// A checkpoint that does not fit the log (truncated, or its start moved on) counts as none.
fn first_dirty(log: &LogFacts<'_>) -> Offset {
    match log.cleaned_to {
        Some(to) if log.log_start <= to && to <= log.log_end => to,
        Some(_) | None => log.log_start,
    }
}

/// Where the segment at `index` ends at the latest.
fn end_of(log: &LogFacts<'_>, index: usize) -> Offset {
    match log.closed.get(index + 1) {
        Some(next) => next.base,
        None => log.active_base,
    }
}

/// Index bytes that one log segment can have at most, by the rule that places entries.
fn index_bytes_max(size_bytes: u64, config: &LogConfig) -> u64 {
    const TIME_ENTRY_BYTES: u64 = 12;
    // The smallest batch is its header.
    let interval = u64::from(config.index_interval_bytes).max(61);
    (size_bytes / interval + 1) * TIME_ENTRY_BYTES
}

/// What a new segment holds so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathered {
    /// Its base offset.
    pub base: Offset,
    /// Its bytes.
    pub size_bytes: u64,
    /// Whether a record is among them: a segment of bare headers is not worth its files, and consumers that get nothing
    /// else fetch after fetch may take the next record for one that is too large.
    pub has_records: bool,
}

/// Whether another old segment of `size_bytes`, which ends before `end`, may go into the new one.
#[must_use]
pub fn may_join(gathered: &Gathered, size_bytes: u64, end: Offset, config: &LogConfig) -> bool {
    let size = gathered.size_bytes + size_bytes;
    let in_reach = end.0 - 1 - gathered.base.0 <= i64::from(i32::MAX);
    let fits = size <= u64::from(config.segment_size_bytes_max)
        && index_bytes_max(size, config) <= u64::from(config.index_size_bytes_max);
    let fits_any = !gathered.has_records && size <= SEGMENT_BYTES_MAX;
    in_reach && (fits || fits_any)
}

#[cfg(test)]
mod tests;
