//! One file for each API: decode, authorise, validate, act, respond. Handlers know the protocol and the shard, never each other.
//!
//! An `Err` of a handler is a reason to close the connection: the body could not be understood. Everything else that goes wrong is an
//! error code in the response.

pub(crate) mod acls;
pub(crate) mod add_offsets_to_txn;
pub(crate) mod add_partitions_to_txn;
pub(crate) mod alter_configs;
pub(crate) mod alter_partition_reassignments;
pub(crate) mod alter_replica_log_dirs;
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
pub(crate) mod describe_producers;
pub(crate) mod describe_quorum;
pub(crate) mod describe_topic_partitions;
pub(crate) mod describe_transactions;
pub(crate) mod elect_leaders;
pub(crate) mod end_txn;
pub(crate) mod fetch;
pub(crate) mod find_coordinator;
pub(crate) mod heartbeat;
pub(crate) mod init_producer_id;
pub(crate) mod join_group;
pub(crate) mod leave_group;
pub(crate) mod list_config_resources;
pub(crate) mod list_groups;
pub(crate) mod list_offsets;
pub(crate) mod list_partition_reassignments;
pub(crate) mod list_transactions;
pub(crate) mod metadata;
pub(crate) mod offset_commit;
pub(crate) mod offset_delete;
pub(crate) mod offset_fetch;
pub(crate) mod offset_for_leader_epoch;
pub(crate) mod produce;
pub(crate) mod sync_group;
pub(crate) mod txn_offset_commit;
pub(crate) mod unregister_broker;
pub(crate) mod update_features;
pub(crate) mod write_txn_markers;

use pelton_machine::connection::Outcome;
use pelton_machine::controller::Refusal;
use pelton_machine::group::Client as GroupClient;
use pelton_machine::image::{MetadataImage, PartitionImage};
use pelton_model::limits::METADATA_PARTITIONS_PER_TURN;
use pelton_model::{ErrorCode, LeaderEpoch, NodeId};
use pelton_protocol::codec::Str;
use pelton_transport::net::Net;

use crate::connection::Client;
use crate::dispatch::{Answer, Request};
use crate::env::Env;
use crate::shard::Shard;

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

/// The code for a producer that is fenced, in a request whose version may not know PRODUCER_FENCED (KIP-588).
pub(crate) fn fenced_code(error: ErrorCode, knows_fenced: bool) -> ErrorCode {
    if error == ErrorCode::ProducerFenced && !knows_fenced {
        ErrorCode::InvalidProducerEpoch
    } else {
        error
    }
}

/// What a handler returns.
pub(crate) type Handled = Result<Outcome<Answer>, String>;

/// Who leads a partition, and which of its replicas cannot be reached.
pub(crate) struct Shown {
    pub(crate) leader: Option<NodeId>,
    pub(crate) offline: Vec<i32>,
}

/// What clients are shown of a partition: one whose directory has failed has no leader, whether or not the controller could write it
/// down.
pub(crate) fn shown<E: Env>(
    shard: &Shard<E>,
    image: &MetadataImage,
    partition: &PartitionImage,
) -> Shown {
    let this = shard.config.node_id;
    let is_lost = shard.is_replica_offline(partition);
    let is_offline = |node: &&NodeId| {
        let is_gone = image.broker(**node).is_none_or(|broker| broker.fenced);
        is_gone || (**node == this && is_lost)
    };
    let replicas = partition.replicas.iter();
    Shown {
        leader: partition
            .leader()
            .filter(|leader| *leader != this || !is_lost),
        offline: replicas.filter(is_offline).map(|node| node.0).collect(),
    }
}

/// Lets other requests run every so many partitions.
#[derive(Default)]
pub(crate) struct Pauses {
    partitions: usize,
}

impl Pauses {
    /// After so many more.
    pub(crate) async fn after<N: Net>(&mut self, net: &N, partitions: usize) {
        self.partitions += partitions;
        if METADATA_PARTITIONS_PER_TURN <= self.partitions {
            self.partitions = 0;
            net.yield_now().await;
        }
    }
}

/// A decision on one item, as answers tell it: the code, and the controller's text or else the code's.
pub(crate) fn outcome(result: Result<(), Refusal>) -> (i16, Option<Str>) {
    match result {
        Ok(()) => (ErrorCode::None.code(), None),
        Err(refusal) => {
            let text = refusal.message.map(Str::from);
            let text = text.unwrap_or_else(|| Str::from(refusal.error.message()));
            (refusal.error.code(), Some(text))
        }
    }
}
