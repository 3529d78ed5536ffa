//! What shards say to each other. Every message: who sends it, who answers, and its bound.
//!
//! Invariants:
//! 1. Messages carry owned bytes, file ranges and answers; never closures, never borrowed state.
//! 2. A [`Request`] takes a credit from its sender (`limits::MESH_CREDITS` towards each peer) and is answered by exactly one
//!    [`Response`] with the same call number, which brings the credit back.
//! 3. A request is answered without waiting for another shard. What may wait long (a watch for new records) is answered at once and
//!    followed by one [`Message::Woken`] at most, so that waiting consumers hold no credits.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use pelton_machine::budget::HolderId;
use pelton_machine::image::{MetadataDelta, MetadataImage};
use pelton_machine::partition::TxnGuard;
use pelton_machine::purgatory::Interest;
use pelton_machine::session::Closed;
use pelton_model::batch::TimestampType;
use pelton_model::producer_state::{BatchFacts, ProducerStamp};
use pelton_model::record_type::control::VotersRecordVoter;
use pelton_model::slice::Slice;
use pelton_model::{
    ErrorCode, LeaderEpoch, Monotonic, NodeId, Offset, ProducerEpoch, ProducerId, Sequence,
    Timestamp, TopicPartition,
};
use pelton_storage::LogManifest;

use super::directory::DirIndex;
use super::migration::Adoption;
use crate::boot::Opening;
use crate::controller::{self, Answer};
use crate::coordinator::{Command, Reply};
use crate::metrics::report::{ShardReport, Wanted};
use crate::metrics::stages::AppendStages;

/// The number of a call from one shard; unique among its unanswered calls.
pub type CallId = u32;
/// The number of a waiting fetch, or of a request to a coordinator, on the shard that waits.
pub type WatchId = u64;

/// Anything one shard may send to another.
#[derive(Debug)]
pub enum Message {
    /// From any shard to any: does something and answers. Bound: credits.
    Request {
        /// Comes back in the answer.
        id: CallId,
        /// What to do.
        request: Request,
    },
    /// The answer. Bound: one for each request.
    Response {
        /// From the request.
        id: CallId,
        /// What was done.
        response: Response,
    },
    /// From an owner to the shard of waiting fetches: read again. Bound: one for each accepted watch.
    Woken(Vec<WatchId>),
    /// From a fetch's shard to an owner: this watch is over. Bound: one for each accepted watch.
    Unwatch(WatchId),
    /// From a coordinator's shard to that of a connection: the replies to calls that were accepted. Bound: one for each
    /// [`Response::CoordinatorsWaiting`].
    CoordinatorReplies(WatchId, Vec<Reply>),
    /// From an owner to the shard of fetch sessions: these partitions of theirs changed. Bound: one entry for each armed interest.
    Fired(Vec<(i32, u32)>),
    /// From the shard of a fetch session to every other: it ended. Bound: one for each session.
    SessionClosed(Closed),
    /// From a connection's shard to another that agreed: serve it from now on. Bound: one for each connection.
    Adopt(Box<Adoption>),
    /// From a connection's shard to the one that keeps the remainders of large frames: reserve. Bound: one for each connection.
    ReserveRemainder {
        /// The connection.
        holder: HolderId,
        /// How much.
        bytes: usize,
    },
    /// Back, as soon as it is there. Bound: one for each reservation.
    RemainderGranted {
        /// The connection.
        holder: HolderId,
        /// How much.
        bytes: usize,
    },
    /// To the keeper: given back. Bound: one for each reservation.
    ReleaseRemainder {
        /// How much.
        bytes: usize,
    },
    /// To the keeper: the connection is gone. Bound: one for each connection.
    WithdrawRemainder {
        /// The connection.
        holder: HolderId,
    },
    /// From each shard to each other at a stop: no appends of mine are under way any more. Bound: one.
    Drained,
    /// From the shard that met it to every other: a log directory failed. Bound: one for each directory.
    DirectoryFailed(DirIndex),
    /// From the controller's shard to every other: the start failed, end. Bound: one.
    Abandon,
}

