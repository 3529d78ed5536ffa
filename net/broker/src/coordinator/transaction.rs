//! What partitions and transactions tell each other: whether a partition belongs to a transaction, and when one ends in a partition of
//! `__consumer_offsets`.

use std::collections::BTreeMap;
use std::rc::Rc;

use pelton_machine::transaction::{self, AddMode, AddPartitions, PartitionCodes};
use pelton_model::{ErrorCode, ProducerEpoch, ProducerId, Str, TopicPartition};

use super::{Command, Kind, Phase, Reply};
use crate::env::Env;
use crate::shard::Shard;

/// What is asked of a transaction's coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TxnAsk {
    /// Whether the partitions are part of the transaction.
    VerifyOnly,
    /// That they become so (Produce from version 12 on, TxnOffsetCommit from version 5 on; KIP-890).
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
        let refused = |error| vec![error; partitions.len()];
        let kind = Kind::Transactions;
        let Some(coordinator) = self.coordinator_partition(kind, &transactional_id) else {
            return refused(ErrorCode::NotCoordinator);
        };
        let mut topics: BTreeMap<Str, Vec<i32>> = BTreeMap::new();
        for id in &partitions {
            if let Some(topic) = self.topic_by_id(id.topic_id) {
                let all = topics.entry(topic.name.clone()).or_default();
                all.push(id.partition.0);
            }
        }
        let command = transaction::Command::AddPartitions(AddPartitions {
            transactional_id,
            producer_id,
            producer_epoch,
            mode: match mode {
                TxnAsk::VerifyOnly => AddMode::Verify,
                TxnAsk::Add => AddMode::Add(2),
            },
            topics: topics.into_iter().collect(),
        });
        let command = Command::Transaction(command);
        let reply = self.ask_coordinator(coordinator, command).await;
        let Reply::Transaction(transaction::Reply::AddPartitions(codes)) = reply else {
            unreachable!("replies are of their commands' kinds");
        };
        self.in_order(&partitions, &codes)
    }

    /// The codes of partitions by name, in the order of their ids; a topic that is gone has none.
    fn in_order(&self, partitions: &[TopicPartition], codes: &PartitionCodes) -> Vec<ErrorCode> {
        let told = codes.iter().flat_map(|(topic, codes)| {
            let told = codes.iter();
            told.map(move |(partition, code)| ((topic.as_str(), *partition), *code))
        });
        let told: BTreeMap<(&str, i32), ErrorCode> = told.collect();
        let code = |id: &TopicPartition| {
            let topic = self.topic_by_id(id.topic_id)?;
            told.get(&(&*topic.name, id.partition.0)).copied()
        };
        let code = |id| code(id).unwrap_or(ErrorCode::UnknownTopicOrPartition);
        partitions.iter().map(code).collect()
    }

    /// Before a marker is planned in a partition: what its group coordinator has decided lies before it.
    ///
    /// # Errors
    /// NOT_LEADER_OR_FOLLOWER while the coordinator is being loaded: the marker is to come again.
    pub(crate) fn before_offsets_marker(
        self: &Rc<Self>,
        partition: TopicPartition,
    ) -> Result<(), ErrorCode> {
        if !self.is_of_offsets(partition) {
            return Ok(());
        }
        let hosted = self.coordinators.hosted.borrow().get(&partition).cloned();
        match hosted {
            Some(hosted) if hosted.phase.get() == Phase::Active => {
                self.append_decided(&hosted);
                Ok(())
            }
            // A log that cannot be read has no coordinator that waits for the end of transactions.
            Some(hosted) if hosted.phase.get() == Phase::Failed => Ok(()),
            Some(_) | None => Err(ErrorCode::NotLeaderOrFollower),
        }
    }

    /// A marker is written in a partition: offsets that its group coordinator keeps for the transaction count, or never will.
    ///
    /// # Errors
    /// NOT_LEADER_OR_FOLLOWER when the coordinator is being loaded again: it may have read past the marker or not, so the marker is to
    /// come again.
    pub(crate) fn on_offsets_marker(
        self: &Rc<Self>,
        partition: TopicPartition,
        producer_id: ProducerId,
        is_commit: bool,
    ) -> Result<(), ErrorCode> {
        if !self.is_of_offsets(partition) {
            return Ok(());
        }
        let hosted = self.coordinators.hosted.borrow().get(&partition).cloned();
        let Some(hosted) = hosted else {
            return Err(ErrorCode::NotLeaderOrFollower);
        };
        match hosted.phase.get() {
            Phase::Active => {
                if let Some(groups) = hosted.state.borrow_mut().groups() {
                    groups.replay_end(producer_id, is_commit);
                }
                Ok(())
            }
            Phase::Failed => Ok(()),
            Phase::Loading | Phase::Gone => Err(ErrorCode::NotLeaderOrFollower),
        }
    }

    fn is_of_offsets(&self, partition: TopicPartition) -> bool {
        let topic = self.topic_by_name(Kind::Groups.topic());
        topic.is_some_and(|topic| topic.id == partition.topic_id)
    }
}
