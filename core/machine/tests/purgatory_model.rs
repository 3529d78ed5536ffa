//! Waiting fetches and commits against plain lists.

use pelton_machine::purgatory::{
    CommitWaiters, CommitWatched, Purgatory, WaiterId, Watched, WatchedEnd,
};
use pelton_model::read_level::ReadLevel;
use pelton_model::{Monotonic, Offset, PartitionId, TopicId, TopicPartition};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Command {
    /// Partitions and levels as bits of a 4 × 3 table.
    Watch {
        places: u16,
        bytes: u64,
        deadline: u64,
    },
    Advance {
        place: u16,
        bytes: u64,
    },
    Gone(u16),
    Cancel(u64),
    Expire(u64),
}

fn commands() -> impl Strategy<Value = Command> {
    prop_oneof![
        4 => (1_u16..4096, 1_u64..50, 0_u64..100)
            .prop_map(|(places, bytes, deadline)| Command::Watch { places, bytes, deadline }),
        6 => (0_u16..12, 1_u64..20).prop_map(|(place, bytes)| Command::Advance { place, bytes }),
        1 => (0_u16..4).prop_map(Command::Gone),
        1 => (0_u64..60).prop_map(Command::Cancel),
        1 => (0_u64..100).prop_map(Command::Expire),
    ]
}

fn partition(index: u16) -> TopicPartition {
    TopicPartition {
        topic_id: TopicId([1; 16]),
        partition: PartitionId(i32::from(index)),
    }
}

fn place(place: u16) -> (TopicPartition, ReadLevel) {
    (partition(place / 3), ReadLevel::ALL[usize::from(place % 3)])
}

/// Id, partition, offset waited for, deadline.
type Commit = (WaiterId, u16, Offset, u64);

struct Naive {
    id: WaiterId,
    places: u16,
    bytes: u64,
    deadline: u64,
}

/// Removes and returns the waiters that `leaves` names.
fn leave(waiters: &mut Vec<Naive>, leaves: impl Fn(&Naive) -> bool) -> Vec<WaiterId> {
    let (gone, kept) = std::mem::take(waiters).into_iter().partition(leaves);
    *waiters = kept;
    let mut ids: Vec<WaiterId> = Vec::from_iter(gone).iter().map(|w: &Naive| w.id).collect();
    ids.sort_unstable();
    ids
}

proptest! {
    // Goal: who wakes, and when, is what a list of waiters says. Method: random watches, advances, losses,
    // cancellations and expiries, compared after each.
    #[test]
    fn fetches_agree_with_naive_model(commands in prop::collection::vec(commands(), 1..150)) {
        let mut purgatory = Purgatory::with_limits(20, 100);
        let mut naive: Vec<Naive> = Vec::new();
        let mut next = 0;
        for command in commands {
            let mut woken = Vec::new();
            let expected = match command {
                Command::Watch { places, bytes, deadline } => {
                    let ends: Vec<WatchedEnd> = (0..12_u16)
                        .filter(|bit| places & (1 << bit) != 0)
                        .map(|bit| {
                            let (partition, level) = place(bit);
                            WatchedEnd { partition, level, seen: Offset(1), current: Offset(1) }
                        })
                        .collect();
                    let id = WaiterId(next);
                    next += 1;
                    let links: u32 = naive.iter().map(|w| w.places.count_ones()).sum();
                    let full = naive.len() == 20 || 100 < links + places.count_ones();
                    let answer = purgatory.watch(id, &ends, bytes, Monotonic(deadline));
                    prop_assert_eq!(answer, if full { Watched::Full } else { Watched::Waiting });
                    if !full {
                        naive.push(Naive { id, places, bytes, deadline });
                    }
                    Vec::new()
                }
                Command::Advance { place: at, bytes } => {
                    let (partition, level) = place(at);
                    purgatory.on_advance(partition, level, bytes, &mut woken);
                    for waiter in naive.iter_mut().filter(|w| w.places & (1 << at) != 0) {
                        waiter.bytes = waiter.bytes.saturating_sub(bytes);
                    }
                    leave(&mut naive, |w| w.bytes == 0)
                }
                Command::Gone(index) => {
                    purgatory.on_gone(partition(index), &mut woken);
                    leave(&mut naive, |w| w.places & (0b111 << (3 * index)) != 0)
                }
                Command::Cancel(id) => {
                    let gone = leave(&mut naive, |w| w.id == WaiterId(id));
                    prop_assert_eq!(purgatory.cancel(WaiterId(id)), !gone.is_empty());
                    Vec::new()
                }
                Command::Expire(now) => {
                    purgatory.expire(Monotonic(now), &mut woken);
                    leave(&mut naive, |w| w.deadline <= now)
                }
            };
            woken.sort_unstable();
            prop_assert_eq!(woken, expected);
            prop_assert_eq!(purgatory.len(), naive.len());
            let first = naive.iter().map(|w| Monotonic(w.deadline)).min();
            prop_assert_eq!(purgatory.next_deadline(), first);
        }
    }

    // Goal: the same for commits. Method: random offsets on three partitions whose watermarks only grow.
    #[test]
    fn commits_agree_with_naive_model(
        commands in prop::collection::vec((0_u8..5, 0_u16..3, 0_i64..8, 0_u64..50), 1..150),
    ) {
        let mut waiters = CommitWaiters::with_limit(30);
        let mut naive: Vec<Commit> = Vec::new();
        let mut watermarks = [Offset(0); 3];
        let mut next = 0;
        for (kind, index, by, time) in commands {
            let mut woken = Vec::new();
            let watermark = &mut watermarks[usize::from(index)];
            let before = naive.len();
            let mut expected: Vec<WaiterId> = Vec::new();
            let mut drop_where = |leaves: &dyn Fn(&Commit) -> bool| {
                naive.retain(|w| {
                    if leaves(w) {
                        expected.push(w.0);
                    }
                    !leaves(w)
                });
            };
            if kind < 2 {
                let (id, offset) = (WaiterId(next), watermark.plus(by));
                next += 1;
                let answer =
                    waiters.watch(id, partition(index), offset, *watermark, Monotonic(time));
                let wanted = match (by, before) {
                    (0, _) => CommitWatched::Committed,
                    (_, 30) => CommitWatched::Full,
                    (_, _) => CommitWatched::Waiting,
                };
                prop_assert_eq!(answer, wanted);
                if wanted == CommitWatched::Waiting {
                    naive.push((id, index, offset, time));
                }
            } else if kind == 2 {
                *watermark = watermark.plus(by);
                waiters.on_high_watermark(partition(index), *watermark, &mut woken);
                drop_where(&|w| w.1 == index && w.2 <= *watermark);
            } else if kind == 3 {
                waiters.expire(Monotonic(time), &mut woken);
                drop_where(&|w| w.3 <= time);
            } else if by == 0 {
                waiters.on_gone(partition(index), &mut woken);
                drop_where(&|w| w.1 == index);
            } else {
                let known = waiters.cancel(WaiterId(time));
                drop_where(&|w| w.0 == WaiterId(time));
                prop_assert_eq!(known, !expected.is_empty());
                expected.clear();
            }
            woken.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(woken, expected);
            prop_assert_eq!(waiters.len(), naive.len());
            prop_assert_eq!(waiters.next_deadline(), naive.iter().map(|w| Monotonic(w.3)).min());
        }
    }
}
