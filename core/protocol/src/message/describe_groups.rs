//! DescribeGroups (15): the members and states of classic groups. Source: KIP-345, KIP-430, KIP-1043.

use bytes::Bytes;

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks for classic groups.
    DescribeGroupsRequest, key 15, versions 0-6, flexible 5+ {
        /// The groups.
        groups: Vec<Str>, 0+;
        /// Whether to tell what the client may do to the group.
        include_authorized_operations: bool, 3+;
    }
}

message! {
    /// The groups.
    DescribeGroupsResponse, key 15, versions 0-6, flexible 5+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 1+;
        /// The groups.
        groups: Vec<DescribedGroup>, 0+;
    }
}

structure! {
    /// A group.
    DescribedGroup {
        /// The outcome.
        error_code: i16, 0+;
        /// What went wrong, in words; null when nothing did.
        error_message: Option<Str>, 6+, nullable 6+ default null;
        /// The group's id.
        group_id: Str, 0+;
        /// The group's state, as Kafka spells it.
        group_state: Str, 0+;
        /// The group's kind of client; empty when unknown.
        protocol_type: Str, 0+;
        /// The assignment protocol chosen.
        protocol_data: Str, 0+;
        /// The members.
        members: Vec<DescribedGroupMember>, 0+;
        /// What the client may do to the group, as bits; the least integer when not asked.
        authorized_operations: i32, 3+, default -2_147_483_648;
    }
}

structure! {
    /// A member.
    DescribedGroupMember {
        /// The member's id.
        member_id: Str, 0+;
        /// The static member's name; null for a dynamic member.
        group_instance_id: Option<Str>, 4+, nullable 4+ default null;
        /// The client's id.
        client_id: Str, 0+;
        /// The client's address.
        client_host: Str, 0+;
        /// The member's subscription.
        member_metadata: Bytes, 0+;
        /// The member's assignment.
        member_assignment: Bytes, 0+;
    }
}
