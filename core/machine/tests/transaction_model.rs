//! Transactions of one partition against a naive model that recomputes everything from the list of what was planned.

use std::collections::BTreeMap;

use pelton_machine::partition::{
    Acks, LogOffsets, Marker, Partition, PartitionState, PlanRefused, Planned, TxnGuard,
    Verification,
};
use pelton_model::producer_state::{BatchFacts, MarkerFacts, ProducerStamp, ProducerStates};
use pelton_model::{
    LeaderEpoch, Monotonic, NodeId, Offset, PartitionEpoch, ProducerEpoch, ProducerId, Sequence,
    Timestamp,
};
use proptest::prelude::*;

const LOCAL: NodeId = NodeId(1);
const FOLLOWER: NodeId = NodeId(2);

/// One planned batch.
#[derive(Clone, Copy, Debug)]
struct Entry {
    base: i64,
    count: i32,
    producer: i64,
    epoch: i16,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Plain { sequence: i32 },
    Transactional { sequence: i32 },
    Marker { commits: bool, coordinator: i32 },
}

/// A transaction as the list tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Txn {
    producer: i64,
    first: i64,
    /// Its marker, and whether that commits.
    end: Option<(i64, bool)>,
}

/// A producer as the list tells it.
#[derive(Clone, Debug, Default)]
struct Producer {
    is_known: bool,
    epoch: i16,
    coordinator: i32,
    /// First sequence, count and base of the batches of the epoch.
    batches: Vec<(i32, i32, i64)>,
    open: Option<i64>,
}

impl Producer {
    fn next_sequence(&self) -> i32 {
        self.batches
            .last()
            .map_or(0, |(first, count, _)| first + count)
    }
}

/// A verification under way.
#[derive(Clone, Copy, Debug)]
struct Asked {
    guard: TxnGuard,
    lowest: i32,
    epoch: i16,
    bumps: bool,
}

/// Everything that ever happened, in plain lists.
#[derive(Default)]
struct Naive {
    entries: Vec<Entry>,
    written: usize,
    high_watermark: i64,
    asked: BTreeMap<i64, Asked>,
    /// What an aborted transaction's index entry says: producer, first, marker, stable end.
    aborted: Vec<(i64, i64, i64, i64)>,
}

fn end_of(entries: &[Entry]) -> i64 {
    entries
        .last()
        .map_or(0, |entry| entry.base + i64::from(entry.count))
}

fn producer(entries: &[Entry], id: i64) -> Producer {
    let mut producer = Producer {
        coordinator: -1,
        ..Producer::default()
    };
    for entry in entries.iter().filter(|entry| entry.producer == id) {
        if !producer.is_known || producer.epoch != entry.epoch {
            producer.batches.clear();
        }
        producer.is_known = true;
        producer.epoch = entry.epoch;
        match entry.what {
            What::Plain { sequence } => producer.batches.push((sequence, entry.count, entry.base)),
            What::Transactional { sequence } => {
                producer.batches.push((sequence, entry.count, entry.base));
                producer.open.get_or_insert(entry.base);
            }
            What::Marker { coordinator, .. } => {
                producer.coordinator = coordinator;
                producer.open = None;
            }
        }
    }
    producer
}

fn transactions(entries: &[Entry]) -> Vec<Txn> {
    let mut all: Vec<Txn> = Vec::new();
    for entry in entries {
        let mut mine = all.iter_mut();
        let open = mine.find(|txn| txn.producer == entry.producer && txn.end.is_none());
        match (entry.what, open) {
            (What::Transactional { .. }, None) => {
                let (producer, first) = (entry.producer, entry.base);
                all.push(Txn {
                    producer,
                    first,
                    end: None,
                });
            }
            (What::Marker { commits, .. }, Some(txn)) => txn.end = Some((entry.base, commits)),
            (What::Plain { .. } | What::Transactional { .. }, _) | (What::Marker { .. }, None) => {}
        }
    }
    all
}

impl Naive {
    fn end(&self) -> i64 {
        end_of(&self.entries)
    }

