//! The leader epochs of a partition and where each begins.
//!
//! Invariants:
//! 1. Epochs and their start offsets both grow strictly from entry to entry.
//! 2. An epoch ends where the next begins; the latest one ends at the log end.
//!
//! The file form is `format::text`; when it is written is `log`'s decision.
//! Source: KIP-101, KIP-279.

use pelton_model::{LeaderEpoch, Offset};

/// An epoch and the offset of its first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEntry {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// The first offset appended in it.
    pub start_offset: Offset,
}

/// An epoch and the offset after its last record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEnd {
    /// The largest epoch that is at most the asked one.
    pub epoch: LeaderEpoch,
    /// Exclusive.
    pub end_offset: Offset,
}

/// The epoch history of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpochCache {
    entries: Vec<EpochEntry>,
}

impl EpochCache {
    /// Keeps the entries that form a history: an entry that goes back in epoch or offset ends it.
    #[must_use]
    pub fn from_entries(entries: impl IntoIterator<Item = EpochEntry>) -> Self {
        let mut cache = Self::default();
        for entry in entries {
            cache.assign(entry.epoch, entry.start_offset);
        }
        cache.entries.shrink_to_fit();
        cache
    }

    /// The history, oldest first.
    #[must_use]
    pub fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    /// The latest epoch, if any is known.
    #[must_use]
    pub fn latest(&self) -> Option<EpochEntry> {
        self.entries.last().copied()
    }

    /// Records that `epoch` begins at `start_offset`; says whether the history changed.
    ///
    /// An epoch that is not newer than the latest changes nothing. Entries at or behind the new start held no record
    /// and go.
    pub fn assign(&mut self, epoch: LeaderEpoch, start_offset: Offset) -> bool {
        if epoch.0 < 0 || start_offset.0 < 0 {
            return false;
        }
        if self.entries.last().is_some_and(|last| last.epoch >= epoch) {
            return false;
        }
        while self
            .entries
            .last()
            .is_some_and(|last| last.start_offset >= start_offset)
        {
            self.entries.pop();
        }
        self.entries.push(EpochEntry {
            epoch,
            start_offset,
        });
        true
    }

    /// The epoch of the record at `offset`, if the history reaches back to it.
    #[must_use]
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let after = self.entries.partition_point(|e| e.start_offset <= offset);
        let entry = self.entries.get(after.checked_sub(1)?)?;
        Some(entry.epoch)
    }

    /// Kafka's `endOffsetFor`: the largest epoch at most `asked`, and where it ends.
    ///
    /// `None` for an epoch that is unknown (none known, or newer than the latest). An epoch older than all known ones
    /// is answered with itself and the first known start.
    #[must_use]
    pub fn end_offset_for(&self, asked: LeaderEpoch, log_end: Offset) -> Option<EpochEnd> {
        if asked == LeaderEpoch::NONE {
            return None;
        }
        let latest = self.entries.last()?;
        if asked == latest.epoch {
            return Some(EpochEnd {
                epoch: asked,
                end_offset: log_end,
            });
        }
        if asked > latest.epoch {
            return None;
        }
        let after = self.entries.partition_point(|e| e.epoch <= asked);
        let end_offset = self.entries.get(after)?.start_offset;
        let epoch = match after.checked_sub(1) {
            Some(index) => self.entries.get(index)?.epoch,
            None => asked,
        };
        Some(EpochEnd { epoch, end_offset })
    }

    /// Forgets epochs that begin at or after `end`; says whether the history changed.
    pub fn truncate_from_end(&mut self, end: Offset) -> bool {
        let keep = self.entries.partition_point(|e| e.start_offset < end);
        let changed = keep < self.entries.len();
        self.entries.truncate(keep);
        changed
    }

    /// Forgets what ended before `start`; the epoch that holds `start` then begins there. Says whether it changed.
    pub fn truncate_from_start(&mut self, start: Offset) -> bool {
        let after = self.entries.partition_point(|e| e.start_offset <= start);
        let Some(holder) = after.checked_sub(1) else {
            return false;
        };
        let changed = holder > 0 || self.entries[holder].start_offset < start;
        self.entries.drain(..holder);
        if let Some(first) = self.entries.first_mut() {
            first.start_offset = start;
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(entries: &[(i32, i64)]) -> EpochCache {
        EpochCache::from_entries(entries.iter().map(|&(epoch, start)| EpochEntry {
            epoch: LeaderEpoch(epoch),
            start_offset: Offset(start),
        }))
    }

    // Goal: OffsetForLeaderEpoch answers as Kafka does. Method: a table over one history.
    #[test]
    fn end_offsets() {
        fn check(asked: i32, expected: Option<(i32, i64)>) {
            let found = cache(&[(2, 10), (4, 20), (7, 35)])
                .end_offset_for(LeaderEpoch(asked), Offset(50))
                .map(|end| (end.epoch.0, end.end_offset.0));
            assert_eq!(found, expected, "asked {asked}");
        }
        check(-1, None);
        check(-2, Some((-2, 10)));
        check(0, Some((0, 10)));
        check(2, Some((2, 20)));
        check(3, Some((2, 20)));
        check(4, Some((4, 35)));
        check(6, Some((4, 35)));
        check(7, Some((7, 50)));
        check(8, None);
        assert_eq!(cache(&[]).end_offset_for(LeaderEpoch(0), Offset(0)), None);
    }

    // Goal: the history stays strictly growing whatever is assigned. Method: a table of assignments.
    #[test]
    fn assignments() {
        fn check(entries: &[(i32, i64)], expected: &[(i32, i64)]) {
            let found: Vec<(i32, i64)> = cache(entries)
                .entries()
                .iter()
                .map(|e| (e.epoch.0, e.start_offset.0))
                .collect();
            assert_eq!(found, expected);
        }
        check(&[(0, 0), (0, 5), (1, 9)], &[(0, 0), (1, 9)]);
        check(&[(0, 0), (1, 9), (2, 9)], &[(0, 0), (2, 9)]);
        check(&[(3, 10), (5, 4)], &[(5, 4)]);
        check(&[(3, 10), (2, 40)], &[(3, 10)]);
        check(&[(-1, 0), (0, -1)], &[]);
    }

    // Goal: both ends can be cut. Method: a table; a cut twice changes nothing.
    #[test]
    fn truncation() {
        fn check(start: i64, end: i64, expected: &[(i32, i64)]) {
            let mut found = cache(&[(2, 10), (4, 20), (7, 35)]);
            found.truncate_from_end(Offset(end));
            found.truncate_from_start(Offset(start));
            assert!(!found.truncate_from_end(Offset(end)));
            assert!(!found.truncate_from_start(Offset(start)));
            assert_eq!(found, cache(expected));
        }
        check(0, 100, &[(2, 10), (4, 20), (7, 35)]);
        check(15, 35, &[(2, 15), (4, 20)]);
        check(20, 36, &[(4, 20), (7, 35)]);
        check(40, 100, &[(7, 40)]);
        check(0, 10, &[]);
    }

    // Goal: the epoch of any offset. Method: a table around the borders.
    #[test]
    fn epoch_of_offset() {
        fn check(offset: i64, expected: Option<i32>) {
            let found = cache(&[(2, 10), (4, 20)]).epoch_at(Offset(offset));
            assert_eq!(found.map(|e| e.0), expected);
        }
        check(9, None);
        check(10, Some(2));
        check(19, Some(2));
        check(20, Some(4));
    }
}
