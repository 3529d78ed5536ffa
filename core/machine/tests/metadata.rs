//! Controller and image together: random requests against a naive model.
//!
//! The live image, one restored from all records and one restored from a snapshot must be equal at every step, and show
//! what the model expects; nothing about epochs or ids may ever go back.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use pelton_machine::controller::{
    BrokerStart, CreatableTopic, CreatePartitionsOptions, CreateTopicsOptions, DeletableTopic,
    NewPartitions, allocate_producer_ids, create_partitions, create_topics, delete_topics, start,
    supported_features,
};
use pelton_machine::image::MetadataImage;
use pelton_model::record_type::metadata::MetadataRecord;
use pelton_model::{LeaderEpoch, NodeId, TopicId, TopicPartition};
use proptest::prelude::*;

const NODE: NodeId = NodeId(1);

#[derive(Clone, Debug)]
enum Command {
    Create(Vec<(u8, i32, i16)>),
    Delete(Vec<u8>),
    DeleteById(u8),
    Grow(u8, i32),
    ProducerIds,
    Restart,
}

fn command() -> impl Strategy<Value = Command> {
    let name = 0_u8..8;
    prop_oneof![
        4 => prop::collection::vec((name.clone(), -2..6_i32, -1..3_i16), 1..4)
            .prop_map(Command::Create),
        2 => prop::collection::vec(name.clone(), 1..3).prop_map(Command::Delete),
        1 => name.clone().prop_map(Command::DeleteById),
        2 => (name, 0..9_i32).prop_map(|(name, count)| Command::Grow(name, count)),
        1 => Just(Command::ProducerIds),
        1 => Just(Command::Restart),
    ]
}

fn name(number: u8) -> String {
    format!("topic-{number}")
}

/// What a cluster is, in the plainest terms.
#[derive(Default)]
struct Model {
    partitions: BTreeMap<String, i32>,
    next_producer_id: i64,
}

