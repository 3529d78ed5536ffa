//! Requests of members and committers: what is checked before a group is looked at, and which group it is.

use std::ops::Bound;

use pelton_model::limits::{
    GROUP_LOOKS_PER_TICK_MAX, GROUP_TOMBSTONES_PER_TICK_MAX, GROUPS_PER_PARTITION_MAX,
};
use pelton_model::{ErrorCode, Str, TopicId};

use super::classic::State;
use super::consumer;
use super::shard::{Decision, Group, GroupShard, answer};
use super::{
    Command, ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply, Heartbeat, JoinGroup,
    JoinGroupReply, LeaveGroup, LeaveGroupReply, LeavingMember, LeftMember, Now, OffsetCommit,
    OffsetDelete, OffsetDeleteReply, OffsetFetch, OffsetFetchReply, Reply, SyncGroup,
    SyncGroupReply, Token,
};
use crate::image::MetadataImage;

impl GroupShard {
    pub(super) fn join_group(
        &mut self,
        now: Now,
        image: &MetadataImage,
        token: Token,
        join: JoinGroup,
    ) -> Decision {
        let refuse = |error, join: JoinGroup| {
            answer(
                token,
                Reply::JoinGroup(JoinGroupReply::refused(error, join.member_id)),
            )
        };
        if join.group_id.is_empty() {
            return refuse(ErrorCode::InvalidGroupId, join);
        }
        let timeouts = self.config.min_session_timeout_ms..=self.config.max_session_timeout_ms;
        if !timeouts.contains(&join.session_timeout_ms) {
            return refuse(ErrorCode::InvalidSessionTimeout, join);
        }
        let group_id = join.group_id.clone();
        let is_new = !self.groups.contains_key(&group_id);
        if is_new {
            if !join.member_id.is_empty() {
                return refuse(ErrorCode::UnknownMemberId, join);
            }
            if GROUPS_PER_PARTITION_MAX <= self.groups.len() {
                return refuse(ErrorCode::GroupMaxSizeReached, join);
            }
            let group = Group::new(group_id.clone(), Some(now.time));
            self.groups.insert(group_id.clone(), group);
        }
        let decision = self.in_group(now, image, &group_id, |group, scene| {
            if group.hard.consumer.is_some() {
                if !group.is_empty() {
                    return group.consumer_join(scene, token, &join);
                }
                if !join.member_id.is_empty() {
                    return scene.refuse_join(token, ErrorCode::UnknownMemberId, join.member_id);
                }
                group.become_classic(scene);
            }
            let is_new = is_new || group.hard.generation.is_none();
            group.classic.join(scene, token, join);
            // A restart should know the group, and its age, from the first.
            if is_new && !group.classic.is_idle() && scene.decision.records.len() == scene.applied {
                scene.write(group.classic.first_record());
            }
        });
        self.drop_if_nothing(&group_id);
        decision
    }

    pub(super) fn sync_group(
        &mut self,
        now: Now,
        image: &MetadataImage,
        token: Token,
        sync: SyncGroup,
    ) -> Decision {
        let refuse = |error| answer(token, Reply::SyncGroup(SyncGroupReply::refused(error)));
        if sync.group_id.is_empty() {
            return refuse(ErrorCode::InvalidGroupId);
        }
        let group_id = sync.group_id.clone();
        if !self.groups.contains_key(&group_id) {
            return refuse(ErrorCode::UnknownMemberId);
        }
        self.in_group(now, image, &group_id, |group, scene| {
            if group.hard.consumer.is_none() {
                return group.classic.sync(scene, token, sync);
            }
            let synced = group.consumer_sync(scene, &sync);
            scene.reply_sync(token, synced.unwrap_or_else(SyncGroupReply::refused));
        })
    }

    pub(super) fn heartbeat(
        &mut self,
        now: Now,
        image: &MetadataImage,
        token: Token,
        heartbeat: &Heartbeat,
    ) -> Decision {
        if heartbeat.group_id.is_empty() {
            return answer(token, Reply::Heartbeat(ErrorCode::InvalidGroupId));
        }
        if !self.groups.contains_key(&heartbeat.group_id) {
            return answer(token, Reply::Heartbeat(ErrorCode::UnknownMemberId));
        }
        self.in_group(now, image, &heartbeat.group_id, |group, scene| {
            let error = if group.hard.consumer.is_none() {
                group.classic.heartbeat(scene, heartbeat)
            } else {
                let outcome = group.consumer_member_heartbeat(scene, heartbeat);
                outcome.err().unwrap_or(ErrorCode::None)
            };
            scene.reply(token, Reply::Heartbeat(error));
        })
    }

