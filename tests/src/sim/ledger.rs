//! What must hold of transactions, from the facts that their producers have been told.
//!
//! A *stream* is a transactional id and the two groups whose offset counts its records. A transaction may advance its stream: it reads
//! the offset n, writes the records n, n + 1, … wherever, and commits the offset behind them in both groups. Others stand alone.
//!
//! Invariants checked:
//! 1. Whoever reads what is committed sees no record of a transaction whose commit nobody has asked for, or was refused.
//! 2. A transaction is seen whole or not at all; one whose commit was answered is seen, one whose abort was answered is not.
//! 3. A stream counts: its committed records are 0, 1, … n − 1 in all partitions together, each once, in order in each; n is what both
//!    groups say. So transactions of one id are as if one had followed the other, whoever began them.
//! 4. A producer that is known to have a successor commits nothing.
//! 5. What was seen once is seen again, at the same place, and nothing appears before it.
//!
//! Where records may go, those of a committed transaction are there or have gone for a good reason: they are below a start that may have
//! moved so far, or of a compacted topic and a committed record of their key stands behind them. What is aborted takes nothing with it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::bench::Kind;
use super::oracle::{Oracle, Place, RecordId, newest_of_keys};
use super::records::key_of;

/// Records of one partition in the order of their offsets.
pub type Column = Vec<(i64, RecordId)>;

/// What a reader of a partition, from its beginning to its end, was given.
#[derive(Debug)]
pub struct Followed {
    /// The partition.
    pub place: Place,
    /// The committed records.
    pub records: Column,
    /// Offsets that had gone before the reader came to them.
    pub skipped: Vec<Range<i64>>,
}

/// What is left of a partition.
#[derive(Debug)]
pub struct Left {
    /// What may become of its records.
    pub kind: Kind,
    /// Where it begins.
    pub start: i64,
    /// Bytes of its batches.
    pub bytes: u64,
    /// The committed records.
    pub records: Column,
}

/// What a check has found.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// Transactions that are committed.
    pub committed: u64,
    /// Records of these that have gone.
    pub vanished: u64,
}

/// What is left of everything, and what may be gone.
struct Remains<'a> {
    all: &'a BTreeMap<Place, Left>,
    newest: BTreeMap<Place, BTreeMap<u32, i64>>,
    oracle: &'a Oracle,
}

impl<'a> Remains<'a> {
    /// # Panics
    /// When a start has moved too far.
    fn new(all: &'a BTreeMap<Place, Left>, oracle: &'a Oracle) -> Self {
        for (&place, left) in all {
            let Left { kind, start, bytes, .. } = *left;
            let may_begin = match kind {
                Kind::Whole | Kind::Compacted => start == 0,
                Kind::Deleting => start <= oracle.asked_start(place),
                Kind::Retained(least) => start == 0 || least <= bytes,
            };
            assert!(may_begin, "{place:?} begins at {start}, with {bytes} bytes left of {kind:?}");
        }
        let newest = all.iter().map(|(place, left)| (*place, newest_of_keys(&left.records)));
        Self { all, newest: newest.collect(), oracle }
    }

    fn may_be_gone(&self, id: RecordId) -> bool {
        let place = self.oracle.place_of(id);
        place.is_some_and(|(place, offset)| self.may_be_gone_from(place, offset, id))
    }

    fn may_be_gone_from(&self, place: Place, offset: i64, id: RecordId) -> bool {
        let left = &self.all[&place];
        let newest = self.newest[&place].get(&key_of(id));
        let is_superseded = newest.is_some_and(|newest| offset < *newest);
        offset < left.start || (left.kind == Kind::Compacted && is_superseded)
    }

    /// Compares what a reader was given with what is left.
    fn check_followed(&self, followed: &Followed) {
        let Followed { place, records, skipped } = followed;
        let left = &self.all[place].records;
        let there: BTreeMap<i64, RecordId> = left.iter().copied().collect();
        for &(offset, id) in records {
            let is_there = there.get(&offset) == Some(&id);
            assert!(
                is_there || self.may_be_gone_from(*place, offset, id),
                "{place:?} offset {offset}: {id:?} was there before, now {left:?}"
            );
        }
        let given: BTreeMap<i64, RecordId> = records.iter().copied().collect();
        let end = records.last().map_or(0, |(offset, _)| offset + 1);
        for (offset, id) in left.iter().take_while(|(offset, _)| *offset < end) {
            let was_skipped = skipped.iter().any(|range| range.contains(offset));
            assert!(
                was_skipped || given.contains_key(offset),
                "{place:?} offset {offset}: {id:?} was not there before: {records:?}"
            );
        }
    }
}

