//! FindCoordinator: who coordinates a group. The topic of the offsets is created when it is first needed.
//!
//! Kafka answers COORDINATOR_NOT_AVAILABLE while that topic is being created; here the answer waits for it.

use std::rc::Rc;

use pelton_machine::controller::OFFSETS_TOPIC;
use pelton_model::ErrorCode;
use pelton_protocol::codec::Str;
use pelton_protocol::message::find_coordinator::{
    Coordinator, FindCoordinatorRequest, FindCoordinatorResponse,
};

use pelton_transport::net::Net;

use super::Handled;
use crate::connection::Client;
use crate::controller::Command;
use crate::dispatch::Request;
use crate::env::Env;
use crate::shard::{CONTROLLER_SHARD, Shard, message};

/// From this version on several keys may be asked for at once.
const BATCH_VERSION: i16 = 4;
/// From this version on coordinators of share groups may be asked for.
const SHARE_VERSION: i16 = 6;

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: FindCoordinatorRequest = request.body()?;
    let refusal = refusal(asked.key_type, request.version);
    if refusal.is_none() {
        create_topic(&client.shard).await;
    }
    let coordinator = |key: &Str| coordinator(client, key, refusal);
    if request.version >= BATCH_VERSION {
        let coordinators = asked.coordinator_keys.iter().map(coordinator).collect();
        return Ok(request.respond(&FindCoordinatorResponse {
            coordinators,
            ..FindCoordinatorResponse::default()
        }));
    }
    let Coordinator {
        node_id,
        host,
        port,
        error_code,
        error_message,
        ..
    } = coordinator(&asked.key);
    Ok(request.respond(&FindCoordinatorResponse {
        error_code,
        error_message,
        node_id,
        host,
        port,
        ..FindCoordinatorResponse::default()
    }))
}

/// Why no key of this kind has a coordinator here.
fn refusal(key_type: i8, version: i16) -> Option<ErrorCode> {
    match key_type {
        GROUP => None,
        // Transactions are not served yet, which is what a broker says that cannot reach their coordinator.
        TRANSACTION => Some(ErrorCode::CoordinatorNotAvailable),
        SHARE if version >= SHARE_VERSION => Some(ErrorCode::CoordinatorNotAvailable),
        SHARE => Some(ErrorCode::InvalidRequest),
        _ => Some(ErrorCode::UnknownServerError),
    }
}

async fn create_topic<E: Env>(shard: &Rc<Shard<E>>) {
    if shard.topic_by_name(OFFSETS_TOPIC).is_some() {
        return;
    }
    let command = Command::AutoCreateTopics(vec![OFFSETS_TOPIC.to_owned()]);
    let answer = shard
        .ask(CONTROLLER_SHARD, message::Request::Control(command))
        .await
        .into_control();
    if shard.topic_by_name(OFFSETS_TOPIC).is_none()
        && let Some(untold) = shard.repeats.groups.tell(shard.net.now())
    {
        tracing::error!(
            ?answer,
            untold,
            "cannot create __consumer_offsets: groups are not served"
        );
    }
}

fn coordinator<E: Env>(client: &Client<E>, key: &Str, refusal: Option<ErrorCode>) -> Coordinator {
    let error = refusal.or_else(|| unavailable(client, key));
    if let Some(error) = error {
        return Coordinator {
            key: key.clone(),
            node_id: -1,
            port: -1,
            error_code: error.code(),
            error_message: Some(Str::from(error.message())),
            ..Coordinator::default()
        };
    }
    let partition = client.shard.group_partition(key);
    let owner = partition.map_or(CONTROLLER_SHARD, |id| client.shard.owner(id));
    let shown = client.shown_owner(owner);
    Coordinator {
        key: key.clone(),
        node_id: shown.id,
        host: shown.endpoint.host.clone(),
        port: i32::from(shown.endpoint.port),
        error_code: ErrorCode::None.code(),
        error_message: None,
    }
}

/// Why a group has no coordinator: its partition is not there, or has no leader.
fn unavailable<E: Env>(client: &Client<E>, group: &str) -> Option<ErrorCode> {
    let shard = &client.shard;
    let image = shard.image();
    let partition = shard
        .group_partition(group)
        .and_then(|id| image.partition(id));
    let is_led =
        partition.is_some_and(|known| known.leader().is_some() && !shard.is_replica_offline(known));
    (!is_led).then_some(ErrorCode::CoordinatorNotAvailable)
}
