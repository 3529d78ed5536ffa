//! Deadlines of a coordinator, in one ordered set.
//!
//! 1. Whoever arms a deadline keeps it, and disarms by it: the set holds nothing stale.
//! 2. A deadline that moves later, as a session's does with every heartbeat, is armed once and looked at when it is due
//!    ([`Session`]); so a heartbeat touches no ordered set.

use std::collections::BTreeSet;

use pelton_model::{Monotonic, Str};

/// What is due.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// A member may have been silent for too long.
    Session {
        /// The group.
        group_id: Str,
        /// The member, or one that was sent back for its id.
        member_id: Str,
    },
    /// A classic group has waited long enough for its members to join.
    Join {
        /// The group.
        group_id: Str,
    },
    /// A classic group has waited long enough for its members to ask for their assignment.
    Sync {
        /// The group.
        group_id: Str,
    },
    /// A member of a consumer group may have been silent for too long.
    ConsumerSession {
        /// The group.
        group_id: Str,
        /// The member.
        member_id: Str,
    },
    /// A member of a consumer group may have taken too long to do what it must.
    ConsumerLimit {
        /// The group.
        group_id: Str,
        /// The member.
        member_id: Str,
    },
    /// A consumer group's next target assignment may be computed.
    Assign {
        /// The group.
        group_id: Str,
    },
    /// Offsets and groups that nobody uses are looked for.
    Expiration,
    /// Groups that were to be deleted are left.
    Deletion,
}

/// All deadlines.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeSet<(Monotonic, Due)>,
}

impl Timers {
    /// Arms a deadline.
    pub(super) fn arm(&mut self, at: Monotonic, due: Due) {
        self.due.insert((at, due));
    }

    /// Disarms a deadline.
    pub(super) fn disarm(&mut self, at: Monotonic, due: Due) {
        self.due.remove(&(at, due));
    }

    /// The first deadline.
    pub(super) fn next(&self) -> Option<Monotonic> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes the first deadline off when it is due.
    pub(super) fn pop(&mut self, now: Monotonic) -> Option<(Monotonic, Due)> {
        if self.next()? <= now {
            self.due.pop_first()
        } else {
            None
        }
    }
}

/// How long a member may still be silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Session {
    /// When it has been silent for too long; `None` while nothing is expected of it.
    deadline: Option<Monotonic>,
    /// When that is looked at; not later than the deadline.
    armed: Option<Monotonic>,
}

impl Session {
    /// Gives the member until `deadline`.
    #[inline]
    pub(super) fn extend(
        &mut self,
        timers: &mut Timers,
        deadline: Monotonic,
        due: impl Fn() -> Due,
    ) {
        self.deadline = Some(deadline);
        match self.armed {
            Some(armed) if armed <= deadline => {}
            Some(armed) => {
                timers.disarm(armed, due());
                timers.arm(deadline, due());
                self.armed = Some(deadline);
            }
            None => {
                timers.arm(deadline, due());
                self.armed = Some(deadline);
            }
        }
    }

    /// Expects nothing more of the member.
    pub(super) fn end(&mut self, timers: &mut Timers, due: impl Fn() -> Due) {
        if let Some(armed) = self.armed.take() {
            timers.disarm(armed, due());
        }
        self.deadline = None;
    }

    /// Looks at a deadline that came off the set: whether it has passed. If not, it is armed again.
    pub(super) fn is_over(
        &mut self,
        timers: &mut Timers,
        at: Monotonic,
        now: Monotonic,
        due: impl Fn() -> Due,
    ) -> bool {
        if self.armed != Some(at) {
            return false;
        }
        self.armed = None;
        match self.deadline {
            None => false,
            Some(deadline) if now < deadline => {
                self.extend(timers, deadline, due);
                false
            }
            Some(_) => {
                self.deadline = None;
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due() -> Due {
        Due::Join {
            group_id: Str::new_static("g"),
        }
    }

    // Goal: a session ends when its last extension does, no earlier and once. Method: extend, pop, look.
    #[test]
    fn sessions_follow_their_last_extension() {
        let mut timers = Timers::default();
        let mut session = Session::default();
        session.extend(&mut timers, Monotonic(10), due);
        session.extend(&mut timers, Monotonic(25), due);
        assert_eq!(timers.next(), Some(Monotonic(10)));
        let (at, _) = timers.pop(Monotonic(12)).unwrap();
        assert!(!session.is_over(&mut timers, at, Monotonic(12), due));
        assert_eq!(timers.next(), Some(Monotonic(25)));
        // A shorter deadline moves the entry.
        session.extend(&mut timers, Monotonic(20), due);
        assert_eq!(timers.next(), Some(Monotonic(20)));
        assert_eq!(timers.pop(Monotonic(19)), None);
        let (at, _) = timers.pop(Monotonic(20)).unwrap();
        assert!(session.is_over(&mut timers, at, Monotonic(20), due));
        assert_eq!(timers.next(), None);
        session.extend(&mut timers, Monotonic(30), due);
        session.end(&mut timers, due);
        assert_eq!(timers.next(), None);
    }
}
