//! A deterministic executor: one thread, one clock that moves only when it is told to, and the next ready task picked by chance.
//!
//! Invariants:
//! 1. One seed, one run: tasks, timers and chance are drawn in one order; nothing here looks at the outside.
//! 2. The clock moves forward a little with every step, and to the next timer when nothing is ready.
//! 3. Tasks belong to an owner; killing an owner drops its futures between two steps, as kill -9 would.
//! 4. A run that takes more than its budget of steps is a livelock, and a failure.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use super::random::Random;
use super::trace::{Event, Trace};

/// Whose tasks live and die together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The clients: they outlive every broker.
    Clients,
    /// One shard of one life of the broker.
    Shard {
        /// Which life.
        life: u32,
        /// Which shard.
        shard: u16,
    },
}

/// How the next ready task is picked.
#[derive(Clone, Copy, Debug)]
pub enum Policy {
    /// Any, with equal chance.
    Uniform,
    /// Mostly the one that became ready last.
    Newest,
    /// Mostly the one that became ready first.
    Oldest,
}

type ReadyQueue = Arc<Mutex<Vec<u64>>>;

struct TaskWaker {
    id: u64,
    is_queued: AtomicBool,
    ready: ReadyQueue,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::Relaxed) {
            self.ready.lock().unwrap().push(self.id);
        }
    }
}

struct Task {
    owner: Owner,
    future: Pin<Box<dyn Future<Output = ()>>>,
    waker: Arc<TaskWaker>,
}

enum Alarm {
    Wake(Waker),
    Call(Box<dyn FnOnce()>),
}

struct Inner {
    random: RefCell<Random>,
    now: Cell<u64>,
    policy: Cell<Policy>,
    /// Polls a task that is not ready once in so many steps; 0 never.
    spurious_every: Cell<u64>,
    tasks: RefCell<BTreeMap<u64, Task>>,
    next_task: Cell<u64>,
    ready: ReadyQueue,
    alarms: RefCell<BTreeMap<(u64, u64), Alarm>>,
    next_alarm: Cell<u64>,
    steps: Cell<u64>,
    steps_max: Cell<u64>,
    trace: RefCell<Trace>,
}

/// The simulated world; clones see the same one.
#[derive(Clone)]
pub struct World(Rc<Inner>);

impl World {
    /// A world at time 0 without tasks.
    #[must_use]
    pub fn new(seed: u64, steps_max: u64) -> Self {
        Self(Rc::new(Inner {
            random: RefCell::new(Random::new(seed)),
            now: Cell::new(0),
            policy: Cell::new(Policy::Uniform),
            spurious_every: Cell::new(0),
            tasks: RefCell::default(),
            next_task: Cell::new(0),
            ready: ReadyQueue::default(),
            alarms: RefCell::default(),
            next_alarm: Cell::new(0),
            steps: Cell::new(0),
            steps_max: Cell::new(steps_max),
            trace: RefCell::default(),
        }))
    }

    /// How tasks are picked, and how often one is polled for no reason (once in so many steps; 0 never).
    pub fn set_policy(&self, policy: Policy, spurious_every: u64) {
        self.0.policy.set(policy);
        self.0.spurious_every.set(spurious_every);
    }

