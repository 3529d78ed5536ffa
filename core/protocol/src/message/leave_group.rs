//! LeaveGroup (13): members leave a classic group. Source: KIP-345, KIP-800.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Takes members out of their group.
    LeaveGroupRequest, key 13, versions 0-5, flexible 4+ {
        /// The group's id.
        group_id: Str, 0+;
        /// Who leaves.
        member_id: Str, 0-2;
        /// Who leaves.
        members: Vec<MemberIdentity>, 3+;
    }
}

structure! {
    /// A member that leaves.
    MemberIdentity {
        /// The member's id.
        member_id: Str, 3+;
        /// The static member's name; null for a dynamic member.
        group_instance_id: Option<Str>, 3+, nullable 3+ default null;
        /// Why, in the words of the client; null when it does not say.
        reason: Option<Str>, 5+, nullable 5+ default null;
    }
}

message! {
    /// What became of each member.
    LeaveGroupResponse, key 13, versions 0-5, flexible 4+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 1+;
        /// The outcome.
        error_code: i16, 0+;
        /// The outcome of each member.
        members: Vec<MemberResponse>, 3+;
    }
}

structure! {
    /// A member's outcome.
    MemberResponse {
        /// The member's id.
        member_id: Str, 3+;
        /// The static member's name; null for a dynamic member.
        group_instance_id: Option<Str>, 3+, nullable 3+;
        /// The outcome.
        error_code: i16, 3+;
    }
}
