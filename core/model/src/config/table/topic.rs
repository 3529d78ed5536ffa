//! Topic configuration names, each with the broker names that give its default.
//!
//! Rows are sorted by name. Source: what a running Apache Kafka 4.3 lists; the descriptions are ours.

use crate::config::key::{TopicKey, topic_keys};

topic_keys! {
    pub(super) KEYS

    "cleanup.policy" List "delete"
        (one_of "compact" "delete") Medium ["log.cleanup.policy" same] Served
        "What happens to old segments: `delete`, `compact`, both, or nothing.";
    "compression.gzip.level" Int "-1" gzip_level Medium ["compression.gzip.level" same] Served
        "The level when the broker compresses with gzip.";
    "compression.lz4.level" Int "9" (range 1 17) Medium ["compression.lz4.level" same] Ignored
        "The level when the broker compresses with lz4; Pelton has one level.";
    "compression.type" String "producer"
        (one_of "uncompressed" "zstd" "lz4" "snappy" "gzip" "producer") Medium ["compression.type" same] Served
        "The codec the topic is stored with; `producer` keeps what the producer chose.";
    "compression.zstd.level" Int "3" (range -131072 22) Medium
        ["compression.zstd.level" same] Served
        "The level when the broker compresses with zstd.";
    "delete.retention.ms" Long "86400000" (min 0) Medium
        ["log.cleaner.delete.retention.ms" same] Served
        "How long a compacted topic keeps a delete marker.";
    "file.delete.delay.ms" Long "60000" (min 0) Medium ["log.segment.delete.delay.ms" same] Served
        "How long a deleted file stays on disk under another name.";
    "flush.messages" Long "9223372036854775807" (min 1) Medium
        ["log.flush.interval.messages" same] Served
        "Records after which the log is synced.";
    "flush.ms" Long "9223372036854775807" (min 0) Medium
        ["log.flush.interval.ms" same "log.flush.scheduler.interval.ms" same] Served
        "How long a record may stay unsynced.";
    "follower.replication.throttled.replicas" List "" throttled Medium [] Ignored
        "Following replicas whose replication is throttled, as partition:broker, or `*`.";
    "index.interval.bytes" Int "4096" (min 0) Medium ["log.index.interval.bytes" same] Served
        "Log bytes between two entries of the offset index.";
    hidden "internal.segment.bytes" Int null any Medium [] Ignored
        "A test-only segment size.";
    "leader.replication.throttled.replicas" List "" throttled Medium [] Ignored
        "Leading replicas whose replication is throttled, as partition:broker, or `*`.";
    "local.retention.bytes" Long "-2" (min -2) Medium ["log.local.retention.bytes" same] Ignored
        "Bytes of a tiered log kept on local disk; −2 means `retention.bytes`.";
    "local.retention.ms" Long "-2" (min -2) Medium ["log.local.retention.ms" same] Ignored
        "How long a tiered log is kept on local disk; −2 means `retention.ms`.";
    "max.compaction.lag.ms" Long "9223372036854775807" (min 1) Medium
        ["log.cleaner.max.compaction.lag.ms" same] Served
        "A record becomes due for compaction at the latest after this long.";
    "max.message.bytes" Int "1048588" (min 0) Medium ["message.max.bytes" same] Served
        "The largest record batch the topic takes.";
    "message.timestamp.after.max.ms" Long "3600000" (min 0) Medium
        ["log.message.timestamp.after.max.ms" same] Served
        "How far a record's timestamp may lie ahead of the broker's clock.";
    "message.timestamp.before.max.ms" Long "9223372036854775807" (min 0) Medium
        ["log.message.timestamp.before.max.ms" same] Served
        "How far a record's timestamp may lie behind the broker's clock.";
    "message.timestamp.type" String "CreateTime"
        (one_of "CreateTime" "LogAppendTime") Medium ["log.message.timestamp.type" same] Served
        "Whether a record's timestamp is the producer's or the time of its append.";
    "min.cleanable.dirty.ratio" Double "0.5" (ratio 0.0 1.0) Medium
        ["log.cleaner.min.cleanable.ratio" same] Served
        "The share of uncleaned bytes from which the log is worth cleaning.";
    "min.compaction.lag.ms" Long "0" (min 0) Medium
        ["log.cleaner.min.compaction.lag.ms" same] Served
        "A record stays uncompacted at least this long.";
    "min.insync.replicas" Int "1" (min 1) Medium ["min.insync.replicas" same] Served
        "Replicas in sync that acks=all needs.";
    "preallocate" Boolean "false" any Medium ["log.preallocate" same] Served
        "Whether a new segment's file is given its full size at once.";
    "remote.log.copy.disable" Boolean "false" any Medium [] Ignored
        "Whether a tiered topic stops copying to remote storage.";
    "remote.log.delete.on.disable" Boolean "false" any Medium [] Ignored
        "Whether remote data goes when tiered storage is switched off for the topic.";
    "remote.storage.enable" Boolean "false" any Medium [] Ignored
        "Whether the topic uses tiered storage.";
    "retention.bytes" Long "-1" any Medium ["log.retention.bytes" same] Served
        "Bytes a partition keeps before old segments go; −1 is no limit.";
    "retention.ms" Long "604800000" (min -1) Medium
        ["log.retention.ms" same "log.retention.minutes" minutes "log.retention.hours" hours] Served
        "How long segments are kept; −1 is for ever.";
    "segment.bytes" Int "1073741824" (min 1048576) Medium ["log.segment.bytes" same] Served
        "The size at which a segment rolls.";
    "segment.index.bytes" Int "10485760" (min 4) Medium ["log.index.size.max.bytes" same] Served
        "The size at which an offset index is full and its segment rolls.";
    "segment.jitter.ms" Long "0" (min 0) Medium
        ["log.roll.jitter.ms" same "log.roll.jitter.hours" hours] Served
        "Up to how much earlier a segment may roll, at random.";
    "segment.ms" Long "604800000" (min 1) Medium ["log.roll.ms" same "log.roll.hours" hours] Served
        "The age at which a segment rolls.";
    "sync.interval.ms" Long "1000" (min 1) Medium ["log.sync.interval.ms" same] Served
        "Extension of Pelton: with `sync.policy` `interval`, how long a record may stay unsynced.";
    "sync.policy" String "none" (one_of "none" "interval" "group") Medium
        ["log.sync.policy" same] Served
        "Extension of Pelton: `none` leaves syncing to the flush settings, `interval` also syncs every `sync.interval.ms`, `group` syncs before a record is acknowledged or seen.";
    "unclean.leader.election.enable" Boolean "false" any Medium
        ["unclean.leader.election.enable" same] Planned
        "Whether a replica that is not in sync may lead when no other can.";
}
