//! Configurations as a whole: what is told can be set again, and the list for users says what has no effect.

use std::collections::BTreeMap;

use kafka_protocol::messages::{ApiKey, DescribeConfigsResponse, IncrementalAlterConfigsResponse};
use pelton_model::config::key::Effect;
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

/// The list for users, as it should be.
fn list() -> String {
    let mut text = "# Settings without effect\n\n\
        Pelton knows every setting of Apache Kafka 4.3: it reads them from a `server.properties`, checks, keeps and tells them. Those below do nothing \
        else here. *Not yet* are such as wait for the part of Pelton that will use them.\n\n\
        This list follows the tables in `core/model/src/config/table`; a test compares the two, and with `PELTON_WRITE=1` writes it.\n"
        .to_owned();
    let topic = topic_keys().iter().map(|row| &row.key);
    let group = group_keys().iter().map(|row| &row.key);
    let metrics = client_metrics_keys().iter().map(|row| &row.key);
    let parts: [(&str, Vec<_>); 4] = [
        ("brokers", broker_keys().collect()),
        ("topics", topic.collect()),
        ("groups", group.collect()),
        ("client metrics subscriptions", metrics.collect()),
    ];
    for (title, keys) in parts {
        for (what, effect) in [("Not yet", Effect::Planned), ("Without effect", Effect::Ignored)] {
            let of_effect = keys.iter().filter(|key| key.effect == effect);
            let mut names: Vec<_> = of_effect.map(|key| format!("`{}`", key.name)).collect();
            names.sort_unstable();
            if !names.is_empty() {
                text.push_str(&format!("\n## {what}: {title}\n\n{}\n", names.join(", ")));
            }
        }
    }
    text
}

// Goal: the list of settings without effect is true. Method: the file against the tables.
#[test]
fn list_of_settings_without_effect() {
    let path = own_file("../net/broker/SETTINGS.md");
    if std::env::var_os("PELTON_WRITE").is_some() {
        std::fs::write(&path, list()).expect("the file can be written");
    }
    let written = std::fs::read_to_string(&path).expect("net/broker/SETTINGS.md");
    assert!(
        written == list(),
        "net/broker/SETTINGS.md is not what the tables say: run this test with PELTON_WRITE=1"
    );
}
