//! The records of `__transaction_state`: where each transactional id stands.
//!
//! Invariants:
//! 1. A record is a key, the transactional id, and a value; `None` is a tombstone: compaction keeps the last record of each id.
//! 2. `Default` gives Kafka's default of each field.
//!
//! Source: KIP-98, KIP-890, KIP-939; logs written by Apache Kafka 4.3.1.

use crate::Str;

/// A record of `__transaction_state`.
#[derive(Clone, Debug, PartialEq)]
pub enum TransactionRecord {
    /// Where a transactional id stands.
    TransactionLog(TransactionLogKey, Option<TransactionLogValue>),
}

/// Key of [`TransactionRecord::TransactionLog`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionLogKey {
    /// The transactional id.
    pub transactional_id: Str,
}

/// Value of [`TransactionRecord::TransactionLog`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionLogValue {
    /// The producer id in use.
    pub producer_id: i64,
    /// The producer id before the last change of state; −1 when unknown.
    pub previous_producer_id: i64,
    /// The producer id that the producer goes on with once the transaction has ended; −1 when it keeps its own.
    pub next_producer_id: i64,
    /// The producer's epoch.
    pub producer_epoch: i16,
    /// The epoch that goes with the next producer id; −1 for none.
    pub next_producer_epoch: i16,
    /// How long a transaction may stay open.
    pub transaction_timeout_ms: i32,
    /// The state: 0 empty, 1 ongoing, 2 prepared to commit, 3 prepared to abort, 4 committed, 5 aborted, 6 dead, 7 being fenced.
    pub transaction_status: i8,
    /// The partitions of the transaction, by topic; `None` where none can be.
    pub transaction_partitions: Option<Vec<PartitionsSchema>>,
    /// When the state last changed.
    pub transaction_last_update_timestamp_ms: i64,
    /// When the transaction began; −1 outside one.
    pub transaction_start_timestamp_ms: i64,
    /// The transaction version that the client works by.
    pub client_transaction_version: i16,
}

impl Default for TransactionLogValue {
    fn default() -> Self {
        Self {
            producer_id: 0,
            previous_producer_id: -1,
            next_producer_id: -1,
            producer_epoch: 0,
            next_producer_epoch: -1,
            transaction_timeout_ms: 0,
            transaction_status: 0,
            transaction_partitions: None,
            transaction_last_update_timestamp_ms: 0,
            transaction_start_timestamp_ms: 0,
            client_transaction_version: 0,
        }
    }
}

/// Partitions of one topic in a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionsSchema {
    /// The topic's name.
    pub topic: Str,
    /// Its partitions.
    pub partition_ids: Vec<i32>,
}
