//! ListConfigResources (74): which resources have a configuration. Source: KIP-714, KIP-1142.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks which resources have a configuration.
    ListConfigResourcesRequest, key 74, versions 0-1, flexible 0+ {
        /// Kafka's numbers of the resource types; none asks for all. Version 0 is about client metrics alone.
        resource_types: Vec<i8>, 1+;
    }
}

message! {
    /// Resources with a configuration.
    ListConfigResourcesResponse, key 74, versions 0-1, flexible 0+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// The outcome.
        error_code: i16, 0+;
        /// The resources.
        config_resources: Vec<ConfigResource>, 0+;
    }
}

structure! {
    /// A resource with a configuration.
    ConfigResource {
        /// The resource's name.
        resource_name: Str, 0+;
        /// Kafka's number of the resource type.
        resource_type: i8, 1+, default 16;
    }
}
