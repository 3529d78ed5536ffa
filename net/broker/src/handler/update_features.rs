//! UpdateFeatures: the controller decides; answered when every shard acts on the new levels.

use pelton_machine::controller::{FeatureUpdate, Refusal};
use pelton_model::ErrorCode;
use pelton_protocol::codec::Str;
use pelton_protocol::message::update_features::{
    FeatureUpdateKey, UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse,
};

use super::Handled;
use crate::connection::Client;
use crate::controller::{Answer, Command};
use crate::dispatch::Request;
use crate::env::Env;
use crate::shard::CONTROLLER_SHARD;
use crate::shard::message;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: UpdateFeaturesRequest = request.body()?;
    let command = Command::UpdateFeatures {
        updates: asked.feature_updates.iter().map(wanted).collect(),
        validate_only: asked.validate_only,
    };
    let answer = client
        .shard
        .ask(CONTROLLER_SHARD, message::Request::Control(command))
        .await
        .into_control();
    let result = if let Answer::FeaturesUpdated(result) = answer {
        result
    } else {
        Err(Refusal {
            error: answer.error(),
            message: None,
        })
    };
    let mut response = UpdateFeaturesResponse::default();
    match result {
        // Version 2 leaves these out again.
        Ok(()) => response.results = asked.feature_updates.into_iter().map(told).collect(),
        Err(Refusal { error, message }) => {
            response.error_code = error.code();
            let text = message.map_or_else(|| Str::from(error.message()), Str::from);
            response.error_message = Some(text);
        }
    }
    Ok(request.respond(&response))
}

fn wanted(update: &FeatureUpdateKey) -> FeatureUpdate {
    FeatureUpdate {
        name: update.feature.to_string(),
        level: update.max_version_level,
        upgrade_type: update.upgrade_type,
    }
}

fn told(update: FeatureUpdateKey) -> UpdatableFeatureResult {
    UpdatableFeatureResult {
        feature: update.feature,
        error_code: ErrorCode::None.code(),
        // Kafka's word for "nothing" here.
        error_message: Some(Str::new_static(ErrorCode::None.name())),
    }
}
