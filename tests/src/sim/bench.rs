//! What the clients of one simulation share: the world, the facts, and small steps that every client takes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use pelton_model::{ErrorCode, TopicId};
use pelton_protocol::codec::{Message, Str};
use pelton_protocol::message::create_topics::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse,
};
use pelton_protocol::message::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use pelton_protocol::message::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use pelton_protocol::message::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic,
};
use pelton_protocol::message::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};

use super::client::{Link, Lost};
use super::ledger::Ledger;
use super::net::Network;
use super::oracle::{Oracle, Place};
use super::world::{Owner, World};

/// How long a client waits for an answer that is not a long poll, ms.
pub const PATIENCE_MS: u64 = 60_000;

/// What may become of a topic's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All of them stay.
    Whole,
    /// Those below an offset that a client named go.
    Deleting,
    /// The oldest go when there are more than so many bytes.
    Retained(u64),
    /// Those go behind which there is another one of their key.
    Compacted,
}

/// A topic that clients use.
#[derive(Clone, Debug)]
pub struct Topic {
    /// Its name.
    pub name: Str,
    /// Its id.
    pub id: TopicId,
    /// Its partitions.
    pub partitions: i32,
    /// What may become of its records.
    pub kind: Kind,
}

/// See the module.
pub struct Bench {
    /// The world.
    pub world: World,
    /// The network.
    pub network: Network,
    /// The facts.
    pub oracle: RefCell<Oracle>,
    /// What is known of transactions.
    pub ledger: RefCell<Ledger>,
    /// Committed transactions that the last check found.
    pub committed: Cell<u64>,
    /// Kills, stops and resets so far: a strict expectation holds only when none came between.
    pub disturbances: Cell<u64>,
    /// The broker is on its way down: it ends waits and connections before their time.
    pub is_stopping: Cell<bool>,
    /// Starts of the broker so far.
    pub starts: Cell<u64>,
    /// Batches that the broker no longer recognised after a restart.
    pub forgotten: Cell<u64>,
    /// Whether kills of this run also cut the power.
    pub power_goes: Cell<bool>,
    /// Whether the disk fails in this run: then storage errors are answers like others.
    pub disk_fails: Cell<bool>,
    /// No more faults come: what is left to do must get done.
    pub is_healed: Cell<bool>,
    /// Client tasks that have work left.
    pub busy: Cell<usize>,
    /// Topics to be compared as a whole.
    pub topics: RefCell<Vec<Topic>>,
    /// When the deletion of a topic was answered.
    pub deleted: RefCell<BTreeMap<TopicId, u64>>,
    /// Producers that have work left: consumers read on while there are any.
    pub producing: Cell<usize>,
}

impl Bench {
    /// Clients of a new world.
    #[must_use]
    pub fn new(world: &World, network: &Network) -> Rc<Self> {
        Rc::new(Self {
            world: world.clone(),
            network: network.clone(),
            oracle: RefCell::default(),
            ledger: RefCell::default(),
            committed: Cell::new(0),
            disturbances: Cell::new(0),
            is_stopping: Cell::new(false),
            starts: Cell::new(0),
            forgotten: Cell::new(0),
            power_goes: Cell::new(false),
            disk_fails: Cell::new(false),
            is_healed: Cell::new(false),
            busy: Cell::new(0),
            topics: RefCell::default(),
            deleted: RefCell::default(),
            producing: Cell::new(0),
        })
    }

    /// Whether nothing has come between since the counter was `disturbances`.
    #[must_use]
    pub fn is_calm_since(&self, disturbances: u64) -> bool {
        disturbances == self.disturbances.get() && !self.is_stopping.get()
    }

    /// Starts a client; the run is over when all have ended.
    pub fn start(self: &Rc<Self>, client: impl Future<Output = ()> + 'static) {
        self.busy.set(self.busy.get() + 1);
        let bench = Rc::clone(self);
        self.world.spawn(Owner::Clients, async move {
            client.await;
            bench.busy.set(bench.busy.get() - 1);
        });
    }

