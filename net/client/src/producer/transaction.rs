//! A producer's transactions: begun here, kept by the coordinator, committed or aborted as one.
//!
//! 1. Partitions are added to the transaction before their first record is taken, so that no batch leaves that the coordinator does not
//!    know of.
//! 2. After a failure within a transaction, of a record above all, only an abort is possible; it takes a new epoch, since a sequence may be
//!    lost. Nothing is taken, sent or tried again from then on, nor from the moment a commit or an abort begins.
//! 3. What the coordinator refuses for good (a newer producer of the same id, above all) ends the producer.
//!
//! The classic flow, which every broker since 0.11 serves: AddPartitionsToTxn, AddOffsetsToTxn, and an epoch that stays. With the flow of
//! KIP-890 a transaction would cost one request less for each partition.
//! Source: KIP-98, KIP-360, KIP-447.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use pelton_model::{ProducerEpoch, ProducerId};
use pelton_protocol::codec::Str;
use pelton_protocol::message::add_offsets_to_txn::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse,
};
use pelton_protocol::message::add_partitions_to_txn::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, AddPartitionsToTxnTopic,
};
use pelton_protocol::message::end_txn::{EndTxnRequest, EndTxnResponse};
use pelton_protocol::message::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use pelton_protocol::message::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
};
use pelton_transport::net::Net;

use super::Producer;
use super::sender::Sender;
use super::sequence::Identity;
use crate::client::Client;
use crate::coordinator::{Coordinator, CoordinatorKind};
use crate::error::ClientError;

/// The last versions of the classic flow.
pub(super) const PRODUCE_VERSION_MAX: i16 = 11;
const ADD_PARTITIONS_VERSION_MAX: i16 = 3;
const END_VERSION_MAX: i16 = 4;
const OFFSET_COMMIT_VERSION_MAX: i16 = 4;

/// How a producer writes in transactions.
#[derive(Clone, Debug)]
pub struct TransactionOptions {
    /// The transactional id: whoever comes with the same one takes the place of the producer before.
    pub transactional_id: Str,
    /// How long a transaction may stay open before the coordinator aborts it, in milliseconds.
    pub timeout_ms: i32,
}

impl TransactionOptions {
    /// Transactions of at most a minute, as Kafka's producers have them.
    #[must_use]
    pub fn new(transactional_id: impl Into<Str>) -> Self {
        Self {
            transactional_id: transactional_id.into(),
            timeout_ms: 60_000,
        }
    }
}

/// In whose name offsets are committed in a transaction.
#[derive(Clone, Debug)]
pub struct GroupMetadata {
    /// The group.
    pub group_id: Str,
    /// The consumer's generation; −1 for none.
    pub generation_id: i32,
    /// The consumer's member id; empty for none.
    pub member_id: Str,
    /// The static member's name.
    pub group_instance_id: Option<Str>,
}

