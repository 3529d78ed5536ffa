//! AddPartitionsToTxn: partitions join transactions, or are looked for in them.
//!
//! 1. All of a transaction's partitions or none: where one does not exist, the others hear OPERATION_NOT_ATTEMPTED.

use pelton_machine::transaction::{AddMode, AddPartitions, Command, PartitionCodes, Reply};
use pelton_model::{ErrorCode, ProducerEpoch, ProducerId};
use pelton_protocol::codec::Str;
use pelton_protocol::message::add_partitions_to_txn::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult, AddPartitionsToTxnTopic, AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
};

use super::{Handled, fenced_code};
use crate::connection::Client;
use crate::coordinator::Kind;
use crate::dispatch::Request;
use crate::env::Env;

/// From this version on several transactions are named.
const BATCH_VERSION: i16 = 4;
/// From this version on a client knows PRODUCER_FENCED.
const FENCED_VERSION: i16 = 2;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: AddPartitionsToTxnRequest = request.body()?;
    if BATCH_VERSION <= request.version {
        // Brokers add for clients of transaction version 2.
        let results = add(client, asked.transactions, 2).await;
        let results = results.into_iter();
        let results_by_transaction = results.map(|(id, codes)| AddPartitionsToTxnResult {
            transactional_id: id,
            topic_results: told(codes, true),
        });
        return Ok(request.respond(&AddPartitionsToTxnResponse {
            results_by_transaction: results_by_transaction.collect(),
            ..AddPartitionsToTxnResponse::default()
        }));
    }
    let transaction = AddPartitionsToTxnTransaction {
        transactional_id: asked.v3_and_below_transactional_id,
        producer_id: asked.v3_and_below_producer_id,
        producer_epoch: asked.v3_and_below_producer_epoch,
        verify_only: false,
        topics: asked.v3_and_below_topics,
    };
    let mut results = add(client, vec![transaction], 0).await;
    let (_, codes) = results.pop().expect("one for each transaction");
    Ok(request.respond(&AddPartitionsToTxnResponse {
        results_by_topic_v3_and_below: told(codes, FENCED_VERSION <= request.version),
        ..AddPartitionsToTxnResponse::default()
    }))
}

/// The codes of each transaction, in the order asked.
async fn add<E: Env>(
    client: &Client<E>,
    transactions: Vec<AddPartitionsToTxnTransaction>,
    client_version: i16,
) -> Vec<(Str, PartitionCodes)> {
    let mut results = Vec::with_capacity(transactions.len());
    let mut commands = Vec::new();
    for transaction in transactions {
        let id = transaction.transactional_id.clone();
        if let Some(refused) = refused(client, &transaction.topics) {
            results.push((id, Some(refused)));
            continue;
        }
        let command = command(transaction, client_version);
        let partition = client.shard.coordinator_partition(Kind::Transactions, &id);
        match partition {
            Some(partition) => {
                commands.push((partition, command));
                results.push((id, None));
            }
            None => {
                let refused = codes(command.refused(ErrorCode::NotCoordinator));
                results.push((id, Some(refused)));
            }
        }
    }
    let mut replies = client.ask_transactions(commands).await.into_iter();
    let results = results.into_iter().map(|(id, known)| {
        let got =
            known.unwrap_or_else(|| codes(replies.next().expect("each command has its reply")));
        (id, got)
    });
    results.collect()
}

fn command(transaction: AddPartitionsToTxnTransaction, client_version: i16) -> Command {
    let topics = transaction.topics.into_iter();
    Command::AddPartitions(AddPartitions {
        transactional_id: transaction.transactional_id,
        producer_id: ProducerId(transaction.producer_id),
        producer_epoch: ProducerEpoch(transaction.producer_epoch),
        mode: if transaction.verify_only {
            AddMode::Verify
        } else {
            AddMode::Add(client_version)
        },
        topics: topics.map(|topic| (topic.name, topic.partitions)).collect(),
    })
}

fn codes(reply: Reply) -> PartitionCodes {
    match reply {
        Reply::AddPartitions(codes) => codes,
        Reply::InitProducerId(_) | Reply::EndTxn(_) | Reply::List(_) | Reply::Describe(_) => {
            unreachable!("replies are of their commands' kinds")
        }
    }
}

/// The codes of a transaction of which a partition does not exist.
fn refused<E: Env>(
    client: &Client<E>,
    topics: &[AddPartitionsToTxnTopic],
) -> Option<PartitionCodes> {
    let mut is_refused = false;
    let codes = topics.iter().map(|topic| {
        let entry = client.shard.topic_by_name(&topic.name);
        let code = |&partition: &i32| {
            let has = |entry: &std::rc::Rc<crate::shard::topics::TopicEntry>| {
                entry.has_partition(partition)
            };
            if entry.as_ref().is_some_and(has) {
                (partition, ErrorCode::OperationNotAttempted)
            } else {
                is_refused = true;
                (partition, ErrorCode::UnknownTopicOrPartition)
            }
        };
        (
            topic.name.clone(),
            topic.partitions.iter().map(code).collect(),
        )
    });
    let codes: PartitionCodes = codes.collect();
    is_refused.then_some(codes)
}

fn told(codes: PartitionCodes, knows_fenced: bool) -> Vec<AddPartitionsToTxnTopicResult> {
    let topics = codes.into_iter();
    let topics = topics.map(|(name, codes)| {
        let results = codes.into_iter();
        let results = results.map(
            |(partition_index, code)| AddPartitionsToTxnPartitionResult {
                partition_index,
                partition_error_code: fenced_code(code, knows_fenced).code(),
            },
        );
        AddPartitionsToTxnTopicResult {
            name,
            results_by_partition: results.collect(),
        }
    });
    topics.collect()
}
