//! AddOffsetsToTxn: the partition of a group's offsets joins a transaction.

use pelton_machine::group::partition_of;
use pelton_machine::transaction::{AddMode, AddPartitions, Command, Reply};
use pelton_model::{ErrorCode, ProducerEpoch, ProducerId};
use pelton_protocol::codec::Str;
use pelton_protocol::message::add_offsets_to_txn::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse,
};

use super::{Handled, fenced_code};
use crate::connection::Client;
use crate::coordinator::Kind;
use crate::dispatch::Request;
use crate::env::Env;

/// From this version on a client knows PRODUCER_FENCED.
const FENCED_VERSION: i16 = 2;

/// Serves one request.
pub(crate) async fn handle<E: Env>(client: &Client<E>, request: &Request) -> Handled {
    let asked: AddOffsetsToTxnRequest = request.body()?;
    client.shard.create_coordinator_topic(Kind::Groups).await;
    let error = add(client, asked).await;
    Ok(request.respond(&AddOffsetsToTxnResponse {
        error_code: fenced_code(error, FENCED_VERSION <= request.version).code(),
        ..AddOffsetsToTxnResponse::default()
    }))
}

async fn add<E: Env>(client: &Client<E>, asked: AddOffsetsToTxnRequest) -> ErrorCode {
    let Some(topic) = client.shard.topic_by_name(Kind::Groups.topic()) else {
        return ErrorCode::CoordinatorNotAvailable;
    };
    let partition = partition_of(&asked.group_id, topic.partition_count);
    let id = asked.transactional_id.clone();
    let command = Command::AddPartitions(AddPartitions {
        transactional_id: asked.transactional_id,
        producer_id: ProducerId(asked.producer_id),
        producer_epoch: ProducerEpoch(asked.producer_epoch),
        // Clients of transaction version 2 do not send this.
        mode: AddMode::Add(0),
        topics: vec![(Str::new_static(Kind::Groups.topic()), vec![partition.0])],
    });
    let Reply::AddPartitions(codes) = client.ask_transaction(&id, command).await else {
        unreachable!("replies are of their commands' kinds");
    };
    let mut codes = codes.into_iter().flat_map(|(_, codes)| codes);
    let (_, code) = codes.next().expect("a code for each partition");
    code
}
