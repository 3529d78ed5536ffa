//! Broker configuration names. Partition logs: directories, segments, retention, compaction, timestamps.
//!
//! Rows are sorted by name. Source: what a running Apache Kafka 4.3 lists; the descriptions are ours.

use crate::config::key::{ConfigKey, broker_keys};

broker_keys! {
    pub(super) KEYS

    "alter.config.policy.class.name" Class null any Low ReadOnly Ignored
        "A plugin class that may refuse a configuration change.";
    "auto.create.topics.enable" Boolean "true" any High ReadOnly Served
        "Whether naming a missing topic in a metadata request creates it.";
    "compression.gzip.level" Int "-1" gzip_level Medium ClusterWide Served
        "The level when the broker compresses with gzip.";
    "compression.lz4.level" Int "9" (range 1 17) Medium ClusterWide Ignored
        "The level when the broker compresses with lz4; Pelton has one level.";
    "compression.type" String "producer"
        (one_of "uncompressed" "zstd" "lz4" "snappy" "gzip" "producer") High ClusterWide Served
        "The codec topics are stored with; `producer` keeps what the producer chose.";
    "compression.zstd.level" Int "3" (range -131072 22) Medium ClusterWide Served
        "The level when the broker compresses with zstd.";
    "cordoned.log.dirs" List "" any Medium PerBroker Served
        "Log directories that take no new partitions.";
    "create.topic.policy.class.name" Class null any Low ReadOnly Ignored
        "A plugin class that may refuse a topic's creation.";
    "default.replication.factor" Int "1" any Medium ReadOnly Served
        "The replication factor of topics created without one.";
    "delete.topic.enable" Boolean "true" any High ReadOnly Served
        "Whether topics can be deleted.";
    "log.cleaner.backoff.ms" Long "15000" (min 0) Medium ClusterWide Served
        "How long a cleaner rests when no log needs cleaning.";
    "log.cleaner.dedupe.buffer.size" Long "134217728" any Medium ClusterWide Served
        "Memory for the key maps of all cleaner threads together.";
    "log.cleaner.delete.retention.ms" Long "86400000" (min 0) Medium ClusterWide Served
        "How long a compacted topic keeps a delete marker.";
    "log.cleaner.enable" Boolean "true" any Medium ReadOnly Served
        "Whether compacted topics are cleaned.";
    "log.cleaner.io.buffer.load.factor" Double "0.9" any Medium ClusterWide Served
        "How full a cleaner's key map may become.";
    "log.cleaner.io.buffer.size" Int "524288" (min 0) Medium ClusterWide Ignored
        "Memory for the read and write buffers of all cleaner threads together.";
    "log.cleaner.io.max.bytes.per.second" Double "1.7976931348623157E308" any Medium ClusterWide
        Served
        "The cleaners' reads and writes per second, together.";
    "log.cleaner.max.compaction.lag.ms" Long "9223372036854775807" (min 1) Medium ClusterWide
        Served
        "A record becomes due for compaction at the latest after this long.";
    "log.cleaner.min.cleanable.ratio" Double "0.5" (ratio 0.0 1.0) Medium ClusterWide Served
        "The share of uncleaned bytes from which a log is worth cleaning.";
    "log.cleaner.min.compaction.lag.ms" Long "0" (min 0) Medium ClusterWide Served
        "A record stays uncompacted at least this long.";
    "log.cleaner.threads" Int "1" (min 0) Medium ClusterWide Served
        "Threads that compact logs.";
    "log.cleanup.policy" List "delete" (one_of "compact" "delete") Medium ClusterWide Served
        "What happens to old segments: `delete`, `compact`, both, or nothing.";
    "log.dir" List "/tmp/kafka-logs" any High ReadOnly Served
        "The data directory when `log.dirs` is unset.";
    "log.dir.failure.timeout.ms" Long "30000" (min 1) Low ReadOnly Ignored
        "How long a broker may fail to report a lost log directory before it stops.";
    "log.dirs" List null any High ReadOnly Served
        "The data directories.";
    "log.flush.interval.messages" Long "9223372036854775807" (min 1) High ClusterWide Served
        "Records after which a log is synced.";
    "log.flush.interval.ms" Long null any High ClusterWide Served
        "How long a record may stay unsynced; the scheduler's interval when unset.";
    "log.flush.offset.checkpoint.interval.ms" Int "60000" (min 0) High ReadOnly Served
        "How often recovery points are written down.";
    "log.flush.scheduler.interval.ms" Long "9223372036854775807" any High ReadOnly Served
        "How often it is checked whether a log must be synced; without it, Pelton looks all the time.";
    "log.flush.start.offset.checkpoint.interval.ms" Int "60000" (min 0) High ReadOnly Planned
        "How often log start offsets are written down.";
    "log.index.interval.bytes" Int "4096" (min 0) Medium ClusterWide Served
        "Log bytes between two entries of the offset index.";
    "log.index.size.max.bytes" Int "10485760" (min 4) Medium ClusterWide Served
        "The size at which an offset index is full and its segment rolls.";
    hidden "log.initial.task.delay.ms" Long "30000" (min 0) Low ReadOnly Ignored
        "The wait before background work on logs begins after a start.";
    "log.local.retention.bytes" Long "-2" (min -2) Medium ClusterWide Ignored
        "Bytes of a tiered log kept on local disk; −2 means the whole retention.";
    "log.local.retention.ms" Long "-2" (min -2) Medium ClusterWide Ignored
        "How long a tiered log is kept on local disk; −2 means the whole retention.";
    "log.message.timestamp.after.max.ms" Long "3600000" (min 0) Medium ClusterWide Served
        "How far a record's timestamp may lie ahead of the broker's clock.";
    "log.message.timestamp.before.max.ms" Long "9223372036854775807" (min 0) Medium ClusterWide
        Served
        "How far a record's timestamp may lie behind the broker's clock.";
    "log.message.timestamp.type" String "CreateTime"
        (one_of "CreateTime" "LogAppendTime") Medium ClusterWide Served
        "Whether a record's timestamp is the producer's or the time of its append.";
    "log.preallocate" Boolean "false" any Medium ClusterWide Served
        "Whether a new segment's file is given its full size at once.";
    "log.prepare.fill.bytes" Int "1048576" (range 0 16777216) Low ReadOnly Served
        "Extension of Pelton: filler written at most ahead of a partition that is written fast; 0: none.";
    "log.prepare.reserve.bytes" Int "16777216" (range 0 1073741824) Low ReadOnly Served
        "Extension of Pelton: blocks reserved at most ahead of a partition that is written fast; 0: none.";
    "log.retention.bytes" Long "-1" any High ClusterWide Served
        "Bytes a partition keeps before old segments go; −1 is no limit.";
    "log.retention.check.interval.ms" Long "300000" (min 1) Medium ReadOnly Served
        "How often segments are checked for deletion.";
    "log.retention.hours" Int "168" any High ReadOnly Served
        "How long segments are kept, in hours; the minutes and milliseconds keys win over it.";
    "log.retention.minutes" Int null any High ReadOnly Served
        "How long segments are kept, in minutes; the milliseconds key wins over it.";
    "log.retention.ms" Long null any High ClusterWide Served
        "How long segments are kept; −1 is for ever.";
    "log.roll.hours" Int "168" (min 1) High ReadOnly Served
        "The age at which a segment rolls, in hours; the milliseconds key wins over it.";
    "log.roll.jitter.hours" Int "0" (min 0) High ReadOnly Served
        "Up to how much earlier a segment may roll, at random, in hours.";
    "log.roll.jitter.ms" Long null any High ClusterWide Served
        "Up to how much earlier a segment may roll, at random.";
    "log.roll.ms" Long null any High ClusterWide Served
        "The age at which a segment rolls.";
    "log.segment.bytes" Int "1073741824" (min 1048576) High ClusterWide Served
        "The size at which a segment rolls.";
    "log.segment.delete.delay.ms" Long "60000" (min 0) High ClusterWide Served
        "How long a deleted file stays on disk under another name.";
    "log.sync.interval.ms" Long "1000" (min 1) Medium ClusterWide Served
        "Extension of Pelton: with `sync.policy` `interval`, how long a record may stay unsynced.";
    "log.sync.policy" String "none" (one_of "none" "interval" "group") High ClusterWide Served
        "Extension of Pelton: `none` leaves syncing to the flush settings, `interval` also syncs every `sync.interval.ms`, `group` syncs before a record is acknowledged or seen.";
    "log.write.back.bytes" Int "4194304" (range 0 1073741824) Low ReadOnly Served
        "Extension of Pelton: bytes of a segment after which their write-back is started; 0: the kernel decides.";
    "message.max.bytes" Int "1048588" (min 0) High ClusterWide Served
        "The largest record batch a partition takes.";
    "min.insync.replicas" Int "1" (min 1) High ClusterWide Served
        "Replicas in sync that acks=all needs.";
    "num.partitions" Int "1" (min 1) Medium ReadOnly Served
        "Partitions of topics created without a count.";
    "num.recovery.threads.per.data.dir" Int "2" (min 1) High ClusterWide Ignored
        "Threads that recover logs at start; Pelton's shards recover their own.";
    hidden "producer.id.expiration.check.interval.ms" Int "600000" (min 1) Low ReadOnly Planned
        "How often idle producers are looked for.";
    "producer.id.expiration.ms" Int "86400000" (min 1) Low ClusterWide Served
        "How long the state of an idle idempotent producer is kept.";
    "unclean.leader.election.enable" Boolean "false" any High ClusterWide Planned
        "Whether a replica that is not in sync may lead when no other can.";
    hidden "unclean.leader.election.interval.ms" Long "300000" (min 1) Medium ReadOnly Ignored
        "How often unclean elections are considered.";
}
