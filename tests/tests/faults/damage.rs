//! Files that are damaged while the broker is down: what is a cache is made anew, what is a hint is not believed.

use std::path::{Path, PathBuf};

use futures_lite::future::block_on;
use pelton_storage::disk::Disk as _;
use pelton_tests::broker::{Broker, Options};
use pelton_tests::sim::stage::{Stage, play};
use pelton_tests::topic::{self, TestTopic};

/// Its name, and what it does to a file.
type Damage = (&'static str, fn(&mut Vec<u8>));

/// What may happen to a file.
const DAMAGES: [Damage; 6] = [
    ("emptied", Vec::clear),
    ("cut in half", |bytes| bytes.truncate(bytes.len() / 2)),
    ("garbage", |bytes| {
        for (byte, noise) in bytes.iter_mut().zip((0_u8..=255).cycle()) {
            *byte = noise.wrapping_mul(31) ^ 0x5a;
        }
    }),
    ("zeros", |bytes| bytes.fill(0)),
    ("zeros behind", |bytes| bytes.resize(bytes.len() + 4096, 0)),
    ("a flipped bit", |bytes| {
        let middle = bytes.len() / 2;
        if let Some(byte) = bytes.get_mut(middle) {
            *byte ^= 4;
        }
    }),
];

/// Files that may be damaged in any way, by the ends of their names.
const CACHES: [&str; 9] = [
    ".index",
    ".timeindex",
    ".snapshot",
    "leader-epoch-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "pelton.manifest",
];

/// Whether a file may suffer this and everything must be there all the same. Of the log itself only what lies behind its end may change:
/// `last_log` is the segment that was written to last.
fn may_suffer(name: &str, damage: &str, last_log: Option<&Path>) -> bool {
    CACHES.iter().any(|cache| name.ends_with(cache))
        || (last_log == Some(Path::new(name)) && damage == "zeros behind")
}

fn last_log(files: &[PathBuf]) -> Option<&Path> {
    let is_log = |path: &&PathBuf| path.extension().is_some_and(|end| end == "log");
    files.iter().filter(is_log).max().map(PathBuf::as_path)
}

fn files_of(stage: &Stage, directory: &str) -> Vec<PathBuf> {
    let entries = block_on(stage.disk.read_dir(Path::new(directory))).expect("it is there");
    let files = entries.into_iter().filter(|entry| !entry.is_dir);
    files.map(|entry| Path::new(directory).join(entry.name)).collect()
}

/// Fills a topic, ends the broker, damages the files whose names end so, and starts it again.
fn check(which: &str, damage: Damage, is_killed: bool) -> usize {
    let mut damaged = 0;
    let label = format!("{which} {}, {}", damage.0, if is_killed { "killed" } else { "stopped" });
    play(1, 2, &[], |stage| {
        let configs = [("index.interval.bytes", "0"), ("segment.index.bytes", "64")];
        let topic = stage.create_topic("topic", 2, &configs);
        for number in 0..20 {
            for partition in 0..2 {
                assert_eq!(stage.produce(&topic, partition, -1, 2), (0, 2 * number));
            }
        }
        if is_killed {
            stage.kill(false);
        } else {
            stage.stop();
        }
        let places = ["/data", "/data/topic-0", "/data/topic-1"];
        for files in places.map(|place| files_of(stage, place)) {
            for path in &files {
                let name = path.to_str().expect("UTF-8");
                if name.ends_with(which) && may_suffer(name, damage.0, last_log(&files)) {
                    stage.disk.corrupt(path, damage.1);
                    damaged += 1;
                }
            }
        }
        stage.start();
        for partition in 0..2 {
            for from in [0, 1, 7, 20, 39] {
                let expected: Vec<i64> = (from - from % 2..40).collect();
                let offsets = stage.offsets(&topic, partition, from);
                assert!(expected.starts_with(&offsets[..]), "{label}: {from}: {offsets:?}");
                assert!(!offsets.is_empty(), "{label}: nothing at {from}");
            }
            assert_eq!(stage.produce(&topic, partition, -1, 1), (0, 40), "{label}");
        }
    })
    .unwrap_or_else(|report| panic!("{label}: {report}"));
    damaged
}

/// Goal: no damage to an index, a snapshot, an epoch history, a checkpoint or the manifest costs a record, and neither do zeros behind
/// the log's end, after a kill or a stop. Method: each kind of file, and all of them at once, in each way, in the simulator.
#[test]
fn of_caches() {
    for damage in DAMAGES {
        for is_killed in [true, false] {
            let mut damaged = 0;
            for which in CACHES.into_iter().chain([".log", ""]) {
                damaged += check(which, damage, is_killed);
            }
            assert!(10 < damaged, "{}: only {damaged} files", damage.0);
        }
    }
}

fn damage_directory(directory: &Path, damage: Damage) {
    let entries = std::fs::read_dir(directory).expect("it is there").flatten();
    let paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    for path in &paths {
        if path.is_dir() {
            let is_metadata = path.ends_with("__cluster_metadata-0");
            if !is_metadata {
                damage_directory(path, damage);
            }
        } else if may_suffer(path.to_str().expect("UTF-8"), damage.0, last_log(&paths)) {
            let mut bytes = std::fs::read(path).expect("readable");
            damage.1(&mut bytes);
            std::fs::write(path, bytes).expect("writable");
        }
    }
}

fn end_of(broker: &Broker, topic: &TestTopic) -> String {
    use pelton_tests::request::Fetch;
    let request = Fetch::of(topic.name.as_str());
    let reply = broker.connect().ask(&request.frame());
    let pelton_tests::raw::Reply::Frame(frame) = reply else { panic!("no answer") };
    let key = kafka_protocol::messages::ApiKey::Fetch;
    let line = pelton_tests::answer::summary(key, request.version, &frame);
    line.split("; stable").next().unwrap_or_default().to_owned()
}

/// Goal: the same on a real disk. Method: all such files at once, in each way, after kill -9 and after SIGTERM.
#[test]
fn on_a_real_disk() {
    let Some(mut broker) = Broker::start_own(Options { shards: 2, ..Options::default() }) else {
        return;
    };
    let topic = topic::create_with(&broker, "damaged", 1, &[("segment.bytes", "1048576")]);
    let mut end = 0;
    for damage in DAMAGES {
        for is_killed in [true, false] {
            topic::seed(&broker, &topic, 0, 10);
            end += 10;
            if is_killed {
                broker.kill();
            } else {
                assert!(broker.stop().success(), "{}", damage.0);
            }
            damage_directory(broker.data_dir(), damage);
            broker.start_again();
            assert_eq!(end_of(&broker, &topic), format!("ok; high {end}"), "{}", damage.0);
        }
    }
}
