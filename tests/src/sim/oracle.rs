//! What must hold, from the facts that clients have been told.
//!
//! Invariants checked:
//! 1. An acknowledged record is at its acknowledged offset, exactly once.
//! 2. An offset has one record, in every read and after every restart.
//! 3. Records of one producer are in the order in which it sent them, none twice.
//! 4. Offsets have no gaps; the end never moves back.

use std::collections::BTreeMap;

use pelton_model::TopicId;

/// A record's identity: which producer, and its count there. Numbers of one producer grow in the order of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordId {
    /// The producer; a plain one gets a new number with each connection.
    pub producer: u32,
    /// Its count.
    pub number: u32,
}

/// A partition of one topic.
pub type Place = (TopicId, i32);

#[derive(Debug, Default)]
struct Facts {
    by_offset: BTreeMap<i64, RecordId>,
    offset_of: BTreeMap<RecordId, i64>,
    /// The end of what was acknowledged, and when each new end was first known.
    acknowledged_end: i64,
    moved: Vec<(u64, i64)>,
    latest_end: i64,
}

impl Facts {
    fn tell(&mut self, place: Place, offset: i64, id: RecordId, how: &str) {
        if let Some(known) = self.by_offset.insert(offset, id) {
            assert!(
                known == id,
                "{place:?} offset {offset}: {how} {id:?}, but it was {known:?} before"
            );
        }
        if let Some(known) = self.offset_of.insert(id, offset) {
            assert!(known == offset, "{place:?} {id:?}: {how} at {offset}, but also at {known}");
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Oracle {
    facts: BTreeMap<Place, Facts>,
    next_producer: u32,
    acknowledged: u64,
}

impl Oracle {
    /// A number for a new producer.
    pub fn producer(&mut self) -> u32 {
        self.next_producer += 1;
        self.next_producer
    }

    /// A broker said that these records are at `base_offset` and on.
    ///
    /// # Panics
    /// When that contradicts what was said before.
    pub fn acknowledged(&mut self, place: Place, base_offset: i64, ids: &[RecordId], now: u64) {
        assert!(base_offset >= 0, "{place:?}: acknowledged without an offset: {base_offset}");
        let facts = self.facts.entry(place).or_default();
        let mut end = base_offset;
        for &id in ids {
            facts.tell(place, end, id, "acknowledged");
            end += 1;
        }
        if facts.acknowledged_end < end {
            facts.acknowledged_end = end;
            facts.moved.push((now, end));
        }
        self.acknowledged += 1;
    }

    /// A broker returned this record.
    ///
    /// # Panics
    /// When that contradicts what was said before.
    pub fn read(&mut self, place: Place, offset: i64, id: RecordId) {
        self.facts.entry(place).or_default().tell(place, offset, id, "read");
    }

    /// A broker named the end of a partition, asked for at a time when `floor` was the end known.
    ///
    /// # Panics
    /// When the end has moved back.
    pub fn end(&mut self, place: Place, end: i64, floor: i64) {
        let facts = self.facts.entry(place).or_default();
        assert!(floor <= end, "{place:?}: its end is {end}, but was {floor} before it was asked");
        facts.latest_end = facts.latest_end.max(end);
    }

    /// The end as far as clients know it.
    #[must_use]
    pub fn known_end(&self, place: Place) -> i64 {
        self.facts.get(&place).map_or(0, |facts| {
            let read = facts.by_offset.last_key_value().map_or(0, |(offset, _)| offset + 1);
            facts.latest_end.max(read)
        })
    }

    /// When a record at or behind `offset` was first acknowledged.
    #[must_use]
    pub fn moved_past(&self, place: Place, offset: i64) -> Option<u64> {
        let moved = &self.facts.get(&place)?.moved;
        moved.iter().find(|(_, end)| offset < *end).map(|(at, _)| *at)
    }

    /// How many acknowledgements there were.
    #[must_use]
    pub fn acknowledgements(&self) -> u64 {
        self.acknowledged
    }

    /// Compares the whole of a partition with the facts.
    ///
    /// # Panics
    /// When an acknowledged record is missing, or one is twice or out of order.
    pub fn check_whole(&mut self, place: Place, records: &[RecordId]) {
        let mut last: BTreeMap<u32, u32> = BTreeMap::new();
        for (offset, &id) in (0_i64..).zip(records) {
            self.read(place, offset, id);
            if let Some(before) = last.insert(id.producer, id.number) {
                assert!(
                    before < id.number,
                    "{place:?} offset {offset}: {id:?} comes after number {before}"
                );
            }
        }
        let end = i64::try_from(records.len()).expect("a count");
        let facts = self.facts.entry(place).or_default();
        if let Some((offset, id)) = facts.by_offset.range(end..).next() {
            panic!("{place:?} ends at {end}, but {id:?} was at {offset}");
        }
    }
}
