//! One connection under load: what it sends next, and what an answer means.
//!
//! Invariants:
//! 1. Answers come in the order of requests; a correlation id that is not the next one's ends the run.
//! 2. A latency counts from the time a request was due (in a closed loop: from the answer that made room for it).
//! 3. A request of which any partition failed counts as failures, never as a request.

use std::collections::VecDeque;

use crate::answer::{self, Fetched};
use crate::clock::Nanos;
use crate::connection::{Connection, Filled};
use crate::error::PerfError;
use crate::frame::{FetchFrame, ProduceFrame};
use crate::stats::{Counts, Failure, Interval, Stats};

/// When a run begins, when it is measured, and when it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeline {
    pub(crate) begin: Nanos,
    pub(crate) warm_end: Nanos,
    pub(crate) end: Nanos,
    /// When what is in flight is given up.
    pub(crate) drain_end: Nanos,
}

/// Which latencies the live line and the plots over time show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Headline {
    Produce,
    Fetch,
    Delivery,
}

/// What a worker's connections share.
#[derive(Debug)]
pub(crate) struct Ledger {
    timeline: Timeline,
    headline: Headline,
    /// What is measured.
    pub(crate) total: Stats,
    /// Everything since the last look.
    pub(crate) interval: Interval,
    /// Records acknowledged since the begin.
    pub(crate) written: u64,
    /// Records that consumers have yet to see, and those that they have seen, each counted once for each reader.
    pub(crate) acknowledged: u64,
    pub(crate) delivered: u64,
    /// The second of the run, and the wall clock then: what record times are.
    pub(crate) second: u64,
    pub(crate) wall_ms: i64,
}

impl Ledger {
    pub(crate) fn new(timeline: Timeline, headline: Headline, wall_ms: i64) -> Self {
        Self {
            timeline,
            headline,
            total: Stats::new(),
            interval: Interval::new(),
            written: 0,
            acknowledged: 0,
            delivered: 0,
            second: 0,
            wall_ms,
        }
    }

    /// Measures nothing that comes later.
    pub(crate) fn end(&mut self, at: Nanos) {
        self.timeline.end = self.timeline.end.min(at);
    }

    fn is_measured(&self, at: Nanos) -> bool {
        self.timeline.warm_end <= at && at < self.timeline.end
    }

    fn produced(&mut self, due: Nanos, now: Nanos, counts: Counts) {
        let latency = now.saturating_sub(due);
        self.interval.produce.add(counts);
        if self.headline == Headline::Produce {
            self.interval.record(latency);
        }
        if self.is_measured(now) {
            self.total.produce.counts.add(counts);
        }
        if self.is_measured(due) {
            self.total.produce.latencies.record(latency);
        }
    }

    fn fetched(&mut self, due: Nanos, now: Nanos, counts: Counts) {
        let latency = now.saturating_sub(due);
        self.interval.fetch.add(counts);
        if self.headline == Headline::Fetch {
            self.interval.record(latency);
        }
        if self.is_measured(now) {
            self.total.fetch.counts.add(counts);
        }
        if self.is_measured(due) {
            self.total.fetch.latencies.record(latency);
        }
    }

    fn stamped(&mut self, due: Nanos, now: Nanos) {
        if !(self.timeline.begin..=now).contains(&due) {
            return;
        }
        if self.headline == Headline::Delivery {
            self.interval.record(now - due);
        }
        if self.is_measured(due) {
            self.total.delivery.record(now - due);
        }
    }

    /// Counts the time that a request was waited for in vain.
    pub(crate) fn given_up(&mut self, due: Nanos, now: Nanos) {
        if !self.is_measured(due) {
            return;
        }
        let latency = now.saturating_sub(due);
        match self.headline {
            Headline::Produce => self.total.produce.latencies.record(latency),
            Headline::Fetch => self.total.fetch.latencies.record(latency),
            Headline::Delivery => {
                self.total.produce.latencies.record(latency);
                self.total.delivery.record(latency);
            }
        }
    }

