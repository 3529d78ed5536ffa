//! kill -9 under load, and what must be there afterwards.
//!
//! Goal: an acknowledged record is at its offset exactly once, whenever the process dies and however logs are synced. Method:
//! librdkafka's idempotent producers send without pause while the broker is killed at random moments and started again on the
//! same directory; then every partition is read from its beginning. Seeds are printed; `PELTON_SEED` repeats a run's choices,
//! `PELTON_CRASH_ROUNDS` asks for more of them (the long form: 300).

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kafka_protocol::messages::{ApiKey, InitProducerIdResponse, MetadataResponse};
use pelton_tests::answer;
use pelton_tests::batch::{Batch, now_ms};
use pelton_tests::broker::{Broker, Options};
use pelton_tests::librdkafka::{Deliveries, Delivery, consumer, finish, producer, read};
use pelton_tests::raw::Reply;
use pelton_tests::request::{MetadataTopic, Produce, delete_topics, init_producer_id, metadata};
use pelton_tests::topic::{self, TestTopic};
use rdkafka::consumer::Consumer;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::topic_partition_list::Offset;

/// Rounds in CI: each policy four times.
const ROUNDS: u64 = 12;
const KILLS: u64 = 2;
const PARTITIONS: i32 = 3;
const PRODUCERS: usize = 3;
/// One producer's records of a round, so that reading them back stays quick.
const RECORDS_MAX: usize = 20_000;
/// How fast one producer's load grows.
const RECORDS_PER_MS: usize = 4;

/// Settings of the topic, round by round.
const POLICIES: [&[(&str, &str)]; 3] = [
    &[("sync.policy", "none")],
    &[("sync.policy", "interval"), ("sync.interval.ms", "20")],
    &[("sync.policy", "group")],
];

/// Small and repeatable; nothing here needs good randomness.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn first_seed() -> u64 {
    let given = std::env::var("PELTON_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| now_ms().unsigned_abs())
}

/// Several rounds of several kills each.
#[test]
fn acknowledged_records_survive_kills() {
    let seed = first_seed();
    let rounds = std::env::var("PELTON_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok());
    for round in 0..rounds.unwrap_or(ROUNDS) {
        let seed = seed + round;
        let policy = POLICIES[usize::try_from(seed % 3).expect("small")];
        println!("round {round}: PELTON_SEED={seed} {policy:?}");
        one_round(Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1), policy);
    }
}

