//! Transactional batches: none is appended unless the coordinator knows that its partition belongs to an open transaction (KIP-890).
//!
//! Invariants:
//! 1. Only the first batch of a transaction in a partition asks: one question to each owner, then one to the coordinator for all.
//! 2. A partition that the coordinator does not vouch for is answered with its error, in the words that the client's version knows; the
//!    others go on.
//! 3. A request outside of transactions passes by after one comparison.

use pelton_machine::partition::TxnGuard;
use pelton_model::producer_state::ProducerStamp;
use pelton_model::{ErrorCode, Str};
use pelton_protocol::message::produce::TopicProduceResponse;
use pelton_transport::net::Net;

use super::{AdmittedBatch, bare, refusal};
use crate::connection::Client;
use crate::coordinator::transaction::{TxnAsk, TxnPartitions};
use crate::env::Env;
use crate::shard::message::VerifyItem;

/// The first version whose clients know TRANSACTION_ABORTABLE.
const ABORTABLE_VERSION: i16 = 11;
/// The first version that adds partitions to its transaction by itself.
const ADDING_VERSION: i16 = 12;

/// Gives each transactional batch its guard; takes out of `admitted` those that are refused, and tells so in `responses`. Says whether any
/// was.
pub(super) async fn verify<E: Env>(
    client: &Client<E>,
    transactional_id: Option<Str>,
    version: i16,
    admitted: &mut Vec<AdmittedBatch>,
    responses: &mut [TopicProduceResponse],
) -> bool {
    let Some(transactional_id) = transactional_id else {
        return false;
    };
    let stamps: Vec<Option<ProducerStamp>> = admitted.iter().map(transactional).collect();
    let Some(first) = stamps.iter().flatten().next().copied() else {
        return false;
    };
    let is_mixed = |other: &ProducerStamp| (other.id, other.epoch) != (first.id, first.epoch);
    let verdicts = if stamps.iter().flatten().any(is_mixed) {
        vec![Err(ErrorCode::InvalidProducerIdMapping); admitted.len()]
    } else {
        let asked = Asked {
            client,
            transactional_id,
            version,
        };
        asked.verdicts(admitted, &stamps).await
    };
    let before = admitted.len();
    let mut verdicts = verdicts.into_iter();
    admitted.retain_mut(|batch| match verdicts.next() {
        Some(Err(error)) => {
            let (topic, partition) = batch.place;
            let response = &mut responses[topic].partition_responses[partition];
            *response = refusal(response.index, &bare(error));
            false
        }
        Some(Ok(guard)) => {
            batch.guard = guard;
            true
        }
        None => true,
    });
    admitted.len() < before
}

/// Who wrote the batch, if it is part of a transaction.
fn transactional(batch: &AdmittedBatch) -> Option<ProducerStamp> {
    let valid = &batch.valid;
    let producer = valid.producer.filter(|_| valid.is_transactional);
    producer.map(ProducerStamp::from)
}

type Verdict = Result<TxnGuard, ErrorCode>;

/// One request's question.
struct Asked<'a, E: Env> {
    client: &'a Client<E>,
    transactional_id: Str,
    version: i16,
}

