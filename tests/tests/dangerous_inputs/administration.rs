//! Pages of topics, elections, reassignments, the quorum, producers, forgotten brokers and ACLs with odd arguments.
//!
//! Goal: each item of a request is judged alone and gets Kafka's code. Method: tables, most of which mix good and bad items; the same hold
//! for a one-node Apache Kafka.

use pelton_tests::admin::{
    alter_partition_reassignments, create_acls, delete_acls, describe_acls, describe_producers,
    describe_quorum, describe_topic_partitions, elect_leaders, list_partition_reassignments,
    unregister_broker,
};
use pelton_tests::batch::Batch;
use pelton_tests::broker::Broker;
use pelton_tests::request::{Produce, init_producer_id};
use pelton_tests::table::Table;
use pelton_tests::topic;

use crate::topics::node_id;

/// DescribeTopicPartitions: full pages, cursors within, behind and beside what is asked for, and names that are none.
#[test]
fn pages_of_topics() {
    let broker = Broker::start();
    let (a, b) = (
        topic::create_with(&broker, "page-a", 3, &[]),
        topic::create_with(&broker, "page-b", 2, &[]),
    );
    let both = [a.name.as_str(), b.name.as_str()];
    let mut table = Table::new(&broker);
    for (label, topics, limit, cursor, expected) in [
        ("both", &both[..], 2000, None, "ok; topics 2; partitions 5"),
        ("one, twice", &[both[0], both[0]], 2000, None, "ok; topics 1; partitions 3"),
        ("no more than one", &both, 1, None, "ok; topics 1; partitions 1; next here 1"),
        ("none is one", &both, 0, None, "ok; topics 1; partitions 1; next here 1"),
        ("less than none is one", &both, -1, None, "ok; topics 1; partitions 1; next here 1"),
        ("just the first", &both, 3, None, "ok; topics 1; partitions 3; next behind 0"),
        ("four", &both, 4, None, "ok; topics 2; partitions 4; next here 1"),
        ("five", &both, 5, None, "ok; topics 2; partitions 5"),
        ("from the second", &both, 2000, Some((both[0], 1)), "ok; topics 2; partitions 4"),
        ("from the other", &both, 2000, Some((both[1], 0)), "ok; topics 1; partitions 2"),
        ("from beyond", &both, 2000, Some((both[0], 9)), "ok; topics 2; partitions 2"),
        ("from far beyond", &both, 2000, Some((both[0], 1 << 30)), "ok; topics 2; partitions 2"),
        (
            "from before",
            &both[..1],
            2000,
            Some((both[0], -1)),
            "InvalidRequest; topics 1; partitions 0",
        ),
        (
            "from elsewhere",
            &both[..1],
            2000,
            Some((both[1], 0)),
            "InvalidRequest; topics 1; partitions 0",
        ),
        (
            "unknown",
            &["no-such-topic"],
            2000,
            None,
            "UnknownTopicOrPartition; topics 1; partitions 0",
        ),
        ("slash", &["a/b"], 2000, None, "InvalidTopicException; topics 1; partitions 0"),
        (
            "known and unknown",
            &[both[0], "zz"],
            2000,
            None,
            "UnknownTopicOrPartition; topics 2; partitions 3",
        ),
    ] {
        table.row(label, &describe_topic_partitions(topics, limit, cursor), expected);
    }
    // Kafka takes the whole request for broken.
    let empty = describe_topic_partitions(&[both[0], ""], 2000, None);
    let kafka = "UnknownServerError UnknownServerError; topics 2; partitions 0";
    let ours = "InvalidTopicException; topics 2; partitions 3";
    table.row_better("known and empty", &empty, ours, kafka);
    if !broker.is_kafka() {
        let all = describe_topic_partitions(&[], 2000, None);
        table.row("all", &all, "ok; topics 2; partitions 5");
        let rest = describe_topic_partitions(&[], 2000, Some((both[0], 2)));
        table.row("all from the last of the first", &rest, "ok; topics 2; partitions 3");
        let page = describe_topic_partitions(&[], 3, None);
        table.row("all, three at a time", &page, "ok; topics 1; partitions 3; next behind 0");
        let gone = describe_topic_partitions(&[], 2000, Some((&format!("{}~", both[0]), 0)));
        table.row("from a topic that is gone", &gone, "ok; topics 1; partitions 2");
    }
    table.finish();
}

