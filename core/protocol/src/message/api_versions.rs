//! ApiVersions (18): which APIs and versions the broker serves. Every client's first request.
//!
//! Its response header is version 0 whatever the body's version; a request of an unknown version is answered by
//! [`ApiVersionsResponse::unsupported_version`] in version 0. Source: KIP-511, KIP-584, KAFKA-17011, KAFKA-18659.

use crate::api::{self, ApiKey};
use crate::codec::{DecodeError, Reader, Str};
use crate::{message, structure};

/// `UNSUPPORTED_VERSION`.
const UNSUPPORTED_VERSION: i16 = 35;
/// From this version on a feature may be listed whose lowest level is 0 (KAFKA-17011).
const FEATURE_FROM_ZERO_VERSION: i16 = 4;

message! {
    /// Asks which APIs and versions the broker serves.
    ApiVersionsRequest, key 18, versions 0-4, flexible 3+ {
        /// The name of the client's software.
        client_software_name: Str, 3+;
        /// The version of the client's software.
        client_software_version: Str, 3+;
    }
}

message! {
    /// The APIs and versions served.
    ApiVersionsResponse, key 18, versions 0-4, flexible 3+ {
        /// The outcome.
        error_code: i16, 0+;
        /// The APIs served.
        api_keys: Vec<ApiVersion>, 0+;
        /// How long the client was or will be held back.
        throttle_time_ms: i32, 1+;
        /// The features this broker could serve.
        supported_features: Vec<SupportedFeatureKey>, 3+, tag 0 3+;
        /// The metadata offset at which the finalized features were read; −1 is unknown.
        finalized_features_epoch: i64, 3+, tag 1 3+, default -1;
        /// The features in force in the cluster.
        finalized_features: Vec<FinalizedFeatureKey>, 3+, tag 2 3+;
        /// Whether a ZooKeeper migration may begin; always false here.
        zk_migration_ready: bool, 3+, tag 3 3+, default false;
    }
}

structure! {
    /// An API and its versions.
    ApiVersion {
        /// The API key.
        api_key: i16, 0+;
        /// The lowest version.
        min_version: i16, 0+;
        /// The highest version.
        max_version: i16, 0+;
    }
}

structure! {
    /// A feature this broker could serve.
    SupportedFeatureKey {
        /// The feature's name.
        name: Str, 3+;
        /// The lowest level.
        min_version: i16, 3+;
        /// The highest level.
        max_version: i16, 3+;
    }
}

structure! {
    /// A feature in force.
    FinalizedFeatureKey {
        /// The feature's name.
        name: Str, 3+;
        /// The highest level in force.
        max_version_level: i16, 3+;
        /// The lowest level in force.
        min_version_level: i16, 3+;
    }
}

impl ApiVersionsRequest {
    /// Whether the client's software name and version are such as `version` demands; if not, the answer is
    /// `INVALID_REQUEST` with a normal body.
    #[must_use]
    pub fn is_valid(&self, version: i16) -> bool {
        version < 3
            || (is_software_word(&self.client_software_name)
                && is_software_word(&self.client_software_version))
    }
}

/// Letters, digits, dots and hyphens; the first and the last one a letter or digit.
fn is_software_word(word: &str) -> bool {
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-' || *byte == b'.';
    let bytes = word.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter()
        .all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
        && bytes.iter().all(is_inner)
}

impl ApiVersionsResponse {
    /// The APIs of [`api::table`] and those of `supported_features` that a response of `version` may name.
    #[must_use]
    pub fn served(version: i16, mut supported_features: Vec<SupportedFeatureKey>) -> Self {
        if version < FEATURE_FROM_ZERO_VERSION {
            supported_features.retain(|feature| feature.min_version != 0);
        }
        let api_keys = api::table().iter().map(|row| ApiVersion {
            api_key: row.key.code(),
            min_version: row.advertised_min,
            max_version: row.max,
        });
        Self {
            api_keys: api_keys.collect(),
            supported_features,
            ..Self::default()
        }
    }

    /// The answer to a version nobody knows yet, to be encoded as version 0.
    #[must_use]
    pub fn unsupported_version() -> Self {
        let mut response = Self::served(0, Vec::new());
        response.error_code = UNSUPPORTED_VERSION;
        response
            .api_keys
            .retain(|api| api.api_key == ApiKey::ApiVersions.code());
        response
    }

    /// Reads the answer to a request of `version`; one that refuses the version comes in version 0.
    ///
    /// # Errors
    /// When the bytes are neither.
    pub fn decode_or_refused(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let is_refused = reader
            .rest()
            .starts_with(&UNSUPPORTED_VERSION.to_be_bytes());
        Self::decode(reader, if is_refused { 0 } else { version })
    }
}
