//! The metadata log does not grow for ever, and a kill at any moment costs nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use pelton_tests::broker::{Broker, Options};
use pelton_tests::raw::Reply;
use pelton_tests::request::{MetadataTopic, delete_topics};
use pelton_tests::topic;

use super::topics;

/// A snapshot every 3 000 bytes, two or three batches a segment, 12 000 bytes in all.
const SETTINGS: [&str; 3] = [
    "internal.metadata.log.segment.bytes=2000",
    "metadata.log.max.record.bytes.between.snapshots=3000",
    "metadata.max.retention.bytes=12000",
];

/// Base offsets of segments, end offsets of snapshots, and bytes of both.
fn look(data_dir: &Path) -> (Vec<i64>, Vec<i64>, u64) {
    let (mut bases, mut ends, mut bytes) = (Vec::new(), Vec::new(), 0);
    for entry in std::fs::read_dir(data_dir.join("__cluster_metadata-0")).expect("readable") {
        let entry = entry.expect("readable");
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((number, _)) = name.split_at_checked(20) else { continue };
        let Ok(number) = number.parse() else { continue };
        if name.ends_with(".log") {
            bases.push(number);
        } else if name.ends_with(".checkpoint") {
            ends.push(number);
        } else {
            continue;
        }
        // A file may go while we look.
        bytes += entry.metadata().map_or(0, |metadata| metadata.len());
    }
    bases.sort_unstable();
    ends.sort_unstable();
    (bases, ends, bytes)
}

fn delete(broker: &Broker, name: &str) {
    let doomed = MetadataTopic { name: Some(name.to_owned()), ..MetadataTopic::default() };
    let Reply::Frame(_) = broker.connect().ask(&delete_topics(5, &[doomed])) else {
        panic!("DeleteTopics is not answered");
    };
}

// Goal: log and snapshots stay within the retention, and snapshot plus tail are the whole truth after every kind of end. Method: many
// topics created and deleted under tiny limits; every few rounds a kill, a clean stop, or nothing.
#[test]
fn bounded_log() {
    let settings = SETTINGS.map(str::to_owned).to_vec();
    let Some(mut broker) = Broker::start_own(Options { settings, ..Options::default() }) else {
        return;
    };
    let mut expected: BTreeMap<String, ([u8; 16], usize)> = BTreeMap::new();
    for round in 0..60 {
        let made = topic::create_with(&broker, "bounded", 3, &[("retention.ms", "12345")]);
        expected.insert(made.name, (made.id, 3));
        if expected.len() > 5 {
            let (name, _) = expected.pop_first().expect("six of them");
            delete(&broker, &name);
        }
        if round % 7 == 3 {
            broker.kill();
            broker.start_again();
        } else if round % 20 == 19 {
            assert!(broker.stop().success());
            broker.start_again();
        }
        assert_eq!(topics(broker.connect()), expected, "round {round}");
    }
    // The last cleaning may be under way.
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let (bases, ends, bytes) = look(broker.data_dir());
        let is_bounded = bytes < 20_000 && bases[0] > 0 && ends[0] > 0;
        if is_bounded {
            // Whoever opens it needs a snapshot at or behind the log's start.
            assert!(bases[0] <= *ends.last().expect("a snapshot"));
            break;
        }
        assert!(Instant::now() < deadline, "{bases:?} {ends:?} {bytes}");
        std::thread::sleep(Duration::from_millis(50));
    }
    broker.kill();
    // What a kill in the middle of writing or removing a snapshot leaves.
    let metadata = broker.data_dir().join("__cluster_metadata-0");
    let leftovers = ["-9.checkpoint.part", ".checkpoint.part", ".checkpoint.deleted"]
        .map(|suffix| metadata.join(format!("00000000000000000007-0000000001{suffix}")));
    for leftover in &leftovers {
        std::fs::write(leftover, b"half of it").expect("written");
    }
    broker.start_again();
    assert_eq!(topics(broker.connect()), expected);
    assert!(leftovers.iter().all(|leftover| !leftover.exists()));
    assert!(broker.stop().success());
}

// Goal: the start is refused in words when what came before the log is gone. Method: the snapshots of such a log removed.
#[test]
fn without_snapshots() {
    let settings = SETTINGS.map(str::to_owned).to_vec();
    let Some(mut broker) = Broker::start_own(Options { settings, ..Options::default() }) else {
        return;
    };
    let deadline = Instant::now() + Duration::from_secs(15);
    while look(broker.data_dir()).0[0] == 0 {
        assert!(Instant::now() < deadline, "nothing is dropped: {:?}", look(broker.data_dir()));
        drop(topic::create_with(&broker, "filler", 8, &[]));
    }
    assert!(broker.stop().success());
    let metadata = broker.data_dir().join("__cluster_metadata-0");
    for entry in std::fs::read_dir(&metadata).expect("readable") {
        let path = entry.expect("readable").path();
        if path.extension().is_some_and(|extension| extension == "checkpoint") {
            std::fs::remove_file(path).expect("removed");
        }
    }
    let mut command = std::process::Command::new(pelton_tests::broker::binary());
    command.args(pelton_tests::broker::serve(broker.data_dir(), "127.0.0.1:0", 1));
    let refusal = pelton_tests::broker::refused(command);
    assert_eq!(refusal.code, Some(1), "{}", refusal.stderr);
    assert!(refusal.stderr.contains("no whole snapshot"), "{}", refusal.stderr);
}
