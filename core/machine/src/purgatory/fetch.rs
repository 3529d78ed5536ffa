//! Fetches that wait for bytes.
//!
//! Each waiter is linked into one list per partition and level it watches; the entry in the list and the link in the
//! waiter name each other's position, so that linking and unlinking cost O(1) each and an advance costs O(waiters of
//! that partition at that level).
//!
//! Invariants:
//! 1. A waiter is woken at most once, and is gone from every list when it is.
//! 2. `waiter.links[e.link]` leads back to the entry `e`, for every entry; an empty list is not kept.
//! 3. At most [`FETCH_WAITERS_MAX`] waiters with [`FETCH_WATCHES_MAX`] links in all.
//!
//! Source: Kafka's delayed fetch.

use std::collections::BTreeSet;

use pelton_model::limits::{FETCH_WAITERS_MAX, FETCH_WATCHES_MAX};
use pelton_model::map::Map;
use pelton_model::read_level::ReadLevel;
use pelton_model::{Monotonic, Offset, TopicPartition};

use super::WaiterId;

/// A partition to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedEnd {
    /// The partition.
    pub partition: TopicPartition,
    /// The end that bounds the reader.
    pub level: ReadLevel,
    /// Where that end was when the fetch read.
    pub seen: Offset,
    /// Where it is now.
    pub current: Offset,
}

/// The answer to [`Purgatory::watch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The waiter waits.
    Waiting,
    /// Something moved since the read: read again. Nothing waits.
    Moved,
    /// Too many wait already: answer with what there is. Nothing waits.
    Full,
}

type Key = (TopicPartition, ReadLevel);

#[derive(Clone, Copy, Debug)]
struct Entry {
    slot: usize,
    link: usize,
}

#[derive(Debug)]
struct List {
    key: Key,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    list: usize,
    position: usize,
}

#[derive(Debug)]
struct Waiter {
    id: WaiterId,
    bytes_wanted: u64,
    deadline: Monotonic,
    links: Vec<Link>,
}

/// The waiting fetches of one shard.
#[derive(Debug)]
pub struct Purgatory {
    waiters_max: usize,
    links_max: usize,
    slots: Vec<Waiter>,
    free_slots: Vec<usize>,
    lists: Vec<List>,
    free_lists: Vec<usize>,
    slot_of: Map<WaiterId, usize>,
    list_of: Map<Key, usize>,
    deadlines: BTreeSet<(Monotonic, WaiterId)>,
    link_count: usize,
}

impl Default for Purgatory {
    fn default() -> Self {
        Self::new()
    }
}

