//! One transactional id: where it stands, as records say it, and what only a running coordinator knows of it.

use std::collections::{BTreeMap, BTreeSet};

use pelton_model::coordinator::Token;
use pelton_model::record_type::transaction::{PartitionsSchema, TransactionLogValue};
use pelton_model::{Monotonic, ProducerEpoch, ProducerId, Str, Timestamp};

/// Where a transactional id stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It has a producer, and no transaction was ever begun with its epoch.
    Empty,
    /// A transaction is open.
    Ongoing,
    /// It will be committed: partitions get their markers.
    PrepareCommit,
    /// It will be aborted: partitions get their markers.
    PrepareAbort,
    /// It was committed.
    CompleteCommit,
    /// It was aborted.
    CompleteAbort,
}

/// All states.
const STATES: [State; 6] = [
    State::Empty,
    State::Ongoing,
    State::PrepareCommit,
    State::PrepareAbort,
    State::CompleteCommit,
    State::CompleteAbort,
];
/// Names of Kafka's states that no id is ever seen in.
const UNSEEN: [&str; 2] = ["Dead", "PrepareEpochFence"];

impl State {
    /// Its number in records.
    #[must_use]
    pub fn code(self) -> i8 {
        match self {
            Self::Empty => 0,
            Self::Ongoing => 1,
            Self::PrepareCommit => 2,
            Self::PrepareAbort => 3,
            Self::CompleteCommit => 4,
            Self::CompleteAbort => 5,
        }
    }

    /// The state of a number in records. Kafka's 6 (dead) and 7 (being fenced) are never written.
    #[must_use]
    pub fn from_code(code: i8) -> Option<Self> {
        STATES.into_iter().find(|state| state.code() == code)
    }

    /// Its name, as Kafka spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
        }
    }

    /// Whether this is the name of a state of Kafka's.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        STATES.iter().any(|state| state.name() == name) || UNSEEN.contains(&name)
    }

    /// Whether markers are being written.
    pub(super) fn is_prepared(self) -> bool {
        matches!(self, Self::PrepareCommit | Self::PrepareAbort)
    }
}

/// Partitions by topic.
pub(super) type Partitions = BTreeMap<Str, BTreeSet<i32>>;

/// What records say of a transactional id.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hard {
    pub(super) producer_id: ProducerId,
    /// The producer id before this one, right after it changed.
    pub(super) previous_producer_id: ProducerId,
    /// The producer id after this transaction, where the epoch is exhausted.
    pub(super) next_producer_id: ProducerId,
    pub(super) epoch: ProducerEpoch,
    pub(super) timeout_ms: i32,
    pub(super) state: State,
    pub(super) partitions: Partitions,
    /// When the transaction began; kept when it has ended.
    pub(super) started: Timestamp,
    pub(super) updated: Timestamp,
    /// The transaction version that the client works by.
    pub(super) client_version: i16,
}

/// From this version on the epoch grows with the end of each transaction.
pub(super) const BUMPING_VERSION: i16 = 2;

/// Whether a producer may not have a later epoch than this.
pub(super) fn is_exhausted(epoch: ProducerEpoch) -> bool {
    i16::MAX - 1 <= epoch.0
}

impl Hard {
    /// What a record says; `None` where it names a state that nobody writes. Partitions and the next producer id count only where
    /// there is a transaction.
    pub(super) fn of(value: &TransactionLogValue) -> Option<Self> {
        let state = State::from_code(value.transaction_status)?;
        let is_under_way = state == State::Ongoing || state.is_prepared();
        let mut partitions = Partitions::new();
        let listed = value.transaction_partitions.iter().flatten();
        for topic in listed.filter(|_| is_under_way) {
            let known = partitions.entry(topic.topic.clone()).or_default();
            known.extend(topic.partition_ids.iter().copied());
        }
        let next_producer_id = if state.is_prepared() {
            ProducerId(value.next_producer_id)
        } else {
            ProducerId::NONE
        };
        Some(Self {
            producer_id: ProducerId(value.producer_id),
            previous_producer_id: ProducerId(value.previous_producer_id),
            next_producer_id,
            epoch: ProducerEpoch(value.producer_epoch),
            timeout_ms: value.transaction_timeout_ms,
            state,
            partitions,
            started: Timestamp(value.transaction_start_timestamp_ms),
            updated: Timestamp(value.transaction_last_update_timestamp_ms),
            client_version: value.client_transaction_version,
        })
    }

    /// The record that says it.
    pub(super) fn to_value(&self) -> TransactionLogValue {
        let topic = |(topic, partitions): (&Str, &BTreeSet<i32>)| PartitionsSchema {
            topic: topic.clone(),
            partition_ids: partitions.iter().copied().collect(),
        };
        let partitions = self.partitions.iter().map(topic).collect();
        TransactionLogValue {
            producer_id: self.producer_id.0,
            previous_producer_id: self.previous_producer_id.0,
            next_producer_id: self.next_producer_id.0,
            producer_epoch: self.epoch.0,
            transaction_timeout_ms: self.timeout_ms,
            transaction_status: self.state.code(),
            transaction_partitions: (self.state != State::Empty).then_some(partitions),
            transaction_last_update_timestamp_ms: self.updated.0,
            transaction_start_timestamp_ms: self.started.0,
            client_transaction_version: self.client_version,
            ..TransactionLogValue::default()
        }
    }

    /// A copy to change into the next state: the first thing that any change does.
    pub(super) fn next(&self, now: Timestamp) -> Self {
        Self {
            previous_producer_id: ProducerId::NONE,
            updated: now,
            ..self.clone()
        }
    }

    /// When an open transaction has lasted too long; `None` where it never does.
    pub(super) fn due(&self) -> Option<Timestamp> {
        let ends = self.state == State::Ongoing && self.timeout_ms != i32::MAX;
        ends.then(|| Timestamp(self.started.0.saturating_add(i64::from(self.timeout_ms))))
    }
}

/// Who waits for the end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) token: Token,
    /// When it is answered in any case.
    pub(super) until: Monotonic,
}

/// One transactional id.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    pub(super) hard: Hard,
    /// The producer's epoch before this one, where that is known: a retry may name it.
    pub(super) last_epoch: ProducerEpoch,
    /// Partitions of a prepared transaction that have no marker yet.
    pub(super) unmarked: Partitions,
    pub(super) waiting: Option<Waiting>,
}

impl Transaction {
    pub(super) fn new(hard: Hard) -> Self {
        Self {
            hard,
            last_epoch: ProducerEpoch::NONE,
            unmarked: Partitions::new(),
            waiting: None,
        }
    }

    /// Whether a partition is part of the transaction.
    pub(super) fn has(&self, topic: &Str, partition: i32) -> bool {
        let partitions = self.hard.partitions.get(topic);
        partitions.is_some_and(|partitions| partitions.contains(&partition))
    }
}

/// How many transactions are under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionGauges {
    /// Transactional ids that are known.
    pub ids: u64,
    /// Transactions that are open.
    pub open: u64,
    /// Transactions whose markers are being written.
    pub ending: u64,
    /// When the oldest of both began; `None` where there is none.
    pub oldest: Option<Timestamp>,
}

impl TransactionGauges {
    /// Adds those of another partition.
    pub fn add(&mut self, other: Self) {
        self.ids += other.ids;
        self.open += other.open;
        self.ending += other.ending;
        self.oldest = match (self.oldest, other.oldest) {
            (Some(one), Some(another)) => Some(one.min(another)),
            (one, another) => one.or(another),
        };
    }
}
