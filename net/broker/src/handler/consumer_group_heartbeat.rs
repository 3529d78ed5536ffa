//! ConsumerGroupHeartbeat: all that a member of a consumer group and its coordinator tell each other (KIP-848).

use pelton_machine::group::{self, Command, ConsumerGroupHeartbeatReply, Reply};
use pelton_protocol::message::consumer_group_heartbeat::{
    Assignment, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions,
};

use super::{Handled, group_client};
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;

/// From this version on a member brings its own id.
const MEMBER_ID_VERSION: i16 = 1;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: ConsumerGroupHeartbeatRequest = request.body()?;
    let group = asked.group_id.clone();
    let command = Command::ConsumerGroupHeartbeat(wanted(client, request, asked));
    let Reply::ConsumerGroupHeartbeat(reply) = client.ask_group(&group, command).await else {
        unreachable!("replies are of their commands' kinds");
    };
    Ok(request.respond(&told(reply)))
}

fn wanted<E: Env>(
    client: &Client<E>,
    request: &Request,
    asked: ConsumerGroupHeartbeatRequest,
) -> group::ConsumerGroupHeartbeat {
    let owned = asked.topic_partitions.map(|topics| {
        let topics = topics.into_iter();
        let topics = topics.map(|topic| group::TopicPartitions {
            topic_id: topic.topic_id,
            partitions: topic.partitions,
        });
        topics.collect()
    });
    group::ConsumerGroupHeartbeat {
        group_id: asked.group_id,
        member_id: asked.member_id,
        member_epoch: asked.member_epoch,
        instance_id: asked.instance_id,
        rack_id: asked.rack_id,
        rebalance_timeout_ms: asked.rebalance_timeout_ms,
        subscribed_topic_names: asked.subscribed_topic_names,
        subscribed_topic_regex: asked.subscribed_topic_regex,
        server_assignor: asked.server_assignor,
        owned,
        client: group_client(client, request),
        requires_member_id: MEMBER_ID_VERSION <= request.version,
        random: client.random_bits(),
    }
}

fn told(reply: ConsumerGroupHeartbeatReply) -> ConsumerGroupHeartbeatResponse {
    let assignment = reply.assignment.map(|topics| {
        let topics = topics.into_iter();
        let topics = topics.map(|topic| TopicPartitions {
            topic_id: topic.topic_id,
            partitions: topic.partitions,
        });
        Assignment {
            topic_partitions: topics.collect(),
        }
    });
    ConsumerGroupHeartbeatResponse {
        error_code: reply.error.code(),
        error_message: reply.error_message,
        member_id: reply.member_id,
        member_epoch: reply.member_epoch,
        heartbeat_interval_ms: reply.heartbeat_interval_ms,
        assignment,
        ..ConsumerGroupHeartbeatResponse::default()
    }
}
