//! The memory of one shard for requests and answers: who may hold how much, first come, first served.
//!
//! Several pools, so that nobody waits for memory while holding what others wait for. Those of a frame stand in the order in
//! which it grows (*first*, *growth*, *remainder*), and who holds one waits only for later ones: for the last nobody but
//! the peer. A request that is under way (*running*, *requests*) waits for the disk alone, an answer (*answers*) for its
//! reader. Room for larger reads is a convenience (*room*): it is given while there is some, and nobody waits for it.
//!
//! Invariants:
//! 1. Granted bytes of a pool never exceed its size; answers alone may, by what was being made when the pool ran full, and
//!    then nobody begins another.
//! 2. Grants of a pool are made in the order of the requests: a large one at the head holds smaller ones back, so that
//!    it cannot starve.
//! 3. The pools fit at least one maximal frame, and its request.
//!
//! Not here: time. A holder whose bytes do not come is found by [`super::FrameReader`]; the caller then
//! releases and closes.

use std::collections::VecDeque;

use pelton_model::limits::{FRAME_FREE_BYTES_MAX, FRAME_GROW_BYTES_MAX, RECV_BYTES_MIN};

/// Who reserves: a number that the caller gives each connection, unique in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(pub u64);

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// What a frame has below [`FRAME_FREE_BYTES_MAX`] and beyond what its connection reads at once.
    First,
    /// What lies below [`FRAME_GROW_BYTES_MAX`].
    Growth,
    /// What lies beyond.
    Remainder,
    /// Bytes of a Produce request under way that its frame has not reserved.
    Running,
    /// Produce requests under way, counted.
    Requests,
    /// Answers that are being made or sent.
    Answers,
    /// Room for reads beyond the smallest.
    Room,
}

const POOLS: usize = 7;
/// The pools of a frame and its request, which are released together.
const OF_REQUEST: [Pool; 5] = [
    Pool::First,
    Pool::Growth,
    Pool::Remainder,
    Pool::Running,
    Pool::Requests,
];

/// The answer to a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The bytes are reserved.
    Granted,
    /// They will be: a later [`MemoryBudget::release`] or [`MemoryBudget::cancel`] names the holder. Stop receiving.
    Queued,
}

#[derive(Debug, Default)]
struct Queue {
    size: usize,
    used: usize,
    waiting: VecDeque<(HolderId, usize)>,
}

/// How the memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetSizes {
    /// All of it.
    pub budget_bytes: usize,
    /// The largest frame.
    pub frame_bytes_max: usize,
    /// Shards that share it. Remainders of the whole process are one pool, because a share might be less than one frame.
    pub shards: usize,
    /// Whether this shard keeps the process's remainders; the others ask it.
    pub keeps_remainders: bool,
    /// Produce requests of the shard.
    pub requests_max: usize,
}

/// The request memory of one shard.
#[derive(Debug)]
pub struct MemoryBudget {
    queues: [Queue; POOLS],
}

impl MemoryBudget {
    /// Divides the memory: a quarter (at least one frame) for the remainders of the process; of the rest each shard has its
    /// share, half of it for answers and requests under way, half for frames that arrive.
    #[must_use]
    pub fn new(sizes: BudgetSizes) -> Self {
        let of_frame = sizes.frame_bytes_max.saturating_sub(FRAME_GROW_BYTES_MAX);
        let remainder = (sizes.budget_bytes / 4).max(of_frame);
        let share = sizes.budget_bytes.saturating_sub(remainder) / sizes.shards.max(1);
        let part = |eighths: usize, least: usize| (share / 8 * eighths).max(least);
        let mut budget = Self {
            queues: std::array::from_fn(|_| Queue::default()),
        };
        let sizes = [
            (Pool::First, part(1, 2 * FRAME_FREE_BYTES_MAX)),
            (Pool::Growth, part(2, FRAME_GROW_BYTES_MAX)),
            (
                Pool::Remainder,
                if sizes.keeps_remainders { remainder } else { 0 },
            ),
            (Pool::Running, part(2, FRAME_GROW_BYTES_MAX)),
            (Pool::Requests, sizes.requests_max.max(1)),
            (Pool::Answers, part(2, FRAME_GROW_BYTES_MAX)),
            (Pool::Room, part(1, RECV_BYTES_MIN)),
        ];
        for (pool, size) in sizes {
            budget.queue_mut(pool).size = size;
        }
        budget
    }

    /// Asks for `bytes`. A holder waits for one reservation at a time.
    ///
    /// # Panics
    /// When `bytes` exceeds the pool: the frame limit rules that out.
    pub fn reserve(&mut self, holder: HolderId, pool: Pool, bytes: usize) -> Admission {
        if self.try_reserve(pool, bytes) {
            return Admission::Granted;
        }
        let queue = self.queue_mut(pool);
        assert!(bytes <= queue.size);
        queue.waiting.push_back((holder, bytes));
        Admission::Queued
    }

