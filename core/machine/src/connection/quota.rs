//! How many connections the process may have, in all and from one address, and how fast they may come.
//!
//! Invariants:
//! 1. What has entered and not left is counted exactly once, in all and at its address.
//! 2. An address that has nothing is forgotten, so that memory follows the connections that are there.
//! 3. Limits that are lowered close nothing by themselves: [`ConnectionQuota::excess`] says how many are too many.
//!
//! Source: Kafka's `ConnectionQuotas`; its windows of samples are one bucket here, which is as exact over a second.

use pelton_model::Monotonic;
use pelton_model::map::Map;

/// The other end's address, without its port; IPv4 as mapped into IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerAddress(pub [u8; 16]);

/// What to do with a connection that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Serve it; it is counted until [`ConnectionQuota::leave`].
    Granted,
    /// Close it: its address has as many as it may have.
    TooManyFromAddress,
    /// Close it: the process has no descriptors for more.
    NoDescriptors,
    /// Hold it, and accept no other until one has left.
    Full,
    /// Hold it until then: they come too fast.
    NotBefore(Monotonic),
}

/// The limits, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaLimits {
    /// In all.
    pub connections_max: u32,
    /// From one address without a limit of its own.
    pub per_address_max: u32,
    /// From single addresses.
    pub overrides: Vec<(PeerAddress, u32)>,
    /// New ones a second.
    pub per_second_max: u32,
}

impl Default for QuotaLimits {
    fn default() -> Self {
        Self {
            connections_max: u32::MAX,
            per_address_max: u32::MAX,
            overrides: Vec::new(),
            per_second_max: u32::MAX,
        }
    }
}

const SECOND: u64 = 1_000_000_000;

/// All connections of the process.
#[derive(Debug)]
pub struct ConnectionQuota {
    limits: QuotaLimits,
    descriptors_max: usize,
    total: usize,
    by_address: Map<PeerAddress, u32>,
    /// When the bucket of new connections will be full again: each one moves it on by a second's share.
    full_at: Monotonic,
}

impl ConnectionQuota {
    /// No connections yet, and no limits but that of descriptors.
    #[must_use]
    pub fn new(descriptors_max: usize) -> Self {
        Self {
            limits: QuotaLimits::default(),
            descriptors_max,
            total: 0,
            by_address: Map::default(),
            full_at: Monotonic(0),
        }
    }

    /// Replaces the limits; who is there stays.
    pub fn set_limits(&mut self, limits: QuotaLimits) {
        self.limits = limits;
    }

    /// Judges a connection from `address`, and counts it when it is granted.
    pub fn enter(&mut self, address: PeerAddress, now: Monotonic) -> Entry {
        if self.descriptors_max <= self.total {
            return Entry::NoDescriptors;
        }
        let held = self.by_address.get(&address).copied().unwrap_or(0);
        if self.limit_of(address) <= held {
            return Entry::TooManyFromAddress;
        }
        if count_of(self.limits.connections_max) <= self.total {
            return Entry::Full;
        }
        if let Some(later) = self.pace(now) {
            return Entry::NotBefore(later);
        }
        self.total += 1;
        self.by_address.insert(address, held + 1);
        Entry::Granted
    }

    /// A connection that was granted has ended.
    ///
    /// # Panics
    /// When it had not entered.
    pub fn leave(&mut self, address: PeerAddress) {
        let held = self.by_address.get(&address).copied().unwrap_or(0);
        assert!(held > 0, "only who entered leaves");
        if held == 1 {
            self.by_address.remove(&address);
        } else {
            self.by_address.insert(address, held - 1);
        }
        self.total -= 1;
    }

    /// Connections that are there.
    #[must_use]
    pub fn total(&self) -> usize {
        self.total
    }

    /// How many connections there are beyond the limit, which was lowered.
    #[must_use]
    pub fn excess(&self) -> usize {
        self.total
            .saturating_sub(count_of(self.limits.connections_max))
    }

    fn limit_of(&self, address: PeerAddress) -> u32 {
        let own = self.limits.overrides.iter().find(|(of, _)| *of == address);
        own.map_or(self.limits.per_address_max, |&(_, limit)| limit)
    }

