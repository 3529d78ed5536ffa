//! One session: its partitions, their order, and which of them are ready.

use std::collections::BTreeMap;

use pelton_model::map::Map;
use pelton_model::{Monotonic, Offset};

use super::{INITIAL_EPOCH, Position, Request, Told, TopicKey, Wish, next_epoch};

/// A partition of a session.
#[derive(Clone, Copy, Debug)]
struct Cell {
    topic: u32,
    partition: i32,
    /// Its place in the order of reading.
    order: u64,
    position: Position,
    /// What the client was told last.
    high_watermark: Offset,
    log_start: Offset,
    is_ready: bool,
    /// Whether its interest fired since it was last taken for reading.
    has_fired: bool,
    is_vacant: bool,
}

#[derive(Debug)]
struct Topic {
    key: TopicKey,
    /// How many partitions of the session are its.
    count: usize,
}

/// A partition to read.
#[derive(Clone, Copy, Debug)]
pub struct Ready<'a> {
    /// Its number within the session: what an interest names.
    pub cell: u32,
    /// Its place in the order of reading.
    pub order: u64,
    /// Whether it must be read even if this request has done so already.
    pub has_fired: bool,
    /// Its topic.
    pub topic: &'a TopicKey,
    /// Its index.
    pub partition: i32,
    /// What is wanted of it.
    pub position: Position,
}

/// See the module.
#[derive(Debug)]
pub struct Session {
    pub(super) privileged: bool,
    pub(super) uses_topic_ids: bool,
    pub(super) created: Monotonic,
    pub(super) last_used: Monotonic,
    pub(super) epoch: i32,
    /// The number of partitions when it was last used: its rank among those that may be evicted.
    pub(super) ranked_count: usize,
    pub(super) cost: usize,
    read_committed: bool,
    topics: Vec<Topic>,
    free_topics: Vec<u32>,
    topic_of: Map<TopicKey, u32>,
    cells: Vec<Cell>,
    free_cells: Vec<u32>,
    cell_of: Map<(u32, i32), u32>,
    ready: BTreeMap<u64, u32>,
    next_order: u64,
    /// The waiting request, and whether anything fired since it last looked.
    waiter: Option<u64>,
    has_fired: bool,
}

impl Session {
    pub(super) fn new(
        now: Monotonic,
        privileged: bool,
        uses_topic_ids: bool,
        read_committed: bool,
    ) -> Self {
        Self {
            privileged,
            uses_topic_ids,
            created: now,
            last_used: now,
            epoch: next_epoch(INITIAL_EPOCH),
            ranked_count: 0,
            cost: 0,
            read_committed,
            topics: Vec::new(),
            free_topics: Vec::new(),
            topic_of: Map::default(),
            cells: Vec::new(),
            free_cells: Vec::new(),
            cell_of: Map::default(),
            ready: BTreeMap::new(),
            next_order: 0,
            waiter: None,
            has_fired: false,
        }
    }