    fn last_stable(&self) -> i64 {
        let all = transactions(&self.entries);
        let is_unstable = |txn: &&Txn| txn.end.is_none_or(|(end, _)| self.high_watermark <= end);
        let first = all.iter().filter(is_unstable).map(|txn| txn.first).min();
        first.map_or(self.high_watermark, |first| first.min(self.high_watermark))
    }

    /// What becomes of a batch of sequence `sequence`; `Ok(None)` is to be written.
    fn verdict(
        &self,
        id: i64,
        epoch: i16,
        sequence: i32,
        count: i32,
        guard: Option<TxnGuard>,
    ) -> Result<Option<i64>, PlanRefused> {
        let known = producer(&self.entries, id);
        let is_same = known.is_known && known.epoch == epoch;
        let last_five = known.batches.iter().rev().take(5);
        let mut same = last_five.filter(|(first, n, _)| (*first, *n) == (sequence, count));
        let original = same.next().filter(|_| is_same).map(|(.., base)| *base);
        if original.is_some() {
            return Ok(original);
        }
        if known.is_known && epoch < known.epoch {
            return Err(PlanRefused::InvalidProducerEpoch);
        }
        if let Some(guard) = guard {
            let asked = self.asked.get(&id);
            let is_open = is_same && known.open.is_some();
            let is_vouched = guard == TxnGuard::Waived
                || asked.is_some_and(|asked| guard != TxnGuard::None && asked.guard == guard);
            if !is_open && !is_vouched {
                return Err(PlanRefused::InvalidTxnState);
            }
            let is_behind = !is_open
                && asked.is_some_and(|asked| {
                    asked.lowest < sequence
                        || (asked.bumps && known.batches.is_empty() && sequence != 0)
                });
            if is_behind {
                return Err(PlanRefused::OutOfOrderSequence);
            }
        }
        let expected = if is_same { known.next_sequence() } else { 0 };
        if known.is_known && sequence != expected {
            return Err(PlanRefused::OutOfOrderSequence);
        }
        if guard.is_none() && known.open.is_some() {
            return Err(PlanRefused::InvalidTxnState);
        }
        Ok(None)
    }

    fn push(&mut self, producer: i64, epoch: i16, count: i32, what: What) {
        let base = self.end();
        self.entries.push(Entry {
            base,
            count,
            producer,
            epoch,
            what,
        });
    }
}

#[derive(Clone, Copy, Debug)]
enum Guard {
    Nothing,
    Waived,
    /// The one that the last verification gave.
    Last,
}

#[derive(Clone, Copy, Debug)]
enum Command {
    Data {
        id: i64,
        skew: i16,
        jump: i32,
        count: i32,
        guard: Option<Guard>,
    },
    Again {
        id: i64,
        back: usize,
        guard: Option<Guard>,
    },
    Verify {
        id: i64,
        skew: i16,
        jump: i32,
        bumps: bool,
    },
    Marker {
        id: i64,
        skew: i16,
        coordinator: i32,
        commits: bool,
        bumps: bool,
    },
    Write {
        count: usize,
    },
    Replicate {
        back: i64,
    },
    Restart {
        cut: usize,
    },
}

fn commands() -> impl Strategy<Value = Command> {
    let id = 0_i64..3;
    let skew = prop_oneof![8 => Just(0_i16), 1 => Just(1), 1 => Just(-1)];
    let jump = prop_oneof![9 => Just(0), 1 => Just(1)];
    let guard = || {
        prop_oneof![
            1 => Just(Guard::Nothing),
            3 => Just(Guard::Waived),
            6 => Just(Guard::Last),
        ]
    };
    let guards = || prop_oneof![1 => Just(None), 5 => guard().prop_map(Some)];
    prop_oneof![
        8 => (id.clone(), skew.clone(), jump.clone(), 1..4, guards()).prop_map(
            |(id, skew, jump, count, guard)| Command::Data { id, skew, jump, count, guard }
        ),
        1 => (id.clone(), 1_usize..7, guards())
            .prop_map(|(id, back, guard)| Command::Again { id, back, guard }),
        4 => (id.clone(), skew.clone(), jump, any::<bool>())
            .prop_map(|(id, skew, jump, bumps)| Command::Verify { id, skew, jump, bumps }),
        5 => (id, prop_oneof![4 => Just(0_i16), 3 => Just(1), 1 => Just(-1)], -1..2, any::<bool>(), any::<bool>())
            .prop_map(|(id, skew, coordinator, commits, bumps)| Command::Marker {
                id, skew, coordinator, commits, bumps,
            }),
        6 => (1_usize..4).prop_map(|count| Command::Write { count }),
        4 => (0_i64..6).prop_map(|back| Command::Replicate { back }),
        1 => (0_usize..20).prop_map(|cut| Command::Restart { cut }),
    ]
}

