//! rdkafka in the client matrix: runs the steps that `../matrix` describes and prints one line for each.
//!
//! Waits are bounded by [`LIMIT`]; a step that fails does not keep the next from running.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::util::get_rdkafka_version;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

const LIMIT: Duration = Duration::from_secs(30);
const COUNT: usize = 200;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Key, value and headers.
type Record = (String, String, BTreeMap<String, String>);

struct Run {
    broker: String,
    name: String,
    admin: AdminClient<DefaultClientContext>,
    seen: Vec<Record>,
}

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [broker, name] = arguments.as_slice() else {
        return Err("usage: rdkafka-client HOST:PORT NAME".into());
    };
    println!("version 0.39.0 (librdkafka {})", get_rdkafka_version().1);
    let admin = config(broker, &[]).create()?;
    let mut run = Run {
        broker: broker.clone(),
        name: name.clone(),
        admin,
        seen: Vec::new(),
    };
    let steps: [(&str, fn(&mut Run) -> Outcome); 6] = [
        ("admin", Run::admin),
        ("produce", Run::produce),
        ("headers", Run::headers),
        ("group", Run::group),
        ("rebalance", Run::rebalance),
        ("transaction", Run::transaction),
    ];
    for (step, act) in steps {
        match act(&mut run) {
            Ok(()) => println!("{step} ok"),
            Err(error) => println!("{step} fail {}", error.to_string().replace('\n', " ")),
        }
    }
    Ok(())
}

fn config(broker: &str, settings: &[(&str, &str)]) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker);
    for (key, value) in settings {
        config.set(*key, *value);
    }
    config
}

impl Run {
    fn admin(&mut self) -> Outcome {
        let topic = format!("{}-gone", self.name);
        self.create(&topic, 3)?;
        equal(self.partitions(&topic)?, 3)?;
        let deleted = block_on(self.admin.delete_topics(&[&topic], &AdminOptions::new()))?;
        deleted
            .into_iter()
            .collect::<Result<Vec<_>, _>>()
            .map_err(|(topic, code)| format!("{topic}: {code}"))?;
        wait("the topic is gone", || {
            let all = self.admin.inner().fetch_metadata(None, LIMIT)?;
            Ok(all.topics().iter().all(|each| each.name() != topic))
        })
    }

    fn create(&self, topic: &str, partitions: i32) -> Outcome {
        let topic = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        let created = block_on(self.admin.create_topics([&topic], &AdminOptions::new()))?;
        created
            .into_iter()
            .collect::<Result<Vec<_>, _>>()
            .map_err(|(topic, code)| format!("{topic}: {code}"))?;
        Ok(())
    }

    fn partitions(&self, topic: &str) -> Outcome<usize> {
        let found = self.admin.inner().fetch_metadata(Some(topic), LIMIT)?;
        Ok(found.topics()[0].partitions().len())
    }

    fn produce(&mut self) -> Outcome {
        self.create(&self.name, 4)?;
        let producer: FutureProducer = config(&self.broker, &[("acks", "all")]).create()?;
        send(&producer, &self.name, &sent())?;
        self.seen = self.read(&self.name, COUNT)?;
        self.seen.sort();
        let contents = |all: &[Record]| -> Vec<_> {
            all.iter()
                .map(|each| (each.0.clone(), each.1.clone()))
                .collect()
        };
        equal(contents(&self.seen), contents(&sent()))
    }

    fn headers(&mut self) -> Outcome {
        equal(&self.seen, &sent())
    }

    fn group(&mut self) -> Outcome {
        let group = format!("{}-group", self.name);
        let mut first = Member::join(&self.broker, &self.name, &group)?;
        wait("the first member reads all", || Ok(first.poll()? >= COUNT))?;
        first.leave()?;
        let producer: FutureProducer = config(&self.broker, &[]).create()?;
        send(&producer, &self.name, &records("later", 1))?;
        let mut second = Member::join(&self.broker, &self.name, &group)?;
        wait("the second member reads", || Ok(second.poll()? > 0))?;
        equal(&second.values, &vec!["later-000".to_owned()])?;
        second.leave()
    }

    fn rebalance(&mut self) -> Outcome {
        let topic = format!("{}-shared", self.name);
        self.create(&topic, 4)?;
        let mut first = Member::join(&self.broker, &topic, &topic)?;
        wait("the first member has all", || Ok(first.partitions()? == 4))?;
        let mut second = Member::join(&self.broker, &topic, &topic)?;
        wait("they share", || {
            Ok((first.partitions()?, second.partitions()?) == (2, 2))
        })?;
        let shared = records("shared", 40);
        let producer: FutureProducer = config(&self.broker, &[]).create()?;
        send(&producer, &topic, &shared)?;
        wait("they read all", || {
            Ok(first.poll()? + second.poll()? >= shared.len())
        })?;
        let mut both = [&first.values[..], &second.values[..]].concat();
        both.sort();
        equal(both, values(&shared))?;
        second.leave()?;
        wait("the first has all again", || Ok(first.partitions()? == 4))?;
        first.leave()
    }

