//! What each sync policy promises: in the simulator, on a disk that loses what was not synced, and as a process.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use kafka_protocol::messages::{ApiKey, ListOffsetsResponse};
use pelton_tests::answer;
use pelton_tests::broker::{Broker, Options};
use pelton_tests::raw::Reply;
use pelton_tests::request::ListOffsets;
use pelton_tests::sim::simulation::run_with_power_cuts;
use pelton_tests::sim::stage::play;
use pelton_tests::topic;

/// Runs a check for each seed on all cores; reports every failure.
fn for_seeds(count: u64, check: impl Fn(u64) -> Result<(), String> + Sync) {
    let next = AtomicU64::new(1);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || -> Vec<String> {
        let mut failures = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > count {
                return failures;
            }
            failures.extend(check(seed).err());
        }
    };
    let failures: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect()
    });
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

// Goal: with `group` (and `flush.messages=1`) nothing that was acknowledged, or seen by a consumer, is lost when the power goes. Method:
// the whole simulation, with every kill a power cut, against its facts.
#[test]
fn power_cuts_lose_nothing_acknowledged() {
    let from = number("PELTON_SIM_FROM").unwrap_or(0);
    let count = number("PELTON_SIM_SEEDS").unwrap_or(100);
    for_seeds(count, |seed| run_with_power_cuts(from + seed).map(|_| ()));
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

const STORAGE_ERROR: i16 = 56;

/// Produces to two partitions under these settings, cuts the power after a pause, and gives the ends before and after.
fn ends_around_a_cut(
    seed: u64,
    broker: &[(&str, &str)],
    topic: &[(&'static str, &'static str)],
    batches: u32,
    pause_ms: u64,
) -> Vec<(i64, i64)> {
    let mut ends = Vec::new();
    play(seed, 2, broker, |stage| {
        let topic = stage.create_topic("topic", 2, topic);
        let mut acknowledged = [0; 2];
        for number in 0..batches {
            for partition in 0..2 {
                let (error, base) = stage.produce(&topic, partition, 1, 1 + number % 3);
                assert_eq!(error, 0);
                acknowledged[usize::try_from(partition).unwrap()] =
                    base + i64::from(1 + number % 3);
            }
        }
        stage.wait_ms(pause_ms);
        stage.restart(true);
        for partition in 0..2 {
            let (error, end) = stage.fetch(&topic, partition, 0);
            assert_eq!(error, 0);
            ends.push((acknowledged[usize::try_from(partition).unwrap()], end));
        }
    })
    .unwrap_or_else(|report| panic!("{report}"));
    ends
}

/// At most `lost_max` acknowledged records are lost, whatever the seed; with `some_lost`, some seed loses some.
fn check(
    broker: &[(&str, &str)],
    topic: &[(&'static str, &'static str)],
    pause_ms: u64,
    lost_max: i64,
    some_lost: bool,
) {
    let mut most = 0;
    for seed in 1..=20 {
        for (acknowledged, end) in ends_around_a_cut(seed, broker, topic, 5, pause_ms) {
            most = most.max(acknowledged - end);
        }
    }
    assert!(most <= lost_max, "{broker:?} {topic:?}: lost {most} records");
    assert!(!some_lost || most > 0, "{broker:?} {topic:?}: the power cut took nothing");
}

// Goal: without a policy the tests see what a power cut takes; with `group` it takes nothing, whether the broker or the topic says so,
// and the topic wins. Method: single batches, a power cut right after the last acknowledgement, twenty seeds.
#[test]
fn none_and_group() {
    check(&[], &[], 0, i64::MAX, true);
    check(&[], &[("sync.policy", "group")], 0, 0, false);
    check(&[("log.sync.policy", "group")], &[], 0, 0, false);
    check(&[("log.sync.policy", "group")], &[("sync.policy", "none")], 0, i64::MAX, true);
}

// Goal: `flush.messages=n` leaves fewer than n acknowledged records unsynced. Method: as above.
#[test]
fn flush_messages() {
    check(&[], &[("flush.messages", "1")], 0, 0, false);
    check(&[], &[("flush.messages", "4")], 0, 3, true);
    check(&[("log.flush.interval.messages", "1")], &[], 0, 0, false);
}

// Goal: `interval` and `flush.ms` sync in time, and not before. Method: the power goes right away, and later than the interval.
#[test]
fn intervals() {
    let interval = [("sync.policy", "interval"), ("sync.interval.ms", "500")];
    check(&[], &interval, 0, i64::MAX, true);
    check(&[], &interval, 800, 0, false);
    let broker = [("log.sync.policy", "interval"), ("log.sync.interval.ms", "500")];
    check(&broker, &[], 800, 0, false);
    // The interval alone is no policy.
    check(&[], &[("sync.interval.ms", "500")], 800, i64::MAX, true);
    check(&[], &[("flush.ms", "500")], 0, i64::MAX, true);
    check(&[], &[("flush.ms", "500")], 800, 0, false);
    check(&[("log.flush.interval.ms", "500")], &[], 800, 0, false);
    let rarely = [("log.flush.scheduler.interval.ms", "30000")];
    check(&rarely, &[("flush.ms", "500")], 800, i64::MAX, true);
    check(&rarely, &[("flush.ms", "500")], 31_000, 0, false);
}

// Goal: a record that was written but not synced when the broker was killed is durable before it counts again. Method: kill, start
// with `group`, cut the power.
#[test]
fn recovered_records_are_synced() {
    for seed in 1..=20 {
        play(seed, 1, &[("log.sync.policy", "group")], |stage| {
            let topic = stage.create_topic("topic", 1, &[]);
            assert_eq!(stage.produce(&topic, 0, 1, 3), (0, 0));
            stage.restart(false);
            let (_, seen) = stage.fetch(&topic, 0, 0);
            assert_eq!(seen, 3);
            stage.restart(true);
            assert_eq!(stage.fetch(&topic, 0, 0), (0, 3));
        })
        .unwrap_or_else(|report| panic!("{report}"));
    }
}

// Goal: a failed sync is answered KAFKA_STORAGE_ERROR, by everything on that log directory, is not tried again, and costs nothing that
// was acknowledged. Method: one sync fails, the disk is well again; then the power goes, and the broker starts anew.
#[test]
fn a_failed_sync_takes_the_directory_offline() {
    for (seed, acks) in (1..=10).flat_map(|seed| [(seed, 1), (seed, -1)]) {
        play(seed, 2, &[("log.sync.policy", "group")], |stage| {
            let topic = stage.create_topic("topic", 4, &[]);
            for partition in 0..4 {
                assert_eq!(stage.produce(&topic, partition, acks, 2), (0, 0));
            }
            stage.disk.fail_next_sync(Path::new("/data/topic-1"), 5);
            assert_eq!(stage.produce(&topic, 1, acks, 2).0, STORAGE_ERROR);
            stage.wait_ms(10);
            let syncs = stage.disk.counts().syncs;
            for partition in 0..4 {
                assert_eq!(stage.produce(&topic, partition, acks, 2).0, STORAGE_ERROR);
                assert_eq!(stage.fetch(&topic, partition, 0).0, STORAGE_ERROR);
            }
            assert_eq!(stage.disk.counts().syncs, syncs, "something was synced again");
            stage.restart(true);
            for partition in 0..4 {
                let (error, end) = stage.fetch(&topic, partition, 0);
                assert_eq!(error, 0);
                assert!(2 <= end);
            }
        })
        .unwrap_or_else(|report| panic!("{report}"));
    }
}

// Goal: a sync that fails behind the requests has the same end. Method: as above, with `interval`.
#[test]
fn a_failed_sync_in_the_background() {
    let config = [("log.sync.policy", "interval"), ("log.sync.interval.ms", "500")];
    for seed in 1..=10 {
        play(seed, 1, &config, |stage| {
            let topic = stage.create_topic("topic", 2, &[]);
            // The first append also syncs the leader epoch.
            assert_eq!(stage.produce(&topic, 0, 1, 2), (0, 0));
            stage.disk.fail_next_sync(Path::new("/data/topic-0"), 5);
            assert_eq!(stage.produce(&topic, 0, 1, 2), (0, 2));
            stage.wait_ms(1_000);
            for partition in 0..2 {
                assert_eq!(stage.produce(&topic, partition, 1, 2).0, STORAGE_ERROR);
                assert_eq!(stage.fetch(&topic, partition, 0).0, STORAGE_ERROR);
            }
        })
        .unwrap_or_else(|report| panic!("{report}"));
    }
}

// Goal: the same code on real threads and a real disk: every policy takes records over several shards and partitions, rolls, and is there
// after kill -9 and after a stop. Method: small segments, batches to eight partitions from four connections at once.
#[test]
fn policies_on_a_real_disk() {
    for policy in ["none", "interval", "group"] {
        let settings = vec![format!("log.sync.policy={policy}"), "log.sync.interval.ms=100".into()];
        let options = Options { shards: 2, settings, ..Options::default() };
        let Some(mut broker) = Broker::start_own(options) else { return };
        let topic = topic::create_with(&broker, "synced", 8, &[("segment.bytes", "1048576")]);
        let start = |broker: &Broker, count: i32| {
            std::thread::scope(|scope| {
                for producer in 0..4 {
                    let topic = &topic;
                    scope.spawn(move || {
                        for partition in (0..8).filter(|partition| partition % 4 == producer) {
                            for _ in 0..count {
                                topic::seed(broker, topic, partition, 10);
                            }
                        }
                    });
                }
            });
        };
        start(&broker, 8);
        broker.kill();
        broker.start_again();
        start(&broker, 1);
        assert!(broker.stop().success(), "{policy}");
        broker.start_again();
        for partition in 0..8 {
            let latest =
                ListOffsets { partitions: vec![partition], ..ListOffsets::at(&topic.name, 5, -1) };
            let Reply::Frame(frame) = broker.connect().ask(&latest.frame()) else {
                panic!("no answer")
            };
            let answer: ListOffsetsResponse =
                answer::decode(ApiKey::ListOffsets, 5, &frame).expect("ListOffsets decodes");
            assert_eq!(answer.topics[0].partitions[0].offset, 90, "{policy} {partition}");
        }
    }
}
