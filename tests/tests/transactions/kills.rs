//! kill -9 at any moment of a transaction's life.
//!
//! Goal: exactly once. Method: records are copied from one topic to another, each piece with its group's offset in one transaction, some of
//! them aborted on purpose, while the broker is killed again and again; in the end every record is there once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pelton_tests::broker::Broker;
use pelton_tests::librdkafka::member;
use pelton_tests::topic::{self, TestTopic};
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, Producer};
use rdkafka::topic_partition_list::Offset;

use super::{PATIENCE, TxnProducer, broker, producer, values};

const RECORDS: usize = 3_000;
const PIECE: usize = 20;
const PARTITIONS: i32 = 3;
const KILLS: u64 = 6;
const GROUP: &str = "copiers";

/// How long the copy may take.
const WHOLE: Duration = Duration::from_secs(180);

fn seed(bootstrap: &str, topic: &TestTopic) {
    let writer = producer(bootstrap, "seeder", &[]);
    writer.init_transactions(PATIENCE).expect("a producer id");
    writer.begin_transaction().expect("begun");
    for n in 0..RECORDS {
        let value = n.to_string();
        let record: BaseRecord<'_, (), str> = BaseRecord::to(&topic.name);
        writer.send(record.partition(0).payload(&value)).expect("there is room");
    }
    writer.commit_transaction(PATIENCE).expect("committed");
}

/// Where the group stands; `None` when nobody can tell.
fn position(consumer: &BaseConsumer, input: &TestTopic) -> Option<i64> {
    let mut asked = TopicPartitionList::new();
    asked.add_partition(&input.name, 0);
    let found = consumer.committed_offsets(asked, Duration::from_secs(5)).ok()?;
    match found.elements()[0].offset() {
        Offset::Offset(offset) => Some(offset),
        _ => Some(0),
    }
}

/// Begins where the group stands.
fn begin(consumer: &BaseConsumer, input: &TestTopic) -> Option<()> {
    let mut list = TopicPartitionList::new();
    let at = position(consumer, input)?;
    list.add_partition_offset(&input.name, 0, Offset::Offset(at)).expect("an offset");
    consumer.assign(&list).ok()
}

/// Goes back to where the group stands. By seeking: librdkafka may abort the process when it is assigned the same again while it still
/// stops fetching (its issue 5573).
fn rewind(consumer: &BaseConsumer, input: &TestTopic) -> Option<()> {
    let at = position(consumer, input)?;
    consumer.seek(&input.name, 0, Offset::Offset(at), Duration::from_secs(5)).ok()
}

/// One piece: whether it was committed, or why not.
fn copy_piece(
    writer: &TxnProducer,
    consumer: &BaseConsumer,
    input: &TestTopic,
    output: &TestTopic,
    aborts: bool,
) -> Result<usize, KafkaError> {
    writer.begin_transaction()?;
    let (mut copied, mut next) = (0, 0);
    let until = Instant::now() + Duration::from_secs(2);
    while copied < PIECE && Instant::now() < until {
        let Some(Ok(message)) = consumer.poll(Duration::from_millis(20)) else { continue };
        let value = message.payload().expect("every record has a value");
        let partition = i32::try_from(message.offset() % i64::from(PARTITIONS)).expect("small");
        let record: BaseRecord<'_, (), [u8]> = BaseRecord::to(&output.name);
        let sent = writer.send(record.partition(partition).payload(value));
        sent.map_err(|(error, _)| error)?;
        copied += 1;
        next = message.offset() + 1;
    }
    if copied == 0 {
        writer.abort_transaction(PATIENCE)?;
        return Ok(0);
    }
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset(&input.name, 0, Offset::Offset(next)).expect("an offset");
    let group = consumer.group_metadata().expect("a group");
    writer.send_offsets_to_transaction(&offsets, &group, PATIENCE)?;
    if aborts {
        writer.flush(PATIENCE)?;
        writer.abort_transaction(PATIENCE)?;
        return Ok(0);
    }
    writer.commit_transaction(PATIENCE)?;
    Ok(copied)
}

/// Copies until it is over; whatever goes wrong, it begins again where the group stands.
fn copy(
    bootstrap: &str,
    input: &TestTopic,
    output: &TestTopic,
    copied: &AtomicUsize,
    is_over: &AtomicBool,
) {
    let settings = [("isolation.level", "read_committed")];
    let mut round = 0_u64;
    while !is_over.load(Ordering::Relaxed) {
        let writer = producer(bootstrap, "copier", &[("transaction.timeout.ms", "10000")]);
        if writer.init_transactions(Duration::from_secs(20)).is_err() {
            continue;
        }
        let consumer = member(bootstrap, GROUP, &settings);
        if begin(&consumer, input).is_none() {
            continue;
        }
        loop {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            round += 1;
            let aborts = round.is_multiple_of(4);
            match copy_piece(&writer, &consumer, input, output, aborts) {
                Ok(0) => {}
                Ok(some) => {
                    copied.fetch_add(some, Ordering::Relaxed);
                    continue;
                }
                Err(KafkaError::Transaction(error)) if error.txn_requires_abort() => {
                    if writer.abort_transaction(PATIENCE).is_err() {
                        break;
                    }
                }
                Err(_) => break,
            }
            if rewind(&consumer, input).is_none() {
                break;
            }
        }
    }
}

fn check(broker: &Broker, output: &TestTopic) {
    let seen = values(&broker.bootstrap(), output, PARTITIONS, "read_committed");
    let expected: BTreeMap<String, usize> = (0..RECORDS).map(|n| (n.to_string(), 1)).collect();
    let lost = expected.keys().filter(|value| !seen.contains_key(*value)).count();
    let twice = seen.values().filter(|count| **count > 1).count();
    assert_eq!((lost, twice), (0, 0), "lost and repeated");
    assert_eq!(seen, expected);
}

/// A copy under kills.
#[test]
fn copies_exactly_once() {
    let settings = ["transaction.abort.timed.out.transaction.cleanup.interval.ms=500"];
    let Some(mut broker) = broker(&settings) else { return };
    let input = topic::create(&broker, "copy-in");
    let output = topic::create_with(&broker, "copy-out", PARTITIONS, &[]);
    let bootstrap = broker.bootstrap();
    seed(&bootstrap, &input);
    let (copied, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _over = SetOnDrop(&is_over);
        scope.spawn(|| copy(&bootstrap, &input, &output, &copied, &is_over));
        let deadline = Instant::now() + WHOLE;
        for kill in 0..KILLS {
            let before = copied.load(Ordering::Relaxed);
            while copied.load(Ordering::Relaxed) == before && before < RECORDS {
                assert!(Instant::now() < deadline, "nothing is copied any more: {before}");
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(kill * 37 % 150));
            broker.kill();
            broker.start_again();
        }
        loop {
            let consumer = member(&bootstrap, GROUP, &[]);
            if position(&consumer, &input) >= Some(i64::try_from(RECORDS).expect("small")) {
                break;
            }
            assert!(Instant::now() < deadline, "{} copied", copied.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    check(&broker, &output);
    broker.kill();
    broker.start_again();
    check(&broker, &output);
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
