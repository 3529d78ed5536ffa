//! How far a start has come with the logs of this shard: told while it takes long, and there for whoever asks.
//!
//! Invariants:
//! 1. A start that takes longer than [`TELL_MS`] says what it does, every [`TELL_MS`], with what is left.
//! 2. The shard's other tasks get their turn at least every [`TURN_MS`] between logs (and within a long scan, see `storage`): a stop and a
//!    start that failed elsewhere are noticed.
//!
//! Not here: the opening itself (`image`).

use std::cell::Cell;
use std::rc::Rc;

use pelton_model::Monotonic;
use pelton_transport::net::{Net, TaskClass};

use super::Shard;
use crate::env::Env;

/// How often a long start tells how far it is.
const TELL_MS: u64 = 2_000;
/// How long logs are opened without a pause for other tasks.
const TURN_MS: u64 = 10;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    total: Cell<usize>,
    done: Cell<usize>,
    /// Bytes whose checksums were verified.
    scanned_bytes: Cell<u64>,
    began: Cell<Option<Monotonic>>,
    turn: Cell<Option<Monotonic>>,
}

/// How far the opening of a shard's logs is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpeningProgress {
    /// Logs that are open (or were given up).
    pub done: usize,
    /// Logs that the shard owns.
    pub total: usize,
    /// Bytes verified so far.
    pub scanned_bytes: u64,
    /// Milliseconds left if the rest goes like what is done; unknown before the first log.
    pub left_ms: Option<u64>,
}

impl OpeningProgress {
    fn percent(&self) -> usize {
        self.done * 100 / self.total.max(1)
    }
}

impl Progress {
    /// Adds what a log took.
    pub(crate) fn add_scanned(&self, bytes: u64) {
        self.scanned_bytes.set(self.scanned_bytes.get() + bytes);
    }

    fn elapsed_ms(&self, now: Monotonic) -> u64 {
        const NANOSECONDS: u64 = 1_000_000;
        self.began
            .get()
            .map_or(0, |began| now.since(began) / NANOSECONDS)
    }

    /// How far it is.
    pub(crate) fn at(&self, now: Monotonic) -> OpeningProgress {
        let (done, total) = (self.done.get(), self.total.get());
        let elapsed = self.elapsed_ms(now);
        let left = (total - done.min(total)) as u64;
        OpeningProgress {
            done,
            total,
            scanned_bytes: self.scanned_bytes.get(),
            left_ms: (done > 0).then(|| elapsed.saturating_mul(left) / done as u64),
        }
    }
}

impl<E: Env> Shard<E> {
    /// The start goes on to open so many logs.
    pub(crate) fn begin_opening(self: &Rc<Self>, total: usize) {
        let now = self.net.now();
        self.opening.total.set(total);
        self.opening.began.set(Some(now));
        self.opening.turn.set(Some(now));
        let shard = Rc::clone(self);
        self.net.spawn(TaskClass::Background, async move {
            loop {
                let next = shard.net.now().plus_ms(TELL_MS);
                shard.net.sleep_until(next).await;
                let at = shard.opening.at(shard.net.now());
                if at.done >= at.total || shard.is_abandoned.get() || shard.is_stopping.get() {
                    return;
                }
                let seconds_left = at
                    .left_ms
                    .map_or(-1, |ms| i64::try_from(ms / 1000).unwrap_or(i64::MAX));
                tracing::info!(
                    shard = shard.id.0,
                    percent = at.percent(),
                    done = at.done,
                    total = at.total,
                    scanned_bytes = at.scanned_bytes,
                    seconds_left,
                    "opening the logs"
                );
            }
        });
    }

    /// Whether the start goes on; lets other tasks run from time to time.
    pub(crate) async fn goes_on_opening(&self) -> bool {
        let now = self.net.now();
        let turn = self.opening.turn.get();
        if turn.is_some_and(|turn| turn.plus_ms(TURN_MS) <= now) {
            self.net.yield_now().await;
            self.opening.turn.set(Some(self.net.now()));
        }
        !self.is_abandoned.get() && !self.is_stopping.get()
    }

    /// One more log is open.
    pub(crate) fn on_log_opened(&self) {
        self.opening.done.set(self.opening.done.get() + 1);
        let at = self.opening.at(self.net.now());
        let took_ms = self.opening.elapsed_ms(self.net.now());
        if at.done == at.total && TELL_MS <= took_ms {
            tracing::info!(
                shard = self.id.0,
                logs = at.total,
                scanned_bytes = at.scanned_bytes,
                took_ms,
                "opened the logs"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: the share and the time that is left. Method: a table.
    #[test]
    fn what_is_left() {
        fn check(done: usize, total: usize, elapsed_ms: u64, expected: (usize, Option<u64>)) {
            let progress = Progress::default();
            progress.total.set(total);
            progress.done.set(done);
            progress.began.set(Some(Monotonic(0)));
            let at = progress.at(Monotonic(0).plus_ms(elapsed_ms));
            assert_eq!((at.percent(), at.left_ms), expected);
        }
        check(0, 0, 10, (0, None));
        check(0, 10, 10, (0, None));
        check(1, 10, 10, (10, Some(90)));
        check(5, 10, 400, (50, Some(400)));
        check(10, 10, 400, (100, Some(0)));
    }
}
