//! UnregisterBroker: a lone node knows no broker but itself, and does not forget that one.
//!
//! Kafka does: its only broker serves nobody then, until it is started again.

use pelton_model::{ErrorCode, NodeId};
use pelton_protocol::codec::Str;
use pelton_protocol::message::unregister_broker::{
    UnregisterBrokerRequest, UnregisterBrokerResponse,
};

use super::Handled;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;

/// Serves one request.
pub(crate) fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: UnregisterBrokerRequest = request.body()?;
    let id = asked.broker_id;
    let image = client.shard.image();
    let (error, text) = match image.broker(NodeId(client.meant_node(id))) {
        None => (
            ErrorCode::BrokerIdNotRegistered,
            format!("Broker ID {id} is not currently registered"),
        ),
        Some(_) => (
            ErrorCode::InvalidRequest,
            format!("Broker {id} is the only one of its cluster: nobody would serve it."),
        ),
    };
    Ok(request.respond(&UnregisterBrokerResponse {
        error_code: error.code(),
        error_message: Some(Str::from(text)),
        ..UnregisterBrokerResponse::default()
    }))
}
