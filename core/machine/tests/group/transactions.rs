//! Offsets that are committed in transactions: who may, who waits, what becomes of them.

use pelton_machine::group::{Command, FetchTopic, OffsetCommit, OffsetDelete, Reply};
use pelton_model::{ErrorCode, ProducerEpoch, ProducerId, TopicId};

use crate::harness::{Bench, commit, config, group};

const PRODUCER: (ProducerId, ProducerEpoch) = (ProducerId(9), ProducerEpoch(2));
const OTHER: (ProducerId, ProducerEpoch) = (ProducerId(10), ProducerEpoch(0));

fn in_transaction(member_id: &str, generation: i32, offset: i64) -> OffsetCommit {
    OffsetCommit {
        knows_stale_epochs: false,
        producer: Some(PRODUCER),
        ..commit(member_id, generation, offset)
    }
}

/// What a reader of stable offsets, and one of any, is told of `t`-0.
fn told(bench: &mut Bench) -> (Result<i64, ErrorCode>, i64) {
    let mut fetch = |require_stable| {
        let command = Command::OffsetFetch(pelton_machine::group::OffsetFetch {
            group_id: group(),
            member_epoch: -1,
            topics: Some(vec![FetchTopic {
                name: "t".into(),
                topic_id: TopicId::ZERO,
                partitions: vec![0],
            }]),
            require_stable,
            ..pelton_machine::group::OffsetFetch::default()
        });
        let Reply::OffsetFetch(reply) = bench.ask(command) else {
            panic!("a reply of its kind");
        };
        let partition = &reply.topics[0].partitions[0];
        if partition.error == ErrorCode::None {
            Ok(partition.offset)
        } else {
            Err(partition.error)
        }
    };
    (fetch(true), fetch(false).unwrap())
}

// Goal: an offset of a transaction is told to nobody until its end, and holds up who asks for stable ones. Method: commit, abort;
// commit twice, commit.
#[test]
fn pending_offsets_wait_for_their_end() {
    let unstable = Err(ErrorCode::UnstableOffsetCommit);
    let mut bench = Bench::new(config());
    assert_eq!(bench.commit(commit("", -1, 5)), [ErrorCode::None]);
    assert_eq!(bench.commit(in_transaction("", -1, 10)), [ErrorCode::None]);
    assert_eq!(told(&mut bench), (unstable, 5));
    bench.shard.replay_end(PRODUCER.0, false);
    assert_eq!(told(&mut bench), (Ok(5), 5));
    for offset in [20, 30] {
        assert_eq!(
            bench.commit(in_transaction("", -1, offset)),
            [ErrorCode::None]
        );
    }
    assert_eq!(told(&mut bench), (unstable, 5));
    bench.shard.replay_end(ProducerId(8), true);
    assert_eq!(told(&mut bench), (unstable, 5), "another's end");
    bench.shard.replay_end(PRODUCER.0, true);
    assert_eq!(told(&mut bench), (Ok(30), 30));
    assert_eq!(bench.shard.offset_count(), 1);
}

// Goal: of two transactions with one partition the later record counts, whichever ends last, as in Kafka; a record outside of any outdoes both.
// Method: rows of what happens after records of the one (10) and the other (20), and what is committed then.
#[test]
fn later_records_outdo_earlier_ones() {
    #[track_caller]
    fn check(ends: &[(ProducerId, bool)], expected: i64) {
        let mut bench = Bench::new(config());
        for (producer, offset) in [(PRODUCER, 10), (OTHER, 20)] {
            let producer = Some(producer);
            let commit = OffsetCommit {
                producer,
                ..in_transaction("", -1, offset)
            };
            assert_eq!(bench.commit(commit), [ErrorCode::None]);
        }
        for &(producer, commits) in ends {
            if producer == ProducerId::NONE {
                assert_eq!(bench.commit(commit("", -1, 30)), [ErrorCode::None]);
            } else {
                bench.shard.replay_end(producer, commits);
            }
        }
        assert_eq!(told(&mut bench), (Ok(expected), expected));
        // What comes later is later than both.
        assert_eq!(bench.commit(in_transaction("", -1, 40)), [ErrorCode::None]);
        bench.shard.replay_end(PRODUCER.0, true);
        assert_eq!(told(&mut bench), (Ok(40), 40));
    }
    let (one, other, outside) = (PRODUCER.0, OTHER.0, ProducerId::NONE);
    check(&[(one, true), (other, true)], 20);
    check(&[(other, true), (one, true)], 20);
    check(&[(other, false), (one, true)], 10);
    check(&[(one, true), (other, false)], 10);
    check(&[(other, true), (one, false)], 20);
    check(&[(outside, true), (other, true), (one, true)], 30);
    check(&[(other, true), (outside, true), (one, true)], 30);
}

