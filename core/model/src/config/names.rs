//! Which of the names in a broker's file mean something: known, without effect, retired, or unknown with a suggestion.
//!
//! It judges names only; values are checked by [`super::key`], their meaning together by [`super::broker`].

use super::key::Effect;
use super::table::{broker_key, broker_keys, is_plugin_name, is_retired, topic_key};

/// What the names in a file amount to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Review {
    /// Accepted names that do nothing here (yet).
    pub without_effect: Vec<String>,
    /// Names that Kafka itself dropped.
    pub retired: Vec<String>,
    /// Names nobody knows.
    pub unknown: Vec<UnknownName>,
}

/// A name that is neither Kafka's nor ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// The name as given.
    pub name: String,
    /// The known name it resembles most.
    pub nearest: Option<&'static str>,
}

/// Judges the names of a broker's settings.
pub fn review<'a>(names: impl IntoIterator<Item = &'a str>) -> Review {
    let mut review = Review::default();
    for name in names {
        if let Some(key) = broker_key(bare_name(name)) {
            match key.effect {
                Effect::Served if key.name == name => {}
                Effect::Served | Effect::Planned | Effect::Ignored => {
                    review.without_effect.push(name.to_owned());
                }
            }
        } else if is_plugin_name(name) {
            review.without_effect.push(name.to_owned());
        } else if is_retired(name) {
            review.retired.push(name.to_owned());
        } else {
            review.unknown.push(UnknownName {
                name: name.to_owned(),
                nearest: nearest(name),
            });
        }
    }
    review
}

/// The broker name that resembles `name` most, unless nothing does.
///
/// A topic's name (`retention.ms`) is answered with the broker's word for it (`log.retention.ms`).
#[must_use]
pub fn nearest(name: &str) -> Option<&'static str> {
    if let Some(row) = topic_key(name) {
        return row.synonyms.first().map(|synonym| synonym.name);
    }
    let name = name.to_ascii_lowercase().replace(['_', '-'], ".");
    closest(
        &name,
        broker_keys().filter(|key| !key.hidden).map(|key| key.name),
    )
}

/// The candidate with the fewest edits, if they are few for a name of this length.
pub fn closest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Distances cost time by the square of the length; no known name comes near this one.
    const NAME_BYTES_MAX: usize = 128;
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let edits_max = (name.chars().count() / 4).max(2);
    candidates
        .map(|candidate| (strsim::osa_distance(name, candidate), candidate))
        .min()
        .filter(|&(edits, _)| edits <= edits_max)
        .map(|(_, candidate)| candidate)
}

/// The name without Kafka's `listener.name.<listener>.` (and `<mechanism>.`) prefix.
pub(super) fn bare_name(name: &str) -> &str {
    let Some(rest) = name
        .strip_prefix("listener.name.")
        .and_then(|rest| rest.split_once('.'))
        .map(|(_, rest)| rest)
    else {
        return name;
    };
    if broker_key(rest).is_some() {
        return rest;
    }
    rest.split_once('.').map_or(rest, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: a typing error is answered with the name that was meant. Method: a table.
    #[test]
    fn nearest_names() {
        fn check(name: &str, expected: Option<&str>) {
            assert_eq!(nearest(name), expected, "{name}");
        }
        check("log.dir.s", Some("log.dirs"));
        check("num.partition", Some("num.partitions"));
        check("log.retention.hour", Some("log.retention.hours"));
        check("advertised.listener", Some("advertised.listeners"));
        check("retention.ms", Some("log.retention.ms"));
        check("max.message.bytes", Some("message.max.bytes"));
        check(
            "AUTO_CREATE_TOPICS_ENABLE",
            Some("auto.create.topics.enable"),
        );
        check("completely.different.plugin.setting", None);
        check("x", None);
        check(&"l".repeat(5000), None);
    }

    // Goal: each name lands in its list. Method: one of every sort.
    #[test]
    fn sorts_names() {
        let review = review([
            "num.partitions",
            "num.io.threads",
            "zookeeper.connect",
            "inter.broker.protocol.version",
            "super.users",
            "listener.name.internal.ssl.keystore.location",
            "listener.name.internal.scram-sha-256.sasl.jaas.config",
            "num.partition",
        ]);
        assert_eq!(
            review.without_effect,
            [
                "num.io.threads",
                "super.users",
                "listener.name.internal.ssl.keystore.location",
                "listener.name.internal.scram-sha-256.sasl.jaas.config"
            ]
        );
        assert_eq!(
            review.retired,
            ["zookeeper.connect", "inter.broker.protocol.version"]
        );
        assert_eq!(
            review.unknown,
            [UnknownName {
                name: "num.partition".to_owned(),
                nearest: Some("num.partitions")
            }]
        );
    }
}
