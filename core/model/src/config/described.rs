//! The list that clients are shown of a resource's configuration: values, where each was set, and every place that sets it.
//!
//! A value comes from the resource itself, else from the broker's name for it, else from Kafka's default.
//! Source: Apache Kafka 4.3 (`kafka-configs --describe --all` on a running broker).

use std::collections::BTreeMap;

use super::key::{ConfigKey, Kind, TopicKey, Unit};
use super::layers::Layers;
use super::table::broker_key;

/// Where a value was set; the numbers are the wire's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum Source {
    /// On the topic.
    DynamicTopic = 1,
    /// On one broker, while it ran.
    DynamicBroker = 2,
    /// On all brokers, while they ran.
    DynamicDefaultBroker = 3,
    /// In the broker's file or on its command line.
    StaticBroker = 4,
    /// Nowhere.
    Default = 5,
    /// On the logger, while its broker ran.
    DynamicLogger = 6,
    /// On the client metrics subscription.
    ClientMetrics = 7,
    /// On the group.
    DynamicGroup = 8,
}

impl Source {
    /// The wire number in DescribeConfigs and CreateTopics answers.
    #[must_use]
    pub fn code(self) -> i8 {
        self as i8
    }
}

/// A value under one of the names that could have given it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SynonymValue {
    /// The name.
    pub name: &'static str,
    /// The value in that name's unit; `None` for secrets and null.
    pub value: Option<String>,
    /// Where it was set.
    pub source: Source,
}

/// One line of a configuration as clients are shown it: of a topic, a group or a client metrics subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// The name, type and description.
    pub key: &'static ConfigKey,
    /// The effective value; `None` is null.
    pub value: Option<String>,
    /// Where it was set.
    pub source: Source,
    /// Every place that sets it, the winning one first.
    pub synonyms: Vec<SynonymValue>,
}

/// Every configuration of a resource with these overrides, in the order of the rows; `own` is what its overrides are called.
pub(super) fn describe_rows<'a>(
    rows: &'static [TopicKey],
    broker: Layers<'_>,
    overrides: impl IntoIterator<Item = (&'a str, &'a str)>,
    own: Source,
) -> Vec<Described> {
    let overrides: BTreeMap<&str, &str> = overrides.into_iter().collect();
    let line = |row: &'static TopicKey| {
        let set = overrides.get(row.key.name).copied();
        let (value, source) = match set {
            Some(set) => (Some(set.to_owned()), own),
            None => inherited(row, broker),
        };
        Described {
            key: &row.key,
            value: value.map(|value| row.key.canonical(&value)),
            source,
            synonyms: synonyms(row, broker, set.map(|value| (value, own))),
        }
    };
    rows.iter()
        .filter(|row| !row.key.hidden || overrides.contains_key(row.key.name))
        .map(line)
        .collect()
}

/// The value that counts: the resource's own, else the broker's, else the default.
pub(super) fn effective(row: &TopicKey, broker: Layers<'_>, own: Option<&str>) -> Option<String> {
    match own {
        Some(own) => Some(own.to_owned()),
        None => inherited(row, broker).0,
    }
}

/// The value where the resource has none of its own, and where it was set.
fn inherited(row: &TopicKey, broker: Layers<'_>) -> (Option<String>, Source) {
    for synonym in row.synonyms {
        let default = || {
            let default = broker_key(synonym.name).and_then(|key| key.default);
            default.map(|value| (value, Source::Default))
        };
        if let Some((value, source)) = broker.get(synonym.name).or_else(default) {
            return (Some(converted(value, synonym.unit)), source);
        }
    }
    (row.key.default.map(str::to_owned), Source::Default)
}

/// A broker's value in the topic's unit.
fn converted(value: &str, unit: Unit) -> String {
    match (unit, value.trim().parse::<i64>()) {
        (Unit::Minutes | Unit::Hours, Ok(number)) if number < 0 => "-1".to_owned(),
        (Unit::Minutes | Unit::Hours, Ok(number)) => {
            number.saturating_mul(unit.factor()).to_string()
        }
        (Unit::Same, _) | (_, Err(_)) => value.to_owned(),
    }
}

/// As Kafka lists them: the resource's own, then what is set place by place under every broker name, then the defaults; but no defaults
/// where the first broker name has none and nothing is set.
fn synonyms(row: &TopicKey, broker: Layers<'_>, own: Option<(&str, Source)>) -> Vec<SynonymValue> {
    let of = |name, value: String, source| SynonymValue {
        name,
        value: (row.key.kind != Kind::Password).then_some(value),
        source,
    };
    let own = own.map(|(value, source)| of(row.key.name, row.key.canonical(value), source));
    let mut found = Vec::new();
    for (source, settings) in broker.places() {
        let set = row
            .synonyms
            .iter()
            .filter_map(|synonym| Some((synonym.name, settings.get(synonym.name)?)));
        found.extend(set.map(|(name, value)| of(name, value.clone(), source)));
    }
    let defaults: Vec<_> = row
        .synonyms
        .iter()
        .filter_map(|synonym| Some((synonym.name, broker_key(synonym.name)?.default?)))
        .collect();
    let first = row.synonyms.first().map(|synonym| synonym.name);
    if !found.is_empty() || defaults.first().map(|(name, _)| *name) == first {
        let defaults = defaults.into_iter();
        found.extend(defaults.map(|(name, value)| of(name, value.to_owned(), Source::Default)));
    }
    own.into_iter().chain(found).collect()
}
