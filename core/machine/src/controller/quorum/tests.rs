//! Tests of the quorum of one, and of the bootstrap of a formatted directory.

use std::collections::BTreeMap;

use pelton_model::record_type::control::{ControlRecord, KRaftVersionRecord};
use pelton_model::record_type::metadata::{FeatureLevelRecord, MetadataRecord};
use pelton_model::{LeaderEpoch, NodeId, TopicId};

use super::super::tests::apply;
use super::super::{BrokerStart, start, start_with, supported_features};
use super::{QuorumImage, QuorumStart, StartError, next_epoch, quorum_records};
use crate::image::MetadataImage;

const DIRECTORY: TopicId = TopicId([100; 16]);
const NODE: NodeId = NodeId(1);

fn node() -> BrokerStart {
    BrokerStart {
        broker_id: NODE,
        incarnation_id: TopicId([7; 16]),
        end_points: Vec::new(),
        features: supported_features(),
        rack: None,
        log_dirs: vec![DIRECTORY],
        cordoned_log_dirs: Vec::new(),
        found: BTreeMap::new(),
    }
}

fn started() -> MetadataImage {
    let mut image = MetadataImage::new();
    let decision = start(&image, &node()).unwrap();
    apply(&mut image, &decision.records);
    image
}

// Goal: each start leads a new epoch and says so; the first names the voters. Method: epochs of log and file, records.
#[test]
fn quorum_of_one() {
    fn check(quorum_state: Option<i32>, expected: i32) {
        let epoch = next_epoch(&started(), quorum_state.map(LeaderEpoch));
        assert_eq!(epoch, LeaderEpoch(expected));
    }
    check(None, 2);
    check(Some(1), 2);
    check(Some(7), 8);
    assert_eq!(next_epoch(&MetadataImage::new(), None), LeaderEpoch(1));
    let node = QuorumStart {
        node_id: NODE,
        directory_id: DIRECTORY,
        endpoints: Vec::new(),
    };
    let types = |quorum: &QuorumImage| -> Vec<i16> {
        let records = quorum_records(quorum, &node);
        records.iter().map(ControlRecord::key_type).collect()
    };
    // A static quorum never names its voters.
    assert_eq!(types(&QuorumImage::default()), [2]);
    assert!(QuorumImage::default().snapshot_records().is_empty());
    // A dynamic one does once, and after that in its snapshots.
    let mut quorum = QuorumImage::formatted(&node);
    assert_eq!(types(&quorum), [2, 5, 6]);
    for record in quorum_records(&quorum, &node) {
        quorum.replay(&record);
    }
    assert_eq!(types(&quorum), [2]);
    let mut restored = QuorumImage::default();
    for record in quorum.snapshot_records() {
        restored.replay(&record);
    }
    assert_eq!(restored, quorum);
    restored.is_only_formatted();
    assert_eq!(types(&restored), [2, 5, 6]);
    // The directory is another one: say so.
    let moved = QuorumStart {
        directory_id: TopicId([77; 16]),
        ..node
    };
    assert_eq!(quorum_records(&quorum, &moved).len(), 3);
    // A quorum of others, or of a later Kafka, is left alone.
    assert_eq!(quorum.check(NODE), Ok(()));
    let others = StartError::OtherVoters(vec![NODE]);
    assert_eq!(quorum.check(NodeId(NODE.0 + 1)), Err(others));
    quorum.replay(&ControlRecord::KRaftVersion(KRaftVersionRecord {
        version: 0,
        kraft_version: 2,
    }));
    assert_eq!(quorum.check(NODE), Err(StartError::KRaftVersion(2)));
}

// Goal: a directory that Kafka formatted starts with what Kafka put into its bootstrap. Method: records of several kinds and levels.
#[test]
fn bootstrap_of_a_formatted_directory() {
    fn check(level: i16, expected: &[&str]) {
        let feature = |name: &str, feature_level| FeatureLevelRecord {
            name: name.to_owned(),
            feature_level,
        };
        let records = [
            feature("metadata.version", level).into(),
            feature("group.version", 1).into(),
        ];
        let decision = start_with(&MetadataImage::new(), &node(), &records).unwrap();
        let names: Vec<&str> = decision.records.iter().map(MetadataRecord::name).collect();
        assert_eq!(names[..expected.len()], *expected);
        let mut image = MetadataImage::new();
        apply(&mut image, &decision.records);
        let features: Vec<(&str, i16)> = image.features().collect();
        assert_eq!(
            features,
            [("group.version", 1), ("metadata.version", level)]
        );
    }
    let (begin, level, end) = (
        "BeginTransactionRecord",
        "FeatureLevelRecord",
        "EndTransactionRecord",
    );
    check(30, &[begin, level, level, end, "RegisterBrokerRecord"]);
    check(7, &[level, level, "RegisterBrokerRecord"]);
    let refused = start_with(&MetadataImage::new(), &node(), &[]);
    assert_eq!(refused, Err(StartError::MetadataVersion(0)));
}
