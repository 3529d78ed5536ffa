//! Committed offsets of one group.
//!
//! 1. Hard state: only [`Offsets::replay`] and the ends of transactions change it.
//! 2. Offsets of an open transaction are pending: they are not told, they hold up who asks for stable ones, and they
//!    keep what is committed from expiring. Of several transactions with one partition the latest record counts, whichever marker
//!    comes last.
//! 3. Iteration is by topic, then partition.

mod commit;
mod expire;
mod fetch;

pub(super) use expire::{AgeFrom, Expiry, Place, Room};

use std::collections::BTreeMap;

use pelton_model::record_type::group::{GroupRecord, OffsetCommitKey, OffsetCommitValue};
use pelton_model::{ProducerId, Str};

/// Offsets by topic and partition.
type ByPartition<T> = BTreeMap<Str, BTreeMap<i32, T>>;

/// The committed offsets of a group.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Offsets {
    committed: ByPartition<OffsetCommitValue>,
    count: usize,
    pending_count: usize,
    pending: BTreeMap<ProducerId, ByPartition<Pending>>,
    /// Records of transactions since there were none open.
    pending_records: u64,
}

/// A record of an open transaction.
#[derive(Clone, Debug, PartialEq)]
struct Pending {
    /// `None` forgets the offset.
    value: Option<OffsetCommitValue>,
    /// Its place among the records of transactions.
    number: u64,
}

impl Offsets {
    /// How many are committed and how many are pending.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.count, self.pending_count)
    }

    /// Whether nothing is committed or pending.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0 && self.pending.is_empty()
    }

    /// All committed offsets.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Str, i32, &OffsetCommitValue)> {
        self.committed.iter().flat_map(|(topic, partitions)| {
            partitions
                .iter()
                .map(move |(partition, value)| (topic, *partition, value))
        })
    }

    /// Applies a record: `None` is a tombstone.
    pub(super) fn replay(&mut self, topic: &Str, partition: i32, value: Option<OffsetCommitValue>) {
        self.drop_pending(topic, partition, u64::MAX);
        self.apply(topic, partition, value);
    }

    /// What open transactions said before the record of this number has no effect any more, however they end.
    fn drop_pending(&mut self, topic: &Str, partition: i32, before: u64) {
        if self.pending.is_empty() {
            return;
        }
        for topics in self.pending.values_mut() {
            let Some(partitions) = topics.get_mut(topic) else {
                continue;
            };
            let is_outdone = |pending: &Pending| pending.number < before;
            if partitions.get(&partition).is_some_and(is_outdone) {
                partitions.remove(&partition);
                self.pending_count -= 1;
                topics.retain(|_, partitions| !partitions.is_empty());
            }
        }
        self.pending.retain(|_, topics| !topics.is_empty());
        self.forget_order();
    }

    /// Without open transactions their order does not matter any more.
    fn forget_order(&mut self) {
        if self.pending.is_empty() {
            self.pending_records = 0;
        }
    }

    fn apply(&mut self, topic: &Str, partition: i32, value: Option<OffsetCommitValue>) {
        match value {
            Some(value) => {
                let partitions = match self.committed.get_mut(topic) {
                    Some(partitions) => partitions,
                    None => self.committed.entry(topic.clone()).or_default(),
                };
                let is_new = partitions.insert(partition, value).is_none();
                self.count += usize::from(is_new);
            }
            None => {
                let Some(partitions) = self.committed.get_mut(topic) else {
                    return;
                };
                self.count -= usize::from(partitions.remove(&partition).is_some());
                if partitions.is_empty() {
                    self.committed.remove(topic);
                }
            }
        }
    }

    /// Applies a record of an open transaction.
    pub(super) fn replay_pending(
        &mut self,
        producer: ProducerId,
        topic: &Str,
        partition: i32,
        value: Option<OffsetCommitValue>,
    ) {
        let number = self.pending_records;
        self.pending_records += 1;
        let topics = self.pending.entry(producer).or_default();
        let partitions = topics.entry(topic.clone()).or_default();
        let is_new = partitions
            .insert(partition, Pending { value, number })
            .is_none();
        self.pending_count += usize::from(is_new);
    }

    /// Ends a transaction; whether it had offsets here.
    pub(super) fn end_transaction(&mut self, producer: ProducerId, committed: bool) -> bool {
        let Some(topics) = self.pending.remove(&producer) else {
            return false;
        };
        self.pending_count -= topics.values().map(BTreeMap::len).sum::<usize>();
        if committed {
            for (topic, partitions) in topics {
                for (partition, pending) in partitions {
                    self.drop_pending(&topic, partition, pending.number);
                    self.apply(&topic, partition, pending.value);
                }
            }
        }
        self.forget_order();
        true
    }

    fn get(&self, topic: &Str, partition: i32) -> Option<&OffsetCommitValue> {
        self.committed.get(topic)?.get(&partition)
    }

    fn is_pending(&self, topic: &Str, partition: i32) -> bool {
        let has = |topics: &ByPartition<Pending>| {
            topics
                .get(topic)
                .is_some_and(|partitions| partitions.contains_key(&partition))
        };
        self.pending.values().any(has)
    }
}

/// The record that forgets an offset.
fn tombstone(group_id: &Str, topic: &Str, partition: i32) -> GroupRecord {
    let key = OffsetCommitKey {
        group: group_id.clone(),
        topic: topic.clone(),
        partition,
    };
    GroupRecord::OffsetCommit(key, None)
}
