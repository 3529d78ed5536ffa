//! The client against a real broker: `PELTON_TEST_BROKER=host:port` names one (Pelton or Apache Kafka); without it every
//! test prints that it was skipped.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use pelton_client::{
    Acks, Address, Admin, Client, ClientError, ClientOptions, ConsumedRecord, Consumer,
    ConsumerOptions, ExplicitPartitioner, GroupMetadata, IsolationLevel, NewTopic, OffsetQuery,
    OffsetReset, Position, Producer, ProducerOptions, ProducerRecord, RoundRobinPartitioner, Str,
    TransactionOptions, key_partition,
};
use pelton_model::compression::Compression;
use pelton_model::slice::Slice;
use pelton_model::{ErrorCode, Timestamp};
use pelton_transport::boot::block_on;
use pelton_transport::net::{Connection, Listener, Net, SocketOptions, TaskClass};
use pelton_transport::ring::RingNet;

type TestClient = Client<RingNet>;

/// Runs `test` with a client of the broker, and with a topic of `partitions` that exists during the test.
fn with_topic<F, R>(name: &str, partitions: i32, test: F)
where
    F: FnOnce(TestClient, Str) -> R,
    R: Future<Output = ()>,
{
    let Ok(broker) = std::env::var("PELTON_TEST_BROKER") else {
        eprintln!("skipped: {name} needs PELTON_TEST_BROKER=host:port");
        return;
    };
    let address: Address = broker.parse().unwrap();
    block_on(|net| {
        Box::pin(async move {
            let client = connect(&net, address).await;
            let admin = Admin::new(&client);
            let mut random = [0; 4];
            net.random(&mut random);
            let name = format!("{name}-{:08x}", u32::from_le_bytes(random));
            let topic = NewTopic {
                partitions,
                replication_factor: 1,
                ..NewTopic::new(name.as_str())
            };
            let name = topic.name.clone();
            let created = admin.create_topics(&[topic], false).await.unwrap();
            assert_eq!(created[0].1.as_ref().unwrap().name, name);
            test(client.clone(), name.clone()).await;
            let deleted = admin.delete_topics(&[name]).await.unwrap();
            deleted[0].1.as_ref().unwrap();
        })
    })
    .unwrap();
}

async fn connect(net: &RingNet, address: Address) -> TestClient {
    Client::connect(net, &[address], ClientOptions::default())
        .await
        .unwrap()
}

/// Consumes `count` records of `topic`'s partitions from `position`.
async fn consume(
    client: &TestClient,
    topic: &Str,
    partitions: i32,
    position: Position,
    count: usize,
) -> Vec<ConsumedRecord> {
    let options = ConsumerOptions::default();
    consume_with(client, options, topic, partitions, position, count).await
}

async fn consume_with(
    client: &TestClient,
    options: ConsumerOptions,
    topic: &Str,
    partitions: i32,
    position: Position,
    count: usize,
) -> Vec<ConsumedRecord> {
    let mut consumer = Consumer::new(client, options);
    let wanted = (0..partitions).map(|partition| (topic.clone(), partition, position));
    consumer.assign(wanted).await.unwrap();
    let mut records = Vec::new();
    let deadline = client.net().now().plus_ms(30_000);
    while records.len() < count && client.net().now() < deadline {
        records.extend(consumer.poll(Duration::from_millis(200)).await.unwrap());
    }
    records
}

fn options(compression: Compression) -> ProducerOptions {
    ProducerOptions {
        compression,
        ..ProducerOptions::default()
    }
}