impl<E: Env> Asked<'_, E> {
    fn adds(&self) -> bool {
        ADDING_VERSION <= self.version
    }

    /// One for each admitted batch.
    async fn verdicts(
        &self,
        admitted: &[AdmittedBatch],
        stamps: &[Option<ProducerStamp>],
    ) -> Vec<Verdict> {
        let shard = &self.client.shard;
        let terms = shard.verification_terms();
        if !self.adds() && !terms.is_enabled {
            return vec![Ok(TxnGuard::Waived); admitted.len()];
        }
        let mut verdicts: Vec<Verdict> = vec![Ok(TxnGuard::None); admitted.len()];
        let mut indexes = Vec::new();
        let mut items = Vec::new();
        for (index, (batch, stamp)) in admitted.iter().zip(stamps).enumerate() {
            if let Some(stamp) = *stamp {
                indexes.push(index);
                items.push(VerifyItem {
                    partition: batch.partition,
                    stamp,
                    is_bumped: self.adds(),
                });
            }
        }
        let guards = shard.begin_verification(items).await;
        for (&index, guard) in indexes.iter().zip(guards) {
            verdicts[index] = guard;
        }
        indexes.retain(|&index| matches!(verdicts[index], Ok(TxnGuard::Given(_))));
        if let Some(stamp) = indexes.first().and_then(|&index| stamps[index]) {
            let asked = TxnPartitions {
                transactional_id: self.transactional_id.clone(),
                producer_id: stamp.id,
                producer_epoch: stamp.epoch,
                partitions: indexes.iter().map(|&i| admitted[i].partition).collect(),
                mode: match self.adds() {
                    true => TxnAsk::Add,
                    false => TxnAsk::VerifyOnly,
                },
            };
            for (index, code) in indexes.into_iter().zip(self.ask(asked).await) {
                if code != ErrorCode::None {
                    verdicts[index] = Err(told(code, self.version));
                }
            }
        }
        verdicts
    }

    /// Asks the coordinator; again for a little while when the transaction before is still ending and the client counts on that.
    async fn ask(&self, asked: TxnPartitions) -> Vec<ErrorCode> {
        let shard = &self.client.shard;
        let terms = shard.verification_terms();
        let deadline = shard.net.now().plus_ms(terms.retry_ms_max);
        loop {
            let codes = shard.add_partitions_to_txn(asked.clone()).await;
            let is_ending = codes.contains(&ErrorCode::ConcurrentTransactions);
            let now = shard.net.now();
            let is_over = deadline <= now || shard.is_stopping.get();
            if !self.adds() || !is_ending || is_over {
                return codes;
            }
            shard.net.sleep_until(now.plus_ms(terms.retry_ms)).await;
        }
    }
}

/// A coordinator's error in the words of a Produce answer.
fn told(code: ErrorCode, version: i16) -> ErrorCode {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a coordinator's other codes are told as they are, as in Kafka"
    )]
    match code {
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        ErrorCode::TransactionAbortable if version < ABORTABLE_VERSION => {
            ErrorCode::InvalidTxnState
        }
        // Older clients know no retriable error of a coordinator here.
        ErrorCode::ConcurrentTransactions if version < ADDING_VERSION => {
            ErrorCode::NotEnoughReplicas
        }
        ErrorCode::NetworkException
        | ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::CoordinatorNotAvailable
        | ErrorCode::NotCoordinator => ErrorCode::NotEnoughReplicas,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: a client hears only codes that its version acts on. Method: a table.
    #[test]
    fn words_of_a_version() {
        fn check(code: ErrorCode, version: i16, expected: ErrorCode) {
            assert_eq!(told(code, version), expected, "{code:?} {version}");
        }
        check(
            ErrorCode::ProducerFenced,
            10,
            ErrorCode::InvalidProducerEpoch,
        );
        let abortable = ErrorCode::TransactionAbortable;
        check(abortable, 10, ErrorCode::InvalidTxnState);
        check(abortable, 11, abortable);
        check(abortable, 12, abortable);
        let concurrent = ErrorCode::ConcurrentTransactions;
        check(concurrent, 11, ErrorCode::NotEnoughReplicas);
        check(concurrent, 12, concurrent);
        for unready in [
            ErrorCode::NotCoordinator,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::CoordinatorNotAvailable,
        ] {
            check(unready, 9, ErrorCode::NotEnoughReplicas);
            check(unready, 12, ErrorCode::NotEnoughReplicas);
        }
        let mapping = ErrorCode::InvalidProducerIdMapping;
        check(mapping, 12, mapping);
        check(ErrorCode::InvalidTxnState, 12, ErrorCode::InvalidTxnState);
    }
}