/// What is known of a transaction's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Nobody has asked for its commit.
    Open,
    /// Somebody has: it may be committed.
    Asked,
    /// Its commit was answered.
    Committed,
    /// Its abort was answered, or its commit refused.
    Never,
}

#[derive(Debug)]
struct Transaction {
    stream: usize,
    epoch: i16,
    /// The offset that it commits, when it advances its stream.
    next: Option<i64>,
    records: BTreeSet<RecordId>,
    outcome: Outcome,
    /// A later producer was known when its commit was asked for.
    has_successor: bool,
    seen: BTreeSet<RecordId>,
}

impl Transaction {
    /// Whether its records must be there.
    fn is_committed(&self, found: &BTreeSet<RecordId>) -> bool {
        self.outcome == Outcome::Committed || !self.seen.is_empty() || !found.is_empty()
    }

    /// Whether its records may be there.
    fn may_be_committed(&self) -> bool {
        match self.outcome {
            Outcome::Asked | Outcome::Committed => true,
            Outcome::Open | Outcome::Never => false,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// The latest epoch that a producer was given.
    granted: i16,
    /// The largest offset whose commit was answered.
    committed: i64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Ledger {
    transactions: BTreeMap<u32, Transaction>,
    streams: Vec<Stream>,
    /// What readers have followed to their end.
    followed: Vec<Followed>,
}

impl Ledger {
    /// A new stream's index.
    pub fn stream(&mut self) -> usize {
        self.streams.push(Stream::default());
        self.streams.len() - 1
    }

    /// A producer of the stream was given this epoch.
    pub fn granted(&mut self, stream: usize, epoch: i16) {
        let granted = &mut self.streams[stream].granted;
        *granted = epoch.max(*granted);
    }

    /// Whether a later producer than that of this epoch is known.
    #[must_use]
    pub fn has_successor(&self, stream: usize, epoch: i16) -> bool {
        epoch < self.streams[stream].granted
    }

    /// The offset that the stream's groups must say at least.
    #[must_use]
    pub fn committed_offset(&self, stream: usize) -> i64 {
        self.streams[stream].committed
    }

    /// A producer begins a transaction; `next` is the offset that it is to commit, if any.
    pub fn begin(&mut self, number: u32, stream: usize, epoch: i16, next: Option<i64>) {
        let transaction = Transaction {
            stream,
            epoch,
            next,
            records: BTreeSet::new(),
            outcome: Outcome::Open,
            has_successor: false,
            seen: BTreeSet::new(),
        };
        assert!(self.transactions.insert(number, transaction).is_none(), "a new number");
    }

    /// Records of the transaction are about to be sent.
    pub fn writes(&mut self, number: u32, ids: &[RecordId]) {
        self.transaction(number).records.extend(ids);
    }

    /// A commit is about to be asked for.
    pub fn asks_to_commit(&mut self, number: u32) {
        let transaction = self.transactions.get_mut(&number).expect("it has begun");
        if transaction.outcome == Outcome::Open {
            transaction.outcome = Outcome::Asked;
            let granted = self.streams[transaction.stream].granted;
            transaction.has_successor = transaction.epoch < granted;
        }
    }

    /// A commit was answered.
    ///
    /// # Panics
    /// When it should have been refused.
    pub fn committed(&mut self, number: u32) {
        let transaction = self.transactions.get_mut(&number).expect("it has begun");
        assert!(
            !transaction.has_successor,
            "a fenced producer has committed transaction {number}: {transaction:?}"
        );
        transaction.outcome = Outcome::Committed;
        let committed = &mut self.streams[transaction.stream].committed;
        *committed = transaction.next.unwrap_or(0).max(*committed);
    }

    /// An abort was answered, or the only commit refused.
    ///
    /// # Panics
    /// When records of it were seen.
    pub fn never(&mut self, number: u32) {
        let transaction = self.transaction(number);
        assert!(
            transaction.seen.is_empty(),
            "transaction {number} is not committed, but was seen: {transaction:?}"
        );
        transaction.outcome = Outcome::Never;
    }

    /// A reader of what is committed was given this record.
    ///
    /// # Panics
    /// When it cannot be committed.
    pub fn saw(&mut self, place: Place, offset: i64, id: RecordId) {
        let transaction = self.transaction(id.producer);
        assert!(
            transaction.may_be_committed(),
            "{place:?} offset {offset}: {id:?} is no committed record: {transaction:?}"
        );
        assert!(transaction.records.contains(&id), "{place:?} offset {offset}: who wrote {id:?}?");
        transaction.seen.insert(id);
    }

    /// A reader has come to the end of a partition.
    pub fn followed(&mut self, followed: Followed) {
        self.followed.push(followed);
    }

    /// Compares all that is committed, in all partitions and groups, with the facts.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn check(
        &mut self,
        all: &BTreeMap<Place, Left>,
        offsets: &[[i64; 2]],
        oracle: &Oracle,
    ) -> Verdict {
        let remains = Remains::new(all, oracle);
        for followed in &self.followed {
            remains.check_followed(followed);
        }
        let mut found: BTreeMap<u32, BTreeSet<RecordId>> = BTreeMap::new();
        let mut counts: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); self.streams.len()];
        for (&place, Left { records, .. }) in all {
            let mut last: BTreeMap<usize, u32> = BTreeMap::new();
            for &(offset, id) in records {
                self.saw(place, offset, id);
                let is_new = found.entry(id.producer).or_default().insert(id);
                assert!(is_new, "{place:?} offset {offset}: {id:?} is there twice");
                let Transaction { stream, next: Some(_), .. } = *self.transaction(id.producer)
                else {
                    continue;
                };
                let is_first = counts[stream].insert(id.number);
                assert!(is_first, "{place:?} offset {offset}: {id:?} of stream {stream} again");
                let before = last.insert(stream, id.number);
                assert!(before < Some(id.number), "{place:?} offset {offset}: {id:?} too late");
            }
        }
        let said: Vec<i64> = offsets.iter().map(|said| said[0]).collect();
        let vanished = self.check_transactions(&remains, &found, &said, &mut counts);
        for (stream, (count, said)) in counts.iter().zip(offsets).enumerate() {
            let n = i64::try_from(count.len()).expect("a count");
            let is_counted = count.iter().map(|number| i64::from(*number)).eq(0..n);
            assert!(is_counted, "stream {stream} lacks records: {count:?}");
            let said = said.map(|offset| offset.max(0));
            assert!(said == [n, n], "stream {stream} has {n} records, its groups say {said:?}");
        }
        Verdict { committed: found.len() as u64, vanished }
    }

