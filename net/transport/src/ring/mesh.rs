//! The cross-core mesh: one bounded queue per ordered pair of shards, one wake-up per receiver and turn.
//!
//! 1. Messages of one pair arrive in the order sent.
//! 2. No lost wake-up: a sender publishes, then looks whether the receiver waits; a receiver says that it waits, then
//!    looks once more. Both sides are sequentially consistent, so one of them sees the other.
//! 3. Only the first message to a waiting receiver rings its shard's bell.
//! 4. The receiver takes what a queue holds in one go, so a lock is held for a push or a swap, never for work.
//! 5. A receiver that always finds messages still lets the shard look at everything else.
//! 6. Memory follows use: an idle pair costs one empty queue, not its capacity.
//!
//! Not here: credits (`limits::MESH_CREDITS`) and who answers whom; the broker keeps count so that a queue cannot be
//! full.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use pelton_model::ShardId;

use crate::net::{Mesh, MeshRefused};

/// Messages received without a pause before the rest of the shard gets its turn.
const RECV_RUN_MAX: u32 = 256;

/// One pair's queue, on cache lines of its own: two senders never share one.
#[repr(align(128))]
struct Queue<M> {
    /// The length, readable without the lock; written under it.
    len: AtomicUsize,
    messages: Mutex<VecDeque<M>>,
}

/// What others see of one receiver.
#[repr(align(128))]
struct Inbox<M> {
    /// The receiver waits and wants to be woken.
    waiting: AtomicBool,
    closed: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// By sender; the entry of the receiver itself carries what it sends to itself.
    queues: Box<[Queue<M>]>,
}

/// What the receiver has taken and not yet handed out.
struct Taken<M> {
    from: usize,
    messages: VecDeque<M>,
}

struct End<M> {
    shard: ShardId,
    capacity: usize,
    inboxes: Arc<[Inbox<M>]>,
    taken: RefCell<Taken<M>>,
    run: Cell<u32>,
}

/// One shard's end of the mesh; clones are the same end.
pub struct RingMesh<M>(Rc<End<M>>);

/// An end on its way to its shard's thread.
pub(crate) struct MeshSeed<M> {
    shard: ShardId,
    capacity: usize,
    inboxes: Arc<[Inbox<M>]>,
}

/// Makes the ends of a mesh of `shard_count` shards, each queue holding up to `capacity` messages.
pub(crate) fn mesh<M: Send>(shard_count: u16, capacity: usize) -> Vec<MeshSeed<M>> {
    assert!(capacity > 0);
    let inbox = |_| Inbox {
        waiting: AtomicBool::new(false),
        closed: AtomicBool::new(false),
        waker: Mutex::new(None),
        queues: (0..shard_count).map(|_| Queue::new()).collect(),
    };
    let inboxes: Arc<[Inbox<M>]> = (0..shard_count).map(inbox).collect();
    let seed = |shard| MeshSeed {
        shard: ShardId(shard),
        capacity,
        inboxes: Arc::clone(&inboxes),
    };
    (0..shard_count).map(seed).collect()
}

impl<M> MeshSeed<M> {
    pub(crate) fn shard(&self) -> ShardId {
        self.shard
    }

    /// Makes the end of the shard on whose thread it is.
    pub(crate) fn into_mesh(self) -> RingMesh<M> {
        RingMesh(Rc::new(End {
            shard: self.shard,
            capacity: self.capacity,
            inboxes: self.inboxes,
            taken: RefCell::new(Taken {
                from: 0,
                messages: VecDeque::new(),
            }),
            run: Cell::new(0),
        }))
    }
}

impl<M> Queue<M> {
    fn new() -> Self {
        Self {
            len: AtomicUsize::new(0),
            messages: Mutex::new(VecDeque::new()),
        }
    }

    fn push(&self, message: M, capacity: usize) -> Result<(), M> {
        let mut messages = lock(&self.messages);
        if messages.len() >= capacity {
            return Err(message);
        }
        messages.push_back(message);
        self.len.store(messages.len(), Ordering::Release);
        Ok(())
    }

