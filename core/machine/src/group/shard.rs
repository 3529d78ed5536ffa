//! [`GroupShard`]: the state of one partition of `__consumer_offsets`, and what may be done with it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use pelton_model::config::group::GroupConfig;
use pelton_model::limits::{
    GROUP_DEADLINES_PER_TICK_MAX, GROUP_EXPIRATION_PAUSE_MS, GROUP_LOOKS_PER_TICK_MAX,
    GROUP_TOMBSTONES_PER_TICK_MAX,
};
use pelton_model::record_type::group::{
    GroupMetadataValue, GroupRecord, LegacyOffsetCommitValue, OffsetCommitValue,
};
use pelton_model::{ErrorCode, Monotonic, ProducerEpoch, ProducerId, Str, Timestamp};

use super::admin::Deletion;
use super::classic::Classic;
use super::consumer::{Consumer, Soft};
use super::offsets::{Offsets, Place, Room};
use super::scene::Scene;
use super::timers::{Due, Timers};
use super::{Command, Now, Reply, Token};
use crate::image::MetadataImage;

/// What a coordinator wants done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// One batch, all or nothing; empty when nothing is to be written.
    pub records: Vec<GroupRecord>,
    /// The producer in whose transaction all of `records` are, if in one.
    pub producer: Option<(ProducerId, ProducerEpoch)>,
    /// Replies that may leave once `records` and those of all earlier decisions are durable.
    pub replies: Vec<(Token, Reply)>,
}

/// Hard state of one group.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Hard {
    /// The last generation that was written of a classic group.
    pub(super) generation: Option<GroupMetadataValue>,
    /// A consumer group.
    pub(super) consumer: Option<Box<Consumer>>,
    pub(super) offsets: Offsets,
}

impl Hard {
    fn is_nothing(&self) -> bool {
        self.generation.is_none() && self.consumer.is_none() && self.offsets.is_empty()
    }

    /// Applies a record about the group itself.
    pub(super) fn replay_consumer(&mut self, record: &GroupRecord) {
        if let GroupRecord::GroupMetadata(_, value) = record {
            self.generation.clone_from(value);
            return;
        }
        if self.consumer.is_none() && record.is_tombstone() {
            return;
        }
        let is_there = self.consumer.get_or_insert_default().replay(record);
        if !is_there {
            self.consumer = None;
        }
    }
}

/// One group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) hard: Hard,
    /// Soft state of a classic group; meaningful once the partition is loaded. It knows the group's id in any case.
    pub(super) classic: Classic,
    /// Soft state of a consumer group.
    pub(super) soft: Soft,
}

impl Group {
    pub(super) fn new(group_id: Str, since: Option<Timestamp>) -> Self {
        Self {
            hard: Hard::default(),
            classic: Classic::new(group_id, since),
            soft: Soft::default(),
        }
    }

    /// Whether nobody is in it.
    pub(super) fn is_empty(&self) -> bool {
        match &self.hard.consumer {
            Some(consumer) => consumer.members.is_empty(),
            None => self.classic.is_empty(),
        }
    }

    /// Says of a topic whether a member reads it; what members want is looked up once.
    pub(super) fn subscriptions(&self) -> impl Fn(&Str) -> bool {
        let consumer = self.hard.consumer.as_ref();
        let names = consumer.map(|consumer| consumer.topic_names());
        move |topic| match &names {
            Some(names) => names.contains(topic),
            None => self.classic.is_subscribed_to(topic),
        }
    }
}

/// The groups and offsets of one partition of `__consumer_offsets`; see the module for how it is driven.
#[derive(Debug)]
pub struct GroupShard {
    pub(super) config: GroupConfig,
    pub(super) groups: BTreeMap<Str, Group>,
    /// Groups with offsets of an open transaction, by its producer.
    open_transactions: BTreeMap<ProducerId, BTreeSet<Str>>,
    pub(super) offset_count: usize,
    /// Offsets of open transactions.
    pub(super) pending_count: usize,
    pub(super) timers: Timers,
    /// The group at which the round goes on that looks for expired offsets, and the offset if it stopped within.
    expiration: Option<(Str, Option<Place>)>,
    /// DeleteGroups requests under way, the oldest first.
    pub(super) deletions: VecDeque<Deletion>,
}

