//! Turns: tasks of one shard pass one after the other, in the order in which they asked.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

use pelton_model::task::{OnceSender, oneshot};

#[derive(Default)]
struct Inner {
    taken: Cell<bool>,
    waiting: RefCell<VecDeque<OnceSender<Turn>>>,
}

/// Lets one task pass at a time. Free, it costs a flag.
#[derive(Default)]
pub(crate) struct Gate(Rc<Inner>);

/// The right to be inside; dropping it lets the next one in.
pub(crate) struct Turn(Rc<Inner>);

impl Gate {
    /// Waits for the turn.
    ///
    /// # Cancel safety
    /// A dropped wait gives up its place: the turn that was meant for it passes on.
    pub(crate) async fn enter(&self) -> Turn {
        if !self.0.taken.replace(true) {
            return Turn(Rc::clone(&self.0));
        }
        let (sender, receiver) = oneshot();
        self.0.waiting.borrow_mut().push_back(sender);
        receiver
            .await
            .expect("a queued sender is only taken to be sent")
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = self.0.waiting.borrow_mut().pop_front();
        match next {
            Some(next) => next.send(Self(Rc::clone(&self.0))),
            None => self.0.taken.set(false),
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("taken", &self.0.taken.get())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    // Goal: turns come in order, and a cancelled wait blocks nobody. Method: three tasks, the second gives up.
    #[test]
    fn turns_pass_on() {
        let gate = Gate::default();
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(first) = pin!(gate.enter()).poll(&mut context) else {
            panic!("a free gate lets pass");
        };
        let mut second = Box::pin(gate.enter());
        assert!(second.as_mut().poll(&mut context).is_pending());
        let mut third = Box::pin(gate.enter());
        assert!(third.as_mut().poll(&mut context).is_pending());
        drop(second);
        drop(first);
        let Poll::Ready(turn) = third.as_mut().poll(&mut context) else {
            panic!("the second wait is gone");
        };
        drop(turn);
        assert!(!gate.0.taken.get());
    }
}
