//! As a process: the address on the command line, the commands that read it, and what is said when it cannot be had.

use std::net::TcpListener;
use std::process::{Command, Output};

use pelton_tests::broker::{Broker, Options, binary, refused, serve};
use pelton_tests::{prometheus, topic};

/// Where a broker says that it serves metrics.
fn metrics_address(broker: &Broker) -> String {
    let stderr = broker.stderr();
    let line = stderr.lines().find(|line| line.contains("serving metrics")).expect("it says so");
    let (_, address) = line.split_once("address=").expect("with the address");
    address.split_whitespace().next().expect("a word").to_owned()
}

fn pelton(arguments: &[&str]) -> Output {
    Command::new(binary()).args(arguments).output().expect("the binary can be started")
}

fn stdout(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn start() -> Option<Broker> {
    let arguments = vec!["--metrics".to_owned(), "127.0.0.1:0".to_owned()];
    let settings = vec!["slow.request.threshold.ms=0".to_owned()];
    Broker::start_own(Options { shards: 2, arguments, settings, ..Options::default() })
}

// Goal: what a scraper and the commands get of a real process. Method: a few requests, then each way to look at them.
#[test]
fn commands() {
    let Some(broker) = start() else { return };
    let topic = topic::create_with(&broker, "metrics", 4, &[]);
    for partition in 0..4 {
        topic::seed(&broker, &topic, partition, 10);
    }
    let at = metrics_address(&broker);
    let text = stdout(&pelton(&["latency", "--metrics", &at, "--once"]));
    assert!(text.lines().any(|line| line.starts_with("Produce") && line.contains("µs")), "{text}");
    let text = stdout(&pelton(&["latency", "-m", &at, "--by", "topic"]));
    assert!(text.lines().any(|line| line.starts_with(topic.name.as_str())), "{text}");
    let text = stdout(&pelton(&["latency", "-m", &at, "-o", "json"]));
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let apis = document["apis"].as_array().expect("a list");
    let produce = apis.iter().find(|row| row["api"] == "Produce").expect("counted");
    assert_eq!(produce["count"], 4);
    let text = stdout(&pelton(&["slow", "-m", &at, "-n", "1000"]));
    let line = text.lines().find(|line| line.contains("Produce")).expect("a slow request");
    assert!(line.contains("append ") && line.contains(&topic.name), "{line}");
    let scrape = scrape(&at);
    assert_eq!(scrape.get("pelton_requests_total", &[("api", "Produce")]), Some(4.0));
    assert!(scrape.get("process_resident_memory_bytes", &[]) > Some(1e6));
    assert!(scrape.get("process_open_fds", &[]) > Some(10.0));
    assert!(scrape.sum("pelton_shard_cpu_seconds_total") > 0.0);
    let cpu = scrape.get("process_cpu_seconds_total", &[]).expect("told");
    assert!(scrape.sum("pelton_shard_cpu_seconds_total") <= cpu);
}

fn scrape(at: &str) -> prometheus::Scrape {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(at).expect("it listens");
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let (_, body) = answer.split_once("\r\n\r\n").expect("an answer of HTTP");
    prometheus::parse(body).unwrap_or_else(|wrong| panic!("{wrong}"))
}

// Goal: how far groups are behind, in records and in time, as `pelton group describe` tells it. Method: offsets before the end, at the
// end, in a partition without records, and of a group beyond the bound.
#[test]
fn group_lag() {
    let arguments = vec!["--metrics".to_owned(), "127.0.0.1:0".to_owned()];
    let settings = vec!["metrics.group.partitions.max=3".to_owned()];
    let options = Options { shards: 2, arguments, settings, ..Options::default() };
    let Some(broker) = Broker::start_own(options) else { return };
    let topic = topic::create_with(&broker, "lag", 3, &[]);
    let name = topic.name.as_str();
    topic::seed(&broker, &topic, 0, 10);
    topic::seed(&broker, &topic, 1, 10);
    let bootstrap = broker.bootstrap();
    let reset = |group: &str, partition: &str, to: &str| {
        let line = ["group", "reset", group, "--topic", name, "-p", partition, "--to", to];
        stdout(&pelton(&[&line[..], &["-b", &bootstrap]].concat()));
    };
    reset("behind", "0", "4");
    reset("behind", "1", "end");
    reset("behind", "2", "beginning");
    reset("beyond", "0", "0");
    let described =
        stdout(&pelton(&["group", "describe", "behind", "-O", "json", "-b", &bootstrap]));
    let described: serde_json::Value = serde_json::from_str(&described).expect("JSON");
    // The second time nothing is read again.
    for _ in 0..2 {
        let scrape = scrape(&metrics_address(&broker));
        for (partition, committed, lag) in [(0, 4.0, 6.0), (1, 10.0, 0.0), (2, 0.0, 0.0)] {
            let label = partition.to_string();
            let labels = [("group", "behind"), ("topic", name), ("partition", label.as_str())];
            let told = |metric: &str| scrape.get(&format!("pelton_group_{metric}"), &labels);
            assert_eq!(told("committed_offset"), Some(committed));
            assert_eq!(told("lag_records"), Some(lag));
            let rows = described[0]["partitions"].as_array().expect("a list");
            let row = rows.iter().find(|row| row["partition"] == partition);
            let row = row.expect("described");
            assert_eq!(row["lag"].as_f64(), Some(lag), "{row}");
            let behind = row["behindMs"].as_f64().expect("known") / 1_000.0;
            let seconds = told("lag_seconds").expect("known");
            assert_eq!(seconds == 0.0, lag == 0.0);
            assert!((behind - seconds).abs() < 60.0, "{behind} {seconds}");
        }
        assert_eq!(scrape.of("pelton_group_lag_records").count(), 3);
        assert_eq!(scrape.get("pelton_other_group_partitions", &[]), Some(1.0));
    }
}

// Goal: every metric is in the list for users. Method: the families of a scrape against net/broker/METRICS.md.
#[test]
fn every_metric_is_documented() {
    let Some(broker) = start() else { return };
    let documented = include_str!("../../../net/broker/METRICS.md");
    for family in scrape(&metrics_address(&broker)).families() {
        assert!(documented.contains(&format!("`{family}`")), "{family} is not in METRICS.md");
    }
}

// Goal: one clear line when the address cannot be had or nobody is there. Method: a taken port, an unknown host, nobody.
#[test]
fn refusals() {
    if std::env::var_os("PELTON_TEST_BROKER").is_some() {
        return;
    }
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let directory = tempfile::tempdir().expect("a temp dir");
    let check = |at: &str, expected: &str| {
        let mut command = Command::new(binary());
        command.args(serve(directory.path(), "127.0.0.1:0", 1)).args(["--metrics", at]);
        let refusal = refused(command);
        assert_eq!(refusal.code, Some(1));
        assert!(refusal.stderr.contains(expected), "{}", refusal.stderr);
    };
    check(&address, &address);
    check("no.such.host.invalid:1", "metrics.listener=no.such.host.invalid:1");
    drop(taken);
    let nobody = pelton(&["slow", "--metrics", &address]);
    assert_eq!(nobody.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&nobody.stderr);
    assert!(stderr.contains("start it with --metrics") && stderr.lines().count() == 1, "{stderr}");
}
