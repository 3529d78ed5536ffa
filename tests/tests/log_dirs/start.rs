//! What a start makes of its directories.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kafka_protocol::messages::ApiKey;
use pelton_tests::answer;
use pelton_tests::broker::{Broker, binary, refused, serve};
use pelton_tests::raw::Reply;
use pelton_tests::request::{Resource, incremental_alter_configs};

use crate::{
    Dirs, create, described, eventually, fetch, offline, partitions_in, produce, property, served,
};

/// Goal: partitions are spread by number, each directory is whole by itself, and a restart finds everything. Method: two directories,
/// six partitions, a stop, a kill, and a third directory that joins.
#[test]
fn two_directories_and_a_third() {
    let mut dirs = Dirs::new(&["a", "b"]);
    let Some(mut broker) = dirs.start() else { return };
    assert_eq!(create(&broker, "t", 4), "ok; topics 1");
    assert_eq!(create(&broker, "u", 1), "ok; topics 1");
    assert_eq!(dirs.partitions("t"), [["0", "2"], ["1", "3"]]);
    assert_eq!(dirs.partitions("u"), [vec!["0".to_owned()], Vec::new()]);
    for partition in 0..4 {
        assert_eq!(produce(&broker, "t", partition), "ok; base 0");
    }
    assert!(broker.stop().success());
    for (path, rows) in dirs.paths.iter().zip([["t 0 2", "t 2 2"], ["t 1 2", "t 3 2"]]) {
        assert!(path.join(".kafka_cleanshutdown").exists(), "{}", path.display());
        let file = path.join("recovery-point-offset-checkpoint");
        let text = fs::read_to_string(file).expect("a checkpoint");
        let found: Vec<&str> = text.lines().filter(|line| line.starts_with("t ")).collect();
        assert_eq!(found, rows, "{}", path.display());
    }
    let [a, b] = [&dirs.paths[0], &dirs.paths[1]];
    assert_eq!(property(a, "cluster.id"), property(b, "cluster.id"));
    assert_ne!(property(a, "directory.id"), property(b, "directory.id"));
    assert!(!b.join("__cluster_metadata-0").exists());

    dirs.paths.push(dirs.root.path().join("c"));
    broker.set_directories(dirs.paths.clone());
    broker.start_again();
    assert_eq!(property(&dirs.paths[2], "cluster.id"), property(&dirs.paths[0], "cluster.id"));
    assert_eq!(create(&broker, "v", 2), "ok; topics 1");
    assert_eq!(dirs.partitions("v")[2], ["0", "1"], "the new directory is the emptiest");
    for partition in 0..4 {
        assert_eq!(produce(&broker, "t", partition), "ok; base 2");
    }
    broker.kill();
    broker.start_again();
    for partition in 0..4 {
        assert_eq!(fetch(&broker, "t", partition), "ok; high 4");
        assert_eq!(produce(&broker, "t", partition), "ok; base 4");
    }
    assert_eq!(described(&broker, "t"), vec![served(); 4]);
}

/// Goal: a directory that cannot be opened takes its own partitions along and nothing else, until it is back. Method: a table of ways
/// to spoil the second of two; then it is mended.
#[test]
fn a_directory_that_cannot_be_opened() {
    let dirs = Dirs::new(&["a", "b"]);
    let Some(mut broker) = dirs.start() else { return };
    assert_eq!(create(&broker, "t", 2), "ok; topics 1");
    for partition in 0..2 {
        assert_eq!(produce(&broker, "t", partition), "ok; base 0");
    }
    let (b, aside) = (dirs.paths[1].clone(), dirs.root.path().join("aside"));
    let meta = b.join("meta.properties");
    type Spoil<'a> = (&'a str, Box<dyn Fn() + 'a>, Box<dyn Fn() + 'a>);
    let back = || fs::rename(&aside, &b).expect("a rename");
    let ways: Vec<Spoil<'_>> = vec![
        (
            "a file in its place",
            Box::new(|| {
                fs::rename(&b, &aside).expect("a rename");
                fs::write(&b, b"in the way").expect("writable");
            }),
            Box::new(|| {
                fs::remove_file(&b).expect("there");
                back();
            }),
        ),
        (
            "gone, and made anew",
            Box::new(|| fs::rename(&b, &aside).expect("a rename")),
            Box::new(|| {
                fs::remove_dir_all(&b).expect("there");
                back();
            }),
        ),
        (
            "an identity that cannot be read",
            Box::new(|| {
                fs::copy(&meta, &aside).expect("a copy");
                fs::write(&meta, b"version=9\n").expect("writable");
            }),
            Box::new(|| fs::rename(&aside, &meta).expect("a rename")),
        ),
    ];
    for (round, (name, spoil, mend)) in (1..).zip(&ways) {
        println!("{name}");
        broker.stop();
        spoil();
        broker.start_again();
        assert_eq!(described(&broker, "t"), [served(), offline()], "{name}");
        assert_eq!(produce(&broker, "t", 1), "KafkaStorageError; base -1", "{name}");
        assert_eq!(fetch(&broker, "t", 1), "KafkaStorageError; high -1", "{name}");
        assert_eq!(produce(&broker, "t", 0), format!("ok; base {}", 4 * round - 2), "{name}");
        broker.kill();
        mend();
        broker.start_again();
        assert_eq!(described(&broker, "t"), [served(), served()], "{name}");
        assert_eq!(produce(&broker, "t", 0), format!("ok; base {}", 4 * round), "{name}");
        assert_eq!(produce(&broker, "t", 1), format!("ok; base {}", 2 * round), "{name}");
    }
}

