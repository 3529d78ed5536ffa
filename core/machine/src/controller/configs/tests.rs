//! Tests of changes of configurations. The expected answers are those of Apache Kafka 4.3.1.

use pelton_model::record_type::metadata::TopicRecord;
use pelton_model::{LeaderEpoch, TopicId};

use super::*;

/// A broker with id 1 and a topic `t`.
struct World {
    image: MetadataImage,
    broker: BrokerConfig,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            image: MetadataImage::new(),
            broker: BrokerConfig::resolve(Settings::new(), "host").unwrap(),
        };
        let topic = TopicRecord {
            name: "t".into(),
            topic_id: TopicId([1; 16]),
        };
        world.replay(&[topic.into()]);
        world
    }

    fn replay(&mut self, records: &[MetadataRecord]) {
        for record in records {
            let next = self.image.next_offset();
            self.image.replay(next, LeaderEpoch(0), record).unwrap();
        }
        let set = |name| {
            let configs = self
                .image
                .configs(RESOURCE_BROKER, name)
                .into_iter()
                .flatten();
            configs
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        };
        self.broker = self.broker.with_dynamic(set(""), set("1")).0;
    }

    fn decide(&self, resources: &[AlterableResource]) -> Decision<Vec<Result<(), Refusal>>> {
        let options = AlterConfigsOptions {
            broker: &self.broker,
            validate_only: false,
        };
        alter_configs(&self.image, resources, &options)
    }

    /// Changes one resource; the refusal as code and text.
    fn alter(&mut self, resource: AlterableResource) -> Result<(), (ErrorCode, String)> {
        let decision = self.decide(&[resource]);
        self.replay(&decision.records);
        let [result] = <[_; 1]>::try_from(decision.results).unwrap();
        if result.is_err() {
            assert_eq!(decision.records, []);
        }
        result.map_err(|refusal| (refusal.error, refusal.message.unwrap()))
    }

    fn topic_value(&self, name: &str) -> Option<String> {
        self.image.topic_configs("t")?.get(name).cloned()
    }
}

fn resource(kind: i8, name: &str, changes: &[(i8, &str, Option<&str>)]) -> AlterableResource {
    let change = |&(operation, name, value): &(i8, &str, Option<&str>)| ConfigChange {
        name: name.into(),
        operation,
        value: value.map(str::to_owned),
    };
    AlterableResource {
        resource_type: kind,
        name: name.into(),
        changes: ConfigChanges::Some(changes.iter().map(change).collect()),
    }
}

fn whole(kind: i8, name: &str, values: &[(&str, Option<&str>)]) -> AlterableResource {
    let value = |&(name, value): &(&str, Option<&str>)| (name.into(), value.map(str::to_owned));
    AlterableResource {
        resource_type: kind,
        name: name.into(),
        changes: ConfigChanges::All(values.iter().map(value).collect()),
    }
}

const T: i8 = RESOURCE_TOPIC;
const B: i8 = RESOURCE_BROKER;

// Goal: lists grow and shrink as Kafka's. Method: a topic's `cleanup.policy` through a series of changes.
#[test]
fn appends_and_subtracts() {
    let mut world = World::new();
    let mut check = |operation, value, expected: Option<&str>| {
        let change = [(operation, "cleanup.policy", value)];
        assert_eq!(world.alter(resource(T, "t", &change)), Ok(()));
        assert_eq!(world.topic_value("cleanup.policy").as_deref(), expected);
    };
    check(APPEND, Some("compact"), Some("delete,compact"));
    check(APPEND, Some(" compact"), Some("delete,compact"));
    check(SUBTRACT, Some("delete"), Some("compact"));
    check(SUBTRACT, Some("compact"), Some(""));
    check(SET, Some("delete,compact"), Some("delete,compact"));
    check(DELETE, None, None);
    check(DELETE, Some("whatever"), None);
}

