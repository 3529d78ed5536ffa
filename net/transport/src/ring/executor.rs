//! The loop of a shard: run what is ready, look at the ring, sleep when there is nothing to do.
//!
//! 1. Work comes in rounds: the tasks that are ready when a round begins run once, in order. Between rounds the ring, the
//!    timers and the bell are looked at, so nothing starves beside a task that is always ready.
//! 2. That look costs no system call while the kernel has nothing to tell; a sleep costs one.
//! 3. While requests' tasks are ready, background ones get a tenth of the time: after each run they stand back for ten times
//!    as long as it took, within bounds. When no request's task is ready, they run.
//! 4. When the main future ends, the helper threads are waited for, then the tasks are dropped, then the ring lets go of
//!    their sockets.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pelton_model::Monotonic;
use rustix::event::PollFlags;
use rustix::thread::CpuSet;

use super::bell::Bell;
use super::driver::{Driver, Interest, PollKind};
use super::queue::{Entry, MainWaker, RunQueue};
use super::runtime::RingNet;
use super::timers::{self, Timers};

/// Rounds between two looks at timers and at polls that the kernel does not know of yet, while tasks are ready.
const ROUNDS_MAX: u32 = 16;
/// How many times its own running time a background task stands back for requests.
const BACKGROUND_PAUSE: u64 = 10;
/// The longest that it stands back, in nanoseconds: its time counts also while something else had the core.
const BACKGROUND_PAUSE_NS_MAX: u64 = 50_000_000;

/// How one executor is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExecutorOptions {
    /// The core to pin the thread to.
    pub(crate) core: Option<usize>,
    /// How long to look for work before the thread sleeps; only a pinned thread spins.
    pub(crate) spin: Duration,
}

/// What an executor and the parts of its net share.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) queue: Rc<RunQueue>,
    pub(super) driver: Rc<Driver>,
    pub(super) timers: Rc<Timers>,
    /// How long the thread has looked for work without finding any.
    pub(super) spun_ns: Cell<u64>,
}

/// An executor of the current thread.
pub(crate) struct Executor {
    core: Rc<Core>,
    /// Tells that the bell was rung.
    bell_interest: Rc<Interest>,
    spin_ns: u64,
    /// Until when background tasks stand back.
    background_after: Cell<Monotonic>,
}

impl Executor {
    /// Makes the executor of this thread, pinning the thread when asked.
    ///
    /// # Errors
    /// When the thread cannot be pinned, or there are no descriptors or memory for a ring.
    pub(crate) fn make(options: ExecutorOptions) -> io::Result<Self> {
        if let Some(core) = options.core {
            pin_to(core)?;
        }
        let core = Core {
            queue: RunQueue::new(Bell::new()?),
            driver: Rc::new(Driver::new()?),
            timers: Rc::default(),
            spun_ns: Cell::new(0),
        };
        let spin = options.core.map_or(Duration::ZERO, |_| options.spin);
        Ok(Self {
            core: Rc::new(core),
            bell_interest: Interest::new(PollFlags::empty()),
            spin_ns: u64::try_from(spin.as_nanos()).unwrap_or(u64::MAX),
            background_after: Cell::new(Monotonic(0)),
        })
    }

    /// Runs `main` to its end, then waits for work that helpers still have in hand, and drops all tasks.
    ///
    /// # Panics
    /// When the current thread already runs an executor, and with the panic of any task.
    pub(crate) fn run<T, F: Future<Output = T>>(self, main: impl FnOnce(RingNet) -> F) -> T {
        let net = RingNet::new(Rc::clone(&self.core));
        let output = {
            let _entered = self.core.queue.enter();
            let output = self.run_main(pin!(main(net.clone())));
            net.join_helpers();
            output
        };
        self.core.driver.cancel(&self.bell_interest);
        self.core.driver.settle();
        output
    }

