//! Which partition of `__consumer_offsets` holds a group.
//!
//! 1. The rule is Kafka's for ever: a log that it wrote must find its groups here, and the other way round.

use pelton_model::PartitionId;

/// The partition that coordinates `group_id`, out of `partitions`.
///
/// # Panics
/// When `partitions` is not positive.
#[must_use]
pub fn partition_of(group_id: &str, partitions: i32) -> PartitionId {
    assert!(partitions > 0);
    // Kafka's `Utils.abs`: the least integer has no positive counterpart and counts as 0.
    let hash = java_hash(group_id).checked_abs().unwrap_or(0);
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

    // Goal: groups are where Kafka puts them. Method: hashes known from Java, among them the least integer.
    #[test]
    fn partitions_are_kafkas() {
        fn check(group_id: &str, hash: i32, partition: i32) {
            assert_eq!(java_hash(group_id), hash, "{group_id}");
            assert_eq!(
                partition_of(group_id, 50),
                PartitionId(partition),
                "{group_id}"
            );
        }
        check("", 0, 0);
        check("a", 97, 47);
        check("hello", 99_162_322, 22);
        check("polygenelubricants", i32::MIN, 0);
        // Two UTF-16 units, 0xd83e and 0xdd80.
        check("\u{1f980}", 55_358 * 31 + 56_704, 2);
    }
}
