//! What coordinators of all kinds share: clocks, the names of requests under way, and which partition coordinates what.
//!
//! 1. The rule of [`partition_of`] is Kafka's for ever: a log that it wrote must find its groups and transactions here, and the
//!    other way round.

use crate::id::{Monotonic, PartitionId, Timestamp};

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// For deadlines.
    pub clock: Monotonic,
    /// For what is written.
    pub time: Timestamp,
}

/// Names a request whose reply may come later; unique on its coordinator while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// The partition that coordinates a group or a transactional id, out of `partitions`.
///
/// # Panics
/// When `partitions` is not positive.
#[must_use]
pub fn partition_of(name: &str, partitions: i32) -> PartitionId {
    assert!(partitions > 0);
    // Kafka's `Utils.abs`: the least integer has no positive counterpart and counts as 0.
    let hash = java_hash(name).checked_abs().unwrap_or(0);
    PartitionId(hash % partitions)
}

/// Java's `String.hashCode`: over UTF-16 units.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0_i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: groups and transactions are where Kafka puts them. Method: hashes known from Java, among them the least integer.
    #[test]
    fn partitions_are_kafkas() {
        fn check(name: &str, hash: i32, partition: i32) {
            assert_eq!(java_hash(name), hash, "{name}");
            assert_eq!(partition_of(name, 50), PartitionId(partition), "{name}");
        }
        check("", 0, 0);
        check("a", 97, 47);
        check("hello", 99_162_322, 22);
        check("polygenelubricants", i32::MIN, 0);
        // Two UTF-16 units, 0xd83e and 0xdd80.
        check("\u{1f980}", 55_358 * 31 + 56_704, 2);
    }
}
