//! Consumer groups under random members: they join, call, hold on, let go, leave, die, and the coordinator restarts.
//!
//! What must hold at every step: what clients hold, by what they were told and have not yet given back, is never held by
//! two of them (row 115), and hard state is what a replay of the log gives. In the end, when faults stop: all partitions
//! are held, evenly, by members of one epoch.

use std::collections::BTreeMap;

use pelton_machine::group::{ConsumerGroupHeartbeat, GroupShard, TopicPartitions};
use pelton_model::record_type::group::GroupRecord;
use pelton_model::{ErrorCode, Str, TopicId};
use proptest::prelude::*;

use crate::consumer::{all_held, calling, eager, entering};
use crate::harness::Bench;

const PARTITIONS: i32 = 7;

#[derive(Clone, Debug, Default)]
struct Client {
    /// Bumped with each life: a new one has a new id.
    life: u32,
    epoch: i32,
    is_in: bool,
    is_dead: bool,
    /// What it holds, and when it is dead, until its session is over.
    holds: Vec<i32>,
    /// What it was told to hold.
    told: Vec<i32>,
}

#[derive(Clone, Debug)]
enum Step {
    Call(usize),
    LetGo(usize),
    Leave(usize),
    Die(usize),
    Pass(u64),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => (0..5_usize).prop_map(Step::Call),
        10 => (0..5_usize).prop_map(Step::LetGo),
        1 => (0..5_usize).prop_map(Step::Leave),
        1 => (0..5_usize).prop_map(Step::Die),
        4 => prop_oneof![Just(1), Just(500), Just(3_000), Just(20_000)].prop_map(Step::Pass),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..200)
}

struct World {
    bench: Bench,
    topic: TopicId,
    clients: Vec<Client>,
}

impl World {
    fn new(interval_ms: i32) -> Self {
        let mut config = eager();
        config.consumer.assignment_interval_ms = interval_ms;
        let mut bench = Bench::new(config);
        let topic = bench.topic("t", PARTITIONS);
        Self {
            bench,
            topic,
            clients: vec![Client::default(); 5],
        }
    }

    fn id(&self, index: usize) -> Str {
        Str::from(format!("m{index}-{}", self.clients[index].life))
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Call(index) => self.call(index),
            Step::LetGo(index) => {
                let client = &mut self.clients[index];
                client.holds.retain(|one| client.told.contains(one));
            }
            Step::Leave(index) => self.leave(index),
            Step::Die(index) => {
                let client = &mut self.clients[index];
                if client.is_in {
                    client.is_dead = true;
                }
            }
            Step::Pass(ms) => self.bench.pass(ms),
            Step::Restart => self.bench.restart(),
        }
        self.bury();
        self.check();
    }

    /// A dead client lets go when the coordinator has given it up, and comes back as somebody new.
    fn bury(&mut self) {
        let ids: Vec<Str> = self.members();
        for index in 0..self.clients.len() {
            let id = self.id(index);
            let client = &mut self.clients[index];
            if client.is_in && !ids.contains(&id) {
                // One that lives hears of it with its next call; its client library lets go of everything then. Until
                // then it may hold what another is given: its session is over, which clients know by their own clock.
                client.holds.clear();
                client.told.clear();
                client.is_in = false;
                client.life += 1;
                client.is_dead = false;
            }
        }
    }

    fn members(&mut self) -> Vec<Str> {
        let records = self.bench.shard.to_records();
        let id = |record: &GroupRecord| {
            if let GroupRecord::ConsumerGroupMemberMetadata(key, _) = record {
                Some(key.member_id.clone())
            } else {
                None
            }
        };
        records.iter().filter_map(id).collect()
    }

    fn owned(&self, index: usize) -> Vec<TopicPartitions> {
        let holds = self.clients[index].holds.clone();
        if holds.is_empty() {
            return Vec::new();
        }
        vec![TopicPartitions {
            topic_id: self.topic,
            partitions: holds,
        }]
    }

    fn call(&mut self, index: usize) {
        if self.clients[index].is_dead {
            return;
        }
        let id = self.id(index);
        let request = if self.clients[index].is_in {
            ConsumerGroupHeartbeat {
                owned: Some(self.owned(index)),
                ..calling(&id, self.clients[index].epoch)
            }
        } else {
            entering(&id, &["t"])
        };
        let reply = self.bench.call(request);
        assert_eq!(reply.error, ErrorCode::None, "{reply:?}");
        let client = &mut self.clients[index];
        client.is_in = true;
        client.epoch = reply.member_epoch;
        if let Some(assignment) = reply.assignment {
            client.told = assignment
                .into_iter()
                .flat_map(|topic| topic.partitions)
                .collect();
        }
        // It takes up at once, and gives back when it gets round to it.
        for one in client.told.clone() {
            if !client.holds.contains(&one) {
                client.holds.push(one);
            }
        }
    }

    fn leave(&mut self, index: usize) {
        if !self.clients[index].is_in || self.clients[index].is_dead {
            return;
        }
        let id = self.id(index);
        self.clients[index].holds.clear();
        let reply = self.bench.call(calling(&id, -1));
        assert_eq!(reply.error, ErrorCode::None);
    }

    fn check(&mut self) {
        let mut holders: BTreeMap<i32, usize> = BTreeMap::new();
        for (index, client) in self.clients.iter().enumerate() {
            for one in &client.holds {
                let before = holders.insert(*one, index);
                assert_eq!(before, None, "{one} is held twice: {:?}", self.clients);
            }
        }
        let mut replayed = GroupShard::new(self.bench.config.clone());
        for record in &self.bench.log {
            replayed.replay(record);
        }
        assert_eq!(replayed.to_records(), self.bench.shard.to_records());
    }

    fn settle(&mut self) {
        for client in &mut self.clients {
            client.is_dead = false;
        }
        for _ in 0..60 {
            for index in 0..self.clients.len() {
                self.call(index);
                self.step(&Step::LetGo(index));
            }
            self.bench.pass(1_000);
            self.bury();
        }
        let held = all_held(&mut self.bench);
        assert_eq!(held.len(), usize::try_from(PARTITIONS).unwrap());
        let mut counts: Vec<usize> = self
            .clients
            .iter()
            .map(|client| client.holds.len())
            .collect();
        counts.sort_unstable();
        assert_eq!(counts, [1, 1, 1, 2, 2]);
        let epoch = self.clients[0].epoch;
        assert!(self.clients.iter().all(|client| client.epoch == epoch));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 256, ..ProptestConfig::default() })]

    // Goal and method: see the top of the file.
    #[test]
    fn random_members(steps in steps(), interval_ms in prop_oneof![Just(0), Just(1_000)]) {
        let mut world = World::new(interval_ms);
        for step in &steps {
            world.step(step);
        }
        world.settle();
    }
}
