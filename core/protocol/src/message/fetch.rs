//! Fetch (1): reads records, for consumers and for followers.
//!
//! Records go into a response as slices, in memory or still in a file, and are sent as they are
//! ([`encode_fetch_response`]). A client decodes with [`crate::codec::Reader::shared`] and gets them as slices of the frame.
//! Source: KIP-74, KIP-227, KIP-392, KIP-595, KIP-903, KIP-951, KIP-516, KIP-1166.

use pelton_model::TopicId;
use pelton_model::slice::Slice;

use crate::codec::{Records, Str};
use crate::header;
use crate::{message, structure};

message! {
    /// Reads records of some partitions, and waits for them if there are none yet.
    FetchRequest, key 1, versions 4-18, flexible 12+ {
        /// The cluster the follower belongs to; null for a consumer.
        cluster_id: Option<Str>, 12+, nullable 12+ default null, tag 0 12+;
        /// The follower's node id; −1 is a consumer.
        replica_id: i32, 0-14, default -1;
        /// Who fetches, when it is a follower.
        replica_state: ReplicaState, 15+, tag 1 15+;
        /// How long to wait for `min_bytes`, in milliseconds.
        max_wait_ms: i32, 0+;
        /// The bytes worth an answer before `max_wait_ms` is over.
        min_bytes: i32, 0+;
        /// The bytes an answer should not exceed.
        max_bytes: i32, 3+, default 0x7fff_ffff;
        /// 0 reads all committed records, 1 only those of finished transactions too.
        isolation_level: i8, 4+;
        /// The fetch session; 0 is none.
        session_id: i32, 7+;
        /// The request's number in the session; −1 ends it, 0 begins one.
        session_epoch: i32, 7+, default -1;
        /// The topics.
        topics: Vec<FetchTopic>, 0+;
        /// What the session no longer wants.
        forgotten_topics_data: Vec<ForgottenTopic>, 7+;
        /// The consumer's rack; empty when it has none.
        rack_id: Str, 11+;
    }
}

structure! {
    /// A follower.
    ReplicaState {
        /// The follower's node id; −1 is a consumer.
        replica_id: i32, 15+, default -1;
        /// The follower's broker epoch; −1 is unknown.
        replica_epoch: i64, 15+, default -1;
    }
}

structure! {
    /// A topic read, by name or (from version 13 on) by id.
    FetchTopic {
        /// The topic's name.
        topic: Str, 0-12;
        /// The topic's id; zero where the name tells.
        topic_id: TopicId, 13+;
        /// The partitions.
        partitions: Vec<FetchPartition>, 0+;
    }
}

structure! {
    /// A partition read.
    FetchPartition {
        /// The partition's index.
        partition: i32, 0+;
        /// The epoch the client believes in, checked by the leader; −1 asks for no check.
        current_leader_epoch: i32, 9+, default -1;
        /// The offset to begin at.
        fetch_offset: i64, 0+;
        /// The epoch of the last record fetched; −1 is none.
        last_fetched_epoch: i32, 12+, default -1;
        /// The first offset the follower keeps; −1 for a consumer.
        log_start_offset: i64, 5+, default -1;
        /// The bytes of this partition that an answer should not exceed.
        partition_max_bytes: i32, 0+;
        /// The follower's log directory.
        replica_directory_id: TopicId, 17+, tag 0 17+;
        /// What the follower knows as the high watermark; the largest integer when nothing.
        high_watermark: i64, 18+, tag 1 18+, default 9_223_372_036_854_775_807;
    }
}

structure! {
    /// A topic the session no longer wants partitions of.
    ForgottenTopic {
        /// The topic's name.
        topic: Str, 7-12;
        /// The topic's id; zero where the name tells.
        topic_id: TopicId, 13+;
        /// The partitions.
        partitions: Vec<i32>, 7+;
    }
}

message! {
    /// Records, and how far each partition has come.
    FetchResponse, key 1, versions 4-18, flexible 12+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 1+;
        /// The outcome.
        error_code: i16, 7+;
        /// The fetch session; 0 is none.
        session_id: i32, 7+;
        /// The topics' records.
        responses: Vec<FetchableTopicResponse>, 0+;
        /// Where the leaders named in errors are reached.
        node_endpoints: Vec<NodeEndpoint>, 16+, tag 0 16+;
    }
}

structure! {
    /// A topic's records; names the topic as the request did.
    FetchableTopicResponse {
        /// The topic's name.
        topic: Str, 0-12;
        /// The topic's id; zero where the name tells.
        topic_id: TopicId, 13+;
        /// The partitions.
        partitions: Vec<PartitionData>, 0+;
    }
}

structure! {
    /// A partition's records.
    PartitionData {
        /// The partition's index.
        partition_index: i32, 0+;
        /// The outcome.
        error_code: i16, 0+;
        /// The offset below which records are committed.
        high_watermark: i64, 0+;
        /// The offset below which all transactions are finished.
        last_stable_offset: i64, 4+, default -1;
        /// The first offset that is kept.
        log_start_offset: i64, 5+, default -1;
        /// Where the follower's log parts from the leader's.
        diverging_epoch: EpochEndOffset, 12+, tag 0 12+;
        /// The leader, named when the error is that it is elsewhere.
        current_leader: LeaderIdAndEpoch, 12+, tag 1 12+;
        /// The snapshot to load first, for a KRaft follower.
        snapshot_id: SnapshotId, 12+, tag 2 12+;
        /// The aborted transactions that overlap the records; null unless `isolation_level` is 1.
        aborted_transactions: Option<Vec<AbortedTransaction>>, 4+, nullable 4+;
        /// The node to read from instead; −1 is none.
        preferred_read_replica: i32, 11+, default -1;
        /// The record batches; empty rather than null when there are none: librdkafka and Sarama fail on null.
        records: Option<Records>, 0+, nullable 0+, default Some(Records::EMPTY);
    }
}

structure! {
    /// The end of an epoch.
    EpochEndOffset {
        /// The epoch; −1 is unknown.
        epoch: i32, 12+, default -1;
        /// Where the epoch ends; −1 is unknown.
        end_offset: i64, 12+, default -1;
    }
}

structure! {
    /// A partition's leader.
    LeaderIdAndEpoch {
        /// The leader's node id; −1 is unknown or none.
        leader_id: i32, 12+, default -1;
        /// The leader's epoch; −1 is unknown.
        leader_epoch: i32, 12+, default -1;
    }
}

structure! {
    /// A KRaft snapshot.
    SnapshotId {
        /// Where the snapshot ends; −1 is none.
        end_offset: i64, 0+, default -1;
        /// The epoch; −1 is unknown.
        epoch: i32, 0+, default -1;
    }
}

structure! {
    /// An aborted transaction.
    AbortedTransaction {
        /// The producer's id; −1 is none.
        producer_id: i64, 4+;
        /// The first offset of the transaction.
        first_offset: i64, 4+;
    }
}

structure! {
    /// Where a node is reached.
    NodeEndpoint {
        /// The node's id.
        node_id: i32, 16+;
        /// Its host.
        host: Str, 16+;
        /// Its port.
        port: i32, 16+;
        /// Its rack; null when it has none.
        rack: Option<Str>, 16+, nullable 16+ default null;
    }
}

/// A whole response frame in pieces, records as they were given; the length prefix counts them all.
///
/// # Panics
/// When `api_version` is not spoken.
#[must_use]
pub fn encode_fetch_response(
    correlation_id: i32,
    api_version: i16,
    response: &FetchResponse,
) -> Vec<Slice> {
    header::response_frame(correlation_id, api_version, response).into_slices()
}
