//! The hash by which Kafka's Java clients place keyed records: 32-bit MurmurHash2 with Kafka's seed.
//!
//! Records of one key must lie in one partition whoever produces them, so this may never change.
//! Source: Austin Appleby's MurmurHash2 (public domain).

const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;
const SHIFT: u32 = 24;

/// The hash of `bytes`, as Java's signed integer.
#[must_use]
pub fn murmur2(bytes: &[u8]) -> i32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "Java's lengths have 32 bits; a key is far shorter"
    )]
    let mut hash = SEED ^ bytes.len() as u32;
    let (words, tail) = bytes.as_chunks::<4>();
    for word in words {
        let mut mixed = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        mixed ^= mixed >> SHIFT;
        hash = hash.wrapping_mul(MULTIPLIER) ^ mixed.wrapping_mul(MULTIPLIER);
    }
    if !tail.is_empty() {
        let mut last = [0; 4];
        last[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u32::from_le_bytes(last)).wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    (hash ^ (hash >> 15)).cast_signed()
}

/// The partition of a key among `partition_count`, which is positive: the hash without its sign bit, modulo the count.
///
/// # Panics
/// When `partition_count` is not positive.
#[must_use]
pub fn key_partition(key: &[u8], partition_count: i32) -> i32 {
    assert!(0 < partition_count);
    (murmur2(key) & i32::MAX) % partition_count
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: keys land where Java's clients put them. Method: the values that Kafka's own tests pin.
    #[test]
    fn agrees_with_java() {
        fn check(key: &[u8], expected: i32) {
            assert_eq!(murmur2(key), expected, "{key:?}");
            assert_eq!(
                key_partition(key, i32::MAX),
                (expected & i32::MAX) % i32::MAX
            );
            assert_eq!(key_partition(key, 1), 0);
        }
        check(b"21", -973_932_308);
        check(b"foobar", -790_332_482);
        check(b"a-little-bit-long-string", -985_981_536);
        check(b"a-little-bit-longer-string", -1_486_304_829);
        check(
            b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
            -58_897_971,
        );
        check(b"abc", 479_470_107);
        assert_eq!(key_partition(b"foobar", 1000), 166);
    }
}
