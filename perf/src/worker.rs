//! A thread of the load: its connections, its share of the schedule, one epoll.
//!
//! Invariants:
//! 1. Nothing is allocated for a request; what a request needs was built before the run.
//! 2. An open loop sends by the schedule alone. Where every connection is full the request waits, and its latency runs.
//! 3. What was due and was never sent or answered has the latency it had when it was given up, at least: it counts.
//! 4. After the end nothing new is sent; what is in flight is awaited until the drain's end, then counted as unanswered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fd::OwnedFd;

use crate::clock::{Clock, Nanos, SECOND, wall_ms};
use crate::error::{PerfError, io_error};
use crate::peer::{Headline, Ledger, Peer, Timeline};
use crate::schedule::Schedule;
use crate::stats::{Interval, Stats};

/// The longest wait, so that the end of an interval is never far.
const WAIT_MAX: Nanos = SECOND / 20;
const EVENTS_MAX: usize = 256;
/// Requests without an answer (acks=0) that are queued before the socket is looked at.
const UNANSWERED_BURST: usize = 16;

/// What all workers see of each other.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    acknowledged: AtomicU64,
    delivered: AtomicU64,
    /// Workers whose producers may still have answers to come.
    pub(crate) producing: AtomicUsize,
}

/// What a worker is told.
#[derive(Debug)]
pub(crate) struct Orders {
    pub(crate) headline: Headline,
    pub(crate) clock: Clock,
    pub(crate) timeline: Timeline,
    /// None: a closed loop.
    pub(crate) schedule: Option<Schedule>,
    pub(crate) depth: usize,
    /// Polls without sleeping.
    pub(crate) spins: bool,
    /// Whether consumers follow the producers.
    pub(crate) follows: bool,
    pub(crate) requests_max: u64,
    pub(crate) bytes_max: u64,
    pub(crate) flow: Arc<Flow>,
    pub(crate) reports: Sender<Report>,
}

/// What a worker tells while it runs.
#[derive(Debug)]
pub(crate) enum Report {
    /// What was counted in one interval.
    Interval {
        /// Which one, from the begin.
        index: u64,
        /// What was counted.
        counted: Box<Interval>,
    },
    /// Nothing more is sent.
    Finished,
}

/// What a worker has to show.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) stats: Stats,
    /// When the measuring ended here.
    pub(crate) finished: Nanos,
    pub(crate) unsent: u64,
    pub(crate) unanswered: u64,
    pub(crate) written: u64,
    pub(crate) acknowledged: u64,
    pub(crate) delivered: u64,
}

/// A thread of the load.
pub(crate) struct Worker {
    orders: Orders,
    peers: Vec<Peer>,
    ledger: Ledger,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    /// Indexes of producers, and which of them is next.
    producers: Vec<usize>,
    turn: usize,
    touched: Vec<usize>,
    interval: u64,
    published: (u64, u64),
    is_over: bool,
}

