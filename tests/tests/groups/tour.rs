//! Point-to-point and publish/subscribe, as README shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::{Duration, Instant};

use pelton_tests::broker::{Broker, binary, unique};
use pelton_tests::librdkafka::member;
use pelton_tests::peer::run_ok;
use pelton_tests::topic::{self, TestTopic};
use rdkafka::Message;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};

use super::{PATIENCE, broker};

type Record = (i32, i64);

/// Polls all members until they have `count` records together, and for a moment longer; what each got.
fn read(members: &[BaseConsumer], count: usize) -> Vec<Vec<Record>> {
    let mut got: Vec<Vec<Record>> = members.iter().map(|_| Vec::new()).collect();
    let deadline = Instant::now() + PATIENCE;
    let mut quiet_since = Instant::now();
    loop {
        let mut is_quiet = true;
        for (member, got) in members.iter().zip(&mut got) {
            if let Some(message) = member.poll(Duration::from_millis(20)) {
                let message = message.expect("no errors");
                got.push((message.partition(), message.offset()));
                is_quiet = false;
            }
        }
        if !is_quiet {
            quiet_since = Instant::now();
        }
        let total: usize = got.iter().map(Vec::len).sum();
        if total >= count && quiet_since.elapsed() > Duration::from_millis(300) {
            return got;
        }
        assert!(Instant::now() < deadline, "{total} of {count} records came");
    }
}

fn joined(broker: &Broker, topic: &TestTopic, group: &str, count: usize) -> Vec<BaseConsumer> {
    let members: Vec<BaseConsumer> =
        (0..count).map(|_| member(&broker.bootstrap(), group, &[])).collect();
    for member in &members {
        member.subscribe(&[&topic.name]).expect("a subscription");
    }
    settle(&members, topic, group);
    members
}

/// Polls until all are members, every partition has an owner and nobody rebalances.
fn settle(members: &[BaseConsumer], topic: &TestTopic, group: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        for member in members {
            assert!(member.poll(Duration::from_millis(20)).is_none(), "no record yet");
        }
        let owned: BTreeSet<i32> = members.iter().flat_map(|member| owned(member, topic)).collect();
        let shares: Vec<usize> = members.iter().map(owned_count).collect();
        if owned.len() == 2
            && shares.iter().sum::<usize>() == 2
            && shares.iter().all(|&n| n < 2 || members.len() == 1)
            && is_stable(&members[0], group, members.len())
        {
            return;
        }
        assert!(Instant::now() < deadline, "owned: {owned:?}, {shares:?}");
    }
}

fn is_stable(member: &BaseConsumer, group: &str, count: usize) -> bool {
    let groups = member.fetch_group_list(Some(group), PATIENCE).expect("an answer");
    let of_group = |found: &rdkafka::groups::GroupInfo| {
        found.state() == "Stable" && found.members().len() == count
    };
    groups.groups().iter().any(of_group)
}

fn owned(member: &BaseConsumer, topic: &TestTopic) -> Vec<i32> {
    let assignment = member.assignment().expect("an assignment");
    assignment.elements_for_topic(&topic.name).iter().map(|element| element.partition()).collect()
}

fn owned_count(member: &BaseConsumer) -> usize {
    member.assignment().expect("an assignment").count()
}

/// Goal: in one group each record goes to one member, and a member too many is idle. Method: three members, two partitions.
#[test]
fn a_queue_has_one_reader_for_each_record() {
    let Some(broker) = broker(2) else { return };
    let topic = topic::create_with(&broker, "queue", 2, &[]);
    let members = joined(&broker, &topic, "workers", 3);
    topic::seed(&broker, &topic, 0, 50);
    topic::seed(&broker, &topic, 1, 50);
    let got = read(&members, 100);
    let all: BTreeSet<Record> = got.iter().flatten().copied().collect();
    assert_eq!(all.len(), 100);
    assert_eq!(got.iter().map(Vec::len).sum::<usize>(), 100, "nobody shares a record");
    let mut shares: Vec<usize> = got.iter().map(Vec::len).collect();
    shares.sort_unstable();
    assert_eq!(shares, [0, 50, 50], "one member is idle");
}

