//! Which data of transactions is aborted, and when a transaction's marker may go.
//!
//! Invariants:
//! 1. A marker stays as long as a batch of its transaction does, and then until its delete horizon has passed.
//! 2. An aborted transaction whose marker stays is listed again, for the transaction index of the cleaned segment.
//! 3. Batches are shown in the order of the log, from the log's first segment on.
//!
//! Source: KIP-98; Kafka's `CleanedTransactionMetadata`.

use std::collections::VecDeque;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use pelton_model::batch::{BatchHeader, RecordIter};
use pelton_model::map::{Map, Set};
use pelton_model::{Offset, ProducerId};

/// Bytes that a transaction marker may take at most.
const MARKER_BYTES_MAX: u64 = 64 * 1024;

/// A transaction that was aborted: an entry of the transaction index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Whose.
    pub producer_id: ProducerId,
    /// The offset of its first record.
    pub first_offset: Offset,
    /// The offset of its marker.
    pub last_offset: Offset,
    /// The last stable offset when the marker was written.
    pub last_stable: Offset,
}

#[derive(Debug)]
struct Open {
    transaction: AbortedTransaction,
    has_data: bool,
}

/// Bytes of an entry of the transaction index.
const ENTRY_BYTES: usize = 34;

/// Encodes a transaction index.
///
/// | bytes | field |
/// |---:|---|
/// | 0–1 | version i16, 0 |
/// | 2–9 | producer id i64 |
/// | 10–17 | first offset i64 |
/// | 18–25 | last offset i64 |
/// | 26–33 | last stable offset i64 |
pub(super) fn encode(transactions: &[AbortedTransaction]) -> Bytes {
    let mut out = BytesMut::with_capacity(transactions.len() * ENTRY_BYTES);
    for transaction in transactions {
        out.put_i16(0);
        out.put_i64(transaction.producer_id.0);
        out.put_i64(transaction.first_offset.0);
        out.put_i64(transaction.last_offset.0);
        out.put_i64(transaction.last_stable.0);
    }
    out.freeze()
}

/// Decodes a transaction index; `None` when it makes no sense.
pub(super) fn decode(mut bytes: &[u8]) -> Option<Vec<AbortedTransaction>> {
    let mut transactions = Vec::new();
    while !bytes.is_empty() {
        if bytes.len() < ENTRY_BYTES || bytes.get_i16() != 0 {
            return None;
        }
        let transaction = AbortedTransaction {
            producer_id: ProducerId(bytes.get_i64()),
            first_offset: Offset(bytes.get_i64()),
            last_offset: Offset(bytes.get_i64()),
            last_stable: Offset(bytes.get_i64()),
        };
        if transaction.last_offset < transaction.first_offset {
            return None;
        }
        transactions.push(transaction);
    }
    Some(transactions)
}

/// What is known of transactions at one place of the log. See the module.
#[derive(Debug, Default)]
pub struct Transactions {
    /// In order of their first offset.
    ahead: VecDeque<AbortedTransaction>,
    aborted: Map<ProducerId, Open>,
    committed: Set<ProducerId>,
    retained: Vec<AbortedTransaction>,
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
    pub fn new(mut aborted: Vec<AbortedTransaction>) -> Self {
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
    pub fn take_retained(&mut self) -> Vec<AbortedTransaction> {
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
    let key = first.and_then(|record| record.key);
    // Version and type, i16 each.
    match key.filter(|key| key.len() >= 4) {
        Some(mut key) => {
            key.advance(2);
            match key.get_i16() {
                0 => Marker::Abort,
                1 => Marker::Commit,
                _ => Marker::Other,
            }
        }
        None => Marker::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: an index is read as it was written, and nonsense is told from it. Method: round trip, cuts, a wrong version.
    #[test]
    fn index_bytes() {
        let entry = |first: i64| AbortedTransaction {
            producer_id: ProducerId(7),
            first_offset: Offset(first),
            last_offset: Offset(first + 5),
            last_stable: Offset(first),
        };
        let entries = vec![entry(1), entry(100)];
        let bytes = encode(&entries);
        assert_eq!(bytes.len(), 2 * ENTRY_BYTES);
        assert_eq!(decode(&bytes), Some(entries));
        assert_eq!(decode(&[]), Some(Vec::new()));
        for cut in [1, 33, 35, 67] {
            assert_eq!(decode(&bytes[..cut]), None);
        }
        let mut wrong = bytes.to_vec();
        wrong[1] = 1;
        assert_eq!(decode(&wrong), None);
    }
}
