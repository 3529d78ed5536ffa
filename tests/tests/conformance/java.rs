//! Apache Kafka's own console tools.

use std::process::Command;
use std::time::Duration;

use pelton_tests::broker::{Broker, unique};
use pelton_tests::peer::{Peer, run, run_ok};
use pelton_tests::topic;

const WAIT: Duration = Duration::from_secs(60);

fn tool(broker: &Broker, name: &str, arguments: &[&str]) -> Option<Command> {
    let mut command = Peer::Java.command()?;
    command.args([name, "--bootstrap-server", &broker.bootstrap()]).args(arguments);
    Some(command)
}

/// Lines with keys go in with each codec (the producer is idempotent by default) and come out by partition and offset.
#[test]
fn console_producer_and_consumer() {
    let broker = Broker::start();
    let topic = topic::create(&broker, "console");
    let name = topic.name.as_str();
    let mut expected = Vec::new();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let lines: Vec<String> = (0..100).map(|n| format!("{codec}-{n}\tvalue {n}")).collect();
        let arguments =
            ["--topic", name, "--reader-property", "parse.key=true", "--compression-codec", codec];
        let Some(produce) = tool(&broker, "console-producer", &arguments) else { return };
        run_ok(produce, (lines.join("\n") + "\n").as_bytes(), WAIT);
        expected.extend(lines);
    }
    let consume = |offset: &str, count: usize| -> Vec<String> {
        let count = count.to_string();
        let arguments = [
            "--topic",
            name,
            "--partition",
            "0",
            "--offset",
            offset,
            "--max-messages",
            &count,
            "--timeout-ms",
            "20000",
            "--formatter-property",
            "print.key=true",
        ];
        let consume = tool(&broker, "console-consumer", &arguments).expect("it was there");
        run_ok(consume, b"", WAIT).lines().map(str::to_owned).collect()
    };
    assert_eq!(consume("earliest", 500), expected);
    assert_eq!(consume("250", 3), expected[250..253]);
}

/// acks=0 and acks=1 without idempotence.
#[test]
fn plain_producers() {
    let broker = Broker::start();
    for acks in ["0", "1"] {
        let topic = topic::create(&broker, "acks");
        let name = topic.name.as_str();
        let property = format!("acks={acks}");
        let arguments = [
            "--topic",
            name,
            "--command-property",
            &property,
            "--command-property",
            "enable.idempotence=false",
        ];
        let Some(produce) = tool(&broker, "console-producer", &arguments) else { return };
        run_ok(produce, b"one\ntwo\n", WAIT);
        let arguments = [
            "--topic",
            name,
            "--partition",
            "0",
            "--offset",
            "earliest",
            "--max-messages",
            "2",
            "--timeout-ms",
            "20000",
        ];
        let consume = tool(&broker, "console-consumer", &arguments).expect("it was there");
        assert_eq!(run_ok(consume, b"", WAIT), "one\ntwo\n", "acks {acks}");
    }
}

/// `kafka-topics` creates, lists, grows and deletes; `kafka-get-offsets` finds each end.
#[test]
fn topics_and_offsets() {
    let broker = Broker::start();
    let name = unique("tool");
    let topics = |arguments: &[&str]| tool(&broker, "topics", arguments);
    let create = ["--create", "--topic", &name, "--partitions", "3", "--replication-factor", "1"];
    let Some(command) = topics(&create) else { return };
    run_ok(command, b"", WAIT);
    let ok = |arguments: &[&str]| run_ok(topics(arguments).expect("it was there"), b"", WAIT);

    let again = run(topics(&create).expect("it was there"), b"", WAIT);
    assert!(!again.status.success());
    let text = String::from_utf8_lossy(&again.stdout).into_owned()
        + &String::from_utf8_lossy(&again.stderr);
    assert!(text.contains("already exists"), "{text}");

    ok(&["--alter", "--topic", &name, "--partitions", "4"]);
    assert!(ok(&["--list"]).lines().any(|line| line == name));
    let offsets = |time: &str| {
        let arguments = ["--topic", &name, "--time", time];
        run_ok(tool(&broker, "get-offsets", &arguments).expect("it was there"), b"", WAIT)
    };
    let expected: String = (0..4).map(|partition| format!("{name}:{partition}:0\n")).collect();
    assert_eq!(offsets("latest"), expected);
    assert_eq!(offsets("earliest"), expected);
    ok(&["--delete", "--topic", &name]);
    assert!(!ok(&["--list"]).lines().any(|line| line == name));
}

/// What ApiVersions says is what Kafka's own client can use: no API is listed that the client does not know.
#[test]
fn api_versions() {
    let broker = Broker::start();
    let Some(command) = tool(&broker, "api-versions", &[]) else { return };
    let text = run_ok(command, b"", WAIT);
    for api in ["Produce(0)", "Fetch(1)", "Metadata(3)", "CreateTopics(19)", "InitProducerId(22)"] {
        assert!(text.contains(api), "{api} is missing\n{text}");
    }
    assert!(!text.contains("UNKNOWN"), "{text}");
}