// Goal: what goes in comes out, once, in order per partition, with every codec. Method: 10 000 records each.
#[test]
fn records_survive_every_codec() {
    with_topic("client-codecs", 3, |client, topic| async move {
        let mut ends = [0; 3];
        for compression in Compression::ALL {
            let producer = Producer::new(&client, options(compression));
            let mut deliveries = Vec::new();
            for index in 0..10_000_u32 {
                let key = index.to_string();
                let value = format!("{}-{index}", compression.name());
                let record = ProducerRecord::new(topic.clone(), value).with_key(key);
                deliveries.push(producer.send(record).await.unwrap());
            }
            producer.flush().await.unwrap();
            assert_eq!(producer.buffered_bytes(), 0);
            for (index, delivery) in deliveries.into_iter().enumerate() {
                let metadata = delivery.await.unwrap();
                assert_eq!(
                    metadata.partition,
                    key_partition(index.to_string().as_bytes(), 3)
                );
                let end = &mut ends[usize::try_from(metadata.partition).unwrap()];
                assert_eq!(metadata.offset, Some(*end));
                *end += 1;
            }
            producer.close().await.unwrap();
        }
        let records = consume(&client, &topic, 3, Position::Beginning, 50_000).await;
        assert_eq!(records.len(), 50_000);
        let mut next = [0; 3];
        for record in records {
            let next = &mut next[usize::try_from(record.partition).unwrap()];
            assert_eq!(record.offset, *next);
            *next += 1;
            let key = String::from_utf8(record.key.unwrap().to_vec()).unwrap();
            let value = String::from_utf8(record.value.unwrap().to_vec()).unwrap();
            assert!(value.ends_with(&format!("-{key}")));
        }
        assert_eq!(next, ends);
    });
}

// Goal: keys, values, headers and times come back as they were, null and empty apart. Method: one record of each kind.
#[test]
fn fields_come_back() {
    with_topic("client-fields", 1, |client, topic| async move {
        let bytes = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
        let record = |key, value, headers| ProducerRecord {
            topic: topic.clone(),
            partition: Some(0),
            key,
            value,
            headers,
            timestamp: Some(Timestamp(1_700_000_000_000)),
        };
        let headers = vec![
            (Bytes::from_static(b"h"), bytes("1")),
            (Bytes::from_static(b"h"), None),
            (Bytes::from_static(b""), bytes("")),
        ];
        let sent = [
            record(bytes("k"), bytes("v"), headers),
            record(None, bytes(""), Vec::new()),
            record(bytes(""), None, Vec::new()),
            record(None, None, Vec::new()),
        ];
        let producer =
            Producer::with_partitioner(&client, options(Compression::None), ExplicitPartitioner);
        for record in &sent {
            let delivery = producer.send(record.clone()).await.unwrap();
            assert_eq!(delivery.partition(), 0);
        }
        producer.close().await.unwrap();
        let records = consume(&client, &topic, 1, Position::Beginning, 4).await;
        for (sent, got) in sent.iter().zip(&records) {
            assert_eq!((&sent.key, &sent.value), (&got.key, &got.value));
            assert_eq!(sent.headers, got.headers);
            assert_eq!(sent.timestamp, Some(got.timestamp));
        }
        assert_eq!(records.len(), 4);
    });
}

// Goal: every kind of position begins where it should. Method: 100 records a second apart; each position, and seeks.
#[test]
fn positions() {
    with_topic("client-positions", 1, |client, topic| async move {
        let producer = Producer::new(&client, options(Compression::Zstd));
        let base = client.net().wall_clock().0 - 200_000;
        for index in 0..100 {
            let mut record = ProducerRecord::new(topic.clone(), index.to_string());
            record.timestamp = Some(Timestamp(base + 1000 * index));
            drop(producer.send(record).await.unwrap());
        }
        producer.flush().await.unwrap();
        for (position, first) in [
            (Position::Beginning, 0),
            (Position::Offset(42), 42),
            (Position::Timestamp(base), 0),
            (Position::Timestamp(base + 41_500), 42),
            (Position::Timestamp(base + 99_000), 99),
        ] {
            let count = usize::try_from(100 - first).unwrap();
            let records = consume(&client, &topic, 1, position, count).await;
            assert_eq!(records.len(), count, "{position:?}");
            assert_eq!(records[0].offset, first, "{position:?}");
        }
        let mut consumer = Consumer::new(&client, ConsumerOptions::default());
        for position in [Position::End, Position::Timestamp(base + 100_000)] {
            consumer
                .assign([(topic.clone(), 0, position)])
                .await
                .unwrap();
            assert_eq!(consumer.positions()[0].next_offset, 100);
        }
        assert_eq!(consumer.poll(Duration::from_millis(50)).await.unwrap(), []);
        drop(
            producer
                .send(ProducerRecord::new(topic.clone(), "late"))
                .await
                .unwrap(),
        );
        producer.flush().await.unwrap();
        let records = consumer.poll(Duration::from_secs(10)).await.unwrap();
        assert_eq!(records[0].value.as_deref(), Some(&b"late"[..]));
        assert_eq!(consumer.positions()[0].high_watermark, Some(101));
        consumer.seek(&topic, 0, Position::Offset(7)).await.unwrap();
        let records = consumer.poll(Duration::from_secs(10)).await.unwrap();
        assert_eq!(records[0].offset, 7);
    });
}

