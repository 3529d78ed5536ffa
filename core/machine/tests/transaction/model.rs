//! Producers under everything at once: they begin, add, write, end, repeat what they asked, lose answers, die, come back as zombies, and the
//! coordinator crashes after any record.
//!
//! The partitions are modelled as a leader keeps them: the records of each open transaction, epochs, and what readers of committed records
//! see. What must hold at every step: hard state is what a replay of the log gives; no epoch is given twice. And in the end, when faults
//! stop and time passes: no transaction is open anywhere; each is seen whole in all its partitions or nowhere; one that was answered as
//! committed is seen, one that was answered as aborted is not.

use std::collections::{BTreeMap, BTreeSet};

use pelton_machine::transaction::{Markers, Token};
use pelton_model::ErrorCode;
use proptest::prelude::*;

use crate::harness::{Bench, Owner};

const IDS: [&str; 2] = ["x", "y"];
const PARTITIONS: i32 = 3;

/// A transaction of a producer, numbered by the test.
type Txn = usize;

/// A producer, as Kafka's client behaves.
#[derive(Clone, Debug, Default)]
struct Client {
    owner: Option<Owner>,
    /// Its transaction, once something was written in it.
    txn: Option<Txn>,
    /// An end that was asked for and not answered yet, and whether it commits.
    ending: Option<(Token, bool)>,
}

/// A partition's leader.
#[derive(Clone, Debug, Default)]
struct Leader {
    /// By producer id: the epoch, and what its open transaction wrote.
    producers: BTreeMap<i64, (i16, BTreeSet<Txn>)>,
    committed: BTreeSet<Txn>,
    aborted: BTreeSet<Txn>,
}

impl Leader {
    /// Takes a record of a transaction that the coordinator vouches for.
    fn write(&mut self, owner: Owner, txn: Txn) -> bool {
        let known = self
            .producers
            .entry(owner.0)
            .or_insert((owner.1, BTreeSet::new()));
        if owner.1 < known.0 {
            return false;
        }
        known.0 = owner.1;
        known.1.insert(txn);
        true
    }

