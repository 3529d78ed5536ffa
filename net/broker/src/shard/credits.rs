//! Credits towards one peer shard: how many requests may be unanswered there at once.
//!
//! Invariants:
//! 1. `free + lent = MESH_CREDITS` at all times; a credit is lent before its request is posted and comes back with the answer.
//! 2. Waiters get credits in the order in which they asked, so no connection starves.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use pelton_model::limits::MESH_CREDITS;
use pelton_model::task::{OnceSender, oneshot};

/// See the module.
pub(crate) struct Credits {
    free: Cell<usize>,
    /// Each is handed its credit: however often its task is woken meanwhile, it stands in line once.
    waiters: RefCell<VecDeque<OnceSender<()>>>,
}

impl Credits {
    pub(crate) fn new() -> Self {
        Self {
            free: Cell::new(MESH_CREDITS),
            waiters: RefCell::default(),
        }
    }

    /// Takes a credit, waiting until one is free.
    ///
    /// # Cancel safety
    /// None: a dropped wait keeps the credit that it is given.
    pub(crate) async fn take(&self) {
        let free = self.free.get();
        if free > 0 {
            self.free.set(free - 1);
            return;
        }
        let (sender, receiver) = oneshot();
        self.waiters.borrow_mut().push_back(sender);
        receiver
            .await
            .expect("a queued sender is only taken to be sent");
    }

    /// Gives a credit back: to whoever has waited longest, if anyone does.
    pub(crate) fn give(&self) {
        let next = self.waiters.borrow_mut().pop_front();
        if let Some(waiter) = next {
            waiter.send(());
            return;
        }
        self.free.set(self.free.get() + 1);
        assert!(self.free.get() <= MESH_CREDITS, "a credit came back twice");
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    // Goal: a waiter that is polled for other reasons takes no one else's wake-up, and the order is kept. Method: all
    // credits lent, one wait polled often, one behind it; then two credits come back.
    #[test]
    fn each_waiter_stands_in_line_once() {
        let credits = Credits::new();
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..MESH_CREDITS {
            assert!(pin!(credits.take()).poll(&mut context).is_ready());
        }
        let mut first = pin!(credits.take());
        for _ in 0..3 {
            assert!(first.as_mut().poll(&mut context).is_pending());
        }
        let mut second = pin!(credits.take());
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert_eq!(credits.waiters.borrow().len(), 2);
        credits.give();
        assert!(
            pin!(credits.take()).poll(&mut context).is_pending(),
            "it was handed on"
        );
        assert_eq!(first.as_mut().poll(&mut context), Poll::Ready(()));
        credits.give();
        assert_eq!(second.as_mut().poll(&mut context), Poll::Ready(()));
    }
}
