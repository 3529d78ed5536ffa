//! FindCoordinator: who coordinates a group or a transactional id. Their topics are created when they are first needed.

use pelton_model::ErrorCode;
use pelton_protocol::codec::Str;
use pelton_protocol::message::find_coordinator::{
    Coordinator, FindCoordinatorRequest, FindCoordinatorResponse,
};

use super::Handled;
use crate::connection::Client;
use crate::coordinator::Kind;
use crate::dispatch::Request;
use crate::env::Env;
use crate::shard::CONTROLLER_SHARD;

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
    let kind = kind(asked.key_type, request.version);
    if let Ok(kind) = kind {
        client.shard.create_coordinator_topic(kind).await;
    }
    let coordinator = |key: &Str| coordinator(client, key, kind);
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

/// Which coordinators keys of this type have, or why none.
fn kind(key_type: i8, version: i16) -> Result<Kind, ErrorCode> {
    match key_type {
        GROUP => Ok(Kind::Groups),
        TRANSACTION => Ok(Kind::Transactions),
        SHARE if version >= SHARE_VERSION => Err(ErrorCode::CoordinatorNotAvailable),
        _ => Err(ErrorCode::InvalidRequest),
    }
}

/// Whether a key names a group, a topic's id and a partition, as share coordinators are asked for.
fn is_share_key(key: &str) -> bool {
    let parts: Vec<&str> = key.split(':').collect();
    let [group, topic, partition] = parts[..] else {
        return false;
    };
    !group.trim().is_empty() && !topic.is_empty() && partition.parse::<i32>().is_ok()
}

fn coordinator<E: Env>(
    client: &Client<E>,
    key: &Str,
    kind: Result<Kind, ErrorCode>,
) -> Coordinator {
    let is_share = kind == Err(ErrorCode::CoordinatorNotAvailable);
    let kind = match is_share && !is_share_key(key) {
        true => Err(ErrorCode::InvalidRequest),
        false => kind,
    };
    let available = kind.and_then(|kind| {
        let unavailable = client.shard.coordinator_unavailable(kind, key);
        unavailable.map_or(Ok(kind), Err)
    });
    let kind = match available {
        Ok(kind) => kind,
        Err(error) => {
            return Coordinator {
                key: key.clone(),
                node_id: -1,
                port: -1,
                error_code: error.code(),
                error_message: Some(Str::from(error.message())),
                ..Coordinator::default()
            };
        }
    };
    let partition = client.shard.coordinator_partition(kind, key);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a key that is none of a share group's partitions is the client's mistake, as in Kafka. Method: a table of keys.
    #[test]
    fn share_keys() {
        for (key, is_one) in [
            ("g:MXfQb4WmQnS0gWVQ2bZ5Pw:0", true),
            ("g:MXfQb4WmQnS0gWVQ2bZ5Pw:x", false),
            ("g:0", false),
            ("g", false),
            (" :MXfQb4WmQnS0gWVQ2bZ5Pw:0", false),
            ("g::0", false),
            ("a:g:MXfQb4WmQnS0gWVQ2bZ5Pw:0", false),
        ] {
            assert_eq!(is_share_key(key), is_one, "{key}");
        }
    }

    /// Goal: a type that nobody coordinates is the client's mistake, as in Kafka. Method: a table of types and versions.
    #[test]
    fn key_types() {
        for (key_type, version, error) in [
            (GROUP, 0, None),
            (TRANSACTION, 1, None),
            (SHARE, 5, Some(ErrorCode::InvalidRequest)),
            (SHARE, 6, Some(ErrorCode::CoordinatorNotAvailable)),
            (3, 4, Some(ErrorCode::InvalidRequest)),
            (-1, 1, Some(ErrorCode::InvalidRequest)),
        ] {
            assert_eq!(
                kind(key_type, version).err(),
                error,
                "{key_type} v{version}"
            );
        }
    }
}
