//! When a connection's requests were where: one stamp for each stage, and what is counted when the answer has left.
//!
//! Invariants:
//! 1. Clocks stand in the order of the requests and leave in it, as the answers do.
//! 2. Stamps are taken where the time is read anyway: after a receive, before a batch is handed over, after a write and after a send.
//!    Only the end of what is not Produce is read for this.
//! 3. Nothing is allocated for a request once a connection has sent a few.
//! 4. Where nothing is measured, every call returns at once.
//!
//! The stages of a request, in order; each ends where the next begins:
//!
//! | stage | from | to |
//! |---|---|---|
//! | receive | its first bytes were received | its last ones were |
//! | queue | | the requests before it let it begin |
//! | handle | | decoded, checked, and handed to the owners; of other APIs all that is not named below |
//! | mesh | | another shard has taken it; and its answer has come back |
//! | append | | its batches are written |
//! | sync | | they are durable, where the topic wants that |
//! | commit | | the high watermark covers them |
//! | wait | | a fetch has waited for records, as it asked to; a member of a group for the others |
//! | respond | | its answer has been handed to the kernel, behind those of earlier requests |

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use pelton_model::Monotonic;
use pelton_model::limits::TOPICS_TIMED_MAX;
use pelton_protocol::api::ApiKey;
use pelton_protocol::codec::Str;

use super::Metrics;
use super::series::Series;
use super::slow::SlowRequest;
use super::stages::{AppendStages, STAGES, Stage, StageTimes};

/// Members of a group wait for each other with these.
const WAITING_APIS: [i16; 2] = [ApiKey::JoinGroup.code(), ApiKey::SyncGroup.code()];

/// How a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// Its answer is ready or on its way.
    Answered,
    /// It has none (acks=0).
    Silent,
}

/// One request's stamps.
#[derive(Debug)]
struct Clock {
    series: Rc<Series>,
    correlation_id: i32,
    state: State,
    bytes_in: u64,
    bytes_out: u64,
    first_byte: Monotonic,
    received: Monotonic,
    begun: Monotonic,
    /// When its handler was through with it.
    handled: Monotonic,
    append: Option<AppendStages>,
    mesh_ns: u64,
    wait_ns: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Timeline {
    is_on: bool,
    inner: RefCell<Inner>,
}

#[derive(Debug)]
struct Inner {
    clocks: VecDeque<Clock>,
    /// The number of `clocks[0]`.
    first: u64,
    /// Clocks at the front whose answers leave with the next send.
    leaving: usize,
    /// The topics of the requests under way, with the requests' numbers.
    topics: VecDeque<(u64, Rc<Series>)>,
    /// When the first bytes of the frame that comes next were received.
    first_byte: Monotonic,
    received: Monotonic,
    /// The newest time that is known.
    last: Monotonic,
    client: Option<Str>,
    /// The series of `client`, by API.
    known: Vec<Rc<Series>>,
}

/// What a request is begun with.
pub(crate) struct Begin<'a> {
    pub(crate) api: i16,
    pub(crate) correlation_id: i32,
    pub(crate) client_id: Option<&'a str>,
    /// With its length prefix.
    pub(crate) bytes: usize,
}

impl Timeline {
    pub(crate) fn new(metrics: &Metrics, now: Monotonic) -> Self {
        Self {
            is_on: metrics.is_on,
            inner: RefCell::new(Inner {
                clocks: VecDeque::new(),
                first: 0,
                leaving: 0,
                topics: VecDeque::new(),
                first_byte: now,
                received: now,
                last: now,
                client: None,
                known: Vec::new(),
            }),
        }
    }

    /// Bytes were received; `was_empty`: none of their frame had been before.
    #[inline]
    pub(crate) fn on_received(&self, now: Monotonic, was_empty: bool) {
        if self.is_on {
            let mut inner = self.inner.borrow_mut();
            if was_empty {
                inner.first_byte = now;
            }
            inner.received = now;
            inner.last = now;
        }
    }

    /// A request begins; its handler runs until the next request may. Returns its number.
    #[inline]
    pub(crate) fn begin(&self, metrics: &Metrics, begin: &Begin<'_>) -> u64 {
        if !self.is_on {
            return 0;
        }
        let inner = &mut *self.inner.borrow_mut();
        let series = inner.series(metrics, begin.api, begin.client_id);
        inner.clocks.push_back(Clock {
            series,
            correlation_id: begin.correlation_id,
            state: State::Running,
            bytes_in: begin.bytes as u64,
            bytes_out: 0,
            first_byte: inner.first_byte,
            received: inner.received,
            begun: inner.last,
            handled: inner.last,
            append: None,
            mesh_ns: 0,
            wait_ns: 0,
        });
        // The bytes behind it came with its last ones.
        inner.first_byte = inner.received;
        inner.first + inner.clocks.len() as u64
    }

    /// The present request concerns this topic.
    #[inline]
    pub(crate) fn on_topic(&self, topic: &Rc<Series>) {
        if self.is_on {
            let inner = &mut *self.inner.borrow_mut();
            let number = inner.first + inner.clocks.len() as u64;
            let mine = inner
                .topics
                .iter()
                .rev()
                .take_while(|(of, _)| *of == number);
            if mine.count() < TOPICS_TIMED_MAX {
                inner.topics.push_back((number, Rc::clone(topic)));
            }
        }
    }

    /// The handler of the present request is through with it at `now`.
    #[inline]
    pub(crate) fn on_handled(&self, now: Monotonic) {
        if self.is_on {
            let inner = &mut *self.inner.borrow_mut();
            inner.last = now;
            if let Some(clock) = inner.clocks.back_mut() {
                clock.handled = now;
                if WAITING_APIS.contains(&clock.series.api) {
                    clock.wait_ns = now.since(clock.begun);
                }
            }
        }
    }

