//! ListGroups: the groups of every coordinator of this broker.

use pelton_machine::group::{Command, ListGroups, Reply};
use pelton_model::ErrorCode;
use pelton_protocol::codec::Str;
use pelton_protocol::message::list_groups::{ListGroupsRequest, ListGroupsResponse, ListedGroup};

use super::Handled;
use crate::connection::Client;
use crate::coordinator::Kind;
use crate::dispatch::Request;
use crate::env::Env;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: ListGroupsRequest = request.body()?;
    let filter = ListGroups {
        states: asked.states_filter,
        types: asked.types_filter,
    };
    let partitions = client
        .shard
        .coordinator_partitions(Kind::Groups)
        .into_iter();
    let commands = partitions.map(|id| (id, Command::ListGroups(filter.clone())));
    let replies = client.ask_groups(commands.collect()).await;
    let mut groups = Vec::new();
    for reply in replies {
        let Reply::ListGroups(listed) = reply else {
            unreachable!("replies are of their commands' kinds");
        };
        match listed {
            Ok(listed) => groups.extend(listed.into_iter().map(|group| ListedGroup {
                group_id: group.group_id,
                protocol_type: group.protocol_type,
                group_state: Str::new_static(group.state),
                group_type: Str::new_static(group.group_type),
            })),
            // What is led elsewhere is listed there.
            Err(ErrorCode::NotCoordinator) => {}
            Err(error) => {
                return Ok(request.respond(&ListGroupsResponse {
                    error_code: error.code(),
                    ..ListGroupsResponse::default()
                }));
            }
        }
    }
    Ok(request.respond(&ListGroupsResponse {
        groups,
        ..ListGroupsResponse::default()
    }))
}
