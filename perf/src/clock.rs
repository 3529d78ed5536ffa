//! One monotonic clock for everything in the process, so that a time written into a payload can be compared with the time at
//! which another thread reads it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds since the clock was made.
pub(crate) type Nanos = u64;

/// Nanoseconds in a second.
pub(crate) const SECOND: Nanos = 1_000_000_000;

/// A monotonic clock. Copies tell the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    /// A clock that begins now.
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }

    /// The time.
    pub(crate) fn now(self) -> Nanos {
        // 2⁶⁴ nanoseconds are 584 years.
        self.0.elapsed().as_nanos() as Nanos
    }

    /// Sleeps until `at`; not at all when it has passed.
    pub(crate) fn sleep_until(self, at: Nanos) {
        let now = self.now();
        if now < at {
            std::thread::sleep(Duration::from_nanos(at - now));
        }
    }
}

/// Milliseconds since the Unix epoch: what record timestamps are.
pub(crate) fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as i64
}

/// Whole and fractional seconds as nanoseconds; what is negative or no number is 0.
pub(crate) fn nanos(seconds: f64) -> Nanos {
    (seconds * SECOND as f64) as Nanos
}