    pub(super) fn leave_group(
        &mut self,
        now: Now,
        image: &MetadataImage,
        token: Token,
        leave: LeaveGroup,
    ) -> Decision {
        if leave.group_id.is_empty() {
            let refused = Command::LeaveGroup(leave).refused(ErrorCode::InvalidGroupId);
            return answer(token, refused);
        }
        if !self.groups.contains_key(&leave.group_id) {
            let unknown = |member: LeavingMember| LeftMember {
                member_id: member.member_id,
                group_instance_id: member.group_instance_id,
                error: ErrorCode::UnknownMemberId,
            };
            let reply = LeaveGroupReply {
                error: ErrorCode::None,
                members: leave.members.into_iter().map(unknown).collect(),
            };
            return answer(token, Reply::LeaveGroup(reply));
        }
        self.in_group(now, image, &leave.group_id, |group, scene| {
            let members = if group.hard.consumer.is_none() {
                group.classic.leave(scene, leave.members)
            } else {
                group.consumer_members_leave(scene, leave.members)
            };
            let error = ErrorCode::None;
            scene.reply(token, Reply::LeaveGroup(LeaveGroupReply { error, members }));
        })
    }

    pub(super) fn commit_offsets(
        &mut self,
        now: Now,
        image: &MetadataImage,
        token: Token,
        commit: OffsetCommit,
    ) -> Decision {
        if let Err(error) = self.check_commit(&commit, image) {
            return answer(token, Reply::OffsetCommit(commit.refused(error)));
        }
        let group_id = commit.group_id.clone();
        let is_new = !self.groups.contains_key(&group_id);
        if is_new {
            self.groups
                .insert(group_id.clone(), Group::new(group_id.clone(), None));
        }
        let in_all = self.offset_count + self.pending_count;
        let decision = self.in_group(now, image, &group_id, |group, scene| {
            scene.decision.producer = commit.producer;
            if commit.producer.is_none() {
                group.classic.on_commit(scene, &commit.member_id);
            }
            let outcomes = group.hard.offsets.commit(scene, commit, in_all);
            scene.reply(token, Reply::OffsetCommit(outcomes));
        });
        self.drop_if_nothing(&group_id);
        decision
    }

    fn check_commit(&self, commit: &OffsetCommit, image: &MetadataImage) -> Result<(), ErrorCode> {
        let generation_id = commit.generation_id_or_member_epoch;
        let Some(group) = self.groups.get(&commit.group_id) else {
            // Whoever is no member may commit for a group that is not there.
            return match generation_id < 0 {
                true if GROUPS_PER_PARTITION_MAX <= self.groups.len() => {
                    Err(ErrorCode::PolicyViolation)
                }
                true => Ok(()),
                false if commit.knows_stale_epochs => Err(ErrorCode::GroupIdNotFound),
                false => Err(ErrorCode::IllegalGeneration),
            };
        };
        if let Some(consumer) = &group.hard.consumer {
            let checked = consumer.check_commit(commit, image);
            return match checked {
                // Producers know no stale epochs.
                Err(ErrorCode::StaleMemberEpoch) if commit.producer.is_some() => {
                    Err(ErrorCode::IllegalGeneration)
                }
                checked => checked,
            };
        }
        let classic = &group.classic;
        if generation_id < 0 && classic.is_empty() {
            return Ok(());
        }
        let instance_id = commit.group_instance_id.as_ref();
        if 0 <= generation_id || !commit.member_id.is_empty() || instance_id.is_some() {
            classic.check_member(&commit.member_id, instance_id)?;
            if generation_id != classic.generation() {
                return Err(ErrorCode::IllegalGeneration);
            }
        } else if commit.producer.is_none() {
            return Err(ErrorCode::UnknownMemberId);
        }
        match classic.state() {
            // It knows of the generation from its JoinGroup, but has no assignment in it yet.
            State::CompletingRebalance if commit.producer.is_none() => {
                Err(ErrorCode::RebalanceInProgress)
            }
            State::Empty
            | State::PreparingRebalance
            | State::CompletingRebalance
            | State::Stable => Ok(()),
        }
    }

    pub(super) fn fetch_offsets(&self, fetch: OffsetFetch) -> OffsetFetchReply {
        let group = self.groups.get(&fetch.group_id);
        let consumer = group.and_then(|group| group.hard.consumer.as_ref());
        let checked = consumer.map_or(Ok(()), |consumer| {
            consumer.check_fetch(fetch.member_id.as_ref(), fetch.member_epoch)
        });
        if let Err(error) = checked {
            return OffsetFetchReply {
                error,
                topics: Vec::new(),
            };
        }
        let topics = match group {
            Some(group) => group.hard.offsets.fetch(fetch.topics, fetch.require_stable),
            // A group that is not there has no offsets, which is no error.
            None => super::offsets::Offsets::default().fetch(fetch.topics, false),
        };
        OffsetFetchReply {
            error: ErrorCode::None,
            topics,
        }
    }

