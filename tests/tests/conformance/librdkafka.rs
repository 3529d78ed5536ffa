//! librdkafka: codecs, acks, idempotence, headers and nulls, assignment by offset and time, volume, topics.

use std::time::Duration;

use futures_lite::future::block_on;
use pelton_tests::batch::now_ms;
use pelton_tests::broker::{Broker, unique};
use pelton_tests::librdkafka::{Deliveries, Seen, consumer, finish, producer, read};
use pelton_tests::topic;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

const WAIT: Duration = Duration::from_secs(20);

/// A record of every shape: with and without key, value, headers; empty is not null.
fn shape(number: usize, time: i64) -> Seen {
    let bytes = |text: String| Some(text.into_bytes());
    let number_i64 = i64::try_from(number).expect("small");
    Seen {
        offset: number_i64,
        key: match number % 3 {
            0 => None,
            1 => bytes(String::new()),
            _ => bytes(format!("key-{number}")),
        },
        value: match number % 5 {
            0 => None,
            1 => bytes(String::new()),
            _ => bytes(format!("value-{number} ").repeat(number % 50)),
        },
        headers: match number % 4 {
            0 => vec![
                ("name".to_owned(), bytes(format!("{number}"))),
                ("name".to_owned(), bytes(String::new())),
                ("null".to_owned(), None),
            ],
            _ => Vec::new(),
        },
        timestamp: Some(time + number_i64),
    }
}

fn send(producer: &BaseProducer<Deliveries>, topic: &str, partition: i32, id: usize, seen: &Seen) {
    let mut record: BaseRecord<'_, [u8], [u8], Box<usize>> =
        BaseRecord::with_opaque_to(topic, Box::new(id)).partition(partition);
    record.key = seen.key.as_deref();
    record.payload = seen.value.as_deref();
    record.timestamp = seen.timestamp;
    if !seen.headers.is_empty() {
        record.headers =
            Some(seen.headers.iter().fold(OwnedHeaders::new(), |all, (key, value)| {
                all.insert(Header { key, value: value.as_deref() })
            }));
    }
    let mut waiting = Some(record);
    while let Some(record) = waiting.take() {
        if let Err((error, record)) = producer.send(record) {
            let full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
            assert!(full, "{error}");
            producer.poll(Duration::from_millis(10));
            waiting = Some(record);
        }
    }
}

/// Each codec with each kind of acks and with idempotence: what went in comes out, in order, at the offsets acknowledged.
#[test]
fn codecs_and_acks() {
    let broker = Broker::start();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        for (acks, idempotence) in
            [("0", "false"), ("1", "false"), ("all", "false"), ("all", "true")]
        {
            let topic = topic::create(&broker, "codec");
            let settings = [
                ("compression.codec", codec),
                ("acks", acks),
                ("enable.idempotence", idempotence),
                ("linger.ms", "2"),
                ("batch.num.messages", "100"),
            ];
            let producer = producer(&broker.bootstrap(), &settings);
            let time = now_ms();
            let sent: Vec<Seen> = (0..500).map(|number| shape(number, time)).collect();
            for (id, seen) in sent.iter().enumerate() {
                send(&producer, &topic.name, 0, id, seen);
            }
            let label = format!("{codec}, acks {acks}, idempotence {idempotence}");
            let deliveries = finish(&producer);
            assert_eq!(deliveries.len(), sent.len(), "{label}");
            for (delivery, seen) in deliveries.iter().zip(&sent) {
                assert_eq!(delivery.error, None, "{label}");
                assert!(acks == "0" || delivery.offset == seen.offset, "{label}: {delivery:?}");
            }
            let consumer = consumer(&broker.bootstrap(), &[]);
            let got = read(&consumer, &topic.name, 0, Offset::Beginning, sent.len());
            assert!(got == sent, "{label}: {:?}", got.iter().zip(&sent).find(|(a, b)| a != b));
        }
    }
}

