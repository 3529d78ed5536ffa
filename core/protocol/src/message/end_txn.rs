//! EndTxn (26): commits or aborts a transaction. From version 5 on the producer goes on with another epoch. Source: KIP-98, KIP-588, KIP-890.

use crate::codec::Str;
use crate::message;

message! {
    /// Ends a transaction.
    EndTxnRequest, key 26, versions 0-5, flexible 3+ {
        /// The transactional id.
        transactional_id: Str, 0+;
        /// The producer's id.
        producer_id: i64, 0+;
        /// The producer's epoch.
        producer_epoch: i16, 0+;
        /// Whether it is committed, not aborted.
        committed: bool, 0+;
    }
}

message! {
    /// The outcome, and how the producer goes on.
    EndTxnResponse, key 26, versions 0-5, flexible 3+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// The outcome.
        error_code: i16, 0+;
        /// The producer's id from now on; −1 on error.
        producer_id: i64, 5+, default -1;
        /// The producer's epoch from now on; −1 on error.
        producer_epoch: i16, 5+, default -1;
    }
}
