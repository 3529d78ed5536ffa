//! The mesh in memory: one queue for each pair of shards, in order, with delays, and small if the run says so.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use pelton_broker::shard::message::Message;
use pelton_model::ShardId;
use pelton_transport::net::{Mesh, MeshRefused};

use super::world::World;

struct Inbox {
    /// One for each sender: when it arrives, and what.
    queues: Vec<VecDeque<(u64, Message)>>,
    last_arrival: Vec<u64>,
    is_closed: bool,
    receiver: Option<Waker>,
}

/// How messages between shards travel.
#[derive(Clone, Copy, Debug)]
pub struct MeshQuality {
    /// Messages that one pair's queue holds.
    pub capacity: usize,
    /// Longest delay, nanoseconds.
    pub delay_max: u64,
}

/// One shard's end.
#[derive(Clone)]
pub struct SimMesh {
    world: World,
    shard: ShardId,
    inboxes: Rc<Vec<RefCell<Inbox>>>,
    quality: MeshQuality,
}

/// The ends of a mesh of `shard_count` shards.
#[must_use]
pub fn mesh(world: &World, shard_count: u16, quality: MeshQuality) -> Vec<SimMesh> {
    let count = usize::from(shard_count);
    let inbox = || {
        RefCell::new(Inbox {
            queues: (0..count).map(|_| VecDeque::new()).collect(),
            last_arrival: vec![0; count],
            is_closed: false,
            receiver: None,
        })
    };
    let inboxes = Rc::new((0..count).map(|_| inbox()).collect::<Vec<_>>());
    let end = |shard| SimMesh {
        world: world.clone(),
        shard: ShardId(shard),
        inboxes: Rc::clone(&inboxes),
        quality,
    };
    (0..shard_count).map(end).collect()
}

impl SimMesh {
    fn take(&self) -> Option<(ShardId, Message)> {
        let mut inbox = self.inboxes[usize::from(self.shard.0)].borrow_mut();
        let now = self.world.now();
        let has_arrived =
            |queue: &VecDeque<(u64, Message)>| queue.front().is_some_and(|(at, _)| *at <= now);
        let arrived: Vec<usize> =
            (0..inbox.queues.len()).filter(|&peer| has_arrived(&inbox.queues[peer])).collect();
        if arrived.is_empty() {
            return None;
        }
        let peer = arrived[self.world.draw(|random| random.index(arrived.len()))];
        let (_, message) = inbox.queues[peer].pop_front()?;
        Some((ShardId(u16::try_from(peer).unwrap()), message))
    }
}

impl Mesh<Message> for SimMesh {
    fn shard(&self) -> ShardId {
        self.shard
    }

    fn shard_count(&self) -> u16 {
        u16::try_from(self.inboxes.len()).unwrap()
    }

    fn send(&self, to: ShardId, message: Message) -> Result<(), MeshRefused<Message>> {
        let from = usize::from(self.shard.0);
        let mut inbox = self.inboxes[usize::from(to.0)].borrow_mut();
        if inbox.is_closed || self.quality.capacity <= inbox.queues[from].len() {
            return Err(MeshRefused(message));
        }
        let delay = self.world.draw(|random| {
            if random.percent(50) {
                random.magnitude(self.quality.delay_max)
            } else {
                random.between(0, self.quality.delay_max)
            }
        });
        let arrival = inbox.last_arrival[from].max(self.world.now() + delay);
        inbox.last_arrival[from] = arrival;
        inbox.queues[from].push_back((arrival, message));
        drop(inbox);
        let inboxes = Rc::clone(&self.inboxes);
        self.world.call_at(arrival, move || {
            if let Some(waker) = inboxes[usize::from(to.0)].borrow_mut().receiver.take() {
                waker.wake();
            }
        });
        Ok(())
    }

    async fn recv(&self) -> Option<(ShardId, Message)> {
        poll_fn(|context| {
            if let Some(received) = self.take() {
                return Poll::Ready(Some(received));
            }
            let mut inbox = self.inboxes[usize::from(self.shard.0)].borrow_mut();
            if inbox.is_closed {
                return Poll::Ready(None);
            }
            inbox.receiver = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn close(&self) {
        let mut inbox = self.inboxes[usize::from(self.shard.0)].borrow_mut();
        inbox.is_closed = true;
        if let Some(waker) = inbox.receiver.take() {
            waker.wake();
        }
    }
}
