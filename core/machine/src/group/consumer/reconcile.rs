//! How a member comes from what it holds to what it should hold.
//!
//! 1. It stays in its epoch while it has partitions to give back; what it is to take up comes with the target's epoch.
//! 2. It is given only what nobody else owns. What is missing is looked for again with each heartbeat.
//!
//! Source: KIP-848, KIP-1251 (epochs of assignment).

use std::collections::{BTreeMap, BTreeSet};

use pelton_model::{Str, TopicId};

use super::{Consumer, Held, JOIN_EPOCH, Member, MemberState, Partitions};
use crate::group::TopicPartitions;

/// What a member is brought to.
pub(super) struct Goal<'a> {
    /// The target's epoch.
    pub(super) epoch: i32,
    /// What it should hold.
    pub(super) target: &'a Partitions,
    /// The topics it wants.
    pub(super) topics: &'a BTreeSet<TopicId>,
    /// Whether it has just changed its mind about them.
    pub(super) has_changed_topics: bool,
    /// What it says it holds; `None` when it says nothing.
    pub(super) owned: Option<&'a [TopicPartitions]>,
}

impl Goal<'_> {
    /// The member after one more step.
    pub(super) fn step(&self, consumer: &Consumer, member_id: &Str, member: &Member) -> Member {
        match member.state {
            MemberState::Stable if member.epoch != self.epoch => {
                self.advance(consumer, member_id, member)
            }
            MemberState::Stable if self.has_changed_topics => self.drop_unwanted(member),
            MemberState::Stable => member.clone(),
            MemberState::Unrevoked if self.still_owns(&member.revoking) => {
                if self.has_changed_topics {
                    self.drop_unwanted(member)
                } else {
                    member.clone()
                }
            }
            MemberState::Unrevoked | MemberState::Unreleased | MemberState::Unknown(_) => {
                self.advance(consumer, member_id, member)
            }
        }
    }

    /// Whether the member still holds what it is to give back. Saying nothing, it does.
    fn still_owns(&self, revoking: &Held) -> bool {
        let Some(owned) = self.owned else {
            return true;
        };
        owned.iter().any(|topic| {
            revoking.get(&topic.topic_id).is_some_and(|revoking| {
                topic
                    .partitions
                    .iter()
                    .any(|partition| revoking.contains_key(partition))
            })
        })
    }

    /// Takes away what the member does not want any more, without waiting for a target that knows.
    fn drop_unwanted(&self, member: &Member) -> Member {
        let mut next = member.clone();
        let unwanted = |topic_id: &&TopicId| !self.topics.contains(topic_id);
        let unwanted: Vec<TopicId> = member.assigned.keys().filter(unwanted).copied().collect();
        if unwanted.is_empty() {
            return next;
        }
        for topic_id in unwanted {
            if let Some(partitions) = next.assigned.remove(&topic_id) {
                next.revoking
                    .entry(topic_id)
                    .or_default()
                    .extend(partitions);
            }
        }
        if self.still_owns(&next.revoking) {
            next.state = MemberState::Unrevoked;
        } else {
            next.revoking.clone_from(&member.revoking);
        }
        next
    }

    fn advance(&self, consumer: &Consumer, member_id: &Str, member: &Member) -> Member {
        let mut kept = Held::new();
        let mut revoking = Held::new();
        for (topic_id, partitions) in &member.assigned {
            for (partition, epoch) in partitions {
                let place = if self.should_hold(*topic_id, *partition) {
                    &mut kept
                } else {
                    &mut revoking
                };
                place
                    .entry(*topic_id)
                    .or_default()
                    .insert(*partition, *epoch);
            }
        }
        let mut next = member.clone();
        if self.still_owns(&revoking) && !revoking.is_empty() {
            next.state = MemberState::Unrevoked;
            next.assigned = kept;
            next.revoking = revoking;
            return next;
        }
        let mut is_missing_some = false;
        for (topic_id, partitions) in self.target {
            if !self.topics.contains(topic_id) {
                continue;
            }
            for partition in partitions {
                // What it gives back itself is free for itself.
                let is_free = consumer
                    .owner(*topic_id, *partition)
                    .is_none_or(|owner| owner == member_id);
                if is_free {
                    let mine: &mut BTreeMap<i32, i32> = kept.entry(*topic_id).or_default();
                    mine.entry(*partition).or_insert(self.epoch);
                } else {
                    is_missing_some = true;
                }
            }
        }
        next.state = if is_missing_some {
            MemberState::Unreleased
        } else {
            MemberState::Stable
        };
        if next.epoch != self.epoch {
            next.previous_epoch = if next.epoch == JOIN_EPOCH {
                0
            } else {
                next.epoch
            };
            next.epoch = self.epoch;
        }
        next.assigned = kept;
        next.revoking = Held::new();
        next
    }

    fn should_hold(&self, topic_id: TopicId, partition: i32) -> bool {
        self.topics.contains(&topic_id)
            && self
                .target
                .get(&topic_id)
                .is_some_and(|partitions| partitions.contains(&partition))
    }
}
