//! CreateAcls (30): adds ACLs. Source: KIP-140, KIP-290.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks for ACLs to be added.
    CreateAclsRequest, key 30, versions 1-3, flexible 2+ {
        /// The ACLs.
        creations: Vec<AclCreation>, 0+;
    }
}

structure! {
    /// An ACL.
    AclCreation {
        /// The type of the resource.
        resource_type: i8, 0+;
        /// The resource's name.
        resource_name: Str, 0+;
        /// How the name is meant.
        resource_pattern_type: i8, 1+, default 3;
        /// The principal.
        principal: Str, 0+;
        /// The host.
        host: Str, 0+;
        /// The operation.
        operation: i8, 0+;
        /// Allow or deny.
        permission_type: i8, 0+;
    }
}

message! {
    /// What became of them.
    CreateAclsResponse, key 30, versions 1-3, flexible 2+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// One for each ACL, in order.
        results: Vec<AclCreationResult>, 0+;
    }
}

structure! {
    /// What became of an ACL.
    AclCreationResult {
        /// The outcome.
        error_code: i16, 0+;
        /// The outcome in words.
        error_message: Option<Str>, 0+, nullable 0+;
    }
}
