//! DescribeTransactions (65): where transactional ids stand. Source: KIP-664.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Describes transactional ids.
    DescribeTransactionsRequest, key 65, versions 0-0, flexible 0+ {
        /// The transactional ids.
        transactional_ids: Vec<Str>, 0+;
    }
}

message! {
    /// Where each stands.
    DescribeTransactionsResponse, key 65, versions 0-0, flexible 0+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// The transactional ids.
        transaction_states: Vec<TransactionState>, 0+;
    }
}

structure! {
    /// A transactional id's state.
    TransactionState {
        /// The outcome.
        error_code: i16, 0+;
        /// The transactional id.
        transactional_id: Str, 0+;
        /// The state's name.
        transaction_state: Str, 0+;
        /// How long a transaction may stay open, in milliseconds.
        transaction_timeout_ms: i32, 0+;
        /// When the transaction began; −1 outside one.
        transaction_start_time_ms: i64, 0+;
        /// The producer's id.
        producer_id: i64, 0+;
        /// The producer's epoch.
        producer_epoch: i16, 0+;
        /// The partitions of the transaction; while it ends, those without a marker.
        topics: Vec<TopicData>, 0+;
    }
}

structure! {
    /// Partitions of a topic.
    TopicData {
        /// The topic's name.
        topic: Str, 0+;
        /// The partitions' indexes.
        partitions: Vec<i32>, 0+;
    }
}
