//! Transactions: the tour that introductions to exactly-once take, hostile requests, and what survives kill -9.

mod kills;
mod partitions;
mod tools;
mod tour;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pelton_tests::broker::{Broker, Options};
use pelton_tests::librdkafka;
use pelton_tests::topic::TestTopic;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::{DefaultProducerContext, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

type TxnProducer = ThreadedProducer<DefaultProducerContext>;

fn broker(settings: &[&str]) -> Option<Broker> {
    Broker::start_own(Options {
        shards: 2,
        settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
        ..Options::default()
    })
}

fn producer(bootstrap: &str, id: &str, settings: &[(&str, &str)]) -> TxnProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("transactional.id", id);
    config.set("reconnect.backoff.max.ms", "200").set("socket.timeout.ms", "3000");
    for (name, value) in settings {
        config.set(*name, *value);
    }
    config.create().expect("a producer with these settings")
}

/// A reader that sees only what is committed, or everything.
fn reader(bootstrap: &str, isolation: &str) -> BaseConsumer {
    let settings = [("enable.partition.eof", "true"), ("isolation.level", isolation)];
    librdkafka::consumer(bootstrap, &settings)
}

/// How often each value is in partitions of a topic, read to its end.
fn values(
    bootstrap: &str,
    topic: &TestTopic,
    partitions: i32,
    isolation: &str,
) -> BTreeMap<String, usize> {
    let consumer = reader(bootstrap, isolation);
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(&topic.name, partition, Offset::Beginning).expect("an offset");
    }
    consumer.assign(&list).expect("an assignment");
    let deadline = Instant::now() + PATIENCE;
    let (mut seen, mut ended) = (BTreeMap::new(), 0);
    while ended < partitions {
        assert!(Instant::now() < deadline, "{}: no end", topic.name);
        match consumer.poll(Duration::from_millis(100)) {
            None => {}
            Some(Ok(message)) => {
                let value = message.payload().expect("every record has a value");
                let value = String::from_utf8(value.to_vec()).expect("written by a test");
                *seen.entry(value).or_insert(0) += 1;
            }
            Some(Err(KafkaError::PartitionEOF(_))) => ended += 1,
            Some(Err(error)) => panic!("{}: {error}", topic.name),
        }
    }
    seen
}
