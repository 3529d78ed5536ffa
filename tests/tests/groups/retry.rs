//! A coordinator whose log cannot be read.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use pelton_tests::broker::{Broker, binary, unique};
use pelton_tests::topic;

use super::{PATIENCE, broker};

fn pelton(broker: &Broker, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(arguments).env("PELTON_BOOTSTRAP", broker.bootstrap());
    command.output().expect("the binary can be started")
}

/// The first segment of the partition of `__consumer_offsets` that holds something.
fn offsets_log(data_dir: &Path) -> PathBuf {
    let logs = std::fs::read_dir(data_dir).expect("a directory").filter_map(|entry| {
        let path = entry.expect("readable").path();
        let name = path.file_name()?.to_str()?;
        name.starts_with("__consumer_offsets-").then(|| path.join("00000000000000000000.log"))
    });
    let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |facts| facts.len());
    logs.max_by_key(size).expect("fifty partitions")
}

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).expect("the log");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("a byte");
    file.write_all_at(&[!byte[0]], at).expect("written");
}

/// Goal: groups of a log that cannot be read are not served, rather than with offsets forgotten; and they are as soon as it can be
/// read again. Method: a byte of a batch is turned over while the broker is down, and back while it runs.
#[test]
fn a_load_that_failed_is_tried_again() {
    let Some(mut broker) = broker(1) else { return };
    let topic = topic::create(&broker, "retried");
    topic::seed(&broker, &topic, 0, 3);
    let group = unique("retried");
    let reset = ["group", "reset", &group, "--topic", &topic.name, "--to", "2"];
    assert!(pelton(&broker, &reset).status.success());
    broker.stop();
    let log = offsets_log(broker.data_dir());
    // In the records of the first batch, behind its header of 61 bytes.
    flip(&log, 70);
    broker.start_again();
    let describe = ["group", "describe", &group, "-O", "json", "--timeout", "1"];
    assert!(!pelton(&broker, &describe).status.success());
    assert!(broker.stderr().contains("cannot load a coordinator"), "{}", broker.stderr());
    flip(&log, 70);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let described = pelton(&broker, &describe);
        if described.status.success() {
            let text = String::from_utf8_lossy(&described.stdout);
            assert!(text.contains("\"committed\":2"), "{text}");
            break;
        }
        assert!(Instant::now() < deadline, "{}", String::from_utf8_lossy(&described.stderr));
    }
}
