//! OffsetDelete: forgets committed offsets of a group.

use std::collections::BTreeMap;

use pelton_machine::group::{Command, OffsetDelete, OffsetDeleteReply, Reply};
use pelton_model::ErrorCode;
use pelton_protocol::codec::Str;
use pelton_protocol::message::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
};

use super::Handled;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: OffsetDeleteRequest = request.body()?;
    if asked.group_id.is_empty() {
        return Ok(request.respond(&refused(ErrorCode::InvalidGroupId)));
    }
    let known = known(client, &asked);
    let command = Command::OffsetDelete(OffsetDelete {
        group_id: asked.group_id.clone(),
        topics: known,
    });
    let Reply::OffsetDelete(reply) = client.ask_group(&asked.group_id, command).await else {
        unreachable!("replies are of their commands' kinds");
    };
    let OffsetDeleteReply { error, topics } = reply;
    if error != ErrorCode::None {
        return Ok(request.respond(&refused(error)));
    }
    Ok(request.respond(&told(&asked, topics)))
}

fn refused(error: ErrorCode) -> OffsetDeleteResponse {
    OffsetDeleteResponse {
        error_code: error.code(),
        ..OffsetDeleteResponse::default()
    }
}

/// What is asked of partitions that exist.
fn known<E: Env>(client: &Client<E>, asked: &OffsetDeleteRequest) -> Vec<(Str, Vec<i32>)> {
    let mut known = Vec::new();
    for topic in &asked.topics {
        let Some(entry) = client.shard.topic_by_name(&topic.name) else {
            continue;
        };
        let indexes = topic.partitions.iter().map(|one| one.partition_index);
        let indexes = indexes.filter(|index| entry.has_partition(*index));
        known.push((topic.name.clone(), indexes.collect()));
    }
    known
}

fn told(
    asked: &OffsetDeleteRequest,
    topics: Vec<(Str, Vec<(i32, ErrorCode)>)>,
) -> OffsetDeleteResponse {
    let mut outcomes: BTreeMap<(Str, i32), ErrorCode> = BTreeMap::new();
    for (name, partitions) in topics {
        outcomes.extend(
            partitions
                .into_iter()
                .map(|(index, error)| ((name.clone(), index), error)),
        );
    }
    let topic = |topic: &pelton_protocol::message::offset_delete::OffsetDeleteRequestTopic| {
        let partitions = topic.partitions.iter().map(|one| {
            let outcome = outcomes.get(&(topic.name.clone(), one.partition_index));
            let error = outcome
                .copied()
                .unwrap_or(ErrorCode::UnknownTopicOrPartition);
            OffsetDeleteResponsePartition {
                partition_index: one.partition_index,
                error_code: error.code(),
            }
        });
        OffsetDeleteResponseTopic {
            name: topic.name.clone(),
            partitions: partitions.collect(),
        }
    };
    OffsetDeleteResponse {
        topics: asked.topics.iter().map(topic).collect(),
        ..OffsetDeleteResponse::default()
    }
}
