//! Timers of one shard: an ordered map; the earliest bounds the shard's sleep.
//!
//! 1. A timer never ends before its deadline; timers end in the order of their deadlines, equal ones in the order asked.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use pelton_model::Monotonic;
use rustix::time::ClockId;

const SECOND_NS: u64 = 1_000_000_000;

/// The time on the monotonic clock.
pub(crate) fn now() -> Monotonic {
    let time = rustix::time::clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).expect("CLOCK_MONOTONIC is not negative");
    let rest = u64::try_from(time.tv_nsec).expect("the kernel normalises to 0..10^9");
    Monotonic(seconds * SECOND_NS + rest)
}

/// The timers of a shard.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// Who waits, by deadline; the number tells equal deadlines apart, in the order they were asked for.
    waiting: RefCell<BTreeMap<(Monotonic, u64), Waker>>,
    next_number: Cell<u64>,
}

impl Timers {
    /// Waits until `deadline`.
    pub(crate) fn sleep_until(self: &Rc<Self>, deadline: Monotonic) -> Sleep {
        Sleep {
            timers: Rc::clone(self),
            deadline,
            number: None,
        }
    }

    /// The earliest deadline.
    pub(super) fn first(&self) -> Option<Monotonic> {
        self.waiting.borrow().keys().next().map(|key| key.0)
    }

    /// Wakes those whose deadline has come.
    pub(super) fn wake_due(&self, now: Monotonic) {
        while let Some(waker) = self.take_due(now) {
            waker.wake();
        }
    }

    fn take_due(&self, now: Monotonic) -> Option<Waker> {
        let mut waiting = self.waiting.borrow_mut();
        let entry = waiting.first_entry()?;
        if now < entry.key().0 {
            return None;
        }
        Some(entry.remove())
    }
}

/// The future of [`Timers::sleep_until`].
#[derive(Debug)]
pub(crate) struct Sleep {
    timers: Rc<Timers>,
    deadline: Monotonic,
    number: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.deadline <= now() {
            return Poll::Ready(());
        }
        let number = self.number.unwrap_or_else(|| {
            let number = self.timers.next_number.get();
            self.timers.next_number.set(number + 1);
            number
        });
        self.number = Some(number);
        let key = (self.deadline, number);
        self.timers
            .waiting
            .borrow_mut()
            .insert(key, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let key = (self.deadline, number);
            let waker = self.timers.waiting.borrow_mut().remove(&key);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    // Goal: timers are due in the order of their deadlines, equal ones in the order asked; dropped ones never. Method:
    // poll them in another order and take what is due, step by step.
    #[test]
    fn due_in_order() {
        {
            let timers = Rc::new(Timers::default());
            let start = now().plus_ms(3_600_000);
            let flags: Vec<Arc<Flag>> = (0..4).map(|_| Arc::default()).collect();
            let mut sleeps: Vec<_> = [30, 10, 20, 10]
                .into_iter()
                .map(|ms| Box::pin(timers.sleep_until(start.plus_ms(ms))))
                .collect();
            for (sleep, flag) in sleeps.iter_mut().zip(&flags) {
                let waker = Waker::from(Arc::clone(flag));
                let polled = sleep.as_mut().poll(&mut Context::from_waker(&waker));
                assert!(polled.is_pending());
            }
            assert_eq!(timers.first(), Some(start.plus_ms(10)));
            drop(sleeps.remove(2));
            let mut order = Vec::new();
            for ms in [9, 10, 29, 30] {
                while let Some(waker) = timers.take_due(start.plus_ms(ms)) {
                    waker.wake();
                    let is_new = |&index: &usize| {
                        flags[index].0.load(Ordering::SeqCst) && !order.contains(&(index, ms))
                    };
                    let woken = (0..4).filter(is_new).max();
                    order.extend(woken.map(|index| (index, ms)));
                    flags[order[order.len() - 1].0]
                        .0
                        .store(false, Ordering::SeqCst);
                }
            }
            assert_eq!(order, [(1, 10), (3, 10), (0, 30)]);
            let mut past = pin!(timers.sleep_until(Monotonic(1)));
            let polled = past.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_ready());
        }
    }
}
