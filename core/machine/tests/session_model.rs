//! A fetch session that looks only at what is ready against one that looks at everything, as Kafka's does.

use pelton_machine::purgatory::{Interest, Standing};
use pelton_machine::session::{
    Begun, Limits, Origin, Position, Reply, Request, Sessions, Told, TopicKey, Wish,
};
use pelton_model::{
    ErrorCode, LeaderEpoch, Monotonic, Offset, PartitionId, ShardId, TopicId, TopicPartition,
};
use proptest::prelude::*;

const PARTITIONS: usize = 8;
const SHARD: ShardId = ShardId(0);

#[derive(Clone, Debug)]
enum Command {
    Append(usize, i64),
    MoveStart(usize, i64),
    /// Breaks or mends a partition.
    Toggle(usize),
    /// Moves every returned partition on, wants those of `wanted`, forgets those of `forgotten`, under a budget; the other flags ask for an
    /// odd epoch, for changes between the read and the answer, and for the other isolation level.
    Fetch {
        wanted: u16,
        forgotten: u16,
        bytes_max: i64,
        is_odd: bool,
        late: Option<usize>,
        read_committed: bool,
    },
    /// Begins anew with these.
    Full(u16),
}

fn commands() -> impl Strategy<Value = Command> {
    let fetch = (
        prop_oneof![3 => Just(0_u16), 2 => 0_u16..256],
        prop_oneof![4 => Just(0_u16), 1 => 0_u16..256],
        prop_oneof![0_i64..20, Just(1000_i64)],
        prop::bool::weighted(0.05),
        prop::option::weighted(0.2, 0..PARTITIONS),
        prop::bool::weighted(0.1),
    );
    let fetch = fetch.prop_map(
        |(wanted, forgotten, bytes_max, is_odd, late, read_committed)| Command::Fetch {
            wanted,
            forgotten,
            bytes_max,
            is_odd,
            late,
            read_committed,
        },
    );
    prop_oneof![
        6 => (0..PARTITIONS, 1_i64..10).prop_map(|(p, count)| Command::Append(p, count)),
        1 => (0..PARTITIONS, 1_i64..10).prop_map(|(p, count)| Command::MoveStart(p, count)),
        1 => (0..PARTITIONS).prop_map(Command::Toggle),
        8 => fetch,
        1 => (1_u16..256).prop_map(Command::Full),
    ]
}

/// A partition's log: one byte a record.
#[derive(Clone, Copy, Debug, Default)]
struct Log {
    start: i64,
    end: i64,
    is_broken: bool,
}

/// A partition as the naive session keeps it: which, the offset wanted, what was told.
#[derive(Clone, Copy, Debug)]
struct Naive {
    partition: usize,
    offset: i64,
    told: (i64, i64),
}

#[derive(Debug)]
struct World {
    logs: [Log; PARTITIONS],
    standing: Standing,
    sessions: Sessions,
    id: i32,
    epoch: i32,
    naive: Vec<Naive>,
    /// What the client has come to.
    offsets: [i64; PARTITIONS],
    /// What was returned last: the client names it with its next fetch.
    returned: Vec<usize>,
    draws: u32,
}

fn key(partition: usize) -> TopicKey {
    TopicKey::Id(TopicId([u8::try_from(partition / 3).expect("few"); 16]))
}

fn index(partition: usize) -> i32 {
    i32::try_from(partition).expect("few")
}

fn id(partition: usize) -> TopicPartition {
    TopicPartition {
        topic_id: TopicId([9; 16]),
        partition: PartitionId(index(partition)),
    }
}

fn bits(set: u16) -> impl Iterator<Item = usize> {
    (0..PARTITIONS).filter(move |bit| set & (1 << bit) != 0)
}

/// Reads one partition within `left` bytes; also whether the end was reached.
fn read(log: &Log, offset: i64, left: i64, is_first: bool) -> (Told, bool) {
    if log.is_broken || offset < log.start || log.end < offset {
        let told = Told {
            size_bytes: 0,
            high_watermark: Offset::NONE,
            log_start: Offset::NONE,
            is_error: true,
            has_diverged: false,
            is_armed: false,
        };
        return (told, false);
    }
    let there = log.end - offset;
    let size = if is_first {
        there.min(left.max(1))
    } else {
        there.min(left)
    };
    let told = Told {
        size_bytes: usize::try_from(size).expect("small"),
        high_watermark: Offset(log.end),
        log_start: Offset(log.start),
        is_error: false,
        has_diverged: false,
        is_armed: false,
    };
    (told, there == 0)
}

