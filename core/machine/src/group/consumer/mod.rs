//! Consumer groups (KIP-848): the coordinator assigns, members follow.
//!
//! 1. Everything here is hard state but [`Soft`]: records are written and replayed one by one ([`Group::put`]), so that what
//!    is decided next sees what was decided before, and a restart arrives at the same state.
//! 2. Three things follow each other, each with its epoch: the group (who is in it and wants what), its target assignment
//!    (who should hold what), and each member's current assignment (who may hold what). A member comes to the epoch of
//!    the target only once it has given back what is not its own there.
//! 3. A partition has at most one owner ([`Consumer::owner`]), and is given to nobody while it has another.
//! 4. A member of the classic protocol in such a group is driven by its JoinGroup, SyncGroup and Heartbeat instead.
//!
//! Not here: share and streams groups, rack-aware assignment (Kafka's assignors ignore racks since 4.0).

mod assign;
mod classic;
mod describe;
mod heartbeat;
mod membership;
mod migrate;
mod pattern;
mod reconcile;
mod target;
mod wire;

use std::collections::{BTreeMap, BTreeSet};

use pelton_model::record_type::group::{
    ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue, ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue, GroupRecord,
    TopicPartition, TopicPartitions,
};
use pelton_model::{ErrorCode, Offset, Str, TopicId};

pub(super) use heartbeat::check;

use super::scene::Scene;
use super::shard::Group;
use super::timers::{Due, Session};
use crate::image::MetadataImage;

/// Kafka's name of the assignor that balances over all topics.
const UNIFORM: &str = "uniform";
/// Kafka's name of the assignor that gives each member a range of each topic.
const RANGE: &str = "range";
/// The epoch with which a member joins.
const JOIN_EPOCH: i32 = 0;
/// The epoch with which a member leaves.
const LEAVE_EPOCH: i32 = -1;
/// The epoch with which a static member leaves for a while.
const STATIC_LEAVE_EPOCH: i32 = -2;

/// Partitions by topic.
pub(super) type Partitions = BTreeMap<TopicId, BTreeSet<i32>>;
/// Partitions by topic, each with the epoch in which the member got it.
pub(super) type Held = BTreeMap<TopicId, BTreeMap<i32, i32>>;

/// Why a request is refused, in a code and in words.
pub(super) type Refused = (ErrorCode, String);

/// Where a member stands on its way to its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum MemberState {
    /// It holds what it may.
    #[default]
    Stable,
    /// It is to give partitions back.
    Unrevoked,
    /// It waits for others to give partitions back.
    Unreleased,
    /// Of a Kafka to come.
    Unknown(i8),
}

impl MemberState {
    fn from_code(code: i8) -> Self {
        match code {
            0 => Self::Stable,
            1 => Self::Unrevoked,
            2 => Self::Unreleased,
            other => Self::Unknown(other),
        }
    }

    fn code(self) -> i8 {
        match self {
            Self::Stable => 0,
            Self::Unrevoked => 1,
            Self::Unreleased => 2,
            Self::Unknown(code) => code,
        }
    }
}

/// A member.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Member {
    pub(super) wants: ConsumerGroupMemberMetadataValue,
    pub(super) epoch: i32,
    pub(super) previous_epoch: i32,
    pub(super) state: MemberState,
    /// What it may hold.
    pub(super) assigned: Held,
    /// What it is to give back.
    pub(super) revoking: Held,
}

impl Member {
    /// Whether it speaks the classic protocol.
    pub(super) fn is_classic(&self) -> bool {
        self.wants.classic_member_metadata.is_some()
    }

    /// Whether it holds what it should in this epoch.
    fn is_reconciled_to(&self, epoch: i32) -> bool {
        self.state == MemberState::Stable && self.epoch == epoch
    }

    /// Its pattern, when it has one.
    fn regex(&self) -> Option<&Str> {
        self.wants
            .subscribed_topic_regex
            .as_ref()
            .filter(|regex| !regex.is_empty())
    }
}

