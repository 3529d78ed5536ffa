//! Which shard owns a partition: a pure function, so that nothing about shards is ever on disk and any `--cores` works
//! on any directory.

use crate::id::{ShardId, TopicPartition};

/// The shard that owns `partition` when there are `shard_count` shards.
///
/// Consecutive partitions of a topic go to consecutive shards.
///
/// # Panics
/// When `shard_count` is 0.
#[must_use]
pub fn shard_of(partition: TopicPartition, shard_count: u16) -> ShardId {
    assert!(shard_count > 0);
    let id = u128::from_be_bytes(partition.topic_id.0);
    #[expect(clippy::cast_possible_truncation, reason = "folds 128 bits into 64")]
    let folded = (id as u64) ^ ((id >> 64) as u64);
    let first = folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let index = first + u64::from(partition.partition.0.unsigned_abs());
    ShardId(u16::try_from(index % u64::from(shard_count)).expect("below shard_count"))
}
