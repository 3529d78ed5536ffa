//! A request to stop that reaches every shard, and a meeting point of all shards for the steps of a stop.
//!
//! 1. A request is never withdrawn; waiting for it after it was made returns at once.
//! 2. A shard that has ended counts as gone: a meeting with it ends for the others, who are told.
//!
//! Not here: the order of a stop. It is the broker's: listeners, long polls, appends, final sync, mesh.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

#[derive(Default)]
struct Waiters {
    next_id: u64,
    wakers: BTreeMap<u64, Waker>,
}

#[derive(Default)]
struct StopState {
    requested: AtomicBool,
    waiters: Mutex<Waiters>,
}

/// Asks all shards to stop, from any thread; clones ask the same shards.
#[derive(Clone, Default)]
pub struct StopHandle(Arc<StopState>);

impl StopHandle {
    /// A handle for shards yet to be started.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks; asking again changes nothing.
    pub fn request(&self) {
        self.0.requested.store(true, Ordering::SeqCst);
        let woken = std::mem::take(&mut lock(&self.0.waiters).wakers);
        woken.into_values().for_each(Waker::wake);
    }

    /// Whether a stop was asked for.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.requested.load(Ordering::SeqCst)
    }

    /// Waits until a stop is asked for. Any number of tasks may wait.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    #[must_use]
    pub fn requested(&self) -> StopRequested {
        StopRequested {
            state: Arc::clone(&self.0),
            id: None,
        }
    }
}

impl fmt::Debug for StopHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StopHandle")
            .field(&self.is_requested())
            .finish()
    }
}

/// The future of [`StopHandle::requested`].
pub struct StopRequested {
    state: Arc<StopState>,
    id: Option<u64>,
}

impl Future for StopRequested {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let state = Arc::clone(&self.state);
        // The flag is looked at under the lock that the request takes after setting it: no request is missed.
        let mut waiters = lock(&state.waiters);
        if state.requested.load(Ordering::SeqCst) {
            return Poll::Ready(());
        }
        let id = self.id.unwrap_or_else(|| {
            waiters.next_id += 1;
            waiters.next_id
        });
        self.id = Some(id);
        waiters.wakers.insert(id, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for StopRequested {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            lock(&self.state.waiters).wakers.remove(&id);
        }
    }
}

#[derive(Default)]
struct MeetingState {
    /// Shards that have come to the current meeting.
    arrived: u16,
    /// Shards that have ended.
    gone: u16,
    /// Meetings held.
    meetings: u64,
    wakers: Vec<Waker>,
}

/// Where the shards of a process wait for each other; one per run.
pub(crate) struct Meeting {
    shard_count: u16,
    state: Mutex<MeetingState>,
}

impl Meeting {
    pub(crate) fn new(shard_count: u16) -> Arc<Self> {
        Arc::new(Self {
            shard_count,
            state: Mutex::default(),
        })
    }

    /// Waits until every shard has come to its call of the same number; `false` when one has ended instead.
    pub(crate) fn arrive(self: &Arc<Self>) -> Arrival {
        Arrival {
            meeting: Arc::clone(self),
            number: None,
        }
    }

    /// Says that a shard has ended.
    pub(crate) fn leave(&self) {
        let mut state = lock(&self.state);
        state.gone += 1;
        assert!(state.gone <= self.shard_count);
        let woken = std::mem::take(&mut state.wakers);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }
}

/// The future of one shard's arrival at a meeting.
pub(crate) struct Arrival {
    meeting: Arc<Meeting>,
    number: Option<u64>,
}

impl Future for Arrival {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        let meeting = Arc::clone(&self.meeting);
        let mut state = lock(&meeting.state);
        let number = match self.number {
            Some(number) => number,
            None => {
                let number = state.meetings;
                self.number = Some(number);
                state.arrived += 1;
                assert!(
                    state.arrived <= meeting.shard_count,
                    "one arrival per shard"
                );
                if state.arrived == meeting.shard_count {
                    state.arrived = 0;
                    state.meetings += 1;
                    let woken = std::mem::take(&mut state.wakers);
                    drop(state);
                    woken.into_iter().for_each(Waker::wake);
                    return Poll::Ready(true);
                }
                number
            }
        };
        if state.meetings > number {
            return Poll::Ready(true);
        }
        if state.gone > 0 {
            return Poll::Ready(false);
        }
        state.wakers.push(context.waker().clone());
        Poll::Pending
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds one of these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    // Goal: a request reaches waiters of before and after, and dropped waiters leave nothing. Method: by hand.
    #[test]
    fn stop_reaches_all() {
        let stop = StopHandle::new();
        let mut early = pin!(stop.requested());
        assert!(poll_once(early.as_mut()).is_pending());
        {
            let mut dropped = pin!(stop.requested());
            assert!(poll_once(dropped.as_mut()).is_pending());
            assert_eq!(lock(&stop.0.waiters).wakers.len(), 2);
        }
        assert_eq!(lock(&stop.0.waiters).wakers.len(), 1);
        stop.request();
        assert!(poll_once(early.as_mut()).is_ready());
        assert!(poll_once(pin!(stop.requested())).is_ready());
    }

    // Goal: meetings end when all came, in order, or when one is gone. Method: two shards by hand.
    #[test]
    fn meetings() {
        let meeting = Meeting::new(2);
        for _ in 0..2 {
            let mut first = pin!(meeting.arrive());
            assert!(poll_once(first.as_mut()).is_pending());
            assert_eq!(poll_once(pin!(meeting.arrive())), Poll::Ready(true));
            assert_eq!(poll_once(first.as_mut()), Poll::Ready(true));
        }
        let mut alone = pin!(meeting.arrive());
        assert!(poll_once(alone.as_mut()).is_pending());
        meeting.leave();
        assert_eq!(poll_once(alone.as_mut()), Poll::Ready(false));
    }
}
