//! Waiting of any number of tasks for a condition.
//!
//! 1. No lost wake-up: the condition is looked at before a waiter goes to sleep, on one thread.
//! 2. A dropped waiter leaves nothing behind.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::mem;
use std::task::{Poll, Waker};

/// The tasks that wait.
#[derive(Debug, Default)]
pub(crate) struct Waiters(RefCell<Sleepers>);

#[derive(Debug, Default)]
struct Sleepers {
    next_ticket: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Waiters {
    /// Lets every waiter look at its condition again.
    pub(crate) fn wake_all(&self) {
        let wakers = mem::take(&mut self.0.borrow_mut().wakers);
        for waker in wakers.into_values() {
            waker.wake();
        }
    }

    /// Waits until `ready` gives a value; it is asked now and after each [`Waiters::wake_all`].
    ///
    /// # Cancel safety
    /// Dropping the future takes nothing.
    pub(crate) async fn until<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        let mut place = Place {
            waiters: self,
            ticket: None,
        };
        poll_fn(|context| match ready() {
            Some(value) => Poll::Ready(value),
            None => {
                place.sleep(context.waker());
                Poll::Pending
            }
        })
        .await
    }
}

struct Place<'a> {
    waiters: &'a Waiters,
    ticket: Option<u64>,
}

impl Place<'_> {
    fn sleep(&mut self, waker: &Waker) {
        let mut sleepers = self.waiters.0.borrow_mut();
        let ticket = *self.ticket.get_or_insert_with(|| {
            sleepers.next_ticket += 1;
            sleepers.next_ticket
        });
        sleepers.wakers.insert(ticket, waker.clone());
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.waiters.0.borrow_mut().wakers.remove(&ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    // Goal: waiters come and go without a trace. Method: one waits, wakes, and is dropped; the book is empty.
    #[test]
    fn waits_for_a_condition() {
        let waiters = Waiters::default();
        let value = Cell::new(None);
        let mut context = Context::from_waker(Waker::noop());
        {
            let mut waiting = pin!(waiters.until(|| value.get()));
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            waiters.wake_all();
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            assert_eq!(waiters.0.borrow().wakers.len(), 1);
            value.set(Some(7));
            assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(7));
        }
        assert!(waiters.0.borrow().wakers.is_empty());
    }
}
