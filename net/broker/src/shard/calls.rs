//! Calls to other shards: credits, unanswered calls, and messages that the mesh could not take at once.
//!
//! Invariants:
//! 1. Every call number in use belongs to one unanswered call; its answer frees the number and gives the credit back.
//! 2. Messages to one peer leave in the order in which they were posted, also when the mesh was full for a while.
//! 3. What waits here is bounded by credits (requests and answers) and by accepted watches (wake-ups).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use pelton_model::ShardId;
use pelton_model::task::{Notify, OnceReceiver, OnceSender, oneshot};
use pelton_transport::net::Mesh;

use super::append::AppendGroup;
use super::credits::Credits;
use super::message::{CallId, Message, Request, Response};

/// Who waits for an answer.
enum Waiting {
    /// A handler's future.
    Future(OnceSender<Response>),
    /// A Produce request, whose answer is put together when all its owners have spoken.
    Append(Rc<AppendGroup>),
}

/// One shard's calls to all its peers.
pub(crate) struct Calls<M> {
    mesh: M,
    credits: Vec<Credits>,
    /// Indexed by call number: the peer and who waits.
    waiting: RefCell<Vec<Option<(ShardId, Waiting)>>>,
    free: RefCell<Vec<CallId>>,
    refused: RefCell<Vec<VecDeque<Message>>>,
    /// Wakes the task that retries refused messages.
    pub(crate) retry: Notify,
}

impl<M: Mesh<Message>> Calls<M> {
    pub(crate) fn new(mesh: M) -> Self {
        let peers = usize::from(mesh.shard_count());
        Self {
            credits: (0..peers).map(|_| Credits::new()).collect(),
            refused: RefCell::new((0..peers).map(|_| VecDeque::new()).collect()),
            waiting: RefCell::default(),
            free: RefCell::default(),
            retry: Notify::default(),
            mesh,
        }
    }

    pub(crate) fn mesh(&self) -> &M {
        &self.mesh
    }

    /// Sends `message` to `peer` now, or as soon as the mesh takes it.
    pub(crate) fn post(&self, peer: ShardId, message: Message) {
        let mut refused = self.refused.borrow_mut();
        let queue = &mut refused[usize::from(peer.0)];
        if !queue.is_empty() {
            queue.push_back(message);
        } else if let Err(back) = self.mesh.send(peer, message) {
            queue.push_back(back.0);
            self.retry.notify();
        }
    }

    /// Calls that are not answered yet.
    pub(crate) fn open_count(&self) -> usize {
        self.waiting.borrow().len() - self.free.borrow().len()
    }

    /// Messages that the mesh has not taken yet.
    pub(crate) fn refused_count(&self) -> usize {
        self.refused.borrow().iter().map(VecDeque::len).sum()
    }

    /// Whether the mesh has taken everything posted.
    pub(crate) fn is_flushed(&self) -> bool {
        self.refused.borrow().iter().all(VecDeque::is_empty)
    }

    /// Tries again what the mesh refused; returns whether nothing is left.
    pub(crate) fn flush_refused(&self) -> bool {
        let mut refused = self.refused.borrow_mut();
        for (peer, queue) in (0_u16..).zip(refused.iter_mut()) {
            while let Some(message) = queue.pop_front() {
                if let Err(back) = self.mesh.send(ShardId(peer), message) {
                    queue.push_front(back.0);
                    break;
                }
            }
        }
        refused.iter().all(VecDeque::is_empty)
    }

    /// Asks `peer` and waits for its answer. [`Response::Stopping`] when the mesh ended first.
    pub(crate) async fn call(&self, peer: ShardId, request: Request) -> Response {
        self.start(peer, request)
            .await
            .await
            .unwrap_or(Response::Stopping)
    }

    /// Asks `peer` (waiting only for a credit); the answer comes through the receiver.
    pub(crate) async fn start(&self, peer: ShardId, request: Request) -> OnceReceiver<Response> {
        self.credits[usize::from(peer.0)].take().await;
        let (sender, receiver) = oneshot();
        let id = self.register(peer, Waiting::Future(sender));
        self.post(peer, Message::Request { id, request });
        receiver
    }

    /// Asks `peer` to append; the outcomes go to `group`.
    pub(crate) async fn start_append(
        &self,
        peer: ShardId,
        request: Request,
        group: Rc<AppendGroup>,
    ) {
        self.credits[usize::from(peer.0)].take().await;
        let id = self.register(peer, Waiting::Append(group));
        self.post(peer, Message::Request { id, request });
    }

    fn register(&self, peer: ShardId, waiting: Waiting) -> CallId {
        let mut slots = self.waiting.borrow_mut();
        if let Some(id) = self.free.borrow_mut().pop() {
            let slot = &mut slots[id as usize];
            assert!(slot.is_none(), "a free call number is in use");
            *slot = Some((peer, waiting));
            return id;
        }
        slots.push(Some((peer, waiting)));
        CallId::try_from(slots.len() - 1).expect("credits bound the calls far below 2^32")
    }

    /// Takes in an answer.
    pub(crate) fn answered(&self, id: CallId, response: Response) {
        let entry = self.waiting.borrow_mut()[id as usize].take();
        let (peer, waiting) = entry.expect("peers answer each call once");
        self.free.borrow_mut().push(id);
        self.credits[usize::from(peer.0)].give();
        match waiting {
            Waiting::Future(sender) => sender.send(response),
            Waiting::Append(group) => group.complete_remote(response),
        }
    }
}
