//! The recent past of a log in memory: positions of its last batches, and the bytes of small ones.
//!
//! Invariants:
//! 1. A log's list is consecutive and ends at the log end; it belongs to the active segment alone.
//! 2. A shard keeps at most [`TAIL_BYTES_MAX`] bytes over all its logs; the oldest go first, whosever they are.
//! 3. Bytes are copies, packed into chunks: they never pin a receive buffer.
//!
//! Small batches are copied because they come by the thousand and each read of one would cost a system call; large ones
//! are read back from the page cache.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use pelton_model::Offset;

use crate::config::{TAIL_BATCH_BYTES_MAX, TAIL_BATCHES_MAX, TAIL_BYTES_MAX};

/// Small batches are packed into allocations of this size.
const CHUNK_BYTES: usize = 64 * 1024;

const _: () = assert!(TAIL_BATCH_BYTES_MAX <= CHUNK_BYTES);

/// The bytes of small recent batches of one shard, oldest first.
#[derive(Debug, Default)]
pub(crate) struct TailBytes {
    batches: RefCell<VecDeque<Bytes>>,
    chunk: RefCell<BytesMut>,
    /// The number of the oldest batch held; numbers only grow.
    first: Cell<u64>,
    size: Cell<usize>,
}

impl TailBytes {
    /// Copies a small batch; returns its number.
    fn push(&self, batch: &[u8]) -> u64 {
        let mut chunk = self.chunk.borrow_mut();
        if chunk.capacity() < batch.len() {
            *chunk = BytesMut::with_capacity(CHUNK_BYTES);
        }
        chunk.extend_from_slice(batch);
        let bytes = chunk.split().freeze();
        let mut batches = self.batches.borrow_mut();
        let number = self.first.get() + batches.len() as u64;
        self.size.set(self.size.get() + bytes.len());
        batches.push_back(bytes);
        while self.size.get() > TAIL_BYTES_MAX {
            let oldest = batches
                .pop_front()
                .expect("the size is that of the batches");
            self.size.set(self.size.get() - oldest.len());
            self.first.set(self.first.get() + 1);
        }
        number
    }

    fn get(&self, number: u64) -> Option<Bytes> {
        let index = number.checked_sub(self.first.get())?;
        let index = usize::try_from(index).ok()?;
        self.batches.borrow().get(index).cloned()
    }
}

/// A recent batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TailBatch {
    pub(crate) base_offset: Offset,
    pub(crate) last_offset: Offset,
    pub(crate) position: u64,
    pub(crate) size: u32,
    number: Option<u32>,
}

impl TailBatch {
    pub(crate) fn end(&self) -> u64 {
        self.position + u64::from(self.size)
    }
}

/// The last batches of one log.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    shared: Rc<TailBytes>,
    batches: VecDeque<TailBatch>,
    /// Numbers in the entries are relative to this, to keep them short.
    number_base: u64,
}

impl Tail {
    pub(crate) fn new(shared: &Rc<TailBytes>) -> Self {
        Self {
            shared: Rc::clone(shared),
            batches: VecDeque::new(),
            number_base: 0,
        }
    }

    /// Forgets everything: the active segment changes.
    pub(crate) fn clear(&mut self) {
        self.batches.clear();
    }

    /// Forgets everything and gives the memory back: the log rests.
    pub(crate) fn free(&mut self) {
        self.batches = VecDeque::new();
    }

    /// Adds the batch that now ends the log.
    pub(crate) fn push(
        &mut self,
        base_offset: Offset,
        last_offset: Offset,
        position: u64,
        batch: &[u8],
    ) {
        debug_assert!(
            self.batches
                .back()
                .is_none_or(|last| last.end() == position)
        );
        let number = (batch.len() < TAIL_BATCH_BYTES_MAX).then(|| self.shared.push(batch));
        let number = self.shorten(number);
        let size = u32::try_from(batch.len()).expect("a batch fits a segment");
        if self.batches.len() == TAIL_BATCHES_MAX {
            self.batches.pop_front();
        }
        self.batches.push_back(TailBatch {
            base_offset,
            last_offset,
            position,
            size,
            number,
        });
    }

    fn shorten(&mut self, number: Option<u64>) -> Option<u32> {
        let number = number?;
        if let Ok(short) = u32::try_from(number - self.number_base) {
            return Some(short);
        }
        // After four billion small batches of the shard: the old entries' bytes are long gone.
        for batch in &mut self.batches {
            batch.number = None;
        }
        self.number_base = number;
        Some(0)
    }

    /// The consecutive batches from the one that contains `from` to the end; `None` when the list begins later.
    pub(crate) fn from(&self, from: Offset) -> Option<impl Iterator<Item = &TailBatch>> {
        if self
            .batches
            .front()
            .is_none_or(|first| from < first.base_offset)
        {
            return None;
        }
        let start = self
            .batches
            .partition_point(|batch| batch.last_offset < from);
        Some(self.batches.range(start..))
    }

    /// The bytes of a batch, if they are still held.
    pub(crate) fn bytes(&self, batch: &TailBatch) -> Option<Bytes> {
        self.shared.get(self.number_base + u64::from(batch.number?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: the shard's memory is bounded, the newest batches stay. Method: push far more than fits.
    #[test]
    fn bounded() {
        let shared = Rc::new(TailBytes::default());
        let mut logs = [Tail::new(&shared), Tail::new(&shared)];
        let batch = vec![7; 3000];
        for index in 0..10_000_i64 {
            let log = &mut logs[usize::from(index % 3 == 0)];
            let position = log.batches.back().map_or(0, TailBatch::end);
            log.push(Offset(index), Offset(index), position, &batch);
            assert!(shared.size.get() <= TAIL_BYTES_MAX);
        }
        let newest = logs[1].from(Offset(9999)).expect("covered").next().copied();
        let newest = newest.expect("one batch");
        assert_eq!(logs[1].bytes(&newest).expect("held").len(), 3000);
        assert!(logs[0].from(Offset(0)).is_none());
        assert_eq!(logs[0].batches.len(), TAIL_BATCHES_MAX);
    }

    // Goal: large batches are remembered by position only. Method: one small, one large.
    #[test]
    fn large_batches_are_not_copied() {
        let mut tail = Tail::new(&Rc::default());
        tail.push(Offset(0), Offset(4), 0, &[1; 100]);
        tail.push(Offset(5), Offset(9), 100, &[2; TAIL_BATCH_BYTES_MAX]);
        let found: Vec<_> = tail
            .from(Offset(3))
            .expect("covered")
            .map(|batch| (batch.position, tail.bytes(batch).map(|bytes| bytes.len())))
            .collect();
        assert_eq!(found, [(0, Some(100)), (100, None)]);
    }
}