/// Hard state of a consumer group.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Consumer {
    pub(super) epoch: i32,
    pub(super) metadata_hash: i64,
    pub(super) assignment_epoch: i32,
    pub(super) assignment_timestamp: i64,
    pub(super) members: BTreeMap<Str, Member>,
    pub(super) targets: BTreeMap<Str, Partitions>,
    pub(super) regexes: BTreeMap<Str, ConsumerGroupRegularExpressionValue>,
    /// Kafka before 4.1 wrote what topics looked like; it is to be deleted.
    pub(super) has_partition_metadata: bool,
    /// Derived: member ids of static members.
    static_members: BTreeMap<Str, Str>,
    /// Derived: who holds a partition, or has not given it back.
    owners: BTreeMap<(TopicId, i32), Str>,
}

impl Default for Consumer {
    fn default() -> Self {
        Self {
            // A new group is at 1, with nothing assigned, so that its first member is above the epoch of joining.
            epoch: 1,
            metadata_hash: 0,
            assignment_epoch: 1,
            assignment_timestamp: 0,
            members: BTreeMap::new(),
            targets: BTreeMap::new(),
            regexes: BTreeMap::new(),
            has_partition_metadata: false,
            static_members: BTreeMap::new(),
            owners: BTreeMap::new(),
        }
    }
}

/// What only a running coordinator knows of a consumer group.
#[derive(Debug, Default)]
pub(super) struct Soft {
    members: BTreeMap<Str, SoftMember>,
    /// The metadata that was last looked at.
    image_seen: Option<Offset>,
    /// When the target assignment is computed next, if it waits.
    assign_at: Option<pelton_model::Monotonic>,
}

/// What only a running coordinator knows of a member.
#[derive(Debug, Default)]
struct SoftMember {
    session: Session,
    /// When it must have given partitions back, have rejoined, or have asked for its assignment.
    limit: Session,
    /// What the limit is about.
    limited: Option<Limit>,
}

/// What a member must have done by its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// Given partitions back, and so left this epoch.
    Revoke(i32),
    /// A classic member: rejoined.
    Rejoin,
    /// A classic member: asked for its assignment.
    Sync,
}

