//! JoinGroup, SyncGroup, Heartbeat and LeaveGroup, row by row: what Kafka answers to what, in which state.

use pelton_machine::group::{Command, JoinGroup, Protocol};
use pelton_model::config::group::GroupConfig;
use pelton_model::{ErrorCode, Str};

use crate::harness::{Bench, assignment, config, join, protocol, static_join, sync};

// Goal: what is wrong with a JoinGroup is told before a group is made. Method: one wrong thing at a time.
#[test]
fn refused_joins() {
    #[track_caller]
    fn check(change: impl Fn(&mut JoinGroup), error: ErrorCode) {
        let mut bench = Bench::new(config());
        let mut wrong = join("");
        change(&mut wrong);
        let token = bench.send(Command::JoinGroup(wrong));
        assert_eq!(bench.joined(token).error, error);
        assert_eq!(bench.shard.group_count(), 0);
        assert_eq!(bench.log, []);
    }
    check(|join| join.group_id = "".into(), ErrorCode::InvalidGroupId);
    check(
        |join| join.session_timeout_ms = 5_999,
        ErrorCode::InvalidSessionTimeout,
    );
    check(
        |join| join.session_timeout_ms = 1_800_001,
        ErrorCode::InvalidSessionTimeout,
    );
    check(
        |join| join.member_id = "nobody".into(),
        ErrorCode::UnknownMemberId,
    );
    check(
        |join| join.protocol_type = "".into(),
        ErrorCode::InconsistentGroupProtocol,
    );
    check(
        |join| join.protocols.clear(),
        ErrorCode::InconsistentGroupProtocol,
    );
    check(
        |join| join.protocols[0].metadata = vec![0; 5 * 1024 * 1024].into(),
        ErrorCode::GroupMaxSizeReached,
    );
}

// Goal: a new dynamic member is sent back for an id, an old client's is not (KIP-394). Method: both.
#[test]
fn member_ids() {
    let mut bench = Bench::new(config());
    let (id, token) = bench.join_new();
    assert!(id.starts_with("client-"), "{id}");
    assert_eq!(id.len(), "client-".len() + 36);
    bench.pass(0);
    let reply = bench.joined(token);
    assert_eq!((reply.member_id, reply.generation_id), (id, 1));

    let mut bench = Bench::new(config());
    let token = bench.send(Command::JoinGroup(JoinGroup {
        requires_member_id: false,
        ..join("")
    }));
    bench.pass(0);
    assert_eq!(bench.joined(token).error, ErrorCode::None);
}

// Goal: the first member leads, and the leader alone learns of the members. Method: two members of one generation.
#[test]
fn only_the_leader_sees_members() {
    let mut bench = Bench::new(config());
    let ids = bench.stable(2);
    assert_eq!(bench.state(), "Stable");
    // The leader first: a follower that says nothing new is told of the generation there is.
    let leader = bench.send(Command::JoinGroup(join(&ids[0])));
    let follower = bench.send(Command::JoinGroup(join(&ids[1])));
    let (leader, follower) = (bench.joined(leader), bench.joined(follower));
    assert_eq!((leader.generation_id, follower.generation_id), (2, 2));
    assert_eq!(leader.leader, ids[0]);
    assert_eq!(follower.leader, ids[0]);
    assert_eq!(leader.members.len(), 2);
    assert_eq!(follower.members, []);
    assert_eq!(leader.protocol_name, Some("range".into()));
}