// Goal: what is wrong with a topic's change is told in Kafka's code and words. Method: a row each.
#[test]
fn topic_refusals() {
    let mut world = World::new();
    let mut check = |resource: AlterableResource, error, text: &str| {
        assert_eq!(world.alter(resource), Err((error, text.to_owned())));
    };
    let set = |name, value| resource(T, "t", &[(SET, name, Some(value))]);
    let of = |topic| resource(T, topic, &[(SET, "retention.ms", Some("1"))]);
    let request = ErrorCode::InvalidRequest;
    let config = ErrorCode::InvalidConfig;
    check(
        set("no.such", "1"),
        config,
        "Unknown topic config name: no.such",
    );
    let text = "Invalid value abc for configuration retention.ms: not a number of type LONG";
    check(set("retention.ms", "abc"), config, text);
    let both = [
        (SET, "retention.ms", Some("5")),
        (SET, "retention.ms", Some("6")),
    ];
    check(
        resource(T, "t", &both),
        request,
        "Error due to duplicate config keys",
    );
    let nulls = [
        (SET, "retention.ms", None),
        (APPEND, "cleanup.policy", None),
    ];
    let text = "Null value not supported for : retention.ms, cleanup.policy";
    check(resource(T, "t", &nulls), request, text);
    let text = "Can't APPEND to key retention.ms because its type is not LIST.";
    check(
        resource(T, "t", &[(APPEND, "retention.ms", Some("1"))]),
        config,
        text,
    );
    let text = "Can't SUBTRACT to key no.such because its type is not LIST.";
    check(
        resource(T, "t", &[(SUBTRACT, "no.such", Some("1"))]),
        config,
        text,
    );
    let odd = resource(T, "t", &[(9, "retention.ms", Some("1"))]);
    check(odd, request, "Unknown operations type 9");
    check(of(""), request, "Default topic resources are not allowed.");
    let text = "Topic name is invalid: 'a/b' contains one or more characters other than ASCII \
                alphanumerics, '.', '_' and '-'";
    check(of("a/b"), ErrorCode::InvalidTopicException, text);
    let unknown = ErrorCode::UnknownTopicOrPartition;
    check(
        of("nonesuch"),
        unknown,
        "The topic 'nonesuch' does not exist.",
    );
    check(
        resource(T, "nonesuch", &[]),
        unknown,
        "The topic 'nonesuch' does not exist.",
    );
}

// Goal: values that are refused together, or for their size, and resources of no sort. Method: as above.
#[test]
fn further_refusals() {
    let mut world = World::new();
    let mut check = |resource: AlterableResource, error, text: &str| {
        assert_eq!(world.alter(resource), Err((error, text.to_owned())));
    };
    let set = |name, value| resource(T, "t", &[(SET, name, Some(value))]);
    let (request, config) = (ErrorCode::InvalidRequest, ErrorCode::InvalidConfig);
    let text =
        "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)";
    let lags = [
        (SET, "min.compaction.lag.ms", Some("10")),
        (SET, "max.compaction.lag.ms", Some("5")),
    ];
    check(resource(T, "t", &lags), config, text);
    let text = "Tiered Storage functionality is disabled in the broker. Topic cannot be configured \
                with remote log storage.";
    check(set("remote.storage.enable", "true"), config, text);
    let long = "1:2,".repeat(10_000) + "1:2";
    let text = "The configuration value cannot be added because it exceeds the maximum value size \
                of 32767 bytes.";
    check(
        set("leader.replication.throttled.replicas", &long),
        config,
        text,
    );
    check(resource(0, "t", &[]), request, "Unknown resource type 0");
    check(resource(99, "t", &[]), request, "Unknown resource type 99");
}

// Goal: brokers likewise. Method: a row each; what Kafka accepts is accepted.
#[test]
fn broker_changes() {
    let mut world = World::new();
    let mut check = |name: &str, changes: &[(i8, &str, Option<&str>)], expected: Option<&str>| {
        let result = world.alter(resource(B, name, changes));
        let expected = expected.map(|text| (ErrorCode::InvalidRequest, text.to_owned()));
        assert_eq!(result.err(), expected, "{name} {changes:?}");
    };
    let retention: [(i8, &str, Option<&str>); 1] = [(SET, "log.retention.ms", Some("5"))];
    check("1", &retention, None);
    check("", &retention, None);
    check(
        "2",
        &retention,
        Some("Unexpected broker id, expected 1, but received 2"),
    );
    check(
        "abc",
        &retention,
        Some("Node id must be an integer, but it is: abc"),
    );
    let fixed = "Cannot update these configs dynamically: [log.dirs]";
    check("1", &[(SET, "log.dirs", Some("/x"))], Some(fixed));
    check("1", &[(DELETE, "log.dirs", None)], None);
    check("1", &[(SET, "no.such", Some("1"))], None);
    let number = "Invalid value x for configuration log.cleaner.threads: not a number of type INT";
    check(
        "1",
        &[(SET, "log.cleaner.threads", Some("x"))],
        Some(number),
    );
    assert_eq!(world.broker.topic_defaults.retention_ms, 5);
    let both = [
        (DELETE, "log.retention.ms", None),
        (DELETE, "no.such", None),
    ];
    assert_eq!(world.alter(resource(B, "1", &both)), Ok(()));
    assert_eq!(world.alter(resource(B, "", &both)), Ok(()));
    assert_eq!(world.image.configs(B, "1"), None);
    assert_eq!(world.image.configs(B, ""), None);
    let appended = [(APPEND, "log.cleanup.policy", Some("compact"))];
    assert_eq!(world.alter(resource(B, "", &appended)), Ok(()));
    assert!(world.broker.topic_defaults.cleanup_policy.compact);
}