    fn fail(&mut self, failure: Failure, count: u64) {
        self.total.fail(failure, count);
        self.interval.failed += count;
    }
}

/// A producer's requests, sent in turn.
#[derive(Debug)]
pub(crate) struct Producer {
    pub(crate) requests: Vec<ProducerRequest>,
    pub(crate) next: usize,
    pub(crate) stamps: bool,
    pub(crate) answered: bool,
}

/// One of a producer's requests.
#[derive(Debug)]
pub(crate) struct ProducerRequest {
    frame: ProduceFrame,
    counts: Counts,
    /// Records, each counted once for each consumer that reads its partition.
    deliveries: u64,
    timed_in: u64,
}

impl ProducerRequest {
    /// A request whose partitions are read by so many consumers, taken together.
    pub(crate) fn new(frame: ProduceFrame, readers: u64) -> Self {
        let (records, bytes) = (frame.records(), frame.batch_bytes() as u64);
        let deliveries = records / frame.partitions().count().max(1) as u64 * readers;
        Self { counts: Counts { requests: 1, records, bytes }, deliveries, frame, timed_in: 0 }
    }
}

/// What a consumer reads.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) frame: FetchFrame,
    pub(crate) positions: Vec<Position>,
    /// Begins anew at the high watermark.
    pub(crate) wraps: bool,
    pub(crate) stamps: bool,
}

/// Where a consumer is in a partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    pub(crate) partition: i32,
    pub(crate) start: i64,
    pub(crate) next: i64,
}

/// What a connection does.
#[derive(Debug)]
pub(crate) enum Role {
    Producer(Producer),
    Consumer(Consumer),
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    due: Nanos,
    request: usize,
}

/// A connection under load.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) connection: Connection,
    role: Role,
    flights: VecDeque<Flight>,
    next_correlation: i32,
    is_open: bool,
}

impl Peer {
    pub(crate) fn new(connection: Connection, role: Role) -> Self {
        let flights = VecDeque::new();
        Self { connection, role, flights, next_correlation: 0, is_open: true }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    pub(crate) fn is_producer(&self) -> bool {
        matches!(self.role, Role::Producer(_))
    }

    /// Whether nobody answers its requests (acks=0).
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(&self.role, Role::Producer(producer) if !producer.answered)
    }

    /// Requests without an answer.
    pub(crate) fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// When the requests without an answer were due.
    pub(crate) fn dues(&self) -> impl Iterator<Item = Nanos> + '_ {
        self.flights.iter().map(|flight| flight.due)
    }

    /// Queues the next request.
    pub(crate) fn send(&mut self, due: Nanos, ledger: &Ledger) {
        let correlation = self.next_correlation;
        self.next_correlation = correlation.wrapping_add(1);
        match &mut self.role {
            Role::Producer(producer) => {
                let request = producer.next;
                producer.next = (request + 1) % producer.requests.len();
                let chosen = &mut producer.requests[request];
                let frame = &mut chosen.frame;
                frame.set_correlation(correlation);
                if chosen.timed_in < ledger.second {
                    chosen.timed_in = ledger.second;
                    frame.set_time(ledger.wall_ms);
                }
                frame.advance_sequences();
                if producer.stamps {
                    frame.set_stamp(due);
                }
                self.connection.queue(frame.bytes());
                self.flights.push_back(Flight { due, request });
            }
            Role::Consumer(consumer) => {
                consumer.frame.set_correlation(correlation);
                for (index, position) in consumer.positions.iter().enumerate() {
                    consumer.frame.set_offset(index, position.next);
                }
                self.connection.queue(consumer.frame.bytes());
                self.flights.push_back(Flight { due, request: 0 });
            }
        }
    }

    /// Sends what is queued.
    pub(crate) fn flush(&mut self, now: Nanos, ledger: &mut Ledger) {
        if !self.is_open {
            return;
        }
        if !self.connection.flush() {
            self.close(ledger);
        } else if !self.connection.is_blocked()
            && let Role::Producer(Producer { answered: false, requests, .. }) = &self.role
        {
            for flight in self.flights.drain(..) {
                ledger.produced(flight.due, now, requests[flight.request].counts);
            }
        }
    }

    /// Reads once and takes every whole answer; says how many, and whether there may be more to read.
    pub(crate) fn receive(
        &mut self,
        now: impl Fn() -> Nanos,
        ledger: &mut Ledger,
    ) -> Result<(usize, bool), PerfError> {
        if !self.is_open {
            return Ok((0, false));
        }
        let filled = self.connection.fill();
        if filled == Filled::Closed {
            self.close(ledger);
            return Ok((0, false));
        }
        let now = now();
        let mut answers = 0;
        while let Some(range) = self.connection.frame()? {
            let Some(flight) = self.flights.pop_front() else {
                return Err(PerfError::Answer { request: "nothing", what: "nobody asked" });
            };
            let in_flight = i32::try_from(self.flights.len()).unwrap_or(i32::MAX);
            let expected = self.next_correlation.wrapping_sub(1).wrapping_sub(in_flight);
            let frame = &self.connection.input()[range];
            if answer::correlation(frame, "a request")? != expected {
                return Err(PerfError::Answer { request: "a request", what: "it is another's" });
            }
            match &mut self.role {
                Role::Producer(producer) => {
                    produced(frame, &producer.requests[flight.request], flight.due, now, ledger)?;
                }
                Role::Consumer(consumer) => fetched(frame, consumer, flight.due, now, ledger)?,
            }
            answers += 1;
        }
        Ok((answers, filled == Filled::More))
    }

    fn close(&mut self, ledger: &mut Ledger) {
        self.is_open = false;
        ledger.fail(Failure::Closed, 1);
        if self.is_producer() {
            ledger.fail(Failure::Lost, self.flights.len() as u64);
        }
        self.flights.clear();
    }
}