fn one_round(mut random: Random, policy: &[(&'static str, &'static str)]) {
    // Against Apache Kafka nothing is killed: that run checks the test, not the broker.
    let mut broker = Broker::start();
    let configs = if broker.is_kafka() { &[] } else { policy };
    let topic = topic::create_with(&broker, "crash", PARTITIONS, configs);
    let bootstrap = broker.bootstrap();
    let stop = AtomicBool::new(false);
    let delivered: [AtomicUsize; PRODUCERS] = std::array::from_fn(|_| AtomicUsize::new(0));
    let deliveries = std::thread::scope(|scope| {
        // A failed assertion below ends the load too; without that the scope would wait for it.
        let _stop = SetOnDrop(&stop);
        let producers = delivered.iter().enumerate();
        let load: Vec<_> = producers
            .map(|(number, delivered)| {
                let first = number * RECORDS_MAX;
                let (bootstrap, topic, stop) = (&bootstrap, &topic, &stop);
                scope.spawn(move || produce_until(bootstrap, topic, first, stop, delivered))
            })
            .collect();
        for _ in 0..KILLS {
            wait_for_load(&delivered);
            std::thread::sleep(Duration::from_millis(random.below(400)));
            if !broker.is_kafka() {
                broker.kill();
                if random.below(2) == 0 {
                    tear_tails(&broker, &topic, &mut random);
                }
                let begin = Instant::now();
                broker.start_again();
                println!("served again after {:?}", begin.elapsed());
            }
        }
        wait_for_load(&delivered);
        stop.store(true, Ordering::Relaxed);
        let ended = load.into_iter().map(|load| load.join().expect("the load ends well"));
        ended.flatten().collect::<Vec<Delivery>>()
    });
    verify(&bootstrap, &topic, &deliveries);
    if !broker.is_kafka() {
        // Once more from what is on the disk, after a kill without load and after a clean stop.
        broker.kill();
        broker.start_again();
        verify(&bootstrap, &topic, &deliveries);
        assert!(broker.stop().success(), "a clean stop");
        broker.start_again();
        verify(&bootstrap, &topic, &deliveries);
    }
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns when a thousand more records have been acknowledged.
fn wait_for_load(delivered: &[AtomicUsize]) {
    let count = || delivered.iter().map(|each| each.load(Ordering::Relaxed)).sum::<usize>();
    let before = count();
    let deadline = Instant::now() + Duration::from_secs(30);
    while count() < (before + 1000).min(RECORDS_MAX * PRODUCERS) {
        assert!(Instant::now() < deadline, "the load stands still at {before} records");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn produce_until(
    bootstrap: &str,
    topic: &TestTopic,
    first: usize,
    stop: &AtomicBool,
    delivered: &AtomicUsize,
) -> Vec<Delivery> {
    let settings = [
        ("enable.idempotence", "true"),
        ("linger.ms", "1"),
        ("batch.num.messages", "50"),
        ("message.timeout.ms", "60000"),
        ("retry.backoff.ms", "10"),
        ("retry.backoff.max.ms", "50"),
        ("reconnect.backoff.ms", "10"),
        ("reconnect.backoff.max.ms", "50"),
    ];
    let producer = producer(bootstrap, &settings);
    let mut id = 0;
    let begin = Instant::now();
    while !stop.load(Ordering::Relaxed) && id < RECORDS_MAX {
        // Paced, so that the load lasts through every kill however fast the broker is.
        let due =
            usize::try_from(begin.elapsed().as_millis()).expect("a short run") * RECORDS_PER_MS;
        if producer.in_flight_count() < 5000 && id < due {
            for _ in 0..20 {
                send(&producer, topic, first + id);
                id += 1;
            }
        }
        producer.poll(Duration::from_micros(100));
        delivered.store(producer.context().count(), Ordering::Relaxed);
    }
    let deliveries = finish(&producer);
    delivered.store(deliveries.len(), Ordering::Relaxed);
    assert_eq!(deliveries.len(), id, "each record is delivered or fails");
    deliveries
}

fn send(producer: &BaseProducer<Deliveries>, topic: &TestTopic, id: usize) {
    let value = id.to_string();
    let partition = i32::try_from(id).expect("few records") % PARTITIONS;
    let record = BaseRecord::<[u8], str, Box<usize>>::with_opaque_to(&topic.name, Box::new(id));
    let sent = producer.send(record.partition(partition).payload(&value));
    assert!(sent.is_ok(), "the queue has room: {:?}", sent.err().map(|(error, _)| error));
}

/// Appends rubbish to each log's newest segment, as a write that the kernel had only half done.
fn tear_tails(broker: &Broker, topic: &TestTopic, random: &mut Random) {
    for partition in 0..PARTITIONS {
        let folder = broker.data_dir().join(format!("{}-{partition}", topic.name));
        let entries = std::fs::read_dir(&folder).expect("the partition's folder is there");
        let paths = entries.map(|entry| entry.expect("readable").path());
        let newest = paths.filter(|path| path.extension().is_some_and(|it| it == "log")).max();
        let newest = newest.expect("a partition has a segment");
        let mut tail = Batch::of(1).build();
        tail.truncate(usize::try_from(random.below(60)).expect("small") + 1);
        let mut file = OpenOptions::new().append(true).open(newest).expect("writable");
        file.write_all(&tail).expect("the disk has room");
    }
}

/// Every delivery succeeded, and reading finds each record once, at the offset that was acknowledged, and nothing else.
fn verify(bootstrap: &str, topic: &TestTopic, deliveries: &[Delivery]) {
    let failed: Vec<&Delivery> = deliveries.iter().filter(|each| each.error.is_some()).collect();
    assert!(failed.is_empty(), "{} failed, first {:?}", failed.len(), failed.first());
    let mut expected: BTreeMap<i32, BTreeMap<i64, usize>> = BTreeMap::new();
    for delivery in deliveries {
        let offsets = expected.entry(delivery.partition).or_default();
        let other = offsets.insert(delivery.offset, delivery.id);
        assert_eq!(other, None, "two records acknowledged at one offset: {delivery:?}");
    }
    let consumer = consumer(bootstrap, &[]);
    for (partition, offsets) in &expected {
        let patience = Duration::from_secs(20);
        let (low, high) =
            consumer.fetch_watermarks(&topic.name, *partition, patience).expect("watermarks");
        let count = i64::try_from(offsets.len()).expect("small");
        assert_eq!((low, high), (0, count), "partition {partition}");
        let got = read(&consumer, &topic.name, *partition, Offset::Beginning, offsets.len());
        for (seen, (offset, id)) in got.iter().zip(offsets) {
            let value = seen.value.as_deref().and_then(|value| std::str::from_utf8(value).ok());
            assert_eq!(seen.offset, *offset, "partition {partition}");
            assert_eq!(value, Some(id.to_string().as_str()), "partition {partition} at {offset}");
        }
    }
    println!("{} records, each once at its offset", deliveries.len());
}

/// Goal: topics, their ids and partition counts survive any end, deleted ones stay deleted, and the cluster and node ids
/// stay. Method: Metadata before and after kills and clean stops.
#[test]
fn topics_survive() {
    let Some(mut broker) = Broker::start_own(Options::default()) else { return };
    let kept: Vec<TestTopic> =
        (1..=5).map(|count| topic::create_with(&broker, "kept", count, &[])).collect();
    let gone = topic::create(&broker, "gone");
    let by_name = MetadataTopic { id: [0; 16], name: Some(gone.name.clone()) };
    broker.connect().ask(&delete_topics(6, &[by_name]));
    let before = describe(&broker);
    assert_eq!(before.len(), kept.len() + 1, "five topics and the cluster: {before:?}");
    for round in 0..6 {
        if round % 2 == 0 {
            broker.kill();
        } else {
            assert!(broker.stop().success());
            let marker = broker.data_dir().join(".kafka_cleanshutdown");
            assert!(marker.exists(), "a clean stop leaves its mark");
        }
        broker.start_again();
        assert_eq!(describe(&broker), before, "round {round}");
        assert!(!broker.data_dir().join(".kafka_cleanshutdown").exists(), "the mark is used up");
    }
    // A topic made at the last moment is there too.
    let last = topic::create(&broker, "last");
    broker.kill();
    broker.start_again();
    assert!(describe(&broker).iter().any(|line| line.contains(&last.name)), "made, then killed");
}

/// Ids, names and partitions as Metadata tells them; leader epochs are left out, they grow.
fn describe(broker: &Broker) -> Vec<String> {
    let reply = broker.connect().ask(&metadata(12, None, false));
    let Reply::Frame(frame) = reply else { panic!("Metadata: {reply:?}") };
    let answer: MetadataResponse = answer::decode(ApiKey::Metadata, 12, &frame).expect("decodes");
    let node = answer.brokers[0].node_id.0;
    let mut lines = vec![format!("cluster {:?} node {node}", answer.cluster_id)];
    for topic in &answer.topics {
        assert_eq!(topic.error_code, 0, "{topic:?}");
        assert!(
            topic.partitions.iter().all(|partition| partition.leader_id.0 == node),
            "{topic:?}"
        );
        let name = topic.name.as_ref().map(|name| name.0.to_string()).unwrap_or_default();
        lines.push(format!("{name} {} {}", topic.topic_id, topic.partitions.len()));
    }
    lines.sort();
    lines
}

/// Goal: a producer id is given once, ever. Method: ask before and after kills.
#[test]
fn producer_ids_are_never_given_twice() {
    let Some(mut broker) = Broker::start_own(Options::default()) else { return };
    let mut given = Vec::new();
    for round in 0..4 {
        for _ in 0..10 {
            let request = init_producer_id(4, None, 1000, (-1, -1));
            let reply = broker.connect().ask(&request);
            let Reply::Frame(frame) = reply else { panic!("InitProducerId: {reply:?}") };
            let answer: InitProducerIdResponse =
                answer::decode(ApiKey::InitProducerId, 4, &frame).expect("decodes");
            assert_eq!(answer.error_code, 0);
            let id = answer.producer_id.0;
            assert!(!given.contains(&id), "round {round}: {id} was given before: {given:?}");
            given.push(id);
        }
        broker.kill();
        broker.start_again();
    }
}

/// Goal: a retry over a restart is known as a duplicate, and a gap as a gap. Method: raw batches with sequences before and
/// after a kill, and before and after a clean stop (when the state comes from a snapshot).
#[test]
fn sequences_survive() {
    let Some(mut broker) = Broker::start_own(Options::default()) else { return };
    let topic = topic::create(&broker, "sequences");
    let name = topic.name.as_str();
    let send = |broker: &Broker, sequence: i32| -> String {
        let batch = Batch::of(2).by(4242, 0, sequence).build();
        let reply = broker.connect().ask(&Produce::to(name, batch).frame());
        let Reply::Frame(frame) = reply else { panic!("Produce: {reply:?}") };
        let line = answer::summary(ApiKey::Produce, 7, &frame);
        line.split("; time").next().unwrap_or_default().to_owned()
    };
    for sequence in (0..20).step_by(2) {
        assert_eq!(send(&broker, sequence), format!("ok; base {sequence}"));
    }
    let mut end = 20;
    for round in 0..4 {
        if round % 2 == 0 {
            broker.kill();
        } else {
            assert!(broker.stop().success());
        }
        broker.start_again();
        assert_eq!(
            send(&broker, end - 2),
            format!("ok; base {}", end - 2),
            "the last, round {round}"
        );
        assert_eq!(send(&broker, end + 2), "OutOfOrderSequenceNumber; base -1", "round {round}");
        assert_eq!(send(&broker, end), format!("ok; base {end}"), "the next, round {round}");
        end += 2;
    }
}