/// What one shard asks of another.
#[derive(Debug)]
pub enum Request {
    /// From a connection's shard to the one that its traffic goes to: would you serve it? One for each connection that is about to
    /// move.
    TakesMore {
        /// How busy the asking shard is.
        busy_percent: u8,
    },
    /// From a connection's shard to the owner: appends batches of one Produce request. One for each request and owner.
    Append(AppendRequest),
    /// From a connection's shard to the owner: reads what is there. One for each Fetch, owner and stage.
    Read(ReadRequest),
    /// From a connection's shard to the owner: tell me when there is more. One for each waiting Fetch and owner.
    Watch(WatchRequest),
    /// From a connection's shard to the session's: the client has done with this fetch session. One for each Fetch.
    CloseSession(i32),
    /// From a connection's shard to the owner: offsets by timestamp. One for each ListOffsets and owner.
    Offsets(Vec<OffsetQuery>),
    /// From a connection's shard to the owner: end offsets of leader epochs. One for each OffsetForLeaderEpoch and owner.
    EpochEnds(Vec<EpochEndQuery>),
    /// From a connection's shard to the coordinators': calls of one request. One for each request and owner.
    Coordinators(CoordinatorRequest),
    /// From a connection's shard to the owner: moves log starts up. One for each DeleteRecords and owner.
    DeleteRecords(Vec<Deletion>),
    /// From a coordinator's shard, or a connection's, to the owner: ends a transaction. One for each transaction and owner, and each
    /// retry.
    WriteMarkers(WriteMarkersRequest),
    /// From a connection's shard to the owner: is a transaction of these batches open? One for each transactional Produce and owner.
    Verify(Vec<VerifyItem>),
    /// From a connection's shard to the controller's: makes every log start durable. One for each DeleteRecords.
    KeepLogStarts,
    /// From any shard to the controller's: a change of the metadata. Answered when every shard has applied it.
    Control(controller::Command),
    /// From the controller's shard to every shard: the new metadata. Answered when applied.
    Publish(ImageUpdate),
    /// From the controller's shard to every shard: accept connections on these addresses, one for each listener.
    Listen(Vec<SocketAddr>),
    /// From a connection's shard to the owner: the producers that partitions remember. One for each DescribeProducers and owner.
    Producers(ProducersRequest),
    /// From a connection's shard to the owner: partitions are to lie in other log directories. One for each AlterReplicaLogDirs and owner.
    Relocate(Vec<(TopicPartition, DirIndex)>),
    /// From a connection's shard to the controller's: who keeps the metadata log. One for each DescribeQuorum.
    Quorum,
    /// From a connection's shard to every shard: the sizes of its logs. One for each DescribeLogDirs and shard.
    LogSizes,
    /// From the controller's shard to every shard: what it counted and timed. Bound: `metrics::gather`.
    Metrics(Wanted),
    /// From the controller's shard to an owner: how far groups are behind. Bound: `metrics::gather`.
    Lags(Vec<LagQuery>),
    /// From the controller's shard to every shard: what should stand in the checkpoint files.
    Checkpoint,
    /// From the controller's shard to every shard: as [`Request::Checkpoint`], of logs that have lost their beginning.
    LogStarts,
    /// From the controller's shard to every shard at a stop, after all have drained: sync and close every log.
    Close,
}

/// What comes back.
#[derive(Debug)]
pub enum Response {
    /// To [`Request::TakesMore`].
    TakesMore(bool),
    /// To [`Request::Append`]: one outcome for each item, and when the last was where.
    Appended(Vec<(u32, AppendOutcome)>, AppendStages),
    /// To [`Request::Read`]: one outcome for each item, in order.
    Read(Vec<ReadOutcome>),
    /// To [`Request::Watch`].
    Watching,
    /// To [`Request::CloseSession`].
    SessionClosed,
    /// To [`Request::Offsets`]: one for each query, in order.
    Offsets(Vec<OffsetAnswer>),
    /// To [`Request::EpochEnds`]: one for each query, in order.
    EpochEnds(Vec<EpochEndAnswer>),
    /// To [`Request::Coordinators`]: the replies, in order.
    Coordinators(Vec<Reply>),
    /// To [`Request::Coordinators`]: accepted, one message follows.
    CoordinatorsWaiting,
    /// To [`Request::DeleteRecords`]: the log start or why it did not move, in order.
    Deleted(Vec<Result<Offset, ErrorCode>>),
    /// To [`Request::WriteMarkers`]: one code for each partition, in order.
    Markers(Vec<ErrorCode>),
    /// To [`Request::Verify`]: what each batch is appended with, in order.
    Verifying(Vec<Result<TxnGuard, ErrorCode>>),
    /// To [`Request::KeepLogStarts`]: whether they are.
    KeptLogStarts(Result<(), ErrorCode>),
    /// To [`Request::Control`].
    Control(controller::Answer),
    /// To [`Request::Publish`].
    Published,
    /// To [`Request::Listen`]: whether this shard listens now.
    Listening(Result<(), String>),
    /// To [`Request::Producers`]: one for each partition, in order.
    Producers(Vec<Result<Vec<KnownProducer>, ErrorCode>>),
    /// To [`Request::Relocate`]: whether each move has begun or is not needed, in order.
    Relocating(Vec<ErrorCode>),
    /// To [`Request::Quorum`].
    Quorum(Box<QuorumState>),
    /// To [`Request::LogSizes`].
    LogSizes(Vec<LogSize>),
    /// To [`Request::Metrics`].
    Metrics(Box<ShardReport>),
    /// To [`Request::Lags`]: one for each query, in order; none for a partition that is not served here.
    Lags(Vec<Option<LagAnswer>>),
    /// To [`Request::Checkpoint`], [`Request::LogStarts`] and [`Request::Close`].
    Checkpoints(Vec<PartitionCheckpoint>),
    /// The shard is stopping and did nothing.
    Stopping,
}

