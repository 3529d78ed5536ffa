//! Load on group coordinators, of any broker: commits, heartbeats, rebalances, and a group with many offsets to be loaded.
//!
//! ```text
//! group_load HOST:PORT PID commits CONNECTIONS OFFSETS SECONDS     commits of so many offsets each, one group and one request in flight a connection
//! group_load HOST:PORT PID heartbeats MEMBERS SECONDS              one group of so many members, each on its own connection, that join together: the broker needs an initial rebalance delay
//! group_load HOST:PORT PID rebalance FROM TO                       a stable group of FROM members grows to TO at once: until all are stable
//! group_load HOST:PORT PID rebalance-consumer FROM TO              the same in the consumer protocol (KIP-848): until all hold what is theirs
//! group_load HOST:PORT PID fill OFFSETS                            commits so many offsets (partitions of topic "fill", created when missing)
//! group_load HOST:PORT PID load OFFSETS                            after a restart: until all that `fill` committed can be fetched
//! ```
//!
//! Prints requests a second, CPU microseconds of the process PID for each, and latencies. Versions are those of kafkajs and librdkafka, so
//! that every broker of the last years can be asked.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pelton_protocol::codec::Str;
use pelton_protocol::message::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
};
use pelton_protocol::message::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use pelton_protocol::message::join_group::{
    JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse,
};
use pelton_protocol::message::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    OffsetCommitResponse,
};
use pelton_protocol::message::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse,
};
use pelton_protocol::message::sync_group::{
    SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse,
};
use pelton_tests::load::{Connection, argument, cpu_us, create_topic, report, us_since};

/// Partitions of the topic whose offsets are committed.
const PARTITIONS: i32 = 1_000;
/// How often members of a group that grows are heard of.
const HEARTBEAT: Duration = Duration::from_millis(100);

fn join(connection: &mut Connection, group: &Str, member_id: &Str) {
    let request = JoinGroupRequest {
        group_id: group.clone(),
        session_timeout_ms: 60_000,
        rebalance_timeout_ms: 60_000,
        member_id: member_id.clone(),
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".into(),
            metadata: Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        }],
        ..Default::default()
    };
    // Before version 4 a member gets its id while it joins.
    connection.send(3, &request);
}

