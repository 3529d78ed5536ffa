//! Transactional producers: several of each transactional id, none of which knows of the others, with both of the protocol's flows.
//!
//! A producer takes its id over, makes a few transactions and goes away, sometimes in the middle of one; or it pauses, and goes on when
//! another has its id. Answers are lost and requests come twice, the second one late. What each was told goes to the
//! [`super::ledger`].
//!
//! In the classic flow ([`Flow::Classic`]) a stray request of one transaction may count in the next: as Kafka's clients do, a producer
//! that cannot say what became of a request takes its id over anew before it goes on. The newer one needs no such care.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use pelton_model::ErrorCode;
use pelton_model::compression::Compression;
use pelton_protocol::codec::{Message, Str};
use pelton_protocol::message::add_offsets_to_txn::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse,
};
use pelton_protocol::message::add_partitions_to_txn::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, AddPartitionsToTxnTopic,
};
use pelton_protocol::message::end_txn::{EndTxnRequest, EndTxnResponse};
use pelton_protocol::message::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use pelton_protocol::message::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
};
use pelton_protocol::message::produce::{ProduceRequest, ProduceResponse};
use pelton_protocol::message::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
};

use super::bench::{Bench, Kind, PATIENCE_MS, Topic};
use super::client::{Link, Lost};
use super::oracle::RecordId;
use super::producer::{data, request};
use super::records::{Stamp, batch, keyed_batch};

/// Of a hundred requests, those that come twice, and those whose answer is lost.
const DOUBLED_PERCENT: u64 = 4;
const LOST_PERCENT: u64 = 4;

/// A transactional id, and the groups whose offsets count its records.
#[derive(Debug)]
pub struct Stream {
    /// Its index in the ledger.
    pub index: usize,
    /// The transactional id.
    pub id: Str,
    /// The groups.
    pub groups: [Str; 2],
    /// Where to.
    pub topics: Rc<Vec<Topic>>,
}

impl Stream {
    /// A stream of its own.
    #[must_use]
    pub fn new(bench: &Bench, topics: &Rc<Vec<Topic>>) -> Self {
        let index = bench.ledger.borrow_mut().stream();
        let group = |copy| Str::from(format!("group-{index}-{copy}").as_str());
        Self {
            index,
            id: Str::from(format!("stream-{index}").as_str()),
            groups: [group(0), group(1)],
            topics: Rc::clone(topics),
        }
    }
}

/// Makes so many transactions, or tries.
pub async fn produce(bench: Rc<Bench>, stream: Rc<Stream>, turns: u32) {
    bench.producing.set(bench.producing.get() + 1);
    let mut left = turns;
    let mut expected = None;
    while 0 < left {
        let mut session = Session::begin(&bench, &stream, expected.take()).await;
        while 0 < left {
            left -= 1;
            if session.transact(Care::Little).await.is_err() {
                break;
            }
            bench.pause(100).await;
        }
        if bench.chance(30) {
            expected = Some((session.producer_id, session.epoch));
        }
        bench.pause(1_500).await;
    }
    bench.producing.set(bench.producing.get() - 1);
}

/// Makes one transaction more and sees that it is committed.
pub async fn conclude(bench: &Bench, stream: &Stream) {
    loop {
        let mut session = Session::begin(bench, stream, None).await;
        if session.transact(Care::Much).await.is_ok() {
            return;
        }
        bench.pause(100).await;
    }
}

/// What each of a stream's groups says, once no transaction is under way.
pub async fn offsets(bench: &Bench, stream: &Stream) -> [i64; 2] {
    let mut caller = Caller { bench, link: None, strays: 0 };
    let mut offsets = [0; 2];
    for (group, offset) in stream.groups.iter().zip(&mut offsets) {
        *offset = caller.offset(stream, group).await;
    }
    offsets
}

/// How a client works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// Partitions are added before they are written; the epoch stays.
    Classic,
    /// Writing adds (KIP-890); each end gives a new epoch.
    Bumping,
}

/// How eager a producer is to come to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Care {
    Little,
    Much,
}

/// The transaction is over for this producer, which has to take its id over again.
#[derive(Clone, Copy, Debug)]
struct Over;

/// What an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Done,
    /// It is to be asked again.
    Later,
    /// The producer has a successor, or the transaction has ended otherwise.
    Refused,
}

