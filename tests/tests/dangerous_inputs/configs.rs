//! DescribeConfigs, AlterConfigs and IncrementalAlterConfigs with odd resources, names, operations and values; and that what was set
//! is in force at once.

use kafka_protocol::messages::{ApiKey, DescribeConfigsResponse};
use pelton_tests::answer;
use pelton_tests::batch::{Batch, Record};
use pelton_tests::broker::{Broker, unique};
use pelton_tests::raw::{Raw, Reply};
use pelton_tests::request::{
    NewTopic, Produce, Resource, alter_configs, create_topics, describe_configs,
    incremental_alter_configs, list_config_resources, update_features,
};
use pelton_tests::table::Table;
use pelton_tests::topic;
use pelton_tests::wire::{Body, request};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;

type Change<'a> = (i8, &'a str, Option<&'a str>);

fn change<'a>(kind: i8, name: &'a str, changes: &[Change<'a>]) -> Vec<u8> {
    incremental_alter_configs(1, &[Resource { kind, name, changes: changes.to_vec() }], false)
}

/// The value, source and read-only flag of one name, as told to one connection.
fn told(connection: &mut Raw, kind: i8, name: &str, key: &str) -> (Option<String>, i8, bool) {
    connection.send(&describe_configs(4, kind, name, Some(&[key])));
    let Reply::Frame(frame) = connection.receive(pelton_tests::raw::PATIENCE) else {
        panic!("no answer about {key}");
    };
    let answer: DescribeConfigsResponse =
        answer::decode(ApiKey::DescribeConfigs, 4, &frame).expect("an answer");
    let config = answer.results[0].configs.first().expect("the name is listed");
    let value = config.value.as_ref().map(ToString::to_string);
    (value, config.config_source, config.read_only)
}

/// What is described: resources of every sort, all names or some.
#[test]
fn describe() {
    let broker = Broker::start();
    let topic = topic::create(&broker, "described");
    let name = topic.name.as_str();
    let mut table = Table::new(&broker);
    for version in 1..=4 {
        let all = describe_configs(version, TOPIC, name, None);
        table.row(&format!("v{version} of a topic"), &all, "ok");
        let broker = describe_configs(version, BROKER, "1", None);
        table.row(&format!("v{version} of the broker"), &broker, "ok");
    }
    table.row("no names is all", &describe_configs(4, TOPIC, name, Some(&[])), "ok");
    let some = describe_configs(4, TOPIC, name, Some(&["retention.ms", "no.such", "segment.ms"]));
    table.row("some names", &some, "ok; configs 2");
    let (group, subscription) = (unique("none"), unique("none"));
    let of = |kind, name| describe_configs(4, kind, name, None);
    table.row("unknown topic", &of(TOPIC, "no-such-topic"), "UnknownTopicOrPartition; configs 0");
    table.row("empty topic", &of(TOPIC, ""), "InvalidTopicException; configs 0");
    table.row("bad topic", &of(TOPIC, "a/b"), "InvalidTopicException; configs 0");
    table.row("another broker", &of(BROKER, "4711"), "InvalidRequest; configs 0");
    table.row("a broker without number", &of(BROKER, "abc"), "InvalidRequest; configs 0");
    table.row("type 0", &of(0, "x"), "InvalidRequest; configs 0");
    table.row("type 99", &of(99, "x"), "InvalidRequest; configs 0");
    let mut both = Body::new(false).count(2);
    for (kind, name) in [(GROUP, group.as_str()), (99, "x")] {
        both = both.i8(kind).string(name).count(-1);
    }
    let both = request(32, 1, false, &both.bool(false).into_bytes());
    table.row("type 99 beside a group", &both, "InvalidRequest InvalidRequest; configs 0");
    table.row("a group nobody knows", &of(GROUP, &group), "ok; configs 17");
    table.row("a group without name", &of(GROUP, ""), "InvalidRequest; configs 0");
    table.row("client metrics", &of(CLIENT_METRICS, &subscription), "ok; configs 3");
    table.row("no client metrics", &of(CLIENT_METRICS, ""), "InvalidRequest; configs 0");
    table.row("loggers", &of(LOGGER, "1"), "ok");
    table.row("loggers of another broker", &of(LOGGER, "4711"), "InvalidRequest; configs 0");
    table.row("loggers of no broker", &of(LOGGER, ""), "InvalidRequest; configs 0");
    table.row("loggers without number", &of(LOGGER, "x"), "InvalidRequest; configs 0");
    table.finish();
}

