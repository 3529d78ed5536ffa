//! Devices that fail in one respect under the whole broker, in the simulator.

use std::path::Path;

use futures_lite::future::block_on;
use pelton_storage::disk::Disk as _;
use pelton_storage::disk::memory::Failing;
use pelton_tests::sim::bench::Topic;
use pelton_tests::sim::stage::{Stage, play};

use super::{STORAGE_ERROR, for_seeds};

/// The directory that fails; the metadata log and partition 0 lie in the other one.
const VICTIM: &str = "/data-1";

/// What partition 1 answers once its device fails.
#[derive(Clone, Copy)]
struct Expected {
    produce: i16,
    fetch: i16,
    /// Whether what was acknowledged is still there when the device is well again.
    keeps: bool,
}

/// A topic of two partitions, one in each directory, with records in files only.
fn filled(stage: &mut Stage) -> Topic {
    let topic = stage.create_topic("topic", 2, &[]);
    for partition in 0..2 {
        assert_eq!(stage.produce(&topic, partition, -1, 3), (0, 0));
        assert_eq!(stage.produce(&topic, partition, -1, 3), (0, 3));
    }
    // Nothing is in memory after a start.
    stage.restart(false);
    topic
}

fn check(name: &str, strike: impl Fn(&Stage), expected: Expected) {
    let config = [("log.dirs", "/data,/data-1"), ("log.sync.policy", "group")];
    for_seeds(6, |seed| {
        play(seed, 2, &config, |stage| {
            let topic = filled(stage);
            strike(stage);
            assert_eq!(stage.fetch(&topic, 1, 0).0, expected.fetch, "{name}: fetch");
            assert_eq!(stage.produce(&topic, 1, -1, 1).0, expected.produce, "{name}: produce");
            // Whoever noticed it first, it holds from now on, and the other directory goes on.
            stage.wait_ms(6_000);
            if expected.produce == STORAGE_ERROR {
                assert_eq!(stage.fetch(&topic, 1, 0).0, STORAGE_ERROR, "{name}: fetch later");
            }
            assert_eq!(stage.produce(&topic, 0, -1, 2), (0, 6), "{name}: the other directory");
            assert_eq!(stage.fetch(&topic, 0, 0), (0, 8), "{name}: the other directory");
            stage.kill(seed % 2 == 0);
            stage.disk.mend();
            stage.start();
            assert_eq!(stage.fetch(&topic, 0, 0), (0, 8), "{name}: after a start");
            if expected.keeps {
                let (error, end) = stage.fetch(&topic, 1, 0);
                assert_eq!(error, 0, "{name}: after a start");
                assert!(6 <= end, "{name}: {end}");
                assert_eq!(stage.produce(&topic, 1, -1, 1), (0, end), "{name}: after a start");
            }
        })
    });
}

/// Goal: whatever a device does, its partitions answer KAFKA_STORAGE_ERROR, the others go on, and with a sound device everything
/// acknowledged is there. Method: each way to fail, on the second of two directories of a simulated broker; then a kill, every other
/// time with a power cut, and a start.
#[test]
fn each_way_to_fail() {
    let on = |failing, errno| {
        move |stage: &Stage| stage.disk.fail_below(Path::new(VICTIM), failing, errno)
    };
    let writes = Expected { produce: STORAGE_ERROR, fetch: 0, keeps: true };
    check("the disk is full", on(Failing::Growth, 28), writes);
    check("EIO on write", on(Failing::Growth, 5), writes);
    check("over quota", on(Failing::Growth, 122), writes);
    let all = Expected { produce: STORAGE_ERROR, fetch: STORAGE_ERROR, keeps: true };
    // Files are opened for writing, by readers too.
    check("read-only remount", on(Failing::Changes, 30), all);
    check("EIO on read", on(Failing::Reads, 5), all);
    check("the device is gone", on(Failing::Everything, 5), all);
    let sync = |stage: &Stage| stage.disk.fail_next_sync(Path::new("/data-1/topic-1"), 5);
    check("EIO on sync", sync, writes);
    let remove = |stage: &Stage| {
        block_on(stage.disk.remove_dir_all(Path::new(VICTIM))).expect("it is there");
        // As a client would meet it: the watch looks every five seconds.
        stage.wait_ms(6_000);
    };
    check("the directory is removed", remove, Expected { keeps: false, ..all });
}

/// Goal: a disk that fills up while the log's tail is being prepared costs no append that still fits. Method: preparing fails from the
/// beginning; a hot partition goes on, also over a roll, and everything is there after a kill.
#[test]
fn preparing_on_a_full_disk() {
    for_seeds(4, |seed| {
        play(seed, 1, &[], |stage| {
            let configs = [("index.interval.bytes", "0"), ("segment.index.bytes", "1024")];
            let topic = stage.create_topic("hot", 1, &configs);
            stage.disk.fail_preparing(Some(28));
            let mut end = 0;
            for _ in 0..150 {
                assert_eq!(stage.produce(&topic, 0, -1, 40), (0, end));
                end += 40;
            }
            stage.restart(false);
            assert_eq!(stage.fetch(&topic, 0, 0), (0, end));
            stage.disk.fail_preparing(None);
            assert_eq!(stage.produce(&topic, 0, -1, 1), (0, end));
        })
    });
}
