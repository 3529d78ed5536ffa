//! Fetch, ListOffsets and OffsetForLeaderEpoch with odd offsets, epochs, sessions and sizes.

use kafka_protocol::messages::{ApiKey, FetchResponse};
use pelton_tests::answer::decode;
use pelton_tests::broker::{Broker, Options};
use pelton_tests::raw::{PATIENCE, Reply};
use pelton_tests::request::{Fetch, ListOffsets, Topic, offset_for_leader_epoch};
use pelton_tests::table::Table;
use pelton_tests::topic;
use pelton_tests::wire::{Body, request};

const GOOD: &str = "ok; high 5; stable 5; start 0; bytes 106; session none";
const EMPTY: &str = "ok; high 5; stable 5; start 0; bytes 0; session none";

/// A refused partition: all offsets are −1, and the records are empty, not null.
fn refused(error: &str) -> String {
    format!("{error}; high -1; stable -1; start -1; bytes 0; session none")
}

/// Offsets, epochs, topics, partitions.
#[test]
fn positions() {
    let broker = Broker::start();
    let topic = topic::create(&broker, "fetch");
    topic::seed(&broker, &topic, 0, 5);
    let mut table = Table::new(&broker);
    let base = || Fetch::of(topic.name.as_str());
    for version in 5..=12 {
        let bytes = Fetch { version, ..base() }.frame();
        table.row(&format!("version {version}"), &bytes, GOOD);
    }
    let without_start = "ok; high 5; stable 5; start -1; bytes 106; session none";
    table.row("version 4", &Fetch { version: 4, ..base() }.frame(), without_start);
    for version in 13..=18 {
        let bytes = Fetch { version, topic: Some(topic.id.into()), ..base() }.frame();
        table.row(&format!("version {version}"), &bytes, GOOD);
    }
    let offset = |offset| Fetch { offset, ..base() }.frame();
    for odd in [-1, -2, 6, i64::MAX, i64::MIN] {
        table.row(&format!("offset {odd}"), &offset(odd), &refused("OffsetOutOfRange"));
    }
    table.row("inside the batch", &offset(3), GOOD);
    table.row("at the end", &offset(5), EMPTY);
    let epoch = |current_leader_epoch| Fetch { current_leader_epoch, ..base() }.frame();
    table.row("epoch 0", &epoch(0), GOOD);
    table.row("epoch 9", &epoch(9), &refused("UnknownLeaderEpoch"));
    table.row("epoch -2", &epoch(-2), GOOD);
    let last = |last_fetched_epoch| {
        Fetch { version: 12, offset: 5, current_leader_epoch: 0, last_fetched_epoch, ..base() }
            .frame()
    };
    table.row("last fetched epoch 0", &last(0), EMPTY);
    table.row("last fetched epoch 9", &last(9), &refused("OffsetOutOfRange"));
    for odd in ["no-such-topic", "a/b", ""] {
        let expected = refused("UnknownTopicOrPartition");
        table.row(&format!("topic `{odd}`"), &Fetch::of(odd).frame(), &expected);
    }
    for partition in [99, -1] {
        let bytes = Fetch { partition, ..base() }.frame();
        table.row(&format!("partition {partition}"), &bytes, &refused("UnknownTopicOrPartition"));
    }
    for (name, id) in [("unknown", [7; 16]), ("zero", [0; 16])] {
        let bytes = Fetch { version: 13, topic: Some(id.into()), ..base() }.frame();
        table.row(&format!("{name} topic id"), &bytes, &refused("UnknownTopicId"));
    }
    table.finish();
}

