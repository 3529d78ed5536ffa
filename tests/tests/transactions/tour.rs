//! What a program that writes in transactions expects, with an unmodified client, on two shards.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pelton_tests::broker::{Broker, binary, unique};
use pelton_tests::librdkafka::member;
use pelton_tests::peer::run_ok;
use pelton_tests::topic::{self, TestTopic};
use rdkafka::TopicPartitionList;
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, Producer};
use rdkafka::topic_partition_list::Offset;

use super::{PATIENCE, TxnProducer, broker, producer, values};

const PARTITIONS: i32 = 4;

fn send(producer: &TxnProducer, topic: &TestTopic, value: &str) {
    for partition in 0..PARTITIONS {
        let record: BaseRecord<'_, (), str> = BaseRecord::to(&topic.name);
        producer.send(record.partition(partition).payload(value)).expect("there is room");
    }
}

fn counts(values: &[(&str, usize)]) -> BTreeMap<String, usize> {
    values.iter().map(|(value, count)| ((*value).to_owned(), *count)).collect()
}

fn offset(broker: &Broker, group: &str, topic: &TestTopic) -> Offset {
    // A reader of what is committed waits while an open transaction has an offset.
    let consumer = member(&broker.bootstrap(), group, &[("isolation.level", "read_uncommitted")]);
    let mut asked = TopicPartitionList::new();
    asked.add_partition(&topic.name, 0);
    let found = consumer.committed_offsets(asked, PATIENCE).expect("the group's offsets");
    found.elements()[0].offset()
}

// Goal: what is committed is seen whole, with its offsets; what is aborted is not; also after a restart. Method: an aborted transaction, a
// committed one that carries a group's offset, one left open.
#[test]
fn committed_whole_or_not_at_all() {
    let Some(mut broker) = broker(&[]) else { return };
    let topic = topic::create_with(&broker, "tour", PARTITIONS, &[]);
    let bootstrap = broker.bootstrap();
    let writer = producer(&bootstrap, "tour", &[]);
    writer.init_transactions(PATIENCE).expect("a producer id");
    writer.begin_transaction().expect("begun");
    send(&writer, &topic, "aborted");
    writer.flush(PATIENCE).expect("delivered");
    writer.abort_transaction(PATIENCE).expect("aborted");
    writer.begin_transaction().expect("begun");
    send(&writer, &topic, "committed");
    let consumer = member(&bootstrap, "tourists", &[]);
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset(&topic.name, 0, Offset::Offset(42)).expect("an offset");
    let group = consumer.group_metadata().expect("a group");
    writer.send_offsets_to_transaction(&offsets, &group, PATIENCE).expect("offsets sent");
    assert_eq!(offset(&broker, "tourists", &topic), Offset::Invalid, "not yet");
    writer.commit_transaction(PATIENCE).expect("committed");
    assert_eq!(offset(&broker, "tourists", &topic), Offset::Offset(42));
    writer.begin_transaction().expect("begun");
    send(&writer, &topic, "open");
    writer.flush(PATIENCE).expect("delivered");
    let check = |broker: &Broker| {
        let bootstrap = broker.bootstrap();
        let committed = values(&bootstrap, &topic, PARTITIONS, "read_committed");
        assert_eq!(committed, counts(&[("committed", 4)]));
        let all = values(&bootstrap, &topic, PARTITIONS, "read_uncommitted");
        assert_eq!(all, counts(&[("aborted", 4), ("committed", 4), ("open", 4)]));
        assert_eq!(offset(broker, "tourists", &topic), Offset::Offset(42));
    };
    check(&broker);
    broker.kill();
    broker.start_again();
    check(&broker);
    assert!(broker.stop().success(), "a clean stop");
    broker.start_again();
    check(&broker);
}

