//! A directory that fails while the broker runs.

use std::fs;
use std::sync::Arc;

use pelton_tests::broker::Broker;
use pelton_tests::volume::Volume;

use crate::{Dirs, create, described, eventually, fetch, offline, produce, served};

/// Goal: a directory removed under the broker takes its partitions offline within seconds, the others go on, new partitions go there,
/// and a stop marks only what is whole. Method: remove the second of two.
#[test]
fn a_directory_removed_under_the_broker() {
    let dirs = Dirs::new(&["a", "b"]);
    let Some(mut broker) = dirs.start() else { return };
    assert_eq!(create(&broker, "t", 4), "ok; topics 1");
    for partition in 0..4 {
        assert_eq!(produce(&broker, "t", partition), "ok; base 0");
    }
    fs::remove_dir_all(&dirs.paths[1]).expect("there");
    eventually("the loss is noticed", || described(&broker, "t")[1] == offline());
    assert_eq!(described(&broker, "t"), [served(), offline(), served(), offline()]);
    for partition in [1, 3] {
        assert_eq!(produce(&broker, "t", partition), "KafkaStorageError; base -1");
        assert_eq!(fetch(&broker, "t", partition), "KafkaStorageError; high -1");
    }
    for partition in [0, 2] {
        assert_eq!(produce(&broker, "t", partition), "ok; base 2");
        assert_eq!(fetch(&broker, "t", partition), "ok; high 4");
    }
    assert_eq!(create(&broker, "u", 3), "ok; topics 1");
    assert_eq!(dirs.partitions("u")[0], ["0", "1", "2"]);
    let told = broker.stderr();
    let told = told.lines().filter(|line| line.contains("a log directory failed")).count();
    assert_eq!(told, 1, "told once\n{}", broker.stderr());
    assert!(!broker.stop().success(), "not in order");
    assert!(dirs.paths[0].join(".kafka_cleanshutdown").exists());
    assert!(!dirs.paths[1].exists(), "nothing is written where the directory was");
    // It starts again with a new, empty directory; what was lost stays lost.
    broker.start_again();
    assert_eq!(described(&broker, "t"), [served(), offline(), served(), offline()]);
    assert_eq!(create(&broker, "v", 2), "ok; topics 1");
    assert_eq!(dirs.partitions("v")[1], ["0", "1"]);
}

/// Goal: without its metadata directory the broker changes nothing and says so, while partitions elsewhere are served. Method: remove
/// that directory alone.
#[test]
fn the_metadata_directory_removed_under_the_broker() {
    let dirs = Dirs::new(&["a"]);
    let metadata = dirs.root.path().join("m");
    let mut options = dirs.options();
    options.settings.push(format!("metadata.log.dir={}", metadata.display()));
    let Some(mut broker) = Broker::start_own(options) else { return };
    assert_eq!(create(&broker, "t", 1), "ok; topics 1");
    fs::remove_dir_all(&metadata).expect("there");
    eventually("the loss is noticed", || broker.stderr().contains("a log directory failed"));
    assert_eq!(create(&broker, "u", 1), "KafkaStorageError; topics 1");
    assert_eq!(produce(&broker, "t", 0), "ok; base 0");
    assert_eq!(described(&broker, "t"), [served()]);
    assert!(!broker.stop().success(), "not in order");
}

/// Goal: with its only directory gone the broker still answers, honestly. Method: remove it.
#[test]
fn the_only_directory_removed_under_the_broker() {
    let dirs = Dirs::new(&["a"]);
    let Some(mut broker) = dirs.start() else { return };
    assert_eq!(create(&broker, "t", 1), "ok; topics 1");
    fs::remove_dir_all(&dirs.paths[0]).expect("there");
    eventually("the loss is noticed", || described(&broker, "t") == [offline()]);
    assert_eq!(create(&broker, "u", 1), "KafkaStorageError; topics 1");
    assert_eq!(produce(&broker, "t", 0), "KafkaStorageError; base -1");
    assert!(!broker.stop().success(), "not in order");
}

