//! DescribeLogDirs: every version, selected topics, failed and cordoned directories, and other people's tools.

use std::fs;
use std::time::Duration;

use kafka_protocol::messages::{ApiKey, DescribeLogDirsResponse};
use pelton_tests::answer;
use pelton_tests::broker::Broker;
use pelton_tests::peer::{Peer, run_ok};
use pelton_tests::raw::Reply;
use pelton_tests::request::describe_log_dirs;

use crate::{Dirs, create, eventually, produce};

fn ask(broker: &Broker, topics: Option<&[(&str, Vec<i32>)]>) -> DescribeLogDirsResponse {
    let Reply::Frame(frame) = broker.connect().ask(&describe_log_dirs(4, topics)) else {
        panic!("DescribeLogDirs is not answered")
    };
    answer::decode(ApiKey::DescribeLogDirs, 4, &frame).expect("decodes")
}

/// Topic, partition, bytes.
type Size = (String, i32, i64);

/// For each directory: its error, and topic, partition and size of what is shown.
fn shown(answer: &DescribeLogDirsResponse) -> Vec<(i16, Vec<Size>)> {
    let of = |dir: &kafka_protocol::messages::describe_log_dirs_response::DescribeLogDirsResult| {
        let mut rows = Vec::new();
        for topic in &dir.topics {
            for partition in &topic.partitions {
                assert_eq!((partition.offset_lag, partition.is_future_key), (0, false));
                let name = topic.name.0.to_string();
                rows.push((name, partition.partition_index, partition.partition_size));
            }
        }
        (dir.error_code, rows)
    };
    answer.results.iter().map(of).collect()
}

/// Goal: directories, partitions and sizes are what lies on disk. Method: all topics, selected ones, unknown ones; then one directory
/// is removed.
#[test]
fn what_lies_where() {
    let dirs = Dirs::new(&["a", "b"]);
    let Some(broker) = dirs.start() else { return };
    assert_eq!(create(&broker, "t", 3), "ok; topics 1");
    assert_eq!(create(&broker, "u", 1), "ok; topics 1");
    for partition in 0..3 {
        assert_eq!(produce(&broker, "t", partition), "ok; base 0");
    }
    let all = ask(&broker, None);
    let size = shown(&all)[0].1[0].2;
    assert!(size > 61, "{all:?}");
    let row = |topic: &str, partition, size| (topic.to_owned(), partition, size);
    let (a, b) =
        (vec![row("t", 0, size), row("t", 2, size)], vec![row("t", 1, size), row("u", 0, 0)]);
    assert_eq!(shown(&all), [(0, a), (0, b)]);
    for (result, path) in all.results.iter().zip(&dirs.paths) {
        assert_eq!(result.log_dir.as_str(), path.to_str().expect("UTF-8"));
        assert!(0 < result.usable_bytes && result.usable_bytes <= result.total_bytes, "{result:?}");
    }
    let some = ask(&broker, Some(&[("t", vec![1, 9]), ("nobody", vec![0])]));
    assert_eq!(shown(&some), [(0, vec![]), (0, vec![row("t", 1, size)])]);
    assert_eq!(shown(&ask(&broker, Some(&[]))), [(0, vec![]), (0, vec![])]);
    for version in 1..=5 {
        let Reply::Frame(frame) = broker.connect().ask(&describe_log_dirs(version, None)) else {
            panic!("version {version} is not answered")
        };
        if version < 5 {
            let line = answer::summary(ApiKey::DescribeLogDirs, version, &frame);
            assert_eq!(line, "ok; directories 2", "version {version}");
        }
    }
    fs::remove_dir_all(&dirs.paths[1]).expect("there");
    eventually("the loss is noticed", || shown(&ask(&broker, None))[1].0 == 56);
    let failed = ask(&broker, None);
    assert_eq!(failed.results[1].topics, []);
    assert_eq!((failed.results[1].total_bytes, failed.results[0].error_code), (-1, 0));
}

/// Goal: Kafka's own tool understands the answer. Method: `kafka-log-dirs --describe` where it is installed.
#[test]
fn kafkas_tool() {
    let dirs = Dirs::new(&["a", "b"]);
    let Some(broker) = dirs.start() else { return };
    let Some(mut command) = Peer::Java.command() else { return };
    assert_eq!(create(&broker, "t", 2), "ok; topics 1");
    assert_eq!(produce(&broker, "t", 1), "ok; base 0");
    command.args(["log-dirs", "--bootstrap-server", &broker.bootstrap(), "--describe"]);
    let output = run_ok(command, b"", Duration::from_secs(60));
    let line = output.lines().find(|line| line.starts_with('{')).expect("a line of JSON");
    let said: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let mut said = said["brokers"][0]["logDirs"].as_array().expect("directories").clone();
    // The tool tells them in no order.
    said.sort_by_key(|dir| dir["logDir"].to_string());
    assert_eq!(said.len(), 2, "{line}");
    for (dir, expected) in said.iter().zip(["t-0", "t-1"]) {
        assert!(dir["error"].is_null(), "{line}");
        assert_eq!(dir["partitions"][0]["partition"], expected, "{line}");
    }
}