    fn run_main<T>(&self, mut main: Pin<&mut impl Future<Output = T>>) -> T {
        let queue = &self.core.queue;
        let main_waker = MainWaker::new(queue);
        let waker = Waker::from(Arc::clone(&main_waker));
        let mut context = Context::from_waker(&waker);
        waker.wake_by_ref();
        let mut rounds = 0;
        loop {
            for _ in 0..queue.requests() {
                match queue.pop_request() {
                    Some(Entry::Task(runnable)) => queue.run(runnable),
                    Some(Entry::Main) => {
                        main_waker.on_poll();
                        if let Poll::Ready(output) = main.as_mut().poll(&mut context) {
                            return output;
                        }
                    }
                    None => break,
                }
            }
            let is_long = queue.has_background() && self.run_background();
            queue.take_rung();
            rounds += 1;
            if is_long || queue.is_empty() || rounds >= ROUNDS_MAX {
                rounds = 0;
                self.turn();
            } else if self.core.driver.has_news() {
                self.core.driver.turn();
            }
        }
    }

    /// Runs one background task, if it is their turn; tells whether it was.
    fn run_background(&self) -> bool {
        let queue = &self.core.queue;
        let begin = timers::now();
        if queue.requests() > 0 && begin < self.background_after.get() {
            return false;
        }
        let Some(Entry::Task(runnable)) = queue.pop_background() else {
            return false;
        };
        queue.run(runnable);
        let end = timers::now();
        let pause = end.since(begin).saturating_mul(BACKGROUND_PAUSE);
        let pause = pause.min(BACKGROUND_PAUSE_NS_MAX);
        self.background_after
            .set(Monotonic(end.0.saturating_add(pause)));
        true
    }

    /// Looks at everything that may make tasks ready; sleeps when none is.
    fn turn(&self) {
        let Core {
            queue,
            driver,
            timers,
            ..
        } = &*self.core;
        let mut now = timers::now();
        timers.wake_due(now);
        if !self.bell_interest.is_polled() {
            let event = queue.bell().event().as_fd();
            driver.poll(event, PollFlags::IN, PollKind::Multi, &self.bell_interest);
        }
        if !queue.is_empty() {
            driver.turn();
            return;
        }
        if self.spin_ns > 0 {
            if self.spin() {
                return;
            }
            now = timers::now();
        }
        if !queue.bell().fall_asleep() {
            return;
        }
        let left = |deadline: Monotonic| Duration::from_nanos(deadline.since(now));
        driver.wait(timers.first().map(left));
        queue.bell().wake_up();
        queue.take_rung();
    }

    /// Looks for work for a while; tells whether there is some.
    fn spin(&self) -> bool {
        let Core {
            queue,
            driver,
            timers,
            spun_ns,
        } = &*self.core;
        if !driver.is_handed_over() {
            driver.turn();
        }
        let begin = timers::now();
        let first = timers.first().unwrap_or(Monotonic(u64::MAX));
        loop {
            if driver.has_news() {
                driver.turn();
            }
            queue.take_rung();
            let now = timers::now();
            let has_work = !queue.is_empty() || first <= now;
            if has_work || now.since(begin) >= self.spin_ns {
                spun_ns.set(spun_ns.get() + now.since(begin));
                return has_work;
            }
            std::hint::spin_loop();
        }
    }
}

