//! FindCoordinator (10): who coordinates a group or a transactional id. Source: KIP-699.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks for coordinators.
    FindCoordinatorRequest, key 10, versions 0-6, flexible 3+ {
        /// The group, or the transactional id.
        key: Str, 0-3;
        /// 0 for groups, 1 for transactions, 2 for share partitions.
        key_type: i8, 1+;
        /// The groups, or the transactional ids.
        coordinator_keys: Vec<Str>, 4+;
    }
}

message! {
    /// Who they are.
    FindCoordinatorResponse, key 10, versions 0-6, flexible 3+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 1+;
        /// The outcome.
        error_code: i16, 0-3;
        /// What went wrong, in words; null when nothing did.
        error_message: Option<Str>, 1-3, nullable 1-3;
        /// The coordinator's node id.
        node_id: i32, 0-3;
        /// Its host.
        host: Str, 0-3;
        /// Its port.
        port: i32, 0-3;
        /// The coordinator of each key.
        coordinators: Vec<Coordinator>, 4+;
    }
}

structure! {
    /// A key's coordinator.
    Coordinator {
        /// The group, or the transactional id.
        key: Str, 4+;
        /// The coordinator's node id.
        node_id: i32, 4+;
        /// Its host.
        host: Str, 4+;
        /// Its port.
        port: i32, 4+;
        /// The outcome.
        error_code: i16, 4+;
        /// What went wrong, in words; null when nothing did.
        error_message: Option<Str>, 4+, nullable 4+;
    }
}
