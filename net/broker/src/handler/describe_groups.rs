//! DescribeGroups: classic groups with their members, each from its own coordinator.

use pelton_machine::group::{self, Command, DescribeGroups, Reply};
use pelton_protocol::codec::Str;
use pelton_protocol::message::describe_groups::{
    DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup, DescribedGroupMember,
};

use super::Handled;
use crate::authorized;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;

/// From this version on an unknown group is an error rather than dead (KIP-1043).
const NOT_FOUND_VERSION: i16 = 6;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: DescribeGroupsRequest = request.body()?;
    let describe = |group_ids| {
        Command::DescribeGroups(DescribeGroups {
            group_ids,
            knows_group_id_not_found: NOT_FOUND_VERSION <= request.version,
        })
    };
    let replies = client.ask_each_group(asked.groups, describe).await;
    let mut groups = Vec::new();
    for reply in replies {
        let Reply::DescribeGroups(described) = reply else {
            unreachable!("replies are of their commands' kinds");
        };
        groups.extend(described.into_iter().map(told));
    }
    if asked.include_authorized_operations {
        for group in groups.iter_mut().filter(|group| group.error_code == 0) {
            group.authorized_operations = authorized::GROUP_OPERATIONS;
        }
    }
    Ok(request.respond(&DescribeGroupsResponse {
        groups,
        ..DescribeGroupsResponse::default()
    }))
}

fn told(group: group::DescribedGroup) -> DescribedGroup {
    let members = group.members.into_iter();
    let members = members.map(|member| DescribedGroupMember {
        member_id: member.member_id,
        group_instance_id: member.group_instance_id,
        client_id: member.client_id,
        client_host: member.client_host,
        member_metadata: member.metadata,
        member_assignment: member.assignment,
    });
    DescribedGroup {
        error_code: group.error.code(),
        error_message: group.error_message,
        group_id: group.group_id,
        group_state: Str::new_static(group.state),
        protocol_type: group.protocol_type,
        protocol_data: group.protocol,
        members: members.collect(),
        ..DescribedGroup::default()
    }
}
