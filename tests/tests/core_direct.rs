//! Core-direct listeners: every core is a node of its own to clients, who then ask the owner of a partition without a way through
//! another core.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use kafka_protocol::messages::{
    ApiKey, DescribeClusterResponse, DescribeLogDirsResponse, MetadataResponse,
};
use pelton_tests::batch::Batch;
use pelton_tests::broker::{Broker, Options};
use pelton_tests::librdkafka::{consumer, finish, producer, read};
use pelton_tests::peer::{Peer, run_ok};
use pelton_tests::raw::{Raw, Reply};
use pelton_tests::request::{
    Fetch, Produce, Resource, describe_cluster, describe_configs, describe_log_dirs,
    incremental_alter_configs, metadata_of,
};
use pelton_tests::topic::{self, TestTopic};
use pelton_tests::{answer, broker};
use rdkafka::producer::BaseRecord;
use rdkafka::topic_partition_list::Offset;

const PARTITIONS: i32 = 8;
/// Ids of the cores of node 1.
const CORES: [i32; 2] = [(1 << 30) + 1024, (1 << 30) + 1025];

fn start() -> Option<(Broker, TestTopic)> {
    let settings = vec!["core.direct.listeners=PLAINTEXT".to_owned()];
    let broker = Broker::start_own(Options { shards: 2, settings, ..Options::default() })?;
    let topic = topic::create_with(&broker, "direct", PARTITIONS, &[]);
    Some((broker, topic))
}

fn asked(connection: &mut Raw, frame: &[u8]) -> Vec<u8> {
    match connection.ask(frame) {
        Reply::Frame(frame) => frame,
        other => panic!("no answer: {other:?}"),
    }
}

/// Where each core listens, and which core leads each partition, as Metadata tells.
fn cores(broker: &Broker, topic: &TestTopic) -> (BTreeMap<i32, SocketAddr>, Vec<i32>) {
    let frame = asked(&mut broker.connect(), &metadata_of(9, &topic.name));
    let told: MetadataResponse = answer::decode(ApiKey::Metadata, 9, &frame).expect("Metadata");
    let mut nodes = BTreeMap::new();
    for node in &told.brokers {
        let port = u16::try_from(node.port).expect("a port");
        let address = SocketAddr::new(broker.address().ip(), port);
        assert!(nodes.insert(node.node_id.0, address).is_none(), "two cores with one id");
    }
    assert!(nodes.contains_key(&told.controller_id.0), "tools look for the controller here");
    let mut leaders = vec![0; usize::try_from(PARTITIONS).expect("few")];
    for partition in &told.topics[0].partitions {
        let leader = partition.leader_id;
        assert_eq!(partition.replica_nodes, [leader]);
        assert_eq!(partition.isr_nodes, [leader]);
        assert!(partition.offline_replicas.is_empty());
        leaders[usize::try_from(partition.partition_index).expect("few")] = leader.0;
    }
    (nodes, leaders)
}

/// Goal: clients are shown a node for each core, on a port that only that core serves, and every partition's core as its leader.
/// Method: Metadata and DescribeCluster; each core tells of the logs that it owns.
#[test]
fn every_core_is_a_node() {
    let Some((broker, topic)) = start() else { return };
    let (nodes, leaders) = cores(&broker, &topic);
    assert_eq!(nodes.keys().copied().collect::<Vec<_>>(), CORES);
    assert_eq!(nodes[&CORES[0]], broker.address());
    assert_ne!(nodes[&CORES[0]], nodes[&CORES[1]]);

    let frame = asked(&mut broker.connect(), &describe_cluster(1, 1));
    let cluster: DescribeClusterResponse =
        answer::decode(ApiKey::DescribeCluster, 1, &frame).expect("DescribeCluster");
    let shown: Vec<i32> = cluster.brokers.iter().map(|node| node.broker_id.0).collect();
    assert_eq!(shown, CORES);
    assert!(CORES.contains(&cluster.controller_id.0));

    for (core, address) in &nodes {
        let frame = asked(&mut Raw::connect(*address), &describe_log_dirs(3, None));
        let dirs: DescribeLogDirsResponse =
            answer::decode(ApiKey::DescribeLogDirs, 3, &frame).expect("DescribeLogDirs");
        let mut held: Vec<usize> = Vec::new();
        for dir_topic in &dirs.results[0].topics {
            let partitions = dir_topic.partitions.iter().map(|it| it.partition_index);
            held.extend(partitions.map(|index| usize::try_from(index).expect("few")));
        }
        held.sort_unstable();
        let led: Vec<usize> = (0..leaders.len()).filter(|&it| leaders[it] == *core).collect();
        assert_eq!(held, led, "core {core}");
        assert!(!led.is_empty(), "eight partitions and two cores");
    }
}

