//! The partition leader against a naive model that recomputes everything from the whole history.

use pelton_machine::partition::{
    Acks, IsrChange, LogOffsets, Partition, PartitionState, Plan, PlanRefused, Planned, TxnGuard,
    Updated,
};
use pelton_model::producer_state::{BatchFacts, ProducerStamp, ProducerStates};
use pelton_model::{
    LeaderEpoch, Monotonic, NodeId, Offset, PartitionEpoch, ProducerEpoch, ProducerId, Sequence,
    Timestamp,
};
use proptest::prelude::*;

const LOCAL: NodeId = NodeId(1);

#[derive(Clone, Copy, Debug)]
enum Command {
    /// A batch of producer `id`; `back` 0 is its next one, more a repetition.
    Append {
        id: i64,
        back: usize,
        count: i32,
        acks: Acks,
    },
    /// Writes that many of the planned batches.
    Write(usize),
    Fetch {
        node: i32,
        behind: i64,
    },
    ProposeAdd(i32),
    ProposeRemove(i32),
    /// The image says: this ISR (as bits over nodes 2 and 3), perhaps another leadership.
    Update {
        isr_bits: u8,
        leader: i32,
        is_new_epoch: bool,
    },
}

fn commands() -> impl Strategy<Value = Command> {
    let acks = prop_oneof![Just(Acks::Leader), Just(Acks::All)];
    prop_oneof![
        6 => (0_i64..3, 0_usize..7, 1_i32..4, acks).prop_map(|(id, back, count, acks)| {
            Command::Append { id, back: back.saturating_sub(3), count, acks }
        }),
        4 => (0_usize..4).prop_map(Command::Write),
        4 => (2_i32..5, 0_i64..4).prop_map(|(node, behind)| Command::Fetch { node, behind }),
        1 => (2_i32..4).prop_map(Command::ProposeAdd),
        1 => (2_i32..4).prop_map(Command::ProposeRemove),
        1 => (0_u8..4, 1_i32..3, any::<bool>()).prop_map(|(isr_bits, leader, is_new_epoch)| {
            Command::Update { isr_bits, leader, is_new_epoch }
        }),
    ]
}

#[derive(Clone, Copy)]
struct Batch {
    id: i64,
    sequence: i32,
    count: i32,
    base: i64,
}

/// Everything that ever happened, in plain lists.
struct Naive {
    min_isr: usize,
    batches: Vec<Batch>,
    written: usize,
    isr: Vec<i32>,
    maximal: Vec<i32>,
    /// Log ends of nodes 2 and 3.
    followers: [i64; 2],
    leader: i32,
    leader_epoch: i32,
    partition_epoch: i32,
    high_watermark: i64,
}

impl Naive {
    fn new(min_isr: usize) -> Self {
        Self {
            min_isr,
            batches: Vec::new(),
            written: 0,
            isr: vec![1],
            maximal: vec![1],
            followers: [-1; 2],
            leader: 1,
            leader_epoch: 0,
            partition_epoch: 0,
            high_watermark: 0,
        }
    }

    fn end_of(batches: &[Batch]) -> i64 {
        batches.iter().map(|batch| i64::from(batch.count)).sum()
    }

    fn log_end(&self) -> i64 {
        Self::end_of(&self.batches[..self.written])
    }

    fn advance(&mut self) {
        if self.leader != 1 || self.isr.len() < self.min_isr {
            return;
        }
        let others = self.maximal.iter().filter(|&&node| node != 1);
        let slowest = others
            .map(|&node| self.followers[usize::from(node == 3)])
            .min();
        let committed = slowest.unwrap_or(i64::MAX).min(self.log_end());
        self.high_watermark = self.high_watermark.max(committed);
    }

    fn state(&self) -> PartitionState {
        PartitionState {
            local: LOCAL,
            leader: NodeId(self.leader),
            leader_epoch: LeaderEpoch(self.leader_epoch),
            partition_epoch: PartitionEpoch(self.partition_epoch),
            replicas: vec![NodeId(1), NodeId(2), NodeId(3)],
            isr: self.isr.iter().copied().map(NodeId).collect(),
        }
    }

