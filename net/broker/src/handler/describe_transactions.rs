//! DescribeTransactions: where transactional ids stand, each at its own coordinator.

use std::collections::BTreeSet;

use pelton_machine::transaction::{Command, DescribedTransaction, Reply};
use pelton_model::ErrorCode;
use pelton_protocol::codec::Str;
use pelton_protocol::message::describe_transactions::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, TopicData, TransactionState,
};

use super::Handled;
use crate::connection::Client;
use crate::coordinator::Kind;
use crate::dispatch::Request;
use crate::env::Env;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: DescribeTransactionsRequest = request.body()?;
    let mut commands = Vec::new();
    let mut states = Vec::new();
    // Each once: an answer may be much larger than its question.
    let ids: BTreeSet<Str> = asked.transactional_ids.into_iter().collect();
    for id in ids {
        match client.shard.coordinator_partition(Kind::Transactions, &id) {
            Some(partition) => commands.push((partition, Command::Describe(vec![id]))),
            None => states.push(told(id, Err(ErrorCode::NotCoordinator))),
        }
    }
    for reply in client.ask_transactions(commands).await {
        let Reply::Describe(described) = reply else {
            unreachable!("replies are of their commands' kinds");
        };
        states.extend(described.into_iter().map(|(id, one)| told(id, one)));
    }
    Ok(request.respond(&DescribeTransactionsResponse {
        transaction_states: states,
        ..DescribeTransactionsResponse::default()
    }))
}

fn told(id: Str, described: Result<DescribedTransaction, ErrorCode>) -> TransactionState {
    match described {
        Err(error) => TransactionState {
            error_code: error.code(),
            transactional_id: id,
            ..TransactionState::default()
        },
        Ok(described) => {
            let topics = described.partitions.into_iter();
            TransactionState {
                error_code: ErrorCode::None.code(),
                transactional_id: id,
                transaction_state: Str::new_static(described.state),
                transaction_timeout_ms: described.timeout_ms,
                transaction_start_time_ms: described.started_ms,
                producer_id: described.producer_id.0,
                producer_epoch: described.producer_epoch.0,
                topics: topics
                    .map(|(topic, partitions)| TopicData { topic, partitions })
                    .collect(),
            }
        }
    }
}
