//! Waking a shard's tasks from another thread: a list of them, and an eventfd that ends the shard's sleep.
//!
//! 1. No lost wake-up: who rings adds to the list, then looks whether the shard sleeps; the shard says that it sleeps, then
//!    looks at the list once more. Both sides are sequentially consistent, so one of them sees the other.
//! 2. Only the first ring for a sleeping shard pays for a system call; a shard that is awake costs none.
//! 3. After the shard has ended nothing is taken in: its tasks are gone, and what is left of one belongs to its thread.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, PoisonError};

use rustix::event::EventfdFlags;

use super::queue::Entry;

#[derive(Debug, Default)]
struct Woken {
    entries: Vec<Entry>,
    is_closed: bool,
}

/// What other threads see of a shard.
#[derive(Debug)]
pub(super) struct Bell {
    woken: Mutex<Woken>,
    /// The list is not empty; readable without the lock.
    is_rung: AtomicBool,
    is_asleep: AtomicBool,
    event: OwnedFd,
}

impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        let event = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self {
            woken: Mutex::default(),
            is_rung: AtomicBool::new(false),
            is_asleep: AtomicBool::new(false),
            event,
        })
    }

    /// What the shard polls while it sleeps.
    pub(super) fn event(&self) -> &OwnedFd {
        &self.event
    }

    /// Hands over a task that is to run; from any thread.
    pub(super) fn ring(&self, entry: Entry) {
        {
            let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
            if woken.is_closed {
                // Dropping it would drop its future on this thread. There is one at most for each wake-up that crosses the
                // end of its shard.
                std::mem::forget(entry);
                return;
            }
            woken.entries.push(entry);
            self.is_rung.store(true, Ordering::Release);
        }
        fence(Ordering::SeqCst);
        if self.is_asleep.load(Ordering::Relaxed) && self.is_asleep.swap(false, Ordering::AcqRel) {
            // Fails only when the counter is full: then it has been rung all the more.
            rustix::io::write(&self.event, &1_u64.to_ne_bytes()).unwrap_or(0);
        }
    }

    /// Whether something was handed over and not yet taken.
    pub(super) fn is_rung(&self) -> bool {
        self.is_rung.load(Ordering::Relaxed)
    }

    /// Moves what was handed over behind what is in `entries`. Owner only.
    pub(super) fn take(&self, entries: &mut Vec<Entry>) {
        if !self.is_rung() {
            return;
        }
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_rung.store(false, Ordering::Relaxed);
        entries.append(&mut woken.entries);
    }

    /// Says that the shard is about to sleep; `false` when it must not. Owner only.
    pub(super) fn fall_asleep(&self) -> bool {
        self.is_asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.is_rung() {
            self.wake_up();
            return false;
        }
        true
    }

    /// Says that the shard is awake. Owner only.
    pub(super) fn wake_up(&self) {
        self.is_asleep.store(false, Ordering::Relaxed);
    }

    /// Takes what is left, and nothing any more from now on. Owner only.
    pub(super) fn close(&self) -> Vec<Entry> {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        woken.is_closed = true;
        std::mem::take(&mut woken.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: a ring is never slept over, and only a sleeping shard is paid for. Method: both orders, by hand.
    #[test]
    fn rings_are_remembered() {
        let bell = Bell::new().unwrap();
        let count = |bell: &Bell| {
            let mut count = [0; 8];
            rustix::io::read(bell.event(), &mut count).map_or(0, |_| u64::from_ne_bytes(count))
        };
        bell.ring(Entry::Main);
        assert!(!bell.fall_asleep());
        assert_eq!(count(&bell), 0);
        let mut entries = Vec::new();
        bell.take(&mut entries);
        assert_eq!(entries.len(), 1);
        assert!(bell.fall_asleep());
        bell.ring(Entry::Main);
        bell.ring(Entry::Main);
        assert_eq!(count(&bell), 1);
        bell.wake_up();
        bell.take(&mut entries);
        assert_eq!(entries.len(), 3);
        assert!(!bell.is_rung());
        bell.ring(Entry::Main);
        assert_eq!(bell.close().len(), 1);
        bell.ring(Entry::Main);
        assert!(bell.close().is_empty());
    }
}
