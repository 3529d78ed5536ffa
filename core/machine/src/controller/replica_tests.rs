//! Tests of elections and reassignments, on images such as a lone node finds after a larger cluster.

use pelton_model::record_type::metadata::{
    MetadataRecord, PartitionRecord, RegisterBrokerRecord, TopicRecord,
};
use pelton_model::{ErrorCode, NodeId, PartitionId, TopicId};

use super::tests::{LOST, apply};
use super::{
    Election, Reassignment, ReassignmentTopic, Refusal, TopicOutcomes, TopicPartitions,
    elect_leaders, reassign_partitions,
};
use crate::image::{MetadataImage, PartitionImage};

const TOPIC: TopicId = TopicId([9; 16]);
const DIR: TopicId = TopicId([100; 16]);
const OTHER_DIR: TopicId = TopicId([101; 16]);

/// A partition whose replicas lie in `DIR`, with leader, replicas and ISR.
fn partition(leader: i32, replicas: &[i32], isr: &[i32]) -> PartitionRecord {
    PartitionRecord {
        topic_id: TOPIC,
        leader,
        replicas: replicas.to_vec(),
        isr: isr.to_vec(),
        leader_epoch: 5,
        partition_epoch: 7,
        directories: vec![DIR; replicas.len()],
        ..PartitionRecord::default()
    }
}

/// Broker 1 lives, broker 3 is fenced; the topic `t` has these partitions.
fn image(partitions: &[PartitionRecord]) -> MetadataImage {
    let broker = |broker_id, fenced| {
        MetadataRecord::from(RegisterBrokerRecord {
            broker_id,
            broker_epoch: i64::from(broker_id),
            fenced,
            log_dirs: vec![DIR, OTHER_DIR],
            ..RegisterBrokerRecord::default()
        })
    };
    let topic = TopicRecord {
        name: "t".to_owned(),
        topic_id: TOPIC,
    };
    let mut image = MetadataImage::new();
    apply(
        &mut image,
        &[broker(1, false), broker(3, true), topic.into()],
    );
    for (index, record) in (0..).zip(partitions) {
        let record = PartitionRecord {
            partition_id: index,
            ..record.clone()
        };
        apply(&mut image, &[record.into()]);
    }
    image
}

fn state(image: &MetadataImage, index: i32) -> &PartitionImage {
    let topic = image.topic(TOPIC).unwrap();
    topic.partition(PartitionId(index)).unwrap()
}

fn ids(nodes: &[NodeId]) -> Vec<i32> {
    nodes.iter().map(|node| node.0).collect()
}

fn codes(outcomes: &[TopicOutcomes]) -> Vec<(i32, ErrorCode)> {
    let all = outcomes.iter().flat_map(|topic| &topic.partitions);
    let code = |result: &Result<(), Refusal>| match result {
        Ok(()) => ErrorCode::None,
        Err(refusal) => refusal.error,
    };
    all.map(|(index, result)| (*index, code(result))).collect()
}

fn of_t(partitions: &[i32]) -> Vec<TopicPartitions> {
    vec![TopicPartitions {
        topic: "t".to_owned(),
        partitions: partitions.to_vec(),
    }]
}

/// Elects in a topic of this one partition; then its leader, ISR and leader epoch.
fn check_election(
    election: Election,
    record: PartitionRecord,
    error: ErrorCode,
    expected: (i32, &[i32], i32),
) {
    let mut image = image(&[record]);
    let decision = elect_leaders(&image, election, Some(&of_t(&[0])));
    assert_eq!(codes(&decision.results), [(0, error)]);
    let all = elect_leaders(&image, election, None);
    assert_eq!(all.records, decision.records);
    let shown = codes(&all.results).len();
    assert_eq!(shown, usize::from(error != ErrorCode::ElectionNotNeeded));
    apply(&mut image, &decision.records);
    let state = state(&image, 0);
    let got = (state.leader_id.0, ids(&state.isr), state.leader_epoch.0);
    assert_eq!(got, (expected.0, expected.1.to_vec(), expected.2));
}

