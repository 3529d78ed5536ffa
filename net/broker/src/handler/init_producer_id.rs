//! InitProducerId: ids for idempotent producers, from blocks that the controller gives each shard, and who has a transactional id.

use pelton_machine::transaction::{Command, InitProducerId, Reply};
use pelton_model::{ErrorCode, ProducerEpoch, ProducerId};
use pelton_protocol::codec::Str;
use pelton_protocol::message::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};

use super::{Handled, fenced_code};
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;

/// From this version on a client knows PRODUCER_FENCED.
const FENCED_VERSION: i16 = 4;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: InitProducerIdRequest = request.body()?;
    let is_half = (asked.producer_id == -1) != (asked.producer_epoch == -1);
    let got = match asked.transactional_id.clone() {
        _ if is_half => Err(ErrorCode::InvalidRequest),
        Some(id) if id.is_empty() => Err(ErrorCode::InvalidRequest),
        Some(id) => take_over(client, id, &asked).await,
        None => {
            let id = client.shard.next_producer_id().await;
            id.map(|id| (ProducerId(id), ProducerEpoch(0)))
        }
    };
    let response = match got {
        Ok((id, epoch)) => InitProducerIdResponse {
            producer_id: id.0,
            producer_epoch: epoch.0,
            ..InitProducerIdResponse::default()
        },
        Err(error) => InitProducerIdResponse {
            error_code: fenced_code(error, FENCED_VERSION <= request.version).code(),
            producer_epoch: -1,
            ..InitProducerIdResponse::default()
        },
    };
    Ok(request.respond(&response))
}

async fn take_over<E: Env>(
    client: &Client<E>,
    transactional_id: Str,
    asked: &InitProducerIdRequest,
) -> Result<(ProducerId, ProducerEpoch), ErrorCode> {
    let expected = (
        ProducerId(asked.producer_id),
        ProducerEpoch(asked.producer_epoch),
    );
    let command = Command::InitProducerId(InitProducerId {
        transactional_id: transactional_id.clone(),
        timeout_ms: asked.transaction_timeout_ms,
        expected: (expected.0 != ProducerId::NONE).then_some(expected),
    });
    match client.ask_transaction(&transactional_id, command).await {
        Reply::InitProducerId(got) => got,
        Reply::AddPartitions(_) | Reply::EndTxn(_) | Reply::List(_) | Reply::Describe(_) => {
            unreachable!("replies are of their commands' kinds")
        }
    }
}
