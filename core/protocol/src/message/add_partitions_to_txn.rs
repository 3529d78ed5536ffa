//! AddPartitionsToTxn (24): partitions that a transaction is about to write to.
//!
//! Clients speak versions 0 to 3, brokers 4 and 5, which name several transactions and may only verify. Source: KIP-98, KIP-588, KIP-890.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Adds partitions to transactions.
    AddPartitionsToTxnRequest, key 24, versions 0-5, flexible 3+ {
        /// The transactions.
        transactions: Vec<AddPartitionsToTxnTransaction>, 4+;
        /// The transactional id.
        v3_and_below_transactional_id: Str, 0-3;
        /// The producer's id.
        v3_and_below_producer_id: i64, 0-3;
        /// The producer's epoch.
        v3_and_below_producer_epoch: i16, 0-3;
        /// The partitions.
        v3_and_below_topics: Vec<AddPartitionsToTxnTopic>, 0-3;
    }
}

structure! {
    /// A transaction's partitions.
    AddPartitionsToTxnTransaction {
        /// The transactional id.
        transactional_id: Str, 4+;
        /// The producer's id.
        producer_id: i64, 4+;
        /// The producer's epoch.
        producer_epoch: i16, 4+;
        /// Whether the partitions are looked for and not added.
        verify_only: bool, 4+, default false;
        /// The partitions.
        topics: Vec<AddPartitionsToTxnTopic>, 4+;
    }
}

structure! {
    /// Partitions of a topic.
    AddPartitionsToTxnTopic {
        /// The topic's name.
        name: Str, 0+;
        /// The partitions' indexes.
        partitions: Vec<i32>, 0+;
    }
}

message! {
    /// What became of each partition.
    AddPartitionsToTxnResponse, key 24, versions 0-5, flexible 3+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// What went wrong with the request as a whole.
        error_code: i16, 4+;
        /// The outcomes of each transaction.
        results_by_transaction: Vec<AddPartitionsToTxnResult>, 4+;
        /// The outcomes of the one transaction.
        results_by_topic_v3_and_below: Vec<AddPartitionsToTxnTopicResult>, 0-3;
    }
}

structure! {
    /// A transaction's outcomes.
    AddPartitionsToTxnResult {
        /// The transactional id.
        transactional_id: Str, 4+;
        /// The topics.
        topic_results: Vec<AddPartitionsToTxnTopicResult>, 4+;
    }
}

structure! {
    /// A topic's outcomes.
    AddPartitionsToTxnTopicResult {
        /// The topic's name.
        name: Str, 0+;
        /// The partitions.
        results_by_partition: Vec<AddPartitionsToTxnPartitionResult>, 0+;
    }
}

structure! {
    /// A partition's outcome.
    AddPartitionsToTxnPartitionResult {
        /// The partition's index.
        partition_index: i32, 0+;
        /// The outcome.
        partition_error_code: i16, 0+;
    }
}
