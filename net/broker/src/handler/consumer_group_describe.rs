//! ConsumerGroupDescribe: consumer groups with their members, each from its own coordinator (KIP-848).

use pelton_machine::group::{self, Command, NamedPartitions, Reply};
use pelton_model::ErrorCode;
use pelton_protocol::codec::Str;
use pelton_protocol::message::consumer_group_describe::{
    Assignment, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribedGroup,
    Member, TopicPartitions,
};

use super::Handled;
use crate::authorized;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: ConsumerGroupDescribeRequest = request.body()?;
    let describe =
        |group_ids| Command::ConsumerGroupDescribe(group::ConsumerGroupDescribe { group_ids });
    // Without a name there is no coordinator to ask.
    let (named, nameless): (Vec<Str>, Vec<Str>) = asked
        .group_ids
        .into_iter()
        .partition(|group_id| !group_id.is_empty());
    let refused = |group_id| DescribedGroup {
        error_code: ErrorCode::InvalidGroupId.code(),
        group_id,
        ..DescribedGroup::default()
    };
    let mut groups: Vec<DescribedGroup> = nameless.into_iter().map(refused).collect();
    for reply in client.ask_each_group(named, describe).await {
        let Reply::ConsumerGroupDescribe(described) = reply else {
            unreachable!("replies are of their commands' kinds");
        };
        groups.extend(described.into_iter().map(told));
    }
    if asked.include_authorized_operations {
        for group in groups.iter_mut().filter(|group| group.error_code == 0) {
            group.authorized_operations = authorized::GROUP_OPERATIONS;
        }
    }
    Ok(request.respond(&ConsumerGroupDescribeResponse {
        groups,
        ..ConsumerGroupDescribeResponse::default()
    }))
}

fn told(group: group::DescribedConsumerGroup) -> DescribedGroup {
    let members = group.members.into_iter();
    let members = members.map(|member| Member {
        member_id: member.member_id,
        instance_id: member.instance_id,
        rack_id: member.rack_id,
        member_epoch: member.member_epoch,
        client_id: member.client_id,
        client_host: member.client_host,
        subscribed_topic_names: member.subscribed_topic_names,
        // Kafka's word for no pattern is the empty one.
        subscribed_topic_regex: Some(member.subscribed_topic_regex.unwrap_or_default()),
        assignment: assignment(member.assignment),
        target_assignment: assignment(member.target_assignment),
        member_type: member.member_type,
    });
    DescribedGroup {
        error_code: group.error.code(),
        error_message: group.error_message,
        group_id: group.group_id,
        group_state: Str::new_static(group.state),
        group_epoch: group.group_epoch,
        assignment_epoch: group.assignment_epoch,
        assignor_name: group.assignor,
        members: members.collect(),
        ..DescribedGroup::default()
    }
}

fn assignment(topics: Vec<NamedPartitions>) -> Assignment {
    let topics = topics.into_iter();
    let topics = topics.map(|topic| TopicPartitions {
        topic_id: topic.topic_id,
        topic_name: topic.topic_name,
        partitions: topic.partitions,
    });
    Assignment {
        topic_partitions: topics.collect(),
    }
}