impl GroupShard {
    /// A partition of which no record is known yet.
    #[must_use]
    pub fn new(config: GroupConfig) -> Self {
        Self {
            config,
            groups: BTreeMap::new(),
            open_transactions: BTreeMap::new(),
            offset_count: 0,
            pending_count: 0,
            timers: Timers::default(),
            expiration: None,
            deletions: VecDeque::new(),
        }
    }

    /// Takes new settings; what is under way keeps the deadlines it has.
    pub fn configure(&mut self, config: GroupConfig) {
        self.config = config;
    }

    /// Applies a record of the log, in its order: while loading, before [`Self::loaded`].
    pub fn replay(&mut self, record: &GroupRecord) {
        match record {
            GroupRecord::LegacyOffsetCommit(key, value) => {
                let value = value.as_ref().map(upgrade);
                self.replay_offset(&key.group, &key.topic, key.partition, value);
            }
            GroupRecord::OffsetCommit(key, value) => {
                self.replay_offset(&key.group, &key.topic, key.partition, value.clone());
            }
            GroupRecord::GroupMetadata(..)
            | GroupRecord::ConsumerGroupMetadata(..)
            | GroupRecord::ConsumerGroupPartitionMetadata(..)
            | GroupRecord::ConsumerGroupMemberMetadata(..)
            | GroupRecord::ConsumerGroupTargetAssignmentMetadata(..)
            | GroupRecord::ConsumerGroupTargetAssignmentMember(..)
            | GroupRecord::ConsumerGroupCurrentMemberAssignment(..)
            | GroupRecord::ConsumerGroupRegularExpression(..) => {
                let group_id = record.group_id();
                if !record.is_tombstone() {
                    self.group_or_new(group_id).hard.replay_consumer(record);
                } else if let Some(group) = self.groups.get_mut(group_id) {
                    group.hard.replay_consumer(record);
                    self.drop_if_nothing(group_id);
                }
            }
        }
    }

    fn replay_offset(
        &mut self,
        group_id: &Str,
        topic: &Str,
        partition: i32,
        value: Option<OffsetCommitValue>,
    ) {
        let group = match value {
            // Whoever commits without being a member makes a group of offsets alone.
            Some(_) => self.group_or_new(group_id),
            None => match self.groups.get_mut(group_id) {
                Some(group) => group,
                None => return,
            },
        };
        let before = group.hard.offsets.counts();
        group.hard.offsets.replay(topic, partition, value);
        let after = group.hard.offsets.counts();
        self.count(before, after);
    }

    /// Takes in that a group has other numbers of committed and pending offsets.
    fn count(&mut self, before: (usize, usize), after: (usize, usize)) {
        self.offset_count = self.offset_count + after.0 - before.0;
        self.pending_count = self.pending_count + after.1 - before.1;
    }

    /// Applies a record of an open transaction: a committed offset that counts when the transaction does.
    pub fn replay_pending(&mut self, producer: ProducerId, record: &GroupRecord) {
        // Nothing but offsets is ever written in a transaction.
        let GroupRecord::OffsetCommit(key, value) = record else {
            return;
        };
        let group = self.group_or_new(&key.group);
        let offsets = &mut group.hard.offsets;
        let before = offsets.counts();
        offsets.replay_pending(producer, &key.topic, key.partition, value.clone());
        let after = offsets.counts();
        self.count(before, after);
        let groups = self.open_transactions.entry(producer).or_default();
        groups.insert(key.group.clone());
    }

    /// Applies the end of a transaction.
    pub fn replay_end(&mut self, producer: ProducerId, committed: bool) {
        for group_id in self.open_transactions.remove(&producer).unwrap_or_default() {
            if let Some(group) = self.groups.get_mut(&group_id) {
                let before = group.hard.offsets.counts();
                group.hard.offsets.end_transaction(producer, committed);
                let after = group.hard.offsets.counts();
                self.count(before, after);
                self.drop_if_nothing(&group_id);
            }
        }
    }

    /// Ends loading: soft state begins, as if every member had just been heard of.
    pub fn loaded(&mut self, now: Now) {
        let image = MetadataImage::new();
        let mut scene = Scene {
            now,
            config: &self.config,
            image: &image,
            timers: &mut self.timers,
            applied: 0,
            decision: Decision::default(),
        };
        for (group_id, group) in &mut self.groups {
            if let Some(value) = &group.hard.generation {
                group.classic = Classic::load(group_id.clone(), value);
                group.classic.start(&mut scene);
            }
            group.start_consumer(&mut scene);
        }
        // Nobody waits and nobody is removed yet: there is nothing to write or to answer.
        assert!(scene.decision == Decision::default());
        let check_ms = self.config.offsets_retention_check_interval_ms;
        self.timers
            .arm(now.clock.plus_ms(check_ms), Due::Expiration);
    }

