//! OffsetCommit and OffsetDelete: what a request means for each partition.

use pelton_model::limits::COMMITTED_OFFSETS_PER_PARTITION_MAX;
use pelton_model::record_type::group::{GroupRecord, OffsetCommitKey, OffsetCommitValue};
use pelton_model::{ErrorCode, Str, TopicId};

use super::{Offsets, tombstone};
use crate::group::scene::Scene;
use crate::group::{CommitPartition, OffsetCommit, OffsetDelete, TopicCodes};

impl Offsets {
    /// Writes the offsets of a commit whose member was checked; `in_all` counts the offsets of the whole coordinator.
    pub(in crate::group) fn commit(
        &self,
        scene: &mut Scene<'_>,
        commit: OffsetCommit,
        in_all: usize,
    ) -> Vec<TopicCodes> {
        let now = scene.now.time.0;
        let expires = commit
            .retention_ms
            .map_or(-1, |retention| now.saturating_add(retention));
        let mut room = COMMITTED_OFFSETS_PER_PARTITION_MAX.saturating_sub(in_all);
        let mut outcomes = Vec::with_capacity(commit.topics.len());
        for topic in commit.topics {
            let mut codes = Vec::with_capacity(topic.partitions.len());
            for partition in topic.partitions {
                // In a transaction each is one more until it ends.
                let is_new =
                    commit.producer.is_some() || self.get(&topic.name, partition.index).is_none();
                let error = self.check(scene, &partition, is_new && room == 0);
                codes.push((partition.index, error));
                if error != ErrorCode::None {
                    continue;
                }
                room -= usize::from(is_new);
                let key = OffsetCommitKey {
                    group: commit.group_id.clone(),
                    topic: topic.name.clone(),
                    partition: partition.index,
                };
                let value = OffsetCommitValue {
                    offset: partition.offset,
                    leader_epoch: partition.leader_epoch,
                    metadata: partition.metadata.unwrap_or_default(),
                    commit_timestamp: now,
                    expire_timestamp: expires,
                    // A record with a retention of its own has no place for it.
                    topic_id: commit
                        .retention_ms
                        .map_or(topic.topic_id, |_| TopicId::ZERO),
                };
                scene.write(GroupRecord::OffsetCommit(key, Some(value)));
            }
            outcomes.push(TopicCodes {
                name: topic.name,
                topic_id: topic.topic_id,
                partitions: codes,
            });
        }
        outcomes
    }

    #[expect(clippy::unused_self, reason = "reads with its caller")]
    fn check(&self, scene: &Scene<'_>, partition: &CommitPartition, is_full: bool) -> ErrorCode {
        let note = partition.metadata.as_deref().unwrap_or("");
        let bytes_max = scene.config.offset_metadata_max_bytes;
        // Kafka counts UTF-16 units, whatever the setting is called; they are never more than bytes.
        if bytes_max < note.len() && bytes_max < note.encode_utf16().count() {
            return ErrorCode::OffsetMetadataTooLarge;
        }
        if is_full {
            return ErrorCode::PolicyViolation;
        }
        ErrorCode::None
    }

    /// Forgets offsets, save those of topics that somebody reads.
    pub(in crate::group) fn delete(
        &self,
        scene: &mut Scene<'_>,
        delete: OffsetDelete,
        is_subscribed: impl Fn(&Str) -> bool,
    ) -> Vec<(Str, Vec<(i32, ErrorCode)>)> {
        let mut outcomes = Vec::with_capacity(delete.topics.len());
        for (topic, partitions) in delete.topics {
            let error = if is_subscribed(&topic) {
                ErrorCode::GroupSubscribedToTopic
            } else {
                ErrorCode::None
            };
            for partition in &partitions {
                let is_there =
                    self.get(&topic, *partition).is_some() || self.is_pending(&topic, *partition);
                if error == ErrorCode::None && is_there {
                    scene.write(tombstone(&delete.group_id, &topic, *partition));
                }
            }
            let codes = partitions
                .into_iter()
                .map(|partition| (partition, error))
                .collect();
            outcomes.push((topic, codes));
        }
        outcomes
    }
}
