//! A stop while the broker is still starting.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use pelton_storage::disk::{Disk as _, OpenMode};
use pelton_tests::broker::{Broker, Options, binary, serve};
use pelton_tests::sim::stage::{Stage, play};
use pelton_tests::topic;
use rustix::process::{Pid, Signal, kill_process};

use super::for_seeds;

/// Virtual time that a stop during a start may take, ms: a few operations of a slow disk, and none for each log.
const STOP_MS_MAX: u64 = 5_000;

fn is_marked_clean(stage: &Stage) -> bool {
    let marker = Path::new("/data/.kafka_cleanshutdown");
    block_on(stage.disk.open(marker, OpenMode::Read)).is_ok()
}

/// Goal: a stop during a long recovery ends soon, never passes for a clean one, and loses nothing. Method: forty partitions of several
/// segments on a disk where every operation takes up to 200 ms; stops after more and more steps, then a whole start.
#[test]
fn during_recovery() {
    for_seeds(3, |seed| {
        play(seed, 2, &[], |stage| {
            let configs = [("index.interval.bytes", "0"), ("segment.index.bytes", "32")];
            let topic = stage.create_topic("topic", 40, &configs);
            for partition in (0..40).step_by(5) {
                for batch in 0..12 {
                    assert_eq!(stage.produce(&topic, partition, 1, 2), (0, 2 * batch));
                }
            }
            stage.kill(false);
            stage.slow_disk(200);
            let (mut early, mut steps) = (0, 20 * seed);
            loop {
                let (did_serve, took_ms) = stage.stop_after_steps(steps);
                if did_serve {
                    break;
                }
                early += 1;
                assert!(took_ms <= STOP_MS_MAX, "a stop after {steps} steps took {took_ms} ms");
                assert!(!is_marked_clean(stage), "stopped after {steps} steps, and marked clean");
                steps += steps / 2;
            }
            assert!(3 < early, "{early}");
            stage.slow_disk(1);
            stage.start();
            for partition in (0..40).step_by(5) {
                assert_eq!(stage.fetch(&topic, partition, 0), (0, 24));
            }
        })
    });
}

/// Goal: the same of the process: SIGTERM at any time of a start. Method: kill -9, then starts that are stopped after more and more
/// milliseconds; at last a whole one.
#[test]
fn of_the_process() {
    let Some(mut broker) = Broker::start_own(Options { shards: 2, ..Options::default() }) else {
        return;
    };
    let topic = topic::create_with(&broker, "many", 300, &[]);
    for partition in (0..300).step_by(10) {
        topic::seed(&broker, &topic, partition, 10);
    }
    broker.kill();
    let listen = broker.address().to_string();
    let marker = broker.data_dir().join(".kafka_cleanshutdown");
    for ms in [0, 2, 5, 10, 15, 20, 30, 40, 60, 80] {
        // One that was stopped before it read the marker of the run before leaves it.
        let was_marked = marker.exists();
        let mut command = std::process::Command::new(binary());
        command.args(serve(broker.data_dir(), &listen, 2)).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it");
        std::thread::sleep(Duration::from_millis(ms));
        kill_process(Pid::from_child(&child), Signal::TERM).expect("our own child");
        let begin = Instant::now();
        let output = loop {
            if child.try_wait().expect("our own child").is_some() {
                break child.wait_with_output().expect("our own child");
            }
            if begin.elapsed() > Duration::from_secs(10) {
                drop(child.kill());
                panic!("SIGTERM after {ms} ms: still there after {:?}", begin.elapsed());
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let told = String::from_utf8_lossy(&output.stderr);
        let did_serve = told.contains("listening on");
        assert!(did_serve || was_marked || !marker.exists(), "after {ms} ms: marked clean\n{told}");
    }
    broker.start_again();
    for partition in (0..300).step_by(10) {
        let answer = pelton_tests::request::ListOffsets {
            partitions: vec![partition],
            ..pelton_tests::request::ListOffsets::at(&topic.name, 5, -1)
        };
        let reply = broker.connect().ask(&answer.frame());
        let pelton_tests::raw::Reply::Frame(frame) = reply else { panic!("no answer") };
        let key = kafka_protocol::messages::ApiKey::ListOffsets;
        let answer: kafka_protocol::messages::ListOffsetsResponse =
            pelton_tests::answer::decode(key, 5, &frame).expect("it decodes");
        assert_eq!(answer.topics[0].partitions[0].offset, 10, "{partition}");
    }
}
