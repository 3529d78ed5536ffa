//! What time does to a classic group: delays, sessions, rebalances that wait, restarts.

use pelton_machine::group::{Command, GroupShard, JoinGroup, Reply};
use pelton_model::ErrorCode;
use pelton_model::config::group::GroupConfig;

use crate::harness::{Bench, commit, config, join, static_join, sync};

// Goal: the first rebalance of an empty group waits, longer with each that comes, at most the rebalance timeout; and so
// does the next after the group was empty again. Method: members at known times, Kafka's 3 s.
#[test]
fn initial_rebalance_delay() {
    let mut bench = Bench::new(GroupConfig {
        initial_rebalance_delay_ms: 3_000,
        ..config()
    });
    for _ in 0..2 {
        let (first_id, first) = bench.join_new();
        bench.pass(2_000);
        let (second_id, second) = bench.join_new();
        bench.pass(1_500);
        let (third_id, third) = bench.join_new();
        bench.pass(2_400);
        assert_eq!(bench.answer(first), None);
        // At 6 s the second wait ends with a new member, at 9 s the third without one.
        bench.pass(3_200);
        let generation = bench.joined(first).generation_id;
        assert_eq!(bench.joined(second).generation_id, generation);
        assert_eq!(bench.joined(third).generation_id, generation);
        let left = bench.leave(&[(&first_id, None), (&second_id, None), (&third_id, None)]);
        assert!(left.iter().all(|left| left.error == ErrorCode::None));
        assert_eq!(bench.state(), "Empty");
    }
    // Members that keep coming do not hold it up for ever.
    let first = bench.send(Command::JoinGroup(JoinGroup {
        rebalance_timeout_ms: 7_000,
        requires_member_id: false,
        ..join("")
    }));
    for _ in 0..7 {
        bench.send(Command::JoinGroup(JoinGroup {
            rebalance_timeout_ms: 7_000,
            requires_member_id: false,
            ..join("")
        }));
        bench.pass(1_000);
    }
    assert_eq!(bench.joined(first).members.len(), 8);
}

// Goal: a silent member is out after its session timeout, and one that calls is not. Method: two members, one silent.
#[test]
fn sessions_end() {
    let mut bench = Bench::new(config());
    let ids = bench.stable(2);
    for _ in 0..3 {
        bench.pass(6_000);
        if bench.heartbeat(&ids[0], 1) == ErrorCode::RebalanceInProgress {
            break;
        }
    }
    assert_eq!(bench.state(), "PreparingRebalance");
    assert_eq!(bench.heartbeat(&ids[1], 1), ErrorCode::UnknownMemberId);
    let token = bench.send(Command::JoinGroup(join(&ids[0])));
    assert_eq!(bench.joined(token).generation_id, 2);
}

// Goal: a commit keeps its member alive as a heartbeat does. Method: commits alone.
#[test]
fn commits_keep_members_alive() {
    let mut bench = Bench::new(config());
    let id = bench.stable(1).remove(0);
    for offset in 0..5 {
        bench.pass(9_000);
        assert_eq!(bench.commit(commit(&id, 1, offset)), [ErrorCode::None]);
    }
    assert_eq!(bench.state(), "Stable");
}

// Goal: a rebalance ends without those that do not rejoin. Method: one of two calls and never rejoins.
#[test]
fn rebalances_end_without_those_that_do_not_join() {
    let mut bench = Bench::new(config());
    let ids = bench.stable(2);
    let token = bench.send(Command::JoinGroup(join(&ids[0])));
    for _ in 0..9 {
        bench.pass(6_000);
        assert_eq!(bench.answer(token), None);
        assert_eq!(bench.heartbeat(&ids[1], 1), ErrorCode::RebalanceInProgress);
    }
    bench.pass(6_000);
    let reply = bench.joined(token);
    assert_eq!((reply.generation_id, reply.members.len()), (2, 1));
    assert_eq!(bench.heartbeat(&ids[1], 2), ErrorCode::UnknownMemberId);
}

// Goal: members that never ask for their assignment are out after the rebalance timeout. Method: a leader that joins
// and then only calls.
#[test]
fn members_that_never_sync_are_out() {
    let mut bench = Bench::new(config());
    let ids = bench.stable(2);
    let tokens: Vec<_> = ids
        .iter()
        .map(|id| bench.send(Command::JoinGroup(join(id))))
        .collect();
    for token in tokens {
        bench.joined(token);
    }
    let waiting = bench.send(Command::SyncGroup(sync(&ids[1], 2, Vec::new())));
    for _ in 0..10 {
        assert_eq!(bench.heartbeat(&ids[0], 2), ErrorCode::None);
        bench.pass(6_000);
    }
    assert_eq!(bench.synced(waiting).error, ErrorCode::RebalanceInProgress);
    let token = bench.send(Command::JoinGroup(join(&ids[1])));
    let reply = bench.joined(token);
    assert_eq!((reply.generation_id, reply.leader), (3, ids[1].clone()));
}

