//! ConsumerGroupHeartbeat: one request for joining, staying and leaving.
//!
//! 1. A request is checked whole before anything is written.
//! 2. A member that says nothing new in a group where nothing is under way costs one look-up.

use pelton_model::record_type::group::ConsumerGroupMemberMetadataValue;
use pelton_model::{ErrorCode, Str};

use super::reconcile::Goal;
use super::{
    Consumer, JOIN_EPOCH, LEAVE_EPOCH, Limit, Member, MemberState, Partitions, Refused,
    STATIC_LEAVE_EPOCH, pattern, records, topic_ids,
};
use crate::group::scene::Scene;
use crate::group::shard::Group;
use crate::group::{ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply, TopicPartitions};
use crate::image::MetadataImage;

/// What is wrong with a request whatever the group.
pub(in crate::group) fn check(
    request: &ConsumerGroupHeartbeat,
    assignors: &[String],
) -> Result<(), Refused> {
    let invalid = |words: &str| Err((ErrorCode::InvalidRequest, words.to_owned()));
    let is_empty = |text: &Option<Str>| text.as_ref().is_some_and(Str::is_empty);
    if request.group_id.is_empty() {
        return invalid("GroupId can't be empty.");
    }
    if request.member_id.is_empty()
        && (request.requires_member_id || request.member_epoch != JOIN_EPOCH)
    {
        return invalid("MemberId can't be empty.");
    }
    if is_empty(&request.instance_id) {
        return invalid("InstanceId can't be empty.");
    }
    if is_empty(&request.rack_id) {
        return invalid("RackId can't be empty.");
    }
    if request.member_epoch == STATIC_LEAVE_EPOCH && request.instance_id.is_none() {
        return invalid("InstanceId can't be null.");
    }
    if request.member_epoch < STATIC_LEAVE_EPOCH {
        return invalid("MemberEpoch is invalid.");
    }
    if request.member_epoch == JOIN_EPOCH {
        if request.rebalance_timeout_ms == -1 {
            return invalid("RebalanceTimeoutMs must be provided in first request.");
        }
        if request.owned.as_ref().is_none_or(|owned| !owned.is_empty()) {
            return invalid("TopicPartitions must be empty when (re-)joining.");
        }
        if request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() {
            return invalid(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
            );
        }
    }
    match &request.server_assignor {
        Some(name) if !assignors.iter().any(|one| one == name.as_str()) => {
            let words = format!(
                "ServerAssignor {name} is not supported. Supported assignors: {}.",
                assignors.join(", ")
            );
            Err((ErrorCode::UnsupportedAssignor, words))
        }
        Some(_) | None => Ok(()),
    }
}

impl Group {
    /// A member leaves, for good or for a while.
    pub(in crate::group) fn consumer_leave(
        &mut self,
        scene: &mut Scene<'_>,
        request: &ConsumerGroupHeartbeat,
    ) -> Result<ConsumerGroupHeartbeatReply, Refused> {
        let group_id = &self.classic.group_id;
        let consumer = self
            .hard
            .consumer
            .as_ref()
            .ok_or_else(|| not_found(group_id))?;
        match &request.instance_id {
            Some(instance_id) => {
                consumer.named_member(instance_id, &request.member_id)?;
            }
            None => {
                consumer.member(group_id, &request.member_id)?;
            }
        }
        if request.member_epoch == STATIC_LEAVE_EPOCH {
            self.rest_member(scene, &request.member_id);
        } else {
            self.remove_consumer_members(scene, std::slice::from_ref(&request.member_id));
        }
        Ok(ConsumerGroupHeartbeatReply {
            error: ErrorCode::None,
            error_message: None,
            member_id: Some(request.member_id.clone()),
            member_epoch: request.member_epoch,
            heartbeat_interval_ms: 0,
            assignment: None,
        })
    }

