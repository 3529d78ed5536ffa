//! Timers of one shard: an ordered map and one timerfd on the main ring.
//!
//! Not the runtime's timers: it looks at all of them on every turn (a long poll has one each), and their expiry can
//! put a shard to sleep with tasks ready (`executor.rs`).
//!
//! 1. A timer never ends before its deadline; timers end in the order of their deadlines.
//! 2. The timerfd is set no later than the earliest deadline, and no later than a heartbeat from now.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use glommio::io::PollableFd;
use pelton_model::Monotonic;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec,
};

/// A shard wakes at least this often: the bound on a sleep that the runtime should not have begun (`executor.rs`).
const HEARTBEAT_MS: u64 = 50;
const SECOND_NS: u64 = 1_000_000_000;

/// The time on the monotonic clock.
pub(crate) fn now() -> Monotonic {
    let time = rustix::time::clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).expect("CLOCK_MONOTONIC is not negative");
    let rest = u64::try_from(time.tv_nsec).expect("the kernel normalises to 0..10^9");
    Monotonic(seconds * SECOND_NS + rest)
}

/// The timers of a shard.
#[derive(Debug)]
pub(crate) struct Timers {
    /// Who waits, by deadline; the number tells equal deadlines apart, in the order they were asked for.
    waiting: RefCell<BTreeMap<(Monotonic, u64), Waker>>,
    next_number: Cell<u64>,
    /// What the timerfd is set to.
    armed: Cell<Monotonic>,
    timer: PollableFd<OwnedFd>,
}

impl Timers {
    pub(crate) fn new() -> io::Result<Rc<Self>> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let timers = Self {
            waiting: RefCell::default(),
            next_number: Cell::new(0),
            armed: Cell::new(Monotonic(0)),
            timer: PollableFd::new(timer)?,
        };
        timers.arm(now().plus_ms(HEARTBEAT_MS))?;
        Ok(Rc::new(timers))
    }

    /// Waits until `deadline`.
    pub(crate) fn sleep_until(self: &Rc<Self>, deadline: Monotonic) -> Sleep {
        Sleep {
            timers: Rc::clone(self),
            deadline,
            number: None,
        }
    }

    /// Waits for the timerfd once, and wakes whose deadline has come.
    pub(crate) async fn turn(&self) -> io::Result<()> {
        self.timer.readable().await?;
        let mut expirations = [0; 8];
        // EAGAIN: it was set anew since.
        rustix::io::read(self.timer.get_ref(), &mut expirations).unwrap_or(0);
        let now = now();
        while let Some(waker) = self.take_due(now) {
            waker.wake();
        }
        let heartbeat = now.plus_ms(HEARTBEAT_MS);
        let first = self.waiting.borrow().keys().next().map(|key| key.0);
        self.arm(first.map_or(heartbeat, |deadline| deadline.min(heartbeat)))
    }

    fn take_due(&self, now: Monotonic) -> Option<Waker> {
        let mut waiting = self.waiting.borrow_mut();
        let entry = waiting.first_entry()?;
        if now < entry.key().0 {
            return None;
        }
        Some(entry.remove())
    }

    fn arm(&self, deadline: Monotonic) -> io::Result<()> {
        let part = |value| i64::try_from(value).expect("below 2^63 nanoseconds");
        let timer = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: part(deadline.0 / SECOND_NS),
                // All zeros would disarm it.
                tv_nsec: part((deadline.0 % SECOND_NS).max(1)),
            },
        };
        let flags = TimerfdTimerFlags::ABSTIME;
        rustix::time::timerfd_settime(self.timer.get_ref(), flags, &timer)?;
        self.armed.set(deadline);
        Ok(())
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
        if self.deadline < self.timers.armed.get() {
            self.timers
                .arm(self.deadline)
                .expect("a timerfd of ours takes any time on its clock");
        }
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
    use crate::boot::block_on;

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
        block_on(|_| async {
            let timers = Timers::new().unwrap();
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
            assert!(timers.armed.get() <= start.plus_ms(10));
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
        })
        .unwrap();
    }
}
