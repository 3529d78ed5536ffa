//! Real filesystems that fill up or cannot be written.

use std::process::Stdio;
use std::sync::Arc;

use kafka_protocol::messages::{ApiKey, ProduceResponse};
use pelton_tests::answer;
use pelton_tests::batch::{Batch, Record};
use pelton_tests::broker::{Broker, Options, Refusal, binary, refused, serve};
use pelton_tests::raw::{Raw, Reply};
use pelton_tests::request::{ListOffsets, Produce};
use pelton_tests::topic::{self, TestTopic};
use pelton_tests::volume::Volume;
use tempfile::TempDir;

use super::STORAGE_ERROR;

const MIB: u64 = 1 << 20;

/// A volume of so many bytes and options for a broker whose only log directory lies there.
fn small(bytes: u64) -> Option<(TempDir, Arc<Volume>, Options)> {
    let root = tempfile::Builder::new().prefix("pelton-volume-").tempdir().expect("a temp dir");
    let volume = Arc::new(Volume::mount(&root.path().join("mount"), bytes)?);
    let directories = vec![root.path().join("mount/data")];
    let options = Options { volume: Some(Arc::clone(&volume)), directories, ..Options::default() };
    Some((root, volume, options))
}

/// Appends one record of `value_bytes` and tells the error and the offset.
fn append(connection: &mut Raw, topic: &TestTopic, value_bytes: usize) -> (i16, i64) {
    let record = Record { value: Some(vec![7; value_bytes]), ..Record::at(0) };
    let request = Produce::to(topic.name.as_str(), Batch::with(vec![record]).build());
    let Reply::Frame(frame) = connection.ask(&request.frame()) else { panic!("no answer") };
    let answer: ProduceResponse = answer::decode(ApiKey::Produce, 7, &frame).expect("it decodes");
    let answer = &answer.responses[0].partition_responses[0];
    (answer.error_code, answer.base_offset)
}

fn end(broker: &Broker, topic: &TestTopic) -> i64 {
    let latest = ListOffsets::at(&topic.name, 5, -1);
    let Reply::Frame(frame) = broker.connect().ask(&latest.frame()) else { panic!("no answer") };
    let answer: kafka_protocol::messages::ListOffsetsResponse =
        answer::decode(ApiKey::ListOffsets, 5, &frame).expect("it decodes");
    answer.topics[0].partitions[0].offset
}

/// Fills the volume with records of `value_bytes`; how many were acknowledged.
fn fill(broker: &Broker, topic: &TestTopic, value_bytes: usize) -> i64 {
    let mut connection = broker.connect();
    let mut acknowledged = 0;
    loop {
        match append(&mut connection, topic, value_bytes) {
            (0, offset) => assert_eq!(offset, acknowledged),
            (STORAGE_ERROR, -1) => return acknowledged,
            other => panic!("{other:?} after {acknowledged} records"),
        }
        acknowledged += 1;
    }
}

/// Goal: a log that is hot when its disk fills up, so that space is being prepared ahead of it, takes nearly all that fits, then answers
/// KAFKA_STORAGE_ERROR; nothing acknowledged is lost once there is room and it starts again, after kill -9 or SIGTERM. Method: 16 KiB
/// records without pause into 24 MiB.
#[test]
fn a_hot_log_fills_it() {
    for is_killed in [true, false] {
        let Some((_root, volume, mut options)) = small(24 * MIB) else { return };
        options.settings.push("log.segment.bytes=4194304".to_owned());
        let Some(mut broker) = Broker::start_own(options) else { return };
        let topic = topic::create(&broker, "hot");
        let acknowledged = fill(&broker, &topic, 16 * 1024);
        let bytes = u64::try_from(acknowledged).expect("a count") * 16 * 1024;
        assert!(12 * MIB < bytes, "only {bytes} bytes of 24 MiB were taken");
        assert_eq!(append(&mut broker.connect(), &topic, 10), (STORAGE_ERROR, -1));
        if is_killed {
            broker.kill();
        } else {
            assert!(!broker.stop().success(), "not in order");
        }
        volume.resize(64 * MIB);
        broker.start_again();
        let found = end(&broker, &topic);
        assert!(acknowledged <= found, "{acknowledged} were acknowledged, {found} are there");
        assert_eq!(append(&mut broker.connect(), &topic, 10), (0, found));
        assert!(broker.stop().success(), "in order");
    }
}

/// Goal: a disk that is still full at the start is one honest answer or refusal, never a loss. Method: start on the full volume, whatever
/// comes of it; then again with room.
#[test]
fn a_start_on_a_full_one() {
    let Some((_root, volume, options)) = small(8 * MIB) else { return };
    let directory = options.directories[0].clone();
    let Some(mut broker) = Broker::start_own(options) else { return };
    let topic = topic::create(&broker, "topic");
    let acknowledged = fill(&broker, &topic, 2_000);
    broker.kill();
    let mut command = volume.command(binary());
    command.args(serve(&directory, "127.0.0.1:0", 1));
    let Refusal { code, stderr } = refused(command);
    // It refuses with a clear line, or serves what is there.
    assert!(code == Some(1) || stderr.contains("listening on"), "{code:?}\n{stderr}");
    assert!(code.is_none() || stderr.contains("No space left"), "{stderr}");
    volume.resize(16 * MIB);
    broker.start_again();
    assert!(acknowledged <= end(&broker, &topic));
}

/// Goal: a read-only filesystem is refused with one line, and nothing is lost. Method: stop, remount read-only, start; remount for
/// writing, start. (A kernel does not make a filesystem read-only while files are open for writing; the simulator does.)
#[test]
fn read_only() {
    let Some((_root, volume, options)) = small(8 * MIB) else { return };
    let directory = options.directories[0].clone();
    let Some(mut broker) = Broker::start_own(options) else { return };
    let topic = topic::create(&broker, "topic");
    topic::seed(&broker, &topic, 0, 10);
    assert!(broker.stop().success(), "in order");
    volume.set_read_only(true);
    let mut command = volume.command(binary());
    command.args(serve(&directory, "127.0.0.1:0", 1)).stdin(Stdio::null());
    let Refusal { code, stderr } = refused(command);
    assert_eq!(code, Some(1), "{stderr}");
    assert_eq!(stderr.lines().filter(|line| line.contains("Read-only")).count(), 1, "{stderr}");
    volume.set_read_only(false);
    broker.start_again();
    assert_eq!(end(&broker, &topic), 10);
    topic::seed(&broker, &topic, 0, 1);
}
