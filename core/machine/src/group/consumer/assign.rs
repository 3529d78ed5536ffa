//! The assignors: which member should hold which partitions.
//!
//! 1. Every partition of a topic that somebody wants is given to exactly one of those who want it.
//! 2. Uniform: counts differ by no more than subscriptions force, and partitions stay where they are while that holds.
//! 3. Range: each topic is cut into runs, one for each member that wants it, in the order of names; so topics with as many
//!    partitions and the same readers are cut alike.
//! 4. The result depends on nothing but the input: no hash order, no chance.

use std::collections::{BTreeMap, BTreeSet};

use pelton_model::{Str, TopicId};

use super::Partitions;

/// Rounds of improvement for members that want different topics.
const ROUNDS_MAX: usize = 16;

/// A member for an assignor.
#[derive(Clone, Debug, Default)]
pub(super) struct Seat {
    /// What orders members: the static member's name, else the id.
    pub(super) name: Str,
    /// The topics it wants, all of which exist.
    pub(super) topics: BTreeSet<TopicId>,
    /// What it should hold so far.
    pub(super) before: Partitions,
}

/// Members by id.
pub(super) type Seats = BTreeMap<Str, Seat>;
/// Who should hold what.
pub(super) type Targets = BTreeMap<Str, Partitions>;

/// Cuts each topic into runs.
pub(super) fn range(seats: &Seats, topics: &BTreeMap<TopicId, i32>) -> Targets {
    let mut targets: Targets = seats
        .keys()
        .map(|id| (id.clone(), Partitions::new()))
        .collect();
    for (topic_id, count) in topics {
        let reads = |(_, seat): &(&Str, &Seat)| seat.topics.contains(topic_id);
        let mut readers: Vec<(&Str, &Str)> = seats
            .iter()
            .filter(reads)
            .map(|(id, seat)| (&seat.name, id))
            .collect();
        readers.sort_unstable();
        let Ok(reader_count) = i32::try_from(readers.len()) else {
            continue;
        };
        if reader_count == 0 {
            continue;
        }
        let (each, extra) = (count / reader_count, count % reader_count);
        let mut next = 0;
        for (place, (_, id)) in (0..reader_count).zip(readers) {
            let end = next + each + i32::from(place < extra);
            if next < end
                && let Some(target) = targets.get_mut(id)
            {
                target.insert(*topic_id, (next..end).collect());
            }
            next = end;
        }
    }
    targets
}

/// Balances over all topics, and moves little.
pub(super) fn uniform(seats: &Seats, topics: &BTreeMap<TopicId, i32>) -> Targets {
    let mut plan = Plan::keep(seats, topics);
    plan.give_out();
    plan.balance();
    plan.targets()
}

/// An assignment under construction. Members are numbered in the order of their ids.
struct Plan<'a> {
    ids: Vec<&'a Str>,
    /// For each member what it holds.
    held: Vec<BTreeSet<(TopicId, i32)>>,
    /// For each topic its readers.
    readers: BTreeMap<TopicId, Vec<usize>>,
    free: Vec<(TopicId, i32)>,
    /// Members by how much they hold.
    by_load: BTreeSet<(usize, usize)>,
    /// Whether all members want the same topics.
    is_homogeneous: bool,
}

impl<'a> Plan<'a> {
    /// Members keep what they had, wanted and not above their share.
    fn keep(seats: &'a Seats, topics: &BTreeMap<TopicId, i32>) -> Self {
        let mut readers: BTreeMap<TopicId, Vec<usize>> = BTreeMap::new();
        for (member, seat) in seats.values().enumerate() {
            for topic_id in seat.topics.iter().filter(|id| topics.contains_key(id)) {
                readers.entry(*topic_id).or_default().push(member);
            }
        }
        let first = seats.values().next().map(|seat| &seat.topics);
        let is_homogeneous = seats.values().all(|seat| Some(&seat.topics) == first);
        let total: usize = topics
            .iter()
            .filter(|(id, _)| readers.contains_key(id))
            .map(|(_, count)| usize::try_from(*count).unwrap_or(0))
            .sum();
        let member_count = seats.len().max(1);
        let (quota, mut extra) = (total / member_count, total % member_count);
        let mut taken: BTreeSet<(TopicId, i32)> = BTreeSet::new();
        let mut held = Vec::with_capacity(seats.len());
        for seat in seats.values() {
            let mut mine = BTreeSet::new();
            for (topic_id, partitions) in &seat.before {
                if !seat.topics.contains(topic_id) {
                    continue;
                }
                let count = topics.get(topic_id).copied().unwrap_or(0);
                for partition in partitions.range(0..count) {
                    // Where all want the same, a share is known beforehand.
                    let is_extra = quota <= mine.len();
                    if is_homogeneous && is_extra && (extra == 0 || quota < mine.len()) {
                        break;
                    }
                    if taken.insert((*topic_id, *partition)) {
                        mine.insert((*topic_id, *partition));
                        extra -= usize::from(is_homogeneous && is_extra);
                    }
                }
            }
            held.push(mine);
        }
        let all = topics.iter().filter(|(id, _)| readers.contains_key(id));
        let all = all.flat_map(|(id, count)| (0..*count).map(move |partition| (*id, partition)));
        let free = all.filter(|one| !taken.contains(one)).collect();
        let loads = held
            .iter()
            .enumerate()
            .map(|(member, mine)| (mine.len(), member));
        Self {
            ids: seats.keys().collect(),
            by_load: loads.collect(),
            held,
            readers,
            free,
            is_homogeneous,
        }
    }