/// ElectLeaders: every version, both elections, known and unknown partitions, and all.
#[test]
fn elections() {
    let broker = Broker::start();
    let topic = topic::create_with(&broker, "elect", 2, &[]);
    let name = topic.name.as_str();
    let mut table = Table::new(&broker);
    let mixed = [(name, vec![0, 9]), ("no-such-topic", vec![0])];
    let expected =
        "ElectionNotNeeded UnknownTopicOrPartition UnknownTopicOrPartition; partitions 3";
    for version in 0..=2 {
        let bytes = elect_leaders(version, 0, Some(&mixed));
        table.row(&format!("v{version}: mixed"), &bytes, expected);
        let all = elect_leaders(version, 0, None);
        table.row(&format!("v{version}: all"), &all, "ok; partitions 0");
        let none = elect_leaders(version, 0, Some(&[]));
        table.row(&format!("v{version}: none"), &none, "ok; partitions 0");
    }
    let known = [(name, vec![1])];
    table.row("unclean", &elect_leaders(2, 1, Some(&known)), "ElectionNotNeeded; partitions 1");
    table.row("unclean, all", &elect_leaders(2, 1, None), "ok; partitions 0");
    for election in [2, -1, i8::MAX] {
        let bytes = elect_leaders(2, election, Some(&known));
        let expected = "InvalidRequest InvalidRequest; partitions 1";
        table.row(&format!("election {election}"), &bytes, expected);
        let all = elect_leaders(2, election, None);
        table.row(&format!("election {election} of all"), &all, "InvalidRequest; partitions 0");
        let none = elect_leaders(2, election, Some(&[]));
        table.row(&format!("election {election} of none"), &none, "ok; partitions 0");
    }
    table.finish();
}

/// Alter- and ListPartitionReassignments: to where it is, to nobody, to strangers, and calling off what is not under way.
#[test]
fn reassignments() {
    let broker = Broker::start();
    let topic = topic::create_with(&broker, "reassign", 2, &[]);
    let name = topic.name.as_str();
    let node = node_id(&broker);
    let mut table = Table::new(&broker);
    let to = |replicas: Option<&[i32]>| {
        let target = (0, replicas.map(<[i32]>::to_vec));
        alter_partition_reassignments(1, true, &[(name, vec![target])])
    };
    let odd = "InvalidReplicaAssignment; partitions 1";
    for (label, replicas, expected) in [
        ("where it is", Some(&[node][..]), "ok; partitions 1"),
        ("nobody", Some(&[]), odd),
        ("a stranger", Some(&[4711]), odd),
        ("twice", Some(&[node, node]), odd),
        ("a stranger too", Some(&[node, 4711]), odd),
        ("less than nobody", Some(&[-1]), odd),
        ("call off", None, "NoReassignmentInProgress; partitions 1"),
    ] {
        table.row(label, &to(replicas), expected);
    }
    let fine = || (0, Some(vec![node]));
    let mixed = [
        (name, vec![fine(), (9, Some(vec![node])), (1, None)]),
        ("no-such-topic", vec![fine(), (0, None)]),
    ];
    for version in 0..=1 {
        let bytes = alter_partition_reassignments(version, true, &mixed);
        let expected = "UnknownTopicOrPartition NoReassignmentInProgress UnknownTopicOrPartition \
                        UnknownTopicOrPartition; partitions 5";
        table.row(&format!("v{version}: mixed"), &bytes, expected);
    }
    let none = alter_partition_reassignments(1, true, &[]);
    table.row("none", &none, "ok; partitions 0");
    let same_factor = alter_partition_reassignments(1, false, &[(name, vec![fine()])]);
    table.row("the same factor", &same_factor, "ok; partitions 1");
    for (label, topics) in [
        ("list all", None),
        ("list none", Some(vec![])),
        ("list some", Some(vec![(name, vec![0, 9]), ("no-such-topic", vec![0])])),
    ] {
        let bytes = list_partition_reassignments(topics.as_deref());
        table.row(label, &bytes, "ok; topics 0");
    }
    table.finish();
}

