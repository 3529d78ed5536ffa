//! Members of the classic protocol in a consumer group: its requests as steps of the reconciliation.
//!
//! 1. A generation is the member's epoch; nobody leads, and the assignment is the coordinator's.
//! 2. A member hears REBALANCE_IN_PROGRESS when it should rejoin: the group is ahead, it has to give partitions back, or
//!    what it waits for is free. From then on it has its rebalance timeout to do so.

use pelton_model::record_type::group::{
    ClassicMemberMetadata, ClassicProtocol, ConsumerGroupMemberMetadataValue,
};
use pelton_model::{ErrorCode, Str, TopicId};

use super::wire::{self, Named};
use super::{Consumer, Held, Limit, Member, MemberState};
use crate::group::classic::CONSUMER;
use crate::group::scene::Scene;
use crate::group::shard::Group;
use crate::group::{
    Heartbeat, JoinGroup, JoinGroupReply, LeavingMember, LeftMember, SyncGroup, SyncGroupReply,
    Token, TopicPartitions,
};
use crate::image::MetadataImage;

impl Consumer {
    /// Whether a member with these protocols gets along with the classic members there are.
    fn supports(&self, join: &JoinGroup) -> bool {
        let knows = |member: &Member, name: &Str| {
            let classic = member.wants.classic_member_metadata.as_ref();
            classic.is_none_or(|classic| {
                classic
                    .supported_protocols
                    .iter()
                    .any(|protocol| protocol.name == *name)
            })
        };
        let all_know = |name: &Str| self.members.values().all(|member| knows(member, name));
        join.protocol_type == CONSUMER && join.protocols.iter().any(|one| all_know(&one.name))
    }

    /// The member that a classic request names.
    fn classic_member(
        &self,
        member_id: &Str,
        instance_id: Option<&Str>,
    ) -> Result<&Member, ErrorCode> {
        let member = match instance_id {
            None => self
                .members
                .get(member_id)
                .ok_or(ErrorCode::UnknownMemberId)?,
            Some(instance_id) => {
                self.named_member(instance_id, member_id)
                    .map_err(|(error, _)| error)?
                    .1
            }
        };
        if member.is_classic() {
            Ok(member)
        } else {
            Err(ErrorCode::UnknownMemberId)
        }
    }

    /// Whether something the member should hold is still another's.
    fn waits_for_others(&self, member_id: &Str) -> bool {
        let target = self.targets.get(member_id).into_iter().flatten();
        let mut partitions = target.flat_map(|(id, all)| all.iter().map(move |one| (*id, *one)));
        partitions.any(|(id, one)| self.owner(id, one).is_some_and(|owner| owner != member_id))
    }
}

/// The protocol by which a classic member is spoken to: its first.
fn protocol_of(member: &Member) -> Option<&ClassicProtocol> {
    member
        .wants
        .classic_member_metadata
        .as_ref()?
        .supported_protocols
        .first()
}

/// Partitions by name, as far as their topics exist.
pub(super) fn by_id(image: &MetadataImage, named: &Named) -> Vec<TopicPartitions> {
    let topic = |(name, partitions): &(Str, Vec<i32>)| {
        let topic_id = image.topic_id(name)?;
        let partitions = partitions.clone();
        Some(TopicPartitions {
            topic_id,
            partitions,
        })
    };
    named.iter().filter_map(topic).collect()
}

/// Partitions by id, as far as their topics exist.
pub(super) fn by_name<'a>(
    image: &MetadataImage,
    partitions: impl Iterator<Item = (TopicId, Vec<i32>)> + 'a,
) -> Named {
    let name = |topic_id| image.topic(topic_id).map(|topic| Str::from(topic.name()));
    partitions
        .filter_map(|(topic_id, all)| name(topic_id).map(|name| (name, all)))
        .collect()
}

fn assigned(held: &Held) -> impl Iterator<Item = (TopicId, Vec<i32>)> {
    held.iter()
        .map(|(topic_id, all)| (*topic_id, all.keys().copied().collect()))
}

/// What a classic member wants, by its JoinGroup.
fn joined_wants(
    before: Option<&Member>,
    join: &JoinGroup,
    subscription: &wire::Subscription,
) -> ConsumerGroupMemberMetadataValue {
    let mut wants = before
        .map(|member| member.wants.clone())
        .unwrap_or_default();
    if join.group_instance_id.is_some() {
        wants.instance_id.clone_from(&join.group_instance_id);
    }
    wants.client_id = join.client.id.clone();
    wants.client_host = join.client.host.clone();
    wants.rebalance_timeout_ms = join.rebalance_timeout_ms;
    wants.rack_id = subscription.rack.clone().or(wants.rack_id);
    wants
        .subscribed_topic_names
        .clone_from(&subscription.topics);
    wants.subscribed_topic_names.sort_unstable();
    wants.subscribed_topic_names.dedup();
    wants.subscribed_topic_regex = Some(Str::default());
    let protocol = |one: &crate::group::Protocol| ClassicProtocol {
        name: one.name.clone(),
        metadata: one.metadata.clone(),
    };
    wants.classic_member_metadata = Some(ClassicMemberMetadata {
        session_timeout_ms: join.session_timeout_ms,
        supported_protocols: join.protocols.iter().map(protocol).collect(),
    });
    wants
}

