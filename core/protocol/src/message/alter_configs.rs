//! AlterConfigs (33): replaces a resource's whole configuration. Old clients only. Source: KIP-133.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Replaces configurations.
    AlterConfigsRequest, key 33, versions 0-2, flexible 2+ {
        /// The resources.
        resources: Vec<AlterConfigsResource>, 0+;
        /// Whether to check only, and change nothing.
        validate_only: bool, 0+;
    }
}

structure! {
    /// A resource's new configuration; what is not named is unset.
    AlterConfigsResource {
        /// Kafka's number of the resource type.
        resource_type: i8, 0+;
        /// The resource's name.
        resource_name: Str, 0+;
        /// The values.
        configs: Vec<AlterableConfig>, 0+;
    }
}

structure! {
    /// One value.
    AlterableConfig {
        /// The configuration's name.
        name: Str, 0+;
        /// The value.
        value: Option<Str>, 0+, nullable 0+;
    }
}

message! {
    /// What became of each resource.
    AlterConfigsResponse, key 33, versions 0-2, flexible 2+ {
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
