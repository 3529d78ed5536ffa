//! AddPartitionsToTxn: which partitions a transaction writes to.
//!
//! 1. The first partition opens the transaction. One that is there is not written again.
//! 2. While a transaction ends, nothing is added and nothing is verified: whoever asks comes again.

use pelton_model::limits::TRANSACTION_PARTITIONS_BYTES_MAX;
use pelton_model::{ErrorCode, ProducerId};

use super::shard::TransactionShard;
use super::state::{Hard, Partitions, State, Transaction};
use super::{AddMode, AddPartitions, Command, Decision, Reply, Terms, Token};

impl TransactionShard {
    pub(super) fn add_partitions(
        &mut self,
        terms: &Terms<'_>,
        token: Token,
        asked: AddPartitions,
    ) -> Decision {
        let known = match self.owned(&asked) {
            Ok(known) => known,
            Err(error) => return refused(token, &Command::AddPartitions(asked), error),
        };
        let AddMode::Add(client_version) = asked.mode else {
            let codes = asked.each(|topic, partition| match known.has(topic, partition) {
                true => ErrorCode::None,
                false => ErrorCode::TransactionAbortable,
            });
            return answer(token, Reply::AddPartitions(codes));
        };
        let is_there = asked
            .topics
            .iter()
            .all(|(topic, all)| all.iter().all(|&one| known.has(topic, one)));
        if known.hard.state == State::Ongoing && is_there {
            return answer(token, Reply::AddPartitions(asked.all(ErrorCode::None)));
        }
        let next = added(terms, &known.hard, &asked, client_version);
        if TRANSACTION_PARTITIONS_BYTES_MAX < size_bytes(&next.partitions) {
            // What Kafka says of a record that passes the size of a batch.
            let error = ErrorCode::UnknownServerError;
            return refused(token, &Command::AddPartitions(asked), error);
        }
        let mut decision = Decision::default();
        self.write(&mut decision, &asked.transactional_id, next);
        let reply = Reply::AddPartitions(asked.all(ErrorCode::None));
        decision.replies.push((token, reply));
        decision
    }

    /// The transactional id, when the producer has it and no transaction of it is ending.
    fn owned(&self, asked: &AddPartitions) -> Result<&Transaction, ErrorCode> {
        if asked.transactional_id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let known = self.transactions.get(&asked.transactional_id);
        let known = known.ok_or(ErrorCode::InvalidProducerIdMapping)?;
        if known.hard.producer_id != asked.producer_id {
            Err(ErrorCode::InvalidProducerIdMapping)
        } else if known.hard.epoch != asked.producer_epoch || asked.producer_epoch.0 == i16::MAX {
            // Nothing begins at the last epoch, which only fences: there is none above it to end with.
            Err(ErrorCode::ProducerFenced)
        } else if known.hard.state.is_prepared() {
            Err(ErrorCode::ConcurrentTransactions)
        } else {
            Ok(known)
        }
    }
}

/// The state with partitions added.
fn added(terms: &Terms<'_>, hard: &Hard, asked: &AddPartitions, client_version: i16) -> Hard {
    assert!(!hard.state.is_prepared(), "nothing is added while it ends");
    let mut next = hard.next(terms.now.time);
    if hard.state != State::Ongoing {
        next.state = State::Ongoing;
        next.started = terms.now.time;
        assert!(
            next.partitions.is_empty(),
            "what has ended has no partitions"
        );
        assert!(next.next_producer_id == ProducerId::NONE);
    }
    next.client_version = client_version;
    for (topic, partitions) in &asked.topics {
        if !partitions.is_empty() {
            let known = next.partitions.entry(topic.clone()).or_default();
            known.extend(partitions);
        }
    }
    next
}

fn size_bytes(partitions: &Partitions) -> usize {
    let topic = |(topic, partitions): (&pelton_model::Str, &std::collections::BTreeSet<i32>)| {
        topic.len() + 4 * partitions.len()
    };
    partitions.iter().map(topic).sum()
}

/// A reply without records.
pub(super) fn answer(token: Token, reply: Reply) -> Decision {
    Decision {
        replies: vec![(token, reply)],
        ..Decision::default()
    }
}

/// A refusal.
pub(super) fn refused(token: Token, command: &Command, error: ErrorCode) -> Decision {
    answer(token, command.refused(error))
}