impl World {
    fn new() -> Self {
        Self {
            logs: [Log::default(); PARTITIONS],
            standing: Standing::default(),
            sessions: Sessions::new(Limits {
                slots_max: 4,
                cost_max: 1000,
                shard: SHARD,
                shard_count: 3,
            }),
            id: 0,
            epoch: 0,
            naive: Vec::new(),
            offsets: [0; PARTITIONS],
            returned: Vec::new(),
            draws: 7,
        }
    }

    fn change(&mut self, partition: usize, change: impl FnOnce(&mut Log)) {
        change(&mut self.logs[partition]);
        let mut fired = Vec::new();
        self.standing.fire(id(partition), &mut fired);
        for interest in fired {
            self.sessions.fired(interest.session, interest.cell);
        }
    }

    fn wish(&self, partition: usize) -> Wish {
        Wish {
            topic: key(partition),
            partition: index(partition),
            position: Position {
                offset: Offset(self.offsets[partition]),
                bytes_max: 1 << 20,
                current_leader_epoch: LeaderEpoch::NONE,
                last_fetched_epoch: LeaderEpoch::NONE,
            },
        }
    }

    fn withdraw_closed(&mut self) {
        for closed in self.sessions.take_closed() {
            self.standing.close(SHARD, closed.id, closed.cells);
        }
    }

    fn full(&mut self, wanted: u16) {
        self.naive.clear();
        let mut opened = Vec::new();
        for partition in bits(wanted) {
            let (told, _) = read(
                &self.logs[partition],
                self.offsets[partition],
                1 << 20,
                true,
            );
            opened.push((self.wish(partition), told));
            self.naive.push(Naive {
                partition,
                offset: self.offsets[partition],
                told: (told.high_watermark.0, told.log_start.0),
            });
        }
        let request = Request {
            id: self.id,
            epoch: 0,
            uses_topic_ids: true,
            read_committed: false,
            wishes: &[],
            forgotten: &[],
        };
        assert_eq!(self.sessions.begin(Monotonic(0), &request), Begun::Full);
        let origin = Origin {
            privileged: false,
            uses_topic_ids: true,
            read_committed: false,
        };
        let draws = &mut self.draws;
        let created = self
            .sessions
            .create(Monotonic(0), origin, &opened, || {
                *draws = draws.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *draws
            })
            .expect("there is room");
        self.withdraw_closed();
        assert_eq!(self.sessions.len(), 1);
        (self.id, self.epoch) = (created, 1);
        self.returned.clear();
    }

    fn fetch(
        &mut self,
        wanted: u16,
        forgotten: u16,
        bytes_max: i64,
        late: Option<usize>,
        read_committed: bool,
    ) {
        self.move_on();
        let wishes: Vec<Wish> = bits(wanted).map(|partition| self.wish(partition)).collect();
        let forgets: Vec<_> = bits(forgotten).map(|p| (key(p), index(p))).collect();
        let request = Request {
            id: self.id,
            epoch: self.epoch,
            uses_topic_ids: true,
            read_committed,
            wishes: &wishes,
            forgotten: &forgets,
        };
        let begun = self.sessions.begin(Monotonic(0), &request);
        self.withdraw_closed();
        self.update_naive(wanted, forgotten);
        if self.naive.is_empty() {
            return self.end(begun);
        }
        let Begun::Incremental(turn) = begun else {
            panic!("{begun:?}");
        };
        self.epoch += 1;
        let expected = self.read_naive(bytes_max);

        let mut reads = Vec::new();
        let (mut left, mut is_first) = (bytes_max, true);
        let session = self.sessions.session(turn).expect("it was just begun");
        let (logs, standing, session_id) = (&self.logs, &mut self.standing, self.id);
        session.take_ready(|ready| {
            let partition = usize::try_from(ready.partition).expect("small");
            assert_eq!(*ready.topic, key(partition));
            let (mut told, is_end) =
                read(&logs[partition], ready.position.offset.0, left, is_first);
            let interest = Interest {
                shard: SHARD,
                session: session_id,
                cell: ready.cell,
            };
            told.is_armed = is_end && standing.arm(id(partition), interest);
            is_first &= told.size_bytes == 0;
            left -= i64::try_from(told.size_bytes).expect("small").min(left);
            reads.push((ready.cell, partition, told));
        });
        if let Some(partition) = late {
            self.change(partition, |log| log.end += 1);
        }
        let Reply::Session(session) = self.sessions.reply(turn) else {
            panic!("nobody else asks");
        };
        let answered: Vec<(usize, Told)> = reads
            .into_iter()
            .filter(|(cell, _, told)| session.tell(*cell, told))
            .map(|(_, partition, told)| {
                (
                    partition,
                    Told {
                        is_armed: false,
                        ..told
                    },
                )
            })
            .collect();
        assert_eq!(answered, expected);
        let with_data = answered.iter().filter(|(_, told)| told.size_bytes > 0);
        self.returned = with_data.map(|(partition, _)| *partition).collect();
    }

