//! ApiVersions: what is served, and the finalized features.

use pelton_machine::controller::{finalized_features, supported_features};
use pelton_model::ErrorCode;
use pelton_protocol::codec::Str;
use pelton_protocol::message::api_versions::{
    ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};

use super::Handled;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;

/// Serves one request.
pub(crate) fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: ApiVersionsRequest = request.body()?;
    let supported = supported_features()
        .into_iter()
        .map(|feature| SupportedFeatureKey {
            name: Str::from(feature.name),
            min_version: feature.min_supported_version,
            max_version: feature.max_supported_version,
        });
    let mut response = ApiVersionsResponse::served(request.version, supported.collect());
    let image = client.shard.image();
    response.finalized_features_epoch = image.applied().0;
    let finalized = finalized_features(&image, client.shard.kraft_version.get());
    let finalized = finalized
        .into_iter()
        .map(|(name, level)| FinalizedFeatureKey {
            name: Str::from(name),
            max_version_level: level,
            min_version_level: level,
        });
    response.finalized_features = finalized.collect();
    if !asked.is_valid(request.version) {
        response = ApiVersionsResponse {
            error_code: ErrorCode::InvalidRequest.code(),
            ..ApiVersionsResponse::default()
        };
    }
    Ok(request.respond(&response))
}
