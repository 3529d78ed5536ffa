//! Tests of topic configurations.

use super::*;

fn broker(settings: &[(&str, &str)]) -> BrokerConfig {
    let set = settings
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    BrokerConfig::resolve(set, "host").expect("valid settings")
}

// Goal: values are taken and refused as by Kafka 4.3.1. Method: the answers of its own validator, one by one.
#[test]
fn values_as_kafka_judges_them() {
    fn check(name: &str, value: &str, expected: bool) {
        assert_eq!(validate(name, value).is_ok(), expected, "{name}={value}");
    }
    check("message.format.version", "3.0", false);
    check("message.downconversion.enable", "true", false);
    check("prefix", "x", false);
    check("segment.bytes", "14", false);
    check("segment.bytes", "abc", false);
    check("segment.bytes", " 1048576 ", true);
    check("segment.bytes", "1048576.0", false);
    check("segment.bytes", "", false);
    check("segment.bytes", "+1048576", true);
    check("segment.bytes", "99999999999", false);
    check("cleanup.policy", "", true);
    check("cleanup.policy", "delete,compact", true);
    check("cleanup.policy", " delete , compact ", true);
    check("cleanup.policy", "delete,delete", true);
    check("cleanup.policy", "foo", false);
    check("cleanup.policy", "DELETE", false);
    check("cleanup.policy", "delete,", false);
    check("compression.type", "GZIP", false);
    check("compression.type", "none", false);
    check("compression.type", "uncompressed", true);
    check("compression.gzip.level", "0", false);
    check("compression.gzip.level", "-1", true);
    check("compression.gzip.level", "10", false);
    check("compression.zstd.level", "-131073", false);
    check("min.cleanable.dirty.ratio", "1.1", false);
    check("min.cleanable.dirty.ratio", "0.25", true);
    check("min.cleanable.dirty.ratio", "1e-1", true);
    check("min.cleanable.dirty.ratio", "0.5f", true);
    check("min.cleanable.dirty.ratio", "x", false);
    check("preallocate", "TRUE", true);
    check("preallocate", "yes", false);
    check("preallocate", " true", true);
    check("retention.ms", "-2", false);
    check("retention.ms", "-1", true);
    check("retention.ms", "9223372036854775808", false);
    check("retention.bytes", "-5", true);
    check("message.timestamp.type", "createtime", false);
    check("leader.replication.throttled.replicas", "*", true);
    check("leader.replication.throttled.replicas", "1:2,3:4", true);
    check("leader.replication.throttled.replicas", "1:2:3", false);
    check("leader.replication.throttled.replicas", "a:b", false);
    check("leader.replication.throttled.replicas", "none", false);
    check("leader.replication.throttled.replicas", "", true);
    check("max.compaction.lag.ms", "0", false);
    check("min.insync.replicas", "0", false);
    check("remote.storage.enable", "true", true);
    check("internal.segment.bytes", "100", true);
    check("segment.index.bytes", "3", false);
    check("message.timestamp.difference.max.ms", "3", false);
    check("unclean.leader.election.enable", "t", false);
    check("flush.ms", "-1", false);
    check("sync.policy", "group", true);
    check("sync.policy", "Group", false);
    check("sync.policy", "", false);
    check("sync.interval.ms", "0", false);
    check("local.retention.bytes", "-1", true);
    check("local.retention.bytes", "-3", false);
}

// Goal: a NaN ratio, which Kafka lets through, is refused: it would make every comparison false.
#[test]
fn nan_is_refused() {
    assert!(validate("min.cleanable.dirty.ratio", "NaN").is_err());
}

// Goal: messages name the value, the configuration and the rule. Method: one of each sort.
#[test]
fn messages() {
    assert_eq!(
        validate("segment.bytes", "14"),
        Err(
            "Invalid value 14 for configuration segment.bytes: must be at least 1048576".to_owned()
        )
    );
    assert_eq!(
        validate("prefix", "x"),
        Err("Unknown topic config name: prefix".to_owned())
    );
}