    /// Gives what is free to whoever of its readers holds least.
    fn give_out(&mut self) {
        for one in std::mem::take(&mut self.free) {
            if let Some(member) = self.least_loaded(one.0) {
                self.give(member, one);
            }
        }
    }

    fn least_loaded(&self, topic_id: TopicId) -> Option<usize> {
        if self.is_homogeneous {
            return self.by_load.first().map(|(_, member)| *member);
        }
        let readers = self.readers.get(&topic_id)?;
        readers
            .iter()
            .copied()
            .min_by_key(|member| (self.held[*member].len(), *member))
    }

    /// Moves partitions from members that hold more to readers that hold less, until nothing is gained.
    fn balance(&mut self) {
        if self.is_homogeneous {
            return;
        }
        for _ in 0..ROUNDS_MAX {
            let mut has_moved = false;
            let heaviest_first: Vec<usize> = self
                .by_load
                .iter()
                .rev()
                .map(|(_, member)| *member)
                .collect();
            for from in heaviest_first {
                for one in self.held[from].clone() {
                    let Some(to) = self.least_loaded(one.0) else {
                        continue;
                    };
                    if self.held[to].len() + 1 < self.held[from].len() {
                        self.take(from, one);
                        self.give(to, one);
                        has_moved = true;
                    }
                }
            }
            if !has_moved {
                return;
            }
        }
    }

    fn give(&mut self, member: usize, one: (TopicId, i32)) {
        self.by_load.remove(&(self.held[member].len(), member));
        self.held[member].insert(one);
        self.by_load.insert((self.held[member].len(), member));
    }

    fn take(&mut self, member: usize, one: (TopicId, i32)) {
        self.by_load.remove(&(self.held[member].len(), member));
        self.held[member].remove(&one);
        self.by_load.insert((self.held[member].len(), member));
    }

