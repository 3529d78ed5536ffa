//! Tests of settings that change while a broker runs.

use super::*;
use crate::config::topic::{self, TopicConfig};

fn settings(pairs: &[(&str, &str)]) -> Settings {
    let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    pairs.iter().map(owned).collect()
}

fn broker(fixed: &[(&str, &str)]) -> BrokerConfig {
    BrokerConfig::resolve(settings(fixed), "host").expect("valid settings")
}

/// A broker of these places: file, all brokers, this broker.
fn layered(
    fixed: &[(&str, &str)],
    cluster: &[(&str, &str)],
    node: &[(&str, &str)],
) -> BrokerConfig {
    let (config, faults) = broker(fixed).with_dynamic(settings(cluster), settings(node));
    assert_eq!(faults, []);
    config
}

// Goal: the strongest place wins, for the broker and for its topics. Method: `log.retention.ms` in every place.
#[test]
fn precedence() {
    fn check(config: &BrokerConfig, own: Option<&str>, expected: i64, source: Source) {
        let own = || own.map(|value| ("retention.ms", value));
        let typed = TopicConfig::from_overrides(config, own()).expect("valid");
        assert_eq!(typed.retention_ms, expected);
        let described = topic::describe(config, own());
        let line = described
            .iter()
            .find(|line| line.key.name == "retention.ms");
        assert_eq!(line.map(|line| line.source), Some(source));
    }
    let name = "log.retention.ms";
    let hours = ("log.retention.hours", "1");
    check(
        &layered(&[hours], &[], &[]),
        None,
        3_600_000,
        Source::StaticBroker,
    );
    let fixed = layered(&[(name, "1"), hours], &[], &[]);
    check(&fixed, None, 1, Source::StaticBroker);
    let cluster = layered(&[(name, "1"), hours], &[(name, "2")], &[]);
    check(&cluster, None, 2, Source::DynamicDefaultBroker);
    let node = layered(&[(name, "1"), hours], &[(name, "2")], &[(name, "3")]);
    check(&node, None, 3, Source::DynamicBroker);
    check(&node, Some("4"), 4, Source::DynamicTopic);
    assert_eq!(node.topic_defaults.retention_ms, 3);
}

// Goal: the typed fields count dynamic settings in. Method: a broker setting that is no topic's default.
#[test]
fn typed_fields_follow() {
    let config = layered(&[], &[("producer.id.expiration.ms", "5000")], &[]);
    assert_eq!(config.producer_id_expiration_ms, 5000);
    assert!(config.set_values().is_empty());
}

// Goal: a level is judged as Kafka 4.3.1 judges it. Method: its answers, name by name.
#[test]
fn levels_as_kafka_judges_them() {
    fn check(level: Level, pairs: &[(&str, &str)], expected: Option<&str>) {
        let result = broker(&[]).check_dynamic(level, &settings(pairs));
        let text = result.err().map(|error| error.to_string());
        assert_eq!(text.as_deref(), expected, "{pairs:?}");
    }
    let fixed = "Cannot update these configs dynamically: [log.dirs, num.partitions]";
    check(
        Level::Node,
        &[("num.partitions", "3"), ("log.dirs", "x")],
        Some(fixed),
    );
    let security = "These security configs can be dynamically updated only per-listener using the \
                    listener prefix: [ssl.keystore.location]";
    check(
        Level::Node,
        &[("ssl.keystore.location", "x")],
        Some(security),
    );
    check(
        Level::Cluster,
        &[("ssl.keystore.location", "x")],
        Some(security),
    );
    let prefixed = "listener.name.plaintext.ssl.keystore.location";
    check(Level::Node, &[(prefixed, "x")], None);
    let per_broker = format!(
        "Cannot update these configs at default cluster level, broker id must be specified: \
         [{prefixed}]"
    );
    check(Level::Cluster, &[(prefixed, "x")], Some(&per_broker));
    let listeners = "Cannot update these configs dynamically: [listeners]";
    check(
        Level::Node,
        &[("listeners", "PLAINTEXT://:1")],
        Some(listeners),
    );
    let number =
        "Invalid value abc for configuration log.cleaner.threads: not a number of type INT";
    check(Level::Node, &[("log.cleaner.threads", "abc")], Some(number));
    let small = "Invalid value 1 for configuration log.segment.bytes: must be at least 1048576";
    check(Level::Cluster, &[("log.segment.bytes", "1")], Some(small));
    check(Level::Cluster, &[("no.such", "x")], None);
    check(Level::Node, &[("min.insync.replicas", "2")], None);
    let lags =
        "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)";
    let wrong = [
        ("log.cleaner.min.compaction.lag.ms", "10"),
        ("log.cleaner.max.compaction.lag.ms", "5"),
    ];
    check(Level::Cluster, &wrong, Some(lags));
}