/// What is changed: each resource is judged alone, and by Kafka's rules.
#[test]
fn alter() {
    let broker = Broker::start();
    let topic = topic::create(&broker, "altered");
    let name = topic.name.as_str();
    let mut table = Table::new(&broker);
    let retention: [Change<'_>; 1] = [(SET, "retention.ms", Some("123456"))];
    let good = Resource { kind: TOPIC, name, changes: retention.to_vec() };
    for version in 0..=1 {
        let bytes = incremental_alter_configs(version, std::slice::from_ref(&good), true);
        table.row(&format!("v{version}"), &bytes, "ok; resources 1");
    }
    for version in 0..=2 {
        let bytes = alter_configs(version, std::slice::from_ref(&good), true);
        table.row(&format!("the old API, v{version}"), &bytes, "ok; resources 1");
    }
    let bad = Resource { kind: TOPIC, name: "no-such-topic", changes: retention.to_vec() };
    let both = incremental_alter_configs(1, &[bad, good.clone()], true);
    table.row_sorted("good and bad", &both, "UnknownTopicOrPartition; resources 2");
    let twice = incremental_alter_configs(1, &[good.clone(), good.clone()], false);
    table.row("twice", &twice, "InvalidRequest InvalidRequest; resources 2");
    table.row("none", &incremental_alter_configs(1, &[], false), "ok; resources 0");
    let set = |key, value| change(TOPIC, name, &[(SET, key, value)]);
    table.row("null", &set("retention.ms", None), "InvalidRequest");
    table.row("no number", &set("retention.ms", Some("abc")), "InvalidConfig");
    table.row("unknown name", &set("no.such", Some("1")), "InvalidConfig");
    table.row("tiered storage", &set("remote.storage.enable", Some("true")), "InvalidConfig");
    let repeated = [retention[0], (DELETE, "retention.ms", None)];
    table.row("a name twice", &change(TOPIC, name, &repeated), "InvalidRequest");
    let append = change(TOPIC, name, &[(APPEND, "retention.ms", Some("1"))]);
    table.row("append to a number", &append, "InvalidConfig");
    let odd = change(TOPIC, name, &[(9, "retention.ms", Some("1"))]);
    table.row_better("operation 9", &odd, "InvalidRequest", "UnknownServerError");
    table.row("empty topic", &change(TOPIC, "", &retention), "InvalidRequest");
    table.row("bad topic", &change(TOPIC, "a/b", &retention), "InvalidTopicException");
    table.row("type 0", &change(0, name, &retention), "InvalidRequest");
    let broker = |name, key, value| change(BROKER, name, &[(SET, key, Some(value))]);
    table.row("another broker", &broker("4711", "log.retention.ms", "1"), "InvalidRequest");
    table.row("a broker without number", &broker("x", "log.retention.ms", "1"), "InvalidRequest");
    table.row("read-only", &broker("1", "log.dirs", "/x"), "InvalidRequest");
    table.row("read-only for all", &broker("", "num.partitions", "2"), "InvalidRequest");
    table.row("no broker number", &broker("1", "log.cleaner.threads", "x"), "InvalidRequest");
    table.finish();
}

/// Groups, client metrics and loggers: what may be set on them, and what not.
#[test]
fn alter_other_resources() {
    let broker = Broker::start();
    let (group, subscription) = (unique("configured"), unique("metrics"));
    let mut table = Table::new(&broker);
    let mut row = |label: &str, kind, name: &str, change: Change<'_>, expected: &str| {
        table.row(label, &change_of(kind, name, change), expected);
    };
    let session = "consumer.session.timeout.ms";
    row("group", GROUP, &group, (SET, session, Some("50000")), "ok");
    row("group, too short", GROUP, &group, (SET, session, Some("44999")), "InvalidConfig");
    row("group, too long", GROUP, &group, (SET, session, Some("60001")), "InvalidConfig");
    row("group, no number", GROUP, &group, (SET, session, Some("x")), "InvalidConfig");
    row("group, unknown", GROUP, &group, (SET, "no.such", Some("1")), "InvalidConfig");
    row("group, append", GROUP, &group, (APPEND, session, Some("1")), "InvalidConfig");
    row("group without name", GROUP, "", (SET, session, Some("50000")), "InvalidRequest");
    row("group, null", GROUP, &group, (SET, session, None), "InvalidRequest");
    row("group, deleted", GROUP, &group, (DELETE, session, None), "ok");
    let name = subscription.as_str();
    row("metrics", CLIENT_METRICS, name, (SET, "interval.ms", Some("1000")), "ok");
    row("metrics, 99", CLIENT_METRICS, name, (SET, "interval.ms", Some("99")), "InvalidRequest");
    row("metrics, x", CLIENT_METRICS, name, (SET, "interval.ms", Some("x")), "InvalidConfig");
    row("metrics, unknown", CLIENT_METRICS, name, (SET, "no.such", Some("1")), "InvalidRequest");
    row("metrics, match", CLIENT_METRICS, name, (SET, "match", Some("a=b")), "InvalidConfig");
    row("metrics without name", CLIENT_METRICS, "", (SET, "metrics", Some("*")), "InvalidRequest");
    row(
        "metrics, append",
        CLIENT_METRICS,
        name,
        (APPEND, "metrics", Some("org.")),
        "InvalidConfig",
    );
    row("metrics, gone", CLIENT_METRICS, name, (DELETE, "metrics", None), "ok");
    row("metrics, all gone", CLIENT_METRICS, name, (DELETE, "interval.ms", None), "ok");
    row("logger", LOGGER, "1", (SET, "root", Some("INFO")), "ok");
    row("logger, level", LOGGER, "1", (SET, "root", Some("LOUD")), "InvalidConfig");
    row("logger, small letters", LOGGER, "1", (SET, "root", Some("info")), "InvalidConfig");
    row("logger, unknown", LOGGER, "1", (SET, "no.such", Some("INFO")), "InvalidConfig");
    row("logger, root deleted", LOGGER, "1", (DELETE, "root", None), "InvalidRequest");
    row("logger, append", LOGGER, "1", (APPEND, "root", Some("INFO")), "InvalidRequest");
    row("logger, elsewhere", LOGGER, "4711", (SET, "root", Some("INFO")), "InvalidRequest");
    row("logger of none", LOGGER, "", (SET, "root", Some("INFO")), "InvalidRequest");
    let whole = |kind, name, key, value| {
        alter_configs(1, &[Resource { kind, name, changes: vec![(SET, key, Some(value))] }], true)
    };
    table.row("group, whole", &whole(GROUP, &group, session, "50000"), "ok");
    table.row("metrics, whole", &whole(CLIENT_METRICS, name, "metrics", "*"), "ok");
    table.row("loggers, whole", &whole(LOGGER, "1", "root", "INFO"), "InvalidRequest");
    table.finish();
}

