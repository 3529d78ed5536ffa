//! What a decision is made with and what it asks for beside records and replies.

use std::fmt;

use pelton_model::coordinator::Now;
use pelton_model::{ProducerEpoch, ProducerId, Str};

/// What a decision is made with.
pub struct Terms<'a> {
    /// The time.
    pub now: Now,
    /// The finalized transaction version: how transactions end that no client ends.
    pub version: i16,
    /// Gives a producer id that nobody has; `None` where none can be had at the moment.
    pub draw: &'a mut dyn FnMut() -> Option<ProducerId>,
}

impl fmt::Debug for Terms<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut terms = f.debug_struct("Terms");
        terms
            .field("now", &self.now)
            .field("version", &self.version);
        terms.finish_non_exhaustive()
    }
}

/// The markers that a transaction's partitions are to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Markers {
    /// The transactional id.
    pub transactional_id: Str,
    /// The producer whose transaction ends.
    pub producer_id: ProducerId,
    /// The epoch that the markers carry.
    pub producer_epoch: ProducerEpoch,
    /// Whether it is committed, not aborted.
    pub commit: bool,
    /// Whether the epoch has grown for the end (transaction version 2).
    pub is_bumped: bool,
    /// The partitions, by topic name.
    pub partitions: Vec<(Str, Vec<i32>)>,
}

/// A transaction whose end was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Whether it is committed, not aborted.
    pub commit: bool,
    /// Who ended it.
    pub cause: EndCause,
}

/// Who ends a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// Its producer.
    Producer,
    /// Another producer with the same transactional id.
    Fenced,
    /// The coordinator, since it lasted too long.
    TimedOut,
}
