//! LeaveGroup: members leave a classic group, by themselves or because an administrator says so.

use pelton_machine::group::{Command, LeaveGroup, LeaveGroupReply, LeavingMember, Reply};
use pelton_model::ErrorCode;
use pelton_protocol::message::leave_group::{
    LeaveGroupRequest, LeaveGroupResponse, MemberResponse,
};

use super::Handled;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;

/// From this version on several members may leave at once.
const BATCH_VERSION: i16 = 3;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: LeaveGroupRequest = request.body()?;
    let reply = if asked.group_id.is_empty() {
        LeaveGroupReply {
            error: ErrorCode::InvalidGroupId,
            members: Vec::new(),
        }
    } else {
        let group = asked.group_id.clone();
        let command = Command::LeaveGroup(wanted(asked, request.version));
        let Reply::LeaveGroup(reply) = client.ask_group(&group, command).await else {
            unreachable!("replies are of their commands' kinds");
        };
        reply
    };
    Ok(request.respond(&told(reply, request.version)))
}

fn wanted(asked: LeaveGroupRequest, version: i16) -> LeaveGroup {
    let members = if version < BATCH_VERSION {
        vec![LeavingMember {
            member_id: asked.member_id,
            ..LeavingMember::default()
        }]
    } else {
        let members = asked.members.into_iter();
        let members = members.map(|member| LeavingMember {
            member_id: member.member_id,
            group_instance_id: member.group_instance_id,
            reason: member.reason,
        });
        members.collect()
    };
    LeaveGroup {
        group_id: asked.group_id,
        members,
    }
}

fn told(reply: LeaveGroupReply, version: i16) -> LeaveGroupResponse {
    let LeaveGroupReply { error, members } = reply;
    if version < BATCH_VERSION {
        let of_member = members.first().map_or(ErrorCode::None, |left| left.error);
        let error = if error == ErrorCode::None {
            of_member
        } else {
            error
        };
        return LeaveGroupResponse {
            error_code: error.code(),
            ..LeaveGroupResponse::default()
        };
    }
    let members = members.into_iter().map(|left| MemberResponse {
        member_id: left.member_id,
        group_instance_id: left.group_instance_id,
        error_code: left.error.code(),
    });
    LeaveGroupResponse {
        error_code: error.code(),
        members: members.collect(),
        ..LeaveGroupResponse::default()
    }
}
