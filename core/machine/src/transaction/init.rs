//! InitProducerId: who has a transactional id from now on.
//!
//! 1. Each producer that comes gets an epoch of its own, and with it the one before is fenced.
//! 2. A transaction that is open is aborted first, with an epoch that nobody is given; whoever asked comes again.
//! 3. A producer that names what it had (KIP-360) goes on only if nobody came in between. Whoever repeats a request that succeeded gets
//!    the same epoch once more.

use pelton_model::limits::TRANSACTIONAL_IDS_PER_PARTITION_MAX;
use pelton_model::{ErrorCode, ProducerEpoch, ProducerId, Timestamp};

use super::partitions::refused;
use super::shard::TransactionShard;
use super::state::{Hard, Partitions, State, Transaction, is_exhausted};
use super::{Command, Decision, EndCause, InitProducerId, Reply, Terms, Token};

/// How a producer comes to its transactional id.
enum Init {
    /// With this state, after which the epoch before is known or not.
    Next(Hard, ProducerEpoch),
    /// Once the transaction that is open has ended.
    Fence,
}

impl TransactionShard {
    pub(super) fn init_producer_id(
        &mut self,
        terms: &mut Terms<'_>,
        token: Token,
        asked: InitProducerId,
    ) -> Decision {
        let id = asked.transactional_id.clone();
        match self.plan_init(terms, &asked) {
            Ok(Init::Next(next, last_epoch)) => {
                let owner = (next.producer_id, next.epoch);
                let mut decision = Decision::default();
                self.write(&mut decision, &id, next);
                self.transaction_mut(&id).last_epoch = last_epoch;
                let reply = Reply::InitProducerId(Ok(owner));
                decision.replies.push((token, reply));
                decision
            }
            Ok(Init::Fence) => match self.fence(terms, &id, EndCause::Fenced) {
                Ok(mut decision) => {
                    let later = ErrorCode::ConcurrentTransactions;
                    let reply = Reply::InitProducerId(Err(later));
                    decision.replies.push((token, reply));
                    decision
                }
                Err(error) => refused(token, &Command::InitProducerId(asked), error),
            },
            Err(error) => refused(token, &Command::InitProducerId(asked), error),
        }
    }

    fn plan_init(&self, terms: &mut Terms<'_>, asked: &InitProducerId) -> Result<Init, ErrorCode> {
        if asked.transactional_id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        if !(1..=self.config.max_timeout_ms).contains(&asked.timeout_ms) {
            return Err(ErrorCode::InvalidTransactionTimeout);
        }
        match self.transactions.get(&asked.transactional_id) {
            Some(known) => plan_known(terms, asked, known),
            None if TRANSACTIONAL_IDS_PER_PARTITION_MAX <= self.transactions.len() => {
                Err(ErrorCode::PolicyViolation)
            }
            None => {
                let next = Hard {
                    producer_id: draw(terms)?,
                    previous_producer_id: ProducerId::NONE,
                    next_producer_id: ProducerId::NONE,
                    epoch: ProducerEpoch(0),
                    timeout_ms: asked.timeout_ms,
                    state: State::Empty,
                    partitions: Partitions::new(),
                    started: Timestamp::NONE,
                    updated: terms.now.time,
                    client_version: 0,
                };
                Ok(Init::Next(next, ProducerEpoch::NONE))
            }
        }
    }
}

fn plan_known(
    terms: &mut Terms<'_>,
    asked: &InitProducerId,
    known: &Transaction,
) -> Result<Init, ErrorCode> {
    let hard = &known.hard;
    if let Some((id, epoch)) = asked.expected {
        // The last epoch of the id before: the answer that told of the new id may have been lost.
        let is_retry = id == hard.previous_producer_id && is_exhausted(epoch);
        if id != hard.producer_id && !is_retry {
            return Err(ErrorCode::ProducerFenced);
        }
    }
    match hard.state {
        State::PrepareCommit | State::PrepareAbort => Err(ErrorCode::ConcurrentTransactions),
        State::Ongoing => Ok(Init::Fence),
        State::Empty | State::CompleteCommit | State::CompleteAbort => {
            let next = Hard {
                state: State::Empty,
                timeout_ms: asked.timeout_ms,
                partitions: Partitions::new(),
                started: Timestamp::NONE,
                ..hard.next(terms.now.time)
            };
            next_owner(terms, asked, known, next)
        }
    }
}

/// Gives an id that is free to a producer.
fn next_owner(
    terms: &mut Terms<'_>,
    asked: &InitProducerId,
    known: &Transaction,
    next: Hard,
) -> Result<Init, ErrorCode> {
    let epoch = known.hard.epoch;
    let expected = asked.expected.map(|(_, epoch)| epoch);
    if is_exhausted(epoch) && expected.is_none_or(|expected| expected == epoch) {
        let rotated = Hard {
            producer_id: draw(terms)?,
            previous_producer_id: next.producer_id,
            epoch: ProducerEpoch(0),
            ..next
        };
        return Ok(Init::Next(rotated, expected.unwrap_or(ProducerEpoch::NONE)));
    }
    match expected {
        None => Ok(Init::Next(bumped(next), ProducerEpoch::NONE)),
        Some(expected) if expected == epoch => Ok(Init::Next(bumped(next), epoch)),
        // It has come before, and nobody since: a new producer would have made the epoch before unknown.
        Some(expected) if expected == known.last_epoch => Ok(Init::Next(next, known.last_epoch)),
        Some(_) => Err(ErrorCode::ProducerFenced),
    }
}

fn bumped(hard: Hard) -> Hard {
    assert!(
        !is_exhausted(hard.epoch),
        "an exhausted epoch is not given on"
    );
    let epoch = ProducerEpoch(hard.epoch.0 + 1);
    Hard { epoch, ..hard }
}

/// A producer id that nobody has.
pub(super) fn draw(terms: &mut Terms<'_>) -> Result<ProducerId, ErrorCode> {
    // What Kafka says while it waits for the controller's next block.
    (terms.draw)().ok_or(ErrorCode::CoordinatorLoadInProgress)
}
