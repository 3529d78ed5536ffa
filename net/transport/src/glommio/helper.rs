//! The helper thread of a shard, for work that would block or hog it. Started with the first work.
//!
//! Not the runtime's pool: its completions wake a shard in the way that `bell.rs` avoids.
//!
//! 1. Work once begun runs to its end, whether or not anyone waits for it.
//! 2. A shard ends only after its helper has.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::task::Poll;
use std::thread::{self, JoinHandle};

use super::bell::{Bell, BellWaker};

type Job = Box<dyn FnOnce() + Send>;

struct Running {
    jobs: mpsc::Sender<Job>,
    thread: JoinHandle<()>,
}

/// One shard's helper.
#[derive(Default)]
pub(crate) struct Helper(RefCell<Option<Running>>);

struct Slot<T> {
    result: Option<Result<T, Box<dyn Any + Send>>>,
    waker: Option<Arc<BellWaker>>,
}

impl Helper {
    /// Runs `work` on the helper's thread; requests run in order. Works here when no thread can be had.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        bell: &Arc<Bell>,
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
                    slot.waker = Some(BellWaker::new(bell, context.waker()));
                    Poll::Pending
                }
            }
        });
        result.await.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn submit(&self, job: Job) {
        let mut running = self.0.borrow_mut();
        if running.is_none() {
            match start() {
                Ok(started) => *running = Some(started),
                Err(error) => {
                    tracing::warn!(%error, "no helper thread: working on the shard");
                    drop(running);
                    return job();
                }
            }
        }
        let jobs = &running.as_ref().expect("started above").jobs;
        jobs.send(job).expect("the helper ends after its sender");
    }

    /// Waits until all work is done and the thread has ended.
    pub(crate) fn join(&self) {
        let running = self.0.borrow_mut().take();
        if let Some(Running { jobs, thread }) = running {
            drop(jobs);
            thread.join().expect("work is run under catch_unwind");
        }
    }
}

impl fmt::Debug for Helper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Helper")
            .field(&self.0.borrow().is_some())
            .finish()
    }
}

fn start() -> io::Result<Running> {
    let (jobs, queue) = mpsc::channel::<Job>();
    let name = thread::current().name().unwrap_or("shard").to_owned();
    let thread = thread::Builder::new()
        .name(format!("{name}-helper"))
        .spawn(move || {
            while let Ok(job) = queue.recv() {
                job();
            }
        })?;
    Ok(Running { jobs, thread })
}