fn partition(end: i64, high_watermark: i64, producers: ProducerStates) -> Partition {
    let state = PartitionState {
        local: LOCAL,
        leader: LOCAL,
        leader_epoch: LeaderEpoch(1),
        partition_epoch: PartitionEpoch(1),
        replicas: vec![LOCAL, FOLLOWER],
        isr: vec![LOCAL, FOLLOWER],
    };
    let offsets = LogOffsets {
        log_start: Offset(0),
        log_end: Offset(end),
        high_watermark: Offset(high_watermark),
    };
    Partition::new(state, offsets, 1, producers)
}

/// Replays the list from the first entry at or behind `from`; the aborted transactions that it meets.
fn replay(states: &mut ProducerStates, entries: &[Entry], from: i64) -> Vec<(i64, i64, i64, i64)> {
    let mut aborted = Vec::new();
    for entry in entries.iter().filter(|entry| from <= entry.base) {
        let stamp = |sequence| ProducerStamp {
            id: ProducerId(entry.producer),
            epoch: ProducerEpoch(entry.epoch),
            base_sequence: Sequence(sequence),
        };
        match entry.what {
            What::Plain { sequence } | What::Transactional { sequence } => {
                let facts = facts(
                    stamp(sequence),
                    entry.count,
                    matches!(entry.what, What::Transactional { .. }),
                );
                states.replay(Offset(entry.base), &facts);
            }
            What::Marker {
                commits,
                coordinator,
            } => {
                let ended = states.replay_marker(&MarkerFacts {
                    producer_id: ProducerId(entry.producer),
                    producer_epoch: ProducerEpoch(entry.epoch),
                    coordinator_epoch: coordinator,
                    offset: Offset(entry.base),
                    timestamp: Timestamp(1),
                });
                if let Some(ended) = ended.filter(|_| !commits) {
                    let (first, stable) = (ended.first_offset.0, ended.last_stable_offset.0);
                    aborted.push((entry.producer, first, entry.base, stable));
                }
            }
        }
    }
    aborted
}

fn facts(stamp: ProducerStamp, count: i32, is_transactional: bool) -> BatchFacts {
    BatchFacts {
        last_offset_delta: count - 1,
        producer: Some(stamp),
        is_transactional,
        max_timestamp: Timestamp(1),
    }
}

struct World {
    naive: Naive,
    partition: Partition,
}

impl World {
    fn new() -> Self {
        Self {
            naive: Naive::default(),
            partition: partition(0, 0, ProducerStates::new()),
        }
    }

    fn run(&mut self, command: Command) {
        match command {
            Command::Data {
                id,
                skew,
                jump,
                count,
                guard,
            } => {
                let known = producer(&self.naive.entries, id);
                let epoch = (known.epoch + skew).max(0);
                let next = if epoch == known.epoch {
                    known.next_sequence()
                } else {
                    0
                };
                self.data(id, epoch, next + jump, count, guard);
            }
            Command::Again { id, back, guard } => {
                let known = producer(&self.naive.entries, id);
                let at = known.batches.len().checked_sub(back);
                if let Some(&(sequence, count, _)) = at.and_then(|at| known.batches.get(at)) {
                    self.data(id, known.epoch, sequence, count, guard);
                }
            }
            Command::Verify {
                id,
                skew,
                jump,
                bumps,
            } => self.verify(id, skew, jump, bumps),
            Command::Marker {
                id,
                skew,
                coordinator,
                commits,
                bumps,
            } => {
                self.marker(id, skew, coordinator, commits, bumps);
            }
            Command::Write { count } => {
                let written = (self.naive.written + count).min(self.naive.entries.len());
                self.naive.written = written;
                let end = end_of(&self.naive.entries[..written]);
                self.partition.on_appended(LeaderEpoch(1), Offset(end));
            }
            Command::Replicate { back } => {
                let end = end_of(&self.naive.entries[..self.naive.written]);
                let to = (end - back).max(self.naive.high_watermark);
                self.naive.high_watermark = to;
                let before = self.naive.last_stable();
                let progress =
                    self.partition
                        .on_follower_fetch(FOLLOWER, Offset(to), 1, Monotonic(1));
                assert!(progress.last_stable.is_none_or(|stable| stable.0 == before));
            }
            Command::Restart { cut } => self.restart(cut),
        }
        assert_eq!(
            self.partition.last_stable().0,
            self.naive.last_stable(),
            "{command:?}"
        );
        assert_eq!(self.partition.high_watermark().0, self.naive.high_watermark);
    }