fn said(bench: &Bench, what: &str, code: i16) -> Said {
    match ErrorCode::from_code(code) {
        Some(ErrorCode::None) => Said::Done,
        Some(
            ErrorCode::ConcurrentTransactions
            | ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::NotCoordinator
            | ErrorCode::NotEnoughReplicas
            | ErrorCode::UnstableOffsetCommit,
        ) => Said::Later,
        Some(
            ErrorCode::ProducerFenced
            | ErrorCode::InvalidProducerEpoch
            | ErrorCode::InvalidTxnState
            | ErrorCode::TransactionAbortable,
        ) => Said::Refused,
        Some(_) if bench.is_passing(code) => Said::Later,
        other => panic!("{what}: {other:?}"),
    }
}

/// Asks, and loses answers.
struct Caller<'a> {
    bench: &'a Bench,
    link: Option<Link>,
    /// Requests of which nobody knows whether they have come, or when they will.
    strays: u32,
}

impl Caller<'_> {
    async fn ask<Q: Message, S: Message>(&mut self, version: i16, asked: &Q) -> Result<S, Lost> {
        let bench = self.bench;
        if bench.chance(DOUBLED_PERCENT) {
            let mut other = bench.link("double").await;
            // Whether it comes is the question.
            other.post(version, asked, true).await.ok();
            self.strays += 1;
            bench.pause(10).await;
        }
        let mut link = match self.link.take() {
            Some(link) => link,
            None => bench.link("transactional").await,
        };
        let answer = match link.post(version, asked, true).await {
            Ok(()) if bench.chance(LOST_PERCENT) => Err(Lost::Closed),
            Ok(()) => link.take(version, PATIENCE_MS).await,
            Err(lost) => Err(lost),
        };
        match answer {
            Ok(answer) => {
                self.link = Some(link);
                Ok(answer)
            }
            Err(lost) => {
                self.strays += 1;
                drop(link);
                bench.pause(100).await;
                Err(lost)
            }
        }
    }

    /// A group's offset, once no transaction has one for it.
    async fn offset(&mut self, stream: &Stream, group: &Str) -> i64 {
        let bench = self.bench;
        let asked = OffsetFetchRequest {
            groups: vec![OffsetFetchRequestGroup {
                group_id: group.clone(),
                topics: Some(vec![OffsetFetchRequestTopics {
                    name: stream.topics[0].name.clone(),
                    partition_indexes: vec![0],
                    ..OffsetFetchRequestTopics::default()
                }]),
                ..OffsetFetchRequestGroup::default()
            }],
            require_stable: true,
            ..OffsetFetchRequest::default()
        };
        loop {
            let floor = bench.ledger.borrow().committed_offset(stream.index);
            let version = between(bench, 8, 9);
            let answer: Result<OffsetFetchResponse, Lost> = self.ask(version, &asked).await;
            if let Ok(answer) = answer {
                let group = &answer.groups[0];
                if said(bench, "OffsetFetch", group.error_code) == Said::Done {
                    let found = &group.topics[0].partitions[0];
                    if said(bench, "an offset", found.error_code) == Said::Done {
                        let offset = found.committed_offset.max(0);
                        assert!(floor <= offset, "{group:?} has lost {floor}");
                        return offset;
                    }
                }
            }
            bench.pause(100).await;
        }
    }
}

/// A producer that has its id, as far as it knows.
struct Session<'a> {
    caller: Caller<'a>,
    stream: &'a Stream,
    flow: Flow,
    producer_id: i64,
    epoch: i16,
    /// The next sequences, by topic and partition.
    sequences: BTreeMap<(usize, i32), i32>,
}

/// Records for one partition.
struct Part {
    partition: i32,
    ids: Vec<RecordId>,
    bytes: Bytes,
}

