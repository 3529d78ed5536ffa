//! Incremental fetch sessions (KIP-227): what a consumer wants is told once, then only what changes, in both directions.
//!
//! Kafka looks at every partition of a session with each fetch. Here a session knows which of its partitions may have something to say:
//! those that are *ready*. A partition is ready until a read found nothing more in it and armed an interest at its owner
//! (`purgatory::Standing`); it is ready again when that fires, or when the client names it. So a fetch costs what has changed.
//!
//! Invariants:
//! 1. A session's id is above 0 and tells the shard that keeps it ([`owner_of`]).
//! 2. A partition that is not ready has an armed interest, and everything that was true of it then has been told to the client.
//! 3. Partitions are read in order, and one whose records were returned goes to the end of it: none starves.
//! 4. What all sessions hold is bounded by slots and by [`pelton_model::limits::FETCH_SESSION_COST_MAX`], names counted in; a session that
//!    does not fit is not opened, and one that grows beyond is closed. Clients cope with either at any time.
//!
//! Not here: reading, waiting, and the shards' messages. Time and randomness come in as arguments.
//!
//! Source: KIP-227, KIP-516; Apache Kafka's rules of eviction.

mod cache;
mod state;
#[cfg(test)]
mod tests;

use pelton_model::{ErrorCode, LeaderEpoch, Offset, ShardId, TopicId};
use smol_str::SmolStr;

pub use cache::{Closed, Limits, Origin, Reply, Sessions};
pub use state::{Ready, Session};

/// The epoch of a request that begins a session, and ends the one it names.
pub const INITIAL_EPOCH: i32 = 0;
/// The epoch of a request that ends the session it names and wants none.
pub const FINAL_EPOCH: i32 = -1;
/// How long a session must be unused, or old, before another may take its place, in milliseconds (Kafka's two minutes).
pub const EVICTION_MS_MIN: u64 = 120_000;

/// The shard that keeps the session of this id, if there can be one.
#[must_use]
pub fn owner_of(id: i32, shard_count: u16) -> Option<ShardId> {
    let id = u32::try_from(id).ok().filter(|id| *id != 0)?;
    u16::try_from(id % u32::from(shard_count)).ok().map(ShardId)
}

/// The epoch that follows `epoch` in a session.
fn next_epoch(epoch: i32) -> i32 {
    epoch.checked_add(1).unwrap_or(1)
}

/// How a session's requests name topics; one session never mixes the two.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TopicKey {
    /// By name.
    Name(SmolStr),
    /// By id.
    Id(TopicId),
}

impl TopicKey {
    /// What the key counts towards the bound on all sessions, beside its partitions.
    fn cost(&self) -> usize {
        match self {
            Self::Name(name) => name.len() / 64,
            Self::Id(_) => 0,
        }
    }
}

/// What a client wants of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The first offset wanted.
    pub offset: Offset,
    /// The bytes an answer should not exceed; negative is an error of the client's, told when it is read.
    pub bytes_max: i32,
    /// The leader epoch that the client believes in; −1 asks for no check.
    pub current_leader_epoch: LeaderEpoch,
    /// The epoch of the last record the client has; −1 asks for no check.
    pub last_fetched_epoch: LeaderEpoch,
}

/// A partition that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Its topic.
    pub topic: TopicKey,
    /// Its index.
    pub partition: i32,
    /// What is wanted of it.
    pub position: Position,
}

/// What a request says about its session.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The session; 0 is none.
    pub id: i32,
    /// The request's number in the session.
    pub epoch: i32,
    /// Whether this version names topics by id.
    pub uses_topic_ids: bool,
    /// Whether only the records of finished transactions are wanted.
    pub read_committed: bool,
    /// What it wants, new or changed.
    pub wishes: &'a [Wish],
    /// What it wants no longer.
    pub forgotten: &'a [(TopicKey, i32)],
}

/// How a request is to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// By what it names, without a session.
    Sessionless,
    /// By what it names; then a session may be opened.
    Full,
    /// By what its session wants.
    Incremental(Turn),
    /// Not at all.
    Refused(ErrorCode),
}

/// One request's turn in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The session.
    pub id: i32,
    /// The session's epoch while this request is the last.
    epoch: i32,
}

/// What a read found of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The size of the records that are returned.
    pub size_bytes: usize,
    /// The high watermark; −1 on error.
    pub high_watermark: Offset,
    /// The first offset; −1 on error.
    pub log_start: Offset,
    /// Whether there is an error.
    pub is_error: bool,
    /// Whether the client's log and ours part.
    pub has_diverged: bool,
    /// Whether there is nothing more to read and the owner tells of any change.
    pub is_armed: bool,
}
