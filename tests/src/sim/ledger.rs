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

use std::collections::{BTreeMap, BTreeSet};

use super::oracle::{Place, RecordId};

/// Records of one partition in the order of their offsets.
pub type Column = Vec<(i64, RecordId)>;

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
    followed: Vec<(Place, Column)>,
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
        let may_be_committed = match transaction.outcome {
            Outcome::Asked | Outcome::Committed => true,
            Outcome::Open | Outcome::Never => false,
        };
        assert!(
            may_be_committed,
            "{place:?} offset {offset}: {id:?} is no committed record: {transaction:?}"
        );
        assert!(transaction.records.contains(&id), "{place:?} offset {offset}: who wrote {id:?}?");
        transaction.seen.insert(id);
    }

    /// A reader has come to the end of a partition, with these records.
    pub fn followed(&mut self, place: Place, records: Column) {
        self.followed.push((place, records));
    }

    /// Compares all that is committed, in all partitions and groups, with the facts; tells how many transactions are.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn check(&mut self, all: &BTreeMap<Place, Column>, offsets: &[[i64; 2]]) -> u64 {
        for (place, records) in &self.followed {
            let is_prefix = all[place].starts_with(records);
            assert!(is_prefix, "{place:?}: was {records:?} before, is {:?}", all[place]);
        }
        let mut found: BTreeMap<u32, BTreeSet<RecordId>> = BTreeMap::new();
        let mut counts: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); self.streams.len()];
        for (&place, records) in all {
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
        for (number, transaction) in &self.transactions {
            check_whole(*number, transaction, found.get(number));
        }
        for (stream, (count, said)) in counts.iter().zip(offsets).enumerate() {
            let n = i64::try_from(count.len()).expect("a count");
            let is_counted = count.iter().map(|number| i64::from(*number)).eq(0..n);
            assert!(is_counted, "stream {stream} lacks records: {count:?}");
            let said = said.map(|offset| offset.max(0));
            assert!(said == [n, n], "stream {stream} has {n} records, its groups say {said:?}");
        }
        found.len() as u64
    }

    fn transaction(&mut self, number: u32) -> &mut Transaction {
        self.transactions.get_mut(&number).expect("it has begun")
    }
}

/// Whether a transaction of which `found` is committed may be so.
fn check_whole(number: u32, transaction: &Transaction, found: Option<&BTreeSet<RecordId>>) {
    let none = BTreeSet::new();
    let found = found.unwrap_or(&none);
    let is_whole = *found == transaction.records;
    assert!(
        is_whole || found.is_empty(),
        "transaction {number}: only {found:?} is committed: {transaction:?}"
    );
    let is_lost = transaction.outcome == Outcome::Committed && !is_whole;
    assert!(!is_lost, "transaction {number} is committed and not there: {transaction:?}");
    let seen = &transaction.seen;
    assert!(seen.is_subset(found), "transaction {number}: {seen:?} was seen, now {found:?}");
}
