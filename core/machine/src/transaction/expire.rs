//! What happens by itself: transactions that last too long, and transactional ids that nobody uses.
//!
//! 1. Both go by the wall clock, which is what records carry, at the intervals of Kafka's settings; one go does a bounded amount.
//! 2. A transaction past its timeout is aborted with an epoch that fences its producer.
//! 3. An id is forgotten when it has not changed for `transactional.id.expiration.ms` and has no transaction under way.

use std::ops::Bound;

use pelton_model::limits::{
    TRANSACTION_ABORTS_PER_TICK_MAX, TRANSACTION_EXPIRATIONS_PER_TICK_MAX, TRANSACTION_PAUSE_MS,
};
use pelton_model::record_type::transaction::{TransactionLogKey, TransactionRecord};
use pelton_model::{Monotonic, Str};

use super::shard::TransactionShard;
use super::state::State;
use super::{Decision, EndCause, Now, Terms};

impl TransactionShard {
    /// Begins the rounds.
    pub(super) fn arm(&mut self, now: Now) {
        self.abort_at = Some(now.clock.plus_ms(self.config.abort_interval_ms));
        self.expire_at = Some(now.clock.plus_ms(self.config.remove_expired_interval_ms));
    }

    /// When [`Self::tick`] has something to do next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let answer = self.answers_due.first().map(|(at, _)| *at);
        // An idle partition wakes nobody.
        let abort = self.abort_at.filter(|_| !self.open.is_empty());
        let expire = self.expire_at.filter(|_| !self.transactions.is_empty());
        [answer, abort, expire].into_iter().flatten().min()
    }

    /// Does what is due by now, or a bounded part of it: then the next deadline is soon.
    #[must_use]
    pub fn tick(&mut self, terms: &mut Terms<'_>) -> Decision {
        let mut decision = Decision::default();
        let clock = terms.now.clock;
        while self.answers_due.first().is_some_and(|(at, _)| *at <= clock)
            && let Some((_, id)) = self.answers_due.pop_first()
        {
            self.answer_late(&id, &mut decision);
        }
        if self.abort_at.is_some_and(|at| at <= clock) {
            self.abort_timed_out(terms, &mut decision);
        }
        if self.expire_at.is_some_and(|at| at <= clock) {
            self.expire(terms, &mut decision);
        }
        decision
    }

    fn abort_timed_out(&mut self, terms: &mut Terms<'_>, decision: &mut Decision) {
        let mut pause_ms = self.config.abort_interval_ms.max(1);
        let due = self.open.iter();
        let due = due.take_while(|(due, _)| *due < terms.now.time);
        let due: Vec<Str> = due
            .take(TRANSACTION_ABORTS_PER_TICK_MAX)
            .map(|(_, id)| id.clone())
            .collect();
        let mut aborted_count = 0;
        for id in &due {
            // Without a producer id to go on with, one is tried again in the next round; the others need none.
            if let Ok(aborted) = self.fence(terms, id, EndCause::TimedOut) {
                decision.extend(aborted);
                aborted_count += 1;
            }
        }
        if aborted_count == TRANSACTION_ABORTS_PER_TICK_MAX {
            pause_ms = TRANSACTION_PAUSE_MS;
        }
        self.abort_at = Some(terms.now.clock.plus_ms(pause_ms));
    }

    fn expire(&mut self, terms: &Terms<'_>, decision: &mut Decision) {
        let before = terms.now.time.0 - i64::from(self.config.id_expiration_ms);
        let from = self.expired_to.take();
        let from = from.map_or(Bound::Unbounded, Bound::Excluded);
        let mut expired: Vec<Str> = Vec::new();
        let range = self.transactions.range((from, Bound::Unbounded));
        for (looked_at, (id, known)) in range.enumerate() {
            if looked_at == TRANSACTION_EXPIRATIONS_PER_TICK_MAX {
                break;
            }
            let is_idle = match known.hard.state {
                State::Empty | State::CompleteCommit | State::CompleteAbort => true,
                State::Ongoing | State::PrepareCommit | State::PrepareAbort => false,
            };
            if is_idle && known.hard.updated.0 <= before {
                expired.push(id.clone());
            }
            self.expired_to = Some(id.clone());
        }
        let is_last =
            self.transactions.last_key_value().map(|(id, _)| id) == self.expired_to.as_ref();
        let pause_ms = if is_last {
            self.expired_to = None;
            self.config.remove_expired_interval_ms.max(1)
        } else {
            TRANSACTION_PAUSE_MS
        };
        self.expire_at = Some(terms.now.clock.plus_ms(pause_ms));
        for transactional_id in expired {
            let key = TransactionLogKey { transactional_id };
            let record = TransactionRecord::TransactionLog(key, None);
            self.replay(&record);
            decision.records.push(record);
        }
    }
}
