//! The index of aborted transactions of a segment (`.txnindex`): which offsets readers of committed data skip.
//!
//! | bytes | field, big-endian |
//! |---:|---|
//! | 0–1 | version i16: 0 |
//! | 2–9 | producer id i64 |
//! | 10–17 | first offset of the transaction i64 |
//! | 18–25 | last offset (the abort marker's) i64 |
//! | 26–33 | last stable offset when the marker was written i64 |
//!
//! Invariants:
//! 1. Entries stand in the order of their markers. A segment without aborted transactions has no file.
//! 2. The file is as durable as its segment: recovery writes it anew for every segment that it scans, and for one whose
//!    file makes no sense.
//!
//! Not here: appending while transactions end, and looking up for a fetch (`segment::aborted`).
//!
//! Source: Kafka's `AbortedTxn` and `TransactionIndex`.

use std::fmt;

use bytes::{Buf, BufMut};
use pelton_model::{Offset, ProducerId};

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 34;
const VERSION: i16 = 0;
const _: () = assert!(ENTRY_BYTES == 2 + 4 * 8);

/// A transaction that was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTxn {
    /// Whose it was.
    pub producer_id: ProducerId,
    /// Its first record.
    pub first_offset: Offset,
    /// Its abort marker.
    pub last_offset: Offset,
    /// Below it every transaction had ended when the marker was written.
    pub last_stable_offset: Offset,
}

/// Why a file is no index of aborted transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxnIndexError {
    /// The size is no multiple of an entry's.
    Size(usize),
    /// An entry has a version that is not known.
    Version(i16),
    /// A transaction does not end behind its begin, ends outside of its segment, or before the entry in front of it.
    Offsets {
        /// The entry's place.
        index: usize,
    },
}

impl fmt::Display for TxnIndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(bytes) => write!(f, "{bytes} bytes are no whole number of entries"),
            Self::Version(version) => write!(f, "an entry has version {version}"),
            Self::Offsets { index } => write!(f, "entry {index} has impossible offsets"),
        }
    }
}

impl std::error::Error for TxnIndexError {}

/// The file's contents.
#[must_use]
pub fn encode(entries: &[AbortedTxn]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * ENTRY_BYTES);
    for entry in entries {
        bytes.put_i16(VERSION);
        bytes.put_i64(entry.producer_id.0);
        bytes.put_i64(entry.first_offset.0);
        bytes.put_i64(entry.last_offset.0);
        bytes.put_i64(entry.last_stable_offset.0);
    }
    bytes
}

/// Reads the file of the segment at `base`.
///
/// # Errors
/// [`TxnIndexError`] when it was not written so by a broker; the index must then be rebuilt.
pub fn decode(mut bytes: &[u8], base: Offset) -> Result<Vec<AbortedTxn>, TxnIndexError> {
    if !bytes.len().is_multiple_of(ENTRY_BYTES) {
        return Err(TxnIndexError::Size(bytes.len()));
    }
    let mut entries: Vec<AbortedTxn> = Vec::with_capacity(bytes.len() / ENTRY_BYTES);
    while bytes.has_remaining() {
        let version = bytes.get_i16();
        if version != VERSION {
            return Err(TxnIndexError::Version(version));
        }
        let entry = AbortedTxn {
            producer_id: ProducerId(bytes.get_i64()),
            first_offset: Offset(bytes.get_i64()),
            last_offset: Offset(bytes.get_i64()),
            last_stable_offset: Offset(bytes.get_i64()),
        };
        let is_behind = entries
            .last()
            .is_none_or(|before| before.last_offset < entry.last_offset);
        // A marker stands behind a record: so what a power cut left as zeros is none.
        let is_whole = 0 <= entry.first_offset.0 && entry.first_offset < entry.last_offset;
        if !is_behind || !is_whole || entry.last_offset < base {
            let index = entries.len();
            return Err(TxnIndexError::Offsets { index });
        }
        entries.push(entry);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(producer_id: i64, first: i64, last: i64, stable: i64) -> AbortedTxn {
        AbortedTxn {
            producer_id: ProducerId(producer_id),
            first_offset: Offset(first),
            last_offset: Offset(last),
            last_stable_offset: Offset(stable),
        }
    }

    // Goal: the bytes are Kafka's. Method: one entry laid out by hand; both ways.
    #[test]
    fn layout() {
        let mut expected = vec![0, 0];
        expected.extend([0, 0, 0, 0, 0, 0, 0, 7]);
        expected.extend([0, 0, 0, 0, 0, 0, 1, 2]);
        expected.extend([0, 0, 0, 0, 0, 0, 1, 9]);
        expected.extend([0, 0, 0, 0, 0, 0, 1, 1]);
        let entries = [entry(7, 0x102, 0x109, 0x101)];
        assert_eq!(encode(&entries), expected);
        assert_eq!(decode(&expected, Offset(0)), Ok(entries.to_vec()));
    }

    // Goal: what no broker wrote is refused, for the index to be rebuilt. Method: a table; every cut of a good file.
    #[test]
    fn refusals() {
        fn check(entries: &[AbortedTxn], base: i64, expected: Result<usize, TxnIndexError>) {
            let decoded = decode(&encode(entries), Offset(base));
            assert_eq!(decoded.map(|entries| entries.len()), expected);
        }
        let wrong = |index| Err(TxnIndexError::Offsets { index });
        check(&[], 0, Ok(0));
        check(&[entry(1, 5, 9, 5), entry(2, 3, 12, 3)], 8, Ok(2));
        check(&[entry(1, 9, 5, 5)], 0, wrong(0));
        check(&[entry(0, 0, 0, 0)], 0, wrong(0));
        check(&[entry(1, -1, 5, 5)], 0, wrong(0));
        check(&[entry(1, 5, 9, 5), entry(2, 3, 9, 3)], 0, wrong(1));
        check(&[entry(1, 5, 9, 5)], 10, wrong(0));
        let whole = encode(&[entry(1, 5, 9, 5), entry(2, 3, 12, 3)]);
        for cut in 0..whole.len() {
            let decoded = decode(&whole[..cut], Offset(0));
            assert_eq!(decoded.is_ok(), cut % ENTRY_BYTES == 0, "cut at {cut}");
        }
        let mut strange = whole;
        strange[ENTRY_BYTES + 1] = 3;
        assert_eq!(decode(&strange, Offset(0)), Err(TxnIndexError::Version(3)));
    }
}
