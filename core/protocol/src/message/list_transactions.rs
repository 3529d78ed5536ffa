//! ListTransactions (66): which transactional ids there are. Source: KIP-664, KIP-994, KIP-1152.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Lists the transactional ids of a broker's coordinators; empty filters let all pass.
    ListTransactionsRequest, key 66, versions 0-2, flexible 0+ {
        /// States.
        state_filters: Vec<Str>, 0+;
        /// Producer ids.
        producer_id_filters: Vec<i64>, 0+;
        /// The least age of the transaction in milliseconds; negative for any.
        duration_filter: i64, 1+, default -1;
        /// What the whole id must match.
        transactional_id_pattern: Option<Str>, 2+, nullable 2+ default null;
    }
}

message! {
    /// The transactional ids.
    ListTransactionsResponse, key 66, versions 0-2, flexible 0+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// The outcome.
        error_code: i16, 0+;
        /// State filters that name no state.
        unknown_state_filters: Vec<Str>, 0+;
        /// The transactional ids.
        transaction_states: Vec<TransactionState>, 0+;
    }
}

structure! {
    /// A transactional id.
    TransactionState {
        /// The transactional id.
        transactional_id: Str, 0+;
        /// The producer's id.
        producer_id: i64, 0+;
        /// The state's name.
        transaction_state: Str, 0+;
    }
}
