//! Runs a load: sets it up, starts a worker for each core, looks at the broker meanwhile, and gathers what came out.
//!
//! Invariants:
//! 1. Everything is connected and built before the first request is due.
//! 2. The broker's CPU time is that between the end of the warm-up and the end of the last worker.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::clock::{Clock, Nanos, SECOND, nanos, wall_ms};
use crate::connection::Connection;
use crate::error::{PerfError, io_error};
use crate::frame::{FetchFrame, Idempotence, ProduceFrame, Template};
use crate::load::{Kind, Load};
use crate::outcome::{Flowed, Latency, Moment, Outcome};
use crate::peer::{Consumer, Headline, Peer, Position, Producer, ProducerRequest, Role, Timeline};
use crate::process::{Look, Process, listener};
use crate::progress::Progress;
use crate::schedule::{Schedule, Share};
use crate::setup::{self, Place, Target};
use crate::stats::{Interval, Stats};
use crate::worker::{Done, Flow, Orders, Report, Worker};

/// How long answers are awaited after the end.
const DRAIN: Nanos = 10 * SECOND;
/// Time for the workers to come up.
const LEAD: Nanos = SECOND / 20;
/// Requests in flight and the longest time while data for a `fetch` load is written.
const PREFILL_DEPTH: usize = 4;
const PREFILL_SECONDS: f64 = 3_600.0;

/// How a load is run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The broker's process; none: whoever listens on the port.
    pub pid: Option<u32>,
    /// The cores of the workers, one for each; empty: as many workers as we may use cores (in an open loop, which polls, one), not pinned.
    pub cores: Vec<usize>,
    /// Sleeps between requests of an open loop in place of polling: friendlier, and less exact.
    pub sleeps: bool,
    /// A line about how it goes, if stderr is a terminal.
    pub shows_progress: bool,
}

/// Runs a load from the creation of its topic to its deletion.
///
/// # Errors
/// The broker or the kernel refuses what the load needs. What fails under load is part of the outcome.
pub fn run(load: &Load, target: &Target, options: &RunOptions) -> Result<Outcome, PerfError> {
    load.check()?;
    let process = options.pid.map(Process::new).or_else(|| listener(target.address));
    let resident = || process.map_or(0, Process::resident_bytes);
    let resident_before = resident();
    setup::create(target, load)?;
    let idle = setup::idle_connections(target, load.idle_connections)?;
    if load.kind == Kind::Fetch && 0 < load.prefill_bytes {
        prefill(load, target, options)?;
    }
    let resident_ready = resident();
    let mut outcome = under_load(load, target, options, process)?;
    outcome.resident_before = resident_before;
    outcome.resident_ready = resident_ready;
    drop(idle);
    setup::delete(target, load)?;
    Ok(outcome)
}

/// Writes what consumers will read.
fn prefill(load: &Load, target: &Target, options: &RunOptions) -> Result<(), PerfError> {
    let writing = Load {
        kind: Kind::Produce,
        connections: 1,
        depth: PREFILL_DEPTH,
        acks: 1,
        partitions_each: load.partitions,
        partitions_per_request: 1,
        rate: 0.0,
        ramp: Vec::new(),
        seconds: PREFILL_SECONDS,
        warm_up: 0.0,
        requests_max: 0,
        bytes_max: load.prefill_bytes * u64::from(load.partitions),
        ..load.clone()
    };
    let quiet = RunOptions { shows_progress: false, ..options.clone() };
    let outcome = under_load(&writing, target, &quiet, None)?;
    if outcome.shed() == 0 {
        Ok(())
    } else {
        Err(PerfError::Answer { request: "Produce", what: "writing what is to be read failed" })
    }
}

