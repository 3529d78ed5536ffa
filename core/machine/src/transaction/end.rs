//! The end of a transaction: EndTxn, ends that nobody asked for, and the markers.
//!
//! 1. What is decided is written as `Prepare*` with the epoch that the markers carry; then it cannot be changed.
//! 2. With transaction version 2 every end takes a new epoch, so that a late record of the transaction cannot pass for one of the next.
//!    Whoever repeats a request names the epoch before, and is told the new one again.
//! 3. An end is answered when it is complete, or after a while: an answer that leaves sooner has its producer come back too early.

use pelton_model::limits::TRANSACTION_END_WAIT_MS;
use pelton_model::{ErrorCode, ProducerEpoch, ProducerId, Str};

use super::admin::named;
use super::init::draw;
use super::partitions::{answer, refused};
use super::shard::TransactionShard;
use super::state::{BUMPING_VERSION, Hard, Partitions, State, Transaction, Waiting, is_exhausted};
use super::{Command, Decision, EndCause, EndTxn, Ended, Marked, Markers, Reply, Terms, Token};

/// What becomes of an EndTxn.
enum Verdict {
    /// It is done already: what the producer goes on with.
    Done(ProducerId, ProducerEpoch),
    /// It is written.
    Prepare {
        /// Whether there was a transaction at all.
        is_open: bool,
    },
}

impl TransactionShard {
    pub(super) fn end_txn(
        &mut self,
        terms: &mut Terms<'_>,
        token: Token,
        asked: EndTxn,
    ) -> Decision {
        let id = asked.transactional_id.clone();
        match self.plan_end(&asked) {
            Ok(Verdict::Done(producer_id, epoch)) => {
                answer(token, Reply::EndTxn(Ok((producer_id, epoch))))
            }
            Ok(Verdict::Prepare { is_open }) => {
                let cause = EndCause::Producer;
                let ended = Ended {
                    commit: asked.commit,
                    cause,
                };
                match self.prepare(terms, &id, ended, asked.client_version, is_open) {
                    Ok(decision) => self.answer_end(terms, token, &id, decision),
                    Err(error) => refused(token, &Command::EndTxn(asked), error),
                }
            }
            Err(error) => refused(token, &Command::EndTxn(asked), error),
        }
    }

    fn plan_end(&self, asked: &EndTxn) -> Result<Verdict, ErrorCode> {
        if asked.transactional_id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let known = self.transactions.get(&asked.transactional_id);
        let hard = &known.ok_or(ErrorCode::InvalidProducerIdMapping)?.hard;
        if asked.client_version < BUMPING_VERSION {
            plan_classic(hard, asked)
        } else {
            plan_bumping(hard, asked)
        }
    }

    /// Lets the answer wait for the markers, where there are any.
    fn answer_end(
        &mut self,
        terms: &Terms<'_>,
        token: Token,
        id: &Str,
        mut decision: Decision,
    ) -> Decision {
        let known = self.transaction_mut(id);
        if known.hard.state.is_prepared() {
            let until = terms.now.clock.plus_ms(TRANSACTION_END_WAIT_MS);
            known.waiting = Some(Waiting { token, until });
            self.answers_due.insert((until, id.clone()));
        } else {
            let owner = owner_after(&known.hard);
            decision.replies.push((token, Reply::EndTxn(Ok(owner))));
        }
        decision
    }

    /// Aborts an open transaction that its producer does not end, with an epoch that fences it.
    pub(super) fn fence(
        &mut self,
        terms: &mut Terms<'_>,
        id: &Str,
        cause: EndCause,
    ) -> Result<Decision, ErrorCode> {
        let ended = Ended {
            commit: false,
            cause,
        };
        let version = terms.version;
        if version < BUMPING_VERSION {
            let known = self.transaction_mut(id);
            known.last_epoch = ProducerEpoch::NONE;
        }
        self.prepare(terms, id, ended, version, true)
    }

