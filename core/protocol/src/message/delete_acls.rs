//! DeleteAcls (31): removes ACLs. Source: KIP-140, KIP-290.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks for the ACLs that match to be removed.
    DeleteAclsRequest, key 31, versions 1-3, flexible 2+ {
        /// What matches.
        filters: Vec<DeleteAclsFilter>, 0+;
    }
}

structure! {
    /// Which ACLs go.
    DeleteAclsFilter {
        /// The type of the resource.
        resource_type_filter: i8, 0+;
        /// The resource's name; null for any.
        resource_name_filter: Option<Str>, 0+, nullable 0+;
        /// How names are meant.
        pattern_type_filter: i8, 1+, default 3;
        /// The principal; null for any.
        principal_filter: Option<Str>, 0+, nullable 0+;
        /// The host; null for any.
        host_filter: Option<Str>, 0+, nullable 0+;
        /// The operation.
        operation: i8, 0+;
        /// Allow or deny.
        permission_type: i8, 0+;
    }
}

message! {
    /// What went.
    DeleteAclsResponse, key 31, versions 1-3, flexible 2+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// One for each filter, in order.
        filter_results: Vec<DeleteAclsFilterResult>, 0+;
    }
}

structure! {
    /// What a filter found.
    DeleteAclsFilterResult {
        /// The outcome.
        error_code: i16, 0+;
        /// The outcome in words.
        error_message: Option<Str>, 0+, nullable 0+;
        /// The ACLs that matched.
        matching_acls: Vec<DeleteAclsMatchingAcl>, 0+;
    }
}

structure! {
    /// An ACL that matched.
    DeleteAclsMatchingAcl {
        /// Whether it is gone.
        error_code: i16, 0+;
        /// That in words.
        error_message: Option<Str>, 0+, nullable 0+;
        /// The type of the resource.
        resource_type: i8, 0+;
        /// The resource's name.
        resource_name: Str, 0+;
        /// How the name is meant.
        pattern_type: i8, 1+, default 3;
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
