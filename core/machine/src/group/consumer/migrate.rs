//! Groups change their protocol while they run, in both directions.
//!
//! 1. Up: a consumer-protocol member joins a classic group of consumers. The members of the last generation stay, with
//!    what they were assigned, at the epoch of that generation; whoever waits is told to rejoin.
//! 2. Down: the last consumer-protocol member goes, and classic ones are left. They are a generation with what they should
//!    hold, and a rebalance begins.
//! 3. Each is one decision: its records are all there or none is. Everything is read before anything is written.
//! 4. `group.consumer.migration.policy` allows either; an empty group changes freely.

use std::collections::BTreeMap;

use pelton_model::record_type::group::{
    ClassicMemberMetadata, ClassicProtocol, ConsumerGroupMemberMetadataValue,
    ConsumerGroupPartitionMetadataKey, ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey, GroupMetadataValue, GroupRecord, MemberMetadata,
};
use pelton_model::{ErrorCode, Str};

use super::classic::{by_id, by_name};
use super::{Consumer, Held, Member, Partitions, Refused, records, wire};
use crate::group::classic::{CONSUMER, Classic};
use crate::group::scene::Scene;
use crate::group::shard::Group;
use crate::group::{Protocol, TopicPartitions};
use crate::image::MetadataImage;

impl Group {
    /// Makes room for a consumer group: an empty classic group goes, one with members is taken over.
    pub(in crate::group) fn become_consumer(
        &mut self,
        scene: &mut Scene<'_>,
    ) -> Result<(), Refused> {
        if self.hard.consumer.is_some() {
            return Ok(());
        }
        if !self.classic.is_empty() {
            return self.upgrade(scene);
        }
        if self.hard.generation.is_some() {
            let key = GroupMetadataKey {
                group: self.classic.group_id.clone(),
            };
            self.put(scene, GroupRecord::GroupMetadata(key, None));
        }
        self.leave_classic(scene);
        Ok(())
    }

    /// Makes room for a classic group: an empty consumer group goes.
    pub(in crate::group) fn become_classic(&mut self, scene: &mut Scene<'_>) {
        if self.hard.consumer.is_some() {
            self.erase_consumer(scene);
            self.give_up_consumer(scene.timers);
        }
    }

    fn upgrade(&mut self, scene: &mut Scene<'_>) -> Result<(), Refused> {
        let group_id = self.classic.group_id.clone();
        let refuse = |why: &str| {
            let words =
                format!("Cannot upgrade classic group {group_id} to consumer group because {why}.");
            Err((ErrorCode::GroupIdNotFound, words))
        };
        if !scene.config.consumer.upgrade {
            return refuse("online upgrade is disabled");
        }
        if !self.classic.is_of_consumers() {
            return refuse("the group does not use the consumer embedded protocol");
        }
        if scene.config.consumer.max_size < self.classic.members().len() {
            return refuse("the group size exceeds the consumer group maximum size");
        }
        let members = match upgraded(&self.classic, scene.image) {
            Ok(members) => members,
            Err(why) => return refuse(why),
        };
        let epoch = self.classic.generation();
        let key = GroupMetadataKey {
            group: group_id.clone(),
        };
        self.put(scene, GroupRecord::GroupMetadata(key, None));
        self.leave_classic(scene);
        for (member_id, member) in &members {
            self.put(
                scene,
                records::wants(&group_id, member_id, Some(member.wants.clone())),
            );
        }
        self.put(scene, records::epoch(&group_id, Some((epoch, 0))));
        for (member_id, member) in &members {
            let target = partitions(&member.assigned);
            self.put(scene, records::target(&group_id, member_id, Some(&target)));
        }
        let key = ConsumerGroupTargetAssignmentMetadataKey {
            group_id: group_id.clone(),
        };
        let value = ConsumerGroupTargetAssignmentMetadataValue {
            assignment_epoch: epoch,
            // The next assignment need not wait.
            assignment_timestamp: 0,
        };
        self.put(
            scene,
            GroupRecord::ConsumerGroupTargetAssignmentMetadata(key, Some(value)),
        );
        for (member_id, member) in &members {
            self.put(scene, records::current(&group_id, member_id, Some(member)));
            self.extend_consumer_session(scene, member_id);
        }
        Ok(())
    }

