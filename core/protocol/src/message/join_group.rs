//! JoinGroup (11): a member of a classic group asks for the next generation. Source: KIP-62, KIP-345, KIP-394, KIP-559,
//! KIP-800, KIP-814.

use bytes::Bytes;

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks to take part in the next generation.
    JoinGroupRequest, key 11, versions 0-9, flexible 6+ {
        /// The group's id.
        group_id: Str, 0+;
        /// How long the member may be silent, in milliseconds.
        session_timeout_ms: i32, 0+;
        /// How long the member may take to follow a rebalance, in milliseconds; −1 when it does not say.
        rebalance_timeout_ms: i32, 1+, default -1;
        /// The member's id; empty when it has none yet.
        member_id: Str, 0+;
        /// The static member's name; null for a dynamic member.
        group_instance_id: Option<Str>, 5+, nullable 5+ default null;
        /// The group's kind of client.
        protocol_type: Str, 0+;
        /// The assignment protocols that the member knows, the best first.
        protocols: Vec<JoinGroupRequestProtocol>, 0+;
        /// Why, in the words of the client; null when it does not say.
        reason: Option<Str>, 8+, nullable 8+ default null;
    }
}

structure! {
    /// An assignment protocol and a member's subscription in its terms.
    JoinGroupRequestProtocol {
        /// The protocol's name.
        name: Str, 0+;
        /// The member's subscription in its terms; opaque here.
        metadata: Bytes, 0+;
    }
}

message! {
    /// A generation begins.
    JoinGroupResponse, key 11, versions 0-9, flexible 6+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 2+;
        /// The outcome.
        error_code: i16, 0+;
        /// The group's generation.
        generation_id: i32, 0+, default -1;
        /// The group's kind of client.
        protocol_type: Option<Str>, 7+, nullable 7+ default null;
        /// The assignment protocol chosen.
        protocol_name: Option<Str>, 0+, nullable 7+;
        /// The leader's member id.
        leader: Str, 0+;
        /// Whether the leader must keep the assignment there is.
        skip_assignment: bool, 9+;
        /// The member's id.
        member_id: Str, 0+;
        /// All members, for the leader alone.
        members: Vec<JoinGroupResponseMember>, 0+;
    }
}

structure! {
    /// A member as its leader sees it.
    JoinGroupResponseMember {
        /// The member's id.
        member_id: Str, 0+;
        /// The static member's name; null for a dynamic member.
        group_instance_id: Option<Str>, 5+, nullable 5+ default null;
        /// The member's subscription; opaque here.
        metadata: Bytes, 0+;
    }
}
