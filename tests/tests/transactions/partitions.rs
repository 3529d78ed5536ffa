//! Transactions as their partitions see them: without a coordinator, by raw requests. Batches are not verified here
//! (`transaction.partition.verification.enable=false`), and markers come as a coordinator would send them.

use kafka_protocol::messages::ApiKey;
use pelton_tests::broker::{Broker, Options};
use pelton_tests::raw::PATIENCE;
use pelton_tests::request::Fetch;
use pelton_tests::topic;
use pelton_tests::transactional::{ABORT, COMMIT, Partition, TRANSACTIONAL, fetched, frame};

pub(crate) fn broker(shards: usize) -> Option<Broker> {
    let settings = vec!["transaction.partition.verification.enable=false".to_owned()];
    Broker::start_own(Options { shards, settings, ..Options::default() })
}

/// What two readers see of the story in [`committed_and_aborted`].
fn check_story(partition: &Partition<'_>) {
    let aborted = vec![(1, 0), (3, 5)];
    let committed = partition.fetch(0, 1);
    assert_eq!((committed.high_watermark, committed.last_stable), (12, 10));
    assert_eq!(committed.aborted, Some(aborted.clone()));
    let all = [
        (0, false),
        (2, false),
        (4, true),
        (5, false),
        (6, true),
        (7, false),
        (8, true),
        (9, false),
        (10, false),
        (11, false),
    ];
    assert_eq!(committed.batches, all[..8]);
    let uncommitted = partition.fetch(0, 0);
    assert_eq!((&uncommitted.aborted, &uncommitted.batches[..]), (&None, &all[..]));
    // Only what overlaps what is returned.
    assert_eq!(partition.fetch(5, 1).aborted, Some(vec![(3, 5)]));
    assert_eq!(partition.fetch(4, 1).aborted, Some(aborted));
    assert_eq!(partition.fetch(9, 1).aborted, Some(Vec::new()));
    let beyond = partition.fetch(10, 1);
    assert_eq!((beyond.aborted, beyond.batches), (Some(Vec::new()), Vec::new()));
    assert_eq!((partition.latest(1), partition.latest(0)), (10, 12));
}

/// Goal: readers of committed records get what lies below the last stable offset, and the aborted transactions that overlap it, before
/// and after kill -9 and a clean stop; what is open then stays open, and ends by a marker. Method: transactions of several producers that
/// abort (0–1, marker 4; 5, marker 8), commit (2–3, marker 6), records outside (7, 9) and one that stays open (10–11).
#[test]
fn committed_and_aborted() {
    for shards in [1, 2] {
        let Some(mut broker) = broker(shards) else { return };
        let topic = topic::create_with(&broker, "txn", 3, &[]);
        for index in 0..3 {
            let partition = Partition { broker: &broker, topic: &topic.name, index };
            partition.data((1, 0, 0), 2);
            partition.data((2, 0, 0), 2);
            assert_eq!(partition.end((1, 0), 0, ABORT, 0), 0);
            partition.data((3, 0, 0), 1);
            assert_eq!(partition.end((2, 0), 0, COMMIT, 0), 0);
            assert_eq!(partition.write((4, 0, 0), 1, 0), (0, 7));
            assert_eq!(partition.end((3, 1), 0, ABORT, 2), 0);
            assert_eq!(partition.write((4, 0, 1), 1, 0), (0, 9));
            assert_eq!(partition.data((1, 0, 2), 1), 10);
            assert_eq!(partition.data((1, 0, 3), 1), 11);
            check_story(&partition);
        }
        for is_clean in [false, true, false] {
            if is_clean {
                assert!(broker.stop().success());
            } else {
                broker.kill();
            }
            broker.start_again();
            for index in 0..3 {
                let partition = Partition { broker: &broker, topic: &topic.name, index };
                check_story(&partition);
                let producers = partition.producers();
                let known =
                    [(1, 0, 3, 0, 10), (2, 0, 1, 0, -1), (3, 1, -1, 0, -1), (4, 0, 1, -1, -1)];
                assert_eq!(producers, known);
            }
        }
        let partition = Partition { broker: &broker, topic: &topic.name, index: 1 };
        assert_eq!(partition.end((1, 0), 0, COMMIT, 0), 0);
        let committed = partition.fetch(10, 1);
        assert_eq!((committed.high_watermark, committed.last_stable), (13, 13));
        assert_eq!(committed.batches, [(10, false), (11, false), (12, true)]);
        assert_eq!(committed.aborted, Some(Vec::new()));
    }
}

