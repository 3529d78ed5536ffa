//! Configurations of groups and of client metrics subscriptions: checked as a whole, and shown.
//!
//! Invariants:
//! 1. A group's values lie within what the broker allows a group, when they are set; where the broker's bounds move later,
//!    what counts is clamped into them.
//! 2. A group's member sessions are longer than the interval in which its members call.
//!
//! Source: KIP-848, KIP-714, answers of Apache Kafka 4.3.1.

use super::broker::BrokerConfig;
use super::described::{Described, Source, SynonymValue, describe_rows, effective};
use super::key::list;
use super::table::{broker_key, client_metrics_key, client_metrics_keys, group_key, group_keys};
use super::{ConfigError, Settings};

/// A group's name with the broker's names for the least and the most of it.
pub(super) struct Bound {
    pub(super) name: &'static str,
    pub(super) min: Option<&'static str>,
    pub(super) max: Option<&'static str>,
}

/// In the order in which Kafka checks.
pub(super) const BOUNDS: &[Bound] = &[
    Bound {
        name: "consumer.heartbeat.interval.ms",
        min: Some("group.consumer.min.heartbeat.interval.ms"),
        max: Some("group.consumer.max.heartbeat.interval.ms"),
    },
    Bound {
        name: "consumer.session.timeout.ms",
        min: Some("group.consumer.min.session.timeout.ms"),
        max: Some("group.consumer.max.session.timeout.ms"),
    },
    Bound {
        name: "consumer.assignment.interval.ms",
        min: Some("group.consumer.min.assignment.interval.ms"),
        max: Some("group.consumer.max.assignment.interval.ms"),
    },
    Bound {
        name: "share.heartbeat.interval.ms",
        min: Some("group.share.min.heartbeat.interval.ms"),
        max: Some("group.share.max.heartbeat.interval.ms"),
    },
    Bound {
        name: "share.session.timeout.ms",
        min: Some("group.share.min.session.timeout.ms"),
        max: Some("group.share.max.session.timeout.ms"),
    },
    Bound {
        name: "share.record.lock.duration.ms",
        min: Some("group.share.min.record.lock.duration.ms"),
        max: Some("group.share.max.record.lock.duration.ms"),
    },
    Bound {
        name: "share.delivery.count.limit",
        min: Some("group.share.min.delivery.count.limit"),
        max: Some("group.share.max.delivery.count.limit"),
    },
    Bound {
        name: "share.partition.max.record.locks",
        min: Some("group.share.min.partition.max.record.locks"),
        max: Some("group.share.max.partition.max.record.locks"),
    },
    Bound {
        name: "share.assignment.interval.ms",
        min: Some("group.share.min.assignment.interval.ms"),
        max: Some("group.share.max.assignment.interval.ms"),
    },
    Bound {
        name: "streams.heartbeat.interval.ms",
        min: Some("group.streams.min.heartbeat.interval.ms"),
        max: Some("group.streams.max.heartbeat.interval.ms"),
    },
    Bound {
        name: "streams.session.timeout.ms",
        min: Some("group.streams.min.session.timeout.ms"),
        max: Some("group.streams.max.session.timeout.ms"),
    },
    Bound {
        name: "streams.num.standby.replicas",
        min: None,
        max: Some("group.streams.max.standby.replicas"),
    },
    Bound {
        name: "streams.assignment.interval.ms",
        min: Some("group.streams.min.assignment.interval.ms"),
        max: Some("group.streams.max.assignment.interval.ms"),
    },
];

/// Sessions, and the intervals that must be shorter.
pub(super) const SESSIONS: &[(&str, &str)] = &[
    (
        "consumer.session.timeout.ms",
        "consumer.heartbeat.interval.ms",
    ),
    ("share.session.timeout.ms", "share.heartbeat.interval.ms"),
    (
        "streams.session.timeout.ms",
        "streams.heartbeat.interval.ms",
    ),
];

/// Checks what a client wants a group's configuration to be, as a whole.
///
/// # Errors
/// [`ConfigError`] with the text for the client; the error code is INVALID_CONFIG.
pub fn validate_group(broker: &BrokerConfig, wanted: &Settings) -> Result<(), ConfigError> {
    for name in wanted.keys() {
        if group_key(name).is_none() {
            let name = name.clone();
            return Err(ConfigError::UnknownGroupName { name });
        }
    }
    for (name, value) in wanted {
        if let Some(row) = group_key(name) {
            row.key.validate(value)?;
        }
    }
    let conflict = |reason: String| Err(ConfigError::Conflict { reason });
    for bound in BOUNDS {
        let value = group_value(broker, wanted, bound.name);
        if let Some(min) = bound.min
            && value < broker_value(broker, min)
        {
            let name = bound.name;
            return conflict(format!("{name} must be greater than or equal to {min}"));
        }
        if let Some(max) = bound.max
            && broker_value(broker, max) < value
        {
            let name = bound.name;
            return conflict(format!("{name} must be less than or equal to {max}"));
        }
    }
    for (session, heartbeat) in SESSIONS {
        if group_value(broker, wanted, session) <= group_value(broker, wanted, heartbeat) {
            return conflict(format!("{session} must be greater than {heartbeat}"));
        }
    }
    Ok(())
}