// Goal: a group that only a transaction knew of is gone with its abort. Method: one without anything else.
#[test]
fn aborts_leave_no_group() {
    let mut bench = Bench::new(config());
    assert_eq!(bench.commit(in_transaction("", -1, 10)), [ErrorCode::None]);
    assert_eq!(bench.shard.group_count(), 1);
    bench.shard.replay_end(PRODUCER.0, false);
    assert_eq!(bench.shard.group_count(), 0);
}

// Goal: who may commit in a transaction, in every state of a group: whoever says nothing of itself may, whoever names a member must be it,
// and a rebalance is no obstacle. Method: rows of member, generation, code.
#[test]
fn who_may_commit_in_a_transaction() {
    #[track_caller]
    fn check(bench: &mut Bench, member_id: &str, generation: i32, error: ErrorCode) {
        assert_eq!(
            bench.commit(in_transaction(member_id, generation, 5)),
            [error]
        );
    }
    let mut bench = Bench::new(config());
    check(&mut bench, "m", 0, ErrorCode::IllegalGeneration);
    check(&mut bench, "", -1, ErrorCode::None);
    let id = bench.stable(1).remove(0);
    check(&mut bench, &id, 1, ErrorCode::None);
    check(&mut bench, &id, 2, ErrorCode::IllegalGeneration);
    check(&mut bench, &id, -1, ErrorCode::IllegalGeneration);
    check(&mut bench, "nobody", 1, ErrorCode::UnknownMemberId);
    check(&mut bench, "", -1, ErrorCode::None);
    let fenced = OffsetCommit {
        group_instance_id: Some("other".into()),
        ..in_transaction(&id, 1, 5)
    };
    assert_eq!(bench.commit(fenced), [ErrorCode::UnknownMemberId]);
    let (_, token) = bench.join_new();
    check(&mut bench, &id, 1, ErrorCode::None);
    bench.rejoin(&id, token);
    check(&mut bench, &id, 1, ErrorCode::IllegalGeneration);
    check(&mut bench, &id, 2, ErrorCode::None);
}

// Goal: OffsetDelete takes pending offsets along, and an open transaction keeps what is committed from expiring. Method: delete, then
// end; wait longer than the retention with one open.
#[test]
fn deletion_and_expiry_mind_pending_offsets() {
    let mut bench = Bench::new(config());
    assert_eq!(bench.commit(in_transaction("", -1, 10)), [ErrorCode::None]);
    let delete = Command::OffsetDelete(OffsetDelete {
        group_id: group(),
        topics: vec![("t".into(), vec![0])],
    });
    let Reply::OffsetDelete(reply) = bench.ask(delete) else {
        panic!("a reply of its kind");
    };
    assert_eq!(reply.error, ErrorCode::None);
    bench.shard.replay_end(PRODUCER.0, true);
    assert_eq!(told(&mut bench), (Ok(-1), -1));
    let mut bench = Bench::new(config());
    assert_eq!(bench.commit(commit("", -1, 5)), [ErrorCode::None]);
    assert_eq!(bench.commit(in_transaction("", -1, 10)), [ErrorCode::None]);
    bench.pass(30 * 24 * 60 * 60 * 1000);
    assert_eq!(told(&mut bench).1, 5);
    bench.shard.replay_end(PRODUCER.0, false);
    bench.pass(24 * 60 * 60 * 1000);
    assert_eq!(told(&mut bench), (Ok(-1), -1));
}
