//! AlterReplicaLogDirs of partitions with transactions: what was aborted stays hidden, what is open stays open, wherever the partition
//! lies.

use pelton_tests::broker::{Broker, Options};
use pelton_tests::transactional::{ABORT, COMMIT, Fetched, Partition};

use crate::moves::{SLOW, await_places, copies, move_to, produce_batch};
use crate::{Dirs, create, eventually};

/// Large records in front of the transactions, so that the copy comes to them late.
const BULK: i32 = 50;
const BULK_BYTES: usize = 50_000;

/// Producers as [`Partition::producers`] tells them.
type Producers = Vec<(i64, i32, i32, i32, i64)>;

/// What the partition says of its transactions: to readers of both kinds, and of its producers.
fn shown(partition: &Partition<'_>) -> (Fetched, Fetched, Producers) {
    let from = i64::from(BULK);
    let mut producers = partition.producers();
    producers.sort_unstable();
    (partition.fetch(from, 1), partition.fetch(from, 0), producers)
}

fn aborted(partition: &Partition<'_>) -> Vec<(i64, i64)> {
    partition.fetch(i64::from(BULK), 1).aborted.expect("a list")
}

/// Ends what is open and looks at the whole.
fn conclude(broker: &Broker) {
    let partition = Partition { broker, topic: "t", index: 0 };
    assert_eq!(partition.end((3, 0), 0, ABORT, 0), 0);
    assert_eq!(partition.end((5, 1), 0, COMMIT, 2), 0);
    assert_eq!(aborted(&partition), [(1, 50), (3, 55), (4, 57)]);
    assert_eq!(partition.latest(1), partition.latest(0));
}

/// Goal: a partition moves with its transactions. Method: two that are ended and one that is open before the move (50–56), one that begins
/// before it and is aborted while the copy is made (57), one that begins meanwhile and stays open (59); kill -9 behind it, and at the very
/// end a move back.
#[test]
fn keep_their_outcome() {
    let dirs = Dirs::new(&["a", "b"]);
    let settings =
        [SLOW, "log.segment.bytes=1048576", "transaction.partition.verification.enable=false"];
    let settings = settings.map(str::to_owned).to_vec();
    let Some(mut broker) = Broker::start_own(Options { settings, ..dirs.options() }) else {
        return;
    };
    assert_eq!(create(&broker, "t", 1), "ok; topics 1");
    for _ in 0..BULK {
        produce_batch(&broker, 0, BULK_BYTES);
    }
    let partition = Partition { broker: &broker, topic: "t", index: 0 };
    assert_eq!(partition.data((1, 0, 0), 2), 50);
    assert_eq!(partition.data((2, 0, 0), 1), 52);
    assert_eq!(partition.end((1, 0), 0, ABORT, 0), 0);
    assert_eq!(partition.end((2, 0), 0, COMMIT, 0), 0);
    assert_eq!(partition.data((3, 0, 0), 2), 55);
    assert_eq!(partition.data((4, 0, 0), 1), 57);

    assert_eq!(move_to(&broker, dirs.path(1), &[0]), "ok; partitions 1");
    assert_eq!(partition.end((4, 0), 0, ABORT, 0), 0);
    assert_eq!(partition.data((5, 0, 0), 2), 59);
    let before = shown(&partition);
    assert_eq!((before.0.last_stable, before.0.high_watermark), (55, 61));
    assert_eq!(before.0.aborted, Some(vec![(1, 50)]));
    assert!(!copies(&broker).is_empty(), "the copy was made too quickly");
    await_places(&dirs, [&[], &["0"]]);
    eventually("the copy is the partition", || copies(&broker).is_empty());
    assert_eq!(shown(&partition), before, "after the move");
    broker.kill();
    broker.start_again();
    let partition = Partition { broker: &broker, topic: "t", index: 0 };
    assert_eq!(shown(&partition), before, "after a kill");
    conclude(&broker);
    let before = shown(&partition);
    assert_eq!(move_to(&broker, dirs.path(0), &[0]), "ok; partitions 1");
    await_places(&dirs, [&["0"], &[]]);
    assert_eq!(shown(&partition), before, "after the move back");
    assert!(broker.stop().success());
    broker.start_again();
    let partition = Partition { broker: &broker, topic: "t", index: 0 };
    assert_eq!(shown(&partition), before, "after a stop");
}
