//! Configurations as a whole: what is told can be set again, and the reference for users is true.

use std::collections::BTreeMap;

use kafka_protocol::messages::{ApiKey, DescribeConfigsResponse, IncrementalAlterConfigsResponse};
use pelton_model::config::key::{ConfigKey, Effect, Rule, TopicKey, Update};
use pelton_model::config::table::{broker_keys, client_metrics_keys, group_keys, topic_keys};
use pelton_tests::answer;
use pelton_tests::broker::{Broker, unique};
use pelton_tests::peer::own_file;
use pelton_tests::raw::{PATIENCE, Raw, Reply};
use pelton_tests::request::{Resource, describe_configs, incremental_alter_configs};
use pelton_tests::topic;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;

const SET: i8 = 0;
const DELETE: i8 = 1;

/// Every value of a resource that can be set. Kafka tells brokers' `ssl.*` as such, and takes them only with a listener's prefix.
fn settable(connection: &mut Raw, kind: i8, name: &str) -> BTreeMap<String, String> {
    connection.send(&describe_configs(4, kind, name, None));
    let Reply::Frame(frame) = connection.receive(PATIENCE) else { panic!("no answer") };
    let answer: DescribeConfigsResponse =
        answer::decode(ApiKey::DescribeConfigs, 4, &frame).expect("an answer");
    let configs = &answer.results[0].configs;
    let settable = configs.iter().filter(|config| {
        !config.read_only && !config.is_sensitive && !config.name.starts_with("ssl.")
    });
    let pairs = settable
        .filter_map(|config| Some((config.name.to_string(), config.value.as_ref()?.to_string())));
    pairs.collect()
}

fn alter(connection: &mut Raw, kind: i8, name: &str, changes: Vec<(i8, &str, Option<&str>)>) {
    let label = format!("{kind} {name} {changes:?}");
    connection.send(&incremental_alter_configs(1, &[Resource { kind, name, changes }], false));
    let Reply::Frame(frame) = connection.receive(PATIENCE) else { panic!("no answer: {label}") };
    let answer: IncrementalAlterConfigsResponse =
        answer::decode(ApiKey::IncrementalAlterConfigs, 1, &frame).expect("an answer");
    let result = &answer.responses[0];
    assert_eq!(result.error_code, 0, "{label}: {:?}", result.error_message);
}

// Goal: every value that DescribeConfigs returns can be set again unchanged, one by one and all at once, and changes nothing.
// Method: each kind of resource, all its names.
#[test]
fn what_is_told_can_be_set() {
    let broker = Broker::start();
    let topic = topic::create(&broker, "told");
    let mut connection = broker.connect();
    let mut check = |kind: i8, name: &str, count_min: usize| {
        let told = settable(&mut connection, kind, name);
        assert!(count_min <= told.len(), "{kind}: {}", told.len());
        for (key, value) in &told {
            alter(&mut connection, kind, name, vec![(SET, key, Some(value))]);
        }
        let all = told.iter().map(|(key, value)| (SET, key.as_str(), Some(value.as_str())));
        alter(&mut connection, kind, name, all.collect());
        assert_eq!(settable(&mut connection, kind, name), told);
        if kind != LOGGER {
            let all = told.keys().map(|key| (DELETE, key.as_str(), None));
            alter(&mut connection, kind, name, all.collect());
            assert_eq!(settable(&mut connection, kind, name), told);
        }
    };
    check(TOPIC, &topic.name, 30);
    check(BROKER, "1", 70);
    check(GROUP, &unique("told"), 17);
    check(CLIENT_METRICS, &unique("told"), 3);
    check(LOGGER, "1", 10);
}

/// What a value may be, beyond its type.
fn allowed(key: &ConfigKey) -> String {
    let words = |words: &[&str]| words.iter().map(|each| format!("`{each}`")).collect::<Vec<_>>();
    match key.rule {
        Rule::Any => String::new(),
        Rule::Min(min) => format!("≥ {min}"),
        Rule::Range(min, max) => format!("{min} … {max}"),
        Rule::Ratio(min, max) => format!("{min} … {max}"),
        Rule::OneOf(each) => words(each).join(" "),
        Rule::AnyCase(each) => format!("{}, in any case", words(each).join(" ")),
        Rule::GzipLevel => "1 … 9, or -1".to_owned(),
        Rule::ThrottledReplicas => "`*`, or partition:broker pairs".to_owned(),
        Rule::NonEmpty => "not empty".to_owned(),
        Rule::ShareOffsetReset => "`earliest` `latest` `by_duration:PT…`".to_owned(),
    }
}