/// Goal: while a directory is away, new partitions go to the others, and a topic deleted meanwhile does not come back with it. Method:
/// take it away, create and delete, bring it back.
#[test]
fn changes_while_a_directory_is_away() {
    let dirs = Dirs::new(&["a", "b"]);
    let Some(mut broker) = dirs.start() else { return };
    assert_eq!(create(&broker, "t", 2), "ok; topics 1");
    assert_eq!(produce(&broker, "t", 1), "ok; base 0");
    broker.stop();
    let (b, aside) = (&dirs.paths[1], dirs.root.path().join("aside"));
    fs::rename(b, &aside).expect("a rename");
    fs::write(b, b"in the way").expect("writable");
    broker.start_again();
    let named = pelton_tests::request::MetadataTopic { id: [0; 16], name: Some("t".to_owned()) };
    broker.connect().ask(&pelton_tests::request::delete_topics(6, &[named]));
    assert_eq!(create(&broker, "t", 2), "ok; topics 1");
    assert_eq!(partitions_in(&dirs.paths[0], "t"), ["0", "1"]);
    assert_eq!(produce(&broker, "t", 1), "ok; base 0");
    broker.stop();
    fs::remove_file(b).expect("there");
    fs::rename(&aside, b).expect("a rename");
    broker.start_again();
    assert_eq!(described(&broker, "t"), [served(), served()]);
    assert_eq!(fetch(&broker, "t", 1), "ok; high 2");
    let left = partitions_in(b, "t");
    assert!(left.iter().all(|name| name.ends_with("-stray")), "{left:?}");
    assert_eq!(left.len(), 1, "{left:?}");
}

/// Goal: directories that should not be used together are refused with one line, and nothing in them changes for the worse. Method: a
/// table of refusals; what is mended starts again.
#[test]
fn refusals() {
    let dirs = Dirs::new(&["a", "b"]);
    let Some(mut broker) = dirs.start() else { return };
    assert_eq!(create(&broker, "t", 2), "ok; topics 1");
    assert_eq!(produce(&broker, "t", 1), "ok; base 0");
    let path = |name: &str| dirs.root.path().join(name);
    let [a, b, c, d] = ["a", "b", "c", "d"].map(path);
    // Held by another broker: also where it is not the first one.
    check(&[&c, &b], &[b.to_str().expect("UTF-8"), "another broker"]);
    assert_eq!(produce(&broker, "t", 1), "ok; base 2", "the holder goes on");
    assert!(broker.stop().success());
    // The metadata directory is not where it was.
    check(&[&d, &b], &["is new", "mounted"]);
    check(&[&b, &a], &["__cluster_metadata", "metadata.log.dir"]);
    // A copy, under another name.
    copy(&b, &c);
    check(&[&a, &b, &c], &["directory.id"]);
    // Another cluster's.
    let other = fs::read_to_string(c.join("meta.properties")).expect("an identity");
    let id = property(&c, "cluster.id");
    let other = other.replace(&id, "AAAAAAAAAAAAAAAAAAAAAA");
    fs::write(c.join("meta.properties"), other).expect("writable");
    check(&[&a, &b, &c], &["cluster.id"]);
    fs::remove_dir_all(&c).expect("there");
    broker.start_again();
    assert_eq!(fetch(&broker, "t", 1), "ok; high 4");
}

/// Goal: a move that Kafka had begun is finished. Method: a `-future` directory in another directory than the partition's.
#[test]
fn a_move_of_kafkas_is_finished() {
    let dirs = Dirs::new(&["a", "b"]);
    let Some(mut broker) = dirs.start() else { return };
    assert_eq!(create(&broker, "t", 2), "ok; topics 1");
    assert_eq!(produce(&broker, "t", 0), "ok; base 0");
    assert!(broker.stop().success());
    let future = dirs.paths[1].join("t-0.0123456789abcdef0123456789abcdef-future");
    copy(&dirs.paths[0].join("t-0"), &future);
    broker.start_again();
    eventually("the partition has moved", || dirs.partitions("t") == [vec![], vec!["0", "1"]]);
    assert_eq!(fetch(&broker, "t", 0), "ok; high 2");
    assert_eq!(produce(&broker, "t", 0), "ok; base 2");
}

