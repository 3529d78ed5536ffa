//! Offsets that nobody needs any more (KIP-211).
//!
//! 1. An offset of a topic that its group reads never expires, nor does one that a transaction is about to change.
//! 2. From when an offset's age counts is the group's to say: since it was committed, or since the group became empty.
//!    An offset that was committed with a retention of its own goes by that alone.

use std::collections::{BTreeMap, BTreeSet};

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

impl Offsets {
    /// Tombstones of expired offsets, at most `count_max`; and whether none is left thereafter.
    pub(in crate::group) fn expire(
        &self,
        group_id: &Str,
        now: Timestamp,
        retention_ms: i64,
        age_from: AgeFrom,
        is_subscribed: impl Fn(&Str) -> bool,
        count_max: usize,
    ) -> (Vec<GroupRecord>, bool) {
        let is_expired = |value: &OffsetCommitValue| {
            if value.expire_timestamp != -1 {
                return value.expire_timestamp <= now.0;
            }
            let since = match age_from {
                AgeFrom::Commit => value.commit_timestamp,
                AgeFrom::Moment(moment) => moment.0,
            };
            retention_ms <= now.0.saturating_sub(since)
        };
        let mut tombstones = Vec::new();
        for (topic, partitions) in &self.committed {
            if is_subscribed(topic) {
                continue;
            }
            for (partition, value) in partitions {
                if tombstones.len() == count_max {
                    return (tombstones, false);
                }
                if is_expired(value) && !self.is_pending(topic, *partition) {
                    tombstones.push(tombstone(group_id, topic, *partition));
                }
            }
        }
        let none_left = tombstones.len() == self.count && self.pending.is_empty();
        (tombstones, none_left)
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
