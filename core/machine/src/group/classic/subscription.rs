//! The topics in a consumer's subscription.
//!
//! ```text
//! version int16 | topics: count int32, then each: length int16, name | …
//! ```
//!
//! 1. Every version begins like version 0, so later ones are read as that.
//! 2. The bytes are a client's: no count is believed, and what cannot be read is no subscription.
//!
//! Source: Kafka's ConsumerProtocolSubscription.

use std::collections::BTreeSet;

use pelton_model::Str;

/// Adds the topics of a subscription; `None` when it cannot be read.
pub(super) fn topics(mut subscription: &[u8], topics: &mut BTreeSet<Str>) -> Option<()> {
    let version = i16::from_be_bytes(take(&mut subscription)?);
    if version < 0 {
        return None;
    }
    let count = i32::from_be_bytes(take(&mut subscription)?);
    // Negative is null to Kafka, and null is no list here.
    for _ in 0..u32::try_from(count).ok()? {
        let length = i16::from_be_bytes(take(&mut subscription)?);
        let name = subscription.split_off(..usize::try_from(length).ok()?)?;
        topics.insert(Str::from(String::from_utf8_lossy(name)));
    }
    Some(())
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: topics are found, and hostile bytes are refused. Method: subscriptions by hand.
    #[test]
    fn topics_of_subscriptions() {
        fn check(bytes: &[u8], expected: Option<&[&str]>) {
            let mut found = BTreeSet::new();
            let read = topics(bytes, &mut found);
            let found: Option<Vec<&str>> = read.map(|()| found.iter().map(Str::as_str).collect());
            assert_eq!(found.as_deref(), expected, "{bytes:?}");
        }
        check(&[0, 0, 0, 0, 0, 0], Some(&[]));
        check(
            &[0, 3, 0, 0, 0, 2, 0, 1, b'b', 0, 1, b'a', 9, 9],
            Some(&["a", "b"]),
        );
        check(&[], None);
        check(&[0, 0, 0, 0, 0, 1], None);
        check(&[0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 1, b'a'], None);
        check(&[0, 0, 0xff, 0xff, 0xff, 0xff], None);
        check(&[0, 0, 0, 0, 0, 1, 0xff, 0xff], None);
        check(&[0xff, 0xff, 0, 0, 0, 0], None);
    }
}