// Goal: AlterConfigs replaces everything. Method: two values, then another, then none.
#[test]
fn whole_configurations() {
    let mut world = World::new();
    let both = [("retention.ms", Some("5")), ("segment.ms", Some("6"))];
    assert_eq!(world.alter(whole(T, "t", &both)), Ok(()));
    assert_eq!(world.topic_value("segment.ms").as_deref(), Some("6"));
    assert_eq!(
        world.alter(whole(T, "t", &[("retention.ms", Some("7"))])),
        Ok(())
    );
    assert_eq!(world.topic_value("retention.ms").as_deref(), Some("7"));
    assert_eq!(world.topic_value("segment.ms"), None);
    let null = world.alter(whole(T, "t", &[("segment.ms", None)]));
    let text = "Null value not supported for : segment.ms".to_owned();
    assert_eq!(null, Err((ErrorCode::InvalidRequest, text)));
    assert_eq!(world.alter(whole(T, "t", &[])), Ok(()));
    assert_eq!(world.image.topic_configs("t"), None);
}

// Goal: a bad resource changes nothing for the good ones, and one named twice is refused twice. Method: one request of
// all sorts; then the same as a check only.
#[test]
fn resources_are_independent() {
    let world = World::new();
    let good = resource(T, "t", &[(SET, "retention.ms", Some("5"))]);
    let bad = resource(T, "x", &[(SET, "retention.ms", Some("5"))]);
    let twice = resource(B, "1", &[(SET, "log.retention.ms", Some("5"))]);
    let asked = [twice.clone(), bad, good, twice];
    let decision = world.decide(&asked);
    let errors: Vec<_> = decision
        .results
        .iter()
        .map(|r| r.as_ref().err().map(|e| e.error))
        .collect();
    let (request, unknown) = (
        ErrorCode::InvalidRequest,
        ErrorCode::UnknownTopicOrPartition,
    );
    assert_eq!(errors, [Some(request), Some(unknown), None, Some(request)]);
    assert_eq!(decision.records.len(), 1);
    let options = AlterConfigsOptions {
        broker: &world.broker,
        validate_only: true,
    };
    let checked = alter_configs(&world.image, &asked, &options);
    assert_eq!(checked.results, decision.results);
    assert_eq!(checked.records, []);
}

// Goal: what does not change anything writes nothing; what would be too much is refused. Method: the same value twice;
// more names than one batch of the metadata log should have.
#[test]
fn records_are_few() {
    let mut world = World::new();
    let set = resource(T, "t", &[(SET, "retention.ms", Some("5"))]);
    assert_eq!(world.alter(set.clone()), Ok(()));
    assert_eq!(world.decide(&[set]).records, []);
    let names: Vec<String> = (0..=limits::CONFIG_RECORDS_PER_REQUEST_MAX)
        .map(|number| format!("plugin.{number}"))
        .collect();
    let many: Vec<_> = names
        .iter()
        .map(|name| (SET, name.as_str(), Some("x")))
        .collect();
    let refused = world.alter(resource(B, "", &many)).unwrap_err();
    assert_eq!(refused.0, ErrorCode::PolicyViolation);
}

const G: i8 = RESOURCE_GROUP;
const C: i8 = RESOURCE_CLIENT_METRICS;
const L: i8 = RESOURCE_BROKER_LOGGER;

