//! Where a transaction's coordinator is asked whether partitions belong to it.
//!
//! No transactions are coordinated here yet, so nobody vouches for any.

use std::rc::Rc;

use pelton_model::{ErrorCode, ProducerEpoch, ProducerId, Str, TopicPartition};

use crate::env::Env;
use crate::shard::Shard;

/// What is asked of a transaction's coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TxnAsk {
    /// Whether the partitions are part of the transaction.
    VerifyOnly,
    /// That they become so (Produce from version 12 on, KIP-890).
    Add,
}

/// Partitions of a transaction, and whose it is.
#[derive(Clone, Debug)]
pub(crate) struct TxnPartitions {
    pub(crate) transactional_id: Str,
    pub(crate) producer_id: ProducerId,
    pub(crate) producer_epoch: ProducerEpoch,
    pub(crate) partitions: Vec<TopicPartition>,
    pub(crate) mode: TxnAsk,
}

impl<E: Env> Shard<E> {
    /// Asks the coordinator; one code for each partition, in order.
    #[expect(clippy::unused_async, reason = "a coordinator is asked over the mesh")]
    pub(crate) async fn add_partitions_to_txn(
        self: &Rc<Self>,
        asked: TxnPartitions,
    ) -> Vec<ErrorCode> {
        let TxnPartitions {
            transactional_id,
            producer_id,
            producer_epoch,
            partitions,
            mode,
        } = asked;
        tracing::debug!(
            %transactional_id, %producer_id, %producer_epoch, ?mode, "no coordinator vouches for a transaction"
        );
        vec![ErrorCode::NotCoordinator; partitions.len()]
    }
}