    fn mark(&mut self, markers: &Markers) {
        let epoch = markers.producer_epoch.0;
        let known = self
            .producers
            .entry(markers.producer_id.0)
            .or_insert((epoch, BTreeSet::new()));
        let is_late = epoch < known.0;
        let is_of_next = markers.is_bumped && epoch == known.0 && !known.1.is_empty();
        if is_late || is_of_next {
            return;
        }
        known.0 = epoch;
        let ended = std::mem::take(&mut known.1);
        if markers.commit {
            self.committed.extend(ended);
        } else {
            self.aborted.extend(ended);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A client asks for its id.
    Init(usize),
    /// It writes a record to a partition.
    Write(usize, i32),
    /// It ends its transaction.
    End(usize, bool),
    /// It asks again for the end that it has no answer to.
    Repeat(usize),
    /// One set of markers gets to one partition, or to all.
    Mark(usize, Option<i32>),
    Pass(u64),
    /// The coordinator dies; so many records of the log, from the end, were not durable and answered nothing.
    Crash(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let client = 0..4_usize;
    let step = prop_oneof![
        3 => client.clone().prop_map(Step::Init),
        10 => (client.clone(), 0..PARTITIONS).prop_map(|(c, p)| Step::Write(c, p)),
        6 => (client.clone(), any::<bool>()).prop_map(|(c, commit)| Step::End(c, commit)),
        2 => client.prop_map(Step::Repeat),
        8 => (0..4_usize, proptest::option::of(0..PARTITIONS)).prop_map(|(n, p)| Step::Mark(n, p)),
        2 => prop_oneof![Just(1_u64), Just(900), Just(20_000), Just(70_000)].prop_map(Step::Pass),
        1 => any::<bool>().prop_map(Step::Crash),
    ];
    proptest::collection::vec(step, 1..150)
}

struct World {
    bench: Bench,
    clients: Vec<Client>,
    leaders: Vec<Leader>,
    /// Records of the log that somebody was answered about, or markers written: they are durable.
    durable: usize,
    given: BTreeSet<(usize, Owner)>,
    /// Where each transaction wrote.
    wrote: Vec<BTreeSet<i32>>,
    told_committed: BTreeSet<Txn>,
    told_aborted: BTreeSet<Txn>,
}

impl World {
    fn new(version: i16) -> Self {
        Self {
            bench: Bench::new(version),
            clients: vec![Client::default(); 4],
            leaders: vec![Leader::default(); usize::try_from(PARTITIONS).unwrap()],
            durable: 0,
            given: BTreeSet::new(),
            wrote: Vec::new(),
            told_committed: BTreeSet::new(),
            told_aborted: BTreeSet::new(),
        }
    }

    /// Two clients share each id.
    fn id(client: usize) -> &'static str {
        IDS[client % 2]
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Init(client) => self.init(*client),
            Step::Write(client, partition) => self.write(*client, *partition),
            Step::End(client, commit) => self.end(*client, *commit),
            Step::Repeat(client) => {
                if let Some((_, commit)) = self.clients[*client].ending {
                    self.ask_end(*client, commit);
                }
            }
            Step::Mark(nth, partition) => self.mark(*nth, *partition),
            Step::Pass(ms) => self.bench.pass(*ms),
            Step::Crash(loses) => {
                let keeps = if *loses {
                    self.durable
                } else {
                    self.bench.log.len()
                };
                self.bench.restart_at(keeps);
            }
        }
        self.answers();
        self.bench.check_replay();
    }

    fn init(&mut self, client: usize) {
        if let Ok(owner) = self.bench.init(Self::id(client)) {
            self.durable = self.bench.log.len();
            assert!(self.given.insert((client % 2, owner)), "{owner:?} twice");
            self.clients[client] = Client {
                owner: Some(owner),
                ..Client::default()
            };
        }
    }

    fn write(&mut self, client: usize, partition: i32) {
        let Client {
            owner: Some(owner),
            txn,
            ending: None,
        } = self.clients[client].clone()
        else {
            return;
        };
        let index = usize::try_from(partition).unwrap();
        if self.bench.add(Self::id(client), owner, partition) != ErrorCode::None {
            return;
        }
        self.durable = self.bench.log.len();
        let txn = txn.unwrap_or_else(|| {
            self.wrote.push(BTreeSet::new());
            self.wrote.len() - 1
        });
        self.clients[client].txn = Some(txn);
        if self.leaders[index].write(owner, txn) {
            self.wrote[txn].insert(partition);
        }
    }

    fn end(&mut self, client: usize, commit: bool) {
        if self.clients[client].owner.is_some() && self.clients[client].ending.is_none() {
            self.ask_end(client, commit);
        }
    }

    fn ask_end(&mut self, client: usize, commit: bool) {
        let owner = self.clients[client].owner.expect("it has begun");
        let token = self.bench.send_end(Self::id(client), owner, commit);
        self.clients[client].ending = Some((token, commit));
    }

    /// Markers are written only when the record that decided them is durable.
    fn mark(&mut self, nth: usize, partition: Option<i32>) {
        self.durable = self.bench.log.len();
        let Some(markers) = self.bench.markers.get(nth).cloned() else {
            return;
        };
        let mut part = markers.clone();
        if let Some(only) = partition {
            for (_, partitions) in &mut part.partitions {
                partitions.retain(|one| *one == only);
            }
            // Markers that bump the epoch may come twice. Others would end the next transaction of their epoch, the gap that KIP-890
            // closes: what was answered is not sent again.
            if !markers.is_bumped {
                for (_, partitions) in &mut self.bench.markers[nth].partitions {
                    partitions.retain(|one| *one != only);
                }
            }
        } else {
            self.bench.markers.remove(nth);
        }
        for partition in part.partitions.iter().flat_map(|(_, all)| all) {
            self.leaders[usize::try_from(*partition).unwrap()].mark(&part);
        }
        self.bench.report(&part);
    }

    /// Clients take in what they are told.
    fn answers(&mut self) {
        for index in 0..self.clients.len() {
            let Some((token, commit)) = self.clients[index].ending else {
                continue;
            };
            let Some(ended) = self.bench.ended(token) else {
                continue;
            };
            let txn = self.clients[index].txn;
            match ended {
                Ok(owner) => {
                    self.durable = self.bench.log.len();
                    self.clients[index] = Client {
                        owner: Some(owner),
                        ..Client::default()
                    };
                    let told = if commit {
                        &mut self.told_committed
                    } else {
                        &mut self.told_aborted
                    };
                    told.extend(txn);
                }
                Err(ErrorCode::ConcurrentTransactions | ErrorCode::NotCoordinator) => {}
                // It is over for this producer: it comes back as another.
                Err(_) => self.clients[index] = Client::default(),
            }
        }
    }

    /// Faults stop, every transaction times out, all markers get through.
    fn settle(&mut self) {
        for _ in 0..20 {
            self.bench.pass(100_000);
            while !self.bench.markers.is_empty() {
                self.mark(0, None);
            }
            self.answers();
        }
        let gauges = self.bench.shard.gauges();
        assert_eq!((gauges.open, gauges.ending), (0, 0));
    }

    fn check(&self) {
        for leader in &self.leaders {
            for (_, open) in leader.producers.values() {
                assert!(open.is_empty(), "nothing holds the last stable offset up");
            }
        }
        for (txn, partitions) in self.wrote.iter().enumerate() {
            let seen = |partition: &&i32| {
                let leader = &self.leaders[usize::try_from(**partition).unwrap()];
                leader.committed.contains(&txn)
            };
            let count = partitions.iter().filter(seen).count();
            assert!(
                count == 0 || count == partitions.len(),
                "{txn} is seen in part"
            );
            if self.told_committed.contains(&txn) {
                assert_eq!(count, partitions.len(), "{txn} was told as committed");
            }
            if self.told_aborted.contains(&txn) {
                assert_eq!(count, 0, "{txn} was told as aborted");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    // Goal: all or none, whatever happens. Method: random lives in both flows, see the module.
    #[test]
    fn all_or_none(steps in steps(), bumps in any::<bool>()) {
        let mut world = World::new(if bumps { 2 } else { 0 });
        for step in &steps {
            world.take(step);
        }
        world.settle();
        world.check();
    }
}
