//! Which data of transactions is aborted, and when a transaction's marker may go.
//!
//! Invariants:
//! 1. A marker stays as long as a batch of its transaction does, and then until its delete horizon has passed.
//! 2. An aborted transaction whose marker stays is listed again, for the transaction index of the cleaned segment.
//! 3. Batches are shown in the order of the log; from the log's first segment on where markers are judged.
//!
//! Source: KIP-98; Kafka's `CleanedTransactionMetadata`.

use std::collections::VecDeque;

use bytes::Bytes;
use pelton_model::ProducerId;
use pelton_model::batch::{BatchHeader, RecordIter};
use pelton_model::map::{Map, Set};

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
        self.open_up_to(header);
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
        self.open_up_to(header);
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

    /// Opens the transactions that began up to this batch. One that ended before it was shown nothing of, where batches are not shown from
    /// the log's first segment on.
    fn open_up_to(&mut self, header: &BatchHeader) {
        while let Some(next) = self.ahead.pop_front() {
            if header.last_offset() < next.first_offset {
                self.ahead.push_front(next);
                break;
            }
            if next.last_offset < header.base_offset {
                continue;
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

#[cfg(test)]
mod tests {
    use super::*;
    use pelton_model::batch::{BatchBuilder, BuilderOptions};
    use pelton_model::{Offset, ProducerEpoch, Sequence, Timestamp};

    // Goal: a transaction that was aborted before the first batch shown says nothing of later ones. Method: one that ended at offset 5, one
    // that ends at 30; a batch at 10, one at 20, where the mapping of a partly clean log begins at 10.
    #[test]
    fn transactions_before_the_first_batch() {
        let aborted = |first, last| AbortedTxn {
            producer_id: ProducerId(7),
            first_offset: Offset(first),
            last_offset: Offset(last),
            last_stable_offset: Offset(first),
        };
        let header = |base| {
            let mut builder = BatchBuilder::new(BuilderOptions {
                base_offset: Offset(base),
                producer_id: ProducerId(7),
                producer_epoch: ProducerEpoch(0),
                base_sequence: Sequence(0),
                transactional: true,
                ..BuilderOptions::default()
            });
            builder.append(Timestamp(1), Some(b"k"), Some(b"v"), &[]);
            BatchHeader::parse(&builder.build()).expect("built here")
        };
        let mut transactions = Transactions::new(vec![aborted(0, 5), aborted(20, 30)]);
        assert!(!transactions.on_data(&header(10)));
        assert!(transactions.on_data(&header(20)));
        let mut whole = Transactions::new(vec![aborted(0, 5)]);
        assert!(whole.on_data(&header(0)));
    }
}
