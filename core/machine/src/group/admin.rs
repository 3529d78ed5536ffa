//! Groups as tools see them: lists, descriptions, deletion, and what becomes of groups that nobody uses.

use std::collections::VecDeque;

use pelton_model::limits::{GROUP_TOMBSTONES_PER_TICK_MAX, GROUPS_DELETED_PER_TICK_MAX};
use pelton_model::record_type::group::{GroupMetadataKey, GroupRecord};
use pelton_model::{ErrorCode, Str, Timestamp};

use super::classic::{CONSUMER, Classic, Member, State};
use super::offsets::{AgeFrom, Expiry, Place, Room};
use super::shard::{Decision, Group, GroupShard};
use super::timers::Due;
use super::{
    ConsumerGroupDescribe, DeleteGroups, DescribeGroups, DescribedConsumerGroup, DescribedGroup,
    DescribedMember, ListGroups, ListedGroup, Now, Reply, Token,
};
use crate::image::MetadataImage;

/// The type of classic groups, as Kafka spells it.
const CLASSIC_TYPE: &str = "classic";
/// The type of consumer groups, as Kafka spells it.
const CONSUMER_TYPE: &str = "consumer";
/// The state of a group that is not there, as Kafka spells it.
const DEAD: &str = "Dead";

impl Group {
    /// Tombstones of what nobody needs any more, from `from` on: expired offsets within `room`, which shrinks, and the group itself when
    /// it is empty and has none left. And where to go on; `None` is the end.
    pub(super) fn expired(
        &self,
        now: Timestamp,
        retention_ms: i64,
        from: Option<&Place>,
        room: &mut Room,
    ) -> (Vec<GroupRecord>, Option<Place>) {
        let group_id = &self.classic.group_id;
        let age_from = match &self.hard.consumer {
            Some(_) => Some(AgeFrom::Commit),
            None => age_from(&self.classic),
        };
        let offsets = &self.hard.offsets;
        let (mut records, next) = match age_from {
            Some(age_from) => {
                let expiry = Expiry {
                    group_id,
                    now,
                    retention_ms,
                    age_from,
                    is_subscribed: self.subscriptions(),
                };
                offsets.expire(&expiry, from, room)
            }
            None => (Vec::new(), None),
        };
        let none_left = next.is_none() && offsets.is_nothing_after(records.len());
        if none_left && self.is_empty() && self.classic.is_idle() {
            let before = records.len();
            match &self.hard.consumer {
                Some(consumer) => records.extend(consumer.tombstones(group_id)),
                None => records.push(tombstone(group_id)),
            }
            room.tombstones = room.tombstones.saturating_sub(records.len() - before);
        }
        (records, next)
    }
}

/// From when the offsets of a group age; `None` while they do not (KIP-211).
fn age_from(classic: &Classic) -> Option<AgeFrom> {
    if classic.protocol_type().is_none() {
        // Offsets of clients that are in no group.
        return Some(AgeFrom::Commit);
    }
    match classic.state() {
        State::Empty => Some(classic.since().map_or(AgeFrom::Commit, AgeFrom::Moment)),
        State::Stable if classic.subscribed().is_some() => Some(AgeFrom::Commit),
        State::PreparingRebalance | State::CompletingRebalance | State::Stable => None,
    }
}

fn tombstone(group_id: &Str) -> GroupRecord {
    let key = GroupMetadataKey {
        group: group_id.clone(),
    };
    GroupRecord::GroupMetadata(key, None)
}

/// A DeleteGroups request that is being carried out.
#[derive(Debug)]
pub(super) struct Deletion {
    token: Token,
    left: VecDeque<Str>,
    outcomes: Vec<(Str, ErrorCode)>,
}

impl Deletion {
    /// The answer where the rest cannot be done here.
    pub(super) fn refused(self, error: ErrorCode) -> (Token, Reply) {
        let done = self.outcomes.into_iter().map(|(group_id, _)| group_id);
        let all = done.chain(self.left).map(|group_id| (group_id, error));
        (self.token, Reply::DeleteGroups(all.collect()))
    }
}

impl GroupShard {
    pub(super) fn list_groups(&self, list: &ListGroups) -> Vec<ListedGroup> {
        let passes = |filter: &[Str], value: &str| {
            filter.is_empty()
                || filter
                    .iter()
                    .any(|one| one.trim().eq_ignore_ascii_case(value))
        };
        let mut listed = Vec::new();
        for (group_id, group) in &self.groups {
            let (state, group_type) = match &group.hard.consumer {
                Some(consumer) => (consumer.state_name(), CONSUMER_TYPE),
                None => (group.classic.state().name(), CLASSIC_TYPE),
            };
            if passes(&list.states, state) && passes(&list.types, group_type) {
                let protocol_type = match &group.hard.consumer {
                    Some(_) => Str::new_static(CONSUMER),
                    None => group.classic.protocol_type().cloned().unwrap_or_default(),
                };
                listed.push(ListedGroup {
                    group_id: group_id.clone(),
                    protocol_type,
                    state,
                    group_type,
                });
            }
        }
        listed
    }

    pub(super) fn describe_groups(&self, describe: &DescribeGroups) -> Vec<DescribedGroup> {
        let is_error = describe.knows_group_id_not_found;
        let one = |group_id: &Str| match self.groups.get(group_id) {
            Some(group) if group.hard.consumer.is_none() => described(&group.classic),
            Some(_) => unknown(group_id, "is not a classic group.", is_error),
            None => unknown(group_id, "not found.", is_error),
        };
        describe.group_ids.iter().map(one).collect()
    }

