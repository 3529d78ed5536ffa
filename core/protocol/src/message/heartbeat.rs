//! Heartbeat (12): a member of a classic group is alive. Source: KIP-345.

use crate::codec::Str;
use crate::message;

message! {
    /// Says that the member lives.
    HeartbeatRequest, key 12, versions 0-4, flexible 4+ {
        /// The group's id.
        group_id: Str, 0+;
        /// The group's generation.
        generation_id: i32, 0+;
        /// The member's id.
        member_id: Str, 0+;
        /// The static member's name; null for a dynamic member.
        group_instance_id: Option<Str>, 3+, nullable 3+ default null;
    }
}

message! {
    /// Whether the member may go on.
    HeartbeatResponse, key 12, versions 0-4, flexible 4+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 1+;
        /// The outcome.
        error_code: i16, 0+;
    }
}