/// Keeps the current thread on one core.
fn pin_to(core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(core);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::{pending, poll_fn};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::thread;

    use pelton_model::task::{Notify, yield_now};

    use super::*;
    use crate::net::{Net, TaskClass};

    fn executor() -> Executor {
        let options = ExecutorOptions {
            core: None,
            spin: Duration::ZERO,
        };
        Executor::make(options).unwrap()
    }

    // Goal: a task woken by the first of several ready ones runs behind all of them, and they again behind it. Method: three
    // tasks that each wake a fourth, which wakes them; the order in which they ran.
    #[test]
    fn the_flusher_runs_behind_those_that_were_ready() {
        let order = executor().run(|net| async move {
            let order = Rc::new(RefCell::new(String::new()));
            let wanted = Rc::new(Notify::default());
            let written: Vec<_> = (0..3).map(|_| Rc::new(Notify::default())).collect();
            let start: Vec<_> = (0..3).map(|_| Rc::new(Notify::default())).collect();
            let (list, all) = (Rc::clone(&order), written.clone());
            let flush = Rc::clone(&wanted);
            net.spawn(TaskClass::Request, async move {
                loop {
                    flush.notified().await;
                    list.borrow_mut().push('F');
                    all.iter().for_each(|one| one.notify());
                }
            });
            for (name, (start, written)) in ('a'..).zip(start.iter().cloned().zip(written)) {
                let (list, wanted) = (Rc::clone(&order), Rc::clone(&wanted));
                net.spawn(TaskClass::Request, async move {
                    start.notified().await;
                    list.borrow_mut().push(name);
                    wanted.notify();
                    written.notified().await;
                    list.borrow_mut().push(name.to_ascii_uppercase());
                });
            }
            yield_now().await;
            start.iter().for_each(|one| one.notify());
            net.sleep_until(net.now().plus_ms(1)).await;
            order.take()
        });
        assert_eq!(order, "abcFABC");
    }

    // Goal: wake-ups from another thread reach a shard that sleeps and one that does not. Method: a thread that wakes at
    // once and one that waits until the shard has had time to sleep, many times.
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "other threads are what is tested"
    )]
    fn foreign_wake_ups_arrive() {
        executor().run(|_| async {
            for round in 0..200 {
                let is_done = Arc::new(AtomicBool::new(false));
                let (sender, receiver) = mpsc::channel::<Waker>();
                let done = Arc::clone(&is_done);
                let waking = thread::spawn(move || {
                    let waker = receiver.recv().unwrap();
                    if round % 2 == 0 {
                        let (_open, never) = mpsc::channel::<()>();
                        never.recv_timeout(Duration::from_millis(1)).unwrap_err();
                    }
                    done.store(true, Ordering::SeqCst);
                    waker.wake();
                });
                poll_fn(|context| {
                    if is_done.load(Ordering::SeqCst) {
                        return Poll::Ready(());
                    }
                    // A second poll finds nobody to tell: then the waker is known already.
                    sender.send(context.waker().clone()).unwrap_or(());
                    Poll::Pending
                })
                .await;
                waking.join().unwrap();
            }
        });
    }

    // Goal: every task is dropped with its executor, on its thread, and a wake-up that comes later does no harm. Method: one
    // that waits, one that is ready, one that starts another when dropped; a waker kept beyond the end.
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "other threads are what is tested"
    )]
    fn tasks_end_with_their_executor() {
        struct Dropped(Rc<Cell<u32>>, Option<RingNet>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
                if let Some(net) = self.1.take() {
                    let late = Dropped(Rc::clone(&self.0), None);
                    net.spawn(TaskClass::Background, async move {
                        pending::<()>().await;
                        drop(late);
                    });
                }
            }
        }
        let count = Rc::new(Cell::new(0));
        let kept = Rc::new(RefCell::new(None));
        executor().run(|net| {
            let (count, kept) = (Rc::clone(&count), Rc::clone(&kept));
            async move {
                let waiting = Dropped(Rc::clone(&count), None);
                net.spawn(TaskClass::Request, async move {
                    poll_fn(|context| {
                        *kept.borrow_mut() = Some(context.waker().clone());
                        Poll::<()>::Pending
                    })
                    .await;
                    drop(waiting);
                });
                let starting = Dropped(Rc::clone(&count), Some(net.clone()));
                net.spawn(TaskClass::Background, async move {
                    pending::<()>().await;
                    drop(starting);
                });
                yield_now().await;
                yield_now().await;
                let ready = Dropped(Rc::clone(&count), None);
                net.spawn(TaskClass::Request, async move { drop(ready) });
                assert_eq!(count.get(), 0);
            }
        });
        assert_eq!(count.get(), 4);
        let waker = kept.take().unwrap();
        thread::spawn(move || waker.wake()).join().unwrap();
    }

    // Goal: background tasks get a share beside requests that are always ready, and the whole shard when none is. Method:
    // two tasks that yield for ever and count their runs, of 100 µs each, for a while.
    #[test]
    fn background_tasks_get_a_share() {
        let runs = executor().run(|net| async move {
            let runs = Rc::new([Cell::new(0_u32), Cell::new(0)]);
            for (index, class) in [TaskClass::Request, TaskClass::Background]
                .into_iter()
                .enumerate()
            {
                let (net_there, runs) = (net.clone(), Rc::clone(&runs));
                net.spawn(class, async move {
                    loop {
                        let end = net_there.now().0 + 100_000;
                        while net_there.now().0 < end {}
                        runs[index].set(runs[index].get() + 1);
                        yield_now().await;
                    }
                });
            }
            while runs[0].get() < 500 {
                yield_now().await;
            }
            runs[1].get()
        });
        assert!((10..=100).contains(&runs), "{runs} runs beside 500");
    }
}
