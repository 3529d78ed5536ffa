//! One partition of transactions, by raw requests: what a producer writes, the markers that a coordinator would send, and what readers
//! of either isolation level are shown.

use kafka_protocol::messages::describe_producers_response::ProducerState;
use kafka_protocol::messages::{
    ApiKey, DescribeProducersResponse, FetchResponse, ListOffsetsResponse, ProduceResponse,
    WriteTxnMarkersResponse,
};

use crate::answer;
use crate::batch::Batch;
use crate::broker::Broker;
use crate::raw::Reply;
use crate::request::{Fetch, ListOffsets, Produce};
use crate::wire::{Body, request};

/// The attribute of a batch that is part of a transaction.
pub const TRANSACTIONAL: i16 = 0x10;
/// A marker that commits.
pub const COMMIT: bool = true;
/// A marker that aborts.
pub const ABORT: bool = false;

/// The frame of an answer.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn frame(reply: Reply, api: ApiKey) -> Vec<u8> {
    let Reply::Frame(frame) = reply else { panic!("{api:?} is not answered: {reply:?}") };
    frame
}

/// One partition, and who writes to it.
#[derive(Clone, Copy)]
pub struct Partition<'a> {
    /// Whose it is.
    pub broker: &'a Broker,
    /// Its topic's name.
    pub topic: &'a str,
    /// Its index.
    pub index: i32,
}

impl Partition<'_> {
    /// Writes records of a producer's transaction (or outside of any); the error code and the first offset.
    ///
    /// # Panics
    /// When there is no answer.
    #[must_use]
    pub fn write(&self, producer: (i64, i16, i32), records: i32, attributes: i16) -> (i16, i64) {
        let (id, epoch, sequence) = producer;
        self.put(&Batch { attributes, ..Batch::of(records).by(id, epoch, sequence) })
    }

    /// Writes a batch; the error code and the first offset.
    ///
    /// # Panics
    /// When there is no answer.
    #[must_use]
    pub fn put(&self, batch: &Batch) -> (i16, i64) {
        let produce = Produce {
            version: 9,
            transactional_id: Some(format!("txn-{}", batch.producer_id)),
            partitions: vec![(self.index, Some(batch.build()))],
            ..Produce::to(self.topic, Vec::new())
        };
        let frame = frame(self.broker.connect().ask(&produce.frame()), ApiKey::Produce);
        let answer: ProduceResponse =
            answer::decode(ApiKey::Produce, 9, &frame).expect("it decodes");
        let partition = &answer.responses[0].partition_responses[0];
        (partition.error_code, partition.base_offset)
    }

    /// Writes records of a producer's transaction; the first offset.
    ///
    /// # Panics
    /// When they are refused.
    pub fn data(&self, producer: (i64, i16, i32), records: i32) -> i64 {
        let (code, offset) = self.write(producer, records, TRANSACTIONAL);
        assert_eq!(code, 0, "{producer:?}");
        offset
    }

    /// Ends a transaction; the error code. A version of 2 and more says that the marker's epoch is above the records'.
    ///
    /// # Panics
    /// When there is no answer.
    #[must_use]
    pub fn end(
        &self,
        producer: (i64, i16),
        coordinator_epoch: i32,
        commits: bool,
        txn_version: i8,
    ) -> i16 {
        let (id, epoch) = producer;
        let version = if txn_version > 0 { 2 } else { 1 };
        let topics = [(self.topic, self.index)];
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

    /// One fetch.
    ///
    /// # Panics
    /// When it is refused.
    #[must_use]
    pub fn fetch(&self, from: i64, isolation_level: i8) -> Fetched {
        let fetch =
            Fetch { isolation_level, offset: from, partition: self.index, ..Fetch::of(self.topic) };
        fetched(&frame(self.broker.connect().ask(&fetch.frame()), ApiKey::Fetch))
    }

    /// The end as a reader of this level sees it.
    ///
    /// # Panics
    /// When there is no answer.
    #[must_use]
    pub fn latest(&self, isolation_level: i8) -> i64 {
        let asked = ListOffsets::at(self.topic, 5, -1);
        let asked = ListOffsets { isolation_level, partitions: vec![self.index], ..asked };
        let frame = frame(self.broker.connect().ask(&asked.frame()), ApiKey::ListOffsets);
        let answer: ListOffsetsResponse =
            answer::decode(ApiKey::ListOffsets, 5, &frame).expect("it decodes");
        answer.topics[0].partitions[0].offset
    }

    /// Producer, epoch, last sequence, coordinator epoch and first offset of the open transaction of every producer.
    ///
    /// # Panics
    /// When they are not told.
    #[must_use]
    pub fn producers(&self) -> Vec<(i64, i32, i32, i32, i64)> {
        let topics = [(self.topic, self.index)];
        let body = Body::new(true)
            .array(&topics, |body, (name, index)| body.string(name).count(1).i32(*index).tags());
        let reply = self.broker.connect().ask(&request(61, 0, true, &body.tags().into_bytes()));
        let frame = frame(reply, ApiKey::DescribeProducers);
        let answer: DescribeProducersResponse =
            answer::decode(ApiKey::DescribeProducers, 0, &frame).expect("it decodes");
        let partition = &answer.topics[0].partitions[0];
        assert_eq!(partition.error_code, 0);
        let producers = partition.active_producers.iter();
        let row = |it: &ProducerState| {
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
pub struct Fetched {
    /// The high watermark.
    pub high_watermark: i64,
    /// The last stable offset.
    pub last_stable: i64,
    /// Producer and first offset, in order of the offsets; none when the list is null.
    pub aborted: Option<Vec<(i64, i64)>>,
    /// Base offset of each batch, and whether it is a control batch.
    pub batches: Vec<(i64, bool)>,
}

/// What the answer to a fetch of version 11 says.
///
/// # Panics
/// When it is a refusal.
#[must_use]
pub fn fetched(frame: &[u8]) -> Fetched {
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