impl GroupMetadata {
    /// A group of which nobody is a member.
    #[must_use]
    pub fn of(group_id: impl Into<Str>) -> Self {
        Self {
            group_id: group_id.into(),
            generation_id: -1,
            member_id: Str::default(),
            group_instance_id: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Without a producer id.
    New,
    Ready,
    Open,
    /// A commit or an abort is under way, or was broken off.
    Ending,
    /// Something failed: it must be aborted.
    Failed,
    /// The coordinator will have none of this producer any more.
    Over,
}

/// A producer's transactions.
pub(super) struct Transaction<N: Net> {
    options: TransactionOptions,
    coordinator: Coordinator<N>,
    stage: Cell<Stage>,
    /// How many were begun.
    begun: Cell<u64>,
    identity: Cell<Option<Identity>>,
    added: RefCell<BTreeSet<(Str, i32)>>,
    has_offsets: Cell<bool>,
}

impl<N: Net> Transaction<N> {
    pub(super) fn new(client: &Client<N>, options: TransactionOptions) -> Self {
        let id = options.transactional_id.clone();
        Self {
            coordinator: Coordinator::new(client, CoordinatorKind::Transaction, id),
            options,
            stage: Cell::new(Stage::New),
            begun: Cell::new(0),
            identity: Cell::new(None),
            added: RefCell::default(),
            has_offsets: Cell::new(false),
        }
    }

    pub(super) fn id(&self) -> &Str {
        &self.options.transactional_id
    }

    fn misuse(&self, what: &'static str) -> ClientError {
        ClientError::Transaction {
            id: self.id().clone(),
            what,
        }
    }

    /// Whether records may be written.
    fn check_open(&self) -> Result<(), ClientError> {
        match self.stage.get() {
            Stage::Open => Ok(()),
            Stage::New => Err(self.misuse("init_transactions comes first")),
            Stage::Ready => Err(self.misuse("none is open")),
            Stage::Ending => Err(self.misuse("it is being ended")),
            Stage::Failed => Err(self.misuse("it failed and must be aborted")),
            Stage::Over => Err(self.misuse("the coordinator refused this producer for good")),
        }
    }

    /// A record was lost.
    pub(super) fn fail(&self) {
        if matches!(self.stage.get(), Stage::Open | Stage::Ending) {
            self.stage.set(Stage::Failed);
        }
    }

    /// Whether it must be aborted.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.stage.get(), Stage::Failed | Stage::Over)
    }

    fn owner(&self) -> (i64, i16) {
        let identity = self.identity.get();
        identity.map_or((-1, -1), |it| (it.producer_id.0, it.epoch.0))
    }

    /// Notes a failure within a transaction: another try may help, or nothing will.
    fn note<T>(&self, outcome: Result<T, ClientError>) -> Result<T, ClientError> {
        if let Err(error) = &outcome
            && self.stage.get() != Stage::Over
        {
            let is_refused = error.error_code().is_some() && !error.is_retriable();
            let stage = if is_refused {
                Stage::Over
            } else {
                Stage::Failed
            };
            self.stage.set(stage);
        }
        outcome
    }

    fn refused(&self, operation: &'static str, code: i16) -> Result<(), ClientError> {
        ClientError::refused(operation, self.id().clone(), code, None)
    }

    async fn identify(&self) -> Result<Identity, ClientError> {
        let (producer_id, producer_epoch) = self.owner();
        let request = InitProducerIdRequest {
            transactional_id: Some(self.id().clone()),
            transaction_timeout_ms: self.options.timeout_ms,
            producer_id,
            producer_epoch,
            ..InitProducerIdRequest::default()
        };
        let check = |response: &InitProducerIdResponse| {
            self.refused("asking for a producer id for", response.error_code)
        };
        let response = self.coordinator.insist(&request, i16::MAX, check).await?;
        let identity = Identity {
            producer_id: ProducerId(response.producer_id),
            epoch: ProducerEpoch(response.producer_epoch),
        };
        self.identity.set(Some(identity));
        Ok(identity)
    }

    async fn add(&self, topic: &Str, partition: i32) -> Result<(), ClientError> {
        let (producer_id, producer_epoch) = self.owner();
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: self.id().clone(),
            v3_and_below_producer_id: producer_id,
            v3_and_below_producer_epoch: producer_epoch,
            v3_and_below_topics: vec![AddPartitionsToTxnTopic {
                name: topic.clone(),
                partitions: vec![partition],
            }],
            ..AddPartitionsToTxnRequest::default()
        };
        let check = |response: &AddPartitionsToTxnResponse| {
            let topics = response.results_by_topic_v3_and_below.iter();
            let mut codes = topics.flat_map(|topic| &topic.results_by_partition);
            codes.try_for_each(|result| {
                self.refused("adding a partition for", result.partition_error_code)
            })
        };
        let version_max = ADD_PARTITIONS_VERSION_MAX;
        self.coordinator
            .insist(&request, version_max, check)
            .await?;
        self.added.borrow_mut().insert((topic.clone(), partition));
        Ok(())
    }

