//! Every bound of Pelton in one place. A queue, batch, session, retry or loop without a constant here is a defect.

/// Kafka's `socket.request.max.bytes` default: the largest frame a client may announce.
pub const REQUEST_BYTES_MAX: u32 = 100 * 1024 * 1024;
/// A frame's buffer grows as bytes arrive up to here; beyond, the rest is reserved from the shard's budget first.
pub const FRAME_GROW_BYTES_MAX: usize = 1024 * 1024;
/// A reservation of request memory that makes no progress for this long closes its connection.
pub const RESERVATION_STALL_MS_MAX: u64 = 30_000;
/// The request-memory budget of the whole process, before division by shards.
pub const REQUEST_MEMORY_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Produce requests of one connection that may be under way at once.
pub const PRODUCE_IN_FLIGHT_MAX: usize = 16;
/// Requests of one connection that begin in a row before the rest of its shard has its turn.
pub const REQUESTS_RUN_MAX: u32 = 32;
/// Bytes of answers in memory that a connection may be sending without their being counted.
pub const ANSWER_FREE_BYTES_MAX: usize = 4 * 1024;
/// Places for the pieces of an answer that a connection keeps for the next.
pub const ANSWER_SLICES_KEPT_MAX: usize = 64;
/// An answer of which its reader takes nothing for so long closes its connection while others wait for its memory.
pub const ANSWER_STALL_MS_MAX: u64 = 1_000;
/// Requests that must say where a connection's traffic goes before it may move to another shard.
pub const MOVE_REQUESTS_MIN: u32 = 32;
/// How long a connection stays after its first move to another shard; each further stay is twice as long.
pub const MOVE_REST_MS_MIN: u64 = 10_000;
/// The longest such stay.
pub const MOVE_REST_MS_MAX: u64 = 600_000;
/// Connections that one shard may hand to others in a second.
pub const MOVES_PER_SECOND_MAX: u32 = 32;
/// A shard that is busy for so many percent of its time takes connections only from shards that are busier.
pub const MOVE_BUSY_PERCENT_MAX: u8 = 75;
/// Bytes one `recv` call may take.
pub const RECV_BYTES_MAX: usize = 256 * 1024;
/// Requests from one shard to another that may be unanswered at once (mesh credits).
pub const MESH_CREDITS: usize = 256;
/// Partitions that one CreateTopics or CreatePartitions request may add, as Kafka's controller.
pub const PARTITIONS_PER_REQUEST_MAX: i64 = 10_000;
/// Partitions whose leader or replicas one request may change, as Kafka's controller.
pub const PARTITIONS_CHANGED_MAX: usize = 10_000;
/// Producer ids handed out at once, as Kafka's controller.
pub const PRODUCER_ID_BLOCK_IDS: i64 = 1_000;
/// How often a random topic id is drawn again when it is reserved or taken.
pub const TOPIC_ID_DRAWS_MAX: usize = 100;
/// Kafka's bound on a config value, in bytes.
pub const CONFIG_VALUE_BYTES_MAX: usize = 32_767;
/// Groups that may have a configuration of their own, and client metrics subscriptions.
pub const CONFIG_RESOURCES_MAX: usize = 100_000;
/// Values that one request may change in the configurations of all its resources, as Kafka's controller.
pub const CONFIG_RECORDS_PER_REQUEST_MAX: usize = 10_000;
/// Bytes of all those names and values: one batch of the metadata log holds them.
pub const CONFIG_BYTES_PER_REQUEST_MAX: usize = 4 * 1024 * 1024;
/// Batches of one producer that a partition recognises when they are sent again (Kafka's five).
pub const PRODUCER_BATCHES_MAX: usize = 5;
/// Idempotent producers that one partition remembers; beyond, the half that wrote longest ago is forgotten.
pub const PRODUCERS_PER_PARTITION_MAX: usize = 100_000;
/// The shortest request frame: api key, version and correlation id.
pub const FRAME_BYTES_MIN: usize = 8;
/// Bytes of a frame that a connection may receive without asking the shard's budget.
pub const FRAME_FREE_BYTES_MAX: usize = 32 * 1024;
/// Bytes that a reservation must receive within `RESERVATION_STALL_MS_MAX` to count as progress.
pub const RESERVATION_PROGRESS_BYTES_MIN: usize = 64 * 1024;
/// Room offered to a `recv` of a connection that has sent little.
pub const RECV_BYTES_MIN: usize = 4 * 1024;
/// Fetch requests of one shard that may wait for data at once; beyond, they are answered with what there is.
pub const FETCH_WAITERS_MAX: usize = 64 * 1024;
/// Partitions that the waiting fetch requests of one shard may name in all.
pub const FETCH_WATCHES_MAX: usize = 1024 * 1024;
/// Partitions that the fetch sessions of one shard may name in all; 64 bytes of a topic's name count as one more.
pub const FETCH_SESSION_COST_MAX: usize = 512 * 1024;
/// How often a random fetch session id is drawn again when it is taken.
pub const FETCH_SESSION_ID_DRAWS_MAX: usize = 100;
/// Partitions of one shard that fetch sessions may be told of when they change; others are read with each fetch.
pub const FETCH_INTERESTS_MAX: usize = 1024 * 1024;
/// Encoded answers to Metadata that a shard keeps.
pub const METADATA_ANSWERS_MAX: usize = 8;
/// Bytes of those answers together.
pub const METADATA_ANSWERS_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Partitions that Metadata describes before it lets other requests run.
pub const METADATA_PARTITIONS_PER_TURN: usize = 1024;
/// Partitions that a fetch reads before it lets other requests run.
pub const FETCH_PARTITIONS_PER_TURN: usize = 256;
/// acks=all batches of one shard that may wait for replication at once.
pub const COMMIT_WAITERS_MAX: usize = 256 * 1024;
/// Decompressed bytes that a batch may always have, however small it arrives.
pub const DECOMPRESSED_BYTES_FLOOR: u64 = 64 * 1024 * 1024;
/// Beyond [`DECOMPRESSED_BYTES_FLOOR`], the largest ratio of a batch's decompressed to its compressed size.
pub const DECOMPRESSED_RATIO_MAX: u64 = 64;
/// A compressed batch above this is validated on a helper thread.
pub const VALIDATED_BYTES_HERE_MAX: usize = 64 * 1024;
/// A compressed batch that has more bytes than this without its codec is validated on a helper thread.
pub const DECOMPRESSED_BYTES_HERE_MAX: u64 = 512 * 1024;
/// A batch above this, packed or unpacked, gets another codec on a helper thread.
pub const RECOMPRESSED_BYTES_HERE_MAX: usize = 4 * 1024;
/// Bytes of a batch's records while they get another codec: they are in memory whole.
pub const RECOMPRESSED_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Decompressed bytes of one batch, whatever its compressed size.
pub const DECOMPRESSED_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Refused records that one answer names.
pub const RECORD_ERRORS_MAX: usize = 1000;
/// How long each step of an orderly stop waits for clients and other shards.
pub const STOP_STEP_MS_MAX: u64 = 5_000;
/// The least time between two log lines of one kind that clients can cause at will.
pub const LOG_REPEAT_MS_MIN: u64 = 1_000;
/// Pause after a connection that could not be accepted (out of descriptors, say).
pub const ACCEPT_BACKOFF_MS: u64 = 50;
/// Members of one group, whatever `group.max.size` says.
pub const GROUP_MEMBERS_MAX: usize = 100_000;
/// Members of one group that were sent back for their id and have not come again.
pub const GROUP_PENDING_MAX: usize = 10_000;
/// Bytes of the subscriptions of one member.
pub const GROUP_MEMBER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of all subscriptions and assignments of one group: a generation is one record.
pub const GROUP_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Groups of one partition of `__consumer_offsets`.
pub const GROUPS_PER_PARTITION_MAX: usize = 1_000_000;
/// Committed offsets of one partition of `__consumer_offsets`.
pub const COMMITTED_OFFSETS_PER_PARTITION_MAX: usize = 10_000_000;
/// How long a new member of a classic group waits for its first generation, as Kafka's.
pub const GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS: i32 = 5 * 60 * 1000;
/// Deadlines that a group coordinator looks at in one go.
pub const GROUP_DEADLINES_PER_TICK_MAX: usize = 256;
/// Tombstones of expired offsets and groups that a group coordinator writes in one go.
pub const GROUP_TOMBSTONES_PER_TICK_MAX: usize = 1_000;
/// Committed offsets, and groups, that a group coordinator looks at in one go, be it for what expired or for a deleted topic.
pub const GROUP_LOOKS_PER_TICK_MAX: usize = 10_000;
/// Groups that a group coordinator deletes in one go; with more to write than `GROUP_TOMBSTONES_PER_TICK_MAX`, fewer.
pub const GROUPS_DELETED_PER_TICK_MAX: usize = 256;
/// The rest of a group coordinator between two goes at what expired.
pub const GROUP_EXPIRATION_PAUSE_MS: u64 = 10;
/// Producers that one answer to DescribeProducers tells of; of the partition that passes the bound all are told.
pub const PRODUCERS_PER_ANSWER_MAX: usize = 500_000;
/// Batches that one shard reads for a scrape, to tell how old unread records are.
pub const LAG_READS_MAX: usize = 256;
/// Connections to the metrics port that are served at once; more wait to be accepted.
pub const METRICS_CONNECTIONS_MAX: usize = 16;
/// Bytes of an HTTP request's head.
pub const METRICS_HEAD_BYTES_MAX: usize = 8 * 1024;
/// Header lines of an HTTP request.
pub const METRICS_HEADERS_MAX: usize = 64;
/// How long an HTTP request may take to arrive.
pub const METRICS_RECEIVE_MS_MAX: u64 = 5_000;
/// How long an HTTP answer may take to be taken.
pub const METRICS_SEND_MS_MAX: u64 = 10_000;
/// How long a shard may take to tell its metrics.
pub const METRICS_GATHER_MS_MAX: u64 = 2_000;
/// Slow requests that a shard keeps.
pub const SLOW_REQUESTS_MAX: usize = 128;
/// Topics of one request whose latency it counts for.
pub const TOPICS_TIMED_MAX: usize = 8;
/// Bytes of a pattern of names that a client sends.
pub const PATTERN_BYTES_MAX: usize = 4 * 1024;
/// Bytes of such a pattern once compiled.
pub const PATTERN_PROGRAM_BYTES_MAX: usize = 1024 * 1024;
/// Transactional ids of one partition of `__transaction_state`.
pub const TRANSACTIONAL_IDS_PER_PARTITION_MAX: usize = 200_000;
/// Bytes of the partitions of one transaction, each name counted once and four for each partition: a transaction is one record.
pub const TRANSACTION_PARTITIONS_BYTES_MAX: usize = 512 * 1024;
/// How long the answer to EndTxn waits for the markers, so that the next transaction need not be sent back.
pub const TRANSACTION_END_WAIT_MS: u64 = 1_000;
/// Transactions past their timeout that a coordinator aborts in one go.
pub const TRANSACTION_ABORTS_PER_TICK_MAX: usize = 256;
/// Transactional ids that a coordinator looks at in one go for those that expired.
pub const TRANSACTION_EXPIRATIONS_PER_TICK_MAX: usize = 1_000;
/// The rest of a transaction coordinator between two goes at what is due.
pub const TRANSACTION_PAUSE_MS: u64 = 10;
/// The first wait before a marker is written again that could not be.
pub const MARKER_RETRY_MS_MIN: u64 = 100;
/// The longest such wait.
pub const MARKER_RETRY_MS_MAX: u64 = 5_000;