    /// Swaps what has arrived with `empty`.
    fn take(&self, empty: &mut VecDeque<M>) {
        assert!(empty.is_empty());
        if self.len.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut messages = lock(&self.messages);
        std::mem::swap(&mut *messages, empty);
        self.len.store(0, Ordering::Release);
    }
}

impl<M> Inbox<M> {
    fn wake(&self) {
        // Pairs with the fence in `poll_recv`: the push before it, or the wait, is seen by the other side.
        fence(Ordering::SeqCst);
        if !self.waiting.load(Ordering::Relaxed) || !self.waiting.swap(false, Ordering::AcqRel) {
            return;
        }
        let waker = lock(&self.waker).clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn wait(&self, context: &Context<'_>) {
        let mut waker = lock(&self.waker);
        match waker.as_ref() {
            Some(known) if known.will_wake(context.waker()) => {}
            Some(_) | None => *waker = Some(context.waker().clone()),
        }
        drop(waker);
        self.waiting.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

impl<M> End<M> {
    fn inbox(&self) -> &Inbox<M> {
        &self.inboxes[usize::from(self.shard.0)]
    }

    /// The next message that has arrived, taking the senders' queues in turn.
    fn next(&self) -> Option<(ShardId, M)> {
        let mut taken = self.taken.borrow_mut();
        let taken = &mut *taken;
        if taken.messages.is_empty() {
            let queues = &self.inbox().queues;
            for step in 1..=queues.len() {
                let from = (taken.from + step) % queues.len();
                queues[from].take(&mut taken.messages);
                if !taken.messages.is_empty() {
                    taken.from = from;
                    break;
                }
            }
        }
        let message = taken.messages.pop_front()?;
        let from = u16::try_from(taken.from).expect("there are at most 2^16 shards");
        Some((ShardId(from), message))
    }

    fn poll_recv(&self, context: &Context<'_>) -> Poll<Option<(ShardId, M)>> {
        let inbox = self.inbox();
        if inbox.closed.load(Ordering::Relaxed) {
            return Poll::Ready(None);
        }
        if let Some(message) = self.next() {
            self.run.set(self.run.get() + 1);
            return Poll::Ready(Some(message));
        }
        self.run.set(0);
        inbox.wait(context);
        let message = self.next();
        if message.is_none() {
            return Poll::Pending;
        }
        inbox.waiting.store(false, Ordering::Relaxed);
        Poll::Ready(message)
    }
}

impl<M: Send + 'static> Mesh<M> for RingMesh<M> {
    fn shard(&self) -> ShardId {
        self.0.shard
    }

    fn shard_count(&self) -> u16 {
        u16::try_from(self.0.inboxes.len()).expect("made from a u16")
    }

    fn send(&self, to: ShardId, message: M) -> Result<(), MeshRefused<M>> {
        let inbox = &self.0.inboxes[usize::from(to.0)];
        if inbox.closed.load(Ordering::Acquire) {
            return Err(MeshRefused(message));
        }
        let queue = &inbox.queues[usize::from(self.0.shard.0)];
        queue.push(message, self.0.capacity).map_err(MeshRefused)?;
        inbox.wake();
        Ok(())
    }

    async fn recv(&self) -> Option<(ShardId, M)> {
        if self.0.run.get() >= RECV_RUN_MAX {
            self.0.run.set(0);
            futures_lite::future::yield_now().await;
        }
        poll_fn(|context| self.0.poll_recv(context)).await
    }

    fn close(&self) {
        let inbox = self.0.inbox();
        inbox.closed.store(true, Ordering::Release);
        // What nobody will receive is dropped here, on the thread that would have received it.
        self.0.taken.borrow_mut().messages.clear();
        for queue in &inbox.queues {
            let mut left = VecDeque::new();
            queue.take(&mut left);
        }
        inbox.wake();
    }
}

impl<M> Clone for RingMesh<M> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<M> fmt::Debug for RingMesh<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingMesh")
            .field("shard", &self.0.shard)
            .field("shard_count", &self.0.inboxes.len())
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds one of these locks; a poisoned one still holds a whole queue.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