    fn data(&mut self, id: i64, epoch: i16, sequence: i32, count: i32, guard: Option<Guard>) {
        let guard = guard.map(|guard| match guard {
            Guard::Nothing => TxnGuard::None,
            Guard::Waived => TxnGuard::Waived,
            Guard::Last => self
                .naive
                .asked
                .get(&id)
                .map_or(TxnGuard::Given(0), |asked| asked.guard),
        });
        let stamp = ProducerStamp {
            id: ProducerId(id),
            epoch: ProducerEpoch(epoch),
            base_sequence: Sequence(sequence),
        };
        let expected = self.naive.verdict(id, epoch, sequence, count, guard);
        let facts = facts(stamp, count, guard.is_some());
        let planned = self
            .partition
            .plan_append(&facts, Acks::All, guard.unwrap_or_default());
        let told = planned.map(|planned| match planned {
            Planned::Append(plan) => {
                assert_eq!(plan.base_offset.0, self.naive.end());
                None
            }
            Planned::Duplicate(original) => Some(original.base_offset.0),
        });
        assert_eq!(told, expected, "{id} {epoch} {sequence} {guard:?}");
        if told == Ok(None) {
            let what = match guard {
                Some(_) => What::Transactional { sequence },
                None => What::Plain { sequence },
            };
            self.naive.push(id, epoch, count, what);
            if guard.is_some() {
                self.naive.asked.remove(&id);
            }
        }
    }

    fn verify(&mut self, id: i64, skew: i16, jump: i32, bumps: bool) {
        let known = producer(&self.naive.entries, id);
        let epoch = (known.epoch + skew).max(0);
        let next = if epoch == known.epoch {
            known.next_sequence()
        } else {
            0
        };
        let sequence = next + jump;
        let verification = Verification {
            stamp: ProducerStamp {
                id: ProducerId(id),
                epoch: ProducerEpoch(epoch),
                base_sequence: Sequence(sequence),
            },
            is_bumped: bumps,
        };
        let begun = self
            .partition
            .begin_verification(&verification, Timestamp(1));
        let guard = begun.expect("a leader");
        let is_open = known.epoch == epoch && known.open.is_some();
        if known.is_known && (epoch < known.epoch || is_open) {
            assert_eq!(guard, TxnGuard::None);
            return;
        }
        let asked = Asked {
            guard,
            lowest: sequence,
            epoch,
            bumps,
        };
        let entry = self.naive.asked.entry(id).or_insert(asked);
        assert_eq!(entry.guard, guard, "one number while it is under way");
        if entry.epoch < epoch {
            (entry.epoch, entry.lowest) = (epoch, sequence);
        } else if entry.epoch == epoch {
            entry.lowest = entry.lowest.min(sequence);
        }
    }