    /// A member joins or stays.
    pub(in crate::group) fn consumer_heartbeat(
        &mut self,
        scene: &mut Scene<'_>,
        request: ConsumerGroupHeartbeat,
    ) -> Result<ConsumerGroupHeartbeatReply, Refused> {
        let image = scene.image;
        let interval_ms = scene.times(&request.group_id).heartbeat_interval_ms;
        let member_id = request.member_id.clone();
        if self.has_nothing_new(&request, image) {
            self.extend_consumer_session(scene, &member_id);
            return Ok(reply(&member_id, request.member_epoch, interval_ms, None));
        }
        self.check_heartbeat(scene, &request)?;
        if request.member_epoch == JOIN_EPOCH {
            self.become_consumer(scene)?;
        }
        let before = self.seat_member(scene, &request);
        let wants = updated(before.as_ref().map(|member| &member.wants), &request);
        let has_changed_topics = self.take_wants(scene, &member_id, before.as_ref(), wants);
        let is_first = before.is_none();
        let member = self.follow(
            scene,
            &member_id,
            before,
            has_changed_topics,
            request.owned.as_deref(),
        );
        self.extend_consumer_session(scene, &member_id);
        let is_full = request.rebalance_timeout_ms != -1
            && request.owned.is_some()
            && (request.subscribed_topic_names.is_some()
                || request.subscribed_topic_regex.is_some());
        let (member, has_moved) = member;
        let tells = is_first || request.member_epoch == JOIN_EPOCH || is_full || has_moved;
        let assignment = tells.then(|| told(&member));
        Ok(reply(&member_id, member.epoch, interval_ms, assignment))
    }

    /// Whether the request changes nothing, and nothing is under way.
    fn has_nothing_new(&self, request: &ConsumerGroupHeartbeat, image: &MetadataImage) -> bool {
        let Some(consumer) = &self.hard.consumer else {
            return false;
        };
        let Some(member) = consumer.members.get(&request.member_id) else {
            return false;
        };
        request.member_epoch == member.epoch
            && request.member_epoch != JOIN_EPOCH
            && self.soft.image_seen == Some(image.applied())
            && consumer.epoch == consumer.assignment_epoch
            && consumer.regexes.is_empty()
            && member.is_reconciled_to(consumer.assignment_epoch)
            && !member.is_classic()
            && request.instance_id == member.wants.instance_id
            && request.rack_id.is_none()
            && request.rebalance_timeout_ms == -1
            && request.subscribed_topic_names.is_none()
            && request.subscribed_topic_regex.is_none()
            && request.server_assignor.is_none()
            && request.owned.is_none()
            && request.client.id == member.wants.client_id
            && request.client.host == member.wants.client_host
    }

    fn check_heartbeat(
        &self,
        scene: &Scene<'_>,
        request: &ConsumerGroupHeartbeat,
    ) -> Result<(), Refused> {
        let is_joining = request.member_epoch == JOIN_EPOCH;
        let none = Consumer::default();
        let consumer = match &self.hard.consumer {
            Some(consumer) => consumer.as_ref(),
            None if is_joining => &none,
            None => return Err(not_found(&request.group_id)),
        };
        consumer.check_room(scene, &request.member_id)?;
        if let Some(regex) = &request.subscribed_topic_regex
            && !regex.is_empty()
        {
            pattern::compile(regex)?;
        }
        let owned = request.owned.as_deref();
        match (&request.instance_id, is_joining) {
            (None, true) => match consumer.members.get(&request.member_id) {
                Some(member) => member.check_epoch(request.member_epoch, owned),
                None => Ok(()),
            },
            (None, false) => {
                let member = consumer.member(&request.group_id, &request.member_id)?;
                member.check_epoch(request.member_epoch, owned)
            }
            (Some(instance_id), true) => {
                let Some((present, member)) = consumer.static_member(instance_id) else {
                    return Ok(());
                };
                let is_free = present == &request.member_id
                    || member.epoch == STATIC_LEAVE_EPOCH
                    || member.is_classic();
                if is_free {
                    return Ok(());
                }
                let words = format!(
                    "Static member {} with instance id {instance_id} cannot join the group because the instance id is \
                     owned by {present} member.",
                    request.member_id
                );
                Err((ErrorCode::UnreleasedInstanceId, words))
            }
            (Some(instance_id), false) => {
                let (_, member) = consumer.named_member(instance_id, &request.member_id)?;
                member.check_epoch(request.member_epoch, owned)
            }
        }
    }