impl Group {
    /// JoinGroup of a classic member.
    pub(in crate::group) fn consumer_join(
        &mut self,
        scene: &mut Scene<'_>,
        token: Token,
        join: &JoinGroup,
    ) {
        if let Err(error) = self.try_consumer_join(scene, token, join) {
            // In such a group Kafka refuses without naming the member.
            scene.refuse_join(token, error, Str::default());
        }
    }

    fn try_consumer_join(
        &mut self,
        scene: &mut Scene<'_>,
        token: Token,
        join: &JoinGroup,
    ) -> Result<(), ErrorCode> {
        let image = scene.image;
        let consumer = self
            .hard
            .consumer
            .as_ref()
            .ok_or(ErrorCode::UnknownMemberId)?;
        let is_unknown = join.member_id.is_empty();
        let member_id = if is_unknown {
            Str::from(TopicId(join.random.to_be_bytes()).to_string())
        } else {
            join.member_id.clone()
        };
        consumer
            .check_room(scene, &member_id)
            .map_err(|(error, _)| error)?;
        if !consumer.supports(join) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        let subscription = join
            .protocols
            .first()
            .and_then(|one| wire::subscription(&one.metadata));
        let subscription = subscription.ok_or(ErrorCode::InconsistentGroupProtocol)?;
        if is_unknown && join.requires_member_id && join.group_instance_id.is_none() {
            scene.refuse_join(token, ErrorCode::MemberIdRequired, member_id);
            return Ok(());
        }
        self.take_place(scene, join, &member_id)?;
        let consumer = self
            .hard
            .consumer
            .as_ref()
            .ok_or(ErrorCode::UnknownMemberId)?;
        let before = consumer.members.get(&member_id).cloned();
        let wants = joined_wants(before.as_ref(), join, &subscription);
        let has_changed = self.take_wants(scene, &member_id, before.as_ref(), wants);
        let owned = by_id(image, &subscription.owned);
        let (member, _) = self.follow(scene, &member_id, before, has_changed, Some(&owned));
        self.extend_consumer_session(scene, &member_id);
        self.limit(scene, &member_id, Limit::Sync, join.rebalance_timeout_ms);
        let reply = JoinGroupReply {
            error: ErrorCode::None,
            generation_id: member.epoch,
            protocol_type: Some(Str::new_static(CONSUMER)),
            protocol_name: protocol_of(&member).map(|protocol| protocol.name.clone()),
            leader: Str::default(),
            skip_assignment: false,
            member_id: member_id.clone(),
            members: Vec::new(),
        };
        scene.reply_join(token, reply);
        self.downgrade_if_classic(scene, &[]);
        Ok(())
    }

    /// Gives a static member that comes without its id the place that it had.
    fn take_place(
        &mut self,
        scene: &mut Scene<'_>,
        join: &JoinGroup,
        member_id: &Str,
    ) -> Result<(), ErrorCode> {
        let Some(instance_id) = &join.group_instance_id else {
            return Ok(());
        };
        let consumer = self.hard.consumer.as_ref();
        let present = consumer.and_then(|consumer| consumer.static_member(instance_id));
        match present.map(|(id, _)| id.clone()) {
            Some(before) if join.member_id.is_empty() => {
                self.replace_member(scene, &before, member_id);
            }
            Some(before) if before == *member_id => {}
            Some(_) => return Err(ErrorCode::FencedInstanceId),
            None if join.member_id.is_empty() => {}
            None => return Err(ErrorCode::UnknownMemberId),
        }
        Ok(())
    }