    /// The classic group is no more: whoever waits in it joins again.
    fn leave_classic(&mut self, scene: &mut Scene<'_>) {
        let replies = self
            .classic
            .give_up(scene.timers, ErrorCode::RebalanceInProgress);
        scene.decision.replies.extend(replies);
        self.classic = Classic::new(self.classic.group_id.clone(), None);
        self.hard.consumer.get_or_insert_default();
    }

    /// Takes members out; a group that then is all classic becomes so.
    pub(super) fn remove_consumer_members(&mut self, scene: &mut Scene<'_>, member_ids: &[Str]) {
        if !self.downgrade_if_classic(scene, member_ids) {
            self.fence_members(scene, member_ids);
        }
    }

    /// Makes the group classic when nobody else is left than classic members, those that leave aside; whether it did.
    pub(super) fn downgrade_if_classic(&mut self, scene: &mut Scene<'_>, leaving: &[Str]) -> bool {
        let Some(consumer) = &self.hard.consumer else {
            return false;
        };
        let stays = |(id, _): &(&Str, &Member)| !leaving.contains(id);
        let staying: Vec<(&Str, &Member)> = consumer.members.iter().filter(stays).collect();
        let is_wanted = scene.config.consumer.downgrade
            && !staying.is_empty()
            && staying.iter().all(|(_, member)| member.is_classic())
            && staying.len() <= scene.config.max_size;
        if !is_wanted {
            return false;
        }
        let Some(value) = downgraded(consumer, &staying, scene) else {
            return false;
        };
        let protocols = |(id, member): &(&Str, &Member)| ((*id).clone(), protocols(member));
        let protocols: Vec<(Str, Vec<Protocol>)> = staying.iter().map(protocols).collect();
        let group_id = self.classic.group_id.clone();
        self.erase_consumer(scene);
        self.give_up_consumer(scene.timers);
        let key = GroupMetadataKey {
            group: group_id.clone(),
        };
        self.classic = Classic::load(group_id, &value);
        for (member_id, protocols) in protocols {
            self.classic.set_protocols(&member_id, protocols);
        }
        self.put(scene, GroupRecord::GroupMetadata(key, Some(value)));
        self.classic.start(scene);
        self.classic.rebalance(scene);
        true
    }

    /// Erases everything about the consumer group.
    pub(in crate::group) fn erase_consumer(&mut self, scene: &mut Scene<'_>) {
        let consumer = self.hard.consumer.as_ref();
        let tombstones = consumer.map(|consumer| consumer.tombstones(&self.classic.group_id));
        for record in tombstones.unwrap_or_default() {
            self.put(scene, record);
        }
    }
}

impl Consumer {
    /// Tombstones of everything about the group, in Kafka's order.
    pub(in crate::group) fn tombstones(&self, group_id: &Str) -> Vec<GroupRecord> {
        let mut tombstones = Vec::new();
        let members = self.members.keys();
        tombstones.extend(members.map(|id| records::current(group_id, id, None)));
        tombstones.extend(
            self.targets
                .keys()
                .map(|id| records::target(group_id, id, None)),
        );
        let key = ConsumerGroupTargetAssignmentMetadataKey {
            group_id: group_id.clone(),
        };
        tombstones.push(GroupRecord::ConsumerGroupTargetAssignmentMetadata(
            key, None,
        ));
        let members = self.members.keys();
        tombstones.extend(members.map(|id| records::wants(group_id, id, None)));
        let pattern = |regular_expression: &Str| {
            let key = ConsumerGroupRegularExpressionKey {
                group_id: group_id.clone(),
                regular_expression: regular_expression.clone(),
            };
            GroupRecord::ConsumerGroupRegularExpression(key, None)
        };
        tombstones.extend(self.regexes.keys().map(pattern));
        if self.has_partition_metadata {
            let key = ConsumerGroupPartitionMetadataKey {
                group_id: group_id.clone(),
            };
            tombstones.push(GroupRecord::ConsumerGroupPartitionMetadata(key, None));
        }
        tombstones.push(records::epoch(group_id, None));
        tombstones
    }
}

