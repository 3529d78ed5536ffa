//! Transactions as their partitions see them: without a coordinator, by raw requests. Batches are not verified here
//! (`transaction.partition.verification.enable=false`), and markers come as a coordinator would send them.

use kafka_protocol::messages::{
    ApiKey, DescribeProducersResponse, FetchResponse, ListOffsetsResponse, ProduceResponse,
    WriteTxnMarkersResponse,
};
use pelton_tests::answer;
use pelton_tests::batch::Batch;
use pelton_tests::broker::{Broker, Options};
use pelton_tests::raw::{PATIENCE, Reply};
use pelton_tests::request::{Fetch, ListOffsets, Produce};
use pelton_tests::topic::{self, TestTopic};
use pelton_tests::wire::{Body, request};

const TRANSACTIONAL: i16 = 0x10;
const COMMIT: bool = true;
const ABORT: bool = false;

fn broker(shards: usize) -> Option<Broker> {
    let settings = vec!["transaction.partition.verification.enable=false".to_owned()];
    Broker::start_own(Options { shards, settings, ..Options::default() })
}

fn frame(reply: Reply, api: ApiKey) -> Vec<u8> {
    let Reply::Frame(frame) = reply else { panic!("{api:?} is not answered: {reply:?}") };
    frame
}

/// One partition, and who writes to it.
struct Partition<'a> {
    broker: &'a Broker,
    topic: &'a TestTopic,
    index: i32,
}

impl Partition<'_> {
    /// Writes records of a producer's transaction (or outside of any); the error code and the first offset.
    fn write(&self, producer: (i64, i16, i32), records: i32, attributes: i16) -> (i16, i64) {
        let (id, epoch, sequence) = producer;
        let batch = Batch { attributes, ..Batch::of(records).by(id, epoch, sequence) };
        let produce = Produce {
            version: 9,
            transactional_id: Some(format!("txn-{id}")),
            partitions: vec![(self.index, Some(batch.build()))],
            ..Produce::to(self.topic.name.as_str(), Vec::new())
        };
        let frame = frame(self.broker.connect().ask(&produce.frame()), ApiKey::Produce);
        let answer: ProduceResponse =
            answer::decode(ApiKey::Produce, 9, &frame).expect("it decodes");
        let partition = &answer.responses[0].partition_responses[0];
        (partition.error_code, partition.base_offset)
    }

    fn data(&self, producer: (i64, i16, i32), records: i32) -> i64 {
        let (code, offset) = self.write(producer, records, TRANSACTIONAL);
        assert_eq!(code, 0, "{producer:?}");
        offset
    }

    /// Ends a transaction; the error code. A version of 2 and more says that the marker's epoch is above the records'.
    fn end(
        &self,
        producer: (i64, i16),
        coordinator_epoch: i32,
        commits: bool,
        txn_version: i8,
    ) -> i16 {
        let (id, epoch) = producer;
        let version = if txn_version > 0 { 2 } else { 1 };
        let topics = [(self.topic.name.as_str(), self.index)];
        let body = Body::new(true).count(1).i64(id).i16(epoch).bool(commits);
        let body = body
            .array(&topics, |body, (name, index)| body.string(name).count(1).i32(*index).tags());
        let body = body.i32(coordinator_epoch);
        let body = if version == 2 { body.i8(txn_version) } else { body };
        let body = body.tags().tags().into_bytes();
        let reply = self.broker.connect().ask(&request(27, version, true, &body));
        let frame = frame(reply, ApiKey::WriteTxnMarkers);
        // Both versions answer alike.
        let answer: WriteTxnMarkersResponse =
            answer::decode(ApiKey::WriteTxnMarkers, 1, &frame).expect("it decodes");
        assert_eq!(answer.markers[0].producer_id.0, id);
        answer.markers[0].topics[0].partitions[0].error_code
    }

    fn fetch(&self, from: i64, isolation_level: i8) -> Fetched {
        let fetch = Fetch {
            isolation_level,
            offset: from,
            partition: self.index,
            ..Fetch::of(self.topic.name.as_str())
        };
        fetched(&frame(self.broker.connect().ask(&fetch.frame()), ApiKey::Fetch))
    }

    /// The end as a reader of this level sees it.
    fn latest(&self, isolation_level: i8) -> i64 {
        let asked = ListOffsets::at(self.topic.name.as_str(), 5, -1);
        let asked = ListOffsets { isolation_level, partitions: vec![self.index], ..asked };
        let frame = frame(self.broker.connect().ask(&asked.frame()), ApiKey::ListOffsets);
        let answer: ListOffsetsResponse =
            answer::decode(ApiKey::ListOffsets, 5, &frame).expect("it decodes");
        answer.topics[0].partitions[0].offset
    }

    /// Producer, epoch, last sequence, coordinator epoch and first offset of the open transaction of every producer.
    fn producers(&self) -> Vec<(i64, i32, i32, i32, i64)> {
        let topics = [(self.topic.name.as_str(), self.index)];
        let body = Body::new(true)
            .array(&topics, |body, (name, index)| body.string(name).count(1).i32(*index).tags());
        let reply = self.broker.connect().ask(&request(61, 0, true, &body.tags().into_bytes()));
        let frame = frame(reply, ApiKey::DescribeProducers);
        let answer: DescribeProducersResponse =
            answer::decode(ApiKey::DescribeProducers, 0, &frame).expect("it decodes");
        let partition = &answer.topics[0].partitions[0];
        assert_eq!(partition.error_code, 0);
        let producers = partition.active_producers.iter();
        let row = |it: &kafka_protocol::messages::describe_producers_response::ProducerState| {
            (
                it.producer_id.0,
                it.producer_epoch,
                it.last_sequence,
                it.coordinator_epoch,
                it.current_txn_start_offset,
            )
        };
        producers.map(row).collect()
    }
}

