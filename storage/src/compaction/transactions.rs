//! Which data of transactions is aborted, and when a transaction's marker may go.
//!
//! Invariants:
//! 1. A marker stays as long as a batch of its transaction does, and then until its delete horizon has passed.
//! 2. An aborted transaction whose marker stays is listed again, for the transaction index of the cleaned segment.
//! 3. Batches are shown in the order of the log, from the log's first segment on.
//!
//! Source: KIP-98; Kafka's `CleanedTransactionMetadata`.

use std::collections::VecDeque;

use bytes::Bytes;
use pelton_model::batch::{BatchHeader, RecordIter};
use pelton_model::map::{Map, Set};
use pelton_model::{Offset, ProducerId};

use crate::log::{MARKER_BYTES_MAX, marker_kind};
use crate::txn_index::AbortedTxn;

#[derive(Debug)]
struct Open {
    transaction: AbortedTxn,
    has_data: bool,
}

/// What is known of transactions at one place of the log. See the module.
#[derive(Debug, Default)]
pub struct Transactions {
    /// In order of their first offset.
    ahead: VecDeque<AbortedTxn>,
    aborted: Map<ProducerId, Open>,
    committed: Set<ProducerId>,
    retained: Vec<AbortedTxn>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Marker {
    Abort,
    Commit,
    /// An empty batch that was cleaned before.
    Gone,
    Other,
}

impl Transactions {
    /// At the start of the log, with every aborted transaction that it holds.
    #[must_use]
    pub fn new(mut aborted: Vec<AbortedTxn>) -> Self {
        aborted.sort_by_key(|transaction| transaction.first_offset);
        Self {
            ahead: aborted.into(),
            ..Self::default()
        }
    }

    /// Passes a data batch; says whether it belongs to an aborted transaction, so that its records may go.
    pub fn on_data(&mut self, header: &BatchHeader) -> bool {
        self.open_up_to(header.last_offset());
        if !header.is_transactional() {
            return false;
        }
        match self.aborted.get_mut(&header.producer_id) {
            Some(open) => {
                open.has_data = true;
                true
            }
            None => {
                self.committed.insert(header.producer_id);
                false
            }
        }
    }

    /// Passes a control batch; says whether nothing is left of its transaction, so that it may go in time.
    pub fn on_control(&mut self, header: &BatchHeader, batch: &Bytes) -> bool {
        self.open_up_to(header.last_offset());
        match marker(header, batch) {
            Marker::Abort => {
                let open = self.aborted.remove(&header.producer_id);
                match open.filter(|open| open.has_data) {
                    Some(open) => {
                        self.retained.push(open.transaction);
                        false
                    }
                    None => true,
                }
            }
            Marker::Commit => !self.committed.remove(&header.producer_id),
            Marker::Gone => true,
            Marker::Other => false,
        }
    }

    /// The aborted transactions whose markers were passed and stay, since the last call.
    pub fn take_retained(&mut self) -> Vec<AbortedTxn> {
        std::mem::take(&mut self.retained)
    }

    fn open_up_to(&mut self, offset: Offset) {
        while let Some(next) = self.ahead.pop_front() {
            if offset < next.first_offset {
                self.ahead.push_front(next);
                break;
            }
            let open = Open {
                transaction: next,
                has_data: false,
            };
            self.aborted.entry(next.producer_id).or_insert(open);
        }
    }
}

fn marker(header: &BatchHeader, batch: &Bytes) -> Marker {
    if header.record_count == 0 {
        return Marker::Gone;
    }
    let records = RecordIter::new(batch, MARKER_BYTES_MAX).ok();
    let first = records.and_then(|mut records| records.next()?.ok());
    match first.and_then(|record| marker_kind(record.key)) {
        Some(0) => Marker::Abort,
        Some(1) => Marker::Commit,
        Some(_) | None => Marker::Other,
    }
}