impl Response {
    /// The controller's answer; a shard that stops has none.
    pub(crate) fn into_control(self) -> Answer {
        if let Self::Control(answer) = self {
            return answer;
        }
        Answer::Unavailable(ErrorCode::NotController)
    }
}

/// A new version of the metadata.
#[derive(Clone, Debug)]
pub struct ImageUpdate {
    /// The whole image.
    pub image: Arc<MetadataImage>,
    /// What changed since the image published before.
    pub delta: Arc<MetadataDelta>,
    /// With the first image after the start: what lies on disk, so that partitions are opened rather than created.
    pub opening: Option<Arc<Opening>>,
    /// The `kraft.version` in force, which stands beside the metadata.
    pub kraft_version: i16,
}

/// The batches of one Produce request for one owner.
#[derive(Debug)]
pub struct AppendRequest {
    /// Whether to answer only when the high watermark covers the records (acks=all).
    pub until_committed: bool,
    /// When to give up waiting for the high watermark, from the moment of receipt.
    pub timeout_ms: u64,
    /// At most one for each partition.
    pub items: Vec<AppendItem>,
}

/// One partition's batch, validated.
#[derive(Debug)]
pub struct AppendItem {
    /// The place of the outcome in the request.
    pub index: u32,
    /// Where to.
    pub partition: TopicPartition,
    /// One whole batch, as the producer sent it.
    pub batch: BytesMut,
    /// What validation found out about it.
    pub facts: BatchFacts,
    /// How the broker must rewrite the header's maximum timestamp, if at all.
    pub rewrite: Option<(TimestampType, Timestamp)>,
    /// Why it may begin a transaction; a batch outside of transactions needs none.
    pub guard: TxnGuard,
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxnEnd {
    /// Whose transaction.
    pub producer_id: ProducerId,
    /// The epoch of the marker.
    pub producer_epoch: ProducerEpoch,
    /// The epoch of the transaction's coordinator.
    pub coordinator_epoch: i32,
    /// Whether it is committed, not aborted.
    pub is_commit: bool,
    /// Whether the marker's epoch is above that of the records (transaction version 2).
    pub is_bumped: bool,
}

/// A transaction's end for partitions of one shard.
#[derive(Clone, Debug)]
pub struct WriteMarkersRequest {
    /// Which, and how.
    pub end: TxnEnd,
    /// Where.
    pub partitions: Vec<TopicPartition>,
}

/// A transactional batch that may be the first of its transaction in its partition.
#[derive(Clone, Copy, Debug)]
pub struct VerifyItem {
    /// Where to.
    pub partition: TopicPartition,
    /// Whose, and where in its sequence.
    pub stamp: ProducerStamp,
    /// Whether the producer's epoch ends with each transaction (transaction version 2).
    pub is_bumped: bool,
}

/// What became of one batch.
#[derive(Clone, Debug)]
pub struct AppendOutcome {
    /// `None` when appended.
    pub error: ErrorCode,
    /// The offset of the batch's first record; −1 on error.
    pub base_offset: Offset,
    /// The append time where the topic uses it, else −1.
    pub log_append_time: Timestamp,
    /// The partition's first offset; −1 when unknown.
    pub log_start: Offset,
    /// Who leads, where the client was wrong about it (KIP-951).
    pub leader: Option<LeaderHint>,
}

impl AppendOutcome {
    /// An outcome that is only an error.
    #[must_use]
    pub fn refused(error: ErrorCode) -> Self {
        Self {
            error,
            base_offset: Offset::NONE,
            log_append_time: Timestamp::NONE,
            log_start: Offset::NONE,
            leader: None,
        }
    }
}

/// The current leader of a partition, told next to an error (KIP-951).
#[derive(Clone, Copy, Debug)]
pub struct LeaderHint {
    /// The node; −1 when there is none.
    pub node: NodeId,
    /// Its epoch.
    pub epoch: LeaderEpoch,
}

/// The partitions of one Fetch for one owner.
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// Only up to the last stable offset.
    pub read_committed: bool,
    /// Bytes for all items together; the first item with data may pass it by its first batch.
    pub bytes_max: usize,
    /// In the order of the client.
    pub items: Vec<ReadItem>,
}

