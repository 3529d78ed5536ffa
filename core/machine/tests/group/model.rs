//! Groups under random members: they join, sync, call, commit, leave, die, come back, and the coordinator restarts.
//!
//! What must hold at every step: hard state is what a replay of the log gives; within a generation no partition is
//! handed to two members; each request has at most one answer. And in the end, when faults stop: every live member is in
//! one stable generation, within the longest timeouts there are.

use std::collections::BTreeMap;

use bytes::Bytes;
use pelton_machine::group::{
    Command, GroupShard, Heartbeat, JoinGroup, LeaveGroup, LeavingMember, Reply, Token,
};
use pelton_model::config::group::GroupConfig;
use pelton_model::{ErrorCode, Str};
use proptest::prelude::*;

use crate::harness::{Bench, commit, config, group, join, protocol, sync};

/// Partitions that the leader hands out.
const PARTITIONS: u8 = 7;

/// What a client is at.
#[derive(Clone, Debug)]
enum At {
    Away,
    Joining(Token),
    Syncing(Token),
    Member,
}

/// A client, as Kafka's consumer behaves.
#[derive(Clone, Debug)]
struct Consumer {
    instance_id: Option<Str>,
    member_id: Str,
    generation_id: i32,
    at: At,
    owned: Vec<u8>,
    /// It dies silently and comes back as somebody new.
    is_dead: bool,
    variant: bool,
}

struct World {
    bench: Bench,
    clients: Vec<Consumer>,
    owners: BTreeMap<(i32, u8), Str>,
    committed: i64,
    highest: i64,
}

#[derive(Clone, Debug)]
enum Step {
    Act(usize),
    Leave(usize),
    Die(usize),
    Change(usize),
    Commit(usize),
    Pass(u64),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => (0..6_usize).prop_map(Step::Act),
        1 => (0..6_usize).prop_map(Step::Leave),
        1 => (0..6_usize).prop_map(Step::Die),
        1 => (0..6_usize).prop_map(Step::Change),
        2 => (0..6_usize).prop_map(Step::Commit),
        4 => prop_oneof![Just(1), Just(500), Just(3_000), Just(20_000)].prop_map(Step::Pass),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..200)
}

impl World {
    fn new(delay_ms: i32) -> Self {
        let config = GroupConfig {
            initial_rebalance_delay_ms: delay_ms,
            ..config()
        };
        let client = |index: usize| Consumer {
            instance_id: (index % 3 == 2).then(|| Str::from(format!("static-{index}"))),
            member_id: Str::default(),
            generation_id: -1,
            at: At::Away,
            owned: Vec::new(),
            is_dead: false,
            variant: false,
        };
        Self {
            bench: Bench::new(config),
            clients: (0..6).map(client).collect(),
            owners: BTreeMap::new(),
            committed: -1,
            highest: 0,
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Act(index) => self.act(index),
            Step::Leave(index) => self.leave(index),
            Step::Die(index) => self.clients[index].is_dead ^= true,
            Step::Change(index) => self.clients[index].variant ^= true,
            Step::Commit(index) => self.commit(index),
            Step::Pass(ms) => self.bench.pass(ms),
            Step::Restart => self.restart(),
        }
        self.hear();
        self.check_replay();
    }

    /// The client does what it would do next.
    fn act(&mut self, index: usize) {
        let client = self.clients[index].clone();
        if client.is_dead {
            return;
        }
        match client.at {
            At::Joining(_) | At::Syncing(_) => {}
            At::Away => self.join(index),
            At::Member => {
                let heartbeat = Heartbeat {
                    group_id: group(),
                    generation_id: client.generation_id,
                    member_id: client.member_id,
                    group_instance_id: client.instance_id,
                };
                let Reply::Heartbeat(error) = self.bench.ask(Command::Heartbeat(heartbeat)) else {
                    panic!("no answer to Heartbeat");
                };
                self.react(index, error);
            }
        }
    }

    fn react(&mut self, index: usize, error: ErrorCode) {
        let client = &mut self.clients[index];
        if error == ErrorCode::None {
            return;
        }
        client.at = At::Away;
        if error == ErrorCode::RebalanceInProgress {
            return;
        }
        assert!(
            [
                ErrorCode::UnknownMemberId,
                ErrorCode::IllegalGeneration,
                ErrorCode::FencedInstanceId
            ]
            .contains(&error),
            "{error:?}"
        );
        client.owned.clear();
        if error != ErrorCode::IllegalGeneration {
            client.member_id = Str::default();
        }
    }

    fn join(&mut self, index: usize) {
        let client = &self.clients[index];
        let mut protocols = vec![protocol("range")];
        if client.variant {
            protocols[0].metadata = Bytes::from_static(b"\0\0\0\0\0\x01\0\x01u");
        }
        let token = self.bench.send(Command::JoinGroup(JoinGroup {
            group_instance_id: client.instance_id.clone(),
            protocols,
            ..join(&client.member_id)
        }));
        self.clients[index].at = At::Joining(token);
    }

    fn leave(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let leave = LeaveGroup {
            group_id: group(),
            members: vec![LeavingMember {
                member_id: std::mem::take(&mut client.member_id),
                group_instance_id: client.instance_id.clone(),
                reason: None,
            }],
        };
        client.at = At::Away;
        client.owned.clear();
        self.bench.send(Command::LeaveGroup(leave));
    }

