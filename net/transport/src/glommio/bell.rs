//! Waking a shard from another thread, by an eventfd of our own on the shard's main ring.
//!
//! The runtime's own way (a waker used on a foreign thread) is not for traffic: its wake-up can arrive just before a
//! shard looks at its ready tasks, which glommio-ng 0.12 takes for "nothing to run"; it then sleeps with tasks ready,
//! until something else happens (`executor.rs`).
//!
//! 1. Ringing is remembered: no ring is lost, several before the shard looks are one.
//! 2. Only the first ring pays for the system call.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::thread::{self, ThreadId};

use glommio::io::PollableFd;
use rustix::event::EventfdFlags;

/// A shard's bell, rung from any thread.
#[derive(Debug)]
pub(crate) struct Bell {
    owner: ThreadId,
    event: Arc<OwnedFd>,
    rung: AtomicBool,
    woken: Mutex<Vec<Arc<BellWaker>>>,
}

/// A task of the bell's shard that other threads may wake.
#[derive(Debug)]
pub(crate) struct BellWaker {
    bell: Arc<Bell>,
    task: Waker,
}

impl BellWaker {
    pub(crate) fn new(bell: &Arc<Bell>, task: &Waker) -> Arc<Self> {
        Arc::new(Self {
            bell: Arc::clone(bell),
            task: task.clone(),
        })
    }

    /// Whether this wakes the same task as `task`.
    pub(crate) fn will_wake(&self, task: &Waker) -> bool {
        self.task.will_wake(task)
    }

    /// Wakes the task, from any thread.
    pub(crate) fn wake(self: &Arc<Self>) {
        if thread::current().id() == self.bell.owner {
            self.task.wake_by_ref();
        } else {
            self.bell.ring(Arc::clone(self));
        }
    }
}

impl Bell {
    fn ring(&self, waker: Arc<BellWaker>) {
        self.woken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(waker);
        if !self.rung.swap(true, Ordering::AcqRel) {
            // Fails only when the counter is full: then it has been rung all the more.
            rustix::io::write(&*self.event, &1_u64.to_ne_bytes()).unwrap_or(0);
        }
    }

    /// Takes the ring back, then wakes who was rung for; a ring in between counts anew.
    fn answer(&self) {
        let mut count = [0; 8];
        // EAGAIN: a ring is on its way.
        rustix::io::read(&*self.event, &mut count).unwrap_or(0);
        self.rung.store(false, Ordering::SeqCst);
        let woken = std::mem::take(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner));
        for waker in woken {
            waker.task.wake_by_ref();
        }
    }
}

/// The shard's side of its bell.
#[derive(Debug)]
pub(crate) struct BellListener {
    bell: Arc<Bell>,
    event: PollableFd<Arc<OwnedFd>>,
}

impl BellListener {
    /// Makes the bell of the current shard.
    pub(crate) fn new() -> io::Result<Self> {
        let event = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let event = Arc::new(event);
        let bell = Bell {
            owner: thread::current().id(),
            event: Arc::clone(&event),
            rung: AtomicBool::new(false),
            woken: Mutex::new(Vec::new()),
        };
        Ok(Self {
            bell: Arc::new(bell),
            event: PollableFd::new(event)?,
        })
    }

    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    /// Answers one round of rings.
    pub(crate) async fn answer(&self) -> io::Result<()> {
        self.event.readable().await?;
        self.bell.answer();
        Ok(())
    }

    /// Goes through the ring and back: the reactor looks at everything else meanwhile.
    pub(crate) async fn pass(&self) -> io::Result<()> {
        Ok(self.event.writable().await?)
    }
}
