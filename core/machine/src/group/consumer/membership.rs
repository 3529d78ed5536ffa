//! Who is a member: joining, coming back, being replaced, and being out.

use pelton_model::limits::GROUP_MEMBERS_MAX;
use pelton_model::{ErrorCode, Str};

use super::{Consumer, JOIN_EPOCH, Member, Refused, STATIC_LEAVE_EPOCH, records};
use crate::group::TopicPartitions;
use crate::group::scene::Scene;
use crate::group::shard::Group;

impl Consumer {
    /// Refuses one more member than the group may have.
    pub(super) fn check_room(&self, scene: &Scene<'_>, member_id: &Str) -> Result<(), Refused> {
        let size_max = scene.config.consumer.max_size.min(GROUP_MEMBERS_MAX);
        if self.members.len() < size_max || self.members.contains_key(member_id) {
            return Ok(());
        }
        let words =
            format!("The consumer group has reached its maximum capacity of {size_max} members.");
        Err((ErrorCode::GroupMaxSizeReached, words))
    }

    /// The member of that id.
    pub(super) fn member(&self, group_id: &Str, member_id: &Str) -> Result<&Member, Refused> {
        self.members.get(member_id).ok_or_else(|| {
            let words = format!("Member {member_id} is not a member of group {group_id}.");
            (ErrorCode::UnknownMemberId, words)
        })
    }

    /// The static member of that name, if the request comes under its present id.
    pub(super) fn named_member(
        &self,
        instance_id: &Str,
        member_id: &Str,
    ) -> Result<(&Str, &Member), Refused> {
        let Some((present, member)) = self.static_member(instance_id) else {
            let words = format!("Instance id {instance_id} is unknown.");
            return Err((ErrorCode::UnknownMemberId, words));
        };
        if present != member_id {
            let words = format!(
                "Static member {member_id} with instance id {instance_id} was fenced by member {present}."
            );
            return Err((ErrorCode::FencedInstanceId, words));
        }
        Ok((present, member))
    }
}

impl Member {
    /// Refuses an epoch that the member cannot be in. It may be one behind, when the last answer was lost.
    pub(super) fn check_epoch(
        &self,
        said: i32,
        owned: Option<&[TopicPartitions]>,
    ) -> Result<(), Refused> {
        if said == JOIN_EPOCH || said == self.epoch {
            return Ok(());
        }
        let holds = |topic: &TopicPartitions| {
            let mine = self.assigned.get(&topic.topic_id);
            topic
                .partitions
                .iter()
                .all(|one| mine.is_some_and(|mine| mine.contains_key(one)))
        };
        let is_behind = said < self.epoch;
        if is_behind
            && said == self.previous_epoch
            && owned.is_some_and(|owned| owned.iter().all(holds))
        {
            return Ok(());
        }
        let how = if is_behind { "smaller" } else { "greater" };
        let words = format!(
            "The consumer group member has a {how} member epoch ({said}) than the one known by the group coordinator \
             ({}). The member must abandon all its partitions and rejoin.",
            self.epoch
        );
        Err((ErrorCode::FencedMemberEpoch, words))
    }
}

impl Group {
    /// Gives a static member's place to `after`, which begins at epoch 0.
    pub(super) fn replace_member(&mut self, scene: &mut Scene<'_>, before: &Str, after: &Str) {
        let Some(consumer) = &self.hard.consumer else {
            return;
        };
        let Some(member) = consumer.members.get(before).cloned() else {
            return;
        };
        let target = consumer.targets.get(before).cloned().unwrap_or_default();
        let group_id = self.classic.group_id.clone();
        let replaced = Member {
            epoch: JOIN_EPOCH,
            previous_epoch: JOIN_EPOCH,
            ..member
        };
        self.erase_member(scene, before);
        self.put(
            scene,
            records::wants(&group_id, after, Some(replaced.wants.clone())),
        );
        self.put(scene, records::target(&group_id, after, Some(&target)));
        self.put(scene, records::current(&group_id, after, Some(&replaced)));
    }

    /// Takes members out and begins a new epoch.
    pub(super) fn fence_members(&mut self, scene: &mut Scene<'_>, member_ids: &[Str]) {
        for member_id in member_ids {
            self.erase_member(scene, member_id);
        }
        let image = scene.image;
        self.refresh_patterns(scene, image);
        self.refresh_epoch(scene, image, true);
    }

    /// Writes that a member is no more, in Kafka's order.
    fn erase_member(&mut self, scene: &mut Scene<'_>, member_id: &Str) {
        let group_id = self.classic.group_id.clone();
        self.put(scene, records::current(&group_id, member_id, None));
        self.put(scene, records::target(&group_id, member_id, None));
        self.put(scene, records::wants(&group_id, member_id, None));
        self.forget_soft(scene, member_id);
    }

    /// A static member is away for a while: it keeps its place and what it holds until its session ends.
    pub(super) fn rest_member(&mut self, scene: &mut Scene<'_>, member_id: &Str) {
        let consumer = self.hard.consumer.as_ref();
        let Some(member) = consumer.and_then(|consumer| consumer.members.get(member_id)) else {
            return;
        };
        let resting = Member {
            epoch: STATIC_LEAVE_EPOCH,
            revoking: super::Held::new(),
            ..member.clone()
        };
        let group_id = self.classic.group_id.clone();
        self.put(
            scene,
            records::current(&group_id, member_id, Some(&resting)),
        );
        self.unlimit(scene, member_id);
    }
}
