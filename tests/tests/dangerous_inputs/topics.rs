//! Metadata, CreateTopics, DeleteTopics, CreatePartitions, InitProducerId, DescribeCluster with odd arguments.

use pelton_tests::broker::{Broker, unique};
use pelton_tests::request::{
    MetadataTopic, NewTopic, create_partitions, create_topics, delete_topics, describe_cluster,
    init_producer_id, metadata, metadata_of,
};
use pelton_tests::table::Table;
use pelton_tests::topic;

fn by_name(name: &str) -> MetadataTopic {
    MetadataTopic { id: [0; 16], name: Some(name.to_owned()) }
}

fn by_id(id: [u8; 16]) -> MetadataTopic {
    MetadataTopic { id, name: None }
}

/// Metadata: null is all and empty is none, bad names, ids.
#[test]
fn metadata_requests() {
    let broker = Broker::start();
    let topic = topic::create(&broker, "metadata");
    let name = topic.name.as_str();
    let mut table = Table::new(&broker);
    for version in 0..=13 {
        let bytes = metadata_of(version, name);
        table.row(&format!("v{version} by name"), &bytes, "ok; topics 1");
    }
    for version in [1, 9, 12, 13] {
        let none = metadata(version, Some(&[]), false);
        table.row(&format!("v{version}: an empty list is none"), &none, "ok; topics 0");
    }
    if !broker.is_kafka() {
        // Exactly one topic exists in a broker of our own.
        table.row("v0: an empty list is all", &metadata(0, Some(&[]), false), "ok; topics 1");
        table.row("v1: null is all", &metadata(1, None, false), "ok; topics 1");
        table.row("v12: null is all", &metadata(12, None, false), "ok; topics 1");
    }
    let long = "x".repeat(250);
    for (label, odd, expected) in [
        ("unknown", "no-such-topic", "UnknownTopicOrPartition; topics 1"),
        ("slash", "a/b", "InvalidTopicException; topics 1"),
        ("empty", "", "InvalidTopicException; topics 1"),
        ("dot", ".", "InvalidTopicException; topics 1"),
        ("250 letters", &long, "InvalidTopicException; topics 1"),
    ] {
        table.row(label, &metadata_of(4, odd), expected);
    }
    // A bad name is not created either, whatever the request allows.
    let create = metadata(4, Some(&[by_name("a/b")]), true);
    table.row("slash with auto-creation", &create, "InvalidTopicException; topics 1");
    let twice = metadata(4, Some(&[by_name(name), by_name(name)]), false);
    table.row("twice", &twice, "ok; topics 1");
    let mixed = metadata(4, Some(&[by_name("no-such-topic"), by_name(name)]), false);
    table.row("unknown and known", &mixed, "UnknownTopicOrPartition; topics 2");
    table.row("known id", &metadata(12, Some(&[by_id(topic.id)]), false), "ok; topics 1");
    let unknown = metadata(12, Some(&[by_id([7; 16])]), false);
    table.row("unknown id", &unknown, "UnknownTopicId; topics 1");
    let zero = metadata(12, Some(&[by_id([0; 16])]), false);
    table.row("zero id without name", &zero, "UnknownServerError");
    let early = metadata(10, Some(&[by_id([7; 16])]), false);
    table.row("id before version 12", &early, "InvalidRequest");
    table.finish();
}

/// CreateTopics: names, counts, factors, assignments, settings; each topic is judged alone.
#[test]
fn create() {
    let broker = Broker::start();
    let exists = topic::create(&broker, "exists");
    let mut table = Table::new(&broker);
    let node = node_id(&broker);
    for (label, topic, expected) in bad_names(&exists.name).into_iter().chain(bad_shapes(node)) {
        table.row(label, &create_topics(4, &[topic], true), expected);
    }
    let name = unique("fresh");
    let fresh = || NewTopic::named(&name);
    table.row("none", &create_topics(4, &[], false), "ok; topics 0");
    let twice = create_topics(4, &[fresh(), fresh()], true);
    table.row("the same name twice", &twice, "InvalidRequest; topics 1");
    let mixed =
        [NewTopic::named("a/b"), fresh(), NewTopic { partitions: 0, ..NewTopic::named("zero") }];
    for version in 2..=7 {
        let bytes = create_topics(version, &mixed, true);
        let expected = "InvalidTopicException InvalidPartitions; topics 3";
        table.row_sorted(&format!("v{version}: one good of three"), &bytes, expected);
    }
    table.row("validate only left nothing", &metadata_of(4, &name), "UnknownTopicOrPartition");
    let dotted = [NewTopic::named(&format!("{name}.x"))];
    table.row("a dot", &create_topics(7, &dotted, false), "ok");
    let clash = [NewTopic::named(&format!("{name}_x"))];
    table.row("an underscore in its place", &create_topics(7, &clash, false), BAD_NAME);
    table.finish();
}

const BAD_NAME: &str = "InvalidTopicException";

type Case = (&'static str, NewTopic, &'static str);

