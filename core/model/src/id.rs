//! Newtypes of Kafka's ids, offsets, epochs and times.
//!
//! Each wraps exactly the wire's integer. Arithmetic is explicit, so that an offset is never added to an epoch.

use std::fmt;

macro_rules! integer_id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

integer_id! {
    /// A record's position in a partition; −1 where the wire says "unknown".
    Offset(i64)
}
integer_id! {
    /// The number of a leadership of one partition; grows by one with each; −1 is "unknown".
    LeaderEpoch(i32)
}
integer_id! {
    /// The number of changes of a partition's state (leader, ISR); grows by one with each.
    PartitionEpoch(i32)
}
integer_id! {
    /// A partition's index within its topic, from 0.
    PartitionId(i32)
}
integer_id! {
    /// A broker's or controller's id.
    NodeId(i32)
}
integer_id! {
    /// An idempotent producer's id; −1 is "none".
    ProducerId(i64)
}
integer_id! {
    /// A producer's epoch; −1 is "none".
    ProducerEpoch(i16)
}
integer_id! {
    /// A record's number within (producer id, epoch, partition); wraps from 2³¹−1 to 0; −1 is "none".
    Sequence(i32)
}
integer_id! {
    /// Milliseconds since the Unix epoch; −1 is "none".
    Timestamp(i64)
}
integer_id! {
    /// Nanoseconds on a clock that only goes forward; its origin means nothing.
    Monotonic(u64)
}
integer_id! {
    /// The index of one core's shard, from 0.
    ShardId(u16)
}

impl Offset {
    /// The first offset of a log that never lost its head.
    pub const ZERO: Self = Self(0);
    /// "No offset" on the wire.
    pub const NONE: Self = Self(-1);

    /// The offset `count` records later.
    ///
    /// # Panics
    /// When the sum passes 2⁶³−1: offsets come from our own log, which ends long before.
    #[must_use]
    pub fn plus(self, count: i64) -> Self {
        Self(
            self.0
                .checked_add(count)
                .expect("offsets of a log stay far below 2^63"),
        )
    }
}

impl LeaderEpoch {
    /// "No epoch" on the wire.
    pub const NONE: Self = Self(-1);
}

impl ProducerId {
    /// "No producer id" on the wire.
    pub const NONE: Self = Self(-1);
}

impl ProducerEpoch {
    /// "No producer epoch" on the wire.
    pub const NONE: Self = Self(-1);
}

impl Sequence {
    /// "No sequence" on the wire.
    pub const NONE: Self = Self(-1);

    /// The sequence `count` records later, wrapping from 2³¹−1 to 0 as Kafka does.
    #[must_use]
    pub fn plus(self, count: i32) -> Self {
        let sum = (i64::from(self.0) + i64::from(count)).rem_euclid(1 << 31);
        Self(i32::try_from(sum).expect("a remainder of 2^31 fits"))
    }
}

impl Timestamp {
    /// "No timestamp" on the wire.
    pub const NONE: Self = Self(-1);
}

impl Monotonic {
    /// The instant `ms` milliseconds later, at most the end of time.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1_000_000)))
    }

    /// Nanoseconds from `earlier` to here; 0 when `earlier` lies ahead.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A topic's unique id (a 128-bit UUID); [`TopicId::ZERO`] is "none".
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub [u8; 16]);

impl TopicId {
    /// "No topic id" on the wire.
    pub const ZERO: Self = Self([0; 16]);
    /// The fixed id of `__cluster_metadata` (Kafka's `Uuid.METADATA_TOPIC_ID`).
    pub const METADATA: Self = Self([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

    /// Whether this is "none".
    #[must_use]
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }
}

const BASE64_URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl fmt::Display for TopicId {
    /// Kafka's text form: URL-safe base64 without padding, 22 characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        for index in 0..22_u32 {
            // 22 × 6 = 132 bits: the last character holds the 2 lowest bits, shifted left by 4.
            let sextet = if index < 21 {
                (bits >> (122 - 6 * index)) & 63
            } else {
                (bits & 3) << 4
            };
            let letter = BASE64_URL[usize::try_from(sextet).expect("six bits")];
            fmt::Write::write_char(f, char::from(letter))?;
        }
        Ok(())
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for TopicId {
    type Err = InvalidTopicId;

    fn from_str(text: &str) -> Result<Self, InvalidTopicId> {
        if text.len() != 22 {
            return Err(InvalidTopicId);
        }
        let mut bits: u128 = 0;
        for (index, letter) in text.bytes().enumerate() {
            let sextet = BASE64_URL
                .iter()
                .position(|&l| l == letter)
                .ok_or(InvalidTopicId)?;
            let sextet = u128::try_from(sextet).map_err(|_| InvalidTopicId)?;
            bits = if index < 21 {
                (bits << 6) | sextet
            } else {
                (bits << 2) | (sextet >> 4)
            };
        }
        Ok(Self(bits.to_be_bytes()))
    }
}

/// The text is not a UUID in Kafka's form (22 characters of URL-safe base64).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidTopicId;

impl fmt::Display for InvalidTopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a UUID of 22 base64url characters")
    }
}

impl std::error::Error for InvalidTopicId {}

/// A partition by topic id: the key of everything that a shard owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic_id: TopicId,
    /// The partition within it.
    pub partition: PartitionId,
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: text forms of topic ids are Kafka's. Method: known pairs, both ways.
    #[test]
    fn topic_id_text() {
        fn check(id: TopicId, text: &str) {
            assert_eq!(id.to_string(), text);
            assert_eq!(text.parse::<TopicId>(), Ok(id));
        }
        check(TopicId::ZERO, "AAAAAAAAAAAAAAAAAAAAAA");
        check(TopicId::METADATA, "AAAAAAAAAAAAAAAAAAAAAQ");
        check(TopicId([0xff; 16]), "_____________________w");
        assert_eq!("short".parse::<TopicId>(), Err(InvalidTopicId));
    }

    // Goal: sequences wrap as Kafka's do. Method: the edge.
    #[test]
    fn sequence_wraps() {
        assert_eq!(Sequence(i32::MAX).plus(1), Sequence(0));
        assert_eq!(Sequence(5).plus(3), Sequence(8));
    }
}