// Goal: followers wait for the leader's assignment, and get their own. Method: the leader asks last.
#[test]
fn followers_wait_for_the_leader() {
    let mut bench = Bench::new(config());
    let ids = bench.stable(3);
    let tokens: Vec<_> = ids
        .iter()
        .map(|id| bench.send(Command::JoinGroup(join(id))))
        .collect();
    for token in tokens {
        assert_eq!(bench.joined(token).generation_id, 2);
    }
    // Until the next assignment comes, tools are shown the last one.
    let described = bench.described();
    assert_eq!(described.state, "CompletingRebalance");
    for member in described.members {
        assert_eq!(member.assignment, assignment(&member.member_id));
    }
    let follower = bench.send(Command::SyncGroup(sync(&ids[1], 2, Vec::new())));
    assert_eq!(bench.answer(follower), None);
    let all = ids.iter().map(|id| (id.clone(), assignment(id))).collect();
    let leader = bench.send(Command::SyncGroup(sync(&ids[0], 2, all)));
    assert_eq!(bench.synced(leader).assignment, assignment(&ids[0]));
    assert_eq!(bench.synced(follower).assignment, assignment(&ids[1]));
    // Who comes late is answered at once.
    let late = bench.send(Command::SyncGroup(sync(&ids[2], 2, Vec::new())));
    assert_eq!(bench.synced(late).assignment, assignment(&ids[2]));
    assert_eq!(bench.state(), "Stable");
}

// Goal: SyncGroup and Heartbeat are refused with Kafka's codes. Method: a stable group, one wrong thing at a time.
#[test]
fn refused_syncs_and_heartbeats() {
    let mut bench = Bench::new(config());
    let id = bench.stable(1).remove(0);
    let mut check = |sync, error| {
        let token = bench.send(Command::SyncGroup(sync));
        assert_eq!(bench.synced(token).error, error);
    };
    let good = || sync(&id, 1, Vec::new());
    check(good(), ErrorCode::None);
    let mut wrong = good();
    wrong.group_id = "".into();
    check(wrong, ErrorCode::InvalidGroupId);
    let mut wrong = good();
    wrong.group_id = "other".into();
    check(wrong, ErrorCode::UnknownMemberId);
    let mut wrong = good();
    wrong.member_id = "nobody".into();
    check(wrong, ErrorCode::UnknownMemberId);
    let mut wrong = good();
    wrong.generation_id = 0;
    check(wrong, ErrorCode::IllegalGeneration);
    let mut wrong = good();
    wrong.protocol_name = Some("sticky".into());
    check(wrong, ErrorCode::InconsistentGroupProtocol);
    let mut wrong = good();
    wrong.protocol_type = Some("connect".into());
    check(wrong, ErrorCode::InconsistentGroupProtocol);
    let mut wrong = good();
    wrong.group_instance_id = Some("nobody".into());
    check(wrong, ErrorCode::UnknownMemberId);

    assert_eq!(bench.heartbeat(&id, 1), ErrorCode::None);
    assert_eq!(bench.heartbeat(&id, 2), ErrorCode::IllegalGeneration);
    assert_eq!(bench.heartbeat("nobody", 1), ErrorCode::UnknownMemberId);
    bench.join_new();
    assert_eq!(bench.state(), "PreparingRebalance");
    assert_eq!(bench.heartbeat(&id, 1), ErrorCode::RebalanceInProgress);
    let token = bench.send(Command::SyncGroup(sync(&id, 1, Vec::new())));
    assert_eq!(bench.synced(token).error, ErrorCode::RebalanceInProgress);
}

// Goal: a protocol that all know is chosen, by votes; who knows none of them is turned away. Method: three members.
#[test]
fn protocols_are_voted_for() {
    let with = |id: &str, names: &[&str]| JoinGroup {
        protocols: names.iter().map(|name| protocol(name)).collect(),
        requires_member_id: false,
        ..join(id)
    };
    let mut bench = Bench::new(GroupConfig {
        initial_rebalance_delay_ms: 100,
        ..config()
    });
    let a = bench.send(Command::JoinGroup(with("", &["range", "sticky", "other"])));
    let b = bench.send(Command::JoinGroup(with("", &["sticky", "range"])));
    let c = bench.send(Command::JoinGroup(with("", &["sticky", "range"])));
    let d = bench.send(Command::JoinGroup(with("", &["other"])));
    assert_eq!(bench.joined(d).error, ErrorCode::InconsistentGroupProtocol);
    let e = bench.send(Command::JoinGroup(JoinGroup {
        protocol_type: "connect".into(),
        ..with("", &["range"])
    }));
    assert_eq!(bench.joined(e).error, ErrorCode::InconsistentGroupProtocol);
    bench.pass(200);
    for token in [a, b, c] {
        assert_eq!(bench.joined(token).protocol_name, Some("sticky".into()));
    }
}

