//! Consumer groups (KIP-848), row by row: what a member is told in which situation.

use std::collections::BTreeSet;

use pelton_machine::group::{
    Command, ConsumerGroupDescribe, ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply,
    DescribeGroups, DescribedConsumerGroup, JoinGroup, ListGroups, OffsetCommit, OffsetFetch,
    Protocol, Reply, TopicPartitions,
};
use pelton_model::config::group::GroupConfig;
use pelton_model::record_type::group::GroupRecord;
use pelton_model::record_type::metadata::{MetadataRecord, PartitionRecord, TopicRecord};
use pelton_model::{ErrorCode, LeaderEpoch, Offset, Str, TopicId};

use crate::harness::{Bench, commit, config, group, join, sync};

/// Settings under which a target is computed at once.
pub(crate) fn eager() -> GroupConfig {
    let mut config = config();
    config.consumer.assignment_interval_ms = 0;
    config
}

impl Bench {
    pub(crate) fn topic(&mut self, name: &str, partitions: i32) -> TopicId {
        let place = u8::try_from(self.image.topic_count()).unwrap() + 1;
        let topic_id = TopicId([place; 16]);
        let mut records = vec![MetadataRecord::Topic(TopicRecord {
            name: name.to_owned(),
            topic_id,
        })];
        records.extend((0..partitions).map(|partition_id| {
            MetadataRecord::Partition(PartitionRecord {
                partition_id,
                topic_id,
                replicas: vec![1],
                isr: vec![1],
                leader: 1,
                leader_epoch: 0,
                partition_epoch: 0,
                directories: vec![TopicId([9; 16])],
                ..PartitionRecord::default()
            })
        }));
        for record in records {
            let offset = Offset(self.image.applied().0 + 1);
            self.image.replay(offset, LeaderEpoch(1), &record).unwrap();
        }
        topic_id
    }