    /// The member as it was before this request, in place of the static member that it replaces; `None` for a new one.
    fn seat_member(
        &mut self,
        scene: &mut Scene<'_>,
        request: &ConsumerGroupHeartbeat,
    ) -> Option<Member> {
        let member_id = &request.member_id;
        if request.member_epoch == JOIN_EPOCH
            && let Some(instance_id) = &request.instance_id
        {
            let consumer = self.hard.consumer.as_ref();
            let present = consumer.and_then(|consumer| consumer.static_member(instance_id));
            if let Some(before) = present.map(|(id, _)| id.clone()) {
                self.replace_member(scene, &before, member_id);
            }
        }
        let consumer = self.hard.consumer.as_ref()?;
        consumer.members.get(member_id).cloned()
    }

    /// Writes what the member wants where that changed, and begins an epoch for it; whether its topics changed.
    pub(super) fn take_wants(
        &mut self,
        scene: &mut Scene<'_>,
        member_id: &Str,
        before: Option<&Member>,
        wants: ConsumerGroupMemberMetadataValue,
    ) -> bool {
        let image = scene.image;
        let group_id = self.classic.group_id.clone();
        let none = ConsumerGroupMemberMetadataValue::default();
        let old = before.map_or(&none, |member| &member.wants);
        let sorted = |value: &ConsumerGroupMemberMetadataValue| {
            let mut names = value.subscribed_topic_names.clone();
            names.sort_unstable();
            names
        };
        let has_other_names = sorted(old) != sorted(&wants);
        let regex = |value: &ConsumerGroupMemberMetadataValue| {
            value
                .subscribed_topic_regex
                .clone()
                .filter(|regex| !regex.is_empty())
        };
        let has_other_regex = regex(old) != regex(&wants);
        if before.map(|member| &member.wants) != Some(&wants) {
            self.put(scene, records::wants(&group_id, member_id, Some(wants)));
        }
        let has_other_matches = self.refresh_patterns(scene, image);
        let is_asked = has_other_names || has_other_regex || has_other_matches;
        if is_asked || self.soft.image_seen != Some(image.applied()) {
            self.refresh_epoch(scene, image, is_asked);
        }
        has_other_names || has_other_regex
    }

    /// Brings the member a step closer to its target; whether what it may hold changed thereby.
    pub(super) fn follow(
        &mut self,
        scene: &mut Scene<'_>,
        member_id: &Str,
        before: Option<Member>,
        has_changed_topics: bool,
        owned: Option<&[TopicPartitions]>,
    ) -> (Member, bool) {
        let image = scene.image;
        self.assign_if_due(scene, image);
        let group_id = self.classic.group_id.clone();
        let Some(consumer) = &self.hard.consumer else {
            return (Member::default(), false);
        };
        let member = consumer.members.get(member_id).cloned().unwrap_or_default();
        let none = Partitions::new();
        let topics = topic_ids(image, consumer.names_of(&member.wants));
        let goal = Goal {
            epoch: consumer.assignment_epoch,
            target: consumer.targets.get(member_id).unwrap_or(&none),
            topics: &topics,
            has_changed_topics,
            owned,
        };
        if !has_changed_topics && member.is_reconciled_to(goal.epoch) {
            let has_moved = before.is_none_or(|before| before.assigned != member.assigned);
            return (member, has_moved);
        }
        let next = goal.step(consumer, member_id, &member);
        if next != member {
            self.put(scene, records::current(&group_id, member_id, Some(&next)));
            if !next.is_classic() {
                if next.state == MemberState::Unrevoked {
                    let timeout_ms = next.wants.rebalance_timeout_ms;
                    self.limit(scene, member_id, Limit::Revoke(next.epoch), timeout_ms);
                } else {
                    self.unlimit(scene, member_id);
                }
            }
        }
        let held = |member: &Member| -> Vec<_> {
            let one = |(id, all): (&_, &std::collections::BTreeMap<i32, i32>)| {
                (*id, all.keys().copied().collect::<Vec<i32>>())
            };
            member.assigned.iter().map(one).collect()
        };
        let has_moved = before.is_none_or(|before| held(&before) != held(&next));
        (next, has_moved)
    }