/// Goal: who asks the wrong core is served. Method: Produce and Fetch for every partition at every core.
#[test]
fn misrouted_requests_are_served() {
    let Some((broker, topic)) = start() else { return };
    let (nodes, _) = cores(&broker, &topic);
    for address in nodes.values() {
        let mut connection = Raw::connect(*address);
        for partition in 0..PARTITIONS {
            let partitions = vec![(partition, Some(Batch::of(1).build()))];
            let produce = Produce { partitions, ..Produce::to(topic.name.as_str(), Vec::new()) };
            let summary =
                answer::summary(ApiKey::Produce, 7, &asked(&mut connection, &produce.frame()));
            assert!(summary.starts_with("ok"), "{summary}");
            let fetch = Fetch { partition, ..Fetch::of(topic.name.as_str()) };
            let summary =
                answer::summary(ApiKey::Fetch, 11, &asked(&mut connection, &fetch.frame()));
            assert!(summary.starts_with("ok"), "{summary}");
        }
    }
}

/// Goal: tools that take a core for a broker work. Method: describe and change a broker's setting under a core's id, by names that
/// other listeners would refuse.
#[test]
fn settings_by_a_cores_id() {
    let Some((broker, _)) = start() else { return };
    let name = CORES[1].to_string();
    let mut connection = broker.connect();
    let frame = asked(&mut connection, &describe_configs(1, 4, &name, Some(&["node.id"])));
    let summary = answer::summary(ApiKey::DescribeConfigs, 1, &frame);
    assert!(summary.starts_with("ok"), "{summary}");
    let changes = vec![(0, "log.retention.ms", Some("100000"))];
    let change = Resource { kind: 4, name: &name, changes };
    let frame = asked(&mut connection, &incremental_alter_configs(1, &[change], false));
    let summary = answer::summary(ApiKey::IncrementalAlterConfigs, 1, &frame);
    assert!(summary.starts_with("ok"), "{summary}");
    let other = Resource { kind: 4, name: "1073742900", changes: vec![] };
    let frame = asked(&mut connection, &incremental_alter_configs(1, &[other], false));
    let summary = answer::summary(ApiKey::IncrementalAlterConfigs, 1, &frame);
    assert!(!summary.starts_with("ok"), "no such core: {summary}");
}

/// Goal: librdkafka finds its way. Method: records to every partition and back.
#[test]
fn librdkafka() {
    let Some((broker, topic)) = start() else { return };
    let sending = producer(&broker.bootstrap(), &[("acks", "all"), ("linger.ms", "1")]);
    let count = 400;
    for id in 0..count {
        let partition = i32::try_from(id).expect("few") % PARTITIONS;
        let payload = id.to_string();
        let record = BaseRecord::with_opaque_to(topic.name.as_str(), Box::new(id));
        let record = record.key("k").payload(payload.as_bytes()).partition(partition);
        sending.send(record).map_err(|(error, _)| error).expect("the queue has room");
    }
    let deliveries = finish(&sending);
    assert_eq!(deliveries.len(), count);
    assert!(deliveries.iter().all(|it| it.error.is_none()), "{deliveries:?}");
    let reading = consumer(&broker.bootstrap(), &[]);
    for partition in 0..PARTITIONS {
        let expected = count / usize::try_from(PARTITIONS).expect("few");
        let seen = read(&reading, &topic.name, partition, Offset::Beginning, expected);
        assert_eq!(seen.len(), expected);
    }
}

/// Goal: kcat sees the cores and works through them. Method: its list, then records there and back.
#[test]
fn kcat() {
    let Some((broker, topic)) = start() else { return };
    let kcat = |arguments: &[&str]| {
        let mut command = Peer::Kcat.command()?;
        command.args(["-b", &broker.bootstrap(), "-q"]).args(arguments);
        Some(command)
    };
    let wait = Duration::from_secs(60);
    let Some(list) = kcat(&["-L", "-J", "-t", &topic.name]) else { return };
    let text = run_ok(list, b"", wait);
    let told: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let mut ids: Vec<i64> = told["brokers"]
        .as_array()
        .expect("brokers")
        .iter()
        .filter_map(|node| node["id"].as_i64())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, CORES.map(i64::from), "{text}");
    let unique = broker::unique("value");
    for partition in 0..PARTITIONS {
        let partition = partition.to_string();
        let send = kcat(&["-P", "-t", &topic.name, "-p", &partition]).expect("it was there");
        run_ok(send, format!("{unique}\n").as_bytes(), wait);
        let read = kcat(&["-C", "-t", &topic.name, "-p", &partition, "-o", "beginning", "-e"]);
        assert_eq!(run_ok(read.expect("it was there"), b"", wait).trim(), unique);
    }
}
