//! A segment as rows of the start-up manifest, and back.
//!
//! Invariants:
//! 1. Rows come from a file: numbers that contradict each other are refused.
//! 2. A segment made from rows opens no file before it is used.

use std::rc::Rc;

use pelton_model::{Offset, Timestamp};

use super::{Home, MaxTimestamp, SEGMENT_BYTES_MAX, Segment};
use crate::disk::Disk;
use crate::index::{OffsetEntry, TimeEntry};
use crate::snapshot::{IndexManifest, SegmentManifest};

impl<D: Disk> Segment<D> {
    /// What a clean stop knows of this segment.
    pub(crate) fn manifest(&self) -> SegmentManifest {
        let indexes = match (self.offsets.measured(), self.times.measured()) {
            (Some((offset_count, offset)), Some((time_count, time))) => Some(IndexManifest {
                offset_count,
                offset_last: offset.map(|entry| (entry.relative_offset, entry.position)),
                time_count,
                time_last: time.map(|entry| (entry.timestamp.0, entry.relative_offset)),
            }),
            _ => None,
        };
        let max = || {
            let none = (Timestamp::NONE.0, Offset::NONE.0);
            let max = self.max_timestamp.get();
            max.map_or(none, |max| (max.timestamp.0, max.offset.0))
        };
        SegmentManifest {
            base: self.base.0,
            size_bytes: self.size.get(),
            max_timestamp: self.max_known.get().then(max),
            since_entry: self.since_entry.get(),
            indexes,
            has_aborted: self.has_aborted(),
        }
    }

    /// The durable segment that `rows` speak of, which ends before `end`; `None` when they make no sense.
    pub(crate) fn from_manifest(
        home: &Rc<Home<D>>,
        rows: &SegmentManifest,
        end: Offset,
    ) -> Option<Self> {
        let (base, size) = (Offset(rows.base), rows.size_bytes);
        if base.0 < 0 || end < base || SEGMENT_BYTES_MAX < size || size < rows.since_entry {
            return None;
        }
        let segment = Self::new(home, base, size);
        let in_log = |relative: u32| base.0.saturating_add(i64::from(relative)) < end.0;
        if let Some(indexes) = &rows.indexes {
            let offset = indexes
                .offset_last
                .map(|(relative_offset, position)| OffsetEntry {
                    relative_offset,
                    position,
                });
            let time = indexes
                .time_last
                .map(|(timestamp, relative_offset)| TimeEntry {
                    timestamp: Timestamp(timestamp),
                    relative_offset,
                });
            let makes_sense = offset
                .is_none_or(|last| u64::from(last.position) < size && in_log(last.relative_offset))
                && time.is_none_or(|last| in_log(last.relative_offset))
                && segment.offsets.take_measure(indexes.offset_count, offset)
                && segment.times.take_measure(indexes.time_count, time);
            if !makes_sense {
                return None;
            }
        }
        if let Some((timestamp, offset)) = rows.max_timestamp {
            let max = (0 <= timestamp).then_some(MaxTimestamp {
                timestamp: Timestamp(timestamp),
                offset: Offset(offset),
            });
            if max.is_some_and(|max| max.offset < base || end <= max.offset) {
                return None;
            }
            segment.max_timestamp.set(max);
            segment.max_known.set(true);
        }
        if rows.has_aborted {
            segment.set_has_aborted();
        }
        segment.since_entry.set(rows.since_entry);
        segment.set_synced();
        Some(segment)
    }
}