    /// Writes how a transaction ends, and asks for the markers.
    fn prepare(
        &mut self,
        terms: &mut Terms<'_>,
        id: &Str,
        ended: Ended,
        client_version: i16,
        is_open: bool,
    ) -> Result<Decision, ErrorCode> {
        let hard = self.transaction_mut(id).hard.clone();
        assert!(is_open == (hard.state == State::Ongoing));
        let epoch = hard.epoch;
        let mut next = hard.next(terms.now.time);
        let is_bumped = BUMPING_VERSION <= client_version;
        if is_bumped || ended.cause != EndCause::Producer {
            next.epoch = above(epoch, ended.commit)?;
        }
        if is_bumped && is_exhausted(epoch) {
            next.next_producer_id = draw(terms)?;
        }
        if !is_open {
            next.started = terms.now.time;
        }
        next.client_version = if is_bumped { client_version } else { 0 };
        next.state = if ended.commit {
            State::PrepareCommit
        } else {
            State::PrepareAbort
        };
        let mut decision = Decision::default();
        let partitions = next.partitions.clone();
        self.write(&mut decision, id, next);
        let known = self.transaction_mut(id);
        if is_bumped {
            known.last_epoch = epoch;
        }
        known.unmarked = partitions;
        decision.ended.push(ended);
        if known.unmarked.is_empty() {
            self.complete(terms, id, &mut decision);
        } else {
            decision.markers.push(markers(id, known));
        }
        Ok(decision)
    }

    /// Takes in that partitions have their marker, or that nothing more is to be done about them.
    #[must_use]
    pub fn marked(&mut self, terms: &Terms<'_>, marked: &Marked) -> Decision {
        let mut decision = Decision::default();
        let id = &marked.transactional_id;
        let Some(known) = self.transactions.get_mut(id) else {
            return decision;
        };
        let is_of_these = known.hard.state.is_prepared()
            && known.hard.producer_id == marked.producer_id
            && known.hard.epoch == marked.producer_epoch;
        if !is_of_these {
            return decision;
        }
        for (topic, partitions) in &marked.partitions {
            if let Some(left) = known.unmarked.get_mut(topic) {
                for partition in partitions {
                    left.remove(partition);
                }
                if left.is_empty() {
                    known.unmarked.remove(topic);
                }
            }
        }
        if known.unmarked.is_empty() {
            self.complete(terms, id, &mut decision);
        }
        decision
    }

    /// Writes that every partition has its marker.
    pub(super) fn complete(&mut self, terms: &Terms<'_>, id: &Str, decision: &mut Decision) {
        let known = self.transaction_mut(id);
        assert!(known.unmarked.is_empty(), "every partition has its marker");
        let hard = &known.hard;
        let mut next = hard.next(terms.now.time);
        next.state = match hard.state {
            State::PrepareCommit => State::CompleteCommit,
            State::PrepareAbort => State::CompleteAbort,
            State::Empty | State::Ongoing | State::CompleteCommit | State::CompleteAbort => {
                unreachable!("only a prepared transaction is completed")
            }
        };
        (next.producer_id, next.epoch) = owner_after(hard);
        if next.producer_id != hard.producer_id {
            next.previous_producer_id = hard.producer_id;
        }
        next.next_producer_id = ProducerId::NONE;
        next.partitions = Partitions::new();
        let owner = (next.producer_id, next.epoch);
        let waiting = known.waiting.take();
        self.write(decision, id, next);
        if let Some(Waiting { token, until }) = waiting {
            self.answers_due.remove(&(until, id.clone()));
            decision.replies.push((token, Reply::EndTxn(Ok(owner))));
        }
    }

    /// Answers an EndTxn whose markers take long: it is decided all the same.
    pub(super) fn answer_late(&mut self, id: &Str, decision: &mut Decision) {
        let known = self.transaction_mut(id);
        let owner = owner_after(&known.hard);
        if let Some(waiting) = known.waiting.take() {
            let reply = Reply::EndTxn(Ok(owner));
            decision.replies.push((waiting.token, reply));
        }
    }
}

/// What the producer goes on with once a prepared transaction has ended.
fn owner_after(hard: &Hard) -> (ProducerId, ProducerEpoch) {
    if hard.next_producer_id == ProducerId::NONE {
        (hard.producer_id, hard.epoch)
    } else {
        (hard.next_producer_id, ProducerEpoch(0))
    }
}