impl Consumer {
    /// Kafka's name of where the group stands.
    pub(super) fn state_name(&self) -> &'static str {
        if self.members.is_empty() {
            return "Empty";
        }
        if self.assignment_epoch < self.epoch {
            return "Assigning";
        }
        let settled = |member: &Member| member.is_reconciled_to(self.assignment_epoch);
        if self.members.values().all(settled) {
            "Stable"
        } else {
            "Reconciling"
        }
    }

    /// Who holds a partition, or has not given it back.
    pub(super) fn owner(&self, topic_id: TopicId, partition: i32) -> Option<&Str> {
        self.owners.get(&(topic_id, partition))
    }

    pub(super) fn static_member(&self, instance_id: &Str) -> Option<(&Str, &Member)> {
        self.members
            .get_key_value(self.static_members.get(instance_id)?)
    }

    /// The names that members want, patterns resolved.
    pub(super) fn topic_names(&self) -> BTreeSet<Str> {
        let mut names = BTreeSet::new();
        for member in self.members.values() {
            names.extend(self.names_of(&member.wants).cloned());
        }
        names
    }

    /// The names that one member wants, its pattern resolved.
    fn names_of<'a>(
        &'a self,
        wants: &'a ConsumerGroupMemberMetadataValue,
    ) -> impl Iterator<Item = &'a Str> {
        let regex = wants.subscribed_topic_regex.as_ref();
        let resolved = regex.and_then(|regex| self.regexes.get(regex));
        let by_pattern = resolved.into_iter().flat_map(|resolved| &resolved.topics);
        wants.subscribed_topic_names.iter().chain(by_pattern)
    }

    /// Applies a record; whether the group is there thereafter.
    pub(super) fn replay(&mut self, record: &GroupRecord) -> bool {
        match record {
            GroupRecord::ConsumerGroupMetadata(_, value) => match value {
                Some(value) => {
                    self.epoch = value.epoch;
                    self.metadata_hash = value.metadata_hash;
                }
                None => return false,
            },
            GroupRecord::ConsumerGroupPartitionMetadata(_, value) => {
                self.has_partition_metadata = value.is_some();
            }
            GroupRecord::ConsumerGroupMemberMetadata(key, value) => {
                self.replay_wants(&key.member_id, value.as_ref());
            }
            GroupRecord::ConsumerGroupTargetAssignmentMetadata(_, value) => {
                self.assignment_epoch = value.as_ref().map_or(0, |value| value.assignment_epoch);
                self.assignment_timestamp =
                    value.as_ref().map_or(0, |value| value.assignment_timestamp);
            }
            GroupRecord::ConsumerGroupTargetAssignmentMember(key, value) => match value {
                Some(value) => {
                    let partitions = value.topic_partitions.iter().map(|one| {
                        (
                            one.topic_id,
                            one.partitions.iter().copied().collect::<BTreeSet<i32>>(),
                        )
                    });
                    self.targets
                        .insert(key.member_id.clone(), partitions.collect());
                }
                None => {
                    self.targets.remove(&key.member_id);
                }
            },
            GroupRecord::ConsumerGroupCurrentMemberAssignment(key, value) => {
                self.replay_current(&key.member_id, value.as_ref());
            }
            GroupRecord::ConsumerGroupRegularExpression(key, value) => match value {
                Some(value) => {
                    self.regexes
                        .insert(key.regular_expression.clone(), value.clone());
                }
                None => {
                    self.regexes.remove(&key.regular_expression);
                }
            },
            GroupRecord::LegacyOffsetCommit(..)
            | GroupRecord::OffsetCommit(..)
            | GroupRecord::GroupMetadata(..) => {}
        }
        true
    }

    fn replay_wants(&mut self, member_id: &Str, value: Option<&ConsumerGroupMemberMetadataValue>) {
        let before = self.members.get(member_id);
        let instance_before = before.and_then(|member| member.wants.instance_id.clone());
        if let Some(instance_id) = instance_before
            && self.static_members.get(&instance_id) == Some(member_id)
        {
            self.static_members.remove(&instance_id);
        }
        match value {
            Some(value) => {
                if let Some(instance_id) = &value.instance_id {
                    self.static_members
                        .insert(instance_id.clone(), member_id.clone());
                }
                self.members.entry(member_id.clone()).or_default().wants = value.clone();
            }
            None => {
                self.disown(member_id);
                self.members.remove(member_id);
            }
        }
    }

    fn replay_current(
        &mut self,
        member_id: &Str,
        value: Option<&ConsumerGroupCurrentMemberAssignmentValue>,
    ) {
        self.disown(member_id);
        let Some(value) = value else {
            if let Some(member) = self.members.get_mut(member_id) {
                member.epoch = LEAVE_EPOCH;
                member.previous_epoch = LEAVE_EPOCH;
                member.state = MemberState::Stable;
                member.assigned.clear();
                member.revoking.clear();
            }
            return;
        };
        let member = self.members.entry(member_id.clone()).or_default();
        member.epoch = value.member_epoch;
        member.previous_epoch = value.previous_member_epoch;
        member.state = MemberState::from_code(value.state);
        member.assigned = held(&value.assigned_partitions, value.member_epoch);
        member.revoking = held(&value.partitions_pending_revocation, value.member_epoch);
        for (topic_id, partitions) in member.assigned.iter().chain(&member.revoking) {
            for partition in partitions.keys() {
                self.owners
                    .insert((*topic_id, *partition), member_id.clone());
            }
        }
    }

    fn disown(&mut self, member_id: &Str) {
        let Some(member) = self.members.get(member_id) else {
            return;
        };
        for (topic_id, partitions) in member.assigned.iter().chain(&member.revoking) {
            for partition in partitions.keys() {
                let key = (*topic_id, *partition);
                if self.owners.get(&key) == Some(member_id) {
                    self.owners.remove(&key);
                }
            }
        }
    }
}