// Goal: without any setting a topic is Kafka's. Method: the values a 4.3.1 describes for a new topic, and our extensions.
#[test]
fn defaults_are_kafkas() {
    let expected = [
        ("cleanup.policy", "delete"),
        ("compression.gzip.level", "-1"),
        ("compression.lz4.level", "9"),
        ("compression.type", "producer"),
        ("compression.zstd.level", "3"),
        ("delete.retention.ms", "86400000"),
        ("file.delete.delay.ms", "60000"),
        ("flush.messages", "9223372036854775807"),
        ("flush.ms", "9223372036854775807"),
        ("follower.replication.throttled.replicas", ""),
        ("index.interval.bytes", "4096"),
        ("leader.replication.throttled.replicas", ""),
        ("local.retention.bytes", "-2"),
        ("local.retention.ms", "-2"),
        ("max.compaction.lag.ms", "9223372036854775807"),
        ("max.message.bytes", "1048588"),
        ("message.timestamp.after.max.ms", "3600000"),
        ("message.timestamp.before.max.ms", "9223372036854775807"),
        ("message.timestamp.type", "CreateTime"),
        ("min.cleanable.dirty.ratio", "0.5"),
        ("min.compaction.lag.ms", "0"),
        ("min.insync.replicas", "1"),
        ("preallocate", "false"),
        ("remote.log.copy.disable", "false"),
        ("remote.log.delete.on.disable", "false"),
        ("remote.storage.enable", "false"),
        ("retention.bytes", "-1"),
        ("retention.ms", "604800000"),
        ("segment.bytes", "1073741824"),
        ("segment.index.bytes", "10485760"),
        ("segment.jitter.ms", "0"),
        ("segment.ms", "604800000"),
        ("sync.interval.ms", "1000"),
        ("sync.policy", "none"),
        ("unclean.leader.election.enable", "false"),
    ];
    let described = describe(&broker(&[]), []);
    let pairs: Vec<_> = described
        .iter()
        .map(|line| (line.key.name, line.value.as_deref().unwrap_or("null")))
        .collect();
    assert_eq!(pairs, expected);
    assert!(described.iter().all(|line| line.source == Source::Default));
}

// Goal: what is shown can be set. Method: feed every described value back as an override; the typed form stays.
#[test]
fn described_values_can_be_set_again() {
    let broker = broker(&[
        ("log.retention.hours", "5"),
        ("log.cleanup.policy", "compact,delete"),
    ]);
    let described = describe(&broker, [("segment.bytes", "2000000")]);
    let again: Vec<_> = described
        .iter()
        .map(|line| {
            (
                line.key.name,
                line.value.as_deref().expect("no visible value is null"),
            )
        })
        .collect();
    for (name, value) in &again {
        assert_eq!(validate(name, value), Ok(()));
    }
    assert_eq!(
        TopicConfig::from_overrides(&broker, again),
        TopicConfig::from_overrides(&broker, [("segment.bytes", "2000000")])
    );
}

// Goal: milliseconds win over minutes over hours, the topic over the broker. Method: a table of retentions.
#[test]
fn precedence() {
    fn check(settings: &[(&str, &str)], own: Option<&str>, expected: i64, source: Source) {
        let broker = broker(settings);
        let own = || own.map(|value| ("retention.ms", value));
        let config = TopicConfig::from_overrides(&broker, own()).expect("valid");
        assert_eq!(config.retention_ms, expected, "{settings:?}");
        let described = describe(&broker, own());
        let line = described
            .iter()
            .find(|line| line.key.name == "retention.ms");
        assert_eq!(line.map(|line| line.source), Some(source), "{settings:?}");
    }
    let (hours, minutes, ms) = (
        ("log.retention.hours", "2"),
        ("log.retention.minutes", "3"),
        ("log.retention.ms", "4"),
    );
    check(&[], None, 604_800_000, Source::Default);
    check(&[hours], None, 7_200_000, Source::StaticBroker);
    check(&[hours, minutes], None, 180_000, Source::StaticBroker);
    check(&[hours, minutes, ms], None, 4, Source::StaticBroker);
    check(&[hours, minutes, ms], Some("5"), 5, Source::DynamicTopic);
    check(
        &[("log.retention.hours", "-1")],
        None,
        -1,
        Source::StaticBroker,
    );
    check(
        &[("log.retention.ms", "-7")],
        None,
        -1,
        Source::StaticBroker,
    );
}

// Goal: synonyms are listed as Kafka lists them. Method: one name with a default, one whose first name has none.
#[test]
fn synonyms_are_listed() {
    let of = |settings: &[(&str, &str)], own: &[(&'static str, &'static str)], name: &str| {
        describe(&broker(settings), own.iter().copied())
            .into_iter()
            .find(|line| line.key.name == name)
            .expect("listed")
            .synonyms
            .into_iter()
            .map(|synonym| {
                (
                    synonym.name,
                    synonym.value.expect("not secret"),
                    synonym.source,
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(of(&[], &[], "retention.ms"), []);
    assert_eq!(
        of(
            &[("log.segment.bytes", "2000000")],
            &[("segment.bytes", "3000000")],
            "segment.bytes"
        ),
        [
            ("segment.bytes", "3000000".to_owned(), Source::DynamicTopic),
            (
                "log.segment.bytes",
                "2000000".to_owned(),
                Source::StaticBroker
            ),
            (
                "log.segment.bytes",
                "1073741824".to_owned(),
                Source::Default
            ),
        ]
    );
}

// Goal: contradictions are refused. Method: lags in the wrong order.
#[test]
fn lags_must_be_ordered() {
    let result = TopicConfig::from_overrides(
        &broker(&[]),
        [
            ("min.compaction.lag.ms", "10"),
            ("max.compaction.lag.ms", "5"),
        ],
    );
    assert!(matches!(result, Err(ConfigError::Conflict { .. })));
}
