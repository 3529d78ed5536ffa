//! Heartbeat: a member of a classic group is alive.

use pelton_machine::group::{Command, Heartbeat, Reply};
use pelton_model::ErrorCode;
use pelton_protocol::message::heartbeat::{HeartbeatRequest, HeartbeatResponse};

use super::Handled;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: HeartbeatRequest = request.body()?;
    let error = if asked.group_id.is_empty() {
        ErrorCode::InvalidGroupId
    } else {
        let group = asked.group_id.clone();
        let command = Command::Heartbeat(Heartbeat {
            group_id: asked.group_id,
            generation_id: asked.generation_id,
            member_id: asked.member_id,
            group_instance_id: asked.group_instance_id,
        });
        let Reply::Heartbeat(error) = client.ask_group(&group, command).await else {
            unreachable!("replies are of their commands' kinds");
        };
        error
    };
    Ok(request.respond(&HeartbeatResponse {
        error_code: error.code(),
        ..HeartbeatResponse::default()
    }))
}
