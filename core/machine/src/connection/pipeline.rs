//! Which request of a connection may run, and which answer leaves next.
//!
//! Invariants:
//! 1. Answers leave in the order of their requests, whatever finishes first; a request without an answer (acks=0) leaves a
//!    hole, not a delay.
//! 2. Produce runs ahead of Produce only, at most [`PRODUCE_IN_FLIGHT_MAX`] at once; every other request starts when all
//!    before it have finished and is alone until it has finished. One connection's appends to a partition therefore keep
//!    their order as long as Produce requests are planned in the order of [`Pipeline::begin`].
//! 3. Once a request has ended in [`Outcome::Close`] nothing starts any more, and no answer behind it leaves.
//!
//! Source: Kafka's one request in flight per connection, relaxed where no client can tell.

use std::collections::VecDeque;

use pelton_model::limits::PRODUCE_IN_FLIGHT_MAX;

/// What ordering needs to know of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestClass {
    /// May run with other Produce requests.
    Produce,
    /// Runs alone.
    Barrier,
}

/// A request's place among those of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// Send this.
    Answer(T),
    /// Send nothing and go on (acks=0).
    Silent,
    /// Send what was asked before, nothing of what was asked after, and close (acks=0 with an error, undecodable bytes).
    Close,
}

/// What the writing side does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing<T> {
    /// Send this.
    Answer(T),
    /// Close; there is nothing more to send.
    Close,
}

/// The requests of one connection that have begun and whose answers have not left.
#[derive(Debug)]
pub struct Pipeline<T> {
    /// The ticket of `slots[0]`.
    first: u64,
    /// `None`: still running.
    slots: VecDeque<Option<Outcome<T>>>,
    running: usize,
    barrier_runs: bool,
    /// A request has ended in `Close`.
    is_closing: bool,
    /// Its turn to leave has come.
    is_closed: bool,
}

impl<T> Default for Pipeline<T> {
    fn default() -> Self {
        Self {
            first: 0,
            slots: VecDeque::new(),
            running: 0,
            barrier_runs: false,
            is_closing: false,
            is_closed: false,
        }
    }
}

impl<T> Pipeline<T> {
    /// Whether a request of `class` may begin now. If not, ask again after the next [`Pipeline::finish`]; frames behind
    /// it wait too.
    #[must_use]
    pub fn admits(&self, class: RequestClass) -> bool {
        if self.is_closing {
            return false;
        }
        match class {
            RequestClass::Produce => !self.barrier_runs && self.slots.len() < PRODUCE_IN_FLIGHT_MAX,
            RequestClass::Barrier => self.running == 0 && self.slots.len() < PRODUCE_IN_FLIGHT_MAX,
        }
    }

    /// Begins a request.
    ///
    /// # Panics
    /// When it is not admitted.
    pub fn begin(&mut self, class: RequestClass) -> Ticket {
        assert!(self.admits(class));
        let ticket = Ticket(self.first + self.slots.len() as u64);
        self.slots.push_back(None);
        self.running += 1;
        self.barrier_runs = class == RequestClass::Barrier;
        ticket
    }

    /// Ends a request. Its outcome is dropped when the connection closes before it.
    ///
    /// # Panics
    /// When the ticket was never given out, or has been finished.
    pub fn finish(&mut self, ticket: Ticket, outcome: Outcome<T>) {
        assert!(self.first <= ticket.0);
        let index = usize::try_from(ticket.0 - self.first).expect("a ticket within the queue");
        assert!(self.slots[index].is_none());
        if matches!(outcome, Outcome::Close) {
            self.is_closing = true;
        }
        self.slots[index] = Some(outcome);
        self.running -= 1;
        self.barrier_runs = false;
    }

    /// The next thing to send, in request order; `None` while the oldest request runs or there is none.
    ///
    /// After [`Outgoing::Close`] it answers `Close` for ever.
    pub fn pop(&mut self) -> Option<Outgoing<T>> {
        while !self.is_closed {
            self.slots.front()?.as_ref()?;
            let outcome = self.slots.pop_front().flatten()?;
            self.first += 1;
            match outcome {
                Outcome::Answer(answer) => return Some(Outgoing::Answer(answer)),
                Outcome::Silent => {}
                Outcome::Close => self.is_closed = true,
            }
        }
        Some(Outgoing::Close)
    }

    /// Whether nothing runs and nothing waits to be sent.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.slots.is_empty()
    }

    /// Requests that have begun and not finished.
    #[must_use]
    pub fn running_count(&self) -> usize {
        self.running
    }

    /// Whether a request has ended in [`Outcome::Close`]: drop undispatched frames, receive nothing more.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }
}
