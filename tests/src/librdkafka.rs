//! librdkafka, through the `rdkafka` crate: a producer that remembers every delivery, and a consumer by assignment.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Headers, Message};
use rdkafka::producer::{BaseProducer, Producer, ProducerContext};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

/// How long a delivery or a record may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What became of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The number that the test gave it.
    pub id: usize,
    /// Where it went.
    pub partition: i32,
    /// Its offset; meaningless with acks=0.
    pub offset: i64,
    /// Why it was not delivered.
    pub error: Option<String>,
}

/// Deliveries as they were reported.
#[derive(Debug, Default)]
pub struct Deliveries(Mutex<Vec<Delivery>>);

impl Deliveries {
    /// Takes all deliveries reported so far.
    ///
    /// # Panics
    /// Never: no holder of the lock panics.
    pub fn take(&self) -> Vec<Delivery> {
        std::mem::take(&mut self.0.lock().expect("no holder panics"))
    }

    /// The number of deliveries reported and not taken.
    ///
    /// # Panics
    /// Never: no holder of the lock panics.
    pub fn count(&self) -> usize {
        self.0.lock().expect("no holder panics").len()
    }
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<usize>;

    fn delivery(&self, result: &DeliveryResult<'_>, id: Self::DeliveryOpaque) {
        let delivery = match result {
            Ok(message) => Delivery {
                id: *id,
                partition: message.partition(),
                offset: message.offset(),
                error: None,
            },
            Err((error, message)) => Delivery {
                id: *id,
                partition: message.partition(),
                offset: -1,
                error: Some(error.to_string()),
            },
        };
        self.0.lock().expect("no holder panics").push(delivery);
    }
}

/// A producer with settings in librdkafka's own words.
///
/// # Panics
/// When a setting is wrong.
#[must_use]
pub fn producer(bootstrap: &str, settings: &[(&str, &str)]) -> BaseProducer<Deliveries> {
    config(bootstrap, settings)
        .create_with_context(Deliveries::default())
        .expect("a producer with these settings")
}

/// A consumer by assignment.
///
/// # Panics
/// When a setting is wrong.
#[must_use]
pub fn consumer(bootstrap: &str, settings: &[(&str, &str)]) -> BaseConsumer {
    let mut config = config(bootstrap, settings);
    // The library assigns nothing without a group id; the group is never joined.
    config.set("group.id", "pelton-tests");
    config.set("enable.auto.commit", "false").set("auto.offset.reset", "error");
    config.create().expect("a consumer with these settings")
}

/// A member of a group; it begins at the first record where nothing is committed, and commits what it is told to.
///
/// # Panics
/// When a setting is wrong.
#[must_use]
pub fn member(bootstrap: &str, group: &str, settings: &[(&str, &str)]) -> BaseConsumer {
    let mut config = config(bootstrap, &[]);
    config.set("group.id", group).set("auto.offset.reset", "earliest");
    config.set("enable.auto.commit", "false").set("session.timeout.ms", "6000");
    config.set("heartbeat.interval.ms", "200").set("reconnect.backoff.max.ms", "200");
    config.set("socket.timeout.ms", "3000").set("coordinator.query.interval.ms", "500");
    for (name, value) in settings {
        config.set(*name, *value);
    }
    config.create().expect("a consumer with these settings")
}

fn config(bootstrap: &str, settings: &[(&str, &str)]) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    for (name, value) in settings {
        config.set(*name, *value);
    }
    config
}

/// Waits until all records are delivered or have failed, and returns what became of them, by the test's numbers.
///
/// # Panics
/// When that takes too long.
pub fn finish(producer: &BaseProducer<Deliveries>) -> Vec<Delivery> {
    producer.flush(PATIENCE).expect("all records are delivered in time");
    let mut deliveries = producer.context().take();
    deliveries.sort_by_key(|delivery| delivery.id);
    deliveries
}

/// A record as a consumer saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its offset.
    pub offset: i64,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Option<Vec<u8>>,
    /// Its headers.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Its timestamp in milliseconds.
    pub timestamp: Option<i64>,
}

/// Reads `count` records of one partition.
///
/// # Panics
/// When they do not come in time, or an error comes.
#[must_use]
pub fn read(
    consumer: &BaseConsumer,
    topic: &str,
    partition: i32,
    from: Offset,
    count: usize,
) -> Vec<Seen> {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, from).expect("a valid offset");
    consumer.assign(&list).expect("an assignment");
    let deadline = Instant::now() + PATIENCE;
    let mut seen = Vec::with_capacity(count);
    while seen.len() < count {
        assert!(Instant::now() < deadline, "{} of {count} records came", seen.len());
        match consumer.poll(Duration::from_millis(100)) {
            None => {}
            Some(Ok(message)) => seen.push(copy(&message)),
            Some(Err(error)) => panic!("{topic}-{partition}: {error}"),
        }
    }
    seen
}

/// The newest value of each key: what a consumer of a compacted topic ends with.
pub type State = BTreeMap<String, Vec<u8>>;

/// Reads partition 0 of a topic to its end: the newest value of each key, and how many records there were.
///
/// # Panics
/// When the end does not come in time, a record has no key, or an error comes.
#[must_use]
pub fn newest(bootstrap: &str, topic: &str) -> (State, usize) {
    let consumer = consumer(bootstrap, &[("enable.partition.eof", "true"), ("check.crcs", "true")]);
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Beginning).expect("a valid offset");
    consumer.assign(&list).expect("an assignment");
    let deadline = Instant::now() + PATIENCE;
    let (mut state, mut count, mut last) = (State::new(), 0, -1);
    loop {
        assert!(Instant::now() < deadline, "{topic}: no end after {count} records");
        match consumer.poll(Duration::from_millis(100)) {
            None => {}
            Some(Ok(message)) => {
                assert!(last < message.offset());
                last = message.offset();
                count += 1;
                let key = message.key().expect("every record has a key");
                let key = String::from_utf8(key.to_vec()).expect("written by a test");
                match message.payload() {
                    Some(value) => state.insert(key, value.to_vec()),
                    None => state.remove(&key),
                };
            }
            Some(Err(KafkaError::PartitionEOF(_))) => return (state, count),
            Some(Err(error)) => panic!("{topic}: {error}"),
        }
    }
}

fn copy(message: &impl Message) -> Seen {
    let headers = message.headers().map_or_else(Vec::new, |headers| {
        headers
            .iter()
            .map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec)))
            .collect()
    });
    Seen {
        offset: message.offset(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers,
        timestamp: message.timestamp().to_millis(),
    }
}
