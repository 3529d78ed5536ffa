//! The metadata log across the crates: a log that Apache Kafka 4.3.1 wrote becomes our image, and a start of ours on it
//! writes what can be read back.
//!
//! The log is that of a one-node cluster which created, grew and deleted topics, was stopped, started, killed and
//! started again; it had eligible leader replicas.

use std::collections::BTreeMap;

use bytes::Bytes;
use pelton_machine::controller::{BrokerStart, Started, start, supported_features};
use pelton_machine::image::{MetadataImage, PartitionImage};
use pelton_model::batch::Batches;
use pelton_model::{LeaderEpoch, NodeId, Offset, PartitionEpoch, PartitionId, Timestamp, TopicId};
use pelton_protocol::metadata_record::{LogRecord, batch_of, records_of};

const LOG: &[u8] =
    include_bytes!("../../core/protocol/tests/golden/cluster_metadata.kafka-4.3.1.bin");
const NODE: NodeId = NodeId(1);
const DIRECTORY: &str = "yd8JCgM2SbudV810Jq6rmw";

fn replay(image: &mut MetadataImage, batch: &Bytes) {
    for entry in records_of(batch).unwrap() {
        match entry.record {
            LogRecord::Metadata(record) => {
                image.replay(entry.offset, entry.epoch, &record).unwrap();
            }
            LogRecord::Control(_) => image.advance(entry.offset, entry.epoch),
        }
    }
}

fn kafkas() -> MetadataImage {
    let bytes = Bytes::from_static(LOG);
    let mut image = MetadataImage::new();
    for batch in Batches::new(&bytes) {
        replay(&mut image, &bytes.slice_ref(batch.unwrap().1));
    }
    image
}

fn orders(image: &MetadataImage) -> PartitionImage {
    let topic = image.topic_by_name("orders").unwrap();
    topic.partition(PartitionId(0)).unwrap().clone()
}

fn node(directory: TopicId) -> BrokerStart {
    BrokerStart {
        broker_id: NODE,
        incarnation_id: TopicId([9; 16]),
        end_points: Vec::new(),
        features: supported_features(),
        rack: None,
        log_dirs: vec![directory],
        cordoned_log_dirs: Vec::new(),
        found: BTreeMap::new(),
    }
}

// Goal: Kafka's log means to us what it means to Kafka. Method: the image against what Kafka's tools showed.
#[test]
fn image_of_kafkas_log() {
    let image = kafkas();
    let names: Vec<&str> = image.topics().map(|topic| topic.name()).collect();
    assert_eq!(names, ["a.b", "orders"]);
    let topic = image.topic_by_name("orders").unwrap();
    assert_eq!(topic.id().to_string(), "Nzj4Vht-RRyn-W4JDPSsTA");
    assert_eq!(topic.partition_count(), 3);
    let configs = image.topic_configs("orders").unwrap();
    assert_eq!(configs.get("cleanup.policy").unwrap(), "compact");
    let features: Vec<(&str, i16)> = image.features().collect();
    let expected = [
        ("eligible.leader.replicas.version", 1),
        ("group.version", 1),
        ("metadata.version", 30),
        ("share.version", 1),
        ("streams.version", 1),
        ("transaction.version", 2),
    ];
    assert_eq!(features, expected);
    let broker = image.broker(NODE).unwrap();
    assert_eq!((broker.broker_epoch, broker.fenced), (85, false));
    assert_eq!(broker.end_points[0].port, 29092);
    // Created, stopped, started, killed, started; and once the eligible replica was forgotten.
    let state = orders(&image);
    assert_eq!((state.leader_epoch, state.partition_epoch), (LeaderEpoch(4), PartitionEpoch(5)));
    assert_eq!((state.leader(), state.recovering), (Some(NODE), true));
    assert!(!image.in_transaction());
}

// Goal: we can take the log over. Method: a start of ours, through bytes, with the directory there and gone.
#[test]
fn start_on_kafkas_log() {
    fn check(directory: TopicId, leader: Option<NodeId>) -> MetadataImage {
        let mut image = kafkas();
        let decision = start(&image, &node(directory)).unwrap();
        let next = image.next_offset();
        let expected = Started { broker_epoch: next.0, first: false };
        assert_eq!(decision.results, expected);
        let batch = batch_of(&decision.records, next, LeaderEpoch(4), Timestamp(1));
        let last = next.plus(i64::try_from(decision.records.len()).unwrap() - 1);
        replay(&mut image, &batch);
        assert_eq!((image.applied(), image.applied_epoch()), (last, LeaderEpoch(4)));
        let state = orders(&image);
        assert_eq!((state.leader(), state.leader_epoch), (leader, LeaderEpoch(5)));
        image
    }
    let there: TopicId = DIRECTORY.parse().unwrap();
    let image = check(there, Some(NODE));
    assert!(!orders(&image).recovering);
    check(TopicId([5; 16]), None);
}

// Goal: a snapshot of the image restores it. Method: its records as a batch, read into an empty image.
#[test]
fn snapshot_of_kafkas_state() {
    let image = kafkas();
    let batch = batch_of(&image.to_records(), Offset(0), LeaderEpoch(3), Timestamp(1));
    let mut restored = MetadataImage::new();
    replay(&mut restored, &batch);
    assert!(restored.same_state(&image));
}
