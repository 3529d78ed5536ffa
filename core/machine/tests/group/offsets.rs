//! Committed offsets and the administration of groups, row by row.

use pelton_machine::group::{
    Command, CommitPartition, DeleteGroups, DescribeGroups, FetchTopic, ListGroups, OffsetCommit,
    OffsetDelete, OffsetDeleteReply, Reply,
};
use pelton_model::config::group::GroupConfig;
use pelton_model::record_type::group::{GroupRecord, OffsetCommitKey, OffsetCommitValue};
use pelton_model::{ErrorCode, ProducerId, Str, TopicId};

use crate::harness::{Bench, commit, config, group, static_join, sync};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

// Goal: who may commit, in every state of a group. Method: rows of state, member, generation, code.
#[test]
fn who_may_commit() {
    #[track_caller]
    fn check(bench: &mut Bench, member_id: &str, generation: i32, error: ErrorCode) {
        assert_eq!(bench.commit(commit(member_id, generation, 5)), [error]);
    }
    let mut bench = Bench::new(config());
    // No such group.
    check(&mut bench, "m", 0, ErrorCode::GroupIdNotFound);
    let older = OffsetCommit {
        knows_stale_epochs: false,
        ..commit("m", 0, 5)
    };
    assert_eq!(bench.commit(older), [ErrorCode::IllegalGeneration]);
    check(&mut bench, "", -1, ErrorCode::None);
    assert_eq!(bench.state(), "Empty");
    // A group of offsets alone.
    check(&mut bench, "", -1, ErrorCode::None);
    check(&mut bench, "m", 0, ErrorCode::UnknownMemberId);
    // Stable.
    let id = bench.stable(1).remove(0);
    check(&mut bench, &id, 1, ErrorCode::None);
    check(&mut bench, &id, 2, ErrorCode::IllegalGeneration);
    check(&mut bench, &id, 0, ErrorCode::IllegalGeneration);
    check(&mut bench, &id, -1, ErrorCode::IllegalGeneration);
    check(&mut bench, "nobody", 1, ErrorCode::UnknownMemberId);
    check(&mut bench, "", -1, ErrorCode::UnknownMemberId);
    // Rebalancing: the old generation may still commit what it read.
    let (_, token) = bench.join_new();
    assert_eq!(bench.state(), "PreparingRebalance");
    check(&mut bench, &id, 1, ErrorCode::None);
    bench.rejoin(&id, token);
    check(&mut bench, &id, 1, ErrorCode::IllegalGeneration);
    check(&mut bench, &id, 2, ErrorCode::RebalanceInProgress);
}

// Goal: a fenced static member cannot commit. Method: its name, its former id.
#[test]
fn fenced_members_cannot_commit() {
    let mut bench = Bench::new(config());
    let mut ids = Vec::new();
    for _ in 0..2 {
        let token = bench.send(Command::JoinGroup(static_join("", "one")));
        bench.pass(0);
        ids.push(bench.joined(token).member_id);
        let generation = i32::try_from(ids.len()).unwrap();
        let token = bench.send(Command::SyncGroup(sync(&ids[0], generation, Vec::new())));
        bench.answer(token);
    }
    let fenced = OffsetCommit {
        group_instance_id: Some("one".into()),
        ..commit(&ids[0], 1, 5)
    };
    assert_eq!(bench.commit(fenced), [ErrorCode::FencedInstanceId]);
}

// Goal: what was committed is read back whole, also after a restart; what was not is −1. Method: commit, read, restart.
#[test]
fn offsets_are_read_as_committed() {
    let mut bench = Bench::new(config());
    assert_eq!(bench.commit(commit("", -1, 42)), [ErrorCode::None]);
    for _ in 0..2 {
        let all = bench.fetch(None);
        assert_eq!((all.error, all.topics.len()), (ErrorCode::None, 1));
        let partition = &all.topics[0].partitions[0];
        assert_eq!((partition.offset, partition.leader_epoch), (42, 3));
        assert_eq!(partition.metadata, "note");
        let asked = FetchTopic {
            name: "t".into(),
            topic_id: TopicId([1; 16]),
            partitions: vec![1, 0],
        };
        let reply = bench.fetch(Some(vec![asked]));
        let offsets: Vec<i64> = reply.topics[0]
            .partitions
            .iter()
            .map(|one| one.offset)
            .collect();
        assert_eq!(offsets, [-1, 42]);
        assert_eq!(reply.topics[0].topic_id, TopicId([1; 16]));
        assert_eq!(reply.topics[0].partitions[0].leader_epoch, -1);
        assert_eq!(reply.topics[0].partitions[0].metadata, "");
        bench.restart();
    }
}

