//! UnregisterBroker (64): forgets a broker that does not come back. Source: KIP-500.

use crate::codec::Str;
use crate::message;

message! {
    /// Asks for a broker to be forgotten.
    UnregisterBrokerRequest, key 64, versions 0-0, flexible 0+ {
        /// The broker.
        broker_id: i32, 0+;
    }
}

message! {
    /// What became of it.
    UnregisterBrokerResponse, key 64, versions 0-0, flexible 0+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// The outcome.
        error_code: i16, 0+;
        /// The outcome in words.
        error_message: Option<Str>, 0+, nullable 0+;
    }
}
