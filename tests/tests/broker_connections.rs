//! What connections leave behind, and what they are owed: memory, descriptors, answers.

use std::fs;
use std::time::{Duration, Instant};

use pelton_tests::batch::Batch;
use pelton_tests::broker::{Broker, Options};
use pelton_tests::raw::{PATIENCE, Raw, Reply};
use pelton_tests::request::{Fetch, MetadataTopic, Produce, metadata};
use pelton_tests::topic;
use pelton_tests::wire;

const MIB: u64 = 1 << 20;

fn settings(shards: usize, settings: &[&str]) -> Options {
    let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
    Options { shards, settings, ..Options::default() }
}

/// Waits until `holds`; the message says what did not come.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(15);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Goal: an idle connection does not keep its largest frame's memory. Method: six connections each send a Produce of 40 MiB that
/// is refused, then one small request, and stay.
#[test]
fn refused_large_frames_leave_nothing() {
    let Some(broker) = Broker::start_own(Options::default()) else {
        return;
    };
    let idle = broker.resident_bytes();
    let frame = Produce::to("nowhere", vec![0; 40 << 20]).frame();
    let mut connections: Vec<Raw> = (0..6).map(|_| broker.connect()).collect();
    for connection in &mut connections {
        assert!(connection.send(&frame));
        assert!(matches!(connection.receive(PATIENCE), Reply::Frame(_)));
        assert!(connection.is_alive());
    }
    let mut resident = 0;
    eventually("the memory of large frames stays", || {
        assert!(connections.iter_mut().all(Raw::is_alive));
        resident = broker.resident_bytes();
        resident < idle + 100 * MIB
    });
    println!("resident MiB: idle {}, after {}", idle / MIB, resident / MIB);
}

/// Goal: an idle close ends a fetch that waits for ever. Method: fetches of the longest wait there is, whose clients leave; the
/// descriptors come back after the idle time, and a stop is not held up.
#[test]
fn abandoned_fetches_end() {
    let options = settings(2, &["connections.max.idle.ms=1500"]);
    let Some(mut broker) = Broker::start_own(options) else {
        return;
    };
    let topic = topic::create_with(&broker, "abandoned", 2, &[]);
    let descriptors = format!("/proc/{}/fd", broker.pid());
    let count = || fs::read_dir(&descriptors).expect("a process of ours").count();
    let before = count();
    let mut waiting = Vec::new();
    for partition in 0..40 {
        let fetch = Fetch {
            max_wait_ms: i32::MAX,
            min_bytes: 1 << 20,
            partition: partition % 2,
            ..Fetch::of(topic.name.as_str())
        };
        let mut connection = broker.connect();
        assert!(connection.send(&fetch.frame()));
        waiting.push(connection);
    }
    eventually("not every connection is accepted", || count() >= before + 30);
    // Time for what was accepted last to be read.
    std::thread::sleep(Duration::from_millis(200));
    drop(waiting);
    eventually("connections of abandoned fetches stay", || count() <= before + 5);
    assert!(broker.stop().success());
}

/// Goal: what was asked before bytes that are no request is answered, also when more follows them. Method: pipelined Produce to
/// both shards, a Produce whose body is cut, and more; the answers that come.
#[test]
fn answers_before_a_malformed_request() {
    let Some(broker) = Broker::start_own(settings(2, &[])) else {
        return;
    };
    let topic = topic::create_with(&broker, "before", 8, &[]);
    let partitions = (0..8).map(|index| (index, Some(Batch::of(1).build()))).collect();
    let good = Produce { partitions, ..Produce::to(topic.name.as_str(), Vec::new()) }.frame();
    let bad = wire::request(0, 7, false, &[0xff]);
    for _ in 0..20 {
        let mut connection = broker.connect();
        let bytes = [good.repeat(5), bad.clone(), good.clone()].concat();
        assert!(connection.send(&bytes));
        for _ in 0..5 {
            assert!(matches!(connection.receive(PATIENCE), Reply::Frame(_)));
        }
        assert_eq!(connection.receive(PATIENCE), Reply::Closed);
    }
}

/// Goal: a long list of topics holds nobody up. Method: a Metadata request that names 50 000; how long another client waits.
#[test]
fn many_names_take_no_time() {
    let Some(broker) = Broker::start_own(Options::default()) else {
        return;
    };
    let named = |index| MetadataTopic { id: [0; 16], name: Some(format!("name-{index}")) };
    let names: Vec<MetadataTopic> = (0..50_000).map(named).collect();
    let mut asking = broker.connect();
    assert!(asking.send(&metadata(4, Some(&names), false)));
    let start = Instant::now();
    assert!(broker.connect().is_alive());
    assert!(start.elapsed() < PATIENCE);
    assert!(matches!(asking.receive(PATIENCE), Reply::Frame(_)));
}

/// Goal: a log that cannot be opened is an error of its own, keeps the others working, and is not declared clean. Method: damage
/// one partition's identity after a kill; ask both, stop, look for the marker.
#[test]
fn unopened_log_is_not_clean() {
    let Some(mut broker) = Broker::start_own(settings(2, &[])) else {
        return;
    };
    let topic = topic::create_with(&broker, "unopened", 2, &[]);
    for partition in 0..2 {
        topic::seed(&broker, &topic, partition, 3);
    }
    broker.kill();
    let directory = broker.data_dir().join(format!("{}-1", topic.name));
    fs::write(directory.join("partition.metadata"), "garbage").expect("a file of ours");
    broker.start_again();
    topic::seed(&broker, &topic, 0, 3);
    let fetch = Fetch { partition: 1, ..Fetch::of(topic.name.as_str()) };
    let Reply::Frame(answer) = broker.connect().ask(&fetch.frame()) else {
        panic!("Fetch is not answered");
    };
    let answer =
        pelton_tests::answer::summary(kafka_protocol::messages::ApiKey::Fetch, 11, &answer);
    assert!(answer.starts_with("KafkaStorageError"), "{answer}");
    assert!(!broker.stop().success());
    assert!(!broker.data_dir().join(".kafka_cleanshutdown").exists());
}