    /// Connects, trying until somebody listens.
    pub async fn link(&self, name: &str) -> Link {
        loop {
            match Link::open(&self.world, &self.network, name).await {
                Ok(link) => return link,
                Err(_) => self.pause(50).await,
            }
        }
    }

    /// Waits up to `ms`.
    pub async fn pause(&self, ms: u64) {
        let nanoseconds = self.world.draw(|random| random.magnitude(ms * 1_000_000));
        self.world.sleep(nanoseconds).await;
    }

    /// Whether a step fails a percentage of times, by chance.
    #[must_use]
    pub fn chance(&self, percent: u64) -> bool {
        self.world.draw(|random| random.percent(percent))
    }

    /// Whether an answer only says that the broker stops or its disk failed: asking again later is right.
    #[must_use]
    pub fn is_passing(&self, code: i16) -> bool {
        match ErrorCode::from_code(code) {
            // The owner of the partition has stopped: the outcome is not known.
            Some(ErrorCode::RequestTimedOut | ErrorCode::NotController) => true,
            Some(ErrorCode::CoordinatorNotAvailable) => true,
            Some(ErrorCode::KafkaStorageError) => self.disk_fails.get(),
            Some(_) | None => false,
        }
    }

    /// Asks until there is an answer, on new connections as needed. `accept` says whether an answer will do.
    pub async fn insist<Q: Message, S: Message>(
        &self,
        name: &str,
        version: i16,
        request: &Q,
        accept: impl Fn(&S) -> bool,
    ) -> S {
        loop {
            let mut link = self.link(name).await;
            let answer: Result<S, Lost> = link.call(version, request, PATIENCE_MS).await;
            match answer {
                Ok(answer) if accept(&answer) => return answer,
                Ok(_) | Err(_) => self.pause(100).await,
            }
        }
    }

