//! Readers of what transactions leave: one that follows a topic while it is written, and the check of everything.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use pelton_model::ErrorCode;
use pelton_protocol::codec::Str;
use pelton_protocol::message::fetch::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData,
};

use super::bench::{Bench, Topic};
use super::client::{Link, Lost};
use super::consumer::may_begin_later;
use super::ledger::{Column, Followed, Left};
use super::oracle::Place;
use super::records::{committed_records, end_of, records};
use super::transactional::{self, Stream};

/// Partitions of each of the coordinators' topics.
pub const COORDINATOR_PARTITIONS: i32 = 3;
/// The coordinators' topics.
const COORDINATOR_TOPICS: [&str; 2] = ["__consumer_offsets", "__transaction_state"];

/// Which records a reader wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// All.
    Everything,
    /// Those of transactions that are committed.
    Committed,
}

/// Reads one topic in the order of its offsets.
struct Reader<'a> {
    bench: &'a Bench,
    topic: &'a Topic,
    wants: Wants,
    positions: Vec<i64>,
    columns: Vec<Column>,
    /// Where each partition began when its records had gone from under the reader.
    starts: Vec<i64>,
    /// What was passed over then.
    skipped: Vec<Vec<Range<i64>>>,
    /// Bytes of the batches read.
    bytes: Vec<u64>,
}

impl<'a> Reader<'a> {
    fn new(bench: &'a Bench, topic: &'a Topic, wants: Wants) -> Self {
        let count = usize::try_from(topic.partitions).unwrap();
        Self {
            bench,
            topic,
            wants,
            positions: vec![0; count],
            columns: vec![Vec::new(); count],
            starts: vec![0; count],
            skipped: vec![Vec::new(); count],
            bytes: vec![0; count],
        }
    }

    fn isolation_level(&self) -> i8 {
        i8::from(self.wants == Wants::Committed)
    }

    async fn is_at_end(&self, link: &mut Link) -> Result<bool, Lost> {
        let Topic { name, partitions, .. } = self.topic;
        let level = self.isolation_level();
        let ends = self.bench.list_ends(link, name, *partitions, level).await?;
        Ok(ends == self.positions)
    }

    async fn fetch(&mut self, link: &mut Link) -> Result<(), Lost> {
        let bench = self.bench;
        let (version, wait_ms, bytes) = bench.world.draw(|random| {
            (random.between(4, 18), random.magnitude(2_000), random.magnitude(1 << 16))
        });
        let partition = |(partition, &fetch_offset): (i32, &i64)| FetchPartition {
            partition,
            fetch_offset,
            partition_max_bytes: i32::try_from(bytes).unwrap(),
            ..FetchPartition::default()
        };
        let request = FetchRequest {
            max_wait_ms: i32::try_from(wait_ms).unwrap(),
            min_bytes: 1,
            isolation_level: self.isolation_level(),
            topics: vec![FetchTopic {
                topic: self.topic.name.clone(),
                topic_id: self.topic.id,
                partitions: (0..).zip(&self.positions).map(partition).collect(),
            }],
            ..FetchRequest::default()
        };
        let version = i16::try_from(version).unwrap();
        let answer: FetchResponse = link.call(version, &request, wait_ms + 60_000).await?;
        assert_eq!(answer.error_code, 0, "Fetch of {}", self.topic.name);
        for data in answer.responses.into_iter().flat_map(|topic| topic.partitions) {
            let has_gone = data.error_code == ErrorCode::OffsetOutOfRange.code();
            if has_gone && may_begin_later(self.topic.kind) {
                self.skip(link, data.partition_index).await?;
            } else {
                self.take_in(data)?;
            }
        }
        Ok(())
    }

    /// Goes on at the start.
    async fn skip(&mut self, link: &mut Link, partition: i32) -> Result<(), Lost> {
        let start = self.bench.begin(link, self.topic, partition).await?;
        let index = usize::try_from(partition).unwrap();
        let position = &mut self.positions[index];
        if *position < start {
            self.skipped[index].push(*position..start);
            self.starts[index] = start;
            *position = start;
        }
        Ok(())
    }

