//! Configuration names of groups and of client metrics subscriptions, each with the broker names that give its default.
//!
//! Rows are sorted by name. Source: what a running Apache Kafka 4.3 lists; the descriptions are ours.

use crate::config::key::{TopicKey, topic_keys};

topic_keys! {
    pub(super) GROUP_KEYS

    "consumer.assignment.interval.ms" Int "1000" (min 0) Medium
        ["group.consumer.assignment.interval.ms" same] Served
        "The least time between two assignments of the consumer group.";
    "consumer.heartbeat.interval.ms" Int "5000" (min 1) Medium
        ["group.consumer.heartbeat.interval.ms" same] Served
        "How often members of the consumer group must call.";
    "consumer.session.timeout.ms" Int "45000" (min 1) Medium
        ["group.consumer.session.timeout.ms" same] Served
        "How long a silent member stays in the consumer group.";
    "share.assignment.interval.ms" Int "1000" (min 0) Medium
        ["group.share.assignment.interval.ms" same] Ignored
        "The least time between two assignments of the share group.";
    "share.auto.offset.reset" String "latest" share_offset_reset Medium [] Ignored
        "Where the share group begins: `earliest`, `latest`, or `by_duration:` and how far back.";
    "share.delivery.count.limit" Int "5" (min 2) Medium
        ["group.share.delivery.count.limit" same] Ignored
        "How often a record is delivered to the share group before it is given up.";
    "share.heartbeat.interval.ms" Int "5000" (min 1) Medium
        ["group.share.heartbeat.interval.ms" same] Ignored
        "How often members of the share group must call.";
    "share.isolation.level" String "read_uncommitted" (one_of "read_committed" "read_uncommitted")
        Medium [] Ignored
        "Whether the share group sees records of transactions before they are committed.";
    "share.partition.max.record.locks" Int "2000" (min 100) Medium
        ["group.share.partition.max.record.locks" same] Ignored
        "Records of one partition the share group may hold locked.";
    "share.record.lock.duration.ms" Int "30000" (min 1000) Medium
        ["group.share.record.lock.duration.ms" same] Ignored
        "How long a record handed to a member of the share group stays locked.";
    "share.renew.acknowledge.enable" Boolean "true" any Medium [] Ignored
        "Whether members of the share group may extend their locks.";
    "share.session.timeout.ms" Int "45000" (min 1) Medium
        ["group.share.session.timeout.ms" same] Ignored
        "How long a silent member stays in the share group.";
    "streams.assignment.interval.ms" Int "1000" (min 0) Medium
        ["group.streams.assignment.interval.ms" same] Ignored
        "The least time between two assignments of the streams group.";
    "streams.heartbeat.interval.ms" Int "5000" (min 1) Medium
        ["group.streams.heartbeat.interval.ms" same] Ignored
        "How often members of the streams group must call.";
    "streams.initial.rebalance.delay.ms" Int "3000" (min 0) Medium
        ["group.streams.initial.rebalance.delay.ms" same] Ignored
        "How long the first rebalance of the new streams group waits for more members.";
    "streams.num.standby.replicas" Int "0" (min 0) Medium
        ["group.streams.num.standby.replicas" same] Ignored
        "Standby copies of each task of the streams group.";
    "streams.session.timeout.ms" Int "45000" (min 1) Medium
        ["group.streams.session.timeout.ms" same] Ignored
        "How long a silent member stays in the streams group.";
}

topic_keys! {
    pub(super) CLIENT_METRICS_KEYS

    "interval.ms" Int "300000" any Medium [] Ignored
        "How often clients push their metrics.";
    "match" List "" any Medium [] Ignored
        "Which clients are meant: selectors and patterns, such as `client_id=app.*`.";
    "metrics" List "" any Medium [] Ignored
        "Prefixes of the names of the metrics wanted; `*` wants all.";
}