/// Sessions, sizes, waits, isolation, replicas.
#[test]
fn limits() {
    let broker = Broker::start();
    let topic = topic::create(&broker, "fetch");
    topic::seed(&broker, &topic, 0, 5);
    let mut table = Table::new(&broker);
    let base = || Fetch::of(topic.name.as_str());
    let by_id = || Fetch { version: 13, topic: Some(topic.id.into()), ..base() };
    let session = |session_id, session_epoch| Fetch { session_id, session_epoch, ..base() };

    table.row("no session", &session(0, -1).frame(), GOOD);
    let given = "ok; high 5; stable 5; start 0; bytes 106; session given";
    table.row("a new session", &session(0, 0).frame(), given);
    let none = "FetchSessionIdNotFound; session none";
    table.row("an unknown session", &session(12345, 1).frame(), none);
    table.row("session 0 at epoch 1", &session(0, 1).frame(), none);
    table.row("the end of an unknown session", &session(12345, -1).frame(), GOOD);
    let unknown = Fetch { session_id: 12345, session_epoch: 1, ..by_id() };
    table.row("an unknown session, v13", &unknown.frame(), none);

    let failed = refused("UnknownServerError");
    table.row("max bytes 0", &Fetch { max_bytes: 0, ..base() }.frame(), GOOD);
    table.row("max bytes -1", &Fetch { max_bytes: -1, ..base() }.frame(), &failed);
    table.row("partition max 0", &Fetch { partition_max_bytes: 0, ..base() }.frame(), GOOD);
    table.row("partition max 1", &Fetch { partition_max_bytes: 1, ..base() }.frame(), GOOD);
    table.row("partition max -1", &Fetch { partition_max_bytes: -1, ..base() }.frame(), &failed);
    let patient = Fetch { min_bytes: 1_000_000, max_wait_ms: 300, ..base() };
    table.row("min bytes above what is there", &patient.frame(), GOOD);
    table.row("min bytes -1", &Fetch { min_bytes: -1, offset: 5, ..base() }.frame(), EMPTY);
    table.row("max wait -1", &Fetch { max_wait_ms: -1, offset: 5, ..base() }.frame(), EMPTY);
    table.row("no topics", &Fetch { topic: None, ..base() }.frame(), "ok; session none");
    let replica = Fetch { replica_id: 4711, ..base() };
    table.row("a replica that is none", &replica.frame(), &refused("NotLeaderOrFollower"));
    let replica = Fetch { partition: 99, ..replica };
    let unknown = refused("UnknownTopicOrPartition");
    table.row("a replica that is none, of no partition", &replica.frame(), &unknown);
    table.row("replica -2", &Fetch { replica_id: -2, ..base() }.frame(), GOOD);
    table.row("read committed", &Fetch { isolation_level: 1, ..base() }.frame(), GOOD);
    let isolation = "UnknownServerError UnknownServerError";
    table.row("isolation 5", &Fetch { isolation_level: 5, ..base() }.frame(), isolation);
    let cluster = Fetch { version: 12, cluster_id: Some("nope".to_owned()), ..base() };
    table.row("another cluster's id", &cluster.frame(), GOOD);
    table.row("forgotten null", &Fetch { forgotten_null: true, ..base() }.frame(), "closed");
    table.finish();
}

/// One session from its beginning to its end, and what must not disturb it; then one whose topic goes.
#[test]
fn sessions() {
    // Each row has a connection of its own, and Pelton keeps a session on the shard of the connection that began it.
    let broker = Broker::start_own(Options::default()).unwrap_or_else(Broker::start);
    let topic = topic::create(&broker, "session");
    topic::seed(&broker, &topic, 0, 5);
    let mut table = Table::new(&broker);
    for version in [11, 13] {
        let named = if version < 13 { topic.name.as_str().into() } else { Topic::from(topic.id) };
        let base = || Fetch { version, ..Fetch::of(named.clone()) };
        let id = open_session(&broker, &Fetch { session_epoch: 0, ..base() });
        let turn = |session_epoch| Fetch { session_id: id, session_epoch, ..base() };
        let quiet = |session_epoch| Fetch { topic: None, max_wait_ms: 50, ..turn(session_epoch) };
        let moved = Fetch { offset: 5, max_wait_ms: 50, ..turn(2) };
        let given = "ok; high 5; stable 5; start 0; bytes 106; session given";
        let nothing = "ok; session given";
        let wrong = "InvalidFetchSessionEpoch; session none";
        let mut row = |name: &str, fetch: &Fetch, expected: &str| {
            table.row(&format!("{name}, v{version}"), &fetch.frame(), expected);
        };
        row("the same again", &quiet(1), given);
        row("an epoch twice", &quiet(1), wrong);
        row("an epoch too far", &quiet(3), wrong);
        row("epoch -2", &quiet(-2), wrong);
        let other = if version < 13 { 13 } else { 11 };
        let other = Fetch { version: other, ..quiet(2) };
        row("topics named the other way", &other, "FetchSessionTopicIdError; session none");
        row("moved on", &moved, nothing);
        row("nothing new", &quiet(3), nothing);
        let behind = Fetch { offset: 9, ..turn(4) };
        let error = "OffsetOutOfRange; high -1; stable -1; start -1; bytes 0; session given";
        row("out of range", &behind, error);
        row("still out of range", &quiet(5), error);
        let back = Fetch { offset: 5, max_wait_ms: 50, ..turn(6) };
        let known = "ok; high 5; stable 5; start 0; bytes 0; session given";
        row("back in range", &back, known);
        let forget = |epoch, partition| Fetch { forgets: true, partition, ..turn(epoch) };
        row("a stranger forgotten", &Fetch { max_wait_ms: 50, ..forget(7, 3) }, nothing);
        let missing = Fetch { partition: 9, max_wait_ms: 50, ..turn(8) };
        let unknown =
            "UnknownTopicOrPartition; high -1; stable -1; start -1; bytes 0; session given";
        row("a partition that is none", &missing, unknown);
        row("forgotten", &Fetch { max_wait_ms: 50, ..forget(9, 9) }, nothing);
        row("all forgotten", &forget(10, 0), "ok; session none");
        row("over", &quiet(11), "FetchSessionIdNotFound; session none");
        let id = open_session(&broker, &Fetch { session_epoch: 0, ..base() });
        let end = Fetch { session_id: id, session_epoch: -1, ..base() };
        row("ended", &end, GOOD);
        let after = Fetch { session_id: id, ..quiet(1) };
        row("after its end", &after, "FetchSessionIdNotFound; session none");
    }
    table.finish();
}