/// Assignment from the beginning, an offset, the tail, the end and a timestamp; watermarks.
#[test]
fn positions() {
    let broker = Broker::start();
    let topic = topic::create(&broker, "positions");
    let name = topic.name.as_str();
    let producer = producer(&broker.bootstrap(), &[("batch.num.messages", "10")]);
    let time = now_ms() - 10_000;
    for id in 0..1000 {
        send(&producer, name, 0, id, &shape(id, time));
    }
    assert!(finish(&producer).iter().all(|delivery| delivery.error.is_none()));
    let consumer = consumer(&broker.bootstrap(), &[]);
    for (from, first) in [
        (Offset::Beginning, 0),
        (Offset::Offset(0), 0),
        (Offset::Offset(777), 777),
        (Offset::Offset(999), 999),
        (Offset::OffsetTail(5), 995),
    ] {
        let got = read(&consumer, name, 0, from, 1);
        assert_eq!(got[0], shape(first, time), "{from:?}");
    }
    assert_eq!(consumer.fetch_watermarks(name, 0, WAIT).expect("watermarks"), (0, 1000));
    for (asked, expected) in [(0, 0), (1, 1), (555, 555), (999, 999)] {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(name, 0, Offset::Offset(time + asked)).expect("valid");
        let found = consumer.offsets_for_times(list, WAIT).expect("an answer");
        let offset = found.find_partition(name, 0).expect("the partition").offset();
        assert_eq!(offset, Offset::Offset(expected), "time +{asked}");
        let got = read(&consumer, name, 0, offset, 1);
        assert_eq!(got[0].offset, expected);
    }
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(name, 0, Offset::Offset(now_ms() + 60_000)).expect("valid");
    let found = consumer.offsets_for_times(list, WAIT).expect("an answer");
    assert_eq!(found.find_partition(name, 0).expect("the partition").offset(), Offset::End);

    // A consumer at the end sees what comes later, and nothing else.
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(name, 0, Offset::End).expect("valid");
    consumer.assign(&list).expect("an assignment");
    assert!(consumer.poll(Duration::from_millis(700)).is_none(), "nothing is there yet");
    send(&producer, name, 0, 1000, &shape(1000, time));
    finish(&producer);
    let message = consumer.poll(WAIT).expect("a record in time").expect("no error");
    assert_eq!(rdkafka::Message::offset(&message), 1000);
}

/// A hundred thousand records over four partitions by the idempotent producer: all there, each partition in order.
#[test]
fn volume() {
    const COUNT: usize = 100_000;
    let broker = Broker::start();
    let topic = topic::create_with(&broker, "volume", 4, &[]);
    let settings = [
        ("enable.idempotence", "true"),
        ("linger.ms", "5"),
        ("queue.buffering.max.messages", "20000"),
    ];
    let producer = producer(&broker.bootstrap(), &settings);
    for id in 0..COUNT {
        let value = Some(format!("{id:0100}").into_bytes());
        let seen = Seen { offset: 0, key: None, value, headers: Vec::new(), timestamp: None };
        send(&producer, &topic.name, i32::try_from(id % 4).expect("small"), id, &seen);
    }
    let deliveries = finish(&producer);
    assert_eq!(deliveries.len(), COUNT);
    assert!(deliveries.iter().all(|delivery| delivery.error.is_none()));
    let consumer = consumer(&broker.bootstrap(), &[]);
    for partition in 0..4 {
        let got = read(&consumer, &topic.name, partition, Offset::Beginning, COUNT / 4);
        for (index, seen) in got.iter().enumerate() {
            let id = index * 4 + usize::try_from(partition).expect("small");
            assert_eq!(seen.offset, i64::try_from(index).expect("small"));
            assert_eq!(
                seen.value,
                Some(format!("{id:0100}").into_bytes()),
                "partition {partition}"
            );
        }
    }
}

