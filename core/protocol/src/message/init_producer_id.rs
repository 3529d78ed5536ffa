//! InitProducerId (22): ids for idempotent and transactional producers.
//!
//! Version 6 (two-phase commit) is unstable in Kafka 4.3 and not spoken; its fields are in the table for what comes.
//! Source: KIP-98, KIP-360, KIP-890, KIP-939.

use crate::codec::Str;
use crate::message;

message! {
    /// Asks for a producer id, for idempotence or a transactional id.
    InitProducerIdRequest, key 22, versions 0-5, flexible 2+ {
        /// The transactional id; null outside transactions.
        transactional_id: Option<Str>, 0+, nullable 0+;
        /// How long a transaction may stay open, in milliseconds.
        transaction_timeout_ms: i32, 0+;
        /// The producer's id; −1 is none.
        producer_id: i64, 3+, default -1;
        /// The producer's epoch; −1 is none.
        producer_epoch: i16, 3+, default -1;
        /// Whether two-phase commit is wanted.
        enable2_pc: bool, 6+;
        /// Whether a prepared transaction is kept.
        keep_prepared_txn: bool, 6+;
    }
}

message! {
    /// The producer id and epoch.
    InitProducerIdResponse, key 22, versions 0-5, flexible 2+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// The outcome.
        error_code: i16, 0+;
        /// The producer's id; −1 is none.
        producer_id: i64, 0+, default -1;
        /// The producer's epoch; −1 is none.
        producer_epoch: i16, 0+;
        /// The producer id of the open transaction; −1 is none.
        ongoing_txn_producer_id: i64, 6+, default -1;
        /// The producer epoch of the open transaction; −1 is none.
        ongoing_txn_producer_epoch: i16, 6+, default -1;
    }
}
