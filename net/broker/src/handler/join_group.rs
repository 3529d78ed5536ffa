//! JoinGroup: a member of a classic group asks for the next generation, and waits for the others.

use pelton_machine::group::{Command, JoinGroup, JoinGroupReply, Protocol, Reply};
use pelton_model::ErrorCode;
use pelton_protocol::codec::Str;
use pelton_protocol::message::join_group::{
    JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember,
};

use super::{Handled, group_client};
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;

/// From this version on a new dynamic member is given its id before it joins (KIP-394).
const MEMBER_ID_VERSION: i16 = 4;
/// From this version on a protocol that is not chosen is null.
const NULL_PROTOCOL_VERSION: i16 = 7;
/// From this version on a leader may be told to keep its assignment (KIP-814).
const SKIP_ASSIGNMENT_VERSION: i16 = 9;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: JoinGroupRequest = request.body()?;
    let reply = if asked.group_id.is_empty() {
        JoinGroupReply::refused(ErrorCode::InvalidGroupId, asked.member_id)
    } else {
        let group = asked.group_id.clone();
        let command = Command::JoinGroup(wanted(client, request, asked));
        let Reply::JoinGroup(reply) = client.ask_group(&group, command).await else {
            unreachable!("replies are of their commands' kinds");
        };
        reply
    };
    Ok(request.respond(&told(reply, request.version)))
}

fn wanted<E: Env>(client: &Client<E>, request: &Request, asked: JoinGroupRequest) -> JoinGroup {
    let protocols = asked.protocols.into_iter().map(|protocol| Protocol {
        name: protocol.name,
        metadata: protocol.metadata,
    });
    JoinGroup {
        group_id: asked.group_id,
        member_id: asked.member_id,
        group_instance_id: asked.group_instance_id,
        client: group_client(client, request),
        session_timeout_ms: asked.session_timeout_ms,
        rebalance_timeout_ms: if request.version == 0 {
            asked.session_timeout_ms
        } else {
            asked.rebalance_timeout_ms
        },
        protocol_type: asked.protocol_type,
        protocols: protocols.collect(),
        reason: asked.reason,
        requires_member_id: MEMBER_ID_VERSION <= request.version,
        skips_assignment: SKIP_ASSIGNMENT_VERSION <= request.version,
        random: client.random_bits(),
    }
}

fn told(reply: JoinGroupReply, version: i16) -> JoinGroupResponse {
    let members = reply.members.into_iter();
    let members = members.map(|member| JoinGroupResponseMember {
        member_id: member.member_id,
        group_instance_id: member.group_instance_id,
        metadata: member.metadata,
    });
    let protocol_name = match reply.protocol_name {
        None if version < NULL_PROTOCOL_VERSION => Some(Str::default()),
        chosen => chosen,
    };
    JoinGroupResponse {
        error_code: reply.error.code(),
        generation_id: reply.generation_id,
        protocol_type: reply.protocol_type,
        protocol_name,
        leader: reply.leader,
        skip_assignment: reply.skip_assignment,
        member_id: reply.member_id,
        members: members.collect(),
        ..JoinGroupResponse::default()
    }
}