/// Topics by the admin client: created with settings, listed, grown, deleted, and made again under the same name.
#[test]
fn topics() {
    let broker = Broker::start();
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", broker.bootstrap())
        .create()
        .expect("an admin client");
    let options = AdminOptions::new().operation_timeout(Some(WAIT)).request_timeout(Some(WAIT));
    let name = unique("admin");
    let consumer = consumer(&broker.bootstrap(), &[]);
    let partitions = || {
        let metadata = consumer.fetch_metadata(None, WAIT).expect("metadata");
        let topic = metadata.topics().iter().find(|topic| topic.name() == name);
        topic.map_or(0, |topic| topic.partitions().len())
    };
    let new = || NewTopic::new(&name, 3, TopicReplication::Fixed(1)).set("retention.ms", "60000");
    for round in 0..2 {
        let made = block_on(admin.create_topics([&new()], &options)).expect("an answer");
        assert_eq!(made, [Ok(name.clone())], "round {round}");
        let again = block_on(admin.create_topics([&new()], &options)).expect("an answer");
        let exists = (name.clone(), RDKafkaErrorCode::TopicAlreadyExists);
        assert_eq!(again, [Err(exists)]);
        eventually(|| partitions() == 3);
        let more = NewPartitions::new(&name, 5);
        let grown = block_on(admin.create_partitions([&more], &options)).expect("an answer");
        assert_eq!(grown, [Ok(name.clone())]);
        eventually(|| partitions() == 5);
        // A new topic of an old name begins at offset 0.
        let producer = producer(&broker.bootstrap(), &[]);
        send(&producer, &name, 4, 0, &shape(2, now_ms()));
        assert_eq!(finish(&producer)[0].offset, 0, "round {round}");
        let gone = block_on(admin.delete_topics(&[&name], &options)).expect("an answer");
        assert_eq!(gone, [Ok(name.clone())]);
        eventually(|| partitions() == 0);
    }
}

/// A topic that does not exist is made by producing to it.
#[test]
fn auto_creation() {
    let broker = Broker::start();
    let name = unique("auto");
    let producer = producer(&broker.bootstrap(), &[("enable.idempotence", "true")]);
    let time = now_ms();
    for id in 0..10 {
        send(&producer, &name, 0, id, &shape(id, time));
    }
    for (id, delivery) in finish(&producer).iter().enumerate() {
        assert_eq!((delivery.offset, &delivery.error), (i64::try_from(id).expect("small"), &None));
    }
    let metadata = producer.client().fetch_metadata(Some(&name), WAIT).expect("metadata");
    assert_eq!(metadata.topics()[0].partitions().len(), 1);
}

fn eventually(mut holds: impl FnMut() -> bool) {
    for _ in 0..200 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("it does not come true");
}

/// A topic's configuration as the admin client reads it, changed by the old API (which replaces it whole).
#[test]
fn configurations() {
    use rdkafka::admin::{AlterConfig, ResourceSpecifier};
    let broker = Broker::start();
    let topic = topic::create(&broker, "configured");
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", broker.bootstrap()).create().expect("valid");
    let options = AdminOptions::new().request_timeout(Some(WAIT));
    let specifier = ResourceSpecifier::Topic(&topic.name);
    let change = AlterConfig::new(specifier).set("retention.ms", "5000").set("segment.ms", "60000");
    let altered = block_on(admin.alter_configs(&[change], &options)).expect("an answer");
    assert!(altered.iter().all(Result::is_ok), "{altered:?}");
    if broker.is_kafka() {
        std::thread::sleep(Duration::from_millis(500));
    }
    let described = block_on(admin.describe_configs(&[specifier], &options)).expect("an answer");
    let configs = described.into_iter().next().expect("one").expect("no error");
    let value = |name: &str| configs.get(name).and_then(|entry| entry.value.clone());
    assert_eq!(value("retention.ms").as_deref(), Some("5000"));
    assert_eq!(value("segment.ms").as_deref(), Some("60000"));
    assert_eq!(value("cleanup.policy").as_deref(), Some("delete"));
    assert!(33 <= configs.entries.len());
    // The binding does not tell of refusals: what counts is that nothing has changed.
    let wrong = AlterConfig::new(specifier).set("no.such", "1");
    drop(block_on(admin.alter_configs(&[wrong], &options)));
    let described = block_on(admin.describe_configs(&[specifier], &options)).expect("an answer");
    let configs = described.into_iter().next().expect("one").expect("no error");
    let retention = configs.get("retention.ms").and_then(|entry| entry.value.clone());
    assert_eq!(retention.as_deref(), Some("5000"));
}