    /// The present request spent some of its handler's time waiting: for records or for other shards.
    pub(crate) fn on_waited(&self, stage: Stage, nanoseconds: u64) {
        if self.is_on
            && let Some(clock) = self.inner.borrow_mut().clocks.back_mut()
        {
            match stage {
                Stage::Wait => clock.wait_ns += nanoseconds,
                Stage::Receive
                | Stage::Queue
                | Stage::Handle
                | Stage::Mesh
                | Stage::Append
                | Stage::Sync
                | Stage::Commit
                | Stage::Respond => clock.mesh_ns += nanoseconds,
            }
        }
    }

    /// What became of a request: it will be answered, or not. `append` are the stages of its batches.
    #[inline]
    pub(crate) fn on_finished(
        &self,
        metrics: &Metrics,
        number: u64,
        append: Option<AppendStages>,
        is_silent: bool,
    ) {
        if !self.is_on {
            return;
        }
        let inner = &mut *self.inner.borrow_mut();
        let Some(index) = number.checked_sub(inner.first + 1) else {
            return;
        };
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let Some(clock) = inner.clocks.get_mut(index) else {
            return;
        };
        clock.append = append;
        clock.state = if is_silent {
            State::Silent
        } else {
            State::Answered
        };
        if is_silent && inner.leaving == 0 {
            inner.count_silent(metrics);
        }
    }

    /// The next answer is among those that are sent next.
    #[inline]
    pub(crate) fn on_popped(&self, bytes: usize) {
        if self.is_on {
            let inner = &mut *self.inner.borrow_mut();
            while let Some(clock) = inner.clocks.get_mut(inner.leaving) {
                inner.leaving += 1;
                if clock.state != State::Silent {
                    clock.bytes_out = bytes as u64;
                    break;
                }
            }
        }
    }

    /// The answers that were popped have left.
    #[inline]
    pub(crate) fn on_sent(&self, metrics: &Metrics, now: Monotonic) {
        if self.is_on {
            let inner = &mut *self.inner.borrow_mut();
            inner.last = now;
            for _ in 0..std::mem::take(&mut inner.leaving) {
                inner.count_first(metrics, now);
            }
            inner.count_silent(metrics);
        }
    }
}

impl Inner {
    /// The series of a request. A connection seldom changes its name.
    fn series(&mut self, metrics: &Metrics, api: i16, client: Option<&str>) -> Rc<Series> {
        if self.client.as_deref() == client {
            if let Some(known) = self.known.iter().find(|series| series.api == api) {
                return Rc::clone(known);
            }
        } else {
            self.client = client.map(Str::from);
            self.known.clear();
        }
        let mut clients = metrics.clients.borrow_mut();
        let series = clients.get(api, client.unwrap_or_default(), self.last);
        self.known.push(Rc::clone(&series));
        series
    }

    /// Requests without an answer are over when they are decided and all before them are.
    fn count_silent(&mut self, metrics: &Metrics) {
        let is_silent = |clock: &Clock| clock.state == State::Silent;
        while self.clocks.front().is_some_and(is_silent) {
            let decided = self.clocks[0].append.map(|append| append.decided);
            let now = decided.unwrap_or(self.last);
            self.count_first(metrics, now);
        }
    }

    fn count_first(&mut self, metrics: &Metrics, now: Monotonic) {
        let Some(clock) = self.clocks.pop_front() else {
            return;
        };
        self.first += 1;
        let total_ns = now.since(clock.received).saturating_sub(clock.wait_ns);
        let (bytes_in, bytes_out) = (clock.bytes_in, clock.bytes_out);
        clock.series.count(total_ns, bytes_in, bytes_out, now);
        let is_slow = metrics.slow_ns.get() <= total_ns + clock.received.since(clock.first_byte);
        let mut slow_topic = None;
        while let Some((_, topic)) = self.topics.pop_front_if(|(of, _)| *of == self.first) {
            topic.count(total_ns, bytes_in, bytes_out, now);
            if is_slow && slow_topic.is_none() {
                slow_topic = Some(topic.name.clone());
            }
        }
        if is_slow {
            metrics.slow.borrow_mut().push(SlowRequest {
                api: clock.series.api,
                client_id: self.client.clone(),
                topic: slow_topic,
                correlation_id: clock.correlation_id,
                bytes_in,
                bytes_out,
                ended: now,
                stages: clock.stages(now),
            });
        }
    }
}

impl Clock {
    /// How long each stage took, when its answer had left at `now`.
    fn stages(&self, now: Monotonic) -> StageTimes {
        let mut times: StageTimes = [0; STAGES];
        let mut put = |stage: Stage, ns: u64| times[stage as usize] = ns;
        put(Stage::Receive, self.received.since(self.first_byte));
        put(Stage::Queue, self.begun.since(self.received));
        let waited = self.wait_ns + self.mesh_ns;
        put(
            Stage::Handle,
            self.handled.since(self.begun).saturating_sub(waited),
        );
        put(Stage::Wait, self.wait_ns);
        let Some(append) = &self.append else {
            put(Stage::Mesh, self.mesh_ns);
            put(Stage::Respond, now.since(self.handled));
            return times;
        };
        let (mut there, mut back) = (self.handled, append.decided);
        if let Some((arrived, returned)) = append.mesh {
            put(
                Stage::Mesh,
                arrived.since(self.handled) + returned.since(append.decided),
            );
            (there, back) = (arrived, returned);
        }
        put(Stage::Append, append.written.since(there));
        put(Stage::Sync, append.synced.since(append.written));
        put(Stage::Commit, append.decided.since(append.synced));
        put(Stage::Respond, now.since(back));
        times
    }
}
