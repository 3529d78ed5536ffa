//! OffsetFetch: committed offsets, as asked or all.

use pelton_model::record_type::group::OffsetCommitValue;
use pelton_model::{ErrorCode, Str, TopicId};

use super::Offsets;
use crate::group::{FetchTopic, FetchedPartition, FetchedTopic};

impl Offsets {
    /// The offsets asked for, or all. A partition without one has −1.
    pub(in crate::group) fn fetch(
        &self,
        topics: Option<Vec<FetchTopic>>,
        require_stable: bool,
    ) -> Vec<FetchedTopic> {
        match topics {
            Some(topics) => {
                let asked = |topic: FetchTopic| self.fetch_topic(topic, require_stable);
                topics.into_iter().map(asked).collect()
            }
            None => self.fetch_all(require_stable),
        }
    }

    fn fetch_topic(&self, topic: FetchTopic, require_stable: bool) -> FetchedTopic {
        let one = |index: i32| self.fetch_partition(&topic.name, index, require_stable);
        FetchedTopic {
            partitions: topic.partitions.iter().map(|index| one(*index)).collect(),
            name: topic.name,
            topic_id: topic.topic_id,
        }
    }

    fn fetch_all(&self, require_stable: bool) -> Vec<FetchedTopic> {
        let topic =
            |(name, partitions): (&Str, &std::collections::BTreeMap<i32, OffsetCommitValue>)| {
                let one = |index: &i32| self.fetch_partition(name, *index, require_stable);
                FetchedTopic {
                    name: name.clone(),
                    topic_id: TopicId::ZERO,
                    partitions: partitions.keys().map(one).collect(),
                }
            };
        self.committed.iter().map(topic).collect()
    }

    fn fetch_partition(&self, topic: &Str, index: i32, require_stable: bool) -> FetchedPartition {
        let none = |error| FetchedPartition {
            index,
            offset: -1,
            leader_epoch: -1,
            metadata: Str::default(),
            error,
        };
        if require_stable && self.is_pending(topic, index) {
            return none(ErrorCode::UnstableOffsetCommit);
        }
        match self.get(topic, index) {
            None => none(ErrorCode::None),
            Some(value) => FetchedPartition {
                index,
                offset: value.offset,
                leader_epoch: value.leader_epoch,
                metadata: value.metadata.clone(),
                error: ErrorCode::None,
            },
        }
    }
}
