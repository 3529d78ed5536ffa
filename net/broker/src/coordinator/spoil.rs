//! Replies of groups whose records could not be written: the same shape, with an error in place of the outcome.

use pelton_machine::group::{
    ConsumerGroupHeartbeatReply, DescribedConsumerGroup, DescribedGroup, JoinGroupReply,
    LeaveGroupReply, OffsetDeleteReply, OffsetFetchReply, Reply, SyncGroupReply, TopicCodes,
};
use pelton_model::ErrorCode;

/// The refusal that stands for `reply`.
pub(super) fn spoil(reply: Reply, error: ErrorCode) -> Reply {
    match reply {
        Reply::JoinGroup(join) => Reply::JoinGroup(JoinGroupReply::refused(error, join.member_id)),
        Reply::SyncGroup(_) => Reply::SyncGroup(SyncGroupReply::refused(error)),
        Reply::Heartbeat(_) => Reply::Heartbeat(error),
        Reply::LeaveGroup(_) => Reply::LeaveGroup(LeaveGroupReply {
            error,
            members: Vec::new(),
        }),
        Reply::OffsetCommit(topics) => Reply::OffsetCommit(spoiled_codes(topics, error)),
        Reply::OffsetFetch(_) => Reply::OffsetFetch(OffsetFetchReply {
            error,
            topics: Vec::new(),
        }),
        Reply::OffsetDelete(_) => Reply::OffsetDelete(OffsetDeleteReply {
            error,
            topics: Vec::new(),
        }),
        Reply::ListGroups(_) => Reply::ListGroups(Err(error)),
        Reply::DescribeGroups(groups) => {
            let spoiled = groups.into_iter();
            let spoiled = spoiled
                .map(|group| DescribedGroup::refused(error, None, group.group_id))
                .collect();
            Reply::DescribeGroups(spoiled)
        }
        Reply::DeleteGroups(groups) => {
            let spoiled = groups.into_iter().map(|(group, _)| (group, error));
            Reply::DeleteGroups(spoiled.collect())
        }
        Reply::ConsumerGroupHeartbeat(_) => {
            Reply::ConsumerGroupHeartbeat(ConsumerGroupHeartbeatReply::refused(error, None))
        }
        Reply::ConsumerGroupDescribe(groups) => {
            let spoiled = groups.into_iter();
            let spoiled = spoiled
                .map(|group| DescribedConsumerGroup::refused(error, None, group.group_id))
                .collect();
            Reply::ConsumerGroupDescribe(spoiled)
        }
    }
}

fn spoiled_codes(mut topics: Vec<TopicCodes>, error: ErrorCode) -> Vec<TopicCodes> {
    for topic in &mut topics {
        for (_, code) in &mut topic.partitions {
            *code = error;
        }
    }
    topics
}