    /// Takes one from the bucket, which holds a second's connections; or says when there will be one.
    fn pace(&mut self, now: Monotonic) -> Option<Monotonic> {
        let rate = u64::from(self.limits.per_second_max);
        if rate == 0 {
            return Some(Monotonic(now.0.saturating_add(SECOND)));
        }
        let share = SECOND / rate.min(SECOND);
        let full_at = self.full_at.0.max(now.0) + share;
        if now.0 + SECOND < full_at {
            return Some(Monotonic(full_at - SECOND));
        }
        self.full_at = Monotonic(full_at);
        None
    }
}

fn count_of(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PeerAddress = PeerAddress([1; 16]);
    const B: PeerAddress = PeerAddress([2; 16]);

    fn quota(limits: QuotaLimits, entered: &[PeerAddress]) -> ConnectionQuota {
        let mut quota = ConnectionQuota::new(100);
        for &address in entered {
            assert_eq!(quota.enter(address, Monotonic(0)), Entry::Granted);
        }
        quota.set_limits(limits);
        quota
    }

    // Goal: each limit answers in its own way, the nearest first. Method: limits, who is there, who comes.
    #[test]
    fn limits() {
        fn check(
            limits: QuotaLimits,
            entered: &[PeerAddress],
            comes: PeerAddress,
            expected: Entry,
        ) {
            let mut quota = quota(limits, entered);
            assert_eq!(quota.enter(comes, Monotonic(9)), expected);
            let is_counted = usize::from(expected == Entry::Granted);
            assert_eq!(quota.total(), entered.len() + is_counted);
        }
        let all = QuotaLimits::default;
        check(all(), &[A, A, B], A, Entry::Granted);
        check(all(), &[A; 100], B, Entry::NoDescriptors);
        let full = || QuotaLimits {
            connections_max: 2,
            ..all()
        };
        check(full(), &[A], B, Entry::Granted);
        check(full(), &[A, B], B, Entry::Full);
        let few = || QuotaLimits {
            per_address_max: 1,
            overrides: vec![(B, 2)],
            ..all()
        };
        check(few(), &[A], A, Entry::TooManyFromAddress);
        check(few(), &[A, B], B, Entry::Granted);
        check(few(), &[A, B, B], B, Entry::TooManyFromAddress);
        let none = QuotaLimits {
            per_second_max: 0,
            ..all()
        };
        check(none, &[], A, Entry::NotBefore(Monotonic(SECOND + 9)));
    }

    // Goal: a place that is left can be taken, and nothing is kept of who left. Method: enter, leave, enter.
    #[test]
    fn places_come_back() {
        let mut quota = quota(
            QuotaLimits {
                connections_max: 1,
                ..QuotaLimits::default()
            },
            &[A],
        );
        assert_eq!(quota.enter(B, Monotonic(0)), Entry::Full);
        quota.leave(A);
        assert!(quota.by_address.is_empty());
        assert_eq!(quota.enter(B, Monotonic(0)), Entry::Granted);
    }

    // Goal: a lowered limit is told. Method: three that are there, two allowed.
    #[test]
    fn excess() {
        let quota = quota(
            QuotaLimits {
                connections_max: 2,
                ..QuotaLimits::default()
            },
            &[A, A, B],
        );
        assert_eq!(quota.excess(), 1);
    }

    // Goal: a burst of a second's worth enters, then one for each share of a second. Method: ten a second, virtual time.
    #[test]
    fn pace() {
        let mut quota = quota(
            QuotaLimits {
                per_second_max: 10,
                ..QuotaLimits::default()
            },
            &[],
        );
        let start = 5 * SECOND;
        for _ in 0..10 {
            assert_eq!(quota.enter(A, Monotonic(start)), Entry::Granted);
        }
        let later = Monotonic(start + SECOND / 10);
        assert_eq!(quota.enter(A, Monotonic(start)), Entry::NotBefore(later));
        assert_eq!(quota.enter(A, later), Entry::Granted);
        assert!(matches!(quota.enter(A, later), Entry::NotBefore(_)));
        assert_eq!(
            quota.enter(A, Monotonic(start + 9 * SECOND)),
            Entry::Granted
        );
    }
}
