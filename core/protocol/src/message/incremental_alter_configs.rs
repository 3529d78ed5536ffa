//! IncrementalAlterConfigs (44): changes single configurations. Source: KIP-339.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Changes configurations.
    IncrementalAlterConfigsRequest, key 44, versions 0-1, flexible 1+ {
        /// The resources.
        resources: Vec<AlterConfigsResource>, 0+;
        /// Whether to check only, and change nothing.
        validate_only: bool, 0+;
    }
}

structure! {
    /// A resource's changes.
    AlterConfigsResource {
        /// Kafka's number of the resource type.
        resource_type: i8, 0+;
        /// The resource's name.
        resource_name: Str, 0+;
        /// The changes.
        configs: Vec<AlterableConfig>, 0+;
    }
}

structure! {
    /// One change.
    AlterableConfig {
        /// The configuration's name.
        name: Str, 0+;
        /// 0 sets, 1 deletes, 2 appends to a list, 3 subtracts from a list.
        config_operation: i8, 0+;
        /// The value.
        value: Option<Str>, 0+, nullable 0+;
    }
}

message! {
    /// What became of each resource.
    IncrementalAlterConfigsResponse, key 44, versions 0-1, flexible 1+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// One for each resource.
        responses: Vec<AlterConfigsResourceResponse>, 0+;
    }
}

structure! {
    /// A resource's outcome.
    AlterConfigsResourceResponse {
        /// The outcome.
        error_code: i16, 0+;
        /// What went wrong, in words; null when nothing did.
        error_message: Option<Str>, 0+, nullable 0+;
        /// Kafka's number of the resource type.
        resource_type: i8, 0+;
        /// The resource's name.
        resource_name: Str, 0+;
    }
}
