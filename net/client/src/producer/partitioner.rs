//! Which partition a record goes to. Pure: randomness comes in as a seed.
//!
//! A record that names its partition goes there; partitioners are asked about the others.
//! Source: KIP-480 and KIP-794 (sticky), Kafka's default placement of keys.

use pelton_model::map::Map;
use pelton_protocol::codec::Str;

use super::murmur2::key_partition;
use crate::limits;
use crate::metadata::TopicMetadata;

/// What a partitioner decides by.
#[derive(Clone, Copy, Debug)]
pub struct PartitionRequest<'a> {
    /// The topic and its partitions.
    pub topic: &'a TopicMetadata,
    /// The record's key.
    pub key: Option<&'a [u8]>,
    /// The record's value.
    pub value: Option<&'a [u8]>,
}

impl PartitionRequest<'_> {
    /// The number of partitions.
    #[must_use]
    pub fn partition_count(&self) -> i32 {
        i32::try_from(self.topic.partitions.len()).unwrap_or(i32::MAX)
    }

    /// The partition that comes `turn`-th, counting round and round, among those with a leader (among all when none has
    /// one).
    #[must_use]
    pub fn available(&self, turn: u64) -> Option<i32> {
        let partitions = &self.topic.partitions;
        let with_leader = partitions
            .iter()
            .filter(|known| known.leader.is_some())
            .count();
        let is_any = with_leader == 0;
        let count = if is_any {
            partitions.len()
        } else {
            with_leader
        };
        let index = turn.checked_rem(u64::try_from(count).ok()?)?;
        let mut candidates = partitions
            .iter()
            .filter(|known| is_any || known.leader.is_some());
        let chosen = candidates.nth(usize::try_from(index).ok()?)?;
        Some(chosen.partition)
    }
}

/// Chooses partitions for the records of one producer.
pub trait Partitioner {
    /// The partition for a record that names none; `None` refuses it.
    fn partition(&mut self, request: &PartitionRequest<'_>) -> Option<i32>;

    /// Hears that a batch of `partition` takes no more records.
    fn on_batch_closed(&mut self, topic: &str, partition: i32) {
        let _ = (topic, partition);
    }
}

/// Refuses every record that does not name its partition.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExplicitPartitioner;

impl Partitioner for ExplicitPartitioner {
    fn partition(&mut self, _: &PartitionRequest<'_>) -> Option<i32> {
        None
    }
}

/// Keyed records by their key's hash, as Java's clients; the others as another partitioner says.
#[derive(Clone, Debug)]
pub struct KeyHashPartitioner<P = StickyPartitioner> {
    keyless: P,
}

impl<P: Partitioner> KeyHashPartitioner<P> {
    /// Leaves records without a key to `keyless`.
    #[must_use]
    pub fn new(keyless: P) -> Self {
        Self { keyless }
    }
}

impl<P: Partitioner> Partitioner for KeyHashPartitioner<P> {
    fn partition(&mut self, request: &PartitionRequest<'_>) -> Option<i32> {
        match request.key {
            None => self.keyless.partition(request),
            Some(_) if request.partition_count() == 0 => None,
            Some(key) => Some(key_partition(key, request.partition_count())),
        }
    }

    fn on_batch_closed(&mut self, topic: &str, partition: i32) {
        self.keyless.on_batch_closed(topic, partition);
    }
}

/// Stays with one partition per topic until its batch is closed, then moves to another at random: full batches.
#[derive(Clone, Debug)]
pub struct StickyPartitioner {
    random: u64,
    current: Map<Str, i32>,
}

impl StickyPartitioner {
    /// Draws from a sequence that `seed` determines.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            random: seed,
            current: Map::default(),
        }
    }

    /// The next number of the SplitMix64 sequence.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Partitioner for StickyPartitioner {
    fn partition(&mut self, request: &PartitionRequest<'_>) -> Option<i32> {
        let topic = request.topic;
        if let Some(current) = self.current.get(&topic.name)
            && topic
                .partition(*current)
                .is_some_and(|known| known.leader.is_some())
        {
            return Some(*current);
        }
        let turn = self.draw();
        let chosen = request.available(turn)?;
        if self.current.len() >= limits::TOPICS_CACHED_MAX {
            self.current.clear();
        }
        self.current.insert(topic.name.clone(), chosen);
        Some(chosen)
    }

    fn on_batch_closed(&mut self, topic: &str, partition: i32) {
        if self.current.get(topic) == Some(&partition) {
            self.current.remove(topic);
        }
    }
}