fn under_load(
    load: &Load,
    target: &Target,
    options: &RunOptions,
    process: Option<Process>,
) -> Result<Outcome, PerfError> {
    let places = setup::places(target, load)?;
    let peers = peers(load, target, &places)?;
    let clock = Clock::new();
    let begin = clock.now() + LEAD;
    let warm_end = begin + nanos(load.warm_up);
    let end = warm_end + nanos(load.measured_seconds());
    let timeline = Timeline { begin, warm_end, end, drain_end: end + DRAIN };
    let (workers, reports) = workers(load, options, peers, clock, timeline);
    let pinned = options.cores.clone();
    let count = workers.len();
    let threads = workers.into_iter().enumerate().map(|(index, (orders, peers))| {
        let core = pinned.get(index).copied();
        std::thread::Builder::new()
            .name(format!("load-{index}"))
            .spawn(move || {
                core.map_or(Ok(()), pin)?;
                Worker::new(orders, peers)?.run()
            })
            .map_err(io_error("starting", "a thread"))
    });
    let threads = threads.collect::<Result<Vec<_>, _>>()?;
    let mut watch = Watch::new(load, process, clock, timeline, options.shows_progress, count);
    watch.run(&reports)?;
    let done = join(threads)?;
    watch.gather(load, target, done)
}

/// Binds the calling thread to a core.
pub(crate) fn pin(core: usize) -> Result<(), PerfError> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(io_error("pinning a thread to", format!("core {core}")))
}

fn join(threads: Vec<JoinHandle<Result<Done, PerfError>>>) -> Result<Vec<Done>, PerfError> {
    threads.into_iter().map(|thread| thread.join().map_err(|_| PerfError::Worker)?).collect()
}

fn workers(
    load: &Load,
    options: &RunOptions,
    peers: Vec<Peer>,
    clock: Clock,
    timeline: Timeline,
) -> (Vec<(Orders, Vec<Peer>)>, Receiver<Report>) {
    let cores = match options.cores.len() {
        // Who polls beside the broker on its core takes the core away from it.
        0 if load.is_open_loop() => 1,
        0 => pelton_transport::cores::available().len(),
        given => given,
    };
    let count = cores.min(peers.len()).max(1);
    let of = u32::try_from(count).unwrap_or(u32::MAX);
    let mut dealt: Vec<Vec<Peer>> = (0..count).map(|_| Vec::new()).collect();
    // Producers and consumers come one after the other, so each worker gets its part of both.
    for (index, peer) in peers.into_iter().enumerate() {
        dealt[index % count].push(peer);
    }
    let senders = dealt.iter().filter(|peers| load.kind == Kind::Fetch || has_producer(peers));
    let senders = u32::try_from(senders.count()).unwrap_or(of).max(1);
    let (reports, received) = channel();
    let flow = Arc::new(Flow::default());
    flow.producing.store(count, Ordering::Release);
    let mut sender = 0;
    let workers = dealt.into_iter().map(|peers| {
        let sends = load.kind == Kind::Fetch || has_producer(&peers);
        let steps = if sends { load.steps() } else { Vec::new() };
        let share = Share { index: sender.min(senders - 1), of: senders };
        sender += u32::from(sends);
        let schedule = load.is_open_loop().then(|| Schedule::new(steps, share, timeline.begin));
        let orders = Orders {
            headline: match load.kind {
                Kind::Produce | Kind::Mixed => Headline::Produce,
                Kind::Fetch => Headline::Fetch,
                Kind::Tail => Headline::Delivery,
            },
            clock,
            timeline,
            schedule,
            depth: load.depth,
            spins: load.is_open_loop() && !options.sleeps,
            follows: load.kind.follows(),
            requests_max: load.requests_max.div_ceil(u64::from(senders)),
            bytes_max: load.bytes_max.div_ceil(u64::from(senders)),
            flow: Arc::clone(&flow),
            reports: reports.clone(),
        };
        (orders, peers)
    });
    (workers.collect(), received)
}

fn has_producer(peers: &[Peer]) -> bool {
    peers.iter().any(Peer::is_producer)
}

/// All connections of the load, with what they send.
fn peers(load: &Load, target: &Target, places: &[Place]) -> Result<Vec<Peer>, PerfError> {
    let mut peers = Vec::new();
    if load.kind.produces() {
        let ids = match load.idempotent {
            true => setup::producer_ids(target, load.connections)?,
            false => Vec::new(),
        };
        for index in 0..load.connections {
            peers.push(producer(load, target, places, index, ids.get(index).copied())?);
        }
    }
    let consumers = match load.kind {
        Kind::Produce => 0,
        Kind::Fetch => load.connections,
        Kind::Tail | Kind::Mixed => load.consumers,
    };
    for index in 0..consumers {
        peers.push(consumer(load, target, &read_by(index, consumers, places), load.kind)?);
    }
    Ok(peers)
}