    /// Decides a request.
    #[must_use]
    pub fn decide(
        &mut self,
        now: Now,
        token: Token,
        command: Command,
        image: &MetadataImage,
    ) -> Decision {
        match command {
            Command::JoinGroup(join) => self.join_group(now, image, token, join),
            Command::SyncGroup(sync) => self.sync_group(now, image, token, sync),
            Command::Heartbeat(heartbeat) => self.heartbeat(now, image, token, &heartbeat),
            Command::LeaveGroup(leave) => self.leave_group(now, image, token, leave),
            Command::OffsetCommit(commit) => self.commit_offsets(now, image, token, commit),
            Command::OffsetFetch(fetch) => {
                answer(token, Reply::OffsetFetch(self.fetch_offsets(fetch)))
            }
            Command::OffsetDelete(delete) => self.delete_offsets(now, image, token, delete),
            Command::ListGroups(list) => {
                answer(token, Reply::ListGroups(Ok(self.list_groups(&list))))
            }
            Command::DescribeGroups(describe) => answer(
                token,
                Reply::DescribeGroups(self.describe_groups(&describe)),
            ),
            Command::DeleteGroups(delete) => self.delete_groups(now, image, token, delete),
            Command::ConsumerGroupHeartbeat(request) => {
                self.consumer_group_heartbeat(now, image, token, request)
            }
            Command::ConsumerGroupDescribe(describe) => {
                let groups = self.describe_consumer_groups(image, &describe);
                answer(token, Reply::ConsumerGroupDescribe(groups))
            }
        }
    }