/// A group's configuration is told with its source, and the default again once its value is taken away; which types of resources there are
/// is listed.
#[test]
fn group_settings() {
    let broker = Broker::start();
    let group = unique("told");
    let mut connection = broker.connect();
    let session = "consumer.session.timeout.ms";
    let mut check = |change: Option<Change<'_>>, value: &str, source: i8| {
        if let Some(change) = change {
            connection.ask(&change_of(GROUP, &group, change));
        }
        let shown = told(&mut connection, GROUP, &group, session);
        assert_eq!(shown, (Some(value.to_owned()), source, false));
    };
    check(None, "45000", 5);
    if !broker.is_kafka() {
        check(Some((SET, session, Some(" 050000"))), "50000", 8);
        check(Some((DELETE, session, None)), "45000", 5);
    }
    let _listed = topic::create(&broker, "listed");
    let mut table = Table::new(&broker);
    let mut row = |label: &str, version, kinds: &[i8], expected: &str| {
        table.row(label, &list_config_resources(version, kinds), expected);
    };
    row("v0", 0, &[], "ok");
    row("topics", 1, &[TOPIC], "ok; types {2}");
    row("brokers and loggers", 1, &[LOGGER, BROKER, LOGGER], "ok; types {4, 8}");
    row("unknown type", 1, &[TOPIC, 99], "UnsupportedVersion; types {}");
    row("type 0", 1, &[0], "UnsupportedVersion; types {}");
    table.finish();
}