/// Goal: a fetch that waits for committed records is answered when the marker comes, though it asks for more bytes than a marker has.
/// Method: an open transaction, a fetch with a long wait, then the marker.
#[test]
fn a_marker_wakes() {
    let Some(broker) = broker(2) else { return };
    let topic = topic::create_with(&broker, "woken", 1, &[]);
    let partition = Partition { broker: &broker, topic: &topic.name, index: 0 };
    partition.data((1, 0, 0), 9);
    let fetch = Fetch {
        isolation_level: 1,
        max_wait_ms: 60_000,
        min_bytes: 150,
        ..Fetch::of(topic.name.as_str())
    };
    let mut waiting = broker.connect();
    assert!(waiting.send(&fetch.frame()));
    // The fetch may come before the marker or after it: both must be answered.
    assert_eq!(partition.end((1, 0), 0, COMMIT, 0), 0);
    let committed = fetched(&frame(waiting.receive(PATIENCE), ApiKey::Fetch));
    assert_eq!(committed.batches, [(0, false), (9, true)]);
}

/// Goal: Kafka's codes for batches and markers that do not fit. Method: a story, one row a step.
#[test]
fn refusals() {
    let Some(broker) = broker(2) else { return };
    let topic = topic::create_with(&broker, "refused", 1, &[]);
    let partition = Partition { broker: &broker, topic: &topic.name, index: 0 };
    let (invalid_epoch, invalid_state, fenced, out_of_order) = (47, 48, 52, 45);
    partition.data((1, 4, 0), 1);
    assert_eq!(partition.write((1, 4, 1), 1, 0).0, invalid_state, "outside, while it is open");
    assert_eq!(partition.write((1, 3, 1), 1, TRANSACTIONAL).0, invalid_epoch, "an old epoch");
    assert_eq!(partition.write((1, 4, 2), 1, TRANSACTIONAL).0, out_of_order, "a gap");
    assert_eq!(partition.end((1, 3), 7, ABORT, 0), invalid_epoch, "an old epoch's marker");
    assert_eq!(partition.end((1, 4), 7, ABORT, 2), invalid_epoch, "not above the records'");
    assert_eq!(partition.end((1, 5), 7, COMMIT, 2), 0);
    assert_eq!(partition.end((1, 5), 7, COMMIT, 2), 0, "again");
    assert_eq!(partition.end((1, 5), 6, COMMIT, 0), fenced, "an old coordinator");
    assert_eq!(partition.write((1, 4, 1), 1, TRANSACTIONAL).0, invalid_epoch, "a late batch");
    assert_eq!(partition.write((1, 5, 1), 1, TRANSACTIONAL).0, out_of_order, "begins at 0");
    assert_eq!(partition.write((1, 5, 0), 1, TRANSACTIONAL).0, 0);
    let elsewhere = Partition { index: 9, ..partition };
    assert_eq!(elsewhere.end((1, 5), 7, COMMIT, 0), 3, "no partition");
}

/// Goal: Kafka's codes for markers that no coordinator writes. Method: a table, as a real Kafka answered it; nothing of it ends the
/// transaction that is open.
#[test]
fn impossible_markers() {
    let Some(broker) = broker(2) else { return };
    let topic = topic::create_with(&broker, "impossible", 1, &[]);
    let partition = Partition { broker: &broker, topic: &topic.name, index: 0 };
    partition.data((9, 0, 0), 1);
    let (unknown, invalid_epoch, fenced) = (-1, 47, 52);
    let cases = [
        ("no producer id", (-1, 0), 0, 0, unknown),
        ("no producer id in version 2", (-1, 0), 0, 2, unknown),
        ("no epoch", (1, -1), 0, 0, unknown),
        ("no epoch of a known producer", (9, -1), 0, 0, unknown),
        ("nothing at all", (-1, -1), -1, 0, unknown),
        ("an id that nobody has", (-2, 0), 0, 0, 0),
        ("the least id", (i64::MIN, 0), 0, 2, 0),
        ("an id and an epoch that nobody has", (-2, -2), -2, 0, 0),
        ("an id that nobody has, no epoch", (-2, -1), 0, 0, unknown),
        ("a negative epoch", (1, -2), 0, 0, invalid_epoch),
        ("the least epoch", (1, i16::MIN), 0, 2, invalid_epoch),
        ("a negative coordinator epoch", (1, 0), -2, 0, fenced),
        ("the same, of a known producer", (9, 0), -2, 0, fenced),
        ("the least coordinator epoch", (1, 0), i32::MIN, 2, fenced),
    ];
    for (name, producer, coordinator_epoch, txn_version, code) in cases {
        let told = partition.end(producer, coordinator_epoch, COMMIT, txn_version);
        assert_eq!(told, code, "{name}");
    }
    assert_eq!((partition.latest(1), partition.latest(0)), (0, 1));
    assert_eq!(partition.end((1, 0), -1, COMMIT, 0), 0, "an operator's marker");
    assert_eq!(partition.end((9, 0), 0, COMMIT, 0), 0);
    assert_eq!((partition.latest(1), partition.latest(0)), (3, 3));
}