// Goal: a note that is too long refuses its partition alone, by UTF-16 units. Method: at the edge, in ASCII and beyond.
#[test]
fn notes_have_a_limit() {
    let mut bench = Bench::new(config());
    let partition = |index: i32, note: &str| CommitPartition {
        index,
        offset: 1,
        leader_epoch: -1,
        metadata: Some(note.into()),
    };
    let mut all = commit("", -1, 0);
    all.topics[0].partitions = vec![
        partition(0, &"a".repeat(4096)),
        partition(1, &"a".repeat(4097)),
        partition(2, &"ж".repeat(4096)),
        partition(3, &"\u{1f980}".repeat(2048)),
        partition(4, &"\u{1f980}".repeat(2049)),
    ];
    let (ok, long) = (ErrorCode::None, ErrorCode::OffsetMetadataTooLarge);
    assert_eq!(bench.commit(all), [ok, long, ok, ok, long]);
    assert_eq!(bench.shard.offset_count(), 3);
}

// Goal: an empty commit is fine and makes nothing. Method: no topics; topics without partitions.
#[test]
fn empty_commits() {
    let mut bench = Bench::new(config());
    let mut empty = commit("", -1, 0);
    empty.topics[0].partitions.clear();
    assert_eq!(bench.commit(empty.clone()), []);
    empty.topics.clear();
    assert_eq!(bench.commit(empty), []);
    assert_eq!((bench.shard.group_count(), bench.log.len()), (0, 0));
}

// Goal: offsets expire by Kafka's rules (KIP-211). Method: one group of each kind, and time.
#[test]
fn expiration() {
    #[track_caller]
    fn check(
        prepare: impl Fn(&mut Bench),
        pass_days: u64,
        keep: impl Fn(&mut Bench),
        expected: i64,
    ) {
        let mut bench = Bench::new(config());
        prepare(&mut bench);
        for _ in 0..pass_days * 24 * 60 * 12 {
            bench.pass(5_000);
            keep(&mut bench);
        }
        assert_eq!(bench.offset(), expected);
        let records = bench.shard.to_records();
        bench.restart();
        assert_eq!(bench.shard.to_records(), records);
    }
    let alone = |bench: &mut Bench| assert_eq!(bench.commit(commit("", -1, 5)), [ErrorCode::None]);
    let nothing = |_: &mut Bench| {};
    check(alone, 6, nothing, 5);
    check(alone, 8, nothing, -1);
    // With a retention of its own.
    let briefly = |bench: &mut Bench| {
        let mut brief = commit("", -1, 5);
        brief.retention_ms = Some(i64::try_from(DAY_MS).unwrap());
        assert_eq!(bench.commit(brief), [ErrorCode::None]);
    };
    check(briefly, 2, nothing, -1);
    // Since the group became empty, whenever the offset was committed.
    let left = |bench: &mut Bench| {
        let id = bench.stable(1).remove(0);
        assert_eq!(bench.commit(commit(&id, 1, 5)), [ErrorCode::None]);
    };
    check(left, 6, nothing, 5);
    check(left, 8, nothing, -1);
}

// Goal: offsets of topics that a running group reads do not expire, others do, and those of a group whose subscriptions
// cannot be read stay. Method: a member that only calls, for ten days.
#[test]
fn offsets_of_running_groups() {
    let mut bench = Bench::new(config());
    let id = bench.stable(1).remove(0);
    let mut both = commit(&id, 1, 5);
    both.topics.push(both.topics[0].clone());
    both.topics[1].name = "unread".into();
    assert_eq!(bench.commit(both), [ErrorCode::None; 2]);
    for _ in 0..8 * 24 * 60 * 12 {
        bench.pass(5_000);
        assert_eq!(bench.heartbeat(&id, 1), ErrorCode::None);
    }
    let all = bench.fetch(None);
    let names: Vec<&str> = all.topics.iter().map(|topic| topic.name.as_str()).collect();
    assert_eq!(names, ["t"]);
}

// Goal: a group without members and offsets is forgotten at the next look. Method: leave, wait.
#[test]
fn unused_groups_are_forgotten() {
    let mut bench = Bench::new(config());
    let id = bench.stable(1).remove(0);
    bench.leave(&[(&id, None)]);
    assert_eq!(bench.state(), "Empty");
    bench.pass(600_000);
    assert_eq!(bench.state(), "Dead");
    assert_eq!(bench.shard.group_count(), 0);
    bench.restart();
    assert_eq!(bench.shard.group_count(), 0);
}

// Goal: much that expires at once is deleted in pieces. Method: more offsets than one go takes.
#[test]
fn expiration_is_bounded() {
    let mut bench = Bench::new(GroupConfig {
        offsets_retention_ms: 1,
        ..config()
    });
    let mut many = commit("", -1, 0);
    many.topics[0].partitions = (0..2_500)
        .map(|index| CommitPartition {
            index,
            ..CommitPartition::default()
        })
        .collect();
    bench.commit(many);
    bench.pass(600_000);
    assert_eq!(bench.shard.offset_count(), 1_500);
    bench.pass(20);
    assert_eq!(bench.shard.offset_count(), 0);
    assert_eq!(bench.shard.group_count(), 0);
}

