//! One file for each API: decode, authorise, validate, act, respond. Handlers know the protocol and the shard, never each other.
//!
//! An `Err` of a handler is a reason to close the connection: the body could not be understood. Everything else that goes wrong is an
//! error code in the response.

pub(crate) mod alter_configs;
pub(crate) mod api_versions;
pub(crate) mod consumer_group_describe;
pub(crate) mod consumer_group_heartbeat;
pub(crate) mod create_partitions;
pub(crate) mod create_topics;
pub(crate) mod delete_groups;
pub(crate) mod delete_records;
pub(crate) mod delete_topics;
pub(crate) mod describe_cluster;
pub(crate) mod describe_configs;
pub(crate) mod describe_groups;
pub(crate) mod describe_log_dirs;
pub(crate) mod fetch;
pub(crate) mod find_coordinator;
pub(crate) mod heartbeat;
pub(crate) mod init_producer_id;
pub(crate) mod join_group;
pub(crate) mod leave_group;
pub(crate) mod list_groups;
pub(crate) mod list_offsets;
pub(crate) mod metadata;
pub(crate) mod offset_commit;
pub(crate) mod offset_delete;
pub(crate) mod offset_fetch;
pub(crate) mod offset_for_leader_epoch;
pub(crate) mod produce;
pub(crate) mod sync_group;

use pelton_machine::connection::Outcome;
use pelton_machine::group::Client as GroupClient;
use pelton_model::LeaderEpoch;
use pelton_protocol::codec::Str;

use crate::connection::Client;
use crate::dispatch::{Answer, Request};
use crate::env::Env;

/// The leader epoch that a client names; any negative one is none.
pub(crate) fn known_epoch(epoch: i32) -> LeaderEpoch {
    if epoch < 0 {
        LeaderEpoch::NONE
    } else {
        LeaderEpoch(epoch)
    }
}

/// Who asks, in Kafka's form.
pub(crate) fn group_client<E: Env>(client: &Client<E>, request: &Request) -> GroupClient {
    GroupClient {
        id: request.client_id.clone().unwrap_or_default(),
        host: Str::from(format!("/{}", client.peer_addr().ip())),
    }
}

/// What a handler returns.
pub(crate) type Handled = Result<Outcome<Answer>, String>;
