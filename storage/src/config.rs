//! What a log must know about its topic's configuration, and the bounds of storage's own buffers.

/// The topic settings that storage acts on. The broker derives it from the topic's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Kafka's `segment.bytes`: a segment is rolled before it would grow beyond this.
    pub segment_size_bytes_max: u32,
    /// Kafka's `index.interval.bytes`: at most one index entry for so many bytes of log.
    pub index_interval_bytes: u32,
    /// Kafka's `segment.index.bytes`: a segment is rolled when an index would grow beyond this.
    pub index_size_bytes_max: u32,
    /// Whether `cleanup.policy` names compaction: gaps between segments are then no sign of loss.
    pub compacted: bool,
    /// Kafka's `file.delete.delay.ms`: how long deleted files stay under another name.
    pub file_delete_delay_ms: u64,
    /// Kafka's `preallocate`: a new segment's file gets its full size at once.
    pub preallocate: bool,
    /// Whether `cleanup.policy` names deletion: only then do the two limits below hold.
    pub deletes: bool,
    /// Kafka's `retention.ms`; negative is for ever.
    pub retention_ms: i64,
    /// Kafka's `retention.bytes`; negative is without limit.
    pub retention_bytes: i64,
    /// Kafka's `segment.ms`: a segment is rolled before a batch that is so much younger than its first.
    pub segment_ms: i64,
    /// Kafka's `segment.jitter.ms`: up to so much is taken off `segment.ms`, different for each segment.
    pub segment_jitter_ms: i64,
}

/// How hot logs prepare what lies ahead of their end. For all logs of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrepareOptions {
    /// Filler that may be written ahead of a hot log's end; 0: none.
    pub fill_bytes_max: u32,
    /// Blocks that may be reserved ahead of a hot log's end; 0: none.
    pub reserve_bytes_max: u32,
    /// Write-back is started when so many bytes have gathered behind the head; 0: the kernel decides.
    pub write_back_bytes: u32,
}

impl Default for PrepareOptions {
    fn default() -> Self {
        Self {
            fill_bytes_max: 1024 * 1024,
            reserve_bytes_max: 16 * 1024 * 1024,
            write_back_bytes: 4 * 1024 * 1024,
        }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            segment_size_bytes_max: 1024 * 1024 * 1024,
            index_interval_bytes: 4096,
            index_size_bytes_max: 10 * 1024 * 1024,
            compacted: false,
            file_delete_delay_ms: 60_000,
            preallocate: false,
            deletes: false,
            retention_ms: 604_800_000,
            retention_bytes: -1,
            segment_ms: 604_800_000,
            segment_jitter_ms: 0,
        }
    }
}

/// Filler and reserved blocks that all hot logs of one shard hold ahead of their ends.
pub const PREPARED_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Ranges up to this size are read into memory; larger ones are handed out as file ranges for `sendfile`.
pub const READ_COPY_BYTES_MAX: usize = 64 * 1024;
/// Batches below this size are copied into the shard's memory tail when they are appended.
pub const TAIL_BATCH_BYTES_MAX: usize = 4 * 1024;
/// Bytes of recent small batches that one shard keeps in memory, over all its logs.
pub const TAIL_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Recent batches whose position a log remembers (40 bytes each), so that reads near the end need no index.
pub const TAIL_BATCHES_MAX: usize = 64;
/// A read answered from memory has at most so many pieces; beyond, one file read is cheaper to send.
pub const TAIL_SLICES_MAX: usize = 16;
/// Readers of one segment whose next position is remembered, so that reading on needs no index.
pub const NEXT_READS_MAX: usize = 128;
/// Index entries gathered in memory before they are written to the index files in one piece.
pub const INDEX_PENDING_MAX: usize = 64;
/// Bytes read at once while batch headers are walked.
pub const HEADER_BLOCK_BYTES: usize = 4 * 1024;
/// Bytes read at once while a segment is scanned for recovery.
pub const RECOVERY_BLOCK_BYTES: usize = 1024 * 1024;
/// Bytes that a scan reads before it lets the shard's other tasks run.
pub const SCAN_TURN_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes of a small text file (checkpoint, properties) that are read at most.
pub const TEXT_FILE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of a start-up manifest that are written and read at most: 100 000 partitions with ten producers each take a third.
pub const MANIFEST_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Bytes at the end of a log whose headers are walked for the older batches of the producers in a snapshot.
pub const REFILL_BYTES: u64 = 1024 * 1024;
/// Bytes of an index of aborted transactions that are read at most: more than a segment can hold markers.
pub const TXN_INDEX_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Bytes of a producer snapshot that are read at most.
pub const SNAPSHOT_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Entries of a partition's leader epoch history that are kept in memory and written.
pub const EPOCHS_MAX: usize = 1_000_000;
/// Segments that leave a log at once; the rest waits for the next call, so that no call renames thousands of files.
pub const DISCARD_SEGMENTS_MAX: usize = 64;
/// What removing a small file counts for in the budget of [`crate::trash::Trash::empty`].
pub const TRASH_FILE_BYTES_MIN: u64 = 64 * 1024;
/// Bytes that a batch may decompress to while a record is looked up by time.
pub const LOOKUP_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Bytes of a segment that compaction reads at once.
pub const CLEAN_READ_BYTES: usize = 256 * 1024;
/// Bytes that compaction filters in one go, save for a larger batch: 100 to 200 µs of the helper.
pub const CLEAN_PIECE_BYTES: usize = 64 * 1024;
/// Bytes that compaction gathers before it writes them.
pub const CLEAN_WRITE_BYTES: u64 = 256 * 1024;
/// Bytes that compaction writes before it syncs them: one large sync would hold up everyone else's.
pub const CLEAN_SYNC_BYTES: u64 = 4 * 1024 * 1024;
