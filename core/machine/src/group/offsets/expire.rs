//! Offsets that nobody needs any more (KIP-211).
//!
//! 1. An offset of a topic that its group reads never expires, nor does one that a transaction is about to change.
//! 2. From when an offset's age counts is the group's to say: since it was committed, or since the group became empty.
//!    An offset that was committed with a retention of its own goes by that alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use pelton_model::record_type::group::{GroupRecord, OffsetCommitValue};
use pelton_model::{Str, Timestamp};

use super::{Offsets, tombstone};

/// From when offsets age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::group) enum AgeFrom {
    /// Since each was committed.
    Commit,
    /// Since this moment, all of them.
    Moment(Timestamp),
}

/// Where a look at a group's offsets stands: the next offset to look at.
pub(in crate::group) type Place = (Str, i32);

/// How much one look may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::group) struct Room {
    /// Offsets, and groups, to look at.
    pub(in crate::group) looks: usize,
    /// Tombstones to write.
    pub(in crate::group) tombstones: usize,
}

impl Room {
    /// Whether nothing more may be done.
    pub(in crate::group) fn is_used_up(self) -> bool {
        self.looks == 0 || self.tombstones == 0
    }

    fn looked(&mut self) {
        self.looks = self.looks.saturating_sub(1);
    }
}

/// What expires, and by which rule.
pub(in crate::group) struct Expiry<'a, F> {
    /// Whose offsets they are.
    pub(in crate::group) group_id: &'a Str,
    /// The time.
    pub(in crate::group) now: Timestamp,
    /// `offsets.retention.minutes`, in milliseconds.
    pub(in crate::group) retention_ms: i64,
    /// From when offsets age.
    pub(in crate::group) age_from: AgeFrom,
    /// Whether the group reads a topic.
    pub(in crate::group) is_subscribed: F,
}

impl<F: Fn(&Str) -> bool> Expiry<'_, F> {
    fn is_over(&self, value: &OffsetCommitValue) -> bool {
        if value.expire_timestamp != -1 {
            return value.expire_timestamp <= self.now.0;
        }
        let since = match self.age_from {
            AgeFrom::Commit => value.commit_timestamp,
            AgeFrom::Moment(moment) => moment.0,
        };
        self.retention_ms <= self.now.0.saturating_sub(since)
    }
}

impl Offsets {
    /// Tombstones of expired offsets from `from` on, within `room`, which shrinks; and where to go on. `None` there is the end.
    pub(in crate::group) fn expire(
        &self,
        expiry: &Expiry<'_, impl Fn(&Str) -> bool>,
        from: Option<&Place>,
        room: &mut Room,
    ) -> (Vec<GroupRecord>, Option<Place>) {
        let mut tombstones = Vec::new();
        let first = from.map_or(Bound::Unbounded, |(topic, _)| Bound::Included(topic));
        let topics = self.committed.range::<Str, _>((first, Bound::Unbounded));
        for (topic, partitions) in topics {
            if room.is_used_up() {
                let first = partitions.keys().next().copied().unwrap_or(0);
                return (tombstones, Some((topic.clone(), first)));
            }
            room.looked();
            if (expiry.is_subscribed)(topic) {
                continue;
            }
            let first = match from {
                Some((begun, partition)) if begun == topic => *partition,
                Some(_) | None => i32::MIN,
            };
            for (partition, value) in partitions.range(first..) {
                if room.is_used_up() {
                    return (tombstones, Some((topic.clone(), *partition)));
                }
                room.looked();
                if expiry.is_over(value) && !self.is_pending(topic, *partition) {
                    room.tombstones -= 1;
                    tombstones.push(tombstone(expiry.group_id, topic, *partition));
                }
            }
        }
        (tombstones, None)
    }

    /// Whether nothing is left once so many tombstones are applied.
    pub(in crate::group) fn is_nothing_after(&self, tombstones: usize) -> bool {
        tombstones == self.count && self.pending.is_empty()
    }

    /// Tombstones of all offsets, pending ones too.
    pub(in crate::group) fn delete_all(&self, group_id: &Str) -> Vec<GroupRecord> {
        let pending = self.pending.values().flat_map(BTreeMap::keys);
        let topics: BTreeSet<&Str> = self.committed.keys().chain(pending).collect();
        let of_topic = |topic: &Str| self.delete_topic(group_id, topic);
        topics.into_iter().flat_map(of_topic).collect()
    }

    /// Tombstones of all offsets of a topic, pending ones too.
    pub(in crate::group) fn delete_topic(&self, group_id: &Str, topic: &Str) -> Vec<GroupRecord> {
        let committed = self
            .committed
            .get(topic)
            .into_iter()
            .flat_map(BTreeMap::keys);
        let pending = self.pending.values().filter_map(|topics| topics.get(topic));
        let pending = pending.flat_map(BTreeMap::keys);
        let all: BTreeSet<i32> = committed.chain(pending).copied().collect();
        let one = |partition| tombstone(group_id, topic, partition);
        all.into_iter().map(one).collect()
    }
}
