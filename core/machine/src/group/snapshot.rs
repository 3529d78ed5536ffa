//! Hard state as the records that say it: what compaction would leave of the log.

use pelton_model::Str;
use pelton_model::record_type::group::{
    GroupMetadataKey, GroupRecord, OffsetCommitKey, OffsetCommitValue,
};

use super::shard::GroupShard;

impl GroupShard {
    /// The records that lead to the hard state there is, offsets of open transactions aside.
    #[must_use]
    pub fn to_records(&self) -> Vec<GroupRecord> {
        let mut records = Vec::new();
        for (group_id, group) in &self.groups {
            if let Some(value) = &group.hard.generation {
                let key = GroupMetadataKey {
                    group: group_id.clone(),
                };
                records.push(GroupRecord::GroupMetadata(key, Some(value.clone())));
            }
            if let Some(consumer) = &group.hard.consumer {
                records.extend(consumer.to_records(group_id));
            }
            let offset = |(topic, partition, value): (&Str, i32, &OffsetCommitValue)| {
                let key = OffsetCommitKey {
                    group: group_id.clone(),
                    topic: topic.clone(),
                    partition,
                };
                GroupRecord::OffsetCommit(key, Some(value.clone()))
            };
            records.extend(group.hard.offsets.iter().map(offset));
        }
        records
    }
}