/// Partitions of a record, each with its epoch; those of Kafka before 4.3 have the member's.
fn held(topics: &[TopicPartitions], member_epoch: i32) -> Held {
    let mut held = Held::new();
    for topic in topics {
        let partitions = held.entry(topic.topic_id).or_default();
        for (place, partition) in topic.partitions.iter().enumerate() {
            let epochs = topic.assignment_epochs.as_ref();
            let epoch = epochs.and_then(|epochs| epochs.get(place)).copied();
            partitions.insert(*partition, epoch.unwrap_or(member_epoch));
        }
    }
    held
}

fn held_value(held: &Held) -> Vec<TopicPartitions> {
    let one = |(topic_id, partitions): (&TopicId, &BTreeMap<i32, i32>)| TopicPartitions {
        topic_id: *topic_id,
        partitions: partitions.keys().copied().collect(),
        assignment_epochs: Some(partitions.values().copied().collect()),
    };
    held.iter().map(one).collect()
}

/// The records of a consumer group.
mod records {
    use super::*;

    pub(super) fn epoch(group_id: &Str, value: Option<(i32, i64)>) -> GroupRecord {
        let key = ConsumerGroupMetadataKey {
            group_id: group_id.clone(),
        };
        let value = value.map(|(epoch, metadata_hash)| ConsumerGroupMetadataValue {
            epoch,
            metadata_hash,
        });
        GroupRecord::ConsumerGroupMetadata(key, value)
    }

    pub(super) fn wants(
        group_id: &Str,
        member_id: &Str,
        value: Option<ConsumerGroupMemberMetadataValue>,
    ) -> GroupRecord {
        let key = ConsumerGroupMemberMetadataKey {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
        };
        GroupRecord::ConsumerGroupMemberMetadata(key, value)
    }

    pub(super) fn target(
        group_id: &Str,
        member_id: &Str,
        partitions: Option<&Partitions>,
    ) -> GroupRecord {
        let key = ConsumerGroupTargetAssignmentMemberKey {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
        };
        let topic = |(topic_id, partitions): (&TopicId, &BTreeSet<i32>)| TopicPartition {
            topic_id: *topic_id,
            partitions: partitions.iter().copied().collect(),
        };
        let value = partitions.map(|partitions| ConsumerGroupTargetAssignmentMemberValue {
            topic_partitions: partitions.iter().map(topic).collect(),
        });
        GroupRecord::ConsumerGroupTargetAssignmentMember(key, value)
    }

    pub(super) fn current(group_id: &Str, member_id: &Str, member: Option<&Member>) -> GroupRecord {
        let key = ConsumerGroupCurrentMemberAssignmentKey {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
        };
        let value = member.map(|member| ConsumerGroupCurrentMemberAssignmentValue {
            member_epoch: member.epoch,
            previous_member_epoch: member.previous_epoch,
            state: member.state.code(),
            assigned_partitions: held_value(&member.assigned),
            partitions_pending_revocation: held_value(&member.revoking),
        });
        GroupRecord::ConsumerGroupCurrentMemberAssignment(key, value)
    }
}

impl Group {
    /// Writes a record of a consumer group and applies it at once.
    pub(super) fn put(&mut self, scene: &mut Scene<'_>, record: GroupRecord) {
        self.hard.replay_consumer(&record);
        scene.write_applied(record);
    }

