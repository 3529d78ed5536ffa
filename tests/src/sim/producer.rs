//! Producers: an idempotent one that sends again until everything is acknowledged, and a plain one that sends each batch once.

use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use pelton_model::ErrorCode;
use pelton_model::compression::Compression;
use pelton_protocol::codec::Records;
use pelton_protocol::message::produce::{
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse,
    TopicProduceData,
};

use super::bench::{Bench, Kind, PATIENCE_MS, Topic};
use super::client::{Link, Lost};
use super::oracle::RecordId;
use super::records::{Stamp, batch, keyed_batch};

/// Batches of one partition that are under way at once, as Kafka's clients have it.
const WINDOW: usize = 5;
/// Requests under way at once on one connection.
const REQUESTS_MAX: usize = 5;

/// What a producer does.
#[derive(Clone, Debug)]
pub struct Load {
    /// Where to.
    pub topic: Topic,
    /// Batches for each partition.
    pub batches: u32,
    /// Records of a batch at most.
    pub records_max: u64,
    /// Bytes of a record at most.
    pub record_bytes_max: u64,
    /// Whether bursts have long pauses between them, so that a wake-up lost in a burst is not made good by the next batch.
    pub is_sparse: bool,
}

#[derive(Clone, Debug)]
struct Batch {
    sequence: i32,
    ids: Vec<RecordId>,
    bytes: Bytes,
    /// Starts of the broker when it was sent first.
    first_life: u64,
}

/// One partition's batches: made, and not acknowledged yet; the first `sent` of them are under way.
struct Lane {
    producer_id: i64,
    unmade: u32,
    next_sequence: i32,
    window: VecDeque<Batch>,
    sent: usize,
    /// Batches that the broker did not recognise: late answers may still say where they are.
    forgotten: Vec<Batch>,
    /// A batch of those under way was refused: those behind it are out of order.
    has_failed: bool,
}

impl Lane {
    fn new(producer_id: i64, batches: u32) -> Self {
        Self {
            producer_id,
            unmade: batches,
            next_sequence: 0,
            window: VecDeque::new(),
            sent: 0,
            forgotten: Vec::new(),
            has_failed: false,
        }
    }

    fn has_more(&self) -> bool {
        self.sent < self.window.len() || (self.unmade > 0 && self.window.len() < WINDOW)
    }

    fn is_done(&self) -> bool {
        self.unmade == 0 && self.window.is_empty()
    }
}

/// Makes the batches of one producer.
struct Maker<'a> {
    bench: &'a Bench,
    load: &'a Load,
    producer: u32,
    next_number: u32,
}

impl Maker<'_> {
    fn make(&mut self, stamp: Option<Stamp>) -> (Vec<RecordId>, Bytes) {
        let (count, filler, codec) = self.bench.world.draw(|random| {
            let codecs = [Compression::Gzip, Compression::Lz4, Compression::Snappy];
            let codec =
                if random.percent(85) { Compression::None } else { codecs[random.index(3)] };
            (
                1 + random.magnitude(self.load.records_max - 1),
                random.magnitude(self.load.record_bytes_max),
                codec,
            )
        });
        let first = self.next_number;
        self.next_number += u32::try_from(count).unwrap();
        let id = |number| RecordId { producer: self.producer, number };
        let ids: Vec<RecordId> = (first..self.next_number).map(id).collect();
        let filler = usize::try_from(filler).unwrap();
        let bytes = match self.load.topic.kind {
            Kind::Compacted => keyed_batch(&ids, stamp, filler, codec),
            Kind::Whole | Kind::Deleting | Kind::Retained(_) => batch(&ids, stamp, filler, codec),
        };
        (ids, bytes)
    }
}

/// Produces everything with idempotence: retries, five requests in flight, in order.
pub async fn idempotent(bench: Rc<Bench>, load: Load) {
    bench.producing.set(bench.producing.get() + 1);
    let producer_id = bench.producer_id().await;
    let producer = bench.oracle.borrow_mut().producer();
    let lanes = (0..load.topic.partitions).map(|_| Lane::new(producer_id, load.batches)).collect();
    let maker = Maker { bench: &bench, load: &load, producer, next_number: 0 };
    let mut state = Idempotent { maker, lanes, in_flight: VecDeque::new(), is_rewinding: false };
    while !state.lanes.iter().all(Lane::is_done) {
        state.begin_anew().await;
        let mut link = bench.link("idempotent").await;
        state.rewind();
        let end = state.drive(&mut link).await;
        if let Err(lost) = end {
            bench.world.note(|| format!("producer {producer}: lost its connection: {lost:?}"));
            bench.pause(100).await;
        }
    }
    bench.world.note(|| format!("producer {producer}: done"));
    bench.producing.set(bench.producing.get() - 1);
}

