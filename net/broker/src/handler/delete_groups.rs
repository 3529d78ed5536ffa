//! DeleteGroups: groups without members, each at its own coordinator.

use pelton_machine::group::{Command, DeleteGroups, Reply};
use pelton_protocol::message::delete_groups::{
    DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse,
};

use super::Handled;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: DeleteGroupsRequest = request.body()?;
    let delete = |group_ids| Command::DeleteGroups(DeleteGroups { group_ids });
    let replies = client.ask_each_group(asked.groups_names, delete).await;
    let mut results = Vec::new();
    for reply in replies {
        let Reply::DeleteGroups(deleted) = reply else {
            unreachable!("replies are of their commands' kinds");
        };
        results.extend(
            deleted
                .into_iter()
                .map(|(group_id, error)| DeletableGroupResult {
                    group_id,
                    error_code: error.code(),
                }),
        );
    }
    Ok(request.respond(&DeleteGroupsResponse {
        results,
        ..DeleteGroupsResponse::default()
    }))
}