    /// Sees that each transaction is whole, save what has gone; that counts in its stream as if it was there. Tells how much that is.
    fn check_transactions(
        &self,
        remains: &Remains<'_>,
        found: &BTreeMap<u32, BTreeSet<RecordId>>,
        said: &[i64],
        counts: &mut [BTreeSet<u32>],
    ) -> u64 {
        let none = BTreeSet::new();
        let mut maybe = vec![BTreeSet::new(); counts.len()];
        let mut vanished = 0;
        for (number, transaction) in &self.transactions {
            let found = found.get(number).unwrap_or(&none);
            let missing: Vec<RecordId> = transaction.records.difference(found).copied().collect();
            let may_all_be_gone = missing.iter().all(|id| remains.may_be_gone(*id));
            let is_committed = transaction.is_committed(found);
            assert!(
                may_all_be_gone || !is_committed,
                "transaction {number}: only {found:?} is there: {transaction:?}"
            );
            let Transaction { stream, next, .. } = *transaction;
            if is_committed {
                vanished += missing.len() as u64;
            }
            // One whose commit was asked for, with what outcome nobody knows, may have gone as a whole.
            let may_have_counted = transaction.may_be_committed()
                && may_all_be_gone
                && next.is_some_and(|next| next <= said[stream]);
            for id in missing.iter().filter(|_| next.is_some()) {
                if is_committed {
                    let is_first = counts[stream].insert(id.number);
                    assert!(is_first, "{id:?} of stream {stream} has gone, and is there again");
                } else if may_have_counted {
                    maybe[stream].insert(id.number);
                }
            }
        }
        for (count, maybe) in counts.iter_mut().zip(maybe) {
            count.extend(maybe);
        }
        vanished
    }

    fn transaction(&mut self, number: u32) -> &mut Transaction {
        self.transactions.get_mut(&number).expect("it has begun")
    }
}
