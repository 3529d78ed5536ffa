//! DescribeLogDirs: every log directory, what lies in it and how full its volume is.
//!
//! Kafka's ways that are kept: a directory without a partition that was asked for is listed with no topics; partitions that do not exist
//! are left out; a directory that has failed is KAFKA_STORAGE_ERROR and nothing else; the metadata log is in no answer.
//!
//! Source: KIP-113, KIP-827, KIP-1066.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use pelton_model::{ErrorCode, ShardId};
use pelton_protocol::codec::Str;
use pelton_protocol::message::describe_log_dirs::{
    DescribableLogDirTopic, DescribeLogDirsPartition, DescribeLogDirsRequest,
    DescribeLogDirsResponse, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use pelton_storage::disk::Disk;

use super::Handled;
use crate::boot::Directory;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;
use crate::shard::Shard;
use crate::shard::directory::DirIndex;
use crate::shard::message::{self, LogSize, Response};

/// Partitions by directory and topic.
type ByTopic = BTreeMap<Str, Vec<DescribeLogDirsPartition>>;

/// Answers a DescribeLogDirs request; an error closes the connection.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: DescribeLogDirsRequest = request.body()?;
    let shard = &client.shard;
    let wanted = asked.topics.as_deref().map(wanted);
    let mut by_dir: BTreeMap<DirIndex, ByTopic> = BTreeMap::new();
    // Where every core is a node, each tells of its own: tools ask them all and add up.
    let asked_shards: Vec<ShardId> = if client.is_core_direct() {
        vec![shard.id]
    } else {
        shard.shards().collect()
    };
    for size in sizes(shard, asked_shards).await {
        let is_wanted = |wanted: &BTreeMap<&str, BTreeSet<i32>>| {
            let partitions = wanted.get(&*size.topic);
            partitions.is_some_and(|partitions| partitions.contains(&size.partition))
        };
        if !wanted.as_ref().is_none_or(is_wanted) {
            continue;
        }
        let by_topic = by_dir.entry(size.dir).or_default();
        let partitions = by_topic.entry(Str::from(&*size.topic)).or_default();
        partitions.push(DescribeLogDirsPartition {
            partition_index: size.partition,
            partition_size: i64::try_from(size.size_bytes).unwrap_or(i64::MAX),
            offset_lag: size.offset_lag,
            is_future_key: size.is_future,
        });
    }
    let mut results = Vec::new();
    for (dir, directory) in (0_u16..).map(DirIndex).zip(&shard.identity().directories) {
        if directory.takes_partitions {
            let topics = by_dir.remove(&dir).unwrap_or_default();
            results.push(described(shard, dir, directory, topics).await);
        }
    }
    Ok(request.respond(&DescribeLogDirsResponse {
        results,
        ..DescribeLogDirsResponse::default()
    }))
}

fn wanted(topics: &[DescribableLogDirTopic]) -> BTreeMap<&str, BTreeSet<i32>> {
    let mut wanted: BTreeMap<&str, BTreeSet<i32>> = BTreeMap::new();
    for topic in topics {
        let partitions = wanted.entry(&topic.topic).or_default();
        partitions.extend(&topic.partitions);
    }
    wanted
}

/// Asks shards what their logs hold.
async fn sizes<E: Env>(shard: &Rc<Shard<E>>, peers: Vec<ShardId>) -> Vec<LogSize> {
    let mut sizes = Vec::new();
    for peer in peers {
        if let Response::LogSizes(more) = shard.ask(peer, message::Request::LogSizes).await {
            sizes.extend(more);
        }
    }
    sizes.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
    sizes
}

async fn described<E: Env>(
    shard: &Shard<E>,
    dir: DirIndex,
    directory: &Directory,
    topics: ByTopic,
) -> DescribeLogDirsResult {
    let log_dir = Str::from(directory.absolute().to_string_lossy());
    let failed = |log_dir| DescribeLogDirsResult {
        error_code: ErrorCode::KafkaStorageError.code(),
        log_dir,
        ..DescribeLogDirsResult::default()
    };
    if shard.directories.is_failed(dir) {
        return failed(log_dir);
    }
    let Ok(space) = shard.store.disk().space(&directory.path).await else {
        return failed(log_dir);
    };
    let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let topics = topics.into_iter();
    DescribeLogDirsResult {
        error_code: ErrorCode::None.code(),
        log_dir,
        topics: topics
            .map(|(name, partitions)| DescribeLogDirsTopic { name, partitions })
            .collect(),
        total_bytes: bytes(space.total_bytes),
        usable_bytes: bytes(space.usable_bytes),
        is_cordoned: shard.is_cordoned(directory),
    }
}