/// Goal: the metadata log may have a directory of its own. Method: start, create, restart; no partition lies there.
#[test]
fn a_metadata_directory_of_its_own() {
    let dirs = Dirs::new(&["a", "b"]);
    let metadata = dirs.root.path().join("m");
    let mut options = dirs.options();
    options.settings.push(format!("metadata.log.dir={}", metadata.display()));
    let Some(mut broker) = Broker::start_own(options) else { return };
    assert_eq!(create(&broker, "t", 4), "ok; topics 1");
    assert_eq!(dirs.partitions("t"), [["0", "2"], ["1", "3"]]);
    assert!(metadata.join("__cluster_metadata-0").exists());
    assert_eq!(produce(&broker, "t", 3), "ok; base 0");
    for round in 0..2 {
        if round == 0 {
            assert!(broker.stop().success());
            assert!(metadata.join(".kafka_cleanshutdown").exists());
        } else {
            broker.kill();
        }
        broker.start_again();
        assert_eq!(fetch(&broker, "t", 3), "ok; high 2");
        assert_eq!(partitions_in(&metadata, "t"), [""; 0]);
    }
}

/// Goal: a cordoned directory takes no new partition and serves those it has. Method: cordon one of two, then both.
#[test]
fn cordoned() {
    let dirs = Dirs::new(&["a", "b"]);
    let Some(mut broker) = dirs.start() else { return };
    assert_eq!(create(&broker, "t", 2), "ok; topics 1");
    assert_eq!(produce(&broker, "t", 1), "ok; base 0");
    assert!(broker.stop().success());
    broker.set(&format!("cordoned.log.dirs={}", dirs.paths[1].display()));
    broker.start_again();
    assert_eq!(produce(&broker, "t", 1), "ok; base 2");
    assert_eq!(create(&broker, "u", 3), "ok; topics 1");
    assert_eq!(dirs.partitions("u")[0], ["0", "1", "2"]);
    assert!(broker.stop().success());
    broker.set("cordoned.log.dirs=*");
    broker.start_again();
    assert_eq!(create(&broker, "v", 1), "InvalidReplicationFactor; topics 1");
    assert_eq!(produce(&broker, "t", 1), "ok; base 4");
}

/// Goal: a directory can be cordoned and opened again while the broker runs, and a restart remembers. Method: IncrementalAlterConfigs.
#[test]
fn cordoned_while_it_runs() {
    let dirs = Dirs::new(&["a", "b"]);
    let Some(mut broker) = dirs.start() else { return };
    let cordon = |broker: &Broker, value: Option<&str>| {
        let operation = i8::from(value.is_none());
        let changes = vec![(operation, "cordoned.log.dirs", value)];
        let resource = Resource { kind: 4, name: "1", changes };
        let Reply::Frame(frame) =
            broker.connect().ask(&incremental_alter_configs(1, &[resource], false))
        else {
            panic!("IncrementalAlterConfigs is not answered")
        };
        answer::summary(ApiKey::IncrementalAlterConfigs, 1, &frame)
    };
    let first = dirs.paths[0].to_str().expect("UTF-8");
    assert!(cordon(&broker, Some(first)).starts_with("ok"));
    assert_eq!(create(&broker, "t", 2), "ok; topics 1");
    assert_eq!(dirs.partitions("t")[1], ["0", "1"]);
    broker.kill();
    broker.start_again();
    assert_eq!(create(&broker, "u", 3), "ok; topics 1");
    assert_eq!(dirs.partitions("u")[1], ["0", "1", "2"]);
    assert!(cordon(&broker, None).starts_with("ok"));
    assert_eq!(create(&broker, "v", 2), "ok; topics 1");
    assert_eq!(dirs.partitions("v")[0], ["0", "1"]);
}

/// Runs a broker on these directories that must refuse, and looks for the words of its one line.
fn check(directories: &[&PathBuf], words: &[&str]) {
    let joined: Vec<&str> =
        directories.iter().map(|directory| directory.to_str().expect("UTF-8")).collect();
    let mut command = Command::new(binary());
    command.args(serve(Path::new(&joined.join(",")), "127.0.0.1:0", 1));
    let refusal = refused(command);
    assert_eq!(refusal.code, Some(1), "{directories:?}\n{}", refusal.stderr);
    let errors: Vec<&str> = refusal.stderr.lines().filter(|line| line.contains("error")).collect();
    assert_eq!(errors.len(), 1, "{directories:?}: one line says why\n{}", refusal.stderr);
    for word in words {
        assert!(errors[0].contains(word), "`{word}` is missing: {}", errors[0]);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("writable");
    for entry in fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a copy");
        }
    }
}