fn bad_names(exists: &str) -> Vec<Case> {
    let name = unique("fresh");
    let fresh = || NewTopic::named(&name);
    let long = "x".repeat(250);
    vec![
        ("good", fresh(), "ok; topics 1"),
        ("exists", NewTopic::named(exists), "TopicAlreadyExists"),
        ("dot", NewTopic::named("."), BAD_NAME),
        ("two dots", NewTopic::named(".."), BAD_NAME),
        ("empty name", NewTopic::named(""), BAD_NAME),
        ("slash", NewTopic::named("a/b"), BAD_NAME),
        ("space", NewTopic::named("a b"), BAD_NAME),
        ("250 letters", NewTopic::named(&long), BAD_NAME),
        ("metadata's own name", NewTopic::named("__cluster_metadata"), "InvalidRequest"),
    ]
}

fn bad_shapes(node: i32) -> Vec<Case> {
    let name = unique("fresh");
    let fresh = || NewTopic::named(&name);
    let config = |key: &str, value: Option<&str>| NewTopic {
        configs: vec![(key.to_owned(), value.map(str::to_owned))],
        ..fresh()
    };
    let assigned = |assignments: Vec<(i32, Vec<i32>)>| NewTopic {
        partitions: -1,
        replication_factor: -1,
        assignments,
        ..fresh()
    };
    vec![
        ("no partitions", NewTopic { partitions: 0, ..fresh() }, "InvalidPartitions"),
        ("-2 partitions", NewTopic { partitions: -2, ..fresh() }, "InvalidPartitions"),
        ("10 million", NewTopic { partitions: 10_000_000, ..fresh() }, "PolicyViolation"),
        ("factor 0", NewTopic { replication_factor: 0, ..fresh() }, "InvalidReplicationFactor"),
        ("factor -2", NewTopic { replication_factor: -2, ..fresh() }, "InvalidReplicationFactor"),
        ("factor 2", NewTopic { replication_factor: 2, ..fresh() }, "InvalidReplicationFactor"),
        ("defaults", NewTopic { partitions: -1, replication_factor: -1, ..fresh() }, "ok"),
        ("unknown setting", config("no.such.setting", Some("1")), "InvalidConfig"),
        ("bad value", config("retention.ms", Some("soon")), "InvalidConfig"),
        ("value out of range", config("segment.bytes", Some("1")), "InvalidConfig"),
        ("bad policy", config("cleanup.policy", Some("shred")), "InvalidConfig"),
        ("null value", config("retention.ms", None), "InvalidConfig"),
        ("good value", config("retention.ms", Some("60000")), "ok"),
        ("assigned", assigned(vec![(0, vec![node]), (1, vec![node])]), "ok"),
        ("assigned from 1", assigned(vec![(1, vec![node])]), "InvalidReplicaAssignment"),
        (
            "assigned twice",
            assigned(vec![(0, vec![node]), (0, vec![node])]),
            "InvalidReplicaAssignment",
        ),
        ("no replicas", assigned(vec![(0, Vec::new())]), "InvalidReplicaAssignment"),
        ("a replica twice", assigned(vec![(0, vec![node, node])]), "InvalidReplicaAssignment"),
        ("an unknown node", assigned(vec![(0, vec![4711])]), "InvalidReplicaAssignment"),
        (
            "count and assignment",
            NewTopic { assignments: vec![(0, vec![node])], ..fresh() },
            "InvalidRequest",
        ),
    ]
}

/// DeleteTopics: unknown, twice, by name and id at once.
#[test]
fn delete() {
    let broker = Broker::start();
    let mut table = Table::new(&broker);
    let unknown = by_name("no-such-topic");
    let both = MetadataTopic { id: [7; 16], name: Some("no-such-topic".to_owned()) };
    let neither = MetadataTopic { id: [0; 16], name: None };
    table.row("none", &delete_topics(4, &[]), "ok; topics 0");
    for version in 1..=6 {
        let bytes = delete_topics(version, std::slice::from_ref(&unknown));
        table.row(&format!("v{version} unknown"), &bytes, "UnknownTopicOrPartition; topics 1");
    }
    let twice = delete_topics(4, &[unknown.clone(), unknown.clone()]);
    table.row("unknown, twice", &twice, "InvalidRequest; topics 1");
    table.row("unknown id", &delete_topics(6, &[by_id([7; 16])]), "UnknownTopicId; topics 1");
    table.row("name and id", &delete_topics(6, &[both]), "InvalidRequest");
    table.row("neither", &delete_topics(6, &[neither]), "InvalidRequest");
    let metadata_log = delete_topics(4, &[by_name("__cluster_metadata")]);
    table.row("the metadata log", &metadata_log, "UnknownTopicOrPartition");
    let doomed = topic::create(&broker, "doomed");
    let mixed = delete_topics(4, &[unknown, by_name(&doomed.name)]);
    table.row_sorted("unknown and known", &mixed, "UnknownTopicOrPartition; topics 2");
    let gone = "UnknownTopicOrPartition";
    wait_for(&mut table, &metadata_of(4, &doomed.name), gone, &broker);
    let by_old_id = metadata(12, Some(&[by_id(doomed.id)]), false);
    table.row("its id is gone too", &by_old_id, "UnknownTopicId");
    let reborn = [NewTopic::named(&doomed.name)];
    table.row("the name is free again", &create_topics(7, &reborn, false), "ok");
    let by_old_id = delete_topics(6, &[by_id(doomed.id)]);
    table.row("the old id deletes nothing", &by_old_id, "UnknownTopicId");
    table.finish();
}

