//! Logs that are copied into another directory and take the original's name there.

use std::path::{Path, PathBuf};

use futures_lite::future::block_on;
use pelton_model::batch::Batches;
use pelton_model::producer_state::ProducerStates;
use pelton_model::{LeaderEpoch, Monotonic, Offset, PartitionId, TopicId};

use super::{Rig, Spec, directory, producer_facts, small_segments};
use crate::dir::future_path;
use crate::disk::Disk;
use crate::log::{BatchFacts, Log};

fn future() -> PathBuf {
    future_path(
        Path::new("/other"),
        "topic",
        PartitionId(0),
        TopicId([3; 16]),
    )
    .expect("short")
}

fn target() -> PathBuf {
    PathBuf::from("/other/topic-0")
}

/// Copies what the rig's log has from `from` on into a new log, `bytes_max` at a time.
fn copy(rig: &Rig, from: i64, bytes_max: usize) -> Log<crate::disk::memory::MemoryDisk> {
    let base = block_on(rig.log.copy_base()).expect("healthy disk");
    let path = future();
    let created = rig.log.create_copy(&rig.store, &path, super::TOPIC, base);
    let copy = block_on(created).expect("healthy disk");
    let bytes = bytes::Bytes::from(rig.read_all(from, bytes_max));
    for batch in Batches::new(&bytes) {
        let (header, batch) = batch.expect("whole batches");
        let batch = bytes::Bytes::copy_from_slice(batch);
        block_on(copy.append(&[batch], &[BatchFacts::from(&header)])).expect("healthy disk");
    }
    copy
}

/// Puts a copy of the rig's log in its place: from now on the rig's log is the copy.
fn take_over(rig: &mut Rig, from: i64, producers: &ProducerStates) {
    let end = rig.log.log_end();
    let copy = copy(rig, from, 500);
    assert_eq!(copy.log_end(), end);
    block_on(rig.disk.sync_dir(Path::new("/"))).expect("healthy disk");
    let (path, place) = (target(), ("topic", PartitionId(0)));
    let renamed = copy.rename_to(&rig.store, &path, place, producers);
    rig.log = block_on(renamed).expect("healthy disk");
    assert_eq!(rig.log.log_end(), end);
    assert_eq!(rig.log.directory(), target());
}

// Goal: a copy has the original's bytes, epochs and topic id, is durable once it bears the name, and goes on. Method: batches of several
// epochs over many segments, a log start within one, a power cut, and one more batch.
#[test]
fn a_copy_takes_over() {
    for log_start in [0, 7, 100] {
        let mut rig = Rig::new(small_segments());
        for base in 0..80 {
            let spec = Spec {
                epoch: i32::try_from(base / 30).expect("small"),
                ..Spec::new(base * 3, 3)
            };
            rig.append_spec(&spec);
        }
        let start = Offset(log_start);
        block_on(rig.log.advance_log_start(start, Monotonic(1))).expect("healthy disk");
        let before = rig.read_all(log_start, 500);
        take_over(&mut rig, log_start, &ProducerStates::new());
        assert_eq!(rig.read_all(log_start, 500), before, "from {log_start}");
        assert_eq!(rig.log.topic_id(), Some(super::TOPIC));
        assert_eq!(rig.log.recovery_point(), rig.log.log_end());
        let held = [log_start, 89, 90, 180, 239].into_iter();
        for offset in held.filter(|&offset| log_start <= offset) {
            let epoch = LeaderEpoch(i32::try_from(offset / 90).expect("small"));
            assert_eq!(rig.log.epoch_at(Offset(offset)), Some(epoch), "at {offset}");
        }
        rig.disk.crash(7);
        let options = rig.options(false, 240);
        let (log, recovery) =
            block_on(Log::open(&rig.store, &target(), options)).expect("the log opens");
        assert_eq!(recovery.truncated_bytes, 0);
        rig.log = log;
        assert_eq!(rig.read_all(log_start, 500), before, "after a power cut");
        rig.append(1, 2);
        assert_eq!(rig.log.log_end(), Offset(242));
    }
}

// Goal: what a partition knows of its producers lies beside the copy. Method: open it after a clean and an unclean stop.
#[test]
fn producers_go_along() {
    let mut rig = Rig::new(small_segments());
    let mut producers = ProducerStates::new();
    for base in 0..20_i32 {
        let spec = Spec {
            producer: Some((42, base * 2)),
            ..Spec::new(i64::from(base) * 2, 2)
        };
        rig.append_spec(&spec);
        producers.replay(Offset(spec.base), &producer_facts(&spec));
    }
    take_over(&mut rig, 0, &producers);
    for (clean, recovery_point) in [(true, 40), (false, 40), (false, 0)] {
        let options = rig.options(clean, recovery_point);
        let (_, recovery) =
            block_on(Log::open(&rig.store, &target(), options)).expect("the log opens");
        let known = recovery.producer_states.get(pelton_model::ProducerId(42));
        let last = known.map(|state| state.last_sequence().0);
        assert_eq!(last, Some(39), "{clean} {recovery_point}");
    }
}

// Goal: a copy begins where there is nothing to copy, too. Method: an empty log, and one of which everything was deleted.
#[test]
fn copies_of_nothing() {
    for records in [0, 30] {
        let mut rig = Rig::new(small_segments());
        rig.append(records, 3);
        let end = rig.log.log_end();
        block_on(rig.log.advance_log_start(end, Monotonic(1))).expect("healthy disk");
        take_over(&mut rig, end.0, &ProducerStates::new());
        assert_eq!((rig.log.log_start(), rig.log.log_end()), (end, end));
        rig.append(1, 2);
        assert_eq!(rig.log.log_end(), end.plus(2));
    }
}

// Goal: names of copies are Kafka's, and no name is longer than a filesystem takes. Method: both sides of the bound.
#[test]
fn names_of_copies() {
    assert_eq!(
        future(),
        Path::new("/other/topic-0.03030303030303030303030303030303-future")
    );
    let path = |bytes: usize, partition| {
        let id = TopicId([3; 16]);
        future_path(
            Path::new("/d"),
            &"L".repeat(bytes),
            PartitionId(partition),
            id,
        )
    };
    assert!(path(213, 9).is_some());
    assert!(path(214, 9).is_none());
    assert!(path(213, 10).is_none());
    assert_ne!(directory(), future());
}