    /// Creates a topic, or finds it when an earlier try had succeeded unnoticed.
    pub async fn create_topic(
        &self,
        name: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> Topic {
        let config = |&(name, value): &(&str, &str)| CreatableTopicConfig {
            name: Str::from(name),
            value: Some(Str::from(value)),
        };
        let request = CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: Str::from(name),
                num_partitions: partitions,
                replication_factor: 1,
                configs: configs.iter().map(config).collect(),
                ..CreatableTopic::default()
            }],
            ..CreateTopicsRequest::default()
        };
        let accept = |answer: &CreateTopicsResponse| !self.is_passing(answer.topics[0].error_code);
        let answer = self.insist("admin", 7, &request, accept).await;
        let created = &answer.topics[0];
        let id = match ErrorCode::from_code(created.error_code) {
            Some(ErrorCode::None) => created.topic_id,
            Some(ErrorCode::TopicAlreadyExists) => self.topic_id(name).await,
            other => panic!("cannot create {name}: {other:?} {:?}", created.error_message),
        };
        assert!(!id.is_zero(), "a topic without an id");
        self.world.note(|| format!("topic {name} with {partitions} partitions is {id}"));
        Topic { name: Str::from(name), id, partitions, kind: Kind::Whole }
    }

    async fn topic_id(&self, name: &str) -> TopicId {
        let topic =
            MetadataRequestTopic { name: Some(Str::from(name)), ..MetadataRequestTopic::default() };
        let request = MetadataRequest { topics: Some(vec![topic]), ..MetadataRequest::default() };
        let answer: MetadataResponse = self.insist("admin", 12, &request, |_| true).await;
        assert_eq!(answer.topics[0].error_code, 0, "{name} is not known");
        answer.topics[0].topic_id
    }

    /// An id for an idempotent producer.
    pub async fn producer_id(&self) -> i64 {
        let request = InitProducerIdRequest::default();
        let accept = |answer: &InitProducerIdResponse| !self.is_passing(answer.error_code);
        let answer = self.insist("producer", 4, &request, accept).await;
        assert_eq!(answer.error_code, 0, "InitProducerId");
        answer.producer_id
    }

    /// Asks who coordinates a group (type 0) or a transactional id (type 1), until somebody does: the topic of such coordinators is
    /// there then.
    pub async fn await_coordinator(&self, key: &str, key_type: i8) {
        let request = FindCoordinatorRequest {
            key_type,
            coordinator_keys: vec![Str::from(key)],
            ..FindCoordinatorRequest::default()
        };
        let accept = |answer: &FindCoordinatorResponse| answer.coordinators[0].error_code == 0;
        self.insist("coordinated", 4, &request, accept).await;
    }

    /// Asks for the ends of a topic's partitions and compares them with the facts.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn ends(&self, link: &mut Link, topic: &Topic) -> Result<Vec<i64>, Lost> {
        let place = |partition| -> Place { (topic.id, partition) };
        let known: Vec<i64> = (0..topic.partitions)
            .map(|partition| self.oracle.borrow().known_end(place(partition)))
            .collect();
        let ends = self.list_ends(link, &topic.name, topic.partitions, 0).await?;
        for ((partition, &floor), &end) in (0..).zip(&known).zip(&ends) {
            self.oracle.borrow_mut().end(place(partition), end, floor);
        }
        Ok(ends)
    }

    /// Asks for the ends of a topic's partitions: of all records, or (`isolation_level` 1) of those below every open transaction.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn list_ends(
        &self,
        link: &mut Link,
        topic: &Str,
        partitions: i32,
        isolation_level: i8,
    ) -> Result<Vec<i64>, Lost> {
        let partition = |partition_index| ListOffsetsPartition {
            partition_index,
            timestamp: -1,
            ..ListOffsetsPartition::default()
        };
        let version = self.world.draw(|r| i16::try_from(r.between(2, 9)).unwrap());
        let request = ListOffsetsRequest {
            replica_id: -1,
            isolation_level,
            topics: vec![ListOffsetsTopic {
                name: topic.clone(),
                partitions: (0..partitions).map(partition).collect(),
            }],
            ..ListOffsetsRequest::default()
        };
        let answer: ListOffsetsResponse = link.call(version, &request, PATIENCE_MS).await?;
        let mut ends = Vec::new();
        for answer in &answer.topics[0].partitions {
            if self.is_passing(answer.error_code) {
                return Err(Lost::Closed);
            }
            assert_eq!(answer.error_code, 0, "ListOffsets of {topic} {}", answer.partition_index);
            ends.push(answer.offset);
        }
        Ok(ends)
    }

    /// Asks where a partition begins and compares that with the facts.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn begin(&self, link: &mut Link, topic: &Topic, index: i32) -> Result<i64, Lost> {
        let place = (topic.id, index);
        let floor = self.oracle.borrow().known_start(place);
        let partition = ListOffsetsPartition {
            partition_index: index,
            timestamp: -2,
            ..ListOffsetsPartition::default()
        };
        let request = ListOffsetsRequest {
            replica_id: -1,
            topics: vec![ListOffsetsTopic {
                name: topic.name.clone(),
                partitions: vec![partition],
            }],
            ..ListOffsetsRequest::default()
        };
        let answer: ListOffsetsResponse = link.call(9, &request, PATIENCE_MS).await?;
        let answer = &answer.topics[0].partitions[0];
        if self.is_passing(answer.error_code) {
            return Err(Lost::Closed);
        }
        assert_eq!(answer.error_code, 0, "ListOffsets of {} {index}", topic.name);
        // What retention took is gone when its files are: only a power cut may bring it back. Deleted records may come back until their
        // deletion is answered.
        let stays = !self.power_goes.get() && topic.kind != Kind::Deleting;
        self.oracle.borrow_mut().began(place, answer.offset, floor, stays);
        Ok(answer.offset)
    }
}