    /// When [`Self::tick`] has something to do next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.timers.next()
    }

    /// Does what is due by `now`, or a bounded part of it: then the next deadline is not later than `now`.
    #[must_use]
    pub fn tick(&mut self, now: Now, image: &MetadataImage) -> Decision {
        let mut all = Decision::default();
        for _ in 0..GROUP_DEADLINES_PER_TICK_MAX {
            let Some((at, due)) = self.timers.pop(now.clock) else {
                break;
            };
            let decision = self.on_due(now, image, at, due);
            all.records.extend(decision.records);
            all.replies.extend(decision.replies);
            if all.records.len() >= GROUP_TOMBSTONES_PER_TICK_MAX {
                break;
            }
        }
        all
    }

    fn on_due(&mut self, now: Now, image: &MetadataImage, at: Monotonic, due: Due) -> Decision {
        match due {
            Due::Session {
                group_id,
                member_id,
            } => self.in_group(now, image, &group_id, |group, scene| {
                group.classic.on_session_due(scene, at, &member_id);
            }),
            Due::Join { group_id } => self.in_group(now, image, &group_id, |group, scene| {
                group.classic.on_join_due(scene);
            }),
            Due::Sync { group_id } => self.in_group(now, image, &group_id, |group, scene| {
                group.classic.on_sync_due(scene);
            }),
            Due::ConsumerSession {
                group_id,
                member_id,
            } => self.in_group(now, image, &group_id, |group, scene| {
                group.on_consumer_session_due(scene, at, &member_id);
            }),
            Due::ConsumerLimit {
                group_id,
                member_id,
            } => self.in_group(now, image, &group_id, |group, scene| {
                group.on_consumer_limit_due(scene, at, &member_id);
            }),
            Due::Assign { group_id } => self.in_group(now, image, &group_id, |group, scene| {
                group.on_assign_due(scene, image);
            }),
            Due::Expiration => self.expire(now),
            Due::Deletion => self.go_on_deleting(now, image),
        }
    }

    /// Gives the partition up: the replies for all that wait.
    #[must_use]
    pub fn resign(mut self) -> Vec<(Token, Reply)> {
        let deletions = self.deletions.drain(..);
        let refused = deletions.map(|deletion| deletion.refused(ErrorCode::NotCoordinator));
        let mut replies: Vec<_> = refused.collect();
        for group in self.groups.values_mut() {
            replies.extend(
                group
                    .classic
                    .give_up(&mut self.timers, ErrorCode::NotCoordinator),
            );
        }
        replies
    }

    /// How many groups there are.
    #[must_use]
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// How many committed offsets there are.
    #[must_use]
    pub fn offset_count(&self) -> usize {
        self.offset_count
    }

    /// Every committed offset by group, topic and partition, in that order.
    pub fn committed_offsets(&self) -> impl Iterator<Item = (&Str, &Str, i32, i64)> {
        self.groups.iter().flat_map(|(group_id, group)| {
            let offsets = group.hard.offsets.iter();
            offsets.map(move |(topic, partition, value)| (group_id, topic, partition, value.offset))
        })
    }

    /// Lets `act` decide about a group, if there is one, and applies the records.
    pub(super) fn in_group(
        &mut self,
        now: Now,
        image: &MetadataImage,
        group_id: &Str,
        act: impl FnOnce(&mut Group, &mut Scene<'_>),
    ) -> Decision {
        let mut scene = Scene {
            now,
            config: &self.config,
            image,
            timers: &mut self.timers,
            applied: 0,
            decision: Decision::default(),
        };
        if let Some(group) = self.groups.get_mut(group_id) {
            act(group, &mut scene);
        }
        let (decision, applied) = (scene.decision, scene.applied);
        for record in decision.records.iter().skip(applied) {
            match decision.producer {
                Some((producer, _)) => self.replay_pending(producer, record),
                None => self.replay(record),
            }
        }
        decision
    }

    /// The records of a decision become state by replay, as they will after a restart.
    pub(super) fn apply(&mut self, decision: &Decision) {
        for record in &decision.records {
            self.replay(record);
        }
    }

    /// The group, made when there is none.
    pub(super) fn group_or_new(&mut self, group_id: &Str) -> &mut Group {
        if !self.groups.contains_key(group_id) {
            self.groups
                .insert(group_id.clone(), Group::new(group_id.clone(), None));
        }
        self.groups.get_mut(group_id).expect("inserted above")
    }

    /// Forgets a group of which nothing is left but soft state.
    pub(super) fn drop_if_nothing(&mut self, group_id: &Str) {
        let is_nothing = |group: &Group| group.hard.is_nothing() && group.classic.is_idle();
        if self.groups.get(group_id).is_some_and(is_nothing)
            && let Some(mut group) = self.groups.remove(group_id)
        {
            let left = group
                .classic
                .give_up(&mut self.timers, ErrorCode::CoordinatorNotAvailable);
            assert!(left.is_empty(), "an empty group has no members that wait");
            group.give_up_consumer(&mut self.timers);
        }
    }

    /// Looks for what expired, from where the round under way stands.
    fn expire(&mut self, now: Now) -> Decision {
        let mut decision = Decision::default();
        let mut room = Room {
            looks: GROUP_LOOKS_PER_TICK_MAX,
            tombstones: GROUP_TOMBSTONES_PER_TICK_MAX,
        };
        let (first, mut place) = match self.expiration.take() {
            Some((group_id, place)) => (Bound::Included(group_id), place),
            None => (Bound::Unbounded, None),
        };
        for (group_id, group) in self.groups.range((first, Bound::Unbounded)) {
            if room.is_used_up() {
                self.expiration = Some((group_id.clone(), None));
                break;
            }
            // A group without offsets is a look too.
            room.looks -= 1;
            let retention_ms = self.config.offsets_retention_ms;
            let from = place.take();
            let (records, next) = group.expired(now.time, retention_ms, from.as_ref(), &mut room);
            decision.records.extend(records);
            if next.is_some() {
                self.expiration = Some((group_id.clone(), next));
                break;
            }
        }
        let pause_ms = match &self.expiration {
            Some(_) => GROUP_EXPIRATION_PAUSE_MS,
            None => self.config.offsets_retention_check_interval_ms.max(1),
        };
        self.timers
            .arm(now.clock.plus_ms(pause_ms), Due::Expiration);
        self.apply(&decision);
        decision
    }
}

pub(super) fn answer(token: Token, reply: Reply) -> Decision {
    Decision {
        replies: vec![(token, reply)],
        ..Decision::default()
    }
}

/// An offset as Kafka before 0.9 wrote it.
fn upgrade(value: &LegacyOffsetCommitValue) -> OffsetCommitValue {
    OffsetCommitValue {
        offset: value.offset,
        metadata: value.metadata.clone(),
        commit_timestamp: value.commit_timestamp,
        ..OffsetCommitValue::default()
    }
}
