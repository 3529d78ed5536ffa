//! Credits towards one peer shard: how many requests may be unanswered there at once.
//!
//! Invariants:
//! 1. `free + lent = MESH_CREDITS` at all times; a credit is lent before its request is posted and comes back with the answer.
//! 2. Waiters get credits in the order in which they asked, so no connection starves.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use pelton_model::limits::MESH_CREDITS;

/// See the module.
#[derive(Debug)]
pub(crate) struct Credits {
    free: Cell<usize>,
    waiters: RefCell<VecDeque<Waker>>,
}

impl Credits {
    pub(crate) fn new() -> Self {
        Self {
            free: Cell::new(MESH_CREDITS),
            waiters: RefCell::default(),
        }
    }

    /// Takes a credit, waiting until one is free.
    pub(crate) async fn take(&self) {
        let mut waited = false;
        poll_fn(|context| {
            let first_in_line = waited || self.waiters.borrow().is_empty();
            if first_in_line && self.free.get() > 0 {
                self.free.set(self.free.get() - 1);
                return Poll::Ready(());
            }
            waited = true;
            self.waiters.borrow_mut().push_back(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Gives a credit back.
    pub(crate) fn give(&self) {
        self.free.set(self.free.get() + 1);
        assert!(self.free.get() <= MESH_CREDITS, "a credit came back twice");
        let next = self.waiters.borrow_mut().pop_front();
        if let Some(waker) = next {
            waker.wake();
        }
    }
}