/// What a number of a group would come to.
fn group_value(broker: &BrokerConfig, wanted: &Settings, name: &str) -> i64 {
    let own = wanted.get(name).map(String::as_str);
    let value = group_key(name).and_then(|row| effective(row, broker.layers(), own));
    number(value.as_deref())
}

fn broker_value(broker: &BrokerConfig, name: &str) -> i64 {
    let set = broker.layers().get(name).map(|(value, _)| value);
    number(set.or_else(|| broker_key(name)?.default))
}

/// Values were checked when they were set.
fn number(value: Option<&str>) -> i64 {
    value
        .and_then(|value| value.trim().parse().ok())
        .unwrap_or(0)
}

/// Every configuration of a group with these overrides, sorted by name.
pub fn describe_group<'a>(
    broker: &BrokerConfig,
    overrides: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<Described> {
    let own = Source::DynamicGroup;
    let mut lines = describe_rows(group_keys(), broker.layers(), overrides, own);
    // Where no broker name gives the default, Kafka tells of it under the group's own name.
    let alone = lines.iter_mut().filter(|line| {
        let row = group_key(line.key.name);
        row.is_some_and(|row| row.synonyms.is_empty())
    });
    for line in alone {
        line.synonyms.push(SynonymValue {
            name: line.key.name,
            value: line.key.default.map(str::to_owned),
            source: Source::Default,
        });
    }
    lines
}

/// Whether a client's request is wrong, or a value of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMetricsFault {
    /// The error code is INVALID_REQUEST.
    Request(String),
    /// The error code is INVALID_CONFIG.
    Value(String),
}

/// What a selector of clients may look at.
const SELECTORS: &[&str] = &[
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
];

const INTERVAL_MS_MIN: i64 = 100;
const INTERVAL_MS_MAX: i64 = 3_600_000;

/// Checks what a client wants a client metrics subscription to be, as a whole.
///
/// # Errors
/// [`ClientMetricsFault`] with the text for the client.
pub fn validate_client_metrics(wanted: &Settings) -> Result<(), ClientMetricsFault> {
    for name in wanted.keys() {
        if client_metrics_key(name).is_none() {
            let text = format!("Unknown client metrics configuration: {name}");
            return Err(ClientMetricsFault::Request(text));
        }
    }
    for (name, value) in wanted {
        let checked = client_metrics_key(name).map_or(Ok(()), |row| row.key.validate(value));
        checked.map_err(|error| ClientMetricsFault::Value(error.to_string()))?;
    }
    if let Some(interval) = wanted.get("interval.ms") {
        let value = number(Some(interval));
        if !(INTERVAL_MS_MIN..=INTERVAL_MS_MAX).contains(&value) {
            return Err(ClientMetricsFault::Request(format!(
                "Invalid value {value} for interval.ms, interval must be between \
                 {INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} (1 hour)"
            )));
        }
    }
    let patterns = wanted.get("match").map_or("", String::as_str);
    match list(patterns).find(|pattern| !is_selector(pattern)) {
        None => Ok(()),
        Some(pattern) => {
            let text = format!("Illegal client matching pattern: {pattern}");
            Err(ClientMetricsFault::Value(text))
        }
    }
}

/// Whether the text is `selector=pattern`. The pattern is not compiled: nothing matches clients by it yet.
fn is_selector(text: &str) -> bool {
    let parts: Vec<&str> = text.split('=').collect();
    matches!(parts[..], [name, pattern] if SELECTORS.contains(&name.trim()) && !pattern.is_empty())
}

/// Every configuration of a client metrics subscription with these overrides, sorted by name.
pub fn describe_client_metrics<'a>(
    broker: &BrokerConfig,
    overrides: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<Described> {
    let own = Source::ClientMetrics;
    describe_rows(client_metrics_keys(), broker.layers(), overrides, own)
}

#[cfg(test)]
mod tests {
    use super::super::broker::single_node_settings;
    use super::*;

    fn broker(settings: &[(&str, &str)]) -> BrokerConfig {
        let mut set = single_node_settings();
        let more = settings.iter();
        set.extend(more.map(|&(name, value)| (name.to_owned(), value.to_owned())));
        BrokerConfig::resolve(set, "host").unwrap()
    }

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let pairs = pairs.iter();
        pairs
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    // Goal: Kafka's 17 names of groups, and 3 of client metrics. Method: the tables; each default passes its own rule.
    #[test]
    fn tables() {
        assert_eq!((group_keys().len(), client_metrics_keys().len()), (17, 3));
        for row in group_keys().iter().chain(client_metrics_keys()) {
            let default = row.key.default.expect("all have one");
            assert_eq!(row.key.validate(default), Ok(()), "{}", row.key.name);
        }
        for bound in BOUNDS {
            assert!(group_key(bound.name).is_some(), "{}", bound.name);
            for name in [bound.min, bound.max].into_iter().flatten() {
                assert!(broker_key(name).is_some(), "{name}");
            }
        }
    }

