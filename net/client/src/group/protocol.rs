//! What members of a `consumer` group tell each other through their coordinator, which does not look inside.
//!
//! ```text
//! subscription: version int16 | topics array of string | user data bytes | from 1: owned array | from 2: generation int32 | from 3: rack string
//! assignment:   version int16 | array of (topic string, partitions array of int32) | user data bytes
//! ```
//!
//! 1. A newer version only adds fields at the end: what is behind those that we know is left alone.
//! 2. Bytes of others are hostile: nothing is allocated by a count they claim.
//!
//! Source: KIP-54, KIP-429, KIP-792.

use std::collections::BTreeMap;

use bytes::Bytes;
use pelton_protocol::codec::{DecodeError, Reader, Str, Writer};

/// The version that is written.
const VERSION: i16 = 1;
/// The first version with owned partitions.
const OWNED_VERSION: i16 = 1;

/// Partitions by topic, each list ascending.
pub type TopicPartitions = BTreeMap<Str, Vec<i32>>;

/// What a member wants, and has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subscription {
    /// The topics it wants.
    pub(crate) topics: Vec<Str>,
    /// The partitions it holds.
    pub(crate) owned: TopicPartitions,
}

impl Subscription {
    pub(crate) fn encode(&self) -> Bytes {
        let mut writer = Writer::new();
        writer.int16(VERSION);
        writer.length(self.topics.len(), false);
        for topic in &self.topics {
            writer.string(topic, false);
        }
        writer.null_length(false);
        encode_partitions(&mut writer, &self.owned);
        writer.into_bytes()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let version = reader.int16()?;
        let count = reader.int32()?;
        let mut topics = Vec::new();
        for _ in 0..count {
            topics.push(reader.str(false)?.unwrap_or_default());
        }
        reader.byte_range(false)?;
        let owned = if OWNED_VERSION <= version {
            decode_partitions(&mut reader)?
        } else {
            TopicPartitions::new()
        };
        Ok(Self { topics, owned })
    }
}

/// A member's assignment, as the leader writes it.
pub(crate) fn encode_assignment(partitions: &TopicPartitions) -> Bytes {
    let mut writer = Writer::new();
    writer.int16(VERSION);
    encode_partitions(&mut writer, partitions);
    writer.null_length(false);
    writer.into_bytes()
}

/// A member's assignment; no bytes are no partitions.
///
/// # Errors
/// The bytes end too early.
pub fn decode_assignment(bytes: &[u8]) -> Result<TopicPartitions, DecodeError> {
    if bytes.is_empty() {
        return Ok(TopicPartitions::new());
    }
    let mut reader = Reader::new(bytes);
    reader.int16()?;
    decode_partitions(&mut reader)
}

fn encode_partitions(writer: &mut Writer, partitions: &TopicPartitions) {
    writer.length(partitions.len(), false);
    for (topic, indexes) in partitions {
        writer.string(topic, false);
        writer.length(indexes.len(), false);
        for &index in indexes {
            writer.int32(index);
        }
    }
}

fn decode_partitions(reader: &mut Reader<'_>) -> Result<TopicPartitions, DecodeError> {
    let count = reader.int32()?;
    let mut partitions = TopicPartitions::new();
    for _ in 0..count {
        let topic = reader.str(false)?.unwrap_or_default();
        let count = reader.int32()?;
        let indexes = partitions.entry(topic).or_default();
        for _ in 0..count {
            indexes.push(reader.int32()?);
        }
        indexes.sort_unstable();
    }
    Ok(partitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned() -> TopicPartitions {
        BTreeMap::from([("t".into(), vec![0, 2]), ("u".into(), vec![])])
    }

    // Goal: what is written is read back, and what older and newer clients write is read. Method: a round trip; version 0;
    // version 3 with its additions, as a Java client writes it.
    #[test]
    fn subscriptions() {
        let ours = Subscription {
            topics: vec!["t".into(), "u".into()],
            owned: owned(),
        };
        assert_eq!(Subscription::decode(&ours.encode()), Ok(ours));
        let oldest = [0, 0, 0, 0, 0, 1, 0, 1, b't', 0xff, 0xff, 0xff, 0xff];
        let read = Subscription::decode(&oldest).unwrap();
        assert_eq!((read.topics, read.owned.len()), (vec!["t".into()], 0));
        let newest = [
            0, 3, 0, 0, 0, 1, 0, 1, b't', 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 7, 0xff,
            0xff,
        ];
        assert_eq!(Subscription::decode(&newest).unwrap().topics, ["t"]);
    }

    // Goal: damaged bytes are an error, soon. Method: every prefix; a huge count.
    #[test]
    fn damage() {
        let whole = Subscription {
            topics: vec!["t".into()],
            owned: owned(),
        };
        let whole = whole.encode();
        for end in 0..whole.len() {
            assert!(Subscription::decode(&whole[..end]).is_err(), "{end}");
        }
        assert!(Subscription::decode(&[0, 0, 0x7f, 0xff, 0xff, 0xff]).is_err());
        assert!(decode_assignment(&[0, 0, 0x7f, 0xff, 0xff, 0xff]).is_err());
    }

    // Goal: assignments round-trip, and no bytes are none. Method: both.
    #[test]
    fn assignments() {
        assert_eq!(decode_assignment(&encode_assignment(&owned())), Ok(owned()));
        assert_eq!(decode_assignment(&[]), Ok(TopicPartitions::new()));
    }
}