// Goal: a position outside the log is reset or told. Method: offset 1000 of a log of 10, with each policy.
#[test]
fn positions_out_of_range() {
    with_topic("client-range", 1, |client, topic| async move {
        let producer = Producer::new(&client, options(Compression::None));
        for index in 0..10 {
            let record = ProducerRecord::new(topic.clone(), index.to_string());
            drop(producer.send(record).await.unwrap());
        }
        producer.flush().await.unwrap();
        for (offset_reset, first) in [(OffsetReset::Earliest, Some(0)), (OffsetReset::Fail, None)] {
            let options = ConsumerOptions {
                offset_reset,
                ..ConsumerOptions::default()
            };
            let mut consumer = Consumer::new(&client, options);
            let position = Position::Offset(1000);
            consumer
                .assign([(topic.clone(), 0, position)])
                .await
                .unwrap();
            let polled = consumer.poll(Duration::from_secs(10)).await;
            match (first, polled) {
                (Some(first), Ok(records)) => assert_eq!(records[0].offset, first),
                (None, Err(error)) => assert!(matches!(error, ClientError::OutOfRange { .. })),
                (_, polled) => panic!("{offset_reset:?}: {polled:?}"),
            }
        }
    });
}

// Goal: acks 0 and 1 and round robin work. Method: 300 records each, then look at the ends.
#[test]
fn other_acks_and_partitioners() {
    with_topic("client-acks", 3, |client, topic| async move {
        // Nobody says so when a record without acknowledgement is lost: first wait until leaders answer, and keep the
        // connections open until the records are seen.
        let mut producers = Vec::new();
        for acks in [Acks::Leader, Acks::None] {
            let options = ProducerOptions {
                acks,
                linger_ms: 0,
                ..options(Compression::Lz4)
            };
            let partitioner = RoundRobinPartitioner::default();
            let producer = Producer::with_partitioner(&client, options, partitioner);
            for index in 0..300 {
                let record = ProducerRecord::new(topic.clone(), index.to_string());
                drop(producer.send(record).await.unwrap());
            }
            producer.flush().await.unwrap();
            producers.push(producer);
        }
        let records = consume(&client, &topic, 3, Position::Beginning, 600).await;
        for partition in 0..3 {
            let count = records
                .iter()
                .filter(|record| record.partition == partition)
                .count();
            assert_eq!(count, 200);
        }
        let admin = Admin::new(&client);
        let query = |query| (topic.clone(), 1, query);
        let queries = [
            query(OffsetQuery::Earliest),
            query(OffsetQuery::Latest),
            query(OffsetQuery::MaxTimestamp),
        ];
        let listed = admin.list_offsets(&queries).await.unwrap();
        assert_eq!(listed[0].offset, Some(0));
        assert_eq!(listed[1].offset, Some(200));
        assert!(listed[2].timestamp.is_some());
    });
}