// Goal: a member that was sent back for its id and does not come holds nobody up for longer than its session. Method:
// it never comes.
#[test]
fn pending_members_expire() {
    let mut bench = Bench::new(config());
    let ids = bench.stable(2);
    let pending = bench.send(Command::JoinGroup(join("")));
    let pending = bench.joined(pending).member_id;
    let tokens: Vec<_> = ids
        .iter()
        .map(|id| bench.send(Command::JoinGroup(join(id))))
        .collect();
    assert_eq!(bench.answer(tokens[0]), None);
    bench.pass(10_000);
    for token in tokens {
        assert_eq!(bench.joined(token).generation_id, 2);
    }
    let late = bench.send(Command::JoinGroup(join(&pending)));
    assert_eq!(bench.joined(late).error, ErrorCode::UnknownMemberId);
}

// Goal: a static member that is away comes back to its place within its session, and loses it after. Method: both.
#[test]
fn static_members_that_are_away() {
    let mut bench = Bench::new(config());
    let token = bench.send(Command::JoinGroup(static_join("", "one")));
    bench.pass(0);
    let id = bench.joined(token).member_id;
    let token = bench.send(Command::SyncGroup(sync(&id, 1, Vec::new())));
    bench.synced(token);
    bench.pass(9_000);
    let token = bench.send(Command::JoinGroup(static_join("", "one")));
    assert_eq!(bench.joined(token).generation_id, 1);
    bench.pass(10_000);
    assert_eq!(bench.state(), "Empty");
    let token = bench.send(Command::JoinGroup(static_join("", "one")));
    bench.pass(0);
    assert_eq!(bench.joined(token).generation_id, 3);
}

// Goal: a rebalance in which only static members are left, none of which comes, ends with their sessions. Method: that.
#[test]
fn absent_static_members_hold_nobody_up_for_ever() {
    let mut bench = Bench::new(config());
    let token = bench.send(Command::JoinGroup(JoinGroup {
        session_timeout_ms: 100_000,
        ..static_join("", "one")
    }));
    bench.pass(0);
    let id = bench.joined(token).member_id;
    // Its SyncGroup never comes, so it is out after the rebalance timeout of 60 s.
    bench.pass(59_000);
    assert_eq!(bench.heartbeat(&id, 1), ErrorCode::None);
    bench.pass(2_000);
    assert_eq!(bench.state(), "Empty");
}

// Goal: a new member whose client gave up is out in the end. Method: it waits in a rebalance that cannot complete.
#[test]
fn new_members_do_not_wait_for_ever() {
    let mut bench = Bench::new(config());
    let token = bench.send(Command::JoinGroup(JoinGroup {
        rebalance_timeout_ms: 3_600_000,
        session_timeout_ms: 1_000_000,
        ..static_join("", "one")
    }));
    bench.pass(0);
    let id = bench.joined(token).member_id;
    let token = bench.send(Command::SyncGroup(sync(&id, 1, Vec::new())));
    bench.synced(token);
    let (_, waiting) = bench.join_new();
    bench.pass(300_000);
    assert_eq!(bench.joined(waiting).error, ErrorCode::UnknownMemberId);
}

// Goal: a restarted coordinator knows the last generation, and a dead member of it is out after its session. Method:
// restart a stable group, keep one of two alive.
#[test]
fn restarts() {
    let mut bench = Bench::new(config());
    let ids = bench.stable(2);
    let records = bench.shard.to_records();
    bench.restart();
    assert_eq!(bench.shard.to_records(), records);
    assert_eq!(bench.state(), "Stable");
    bench.pass(6_000);
    assert_eq!(bench.heartbeat(&ids[0], 1), ErrorCode::None);
    bench.pass(6_000);
    assert_eq!(bench.heartbeat(&ids[0], 1), ErrorCode::RebalanceInProgress);
    assert_eq!(bench.heartbeat(&ids[1], 1), ErrorCode::UnknownMemberId);
}

// Goal: whoever waits is answered when the coordinator goes. Method: a JoinGroup and a SyncGroup that wait.
#[test]
fn resigning_answers_all() {
    let mut bench = Bench::new(config());
    let ids = bench.stable(2);
    let join_token = bench.send(Command::JoinGroup(join(&ids[0])));
    let shard = std::mem::replace(&mut bench.shard, GroupShard::new(config()));
    let replies = shard.resign();
    let [(token, Reply::JoinGroup(reply))] = &replies[..] else {
        panic!("{replies:?}");
    };
    assert_eq!(
        (*token, reply.error),
        (join_token, ErrorCode::NotCoordinator)
    );
}
