//! Wake-ups between tasks of one shard. The only `async` in `core/`: wakers, no runtime, no I/O, no clock, so that the
//! broker and the simulator run the same code.
//!
//! Single-threaded: everything here is `!Send`.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Lets the other tasks of the shard run before going on.
pub async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A wake-up that is remembered: [`Notify::notify`] before [`Notify::notified`] is not lost. One waiter at a time.
#[derive(Debug, Default)]
pub struct Notify {
    set: Cell<bool>,
    waiter: RefCell<Option<Waker>>,
}

impl Notify {
    /// Wakes the waiter, or lets the next one pass at once.
    pub fn notify(&self) {
        self.set.set(true);
        if let Some(waker) = self.waiter.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Takes the notification if there is one.
    pub fn take(&self) -> bool {
        self.set.replace(false)
    }

    /// Waits for a notification and takes it.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: an untaken notification stays.
    pub async fn notified(&self) {
        poll_fn(|context| self.poll_notified(context)).await;
    }

    /// The poll form of [`Notify::notified`].
    pub fn poll_notified(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.set.replace(false) {
            return Poll::Ready(());
        }
        let mut waiter = self.waiter.borrow_mut();
        match waiter.as_ref() {
            Some(known) if known.will_wake(context.waker()) => {}
            _ => *waiter = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

struct OnceState<T> {
    value: Cell<Option<T>>,
    closed: Cell<bool>,
    waiter: Cell<Option<Waker>>,
}

/// Makes a channel for one value within a shard.
#[must_use]
pub fn oneshot<T>() -> (OnceSender<T>, OnceReceiver<T>) {
    let state = Rc::new(OnceState {
        value: Cell::new(None),
        closed: Cell::new(false),
        waiter: Cell::new(None),
    });
    (OnceSender(Rc::clone(&state)), OnceReceiver(state))
}

/// The sending half; dropping it unsent closes the channel.
pub struct OnceSender<T>(Rc<OnceState<T>>);

impl<T> OnceSender<T> {
    /// Hands `value` to the receiver and wakes it; the value is dropped when nobody waits any more.
    pub fn send(self, value: T) {
        self.0.value.set(Some(value));
    }
}

impl<T> Drop for OnceSender<T> {
    fn drop(&mut self) {
        self.0.closed.set(true);
        if let Some(waker) = self.0.waiter.take() {
            waker.wake();
        }
    }
}

/// The receiving half: a future of `Some(value)`, or `None` when the sender was dropped unsent.
pub struct OnceReceiver<T>(Rc<OnceState<T>>);

impl<T> OnceReceiver<T> {
    /// Takes the value if it is there.
    #[must_use]
    pub fn try_take(&self) -> Option<T> {
        self.0.value.take()
    }
}

impl<T> Future for OnceReceiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(value) = self.0.value.take() {
            return Poll::Ready(Some(value));
        }
        if self.0.closed.get() {
            return Poll::Ready(None);
        }
        self.0.waiter.set(Some(context.waker().clone()));
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    // Goal: no lost wake-up. Method: notify before and after the wait begins.
    #[test]
    fn notify_is_remembered() {
        let notify = Notify::default();
        notify.notify();
        assert!(poll_once(Box::pin(notify.notified()).as_mut()).is_ready());
        let mut second = Box::pin(notify.notified());
        assert!(poll_once(second.as_mut()).is_pending());
        notify.notify();
        assert!(poll_once(second.as_mut()).is_ready());
    }

    // Goal: one value or a closed channel. Method: both endings.
    #[test]
    fn oneshot_delivers_or_closes() {
        let (sender, receiver) = oneshot();
        let mut receiver = Box::pin(receiver);
        assert!(poll_once(receiver.as_mut()).is_pending());
        sender.send(7);
        assert_eq!(poll_once(receiver.as_mut()), Poll::Ready(Some(7)));
        let (sender, receiver) = oneshot::<i32>();
        drop(sender);
        assert_eq!(poll_once(Box::pin(receiver).as_mut()), Poll::Ready(None));
    }
}