// Goal: topics are described, grown and refused in the broker's words. Method: each call, well and ill.
#[test]
fn administration() {
    with_topic("client-admin", 2, |client, topic| async move {
        let admin = Admin::new(&client);
        let described = admin
            .describe_topics(&[topic.clone(), "no-such".into()])
            .await
            .unwrap();
        assert_eq!(described[0].1.as_ref().unwrap().partitions.len(), 2);
        let missing = described[1].1.as_ref().unwrap_err();
        assert_eq!(
            missing.error_code(),
            Some(ErrorCode::UnknownTopicOrPartition)
        );
        let grown = admin
            .create_partitions(&[(topic.clone(), 4)], false)
            .await
            .unwrap();
        grown[0].1.as_ref().unwrap();
        // A broker may answer before it has heard from its controller.
        let deadline = client.net().now().plus_ms(10_000);
        loop {
            let listed = admin.list_topics().await.unwrap();
            let listed = listed.iter().find(|listed| listed.name == topic).unwrap();
            if listed.partitions.len() == 4 {
                break;
            }
            assert!(client.net().now() < deadline);
            client.net().yield_now().await;
        }
        let again = admin
            .create_topics(&[NewTopic::new(topic.clone())], false)
            .await
            .unwrap();
        let error = again[0].1.as_ref().unwrap_err();
        assert_eq!(error.error_code(), Some(ErrorCode::TopicAlreadyExists));
        assert!(error.to_string().contains(topic.as_str()), "{error}");
        let cluster = admin.describe_cluster().await.unwrap();
        assert_eq!(Some(cluster.cluster_id), client.cluster_id());
        assert_eq!(cluster.brokers.len(), client.brokers().len());
        let missing = client.topic("no-such-topic", false).await.unwrap_err();
        assert_eq!(
            missing.error_code(),
            Some(ErrorCode::UnknownTopicOrPartition)
        );
    });
}

// Goal: with idempotence every record is there once and in order, though connections die under it. Method: a proxy in
// between that breaks each connection after some bytes, in either direction.
#[test]
fn lost_connections_lose_and_double_nothing() {
    const RECORDS: usize = 3000;
    with_topic("client-proxy", 1, |client, topic| async move {
        let broker = client.brokers()[0].address.clone();
        let connections = Rc::new(Cell::new(0));
        let proxy = proxy(client.net(), broker.clone(), Rc::clone(&connections));
        let options = ClientOptions {
            reroute: [(broker, proxy.clone())].into(),
            ..ClientOptions::default()
        };
        let through = Client::connect(client.net(), &[proxy], options)
            .await
            .unwrap();
        let options = ProducerOptions {
            linger_ms: 1,
            batch_size_bytes: 300,
            ..ProducerOptions::default()
        };
        let producer = Producer::new(&through, options);
        for index in 0..RECORDS {
            let record = ProducerRecord::new(topic.clone(), index.to_string());
            drop(producer.send(record).await.unwrap());
            if index % 100 == 0 {
                client.net().yield_now().await;
            }
        }
        producer.close().await.unwrap();
        let broken = connections.get();
        assert!(5 < broken, "the proxy has broken too little: {broken}");
        let options = ConsumerOptions {
            partition_bytes_max: 500,
            ..ConsumerOptions::default()
        };
        let beginning = Position::Beginning;
        let records = consume_with(&through, options, &topic, 1, beginning, RECORDS).await;
        assert!(broken + 5 < connections.get());
        let values = records.iter().map(|record| record.value.clone().unwrap());
        let values: Vec<_> = values
            .map(|value| String::from_utf8(value.to_vec()).unwrap())
            .collect();
        let expected: Vec<_> = (0..RECORDS).map(|index| index.to_string()).collect();
        assert_eq!(values, expected);
    });
}