/// Goal: every group gets every record. Method: two groups of one member.
#[test]
fn publish_subscribe_reaches_every_group() {
    let Some(broker) = broker(2) else { return };
    let topic = topic::create_with(&broker, "news", 2, &[]);
    let billing = joined(&broker, &topic, "billing", 1);
    let audit = joined(&broker, &topic, "audit", 1);
    topic::seed(&broker, &topic, 0, 30);
    for group in [&billing, &audit] {
        assert_eq!(read(group, 30)[0].len(), 30);
    }
}

/// Goal: what is committed is not given again, what is not is. Method: one reads without committing, the next commits, the third finds
/// nothing; with automatic commits the same by itself.
#[test]
fn commits_say_where_to_go_on() {
    let Some(broker) = broker(2) else { return };
    let topic = topic::create_with(&broker, "orders", 2, &[]);
    topic::seed(&broker, &topic, 1, 20);
    let join = |settings: &[(&str, &str)]| {
        let consumer = member(&broker.bootstrap(), "manual", settings);
        consumer.subscribe(&[&topic.name]).expect("a subscription");
        [consumer]
    };
    let first = join(&[]);
    assert_eq!(read(&first, 20)[0].len(), 20);
    drop(first);
    let second = join(&[]);
    assert_eq!(read(&second, 20)[0].len(), 20, "nothing was committed");
    second[0].commit_consumer_state(CommitMode::Sync).expect("a commit");
    drop(second);
    topic::seed(&broker, &topic, 1, 5);
    let third = join(&[("enable.auto.commit", "true"), ("auto.commit.interval.ms", "100")]);
    assert_eq!(read(&third, 5)[0], (20..25).map(|offset| (1, offset)).collect::<Vec<_>>());
    drop(third);
    topic::seed(&broker, &topic, 1, 1);
    assert_eq!(read(&join(&[]), 1)[0], [(1, 25)]);
}

fn pelton(broker: &Broker, arguments: &[&str]) -> String {
    let mut command = Command::new(binary());
    command.args(arguments).env("PELTON_BOOTSTRAP", broker.bootstrap());
    run_ok(command, b"", PATIENCE)
}

/// Goal: our own commands share a topic, say who is behind, and set offsets. Method: the commands of the tour in README.
#[test]
fn the_command_line() {
    let Some(broker) = broker(1) else { return };
    let topic = topic::create_with(&broker, "cli", 2, &[]);
    let name = topic.name.as_str();
    let group = unique("group");
    topic::seed(&broker, &topic, 0, 3);
    topic::seed(&broker, &topic, 1, 2);
    let consume = |more: &[&str]| {
        let mut arguments = vec!["consume", name, "--group", &group];
        arguments.extend(more);
        pelton(&broker, &arguments).lines().count()
    };
    assert_eq!(consume(&["--max", "2"]), 2);
    let lag = |group: &str| -> BTreeMap<i64, (i64, i64)> {
        let text = pelton(&broker, &["group", "describe", group, "--output", "json"]);
        let groups: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let partitions = groups[0]["partitions"].as_array().expect("partitions");
        let number = |value: &serde_json::Value| value.as_i64().unwrap_or(-1);
        partitions
            .iter()
            .map(|row| (number(&row["partition"]), (number(&row["lag"]), number(&row["behindMs"]))))
            .collect()
    };
    let lags = lag(&group);
    assert!(lags.values().any(|(records, ms)| *records > 0 && *ms > 0), "{lags:?}");
    assert_eq!(consume(&[]), 3);
    assert!(lag(&group).values().all(|lag| *lag == (0, 0)));
    assert_eq!(consume(&[]), 0);
    pelton(&broker, &["group", "reset", &group, "--topic", name, "--to", "beginning"]);
    assert_eq!(consume(&[]), 5);
    assert!(pelton(&broker, &["group", "list"]).contains(&group));
    pelton(&broker, &["group", "delete", &group]);
    assert!(!pelton(&broker, &["group", "list"]).contains(&group));
}
