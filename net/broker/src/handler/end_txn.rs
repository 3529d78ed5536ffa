//! EndTxn: commits or aborts a transaction.

use pelton_machine::transaction::{Command, EndTxn, Reply};
use pelton_model::{ProducerEpoch, ProducerId};
use pelton_protocol::message::end_txn::{EndTxnRequest, EndTxnResponse};

use super::{Handled, fenced_code};
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;

/// From this version on a client knows PRODUCER_FENCED.
const FENCED_VERSION: i16 = 2;
/// From this version on a client works by transaction version 2.
const BUMPING_VERSION: i16 = 5;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: EndTxnRequest = request.body()?;
    let id = asked.transactional_id.clone();
    let command = Command::EndTxn(EndTxn {
        transactional_id: asked.transactional_id,
        producer_id: ProducerId(asked.producer_id),
        producer_epoch: ProducerEpoch(asked.producer_epoch),
        commit: asked.committed,
        client_version: if BUMPING_VERSION <= request.version {
            2
        } else {
            0
        },
    });
    let Reply::EndTxn(ended) = client.ask_transaction(&id, command).await else {
        unreachable!("replies are of their commands' kinds");
    };
    let response = match ended {
        Ok((producer_id, producer_epoch)) => EndTxnResponse {
            producer_id: producer_id.0,
            producer_epoch: producer_epoch.0,
            ..EndTxnResponse::default()
        },
        Err(error) => EndTxnResponse {
            error_code: fenced_code(error, FENCED_VERSION <= request.version).code(),
            ..EndTxnResponse::default()
        },
    };
    Ok(request.respond(&response))
}