/// Listens, and passes bytes on to `broker` until a connection has had its share; gives its address.
fn proxy(net: &RingNet, broker: Address, connections: Rc<Cell<u64>>) -> Address {
    let upstream = std::net::SocketAddr::new(broker.host.parse().unwrap(), broker.port);
    let listener = net
        .listen("127.0.0.1:0".parse().unwrap(), SocketOptions::default())
        .unwrap();
    let address = Address::from(listener.local_addr().unwrap());
    let net = net.clone();
    let task = net.clone();
    task.spawn(TaskClass::Request, async move {
        for turn in 1_u64.. {
            let near = Rc::new(listener.accept().await.unwrap());
            connections.set(turn);
            let far = Rc::new(net.connect(upstream).await.unwrap());
            let share = Rc::new(Cell::new(3000 + turn * 2_654_435_761 % 7000));
            for (from, to) in [(&near, &far), (&far, &near)] {
                let pump = pump(Rc::clone(from), Rc::clone(to), Rc::clone(&share));
                net.spawn(TaskClass::Request, pump);
            }
        }
    });
    address
}

async fn pump<C: Connection>(from: Rc<C>, to: Rc<C>, share: Rc<Cell<u64>>) {
    loop {
        let mut bytes = BytesMut::with_capacity(1000);
        let count = from.recv(&mut bytes).await.unwrap_or(0) as u64;
        let left = share.get().saturating_sub(count);
        share.set(left);
        let mut slices = vec![Slice::Bytes(bytes.freeze())];
        if count == 0 || left == 0 || to.send(&mut slices).await.is_err() {
            from.shutdown();
            to.shutdown();
            return;
        }
    }
}

fn transactional(client: &TestClient, id: &Str) -> Producer<RingNet> {
    let options = ProducerOptions {
        transaction: Some(TransactionOptions::new(id.clone())),
        ..ProducerOptions::default()
    };
    Producer::new(client, options)
}

async fn send_each(producer: &Producer<RingNet>, topic: &Str, value: &'static str) {
    for partition in 0..3 {
        let record = ProducerRecord {
            partition: Some(partition),
            ..ProducerRecord::new(topic.clone(), value)
        };
        drop(producer.send(record).await.unwrap());
    }
}

// Goal: what is committed is read, with the offsets that go with it, and what is aborted is not; whoever comes later with the same id
// fences. Method: one transaction of each kind, a reader of committed records, a second producer.
#[test]
fn transactions_are_all_or_none() {
    with_topic("client-transactions", 3, |client, topic| async move {
        let id = topic.clone();
        let producer = transactional(&client, &id);
        assert!(producer.begin_transaction().is_err(), "not initialized");
        producer.init_transactions().await.unwrap();
        let early = ProducerRecord::new(topic.clone(), "early");
        assert!(producer.send(early).await.is_err(), "none is open");
        producer.begin_transaction().unwrap();
        send_each(&producer, &topic, "aborted").await;
        producer.abort_transaction().await.unwrap();
        producer.begin_transaction().unwrap();
        assert!(producer.begin_transaction().is_err(), "one is open");
        send_each(&producer, &topic, "committed").await;
        let group = GroupMetadata::of(format!("{topic}-group"));
        let offsets = BTreeMap::from([((topic.clone(), 1), 42)]);
        producer.send_offsets(&group, &offsets).await.unwrap();
        producer.commit_transaction().await.unwrap();
        let admin = Admin::new(&client);
        let found = admin.group_offsets(&group.group_id).await.unwrap();
        assert_eq!(found[&(topic.clone(), 1)].offset, 42);
        let options = ConsumerOptions {
            isolation_level: IsolationLevel::ReadCommitted,
            ..ConsumerOptions::default()
        };
        let records = consume_with(&client, options, &topic, 3, Position::Beginning, 3).await;
        let values = records.iter().map(|record| record.value.clone().unwrap());
        assert_eq!(
            values.collect::<Vec<_>>(),
            vec![Bytes::from("committed"); 3]
        );
        let described = admin.describe_transaction(&id).await.unwrap();
        assert_eq!(described.state, "CompleteCommit");
        producer.begin_transaction().unwrap();
        send_each(&producer, &topic, "left open").await;
        admin.abort_transaction(&id).await.unwrap();
        assert!(producer.commit_transaction().await.is_err(), "it is fenced");
        let successor = transactional(&client, &id);
        successor.init_transactions().await.unwrap();
        successor.begin_transaction().unwrap();
        successor.abort_transaction().await.unwrap();
    });
}
