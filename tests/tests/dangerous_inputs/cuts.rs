//! Requests about records, topics, settings and administration, cut short at every byte: closed, always.

use pelton_tests::admin::{
    alter_partition_reassignments, alter_replica_log_dirs, create_acls, delete_acls, describe_acls,
    describe_producers, describe_quorum, describe_topic_partitions, elect_leaders,
    list_partition_reassignments, unregister_broker,
};
use pelton_tests::batch::Batch;
use pelton_tests::broker::Broker;
use pelton_tests::raw::{PATIENCE, Reply};
use pelton_tests::request::{
    Fetch, ListOffsets, MetadataTopic, NewTopic, Produce, Resource, alter_configs, api_versions,
    create_partitions, create_topics, delete_records, delete_topics, describe_cluster,
    describe_configs, describe_log_dirs, incremental_alter_configs, init_producer_id, metadata_of,
    offset_for_leader_epoch,
};

/// Goal: a decoder never reads past what it was given, nor takes half a request for a whole one. Method: every prefix of a
/// valid request, in a frame that is honest about the prefix's length; nothing of it may be carried out.
#[test]
fn every_prefix_of_every_request() {
    let broker = Broker::start();
    let mut bystander = broker.connect();
    let mut failures = Vec::new();
    for (name, bytes) in requests() {
        for end in 4..bytes.len() - 4 {
            let mut cut = (end as i32).to_be_bytes().to_vec();
            cut.extend_from_slice(&bytes[4..4 + end]);
            let mut connection = broker.connect();
            connection.send(&cut);
            let reply = connection.receive(PATIENCE);
            if reply != Reply::Closed {
                failures.push(format!("{name} cut to {end} bytes: {reply:?}"));
            }
        }
        assert!(bystander.is_alive(), "{name}");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The lowest and the highest version of each of these APIs, and the first flexible one where that is another layout.
fn requests() -> Vec<(String, Vec<u8>)> {
    // No such topic exists, so that a request which is carried out by mistake does no harm.
    let name = "no-such-topic";
    let named = MetadataTopic { name: Some(name.to_owned()), id: [0; 16] };
    let produce = |version| {
        let request = Produce { version, ..Produce::to(name, Batch::of(1).build()) };
        if version >= 13 { Produce { topic: [7; 16].into(), ..request } } else { request }.frame()
    };
    let fetch = |version| {
        let request = Fetch { version, ..Fetch::of(name) };
        if version >= 13 { Fetch { topic: Some([7; 16].into()), ..request } } else { request }
            .frame()
    };
    let topic = NewTopic {
        replication_factor: 99,
        configs: vec![("retention.ms".to_owned(), Some("1".to_owned()))],
        ..NewTopic::named(name)
    };
    let mut all = Vec::new();
    let mut add = |api: &str, versions: &[i16], make: &dyn Fn(i16) -> Vec<u8>| {
        all.extend(versions.iter().map(|version| (format!("{api} v{version}"), make(*version))));
    };
    add("ApiVersions", &[3, 4], &|version| api_versions(version, "x", "1"));
    add("Metadata", &[1, 9, 13], &|version| metadata_of(version, name));
    add("Produce", &[3, 8, 9, 13], &produce);
    add("Fetch", &[4, 11, 12, 18], &fetch);
    add("ListOffsets", &[1, 5, 6, 11], &|version| ListOffsets::at(name, version, -1).frame());
    add("CreateTopics", &[2, 5, 7], &|version| {
        create_topics(version, std::slice::from_ref(&topic), true)
    });
    add("DeleteTopics", &[1, 4, 6], &|version| {
        delete_topics(version, std::slice::from_ref(&named))
    });
    add("DeleteRecords", &[0, 2], &|version| delete_records(version, name, &[(0, -1)]));
    add("CreatePartitions", &[0, 2, 3], &|version| {
        create_partitions(version, &[(name, 9, Some(vec![vec![1]]))], true)
    });
    add("InitProducerId", &[0, 2, 5], &|version| init_producer_id(version, None, 1000, (-1, -1)));
    add("OffsetForLeaderEpoch", &[2, 3, 4], &|version| {
        offset_for_leader_epoch(version, name, -1, 0)
    });
    add("DescribeLogDirs", &[1, 2, 4], &|version| {
        describe_log_dirs(version, Some(&[(name, vec![0, 1])]))
    });
    let set = [Resource { kind: 2, name, changes: vec![(0, "retention.ms", Some("1"))] }];
    add("DescribeConfigs", &[1, 3, 4], &|version| {
        describe_configs(version, 2, name, Some(&["retention.ms"]))
    });
    add("AlterConfigs", &[0, 2], &|version| alter_configs(version, &set, true));
    add("IncrementalAlterConfigs", &[0, 1], &|version| {
        incremental_alter_configs(version, &set, true)
    });
    add("DescribeCluster", &[0, 2], &|version| describe_cluster(version, 1));
    all.extend(administration(name));
    all
}

fn administration(name: &str) -> Vec<(String, Vec<u8>)> {
    let some = [(name, vec![0, 1])];
    let targets = [(name, vec![(0, Some(vec![4711])), (1, None)])];
    let mut all = vec![
        (
            "DescribeTopicPartitions".to_owned(),
            describe_topic_partitions(&[name], 9, Some((name, 1))),
        ),
        ("ListPartitionReassignments".to_owned(), list_partition_reassignments(Some(&some))),
        ("DescribeProducers".to_owned(), describe_producers(&some)),
        ("UnregisterBroker".to_owned(), unregister_broker(4711)),
    ];
    for version in [0, 1, 2] {
        let label = |api: &str| format!("{api} v{version}");
        all.push((label("ElectLeaders"), elect_leaders(version, 0, Some(&some))));
        all.push((label("DescribeQuorum"), describe_quorum(version, &some)));
    }
    for version in [1, 2] {
        let label = format!("AlterReplicaLogDirs v{version}");
        all.push((label, alter_replica_log_dirs(version, &[("/nowhere", &some)])));
    }
    for version in [0, 1] {
        let label = format!("AlterPartitionReassignments v{version}");
        all.push((label, alter_partition_reassignments(version, true, &targets)));
    }
    for version in [1, 2, 3] {
        let label = |api: &str| format!("{api} v{version}");
        all.push((label("DescribeAcls"), describe_acls(version)));
        all.push((label("CreateAcls"), create_acls(version, 2)));
        all.push((label("DeleteAcls"), delete_acls(version, 2)));
    }
    all
}