/// The rest of a join: the assignment, from the leader for all.
fn sync(connection: &mut Connection, group: &Str) -> (Str, i32) {
    let joined: JoinGroupResponse = connection.receive(3);
    assert!(joined.error_code == 0, "joining: error {}", joined.error_code);
    let assign = |member_id: &Str| SyncGroupRequestAssignment {
        member_id: member_id.clone(),
        assignment: Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    };
    let request = SyncGroupRequest {
        group_id: group.clone(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        assignments: joined.members.iter().map(|member| assign(&member.member_id)).collect(),
        ..Default::default()
    };
    connection.send(2, &request);
    (joined.member_id, joined.generation_id)
}

fn commit(group: &Str, first: i32, count: i32, offset: i64) -> OffsetCommitRequest {
    let partitions = (first..first + count).map(|partition_index| OffsetCommitRequestPartition {
        partition_index,
        committed_offset: offset,
        committed_leader_epoch: -1,
        committed_metadata: Some(Str::default()),
    });
    OffsetCommitRequest {
        group_id: group.clone(),
        generation_id_or_member_epoch: -1,
        retention_time_ms: -1,
        topics: vec![OffsetCommitRequestTopic {
            name: "fill".into(),
            partitions: partitions.collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn commits(address: &str, pid: &str, connections: usize, offsets: i32, seconds: u64) {
    create_topic(address, &"fill".into(), PARTITIONS);
    let before = cpu_us(pid);
    let begin = Instant::now();
    let end = begin + Duration::from_secs(seconds);
    let work = |number: usize| {
        let group = Str::from(format!("commits-{number}"));
        let mut connection = Connection::open(address);
        connection.find(&group, 0);
        let mut us = Vec::new();
        while Instant::now() < end {
            let sent = Instant::now();
            let request = commit(&group, 0, offsets, us.len() as i64);
            let answer: OffsetCommitResponse = connection.ask(7, &request);
            if answer.topics[0].partitions[0].error_code == 0 {
                us.push(us_since(sent));
            }
        }
        us
    };
    let all: Vec<u64> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..connections).map(|number| scope.spawn(move || work(number))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    report("commits", all, begin.elapsed(), cpu_us(pid) - before);
}

/// Members of one group that join together, which takes a broker with an initial rebalance delay; what each is called, and the generation.
fn members(address: &str, group: &Str, count: usize) -> (Vec<Connection>, Vec<(Str, i32)>) {
    let mut connections: Vec<Connection> = (0..count).map(|_| Connection::open(address)).collect();
    connections[0].find(group, 0);
    for connection in &mut connections {
        join(connection, group, &Str::default());
    }
    let known = connections.iter_mut().map(|connection| sync(connection, group)).collect();
    for connection in &mut connections {
        let synced: SyncGroupResponse = connection.receive(2);
        assert!(synced.error_code == 0, "syncing: error {}", synced.error_code);
    }
    (connections, known)
}

fn heartbeats(address: &str, pid: &str, count: usize, seconds: u64) {
    let group = Str::new_static("heartbeats");
    let (mut connections, known) = members(address, &group, count);
    let before = cpu_us(pid);
    let begin = Instant::now();
    let mut us = Vec::new();
    while begin.elapsed().as_secs() < seconds {
        // Fifty at a time.
        for (connections, known) in connections.chunks_mut(50).zip(known.chunks(50)) {
            let sent = Instant::now();
            for (connection, (member_id, generation)) in connections.iter_mut().zip(known) {
                let request = HeartbeatRequest {
                    group_id: group.clone(),
                    generation_id: *generation,
                    member_id: member_id.clone(),
                    ..Default::default()
                };
                connection.send(3, &request);
            }
            for connection in connections.iter_mut() {
                let answer: HeartbeatResponse = connection.receive(3);
                assert!(answer.error_code == 0, "a heartbeat: error {}", answer.error_code);
                us.push(us_since(sent));
            }
        }
    }
    report("heartbeats", us, begin.elapsed(), cpu_us(pid) - before);
}

/// A member that rejoins whenever it is told to, until the end; tells the generation in which it is stable.
fn stay(address: &str, group: &Str, generation: &AtomicI32, is_over: &AtomicBool) {
    let mut connection = Connection::open(address);
    connection.find(group, 0);
    let mut member_id = Str::default();
    while !is_over.load(Ordering::Relaxed) {
        join(&mut connection, group, &member_id);
        let known = sync(&mut connection, group);
        let synced: SyncGroupResponse = connection.receive(2);
        member_id = known.0;
        if synced.error_code != 0 {
            continue;
        }
        generation.store(known.1, Ordering::Relaxed);
        let request = HeartbeatRequest {
            group_id: group.clone(),
            generation_id: known.1,
            member_id: member_id.clone(),
            ..Default::default()
        };
        while !is_over.load(Ordering::Relaxed) {
            let answer: HeartbeatResponse = connection.ask(3, &request);
            if answer.error_code != 0 {
                break;
            }
            thread::sleep(HEARTBEAT);
        }
    }
}

/// A member of the consumer protocol, until the end; tells how many partitions it holds.
fn hold(address: &str, group: &Str, held: &AtomicI32, is_over: &AtomicBool) {
    let mut connection = Connection::open(address);
    connection.find(group, 0);
    let mut request = ConsumerGroupHeartbeatRequest {
        group_id: group.clone(),
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec!["fill".into()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    while !is_over.load(Ordering::Relaxed) {
        let answer: ConsumerGroupHeartbeatResponse = connection.ask(0, &request);
        assert!(answer.error_code == 0, "a heartbeat: error {}", answer.error_code);
        request = ConsumerGroupHeartbeatRequest {
            group_id: group.clone(),
            member_id: answer.member_id.unwrap_or_default(),
            member_epoch: answer.member_epoch,
            rebalance_timeout_ms: -1,
            ..Default::default()
        };
        // A new assignment is taken at once and told at once.
        let Some(assignment) = answer.assignment else {
            thread::sleep(HEARTBEAT);
            continue;
        };
        let count: usize = assignment.topic_partitions.iter().map(|one| one.partitions.len()).sum();
        held.store(i32::try_from(count).expect("a small number"), Ordering::Relaxed);
        request.topic_partitions = Some(assignment.topic_partitions);
    }
}

/// How a member takes part, and what all of so many members show when they are settled.
struct Protocol {
    member: fn(&str, &Str, &AtomicI32, &AtomicBool),
    is_settled: fn(&[AtomicI32]) -> bool,
}

/// All have the same generation.
const CLASSIC: Protocol = Protocol {
    member: stay,
    is_settled: |generations| {
        let mut seen = generations.iter().map(|each| each.load(Ordering::Relaxed));
        let first = seen.next().unwrap_or(-1);
        first >= 0 && seen.all(|each| each == first)
    },
};

/// All partitions are held, and as many by one as by another.
const CONSUMER: Protocol = Protocol {
    member: hold,
    is_settled: |held| {
        let held: Vec<i32> = held.iter().map(|each| each.load(Ordering::Relaxed)).collect();
        let least = PARTITIONS / i32::try_from(held.len()).unwrap_or(i32::MAX);
        held.iter().sum::<i32>() == PARTITIONS && held.iter().all(|&count| least <= count)
    },
};

fn grow(address: &str, pid: &str, protocol: &Protocol, from: usize, to: usize) {
    create_topic(address, &"fill".into(), PARTITIONS);
    let group = Str::from(format!("grows-{}", std::process::id()));
    let seen: Vec<AtomicI32> = (0..to).map(|_| AtomicI32::new(-1)).collect();
    let is_over = AtomicBool::new(false);
    let wait = |count: usize| {
        while !(protocol.is_settled)(&seen[..count]) {
            thread::sleep(Duration::from_millis(1));
        }
    };
    thread::scope(|scope| {
        let (group, is_over) = (&group, &is_over);
        for seen in &seen[..from] {
            scope.spawn(move || (protocol.member)(address, group, seen, is_over));
        }
        wait(from);
        thread::sleep(Duration::from_secs(1));
        let (before, begin) = (cpu_us(pid), Instant::now());
        for seen in &seen[from..] {
            scope.spawn(move || (protocol.member)(address, group, seen, is_over));
        }
        wait(to);
        let (took, used) = (begin.elapsed(), cpu_us(pid) - before);
        println!("rebalance {from} to {to}: {took:.1?}, {used} CPU us");
        is_over.store(true, Ordering::Relaxed);
    });
}

fn fill(address: &str, pid: &str, count: i32) {
    create_topic(address, &"fill".into(), PARTITIONS);
    let before = cpu_us(pid);
    let begin = Instant::now();
    let mut connection = Connection::open(address);
    let mut us = Vec::new();
    for number in 0..count / PARTITIONS {
        let group = Str::from(format!("fill-{number}"));
        connection.find(&group, 0);
        let sent = Instant::now();
        let answer: OffsetCommitResponse = connection.ask(7, &commit(&group, 0, PARTITIONS, 7));
        let code = answer.topics[0].partitions[0].error_code;
        assert!(code == 0, "a commit: error {code}");
        us.push(us_since(sent));
    }
    report("fill, commits of a thousand", us, begin.elapsed(), cpu_us(pid) - before);
}

/// Until the last offset of each group that `fill` filled is there.
fn load(address: &str, pid: &str, count: i32) {
    let begin = Instant::now();
    let mut connection = Connection::open(address);
    for number in 0..count / PARTITIONS {
        let group = Str::from(format!("fill-{number}"));
        connection.find(&group, 0);
        let topic = OffsetFetchRequestTopic {
            name: "fill".into(),
            partition_indexes: vec![PARTITIONS - 1],
        };
        let request =
            OffsetFetchRequest { group_id: group, topics: Some(vec![topic]), ..Default::default() };
        loop {
            let answer: OffsetFetchResponse = connection.ask(5, &request);
            if answer.error_code == 0 {
                let offset = answer.topics[0].partitions[0].committed_offset;
                assert!(offset == 7, "group {number} has {offset} in the place of 7");
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
    println!(
        "load: {count} offsets in {:.2?}, {} CPU us since the start",
        begin.elapsed(),
        cpu_us(pid)
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [address, pid, "commits", connections, offsets, seconds] => {
            commits(address, pid, argument(connections), argument(offsets), argument(seconds));
        }
        [address, pid, "heartbeats", members, seconds] => {
            heartbeats(address, pid, argument(members), argument(seconds));
        }
        [address, pid, "rebalance", from, to] => {
            grow(address, pid, &CLASSIC, argument(from), argument(to));
        }
        [address, pid, "rebalance-consumer", from, to] => {
            grow(address, pid, &CONSUMER, argument(from), argument(to));
        }
        [address, pid, "load", offsets] => load(address, pid, argument(offsets)),
        [address, pid, "fill", offsets] => fill(address, pid, argument(offsets)),
        _ => panic!("usage: see the head of group_load.rs"),
    }
}
