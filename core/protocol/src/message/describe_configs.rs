//! DescribeConfigs (32): what is configured, and where. Source: KIP-133, KIP-226, KIP-569.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks for configurations.
    DescribeConfigsRequest, key 32, versions 1-4, flexible 4+ {
        /// The resources.
        resources: Vec<DescribeConfigsResource>, 0+;
        /// Whether to tell every place that sets a value.
        include_synonyms: bool, 1+;
        /// Whether to describe each name in words.
        include_documentation: bool, 3+;
    }
}

structure! {
    /// A resource asked about.
    DescribeConfigsResource {
        /// Kafka's number of the resource type.
        resource_type: i8, 0+;
        /// The resource's name.
        resource_name: Str, 0+;
        /// The names wanted; null is all.
        configuration_keys: Option<Vec<Str>>, 0+, nullable 0+;
    }
}

message! {
    /// The configurations.
    DescribeConfigsResponse, key 32, versions 1-4, flexible 4+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// One for each resource.
        results: Vec<DescribeConfigsResult>, 0+;
    }
}

structure! {
    /// A resource's configuration.
    DescribeConfigsResult {
        /// The outcome.
        error_code: i16, 0+;
        /// What went wrong, in words.
        error_message: Option<Str>, 0+, nullable 0+;
        /// Kafka's number of the resource type.
        resource_type: i8, 0+;
        /// The resource's name.
        resource_name: Str, 0+;
        /// The configuration, name by name.
        configs: Vec<DescribeConfigsResourceResult>, 0+;
    }
}

structure! {
    /// One configuration.
    DescribeConfigsResourceResult {
        /// The configuration's name.
        name: Str, 0+;
        /// The value.
        value: Option<Str>, 0+, nullable 0+;
        /// Whether it cannot be changed.
        read_only: bool, 0+;
        /// Where the value is set.
        config_source: i8, 1+, default -1;
        /// Whether the value is kept secret.
        is_sensitive: bool, 0+;
        /// Every place that sets it, the winning one first.
        synonyms: Vec<DescribeConfigsSynonym>, 1+;
        /// The number of the value's type.
        config_type: i8, 3+;
        /// The name in words; null when not asked for.
        documentation: Option<Str>, 3+, nullable 0+;
    }
}

structure! {
    /// A place that sets a value.
    DescribeConfigsSynonym {
        /// The name there.
        name: Str, 1+;
        /// The value there.
        value: Option<Str>, 1+, nullable 0+;
        /// Which place it is.
        source: i8, 1+;
    }
}
