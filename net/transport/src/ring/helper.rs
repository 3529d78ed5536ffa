//! The helper threads of a shard, for work that would block or hog it. Each is started when work finds no idle one.
//!
//! 1. Work once begun runs to its end, whether or not anyone waits for it.
//! 2. A shard ends only after its helpers have.
//! 3. Work is begun in the order in which it was given; with one thread it also ends in that order.

use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread::{self, JoinHandle};

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Threads that wait for a job.
    idle: usize,
    is_closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    wanted: Condvar,
}

/// Some helper threads of one shard.
pub(crate) struct Helper {
    /// Ends the threads' names.
    name: &'static str,
    threads_max: usize,
    is_low_priority: bool,
    shared: Arc<Shared>,
    threads: RefCell<Vec<JoinHandle<()>>>,
}

struct Slot<T> {
    result: Option<Result<T, Box<dyn Any + Send>>>,
    waker: Option<Waker>,
}

impl Helper {
    /// At most `threads_max` threads, named after the shard's and `name`. None is started yet.
    pub(crate) fn new(name: &'static str, threads_max: usize) -> Self {
        Self {
            name,
            threads_max,
            is_low_priority: false,
            shared: Arc::default(),
            threads: RefCell::default(),
        }
    }

    /// As [`Helper::new`]; the threads run when nothing else wants the core.
    pub(crate) fn of_low_priority(name: &'static str, threads_max: usize) -> Self {
        Self {
            is_low_priority: true,
            ..Self::new(name, threads_max)
        }
    }

    /// Runs `work` on a helper's thread. Works here when no thread can be had.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let slot = Arc::new(Mutex::new(Slot {
            result: None,
            waker: None,
        }));
        let filled = Arc::clone(&slot);
        self.submit(Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(work));
            let mut slot = filled.lock().unwrap_or_else(PoisonError::into_inner);
            slot.result = Some(result);
            let waker = slot.waker.take();
            drop(slot);
            if let Some(waker) = waker {
                waker.wake();
            }
        }));
        let result = poll_fn(|context| {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            match slot.result.take() {
                Some(result) => Poll::Ready(result),
                None => {
                    slot.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        });
        result.await.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Runs `work` on a helper's thread, and tells nobody.
    pub(crate) fn start(&self, work: impl FnOnce() + Send + 'static) {
        self.submit(Box::new(move || {
            if catch_unwind(AssertUnwindSafe(work)).is_err() {
                tracing::error!("work that nobody waited for has panicked");
            }
        }));
    }

    fn submit(&self, job: Job) {
        let mut queue = self.shared.lock();
        let mut threads = self.threads.borrow_mut();
        if queue.idle <= queue.jobs.len() && threads.len() < self.threads_max {
            match self.start_thread() {
                Ok(started) => threads.push(started),
                Err(error) if threads.is_empty() => {
                    tracing::warn!(%error, "no helper thread: working on the shard");
                    drop(queue);
                    drop(threads);
                    return job();
                }
                // Those that run will come to it.
                Err(_) => {}
            }
        }
        queue.jobs.push_back(job);
        drop(queue);
        self.shared.wanted.notify_one();
    }

    /// Waits until all work is done and the threads have ended.
    pub(crate) fn join(&self) {
        self.shared.lock().is_closed = true;
        self.shared.wanted.notify_all();
        for thread in self.threads.take() {
            thread.join().expect("work is run under catch_unwind");
        }
    }

    fn start_thread(&self) -> io::Result<JoinHandle<()>> {
        let name = thread::current().name().unwrap_or("shard").to_owned();
        let shared = Arc::clone(&self.shared);
        let is_low_priority = self.is_low_priority;
        thread::Builder::new()
            .name(format!("{name}-{}", self.name))
            .spawn(move || {
                if is_low_priority {
                    lower_priority();
                }
                while let Some(job) = shared.next() {
                    job();
                }
            })
    }
}

/// On Linux a nice value belongs to the thread that sets it for "the calling process".
fn lower_priority() {
    // About a tenth of a core that is wanted by all: what compaction never gets done, the disk pays for.
    const NICE: i32 = 10;
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "background work runs at normal priority");
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next job; `None` when there will be none.
    fn next(&self) -> Option<Job> {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.is_closed {
                return None;
            }
            queue.idle += 1;
            let woken = self.wanted.wait(queue);
            queue = woken.unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}

impl fmt::Debug for Helper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Helper")
            .field("name", &self.name)
            .field("threads", &self.threads.borrow().len())
            .finish_non_exhaustive()
    }
}