// Goal: whoever takes a transactional id over fences the one before, and what that left open is aborted. Method: two producers of one id.
#[test]
fn successors_fence() {
    let Some(broker) = broker(&[]) else { return };
    let topic = topic::create_with(&broker, "fence", PARTITIONS, &[]);
    let bootstrap = broker.bootstrap();
    let first = producer(&bootstrap, "contested", &[]);
    first.init_transactions(PATIENCE).expect("a producer id");
    first.begin_transaction().expect("begun");
    send(&first, &topic, "left open");
    first.flush(PATIENCE).expect("delivered");
    let second = producer(&bootstrap, "contested", &[]);
    second.init_transactions(PATIENCE).expect("a producer id");
    second.begin_transaction().expect("begun");
    send(&second, &topic, "won");
    second.commit_transaction(PATIENCE).expect("committed");
    send(&first, &topic, "zombie");
    let refused = first.commit_transaction(PATIENCE).expect_err("it is fenced");
    let KafkaError::Transaction(error) = &refused else { panic!("{refused}") };
    assert!(error.is_fatal(), "{error}");
    let fenced = [RDKafkaErrorCode::Fenced, RDKafkaErrorCode::ProducerFenced];
    let invalid = RDKafkaErrorCode::InvalidProducerEpoch;
    assert!(fenced.contains(&error.code()) || error.code() == invalid, "{error}");
    let committed = values(&bootstrap, &topic, PARTITIONS, "read_committed");
    assert_eq!(committed, counts(&[("won", 4)]));
}

// Goal: a transaction that lasts too long is aborted, and holds nobody up any more. Method: one that is never ended, and a reader of what is
// committed behind it.
#[test]
fn timeouts_free_readers() {
    let settings = ["transaction.abort.timed.out.transaction.cleanup.interval.ms=200"];
    let Some(broker) = broker(&settings) else { return };
    let topic = topic::create_with(&broker, "late", PARTITIONS, &[]);
    let bootstrap = broker.bootstrap();
    let timeouts = [("transaction.timeout.ms", "1500"), ("socket.timeout.ms", "1500")];
    let slow = producer(&bootstrap, "slow", &timeouts);
    slow.init_transactions(PATIENCE).expect("a producer id");
    slow.begin_transaction().expect("begun");
    send(&slow, &topic, "slow");
    slow.flush(PATIENCE).expect("delivered");
    let quick = producer(&bootstrap, "quick", &[]);
    quick.init_transactions(PATIENCE).expect("a producer id");
    quick.begin_transaction().expect("begun");
    send(&quick, &topic, "quick");
    quick.commit_transaction(PATIENCE).expect("committed");
    let deadline = Instant::now() + PATIENCE;
    let expected = counts(&[("quick", 4)]);
    while values(&bootstrap, &topic, PARTITIONS, "read_committed") != expected {
        assert!(Instant::now() < deadline, "the open transaction holds readers up");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(slow.commit_transaction(PATIENCE).is_err(), "it was aborted");
    assert_eq!(values(&bootstrap, &topic, PARTITIONS, "read_committed"), expected);
}

fn pelton(broker: &Broker, arguments: &[&str], input: &[u8]) -> String {
    let mut command = Command::new(binary());
    command.args(arguments).env("PELTON_BOOTSTRAP", broker.bootstrap());
    run_ok(command, input, PATIENCE)
}

// Goal: the tour of transactions in README. Method: its commands: a whole input is seen, one whose command is killed is not, and says who holds
// readers up until it is aborted.
#[test]
fn the_command_line() {
    let Some(broker) = broker(&[]) else { return };
    let name = unique("ledger");
    let id = unique("bank");
    pelton(&broker, &["topic", "create", &name], b"");
    let write = ["produce", &name, "--transactional-id", &id];
    let read = || pelton(&broker, &["consume", &name, "--isolation", "read_committed"], b"");
    pelton(&broker, &write, b"debit 10\ncredit 10\n");
    assert_eq!(read(), "debit 10\ncredit 10\n");

    let mut half = Command::new(binary());
    half.args(write).env("PELTON_BOOTSTRAP", broker.bootstrap()).stdin(Stdio::piped());
    let mut half = half.spawn().expect("the command starts");
    half.stdin.as_mut().expect("a pipe").write_all(b"debit 20\n").expect("written");
    let deadline = Instant::now() + PATIENCE;
    while !pelton(&broker, &["consume", &name], b"").ends_with("debit 20\n") {
        assert!(Instant::now() < deadline, "the open transaction's record does not come");
    }
    half.kill().expect("killed");
    half.wait().expect("ended");
    assert!(!read().contains("debit 20"));
    assert!(pelton(&broker, &["txn", "list", "--state", "Ongoing"], b"").contains(&id));
    pelton(&broker, &["txn", "abort", &id], b"");
    assert!(!pelton(&broker, &["txn", "list", "--state", "Ongoing"], b"").contains(&id));

    pelton(&broker, &write, b"debit 30\ncredit 30\n");
    assert_eq!(read(), "debit 10\ncredit 10\ndebit 30\ncredit 30\n");
}
