//! [`TransactionShard`]: the state of one partition of `__transaction_state`, and what may be done with it.

use std::collections::{BTreeMap, BTreeSet};

use pelton_model::config::transaction::TransactionConfig;
use pelton_model::record_type::transaction::{TransactionLogKey, TransactionRecord};
use pelton_model::{ErrorCode, Monotonic, Str, Timestamp};

use super::end::markers;
use super::partitions::answer;
use super::state::{Hard, Transaction};
use super::{Command, Ended, Markers, Reply, Terms, Token};

/// What a coordinator wants done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// One batch, all or nothing; empty when nothing is to be written.
    pub records: Vec<TransactionRecord>,
    /// Replies that may leave once `records` and those of all earlier decisions are durable.
    pub replies: Vec<(Token, Reply)>,
    /// Markers that may be written then.
    pub markers: Vec<Markers>,
    /// Transactions whose end was decided, to be counted.
    pub ended: Vec<Ended>,
}

impl Decision {
    /// Adds a decision made later.
    pub fn extend(&mut self, later: Self) {
        self.records.extend(later.records);
        self.replies.extend(later.replies);
        self.markers.extend(later.markers);
        self.ended.extend(later.ended);
    }
}

/// The transactional ids of one partition of `__transaction_state`; see the module for how it is driven.
#[derive(Debug)]
pub struct TransactionShard {
    pub(super) config: TransactionConfig,
    pub(super) transactions: BTreeMap<Str, Transaction>,
    /// Open transactions by when they have lasted too long.
    pub(super) open: BTreeSet<(Timestamp, Str)>,
    /// Ends that wait for their markers, by when they are answered in any case.
    pub(super) answers_due: BTreeSet<(Monotonic, Str)>,
    pub(super) abort_at: Option<Monotonic>,
    pub(super) expire_at: Option<Monotonic>,
    /// The last id that was looked at in the round of expiration under way.
    pub(super) expired_to: Option<Str>,
}

impl TransactionShard {
    /// A partition of which no record is known yet.
    #[must_use]
    pub fn new(config: TransactionConfig) -> Self {
        Self {
            config,
            transactions: BTreeMap::new(),
            open: BTreeSet::new(),
            answers_due: BTreeSet::new(),
            abort_at: None,
            expire_at: None,
            expired_to: None,
        }
    }

    /// Takes new settings; what is under way keeps the deadlines it has.
    pub fn configure(&mut self, config: TransactionConfig) {
        self.config = config;
    }

    /// Applies a record of the log, in its order. A state that nobody writes is left alone.
    pub fn replay(&mut self, record: &TransactionRecord) {
        let TransactionRecord::TransactionLog(key, value) = record;
        let id = &key.transactional_id;
        let next = match value {
            Some(value) => match Hard::of(value) {
                Some(next) => Some(next),
                None => return,
            },
            None => None,
        };
        let known = self.transactions.get(id);
        if let Some(due) = known.and_then(|known| known.hard.due()) {
            self.open.remove(&(due, id.clone()));
        }
        let Some(next) = next else {
            if let Some(waiting) = self.transactions.remove(id).and_then(|known| known.waiting) {
                // Only what has ended is forgotten, and an end answers whoever waits for it.
                unreachable!("{waiting:?} waits for an id that is forgotten");
            }
            return;
        };
        if let Some(due) = next.due() {
            self.open.insert((due, id.clone()));
        }
        match self.transactions.get_mut(id) {
            Some(known) => known.hard = next,
            None => {
                self.transactions.insert(id.clone(), Transaction::new(next));
            }
        }
    }

    /// Ends loading: whatever was decided and not completed gets its markers (again).
    #[must_use]
    pub fn loaded(&mut self, terms: &Terms<'_>) -> Decision {
        self.arm(terms.now);
        let mut decision = Decision::default();
        let mut prepared = Vec::new();
        for (id, known) in &mut self.transactions {
            if known.hard.state.is_prepared() {
                known.unmarked = known.hard.partitions.clone();
                if known.unmarked.is_empty() {
                    prepared.push(id.clone());
                } else {
                    decision.markers.push(markers(id, known));
                }
            }
        }
        for id in prepared {
            self.complete(terms, &id, &mut decision);
        }
        decision
    }

    /// Decides a request.
    #[must_use]
    pub fn decide(&mut self, terms: &mut Terms<'_>, token: Token, command: Command) -> Decision {
        match command {
            Command::InitProducerId(asked) => self.init_producer_id(terms, token, asked),
            Command::AddPartitions(asked) => self.add_partitions(terms, token, asked),
            Command::EndTxn(asked) => self.end_txn(terms, token, asked),
            Command::List(asked) => {
                let listed = self.list(terms.now.time, &asked);
                answer(token, Reply::List(Ok(listed)))
            }
            Command::Describe(ids) => {
                let described = ids.into_iter().map(|id| {
                    let described = self.describe(&id);
                    (id, described)
                });
                answer(token, Reply::Describe(described.collect()))
            }
        }
    }

    /// Gives the partition up: the replies for all that wait.
    #[must_use]
    pub fn resign(self) -> Vec<(Token, Reply)> {
        let waiting = self.transactions.into_values();
        let waiting = waiting.filter_map(|known| known.waiting);
        let reply = || Reply::EndTxn(Err(ErrorCode::NotCoordinator));
        waiting.map(|waiting| (waiting.token, reply())).collect()
    }

    /// The records that lead to the hard state there is: what compaction would leave of the log.
    #[must_use]
    pub fn to_records(&self) -> Vec<TransactionRecord> {
        let record = |(id, known): (&Str, &Transaction)| record(id, &known.hard);
        self.transactions.iter().map(record).collect()
    }

    /// Writes a state and makes it the present one, by the same way as after a restart.
    pub(super) fn write(&mut self, decision: &mut Decision, id: &Str, next: Hard) {
        let record = record(id, &next);
        self.replay(&record);
        debug_assert!(
            self.transactions[id].hard == next,
            "a record says all there is"
        );
        decision.records.push(record);
    }

    /// A transactional id that is known.
    pub(super) fn transaction_mut(&mut self, id: &Str) -> &mut Transaction {
        self.transactions
            .get_mut(id)
            .expect("whoever decides has looked it up")
    }
}

fn record(id: &Str, hard: &Hard) -> TransactionRecord {
    let key = TransactionLogKey {
        transactional_id: id.clone(),
    };
    TransactionRecord::TransactionLog(key, Some(hard.to_value()))
}
