//! ListGroups (16): the groups that a broker coordinates. Source: KIP-518, KIP-848.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks for the groups of this broker.
    ListGroupsRequest, key 16, versions 0-5, flexible 3+ {
        /// The states to show; empty shows all.
        states_filter: Vec<Str>, 4+;
        /// The types to show; empty shows all.
        types_filter: Vec<Str>, 5+;
    }
}

message! {
    /// The groups.
    ListGroupsResponse, key 16, versions 0-5, flexible 3+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 1+;
        /// The outcome.
        error_code: i16, 0+;
        /// The groups.
        groups: Vec<ListedGroup>, 0+;
    }
}

structure! {
    /// A group.
    ListedGroup {
        /// The group's id.
        group_id: Str, 0+;
        /// The group's kind of client.
        protocol_type: Str, 0+;
        /// The group's state, as Kafka spells it.
        group_state: Str, 4+;
        /// The group's type, as Kafka spells it.
        group_type: Str, 5+;
    }
}