/// One partition after the other, per topic, whatever the key.
#[derive(Clone, Debug, Default)]
pub struct RoundRobinPartitioner {
    turns: Map<Str, u64>,
}

impl Partitioner for RoundRobinPartitioner {
    fn partition(&mut self, request: &PartitionRequest<'_>) -> Option<i32> {
        if let Some(turn) = self.turns.get_mut(&request.topic.name) {
            *turn += 1;
            return request.available(*turn);
        }
        if self.turns.len() >= limits::TOPICS_CACHED_MAX {
            self.turns.clear();
        }
        self.turns.insert(request.topic.name.clone(), 0);
        request.available(0)
    }
}

#[cfg(test)]
mod tests {
    use pelton_model::{ErrorCode, TopicId};

    use super::*;
    use crate::metadata::PartitionMetadata;

    fn topic(leaders: &[Option<i32>]) -> TopicMetadata {
        let partitions = leaders
            .iter()
            .zip(0..)
            .map(|(leader, partition)| PartitionMetadata {
                partition,
                leader: *leader,
                leader_epoch: 0,
                replicas: Vec::new(),
                isr: Vec::new(),
                offline_replicas: Vec::new(),
                error: ErrorCode::None,
            });
        TopicMetadata {
            name: "t".into(),
            topic_id: TopicId::ZERO,
            is_internal: false,
            partitions: partitions.collect(),
        }
    }

    fn ask(
        partitioner: &mut dyn Partitioner,
        topic: &TopicMetadata,
        key: Option<&[u8]>,
    ) -> Option<i32> {
        partitioner.partition(&PartitionRequest {
            topic,
            key,
            value: None,
        })
    }

    // Goal: turns go round those with a leader. Method: five asks with one partition down, then all down, then none.
    #[test]
    fn round_robin_skips_the_leaderless() {
        let mut partitioner = RoundRobinPartitioner::default();
        let mut turns = |topic: &TopicMetadata| {
            (0..5)
                .map(|_| ask(&mut partitioner, topic, None))
                .collect::<Vec<_>>()
        };
        let some = topic(&[Some(1), None, Some(1)]);
        assert_eq!(turns(&some), [0, 2, 0, 2, 0].map(Some));
        assert_eq!(turns(&topic(&[None, None])), [1, 0, 1, 0, 1].map(Some));
        assert_eq!(turns(&topic(&[])), [None; 5]);
    }

    // Goal: one partition per batch, all of them over time. Method: asks between closed batches.
    #[test]
    fn sticky_moves_when_a_batch_closes() {
        let mut partitioner = StickyPartitioner::new(7);
        let topic = topic(&[Some(1), Some(1), None, Some(1)]);
        let mut seen = [0; 4];
        for _ in 0..200 {
            let first = ask(&mut partitioner, &topic, None).unwrap();
            assert_eq!(ask(&mut partitioner, &topic, None), Some(first));
            partitioner.on_batch_closed("t", first + 1);
            assert_eq!(ask(&mut partitioner, &topic, None), Some(first));
            partitioner.on_batch_closed("t", first);
            seen[usize::try_from(first).unwrap()] += 1;
        }
        assert_eq!(seen[2], 0);
        assert!(seen.iter().filter(|count| **count > 30).count() == 3);
    }

    // Goal: keys by hash over all partitions, others by the second partitioner. Method: keys with known hashes.
    #[test]
    fn keys_go_by_hash() {
        let mut partitioner = KeyHashPartitioner::new(ExplicitPartitioner);
        let topic = topic(&[None; 10]);
        assert_eq!(ask(&mut partitioner, &topic, Some(b"foobar")), Some(6));
        assert_eq!(ask(&mut partitioner, &topic, Some(b"abc")), Some(7));
        assert_eq!(ask(&mut partitioner, &topic, None), None);
    }
}