impl<'a> Session<'a> {
    /// Takes the id over; `expected` is what the producer had before (KIP-360).
    async fn begin(bench: &'a Bench, stream: &'a Stream, expected: Option<(i64, i16)>) -> Self {
        let mut caller = Caller { bench, link: None, strays: 0 };
        let mut expected = expected;
        let flow = if bench.chance(50) { Flow::Classic } else { Flow::Bumping };
        let timeout_ms = bench.world.draw(|random| [300, 2_000, 60_000][random.index(3)]);
        loop {
            let (producer_id, producer_epoch) = expected.unwrap_or((-1, -1));
            let asked = InitProducerIdRequest {
                transactional_id: Some(stream.id.clone()),
                transaction_timeout_ms: timeout_ms,
                producer_id,
                producer_epoch,
                ..InitProducerIdRequest::default()
            };
            let version = between(bench, if expected.is_some() { 3 } else { 0 }, 5);
            let answer: Result<InitProducerIdResponse, Lost> = caller.ask(version, &asked).await;
            let Ok(answer) = answer else { continue };
            match said(bench, "InitProducerId", answer.error_code) {
                Said::Done => {
                    let (producer_id, epoch) = (answer.producer_id, answer.producer_epoch);
                    bench.world.note(|| format!("{}: {flow:?} epoch {epoch}", stream.id));
                    bench.ledger.borrow_mut().granted(stream.index, epoch);
                    // What strayed until now only takes the id over once more.
                    caller.strays = 0;
                    return Self {
                        caller,
                        stream,
                        flow,
                        producer_id,
                        epoch,
                        sequences: BTreeMap::new(),
                    };
                }
                Said::Later => bench.pause(100).await,
                Said::Refused => {
                    assert!(expected.is_some(), "whoever comes anew is never refused");
                    expected = None;
                }
            }
        }
    }

