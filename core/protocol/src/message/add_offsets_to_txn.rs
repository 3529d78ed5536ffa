//! AddOffsetsToTxn (25): a group whose offsets a transaction is about to commit. Source: KIP-98, KIP-588, KIP-890.

use crate::codec::Str;
use crate::message;

message! {
    /// Adds a group's partition of the offsets topic to a transaction.
    AddOffsetsToTxnRequest, key 25, versions 0-4, flexible 3+ {
        /// The transactional id.
        transactional_id: Str, 0+;
        /// The producer's id.
        producer_id: i64, 0+;
        /// The producer's epoch.
        producer_epoch: i16, 0+;
        /// The group.
        group_id: Str, 0+;
    }
}

message! {
    /// The outcome.
    AddOffsetsToTxnResponse, key 25, versions 0-4, flexible 3+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// The outcome.
        error_code: i16, 0+;
    }
}