struct World {
    image: MetadataImage,
    log: Vec<MetadataRecord>,
    model: Model,
    next_id: u128,
    leader_epochs: BTreeMap<TopicPartition, LeaderEpoch>,
    broker_epoch: i64,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            image: MetadataImage::new(),
            log: Vec::new(),
            model: Model::default(),
            next_id: 1,
            leader_epochs: BTreeMap::new(),
            broker_epoch: -1,
        };
        world.restart();
        world
    }

    fn append(&mut self, records: Vec<MetadataRecord>) {
        for record in records {
            let offset = self.image.next_offset();
            self.image.replay(offset, LeaderEpoch(1), &record).unwrap();
            self.log.push(record);
        }
    }

    fn restart(&mut self) {
        let node = BrokerStart {
            broker_id: NODE,
            incarnation_id: TopicId(self.next_id.to_be_bytes()),
            end_points: Vec::new(),
            features: supported_features(),
            rack: None,
            log_dirs: vec![TopicId([1; 16]), TopicId([2; 16])],
            cordoned_log_dirs: Vec::new(),
            found: BTreeMap::new(),
        };
        let decision = start(&self.image, &node).unwrap();
        assert!(self.broker_epoch < decision.results.broker_epoch);
        self.broker_epoch = decision.results.broker_epoch;
        self.append(decision.records);
        for (partition, before) in &self.leader_epochs {
            if let Some(state) = self.image.partition(*partition) {
                assert!(*before < state.leader_epoch);
            }
        }
    }

    fn create(&mut self, asked: &[(u8, i32, i16)]) {
        let topics: Vec<CreatableTopic> = asked
            .iter()
            .map(
                |(number, num_partitions, replication_factor)| CreatableTopic {
                    num_partitions: *num_partitions,
                    replication_factor: *replication_factor,
                    ..CreatableTopic::with_defaults(&name(*number))
                },
            )
            .collect();
        let next_id = &mut self.next_id;
        let mut options = CreateTopicsOptions {
            default_num_partitions: 2,
            default_replication_factor: 1,
            validate_configs: &|_| Ok(()),
            validate_only: false,
            draw_topic_id: &mut || {
                *next_id += 1;
                TopicId((*next_id << 16).to_be_bytes())
            },
        };
        let decision = create_topics(&self.image, &topics, &mut options);
        // Apart from duplicates, a result does not depend on the other topics of the request.
        for topic in &topics {
            let alone = create_topics(&self.image, std::slice::from_ref(topic), &mut options);
            let together = decision
                .results
                .iter()
                .find(|result| result.name == topic.name);
            let repeated = topics
                .iter()
                .filter(|other| other.name == topic.name)
                .count()
                > 1;
            let is_ok = together.unwrap().result.is_ok();
            assert_eq!(is_ok, !repeated && alone.results[0].result.is_ok());
            let is_new = !self.model.partitions.contains_key(&topic.name);
            let is_valid = (topic.num_partitions == -1 || topic.num_partitions > 0)
                && topic.replication_factor.abs() == 1;
            assert_eq!(is_ok, is_new && is_valid && !repeated);
        }
        for result in &decision.results {
            if let Ok(created) = &result.result {
                let partitions = &mut self.model.partitions;
                partitions.insert(result.name.clone(), created.num_partitions);
            }
        }
        self.append(decision.records);
    }

    fn delete(&mut self, entries: &[DeletableTopic]) {
        let decision = delete_topics(&self.image, entries, true);
        for result in &decision.results {
            if result.result.is_ok() {
                let name = result.name.clone().unwrap();
                assert!(self.model.partitions.remove(&name).is_some());
            }
        }
        self.append(decision.records);
    }

    fn grow(&mut self, number: u8, count: i32) {
        let asked = NewPartitions {
            name: name(number),
            count,
            assignments: None,
        };
        let options = CreatePartitionsOptions::default();
        let decision = create_partitions(&self.image, &[asked], options);
        let known = self.model.partitions.get_mut(&name(number));
        let grows = known.as_ref().is_some_and(|current| **current < count);
        assert_eq!(decision.results[0].result.is_ok(), grows);
        if let (Some(current), true) = (known, grows) {
            *current = count;
        }
        self.append(decision.records);
    }

    fn allocate(&mut self) {
        let decision = allocate_producer_ids(&self.image, NODE, self.broker_epoch).unwrap();
        assert_eq!(decision.results.first, self.model.next_producer_id);
        self.model.next_producer_id += decision.results.count;
        self.append(decision.records);
    }

    fn run(&mut self, command: &Command) {
        match command {
            Command::Create(asked) => self.create(asked),
            Command::Delete(numbers) => {
                let by_name = |number: &u8| DeletableTopic {
                    name: Some(name(*number)),
                    topic_id: TopicId::ZERO,
                };
                let entries: Vec<DeletableTopic> = numbers.iter().map(by_name).collect();
                self.delete(&entries);
            }
            Command::DeleteById(number) => {
                let topic_id = self.image.topic_id(&name(*number));
                let topic_id = topic_id.unwrap_or(TopicId([0xee; 16]));
                let entry = DeletableTopic {
                    name: None,
                    topic_id,
                };
                self.delete(&[entry]);
            }
            Command::Grow(number, count) => self.grow(*number, *count),
            Command::ProducerIds => self.allocate(),
            Command::Restart => self.restart(),
        }
    }

    fn check(&mut self) {
        let shown = self.image.topics();
        let shown: BTreeMap<String, i32> = shown
            .map(|topic| (topic.name().to_owned(), topic.partition_count()))
            .collect();
        assert_eq!(shown, self.model.partitions);
        assert_eq!(self.image.next_producer_id(), self.model.next_producer_id);
        for topic in self.image.topics() {
            for (index, (partition, state)) in (0..).zip(topic.partitions()) {
                assert_eq!(partition.0, index);
                assert_eq!(
                    (state.leader(), state.isr.as_slice()),
                    (Some(NODE), &[NODE][..])
                );
                let key = TopicPartition {
                    topic_id: topic.id(),
                    partition,
                };
                let before = self.leader_epochs.insert(key, state.leader_epoch);
                assert!(before.is_none_or(|before| before <= state.leader_epoch));
            }
        }
    }
}

fn replayed(records: &[MetadataRecord]) -> MetadataImage {
    let mut image = MetadataImage::new();
    for record in records {
        let offset = image.next_offset();
        image.replay(offset, LeaderEpoch(1), record).unwrap();
    }
    image
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    // Goal: decide and replay agree with the model, and every way to restore gives the live image. Method: random
    // requests and restarts.
    #[test]
    fn random_requests(commands in prop::collection::vec(command(), 1..40)) {
        let mut world = World::new();
        for command in &commands {
            let published = world.image.clone();
            let shown = published.to_records();
            world.run(command);
            world.check();
            // What was published before stays as it was.
            prop_assert_eq!(published.to_records(), shown);
        }
        let restored = replayed(&world.log);
        prop_assert!(restored.same_state(&world.image));
        prop_assert_eq!(restored.applied(), world.image.applied());
        prop_assert!(replayed(&world.image.to_records()).same_state(&world.image));
    }

    // Goal: a delta is enough to follow. Method: a naive list of topics kept by deltas alone, taken now and then.
    #[test]
    fn deltas_suffice(commands in prop::collection::vec((command(), any::<bool>()), 1..40)) {
        let mut world = World::new();
        let mut followed: BTreeMap<TopicId, i32> = BTreeMap::new();
        for (command, take) in &commands {
            world.run(command);
            world.check();
            if !take {
                continue;
            }
            let delta = world.image.take_delta();
            for deleted in delta.topics_deleted.keys() {
                followed.remove(deleted);
            }
            for changed in delta.partitions {
                let count = followed.entry(changed.topic_id).or_default();
                *count = (*count).max(changed.partition.0 + 1);
            }
            let shown = world.image.topics().map(|topic| (topic.id(), topic.partition_count()));
            prop_assert_eq!(&followed, &shown.collect::<BTreeMap<TopicId, i32>>());
        }
    }
}