/// What to read of one partition.
#[derive(Clone, Copy, Debug)]
pub struct ReadItem {
    /// Where from.
    pub partition: TopicPartition,
    /// The first offset wanted.
    pub offset: Offset,
    /// The leader epoch that the client believes in; −1 asks for no check.
    pub current_leader_epoch: LeaderEpoch,
    /// The epoch of the last record the client has; −1 asks for no check (KIP-595).
    pub last_fetched_epoch: LeaderEpoch,
    /// Bytes for this partition.
    pub bytes_max: usize,
    /// Whom to tell of the partition's next change, when there is nothing to read.
    pub interest: Option<Interest>,
}

/// What was read of one partition.
#[derive(Clone, Debug)]
pub struct ReadOutcome {
    /// `None` when the offsets below are real.
    pub error: ErrorCode,
    /// The high watermark; −1 on error.
    pub high_watermark: Offset,
    /// The last stable offset; −1 on error.
    pub last_stable: Offset,
    /// The first offset; −1 on error.
    pub log_start: Offset,
    /// Whole batches.
    pub records: Vec<Slice>,
    /// Their size.
    pub size_bytes: usize,
    /// Who leads, where the client was wrong about it (KIP-951).
    pub leader: Option<LeaderHint>,
    /// Where the client's log and ours part (epoch and its end offset), when they do.
    pub diverging: Option<(LeaderEpoch, Offset)>,
    /// Whether there was nothing to read and the interest is armed.
    pub is_armed: bool,
    /// The aborted transactions that overlap the records, for a reader of committed ones: producer and first offset.
    pub aborted: Vec<(ProducerId, Offset)>,
}

impl ReadOutcome {
    /// An outcome that is only an error.
    #[must_use]
    pub fn refused(error: ErrorCode) -> Self {
        Self {
            error,
            high_watermark: Offset::NONE,
            last_stable: Offset::NONE,
            log_start: Offset::NONE,
            records: Vec::new(),
            size_bytes: 0,
            leader: None,
            diverging: None,
            is_armed: false,
            aborted: Vec::new(),
        }
    }
}

/// Wakes a fetch when there is more.
#[derive(Clone, Debug)]
pub struct WatchRequest {
    /// Comes back in [`Message::Woken`].
    pub id: WatchId,
    /// Wakes when this many bytes have been added in all, at the owner.
    pub bytes_wanted: usize,
    /// When the fetch goes on by itself.
    pub deadline: Monotonic,
    /// The partitions and the high watermark (or last stable offset) already seen; a newer one wakes at once.
    pub items: Vec<(TopicPartition, Offset)>,
    /// Only up to the last stable offset.
    pub read_committed: bool,
}

/// Calls to the coordinators of one shard.
#[derive(Clone, Debug)]
pub struct CoordinatorRequest {
    /// Comes back in [`Message::CoordinatorReplies`] where the replies come later.
    pub wait: WatchId,
    /// The calls.
    pub calls: Vec<CoordinatorCall>,
}

/// A call to one coordinator.
#[derive(Clone, Debug)]
pub struct CoordinatorCall {
    /// Which: the partition of `__consumer_offsets` or `__transaction_state`.
    pub partition: TopicPartition,
    /// What is asked.
    pub command: Command,
    /// Why its records may begin a transaction in the partition.
    pub guard: TxnGuard,
}

/// A question of ListOffsets.
#[derive(Clone, Copy, Debug)]
pub struct OffsetQuery {
    /// Of which partition.
    pub partition: TopicPartition,
    /// The leader epoch that the client believes in; −1 asks for no check.
    pub current_leader_epoch: LeaderEpoch,
    /// What is asked.
    pub position: OffsetPosition,
    /// Whether "latest" means the last stable offset.
    pub read_committed: bool,
}

/// Which offset is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetPosition {
    /// The log start (−2), also of what is local (−4).
    Earliest,
    /// The end as the isolation level sees it (−1).
    Latest,
    /// The record with the greatest timestamp (−3).
    MaxTimestamp,
    /// The end of what lies in remote storage (−5): none here.
    LatestTiered,
    /// The first record at or after a time.
    Time(Timestamp),
}