    fn append(&mut self, partition: &mut Partition, id: i64, back: usize, count: i32, acks: Acks) {
        let mine: Vec<Batch> = self
            .batches
            .iter()
            .copied()
            .filter(|b| b.id == id)
            .collect();
        let next = mine.last().map_or(0, |b| b.sequence + b.count);
        let old = (0 < back)
            .then(|| mine.len().checked_sub(back))
            .flatten()
            .map(|at| mine[at]);
        let (sequence, count) = old.map_or((next, count), |b| (b.sequence, b.count));
        let stamp = ProducerStamp {
            id: ProducerId(id),
            epoch: ProducerEpoch(0),
            base_sequence: Sequence(sequence),
        };
        let base = Self::end_of(&self.batches);
        let facts = BatchFacts {
            last_offset_delta: count - 1,
            producer: Some(stamp),
            is_transactional: false,
            max_timestamp: Timestamp(base),
        };
        let answer = partition.plan_append(&facts, acks, TxnGuard::None);
        if self.leader != 1 {
            assert_eq!(answer, Err(PlanRefused::NotLeader));
        } else if acks == Acks::All && self.isr.len() < self.min_isr {
            assert_eq!(answer, Err(PlanRefused::NotEnoughReplicas));
        } else if let Some(old) = old {
            let Ok(Planned::Duplicate(original)) = answer else {
                panic!("{answer:?}")
            };
            assert_eq!(original.base_offset, Offset(old.base));
            assert_eq!(
                original.last_offset,
                Offset(old.base + i64::from(old.count) - 1)
            );
            assert_eq!(original.timestamp, Timestamp(old.base));
        } else {
            let plan = Plan {
                base_offset: Offset(base),
                last_offset: Offset(base + i64::from(count) - 1),
                leader_epoch: LeaderEpoch(self.leader_epoch),
            };
            assert_eq!(answer, Ok(Planned::Append(plan)));
            self.batches.push(Batch {
                id,
                sequence,
                count,
                base,
            });
        }
    }

    fn update(&mut self, partition: &mut Partition, isr_bits: u8, leader: i32, is_new: bool) {
        let stays = leader == self.leader;
        self.partition_epoch += 1;
        self.isr = vec![1];
        self.isr
            .extend((2..4).filter(|node| isr_bits & (1 << (node - 2)) != 0));
        self.maximal.clone_from(&self.isr);
        if is_new || !stays {
            self.leader_epoch += 1;
            self.leader = leader;
            self.followers = [-1; 2];
        }
        let updated = partition.update(self.state());
        match updated {
            Updated::Ignored => panic!("the epochs grew"),
            Updated::Merged(_) => assert!(stays && !is_new),
            Updated::Leader { epoch_start, .. } => {
                assert_eq!(leader, 1);
                assert_eq!(epoch_start, Offset(Self::end_of(&self.batches)));
            }
            Updated::Follower => assert_eq!(leader, 2),
        }
    }

    fn run(&mut self, partition: &mut Partition, command: Command) {
        match command {
            Command::Append {
                id,
                back,
                count,
                acks,
            } => {
                self.append(partition, id, back, count, acks);
            }
            Command::Write(count) => {
                self.written = (self.written + count).min(self.batches.len());
                partition.on_appended(LeaderEpoch(self.leader_epoch), Offset(self.log_end()));
            }
            Command::Fetch { node, behind } => {
                let offset = (self.log_end() - behind).max(0);
                partition.on_follower_fetch(NodeId(node), Offset(offset), 1, Monotonic(1));
                if node < 4 && self.leader == 1 {
                    self.followers[usize::from(node == 3)] = offset;
                }
            }
            Command::ProposeAdd(node) if self.leader == 1 => {
                partition.propose_isr(IsrChange::Add(NodeId(node)));
                if !self.maximal.contains(&node) {
                    self.maximal.push(node);
                }
            }
            Command::ProposeRemove(node) if self.leader == 1 => {
                partition.propose_isr(IsrChange::Remove(NodeId(node)));
            }
            Command::ProposeAdd(_) | Command::ProposeRemove(_) => {}
            Command::Update {
                isr_bits,
                leader,
                is_new_epoch,
            } => {
                self.update(partition, isr_bits, leader, is_new_epoch);
            }
        }
        self.advance();
    }
}

proptest! {
    // Goal: offsets, duplicates, watermark and epochs are the naive model's after every step.
    // Method: random appends, repetitions (of the last four), writes, follower fetches, proposals and image updates.
    #[test]
    fn agrees_with_naive_model(
        min_isr in 1_usize..4,
        commands in prop::collection::vec(commands(), 1..120),
    ) {
        let mut naive = Naive::new(min_isr);
        let start = LogOffsets {
            log_start: Offset(0),
            log_end: Offset(0),
            high_watermark: Offset(0),
        };
        let setting = i32::try_from(min_isr).expect("small");
        let mut partition = Partition::new(naive.state(), start, setting, ProducerStates::new());
        for command in commands {
            let before = partition.high_watermark();
            naive.run(&mut partition, command);
            prop_assert_eq!(partition.planned_end(), Offset(Naive::end_of(&naive.batches)));
            prop_assert_eq!(partition.log_end(), Offset(naive.log_end()));
            prop_assert_eq!(partition.high_watermark(), Offset(naive.high_watermark));
            prop_assert!(before <= partition.high_watermark());
            prop_assert_eq!(partition.last_stable(), partition.high_watermark());
        }
    }
}
