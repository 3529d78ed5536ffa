//! Tests of placement, of failed directories, and of starts with several directories.

use std::collections::BTreeMap;

use pelton_model::{ErrorCode, NodeId, PartitionId, TopicId, TopicPartition};

use super::tests::{LOST, apply};
use super::{
    BrokerStart, CreatableTopic, CreateTopicsOptions, cordon, create_topics, fail_directory, start,
    supported_features,
};
use crate::image::MetadataImage;
use pelton_model::record_type::metadata::PartitionChangeRecord;

const NODE: NodeId = NodeId(1);
const A: TopicId = TopicId([100; 16]);
const B: TopicId = TopicId([101; 16]);
const C: TopicId = TopicId([102; 16]);

fn node(log_dirs: &[TopicId], cordoned: &[TopicId]) -> BrokerStart {
    BrokerStart {
        broker_id: NODE,
        incarnation_id: TopicId([7; 16]),
        end_points: Vec::new(),
        features: supported_features(),
        rack: None,
        log_dirs: log_dirs.to_vec(),
        cordoned_log_dirs: cordoned.to_vec(),
        found: BTreeMap::new(),
    }
}

fn started(node: &BrokerStart) -> MetadataImage {
    let mut image = MetadataImage::new();
    let decision = start(&image, node).unwrap();
    apply(&mut image, &decision.records);
    image
}

/// Creates a topic; the error when it is refused.
fn create(image: &mut MetadataImage, name: &str, partitions: i32) -> Result<TopicId, ErrorCode> {
    let mut next = u128::try_from(image.topic_count()).unwrap() + 1000;
    let topic = CreatableTopic {
        num_partitions: partitions,
        ..CreatableTopic::with_defaults(name)
    };
    let decision = create_topics(
        image,
        &[topic],
        &mut CreateTopicsOptions {
            default_num_partitions: 1,
            default_replication_factor: 1,
            validate_configs: &|_| Ok(()),
            validate_only: false,
            draw_topic_id: &mut || {
                next += 1;
                TopicId(next.to_be_bytes())
            },
        },
    );
    apply(image, &decision.records);
    match &decision.results[0].result {
        Ok(created) => Ok(created.topic_id),
        Err(refusal) => Err(refusal.error),
    }
}

fn directories(image: &MetadataImage, topic: TopicId) -> Vec<TopicId> {
    let partitions = image.topic(topic).unwrap().partitions();
    let directory =
        |(_, state): (PartitionId, &crate::image::PartitionImage)| state.directory(NODE).unwrap();
    partitions.map(directory).collect()
}

fn leaders(image: &MetadataImage, topic: TopicId) -> Vec<bool> {
    let partitions = image.topic(topic).unwrap().partitions();
    partitions
        .map(|(_, state)| state.leader() == Some(NODE))
        .collect()
}

// Goal: each new partition goes where the fewest are, the first of equals, never to a cordoned directory. Method: create topics one
// after the other under several sets of directories, and look at every partition's.
#[test]
fn placement_by_fewest() {
    fn check(log_dirs: &[TopicId], cordoned: &[TopicId], topics: &[(i32, &[TopicId])]) {
        let mut image = started(&node(log_dirs, cordoned));
        for (index, (count, expected)) in topics.iter().enumerate() {
            let id = create(&mut image, &format!("t{index}"), *count).unwrap();
            assert_eq!(directories(&image, id), *expected, "topic {index}");
        }
    }
    check(&[A], &[], &[(3, &[A, A, A])]);
    check(&[A, B], &[], &[(1, &[A]), (1, &[B]), (3, &[A, B, A])]);
    check(&[A, B, C], &[], &[(4, &[A, B, C, A]), (2, &[B, C])]);
    check(&[A, B, C], &[B], &[(3, &[A, C, A]), (1, &[C])]);
    check(&[B, A], &[B], &[(2, &[A, A])]);
}

// Goal: a node whose directories are all cordoned takes no new partition, as Kafka's. Method: cordon at the start and later, lift it.
#[test]
fn all_cordoned() {
    let mut image = started(&node(&[A, B], &[A, B]));
    let refused = Err(ErrorCode::InvalidReplicationFactor);
    assert_eq!(create(&mut image, "a", 1), refused);
    let lifted = cordon(&image, NODE, &[A]);
    assert_eq!(lifted.records.len(), 1);
    apply(&mut image, &lifted.records);
    assert_eq!(cordon(&image, NODE, &[A]).records, []);
    let id = create(&mut image, "a", 2).unwrap();
    assert_eq!(directories(&image, id), [B, B]);
    let open = cordon(&image, NODE, &[]);
    apply(&mut image, &open.records);
    let id = create(&mut image, "b", 2).unwrap();
    assert_eq!(directories(&image, id), [A, A]);
}