fn producer(
    load: &Load,
    target: &Target,
    places: &[Place],
    index: usize,
    idempotence: Option<Idempotence>,
) -> Result<Peer, PerfError> {
    let each = load.partitions_of_each() as usize;
    let chosen = |step: usize| places[(index * each + step) % places.len()];
    let leader = chosen(0).leader;
    let mine: Vec<Place> = (0..each).map(chosen).filter(|place| place.leader == leader).collect();
    let consumers = if load.kind.follows() { load.consumers } else { 0 };
    let template = Template::new(load.batch_shape(), idempotence, index as u64, wall_ms());
    let requests = mine.chunks(load.partitions_per_request as usize).map(|chunk| {
        let partitions: Vec<i32> = chunk.iter().map(|place| place.partition).collect();
        let idempotent = idempotence.is_some();
        let frame = ProduceFrame::new(&target.topic, &partitions, &template, load.acks, idempotent);
        let readers = |place: &Place| {
            let reads = |&consumer: &usize| {
                let read = read_by(consumer, consumers, places);
                read.iter().any(|read| read.partition == place.partition)
            };
            (0..consumers).filter(reads).count() as u64
        };
        ProducerRequest::new(frame, chunk.iter().map(readers).sum())
    });
    let role = Role::Producer(Producer {
        requests: requests.collect(),
        next: 0,
        stamps: load.kind.follows(),
        answered: load.acks != 0,
    });
    Ok(Peer::new(Connection::open(leader, 0)?, role))
}

/// The partitions of one consumer of so many: each partition is read by one, or each consumer reads one.
fn read_by(index: usize, consumers: usize, places: &[Place]) -> Vec<Place> {
    if places.len() <= consumers {
        return vec![places[index % places.len()]];
    }
    places.iter().skip(index).step_by(consumers).copied().collect()
}

fn consumer(load: &Load, target: &Target, mine: &[Place], kind: Kind) -> Result<Peer, PerfError> {
    let leader = mine[0].leader;
    let wraps = kind == Kind::Fetch;
    let mine: Vec<&Place> = mine.iter().filter(|place| place.leader == leader).collect();
    let partitions: Vec<i32> = mine.iter().map(|place| place.partition).collect();
    let position = |place: &&Place| Position {
        partition: place.partition,
        start: place.start,
        next: if wraps { place.start } else { place.end },
    };
    let answer_bytes = (load.fetch_bytes as usize).saturating_mul(partitions.len());
    let role = Role::Consumer(Consumer {
        frame: FetchFrame::new(&target.topic, &partitions, load.fetch_shape()),
        positions: mine.iter().map(position).collect(),
        wraps,
        stamps: kind.follows() && load.compression == "none",
    });
    // What is behind is zeroed once; more is made when answers really are that large.
    Ok(Peer::new(Connection::open(leader, answer_bytes.min(4 << 20))?, role))
}

/// Looks at the broker while workers work.
struct Watch {
    process: Option<Process>,
    clock: Clock,
    timeline: Timeline,
    workers: usize,
    intervals: BTreeMap<u64, (usize, Interval)>,
    moments: Vec<Moment>,
    looks: [Option<(Look, Look)>; 2],
    last: (Nanos, f64),
    peak: u64,
    progress: Progress,
}

impl Watch {
    fn new(
        load: &Load,
        process: Option<Process>,
        clock: Clock,
        timeline: Timeline,
        shows_progress: bool,
        workers: usize,
    ) -> Self {
        Self {
            process,
            clock,
            timeline,
            workers,
            intervals: BTreeMap::new(),
            moments: Vec::new(),
            looks: [None; 2],
            last: (0, 0.0),
            peak: 0,
            progress: Progress::new(shows_progress, load),
        }
    }