/// The next epoch. An abort goes through even where there is none, so that the id is not lost.
fn above(epoch: ProducerEpoch, commit: bool) -> Result<ProducerEpoch, ErrorCode> {
    match epoch.0.checked_add(1) {
        Some(next) => Ok(ProducerEpoch(next)),
        None if commit => Err(ErrorCode::UnknownServerError),
        None => Ok(epoch),
    }
}

/// The markers that a prepared transaction lacks.
pub(super) fn markers(id: &Str, known: &Transaction) -> Markers {
    assert!(known.hard.state.is_prepared());
    Markers {
        transactional_id: id.clone(),
        producer_id: known.hard.producer_id,
        producer_epoch: known.hard.epoch,
        commit: known.hard.state == State::PrepareCommit,
        is_bumped: BUMPING_VERSION <= known.hard.client_version,
        partitions: named(&known.unmarked),
    }
}

/// EndTxn of a client whose epoch stays.
fn plan_classic(hard: &Hard, asked: &EndTxn) -> Result<Verdict, ErrorCode> {
    if hard.producer_id != asked.producer_id {
        return Err(ErrorCode::InvalidProducerIdMapping);
    }
    if hard.epoch != asked.producer_epoch {
        return Err(ErrorCode::ProducerFenced);
    }
    match (hard.state, asked.commit) {
        (State::Ongoing, _) => Ok(Verdict::Prepare { is_open: true }),
        (State::CompleteCommit, true) | (State::CompleteAbort, false) => {
            Ok(Verdict::Done(hard.producer_id, hard.epoch))
        }
        (State::PrepareCommit, true) | (State::PrepareAbort, false) => {
            Err(ErrorCode::ConcurrentTransactions)
        }
        (State::CompleteCommit | State::PrepareCommit, false)
        | (State::CompleteAbort | State::PrepareAbort, true)
        | (State::Empty, _) => Err(ErrorCode::InvalidTxnState),
    }
}

/// EndTxn of a client whose epoch grows with each end.
fn plan_bumping(hard: &Hard, asked: &EndTxn) -> Result<Verdict, ErrorCode> {
    let epoch = asked.producer_epoch.0;
    // The request is a second one: the first has given the producer another id, or another epoch.
    let after_rotation = hard.previous_producer_id == asked.producer_id
        && epoch == i16::MAX - 1
        && hard.epoch.0 == 0;
    let after_bump = epoch.checked_add(1) == Some(hard.epoch.0);
    if hard.producer_id != asked.producer_id && !after_rotation {
        return Err(ErrorCode::InvalidProducerIdMapping);
    }
    let is_current = epoch == hard.epoch.0;
    let is_known = match hard.state {
        State::Ongoing | State::Empty => is_current,
        State::PrepareCommit | State::PrepareAbort => after_bump,
        State::CompleteCommit | State::CompleteAbort => is_current || after_bump || after_rotation,
    };
    if !is_known {
        return Err(ErrorCode::ProducerFenced);
    }
    let is_retry = after_bump || after_rotation;
    match (hard.state, asked.commit) {
        (State::Ongoing, _) => Ok(Verdict::Prepare { is_open: true }),
        (State::CompleteCommit, true) | (State::CompleteAbort, false) if is_retry => {
            Ok(Verdict::Done(hard.producer_id, hard.epoch))
        }
        // A producer may abort what it never began, to be sure of a new epoch.
        (State::CompleteCommit | State::CompleteAbort, false) if !is_retry => {
            Ok(Verdict::Prepare { is_open: false })
        }
        (State::Empty, false) => Ok(Verdict::Prepare { is_open: false }),
        (State::PrepareCommit, true) | (State::PrepareAbort, false) => {
            Err(ErrorCode::ConcurrentTransactions)
        }
        (
            State::CompleteCommit
            | State::CompleteAbort
            | State::PrepareCommit
            | State::PrepareAbort
            | State::Empty,
            _,
        ) => Err(ErrorCode::InvalidTxnState),
    }
}