impl Worker {
    pub(crate) fn new(orders: Orders, peers: Vec<Peer>) -> Result<Self, PerfError> {
        let failed = || io_error("preparing", "epoll");
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed())?;
        for (index, peer) in peers.iter().enumerate() {
            let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
            let data = epoll::EventData::new_u64(index as u64);
            epoll::add(&epoll, peer.connection.stream(), data, flags).map_err(failed())?;
        }
        let producers = (0..peers.len()).filter(|&index| peers[index].is_producer()).collect();
        Ok(Self {
            ledger: Ledger::new(orders.timeline, orders.headline, wall_ms()),
            orders,
            peers,
            epoll,
            events: Vec::with_capacity(EVENTS_MAX),
            producers,
            turn: 0,
            touched: Vec::new(),
            interval: 0,
            published: (0, 0),
            is_over: false,
        })
    }

    /// Runs the load to its end.
    pub(crate) fn run(mut self) -> Result<Done, PerfError> {
        self.orders.clock.sleep_until(self.orders.timeline.begin);
        self.start();
        let mut finished = self.orders.timeline.end;
        loop {
            let now = self.orders.clock.now();
            if self.orders.timeline.end <= now || self.is_full() {
                finished = finished.min(now);
                break;
            }
            self.tick(now);
            self.send_due(now);
            self.send_unanswered(now);
            self.wait(now)?;
            self.handle_events()?;
        }
        self.drain(finished)
    }

    /// The first requests: all there may be in a closed loop, and each consumer's one.
    fn start(&mut self) {
        let now = self.orders.clock.now();
        let closed = self.orders.schedule.is_none();
        for peer in &mut self.peers {
            let requests = match peer.is_producer() {
                true if closed => self.orders.depth,
                true => 0,
                // Consumers that follow are never on a schedule.
                false if closed || self.orders.follows => 1,
                false => 0,
            };
            for _ in 0..requests {
                peer.send(now, &self.ledger);
            }
            peer.flush(now, &mut self.ledger);
        }
        if self.producers.is_empty() && !self.orders.follows {
            // A schedule of fetches is served by consumers.
            self.producers = (0..self.peers.len()).collect();
        }
    }

    fn is_full(&self) -> bool {
        let total = &self.ledger.total;
        let produced = 0 < total.produce.counts.requests;
        let counts = if produced { total.produce.counts } else { total.fetch.counts };
        let full = |count: u64, most: u64| 0 < most && most <= count;
        full(counts.requests, self.orders.requests_max)
            || full(counts.bytes, self.orders.bytes_max)
            || self.peers.iter().all(|peer| !peer.is_open())
    }

    /// Sends what is due, each on the next connection with room.
    fn send_due(&mut self, now: Nanos) {
        let Some(schedule) = &mut self.orders.schedule else {
            return;
        };
        while let Some(due) = schedule.due().filter(|&due| due <= now) {
            let depth = self.orders.depth;
            let count = self.producers.len();
            let free = (0..count).map(|step| (self.turn + step) % count).find(|&turn| {
                let peer = &self.peers[self.producers[turn]];
                peer.is_open() && peer.in_flight() < depth
            });
            let Some(turn) = free else { break };
            self.turn = (turn + 1) % count;
            let index = self.producers[turn];
            self.peers[index].send(due, &self.ledger);
            self.touched.push(index);
            schedule.advance();
        }
        for index in self.touched.drain(..) {
            self.peers[index].flush(now, &mut self.ledger);
        }
    }

    /// Without answers a closed loop goes as fast as sockets take it.
    fn send_unanswered(&mut self, now: Nanos) {
        if !self.is_unanswered() {
            return;
        }
        for &index in &self.producers {
            let peer = &mut self.peers[index];
            if peer.is_open() && !peer.connection.is_blocked() {
                for _ in 0..self.orders.depth.min(UNANSWERED_BURST) {
                    peer.send(now, &self.ledger);
                }
                peer.flush(now, &mut self.ledger);
            }
        }
    }

    fn is_unanswered(&self) -> bool {
        let first = self.producers.first().map(|&index| &self.peers[index]);
        self.orders.schedule.is_none() && first.is_some_and(Peer::is_unanswered)
    }

    /// Waits for the next event or the next request that is due.
    fn wait(&mut self, now: Nanos) -> Result<(), PerfError> {
        let failed = || io_error("waiting on", "epoll");
        let timeline = &self.orders.timeline;
        let mut at = (now + WAIT_MAX).min(timeline.end.max(now));
        if let Some(due) = self.orders.schedule.as_ref().and_then(Schedule::due)
            && now < due
        {
            at = at.min(due);
        }
        let eager = self.is_unanswered()
            && self.producers.iter().any(|&index| !self.peers[index].connection.is_blocked());
        let mut timeout = if self.orders.spins || eager { 0 } else { at - now };
        if 0 < timeout && timeout < WAIT_MAX && self.orders.schedule.is_some() {
            // epoll sleeps whole milliseconds, poll does not.
            let mut files = [PollFd::new(&self.epoll, PollFlags::IN)];
            poll(&mut files, Some(&timespec(timeout))).map_err(failed())?;
            timeout = 0;
        }
        self.events.clear();
        let waited =
            epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&timespec(timeout)));
        match waited {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(failed()(error)),
        }
    }

    fn handle_events(&mut self) -> Result<(), PerfError> {
        for event in 0..self.events.len() {
            let index = self.events[event].data.u64() as usize;
            self.handle(index)?;
        }
        Ok(())
    }

    fn handle(&mut self, index: usize) -> Result<(), PerfError> {
        let Some(peer) = self.peers.get_mut(index) else {
            return Ok(());
        };
        let clock = self.orders.clock;
        let closed = self.orders.schedule.is_none();
        let goes_on = match peer.is_producer() {
            true => closed && !self.is_over,
            false => self.orders.follows || closed && !self.is_over,
        };
        if peer.connection.is_blocked() {
            peer.flush(clock.now(), &mut self.ledger);
        }
        loop {
            let (answers, more) = peer.receive(|| clock.now(), &mut self.ledger)?;
            if goes_on && 0 < answers {
                let now = clock.now();
                for _ in 0..answers {
                    peer.send(now, &self.ledger);
                }
            }
            if !more {
                break;
            }
        }
        peer.flush(clock.now(), &mut self.ledger);
        Ok(())
    }

    /// What is to be done now and then.
    fn tick(&mut self, now: Nanos) {
        let Self { ledger, orders, .. } = self;
        let second = now.saturating_sub(orders.timeline.begin) / SECOND;
        // Who was held up for longer than an interval has nothing to tell of those that it missed.
        while self.interval < second {
            let counted = std::mem::replace(&mut ledger.interval, Interval::new());
            let index = self.interval;
            // Whoever collects may have given up.
            drop(orders.reports.send(Report::Interval { index, counted: Box::new(counted) }));
            self.interval += 1;
            ledger.second = second;
            ledger.wall_ms = wall_ms();
        }
    }

    fn publish(&mut self) {
        let now = (self.ledger.acknowledged, self.ledger.delivered);
        let flow = &self.orders.flow;
        flow.acknowledged.fetch_add(now.0 - self.published.0, Ordering::Relaxed);
        flow.delivered.fetch_add(now.1 - self.published.1, Ordering::Release);
        self.published = now;
    }

    fn drain(mut self, finished: Nanos) -> Result<Done, PerfError> {
        self.is_over = true;
        self.ledger.end(finished);
        drop(self.orders.reports.send(Report::Finished));
        let mut unsent = 0;
        if let Some(schedule) = self.orders.schedule.take() {
            for due in schedule.backlog(finished) {
                unsent += 1;
                self.ledger.given_up(due, finished);
            }
        }
        let mut producing = true;
        loop {
            let now = self.orders.clock.now();
            let in_flight = self.in_flight();
            self.publish();
            if producing && in_flight == 0 {
                producing = false;
                self.orders.flow.producing.fetch_sub(1, Ordering::AcqRel);
            }
            let flow = &self.orders.flow;
            let missing = self.orders.follows
                && (0 < flow.producing.load(Ordering::Acquire)
                    || flow.delivered.load(Ordering::Acquire)
                        < flow.acknowledged.load(Ordering::Relaxed));
            if self.orders.timeline.drain_end <= now || in_flight == 0 && !missing {
                break;
            }
            self.tick(now);
            self.orders.timeline.end = now + SECOND / 1_000;
            self.wait(now)?;
            self.handle_events()?;
        }
        let unanswered = self.in_flight() as u64;
        let now = self.orders.clock.now();
        let follows = self.orders.follows;
        for peer in self.peers.iter().filter(|peer| peer.is_producer() || !follows) {
            peer.dues().for_each(|due| self.ledger.given_up(due, now));
        }
        Ok(Done {
            stats: self.ledger.total,
            finished,
            unsent,
            unanswered,
            written: self.ledger.written,
            acknowledged: self.ledger.acknowledged,
            delivered: self.ledger.delivered,
        })
    }

    /// Requests that are still to be answered; long polls of consumers that follow are not.
    fn in_flight(&self) -> usize {
        let awaited = self.peers.iter().filter(|peer| peer.is_producer() || !self.orders.follows);
        awaited.map(Peer::in_flight).sum()
    }
}

fn timespec(nanos: Nanos) -> Timespec {
    Timespec { tv_sec: (nanos / SECOND) as i64, tv_nsec: (nanos % SECOND) as i64 }
}
