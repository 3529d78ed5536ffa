//! UpdateFeatures (57): changes what levels of features are in force. Source: KIP-584, KIP-778, KIP-1022.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Changes the levels of features.
    UpdateFeaturesRequest, key 57, versions 0-2, flexible 0+ {
        /// How long the client waits, in milliseconds.
        timeout_ms: i32, 0+, default 60000;
        /// The changes.
        feature_updates: Vec<FeatureUpdateKey>, 0+;
        /// Whether to check only, and change nothing.
        validate_only: bool, 1+, default false;
    }
}

structure! {
    /// One change.
    FeatureUpdateKey {
        /// The feature's name.
        feature: Str, 0+;
        /// Its new level; 0 switches it off.
        max_version_level: i16, 0+;
        /// Whether the level may fall; Kafka's controller does not look at it.
        allow_downgrade: bool, 0-0;
        /// 1 raises the level, 2 lowers it where nothing is lost, 3 whatever is lost.
        upgrade_type: i8, 1+, default 1;
    }
}

message! {
    /// What became of the changes: all are made or none is.
    UpdateFeaturesResponse, key 57, versions 0-2, flexible 0+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// The outcome.
        error_code: i16, 0+;
        /// What went wrong, in words; null when nothing did.
        error_message: Option<Str>, 0+, nullable 0+;
        /// One for each change, where all are made.
        results: Vec<UpdatableFeatureResult>, 0-1;
    }
}

structure! {
    /// A change's outcome.
    UpdatableFeatureResult {
        /// The feature's name.
        feature: Str, 0+;
        /// The outcome.
        error_code: i16, 0+;
        /// What went wrong, in words.
        error_message: Option<Str>, 0+, nullable 0+;
    }
}
