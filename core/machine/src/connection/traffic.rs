//! Whose partitions a connection's requests go to, and whether it should move there.
//!
//! A request to a partition of another shard costs two messages and, where that shard sleeps, two wake-ups; a connection whose
//! requests go to one shard is better served by it.
//!
//! Invariants:
//! 1. A connection moves only when nine tenths of its requests went to one other shard, in two windows in a row.
//! 2. After each move, or refusal, it rests; each rest is twice as long as the one before, so that traffic that changes its mind
//!    does not keep its connection on the way.
//!
//! Not here: whether the other shard can take more.

use pelton_model::limits::{MOVE_REQUESTS_MIN, MOVE_REST_MS_MAX, MOVE_REST_MS_MIN};
use pelton_model::{Monotonic, ShardId};

/// See the module. It travels with its connection.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// The shard that most requests seem to go to, and by how many it leads over all others together.
    favourite: ShardId,
    lead: u32,
    /// Requests since the window began, and those for the favourite.
    requests: u32,
    for_favourite: u32,
    window_start: Monotonic,
    /// The favourite had its share in the window before.
    is_confirmed: bool,
    rests_until: Monotonic,
    rest_ms: u64,
}

impl Traffic {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(now: Monotonic) -> Self {
        Self {
            favourite: ShardId(0),
            lead: 0,
            requests: 0,
            for_favourite: 0,
            window_start: now,
            is_confirmed: false,
            rests_until: now,
            rest_ms: MOVE_REST_MS_MIN,
        }
    }

    /// Takes note of a request for partitions of `owner`; one for several owners is noted for each.
    pub fn note(&mut self, owner: ShardId) {
        self.requests += 1;
        if owner == self.favourite {
            self.for_favourite += 1;
            self.lead += 1;
        } else if self.lead == 0 {
            self.favourite = owner;
            self.for_favourite = 1;
            self.lead = 1;
            self.is_confirmed = false;
        } else {
            self.lead -= 1;
        }
    }

    /// Whether enough is known for a verdict.
    #[must_use]
    pub fn is_telling(&self) -> bool {
        MOVE_REQUESTS_MIN <= self.requests
    }

    /// Where to move from `here`, if a window of `window_ms` has ended that says so. Ask between requests.
    pub fn verdict(&mut self, here: ShardId, window_ms: u64, now: Monotonic) -> Option<ShardId> {
        if !self.is_telling() || now < self.window_start.plus_ms(window_ms) {
            return None;
        }
        let has_share = u64::from(self.requests) * 9 <= u64::from(self.for_favourite) * 10;
        let was_confirmed = self.is_confirmed;
        self.is_confirmed = has_share;
        self.lead = u32::from(has_share);
        self.requests = 0;
        self.for_favourite = 0;
        self.window_start = now;
        let moves = has_share && was_confirmed && self.favourite != here && self.rests_until <= now;
        moves.then_some(self.favourite)
    }

    /// It has moved, or was refused.
    pub fn rest(&mut self, now: Monotonic) {
        self.rests_until = now.plus_ms(self.rest_ms);
        self.rest_ms = (self.rest_ms * 2).min(MOVE_REST_MS_MAX);
        self.is_confirmed = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: ShardId = ShardId(0);
    const WINDOW_MS: u64 = 100;

    /// Requests of one window, by owner.
    fn window(traffic: &mut Traffic, owners: &[u16], from_ms: u64) -> Option<ShardId> {
        for round in 0..MOVE_REQUESTS_MIN {
            let owner = owners[round as usize % owners.len()];
            traffic.note(ShardId(owner));
        }
        let end = Monotonic(0).plus_ms(from_ms + WINDOW_MS);
        traffic.verdict(HERE, WINDOW_MS, end)
    }

    // Goal: only traffic that goes elsewhere, steadily, moves a connection. Method: the owners of three windows' requests, and
    // which verdicts follow.
    #[test]
    fn verdicts() {
        fn check(windows: [&[u16]; 3], expected: [Option<u16>; 3]) {
            let mut traffic = Traffic::new(Monotonic(0));
            for (index, (owners, expected)) in (0..).zip(windows.into_iter().zip(expected)) {
                let verdict = window(&mut traffic, owners, index * WINDOW_MS);
                assert_eq!(verdict, expected.map(ShardId), "{windows:?} {index}");
            }
        }
        let mostly: &[u16] = &[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2];
        check([&[1], &[1], &[1]], [None, Some(1), Some(1)]);
        check([&[0], &[0], &[0]], [None, None, None]);
        check([mostly, mostly, mostly], [None, Some(1), Some(1)]);
        check([&[1, 2], &[1, 2], &[1, 2]], [None, None, None]);
        check([&[1], &[2], &[1]], [None, None, None]);
        check([&[1], &[1, 0], &[1]], [None, None, None]);
    }

    // Goal: few requests say nothing, and no window ends early. Method: one request short; half a window.
    #[test]
    fn windows_are_whole() {
        let mut traffic = Traffic::new(Monotonic(0));
        for _ in 1..MOVE_REQUESTS_MIN {
            traffic.note(ShardId(1));
        }
        traffic.is_confirmed = true;
        let late = Monotonic(0).plus_ms(10 * WINDOW_MS);
        assert_eq!(traffic.verdict(HERE, WINDOW_MS, late), None);
        traffic.note(ShardId(1));
        let early = Monotonic(0).plus_ms(WINDOW_MS / 2);
        assert_eq!(traffic.verdict(HERE, WINDOW_MS, early), None);
        assert_eq!(traffic.verdict(HERE, WINDOW_MS, late), Some(ShardId(1)));
    }

    // Goal: whoever moved stays for a while, longer each time. Method: steady traffic elsewhere after one and two moves.
    #[test]
    fn rests() {
        let mut traffic = Traffic::new(Monotonic(0));
        let mut at = 0;
        for rest_ms in [MOVE_REST_MS_MIN, 2 * MOVE_REST_MS_MIN] {
            traffic.rest(Monotonic(0).plus_ms(at));
            for _ in 0..3 {
                assert_eq!(window(&mut traffic, &[1], at), None);
                at += WINDOW_MS;
            }
            at += rest_ms;
            assert_eq!(window(&mut traffic, &[1], at), Some(ShardId(1)));
        }
    }
}
