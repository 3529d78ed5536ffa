//! The request memory of one shard: who may receive the rest of a large frame, first come, first served.
//!
//! Two pools, so that nobody waits for memory while holding what others wait for: a frame up to
//! `FRAME_GROW_BYTES_MAX` takes from the *growth* pool, the rest of a larger one from the *remainder* pool, and whoever
//! holds the latter waits for nothing but its peer.
//!
//! Invariants:
//! 1. Granted bytes of a pool never exceed its size.
//! 2. Grants of a pool are made in the order of the requests: a large one at the head holds smaller ones back, so that
//!    it cannot starve.
//! 3. The remainder pool fits at least one maximal frame.
//!
//! Not here: time. A holder whose bytes do not come is found by [`super::FrameReader`]; the caller then
//! releases and closes.

use std::collections::VecDeque;

use pelton_model::limits::FRAME_GROW_BYTES_MAX;

/// Who reserves: a number that the caller gives each connection, unique on its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(pub u64);

/// Which part of a frame the memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// What lies below [`FRAME_GROW_BYTES_MAX`].
    Growth,
    /// What lies beyond.
    Remainder,
}

/// The answer to a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The bytes are reserved.
    Granted,
    /// They will be: a later [`MemoryBudget::release`] or [`MemoryBudget::cancel`] names the holder. Stop receiving.
    Queued,
}

#[derive(Debug)]
struct Queue {
    size_bytes: usize,
    used_bytes: usize,
    waiting: VecDeque<(HolderId, usize)>,
}

/// The request memory of one shard.
#[derive(Debug)]
pub struct MemoryBudget {
    growth: Queue,
    remainder: Queue,
}

impl MemoryBudget {
    /// Divides `budget_bytes`: a quarter for growth, the rest for remainders, each at least one frame of
    /// `frame_bytes_max`.
    #[must_use]
    pub fn new(budget_bytes: usize, frame_bytes_max: usize) -> Self {
        let growth = (budget_bytes / 4).max(FRAME_GROW_BYTES_MAX);
        let remainder = budget_bytes.saturating_sub(growth).max(frame_bytes_max);
        Self {
            growth: Queue::new(growth),
            remainder: Queue::new(remainder),
        }
    }

    /// Asks for `bytes`. A holder waits for one reservation at a time.
    ///
    /// # Panics
    /// When `bytes` exceeds the pool: the frame limit rules that out.
    pub fn reserve(&mut self, holder: HolderId, pool: Pool, bytes: usize) -> Admission {
        let queue = self.queue(pool);
        assert!(bytes <= queue.size_bytes);
        if queue.waiting.is_empty() && bytes <= queue.size_bytes - queue.used_bytes {
            queue.used_bytes += bytes;
            return Admission::Granted;
        }
        queue.waiting.push_back((holder, bytes));
        Admission::Queued
    }

    /// Gives reserved bytes back and appends to `granted` the holders that have their reservation now.
    ///
    /// # Panics
    /// When more is given back than is reserved.
    pub fn release(&mut self, reserved: Reserved, granted: &mut Vec<HolderId>) {
        for (pool, bytes) in [
            (Pool::Growth, reserved.growth_bytes),
            (Pool::Remainder, reserved.remainder_bytes),
        ] {
            let queue = self.queue(pool);
            assert!(bytes <= queue.used_bytes);
            queue.used_bytes -= bytes;
            if bytes > 0 {
                queue.grant(granted);
            }
        }
    }

    /// Withdraws what `holder` waits for (it does not touch what it holds): its connection is gone. O(waiting).
    pub fn cancel(&mut self, holder: HolderId, granted: &mut Vec<HolderId>) {
        for pool in [Pool::Growth, Pool::Remainder] {
            let queue = self.queue(pool);
            let before = queue.waiting.len();
            queue.waiting.retain(|&(waiting, _)| waiting != holder);
            if queue.waiting.len() < before {
                queue.grant(granted);
            }
        }
    }

    /// Bytes reserved at present.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.growth.used_bytes + self.remainder.used_bytes
    }

    /// Holders that wait.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.growth.waiting.len() + self.remainder.waiting.len()
    }

    fn queue(&mut self, pool: Pool) -> &mut Queue {
        match pool {
            Pool::Growth => &mut self.growth,
            Pool::Remainder => &mut self.remainder,
        }
    }
}

impl Queue {
    fn new(size_bytes: usize) -> Self {
        Self {
            size_bytes,
            used_bytes: 0,
            waiting: VecDeque::new(),
        }
    }

    fn grant(&mut self, granted: &mut Vec<HolderId>) {
        while let Some(&(holder, bytes)) = self.waiting.front() {
            if self.size_bytes - self.used_bytes < bytes {
                break;
            }
            self.waiting.pop_front();
            self.used_bytes += bytes;
            granted.push(holder);
        }
    }
}

/// What one frame has reserved. Give it to [`MemoryBudget::release`] when its request is answered or dropped.
#[must_use = "reserved memory must be released"]
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    /// From [`Pool::Growth`].
    pub growth_bytes: usize,
    /// From [`Pool::Remainder`].
    pub remainder_bytes: usize,
}

impl Reserved {
    /// Whether there is nothing to release, as for every small frame.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.growth_bytes == 0 && self.remainder_bytes == 0
    }
}