    /// The number of its partitions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cell_of.len()
    }

    /// Whether it has no partitions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cell_of.is_empty()
    }

    /// The number of partitions that the next read looks at.
    #[must_use]
    pub fn ready_count(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn update(&mut self, request: &Request<'_>) {
        for wish in request.wishes {
            self.want(wish);
        }
        for (topic, partition) in request.forgotten {
            self.forget(topic, *partition);
        }
        if self.read_committed != request.read_committed {
            self.read_committed = request.read_committed;
            for index in 0..self.cells.len() {
                if !self.cells[index].is_vacant {
                    self.make_ready(index);
                }
            }
        }
    }

    /// Adds or changes a partition, which is ready then; gives its cell.
    pub(super) fn want(&mut self, wish: &Wish) -> u32 {
        let topic = self.topic(&wish.topic);
        if let Some(&cell) = self.cell_of.get(&(topic, wish.partition)) {
            self.cells[cell as usize].position = wish.position;
            self.make_ready(cell as usize);
            return cell;
        }
        let cell = Cell {
            topic,
            partition: wish.partition,
            order: self.take_order(),
            position: wish.position,
            high_watermark: Offset::NONE,
            log_start: Offset::NONE,
            is_ready: false,
            has_fired: false,
            is_vacant: false,
        };
        let index = if let Some(free) = self.free_cells.pop() {
            self.cells[free as usize] = cell;
            free
        } else {
            self.cells.push(cell);
            u32::try_from(self.cells.len() - 1).expect("the bound on all sessions is below 2^32")
        };
        self.topics[topic as usize].count += 1;
        self.cost += 1;
        self.cell_of.insert((topic, wish.partition), index);
        self.make_ready(index as usize);
        index
    }

    fn forget(&mut self, topic: &TopicKey, partition: i32) {
        let Some(&topic) = self.topic_of.get(topic) else {
            return;
        };
        let Some(index) = self.cell_of.remove(&(topic, partition)) else {
            return;
        };
        let cell = &mut self.cells[index as usize];
        assert!(!cell.is_vacant);
        cell.is_vacant = true;
        if std::mem::take(&mut cell.is_ready) {
            self.ready.remove(&cell.order);
        }
        self.free_cells.push(index);
        self.cost -= 1;
        let slot = &mut self.topics[topic as usize];
        slot.count -= 1;
        if slot.count == 0 {
            self.cost -= slot.key.cost();
            self.topic_of.remove(&slot.key);
            self.free_topics.push(topic);
        }
    }

    fn topic(&mut self, key: &TopicKey) -> u32 {
        if let Some(&topic) = self.topic_of.get(key) {
            return topic;
        }
        let topic = Topic {
            key: key.clone(),
            count: 0,
        };
        self.cost += key.cost();
        let index = if let Some(free) = self.free_topics.pop() {
            self.topics[free as usize] = topic;
            free
        } else {
            self.topics.push(topic);
            u32::try_from(self.topics.len() - 1).expect("no more topics than partitions")
        };
        self.topic_of.insert(key.clone(), index);
        index
    }

    fn take_order(&mut self) -> u64 {
        self.next_order += 1;
        self.next_order
    }

    fn make_ready(&mut self, index: usize) {
        let cell = &mut self.cells[index];
        // Whatever the request under way has read of it is out of date.
        cell.has_fired = true;
        if !std::mem::replace(&mut cell.is_ready, true) {
            let index = u32::try_from(index).expect("cells are numbered by u32");
            self.ready.insert(cell.order, index);
        }
    }

    /// Visits every ready partition in the order of reading, and forgets that any fired.
    pub fn take_ready(&mut self, mut visit: impl FnMut(Ready<'_>)) {
        self.has_fired = false;
        for (&order, &index) in &self.ready {
            let cell = &mut self.cells[index as usize];
            visit(Ready {
                cell: index,
                order,
                has_fired: std::mem::take(&mut cell.has_fired),
                topic: &self.topics[cell.topic as usize].key,
                partition: cell.partition,
                position: cell.position,
            });
        }
    }

    /// Lets the request under way be woken by its number, unless something has fired already: then it must look again.
    pub fn wait(&mut self, waiter: u64) -> bool {
        if self.has_fired {
            return false;
        }
        self.waiter = Some(waiter);
        true
    }

    /// The request under way waits no longer. Another that came after it may.
    pub fn end_wait(&mut self, waiter: u64) {
        self.waiter = self.waiter.filter(|waiting| *waiting != waiter);
    }

    /// How many partitions it ever had at once.
    pub(super) fn cell_count(&self) -> u32 {
        u32::try_from(self.cells.len()).expect("cells are numbered by u32")
    }

    pub(super) fn waiter(&self) -> Option<u64> {
        self.waiter
    }

    /// A partition's interest fired: gives whom to wake.
    pub(super) fn fired(&mut self, cell: u32) -> Option<u64> {
        let index = usize::try_from(cell).ok()?;
        // A forgotten partition's interest is not withdrawn: it fires once, for nothing.
        if self.cells.get(index).is_none_or(|cell| cell.is_vacant) {
            return None;
        }
        self.make_ready(index);
        self.has_fired = true;
        self.waiter.take()
    }

    /// Takes note of what a read found; returns whether the client must be told.
    ///
    /// # Panics
    /// When `cell` is not a partition of the session: between a request's beginning and its reply, none goes.
    pub fn tell(&mut self, cell: u32, told: &Told) -> bool {
        let index = cell as usize;
        let cell = &mut self.cells[index];
        assert!(!cell.is_vacant);
        let mut must = told.size_bytes > 0 || told.is_error || told.has_diverged;
        must |= cell.high_watermark != told.high_watermark || cell.log_start != told.log_start;
        cell.log_start = told.log_start;
        // So that the partition is told once more when the error is gone.
        cell.high_watermark = if told.is_error {
            Offset::NONE
        } else {
            told.high_watermark
        };
        if told.is_armed && !told.is_error && !cell.has_fired {
            if std::mem::take(&mut cell.is_ready) {
                self.ready.remove(&cell.order);
            }
        } else if told.size_bytes > 0 {
            self.move_to_end(index);
        }
        must
    }

    fn move_to_end(&mut self, index: usize) {
        let order = self.take_order();
        let cell = &mut self.cells[index];
        let before = std::mem::replace(&mut cell.order, order);
        if cell.is_ready
            && let Some(cell) = self.ready.remove(&before)
        {
            self.ready.insert(order, cell);
        }
    }
}