// Goal: a rejoin means what Kafka takes it for. Method: leader and follower, same and other subscription, by state.
#[test]
fn rejoins() {
    let mut bench = Bench::new(config());
    let ids = bench.stable(2);
    // A follower that says nothing new is told the generation again.
    let token = bench.send(Command::JoinGroup(join(&ids[1])));
    assert_eq!(bench.joined(token).generation_id, 1);
    assert_eq!(bench.state(), "Stable");
    // One that wants something else makes a rebalance.
    let other = JoinGroup {
        protocols: vec![Protocol {
            metadata: vec![1, 2, 3].into(),
            ..protocol("range")
        }],
        ..join(&ids[1])
    };
    let follower = bench.send(Command::JoinGroup(other.clone()));
    assert_eq!(bench.answer(follower), None);
    assert_eq!(bench.state(), "PreparingRebalance");
    let leader = bench.send(Command::JoinGroup(join(&ids[0])));
    assert_eq!(bench.joined(follower).generation_id, 2);
    assert_eq!(bench.joined(leader).members.len(), 2);
    // The answer was lost: the same request again gets it again.
    assert_eq!(bench.state(), "CompletingRebalance");
    let again = bench.send(Command::JoinGroup(join(&ids[0])));
    assert_eq!(bench.joined(again).members.len(), 2);
    let again = bench.send(Command::JoinGroup(other));
    assert_eq!(bench.joined(again).generation_id, 2);
    // Something new instead begins a rebalance, and whoever waits for an assignment joins again.
    let waiting = bench.send(Command::SyncGroup(sync(&ids[1], 2, Vec::new())));
    let changed = JoinGroup {
        protocols: vec![protocol("range"), protocol("more")],
        ..join(&ids[0])
    };
    bench.send(Command::JoinGroup(changed));
    assert_eq!(bench.synced(waiting).error, ErrorCode::RebalanceInProgress);
    assert_eq!(bench.state(), "PreparingRebalance");
}

// Goal: static members keep their place (KIP-345, KIP-814). Method: rejoin by name, with a new and with the old id.
#[test]
fn static_members() {
    let mut bench = Bench::new(config());
    let token = bench.send(Command::JoinGroup(static_join("", "one")));
    bench.pass(0);
    let first = bench.joined(token);
    let old = first.member_id;
    assert!(old.starts_with("one-"), "{old}");
    let mut assign = sync(&old, 1, vec![(old.clone(), assignment("one"))]);
    assign.group_instance_id = Some("one".into());
    let token = bench.send(Command::SyncGroup(assign));
    assert_eq!(bench.synced(token).error, ErrorCode::None);

    // It restarts: the same place under a new id, without a rebalance, and its assignment stands.
    let token = bench.send(Command::JoinGroup(static_join("", "one")));
    let back = bench.joined(token);
    assert_eq!((back.error, back.generation_id), (ErrorCode::None, 1));
    assert!(back.skip_assignment);
    assert_eq!((&back.leader, back.members.len()), (&back.member_id, 1));
    assert_ne!(back.member_id, old);
    let token = bench.send(Command::SyncGroup(sync(&back.member_id, 1, Vec::new())));
    assert_eq!(bench.synced(token).assignment, assignment("one"));

    // Its former self is fenced, whatever it tries.
    assert_eq!(bench.heartbeat(&old, 1), ErrorCode::UnknownMemberId);
    let token = bench.send(Command::JoinGroup(static_join(&old, "one")));
    assert_eq!(bench.joined(token).error, ErrorCode::FencedInstanceId);
    let mut fenced = sync(&old, 1, Vec::new());
    fenced.group_instance_id = Some("one".into());
    let token = bench.send(Command::SyncGroup(fenced));
    assert_eq!(bench.synced(token).error, ErrorCode::FencedInstanceId);

    // An older client is told that its former self leads, so that it does not assign.
    let token = bench.send(Command::JoinGroup(JoinGroup {
        skips_assignment: false,
        ..static_join("", "one")
    }));
    let older = bench.joined(token);
    assert_eq!(older.leader, back.member_id);
    assert!(!older.skip_assignment);
    assert_eq!(older.members, []);
    // All this survives a restart.
    bench.restart();
    assert_eq!(bench.heartbeat(&older.member_id, 1), ErrorCode::None);
}

