//! kill -9 in the middle of rebalances and commits.
//!
//! Goal: no committed offset is lost, and the group recovers by itself. Method: members come and go and commit without pause while the
//! broker is killed; every commit that was acknowledged is compared with what a fresh client finds, and in the end every record is read.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pelton_tests::broker::Broker;
use pelton_tests::librdkafka::member;
use pelton_tests::topic::{self, TestTopic};
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::topic_partition_list::Offset;
use rdkafka::{Message, TopicPartitionList};

use super::broker;

const PARTITIONS: i32 = 6;
const RECORDS: i32 = 2_000;
const KILLS: u32 = 4;
const GROUP: &str = "survivors";

/// How long the group may take to recover: several sessions of members that were lost in a join.
const PATIENCE: Duration = Duration::from_secs(120);

/// The largest acknowledged commit of each partition.
type Acked = Mutex<BTreeMap<i32, i64>>;

fn work(bootstrap: &str, topic: &TestTopic, acked: &Acked, until: impl Fn() -> bool) {
    let consumer = member(bootstrap, GROUP, &[]);
    consumer.subscribe(&[&topic.name]).expect("a subscription");
    while !until() {
        let Some(Ok(message)) = consumer.poll(Duration::from_millis(50)) else { continue };
        let next = message.offset() + 1;
        if next % 5 != 0 && next != i64::from(RECORDS) {
            continue;
        }
        let mut offsets = TopicPartitionList::new();
        let at = Offset::Offset(next);
        offsets.add_partition_offset(&topic.name, message.partition(), at).expect("an offset");
        if consumer.commit(&offsets, CommitMode::Sync).is_ok() {
            let mut acked = acked.lock().expect("no holder panics");
            let known = acked.entry(message.partition()).or_insert(0);
            *known = next.max(*known);
        }
    }
}

fn committed(broker: &Broker, topic: &TestTopic) -> BTreeMap<i32, i64> {
    let consumer = member(&broker.bootstrap(), GROUP, &[]);
    let mut asked = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        asked.add_partition(&topic.name, partition);
    }
    let deadline = Instant::now() + PATIENCE;
    let found = loop {
        match consumer.committed_offsets(asked.clone(), Duration::from_secs(5)) {
            Ok(found) => break found,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    };
    let elements = found.elements();
    let raw = |offset: Offset| match offset {
        Offset::Offset(offset) => offset,
        _ => 0,
    };
    elements.iter().map(|element| (element.partition(), raw(element.offset()))).collect()
}

fn check(broker: &Broker, topic: &TestTopic, acked: &Acked) {
    let acked = acked.lock().expect("no holder panics").clone();
    let found = committed(broker, topic);
    for (partition, offset) in &acked {
        assert!(*offset <= found[partition], "lost: {acked:?} acknowledged, {found:?} found");
    }
}

/// Several kills under load, members that come and go.
#[test]
fn committed_offsets_survive_kills() {
    let Some(mut broker) = broker(2) else { return };
    let topic = topic::create_with(&broker, "survive", PARTITIONS, &[]);
    for partition in 0..PARTITIONS {
        topic::seed(&broker, &topic, partition, RECORDS);
    }
    let acked = Acked::default();
    let bootstrap = broker.bootstrap();
    let is_over = AtomicBool::new(false);
    let total = || acked.lock().expect("no holder panics").values().sum::<i64>();
    let stays = || is_over.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        let _over = SetOnDrop(&is_over);
        for _ in 0..2 {
            scope.spawn(|| work(&bootstrap, &topic, &acked, stays));
        }
        // One that comes and goes keeps the group rebalancing.
        scope.spawn(|| {
            while !stays() {
                let leave = Instant::now() + Duration::from_secs(2);
                work(&bootstrap, &topic, &acked, || stays() || leave < Instant::now());
                // One that leaves while it joins is missed until its session ends: the others need time between two of those.
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        let mut busy = 0;
        for round in 0..KILLS {
            let before = total();
            let deadline = Instant::now() + PATIENCE;
            let whole = i64::from(RECORDS) * i64::from(PARTITIONS);
            busy += u32::from(before < whole);
            while total() <= before && before < whole {
                assert!(Instant::now() < deadline, "round {round}: nobody commits any more");
                std::thread::sleep(Duration::from_millis(10));
            }
            std::thread::sleep(Duration::from_millis(u64::from(round * 137 % 400)));
            broker.kill();
            broker.start_again();
            check(&broker, &topic, &acked);
        }
        assert!(1 < busy, "all was committed before the kills");
        let deadline = Instant::now() + PATIENCE;
        let whole = i64::from(RECORDS) * i64::from(PARTITIONS);
        while total() < whole {
            assert!(Instant::now() < deadline, "the group stands still: {} of {whole}", total());
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    check(&broker, &topic, &acked);
    broker.kill();
    broker.start_again();
    check(&broker, &topic, &acked);
    assert!(broker.stop().success(), "a clean stop");
    broker.start_again();
    check(&broker, &topic, &acked);
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