/// What a fetch says of its partition.
#[derive(Debug, PartialEq, Eq)]
struct Fetched {
    high_watermark: i64,
    last_stable: i64,
    /// Producer and first offset, in order of the offsets; none when the list is null.
    aborted: Option<Vec<(i64, i64)>>,
    /// Base offset of each batch, and whether it is a control batch.
    batches: Vec<(i64, bool)>,
}

fn fetched(frame: &[u8]) -> Fetched {
    let answer: FetchResponse = answer::decode(ApiKey::Fetch, 11, frame).expect("it decodes");
    let partition = &answer.responses[0].partitions[0];
    assert_eq!(partition.error_code, 0);
    let mut aborted = partition.aborted_transactions.as_ref().map(|aborted| {
        aborted.iter().map(|it| (it.producer_id.0, it.first_offset)).collect::<Vec<_>>()
    });
    if let Some(aborted) = &mut aborted {
        aborted.sort_unstable_by_key(|(_, first)| *first);
    }
    let mut batches = Vec::new();
    let mut rest = partition.records.as_deref().unwrap_or_default();
    while rest.len() > 23 {
        let base = i64::from_be_bytes(rest[..8].try_into().expect("8 bytes"));
        let length = u32::from_be_bytes(rest[8..12].try_into().expect("4 bytes")) as usize;
        batches.push((base, rest[22] & 0x20 != 0));
        rest = &rest[12 + length..];
    }
    Fetched {
        high_watermark: partition.high_watermark,
        last_stable: partition.last_stable_offset,
        aborted,
        batches,
    }
}

/// What two readers see of the story in [`committed_and_aborted`].
fn check_story(partition: &Partition<'_>) {
    let aborted = vec![(1, 0), (3, 5)];
    let committed = partition.fetch(0, 1);
    assert_eq!((committed.high_watermark, committed.last_stable), (12, 10));
    assert_eq!(committed.aborted, Some(aborted.clone()));
    let all = [
        (0, false),
        (2, false),
        (4, true),
        (5, false),
        (6, true),
        (7, false),
        (8, true),
        (9, false),
        (10, false),
        (11, false),
    ];
    assert_eq!(committed.batches, all[..8]);
    let uncommitted = partition.fetch(0, 0);
    assert_eq!((&uncommitted.aborted, &uncommitted.batches[..]), (&None, &all[..]));
    // Only what overlaps what is returned.
    assert_eq!(partition.fetch(5, 1).aborted, Some(vec![(3, 5)]));
    assert_eq!(partition.fetch(4, 1).aborted, Some(aborted));
    assert_eq!(partition.fetch(9, 1).aborted, Some(Vec::new()));
    let beyond = partition.fetch(10, 1);
    assert_eq!((beyond.aborted, beyond.batches), (Some(Vec::new()), Vec::new()));
    assert_eq!((partition.latest(1), partition.latest(0)), (10, 12));
}