// Goal: one bad setting in the metadata does not take the good ones with it. Method: read-only, unparsable and misplaced
// ones beside a good one; then settings that are fine alone and contradict each other.
#[test]
fn bad_settings_are_left_out() {
    let (config, faults) = broker(&[]).with_dynamic(
        settings(&[
            ("num.partitions", "3"),
            ("log.retention.ms", "5"),
            ("cordoned.log.dirs", "x"),
        ]),
        settings(&[("log.segment.bytes", "abc")]),
    );
    assert_eq!(faults.len(), 3);
    assert_eq!(config.topic_defaults.retention_ms, 5);
    assert_eq!(config.num_partitions, 1);
    let (config, faults) = broker(&[]).with_dynamic(
        settings(&[
            ("log.cleaner.min.compaction.lag.ms", "10"),
            ("log.retention.ms", "-1"),
        ]),
        settings(&[
            ("log.cleaner.max.compaction.lag.ms", "5"),
            ("log.segment.bytes", "2000000"),
        ]),
    );
    assert_eq!(faults.len(), 1);
    let (fitting, none) = broker(&[]).with_dynamic(
        settings(&[
            ("log.cleaner.min.compaction.lag.ms", "10"),
            ("log.retention.ms", "-1"),
        ]),
        settings(&[("log.segment.bytes", "2000000")]),
    );
    assert_eq!((config, none), (fitting, Vec::new()));
}

fn synonyms_of(config: &BrokerConfig, name: &str) -> Vec<(String, Option<String>, i8)> {
    let lines = config.describe();
    let line = lines.into_iter().find(|line| line.name == name);
    let synonyms = line.expect("listed").synonyms.into_iter();
    synonyms
        .map(|synonym| (synonym.name, synonym.value, synonym.source.code()))
        .collect()
}

// Goal: lines are told as a 4.3.1 tells them. Method: its answers about retention, a list, a plugin's name and a secret.
#[test]
fn lines_as_kafka_tells_them() {
    fn check(config: &BrokerConfig, name: &str, expected: &[(&str, Option<&str>, i8)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, value, source)| (String::from(*name), value.map(str::to_owned), *source))
            .collect();
        assert_eq!(synonyms_of(config, name), expected, "{name}");
    }
    let hours = ("log.retention.hours", Some("168"), 5);
    let plain = broker(&[]);
    check(&plain, "log.retention.ms", &[]);
    check(&plain, "log.retention.hours", &[hours]);
    let config = layered(
        &[("sasl.jaas.config", "secret"), ("my.plugin", "x")],
        &[
            ("log.retention.ms", "777000"),
            ("log.cleanup.policy", "compact"),
        ],
        &[("log.retention.ms", "888000"), ("no.such", "abc")],
    );
    let (node, cluster) = (
        ("log.retention.ms", Some("888000"), 2),
        ("log.retention.ms", Some("777000"), 3),
    );
    check(&config, "log.retention.ms", &[node, cluster, hours]);
    check(&config, "log.retention.hours", &[hours]);
    let policy = |value, source| ("log.cleanup.policy", Some(value), source);
    check(
        &config,
        "log.cleanup.policy",
        &[policy("compact", 3), policy("delete", 5)],
    );
    check(&config, "no.such", &[("no.such", None, 2)]);
    check(&config, "my.plugin", &[("my.plugin", None, 4)]);
    check(
        &config,
        "sasl.jaas.config",
        &[("sasl.jaas.config", None, 4)],
    );
    let lines = config.describe();
    let line = |name: &str| lines.iter().find(|line| line.name == name).expect("listed");
    let plugin = line("no.such");
    assert!(plugin.is_read_only && plugin.is_sensitive && plugin.key.is_none());
    assert_eq!(plugin.value, None);
    let node_id = line("node.id");
    assert_eq!(node_id.value.as_deref(), Some("1"));
    assert_eq!(node_id.source, Source::StaticBroker);
    assert!(node_id.is_read_only);
    assert_eq!(line("log.retention.hours").value.as_deref(), Some("168"));
    assert!(!line("log.retention.ms").is_read_only);
    let cluster = config.describe_cluster();
    let told: Vec<_> = cluster
        .iter()
        .map(|line| {
            (
                line.name.as_str(),
                line.value.as_deref(),
                line.synonyms.len(),
            )
        })
        .collect();
    let expected = [
        ("log.cleanup.policy", Some("compact"), 1),
        ("log.retention.ms", Some("777000"), 1),
    ];
    assert_eq!(told, expected);
}

// Goal: every value shown can be set again unchanged. Method: describe, set all that is not read-only on the broker
// again, describe: the values are the same.
#[test]
fn shown_values_can_be_set_again() {
    let config = layered(
        &[("log.retention.hours", "5")],
        &[("log.cleanup.policy", " compact , delete ")],
        &[("log.cleaner.io.max.bytes.per.second", "1e6")],
    );
    let shown = |config: &BrokerConfig| -> Vec<(String, Option<String>)> {
        let lines = config.describe().into_iter();
        lines.map(|line| (line.name, line.value)).collect()
    };
    let again: Settings = config
        .describe()
        .into_iter()
        .filter(|line| !line.is_read_only && !is_security(&line.name))
        .filter_map(|line| Some((line.name, line.value?)))
        .collect();
    assert!(50 < again.len());
    assert_eq!(config.check_dynamic(Level::Node, &again), Ok(()));
    let (same, faults) = config.with_dynamic(Settings::new(), again);
    assert_eq!(faults, []);
    assert_eq!(shown(&same), shown(&config));
}