// Goal: a preferred leader comes back where it can, and only then. Method: one partition in every state, for this node and as one of all.
#[test]
fn preferred_elections() {
    let check = |record, error, expected: (i32, &[i32], i32)| {
        check_election(Election::Preferred, record, error, expected);
    };
    let gone = ErrorCode::PreferredLeaderNotAvailable;
    check(
        partition(1, &[1], &[1]),
        ErrorCode::ElectionNotNeeded,
        (1, &[1], 5),
    );
    check(partition(-1, &[1], &[1]), ErrorCode::None, (1, &[1], 6));
    // It is gone, fenced, or not in sync.
    check(partition(1, &[2, 1], &[1, 2]), gone, (1, &[1, 2], 5));
    check(partition(1, &[3, 1], &[1, 3]), gone, (1, &[1, 3], 5));
    check(partition(-1, &[1, 2], &[2]), gone, (-1, &[2], 5));
    for lost in [LOST, TopicId([77; 16])] {
        let record = PartitionRecord {
            directories: vec![lost],
            ..partition(-1, &[1], &[1])
        };
        check(record, gone, (-1, &[1], 5));
    }
}

// Goal: an unclean election prefers who is in sync, and leaves who leads alone in sync otherwise. Method: as above.
#[test]
fn unclean_elections() {
    let check = |record, error, expected: (i32, &[i32], i32)| {
        check_election(Election::Unclean, record, error, expected);
    };
    let nobody = ErrorCode::EligibleLeadersNotAvailable;
    check(
        partition(1, &[1], &[1]),
        ErrorCode::ElectionNotNeeded,
        (1, &[1], 5),
    );
    check(partition(-1, &[2, 1], &[1]), ErrorCode::None, (1, &[1], 6));
    check(partition(-1, &[1, 2], &[2]), ErrorCode::None, (1, &[1], 6));
    check(partition(-1, &[2, 3], &[2]), nobody, (-1, &[2], 5));
    let lost = PartitionRecord {
        directories: vec![LOST],
        ..partition(-1, &[1], &[1])
    };
    check(lost, nobody, (-1, &[1], 5));
}

// Goal: items are answered one by one, in order, and a partition that is named twice is elected once. Method: known and unknown ones.
#[test]
fn elections_of_several() {
    let image = image(&[partition(-1, &[1], &[1]), partition(1, &[1], &[1])]);
    let mut asked = of_t(&[0, 9, 0, 1, -1]);
    asked.push(TopicPartitions {
        topic: "nobody".to_owned(),
        partitions: vec![0],
    });
    let decision = elect_leaders(&image, Election::Preferred, Some(&asked));
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let expected = [
        (0, ErrorCode::None),
        (9, unknown),
        (0, ErrorCode::None),
        (1, ErrorCode::ElectionNotNeeded),
        (-1, unknown),
        (0, unknown),
    ];
    assert_eq!(codes(&decision.results), expected);
    assert_eq!(decision.records.len(), 1);
    let none = elect_leaders(&image, Election::Preferred, Some(&[]));
    assert!(none.records.is_empty());
    assert!(none.results.is_empty());
    assert_eq!(Election::from_code(0), Some(Election::Preferred));
    assert_eq!(Election::from_code(1), Some(Election::Unclean));
    assert_eq!(Election::from_code(2), None);
    assert_eq!(Election::from_code(-1), None);
}

fn to(replicas: Option<&[i32]>) -> Vec<ReassignmentTopic> {
    vec![ReassignmentTopic {
        topic: "t".to_owned(),
        partitions: vec![Reassignment {
            partition: 0,
            replicas: replicas.map(<[i32]>::to_vec),
        }],
    }]
}

/// Replicas, ISR, joining, leaving, leader, leader epoch.
type Held<'a> = (&'a [i32], &'a [i32], &'a [i32], &'a [i32], i32, i32);

fn held(image: &MetadataImage) -> (Vec<i32>, Vec<i32>, Vec<i32>, Vec<i32>, i32, i32) {
    let state = state(image, 0);
    (
        ids(&state.replicas),
        ids(&state.isr),
        ids(&state.adding_replicas),
        ids(&state.removing_replicas),
        state.leader_id.0,
        state.leader_epoch.0,
    )
}