fn delete_offsets(bench: &mut Bench, topic: &str) -> OffsetDeleteReply {
    let delete = OffsetDelete {
        group_id: group(),
        topics: vec![(topic.into(), vec![0, 9])],
    };
    let Reply::OffsetDelete(reply) = bench.ask(Command::OffsetDelete(delete)) else {
        panic!("an answer to another request");
    };
    reply
}

// Goal: OffsetDelete spares what a running group reads. Method: by state and topic.
#[test]
fn deleting_offsets() {
    let mut bench = Bench::new(config());
    assert_eq!(
        delete_offsets(&mut bench, "t").error,
        ErrorCode::GroupIdNotFound
    );
    bench.commit(commit("", -1, 5));
    let reply = delete_offsets(&mut bench, "t");
    assert_eq!(reply.error, ErrorCode::None);
    assert_eq!(
        reply.topics[0].1,
        [(0, ErrorCode::None), (9, ErrorCode::None)]
    );
    assert_eq!(bench.offset(), -1);
    let id = bench.stable(1).remove(0);
    bench.commit(commit(&id, 1, 5));
    let reply = delete_offsets(&mut bench, "t");
    assert_eq!(reply.topics[0].1[0], (0, ErrorCode::GroupSubscribedToTopic));
    let reply = delete_offsets(&mut bench, "other");
    assert_eq!(reply.topics[0].1[0], (0, ErrorCode::None));
    assert_eq!(bench.offset(), 5);
}

// Goal: deleted groups and topics do not come back. Method: delete, restart.
#[test]
fn deleting_groups_and_topics() {
    let mut bench = Bench::new(config());
    let delete = |bench: &mut Bench, id: &str| {
        let delete = DeleteGroups {
            group_ids: vec![id.into()],
        };
        let Reply::DeleteGroups(outcomes) = bench.ask(Command::DeleteGroups(delete)) else {
            panic!("an answer to another request");
        };
        outcomes[0].1
    };
    assert_eq!(delete(&mut bench, ""), ErrorCode::GroupIdNotFound);
    assert_eq!(delete(&mut bench, "g"), ErrorCode::GroupIdNotFound);
    let id = bench.stable(1).remove(0);
    bench.commit(commit(&id, 1, 5));
    assert_eq!(delete(&mut bench, "g"), ErrorCode::NonEmptyGroup);
    bench.leave(&[(&id, None)]);
    assert_eq!(delete(&mut bench, "g"), ErrorCode::None);
    bench.restart();
    assert_eq!((bench.shard.group_count(), bench.offset()), (0, -1));

    bench.commit(commit("", -1, 5));
    let (decision, next) = bench.shard.topics_deleted(&[Str::new_static("t")], None);
    assert_eq!(next, None);
    bench.take(decision);
    bench.restart();
    assert_eq!(bench.offset(), -1);
}

