//! AlterReplicaLogDirs: partitions are to lie in other log directories of this node; answered when the moves have begun.
//!
//! Kafka's ways that are kept: a directory is named by its absolute path, letter for letter; a partition that is named for several
//! directories goes to the last of them and is answered once; a directory that takes no new partitions is INVALID_REPLICA_ASSIGNMENT, also
//! for a partition that it holds.
//!
//! Source: KIP-113, KIP-1066.

use std::collections::BTreeMap;
use std::path::Path;

use pelton_model::{ErrorCode, PartitionId, ShardId, TopicId, TopicPartition};
use pelton_protocol::codec::Str;
use pelton_protocol::message::alter_replica_log_dirs::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult, AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
};
use pelton_storage::dir::future_path;

use super::Handled;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;
use crate::shard::Shard;
use crate::shard::directory::DirIndex;
use crate::shard::message::{self, Response};

/// Partitions of this node by topic and index, each with the path where it is to lie.
type Wanted = BTreeMap<Str, BTreeMap<i32, Str>>;

/// A partition to be moved: its owner, topic and index, which it is, and where to.
type Move = (ShardId, (Str, i32), (TopicPartition, DirIndex));

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: AlterReplicaLogDirsRequest = request.body()?;
    let shard = &client.shard;
    let mut wanted = Wanted::new();
    for dir in &asked.dirs {
        for topic in &dir.topics {
            let partitions = wanted.entry(topic.name.clone()).or_default();
            let to = topic
                .partitions
                .iter()
                .map(|index| (*index, dir.path.clone()));
            partitions.extend(to);
        }
    }
    let (mut outcomes, mut moves) = resolve(shard, &wanted);
    moves.sort_by_key(|(owner, ..)| *owner);
    for mine in moves.chunk_by(|(a, ..), (b, ..)| a == b) {
        let owner = mine[0].0;
        let asked = mine.iter().map(|(.., wanted)| *wanted).collect();
        let answered = shard.ask(owner, message::Request::Relocate(asked)).await;
        let errors = if let Response::Relocating(errors) = answered {
            errors
        } else {
            vec![ErrorCode::NotLeaderOrFollower; mine.len()]
        };
        for ((_, (topic, index), _), error) in mine.iter().zip(errors) {
            outcomes
                .entry(topic.clone())
                .or_default()
                .insert(*index, error);
        }
    }
    let results = outcomes.into_iter().map(|(topic_name, partitions)| {
        let partitions = partitions.into_iter();
        let partitions =
            partitions.map(
                |(partition_index, error)| AlterReplicaLogDirPartitionResult {
                    partition_index,
                    error_code: error.code(),
                },
            );
        AlterReplicaLogDirTopicResult {
            topic_name,
            partitions: partitions.collect(),
        }
    });
    Ok(request.respond(&AlterReplicaLogDirsResponse {
        results: results.collect(),
        ..AlterReplicaLogDirsResponse::default()
    }))
}

/// The outcomes that need no owner, and what the owners are to be asked.
fn resolve<E: Env>(
    shard: &Shard<E>,
    wanted: &Wanted,
) -> (BTreeMap<Str, BTreeMap<i32, ErrorCode>>, Vec<Move>) {
    let mut outcomes: BTreeMap<Str, BTreeMap<i32, ErrorCode>> = BTreeMap::new();
    let mut moves = Vec::new();
    for (topic, partitions) in wanted {
        let known = shard.topic_by_name(topic);
        let of_topic = outcomes.entry(topic.clone()).or_default();
        for (&index, path) in partitions {
            let has_room = future_path(Path::new(""), topic, PartitionId(index), TopicId::ZERO);
            let error = match (directory(shard, path), &known) {
                _ if has_room.is_none() => ErrorCode::InvalidTopicException,
                (Err(error), _) => error,
                (Ok(to), Some(known)) if known.has_partition(index) => {
                    let id = TopicPartition {
                        topic_id: known.id,
                        partition: PartitionId(index),
                    };
                    moves.push((shard.owner(id), (topic.clone(), index), (id, to)));
                    ErrorCode::None
                }
                (Ok(_), Some(_) | None) => ErrorCode::UnknownTopicOrPartition,
            };
            of_topic.insert(index, error);
        }
    }
    (outcomes, moves)
}

/// The log directory that a client names.
fn directory<E: Env>(shard: &Shard<E>, path: &str) -> Result<DirIndex, ErrorCode> {
    let mut numbered = (0_u16..).map(DirIndex).zip(&shard.identity().directories);
    let found = numbered.find(|(_, directory)| {
        directory.takes_partitions && directory.absolute().to_string_lossy() == path
    });
    let (dir, directory) = found.ok_or(ErrorCode::LogDirNotFound)?;
    if shard.directories.is_failed(dir) {
        return Err(ErrorCode::KafkaStorageError);
    }
    if shard.is_cordoned(directory) {
        return Err(ErrorCode::InvalidReplicaAssignment);
    }
    Ok(dir)
}
