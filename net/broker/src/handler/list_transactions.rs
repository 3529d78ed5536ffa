//! ListTransactions: the transactional ids of every coordinator of this broker.

use std::collections::BTreeSet;

use pelton_machine::pattern;
use pelton_machine::transaction::{Command, ListTransactions, Reply, State};
use pelton_model::ErrorCode;
use pelton_protocol::codec::Str;
use pelton_protocol::message::list_transactions::{
    ListTransactionsRequest, ListTransactionsResponse, TransactionState,
};

use super::Handled;
use crate::connection::Client;
use crate::coordinator::Kind;
use crate::dispatch::Request;
use crate::env::Env;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: ListTransactionsRequest = request.body()?;
    let refused = |error: ErrorCode| ListTransactionsResponse {
        error_code: error.code(),
        ..ListTransactionsResponse::default()
    };
    let pattern = asked.transactional_id_pattern.as_deref();
    let pattern = match pattern.filter(|text| !text.is_empty()).map(pattern::whole) {
        Some(Err(_)) => return Ok(request.respond(&refused(ErrorCode::InvalidRegularExpression))),
        Some(Ok(pattern)) => Some(pattern),
        None => None,
    };
    let unknown = asked.state_filters.iter();
    let unknown = unknown.filter(|name| !State::is_name(name)).cloned();
    let mut response = ListTransactionsResponse {
        unknown_state_filters: unknown.collect(),
        ..ListTransactionsResponse::default()
    };
    // Bounded by the client alone: looked at once here, and not by each coordinator.
    let producers: BTreeSet<i64> = asked.producer_id_filters.into_iter().collect();
    let mut states = asked.state_filters;
    states.sort_unstable();
    states.dedup();
    // One name that is no state says as much as many: nothing is in it.
    let mut first_unknown = true;
    states.retain(|name| State::is_name(name) || std::mem::take(&mut first_unknown));
    let filter = ListTransactions {
        states,
        longer_than_ms: asked.duration_filter,
    };
    let partitions = client.shard.coordinator_partitions(Kind::Transactions);
    let commands = partitions.into_iter();
    let commands = commands.map(|id| (id, Command::List(filter.clone())));
    for reply in client.ask_transactions(commands.collect()).await {
        let Reply::List(listed) = reply else {
            unreachable!("replies are of their commands' kinds");
        };
        let listed = match listed {
            Ok(listed) => listed,
            // What is led elsewhere is listed there.
            Err(ErrorCode::NotCoordinator) => continue,
            Err(error) => return Ok(request.respond(&refused(error))),
        };
        let matches = |id: &str| pattern.as_ref().is_none_or(|pattern| pattern.is_match(id));
        let is_asked = |id: i64| producers.is_empty() || producers.contains(&id);
        let listed = listed
            .into_iter()
            .filter(|one| is_asked(one.producer_id.0) && matches(&one.transactional_id));
        response
            .transaction_states
            .extend(listed.map(|one| TransactionState {
                transactional_id: one.transactional_id,
                producer_id: one.producer_id.0,
                transaction_state: Str::new_static(one.state),
            }));
    }
    Ok(request.respond(&response))
}
