//! Calls to coordinators that are not answered yet: who is told, and when.
//!
//! Invariants:
//! 1. The replies of one message are told together, in the order of its calls, once.
//! 2. A shard that asked is told by the response to its request when the replies come at once, else by a message of its own: the request
//!    is answered as accepted where it may wait long.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pelton_model::ShardId;
use pelton_model::task::OnceSender;

use super::Reply;
use crate::env::Env;
use crate::shard::Shard;
use crate::shard::message::{CallId, Message, Response, WatchId};

/// The replies to the calls of one message, in order.
pub(crate) type Replies = Vec<Reply>;

/// Who is told.
pub(crate) enum Recipient {
    /// A connection of this shard that waits.
    Here(WatchId),
    /// A task of this shard.
    Task(OnceSender<Replies>),
    /// Another shard, by the response to its request.
    Response(ShardId, CallId),
    /// Another shard whose request is answered already: a wait there.
    Message(ShardId, WatchId),
}

/// The calls of one message.
pub(crate) struct Pending {
    replies: RefCell<Vec<Option<Reply>>>,
    open: Cell<usize>,
    /// Whether the recipient is to be told; before, the replies are taken by whoever submits the calls.
    is_parked: Cell<bool>,
    recipient: Cell<Option<Recipient>>,
}

/// One call's place among them.
pub(crate) struct Place {
    pub(super) pending: Rc<Pending>,
    pub(super) index: usize,
}

impl Pending {
    pub(super) fn new(count: usize, recipient: Recipient) -> Rc<Self> {
        Rc::new(Self {
            replies: RefCell::new((0..count).map(|_| None).collect()),
            open: Cell::new(count),
            is_parked: Cell::new(false),
            recipient: Cell::new(Some(recipient)),
        })
    }

    /// The replies if all are there; else the recipient is told when they are.
    pub(super) fn take_or_park(&self) -> Option<Replies> {
        if self.open.get() == 0 {
            return Some(self.take());
        }
        self.is_parked.set(true);
        None
    }

    fn take(&self) -> Replies {
        let replies = std::mem::take(&mut *self.replies.borrow_mut());
        let filled = replies.into_iter();
        filled
            .map(|reply| reply.expect("every place is filled"))
            .collect()
    }
}

impl<E: Env> Shard<E> {
    /// Fills a place; the last one tells the recipient.
    pub(super) fn fill(&self, place: Place, reply: Reply) {
        let Place { pending, index } = place;
        {
            let mut replies = pending.replies.borrow_mut();
            assert!(replies[index].is_none(), "a call is answered once");
            replies[index] = Some(reply);
        }
        pending.open.set(pending.open.get() - 1);
        if pending.open.get() > 0 || !pending.is_parked.get() {
            return;
        }
        let replies = pending.take();
        let recipient = pending.recipient.take();
        match recipient.expect("the last place is filled once") {
            Recipient::Task(sender) => sender.send(replies),
            Recipient::Here(wait) => self.on_coordinator_replies(wait, replies),
            Recipient::Response(peer, id) => {
                let response = Response::Coordinators(replies);
                self.calls.post(peer, Message::Response { id, response });
            }
            Recipient::Message(peer, wait) => {
                self.calls
                    .post(peer, Message::CoordinatorReplies(wait, replies));
            }
        }
    }
}