impl Purgatory {
    /// Nobody waits; the bounds are those of a shard.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limits(FETCH_WAITERS_MAX, FETCH_WATCHES_MAX)
    }

    /// Nobody waits; at most `waiters_max` will, with `watches_max` watched partitions in all.
    #[must_use]
    pub fn with_limits(waiters_max: usize, watches_max: usize) -> Self {
        Self {
            waiters_max,
            links_max: watches_max,
            slots: Vec::new(),
            free_slots: Vec::new(),
            lists: Vec::new(),
            free_lists: Vec::new(),
            slot_of: Map::default(),
            list_of: Map::default(),
            deadlines: BTreeSet::new(),
            link_count: 0,
        }
    }

    /// Lets `id` wait until `bytes_wanted` more bytes have come to the partitions together, one of them is gone, or
    /// `deadline`. O(partitions).
    ///
    /// # Panics
    /// When `id` waits already.
    pub fn watch(
        &mut self,
        id: WaiterId,
        partitions: &[WatchedEnd],
        bytes_wanted: u64,
        deadline: Monotonic,
    ) -> Watched {
        assert!(!self.slot_of.contains_key(&id));
        if bytes_wanted == 0 || partitions.iter().any(|p| p.seen != p.current) {
            return Watched::Moved;
        }
        if self.slot_of.len() == self.waiters_max
            || self.links_max - self.link_count < partitions.len()
        {
            return Watched::Full;
        }
        let slot = self.take_slot(id, bytes_wanted, deadline);
        for watched in partitions {
            self.link(slot, (watched.partition, watched.level));
        }
        self.slot_of.insert(id, slot);
        self.deadlines.insert((deadline, id));
        Watched::Waiting
    }

    /// `bytes` have become visible at `level` of `partition`: appends to `woken` whoever has enough now. A caller that
    /// does not know how many (the watermark moved for a follower's sake) says `u64::MAX`: too early a wake-up costs one
    /// read, a missing one the whole wait.
    pub fn on_advance(
        &mut self,
        partition: TopicPartition,
        level: ReadLevel,
        bytes: u64,
        woken: &mut Vec<WaiterId>,
    ) {
        if self.slot_of.is_empty() {
            return;
        }
        let Some(&list) = self.list_of.get(&(partition, level)) else {
            return;
        };
        // Backwards: waking swaps the last entry of the list into the gap, and the last has been seen.
        let mut position = self.lists[list].entries.len();
        while position > 0 {
            position -= 1;
            // A waiter that watches a partition twice leaves with all its entries; others may then count the bytes twice
            // and read early, never late.
            let Some(entry) = self.lists[list].entries.get(position).copied() else {
                continue;
            };
            let waiter = &mut self.slots[entry.slot];
            waiter.bytes_wanted = waiter.bytes_wanted.saturating_sub(bytes);
            if waiter.bytes_wanted == 0 {
                woken.push(waiter.id);
                self.remove(entry.slot);
            }
        }
    }

    /// `partition` was deleted, failed, or is led by someone else: appends everyone who watches it to `woken`.
    pub fn on_gone(&mut self, partition: TopicPartition, woken: &mut Vec<WaiterId>) {
        for level in ReadLevel::ALL {
            while let Some(&list) = self.list_of.get(&(partition, level)) {
                let entry = self.lists[list].entries.last().expect("no list is empty");
                let slot = entry.slot;
                woken.push(self.slots[slot].id);
                self.remove(slot);
            }
        }
    }

    /// Lets `id` wait no longer. Returns whether it did.
    pub fn cancel(&mut self, id: WaiterId) -> bool {
        let Some(&slot) = self.slot_of.get(&id) else {
            return false;
        };
        self.remove(slot);
        true
    }

    /// Appends to `woken` everyone whose deadline is at or before `now`.
    pub fn expire(&mut self, now: Monotonic, woken: &mut Vec<WaiterId>) {
        while let Some(&(deadline, id)) = self.deadlines.first() {
            if now < deadline {
                break;
            }
            woken.push(id);
            self.cancel(id);
        }
    }

    /// When to call [`Purgatory::expire`] next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// Appends everyone to `woken`: the shard stops.
    pub fn drain(&mut self, woken: &mut Vec<WaiterId>) {
        while let Some(&(_, id)) = self.deadlines.first() {
            woken.push(id);
            self.cancel(id);
        }
    }

    /// The number of waiters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slot_of.len()
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slot_of.is_empty()
    }

    fn take_slot(&mut self, id: WaiterId, bytes_wanted: u64, deadline: Monotonic) -> usize {
        if let Some(slot) = self.free_slots.pop() {
            let waiter = &mut self.slots[slot];
            assert!(waiter.links.is_empty());
            waiter.id = id;
            waiter.bytes_wanted = bytes_wanted;
            waiter.deadline = deadline;
            return slot;
        }
        self.slots.push(Waiter {
            id,
            bytes_wanted,
            deadline,
            links: Vec::new(),
        });
        self.slots.len() - 1
    }

    fn link(&mut self, slot: usize, key: Key) {
        let list = match self.list_of.get(&key) {
            Some(&list) => list,
            None => self.take_list(key),
        };
        let entries = &mut self.lists[list].entries;
        let links = &mut self.slots[slot].links;
        links.push(Link {
            list,
            position: entries.len(),
        });
        entries.push(Entry {
            slot,
            link: links.len() - 1,
        });
        self.link_count += 1;
    }

    fn take_list(&mut self, key: Key) -> usize {
        let list = if let Some(list) = self.free_lists.pop() {
            assert!(self.lists[list].entries.is_empty());
            self.lists[list].key = key;
            list
        } else {
            self.lists.push(List {
                key,
                entries: Vec::new(),
            });
            self.lists.len() - 1
        };
        self.list_of.insert(key, list);
        list
    }

    /// Takes a waiter out of everything.
    fn remove(&mut self, slot: usize) {
        let mut links = std::mem::take(&mut self.slots[slot].links);
        self.link_count -= links.len();
        while let Some(link) = links.pop() {
            let list = &mut self.lists[link.list];
            list.entries.swap_remove(link.position);
            if let Some(&moved) = list.entries.get(link.position) {
                let links = if moved.slot == slot {
                    &mut links
                } else {
                    &mut self.slots[moved.slot].links
                };
                links[moved.link].position = link.position;
            }
            if list.entries.is_empty() {
                self.list_of.remove(&list.key);
                self.free_lists.push(link.list);
            }
        }
        let waiter = &mut self.slots[slot];
        waiter.links = links;
        self.slot_of.remove(&waiter.id);
        self.deadlines.remove(&(waiter.deadline, waiter.id));
        self.free_slots.push(slot);
    }
}