    fn transaction(&mut self) -> Outcome {
        let topic = format!("{}-transactions", self.name);
        self.create(&topic, 1)?;
        let producer: FutureProducer =
            config(&self.broker, &[("transactional.id", &topic)]).create()?;
        producer.init_transactions(LIMIT)?;
        producer.begin_transaction()?;
        send(&producer, &topic, &records("aborted", 10))?;
        producer.abort_transaction(LIMIT)?;
        let committed = records("committed", 10);
        producer.begin_transaction()?;
        send(&producer, &topic, &committed)?;
        producer.commit_transaction(LIMIT)?;
        equal(
            values(&self.read(&topic, committed.len())?),
            values(&committed),
        )
    }

    /// Reads the first committed records of a topic, from partitions assigned by hand.
    fn read(&self, topic: &str, count: usize) -> Outcome<Vec<Record>> {
        let settings = [
            ("group.id", "none"),
            ("isolation.level", "read_committed"),
            ("enable.auto.commit", "false"),
        ];
        let consumer: BaseConsumer = config(&self.broker, &settings).create()?;
        let mut all = TopicPartitionList::new();
        for partition in 0..i32::try_from(self.partitions(topic)?)? {
            all.add_partition_offset(topic, partition, Offset::Beginning)?;
        }
        consumer.assign(&all)?;
        let mut records = Vec::new();
        wait("the records are read", || {
            let some = poll(&consumer)?;
            records.extend(some.iter().map(record));
            Ok(records.len() >= count)
        })?;
        Ok(records)
    }
}

/// A consumer in a group, and what it has read.
struct Member {
    consumer: BaseConsumer,
    values: Vec<String>,
}

impl Member {
    fn join(broker: &str, topic: &str, group: &str) -> Outcome<Self> {
        let settings = [
            ("group.id", group),
            ("auto.offset.reset", "earliest"),
            ("enable.auto.commit", "false"),
        ];
        let consumer: BaseConsumer = config(broker, &settings).create()?;
        consumer.subscribe(&[topic])?;
        Ok(Self {
            consumer,
            values: Vec::new(),
        })
    }

    fn poll(&mut self) -> Outcome<usize> {
        let some = poll(&self.consumer)?;
        self.values.extend(some.iter().map(|each| record(each).1));
        Ok(self.values.len())
    }

    fn partitions(&mut self) -> Outcome<usize> {
        self.poll()?;
        Ok(self.consumer.assignment()?.count())
    }

    fn leave(self) -> Outcome {
        match self.consumer.commit_consumer_state(CommitMode::Sync) {
            // Nothing was read since partitions came back.
            Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => Ok(()),
            outcome => Ok(outcome?),
        }
    }
}

/// What has come, waiting a little for the first.
fn poll(consumer: &BaseConsumer) -> Outcome<Vec<OwnedMessage>> {
    let mut some = Vec::new();
    let mut patience = Duration::from_millis(100);
    while let Some(message) = consumer.poll(patience) {
        some.push(message?.detach());
        patience = Duration::ZERO;
    }
    Ok(some)
}

fn send(producer: &FutureProducer, topic: &str, records: &[Record]) -> Outcome {
    let mut sent = Vec::new();
    for (key, value, headers) in records {
        let headers = headers
            .iter()
            .fold(OwnedHeaders::new(), |all, (key, value)| {
                all.insert(Header {
                    key,
                    value: Some(value),
                })
            });
        let record = FutureRecord::to(topic)
            .key(key)
            .payload(value)
            .headers(headers);
        sent.push(producer.send_result(record).map_err(|(error, _)| error)?);
    }
    producer.flush(LIMIT)?;
    for each in sent {
        block_on(each)?.map_err(|(error, _)| error)?;
    }
    Ok(())
}

fn record(message: &OwnedMessage) -> Record {
    let text =
        |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    let headers = message
        .headers()
        .into_iter()
        .flat_map(|headers| headers.iter());
    let headers = headers
        .map(|each| (each.key.to_owned(), text(each.value)))
        .collect();
    (text(message.key()), text(message.payload()), headers)
}

fn sent() -> Vec<Record> {
    let of = |i: usize| {
        let headers = [("number", i.to_string()), ("empty", String::new())];
        (
            format!("key-{i}"),
            format!("value-{i}"),
            headers.map(|(key, value)| (key.to_owned(), value)).into(),
        )
    };
    let mut all: Vec<Record> = (0..COUNT).map(of).collect();
    all.sort();
    all
}

fn records(word: &str, count: usize) -> Vec<Record> {
    let text = |i| format!("{word}-{i:03}");
    (0..count)
        .map(|i| (text(i), text(i), BTreeMap::new()))
        .collect()
}

fn values(records: &[Record]) -> Vec<String> {
    records.iter().map(|each| each.1.clone()).collect()
}

fn equal<T: PartialEq + std::fmt::Debug>(got: T, expected: T) -> Outcome {
    if got == expected {
        Ok(())
    } else {
        Err(format!("got {got:?}, expected {expected:?}").into())
    }
}

fn wait(what: &str, mut holds: impl FnMut() -> Outcome<bool>) -> Outcome {
    let late = Instant::now() + LIMIT;
    while !holds()? {
        if Instant::now() > late {
            return Err(format!("not in {LIMIT:?}: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