/// `kafka-delete-records` moves the start of a partition, and a consumer from the beginning starts there.
#[test]
fn delete_records() {
    let broker = Broker::start();
    let topic = topic::create_with(&broker, "deleted", 2, &[]);
    topic::seed(&broker, &topic, 0, 10);
    topic::seed(&broker, &topic, 1, 10);
    let file = tempfile::NamedTempFile::new().expect("a temp file");
    let name = &topic.name;
    let wanted = format!(
        r#"{{"version":1,"partitions":[{{"topic":"{name}","partition":0,"offset":4}},{{"topic":"{name}","partition":1,"offset":-1}}]}}"#
    );
    std::fs::write(file.path(), wanted).expect("a temp file");
    let path = file.path().to_str().expect("temp dirs are UTF-8");
    let Some(command) = tool(&broker, "delete-records", &["--offset-json-file", path]) else {
        return;
    };
    let text = run_ok(command, b"", WAIT);
    assert!(text.contains("low_watermark: 4"), "{text}");
    assert!(text.contains("low_watermark: 10"), "{text}");
    let arguments = ["--topic", name, "--time", "earliest"];
    let earliest = tool(&broker, "get-offsets", &arguments).expect("it was there");
    assert_eq!(run_ok(earliest, b"", WAIT), format!("{name}:0:4\n{name}:1:10\n"));
}

/// `kafka-configs` sets, shows and unsets what topics and brokers are configured with, and is refused in Kafka's words.
#[test]
fn configs() {
    let broker = Broker::start();
    let topic = topic::create(&broker, "configs");
    let name = topic.name.as_str();
    let configs = |arguments: &[&str]| tool(&broker, "configs", arguments);
    let of_topic = ["--entity-type", "topics", "--entity-name", name];
    let set = [
        &of_topic[..],
        &["--alter", "--add-config", "retention.ms=5000,cleanup.policy=[delete,compact]"],
    ];
    let Some(command) = configs(&set.concat()) else { return };
    run_ok(command, b"", WAIT);
    let ok = |arguments: &[&[&str]]| {
        run_ok(configs(&arguments.concat()).expect("it was there"), b"", WAIT)
    };
    let shown = ok(&[&of_topic, &["--describe"]]);
    for line in [
        "retention.ms=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5000}",
        "cleanup.policy=delete,compact sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=delete,compact, \
         DEFAULT_CONFIG:log.cleanup.policy=delete}",
    ] {
        assert!(shown.contains(line), "{line} is missing\n{shown}");
    }
    ok(&[&of_topic, &["--alter", "--delete-config", "cleanup.policy"]]);
    let all = ok(&[&of_topic, &["--describe", "--all"]]);
    assert!(all.contains("  cleanup.policy=delete sensitive=false"), "{all}");
    let brokers = ["--entity-type", "brokers"];
    let every = [&brokers[..], &["--entity-default"]].concat();
    ok(&[&every, &["--alter", "--add-config", "log.retention.ms=777000"]]);
    let shown = ok(&[&every, &["--describe"]]);
    assert!(shown.contains("log.retention.ms=777000"), "{shown}");
    ok(&[&every, &["--alter", "--delete-config", "log.retention.ms"]]);
    for (change, text) in [
        ("no.such=1", "Unknown topic config name: no.such"),
        ("retention.ms=abc", "Invalid value abc for configuration retention.ms"),
    ] {
        let refused = [&of_topic[..], &["--alter", "--add-config", change]].concat();
        let output = run(configs(&refused).expect("it was there"), b"", WAIT);
        let told = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(told.contains(text), "{told}");
    }
}

/// The console consumer in a group, and `kafka-consumer-groups` over it: list, describe, reset, delete offsets, delete.
#[test]
fn groups() {
    let broker = Broker::start();
    let topic = topic::create_with(&broker, "grouped", 2, &[]);
    topic::seed(&broker, &topic, 0, 10);
    topic::seed(&broker, &topic, 1, 5);
    let (name, group) = (topic.name.as_str(), unique("console"));
    let arguments = [
        "--topic",
        name,
        "--group",
        &group,
        "--from-beginning",
        "--max-messages",
        "15",
        "--timeout-ms",
        "30000",
    ];
    let Some(consume) = tool(&broker, "console-consumer", &arguments) else { return };
    assert_eq!(run_ok(consume, b"", WAIT).lines().count(), 15);
    let groups = |arguments: &[&str]| {
        let command = tool(&broker, "consumer-groups", arguments).expect("it was there");
        run_ok(command, b"", WAIT)
    };
    assert!(groups(&["--list"]).lines().any(|line| line == group));
    let rows = |text: &str| -> Vec<Vec<String>> {
        let lines = text.lines().filter(|line| line.starts_with(&group));
        let words =
            |line: &str| line.split_whitespace().skip(1).take(5).map(str::to_owned).collect();
        let mut rows: Vec<Vec<String>> = lines.map(words).collect();
        rows.sort_unstable();
        rows
    };
    let described = groups(&["--describe", "--group", &group]);
    assert_eq!(rows(&described), [[name, "0", "10", "10", "0"], [name, "1", "5", "5", "0"]]);
    let state = groups(&["--describe", "--group", &group, "--state"]);
    assert!(state.contains("Empty"), "{state}");
    let of_topic = ["--group", &group, "--topic", name];
    groups(&[&of_topic[..], &["--reset-offsets", "--to-offset", "3", "--execute"]].concat());
    let described = groups(&["--describe", "--group", &group]);
    assert_eq!(rows(&described), [[name, "0", "3", "10", "7"], [name, "1", "3", "5", "2"]]);
    groups(&[&of_topic[..], &["--delete-offsets"]].concat());
    groups(&["--delete", "--group", &group]);
    assert!(!groups(&["--list"]).lines().any(|line| line == group));
}
