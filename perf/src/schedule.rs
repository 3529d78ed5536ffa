//! The schedule of an open loop: when each request is due, laid down before the first one is sent.
//!
//! Invariants:
//! 1. Due times depend on the rates and on this share alone, never on how the broker does: what is late is late from its
//!    due time on (no coordinated omission).
//! 2. The shares of all workers together are the whole: worker i of n takes every n-th request, beginning with the i-th.

use crate::clock::{Nanos, SECOND, nanos};

/// A rate and for how long it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    /// Requests per second, all workers together.
    pub(crate) rate: f64,
    /// Seconds.
    pub(crate) seconds: f64,
}

/// Which part of the requests one worker sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// The worker's index.
    pub(crate) index: u32,
    /// The number of workers.
    pub(crate) of: u32,
}

/// The due times of one worker's requests, ascending.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    steps: Vec<Step>,
    share: Share,
    /// The step under way, when it began, and how many of this worker's requests of it have been taken.
    step: usize,
    step_start: Nanos,
    taken: u64,
}

impl Schedule {
    /// The share of `steps` that begin at `start`, one after the other.
    pub(crate) fn new(steps: Vec<Step>, share: Share, start: Nanos) -> Self {
        assert!(share.index < share.of);
        let mut schedule = Self { steps, share, step: 0, step_start: start, taken: 0 };
        schedule.settle();
        schedule
    }

    /// When the next request is due; none after the last step.
    pub(crate) fn due(&self) -> Option<Nanos> {
        let step = self.steps.get(self.step)?;
        Some(self.step_start + self.offset(step))
    }

    /// Goes on to the request after the next one.
    pub(crate) fn advance(&mut self) {
        self.taken += 1;
        self.settle();
    }

    /// The due times before `now` of requests that were not taken.
    pub(crate) fn backlog(mut self, now: Nanos) -> impl Iterator<Item = Nanos> {
        std::iter::from_fn(move || {
            let due = self.due().filter(|&due| due < now)?;
            self.advance();
            Some(due)
        })
    }

    /// Passes over steps that have no more requests.
    fn settle(&mut self) {
        while let Some(step) = self.steps.get(self.step) {
            if step.rate > 0.0 && self.offset(step) < nanos(step.seconds) {
                return;
            }
            self.step_start += nanos(step.seconds);
            self.step += 1;
            self.taken = 0;
        }
    }

    fn offset(&self, step: &Step) -> Nanos {
        let index = self.taken * u64::from(self.share.of) + u64::from(self.share.index);
        (index as f64 * SECOND as f64 / step.rate) as Nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(steps: &[(f64, f64)], share: (u32, u32), start: Nanos, expected_ms: &[u64]) {
        let steps = steps.iter().map(|&(rate, seconds)| Step { rate, seconds }).collect();
        let share = Share { index: share.0, of: share.1 };
        let mut schedule = Schedule::new(steps, share, start);
        let mut found = Vec::new();
        while let Some(due) = schedule.due() {
            found.push(due / 1_000_000);
            schedule.advance();
        }
        assert_eq!(found, expected_ms);
    }

    /// Goal: due times follow from rates and shares alone. Method: small schedules written out by hand.
    #[test]
    fn due_times() {
        check(&[(10.0, 0.5)], (0, 1), 0, &[0, 100, 200, 300, 400]);
        check(&[(10.0, 0.5)], (0, 1), 7_000_000, &[7, 107, 207, 307, 407]);
        check(&[(10.0, 0.5)], (1, 2), 0, &[100, 300]);
        check(&[(10.0, 0.5)], (0, 2), 0, &[0, 200, 400]);
        check(&[(10.0, 0.2), (20.0, 0.2)], (0, 1), 0, &[0, 100, 200, 250, 300, 350]);
        check(&[(10.0, 0.2), (0.0, 1.0), (10.0, 0.1)], (0, 1), 0, &[0, 100, 1_200]);
        check(&[], (0, 1), 0, &[]);
        check(&[(1.0, 0.5)], (1, 2), 0, &[]);
    }

    /// Goal: what is due and was not sent is known. Method: the count at some times of a schedule of 100 ms steps.
    #[test]
    fn backlog() {
        let steps = vec![Step { rate: 10.0, seconds: 1.0 }];
        let mut schedule = Schedule::new(steps, Share { index: 0, of: 1 }, 0);
        let count = |schedule: &Schedule, now| schedule.clone().backlog(now).count();
        assert_eq!(count(&schedule, 0), 0);
        assert_eq!(count(&schedule, 1), 1);
        assert_eq!(count(&schedule, 250_000_000), 3);
        schedule.advance();
        assert_eq!(count(&schedule, 250_000_000), 2);
        assert_eq!(count(&schedule, u64::MAX), 9);
    }

    /// Goal: shares make up the whole. Method: the union of three shares against the one.
    #[test]
    fn shares_make_up_the_whole() {
        let due = |index: u32, of: u32| {
            let steps =
                vec![Step { rate: 997.0, seconds: 0.3 }, Step { rate: 1_501.0, seconds: 0.2 }];
            let mut schedule = Schedule::new(steps, Share { index, of }, 5);
            let mut found = Vec::new();
            while let Some(due) = schedule.due() {
                found.push(due);
                schedule.advance();
            }
            found
        };
        let mut union: Vec<Nanos> = (0..3).flat_map(|index| due(index, 3)).collect();
        union.sort_unstable();
        assert_eq!(union, due(0, 1));
    }
}