    fn targets(self) -> Targets {
        let mut targets = Targets::new();
        for (id, mine) in self.ids.into_iter().zip(self.held) {
            let mut partitions = Partitions::new();
            for (topic_id, partition) in mine {
                partitions.entry(topic_id).or_default().insert(partition);
            }
            targets.insert(id.clone(), partitions);
        }
        targets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TopicId = TopicId([1; 16]);
    const B: TopicId = TopicId([2; 16]);

    fn seat(topics: &[TopicId], before: &[(TopicId, i32)]) -> Seat {
        let mut partitions = Partitions::new();
        for (topic_id, partition) in before {
            partitions.entry(*topic_id).or_default().insert(*partition);
        }
        Seat {
            name: Str::default(),
            topics: topics.iter().copied().collect(),
            before: partitions,
        }
    }

    fn seats(all: &[Seat]) -> Seats {
        let named = |(place, seat): (usize, &Seat)| {
            let id = Str::from(format!("m{place}"));
            let name = id.clone();
            (
                id,
                Seat {
                    name,
                    ..seat.clone()
                },
            )
        };
        all.iter().enumerate().map(named).collect()
    }

    /// How much each member holds; every partition of a topic with readers is held once, by a reader.
    fn check(seats: &Seats, topics: &[(TopicId, i32)], targets: &Targets, counts: &[usize]) {
        let topics: BTreeMap<TopicId, i32> = topics.iter().copied().collect();
        let mut seen = BTreeSet::new();
        for (id, target) in targets {
            for (topic_id, partitions) in target {
                assert!(seats[id].topics.contains(topic_id));
                for partition in partitions {
                    assert!((0..topics[topic_id]).contains(partition));
                    assert!(seen.insert((*topic_id, *partition)), "given twice");
                }
            }
        }
        let wanted = topics
            .iter()
            .filter(|(id, _)| seats.values().any(|seat| seat.topics.contains(id)));
        let total: i32 = wanted.map(|(_, count)| *count).sum();
        assert_eq!(i32::try_from(seen.len()).unwrap(), total);
        let held: Vec<usize> = targets
            .values()
            .map(|target| target.values().map(BTreeSet::len).sum())
            .collect();
        assert_eq!(held, counts);
    }

    // Goal: uniform is balanced, sticky, and gives each partition once. Method: tables of members and what they had.
    #[test]
    fn uniform_assignments() {
        let topics = [(A, 6), (B, 3)];
        let all = |seats: &Seats| uniform(seats, &topics.into_iter().collect());
        let three = seats(&[seat(&[A, B], &[]), seat(&[A, B], &[]), seat(&[A, B], &[])]);
        check(&three, &topics, &all(&three), &[3, 3, 3]);
        // A fourth joins: others keep what they have, up to their share.
        let mut before = all(&three);
        let mut four = three.clone();
        for (id, seat) in &mut four {
            seat.before = before.remove(id).unwrap();
        }
        four.insert("m3".into(), seat(&[A, B], &[]));
        let after = all(&four);
        check(&four, &topics, &after, &[3, 2, 2, 2]);
        for (id, seat) in &four {
            let kept = after[id]
                .iter()
                .flat_map(|(topic, all)| all.iter().map(move |one| (topic, one)));
            let was = |(topic, one): &(&TopicId, &i32)| {
                seat.before.get(topic).is_some_and(|all| all.contains(one))
            };
            assert_eq!(
                kept.filter(was).count(),
                if id == "m3" {
                    0
                } else {
                    after[id].values().map(BTreeSet::len).sum()
                }
            );
        }
        // What two had is one's.
        let twice = seats(&[seat(&[A], &[(A, 0), (A, 1)]), seat(&[A], &[(A, 0), (A, 9)])]);
        check(
            &twice,
            &[(A, 4)],
            &uniform(&twice, &BTreeMap::from([(A, 4)])),
            &[2, 2],
        );
        let none = seats(&[]);
        check(
            &none,
            &[(A, 4)],
            &uniform(&none, &BTreeMap::from([(A, 4)])),
            &[],
        );
        let idle = seats(&[seat(&[A], &[]), seat(&[A], &[]), seat(&[A], &[])]);
        check(
            &idle,
            &[(A, 2)],
            &uniform(&idle, &BTreeMap::from([(A, 2)])),
            &[1, 1, 0],
        );
    }

    // Goal: members that want different topics are balanced as far as that goes. Method: overlapping wishes.
    #[test]
    fn uniform_with_different_subscriptions() {
        let topics = [(A, 6), (B, 3)];
        let both = seats(&[seat(&[A], &[]), seat(&[A, B], &[]), seat(&[B], &[])]);
        let targets = uniform(&both, &topics.into_iter().collect());
        check(&both, &topics, &targets, &[3, 3, 3]);
        let held_all: Vec<(TopicId, i32)> = (0..6).map(|one| (A, one)).collect();
        let moved = seats(&[seat(&[A, B], &held_all), seat(&[A], &[])]);
        let targets = uniform(&moved, &topics.into_iter().collect());
        check(&moved, &topics, &targets, &[5, 4]);
    }

    // Goal: range cuts topics alike, in the order of names. Method: two topics, three members.
    #[test]
    fn range_assignments() {
        let topics = [(A, 7), (B, 7)];
        let three = seats(&[seat(&[A, B], &[]), seat(&[A, B], &[]), seat(&[A], &[])]);
        let targets = range(&three, &topics.into_iter().collect());
        check(&three, &topics, &targets, &[7, 5, 2]);
        assert_eq!(targets["m0"][&A], (0..3).collect());
        assert_eq!(targets["m1"][&A], (3..5).collect());
        assert_eq!(targets["m2"][&A], (5..7).collect());
        assert_eq!(targets["m0"][&B], (0..4).collect());
    }
}