    async fn end(&self, commit: bool) -> Result<(), ClientError> {
        if !self.added.borrow().is_empty() || self.has_offsets.get() {
            let (producer_id, producer_epoch) = self.owner();
            let request = EndTxnRequest {
                transactional_id: self.id().clone(),
                producer_id,
                producer_epoch,
                committed: commit,
            };
            let check = |response: &EndTxnResponse| {
                self.refused("ending a transaction of", response.error_code)
            };
            self.coordinator
                .insist(&request, END_VERSION_MAX, check)
                .await?;
        }
        self.added.borrow_mut().clear();
        self.has_offsets.set(false);
        Ok(())
    }

    async fn send_offsets(
        &self,
        group: &GroupMetadata,
        offsets: &BTreeMap<(Str, i32), i64>,
    ) -> Result<(), ClientError> {
        let (producer_id, producer_epoch) = self.owner();
        let request = AddOffsetsToTxnRequest {
            transactional_id: self.id().clone(),
            producer_id,
            producer_epoch,
            group_id: group.group_id.clone(),
        };
        let check = |response: &AddOffsetsToTxnResponse| {
            self.refused("adding offsets for", response.error_code)
        };
        let version_max = ADD_PARTITIONS_VERSION_MAX;
        self.coordinator
            .insist(&request, version_max, check)
            .await?;
        self.has_offsets.set(true);
        let mut topics: BTreeMap<&Str, Vec<TxnOffsetCommitRequestPartition>> = BTreeMap::new();
        for ((topic, partition), offset) in offsets {
            let partitions = topics.entry(topic).or_default();
            partitions.push(TxnOffsetCommitRequestPartition {
                partition_index: *partition,
                committed_offset: *offset,
                committed_leader_epoch: -1,
                committed_metadata: Some(Str::default()),
            });
        }
        let topics = topics.into_iter();
        let request = TxnOffsetCommitRequest {
            transactional_id: self.id().clone(),
            group_id: group.group_id.clone(),
            producer_id,
            producer_epoch,
            generation_id: group.generation_id,
            member_id: group.member_id.clone(),
            group_instance_id: group.group_instance_id.clone(),
            topics: topics
                .map(|(name, partitions)| TxnOffsetCommitRequestTopic {
                    name: name.clone(),
                    partitions,
                })
                .collect(),
        };
        let check = |response: &TxnOffsetCommitResponse| {
            let mut partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.try_for_each(|partition| {
                self.refused("committing offsets of", partition.error_code)
            })
        };
        let kind = CoordinatorKind::Group;
        let client = self.coordinator.client();
        let coordinator = Coordinator::new(client, kind, group.group_id.clone());
        let version_max = OFFSET_COMMIT_VERSION_MAX;
        coordinator.insist(&request, version_max, check).await?;
        Ok(())
    }
}

impl<N: Net> Sender<N> {
    /// Whether a record may be taken: always outside of transactions.
    pub(super) fn check_transaction(&self) -> Result<(), ClientError> {
        let transaction = self.transaction.as_ref();
        transaction.map_or(Ok(()), Transaction::check_open)
    }

    /// Makes a partition part of the transaction, if there is one.
    pub(super) async fn join_transaction(
        &self,
        topic: &Str,
        partition: i32,
    ) -> Result<(), ClientError> {
        let Some(transaction) = &self.transaction else {
            return Ok(());
        };
        transaction.check_open()?;
        let is_added = transaction
            .added
            .borrow()
            .contains(&(topic.clone(), partition));
        if is_added {
            return Ok(());
        }
        let number = transaction.begun.get();
        let added = transaction.add(topic, partition).await;
        transaction.note(added)?;
        transaction.check_open()?;
        if transaction.begun.get() != number {
            return Err(transaction.misuse("it was ended before the record was taken"));
        }
        Ok(())
    }
}