    /// Until every worker has finished.
    fn run(&mut self, reports: &Receiver<Report>) -> Result<(), PerfError> {
        let mut finished = 0;
        self.clock.sleep_until(self.timeline.begin);
        self.look_briefly(self.clock.now());
        if self.timeline.warm_end <= self.timeline.begin {
            self.looks[0] = Some(self.look()?);
        }
        while finished < self.workers {
            let now = self.clock.now();
            if self.looks[0].is_none() && self.timeline.warm_end <= now {
                self.looks[0] = Some(self.look()?);
            }
            let wake = match self.looks[0] {
                None => self.timeline.warm_end,
                Some(_) => now + SECOND,
            };
            let patience = Duration::from_nanos(wake.saturating_sub(now).max(1));
            match reports.recv_timeout(patience) {
                Ok(Report::Finished) => finished += 1,
                Ok(Report::Interval { index, counted }) => self.count(index, &counted),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let end = self.look()?;
        self.looks[1] = Some(end);
        if self.looks[0].is_none() {
            self.looks[0] = Some(end);
        }
        self.progress.end();
        Ok(())
    }

    fn look(&self) -> Result<(Look, Look), PerfError> {
        let broker = self.process.map_or(Ok(Look::default()), Process::look)?;
        Ok((broker, Process::own().look()?))
    }

    /// Cores that the broker kept busy since the last time.
    fn look_briefly(&mut self, now: Nanos) -> (f64, u64) {
        let Some(process) = self.process else {
            return (0.0, 0);
        };
        let (cpu, resident) = (process.cpu_seconds(), process.resident_bytes());
        let (before, cpu_before) = self.last;
        self.last = (now, cpu);
        self.peak = self.peak.max(resident);
        let seconds = (now - before) as f64 / SECOND as f64;
        ((cpu - cpu_before) / seconds.max(1e-3), resident)
    }

    fn count(&mut self, index: u64, counted: &Interval) {
        let entry = self.intervals.entry(index).or_insert_with(|| (0, Interval::new()));
        entry.0 += 1;
        entry.1.merge(counted);
        if entry.0 < self.workers {
            return;
        }
        let interval = entry.1.clone();
        self.intervals.remove(&index);
        let (broker_cores, resident_bytes) = self.look_briefly(self.clock.now());
        let us = |percent| interval.percentile(percent) as f64 / 1e3;
        let moment = Moment {
            at_seconds: (index + 1) as f64,
            requests_per_second: (interval.produce.requests + interval.fetch.requests) as f64,
            bytes_per_second: (interval.produce.bytes + interval.fetch.bytes) as f64,
            p50_us: us(50.0),
            p99_us: us(99.0),
            max_us: us(100.0),
            broker_cores,
            resident_bytes,
            failed: interval.failed,
        };
        self.progress.show(&moment);
        self.moments.push(moment);
    }

    fn gather(self, load: &Load, target: &Target, done: Vec<Done>) -> Result<Outcome, PerfError> {
        let mut stats = Stats::new();
        let (mut unsent, mut unanswered, mut written) = (0, 0, 0);
        let (mut acknowledged, mut delivered) = (0, 0);
        let mut finished = self.timeline.warm_end;
        for each in &done {
            stats.merge(&each.stats);
            unsent += each.unsent;
            unanswered += each.unanswered;
            written += each.written;
            acknowledged += each.acknowledged;
            delivered += each.delivered;
            finished = finished.max(each.finished);
        }
        let seconds = (finished - self.timeline.warm_end) as f64 / SECOND as f64;
        let [Some(before), Some(after)] = self.looks else {
            return Err(PerfError::Worker);
        };
        let usage = |process: Process| process.usage(before.0, after.0, self.peak);
        let failures = stats.failures.iter();
        let undelivered: u64 =
            if load.kind.follows() { u64::saturating_sub(acknowledged, delivered) } else { 0 };
        Ok(Outcome {
            load: load.clone(),
            broker_address: target.address.to_string(),
            durability: load.durability(),
            seconds,
            produce: Flowed::new(&stats.produce, seconds),
            fetch: Flowed::new(&stats.fetch, seconds),
            records_written: written,
            delivery: Latency::new(&stats.delivery),
            broker: self.process.map(usage),
            client: Process::own().usage(before.1, after.1, 0),
            failures: failures.map(|(failure, &count)| (failure.name(), count)).collect(),
            unsent,
            unanswered,
            undelivered,
            moments: self.moments,
            ..Outcome::default()
        })
    }
}