/// DescribeQuorum: the one partition that has a quorum, and everything else.
#[test]
fn quorum() {
    let broker = Broker::start();
    let mut table = Table::new(&broker);
    const LOG: &str = "__cluster_metadata";
    let unknown = "UnknownTopicOrPartition; voters 0; nodes 0";
    for version in 0..=2 {
        let nodes = if version < 2 { 0 } else { 1 };
        let expected = format!("ok; voters 1; nodes {nodes}");
        table.row(&format!("v{version}"), &describe_quorum(version, &[(LOG, vec![0])]), &expected);
        let other = describe_quorum(version, &[(LOG, vec![1])]);
        table.row(&format!("v{version}: another partition"), &other, unknown);
        let other = describe_quorum(version, &[("t", vec![0])]);
        table.row(&format!("v{version}: another topic"), &other, unknown);
    }
    let both = "UnknownTopicOrPartition UnknownTopicOrPartition; voters 0; nodes 0";
    table.row("twice", &describe_quorum(2, &[(LOG, vec![0, 0])]), both);
    table.row("with another", &describe_quorum(2, &[(LOG, vec![0]), ("t", vec![0])]), both);
    table.row("nothing", &describe_quorum(2, &[]), "ok; voters 0; nodes 0");
    table.finish();
}

/// DescribeProducers: partitions with and without producers, twice, and such as are not there.
#[test]
fn producers() {
    let broker = Broker::start();
    let topic = topic::create_with(&broker, "producers", 2, &[]);
    let name = topic.name.as_str();
    let mut table = Table::new(&broker);
    // It is not known to the broker, which takes it all the same.
    for id in [4_000_000_000, 4_000_000_001] {
        let batch = Batch::of(2).by(id, 0, 0).build();
        table.row("a producer's batch", &Produce::to(name, batch).frame(), "ok");
    }
    for (label, topics, expected) in [
        ("both", vec![(name, vec![0, 1])], "ok; producers 2 0"),
        ("twice", vec![(name, vec![0, 0])], "ok; producers 2 2"),
        (
            "not there",
            vec![(name, vec![2, 0, -1])],
            "UnknownTopicOrPartition UnknownTopicOrPartition; producers 0 2 0",
        ),
        ("unknown", vec![("no-such-topic", vec![0])], "UnknownTopicOrPartition; producers 0"),
        ("slash", vec![("a/b", vec![0])], "InvalidTopicException; producers 0"),
        ("no partition", vec![(name, vec![])], "ok; producers "),
        ("nothing", vec![], "ok; producers "),
    ] {
        table.row(label, &describe_producers(&topics), expected);
    }
    table.row("ids are given", &init_producer_id(4, None, 1000, (-1, -1)), "ok");
    table.finish();
}

/// UnregisterBroker of who is not there; ACLs where there is no authorizer.
#[test]
fn strangers_and_acls() {
    let broker = Broker::start();
    let mut table = Table::new(&broker);
    for id in [4711, -1, i32::MAX] {
        table.row(&format!("broker {id}"), &unregister_broker(id), "BrokerIdNotRegistered");
    }
    // Kafka forgets itself and serves nobody any more.
    let itself = unregister_broker(node_id(&broker));
    table.row_ours("itself", &itself, "InvalidRequest");
    let off = "SecurityDisabled";
    for version in 1..=3 {
        let label = |what| format!("v{version}: {what}");
        table.row(&label("describe"), &describe_acls(version), "SecurityDisabled; resources 0");
        table.row(&label("create one"), &create_acls(version, 1), off);
        table.row(
            &label("create two"),
            &create_acls(version, 2),
            "SecurityDisabled SecurityDisabled",
        );
        table.row(&label("create none"), &create_acls(version, 0), "ok");
        table.row(&label("delete one"), &delete_acls(version, 1), off);
        table.row(
            &label("delete two"),
            &delete_acls(version, 2),
            "SecurityDisabled SecurityDisabled",
        );
        table.row(&label("delete none"), &delete_acls(version, 0), "ok");
    }
    table.finish();
}
