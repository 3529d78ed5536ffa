//! What consumers of the classic protocol say to each other, where the coordinator has to take part.
//!
//! ```text
//! subscription: version int16 | topics [string] | user data bytes | 1+: owned [topic, [int32]] | 2+: generation int32
//!               | 3+: rack string
//! assignment:   version int16 | [topic, [int32]] | user data bytes
//! ```
//!
//! 1. The bytes are a client's: no count is believed, and what cannot be read is an error, not a guess.
//! 2. Later versions begin like the last one known.
//!
//! Source: Kafka's ConsumerProtocolSubscription and ConsumerProtocolAssignment.

use bytes::{BufMut, Bytes, BytesMut};
use pelton_model::Str;

/// Partitions by topic name.
pub(super) type Named = Vec<(Str, Vec<i32>)>;

/// A consumer's subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Subscription {
    pub(super) version: i16,
    pub(super) topics: Vec<Str>,
    pub(super) owned: Named,
    pub(super) rack: Option<Str>,
}

/// Reads a subscription.
pub(super) fn subscription(bytes: &[u8]) -> Option<Subscription> {
    let mut reader = Reader(bytes);
    let version = reader.int16()?;
    if version < 0 {
        return None;
    }
    let mut topics = Vec::new();
    for _ in 0..reader.count()? {
        topics.push(reader.string()??);
    }
    reader.bytes()?;
    let owned = if 1 <= version {
        reader.named()?
    } else {
        Named::new()
    };
    if 2 <= version {
        reader.int32()?;
    }
    let rack = if 3 <= version { reader.string()? } else { None };
    Some(Subscription {
        version,
        topics,
        owned,
        rack,
    })
}

/// Reads an assignment; whether it has data that only a client understands.
pub(super) fn assignment(bytes: &[u8]) -> Option<(Named, bool)> {
    if bytes.is_empty() {
        return Some((Named::new(), false));
    }
    let mut reader = Reader(bytes);
    if reader.int16()? < 0 {
        return None;
    }
    let named = reader.named()?;
    let has_user_data = reader.bytes()?.is_some_and(|data| !data.is_empty());
    Some((named, has_user_data))
}

/// Writes an assignment.
pub(super) fn write_assignment(version: i16, named: &Named) -> Bytes {
    let mut bytes = BytesMut::new();
    let count = |length: usize| i32::try_from(length).unwrap_or(i32::MAX);
    bytes.put_i16(version);
    bytes.put_i32(count(named.len()));
    for (topic, partitions) in named {
        bytes.put_i16(i16::try_from(topic.len()).unwrap_or(i16::MAX));
        bytes.put_slice(topic.as_bytes());
        bytes.put_i32(count(partitions.len()));
        for partition in partitions {
            bytes.put_i32(*partition);
        }
    }
    bytes.put_i32(-1);
    bytes.freeze()
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn int16(&mut self) -> Option<i16> {
        self.take().map(i16::from_be_bytes)
    }

    fn int32(&mut self) -> Option<i32> {
        self.take().map(i32::from_be_bytes)
    }

    /// A count; every element has at least two bytes, so what is claimed beyond that is refused by reading.
    fn count(&mut self) -> Option<u32> {
        u32::try_from(self.int32()?).ok()
    }

    fn string(&mut self) -> Option<Option<Str>> {
        let length = self.int16()?;
        let Ok(length) = usize::try_from(length) else {
            return Some(None);
        };
        let text = self.0.split_off(..length)?;
        Some(Some(Str::from(String::from_utf8_lossy(text))))
    }

    fn bytes(&mut self) -> Option<Option<&'a [u8]>> {
        let length = self.int32()?;
        let Ok(length) = usize::try_from(length) else {
            return Some(None);
        };
        self.0.split_off(..length).map(Some)
    }

    fn named(&mut self) -> Option<Named> {
        let mut named = Named::new();
        for _ in 0..self.count()? {
            let topic = self.string()??;
            let mut partitions = Vec::new();
            for _ in 0..self.count()? {
                partitions.push(self.int32()?);
            }
            named.push((topic, partitions));
        }
        Some(named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: what Kafka's clients write is read. Method: bytes captured from its console consumer (version 3).
    #[test]
    fn captured() {
        let bytes = b"\0\x03\0\0\0\x01\0\x02t1\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\xff\xff";
        let expected = Subscription {
            version: 3,
            topics: vec!["t1".into()],
            ..Subscription::default()
        };
        assert_eq!(subscription(bytes), Some(expected));
        for cut in 0..bytes.len() {
            assert_eq!(subscription(&bytes[..cut]), None, "{cut}");
        }
        let bytes =
            b"\0\x03\0\0\0\x01\0\x02t1\0\0\0\x03\0\0\0\0\0\0\0\x01\0\0\0\x02\xff\xff\xff\xff";
        let named = vec![("t1".into(), vec![0, 1, 2])];
        assert_eq!(assignment(bytes), Some((named.clone(), false)));
        assert_eq!(write_assignment(3, &named), &bytes[..]);
        for cut in 1..bytes.len() {
            assert_eq!(assignment(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(subscription(b"\0\0\x7f\xff\xff\xff\0\0"), None);
    }
}