/// UpdateFeatures: who is refused, and with what; a request with one bad update is refused as a whole.
#[test]
fn update_features_refusals() {
    let broker = Broker::start();
    let mut table = Table::new(&broker);
    let invalid = "InvalidUpdateVersion; results 0";
    for version in 0..=2 {
        let of = |updates: &[(&str, i16, i8)]| update_features(version, updates, true);
        let mut row = |label: &str, updates: &[(&str, i16, i8)], expected: &str| {
            table.row(&format!("v{version}: {label}"), &of(updates), expected);
        };
        let results = if version == 2 { 0 } else { 1 };
        let same = format!("ok; results {results}");
        row("the present level", &[("group.version", 1, 1)], &same);
        row("nothing", &[], "ok; results 0");
        row("unknown", &[("no.such", 1, 1)], invalid);
        row("unknown off", &[("no.such", 0, 2)], invalid);
        row("too high", &[("metadata.version", 99, 1)], invalid);
        row("negative", &[("group.version", -1, 1)], invalid);
        row("one of two", &[("group.version", 1, 1), ("no.such", 1, 1)], invalid);
        row("metadata off", &[("metadata.version", 0, 3)], invalid);
        row("metadata back", &[("metadata.version", 29, 3)], invalid);
    }
    let of = |update| update_features(2, &[update], true);
    table.row("down by upgrade", &of(("group.version", 0, 1)), invalid);
    table.row("down", &of(("group.version", 0, 2)), "ok");
    table.row("type 0", &of(("group.version", 1, 0)), invalid);
    table.row("type 9", &of(("group.version", 1, 9)), invalid);
    table.row("kraft down", &of(("kraft.version", 0, 2)), invalid);
    table.finish();
}

/// A topic's and the brokers' settings act at once, on every shard, and after a restart. Method: the largest batch of a topic of four
/// partitions, lowered on the topic, then on all brokers, then on this broker.
#[test]
fn settings_act_at_once() {
    let broker = Broker::start();
    let name = unique("acting");
    let new = NewTopic { partitions: 4, ..NewTopic::named(&name) };
    let mut connection = broker.connect();
    connection.ask(&create_topics(4, &[new], false));
    let value = Some(vec![b'x'; 1000]);
    let batch = Batch::with(vec![Record { value, ..Record::at(0) }]).build();
    let mut table = Table::new(&broker);
    let mut check = |label: &str, set: Vec<u8>, value: &str, source: i8, expected: &str| {
        table.row(label, &set, "ok");
        if broker.is_kafka() {
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
        let shown = told(&mut connection, TOPIC, &name, "max.message.bytes");
        assert_eq!(shown, (Some(value.to_owned()), source, false), "{label}");
        for partition in 0..4 {
            let mut produce = Produce::to(name.as_str(), Vec::new());
            produce.partitions = vec![(partition, Some(batch.clone()))];
            let label = format!("{label}: partition {partition}");
            table.row(&label, &produce.frame(), expected);
        }
    };
    let own = |change: Change<'_>| change_of(TOPIC, &name, change);
    let (max, broker_max) = ("max.message.bytes", "message.max.bytes");
    check("topic", own((SET, max, Some("500"))), "500", 1, "MessageTooLarge");
    check("unset", own((DELETE, max, None)), "1048588", 5, "ok");
    let all = |change| change_of(BROKER, "", change);
    check("all brokers", all((SET, broker_max, Some("600"))), "600", 3, "MessageTooLarge");
    let one = |change| change_of(BROKER, "1", change);
    check("this broker", one((SET, broker_max, Some("70000"))), "70000", 2, "ok");
    check("not this broker", one((DELETE, broker_max, None)), "600", 3, "MessageTooLarge");
    check("no broker", all((DELETE, broker_max, None)), "1048588", 5, "ok");
    table.finish();
}

fn change_of(kind: i8, name: &str, one: Change<'_>) -> Vec<u8> {
    change(kind, name, &[one])
}

/// Settings outlive the process.
#[test]
fn settings_outlive_a_kill() {
    let Some(mut broker) = Broker::start_own(pelton_tests::broker::Options::default()) else {
        return;
    };
    let topic = topic::create(&broker, "kept");
    let name = topic.name.as_str();
    let mut connection = broker.connect();
    connection.ask(&change(TOPIC, name, &[(SET, "retention.ms", Some("777"))]));
    connection.ask(&change(BROKER, "", &[(SET, "log.segment.bytes", Some("2000000"))]));
    connection.ask(&change(BROKER, "1", &[(SET, "log.cleanup.policy", Some("compact"))]));
    broker.kill();
    broker.start_again();
    let mut connection = broker.connect();
    let mut check = |key, value: &str, source| {
        let shown = told(&mut connection, TOPIC, name, key);
        assert_eq!(shown, (Some(value.to_owned()), source, false), "{key}");
    };
    check("retention.ms", "777", 1);
    check("segment.bytes", "2000000", 3);
    check("cleanup.policy", "compact", 2);
}