// Goal: lists and descriptions are Kafka's. Method: one group in each state, filters.
#[test]
fn listing_and_describing() {
    let mut bench = Bench::new(config());
    bench.commit(OffsetCommit {
        group_id: "alone".into(),
        ..commit("", -1, 5)
    });
    let id = bench.stable(1).remove(0);
    let list = |bench: &mut Bench, states: &[&str], types: &[&str]| {
        let list = ListGroups {
            states: states.iter().map(|state| Str::from(*state)).collect(),
            types: types.iter().map(|one| Str::from(*one)).collect(),
        };
        let Reply::ListGroups(Ok(groups)) = bench.ask(Command::ListGroups(list)) else {
            panic!("an answer to another request");
        };
        groups
    };
    let all = list(&mut bench, &[], &[]);
    let seen: Vec<_> = all
        .iter()
        .map(|one| {
            (
                one.group_id.as_str(),
                one.protocol_type.as_str(),
                one.state,
                one.group_type,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("alone", "", "Empty", "classic"),
            ("g", "consumer", "Stable", "classic")
        ]
    );
    assert_eq!(list(&mut bench, &["sTABLE"], &["Classic"]).len(), 1);
    assert_eq!(list(&mut bench, &[], &["consumer"]).len(), 0);
    assert_eq!(list(&mut bench, &["nonsense"], &[]).len(), 0);

    let mut describe = |knows_group_id_not_found| {
        let describe = DescribeGroups {
            group_ids: vec!["g".into(), "no".into()],
            knows_group_id_not_found,
        };
        let Reply::DescribeGroups(groups) = bench.ask(Command::DescribeGroups(describe)) else {
            panic!("an answer to another request");
        };
        groups
    };
    let groups = describe(true);
    assert_eq!(
        (groups[0].state, groups[0].protocol.as_str()),
        ("Stable", "range")
    );
    let member = &groups[0].members[0];
    assert_eq!(
        (&member.member_id, member.client_host.as_str()),
        (&id, "/127.0.0.1")
    );
    assert_eq!(member.assignment, crate::harness::assignment(&id));
    assert_eq!(
        (groups[1].state, groups[1].error),
        ("Dead", ErrorCode::GroupIdNotFound)
    );
    assert_eq!(groups[1].error_message, Some("Group no not found.".into()));
    let groups = describe(false);
    assert_eq!(
        (groups[1].state, groups[1].error),
        ("Dead", ErrorCode::None)
    );
}

// Goal: offsets of transactions count when their transaction does. Method: records of a log that has some.
#[test]
fn transactional_offsets() {
    let record = |offset| {
        let key = OffsetCommitKey {
            group: group(),
            topic: "t".into(),
            partition: 0,
        };
        let value = OffsetCommitValue {
            offset,
            ..OffsetCommitValue::default()
        };
        GroupRecord::OffsetCommit(key, Some(value))
    };
    let mut bench = Bench::new(config());
    bench.shard.replay_pending(ProducerId(1), &record(10));
    let reply = bench.fetch(Some(vec![FetchTopic {
        name: "t".into(),
        topic_id: TopicId::ZERO,
        partitions: vec![0],
    }]));
    assert_eq!(
        reply.topics[0].partitions[0].error,
        ErrorCode::UnstableOffsetCommit
    );
    bench.shard.replay_end(ProducerId(1), false);
    assert_eq!(bench.offset(), -1);
    bench.shard.replay_pending(ProducerId(1), &record(20));
    bench.shard.replay_end(ProducerId(1), true);
    assert_eq!(bench.offset(), 20);
    // What is committed later outdoes a transaction that began before.
    bench.shard.replay_pending(ProducerId(1), &record(30));
    bench.shard.replay(&record(40));
    bench.shard.replay_end(ProducerId(1), true);
    assert_eq!((bench.offset(), bench.shard.offset_count()), (40, 1));
}

/// A coordinator that holds offsets of this many partitions of topic `t`, for each group one.
fn with_offsets(groups: usize, partitions: i32) -> Bench {
    let mut bench = Bench::new(config());
    for group in 0..groups {
        let mut many = commit("", -1, 5);
        many.group_id = Str::from(format!("g{group}"));
        let one = many.topics[0].partitions.remove(0);
        let one = |partition| CommitPartition {
            index: partition,
            ..one.clone()
        };
        many.topics[0].partitions = (0..partitions).map(one).collect();
        bench.commit(many);
    }
    bench
}

// Goal: one go writes and looks at a bounded amount, however much there is, and what is left comes later. Method: a topic
// is deleted, groups are deleted, offsets expire: of one group with many offsets, and of many groups with few.
#[test]
fn goes_are_bounded() {
    const ONE_GO_MAX: usize = 1_100;
    for (groups, partitions) in [(1, 3_000), (3_000, 1)] {
        let mut bench = with_offsets(groups, partitions);
        let mut from = None;
        let mut goes = 0;
        loop {
            let (decision, next) = bench.shard.topics_deleted(&["t".into()], from.as_ref());
            assert!(decision.records.len() <= ONE_GO_MAX);
            bench.take(decision);
            goes += 1;
            from = next;
            if from.is_none() {
                break;
            }
        }
        assert_eq!((bench.shard.offset_count(), goes >= 3), (0, true));

        let mut bench = with_offsets(groups, partitions);
        let mut now = bench.now();
        now.time.0 += i64::try_from(8 * DAY_MS).unwrap();
        for go in 0.. {
            now.clock = now.clock.plus_ms(DAY_MS);
            let decision = bench.shard.tick(now, &bench.image);
            assert!(decision.records.len() <= ONE_GO_MAX);
            bench.take(decision);
            if bench.shard.group_count() == 0 {
                assert!(1 < go);
                break;
            }
            assert!(go < 20);
        }
        assert_eq!(bench.shard.offset_count(), 0);
    }
    let mut bench = with_offsets(1_000, 2);
    let group_ids = (0..1_000)
        .map(|group| Str::from(format!("g{group}")))
        .collect();
    let token = bench.send(Command::DeleteGroups(DeleteGroups { group_ids }));
    assert_eq!(bench.answer(token), None);
    let left = bench.shard.group_count();
    assert!(0 < left && left < 1_000);
    bench.pass(1);
    let Some(Reply::DeleteGroups(outcomes)) = bench.answer(token) else {
        panic!("no answer");
    };
    assert!(outcomes.iter().all(|(_, error)| *error == ErrorCode::None));
    assert_eq!((outcomes.len(), bench.shard.group_count()), (1_000, 0));
}
