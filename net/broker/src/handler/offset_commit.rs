//! OffsetCommit: where a group is to go on.
//!
//! Partitions that do not exist are refused here and change nothing for the others; the group's coordinator decides about the rest.

use std::rc::Rc;

use pelton_machine::group::{
    Command, CommitPartition, CommitTopic, OffsetCommit, Reply, TopicCodes,
};
use pelton_model::ErrorCode;
use pelton_protocol::message::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestTopic, OffsetCommitResponse,
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};

use super::Handled;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;
use crate::shard::topics::TopicEntry;

/// From this version on topics are named by their ids.
const TOPIC_ID_VERSION: i16 = 10;
/// From this version on a member may hear that its epoch is stale.
const STALE_EPOCH_VERSION: i16 = 9;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: OffsetCommitRequest = request.body()?;
    let mut response = OffsetCommitResponse::default();
    let mut topics = Vec::new();
    for topic in &asked.topics {
        let found = find(client, topic, request.version);
        let (told, wanted) = split(topic, found);
        response.topics.push(told);
        topics.push(wanted);
    }
    if topics.iter().any(|topic| !topic.partitions.is_empty()) {
        let command = Command::OffsetCommit(OffsetCommit {
            group_id: asked.group_id.clone(),
            member_id: asked.member_id,
            group_instance_id: asked.group_instance_id,
            generation_id_or_member_epoch: asked.generation_id_or_member_epoch,
            retention_ms: (asked.retention_time_ms >= 0).then_some(asked.retention_time_ms),
            knows_stale_epochs: STALE_EPOCH_VERSION <= request.version,
            producer: None,
            topics,
        });
        let Reply::OffsetCommit(codes) = client.ask_group(&asked.group_id, command).await else {
            unreachable!("replies are of their commands' kinds");
        };
        fill(&mut response, codes);
    }
    Ok(request.respond(&response))
}

fn find<E: Env>(
    client: &Client<E>,
    topic: &OffsetCommitRequestTopic,
    version: i16,
) -> Result<Rc<TopicEntry>, ErrorCode> {
    if TOPIC_ID_VERSION <= version {
        let found = client.shard.topic_by_id(topic.topic_id);
        found.ok_or(ErrorCode::UnknownTopicId)
    } else {
        let found = client.shard.topic_by_name(&topic.name);
        found.ok_or(ErrorCode::UnknownTopicOrPartition)
    }
}

/// A topic's part of the answer with every code that is known here, and of what the coordinator is asked.
fn split(
    topic: &OffsetCommitRequestTopic,
    found: Result<Rc<TopicEntry>, ErrorCode>,
) -> (OffsetCommitResponseTopic, CommitTopic) {
    let mut told = OffsetCommitResponseTopic {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partitions: Vec::with_capacity(topic.partitions.len()),
    };
    let name = found.as_ref().map(|entry| entry.name.clone());
    let mut wanted = CommitTopic {
        name: name.unwrap_or_default(),
        topic_id: topic.topic_id,
        partitions: Vec::with_capacity(topic.partitions.len()),
    };
    for partition in &topic.partitions {
        let index = partition.partition_index;
        let error = match &found {
            Err(error) => *error,
            Ok(entry) if !entry.has_partition(index) => ErrorCode::UnknownTopicOrPartition,
            Ok(_) => {
                wanted.partitions.push(CommitPartition {
                    index,
                    offset: partition.committed_offset,
                    leader_epoch: partition.committed_leader_epoch,
                    metadata: partition.committed_metadata.clone(),
                });
                ErrorCode::None
            }
        };
        told.partitions.push(OffsetCommitResponsePartition {
            partition_index: index,
            error_code: error.code(),
        });
    }
    (told, wanted)
}

/// Enters the coordinator's codes, which come in the order of what was asked.
fn fill(response: &mut OffsetCommitResponse, codes: Vec<TopicCodes>) {
    for (told, topic) in response.topics.iter_mut().zip(codes) {
        let open = told
            .partitions
            .iter_mut()
            .filter(|partition| partition.error_code == ErrorCode::None.code());
        for (partition, (index, error)) in open.zip(topic.partitions) {
            assert!(
                partition.partition_index == index,
                "codes come in the order of the request"
            );
            partition.error_code = error.code();
        }
    }
}
