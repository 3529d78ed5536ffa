//! DescribeProducers (61): the idempotent and transactional producers that a partition remembers. Source: KIP-664.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks for the producers of partitions.
    DescribeProducersRequest, key 61, versions 0-0, flexible 0+ {
        /// The topics.
        topics: Vec<TopicRequest>, 0+;
    }
}

structure! {
    /// A topic's partitions.
    TopicRequest {
        /// The topic's name.
        name: Str, 0+;
        /// The partitions.
        partition_indexes: Vec<i32>, 0+;
    }
}

message! {
    /// The producers.
    DescribeProducersResponse, key 61, versions 0-0, flexible 0+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// The topics.
        topics: Vec<TopicResponse>, 0+;
    }
}

structure! {
    /// A topic's answers.
    TopicResponse {
        /// The topic's name.
        name: Str, 0+;
        /// The partitions.
        partitions: Vec<PartitionResponse>, 0+;
    }
}

structure! {
    /// A partition's producers.
    PartitionResponse {
        /// The partition's index.
        partition_index: i32, 0+;
        /// The outcome.
        error_code: i16, 0+;
        /// The outcome in words.
        error_message: Option<Str>, 0+, nullable 0+ default null;
        /// The producers.
        active_producers: Vec<ProducerState>, 0+;
    }
}

structure! {
    /// A producer.
    ProducerState {
        /// Its id.
        producer_id: i64, 0+;
        /// Its epoch.
        producer_epoch: i32, 0+;
        /// The sequence of its last record; −1 when none is remembered.
        last_sequence: i32, 0+, default -1;
        /// The time of its last batch or of the end of its last transaction.
        last_timestamp: i64, 0+, default -1;
        /// The epoch of the coordinator that ended its last transaction; −1 when none did.
        coordinator_epoch: i32, 0+;
        /// Where its open transaction begins; −1 when none is open.
        current_txn_start_offset: i64, 0+, default -1;
    }
}