/// Goal: readers of committed records get what lies below the last stable offset, and the aborted transactions that overlap it, before
/// and after kill -9 and a clean stop; what is open then stays open, and ends by a marker. Method: transactions of several producers that
/// abort (0–1, marker 4; 5, marker 8), commit (2–3, marker 6), records outside (7, 9) and one that stays open (10–11).
#[test]
fn committed_and_aborted() {
    for shards in [1, 2] {
        let Some(mut broker) = broker(shards) else { return };
        let topic = topic::create_with(&broker, "txn", 3, &[]);
        for index in 0..3 {
            let partition = Partition { broker: &broker, topic: &topic, index };
            partition.data((1, 0, 0), 2);
            partition.data((2, 0, 0), 2);
            assert_eq!(partition.end((1, 0), 0, ABORT, 0), 0);
            partition.data((3, 0, 0), 1);
            assert_eq!(partition.end((2, 0), 0, COMMIT, 0), 0);
            assert_eq!(partition.write((4, 0, 0), 1, 0), (0, 7));
            assert_eq!(partition.end((3, 1), 0, ABORT, 2), 0);
            assert_eq!(partition.write((4, 0, 1), 1, 0), (0, 9));
            assert_eq!(partition.data((1, 0, 2), 1), 10);
            assert_eq!(partition.data((1, 0, 3), 1), 11);
            check_story(&partition);
        }
        for is_clean in [false, true, false] {
            if is_clean {
                assert!(broker.stop().success());
            } else {
                broker.kill();
            }
            broker.start_again();
            for index in 0..3 {
                let partition = Partition { broker: &broker, topic: &topic, index };
                check_story(&partition);
                let producers = partition.producers();
                let known =
                    [(1, 0, 3, 0, 10), (2, 0, 1, 0, -1), (3, 1, -1, 0, -1), (4, 0, 1, -1, -1)];
                assert_eq!(producers, known);
            }
        }
        let partition = Partition { broker: &broker, topic: &topic, index: 1 };
        assert_eq!(partition.end((1, 0), 0, COMMIT, 0), 0);
        let committed = partition.fetch(10, 1);
        assert_eq!((committed.high_watermark, committed.last_stable), (13, 13));
        assert_eq!(committed.batches, [(10, false), (11, false), (12, true)]);
        assert_eq!(committed.aborted, Some(Vec::new()));
    }
}

/// Goal: a fetch that waits for committed records is answered when the marker comes, though it asks for more bytes than a marker has.
/// Method: an open transaction, a fetch with a long wait, then the marker.
#[test]
fn a_marker_wakes() {
    let Some(broker) = broker(2) else { return };
    let topic = topic::create_with(&broker, "woken", 1, &[]);
    let partition = Partition { broker: &broker, topic: &topic, index: 0 };
    partition.data((1, 0, 0), 9);
    let fetch = Fetch {
        isolation_level: 1,
        max_wait_ms: 60_000,
        min_bytes: 150,
        ..Fetch::of(topic.name.as_str())
    };
    let mut waiting = broker.connect();
    assert!(waiting.send(&fetch.frame()));
    // The fetch may come before the marker or after it: both must be answered.
    assert_eq!(partition.end((1, 0), 0, COMMIT, 0), 0);
    let committed = fetched(&frame(waiting.receive(PATIENCE), ApiKey::Fetch));
    assert_eq!(committed.batches, [(0, false), (9, true)]);
}

/// Goal: Kafka's codes for batches and markers that do not fit. Method: a story, one row a step.
#[test]
fn refusals() {
    let Some(broker) = broker(2) else { return };
    let topic = topic::create_with(&broker, "refused", 1, &[]);
    let partition = Partition { broker: &broker, topic: &topic, index: 0 };
    let (invalid_epoch, invalid_state, fenced, out_of_order) = (47, 48, 52, 45);
    partition.data((1, 4, 0), 1);
    assert_eq!(partition.write((1, 4, 1), 1, 0).0, invalid_state, "outside, while it is open");
    assert_eq!(partition.write((1, 3, 1), 1, TRANSACTIONAL).0, invalid_epoch, "an old epoch");
    assert_eq!(partition.write((1, 4, 2), 1, TRANSACTIONAL).0, out_of_order, "a gap");
    assert_eq!(partition.end((1, 3), 7, ABORT, 0), invalid_epoch, "an old epoch's marker");
    assert_eq!(partition.end((1, 4), 7, ABORT, 2), invalid_epoch, "not above the records'");
    assert_eq!(partition.end((1, 5), 7, COMMIT, 2), 0);
    assert_eq!(partition.end((1, 5), 7, COMMIT, 2), 0, "again");
    assert_eq!(partition.end((1, 5), 6, COMMIT, 0), fenced, "an old coordinator");
    assert_eq!(partition.write((1, 4, 1), 1, TRANSACTIONAL).0, invalid_epoch, "a late batch");
    assert_eq!(partition.write((1, 5, 1), 1, TRANSACTIONAL).0, out_of_order, "begins at 0");
    assert_eq!(partition.write((1, 5, 0), 1, TRANSACTIONAL).0, 0);
    assert_eq!(partition.end((1, -1), 7, COMMIT, 0), 42, "no epoch");
    let elsewhere = Partition { index: 9, ..partition };
    assert_eq!(elsewhere.end((1, 5), 7, COMMIT, 0), 3, "no partition");
}
