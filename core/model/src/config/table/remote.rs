//! Broker configuration names. Tiered storage; Pelton has none, the names are accepted.
//!
//! Rows are sorted by name. Source: what a running Apache Kafka 4.3 lists; the descriptions are ours.

use crate::config::key::{ConfigKey, broker_keys};

broker_keys! {
    pub(super) KEYS

    "remote.fetch.max.wait.ms" Int "500" (min 1) Medium ClusterWide Ignored
        "How long a read from remote storage may hold up a fetch.";
    "remote.list.offsets.request.timeout.ms" Long "30000" (min 1) Medium ClusterWide Ignored
        "How long an offset look-up in remote storage may take.";
    "remote.log.index.file.cache.total.size.bytes" Long "1073741824" (min 1) Low ClusterWide Ignored
        "Disk space for indexes of remote segments.";
    hidden "remote.log.index.file.cache.ttl.ms" Long "900000" (min -1) Low ReadOnly Ignored
        "How long an unused index of a remote segment is kept.";
    "remote.log.manager.copier.thread.pool.size" Int "10" (min 1) Medium ClusterWide Ignored
        "Threads that copy segments to remote storage.";
    "remote.log.manager.copy.max.bytes.per.second" Long "9223372036854775807" (min 1) Medium
        ClusterWide Ignored
        "Bytes copied to remote storage per second.";
    "remote.log.manager.copy.quota.window.num" Int "11" (min 1) Medium ReadOnly Ignored
        "Samples kept to measure the copy quota.";
    "remote.log.manager.copy.quota.window.size.seconds" Int "1" (min 1) Medium ReadOnly Ignored
        "The length of one sample of the copy quota.";
    "remote.log.manager.expiration.thread.pool.size" Int "10" (min 1) Medium ClusterWide Ignored
        "Threads that delete expired remote segments.";
    "remote.log.manager.fetch.max.bytes.per.second" Long "9223372036854775807" (min 1) Medium
        ClusterWide Ignored
        "Bytes read from remote storage per second.";
    "remote.log.manager.fetch.quota.window.num" Int "11" (min 1) Medium ReadOnly Ignored
        "Samples kept to measure the remote fetch quota.";
    "remote.log.manager.fetch.quota.window.size.seconds" Int "1" (min 1) Medium ReadOnly Ignored
        "The length of one sample of the remote fetch quota.";
    "remote.log.manager.follower.thread.pool.size" Int "2" (min 1) Medium ClusterWide Ignored
        "Threads for followers' work on remote logs.";
    "remote.log.manager.task.interval.ms" Long "30000" (min 1) Low ReadOnly Ignored
        "How often copying and expiry run.";
    hidden "remote.log.manager.task.retry.backoff.max.ms" Long "30000" (min 1) Low ReadOnly Ignored
        "The longest wait before a remote task is tried again.";
    hidden "remote.log.manager.task.retry.backoff.ms" Long "500" (min 1) Low ReadOnly Ignored
        "The first wait before a remote task is tried again.";
    hidden "remote.log.manager.task.retry.jitter" Double "0.2" (ratio 0.0 0.5) Low ReadOnly Ignored
        "The random share of a remote task's back-off.";
    "remote.log.manager.thread.pool.size" Int "2" (min 1) Medium ReadOnly Ignored
        "Threads that schedule remote tasks.";
    "remote.log.metadata.custom.metadata.max.bytes" Int "128" (min 0) Low ReadOnly Ignored
        "The largest note a storage plugin may keep per segment.";
    "remote.log.metadata.manager.class.name" String
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager" non_empty Medium ReadOnly Ignored
        "The plugin class that keeps remote segments' metadata.";
    "remote.log.metadata.manager.class.path" String null any Medium ReadOnly Ignored
        "Where the metadata plugin's classes lie.";
    "remote.log.metadata.manager.impl.prefix" String "rlmm.config." non_empty Medium ReadOnly
        Ignored
        "The prefix of settings handed to the metadata plugin.";
    "remote.log.metadata.manager.listener.name" String null non_empty Medium ReadOnly Ignored
        "The listener the metadata plugin connects to.";
    "remote.log.reader.max.pending.tasks" Int "100" (min 1) Medium ReadOnly Ignored
        "Remote reads that may wait for a thread.";
    "remote.log.reader.threads" Int "10" (min 1) Medium ClusterWide Ignored
        "Threads that read from remote storage.";
    "remote.log.storage.manager.class.name" String null non_empty Medium ReadOnly Ignored
        "The plugin class that stores remote segments.";
    "remote.log.storage.manager.class.path" String null any Medium ReadOnly Ignored
        "Where the storage plugin's classes lie.";
    "remote.log.storage.manager.impl.prefix" String "rsm.config." non_empty Medium ReadOnly Ignored
        "The prefix of settings handed to the storage plugin.";
    "remote.log.storage.system.enable" Boolean "false" any Medium ReadOnly Ignored
        "Whether tiered storage is available at all.";
}