    // Goal: bounds are the broker's, and texts Kafka's. Method: values at and beyond each edge, by default and with
    // bounds that the broker's file moved.
    #[test]
    fn group_bounds() {
        fn check(broker: &BrokerConfig, wanted: &[(&str, &str)], expected: Option<&str>) {
            let result = validate_group(broker, &settings(wanted));
            let text = result.err().map(|error| error.to_string());
            assert_eq!(text.as_deref(), expected, "{wanted:?}");
        }
        let usual = broker(&[]);
        check(&usual, &[], None);
        check(&usual, &[("consumer.session.timeout.ms", "45000")], None);
        check(&usual, &[("consumer.session.timeout.ms", "60000")], None);
        check(
            &usual,
            &[("consumer.session.timeout.ms", "44999")],
            Some(
                "consumer.session.timeout.ms must be greater than or equal to \
                 group.consumer.min.session.timeout.ms",
            ),
        );
        check(
            &usual,
            &[("consumer.session.timeout.ms", "60001")],
            Some(
                "consumer.session.timeout.ms must be less than or equal to \
                 group.consumer.max.session.timeout.ms",
            ),
        );
        check(
            &usual,
            &[("streams.num.standby.replicas", "3")],
            Some(
                "streams.num.standby.replicas must be less than or equal to \
                 group.streams.max.standby.replicas",
            ),
        );
        check(
            &usual,
            &[("no.such", "1")],
            Some("Unknown group config name: no.such"),
        );
        check(
            &usual,
            &[("share.auto.offset.reset", "by_duration:P1D")],
            None,
        );
        check(
            &usual,
            &[("share.auto.offset.reset", "by_duration:-1")],
            Some(
                "Invalid value by_duration:-1 for configuration share.auto.offset.reset: must be \
                 earliest, latest, or by_duration: and a duration such as PT1H",
            ),
        );
        let quick = broker(&[
            ("group.consumer.min.session.timeout.ms", "1000"),
            ("group.consumer.min.heartbeat.interval.ms", "500"),
        ]);
        check(&quick, &[("consumer.session.timeout.ms", "6000")], None);
        check(
            &quick,
            &[("consumer.session.timeout.ms", "5000")],
            Some("consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"),
        );
    }

    // Goal: a group's lines are told as Kafka tells them. Method: one that is set, one that the broker's file sets, one
    // that no broker name gives.
    #[test]
    fn described_group() {
        let broker = broker(&[("group.consumer.session.timeout.ms", "46000")]);
        let lines = describe_group(&broker, [("consumer.heartbeat.interval.ms", "6000")]);
        assert_eq!(lines.len(), 17);
        let check = |name: &str, value: &str, synonyms: &[(&str, &str, Source)]| {
            let line = lines.iter().find(|line| line.key.name == name).unwrap();
            assert_eq!(line.value.as_deref(), Some(value));
            let told = line.synonyms.iter();
            let told: Vec<_> = told
                .map(|one| (one.name, one.value.as_deref().unwrap(), one.source))
                .collect();
            assert_eq!(told, synonyms);
            assert_eq!(line.source, synonyms[0].2);
        };
        check(
            "consumer.heartbeat.interval.ms",
            "6000",
            &[
                (
                    "consumer.heartbeat.interval.ms",
                    "6000",
                    Source::DynamicGroup,
                ),
                (
                    "group.consumer.heartbeat.interval.ms",
                    "5000",
                    Source::Default,
                ),
            ],
        );
        check(
            "consumer.session.timeout.ms",
            "46000",
            &[
                (
                    "group.consumer.session.timeout.ms",
                    "46000",
                    Source::StaticBroker,
                ),
                (
                    "group.consumer.session.timeout.ms",
                    "45000",
                    Source::Default,
                ),
            ],
        );
        check(
            "share.auto.offset.reset",
            "latest",
            &[("share.auto.offset.reset", "latest", Source::Default)],
        );
    }

    // Goal: client metrics are checked as Kafka checks them. Method: a table.
    #[test]
    fn client_metrics() {
        fn check(wanted: &[(&str, &str)], expected: Result<(), ClientMetricsFault>) {
            assert_eq!(validate_client_metrics(&settings(wanted)), expected);
        }
        let request = |text: &str| Err(ClientMetricsFault::Request(text.to_owned()));
        let value = |text: &str| Err(ClientMetricsFault::Value(text.to_owned()));
        check(&[], Ok(()));
        check(
            &[
                ("interval.ms", "100"),
                ("metrics", "org.apache.kafka."),
                ("match", "client_id=a.*, client_source_port=9"),
            ],
            Ok(()),
        );
        check(
            &[("no.such", "1")],
            request("Unknown client metrics configuration: no.such"),
        );
        check(
            &[("interval.ms", "99")],
            request(
                "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
            ),
        );
        check(
            &[("match", "no_such=1")],
            value("Illegal client matching pattern: no_such=1"),
        );
        check(
            &[("match", "client_id")],
            value("Illegal client matching pattern: client_id"),
        );
    }
}