    /// Nanoseconds since the beginning.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.0.now.get()
    }

    /// Milliseconds since the beginning.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now() / 1_000_000
    }

    /// Steps so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.0.steps.get()
    }

    /// Draws from the world's chance.
    pub fn draw<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut self.0.random.borrow_mut())
    }

    /// Notes what happened.
    pub fn note(&self, what: impl FnOnce() -> String) {
        let event = Event { at: self.now(), step: self.steps(), what: what() };
        self.0.trace.borrow_mut().push(event);
    }

    /// Mixes a number into the fingerprint of the run.
    pub fn mark(&self, value: u64) {
        self.0.trace.borrow_mut().mark(value);
    }

    /// A number that differs when the run took another course.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.0.trace.borrow().fingerprint()
    }

    /// The last events, oldest first.
    #[must_use]
    pub fn last_events(&self) -> Vec<String> {
        self.0.trace.borrow().last()
    }

    /// Starts a task.
    pub fn spawn(&self, owner: Owner, task: impl Future<Output = ()> + 'static) {
        let id = self.0.next_task.get();
        self.0.next_task.set(id + 1);
        let ready = Arc::clone(&self.0.ready);
        let waker = Arc::new(TaskWaker { id, is_queued: AtomicBool::new(false), ready });
        waker.wake_by_ref();
        let task = Task { owner, future: Box::pin(task), waker };
        self.0.tasks.borrow_mut().insert(id, task);
    }

    /// Drops every task of the owners that `is_killed` names.
    pub fn kill(&self, is_killed: impl Fn(Owner) -> bool) {
        let mut tasks = self.0.tasks.borrow_mut();
        let ids: Vec<u64> =
            tasks.iter().filter(|(_, task)| is_killed(task.owner)).map(|(&id, _)| id).collect();
        let killed: Vec<Task> = ids.iter().filter_map(|id| tasks.remove(id)).collect();
        drop(tasks);
        drop(killed);
    }

    /// How many tasks the owner has.
    #[must_use]
    pub fn task_count(&self, is_counted: impl Fn(Owner) -> bool) -> usize {
        self.0.tasks.borrow().values().filter(|task| is_counted(task.owner)).count()
    }

    /// Waits until `deadline` (nanoseconds).
    #[must_use]
    pub fn sleep_until(&self, deadline: u64) -> Sleep {
        Sleep { world: self.clone(), deadline, alarm: None }
    }

    /// Waits for so many nanoseconds.
    #[must_use]
    pub fn sleep(&self, nanoseconds: u64) -> Sleep {
        self.sleep_until(self.now().saturating_add(nanoseconds))
    }

    /// Lets others run.
    pub async fn yield_now(&self) {
        let mut yielded = false;
        std::future::poll_fn(|context| {
            if yielded {
                return Poll::Ready(());
            }
            yielded = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Calls `call` at `at`, between two steps.
    pub fn call_at(&self, at: u64, call: impl FnOnce() + 'static) {
        self.set_alarm(at, Alarm::Call(Box::new(call)));
    }

    fn set_alarm(&self, at: u64, alarm: Alarm) -> (u64, u64) {
        let key = (at, self.0.next_alarm.get());
        self.0.next_alarm.set(key.1 + 1);
        self.0.alarms.borrow_mut().insert(key, alarm);
        key
    }

    /// Does one thing: fires what is due, then polls one ready task, or lets time pass to the next alarm.
    ///
    /// # Panics
    /// When nothing can ever happen again, or the budget of steps is spent.
    pub fn step(&self) {
        let steps = self.0.steps.get() + 1;
        self.0.steps.set(steps);
        assert!(steps <= self.0.steps_max.get(), "livelock: the budget of {steps} steps is spent");
        let cost = self.draw(|random| random.below(2_000));
        self.0.now.set(self.0.now.get() + cost);
        self.fire_due();
        let Some(id) = self.pick() else {
            let next = self.0.alarms.borrow().keys().next().map(|key| key.0);
            let next = next.expect("deadlock: nothing is ready and no alarm is set");
            self.0.now.set(self.0.now.get().max(next));
            return;
        };
        self.poll(id);
    }

    fn fire_due(&self) {
        loop {
            let due = {
                let mut alarms = self.0.alarms.borrow_mut();
                match alarms.first_entry() {
                    Some(first) if first.key().0 <= self.0.now.get() => first.remove(),
                    Some(_) | None => return,
                }
            };
            match due {
                Alarm::Wake(waker) => waker.wake(),
                Alarm::Call(call) => call(),
            }
        }
    }

    fn pick(&self) -> Option<u64> {
        let every = self.0.spurious_every.get();
        if every > 0 && self.draw(|random| random.below(every)) == 0 {
            let tasks = self.0.tasks.borrow();
            if !tasks.is_empty() {
                let index = self.draw(|random| random.index(tasks.len()));
                return tasks.keys().nth(index).copied();
            }
        }
        let mut ready = self.0.ready.lock().unwrap();
        if ready.is_empty() {
            return None;
        }
        let count = ready.len();
        let index = self.draw(|random| match self.0.policy.get() {
            Policy::Newest if random.percent(80) => count - 1,
            Policy::Oldest if random.percent(80) => 0,
            Policy::Uniform | Policy::Newest | Policy::Oldest => random.index(count),
        });
        Some(ready.remove(index))
    }

    fn poll(&self, id: u64) {
        let Some(mut task) = self.0.tasks.borrow_mut().remove(&id) else {
            return;
        };
        self.mark(id);
        task.waker.is_queued.store(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&task.waker));
        if task.future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            self.0.tasks.borrow_mut().insert(id, task);
        }
    }
}

/// See [`World::sleep_until`].
pub struct Sleep {
    world: World,
    deadline: u64,
    alarm: Option<(u64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.deadline <= self.world.now() {
            return Poll::Ready(());
        }
        let alarm = Alarm::Wake(context.waker().clone());
        match self.alarm {
            Some(key) => {
                self.world.0.alarms.borrow_mut().insert(key, alarm);
            }
            None => self.alarm = Some(self.world.set_alarm(self.deadline, alarm)),
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.alarm {
            self.world.0.alarms.borrow_mut().remove(&key);
        }
    }
}