    /// SyncGroup of a classic member.
    pub(in crate::group) fn consumer_sync(
        &mut self,
        scene: &mut Scene<'_>,
        sync: &SyncGroup,
    ) -> Result<SyncGroupReply, ErrorCode> {
        let image = scene.image;
        let member_id = &sync.member_id;
        let consumer = self
            .hard
            .consumer
            .as_ref()
            .ok_or(ErrorCode::UnknownMemberId)?;
        let member = consumer.classic_member(member_id, sync.group_instance_id.as_ref())?;
        if member.epoch != sync.generation_id {
            return Err(ErrorCode::IllegalGeneration);
        }
        let protocol = protocol_of(member).ok_or(ErrorCode::UnknownMemberId)?;
        let is_other_type = sync
            .protocol_type
            .as_ref()
            .is_some_and(|said| said != CONSUMER);
        let is_other_name = sync
            .protocol_name
            .as_ref()
            .is_some_and(|said| *said != protocol.name);
        if is_other_type || is_other_name {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        if member.epoch < consumer.epoch && member.state != MemberState::Unrevoked {
            let timeout_ms = member.wants.rebalance_timeout_ms;
            self.limit_rejoin(scene, member_id, timeout_ms);
            return Err(ErrorCode::RebalanceInProgress);
        }
        let version = wire::subscription(&protocol.metadata).map_or(0, |one| one.version);
        let named = by_name(image, assigned(&member.assigned));
        self.unlimit(scene, member_id);
        self.extend_consumer_session(scene, member_id);
        Ok(SyncGroupReply {
            error: ErrorCode::None,
            protocol_type: sync.protocol_type.clone(),
            protocol_name: sync.protocol_name.clone(),
            assignment: wire::write_assignment(version, &named),
        })
    }

    /// Heartbeat of a classic member.
    pub(in crate::group) fn consumer_member_heartbeat(
        &mut self,
        scene: &mut Scene<'_>,
        heartbeat: &Heartbeat,
    ) -> Result<(), ErrorCode> {
        let image = scene.image;
        let member_id = &heartbeat.member_id;
        let consumer = self
            .hard
            .consumer
            .as_ref()
            .ok_or(ErrorCode::UnknownMemberId)?;
        let member = consumer.classic_member(member_id, heartbeat.group_instance_id.as_ref())?;
        if member.epoch != heartbeat.generation_id {
            return Err(ErrorCode::IllegalGeneration);
        }
        self.extend_consumer_session(scene, member_id);
        if self.soft.image_seen != Some(image.applied()) {
            self.refresh_epoch(scene, image, false);
        }
        let consumer = self
            .hard
            .consumer
            .as_ref()
            .ok_or(ErrorCode::UnknownMemberId)?;
        let member = consumer
            .member(&heartbeat.group_id, member_id)
            .map_err(|(error, _)| error)?;
        let should_rejoin = member.epoch < consumer.epoch
            || member.state == MemberState::Unrevoked
            || (member.state == MemberState::Unreleased && !consumer.waits_for_others(member_id));
        if should_rejoin {
            let timeout_ms = member.wants.rebalance_timeout_ms;
            self.limit_rejoin(scene, member_id, timeout_ms);
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(())
    }

    fn limit_rejoin(&mut self, scene: &mut Scene<'_>, member_id: &Str, timeout_ms: i32) {
        let soft = self.soft.members.get(member_id);
        if soft.is_none_or(|soft| soft.limited != Some(Limit::Rejoin)) {
            self.limit(scene, member_id, Limit::Rejoin, timeout_ms);
        }
    }

    /// LeaveGroup in a consumer group.
    pub(in crate::group) fn consumer_members_leave(
        &mut self,
        scene: &mut Scene<'_>,
        members: Vec<LeavingMember>,
    ) -> Vec<LeftMember> {
        let mut outcomes = Vec::with_capacity(members.len());
        let mut leaving: Vec<Str> = Vec::new();
        for one in members {
            let error = match self.find_consumer_leaving(&one) {
                Ok(member_id) if leaving.contains(&member_id) => ErrorCode::UnknownMemberId,
                Ok(member_id) => {
                    leaving.push(member_id);
                    ErrorCode::None
                }
                Err(error) => error,
            };
            outcomes.push(LeftMember {
                member_id: one.member_id,
                group_instance_id: one.group_instance_id,
                error,
            });
        }
        if !leaving.is_empty() {
            self.remove_consumer_members(scene, &leaving);
        }
        outcomes
    }

    fn find_consumer_leaving(&self, leaving: &LeavingMember) -> Result<Str, ErrorCode> {
        let consumer = self
            .hard
            .consumer
            .as_ref()
            .ok_or(ErrorCode::UnknownMemberId)?;
        let Some(instance_id) = &leaving.group_instance_id else {
            let known = consumer.members.get_key_value(&leaving.member_id);
            return known
                .map(|(id, _)| id.clone())
                .ok_or(ErrorCode::UnknownMemberId);
        };
        let (present, _) = consumer
            .static_member(instance_id)
            .ok_or(ErrorCode::UnknownMemberId)?;
        // An administrator knows a static member by its name alone.
        if leaving.member_id.is_empty() || leaving.member_id == *present {
            Ok(present.clone())
        } else {
            Err(ErrorCode::FencedInstanceId)
        }
    }
}