    fn take_in(&mut self, data: PartitionData) -> Result<(), Lost> {
        let PartitionData { partition_index, last_stable_offset, high_watermark, .. } = data;
        let place: Place = (self.topic.id, partition_index);
        if self.bench.is_passing(data.error_code) {
            return Err(Lost::Closed);
        }
        assert_eq!(data.error_code, 0, "Fetch of {place:?}");
        assert!(last_stable_offset <= high_watermark, "{place:?}: stable, but not committed");
        let index = usize::try_from(partition_index).unwrap();
        let Some(bytes) = data.records.as_ref().and_then(|records| records.bytes()) else {
            return Ok(());
        };
        let position = self.positions[index];
        let (end, found) = match self.wants {
            Wants::Everything => (high_watermark, records(bytes)),
            Wants::Committed => {
                let aborted = data.aborted_transactions.unwrap_or_default();
                (last_stable_offset, committed_records(bytes, aborted))
            }
        };
        for (offset, id) in found.into_iter().filter(|(offset, _)| position <= *offset) {
            assert!(offset < end, "{place:?}: {offset} was not to be shown before {end}");
            self.bench.oracle.borrow_mut().read(place, offset, id);
            if self.wants == Wants::Committed {
                self.bench.ledger.borrow_mut().saw(place, offset, id);
            }
            self.columns[index].push((offset, id));
        }
        self.positions[index] = end_of(bytes).unwrap_or(0).max(position);
        self.bytes[index] += bytes.len() as u64;
        Ok(())
    }

    /// Reads until `is_over` says so at the end.
    async fn run(&mut self, is_over: impl Fn() -> bool) {
        loop {
            let mut link = self.bench.link("auditor").await;
            if self.read_on(&mut link, &is_over).await.is_ok() {
                return;
            }
            self.bench.pause(100).await;
        }
    }

    async fn read_on(&mut self, link: &mut Link, is_over: impl Fn() -> bool) -> Result<(), Lost> {
        while !(is_over() && self.is_at_end(link).await?) {
            self.fetch(link).await?;
        }
        Ok(())
    }
}

/// Reads a topic while somebody writes it; what was committed goes to the ledger.
pub async fn follow(bench: Rc<Bench>, topic: Topic, wants: Wants) {
    let mut reader = Reader::new(&bench, &topic, wants);
    reader.run(|| bench.producing.get() == 0).await;
    if wants == Wants::Committed {
        let read = reader.columns.into_iter().zip(reader.skipped);
        for (partition, (records, skipped)) in (0..).zip(read) {
            let followed = Followed { place: (topic.id, partition), records, skipped };
            bench.ledger.borrow_mut().followed(followed);
        }
    }
}

/// Sees that every stream goes on and that every transaction ends, then compares all that is committed with the facts.
pub async fn check(bench: Rc<Bench>, streams: Rc<Vec<Rc<Stream>>>) {
    for stream in &*streams {
        transactional::conclude(&bench, stream).await;
    }
    let Some(topics) = streams.first().map(|stream| Rc::clone(&stream.topics)) else { return };
    for topic in &*topics {
        become_stable(&bench, &topic.name, topic.partitions).await;
    }
    for topic in COORDINATOR_TOPICS {
        become_stable(&bench, &Str::from(topic), COORDINATOR_PARTITIONS).await;
    }
    let mut all = BTreeMap::new();
    for topic in &*topics {
        let mut reader = Reader::new(&bench, topic, Wants::Committed);
        reader.run(|| true).await;
        for (index, records) in reader.columns.into_iter().enumerate() {
            let (kind, start, bytes) = (topic.kind, reader.starts[index], reader.bytes[index]);
            let left = Left { kind, start, bytes, records };
            all.insert((topic.id, i32::try_from(index).unwrap()), left);
        }
    }
    let mut offsets = Vec::new();
    for stream in &*streams {
        offsets.push(transactional::offsets(&bench, stream).await);
    }
    let verdict = bench.ledger.borrow_mut().check(&all, &offsets, &bench.oracle.borrow());
    let count = verdict.committed;
    bench.oracle.borrow_mut().went(verdict.vanished);
    bench.world.note(|| format!("{count} committed transactions are checked"));
    bench.committed.set(count);
}

/// Waits until no transaction holds the end of a topic's partitions back.
async fn become_stable(bench: &Bench, topic: &Str, partitions: i32) {
    loop {
        let mut link = bench.link("auditor").await;
        let stable = bench.list_ends(&mut link, topic, partitions, 1).await;
        let ends = bench.list_ends(&mut link, topic, partitions, 0).await;
        if stable.is_ok() && stable == ends {
            return;
        }
        bench.world.note(|| format!("{topic}: stable up to {stable:?}, ends at {ends:?}"));
        bench.world.sleep(500_000_000).await;
    }
}
