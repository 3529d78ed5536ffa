//! DeleteGroups (42): deletes groups without members. Source: KIP-229.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Deletes groups.
    DeleteGroupsRequest, key 42, versions 0-2, flexible 2+ {
        /// The groups.
        groups_names: Vec<Str>, 0+;
    }
}

message! {
    /// What became of each group.
    DeleteGroupsResponse, key 42, versions 0-2, flexible 2+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// The outcome of each group.
        results: Vec<DeletableGroupResult>, 0+;
    }
}

structure! {
    /// A group's outcome.
    DeletableGroupResult {
        /// The group's id.
        group_id: Str, 0+;
        /// The outcome.
        error_code: i16, 0+;
    }
}
