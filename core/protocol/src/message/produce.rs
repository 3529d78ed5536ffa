//! Produce (0): appends record batches. The hottest request there is.
//!
//! 1. Records are never copied or looked into: decoding gives their range in the frame ([`Records::Range`]), which
//!    [`crate::codec::FrameSplitter`] turns into one mutable buffer per partition.
//! 2. A request for one partition allocates twice, once per nested array; topic names are inline.
//!
//! ApiVersions advertises it from version 0 (see [`crate::api`]); versions below 3 close the connection.
//! Source: KIP-98, KIP-467, KIP-951, KIP-516.

use pelton_model::TopicId;

use crate::codec::{Records, Str};
use crate::{message, structure};

message! {
    /// Appends one record batch to each of some partitions.
    ProduceRequest, key 0, versions 3-13, flexible 9+ {
        /// The transactional id; null outside transactions.
        transactional_id: Option<Str>, 3+, nullable 3+ default null;
        /// 0 wants no answer, 1 the leader's, −1 that of all in sync.
        acks: i16, 0+;
        /// How long the client waits for the outcome, in milliseconds.
        timeout_ms: i32, 0+;
        /// The topics written to.
        topic_data: Vec<TopicProduceData>, 0+;
    }
}

structure! {
    /// A topic written to, by name or (from version 13 on) by id.
    TopicProduceData {
        /// The topic's name.
        name: Str, 0-12;
        /// The topic's id; zero where the name tells.
        topic_id: TopicId, 13+;
        /// The partitions written to.
        partition_data: Vec<PartitionProduceData>, 0+;
    }
}

structure! {
    /// A partition written to.
    PartitionProduceData {
        /// The partition's index.
        index: i32, 0+;
        /// One record batch; null and empty are refused.
        records: Option<Records>, 0+, nullable 0+;
    }
}

message! {
    /// Where the batches went, or why not.
    ProduceResponse, key 0, versions 3-13, flexible 9+ {
        /// The outcome per topic.
        responses: Vec<TopicProduceResponse>, 0+;
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 1+;
        /// Where the leaders named in errors are reached.
        node_endpoints: Vec<NodeEndpoint>, 10+, tag 0 10+;
    }
}

structure! {
    /// A topic's outcome; names the topic as the request did.
    TopicProduceResponse {
        /// The topic's name.
        name: Str, 0-12;
        /// The topic's id; zero where the name tells.
        topic_id: TopicId, 13+;
        /// The outcome per partition.
        partition_responses: Vec<PartitionProduceResponse>, 0+;
    }
}

structure! {
    /// A partition's outcome.
    PartitionProduceResponse {
        /// The partition's index.
        index: i32, 0+;
        /// The outcome.
        error_code: i16, 0+;
        /// The offset of the first record.
        base_offset: i64, 0+;
        /// When the batch was appended, where that is the records' time; −1 otherwise.
        log_append_time_ms: i64, 2+, default -1;
        /// The first offset that is kept; −1 is unknown.
        log_start_offset: i64, 5+, default -1;
        /// The records that had the batch refused.
        record_errors: Vec<BatchIndexAndErrorMessage>, 8+;
        /// What went wrong, in words; null when nothing did.
        error_message: Option<Str>, 8+, nullable 8+ default null;
        /// The leader, named when the error is that it is elsewhere.
        current_leader: LeaderIdAndEpoch, 10+, tag 0 10+;
    }
}

structure! {
    /// A record that had its batch refused.
    BatchIndexAndErrorMessage {
        /// The record's index in the batch.
        batch_index: i32, 8+;
        /// What is wrong with it; null when nothing is said.
        batch_index_error_message: Option<Str>, 8+, nullable 8+ default null;
    }
}

structure! {
    /// A partition's leader.
    LeaderIdAndEpoch {
        /// The leader's node id; −1 is unknown or none.
        leader_id: i32, 10+, default -1;
        /// The leader's epoch; −1 is unknown.
        leader_epoch: i32, 10+, default -1;
    }
}

structure! {
    /// Where a node is reached.
    NodeEndpoint {
        /// The node's id.
        node_id: i32, 10+;
        /// Its host.
        host: Str, 10+;
        /// Its port.
        port: i32, 10+;
        /// Its rack; null when it has none.
        rack: Option<Str>, 10+, nullable 10+ default null;
    }
}