    /// The client goes on behind what was returned.
    fn move_on(&mut self) {
        for partition in std::mem::take(&mut self.returned) {
            let log = &self.logs[partition];
            self.offsets[partition] = log.end.max(self.offsets[partition]);
        }
    }

    /// The session has lost its last partition, or was over already.
    fn end(&mut self, begun: Begun) {
        let expected = if self.id == 0 {
            Begun::Refused(ErrorCode::FetchSessionIdNotFound)
        } else {
            Begun::Sessionless
        };
        assert_eq!(begun, expected);
        (self.id, self.epoch) = (0, 1);
    }

    fn update_naive(&mut self, wanted: u16, forgotten: u16) {
        if self.id == 0 {
            return;
        }
        for partition in bits(wanted) {
            let offset = self.offsets[partition];
            match self.naive.iter_mut().find(|n| n.partition == partition) {
                Some(naive) => naive.offset = offset,
                None => self.naive.push(Naive {
                    partition,
                    offset,
                    told: (-1, -1),
                }),
            }
        }
        self.naive.retain(|n| forgotten & (1 << n.partition) == 0);
    }

    /// Kafka's way: every partition of the session, in order.
    fn read_naive(&mut self, bytes_max: i64) -> Vec<(usize, Told)> {
        let (mut left, mut is_first) = (bytes_max, true);
        let (mut answered, mut stay, mut moved) = (Vec::new(), Vec::new(), Vec::new());
        for mut naive in std::mem::take(&mut self.naive) {
            let (told, _) = read(&self.logs[naive.partition], naive.offset, left, is_first);
            is_first &= told.size_bytes == 0;
            left -= i64::try_from(told.size_bytes).expect("small").min(left);
            let now = (told.high_watermark.0, told.log_start.0);
            if told.size_bytes > 0 || told.is_error || now != naive.told {
                answered.push((naive.partition, told));
            }
            naive.told = now;
            if told.size_bytes > 0 {
                moved.push(naive);
            } else {
                stay.push(naive);
            }
        }
        stay.extend(moved);
        self.naive = stay;
        answered
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    // Goal: a session answers as one that reads everything, whatever changes, is wanted or forgotten, and in whatever budget; a wrong epoch
    // changes nothing. Method: random commands to both; each answer is compared, order and all.
    #[test]
    fn ready_partitions_are_enough(commands in prop::collection::vec(commands(), 1..120)) {
        let mut world = World::new();
        world.full(0b1111);
        for command in commands {
            match command {
                Command::Append(partition, count) => world.change(partition, |log| log.end += count),
                Command::MoveStart(partition, count) => {
                    world.change(partition, |log| log.start = log.end.min(log.start + count));
                }
                Command::Toggle(partition) => {
                    world.change(partition, |log| log.is_broken = !log.is_broken);
                }
                Command::Full(wanted) => world.full(wanted),
                Command::Fetch { is_odd: true, .. } if world.id != 0 => {
                    let request = Request {
                        id: world.id,
                        epoch: world.epoch + 1,
                        uses_topic_ids: true,
                        read_committed: false,
                        wishes: &[],
                        forgotten: &[(key(0), 0)],
                    };
                    let refused = Begun::Refused(ErrorCode::InvalidFetchSessionEpoch);
                    prop_assert_eq!(world.sessions.begin(Monotonic(0), &request), refused);
                }
                Command::Fetch { wanted, forgotten, bytes_max, late, read_committed, .. } => {
                    world.fetch(wanted, forgotten, bytes_max, late, read_committed);
                }
            }
            prop_assert_eq!(world.sessions.cost(), world.naive.len());
            prop_assert!(world.standing.len() <= 2 * PARTITIONS);
        }
    }
}
