//! Consumer groups as tools see them, and whether their members may commit.

use pelton_model::record_type::group::{
    ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue,
    GroupRecord,
};
use pelton_model::{ErrorCode, Str, TopicId};

use super::{Consumer, Member, records};
use crate::group::{
    CommitTopic, DescribedConsumerGroup, DescribedConsumerMember, NamedPartitions, OffsetCommit,
};
use crate::image::MetadataImage;

/// The type of a member that speaks the classic protocol.
const CLASSIC_MEMBER: i8 = 0;
/// The type of a member that speaks the consumer protocol.
const CONSUMER_MEMBER: i8 = 1;

impl Consumer {
    /// All there is to say about the group.
    pub(in crate::group) fn describe(
        &self,
        group_id: &Str,
        image: &MetadataImage,
        assignors: &[String],
    ) -> DescribedConsumerGroup {
        let member = |(id, member): (&Str, &Member)| DescribedConsumerMember {
            member_id: id.clone(),
            instance_id: member.wants.instance_id.clone(),
            rack_id: member.wants.rack_id.clone(),
            member_epoch: member.epoch,
            client_id: member.wants.client_id.clone(),
            client_host: member.wants.client_host.clone(),
            subscribed_topic_names: member.wants.subscribed_topic_names.clone(),
            subscribed_topic_regex: member.regex().cloned(),
            assignment: named(
                image,
                member
                    .assigned
                    .iter()
                    .map(|(id, all)| (*id, all.keys().copied().collect())),
            ),
            target_assignment: named(
                image,
                self.targets
                    .get(id)
                    .into_iter()
                    .flatten()
                    .map(|(id, all)| (*id, all.iter().copied().collect())),
            ),
            member_type: if member.is_classic() {
                CLASSIC_MEMBER
            } else {
                CONSUMER_MEMBER
            },
        };
        DescribedConsumerGroup {
            error: ErrorCode::None,
            error_message: None,
            group_id: group_id.clone(),
            state: self.state_name(),
            group_epoch: self.epoch,
            assignment_epoch: self.assignment_epoch,
            assignor: self.assignor(assignors).into(),
            members: self.members.iter().map(member).collect(),
        }
    }

    /// The records that lead to the group as it is.
    pub(in crate::group) fn to_records(&self, group_id: &Str) -> Vec<GroupRecord> {
        let mut all = vec![records::epoch(
            group_id,
            Some((self.epoch, self.metadata_hash)),
        )];
        for (id, member) in &self.members {
            all.push(records::wants(group_id, id, Some(member.wants.clone())));
            all.push(records::current(group_id, id, Some(member)));
        }
        let targets = self.targets.iter();
        all.extend(targets.map(|(id, target)| records::target(group_id, id, Some(target))));
        let key = ConsumerGroupTargetAssignmentMetadataKey {
            group_id: group_id.clone(),
        };
        let value = ConsumerGroupTargetAssignmentMetadataValue {
            assignment_epoch: self.assignment_epoch,
            assignment_timestamp: self.assignment_timestamp,
        };
        all.push(GroupRecord::ConsumerGroupTargetAssignmentMetadata(
            key,
            Some(value),
        ));
        let pattern =
            |(regular_expression, value): (&Str, &ConsumerGroupRegularExpressionValue)| {
                let key = ConsumerGroupRegularExpressionKey {
                    group_id: group_id.clone(),
                    regular_expression: regular_expression.clone(),
                };
                GroupRecord::ConsumerGroupRegularExpression(key, Some(value.clone()))
            };
        all.extend(self.regexes.iter().map(pattern));
        all
    }

    /// Whether whoever commits may.
    pub(in crate::group) fn check_commit(
        &self,
        commit: &OffsetCommit,
        image: &MetadataImage,
    ) -> Result<(), ErrorCode> {
        let said = commit.generation_id_or_member_epoch;
        if said < 0 && self.members.is_empty() {
            return Ok(());
        }
        let names_nobody = commit.member_id.is_empty() && commit.group_instance_id.is_none();
        if commit.producer.is_some() && said < 0 && names_nobody {
            // TxnOffsetCommit before version 3 does not say who commits.
            return Ok(());
        }
        let member = self
            .members
            .get(&commit.member_id)
            .ok_or(ErrorCode::UnknownMemberId)?;
        if commit.producer.is_none() && !member.is_classic() && !commit.knows_stale_epochs {
            return Err(ErrorCode::UnsupportedVersion);
        }
        if said == member.epoch {
            return Ok(());
        }
        if member.is_classic() {
            return Err(ErrorCode::IllegalGeneration);
        }
        // KIP-1251: a member that is behind may commit for what it has held since then.
        let has_held = |topic: &CommitTopic| {
            let topic_id = if topic.topic_id.is_zero() {
                image.topic_id(&topic.name)
            } else {
                Some(topic.topic_id)
            };
            topic_id.is_some_and(|topic_id| {
                topic
                    .partitions
                    .iter()
                    .all(|one| member.has_held(topic_id, one.index, said))
            })
        };
        if 0 <= said && said < member.epoch && commit.topics.iter().all(has_held) {
            Ok(())
        } else {
            Err(ErrorCode::StaleMemberEpoch)
        }
    }

    /// Whether whoever reads offsets may: a member that names itself must be in its epoch.
    pub(in crate::group) fn check_fetch(
        &self,
        member_id: Option<&Str>,
        member_epoch: i32,
    ) -> Result<(), ErrorCode> {
        if member_id.is_none() && member_epoch < 0 {
            return Ok(());
        }
        let member = member_id.and_then(|id| self.members.get(id));
        let member = member.ok_or(ErrorCode::UnknownMemberId)?;
        if member.epoch == member_epoch {
            Ok(())
        } else {
            Err(ErrorCode::StaleMemberEpoch)
        }
    }
}

impl Member {
    fn has_held(&self, topic_id: TopicId, partition: i32, since: i32) -> bool {
        let got = |held: &super::Held| held.get(&topic_id)?.get(&partition).copied();
        got(&self.assigned)
            .or_else(|| got(&self.revoking))
            .is_some_and(|epoch| epoch <= since)
    }
}

fn named(
    image: &MetadataImage,
    partitions: impl Iterator<Item = (TopicId, Vec<i32>)>,
) -> Vec<NamedPartitions> {
    let one = |(topic_id, partitions)| NamedPartitions {
        topic_id,
        topic_name: image
            .topic(topic_id)
            .map(|topic| topic.name().into())
            .unwrap_or_default(),
        partitions,
    };
    partitions.map(one).collect()
}