/// Goal: a session hears of partitions of every shard, and of nothing else. Method: eight partitions on two shards, read to their ends in one
/// session; then records come to one after the other, while the session waits, and just before it asks.
#[test]
fn session_across_shards() {
    let broker = Broker::start();
    let topic = topic::create_with(&broker, "session", 8, &[]);
    let mut connection = broker.connect();
    let base = || Fetch { max_wait_ms: 0, ..Fetch::of(topic.name.as_str()) };
    let Reply::Frame(answer) = connection.ask(&Fetch { session_epoch: 0, ..base() }.frame()) else {
        panic!("no answer");
    };
    let session_id = i32::from_be_bytes(answer[10..14].try_into().expect("four bytes"));
    let mut epoch = 0;
    let mut next = |fetch: Fetch| {
        epoch += 1;
        Fetch { session_id, session_epoch: epoch, ..fetch }.frame()
    };
    let returned = |answer: &[u8]| {
        let answer: FetchResponse = decode(ApiKey::Fetch, 11, answer).expect("it decodes");
        assert_eq!(answer.error_code, 0);
        let partitions = answer.responses.iter().flat_map(|topic| topic.partitions.clone());
        let partitions = partitions.map(|partition| {
            (partition.partition_index, !partition.records.unwrap_or_default().is_empty())
        });
        partitions.collect::<Vec<_>>()
    };
    for partition in 1..8 {
        let Reply::Frame(answer) = connection.ask(&next(Fetch { partition, ..base() })) else {
            panic!("no answer");
        };
        assert_eq!(returned(&answer), [(partition, false)], "new, and empty");
    }
    for partition in (0..8).rev() {
        let wait = Fetch { topic: None, max_wait_ms: 10_000, ..base() };
        if partition % 2 == 0 {
            assert!(connection.send(&next(wait)));
            topic::seed(&broker, &topic, partition, 1);
        } else {
            topic::seed(&broker, &topic, partition, 1);
            assert!(connection.send(&next(wait)));
        }
        let Reply::Frame(answer) = connection.receive(PATIENCE) else {
            panic!("partition {partition} is not heard of");
        };
        assert_eq!(returned(&answer), [(partition, true)]);
        let moved = Fetch { partition, offset: 1, ..base() };
        let Reply::Frame(answer) = connection.ask(&next(moved)) else {
            panic!("no answer");
        };
        assert_eq!(returned(&answer), []);
    }
}

/// Opens a session with a full request; gives its id.
fn open_session(broker: &Broker, fetch: &Fetch) -> i32 {
    let Reply::Frame(answer) = broker.connect().ask(&fetch.frame()) else {
        panic!("no answer to {fetch:?}");
    };
    // Correlation id, tags in flexible versions, throttle time, error code.
    let at = if fetch.version < 12 { 10 } else { 11 };
    let id = answer[at..at + 4].try_into().map(i32::from_be_bytes).expect("four bytes");
    assert!(0 < id, "no session: {answer:?}");
    id
}