/// The members of a classic group as those of a consumer group.
fn upgraded(
    classic: &Classic,
    image: &MetadataImage,
) -> Result<BTreeMap<Str, Member>, &'static str> {
    const MALFORMED: &str = "the embedded consumer protocol is malformed";
    const CUSTOM: &str = "an unsupported custom assignor is in use";
    let epoch = classic.generation();
    let mut members = BTreeMap::new();
    for (member_id, member) in classic.members() {
        let protocols = member.protocols();
        let chosen = classic.protocol();
        let chosen = protocols
            .iter()
            .find(|one| Some(&one.name) == chosen)
            .or(protocols.first());
        let subscription = chosen.and_then(|one| wire::subscription(&one.metadata));
        let subscription = subscription.ok_or(MALFORMED)?;
        let (named, has_user_data) = wire::assignment(&member.assignment()).ok_or(MALFORMED)?;
        // What a subscription says to its assignor does not matter (cooperative-sticky tells its generation).
        if has_user_data {
            return Err(CUSTOM);
        }
        let mut names = subscription.topics;
        names.sort_unstable();
        names.dedup();
        let protocol = |one: &Protocol| ClassicProtocol {
            name: one.name.clone(),
            metadata: one.metadata.clone(),
        };
        let wants = ConsumerGroupMemberMetadataValue {
            instance_id: member.instance_id.clone(),
            rack_id: subscription.rack,
            client_id: member.client.id.clone(),
            client_host: member.client.host.clone(),
            subscribed_topic_names: names,
            subscribed_topic_regex: Some(Str::default()),
            rebalance_timeout_ms: member.rebalance_timeout_ms(),
            server_assignor: None,
            classic_member_metadata: Some(ClassicMemberMetadata {
                session_timeout_ms: member.session_timeout_ms(),
                supported_protocols: protocols.iter().map(protocol).collect(),
            }),
        };
        let member = Member {
            wants,
            epoch,
            previous_epoch: epoch,
            assigned: held(&by_id(image, &named), epoch),
            ..Member::default()
        };
        members.insert(member_id.clone(), member);
    }
    Ok(members)
}

fn held(topics: &[TopicPartitions], epoch: i32) -> Held {
    let mut held = Held::new();
    for topic in topics {
        let partitions = topic.partitions.iter().map(|partition| (*partition, epoch));
        held.entry(topic.topic_id).or_default().extend(partitions);
    }
    held
}

fn partitions(held: &Held) -> Partitions {
    held.iter()
        .map(|(topic_id, all)| (*topic_id, all.keys().copied().collect()))
        .collect()
}

fn protocols(member: &Member) -> Vec<Protocol> {
    let classic = member.wants.classic_member_metadata.iter();
    let protocol = |one: &ClassicProtocol| Protocol {
        name: one.name.clone(),
        metadata: one.metadata.clone(),
    };
    classic
        .flat_map(|classic| &classic.supported_protocols)
        .map(protocol)
        .collect()
}

/// The classic members of a consumer group as a generation; `None` when they have no protocol in common.
fn downgraded(
    consumer: &Consumer,
    staying: &[(&Str, &Member)],
    scene: &Scene<'_>,
) -> Option<GroupMetadataValue> {
    let all: Vec<Vec<Protocol>> = staying
        .iter()
        .map(|(_, member)| protocols(member))
        .collect();
    let all_know = |one: &&Protocol| {
        all.iter()
            .all(|theirs| theirs.iter().any(|other| other.name == one.name))
    };
    let chosen = all.first()?.iter().find(all_know)?.name.clone();
    let mut members = Vec::with_capacity(staying.len());
    for ((member_id, member), protocols) in staying.iter().zip(&all) {
        let metadata = protocols
            .iter()
            .find(|one| one.name == chosen)?
            .metadata
            .clone();
        let version = wire::subscription(&metadata).map_or(0, |one| one.version);
        let target = consumer.targets.get(*member_id).into_iter().flatten();
        let target = target.map(|(topic_id, all)| (*topic_id, all.iter().copied().collect()));
        let named = by_name(scene.image, target);
        let classic = member.wants.classic_member_metadata.as_ref()?;
        members.push(MemberMetadata {
            member_id: (*member_id).clone(),
            group_instance_id: member.wants.instance_id.clone(),
            client_id: member.wants.client_id.clone(),
            client_host: member.wants.client_host.clone(),
            rebalance_timeout: member.wants.rebalance_timeout_ms,
            session_timeout: classic.session_timeout_ms,
            subscription: metadata,
            assignment: wire::write_assignment(version, &named),
        });
    }
    Some(GroupMetadataValue {
        protocol_type: Str::new_static(CONSUMER),
        generation: consumer.epoch,
        protocol: Some(chosen),
        leader: members.first().map(|member| member.member_id.clone()),
        current_state_timestamp: scene.now.time.0,
        members,
    })
}