/// A row of the reference; `last` is its column between what is allowed and what it does.
fn row(key: &ConfigKey, last: &str) -> String {
    let default = match key.default {
        None => "null".to_owned(),
        Some("") => "empty".to_owned(),
        Some(text) => format!("`{text}`"),
    };
    let (kind, doc) = (key.kind.name().to_lowercase(), key.doc.replace('|', "\\|"));
    format!("| `{}` | {kind} | {default} | {} | {last} | {doc} |\n", key.name, allowed(key))
}

/// A table of what is served, and lists of what is not.
fn part<'a>(
    title: &str,
    last: &str,
    rows: impl Iterator<Item = (&'a ConfigKey, String)>,
) -> String {
    let mut rows: Vec<_> = rows.collect();
    rows.sort_unstable_by_key(|(key, _)| key.name);
    let of_effect = |effect| rows.iter().filter(move |(key, _)| key.effect == effect);
    let mut text = format!("\n## {title}\n");
    if of_effect(Effect::Served).next().is_some() {
        text.push_str(&format!(
            "\n| setting | type | default | allowed | {last} | |\n|---|---|---|---|---|---|\n"
        ));
    }
    text.extend(of_effect(Effect::Served).map(|(key, last)| row(key, last)));
    for (what, effect) in [("Not yet", Effect::Planned), ("Without effect", Effect::Ignored)] {
        let names: Vec<_> = of_effect(effect).map(|(key, _)| format!("`{}`", key.name)).collect();
        if !names.is_empty() {
            text.push_str(&format!("\n{what}: {}\n", names.join(", ")));
        }
    }
    text
}

/// Where a topic's or a group's default comes from.
fn defaults(key: &TopicKey) -> String {
    let names = key.synonyms.iter().map(|each| format!("`{}`", each.name));
    names.collect::<Vec<_>>().join(", ")
}

/// The reference for users, as it should be.
fn reference() -> String {
    let mut text = "# Settings\n\n\
        Pelton knows every setting of Apache Kafka 4.3: it reads them from a `server.properties` or from `--set KEY=VALUE`, checks, keeps and tells them. \
        Here are those that do something, by what they belong to, then the names of those that do not. *Not yet* are such as wait for the part of \
        Pelton that will use them. What can be changed while the broker runs is changed with `pelton config set`, or with any client of Kafka.\n\n\
        This page follows the tables in `core/model/src/config/table`; a test compares the two, and with `PELTON_WRITE=1` writes it.\n"
        .to_owned();
    let update = |key: &ConfigKey| match key.update {
        Update::ReadOnly => "start".to_owned(),
        Update::PerBroker => "broker".to_owned(),
        Update::ClusterWide => "broker, all".to_owned(),
    };
    let of_resource =
        |keys: &'static [TopicKey]| keys.iter().map(|each| (&each.key, defaults(each)));
    let brokers = broker_keys().map(|key| (key, update(key)));
    text.push_str("\n*set for* tells whether a setting is read at the start only, can be set for one broker, or for all at once too.\n");
    text.push_str(&part("Brokers", "set for", brokers));
    text.push_str(&part("Topics", "default from", of_resource(topic_keys())));
    text.push_str(&part("Groups", "default from", of_resource(group_keys())));
    text.push_str(&part(
        "Client metrics subscriptions",
        "default from",
        of_resource(client_metrics_keys()),
    ));
    text
}

// Goal: the reference of settings is true. Method: the file against the tables.
#[test]
fn reference_of_settings() {
    let path = own_file("../net/broker/SETTINGS.md");
    if std::env::var_os("PELTON_WRITE").is_some() {
        std::fs::write(&path, reference()).expect("the file can be written");
    }
    let written = std::fs::read_to_string(&path).expect("net/broker/SETTINGS.md");
    assert!(
        written == reference(),
        "net/broker/SETTINGS.md is not what the tables say: run this test with PELTON_WRITE=1"
    );
}
