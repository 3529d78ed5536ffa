//! Log lines that a client, or a failing disk, can cause as often as it likes: one in a while is written, the rest are counted.

use std::cell::Cell;

use pelton_model::Monotonic;
use pelton_model::limits::LOG_REPEAT_MS_MIN;

/// One kind of line of one shard.
#[derive(Debug, Default)]
pub(crate) struct Repeat {
    /// Before this time no line is written.
    next: Cell<Option<Monotonic>>,
    untold: Cell<u64>,
}

/// The kinds.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    /// A connection is closed for bytes that are no request.
    pub(crate) malformed: Repeat,
    /// A connection cannot be accepted.
    pub(crate) accept: Repeat,
    /// A coordinator's topic cannot be created.
    pub(crate) coordinators: Repeat,
    /// Markers of a transaction cannot be written.
    pub(crate) markers: Repeat,
    /// A connection is refused, or held up.
    pub(crate) refused: Repeat,
    /// A log cannot be read.
    pub(crate) read: Repeat,
}

impl Repeat {
    /// Whether to write the line now: then gives how many were left out since the last one.
    pub(crate) fn tell(&self, now: Monotonic) -> Option<u64> {
        if self.next.get().is_some_and(|next| now < next) {
            self.untold.set(self.untold.get() + 1);
            return None;
        }
        self.next.set(Some(now.plus_ms(LOG_REPEAT_MS_MIN)));
        Some(self.untold.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: a line in a while, and none is lost count of. Method: attempts over time.
    #[test]
    fn tells_how_many_it_left_out() {
        let repeat = Repeat::default();
        let start = Monotonic(7).plus_ms(1);
        let check = |after_ms: u64, expected: Option<u64>| {
            assert_eq!(repeat.tell(start.plus_ms(after_ms)), expected);
        };
        check(0, Some(0));
        check(1, None);
        check(LOG_REPEAT_MS_MIN - 1, None);
        check(LOG_REPEAT_MS_MIN, Some(2));
        check(3 * LOG_REPEAT_MS_MIN, Some(0));
    }
}
