//! InitProducerId: ids for idempotent producers, from blocks that the controller gives each shard.
//!
//! Transactions are not served: a transactional id finds no coordinator here.

use std::rc::Rc;

use pelton_model::ErrorCode;
use pelton_protocol::message::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};

use super::Handled;
use crate::connection::Client;
use crate::controller::{Answer, Command};
use crate::dispatch::Request;
use crate::env::Env;
use crate::shard::message;
use crate::shard::{CONTROLLER_SHARD, Shard};

/// Kafka's default of `transaction.max.timeout.ms`.
const TRANSACTION_TIMEOUT_MS_MAX: i32 = 900_000;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: InitProducerIdRequest = request.body()?;
    let refused = |error: ErrorCode| InitProducerIdResponse {
        error_code: error.code(),
        producer_epoch: -1,
        ..InitProducerIdResponse::default()
    };
    let is_half = (asked.producer_id == -1) != (asked.producer_epoch == -1);
    let response = if is_half || asked.transactional_id.as_deref() == Some("") {
        refused(ErrorCode::InvalidRequest)
    } else if asked.transactional_id.is_some() {
        refused(transactional(&asked))
    } else {
        match next_producer_id(&client.shard).await {
            Ok(producer_id) => InitProducerIdResponse {
                producer_id,
                producer_epoch: 0,
                ..InitProducerIdResponse::default()
            },
            Err(error) => refused(error),
        }
    };
    Ok(request.respond(&response))
}

/// Why a request with a transactional id is refused: its timeout, or that no coordinator is here.
fn transactional(asked: &InitProducerIdRequest) -> ErrorCode {
    if !(1..=TRANSACTION_TIMEOUT_MS_MAX).contains(&asked.transaction_timeout_ms) {
        ErrorCode::InvalidTransactionTimeout
    } else {
        ErrorCode::NotCoordinator
    }
}

async fn next_producer_id<E: Env>(shard: &Rc<Shard<E>>) -> Result<i64, ErrorCode> {
    loop {
        if let Some(id) = shard.producer_ids.borrow_mut().next() {
            return Ok(id);
        }
        let command = message::Request::Control(Command::AllocateProducerIds);
        let answer = shard.ask(CONTROLLER_SHARD, command).await.into_control();
        let Answer::ProducerIds(block) = answer else {
            return Err(ErrorCode::CoordinatorNotAvailable);
        };
        let block = block.map_err(|refusal| refusal.error)?;
        // Several requests may have asked at once: the ids of a block that comes second are lost, which is allowed.
        *shard.producer_ids.borrow_mut() = block.first..block.first + block.count;
    }
}
