//! SyncGroup: the leader hands in the assignment of a generation, the others wait for it.

use pelton_machine::group::{Command, Reply, SyncGroup, SyncGroupReply};
use pelton_model::ErrorCode;
use pelton_protocol::message::sync_group::{SyncGroupRequest, SyncGroupResponse};

use super::Handled;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;

/// From this version on a member says which kind and protocol it believes in (KIP-559).
const PROTOCOL_VERSION: i16 = 5;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: SyncGroupRequest = request.body()?;
    let reply = match refusal(&asked, request.version) {
        Some(error) => SyncGroupReply::refused(error),
        None => {
            let group = asked.group_id.clone();
            let command = Command::SyncGroup(wanted(asked));
            let Reply::SyncGroup(reply) = client.ask_group(&group, command).await else {
                unreachable!("replies are of their commands' kinds");
            };
            reply
        }
    };
    Ok(request.respond(&SyncGroupResponse {
        error_code: reply.error.code(),
        protocol_type: reply.protocol_type,
        protocol_name: reply.protocol_name,
        assignment: reply.assignment,
        ..SyncGroupResponse::default()
    }))
}

fn refusal(asked: &SyncGroupRequest, version: i16) -> Option<ErrorCode> {
    let says_protocol = asked.protocol_type.is_some() && asked.protocol_name.is_some();
    if PROTOCOL_VERSION <= version && !says_protocol {
        return Some(ErrorCode::InconsistentGroupProtocol);
    }
    asked
        .group_id
        .is_empty()
        .then_some(ErrorCode::InvalidGroupId)
}

fn wanted(asked: SyncGroupRequest) -> SyncGroup {
    let assignments = asked.assignments.into_iter();
    let assignments = assignments.map(|one| (one.member_id, one.assignment));
    SyncGroup {
        group_id: asked.group_id,
        generation_id: asked.generation_id,
        member_id: asked.member_id,
        group_instance_id: asked.group_instance_id,
        protocol_type: asked.protocol_type,
        protocol_name: asked.protocol_name,
        assignments: assignments.collect(),
    }
}
