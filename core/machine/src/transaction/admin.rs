//! Transactional ids as tools see them.

use std::collections::BTreeSet;

use pelton_model::{ErrorCode, Str, Timestamp};

use super::shard::TransactionShard;
use super::state::Partitions;
use super::{DescribedTransaction, ListTransactions, ListedTransaction, TransactionGauges};

impl TransactionShard {
    pub(super) fn list(&self, now: Timestamp, list: &ListTransactions) -> Vec<ListedTransaction> {
        let mut listed = Vec::new();
        for (id, known) in &self.transactions {
            let hard = &known.hard;
            let state = hard.state.name();
            let has_state = list.states.is_empty() || list.states.iter().any(|one| one == state);
            let age_ms = now.0.saturating_sub(hard.started.0);
            let is_old = list.longer_than_ms < 0 || list.longer_than_ms < age_ms;
            if has_state && is_old {
                listed.push(ListedTransaction {
                    transactional_id: id.clone(),
                    producer_id: hard.producer_id,
                    state,
                });
            }
        }
        listed
    }

    pub(super) fn describe(&self, id: &Str) -> Result<DescribedTransaction, ErrorCode> {
        if id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let known = self.transactions.get(id);
        let known = known.ok_or(ErrorCode::TransactionalIdNotFound)?;
        let hard = &known.hard;
        let partitions = if hard.state.is_prepared() {
            &known.unmarked
        } else {
            &hard.partitions
        };
        Ok(DescribedTransaction {
            state: hard.state.name(),
            timeout_ms: hard.timeout_ms,
            started_ms: hard.started.0,
            producer_id: hard.producer_id,
            producer_epoch: hard.epoch,
            partitions: named(partitions),
        })
    }

    /// How many transactions there are. O(ids).
    #[must_use]
    pub fn gauges(&self) -> TransactionGauges {
        let mut gauges = TransactionGauges::default();
        for known in self.transactions.values() {
            gauges.ids += 1;
            let state = known.hard.state;
            gauges.open += u64::from(state == super::State::Ongoing);
            gauges.ending += u64::from(state.is_prepared());
            if state == super::State::Ongoing || state.is_prepared() {
                let started = known.hard.started;
                gauges.oldest = Some(gauges.oldest.map_or(started, |oldest| oldest.min(started)));
            }
        }
        gauges
    }
}

/// Partitions as lists.
pub(super) fn named(partitions: &Partitions) -> Vec<(Str, Vec<i32>)> {
    let topic = |(topic, partitions): (&Str, &BTreeSet<i32>)| {
        (topic.clone(), partitions.iter().copied().collect())
    };
    partitions.iter().map(topic).collect()
}