/// The answer to one question of ListOffsets.
#[derive(Clone, Copy, Debug)]
pub struct OffsetAnswer {
    /// `None` when the rest is real.
    pub error: ErrorCode,
    /// The offset; −1 when there is none.
    pub offset: Offset,
    /// The record's timestamp; −1 when there is none.
    pub timestamp: Timestamp,
    /// The leader epoch of the offset; −1 when unknown.
    pub leader_epoch: LeaderEpoch,
}

/// A committed offset whose lag is wanted.
#[derive(Clone, Copy, Debug)]
pub struct LagQuery {
    /// Of which partition.
    pub partition: TopicPartition,
    /// The offset of the next record that the group reads.
    pub committed: Offset,
}

/// How far a group is behind.
#[derive(Clone, Copy, Debug)]
pub struct LagAnswer {
    /// Where the partition ends.
    pub end: Offset,
    /// How old the first record is that is not committed, in milliseconds; 0 when there is none, `None` when it is unknown.
    pub age_ms: Option<i64>,
}

/// A question of OffsetForLeaderEpoch.
#[derive(Clone, Copy, Debug)]
pub struct EpochEndQuery {
    /// Of which partition.
    pub partition: TopicPartition,
    /// The leader epoch that the client believes in; −1 asks for no check.
    pub current_leader_epoch: LeaderEpoch,
    /// Whose end is asked.
    pub leader_epoch: LeaderEpoch,
}

/// A partition of a DeleteRecords.
#[derive(Clone, Copy, Debug)]
pub struct Deletion {
    /// Of which partition.
    pub partition: TopicPartition,
    /// Everything below goes; −1 is the high watermark.
    pub offset: Offset,
}

/// The answer to one question of OffsetForLeaderEpoch.
#[derive(Clone, Copy, Debug)]
pub struct EpochEndAnswer {
    /// `None` when the rest is real.
    pub error: ErrorCode,
    /// The largest epoch not above the asked one; −1 when unknown.
    pub leader_epoch: LeaderEpoch,
    /// Its end offset, exclusive; −1 when unknown.
    pub end_offset: Offset,
}

/// The partitions of a DescribeProducers for one owner.
#[derive(Clone, Debug)]
pub struct ProducersRequest {
    /// Which.
    pub partitions: Vec<TopicPartition>,
    /// How many producers the answer may still tell of; the partition that passes it is the last.
    pub room: usize,
}

/// A producer that a partition remembers.
#[derive(Clone, Copy, Debug)]
pub struct KnownProducer {
    /// Its id.
    pub id: ProducerId,
    /// Its epoch.
    pub epoch: ProducerEpoch,
    /// The sequence of its last record; −1 when none is remembered.
    pub last_sequence: Sequence,
    /// The time of its last batch or marker.
    pub last_timestamp: Timestamp,
    /// The epoch of the coordinator that ended its last transaction; −1 when none did.
    pub coordinator_epoch: i32,
    /// Where its open transaction begins; −1 when none is open.
    pub txn_start: Offset,
}

/// Who keeps the metadata log, and how far it is.
#[derive(Clone, Debug)]
pub struct QuorumState {
    /// The only voter, who leads.
    pub voter: VotersRecordVoter,
    /// The epoch that it leads.
    pub epoch: LeaderEpoch,
    /// The end of its log, all of which is durable and committed.
    pub log_end: Offset,
}

/// How much of its log directory a partition takes.
#[derive(Clone, Debug)]
pub struct LogSize {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The log directory that holds it.
    pub dir: DirIndex,
    /// Bytes of its segments.
    pub size_bytes: u64,
    /// How many offsets it lacks.
    pub offset_lag: i64,
    /// Whether it is a copy that is being made.
    pub is_future: bool,
}

/// A partition's lines in the checkpoint files of its log directory.
#[derive(Clone, Debug)]
pub struct PartitionCheckpoint {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The log directory that holds it.
    pub dir: DirIndex,
    /// Everything below is on disk for certain.
    pub recovery_point: Offset,
    /// The first offset.
    pub log_start: Offset,
    /// The high watermark.
    pub high_watermark: Offset,
    /// How far compaction has cleaned, if it ever did.
    pub cleaned_to: Option<Offset>,
    /// Whether the log is intact: the clean marker is written only when all are.
    pub is_clean: bool,
    /// At a stop: what the next start needs to know of the closed log.
    pub manifest: Option<Box<LogManifest>>,
}