// Goal: members that leave are out, each with its own code. Method: known, unknown, fenced, pending, by name.
#[test]
fn leaving() {
    let mut bench = Bench::new(GroupConfig {
        initial_rebalance_delay_ms: 100,
        ..config()
    });
    let named = bench.send(Command::JoinGroup(static_join("", "one")));
    let (dynamic, token) = bench.join_new();
    bench.pass(200);
    let named = bench.joined(named).member_id;
    assert_eq!(bench.joined(token).generation_id, 1);
    let pending = bench.send(Command::JoinGroup(join("")));
    let pending = bench.joined(pending).member_id;
    let outcomes = bench.leave(&[
        ("nobody", None),
        ("nobody", Some("one")),
        ("", Some("two")),
        ("", None),
        (&pending, None),
        ("", Some("one")),
        (&named, None),
        (&dynamic, None),
    ]);
    let codes: Vec<ErrorCode> = outcomes.iter().map(|outcome| outcome.error).collect();
    assert_eq!(
        codes,
        [
            ErrorCode::UnknownMemberId,
            ErrorCode::FencedInstanceId,
            ErrorCode::UnknownMemberId,
            ErrorCode::UnknownMemberId,
            ErrorCode::None,
            ErrorCode::None,
            ErrorCode::UnknownMemberId,
            ErrorCode::None,
        ]
    );
    assert_eq!(bench.state(), "Empty");
    bench.restart();
    assert_eq!(bench.state(), "Empty");
}

// Goal: `group.max.size` holds in every state. Method: one too many.
#[test]
fn full_groups() {
    let mut bench = Bench::new(GroupConfig {
        max_size: 1,
        initial_rebalance_delay_ms: 100,
        ..config()
    });
    let (id, first) = bench.join_new();
    let check = |bench: &mut Bench| {
        let token = bench.send(Command::JoinGroup(join("")));
        let reply = bench.joined(token);
        assert_eq!(reply.error, ErrorCode::GroupMaxSizeReached);
        assert_eq!(reply.member_id, Str::default());
    };
    check(&mut bench);
    bench.pass(100);
    assert_eq!(bench.joined(first).error, ErrorCode::None);
    check(&mut bench);
    let token = bench.send(Command::SyncGroup(sync(&id, 1, Vec::new())));
    assert_eq!(bench.synced(token).error, ErrorCode::None);
    check(&mut bench);
    let token = bench.send(Command::JoinGroup(join(&id)));
    assert_eq!(bench.joined(token).generation_id, 2);
}

// Goal: with a smaller maximum than members, those that rejoin first stay. Method: restart with a maximum of one.
#[test]
fn groups_that_have_become_too_large_shrink() {
    let mut bench = Bench::new(config());
    let ids = bench.stable(3);
    bench.config.max_size = 1;
    bench.restart();
    assert_eq!(bench.state(), "PreparingRebalance");
    let first = bench.send(Command::JoinGroup(join(&ids[2])));
    for id in &ids[..2] {
        let token = bench.send(Command::JoinGroup(join(id)));
        assert_eq!(bench.joined(token).error, ErrorCode::GroupMaxSizeReached);
    }
    assert_eq!(bench.joined(first).members.len(), 1);
}
