//! DescribeQuorum: who keeps the metadata log. This node alone does, so it leads, is the only voter, and has everything that is committed.
//!
//! As in Kafka a request that asks for anything but that one partition is refused for every partition that it names.
//! Source: KIP-595, KIP-836, KIP-853.

use pelton_model::{ErrorCode, Timestamp};
use pelton_protocol::codec::Str;
use pelton_protocol::message::describe_quorum::described::{PartitionData, TopicData};
use pelton_protocol::message::describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumResponse, Listener, Node, ReplicaState,
};
use pelton_transport::net::Net;

use super::Handled;
use crate::connection::Client;
use crate::controller::METADATA_TOPIC;
use crate::dispatch::Request;
use crate::env::Env;
use crate::shard::CONTROLLER_SHARD;
use crate::shard::message::{self, QuorumState, Response};

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: DescribeQuorumRequest = request.body()?;
    if !is_of_metadata(&asked) {
        let response = refused(&asked, ErrorCode::UnknownTopicOrPartition);
        return Ok(request.respond(&response));
    }
    let shard = &client.shard;
    let answered = shard.ask(CONTROLLER_SHARD, message::Request::Quorum).await;
    let response = if let Response::Quorum(quorum) = answered {
        told(*quorum, shard.net.wall_clock())
    } else {
        refused(&asked, ErrorCode::NotLeaderOrFollower)
    };
    Ok(request.respond(&response))
}

fn is_of_metadata(asked: &DescribeQuorumRequest) -> bool {
    let [topic] = asked.topics.as_slice() else {
        return false;
    };
    let [partition] = topic.partitions.as_slice() else {
        return false;
    };
    topic.topic_name == METADATA_TOPIC && partition.partition_index == 0
}

fn refused(asked: &DescribeQuorumRequest, error: ErrorCode) -> DescribeQuorumResponse {
    let partition = |partition_index| PartitionData {
        partition_index,
        error_code: error.code(),
        error_message: Some(Str::from(error.message())),
        ..PartitionData::default()
    };
    let topics = asked.topics.iter().map(|topic| TopicData {
        topic_name: topic.topic_name.clone(),
        partitions: topic
            .partitions
            .iter()
            .map(|asked| partition(asked.partition_index))
            .collect(),
    });
    DescribeQuorumResponse {
        error_message: Some(Str::default()),
        topics: topics.collect(),
        ..DescribeQuorumResponse::default()
    }
}

fn told(quorum: QuorumState, now: Timestamp) -> DescribeQuorumResponse {
    let voter = quorum.voter;
    let partition = PartitionData {
        error_message: Some(Str::default()),
        leader_id: voter.voter_id,
        leader_epoch: quorum.epoch.0,
        high_watermark: quorum.log_end.0,
        current_voters: vec![ReplicaState {
            replica_id: voter.voter_id,
            replica_directory_id: voter.voter_directory_id,
            log_end_offset: quorum.log_end.0,
            last_fetch_timestamp: now.0,
            last_caught_up_timestamp: now.0,
        }],
        ..PartitionData::default()
    };
    let listeners = voter.endpoints.iter().map(|endpoint| Listener {
        name: Str::from(&endpoint.name),
        host: Str::from(&endpoint.host),
        port: endpoint.port,
    });
    DescribeQuorumResponse {
        error_message: Some(Str::default()),
        topics: vec![TopicData {
            topic_name: Str::from(METADATA_TOPIC),
            partitions: vec![partition],
        }],
        nodes: vec![Node {
            node_id: voter.voter_id,
            listeners: listeners.collect(),
        }],
        ..DescribeQuorumResponse::default()
    }
}
