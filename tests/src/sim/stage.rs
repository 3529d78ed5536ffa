//! A small stage for scripted scenes: one broker on a disk that can lose its power, and clients that are run to their end.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use pelton_model::compression::Compression;
use pelton_model::slice::Slice;
use pelton_protocol::message::fetch::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData,
};
use pelton_protocol::message::produce::ProduceResponse;
use pelton_storage::disk::memory::MemoryDisk;
use pelton_transport::net::{Connection, Net};

use super::bench::{Bench, Topic};
use super::broker::{Life, Settings};
use super::mesh::MeshQuality;
use super::net::Network;
use super::oracle::RecordId;
use super::producer::{data, request};
use super::records::{batch, records};
use super::trace::{forget_errors, log_into};
use super::world::{Owner, World};

/// Where brokers with a metrics port have it.
pub const METRICS: &str = "127.0.0.1:9644";
/// Virtual time that one scene may take at most, ms.
const SCENE_MS_MAX: u64 = 120_000;
const STEPS_MAX: u64 = 1_000_000;
/// How long one answer may take, ms.
const ANSWER_MS_MAX: u64 = 60_000;

/// See the module.
pub struct Stage {
    /// The world.
    pub world: World,
    /// The disk.
    pub disk: MemoryDisk,
    /// What clients share.
    pub bench: Rc<Bench>,
    network: Network,
    settings: Settings,
    life: Life,
    lives: u32,
}

/// Plays a scene with this seed on a broker with these settings.
///
/// # Errors
/// What went wrong, with the seed and the last events.
pub fn play(
    seed: u64,
    shard_count: u16,
    config: &[(&str, &str)],
    scene: impl FnOnce(&mut Stage),
) -> Result<(), String> {
    pelton_model::map::seed(0x5eed);
    let world = World::new(seed, STEPS_MAX);
    let run = || scene(&mut Stage::new(&world, shard_count, config));
    let outcome = log_into(&world, || catch_unwind(AssertUnwindSafe(run)));
    outcome.map_err(|panic| {
        let reason = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no reason given")
            .to_owned();
        let events = world.last_events().join("\n");
        std::mem::forget(world);
        format!("seed {seed}: {reason}\nlast events:\n{events}")
    })
}

impl Stage {
    fn new(world: &World, shard_count: u16, config: &[(&str, &str)]) -> Self {
        let (network, disk) = (Network::new(world), MemoryDisk::new());
        let bench = Bench::new(world, &network);
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let settings = Settings {
            shard_count,
            mesh: MeshQuality { capacity: 1024, delay_max: 50_000 },
            disk_delay_max: 1_000_000,
            memory_bytes: 1 << 30,
            config: config.iter().map(own).collect::<BTreeMap<_, _>>(),
        };
        let life = Life::start(world, &network, &disk, 0, &settings);
        let stage = Self { world: world.clone(), disk, bench, network, settings, life, lives: 1 };
        stage.step_until("the start", || stage.life.is_serving());
        stage
    }

    fn step_until(&self, what: &str, is_done: impl Fn() -> bool) {
        let deadline = self.world.now() + SCENE_MS_MAX * 1_000_000;
        while !is_done() {
            assert!(self.world.now() < deadline, "waited in vain for {what}");
            self.world.step();
            self.life.reap();
            let errors = self.life.errors();
            assert!(errors.is_empty(), "the broker ended: {errors:?}");
        }
    }