struct Sent {
    version: i16,
    /// The partitions and first sequences of the request.
    batches: Vec<(usize, i32)>,
}

struct Idempotent<'a> {
    maker: Maker<'a>,
    lanes: Vec<Lane>,
    in_flight: VecDeque<Sent>,
    /// Something failed: nothing new is sent until all that is under way is answered, then everything open again.
    is_rewinding: bool,
}

impl Idempotent<'_> {
    fn rewind(&mut self) {
        self.in_flight.clear();
        self.is_rewinding = false;
        for lane in &mut self.lanes {
            lane.sent = 0;
            lane.has_failed = false;
        }
    }

    /// Gives lanes whose history the broker has forgotten a new producer id.
    async fn begin_anew(&mut self) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.producer_id < 0) {
            lane.forgotten.clear();
            lane.producer_id = self.maker.bench.producer_id().await;
            lane.next_sequence = 0;
            // What is still under way on an old connection has no order with what comes.
            self.maker.producer = self.maker.bench.oracle.borrow_mut().producer();
        }
    }

    async fn drive(&mut self, link: &mut Link) -> Result<(), Lost> {
        let bench = self.maker.bench;
        loop {
            if self.is_rewinding && self.in_flight.is_empty() {
                self.rewind();
                bench.pause(20).await;
                if self.lanes.iter().any(|lane| lane.producer_id < 0) {
                    return Err(Lost::Closed);
                }
            }
            if self.maker.load.is_sparse && self.in_flight.is_empty() && bench.chance(40) {
                bench.world.sleep(bench.world.draw(|r| r.between(2, 5)) * 1_000_000_000).await;
            }
            let has_more = self.lanes.iter().any(Lane::has_more);
            let may_send = has_more && !self.is_rewinding && self.in_flight.len() < REQUESTS_MAX;
            if !may_send && self.in_flight.is_empty() {
                return Ok(());
            }
            if may_send && (self.in_flight.is_empty() || bench.chance(60)) {
                self.send(link).await?;
                if bench.chance(10) {
                    bench.pause(30).await;
                }
            } else {
                self.receive(link).await?;
            }
        }
    }

    async fn send(&mut self, link: &mut Link) -> Result<(), Lost> {
        let bench = self.maker.bench;
        let topic = self.maker.load.topic.clone();
        let open: Vec<usize> =
            (0..self.lanes.len()).filter(|&l| self.lanes[l].has_more()).collect();
        let always = open[bench.world.draw(|random| random.index(open.len()))];
        let mut batches = Vec::new();
        let mut partition_data = Vec::new();
        for lane_index in open {
            if lane_index != always && !bench.chance(40) {
                continue;
            }
            let lane = &mut self.lanes[lane_index];
            if lane.sent == lane.window.len() {
                let sequence = lane.next_sequence;
                let stamp = Stamp::idempotent(lane.producer_id, sequence);
                let (ids, bytes) = self.maker.make(Some(stamp));
                lane.next_sequence += i32::try_from(ids.len()).unwrap();
                lane.unmade -= 1;
                let first_life = bench.starts.get();
                lane.window.push_back(Batch { sequence, ids, bytes, first_life });
            }
            let batch = &lane.window[lane.sent];
            lane.sent += 1;
            batches.push((lane_index, batch.sequence));
            partition_data.push(data(i32::try_from(lane_index).unwrap(), &batch.bytes));
        }
        let version = version(bench);
        let acks = if bench.chance(50) { -1 } else { 1 };
        self.in_flight.push_back(Sent { version, batches });
        link.post(version, &request(&topic, acks, partition_data), true).await
    }

    async fn receive(&mut self, link: &mut Link) -> Result<(), Lost> {
        let bench = self.maker.bench;
        let Some(sent) = self.in_flight.pop_front() else {
            return Ok(());
        };
        let answer: ProduceResponse = link.take(sent.version, PATIENCE_MS).await?;
        let answers = &answer.responses[0].partition_responses;
        assert_eq!(answers.len(), sent.batches.len(), "one answer for each partition");
        for (&(lane_index, sequence), answer) in sent.batches.iter().zip(answers) {
            self.settle(lane_index, sequence, answer);
        }
        if bench.chance(3) {
            // A client that gives up and comes back sends again what it never saw acknowledged.
            return Err(Lost::Closed);
        }
        Ok(())
    }

    fn settle(&mut self, lane_index: usize, sequence: i32, answer: &PartitionProduceResponse) {
        let bench = self.maker.bench;
        let place = (self.maker.load.topic.id, i32::try_from(lane_index).unwrap());
        let lane = &mut self.lanes[lane_index];
        let error = ErrorCode::from_code(answer.error_code);
        if lane.producer_id < 0 {
            let known = lane.forgotten.iter().find(|batch| batch.sequence == sequence);
            if let (Some(batch), Some(ErrorCode::None)) = (known, error) {
                let (now, mut oracle) = (bench.world.now(), bench.oracle.borrow_mut());
                oracle.acknowledged(place, answer.base_offset, &batch.ids, now);
            }
            return;
        }
        match error {
            Some(ErrorCode::None) => {
                let batch = lane.window.pop_front().expect("an answer belongs to a batch");
                assert_eq!(
                    batch.sequence, sequence,
                    "{place:?}: a batch behind a failed one was taken"
                );
                lane.sent -= 1;
                let now = bench.world.now();
                bench.world.note(|| {
                    format!("ack {} at {} sequence {sequence}", place.1, answer.base_offset)
                });
                bench.oracle.borrow_mut().acknowledged(place, answer.base_offset, &batch.ids, now);
            }
            Some(ErrorCode::OutOfOrderSequenceNumber) if lane.has_failed => {}
            // A snapshot holds the last batch of a producer only (Kafka's format): after a restart the ones before it cannot be
            // recognised. Whether they are there is unknown, as for a Kafka client that gets this answer.
            Some(ErrorCode::OutOfOrderSequenceNumber)
                if lane
                    .window
                    .front()
                    .is_some_and(|batch| batch.first_life < bench.starts.get()) =>
            {
                bench
                    .world
                    .note(|| format!("{place:?}: the broker has forgotten sequence {sequence}"));
                bench.forgotten.set(bench.forgotten.get() + 1);
                lane.forgotten.extend(lane.window.drain(..));
                lane.producer_id = -1;
                self.is_rewinding = true;
            }
            Some(_) if bench.is_passing(answer.error_code) => {
                lane.has_failed = true;
                self.is_rewinding = true;
            }
            other => {
                panic!("producer {} {place:?} sequence {sequence}: {other:?}", self.maker.producer)
            }
        }
    }
}