    fn commit(&mut self, index: usize) {
        let client = &self.clients[index];
        let At::Member = client.at else {
            return;
        };
        self.highest += 1;
        let mut request = commit(&client.member_id, client.generation_id, self.highest);
        request.group_instance_id.clone_from(&client.instance_id);
        let owns = client.owned.contains(&0);
        let codes = self.bench.commit(request);
        if codes == [ErrorCode::None] {
            // A member that is behind would have been refused: only an owner's generation commits.
            assert!(owns || client.generation_id >= 0);
            self.committed = self.highest;
        }
        assert_eq!(self.bench.offset(), self.committed);
    }

    fn restart(&mut self) {
        self.bench.restart();
        for client in &mut self.clients {
            // Its connection is gone; it asks again.
            match client.at {
                At::Joining(_) | At::Syncing(_) => client.at = At::Away,
                At::Away | At::Member => {}
            }
        }
    }

    /// Clients take their answers.
    fn hear(&mut self) {
        let answers = self.bench.answers();
        for (token, reply) in answers {
            let waits = |client: &Consumer| match client.at {
                At::Joining(waiting) | At::Syncing(waiting) => waiting == token,
                At::Away | At::Member => false,
            };
            let Some(index) = self.clients.iter().position(waits) else {
                continue;
            };
            match reply.clone() {
                Reply::JoinGroup(reply) if reply.error == ErrorCode::MemberIdRequired => {
                    self.clients[index].member_id = reply.member_id;
                    self.clients[index].at = At::Away;
                }
                Reply::JoinGroup(reply) if reply.error == ErrorCode::None => {
                    self.clients[index].member_id = reply.member_id.clone();
                    self.clients[index].generation_id = reply.generation_id;
                    let ids: Vec<Str> = if reply.skip_assignment {
                        Vec::new()
                    } else {
                        reply
                            .members
                            .iter()
                            .map(|member| member.member_id.clone())
                            .collect()
                    };
                    self.sync(index, &ids);
                }
                Reply::SyncGroup(reply) if reply.error == ErrorCode::None => {
                    self.own(index, &reply.assignment);
                }
                Reply::JoinGroup(reply) => {
                    self.clients[index].at = At::Away;
                    self.react(index, reply.error);
                }
                Reply::SyncGroup(reply) => {
                    self.clients[index].at = At::Away;
                    self.react(index, reply.error);
                }
                Reply::LeaveGroup(_)
                | Reply::Heartbeat(_)
                | Reply::OffsetCommit(_)
                | Reply::OffsetFetch(_)
                | Reply::OffsetDelete(_)
                | Reply::ListGroups(_)
                | Reply::DescribeGroups(_)
                | Reply::DeleteGroups(_)
                | Reply::ConsumerGroupHeartbeat(_)
                | Reply::ConsumerGroupDescribe(_) => panic!("{reply:?}"),
            }
        }
    }

    fn sync(&mut self, index: usize, members: &[Str]) {
        let client = self.clients[index].clone();
        if client.is_dead {
            self.clients[index].at = At::Away;
            return;
        }
        let share = |place: usize| -> Bytes {
            let mine = |partition: &u8| usize::from(*partition) % members.len() == place;
            (0..PARTITIONS).filter(mine).collect::<Vec<u8>>().into()
        };
        let assignments = members
            .iter()
            .enumerate()
            .map(|(place, id)| (id.clone(), share(place)))
            .collect();
        let mut request = sync(&client.member_id, client.generation_id, assignments);
        request.group_instance_id = client.instance_id;
        let token = self.bench.send(Command::SyncGroup(request));
        self.clients[index].at = At::Syncing(token);
        // The answer may be there at once.
        self.hear();
    }

    fn own(&mut self, index: usize, assignment: &[u8]) {
        let client = &mut self.clients[index];
        client.at = At::Member;
        client.owned = assignment.to_vec();
        let name = client
            .instance_id
            .clone()
            .unwrap_or_else(|| client.member_id.clone());
        for partition in assignment {
            let owner = self
                .owners
                .entry((client.generation_id, *partition))
                .or_insert(name.clone());
            assert_eq!(
                *owner, name,
                "two own {partition} in generation {}",
                client.generation_id
            );
        }
    }

    fn check_replay(&self) {
        let mut replayed = GroupShard::new(self.bench.config.clone());
        for record in &self.bench.log {
            replayed.replay(record);
        }
        assert_eq!(replayed.to_records(), self.bench.shard.to_records());
    }

    /// Faults stop. Everybody calls often; then all are in one generation and own all partitions.
    fn settle(&mut self) {
        for client in &mut self.clients {
            client.is_dead = false;
        }
        for _ in 0..200 {
            for index in 0..self.clients.len() {
                self.act(index);
                self.hear();
            }
            self.bench.pass(1_000);
            self.hear();
        }
        let generation_id = self.clients[0].generation_id;
        let mut owned: Vec<u8> = Vec::new();
        for client in &self.clients {
            assert!(matches!(client.at, At::Member), "{client:?}");
            assert_eq!(client.generation_id, generation_id);
            owned.extend(&client.owned);
        }
        owned.sort_unstable();
        assert_eq!(owned, (0..PARTITIONS).collect::<Vec<u8>>());
        assert_eq!(self.bench.state(), "Stable");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 256, ..ProptestConfig::default() })]

    // Goal and method: see the top of the file.
    #[test]
    fn random_members(steps in steps(), delay_ms in prop_oneof![Just(0), Just(3_000)]) {
        let mut world = World::new(delay_ms);
        for step in &steps {
            world.step(step);
        }
        world.settle();
    }
}