impl<N: Net> Producer<N> {
    fn transaction(&self) -> Result<&Transaction<N>, ClientError> {
        let transaction = self.0.sender.transaction.as_ref();
        transaction.ok_or_else(|| ClientError::Transaction {
            id: Str::default(),
            what: "the producer has no transactional id",
        })
    }

    /// Takes the transactional id over: the producer before is fenced, what it left open is aborted. Comes first, once.
    ///
    /// # Errors
    /// The coordinator cannot be reached, or refuses.
    pub async fn init_transactions(&self) -> Result<(), ClientError> {
        let transaction = self.transaction()?;
        if transaction.stage.get() != Stage::New {
            return Err(transaction.misuse("it was initialized before"));
        }
        let identity = transaction.identify().await?;
        self.0.sender.accumulator.borrow_mut().begin_epoch(identity);
        transaction.stage.set(Stage::Ready);
        Ok(())
    }

    /// Begins a transaction; the coordinator hears of it with its first record.
    ///
    /// # Errors
    /// One is open, or must be aborted first.
    pub fn begin_transaction(&self) -> Result<(), ClientError> {
        let transaction = self.transaction()?;
        match transaction.stage.get() {
            Stage::Ready => {
                transaction.stage.set(Stage::Open);
                transaction.begun.set(transaction.begun.get() + 1);
                Ok(())
            }
            Stage::Open => Err(transaction.misuse("one is open already")),
            Stage::New | Stage::Ending | Stage::Failed | Stage::Over => transaction.check_open(),
        }
    }

    /// Commits where a group is to go on as part of the transaction: offsets by topic and partition.
    ///
    /// # Errors
    /// As [`Producer::commit_transaction`], or the group has moved on without this member.
    pub async fn send_offsets(
        &self,
        group: &GroupMetadata,
        offsets: &BTreeMap<(Str, i32), i64>,
    ) -> Result<(), ClientError> {
        let transaction = self.transaction()?;
        transaction.check_open()?;
        let sent = transaction.send_offsets(group, offsets).await;
        sent.inspect_err(|_| transaction.stage.set(Stage::Failed))
    }

    /// Waits until every record is acknowledged, and commits them all.
    ///
    /// # Errors
    /// A record failed, or the coordinator refuses: then the transaction must be aborted. When the coordinator does not answer, whether it
    /// is committed is unknown; an abort tells, for it is refused where it was.
    pub async fn commit_transaction(&self) -> Result<(), ClientError> {
        let transaction = self.transaction()?;
        transaction.check_open()?;
        transaction.stage.set(Stage::Ending);
        let flushed = self.flush().await;
        flushed.inspect_err(|_| transaction.stage.set(Stage::Failed))?;
        if transaction.has_failed() {
            // An earlier flush has told of the record.
            return transaction.check_open();
        }
        let ended = transaction.end(true).await;
        transaction.note(ended)?;
        transaction.stage.set(Stage::Ready);
        Ok(())
    }

    /// Gives up what has not been sent, and aborts the transaction.
    ///
    /// # Errors
    /// The coordinator cannot be reached, or refuses for good.
    pub async fn abort_transaction(&self) -> Result<(), ClientError> {
        let transaction = self.transaction()?;
        let stage = transaction.stage.get();
        if !matches!(stage, Stage::Open | Stage::Ending | Stage::Failed) {
            return transaction.check_open();
        }
        transaction.stage.set(Stage::Ending);
        let aborted = transaction.misuse("it was aborted");
        let given_up = self.0.sender.accumulator.borrow_mut().fail_all(&aborted);
        self.0.sender.changed.wake_all();
        let lost = self.flush().await.is_err() || !given_up.is_empty();
        let ended = transaction.end(false).await;
        transaction.note(ended)?;
        // A commit that was broken off may have been carried out; a failed record took its sequence along.
        if lost || stage != Stage::Open {
            let identified = transaction.identify().await;
            let identity = transaction.note(identified)?;
            self.0.sender.accumulator.borrow_mut().begin_epoch(identity);
        }
        transaction.stage.set(Stage::Ready);
        Ok(())
    }
}