    pub(crate) fn call(&mut self, request: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatReply {
        let Reply::ConsumerGroupHeartbeat(reply) =
            self.ask(Command::ConsumerGroupHeartbeat(request))
        else {
            panic!("an answer to another request");
        };
        reply
    }

    /// A member joins; the reply is fine.
    fn enter(&mut self, member_id: &str, topics: &[&str]) -> ConsumerGroupHeartbeatReply {
        let reply = self.call(entering(member_id, topics));
        assert_eq!(reply.error, ErrorCode::None, "{reply:?}");
        reply
    }

    /// A member calls with its epoch and what it holds.
    fn stay(
        &mut self,
        member_id: &str,
        epoch: i32,
        owned: &[(TopicId, &[i32])],
    ) -> ConsumerGroupHeartbeatReply {
        let mut request = calling(member_id, epoch);
        request.owned = Some(partitions(owned));
        self.call(request)
    }

    fn describe(&mut self) -> DescribedConsumerGroup {
        let describe = ConsumerGroupDescribe {
            group_ids: vec![group()],
        };
        let Reply::ConsumerGroupDescribe(mut groups) =
            self.ask(Command::ConsumerGroupDescribe(describe))
        else {
            panic!("an answer to another request");
        };
        groups.remove(0)
    }
}

pub(crate) fn calling(member_id: &str, epoch: i32) -> ConsumerGroupHeartbeat {
    ConsumerGroupHeartbeat {
        group_id: group(),
        member_id: member_id.into(),
        member_epoch: epoch,
        rebalance_timeout_ms: -1,
        requires_member_id: true,
        ..ConsumerGroupHeartbeat::default()
    }
}

pub(crate) fn entering(member_id: &str, topics: &[&str]) -> ConsumerGroupHeartbeat {
    ConsumerGroupHeartbeat {
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(topics.iter().map(|name| Str::from(*name)).collect()),
        owned: Some(Vec::new()),
        ..calling(member_id, 0)
    }
}

pub(crate) fn partitions(owned: &[(TopicId, &[i32])]) -> Vec<TopicPartitions> {
    let topic = |(topic_id, partitions): &(TopicId, &[i32])| TopicPartitions {
        topic_id: *topic_id,
        partitions: partitions.to_vec(),
    };
    owned.iter().map(topic).collect()
}

// Goal: what is wrong with a request is told with Kafka's codes, and makes no group. Method: one wrong thing at a time.
#[test]
fn refused_heartbeats() {
    #[track_caller]
    fn check(change: impl Fn(&mut ConsumerGroupHeartbeat), error: ErrorCode) {
        let mut bench = Bench::new(eager());
        let mut request = entering("a", &["t"]);
        change(&mut request);
        assert_eq!(bench.call(request).error, error);
        assert_eq!((bench.shard.group_count(), bench.log.len()), (0, 0));
    }
    let invalid = ErrorCode::InvalidRequest;
    check(|one| one.group_id = "".into(), invalid);
    check(|one| one.member_id = "".into(), invalid);
    check(|one| one.instance_id = Some("".into()), invalid);
    check(|one| one.rack_id = Some("".into()), invalid);
    check(|one| one.rebalance_timeout_ms = -1, invalid);
    check(|one| one.owned = None, invalid);
    check(
        |one| one.owned = Some(partitions(&[(TopicId([1; 16]), &[0])])),
        invalid,
    );
    check(|one| one.subscribed_topic_names = None, invalid);
    check(|one| one.member_epoch = -3, invalid);
    check(|one| one.member_epoch = -2, invalid);
    check(|one| one.member_epoch = -1, ErrorCode::GroupIdNotFound);
    check(|one| one.member_epoch = 1, ErrorCode::GroupIdNotFound);
    let bad_assignor = |one: &mut ConsumerGroupHeartbeat| one.server_assignor = Some("best".into());
    check(bad_assignor, ErrorCode::UnsupportedAssignor);
    let bad_regex =
        |one: &mut ConsumerGroupHeartbeat| one.subscribed_topic_regex = Some("t(".into());
    check(bad_regex, ErrorCode::InvalidRegularExpression);
    let mut off = eager();
    off.consumer_protocol = false;
    let reply = Bench::new(off).call(entering("a", &["t"]));
    assert_eq!(reply.error, ErrorCode::UnsupportedVersion);
}

// Goal: a first member gets all at once, at Kafka's epochs; without topics it waits at 1. Method: both.
#[test]
fn first_member() {
    let mut bench = Bench::new(eager());
    let t = bench.topic("t", 3);
    let reply = bench.enter("a", &["t"]);
    assert_eq!(
        (reply.member_epoch, reply.heartbeat_interval_ms),
        (2, 5_000)
    );
    assert_eq!(reply.assignment, Some(partitions(&[(t, &[0, 1, 2])])));
    assert_eq!(bench.describe().state, "Stable");
    // It calls without news, and is told none.
    let reply = bench.call(calling("a", 2));
    assert_eq!((reply.member_epoch, reply.assignment), (2, None));

    let mut bench = Bench::new(eager());
    let reply = bench.enter("a", &[]);
    assert_eq!(
        (reply.member_epoch, reply.assignment),
        (1, Some(Vec::new()))
    );
}

// Goal: a partition goes to its next owner only when the one before has given it back (row 115). Method: a second member
// joins, the first holds on, then lets go.
#[test]
fn revocation_before_assignment() {
    let mut bench = Bench::new(eager());
    let t = bench.topic("t", 2);
    bench.enter("a", &["t"]);
    let second = bench.enter("b", &["t"]);
    // Everything is still the first's.
    assert_eq!(
        (second.member_epoch, second.assignment),
        (3, Some(Vec::new()))
    );
    assert_eq!(bench.describe().state, "Reconciling");
    // The first is told to give one back, and stays in its epoch until it has.
    let first = bench.stay("a", 2, &[(t, &[0, 1])]);
    assert_eq!(first.member_epoch, 2);
    let kept = first.assignment.unwrap();
    assert_eq!(kept[0].partitions.len(), 1);
    let kept = kept[0].partitions[0];
    assert_eq!(bench.call(calling("b", 3)).assignment, None);
    let first = bench.stay("a", 2, &[(t, &[0, 1])]);
    assert_eq!((first.member_epoch, first.assignment.is_some()), (2, false));
    let first = bench.stay("a", 2, &[(t, &[kept])]);
    assert_eq!(first.member_epoch, 3);
    // Now it is free.
    let second = bench.call(calling("b", 3));
    assert_eq!(second.assignment, Some(partitions(&[(t, &[1 - kept])])));
    assert_eq!(bench.describe().state, "Stable");
    let log = bench.shard.to_records();
    bench.restart();
    assert_eq!(bench.shard.to_records(), log);
}

// Goal: members in a wrong epoch are fenced, one that has missed the last answer is not. Method: rows of epoch and what is
// held.
#[test]
fn fencing() {
    let mut bench = Bench::new(eager());
    let t = bench.topic("t", 2);
    bench.enter("a", &["t"]);
    let greater = bench.call(calling("a", 7));
    assert_eq!(greater.error, ErrorCode::FencedMemberEpoch);
    let smaller = bench.call(calling("a", 1));
    assert_eq!(smaller.error, ErrorCode::FencedMemberEpoch);
    assert_eq!(
        bench.call(calling("b", 1)).error,
        ErrorCode::UnknownMemberId
    );
    // Another subscription makes an epoch, whose answer is lost: the epoch before is good enough.
    let other = bench.topic("u", 1);
    let mut request = calling("a", 2);
    request.subscribed_topic_names = Some(vec!["t".into(), "u".into()]);
    assert_eq!(bench.call(request).member_epoch, 3);
    let again = bench.stay("a", 2, &[(t, &[0, 1])]);
    assert_eq!((again.error, again.member_epoch), (ErrorCode::None, 3));
    let lost = bench.stay("a", 2, &[(t, &[0, 1]), (TopicId([9; 16]), &[0])]);
    assert_eq!(lost.error, ErrorCode::FencedMemberEpoch);
    assert_eq!(bench.describe().members[0].assignment[1].topic_id, other);
    // It may join anew at any time.
    let anew = bench.enter("a", &["t"]);
    assert_eq!(anew.member_epoch, 4);
}

// Goal: members that are silent, or do not give back in time, are out. Method: time.
#[test]
fn timeouts() {
    let mut bench = Bench::new(eager());
    let t = bench.topic("t", 2);
    bench.enter("a", &["t"]);
    bench.enter("b", &["t"]);
    for _ in 0..9 {
        bench.stay("a", 2, &[(t, &[0, 1])]);
        bench.pass(5_000);
    }
    // `b` was silent for 45 s. The first keeps what it would not give back in any case.
    assert_eq!(bench.describe().members.len(), 1);
    bench.enter("b", &["t"]);
    for _ in 0..13 {
        bench.call(calling("b", bench_epoch(&bench)));
        bench.stay("a", 2, &[(t, &[0, 1])]);
        bench.pass(5_000);
    }
    let members = bench.describe().members;
    assert_eq!((members.len(), members[0].member_id.as_str()), (1, "b"));
}

fn bench_epoch(bench: &Bench) -> i32 {
    let epoch = |record: &GroupRecord| {
        let GroupRecord::ConsumerGroupCurrentMemberAssignment(key, Some(value)) = record else {
            return None;
        };
        (key.member_id == "b").then_some(value.member_epoch)
    };
    bench.log.iter().rev().find_map(epoch).unwrap()
}

// Goal: static members keep their place while they are away, and nobody takes it from them. Method: leave for a while,
// come back, be impersonated.
#[test]
fn static_members() {
    let named = |member_id: &str, epoch: i32| ConsumerGroupHeartbeat {
        instance_id: Some("one".into()),
        ..calling(member_id, epoch)
    };
    let enter = |member_id: &str| ConsumerGroupHeartbeat {
        instance_id: Some("one".into()),
        ..entering(member_id, &["t"])
    };
    let mut bench = Bench::new(eager());
    let t = bench.topic("t", 2);
    assert_eq!(bench.call(enter("a")).member_epoch, 2);
    assert_eq!(
        bench.call(enter("b")).error,
        ErrorCode::UnreleasedInstanceId
    );
    assert_eq!(bench.call(named("b", 2)).error, ErrorCode::FencedInstanceId);
    assert_eq!(bench.call(named("a", -2)).member_epoch, -2);
    // What it held is nobody else's meanwhile.
    let other = bench.enter("c", &["t"]);
    assert_eq!(other.assignment, Some(Vec::new()));
    let back = bench.call(enter("b"));
    assert_eq!(back.error, ErrorCode::None);
    assert_eq!(back.assignment.map(|all| all[0].partitions.len()), Some(1));
    assert_eq!(bench.call(named("a", 2)).error, ErrorCode::FencedInstanceId);
    let held = bench.call(calling("c", other.member_epoch)).assignment;
    assert_eq!(
        held.map(|all| (all[0].topic_id, all[0].partitions.len())),
        Some((t, 1))
    );
    // For good.
    assert_eq!(bench.call(named("b", -1)).member_epoch, -1);
    assert_eq!(bench.describe().members.len(), 1);
}

// Goal: a pattern stands for the topics that match, also for those that come later. Method: topics before and after.
#[test]
fn patterns() {
    let mut bench = Bench::new(eager());
    let t = bench.topic("t1", 1);
    bench.topic("u", 1);
    let reply = bench.call(ConsumerGroupHeartbeat {
        subscribed_topic_names: None,
        subscribed_topic_regex: Some("t.*".into()),
        ..entering("a", &[])
    });
    assert_eq!(reply.assignment, Some(partitions(&[(t, &[0])])));
    let later = bench.topic("t2", 1);
    assert_eq!(
        bench.call(calling("a", reply.member_epoch)).assignment,
        None
    );
    bench.pass(10_001);
    let reply = bench.call(calling("a", reply.member_epoch));
    assert_eq!(
        reply.assignment,
        Some(partitions(&[(t, &[0]), (later, &[0])]))
    );
    let log = bench.shard.to_records();
    bench.restart();
    assert_eq!(bench.shard.to_records(), log);
    // Without the pattern nothing is left of it.
    let mut request = calling("a", reply.member_epoch);
    request.subscribed_topic_regex = Some("".into());
    request.subscribed_topic_names = Some(vec!["u".into()]);
    request.owned = Some(partitions(&[(t, &[0]), (later, &[0])]));
    bench.call(request);
    assert!(bench.describe().members[0].subscribed_topic_regex.is_none());
}

// Goal: a topic that grows, comes or goes is noticed with the next heartbeat. Method: a topic that comes late.
#[test]
fn topics_that_come() {
    let mut bench = Bench::new(eager());
    let reply = bench.enter("a", &["t"]);
    assert_eq!(reply.assignment, Some(Vec::new()));
    let t = bench.topic("t", 2);
    let reply = bench.call(calling("a", reply.member_epoch));
    assert_eq!(reply.assignment, Some(partitions(&[(t, &[0, 1])])));
}

// Goal: targets are not computed more often than the interval says, and not later either. Method: Kafka's second.
#[test]
fn assignment_interval() {
    let mut bench = Bench::new(config());
    let t = bench.topic("t", 2);
    assert_eq!(
        bench.enter("a", &["t"]).assignment,
        Some(partitions(&[(t, &[0, 1])]))
    );
    bench.pass(500);
    let second = bench.enter("b", &["t"]);
    assert_eq!(
        (second.member_epoch, bench.describe().assignment_epoch),
        (2, 2)
    );
    assert_eq!(bench.describe().state, "Assigning");
    bench.pass(600);
    assert_eq!(bench.describe().assignment_epoch, 3);
}

// Goal: `group.consumer.max.size` and both assignors hold. Method: one too many; range asked for by most.
#[test]
fn size_and_assignor() {
    let mut bounded = eager();
    bounded.consumer.max_size = 1;
    let mut bench = Bench::new(bounded);
    bench.topic("t", 2);
    bench.enter("a", &["t"]);
    assert_eq!(
        bench.call(entering("b", &["t"])).error,
        ErrorCode::GroupMaxSizeReached
    );
    assert_eq!(bench.call(calling("a", 2)).error, ErrorCode::None);

    let mut bench = Bench::new(eager());
    bench.topic("t", 2);
    assert_eq!(bench.enter("a", &["t"]).member_epoch, 2);
    assert_eq!(bench.describe().assignor, "uniform");
    bench.call(ConsumerGroupHeartbeat {
        server_assignor: Some("range".into()),
        ..entering("b", &["t"])
    });
    assert_eq!(bench.describe().assignor, "range");
}

// Goal: who may commit and read offsets in a consumer group. Method: rows of member and epoch.
#[test]
fn offsets() {
    let mut bench = Bench::new(eager());
    let t = bench.topic("t", 2);
    bench.enter("a", &["t"]);
    let check = |bench: &mut Bench, member_id: &str, epoch: i32, error: ErrorCode| {
        let mut request = commit(member_id, epoch, 5);
        request.topics[0].topic_id = t;
        assert_eq!(bench.commit(request), [error]);
    };
    check(&mut bench, "a", 2, ErrorCode::None);
    check(&mut bench, "a", 3, ErrorCode::StaleMemberEpoch);
    check(&mut bench, "a", 1, ErrorCode::StaleMemberEpoch);
    check(&mut bench, "b", 2, ErrorCode::UnknownMemberId);
    check(&mut bench, "", -1, ErrorCode::UnknownMemberId);
    let old = OffsetCommit {
        knows_stale_epochs: false,
        ..commit("a", 2, 5)
    };
    assert_eq!(bench.commit(old), [ErrorCode::UnsupportedVersion]);
    // One epoch behind, for what it has held all along (KIP-1251).
    let mut request = calling("a", 2);
    request.subscribed_topic_names = Some(vec!["t".into(), "u".into()]);
    assert_eq!(bench.call(request).member_epoch, 3);
    check(&mut bench, "a", 2, ErrorCode::None);
    let fetch = |bench: &mut Bench, member_id: Option<&str>, member_epoch: i32| {
        let fetch = OffsetFetch {
            group_id: group(),
            member_id: member_id.map(Str::from),
            member_epoch,
            topics: None,
            require_stable: false,
        };
        let Reply::OffsetFetch(reply) = bench.ask(Command::OffsetFetch(fetch)) else {
            panic!("an answer to another request");
        };
        reply.error
    };
    assert_eq!(fetch(&mut bench, None, -1), ErrorCode::None);
    assert_eq!(fetch(&mut bench, Some("a"), 3), ErrorCode::None);
    assert_eq!(fetch(&mut bench, Some("a"), 2), ErrorCode::StaleMemberEpoch);
    assert_eq!(fetch(&mut bench, Some("b"), 3), ErrorCode::UnknownMemberId);
    bench.call(calling("a", -1));
    check(&mut bench, "", -1, ErrorCode::None);
}

// Goal: tools see consumer groups for what they are. Method: list, and describe by both APIs.
#[test]
fn tools() {
    let mut bench = Bench::new(eager());
    bench.topic("t", 1);
    bench.enter("a", &["t"]);
    let Reply::ListGroups(Ok(groups)) = bench.ask(Command::ListGroups(ListGroups::default()))
    else {
        panic!("an answer to another request");
    };
    assert_eq!(
        (groups[0].state, groups[0].group_type),
        ("Stable", "consumer")
    );
    assert_eq!(groups[0].protocol_type, "consumer");
    let describe = DescribeGroups {
        group_ids: vec![group()],
        knows_group_id_not_found: true,
    };
    let Reply::DescribeGroups(groups) = bench.ask(Command::DescribeGroups(describe)) else {
        panic!("an answer to another request");
    };
    assert_eq!(
        (groups[0].error, groups[0].state),
        (ErrorCode::GroupIdNotFound, "Dead")
    );
    let described = bench.describe();
    assert_eq!(
        described.members[0].assignment,
        described.members[0].target_assignment
    );
    assert_eq!(described.members[0].assignment[0].topic_name, "t");
    bench.call(calling("a", -1));
    assert_eq!(bench.describe().state, "Empty");
    bench.pass(600_000);
    assert_eq!(bench.describe().error, ErrorCode::GroupIdNotFound);
    bench.restart();
    assert_eq!(bench.shard.group_count(), 0);
}

/// A consumer's subscription with what it holds (version 1).
fn classic_subscription(topics: &[&str], owned: &[(&str, &[i32])]) -> Protocol {
    let mut bytes = vec![0, 1];
    let string = |bytes: &mut Vec<u8>, text: &str| {
        bytes.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
        bytes.extend(text.as_bytes());
    };
    bytes.extend(u32::try_from(topics.len()).unwrap().to_be_bytes());
    for topic in topics {
        string(&mut bytes, topic);
    }
    // What cooperative-sticky tells itself: a generation.
    bytes.extend([0, 0, 0, 4, 0, 0, 0, 1]);
    bytes.extend(u32::try_from(owned.len()).unwrap().to_be_bytes());
    for (topic, partitions) in owned {
        string(&mut bytes, topic);
        bytes.extend(u32::try_from(partitions.len()).unwrap().to_be_bytes());
        for partition in *partitions {
            bytes.extend(partition.to_be_bytes());
        }
    }
    Protocol {
        name: "range".into(),
        metadata: bytes.into(),
    }
}

/// An assignment as consumers read it.
fn classic_assignment(topic: &str, partitions: &[i32]) -> Vec<u8> {
    let mut bytes = vec![0, 1, 0, 0, 0, 1];
    bytes.extend(u16::try_from(topic.len()).unwrap().to_be_bytes());
    bytes.extend(topic.as_bytes());
    bytes.extend(u32::try_from(partitions.len()).unwrap().to_be_bytes());
    for partition in partitions {
        bytes.extend(partition.to_be_bytes());
    }
    bytes.extend([0xff; 4]);
    bytes
}

fn classic_join(member_id: &str, owned: &[(&str, &[i32])]) -> JoinGroup {
    JoinGroup {
        protocols: vec![classic_subscription(&["t"], owned)],
        ..join(member_id)
    }
}

/// A classic group of one member that holds `t`-0 and `t`-1.
fn classic_group(bench: &mut Bench) -> Str {
    let token = bench.send(Command::JoinGroup(classic_join("", &[])));
    let id = bench.joined(token).member_id;
    let token = bench.send(Command::JoinGroup(classic_join(&id, &[])));
    bench.pass(0);
    assert_eq!(bench.joined(token).generation_id, 1);
    let all = vec![(id.clone(), classic_assignment("t", &[0, 1]).into())];
    let token = bench.send(Command::SyncGroup(sync(&id, 1, all)));
    assert_eq!(bench.synced(token).error, ErrorCode::None);
    id
}

// Goal: a running classic group becomes a consumer group and back, and nobody holds what another does. Method: a member of
// the new protocol joins, the old one follows by its own protocol, the new one leaves.
#[test]
fn migration_up_and_down() {
    let mut bench = Bench::new(eager());
    let t = bench.topic("t", 2);
    let old = classic_group(&mut bench);
    bench.commit(commit(&old, 1, 42));
    let new = bench.enter("new", &["t"]);
    assert_eq!((new.member_epoch, new.assignment), (2, Some(Vec::new())));
    let described = bench.describe();
    assert_eq!(
        described
            .members
            .iter()
            .map(|one| one.member_type)
            .collect::<Vec<_>>(),
        [0, 1]
    );
    let log = bench.shard.to_records();
    bench.restart();
    assert_eq!(bench.shard.to_records(), log);
    // The old one is told to rejoin, says what it holds, and is given less.
    assert_eq!(bench.heartbeat(&old, 1), ErrorCode::RebalanceInProgress);
    let token = bench.send(Command::JoinGroup(classic_join(&old, &[("t", &[0, 1])])));
    let joined = bench.joined(token);
    assert_eq!((joined.error, joined.generation_id), (ErrorCode::None, 1));
    let token = bench.send(Command::SyncGroup(sync(&old, 1, Vec::new())));
    let synced = bench.synced(token);
    assert_eq!(synced.error, ErrorCode::None);
    assert!(
        [classic_assignment("t", &[0]), classic_assignment("t", &[1])]
            .contains(&synced.assignment.to_vec())
    );
    let kept: i32 = if synced.assignment == classic_assignment("t", &[0]) {
        0
    } else {
        1
    };
    // It gives the other back, and comes to the new epoch.
    assert_eq!(bench.heartbeat(&old, 1), ErrorCode::RebalanceInProgress);
    let token = bench.send(Command::JoinGroup(classic_join(&old, &[("t", &[kept])])));
    assert_eq!(bench.joined(token).generation_id, 2);
    let token = bench.send(Command::SyncGroup(sync(&old, 2, Vec::new())));
    assert_eq!(
        bench.synced(token).assignment,
        classic_assignment("t", &[kept])
    );
    assert_eq!(bench.heartbeat(&old, 2), ErrorCode::None);
    let new = bench.call(calling("new", 2));
    assert_eq!(new.assignment, Some(partitions(&[(t, &[1 - kept])])));
    assert_eq!(bench.describe().state, "Stable");
    // The last of the new protocol goes: a classic group again, in a rebalance.
    bench.call(calling("new", -1));
    assert_eq!(bench.state(), "PreparingRebalance");
    assert_eq!(bench.heartbeat(&old, 2), ErrorCode::RebalanceInProgress);
    let token = bench.send(Command::JoinGroup(classic_join(&old, &[])));
    let joined = bench.joined(token);
    assert_eq!((joined.error, joined.members.len()), (ErrorCode::None, 1));
    assert_eq!(bench.offset(), 42);
    let log = bench.shard.to_records();
    bench.restart();
    assert_eq!(bench.shard.to_records(), log);
}

// Goal: migration happens only where the policy and the members allow it. Method: rows.
#[test]
fn migration_refused() {
    let mut off = eager();
    off.consumer.upgrade = false;
    let mut bench = Bench::new(off);
    bench.topic("t", 2);
    let old = classic_group(&mut bench);
    assert_eq!(
        bench.call(entering("new", &["t"])).error,
        ErrorCode::GroupIdNotFound
    );
    assert_eq!(bench.heartbeat(&old, 1), ErrorCode::None);
    // An assignment that is none.
    let mut bench = Bench::new(eager());
    let old = bench.stable(1).remove(0);
    assert_eq!(
        bench.call(entering("new", &["t"])).error,
        ErrorCode::GroupIdNotFound
    );
    assert_eq!(bench.heartbeat(&old, 1), ErrorCode::None);
    assert_eq!(bench.describe().error, ErrorCode::GroupIdNotFound);
}

// Goal: groups without members change their kind freely, and keep their offsets. Method: both ways.
#[test]
fn empty_groups_change_freely() {
    let mut bench = Bench::new(eager());
    bench.topic("t", 2);
    let old = classic_group(&mut bench);
    bench.commit(commit(&old, 1, 42));
    bench.leave(&[(&old, None)]);
    assert_eq!(bench.enter("a", &["t"]).member_epoch, 2);
    assert_eq!(bench.offset(), 42);
    bench.call(calling("a", -1));
    let log = bench.shard.to_records();
    bench.restart();
    assert_eq!(bench.shard.to_records(), log);
    classic_group(&mut bench);
    assert_eq!((bench.state(), bench.offset()), ("Stable", 42));
    bench.restart();
    assert_eq!((bench.state(), bench.offset()), ("Stable", 42));
}

/// What all members may hold: nothing twice.
pub(crate) fn all_held(bench: &mut Bench) -> BTreeSet<(TopicId, i32)> {
    let mut all = BTreeSet::new();
    for member in bench.describe().members {
        for topic in member.assignment {
            for partition in topic.partitions {
                assert!(all.insert((topic.topic_id, partition)), "held twice");
            }
        }
    }
    all
}