    pub(super) fn delete_offsets(
        &mut self,
        now: Now,
        image: &MetadataImage,
        token: Token,
        delete: OffsetDelete,
    ) -> Decision {
        let reply = |error, topics| Reply::OffsetDelete(OffsetDeleteReply { error, topics });
        if let Err(error) = self.check_delete_offsets(&delete) {
            return answer(token, reply(error, Vec::new()));
        }
        let group_id = delete.group_id.clone();
        self.in_group(now, image, &group_id, |group, scene| {
            let is_subscribed = group.subscriptions();
            let outcomes = group.hard.offsets.delete(scene, delete, is_subscribed);
            scene.reply(token, reply(ErrorCode::None, outcomes));
        })
    }

    fn check_delete_offsets(&self, delete: &OffsetDelete) -> Result<(), ErrorCode> {
        if delete.group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        let group = self
            .groups
            .get(&delete.group_id)
            .ok_or(ErrorCode::GroupIdNotFound)?;
        // Whose subscriptions are no secret may lose offsets of other topics while it runs.
        let tells_topics = group.hard.consumer.is_some() || group.classic.is_of_consumers();
        if group.is_empty() || tells_topics {
            Ok(())
        } else {
            Err(ErrorCode::NonEmptyGroup)
        }
    }

    pub(super) fn consumer_group_heartbeat(
        &mut self,
        now: Now,
        image: &MetadataImage,
        token: Token,
        mut request: ConsumerGroupHeartbeat,
    ) -> Decision {
        let refuse = |(error, words): (ErrorCode, String)| {
            let refused = ConsumerGroupHeartbeatReply::refused(error, Some(Str::from(words)));
            answer(token, Reply::ConsumerGroupHeartbeat(refused))
        };
        if !self.config.consumer_protocol {
            let refused = ConsumerGroupHeartbeatReply::refused(ErrorCode::UnsupportedVersion, None);
            return answer(token, Reply::ConsumerGroupHeartbeat(refused));
        }
        if let Err(refused) = consumer::check(&request, &self.config.consumer.assignors) {
            return refuse(refused);
        }
        if request.member_id.is_empty() {
            request.member_id = Str::from(TopicId(request.random.to_be_bytes()).to_string());
        }
        let group_id = request.group_id.clone();
        if !self.groups.contains_key(&group_id) {
            if request.member_epoch != 0 {
                let words = format!("Group {group_id} not found.");
                return refuse((ErrorCode::GroupIdNotFound, words));
            }
            if GROUPS_PER_PARTITION_MAX <= self.groups.len() {
                let words = "The coordinator has as many groups as it can hold.".to_owned();
                return refuse((ErrorCode::GroupMaxSizeReached, words));
            }
            self.groups
                .insert(group_id.clone(), Group::new(group_id.clone(), None));
        }
        let decision = self.in_group(now, image, &group_id, |group, scene| {
            let outcome = if request.member_epoch < 0 {
                group.consumer_leave(scene, &request)
            } else {
                group.consumer_heartbeat(scene, request)
            };
            let reply = outcome.unwrap_or_else(|(error, words)| {
                ConsumerGroupHeartbeatReply::refused(error, Some(Str::from(words)))
            });
            scene.reply(token, Reply::ConsumerGroupHeartbeat(reply));
        });
        self.drop_if_nothing(&group_id);
        decision
    }

    /// Forgets offsets of topics that are deleted, a bounded number of them, from group `from` on. And the group to go on with; `None` is
    /// the end.
    #[must_use]
    pub fn topics_deleted(
        &mut self,
        topics: &[Str],
        from: Option<&Str>,
    ) -> (Decision, Option<Str>) {
        let mut decision = Decision::default();
        let mut next = None;
        let first = from.map_or(Bound::Unbounded, Bound::Included);
        let groups = self.groups.range::<Str, _>((first, Bound::Unbounded));
        for (looked, (group_id, group)) in groups.enumerate() {
            let room = GROUP_TOMBSTONES_PER_TICK_MAX.saturating_sub(decision.records.len());
            if room == 0 || GROUP_LOOKS_PER_TICK_MAX <= looked.saturating_mul(topics.len()) {
                next = Some(group_id.clone());
                break;
            }
            let tombstones = topics
                .iter()
                .flat_map(|topic| group.hard.offsets.delete_topic(group_id, topic));
            let before = decision.records.len();
            decision.records.extend(tombstones.take(room));
            if decision.records.len() - before == room {
                // There may be more in this very group.
                next = Some(group_id.clone());
                break;
            }
        }
        self.apply(&decision);
        (decision, next)
    }
}
