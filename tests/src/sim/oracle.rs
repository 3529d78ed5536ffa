//! What must hold, from the facts that clients have been told.
//!
//! Invariants checked:
//! 1. An acknowledged record is at its acknowledged offset, exactly once. One that was deleted before its answer came may stand again:
//!    of a producer whose batches are gone a start knows the last one only, as Kafka's snapshots do.
//! 2. An offset has one record, in every read and after every restart.
//! 3. Records of one producer are in the order in which it sent them, none twice.
//! 4. Offsets have no gaps; the end never moves back.
//! 5. Where records may go: the start moves up only, and no further than somebody asked; what goes of a compacted topic has a later
//!    record of its key; a topic that keeps so many bytes keeps at least those.

use std::collections::BTreeMap;

use pelton_model::TopicId;

use super::bench::Kind;
use super::records::key_of;

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
    /// The start below which nothing may come back, and the largest that was asked for.
    known_start: i64,
    asked_start: i64,
}

/// All of a partition as it was read.
#[derive(Clone, Debug)]
pub struct Whole {
    /// Where it begins.
    pub start: i64,
    /// Where it ends.
    pub end: i64,
    /// The records.
    pub records: Vec<(i64, RecordId)>,
    /// Bytes of their batches.
    pub bytes: u64,
}

impl Facts {
    fn tell(&mut self, place: Place, offset: i64, id: RecordId, how: &str) {
        if let Some(known) = self.by_offset.insert(offset, id) {
            assert!(
                known == id,
                "{place:?} offset {offset}: {how} {id:?}, but it was {known:?} before"
            );
        }
        let known = *self.offset_of.entry(id).or_insert(offset);
        if known == offset {
            return;
        }
        let went = known.min(offset) < self.asked_start;
        assert!(went, "{place:?} {id:?}: {how} at {offset}, but also at {known}");
        self.offset_of.insert(id, known.max(offset));
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Oracle {
    facts: BTreeMap<Place, Facts>,
    next_producer: u32,
    acknowledged: u64,
    vanished: u64,
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

    /// Somebody is about to ask for everything below `start` to be deleted.
    pub fn asks_to_delete(&mut self, place: Place, start: i64) {
        let facts = self.facts.entry(place).or_default();
        facts.asked_start = facts.asked_start.max(start);
    }

    /// A broker named the start of a partition, asked for at a time when `floor` was the start known. `stays`: it may not move back.
    ///
    /// # Panics
    /// When the start has moved back.
    pub fn began(&mut self, place: Place, start: i64, floor: i64, stays: bool) {
        assert!(floor <= start, "{place:?}: begins at {start}, but at {floor} before it was asked");
        let facts = self.facts.entry(place).or_default();
        if stays {
            facts.known_start = facts.known_start.max(start);
        }
    }

    /// The start as far as clients know it.
    #[must_use]
    pub fn known_start(&self, place: Place) -> i64 {
        self.facts.get(&place).map_or(0, |facts| facts.known_start)
    }

    /// Records that were told of and are not there any more, as the last checks found.
    #[must_use]
    pub fn vanished(&self) -> u64 {
        self.vanished
    }

    /// The largest start that somebody has asked for.
    #[must_use]
    pub fn asked_start(&self, place: Place) -> i64 {
        self.facts.get(&place).map_or(0, |facts| facts.asked_start)
    }

    /// Where a record is, or was, as far as anybody was told.
    #[must_use]
    pub fn place_of(&self, id: RecordId) -> Option<(Place, i64)> {
        let mut places = self.facts.iter();
        places.find_map(|(&place, facts)| Some((place, *facts.offset_of.get(&id)?)))
    }

    /// So many records were told of and are not there any more, as a check found.
    pub fn went(&mut self, count: u64) {
        self.vanished += count;
    }

    /// Compares the whole of a partition with the facts.
    ///
    /// # Panics
    /// When an acknowledged record is missing, or one is twice or out of order.
    pub fn check_whole(&mut self, place: Place, kind: Kind, whole: &Whole) {
        let Whole { start, end, ref records, bytes } = *whole;
        let mut last: BTreeMap<u32, u32> = BTreeMap::new();
        for &(offset, id) in records {
            self.read(place, offset, id);
            if let Some(before) = last.insert(id.producer, id.number) {
                assert!(
                    before < id.number,
                    "{place:?} offset {offset}: {id:?} comes after number {before}"
                );
            }
        }
        let facts = self.facts.entry(place).or_default();
        if let Some((offset, id)) = facts.by_offset.range(end..).next() {
            panic!("{place:?} ends at {end}, but {id:?} was at {offset}");
        }
        let is_contiguous = (start..end).eq(records.iter().map(|(offset, _)| *offset));
        let newest = newest_of_keys(records);
        let missing_keys = || {
            let there: BTreeMap<i64, RecordId> = records.iter().copied().collect();
            let missing = facts.by_offset.iter().filter(move |(at, _)| !there.contains_key(*at));
            let is_newest = |(at, id): &(&i64, &RecordId)| {
                newest.get(&key_of(**id)).is_none_or(|newest| newest < *at)
            };
            missing.filter(is_newest).collect::<Vec<_>>()
        };
        match kind {
            Kind::Whole => {
                assert!(is_contiguous, "{place:?}: a gap");
                assert_eq!(start, 0, "{place:?}: its beginning is gone");
            }
            Kind::Deleting => {
                assert!(is_contiguous, "{place:?}: a gap");
                let asked = facts.asked_start;
                assert!(start <= asked, "{place:?}: begins at {start}, {asked} was asked for");
            }
            Kind::Retained(least) => {
                assert!(is_contiguous, "{place:?}: a gap");
                assert!(start == 0 || least <= bytes, "{place:?}: only {bytes} bytes are left");
            }
            Kind::Compacted => {
                let missing = missing_keys();
                assert!(missing.is_empty(), "{place:?}: nothing newer than {missing:?}");
            }
        }
        let told = facts.by_offset.len();
        self.went(u64::try_from(told.saturating_sub(records.len())).expect("a count"));
    }
}

/// The largest offset of each key.
#[must_use]
pub fn newest_of_keys(records: &[(i64, RecordId)]) -> BTreeMap<u32, i64> {
    records.iter().map(|&(offset, id)| (key_of(id), offset)).collect()
}