    /// A session may have ended.
    pub(in crate::group) fn on_consumer_session_due(
        &mut self,
        scene: &mut Scene<'_>,
        at: pelton_model::Monotonic,
        member_id: &Str,
    ) {
        let now = scene.now.clock;
        let group_id = &self.classic.group_id;
        let Some(soft) = self.soft.members.get_mut(member_id) else {
            return;
        };
        let due = || super::session_due(group_id, member_id);
        if soft.session.is_over(scene.timers, at, now, due) {
            self.remove_consumer_members(scene, std::slice::from_ref(member_id));
        }
    }

    /// A member may have taken too long.
    pub(in crate::group) fn on_consumer_limit_due(
        &mut self,
        scene: &mut Scene<'_>,
        at: pelton_model::Monotonic,
        member_id: &Str,
    ) {
        let now = scene.now.clock;
        let group_id = &self.classic.group_id;
        let Some(soft) = self.soft.members.get_mut(member_id) else {
            return;
        };
        let due = || super::limit_due(group_id, member_id);
        if !soft.limit.is_over(scene.timers, at, now, due) {
            return;
        }
        let consumer = self.hard.consumer.as_ref();
        let member = consumer.and_then(|consumer| consumer.members.get(member_id));
        let is_late = match soft.limited.take() {
            Some(Limit::Revoke(epoch)) => member.is_some_and(|member| {
                member.epoch == epoch && member.state == MemberState::Unrevoked
            }),
            Some(Limit::Rejoin | Limit::Sync) => true,
            None => false,
        };
        if is_late {
            self.remove_consumer_members(scene, std::slice::from_ref(member_id));
        }
    }
}

fn not_found(group_id: &Str) -> Refused {
    (
        ErrorCode::GroupIdNotFound,
        format!("Group {group_id} not found."),
    )
}

/// What a member wants after this request.
fn updated(
    before: Option<&ConsumerGroupMemberMetadataValue>,
    request: &ConsumerGroupHeartbeat,
) -> ConsumerGroupMemberMetadataValue {
    let mut wants = before.cloned().unwrap_or_default();
    if request.instance_id.is_some() {
        wants.instance_id.clone_from(&request.instance_id);
    }
    if request.rack_id.is_some() {
        wants.rack_id.clone_from(&request.rack_id);
    }
    if request.rebalance_timeout_ms != -1 {
        wants.rebalance_timeout_ms = request.rebalance_timeout_ms;
    }
    if request.server_assignor.is_some() {
        wants.server_assignor.clone_from(&request.server_assignor);
    }
    if let Some(names) = &request.subscribed_topic_names {
        wants.subscribed_topic_names.clone_from(names);
        wants.subscribed_topic_names.sort_unstable();
        wants.subscribed_topic_names.dedup();
    }
    if request.subscribed_topic_regex.is_some() {
        wants
            .subscribed_topic_regex
            .clone_from(&request.subscribed_topic_regex);
    }
    wants.client_id = request.client.id.clone();
    wants.client_host = request.client.host.clone();
    wants.classic_member_metadata = None;
    wants
}

/// What a member is told to hold.
fn told(member: &Member) -> Vec<TopicPartitions> {
    let topic =
        |(topic_id, partitions): (&_, &std::collections::BTreeMap<i32, i32>)| TopicPartitions {
            topic_id: *topic_id,
            partitions: partitions.keys().copied().collect(),
        };
    member.assigned.iter().map(topic).collect()
}

fn reply(
    member_id: &Str,
    member_epoch: i32,
    heartbeat_interval_ms: i32,
    assignment: Option<Vec<TopicPartitions>>,
) -> ConsumerGroupHeartbeatReply {
    debug_assert!(member_epoch != LEAVE_EPOCH);
    ConsumerGroupHeartbeatReply {
        error: ErrorCode::None,
        error_message: None,
        member_id: Some(member_id.clone()),
        member_epoch,
        heartbeat_interval_ms,
        assignment,
    }
}