    fn marker(&mut self, id: i64, skew: i16, coordinator: i32, commits: bool, bumps: bool) {
        let known = producer(&self.naive.entries, id);
        let epoch = (known.epoch + skew).max(0);
        let coordinator = (known.coordinator + coordinator).max(0);
        let marker = Marker {
            producer_id: ProducerId(id),
            producer_epoch: ProducerEpoch(epoch),
            coordinator_epoch: coordinator,
            is_bumped: bumps,
            timestamp: Timestamp(1),
        };
        let planned = self.partition.plan_marker(&marker);
        let is_of_next = bumps && epoch == known.epoch && known.open.is_some();
        let is_late = known.is_known && (epoch < known.epoch || is_of_next);
        if is_late {
            assert_eq!(planned, Err(PlanRefused::InvalidProducerEpoch));
        } else if known.is_known && coordinator < known.coordinator {
            assert_eq!(planned, Err(PlanRefused::CoordinatorFenced));
        } else {
            let planned = planned.expect("in order");
            let base = self.naive.end();
            assert_eq!(planned.plan.base_offset.0, base);
            self.naive.push(
                id,
                epoch,
                1,
                What::Marker {
                    commits,
                    coordinator,
                },
            );
            self.naive.asked.remove(&id);
            let all = transactions(&self.naive.entries);
            let others = all
                .iter()
                .filter(|txn| txn.end.is_none())
                .map(|txn| txn.first)
                .min();
            let stable = others.unwrap_or(base + 1);
            let ended = planned
                .ended
                .map(|it| (it.first_offset.0, it.last_stable_offset.0));
            assert_eq!(ended, known.open.map(|first| (first, stable)));
            if let Some((first, stable)) = ended.filter(|_| !commits) {
                self.naive.aborted.push((id, first, base, stable));
            }
        }
    }

    /// A crash loses what is not written; a snapshot was taken somewhere before.
    fn restart(&mut self, cut: usize) {
        self.check_snapshots();
        let naive = &mut self.naive;
        naive.entries.truncate(naive.written);
        let end = naive.end();
        naive.asked.clear();
        naive.aborted.retain(|(.., marker, _)| *marker < end);
        let at = cut.min(naive.entries.len());
        let from = end_of(&naive.entries[..at]);
        let mut before = ProducerStates::new();
        replay(&mut before, &naive.entries[..at], 0);
        let mut states = ProducerStates::decode_snapshot(&before.encode_snapshot(Offset(from)))
            .expect("written by us");
        // Recovery finds the older batches in the log.
        let mut walked = ProducerStates::new();
        replay(&mut walked, &naive.entries[..at], 0);
        states.refill(&walked);
        let aborted = replay(&mut states, &naive.entries, from);
        let later = naive
            .aborted
            .iter()
            .filter(|(.., marker, _)| from <= *marker);
        assert_eq!(aborted, later.copied().collect::<Vec<_>>());
        // A node that is alone commits what it finds: markers that wait for replication are not known after a restart.
        naive.high_watermark = end;
        self.partition = partition(end, end, states);
    }

    /// A snapshot of any end above the high watermark knows the transactions that are open there, whatever is planned behind.
    fn check_snapshots(&self) {
        let entries = &self.naive.entries;
        for count in 0..=entries.len() {
            let cut = end_of(&entries[..count]);
            if cut < self.naive.high_watermark {
                continue;
            }
            if !self.partition.producers().is_known_at(Offset(cut)) {
                continue;
            }
            let snapshot = self.partition.producers().encode_snapshot(Offset(cut));
            let states = ProducerStates::decode_snapshot(&snapshot).expect("written by us");
            let mut known: Vec<(i64, i64)> = states
                .iter()
                .filter_map(|(id, state)| Some((id.0, state.current_txn_first_offset()?.0)))
                .collect();
            known.sort_unstable();
            let all = transactions(&entries[..count]);
            let open = all.iter().filter(|txn| txn.end.is_none());
            let mut open: Vec<(i64, i64)> = open.map(|txn| (txn.producer, txn.first)).collect();
            open.sort_unstable();
            assert_eq!(known, open, "cut at {cut}");
        }
    }
}

proptest! {
    // Goal: every verdict, the last stable offset after every step, the aborted transactions and what a restart knows are the naive
    // model's. Method: random batches, verifications, markers, writes and restarts of three producers.
    #[test]
    fn transactions_of_a_partition(commands in prop::collection::vec(commands(), 1..80)) {
        let mut world = World::new();
        for command in commands {
            world.run(command);
        }
        world.check_snapshots();
    }
}