// Goal: a move is done at once where it can be, waits where it must, and may be called off. Method: requests on one partition, and what
// it looks like once they are replayed.
#[test]
fn reassignments() {
    fn check(
        record: PartitionRecord,
        replicas: Option<&[i32]>,
        expected: Held<'_>,
    ) -> MetadataImage {
        let mut image = image(&[record]);
        let decision = reassign_partitions(&image, &to(replicas), true);
        assert_eq!(codes(&decision.results), [(0, ErrorCode::None)]);
        apply(&mut image, &decision.records);
        let (replicas, isr, adding, removing, leader, epoch) = expected;
        let expected = (
            replicas.to_vec(),
            isr.to_vec(),
            adding.to_vec(),
            removing.to_vec(),
            leader,
            epoch,
        );
        assert_eq!(held(&image), expected);
        image
    }
    // Where it is already: nothing is written.
    let same = image(&[partition(1, &[1], &[1])]);
    assert!(
        reassign_partitions(&same, &to(Some(&[1])), true)
            .records
            .is_empty()
    );
    // Away from a broker that is gone: at once, in a new leader epoch.
    check(
        partition(1, &[1, 2], &[1]),
        Some(&[1]),
        (&[1], &[1], &[], &[], 1, 6),
    );
    check(
        partition(1, &[2, 1], &[1, 2]),
        Some(&[1]),
        (&[1], &[1], &[], &[], 1, 6),
    );
    // Another order is another preferred leader.
    check(
        partition(1, &[3, 1], &[1]),
        Some(&[1, 3]),
        (&[1, 3], &[1], &[], &[], 1, 5),
    );
    // To a broker that is fenced: both hold it until then, and that can be called off or turned round.
    let waiting = check(
        partition(1, &[1], &[1]),
        Some(&[3]),
        (&[3, 1], &[1], &[3], &[1], 1, 5),
    );
    assert_eq!(state(&waiting, 0).directory(NodeId(1)), Some(DIR));
    let pending = PartitionRecord {
        adding_replicas: vec![3],
        removing_replicas: vec![1],
        ..partition(1, &[3, 1], &[1])
    };
    check(pending.clone(), None, (&[1], &[1], &[], &[], 1, 6));
    check(
        pending.clone(),
        Some(&[3, 1]),
        (&[3, 1], &[1], &[3], &[], 1, 5),
    );
    check(pending, Some(&[1]), (&[1], &[1], &[], &[], 1, 6));
    // Nobody in sync would be left of those that stay.
    check(
        partition(-1, &[2], &[2]),
        Some(&[1]),
        (&[1, 2], &[2], &[1], &[2], -1, 5),
    );
}

// Goal: what cannot be moved is refused with Kafka's code and leaves no record. Method: a table.
#[test]
fn refused_reassignments() {
    fn check(
        record: PartitionRecord,
        asked: &[ReassignmentTopic],
        allowed: bool,
        error: ErrorCode,
    ) {
        let image = image(&[record]);
        let decision = reassign_partitions(&image, asked, allowed);
        assert_eq!(codes(&decision.results).first().unwrap().1, error);
        assert!(decision.records.is_empty());
    }
    let one = || partition(1, &[1], &[1]);
    let odd = ErrorCode::InvalidReplicaAssignment;
    for replicas in [&[][..], &[2], &[1, 1], &[1, 2], &[-1]] {
        check(one(), &to(Some(replicas)), true, odd);
    }
    let factor = ErrorCode::InvalidReplicationFactor;
    check(one(), &to(Some(&[1, 3])), false, factor);
    check(one(), &to(None), true, ErrorCode::NoReassignmentInProgress);
    let stuck = PartitionRecord {
        adding_replicas: vec![1],
        removing_replicas: vec![2],
        ..partition(1, &[1, 2], &[1])
    };
    check(stuck, &to(None), true, odd);
    let mut unknown = to(Some(&[1]));
    unknown[0].partitions[0].partition = 7;
    check(one(), &unknown, true, ErrorCode::UnknownTopicOrPartition);
    unknown[0].topic = "nobody".to_owned();
    check(one(), &unknown, true, ErrorCode::UnknownTopicOrPartition);
}

// Goal: one record at most for a partition, and the others go on. Method: the same partition with two targets, and one that is fine.
#[test]
fn reassigned_twice() {
    let image = image(&[partition(1, &[1, 2], &[1]), partition(1, &[1, 2], &[1])]);
    let wanted = |partition| Reassignment {
        partition,
        replicas: Some(vec![1]),
    };
    let asked = [ReassignmentTopic {
        topic: "t".to_owned(),
        partitions: vec![wanted(0), wanted(0), wanted(1)],
    }];
    let decision = reassign_partitions(&image, &asked, true);
    let expected = [
        (0, ErrorCode::None),
        (0, ErrorCode::InvalidRequest),
        (1, ErrorCode::None),
    ];
    assert_eq!(codes(&decision.results), expected);
    let changed: Vec<i32> = decision
        .records
        .iter()
        .filter_map(|record| {
            let MetadataRecord::PartitionChange(change) = record else {
                return None;
            };
            Some(change.partition_id)
        })
        .collect();
    assert_eq!(decision.records.len(), 2);
    assert_eq!(changed, [0, 1]);
}
