//! kcat: metadata, produce with each codec, keys and headers, consume from everywhere, offset queries, groups.

use std::process::Command;
use std::time::Duration;

use pelton_tests::broker::{Broker, unique};
use pelton_tests::peer::{Peer, run_ok};
use pelton_tests::topic;

const WAIT: Duration = Duration::from_secs(60);

fn kcat(broker: &Broker, arguments: &[&str]) -> Option<Command> {
    let mut command = Peer::Kcat.command()?;
    command.args(["-b", &broker.bootstrap(), "-q"]).args(arguments);
    Some(command)
}

/// Lines with keys and headers go in with each codec and come out the same.
#[test]
fn produce_and_consume() {
    let broker = Broker::start();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = topic::create(&broker, "kcat");
        let input: String = (0..300).map(|number| format!("k{number}:v{number}\n")).collect();
        let arguments =
            ["-P", "-t", &topic.name, "-p", "0", "-K:", "-z", codec, "-H", "h=x", "-X", "acks=all"];
        let Some(produce) = kcat(&broker, &arguments) else { return };
        run_ok(produce, input.as_bytes(), WAIT);

        let read = |from: &str, format: &str| -> String {
            let arguments = ["-C", "-t", &topic.name, "-p", "0", "-o", from, "-e", "-f", format];
            run_ok(kcat(&broker, &arguments).expect("it was there"), b"", WAIT)
        };
        assert!(read("beginning", "%k:%s\n") == input, "{codec}");
        let offsets: String = (0..300).map(|number| format!("{number}:{number}\n")).collect();
        assert_eq!(read("beginning", "%o:%o\n"), offsets, "{codec}");
        assert_eq!(read("298", "%k %h\n"), "k298 h=x\nk299 h=x\n", "{codec}");
        assert_eq!(read("-1", "%k\n"), "k299\n", "{codec}");
        assert_eq!(read("s@0", "%k\n").lines().next(), Some("k0"), "{codec}");
        assert_eq!(read("end", "%k\n"), "", "{codec}");
    }
}

/// Metadata names the broker and the topic; offsets can be asked for by time.
#[test]
fn metadata_and_offsets() {
    let broker = Broker::start();
    let topic = topic::create_with(&broker, "kcat", 3, &[]);
    topic::seed(&broker, &topic, 1, 5);
    let Some(list) = kcat(&broker, &["-L", "-J", "-t", &topic.name]) else { return };
    let text = run_ok(list, b"", WAIT);
    let metadata: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(metadata["brokers"].as_array().map(Vec::len), Some(1), "{text}");
    assert_eq!(metadata["brokers"][0]["name"], broker.bootstrap(), "{text}");
    let partitions = metadata["topics"][0]["partitions"].as_array().expect("partitions");
    assert_eq!(partitions.len(), 3, "{text}");
    for partition in partitions {
        assert_eq!(partition["leader"], metadata["brokers"][0]["id"], "{text}");
    }
    for (time, offset) in [("-1", 5), ("-2", 0), ("0", 0)] {
        let query = format!("{}:1:{time}", topic.name);
        let text = run_ok(kcat(&broker, &["-Q", "-t", &query]).expect("it was there"), b"", WAIT);
        assert_eq!(text.trim(), format!("{} [1] offset {offset}", topic.name));
    }
}

/// A group reads every record once, and nothing again.
#[test]
fn groups() {
    let broker = Broker::start();
    let topic = topic::create_with(&broker, "kcat", 3, &[]);
    for partition in 0..3 {
        topic::seed(&broker, &topic, partition, 10);
    }
    let group = unique("kcat");
    let arguments =
        ["-G", &group, "-e", "-X", "auto.offset.reset=earliest", "-f", "%p:%o\n", &topic.name];
    let Some(first) = kcat(&broker, &arguments) else { return };
    let mut lines: Vec<String> = run_ok(first, b"", WAIT).lines().map(str::to_owned).collect();
    lines.sort_unstable();
    let mut expected: Vec<String> = (0..3)
        .flat_map(|partition| (0..10).map(move |offset| format!("{partition}:{offset}")))
        .collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
    let again = kcat(&broker, &arguments).expect("it was there");
    assert_eq!(run_ok(again, b"", WAIT), "");
}
