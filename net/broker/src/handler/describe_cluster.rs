//! DescribeCluster: who we are.

use pelton_model::ErrorCode;
use pelton_protocol::codec::Str;
use pelton_protocol::message::describe_cluster::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};

use super::Handled;
use crate::authorized;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;

/// Brokers, as opposed to controllers (KIP-919).
const ENDPOINT_TYPE_BROKERS: i8 = 1;

/// Serves one request.
pub(crate) fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: DescribeClusterRequest = request.body()?;
    let identity = client.shard.identity();
    let mut response = DescribeClusterResponse {
        cluster_id: Str::from(&identity.cluster_id),
        controller_id: identity.node_id.0,
        endpoint_type: ENDPOINT_TYPE_BROKERS,
        ..DescribeClusterResponse::default()
    };
    if asked.endpoint_type != ENDPOINT_TYPE_BROKERS {
        let (error, text) = if asked.endpoint_type == 2 {
            let text = "The given endpoint type was CONTROLLER, but this is a broker listener.";
            (ErrorCode::MismatchedEndpointType, text)
        } else {
            (
                ErrorCode::UnsupportedEndpointType,
                "Unsupported endpoint type.",
            )
        };
        response = DescribeClusterResponse {
            error_code: error.code(),
            error_message: Some(Str::from(text)),
            ..DescribeClusterResponse::default()
        };
        return Ok(request.respond(&response));
    }
    let told = &identity.endpoints[client.listener_index];
    let image = client.shard.image();
    let own = image
        .brokers()
        .filter(|broker| broker.broker_id == identity.node_id.0);
    response.brokers = own
        .map(|broker| DescribeClusterBroker {
            broker_id: broker.broker_id,
            host: told.host.clone(),
            port: i32::from(told.port),
            rack: broker.rack.as_deref().map(Str::from),
            is_fenced: broker.fenced,
        })
        .collect();
    client.dress_cluster(&mut response);
    if asked.include_cluster_authorized_operations {
        response.cluster_authorized_operations = authorized::CLUSTER_OPERATIONS;
    }
    Ok(request.respond(&response))
}
