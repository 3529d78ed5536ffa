//! The group's epoch and its target assignment.
//!
//! 1. The epoch grows when membership, a subscription, or a topic that is read changes; the target follows, at most once
//!    in `group.consumer.assignment.interval.ms`, and then for all at once.
//! 2. What topics look like is remembered as a hash in the group's record, so that a restart neither misses a change nor
//!    makes one up.

use std::collections::BTreeMap;

use pelton_model::record_type::group::{
    ConsumerGroupPartitionMetadataKey, ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue, GroupRecord,
};
use pelton_model::{Str, TopicId};

use super::assign::{self, Seat, Seats};
use super::{Consumer, Partitions, RANGE, UNIFORM, assign_due, records, topic_ids};
use crate::group::scene::Scene;
use crate::group::shard::Group;
use crate::image::MetadataImage;

impl Group {
    /// Begins a new epoch if asked, or if the topics that are read have changed.
    pub(super) fn refresh_epoch(
        &mut self,
        scene: &mut Scene<'_>,
        image: &MetadataImage,
        is_asked: bool,
    ) {
        let group_id = self.classic.group_id.clone();
        self.soft.image_seen = Some(image.applied());
        let Some(consumer) = &self.hard.consumer else {
            return;
        };
        let hash = metadata_hash(consumer, image);
        if !is_asked && hash == consumer.metadata_hash {
            return;
        }
        let epoch = consumer.epoch.saturating_add(1);
        let has_partition_metadata = consumer.has_partition_metadata;
        self.put(scene, records::epoch(&group_id, Some((epoch, hash))));
        if has_partition_metadata {
            let key = ConsumerGroupPartitionMetadataKey { group_id };
            self.put(
                scene,
                GroupRecord::ConsumerGroupPartitionMetadata(key, None),
            );
        }
    }

    /// Computes the target of the group's epoch, unless it is there or the last is too fresh.
    pub(super) fn assign_if_due(&mut self, scene: &mut Scene<'_>, image: &MetadataImage) {
        let Some(consumer) = &self.hard.consumer else {
            return;
        };
        if consumer.epoch <= consumer.assignment_epoch {
            return;
        }
        let interval_ms = scene.times(&self.classic.group_id).assignment_interval_ms;
        let since_ms = scene
            .now
            .time
            .0
            .saturating_sub(consumer.assignment_timestamp);
        let wait_ms = i64::from(interval_ms).saturating_sub(since_ms.max(0));
        if 0 < wait_ms {
            if self.soft.assign_at.is_none() {
                let at = scene.after_ms(i32::try_from(wait_ms).unwrap_or(i32::MAX));
                scene.timers.arm(at, assign_due(&self.classic.group_id));
                self.soft.assign_at = Some(at);
            }
            return;
        }
        if let Some(at) = self.soft.assign_at.take() {
            scene.timers.disarm(at, assign_due(&self.classic.group_id));
        }
        self.assign(scene, image);
    }

    /// The wait for the next target has ended.
    pub(in crate::group) fn on_assign_due(&mut self, scene: &mut Scene<'_>, image: &MetadataImage) {
        self.soft.assign_at = None;
        self.assign_if_due(scene, image);
    }

    fn assign(&mut self, scene: &mut Scene<'_>, image: &MetadataImage) {
        let Some(consumer) = &self.hard.consumer else {
            return;
        };
        let seats = seats(consumer, image);
        let mut topics: BTreeMap<TopicId, i32> = BTreeMap::new();
        for topic_id in seats.values().flat_map(|seat| &seat.topics) {
            if let Some(topic) = image.topic(*topic_id) {
                topics.insert(*topic_id, topic.partition_count());
            }
        }
        let name = consumer.assignor(&scene.config.consumer.assignors);
        let targets = if name == RANGE {
            assign::range(&seats, &topics)
        } else {
            assign::uniform(&seats, &topics)
        };
        let group_id = self.classic.group_id.clone();
        let epoch = consumer.epoch;
        let is_new = |(id, target): &(Str, Partitions)| consumer.targets.get(id) != Some(target);
        let changed: Vec<(Str, Partitions)> = targets.into_iter().filter(is_new).collect();
        for (member_id, target) in &changed {
            self.put(scene, records::target(&group_id, member_id, Some(target)));
        }
        let key = ConsumerGroupTargetAssignmentMetadataKey { group_id };
        let value = ConsumerGroupTargetAssignmentMetadataValue {
            assignment_epoch: epoch,
            assignment_timestamp: scene.now.time.0,
        };
        self.put(
            scene,
            GroupRecord::ConsumerGroupTargetAssignmentMetadata(key, Some(value)),
        );
    }
}

impl Consumer {
    /// The assignor that most members ask for, else the first on offer.
    pub(super) fn assignor<'a>(&'a self, on_offer: &'a [String]) -> &'a str {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            if let Some(name) = &member.wants.server_assignor
                && on_offer.iter().any(|one| one == name.as_str())
            {
                *votes.entry(name).or_default() += 1;
            }
        }
        let most = votes.values().max().copied();
        let chosen = votes.into_iter().find(|(_, count)| Some(*count) == most);
        let first = on_offer.first().map_or(UNIFORM, String::as_str);
        chosen.map_or(first, |(name, _)| name)
    }
}

fn seats(consumer: &Consumer, image: &MetadataImage) -> Seats {
    let mut seats = Seats::new();
    for (member_id, member) in &consumer.members {
        let name = member.wants.instance_id.as_ref().unwrap_or(member_id);
        let seat = Seat {
            name: name.clone(),
            topics: topic_ids(image, consumer.names_of(&member.wants)),
            before: consumer.targets.get(member_id).cloned().unwrap_or_default(),
        };
        seats.insert(member_id.clone(), seat);
    }
    seats
}

/// A hash of what the topics that are read look like; 0 while there are none.
fn metadata_hash(consumer: &Consumer, image: &MetadataImage) -> i64 {
    let mut hash = FNV_BASIS;
    let mut is_empty = true;
    for name in consumer.topic_names() {
        if let Some(topic) = image.topic_by_name(&name) {
            is_empty = false;
            let id = topic.id().0;
            let count = topic.partition_count().to_be_bytes();
            for byte in id.iter().chain(&count) {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
            }
        }
    }
    if is_empty { 0 } else { hash.cast_signed() }
}

/// FNV-1a, which must not change: its values are on disk.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;
