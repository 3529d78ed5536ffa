//! TxnOffsetCommit: where a group is to go on once a transaction commits.
//!
//! 1. The group's partition of `__consumer_offsets` must be part of the transaction: the transaction's coordinator vouches for it, or adds it
//!    (from version 5 on), before the group's coordinator is asked.
//! 2. Partitions that do not exist are refused here and change nothing for the others.

use std::rc::Rc;

use pelton_machine::group::{
    Command, CommitPartition, CommitTopic, OffsetCommit, Reply, TopicCodes,
};
use pelton_machine::partition::TxnGuard;
use pelton_model::producer_state::ProducerStamp;
use pelton_model::{ErrorCode, ProducerEpoch, ProducerId, Sequence, TopicPartition};
use pelton_protocol::message::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic, TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};

use super::Handled;
use crate::connection::Client;
use crate::coordinator::Kind;
use crate::coordinator::transaction::{TxnAsk, TxnPartitions};
use crate::dispatch::Request;
use crate::env::Env;
use crate::shard::message::VerifyItem;
use crate::shard::topics::TopicEntry;

/// From this version on the group's partition is added to the transaction.
const ADDING_VERSION: i16 = 5;
/// From this version on a client knows TRANSACTION_ABORTABLE.
const ABORTABLE_VERSION: i16 = 4;
/// From this version on a client knows COORDINATOR_LOAD_IN_PROGRESS for what it is.
const LOADING_VERSION: i16 = 2;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: TxnOffsetCommitRequest = request.body()?;
    let mut response = TxnOffsetCommitResponse::default();
    let mut topics = Vec::new();
    for topic in &asked.topics {
        let (told, wanted) = split(topic, client.shard.topic_by_name(&topic.name).as_ref());
        response.topics.push(told);
        topics.push(wanted);
    }
    if topics.iter().any(|topic| !topic.partitions.is_empty()) {
        let commit = commit(&asked, topics);
        let codes = match vouched(client, &asked, request.version).await {
            Ok((partition, guard)) => ask(client, partition, guard, commit).await,
            Err(error) => commit.refused(error),
        };
        fill(&mut response, codes, request.version);
    }
    Ok(request.respond(&response))
}

fn commit(asked: &TxnOffsetCommitRequest, topics: Vec<CommitTopic>) -> OffsetCommit {
    OffsetCommit {
        group_id: asked.group_id.clone(),
        member_id: asked.member_id.clone(),
        group_instance_id: asked.group_instance_id.clone(),
        generation_id_or_member_epoch: asked.generation_id,
        retention_ms: None,
        knows_stale_epochs: false,
        producer: Some(producer(asked)),
        topics,
    }
}

fn producer(asked: &TxnOffsetCommitRequest) -> (ProducerId, ProducerEpoch) {
    (
        ProducerId(asked.producer_id),
        ProducerEpoch(asked.producer_epoch),
    )
}

/// The group's partition, and what its records are written with.
async fn vouched<E: Env>(
    client: &Client<E>,
    asked: &TxnOffsetCommitRequest,
    version: i16,
) -> Result<(TopicPartition, TxnGuard), ErrorCode> {
    let shard = &client.shard;
    if asked.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let partition = shard.coordinator_partition(Kind::Groups, &asked.group_id);
    let partition = partition.ok_or(ErrorCode::NotCoordinator)?;
    let adds = ADDING_VERSION <= version;
    if !adds && !shard.verification_terms().is_enabled {
        return Ok((partition, TxnGuard::Waived));
    }
    let (producer_id, producer_epoch) = producer(asked);
    let item = VerifyItem {
        partition,
        stamp: ProducerStamp::from((producer_id, producer_epoch, Sequence::NONE)),
        is_bumped: adds,
    };
    let begun = shard.begin_verification(vec![item]).await;
    let begun = begun.into_iter().next().expect("one for each item");
    let guard = begun.map_err(coordinator_code)?;
    if guard == TxnGuard::None {
        return Ok((partition, guard));
    }
    let mode = if adds {
        TxnAsk::Add
    } else {
        TxnAsk::VerifyOnly
    };
    let ask = TxnPartitions {
        transactional_id: asked.transactional_id.clone(),
        producer_id,
        producer_epoch,
        partitions: vec![partition],
        mode,
    };
    let codes = shard.add_partitions_to_txn(ask).await;
    match codes.first() {
        Some(ErrorCode::None) => Ok((partition, guard)),
        Some(&error) => Err(error),
        None => unreachable!("a code for each partition"),
    }
}

