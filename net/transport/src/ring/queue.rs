//! The tasks of a shard and the queues of those that are ready.
//!
//! 1. First woken, first run, within each class. So a task that is woken by the first of several ready ones runs behind
//!    all of them: Produce's flusher relies on it.
//! 2. A task woken while it waits in the queue is queued once.
//! 3. Wakers work on any thread; on the shard's own a wake-up is a push, on others it goes by the bell.
//! 4. A future is polled and dropped on its shard's thread only.
//!
//! Who runs when is decided in `executor.rs`.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use async_task::{Builder, Runnable, Task};
use slab::Slab;

use super::bell::Bell;
use crate::net::TaskClass;

/// Who a task is.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskId {
    class: TaskClass,
    number: usize,
}

/// Something that is ready to run.
#[derive(Debug)]
pub(super) enum Entry {
    /// The executor's main future.
    Main,
    /// A spawned task.
    Task(Runnable<TaskId>),
}

thread_local! {
    /// The queues of the executor that runs on this thread.
    static CURRENT: RefCell<Option<Rc<RunQueue>>> = const { RefCell::new(None) };
}

/// The tasks of one shard.
#[derive(Debug)]
pub(super) struct RunQueue {
    bell: Arc<Bell>,
    requests: RefCell<VecDeque<Entry>>,
    background: RefCell<VecDeque<Entry>>,
    /// Every task that has not ended. Dropping a handle cancels its task.
    tasks: RefCell<Slab<Task<(), TaskId>>>,
    /// Used while taking from the bell, kept for its memory.
    rung: RefCell<Vec<Entry>>,
}

impl RunQueue {
    pub(super) fn new(bell: Bell) -> Rc<Self> {
        Rc::new(Self {
            bell: Arc::new(bell),
            requests: RefCell::default(),
            background: RefCell::default(),
            tasks: RefCell::default(),
            rung: RefCell::default(),
        })
    }

    pub(super) fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Adds a task, which is ready at once.
    pub(super) fn spawn(&self, class: TaskClass, future: impl Future<Output = ()> + 'static) {
        let bell = Arc::clone(&self.bell);
        let schedule = move |runnable| schedule(&bell, Entry::Task(runnable));
        let mut tasks = self.tasks.borrow_mut();
        let place = tasks.vacant_entry();
        let id = TaskId {
            class,
            number: place.key(),
        };
        let (runnable, task) = Builder::new()
            .metadata(id)
            .spawn_local(|_| future, schedule);
        place.insert(task);
        drop(tasks);
        runnable.schedule();
    }

    /// Runs a task once.
    pub(super) fn run(&self, runnable: Runnable<TaskId>) {
        let TaskId { number, .. } = *runnable.metadata();
        runnable.run();
        let ended = {
            let mut tasks = self.tasks.borrow_mut();
            let is_finished = tasks.get(number).is_some_and(Task::is_finished);
            is_finished.then(|| tasks.remove(number))
        };
        drop(ended);
    }

    pub(super) fn push(&self, entry: Entry) {
        let class = match &entry {
            Entry::Main => TaskClass::Request,
            Entry::Task(runnable) => runnable.metadata().class,
        };
        match class {
            TaskClass::Request => self.requests.borrow_mut().push_back(entry),
            TaskClass::Background => self.background.borrow_mut().push_back(entry),
        }
    }

    /// How many requests' tasks are ready.
    pub(super) fn requests(&self) -> usize {
        self.requests.borrow().len()
    }

    pub(super) fn pop_request(&self) -> Option<Entry> {
        self.requests.borrow_mut().pop_front()
    }

    pub(super) fn has_background(&self) -> bool {
        !self.background.borrow().is_empty()
    }

    pub(super) fn pop_background(&self) -> Option<Entry> {
        self.background.borrow_mut().pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.borrow().is_empty() && self.background.borrow().is_empty()
    }

    /// Queues what other threads have woken.
    pub(super) fn take_rung(&self) {
        if !self.bell.is_rung() {
            return;
        }
        let mut rung = self.rung.borrow_mut();
        self.bell.take(&mut rung);
        for entry in rung.drain(..) {
            self.push(entry);
        }
    }

    /// Makes this the queue of the current thread until the guard is dropped; then its tasks are dropped, ready or not.
    ///
    /// # Panics
    /// When the thread already runs an executor.
    pub(super) fn enter(self: &Rc<Self>) -> Entered {
        CURRENT.with_borrow_mut(|current| {
            assert!(current.is_none(), "one executor at a time on a thread");
            *current = Some(Rc::clone(self));
        });
        Entered(Rc::clone(self))
    }

    fn end(&self) {
        // A dropped task may wake or start others. Each of ours ends for good: what is cancelled is not queued again.
        loop {
            let tasks: Vec<_> = self.tasks.borrow_mut().drain().collect();
            if tasks.is_empty() {
                break;
            }
            drop(tasks);
            self.drop_ready();
        }
        // A wake-up from another thread may still have been on its way.
        drop(self.bell.close());
        self.drop_ready();
    }

    fn drop_ready(&self) {
        self.take_rung();
        loop {
            let Some(entry) = self.pop_request().or_else(|| self.pop_background()) else {
                return;
            };
            drop(entry);
        }
    }
}

/// While it lives, wake-ups on this thread are pushes.
pub(super) struct Entered(Rc<RunQueue>);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.end();
        CURRENT.take();
    }
}

/// Queues what is ready: at once on its own thread, by the bell from another.
fn schedule(bell: &Arc<Bell>, entry: Entry) {
    let foreign = CURRENT.try_with(|current| {
        let current = current.borrow();
        match current.as_ref() {
            Some(queue) if Arc::ptr_eq(&queue.bell, bell) => {
                queue.push(entry);
                None
            }
            Some(_) | None => Some(entry),
        }
    });
    if let Ok(Some(entry)) = foreign {
        bell.ring(entry);
    }
}

/// Wakes the main future.
pub(super) struct MainWaker {
    bell: Arc<Bell>,
    is_queued: AtomicBool,
}

impl MainWaker {
    pub(super) fn new(queue: &RunQueue) -> Arc<Self> {
        Arc::new(Self {
            bell: Arc::clone(&queue.bell),
            is_queued: AtomicBool::new(false),
        })
    }

    /// Says that the main future is about to be polled: from now on it may be queued again.
    pub(super) fn on_poll(&self) {
        self.is_queued.store(false, Ordering::SeqCst);
    }
}

impl Wake for MainWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::SeqCst) {
            schedule(&self.bell, Entry::Main);
        }
    }
}