/// CreatePartitions: fewer, the same, too many, and assignments that do not fit.
#[test]
fn more_partitions() {
    let broker = Broker::start();
    let topic = topic::create_with(&broker, "partitions", 2, &[]);
    let name = topic.name.as_str();
    let node = node_id(&broker);
    let mut table = Table::new(&broker);
    let ask = |count, assignments| create_partitions(3, &[(name, count, assignments)], true);
    for (label, bytes, expected) in [
        ("one", ask(1, None), "InvalidPartitions; topics 1"),
        ("the same", ask(2, None), "InvalidPartitions; topics 1"),
        ("none", ask(0, None), "InvalidPartitions; topics 1"),
        ("-1", ask(-1, None), "InvalidPartitions; topics 1"),
        ("three", ask(3, None), "ok; topics 1"),
        ("three, assigned", ask(3, Some(vec![vec![node]])), "ok; topics 1"),
        (
            "too many assigned",
            ask(3, Some(vec![vec![node], vec![node]])),
            "InvalidReplicaAssignment",
        ),
        ("none assigned", ask(3, Some(Vec::new())), "InvalidReplicaAssignment"),
        ("an unknown node", ask(3, Some(vec![vec![4711]])), "InvalidReplicaAssignment"),
        ("a node twice", ask(3, Some(vec![vec![node, node]])), "InvalidReplicaAssignment"),
    ] {
        table.row(label, &bytes, expected);
    }
    let unknown = ("no-such-topic", 3, None);
    let alone = create_partitions(3, std::slice::from_ref(&unknown), true);
    table.row("unknown topic", &alone, "UnknownTopicOrPartition; topics 1");
    let twice = create_partitions(3, &[(name, 3, None), (name, 4, None)], true);
    table.row("the same topic twice", &twice, "InvalidRequest; topics 1");
    for version in 0..=3 {
        let bytes = create_partitions(version, &[unknown.clone(), (name, 3, None)], true);
        let expected = "UnknownTopicOrPartition; topics 2";
        table.row_sorted(&format!("v{version}: unknown and known"), &bytes, expected);
    }
    table.row("for good", &create_partitions(3, &[(name, 3, None)], false), "ok; topics 1");
    table.finish();
}

/// InitProducerId without a transaction, and what is wrong whatever the transaction; DescribeCluster's endpoint types.
#[test]
fn the_rest() {
    let broker = Broker::start();
    let mut table = Table::new(&broker);
    if broker.is_kafka() {
        // The first request makes it fetch a block of producer ids.
        broker.connect().ask(&init_producer_id(0, None, 1000, (-1, -1)));
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    for version in 0..=5 {
        let bytes = init_producer_id(version, None, 1000, (-1, -1));
        table.row(&format!("v{version}"), &bytes, "ok; id given; epoch 0");
    }
    let none = "InvalidRequest; id -1; epoch -1";
    table.row("empty id", &init_producer_id(4, Some(""), 1000, (-1, -1)), none);
    table.row("epoch without id", &init_producer_id(4, None, 1000, (-1, 3)), none);
    table.row("id without epoch", &init_producer_id(4, None, 1000, (42, -1)), none);
    for version in 0..=2 {
        let bytes = describe_cluster(version, 1);
        table.row(&format!("DescribeCluster v{version}"), &bytes, "ok; brokers 1");
    }
    table.row("controllers", &describe_cluster(1, 2), "MismatchedEndpointType");
    table.row("endpoint type 9", &describe_cluster(1, 9), "UnsupportedEndpointType");
    table.finish();
}

/// Asks until the answer is as expected: Apache Kafka tells its brokers of a deletion a moment after the client.
fn wait_for(table: &mut Table<'_>, frame: &[u8], expected: &str, broker: &Broker) {
    if broker.is_kafka() {
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    table.row("what was deleted is gone", frame, expected);
}

/// The node id that Metadata gives.
pub(crate) fn node_id(broker: &Broker) -> i32 {
    use kafka_protocol::messages::{ApiKey, MetadataResponse};
    let reply = broker.connect().ask(&metadata(1, Some(&[]), false));
    let pelton_tests::raw::Reply::Frame(frame) = reply else { panic!("Metadata: {reply:?}") };
    let answer: MetadataResponse =
        pelton_tests::answer::decode(ApiKey::Metadata, 1, &frame).expect("Metadata decodes");
    answer.brokers[0].node_id.0
}