    /// Runs clients until they have ended.
    pub fn run<T: 'static>(&self, client: impl Future<Output = T> + 'static) -> T {
        let result = Rc::new(std::cell::RefCell::new(None));
        let filled = Rc::clone(&result);
        self.bench.start(async move {
            let value = client.await;
            *filled.borrow_mut() = Some(value);
        });
        let bench = Rc::clone(&self.bench);
        self.step_until("the clients", move || bench.busy.get() == 0);
        result.take().expect("the client has ended")
    }

    /// Lets time pass.
    pub fn wait_ms(&self, ms: u64) {
        let world = self.world.clone();
        self.run(async move { world.sleep(ms * 1_000_000).await });
    }

    /// Creates a topic.
    pub fn create_topic(
        &self,
        name: &'static str,
        partitions: i32,
        configs: &[(&'static str, &'static str)],
    ) -> Topic {
        let (bench, configs) = (Rc::clone(&self.bench), configs.to_vec());
        self.run(async move { bench.create_topic(name, partitions, &configs).await })
    }

    /// Sends one batch of `records` records; the error code and the base offset that came back.
    pub fn produce(&self, topic: &Topic, partition: i32, acks: i16, records: u32) -> (i16, i64) {
        let (bench, topic) = (Rc::clone(&self.bench), topic.clone());
        self.run(async move {
            let producer = bench.oracle.borrow_mut().producer();
            let ids: Vec<RecordId> =
                (0..records).map(|number| RecordId { producer, number }).collect();
            let bytes = batch(&ids, None, 100, Compression::None);
            let mut link = bench.link("producer").await;
            let produce = request(&topic, acks, vec![data(partition, &bytes)]);
            let answer: ProduceResponse =
                link.call(13, &produce, ANSWER_MS_MAX).await.expect("an answer");
            let answer = &answer.responses[0].partition_responses[0];
            (answer.error_code, answer.base_offset)
        })
    }

    /// Sends one batch under a client id of its own; the error code that came back.
    pub fn produce_as(&self, client_id: String, topic: &Topic, partition: i32) -> i16 {
        let (bench, topic) = (Rc::clone(&self.bench), topic.clone());
        self.run(async move {
            let producer = bench.oracle.borrow_mut().producer();
            let bytes = batch(&[RecordId { producer, number: 0 }], None, 100, Compression::None);
            let mut link = bench.link(&client_id).await;
            let produce = request(&topic, 1, vec![data(partition, &bytes)]);
            let answer: ProduceResponse =
                link.call(13, &produce, ANSWER_MS_MAX).await.expect("an answer");
            answer.responses[0].partition_responses[0].error_code
        })
    }

    /// Sends so many batches of one record over one connection, one after the other; they are stored in this order.
    pub fn produce_many(&self, topic: &Topic, partition: i32, batches: u32) {
        let (bench, topic) = (Rc::clone(&self.bench), topic.clone());
        self.run(async move {
            let producer = bench.oracle.borrow_mut().producer();
            let mut link = bench.link("producer").await;
            let mut last = None;
            for number in 0..batches {
                let bytes = batch(&[RecordId { producer, number }], None, 100, Compression::None);
                let produce = request(&topic, -1, vec![data(partition, &bytes)]);
                let answer: ProduceResponse =
                    link.call(13, &produce, ANSWER_MS_MAX).await.expect("an answer");
                let answer = &answer.responses[0].partition_responses[0];
                assert_eq!(answer.error_code, 0);
                assert!(last < Some(answer.base_offset), "out of order");
                last = Some(answer.base_offset);
            }
        });
    }

    /// How many connections have moved from one shard to another.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.network.moves()
    }

    /// Asks for what is at `offset`; the error code and the high watermark that came back.
    pub fn fetch(&self, topic: &Topic, partition: i32, offset: i64) -> (i16, i64) {
        let answer = self.fetched(topic, partition, offset);
        (answer.error_code, answer.high_watermark)
    }

    /// The offsets of the records that one Fetch from `offset` brings.
    pub fn offsets(&self, topic: &Topic, partition: i32, offset: i64) -> Vec<i64> {
        let answer = self.fetched(topic, partition, offset);
        assert_eq!(answer.error_code, 0);
        let bytes = answer.records.as_ref().and_then(|records| records.bytes());
        bytes.map(records).unwrap_or_default().into_iter().map(|(offset, _)| offset).collect()
    }

    fn fetched(&self, topic: &Topic, partition: i32, offset: i64) -> PartitionData {
        let (bench, id) = (Rc::clone(&self.bench), topic.id);
        self.run(async move {
            let partition = FetchPartition {
                partition,
                partition_max_bytes: 1 << 20,
                fetch_offset: offset,
                ..FetchPartition::default()
            };
            let fetch = FetchRequest {
                topics: vec![FetchTopic {
                    topic_id: id,
                    partitions: vec![partition],
                    ..FetchTopic::default()
                }],
                ..FetchRequest::default()
            };
            let mut link = bench.link("consumer").await;
            let mut answer: FetchResponse =
                link.call(13, &fetch, ANSWER_MS_MAX).await.expect("an answer");
            answer.responses.swap_remove(0).partitions.swap_remove(0)
        })
    }

    /// Sends bytes to the metrics port and gives back everything that comes until it closes; nothing when nobody listens.
    pub fn http(&self, request: &'static [u8]) -> String {
        let (world, network) = (self.world.clone(), self.network.clone());
        self.run(async move { exchange(&world, &network, request).await.unwrap_or_default() })
    }

    /// Opens so many connections to the metrics port that send nothing, and leaves them to it.
    pub fn http_silently(&self, count: usize) {
        for _ in 0..count {
            let (world, network) = (self.world.clone(), self.network.clone());
            self.world.spawn(Owner::Clients, async move {
                drop(exchange(&world, &network, b"").await);
            });
        }
    }

    /// Fetches at the end of an empty partition, waiting for what does not come.
    pub fn fetch_waiting(&self, topic: &Topic, wait_ms: i32) {
        let (bench, id) = (Rc::clone(&self.bench), topic.id);
        self.run(async move {
            let partition =
                FetchPartition { partition_max_bytes: 1 << 20, ..FetchPartition::default() };
            let fetch = FetchRequest {
                max_wait_ms: wait_ms,
                min_bytes: 1,
                topics: vec![FetchTopic {
                    topic_id: id,
                    partitions: vec![partition],
                    ..FetchTopic::default()
                }],
                ..FetchRequest::default()
            };
            let mut link = bench.link("consumer").await;
            let _answer: FetchResponse =
                link.call(13, &fetch, ANSWER_MS_MAX).await.expect("an answer");
        });
    }

    /// kill -9 and a start, and what the metrics port answered to `request` meanwhile, again and again.
    pub fn restart_watched(&mut self, request: &'static [u8]) -> Vec<String> {
        self.life.kill();
        forget_errors(0);
        self.life = Life::start(&self.world, &self.network, &self.disk, self.lives, &self.settings);
        self.lives += 1;
        let answers = Rc::new(std::cell::RefCell::new(Vec::new()));
        let is_over = Rc::new(std::cell::Cell::new(false));
        let (world, network) = (self.world.clone(), self.network.clone());
        let (heard, over) = (Rc::clone(&answers), Rc::clone(&is_over));
        self.bench.start(async move {
            while !over.get() {
                if let Some(answer) = exchange(&world, &network, request).await {
                    heard.borrow_mut().push(answer);
                }
                world.sleep(100_000).await;
            }
        });
        self.step_until("a start", || self.life.is_serving());
        is_over.set(true);
        self.wait_ms(1);
        answers.take()
    }

    /// kill -9; with `power` the disk also loses what was not synced. Then the broker starts again.
    pub fn restart(&mut self, loses_power: bool) {
        self.kill(loses_power);
        self.start();
    }

    /// kill -9; with `power` the disk also loses what was not synced.
    pub fn kill(&mut self, loses_power: bool) {
        self.life.kill();
        forget_errors(0);
        if loses_power {
            self.disk.crash(self.world.draw(super::random::Random::draw));
        }
    }

    /// Starts the broker and waits until it serves.
    pub fn start(&mut self) {
        self.begin();
        self.step_until("a start", || self.life.is_serving());
    }

    fn begin(&mut self) {
        self.life = Life::start(&self.world, &self.network, &self.disk, self.lives, &self.settings);
        self.lives += 1;
    }

    /// An orderly stop.
    pub fn stop(&mut self) {
        self.life.stop();
        self.step_until("a stop", || self.life.has_ended());
        self.life.kill();
    }

    /// Starts the broker, tells it to stop after so many steps, and waits for its end: whether it served before, and the virtual time
    /// that the stop took, ms. It may end with an error.
    pub fn stop_after_steps(&mut self, steps: u64) -> (bool, u64) {
        self.begin();
        for _ in 0..steps {
            self.world.step();
            self.life.reap();
        }
        let did_serve = self.life.is_serving();
        let from = self.world.now();
        self.life.stop();
        let deadline = from + SCENE_MS_MAX * 1_000_000;
        while !self.life.has_ended() {
            assert!(self.world.now() < deadline, "a stop during a start never ends");
            self.world.step();
            self.life.reap();
        }
        self.life.kill();
        forget_errors(0);
        (did_serve, (self.world.now() - from) / 1_000_000)
    }

    /// How long operations of the disk take at most from the next start on, ms.
    pub fn slow_disk(&mut self, ms_max: u64) {
        self.settings.disk_delay_max = ms_max * 1_000_000;
    }
}

/// One exchange with the metrics port; `None` when nobody listens.
async fn exchange(world: &World, network: &Network, request: &'static [u8]) -> Option<String> {
    let net = network.for_owner(Owner::Clients);
    let connection = net.connect(METRICS.parse().expect("an address")).await.ok()?;
    let mut slices = vec![Slice::Bytes(Bytes::from_static(request))];
    // A server that has heard enough may close before it has heard all.
    drop(connection.send(&mut slices).await);
    let mut answer = BytesMut::new();
    loop {
        answer.reserve(4096);
        match connection.recv(&mut answer).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    world.note(|| format!("metrics: {} bytes", answer.len()));
    Some(String::from_utf8(answer.to_vec()).expect("text"))
}