    /// Takes `bytes` if they are there and nobody waits for them.
    pub fn try_reserve(&mut self, pool: Pool, bytes: usize) -> bool {
        let queue = self.queue_mut(pool);
        let is_there = queue.waiting.is_empty() && bytes <= queue.free();
        if is_there {
            queue.used += bytes;
        }
        is_there
    }

    /// Counts an answer that is there already.
    pub fn charge_answer(&mut self, bytes: usize) {
        self.queue_mut(Pool::Answers).used += bytes;
    }

    /// Gives reserved bytes back and appends to `granted` the holders that have their reservation now, with its size.
    ///
    /// # Panics
    /// When more is given back than is reserved.
    pub fn release(&mut self, reserved: Reserved, granted: &mut Vec<Grant>) {
        for (pool, bytes) in OF_REQUEST.into_iter().zip(reserved.0) {
            self.release_from(pool, bytes, granted);
        }
    }

    /// As [`MemoryBudget::release`], for bytes of one pool.
    ///
    /// # Panics
    /// When more is given back than is reserved.
    pub fn release_from(&mut self, pool: Pool, bytes: usize, granted: &mut Vec<Grant>) {
        if bytes == 0 {
            return;
        }
        let queue = self.queue_mut(pool);
        assert!(bytes <= queue.used);
        queue.used -= bytes;
        queue.grant(pool, granted);
    }

    /// Withdraws what `holder` waits for (it does not touch what it holds): its connection is gone. O(waiting).
    pub fn cancel(&mut self, holder: HolderId, granted: &mut Vec<Grant>) {
        for pool in OF_REQUEST.into_iter().chain([Pool::Answers]) {
            let queue = self.queue_mut(pool);
            let before = queue.waiting.len();
            queue.waiting.retain(|&(waiting, _)| waiting != holder);
            if queue.waiting.len() < before {
                queue.grant(pool, granted);
            }
        }
    }

    /// The size of a pool.
    #[must_use]
    pub fn size(&self, pool: Pool) -> usize {
        self.queue(pool).size
    }

    /// Bytes reserved at present.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        let counted = self.queue(Pool::Requests).used;
        self.queues.iter().map(|queue| queue.used).sum::<usize>() - counted
    }

    /// Holders that wait.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.queues.iter().map(|queue| queue.waiting.len()).sum()
    }

    /// Whether there is nothing left of this kind.
    #[must_use]
    pub fn is_full(&self, pool: Pool) -> bool {
        let queue = self.queue(pool);
        queue.free() == 0 || !queue.waiting.is_empty()
    }

    /// Whether somebody waits for memory of this kind.
    #[must_use]
    pub fn is_wanted(&self, pool: Pool) -> bool {
        !self.queue(pool).waiting.is_empty()
    }

    fn queue(&self, pool: Pool) -> &Queue {
        &self.queues[pool as usize]
    }

    fn queue_mut(&mut self, pool: Pool) -> &mut Queue {
        &mut self.queues[pool as usize]
    }
}

/// A reservation that has been waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Whose.
    pub holder: HolderId,
    /// Of which pool.
    pub pool: Pool,
    /// How much.
    pub bytes: usize,
}

impl Queue {
    fn free(&self) -> usize {
        self.size.saturating_sub(self.used)
    }

    fn grant(&mut self, pool: Pool, granted: &mut Vec<Grant>) {
        while let Some(&(holder, bytes)) = self.waiting.front() {
            if self.free() < bytes {
                break;
            }
            self.waiting.pop_front();
            self.used += bytes;
            granted.push(Grant {
                holder,
                pool,
                bytes,
            });
        }
    }
}

/// What one frame and its request have reserved. Give it to [`MemoryBudget::release`] when the request is answered or dropped.
#[must_use = "reserved memory must be released"]
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reserved([usize; OF_REQUEST.len()]);

impl Reserved {
    /// Counts in what was granted.
    ///
    /// # Panics
    /// For answers and room, which are no part of a request.
    pub fn add(&mut self, pool: Pool, bytes: usize) {
        self.0[pool as usize] += bytes;
    }

    /// What is reserved of one pool.
    #[must_use]
    pub fn of(&self, pool: Pool) -> usize {
        self.0.get(pool as usize).copied().unwrap_or(0)
    }

    /// Takes what is reserved of one pool out of this.
    pub fn take(&mut self, pool: Pool) -> usize {
        self.0.get_mut(pool as usize).map_or(0, std::mem::take)
    }

    /// Bytes that the frame has reserved.
    #[must_use]
    pub fn frame_bytes(&self) -> usize {
        self.of(Pool::First) + self.of(Pool::Growth) + self.of(Pool::Remainder)
    }

    /// Whether there is nothing to release, as for every small frame.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; OF_REQUEST.len()]
    }
}

const _: () = assert!(Pool::Room as usize + 1 == POOLS);
const _: () = assert!(Pool::Requests as usize + 1 == OF_REQUEST.len());
