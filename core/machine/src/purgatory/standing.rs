//! Interests of fetch sessions: whoever has read a partition to its end is told once when it changes.
//!
//! Invariants:
//! 1. An interest fires at most once; it is armed anew by the next read.
//! 2. A session has at most one interest of each number; arming it again moves it.
//! 3. `links[interest]` leads to the interest's entry, for every entry; an empty list is not kept.
//! 4. At most [`FETCH_INTERESTS_MAX`] interests; beyond, nothing is armed and the session reads the partition with each fetch.

use pelton_model::limits::FETCH_INTERESTS_MAX;
use pelton_model::map::Map;
use pelton_model::{ShardId, TopicPartition};

/// Whose interest it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interest {
    /// The shard that keeps the session.
    pub shard: ShardId,
    /// The session.
    pub session: i32,
    /// The partition's number within the session.
    pub cell: u32,
}

#[derive(Debug)]
struct List {
    partition: TopicPartition,
    entries: Vec<Interest>,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    list: usize,
    position: usize,
}

/// The interests in one shard's partitions.
#[derive(Debug)]
pub struct Standing {
    interests_max: usize,
    lists: Vec<List>,
    free_lists: Vec<usize>,
    list_of: Map<TopicPartition, usize>,
    links: Map<Interest, Link>,
}

impl Default for Standing {
    fn default() -> Self {
        Self::with_limit(FETCH_INTERESTS_MAX)
    }
}

impl Standing {
    /// No interests; at most `interests_max` will be.
    #[must_use]
    pub fn with_limit(interests_max: usize) -> Self {
        Self {
            interests_max,
            lists: Vec::new(),
            free_lists: Vec::new(),
            list_of: Map::default(),
            links: Map::default(),
        }
    }

    /// The number of interests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.links.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Arms an interest; returns whether there was room. To be called in the stretch without await that saw the partition's end.
    pub fn arm(&mut self, partition: TopicPartition, interest: Interest) -> bool {
        self.withdraw(interest);
        if self.links.len() == self.interests_max {
            return false;
        }
        let list = match self.list_of.get(&partition) {
            Some(&list) => list,
            None => self.take_list(partition),
        };
        let entries = &mut self.lists[list].entries;
        let link = Link {
            list,
            position: entries.len(),
        };
        entries.push(interest);
        self.links.insert(interest, link);
        true
    }

    /// A partition changed: appends every interest in it to `fired`; none is armed any more.
    pub fn fire(&mut self, partition: TopicPartition, fired: &mut Vec<Interest>) {
        if self.links.is_empty() {
            return;
        }
        let Some(list) = self.list_of.remove(&partition) else {
            return;
        };
        let entries = &mut self.lists[list].entries;
        for interest in entries.iter() {
            self.links.remove(interest);
        }
        fired.append(entries);
        self.free_lists.push(list);
    }

    /// A session ended that numbered its partitions below `cells`: none of its interests fires any more.
    pub fn close(&mut self, shard: ShardId, session: i32, cells: u32) {
        for cell in 0..cells {
            self.withdraw(Interest {
                shard,
                session,
                cell,
            });
        }
    }

    fn withdraw(&mut self, interest: Interest) {
        let Some(Link { list, position }) = self.links.remove(&interest) else {
            return;
        };
        let List { partition, entries } = &mut self.lists[list];
        entries.swap_remove(position);
        if let Some(moved) = entries.get(position) {
            let link = self.links.get_mut(moved);
            link.expect("every entry has its link").position = position;
        }
        if entries.is_empty() {
            self.list_of.remove(partition);
            self.free_lists.push(list);
        }
    }

    fn take_list(&mut self, partition: TopicPartition) -> usize {
        let list = if let Some(list) = self.free_lists.pop() {
            assert!(self.lists[list].entries.is_empty());
            self.lists[list].partition = partition;
            list
        } else {
            self.lists.push(List {
                partition,
                entries: Vec::new(),
            });
            self.lists.len() - 1
        };
        self.list_of.insert(partition, list);
        list
    }
}