fn produced(
    answer: &[u8],
    request: &ProducerRequest,
    due: Nanos,
    now: Nanos,
    ledger: &mut Ledger,
) -> Result<(), PerfError> {
    let mut failed = false;
    answer::produce(answer, |code, _| {
        if code != 0 {
            failed = true;
            ledger.fail(Failure::Code(code), 1);
        }
    })?;
    if !failed {
        ledger.written += request.counts.records;
        ledger.acknowledged += request.deliveries;
        ledger.produced(due, now, request.counts);
    }
    Ok(())
}

fn fetched(
    answer: &[u8],
    consumer: &mut Consumer,
    due: Nanos,
    now: Nanos,
    ledger: &mut Ledger,
) -> Result<(), PerfError> {
    let (mut records, mut bytes, mut failed) = (0, 0, false);
    let Consumer { positions, wraps, stamps, .. } = consumer;
    let whole = answer::fetch(answer, |fetched| {
        let Some(position) =
            positions.iter_mut().find(|position| position.partition == fetched.partition)
        else {
            return;
        };
        if fetched.code != 0 {
            failed = true;
            ledger.fail(Failure::Code(fetched.code), 1);
            return;
        }
        bytes += fetched.records.len() as u64;
        records += follow(position, fetched, *stamps, now, ledger);
        let at_end = fetched.records.is_empty() || fetched.high_watermark <= position.next;
        if *wraps && at_end {
            position.next = position.start;
        }
    })?;
    if whole != 0 {
        ledger.fail(Failure::Code(whole), 1);
    } else if !failed {
        ledger.delivered += records;
        ledger.fetched(due, now, Counts { requests: 1, records, bytes });
    }
    Ok(())
}

/// Goes through the batches of a partition; the records are those not seen before.
fn follow(
    position: &mut Position,
    fetched: Fetched<'_>,
    stamps: bool,
    now: Nanos,
    ledger: &mut Ledger,
) -> u64 {
    let mut records = 0;
    for batch in answer::batches(fetched.records) {
        // An answer begins with the batch that contains the offset asked for.
        if batch.end_offset <= position.next {
            continue;
        }
        if stamps && let Some(due) = batch.stamp() {
            ledger.stamped(due, now);
        }
        records += batch.records;
        position.next = batch.end_offset;
    }
    records
}
