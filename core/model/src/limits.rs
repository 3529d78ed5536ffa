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
/// Bytes one `recv` call may take.
pub const RECV_BYTES_MAX: usize = 256 * 1024;
/// Requests from one shard to another that may be unanswered at once (mesh credits).
pub const MESH_CREDITS: usize = 256;
/// Partitions that one CreateTopics or CreatePartitions request may add, as Kafka's controller.
pub const PARTITIONS_PER_REQUEST_MAX: i64 = 10_000;
/// Producer ids handed out at once, as Kafka's controller.
pub const PRODUCER_ID_BLOCK_IDS: i64 = 1_000;
/// How often a random topic id is drawn again when it is reserved or taken.
pub const TOPIC_ID_DRAWS_MAX: usize = 100;
/// Kafka's bound on a config value, in bytes.
pub const CONFIG_VALUE_BYTES_MAX: usize = 32_767;