    /// Begins to run: every member has just been heard of.
    pub(super) fn start_consumer(&mut self, scene: &mut Scene<'_>) {
        let Some(consumer) = &self.hard.consumer else {
            return;
        };
        let ids: Vec<Str> = consumer.members.keys().cloned().collect();
        for member_id in &ids {
            self.extend_consumer_session(scene, member_id);
            let members = self
                .hard
                .consumer
                .as_ref()
                .map(|consumer| &consumer.members);
            let member = members.and_then(|members| members.get(member_id));
            if let Some(member) = member
                && member.state == MemberState::Unrevoked
                && !member.is_classic()
            {
                let (epoch, timeout_ms) = (member.epoch, member.wants.rebalance_timeout_ms);
                self.limit(scene, member_id, Limit::Revoke(epoch), timeout_ms);
            }
        }
    }

    /// The member was heard of.
    fn extend_consumer_session(&mut self, scene: &mut Scene<'_>, member_id: &Str) {
        let consumer = self.hard.consumer.as_ref();
        let member = consumer.and_then(|consumer| consumer.members.get(member_id));
        let classic = member.and_then(|member| member.wants.classic_member_metadata.as_ref());
        let group_id = &self.classic.group_id;
        let timeout_ms = match classic {
            Some(classic) => classic.session_timeout_ms,
            None => scene.times(group_id).session_timeout_ms,
        };
        let deadline = scene.after_ms(timeout_ms);
        let soft = match self.soft.members.get_mut(member_id) {
            Some(soft) => soft,
            None => self.soft.members.entry(member_id.clone()).or_default(),
        };
        soft.session
            .extend(scene.timers, deadline, || session_due(group_id, member_id));
    }

    /// Gives the member until then to do what it must.
    fn limit(&mut self, scene: &mut Scene<'_>, member_id: &Str, limit: Limit, timeout_ms: i32) {
        let deadline = scene.after_ms(timeout_ms);
        let group_id = &self.classic.group_id;
        let soft = self.soft.members.entry(member_id.clone()).or_default();
        soft.limit
            .end(scene.timers, || limit_due(group_id, member_id));
        soft.limit
            .extend(scene.timers, deadline, || limit_due(group_id, member_id));
        soft.limited = Some(limit);
    }

    /// The member has done what it must.
    fn unlimit(&mut self, scene: &mut Scene<'_>, member_id: &Str) {
        let group_id = &self.classic.group_id;
        if let Some(soft) = self.soft.members.get_mut(member_id) {
            soft.limit
                .end(scene.timers, || limit_due(group_id, member_id));
            soft.limited = None;
        }
    }

    /// Forgets what is soft about a member.
    fn forget_soft(&mut self, scene: &mut Scene<'_>, member_id: &Str) {
        let group_id = &self.classic.group_id;
        if let Some(mut soft) = self.soft.members.remove(member_id) {
            soft.session
                .end(scene.timers, || session_due(group_id, member_id));
            soft.limit
                .end(scene.timers, || limit_due(group_id, member_id));
        }
    }

    /// Gives up all that is soft.
    pub(super) fn give_up_consumer(&mut self, timers: &mut super::timers::Timers) {
        let group_id = &self.classic.group_id;
        for (member_id, soft) in &mut self.soft.members {
            soft.session
                .end(timers, || session_due(group_id, member_id));
            soft.limit.end(timers, || limit_due(group_id, member_id));
        }
        self.soft.members.clear();
        if let Some(at) = self.soft.assign_at.take() {
            timers.disarm(at, assign_due(group_id));
        }
    }
}

fn session_due(group_id: &Str, member_id: &Str) -> Due {
    Due::ConsumerSession {
        group_id: group_id.clone(),
        member_id: member_id.clone(),
    }
}

fn limit_due(group_id: &Str, member_id: &Str) -> Due {
    Due::ConsumerLimit {
        group_id: group_id.clone(),
        member_id: member_id.clone(),
    }
}

fn assign_due(group_id: &Str) -> Due {
    Due::Assign {
        group_id: group_id.clone(),
    }
}

/// The ids of topics that exist, by name.
fn topic_ids<'a>(image: &MetadataImage, names: impl Iterator<Item = &'a Str>) -> BTreeSet<TopicId> {
    names.filter_map(|name| image.topic_id(name)).collect()
}