    fn bench(&self) -> &'a Bench {
        self.caller.bench
    }

    /// One transaction, from its first record to its end.
    async fn transact(&mut self, care: Care) -> Result<(), Over> {
        let bench = self.bench();
        let hurries = care == Care::Much;
        let count = bench.world.draw(|random| 1 + random.magnitude(6));
        let count = u32::try_from(count).unwrap();
        let advances = hurries || bench.chance(70);
        let first = if advances { self.position().await } else { 0 };
        let next = advances.then(|| first + i64::from(count));
        let number = bench.oracle.borrow_mut().producer();
        let first = u32::try_from(first).unwrap();
        let ids = (first..first + count).map(|n| RecordId { producer: number, number: n });
        let ids: Vec<RecordId> = ids.collect();
        bench.ledger.borrow_mut().begin(number, self.stream.index, self.epoch, next);
        bench.world.note(|| format!("{}: {number} {ids:?} {next:?}", self.stream.id));
        let middle = bench.world.draw(|random| random.index(ids.len() + 1));
        self.write(number, &ids[..middle]).await?;
        if let Some(next) = next {
            self.commit_offsets(next).await?;
        }
        self.write(number, &ids[middle..]).await?;
        if !hurries && bench.chance(8) {
            return Err(Over);
        }
        if !hurries && bench.chance(12) {
            // Meanwhile it times out, or another comes.
            bench.pause(6_000).await;
        }
        self.end(number, hurries || bench.chance(75)).await
    }

    /// Where the stream stands.
    async fn position(&mut self) -> i64 {
        let [first, second] = [0, 1].map(|copy| self.stream.groups[copy].clone());
        let first = self.caller.offset(self.stream, &first).await;
        let second = self.caller.offset(self.stream, &second).await;
        let is_alone = !self.bench().ledger.borrow().has_successor(self.stream.index, self.epoch);
        assert!(
            first == second || !is_alone,
            "{}: one group stands at {first}, the other at {second}",
            self.stream.id
        );
        first
    }

    /// Writes records to partitions picked by chance, until all are acknowledged.
    async fn write(&mut self, number: u32, ids: &[RecordId]) -> Result<(), Over> {
        let bench = self.bench();
        bench.ledger.borrow_mut().writes(number, ids);
        let mut places: BTreeMap<(usize, i32), Vec<RecordId>> = BTreeMap::new();
        for &id in ids {
            let topic = bench.world.draw(|random| random.index(self.stream.topics.len()));
            let partitions = u64::try_from(self.stream.topics[topic].partitions).unwrap();
            let partition = i32::try_from(bench.world.draw(|r| r.below(partitions))).unwrap();
            places.entry((topic, partition)).or_default().push(id);
        }
        let topics = Rc::clone(&self.stream.topics);
        for (index, topic) in topics.iter().enumerate() {
            let mut parts = Vec::new();
            for ((_, partition), ids) in places.range((index, 0)..(index + 1, 0)) {
                let next = self.sequences.entry((index, *partition)).or_default();
                let stamp = Stamp {
                    producer_id: self.producer_id,
                    epoch: self.epoch,
                    sequence: *next,
                    is_transactional: true,
                };
                *next += i32::try_from(ids.len()).unwrap();
                let build = match topic.kind {
                    Kind::Compacted => keyed_batch,
                    Kind::Whole | Kind::Deleting | Kind::Retained(_) => batch,
                };
                let bytes = build(ids, Some(stamp), 20, Compression::None);
                parts.push(Part { partition: *partition, ids: ids.clone(), bytes });
            }
            if !parts.is_empty() {
                self.add(topic, &parts).await?;
                self.send(topic, parts).await?;
            }
        }
        Ok(())
    }

    /// Adds partitions, where that is not left to the broker.
    async fn add(&mut self, topic: &Topic, parts: &[Part]) -> Result<(), Over> {
        if self.flow == Flow::Bumping {
            return Ok(());
        }
        let asked = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: self.stream.id.clone(),
            v3_and_below_producer_id: self.producer_id,
            v3_and_below_producer_epoch: self.epoch,
            v3_and_below_topics: vec![AddPartitionsToTxnTopic {
                name: topic.name.clone(),
                partitions: parts.iter().map(|part| part.partition).collect(),
            }],
            ..AddPartitionsToTxnRequest::default()
        };
        self.insist(0, 3, &asked, |answer: &AddPartitionsToTxnResponse| {
            let topics = answer.results_by_topic_v3_and_below.iter();
            let all = topics.flat_map(|topic| &topic.results_by_partition);
            all.map(|partition| partition.partition_error_code).collect()
        })
        .await
    }

    async fn send(&mut self, topic: &Topic, mut parts: Vec<Part>) -> Result<(), Over> {
        let bench = self.bench();
        let versions = if self.flow == Flow::Classic { (3, 11) } else { (12, 13) };
        while !parts.is_empty() {
            let version = between(bench, versions.0, versions.1);
            let each = parts.iter().map(|part| data(part.partition, &part.bytes));
            let produce = ProduceRequest {
                transactional_id: Some(self.stream.id.clone()),
                ..request(topic, -1, each.collect())
            };
            let answer: Result<ProduceResponse, Lost> = self.caller.ask(version, &produce).await;
            let Ok(answer) = answer else {
                if bench.chance(10) {
                    return Err(Over);
                }
                continue;
            };
            let answers = &answer.responses[0].partition_responses;
            let mut left = Vec::new();
            for (part, answer) in parts.into_iter().zip(answers) {
                let is_stray = self.flow == Flow::Classic && 0 < self.caller.strays;
                if is_stray && answer.error_code == ErrorCode::OutOfOrderSequenceNumber.code() {
                    return self.refused("a batch behind a stray one").await;
                }
                let what = format!("Produce of {} epoch {}", self.stream.id, self.epoch);
                match said(bench, &what, answer.error_code) {
                    Said::Done => {
                        let place = (topic.id, part.partition);
                        let (now, mut oracle) = (bench.world.now(), bench.oracle.borrow_mut());
                        oracle.acknowledged(place, answer.base_offset, &part.ids, now);
                    }
                    Said::Later => left.push(part),
                    Said::Refused => return self.refused("a batch").await,
                }
            }
            parts = left;
            if !parts.is_empty() {
                bench.pause(50).await;
            }
        }
        Ok(())
    }

    async fn commit_offsets(&mut self, next: i64) -> Result<(), Over> {
        let mut groups = self.stream.groups.clone();
        if self.bench().chance(50) {
            groups.swap(0, 1);
        }
        for group in groups {
            if self.flow == Flow::Classic {
                let asked = AddOffsetsToTxnRequest {
                    transactional_id: self.stream.id.clone(),
                    producer_id: self.producer_id,
                    producer_epoch: self.epoch,
                    group_id: group.clone(),
                };
                let code = |answer: &AddOffsetsToTxnResponse| vec![answer.error_code];
                self.insist(0, 4, &asked, code).await?;
            }
            let asked = TxnOffsetCommitRequest {
                transactional_id: self.stream.id.clone(),
                group_id: group,
                producer_id: self.producer_id,
                producer_epoch: self.epoch,
                topics: vec![TxnOffsetCommitRequestTopic {
                    name: self.stream.topics[0].name.clone(),
                    partitions: vec![TxnOffsetCommitRequestPartition {
                        committed_offset: next,
                        ..TxnOffsetCommitRequestPartition::default()
                    }],
                }],
                ..TxnOffsetCommitRequest::default()
            };
            let (first, last) = if self.flow == Flow::Classic { (0, 4) } else { (5, 5) };
            self.insist(first, last, &asked, |answer: &TxnOffsetCommitResponse| {
                let all = answer.topics.iter().flat_map(|topic| &topic.partitions);
                all.map(|partition| partition.error_code).collect()
            })
            .await?;
        }
        Ok(())
    }

    /// Asks until it is done, or refused.
    async fn insist<Q: Message, S: Message>(
        &mut self,
        first: u64,
        last: u64,
        asked: &Q,
        codes: impl Fn(&S) -> Vec<i16>,
    ) -> Result<(), Over> {
        let bench = self.bench();
        loop {
            let version = between(bench, first, last);
            let answer: Result<S, Lost> = self.caller.ask(version, asked).await;
            if let Ok(answer) = answer {
                let all: Vec<Said> =
                    codes(&answer).into_iter().map(|code| said(bench, Q::NAME, code)).collect();
                if all.contains(&Said::Refused) {
                    return self.refused(Q::NAME).await;
                }
                if all.iter().all(|said| *said == Said::Done) {
                    return Ok(());
                }
            } else if bench.chance(10) {
                return Err(Over);
            }
            bench.pause(50).await;
        }
    }

    /// Goes away, with or without a last request that cannot harm.
    async fn refused(&mut self, what: &str) -> Result<(), Over> {
        let bench = self.bench();
        bench.world.note(|| format!("{}: {what} is refused", self.stream.id));
        if bench.chance(50) {
            let version = self.end_version();
            let asked = self.end_request(false);
            let answer: Result<EndTxnResponse, Lost> = self.caller.ask(version, &asked).await;
            if let Ok(answer) = answer {
                said(bench, "an abort", answer.error_code);
            }
        }
        Err(Over)
    }

    fn end_version(&self) -> i16 {
        match self.flow {
            Flow::Classic => between(self.bench(), 0, 4),
            Flow::Bumping => 5,
        }
    }

    fn end_request(&self, committed: bool) -> EndTxnRequest {
        EndTxnRequest {
            transactional_id: self.stream.id.clone(),
            producer_id: self.producer_id,
            producer_epoch: self.epoch,
            committed,
        }
    }

    async fn end(&mut self, number: u32, commits: bool) -> Result<(), Over> {
        let bench = self.bench();
        let asked = self.end_request(commits);
        let strays = self.caller.strays;
        let mut tries = 0;
        loop {
            if commits {
                bench.ledger.borrow_mut().asks_to_commit(number);
            }
            tries += 1;
            let version = self.end_version();
            let answer: Result<EndTxnResponse, Lost> = self.caller.ask(version, &asked).await;
            let Ok(answer) = answer else {
                if bench.chance(15) {
                    return Err(Over);
                }
                continue;
            };
            match said(bench, "EndTxn", answer.error_code) {
                Said::Done => {
                    bench.world.note(|| format!("{}: {number} ends {commits}", self.stream.id));
                    self.ended(number, commits, &answer);
                    let has_strayed = 0 < self.caller.strays;
                    let must_renew = self.flow == Flow::Classic && has_strayed;
                    return if must_renew { Err(Over) } else { Ok(()) };
                }
                Said::Later => bench.pause(50).await,
                Said::Refused => {
                    // An earlier request may have succeeded, and another producer come after it.
                    if tries == 1 && strays == self.caller.strays {
                        bench.ledger.borrow_mut().never(number);
                    }
                    bench.world.note(|| format!("{}: {number} is refused", self.stream.id));
                    return Err(Over);
                }
            }
        }
    }

    fn ended(&mut self, number: u32, commits: bool, answer: &EndTxnResponse) {
        let mut ledger = self.bench().ledger.borrow_mut();
        if commits {
            ledger.committed(number);
        } else {
            ledger.never(number);
        }
        if self.flow == Flow::Bumping {
            (self.producer_id, self.epoch) = (answer.producer_id, answer.producer_epoch);
            self.sequences.clear();
        }
    }
}

fn between(bench: &Bench, first: u64, last: u64) -> i16 {
    bench.world.draw(|random| i16::try_from(random.between(first, last)).unwrap())
}
