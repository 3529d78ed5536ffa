//! Broker configuration names. Group, share and transaction coordinators and their internal topics.
//!
//! Rows are sorted by name. Source: what a running Apache Kafka 4.3 lists; the descriptions are ours.

use crate::config::key::{ConfigKey, broker_keys};

broker_keys! {
    pub(super) KEYS

    "add.partitions.to.txn.retry.backoff.max.ms" Int "100" (min 0) High ReadOnly Served
        "The longest server-side wait before a partition is added to a transaction again.";
    "add.partitions.to.txn.retry.backoff.ms" Int "20" (min 1) High ReadOnly Served
        "The server-side wait before a partition is added to a transaction again.";
    "group.consumer.assignment.interval.ms" Int "1000" (min 0) Medium ClusterWide Served
        "The least time between two assignments of a consumer group.";
    "group.consumer.assignors" List "uniform,range" any Medium ReadOnly Served
        "The assignors on offer for consumer groups, the first being the default.";
    "group.consumer.heartbeat.interval.ms" Int "5000" (min 1) Medium ReadOnly Served
        "How often members of a consumer group must call.";
    "group.consumer.max.assignment.interval.ms" Int "15000" (min 0) Medium ReadOnly Served
        "The most a consumer group may set as assignment interval.";
    "group.consumer.max.heartbeat.interval.ms" Int "15000" (min 1) Medium ReadOnly Served
        "The most a consumer group may set as heartbeat interval.";
    "group.consumer.max.session.timeout.ms" Int "60000" (min 1) Medium ReadOnly Served
        "The most a consumer group may set as session timeout.";
    "group.consumer.max.size" Int "2147483647" (min 1) Medium ReadOnly Served
        "Members a consumer group may have.";
    "group.consumer.migration.policy" String "bidirectional"
        (any_case "DISABLED" "DOWNGRADE" "UPGRADE" "BIDIRECTIONAL") Medium ReadOnly Served
        "Which conversions between classic and consumer groups are allowed.";
    "group.consumer.min.assignment.interval.ms" Int "0" (min 0) Medium ReadOnly Served
        "The least a consumer group may set as assignment interval.";
    "group.consumer.min.heartbeat.interval.ms" Int "5000" (min 1) Medium ReadOnly Served
        "The least a consumer group may set as heartbeat interval.";
    "group.consumer.min.session.timeout.ms" Int "45000" (min 1) Medium ReadOnly Served
        "The least a consumer group may set as session timeout.";
    hidden "group.consumer.regex.refresh.interval.ms" Int "600000" (min 10000) Medium ReadOnly
        Served
        "How often a group's topic pattern is resolved again.";
    "group.consumer.session.timeout.ms" Int "45000" (min 1) Medium ReadOnly Served
        "How long a silent member stays in a consumer group.";
    "group.coordinator.append.linger.ms" Int "-1" (min -1) Medium ReadOnly Planned
        "How long the coordinator gathers records before it writes; −1 adapts to the load.";
    "group.coordinator.background.threads" Int "2" (min 1) High ReadOnly Ignored
        "Threads for the coordinator's slow work.";
    "group.coordinator.cached.buffer.max.bytes" Int "1048588" (min 524288) Medium ClusterWide
        Ignored
        "The largest write buffer the coordinator keeps for reuse.";
    "group.coordinator.rebalance.protocols" List "classic,consumer,streams"
        (one_of "consumer" "classic" "share" "streams") Medium ReadOnly Served
        "The group protocols on offer.";
    "group.coordinator.threads" Int "4" (min 1) High ReadOnly Ignored
        "Threads of the group coordinator; Pelton's shards coordinate their own groups.";
    "group.initial.rebalance.delay.ms" Int "3000" any Medium ReadOnly Served
        "How long the first rebalance of a new classic group waits for more members.";
    "group.max.session.timeout.ms" Int "1800000" any Medium ReadOnly Served
        "The longest session timeout a classic member may ask for.";
    "group.max.size" Int "2147483647" (min 1) Medium ReadOnly Served
        "Members a classic group may have.";
    "group.min.session.timeout.ms" Int "6000" any Medium ReadOnly Served
        "The shortest session timeout a classic member may ask for.";
    "group.share.assignment.interval.ms" Int "1000" (min 0) Medium ClusterWide Ignored
        "The least time between two assignments of a share group.";
    "group.share.assignors" List "simple" any Medium ReadOnly Ignored
        "The assignors on offer for share groups.";
    "group.share.delivery.count.limit" Int "5" (range 2 10) Medium ReadOnly Ignored
        "How often a record is delivered to a share group before it is given up.";
    "group.share.heartbeat.interval.ms" Int "5000" (min 1) Medium ReadOnly Ignored
        "How often members of a share group must call.";
    hidden "group.share.initialize.retry.interval.ms" Int "30000" (min 1) Low ReadOnly Ignored
        "How often the set-up of a share group's state is tried again.";
    "group.share.max.assignment.interval.ms" Int "15000" (min 0) Medium ReadOnly Ignored
        "The most a share group may set as assignment interval.";
    "group.share.max.delivery.count.limit" Int "10" (range 5 25) Medium ReadOnly Ignored
        "The most a share group may set as delivery limit.";
    "group.share.max.heartbeat.interval.ms" Int "15000" (min 1) Medium ReadOnly Ignored
        "The most a share group may set as heartbeat interval.";
    "group.share.max.partition.max.record.locks" Int "4000" (range 2000 10000) Medium ReadOnly
        Ignored
        "The most a share group may set as limit of locked records.";
    "group.share.max.record.lock.duration.ms" Int "60000" (range 30000 3600000) Medium ReadOnly
        Ignored
        "The most a share group may set as lock duration.";
    "group.share.max.session.timeout.ms" Int "60000" (min 1) Medium ReadOnly Ignored
        "The most a share group may set as session timeout.";
    "group.share.max.share.sessions" Int "2000" (min 1) Medium ReadOnly Ignored
        "Share sessions kept at once.";
    "group.share.max.size" Int "200" (range 1 1000) Medium ReadOnly Ignored
        "Members a share group may have.";
    "group.share.min.assignment.interval.ms" Int "0" (min 0) Medium ReadOnly Ignored
        "The least a share group may set as assignment interval.";
    "group.share.min.delivery.count.limit" Int "2" (range 2 5) Medium ReadOnly Ignored
        "The least a share group may set as delivery limit.";
    "group.share.min.heartbeat.interval.ms" Int "5000" (min 1) Medium ReadOnly Ignored
        "The least a share group may set as heartbeat interval.";
    "group.share.min.partition.max.record.locks" Int "100" (range 100 2000) Medium ReadOnly Ignored
        "The least a share group may set as limit of locked records.";
    "group.share.min.record.lock.duration.ms" Int "15000" (range 1000 30000) Medium ReadOnly Ignored
        "The least a share group may set as lock duration.";
    "group.share.min.session.timeout.ms" Int "45000" (min 1) Medium ReadOnly Ignored
        "The least a share group may set as session timeout.";
    "group.share.partition.max.record.locks" Int "2000" (range 100 10000) Medium ReadOnly Ignored
        "Records of one partition a share group may hold locked.";
    hidden "group.share.persister.class.name" String
        "org.apache.kafka.server.share.persister.DefaultStatePersister" any Medium ReadOnly Ignored
        "The class that keeps share groups' state.";
    "group.share.record.lock.duration.ms" Int "30000" (range 1000 3600000) Medium ReadOnly Ignored
        "How long a record handed to a share consumer stays locked.";
    "group.share.session.timeout.ms" Int "45000" (min 1) Medium ReadOnly Ignored
        "How long a silent member stays in a share group.";
    "group.streams.assignment.interval.ms" Int "1000" (min 0) Medium ClusterWide Ignored
        "The least time between two assignments of a streams group.";
    "group.streams.heartbeat.interval.ms" Int "5000" (min 1) Medium ReadOnly Ignored
        "How often members of a streams group must call.";
    "group.streams.initial.rebalance.delay.ms" Int "3000" (min 0) Medium ReadOnly Ignored
        "How long the first rebalance of a new streams group waits for more members.";
    "group.streams.max.assignment.interval.ms" Int "15000" (min 0) Medium ReadOnly Ignored
        "The most a streams group may set as assignment interval.";
    "group.streams.max.heartbeat.interval.ms" Int "15000" (min 1) Medium ReadOnly Ignored
        "The most a streams group may set as heartbeat interval.";
    "group.streams.max.session.timeout.ms" Int "60000" (min 1) Medium ReadOnly Ignored
        "The most a streams group may set as session timeout.";
    "group.streams.max.size" Int "2147483647" (min 1) Medium ReadOnly Ignored
        "Members a streams group may have.";
    "group.streams.max.standby.replicas" Int "2" (min 0) Medium ReadOnly Ignored
        "The most a streams group may set as standby count.";
    "group.streams.min.assignment.interval.ms" Int "0" (min 0) Medium ReadOnly Ignored
        "The least a streams group may set as assignment interval.";
    "group.streams.min.heartbeat.interval.ms" Int "5000" (min 1) Medium ReadOnly Ignored
        "The least a streams group may set as heartbeat interval.";
    "group.streams.min.session.timeout.ms" Int "45000" (min 1) Medium ReadOnly Ignored
        "The least a streams group may set as session timeout.";
    "group.streams.num.standby.replicas" Int "0" (min 0) Medium ReadOnly Ignored
        "Standby tasks per task of a streams group.";
    "group.streams.session.timeout.ms" Int "45000" (min 1) Medium ReadOnly Ignored
        "How long a silent member stays in a streams group.";
    "offset.metadata.max.bytes" Int "4096" any High ReadOnly Served
        "The longest note a consumer may commit with an offset.";
    "offsets.commit.timeout.ms" Int "5000" (min 1) High ReadOnly Served
        "How long an offset commit may wait for its replicas.";
    "offsets.load.buffer.size" Int "5242880" (min 1) High ReadOnly Served
        "The read size when committed offsets are loaded.";
    "offsets.retention.check.interval.ms" Long "600000" (min 1) High ReadOnly Served
        "How often expired offsets are looked for.";
    "offsets.retention.minutes" Int "10080" (min 1) High ReadOnly Served
        "How long offsets outlive their group.";
    "offsets.topic.compression.codec" Int "0" any High ReadOnly Served
        "The codec id of the committed-offsets topic.";
    "offsets.topic.num.partitions" Int "50" (min 1) High ReadOnly Served
        "Partitions of the committed-offsets topic.";
    "offsets.topic.replication.factor" Short "3" (min 1) High ReadOnly Served
        "The replication factor of the committed-offsets topic.";
    "offsets.topic.segment.bytes" Int "104857600" (min 1) High ReadOnly Served
        "The segment size of the committed-offsets topic.";
    "share.coordinator.append.linger.ms" Int "-1" (min -1) Medium ReadOnly Ignored
        "How long the share coordinator gathers records before it writes.";
    "share.coordinator.cached.buffer.max.bytes" Int "1048588" (min 524288) Medium ClusterWide
        Ignored
        "The largest write buffer the share coordinator keeps for reuse.";
    hidden "share.coordinator.cold.partition.snapshot.interval.ms" Int "300000" (min 1) Low
        ReadOnly Ignored
        "How often idle share partitions are snapshotted.";
    "share.coordinator.load.buffer.size" Int "5242880" (min 1) High ReadOnly Ignored
        "The read size when share state is loaded.";
    "share.coordinator.snapshot.update.records.per.snapshot" Int "500" (range 0 500) Medium
        ReadOnly Ignored
        "Updates of share state between two snapshots.";
    "share.coordinator.state.topic.compression.codec" Int "0" any High ReadOnly Ignored
        "The codec id of the share-state topic.";
    "share.coordinator.state.topic.min.isr" Short "2" (min 1) High ReadOnly Served
        "The min.insync.replicas of the share-state topic.";
    "share.coordinator.state.topic.num.partitions" Int "50" (min 1) High ReadOnly Served
        "Partitions of the share-state topic.";
    hidden "share.coordinator.state.topic.prune.interval.ms" Int "300000" (min 1) Low ReadOnly
        Ignored
        "How often old records of the share-state topic are deleted.";
    "share.coordinator.state.topic.replication.factor" Short "3" (min 1) High ReadOnly Served
        "The replication factor of the share-state topic.";
    "share.coordinator.state.topic.segment.bytes" Int "104857600" (min 1) High ReadOnly Served
        "The segment size of the share-state topic.";
    "share.coordinator.threads" Int "1" (min 1) Medium ReadOnly Ignored
        "Threads of the share coordinator.";
    "share.coordinator.write.timeout.ms" Int "5000" (min 1) High ReadOnly Ignored
        "How long a write of share state may wait for its replicas.";
    "transaction.abort.timed.out.transaction.cleanup.interval.ms" Int "10000" (min 1) Low ReadOnly
        Served
        "How often transactions past their timeout are aborted.";
    "transaction.max.timeout.ms" Int "900000" (min 1) High ReadOnly Served
        "The longest timeout a transactional producer may ask for.";
    "transaction.partition.verification.enable" Boolean "true" any Low ClusterWide Served
        "Whether an append checks that its partition belongs to the transaction.";
    "transaction.remove.expired.transaction.cleanup.interval.ms" Int "3600000" (min 1) Low ReadOnly
        Served
        "How often expired transactional ids are removed.";
    "transaction.state.log.load.buffer.size" Int "5242880" (min 1) High ReadOnly Served
        "The read size when transaction state is loaded.";
    "transaction.state.log.min.isr" Int "2" (min 1) High ReadOnly Served
        "The min.insync.replicas of the transaction-state topic.";
    "transaction.state.log.num.partitions" Int "50" (min 1) High ReadOnly Served
        "Partitions of the transaction-state topic.";
    "transaction.state.log.replication.factor" Short "3" (min 1) High ReadOnly Served
        "The replication factor of the transaction-state topic.";
    "transaction.state.log.segment.bytes" Int "104857600" (min 1) High ReadOnly Served
        "The segment size of the transaction-state topic.";
    "transaction.two.phase.commit.enable" Boolean "false" any Low ReadOnly Ignored
        "Whether producers may take part in transactions steered from outside.";
    "transactional.id.expiration.ms" Int "604800000" (min 1) High ReadOnly Served
        "How long an idle transactional id is remembered.";
}
