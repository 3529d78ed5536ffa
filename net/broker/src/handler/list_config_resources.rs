//! ListConfigResources: which resources have a configuration; from the image of this shard.
//!
//! Every topic and every broker has one. Groups and client metrics have one when something is set on them.

use pelton_model::ErrorCode;
use pelton_model::record_type::metadata::{
    RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP,
    RESOURCE_TOPIC,
};
use pelton_protocol::codec::Str;
use pelton_protocol::message::list_config_resources::{
    ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse,
};

use super::Handled;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;

/// The types listed, in Kafka's order.
const TYPES: [i8; 5] = [
    RESOURCE_GROUP,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
];

/// Serves one request.
pub(crate) fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: ListConfigResourcesRequest = request.body()?;
    let mut response = ListConfigResourcesResponse::default();
    // Version 0 is the list of client metrics resources, from before it had a type.
    let served: &[i8] = if request.version == 0 {
        &[RESOURCE_CLIENT_METRICS]
    } else {
        &TYPES
    };
    let wanted: &[i8] = if asked.resource_types.is_empty() {
        served
    } else {
        &asked.resource_types
    };
    if wanted.iter().any(|one| !served.contains(one)) {
        response.error_code = ErrorCode::UnsupportedVersion.code();
        return Ok(request.respond(&response));
    }
    for resource_type in TYPES.into_iter().filter(|one| wanted.contains(one)) {
        let names = names(client, resource_type).into_iter();
        let resources = names.map(|resource_name| ConfigResource {
            resource_name,
            resource_type,
        });
        response.config_resources.extend(resources);
    }
    Ok(request.respond(&response))
}

fn names<E: Env>(client: &Client<E>, resource_type: i8) -> Vec<Str> {
    let image = client.shard.image();
    match resource_type {
        RESOURCE_TOPIC => image.topics().map(|topic| Str::new(topic.name())).collect(),
        RESOURCE_BROKER | RESOURCE_BROKER_LOGGER => {
            let nodes = client.shown_nodes().into_iter();
            nodes.map(|node| Str::from(node.id.to_string())).collect()
        }
        _ => {
            let names = image.config_resources(resource_type);
            names.map(Str::new).collect()
        }
    }
}