/// ListOffsets: special timestamps and the versions that know them, odd epochs, replicas, isolation.
#[test]
fn list_offsets() {
    let broker = Broker::start();
    let topic = topic::create(&broker, "offsets");
    topic::seed(&broker, &topic, 0, 5);
    let name = topic.name.as_str();
    let mut table = Table::new(&broker);
    let unsupported = "UnsupportedVersion; time -1; offset -1; epoch -1";
    for (version, timestamp, expected) in [
        (1, -1, "ok; time -1; offset 5; epoch -1"),
        (2, -1, "ok; time -1; offset 5; epoch -1"),
        (3, -1, "ok; time -1; offset 5; epoch -1"),
        (4, -1, "ok; time -1; offset 5; epoch 0"),
        (5, -1, "ok; time -1; offset 5; epoch 0"),
        (5, -2, "ok; time -1; offset 0; epoch 0"),
        (6, -3, unsupported),
        (7, -3, "ok; time now; offset 0; epoch 0"),
        (7, -4, unsupported),
        (8, -4, "ok; time -1; offset 0; epoch 0"),
        (8, -5, unsupported),
        (9, -5, "ok; time -1; offset -1; epoch -1"),
        (10, -6, unsupported),
        (11, -6, "ok; time -1; offset -1; epoch -1"),
        (11, -7, unsupported),
        (5, -100, unsupported),
        (5, 0, "ok; time now; offset 0; epoch 0"),
        (5, i64::MAX, "ok; time -1; offset -1; epoch -1"),
        (5, i64::MIN, unsupported),
    ] {
        let bytes = ListOffsets::at(name, version, timestamp).frame();
        table.row(&format!("v{version} timestamp {timestamp}"), &bytes, expected);
    }
    let latest = || ListOffsets::at(name, 5, -1);
    let end = "ok; time -1; offset 5; epoch 0";
    let none = |error: &str| format!("{error}; time -1; offset -1; epoch -1");
    let epoch = |current_leader_epoch| ListOffsets { current_leader_epoch, ..latest() }.frame();
    table.row("epoch 0", &epoch(0), end);
    table.row("epoch 9", &epoch(9), &none("UnknownLeaderEpoch"));
    table.row("epoch -2", &epoch(-2), &none("FencedLeaderEpoch"));
    let twice = ListOffsets { partitions: vec![0, 0], ..latest() };
    table.row("a partition twice", &twice.frame(), &none("InvalidRequest"));
    let unknown = none("UnknownTopicOrPartition");
    table.row("unknown topic", &ListOffsets::at("no-such-topic", 5, -1).frame(), &unknown);
    let both = ListOffsets::at("no-such-topic", 5, -100).frame();
    table.row("unknown topic, unknown timestamp", &both, unsupported);
    let partition = ListOffsets { partitions: vec![99], ..latest() };
    table.row("unknown partition", &partition.frame(), &unknown);
    table.row("a replica", &ListOffsets { replica_id: 4711, ..latest() }.frame(), end_as_replica());
    table.row("replica -2", &ListOffsets { replica_id: -2, ..latest() }.frame(), end);
    let isolation = ListOffsets { isolation_level: 5, ..latest() };
    table.row("isolation 5", &isolation.frame(), &none("UnknownServerError"));
    table.row("read committed", &ListOffsets { isolation_level: 1, ..latest() }.frame(), end);
    table.finish();
}

/// A replica is told the log end without an epoch.
fn end_as_replica() -> &'static str {
    "ok; time -1; offset 5; epoch 0"
}

/// OffsetForLeaderEpoch: known, newer and negative epochs.
#[test]
fn epochs() {
    let broker = Broker::start();
    let topic = topic::create(&broker, "epochs");
    topic::seed(&broker, &topic, 0, 5);
    let name = topic.name.as_str();
    let mut table = Table::new(&broker);
    for version in 2..=4 {
        let bytes = offset_for_leader_epoch(version, name, -1, 0);
        table.row(&format!("v{version} epoch 0"), &bytes, "ok; epoch 0; end 5");
    }
    let none = "ok; epoch -1; end -1";
    table.row("epoch 9", &offset_for_leader_epoch(3, name, -1, 9), none);
    table.row("epoch -1", &offset_for_leader_epoch(3, name, -1, -1), none);
    let before = "ok; epoch -2; end 0";
    table.row("epoch -2", &offset_for_leader_epoch(3, name, -1, -2), before);
    let newer = "UnknownLeaderEpoch; epoch -1; end -1";
    let older = "FencedLeaderEpoch";
    table.row("current epoch -2", &offset_for_leader_epoch(3, name, -2, 0), older);
    table.row("current epoch 9", &offset_for_leader_epoch(3, name, 9, 0), newer);
    let unknown = "UnknownTopicOrPartition; epoch -1; end -1";
    table.row("unknown topic", &offset_for_leader_epoch(3, "no-such-topic", -1, 0), unknown);
    let partition = Body::new(false).i32(-1).count(1).string(name).count(1).i32(99).i32(-1).i32(0);
    table.row("unknown partition", &request(23, 3, false, &partition.into_bytes()), unknown);
    table.finish();
}