// Goal: a failed directory takes the leadership of what lies in it and nothing else, and gets no new partition. Method: fail one of
// two, and again; then the last one.
#[test]
fn failure() {
    let mut image = started(&node(&[A, B], &[]));
    let id = create(&mut image, "t", 4).unwrap();
    let epochs = |image: &MetadataImage| -> Vec<i32> {
        let partitions = image.topic(id).unwrap().partitions();
        partitions.map(|(_, state)| state.leader_epoch.0).collect()
    };
    let failed = fail_directory(&image, NODE, B);
    apply(&mut image, &failed.records);
    assert_eq!(leaders(&image, id), [true, false, true, false]);
    assert_eq!(epochs(&image), [0, 1, 0, 1]);
    assert_eq!(image.broker(NODE).unwrap().log_dirs, [A]);
    assert_eq!(fail_directory(&image, NODE, B).records, []);
    let next = create(&mut image, "u", 2).unwrap();
    assert_eq!(directories(&image, next), [A, A]);
    // The registration cannot say "none".
    let last = fail_directory(&image, NODE, A);
    apply(&mut image, &last.records);
    assert_eq!(leaders(&image, id), [false; 4]);
    assert_eq!(image.broker(NODE).unwrap().log_dirs, [A]);
    // Both come back.
    let again = start(&image, &node(&[A, B], &[])).unwrap();
    apply(&mut image, &again.records);
    assert_eq!(leaders(&image, id), [true; 4]);
    assert_eq!(epochs(&image), [2, 2, 2, 2]);
    assert_eq!(directories(&image, id), [A, B, A, B]);
}

// Goal: at a start what is on disk wins, what lies in a directory that is not there is led by nobody, and what has no directory gets
// the emptiest. Method: one topic whose four partitions lie in A, B, A, B by the log; a table of what a start finds.
#[test]
fn starts() {
    type Partition = (bool, TopicId);
    fn check(
        log_dirs: &[TopicId],
        found: &[(i32, TopicId)],
        left: &[(i32, TopicId)],
        expected: [Partition; 4],
    ) {
        let mut image = started(&node(&[A, B], &[]));
        let topic_id = create(&mut image, "t", 4).unwrap();
        for (partition_id, directory) in left {
            let change = PartitionChangeRecord {
                partition_id: *partition_id,
                topic_id,
                directories: Some(vec![*directory]),
                ..PartitionChangeRecord::default()
            };
            apply(&mut image, &[change.into()]);
        }
        let mut node = node(log_dirs, &[]);
        for (partition, directory) in found {
            let partition = PartitionId(*partition);
            let id = TopicPartition {
                topic_id,
                partition,
            };
            node.found.insert(id, *directory);
        }
        let decision = start(&image, &node).unwrap();
        apply(&mut image, &decision.records);
        let led = leaders(&image, topic_id);
        let directories = directories(&image, topic_id);
        let outcome: Vec<Partition> = led.into_iter().zip(directories).collect();
        assert_eq!(outcome, expected, "{found:?} {left:?}");
    }
    let all = [(0, A), (1, B), (2, A), (3, B)];
    let same = [(true, A), (true, B), (true, A), (true, B)];
    check(&[A, B], &all, &[], same);
    // B is away.
    check(
        &[A],
        &[(0, A), (2, A)],
        &[],
        [(true, A), (false, B), (true, A), (false, B)],
    );
    // B is away, but one of its partitions was moved to A.
    check(
        &[A],
        &[(0, A), (1, A), (2, A)],
        &[],
        [(true, A), (true, A), (true, A), (false, B)],
    );
    // Never created on disk: it will be, where the log says.
    check(&[A, B], &all[..3], &[], same);
    // Nobody chose a directory yet; C is the emptiest.
    check(
        &[A, B, C],
        &[(0, A), (1, B), (2, A)],
        &[(3, TopicId::ZERO)],
        [(true, A), (true, B), (true, A), (true, C)],
    );
    // Kafka notes a failure that it could not place as lost.
    check(
        &[A, B],
        &all[..3],
        &[(3, LOST)],
        [(true, A), (true, B), (true, A), (false, LOST)],
    );
    check(&[A, B], &all, &[(3, LOST)], same);
}