/// Produces without idempotence: each batch is sent once, with acks 0, 1 or all; what is not acknowledged may or may not be there.
pub async fn plain(bench: Rc<Bench>, load: Load) {
    bench.producing.set(bench.producing.get() + 1);
    let mut left = load.batches;
    while left > 0 {
        let mut link = bench.link("plain").await;
        let producer = bench.oracle.borrow_mut().producer();
        let mut maker = Maker { bench: &bench, load: &load, producer, next_number: 0 };
        while left > 0 {
            left -= 1;
            if let Err(lost) = send_once(&mut maker, &mut link).await {
                bench.world.note(|| format!("producer {producer}: lost its connection: {lost:?}"));
                bench.pause(100).await;
                break;
            }
        }
    }
    bench.producing.set(bench.producing.get() - 1);
}

async fn send_once(maker: &mut Maker<'_>, link: &mut Link) -> Result<(), Lost> {
    let (bench, topic) = (maker.bench, maker.load.topic.clone());
    let partition = bench.world.draw(|r| r.below(u64::try_from(topic.partitions).unwrap()));
    let partition = i32::try_from(partition).unwrap();
    let acks = bench.world.draw(|random| [0, 1, -1][random.index(3)]);
    let (ids, bytes) = maker.make(None);
    let version = version(bench);
    let produce = request(&topic, acks, vec![data(partition, &bytes)]);
    link.post(version, &produce, acks != 0).await?;
    if bench.chance(10) {
        bench.pause(50).await;
    }
    if acks == 0 {
        return Ok(());
    }
    let answer: ProduceResponse = link.take(version, PATIENCE_MS).await?;
    let answer = &answer.responses[0].partition_responses[0];
    if bench.is_passing(answer.error_code) {
        return Ok(());
    }
    assert_eq!(answer.error_code, 0, "producer {} partition {partition}", maker.producer);
    let now = bench.world.now();
    bench.oracle.borrow_mut().acknowledged((topic.id, partition), answer.base_offset, &ids, now);
    Ok(())
}

fn version(bench: &Bench) -> i16 {
    bench.world.draw(|random| i16::try_from(random.between(3, 13)).unwrap())
}

/// One partition's part of a request.
#[must_use]
pub fn data(index: i32, bytes: &Bytes) -> PartitionProduceData {
    PartitionProduceData { index, records: Some(Records::Bytes(bytes.clone())) }
}

/// A Produce request for one topic.
#[must_use]
pub fn request(
    topic: &Topic,
    acks: i16,
    partition_data: Vec<PartitionProduceData>,
) -> ProduceRequest {
    ProduceRequest {
        acks,
        timeout_ms: 30_000,
        topic_data: vec![TopicProduceData {
            name: topic.name.clone(),
            topic_id: topic.id,
            partition_data,
        }],
        ..ProduceRequest::default()
    }
}
