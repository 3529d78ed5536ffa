//! SyncGroup (14): the leader's assignment on its way to the members. Source: KIP-345, KIP-559.

use bytes::Bytes;

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Hands in or asks for an assignment.
    SyncGroupRequest, key 14, versions 0-5, flexible 4+ {
        /// The group's id.
        group_id: Str, 0+;
        /// The group's generation.
        generation_id: i32, 0+;
        /// The member's id.
        member_id: Str, 0+;
        /// The static member's name; null for a dynamic member.
        group_instance_id: Option<Str>, 3+, nullable 3+ default null;
        /// The group's kind of client.
        protocol_type: Option<Str>, 5+, nullable 5+ default null;
        /// The assignment protocol chosen.
        protocol_name: Option<Str>, 5+, nullable 5+ default null;
        /// The assignment of each member; from the leader alone.
        assignments: Vec<SyncGroupRequestAssignment>, 0+;
    }
}

structure! {
    /// A member's assignment.
    SyncGroupRequestAssignment {
        /// The member's id.
        member_id: Str, 0+;
        /// What the member is assigned; opaque here.
        assignment: Bytes, 0+;
    }
}

message! {
    /// The assignment.
    SyncGroupResponse, key 14, versions 0-5, flexible 4+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 1+;
        /// The outcome.
        error_code: i16, 0+;
        /// The group's kind of client.
        protocol_type: Option<Str>, 5+, nullable 5+ default null;
        /// The assignment protocol chosen.
        protocol_name: Option<Str>, 5+, nullable 5+ default null;
        /// What the member is assigned; opaque here.
        assignment: Bytes, 0+;
    }
}