// Goal: groups, client metrics and loggers are judged by their own rules, in Kafka's words. Method: a row each; groups and
// client metrics become records, loggers do not.
#[test]
fn other_resources() {
    let mut world = World::new();
    let mut check = |kind, name, change, expected: Result<(), (ErrorCode, &str)>| {
        let result = world.alter(resource(kind, name, &[change]));
        let expected = expected.map_err(|(error, text)| (error, text.to_owned()));
        assert_eq!(result, expected, "{kind} {name} {change:?}");
    };
    let request = |text| Err((ErrorCode::InvalidRequest, text));
    let config = |text| Err((ErrorCode::InvalidConfig, text));
    let session = "consumer.session.timeout.ms";
    check(G, "g", (SET, session, Some("50000")), Ok(()));
    let text = "Default group resources are not allowed.";
    check(G, "", (SET, session, Some("50000")), request(text));
    let text = "Unknown group config name: no.such";
    check(G, "g", (SET, "no.such", Some("1")), config(text));
    let text = "consumer.session.timeout.ms must be greater than or equal to \
                group.consumer.min.session.timeout.ms";
    check(G, "g", (SET, session, Some("1000")), config(text));
    let text = "Can't APPEND to key consumer.session.timeout.ms because its type is not LIST.";
    check(G, "g", (APPEND, session, Some("1")), config(text));
    check(C, "m", (SET, "metrics", Some("org.apache.")), Ok(()));
    let text = "Can't APPEND to key metrics because its type is not LIST.";
    check(C, "m", (APPEND, "metrics", Some("org.")), config(text));
    let text = "Subscription name can't be empty";
    check(C, "", (SET, "metrics", Some("*")), request(text));
    let text = "Unknown client metrics configuration: no.such";
    check(C, "m", (SET, "no.such", Some("1")), request(text));
    let text = "Illegal client matching pattern: a=b";
    check(C, "m", (SET, "match", Some("a=b")), config(text));
    check(L, "1", (SET, "root", Some("DEBUG")), Ok(()));
    check(L, "1", (DELETE, "pelton_broker", None), Ok(()));
    let text = "Logger no.such does not exist!";
    check(L, "1", (SET, "no.such", Some("DEBUG")), config(text));
    let text = "Cannot set the log level of root to debug as it is not a supported log level. Valid \
                log levels are FATAL, ERROR, WARN, INFO, DEBUG, TRACE";
    check(L, "1", (SET, "root", Some("debug")), config(text));
    let text = "Removing the log level of the root logger is not allowed";
    check(L, "1", (DELETE, "root", None), request(text));
    let text = "APPEND operation is not allowed for the BROKER_LOGGER resource";
    check(L, "1", (APPEND, "root", Some("INFO")), request(text));
    let text = "Unexpected node id. Expected 1, but received 2";
    check(L, "2", (SET, "root", Some("INFO")), request(text));
    let text = "Node id must be an integer, but it is: ";
    check(L, "", (SET, "root", Some("INFO")), request(text));
    let value = |kind, name, key| {
        let configs = world.image.configs(kind, name);
        configs.and_then(|configs| configs.get(key).cloned())
    };
    assert_eq!(value(G, "g", session).as_deref(), Some("50000"));
    assert_eq!(value(C, "m", "metrics").as_deref(), Some("org.apache."));
    assert_eq!(world.image.config_resource_count(L), 0);
}

// Goal: the number of groups with a configuration is bounded, and those that have one can still change it. Method: an
// image that is full.
#[test]
fn resources_are_bounded() {
    let mut world = World::new();
    let records = (0..limits::CONFIG_RESOURCES_MAX).map(|index| {
        let record = ConfigRecord {
            resource_type: G,
            resource_name: index.to_string(),
            name: "consumer.session.timeout.ms".into(),
            value: Some("50000".into()),
        };
        MetadataRecord::from(record)
    });
    world.replay(&records.collect::<Vec<_>>());
    let set = [(SET, "consumer.session.timeout.ms", Some("60000"))];
    assert_eq!(world.alter(resource(G, "7", &set)), Ok(()));
    let refused = world.alter(resource(G, "new", &set)).unwrap_err();
    assert_eq!(refused.0, ErrorCode::PolicyViolation);
    let unset = [(DELETE, "consumer.session.timeout.ms", None)];
    assert_eq!(world.alter(resource(G, "new", &unset)), Ok(()));
    assert_eq!(world.alter(resource(G, "7", &unset)), Ok(()));
    assert_eq!(world.alter(resource(G, "new", &set)), Ok(()));
}