    pub(super) fn describe_consumer_groups(
        &self,
        image: &MetadataImage,
        describe: &ConsumerGroupDescribe,
    ) -> Vec<DescribedConsumerGroup> {
        let refuse = |group_id: &Str, words: &str| {
            let words = Str::from(format!("Group {group_id} {words}"));
            let error = ErrorCode::GroupIdNotFound;
            DescribedConsumerGroup::refused(error, Some(words), group_id.clone())
        };
        if !self.config.consumer_protocol {
            let error = ErrorCode::UnsupportedVersion;
            let off =
                |group_id: &Str| DescribedConsumerGroup::refused(error, None, group_id.clone());
            return describe.group_ids.iter().map(off).collect();
        }
        let one = |group_id: &Str| match self.groups.get(group_id) {
            None => refuse(group_id, "not found."),
            Some(group) => match &group.hard.consumer {
                None => refuse(group_id, "is not a consumer group."),
                Some(consumer) => {
                    consumer.describe(group_id, image, &self.config.consumer.assignors)
                }
            },
        };
        describe.group_ids.iter().map(one).collect()
    }

    pub(super) fn delete_groups(
        &mut self,
        now: Now,
        image: &MetadataImage,
        token: Token,
        delete: DeleteGroups,
    ) -> Decision {
        self.deletions.push_back(Deletion {
            token,
            left: delete.group_ids.into(),
            outcomes: Vec::new(),
        });
        // Those before it go on when their deadline comes, which is now.
        if self.deletions.len() == 1 {
            self.go_on_deleting(now, image)
        } else {
            Decision::default()
        }
    }

    /// Deletes groups that were asked for, a bounded number of them: each whole, and the rest a moment later.
    pub(super) fn go_on_deleting(&mut self, now: Now, image: &MetadataImage) -> Decision {
        let mut all = Decision::default();
        let mut groups = 0;
        while let Some(mut deletion) = self.deletions.pop_front() {
            let is_enough = |all: &Decision, groups: usize| {
                GROUPS_DELETED_PER_TICK_MAX <= groups
                    || GROUP_TOMBSTONES_PER_TICK_MAX <= all.records.len()
            };
            while !is_enough(&all, groups)
                && let Some(group_id) = deletion.left.pop_front()
            {
                groups += 1;
                let (records, error) = self.delete_group(now, image, &group_id);
                all.records.extend(records);
                deletion.outcomes.push((group_id, error));
            }
            if deletion.left.is_empty() {
                let reply = Reply::DeleteGroups(deletion.outcomes);
                all.replies.push((deletion.token, reply));
            } else {
                self.deletions.push_front(deletion);
                self.timers.arm(now.clock, Due::Deletion);
                break;
            }
        }
        all
    }

    fn delete_group(
        &mut self,
        now: Now,
        image: &MetadataImage,
        group_id: &Str,
    ) -> (Vec<GroupRecord>, ErrorCode) {
        if let Err(error) = self.check_delete(group_id) {
            return (Vec::new(), error);
        }
        let decision = self.in_group(now, image, group_id, |group, scene| {
            let is_classic = group.hard.consumer.is_none();
            group.erase_consumer(scene);
            for record in group.hard.offsets.delete_all(group_id) {
                scene.write(record);
            }
            if is_classic {
                scene.write(tombstone(group_id));
            }
        });
        self.drop_if_nothing(group_id);
        (decision.records, ErrorCode::None)
    }

    fn check_delete(&self, group_id: &Str) -> Result<(), ErrorCode> {
        // A group without a name is one like others: simple consumers commit to it.
        let group = self
            .groups
            .get(group_id)
            .ok_or(ErrorCode::GroupIdNotFound)?;
        if group.is_empty() {
            Ok(())
        } else {
            Err(ErrorCode::NonEmptyGroup)
        }
    }
}

fn unknown(group_id: &Str, words: &str, is_error: bool) -> DescribedGroup {
    let refused = if is_error {
        let message = Str::from(format!("Group {group_id} {words}"));
        DescribedGroup::refused(ErrorCode::GroupIdNotFound, Some(message), group_id.clone())
    } else {
        DescribedGroup::refused(ErrorCode::None, None, group_id.clone())
    };
    DescribedGroup {
        state: DEAD,
        ..refused
    }
}

fn described(classic: &Classic) -> DescribedGroup {
    let is_stable = classic.state() == State::Stable;
    // Between generations there is no protocol by which subscriptions could be read; assignments stay the last ones.
    let protocol = classic.protocol().filter(|_| is_stable);
    let member = |(id, member): (&Str, &Member)| DescribedMember {
        member_id: id.clone(),
        group_instance_id: member.instance_id.clone(),
        client_id: member.client.id.clone(),
        client_host: member.client.host.clone(),
        metadata: member.metadata(protocol),
        assignment: member.assignment(),
    };
    DescribedGroup {
        error: ErrorCode::None,
        error_message: None,
        group_id: classic.group_id.clone(),
        state: classic.state().name(),
        protocol_type: classic.protocol_type().cloned().unwrap_or_default(),
        protocol: protocol.cloned().unwrap_or_default(),
        members: classic.members().iter().map(member).collect(),
    }
}
