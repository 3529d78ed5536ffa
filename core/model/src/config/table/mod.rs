//! All configuration names of brokers, topics, groups and client metrics, and look-ups by name.
//!
//! Invariants:
//! 1. the rows of each part are sorted by name and no name occurs twice (tests walk them);
//! 2. every name that a running Apache Kafka 4.3 lists or accepts is here.

mod cluster;
mod groups;
mod log;
mod network;
mod remote;
mod resource;
mod security;
mod topic;

use super::key::{ConfigKey, TopicKey};

/// The broker tables by theme.
const BROKER: &[&[ConfigKey]] = &[
    cluster::KEYS,
    groups::KEYS,
    log::KEYS,
    network::KEYS,
    remote::KEYS,
    security::KEYS,
];

/// Names of Kafka's standard plugins that stand in a broker's file beside its own.
const PLUGIN: &[&str] = &["allow.everyone.if.no.acl.found", "super.users"];

/// Broker names that earlier Kafka versions knew and 4.x no longer does; its files still carry them.
const RETIRED: &[&str] = &[
    "auto.include.jmx.reporter",
    "broker.id.generation.enable",
    "control.plane.listener.name",
    "controlled.shutdown.max.retries",
    "controlled.shutdown.retry.backoff.ms",
    "delegation.token.master.key",
    "eligible.leader.replicas.enable",
    "group.coordinator.new.enable",
    "group.share.enable",
    "inter.broker.protocol.version",
    "leader.imbalance.per.broker.percentage",
    "log.message.downconversion.enable",
    "log.message.format.version",
    "log.message.timestamp.difference.max.ms",
    "offsets.commit.required.acks",
    "reserved.broker.max.id",
];

/// Prefixes of retired names.
const RETIRED_PREFIXES: &[&str] = &["password.encoder.", "zookeeper."];

/// Every broker configuration name.
pub fn broker_keys() -> impl Iterator<Item = &'static ConfigKey> {
    BROKER.iter().copied().flatten()
}

/// Every topic configuration name, sorted.
#[must_use]
pub fn topic_keys() -> &'static [TopicKey] {
    topic::KEYS
}

/// The broker configuration of that name.
#[must_use]
pub fn broker_key(name: &str) -> Option<&'static ConfigKey> {
    BROKER.iter().find_map(|part| {
        let index = part.binary_search_by(|key| key.name.cmp(name)).ok()?;
        part.get(index)
    })
}

/// The topic configuration of that name.
#[must_use]
pub fn topic_key(name: &str) -> Option<&'static TopicKey> {
    find(topic::KEYS, name)
}

/// Every group configuration name, sorted.
#[must_use]
pub fn group_keys() -> &'static [TopicKey] {
    resource::GROUP_KEYS
}

/// The group configuration of that name.
#[must_use]
pub fn group_key(name: &str) -> Option<&'static TopicKey> {
    find(resource::GROUP_KEYS, name)
}

/// Every name of a client metrics subscription, sorted.
#[must_use]
pub fn client_metrics_keys() -> &'static [TopicKey] {
    resource::CLIENT_METRICS_KEYS
}

/// The configuration of a client metrics subscription of that name.
#[must_use]
pub fn client_metrics_key(name: &str) -> Option<&'static TopicKey> {
    find(resource::CLIENT_METRICS_KEYS, name)
}

fn find(rows: &'static [TopicKey], name: &str) -> Option<&'static TopicKey> {
    let index = rows.binary_search_by(|row| row.key.name.cmp(name)).ok()?;
    rows.get(index)
}

/// Whether the name belongs to one of Kafka's own plugins.
#[must_use]
pub fn is_plugin_name(name: &str) -> bool {
    PLUGIN.contains(&name)
}

/// Whether earlier Kafka versions knew the name.
#[must_use]
pub fn is_retired(name: &str) -> bool {
    RETIRED.contains(&name)
        || RETIRED_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::super::key::Kind;
    use super::*;

    fn all() -> impl Iterator<Item = &'static ConfigKey> {
        let rows = topic_keys().iter().chain(group_keys());
        let rows = rows.chain(client_metrics_keys());
        broker_keys().chain(rows.map(|row| &row.key))
    }

    // Goal: a wrong row is found here, not by a client. Method: every default passes the check of its own row.
    #[test]
    fn every_default_is_valid() {
        for key in all() {
            if let Some(default) = key.default {
                assert_eq!(key.validate(default), Ok(()), "{}", key.name);
            }
        }
    }

    // Goal: look-ups by binary search find every name. Method: order within parts, no name twice, look up each.
    #[test]
    fn names_are_sorted_and_unique() {
        for part in BROKER {
            assert!(part.is_sorted_by(|a, b| a.name < b.name));
        }
        for rows in [topic_keys(), group_keys(), client_metrics_keys()] {
            assert!(rows.is_sorted_by(|a, b| a.key.name < b.key.name));
        }
        let mut names: Vec<_> = broker_keys().map(|key| key.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        for key in broker_keys() {
            assert_eq!(broker_key(key.name), Some(key));
            assert!(!is_retired(key.name), "{}", key.name);
        }
        for row in topic_keys() {
            assert_eq!(topic_key(row.key.name), Some(row));
        }
        for row in group_keys() {
            assert_eq!(group_key(row.key.name), Some(row));
        }
    }

    // Goal: Kafka 4.3's list is complete. Method: the number of names a running 4.3.1 describes (340 for a broker, 33
    // for a topic), without the hidden ones and our extensions.
    #[test]
    fn as_many_names_as_kafka() {
        let is_kafkas = |key: &ConfigKey| !key.hidden && !key.doc.starts_with("Extension");
        assert_eq!(broker_keys().filter(|key| is_kafkas(key)).count(), 340);
        let topic = topic_keys().iter().filter(|row| is_kafkas(&row.key));
        assert_eq!(topic.count(), 33);
    }

    // Goal: a topic's default exists under its broker name and can be read as the topic's value. Method: walk the
    // synonyms; both sides are texts, lists, or numbers.
    #[test]
    fn synonyms_exist() {
        let is_number = |kind| matches!(kind, Kind::Short | Kind::Int | Kind::Long);
        for row in topic_keys().iter().chain(group_keys()) {
            for synonym in row.synonyms {
                let broker = broker_key(synonym.name).expect("a synonym names a broker key");
                let numbers = is_number(broker.kind) && is_number(row.key.kind);
                assert!(numbers || broker.kind == row.key.kind, "{}", row.key.name);
            }
        }
    }

    // Goal: descriptions read alike. Method: each is one sentence without a line break.
    #[test]
    fn docs_are_sentences() {
        for key in all() {
            assert!(key.doc.ends_with('.'), "{}", key.name);
            assert!(!key.doc.contains('\n'), "{}", key.name);
        }
    }
}