/// Goal: somebody removed one log: its partition goes offline when that is met, its neighbours do not. Method: remove a partition's
/// directory and have its files opened again by a roll.
#[test]
fn one_log_removed_under_the_broker() {
    let dirs = Dirs::new(&["a"]);
    let mut options = dirs.options();
    options.settings.push("log.segment.bytes=1048576".to_owned());
    let Some(broker) = Broker::start_own(options) else { return };
    assert_eq!(create(&broker, "t", 2), "ok; topics 1");
    assert_eq!(produce(&broker, "t", 0), "ok; base 0");
    fs::remove_dir_all(dirs.paths[0].join("t-0")).expect("there");
    let refused = (0..2000).map(|_| fill(&broker, 0)).find(|line| !line.starts_with("ok"));
    assert_eq!(refused.as_deref(), Some("KafkaStorageError; base -1"));
    assert_eq!(produce(&broker, "t", 1), "ok; base 0");
    assert_eq!(described(&broker, "t")[1], served());
}

/// Goal: a full volume takes its directory offline (Kafka's way with any failed write) while the other one goes on; with room again
/// and a new start everything that was acknowledged is there. Method: the second directory is a tmpfs of 4 MiB.
#[test]
fn a_full_volume() {
    let dirs = Dirs::new(&["a", "b"]);
    let Some(volume) = Volume::mount(&dirs.paths[1], 4 << 20) else { return };
    let volume = Arc::new(volume);
    let mut options = dirs.options();
    options.volume = Some(Arc::clone(&volume));
    let Some(mut broker) = Broker::start_own(options) else { return };
    assert_eq!(create(&broker, "t", 4), "ok; topics 1");
    let mut acknowledged = 0;
    let refused = loop {
        let line = fill(&broker, 1);
        if !line.starts_with("ok") {
            break line;
        }
        acknowledged += 1;
        assert!(acknowledged < 1000, "4 MiB never fill up");
    };
    assert_eq!(refused, "KafkaStorageError; base -1");
    assert!(acknowledged > 10, "{acknowledged}");
    eventually("the neighbour is offline too", || {
        produce(&broker, "t", 3) == "KafkaStorageError; base -1"
    });
    assert_eq!(described(&broker, "t"), [served(), offline(), served(), offline()]);
    for _ in 0..100 {
        assert!(fill(&broker, 0).starts_with("ok"), "the other volume has room");
    }
    assert_eq!(create(&broker, "u", 2), "ok; topics 1");
    assert_eq!(described(&broker, "u"), [served(), served()]);
    assert!(!broker.stop().success(), "not in order");
    volume.resize(16 << 20);
    broker.start_again();
    assert_eq!(described(&broker, "t"), [served(), served(), served(), served()]);
    assert_eq!(fetch(&broker, "t", 1), format!("ok; high {acknowledged}"));
    assert_eq!(fill(&broker, 1), format!("ok; base {acknowledged}"));
}

/// Appends 64 KiB to a partition of `t`.
fn fill(broker: &Broker, partition: i32) -> String {
    use kafka_protocol::messages::ApiKey;
    use pelton_tests::batch::{Batch, Record};
    use pelton_tests::raw::Reply;
    use pelton_tests::request::Produce;
    let record = Record { value: Some(vec![7; 64 * 1024]), ..Record::at(0) };
    let partitions = vec![(partition, Some(Batch::with(vec![record]).build()))];
    let request = Produce { partitions, ..Produce::to("t", Vec::new()) };
    let Reply::Frame(frame) = broker.connect().ask(&request.frame()) else {
        panic!("Produce is not answered")
    };
    let line = pelton_tests::answer::summary(ApiKey::Produce, 7, &frame);
    line.split("; time").next().unwrap_or_default().to_owned()
}