/// What a partition's error means to whoever asks a group's coordinator.
fn coordinator_code(error: ErrorCode) -> ErrorCode {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "partitions answer few of Kafka's codes; whatever else is passed on"
    )]
    match error {
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::NotEnoughReplicas
        | ErrorCode::RequestTimedOut
        | ErrorCode::UnknownTopicOrPartition => ErrorCode::CoordinatorNotAvailable,
        other => other,
    }
}

async fn ask<E: Env>(
    client: &Client<E>,
    partition: TopicPartition,
    guard: TxnGuard,
    commit: OffsetCommit,
) -> Vec<TopicCodes> {
    let command = Command::OffsetCommit(commit);
    let reply = client.ask_group_guarded(partition, guard, command).await;
    let Reply::OffsetCommit(codes) = reply else {
        unreachable!("replies are of their commands' kinds");
    };
    codes
}

/// A topic's part of the answer with every code that is known here, and of what the coordinator is asked.
fn split(
    topic: &TxnOffsetCommitRequestTopic,
    entry: Option<&Rc<TopicEntry>>,
) -> (TxnOffsetCommitResponseTopic, CommitTopic) {
    let mut told = TxnOffsetCommitResponseTopic {
        name: topic.name.clone(),
        partitions: Vec::with_capacity(topic.partitions.len()),
    };
    let mut wanted = CommitTopic {
        name: topic.name.clone(),
        ..CommitTopic::default()
    };
    for partition in &topic.partitions {
        let index = partition.partition_index;
        let exists = entry.is_some_and(|entry| entry.has_partition(index));
        let error = if exists {
            wanted.partitions.push(CommitPartition {
                index,
                offset: partition.committed_offset,
                leader_epoch: partition.committed_leader_epoch,
                metadata: partition.committed_metadata.clone(),
            });
            ErrorCode::None
        } else {
            ErrorCode::UnknownTopicOrPartition
        };
        told.partitions.push(TxnOffsetCommitResponsePartition {
            partition_index: index,
            error_code: error.code(),
        });
    }
    (told, wanted)
}

/// Enters the coordinator's codes, which come in the order of what was asked.
fn fill(response: &mut TxnOffsetCommitResponse, codes: Vec<TopicCodes>, version: i16) {
    for (told, topic) in response.topics.iter_mut().zip(codes) {
        let open = told
            .partitions
            .iter_mut()
            .filter(|partition| partition.error_code == ErrorCode::None.code());
        for (partition, (index, error)) in open.zip(topic.partitions) {
            assert!(
                partition.partition_index == index,
                "codes come in the order of the request"
            );
            partition.error_code = known_code(error, version).code();
        }
    }
}

/// The code in the words of the request's version.
fn known_code(error: ErrorCode, version: i16) -> ErrorCode {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "only these have other names in older versions"
    )]
    match error {
        ErrorCode::CoordinatorLoadInProgress if version < LOADING_VERSION => {
            ErrorCode::CoordinatorNotAvailable
        }
        ErrorCode::TransactionAbortable if version < ABORTABLE_VERSION => {
            ErrorCode::InvalidTxnState
        }
        // Clients of TxnOffsetCommit know a fenced producer by its epoch alone.
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        other => other,
    }
}
