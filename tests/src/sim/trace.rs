//! What happened in a run: the last events for a failure's report, and a fingerprint of all of it.

use std::collections::VecDeque;
use std::fmt::Write as _;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};

use super::world::World;

/// Events that a failure prints.
const EVENTS_KEPT: usize = 120;

/// Something that happened.
#[derive(Debug)]
pub struct Event {
    /// Nanoseconds since the beginning.
    pub at: u64,
    /// The step.
    pub step: u64,
    /// What.
    pub what: String,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Trace {
    last: VecDeque<Event>,
    fingerprint: u64,
}

impl Trace {
    pub(super) fn push(&mut self, event: Event) {
        for byte in event.what.bytes() {
            self.mark(u64::from(byte));
        }
        self.mark(event.at);
        if self.last.len() == EVENTS_KEPT {
            self.last.pop_front();
        }
        self.last.push_back(event);
    }

    pub(super) fn mark(&mut self, value: u64) {
        let mixed = (self.fingerprint ^ value).wrapping_mul(0x0000_0100_0000_01b3);
        self.fingerprint = mixed.rotate_left(23) ^ (mixed >> 17);
    }

    pub(super) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    pub(super) fn last(&self) -> Vec<String> {
        let told = |event: &Event| {
            let (ms, rest) = (event.at / 1_000_000, event.at % 1_000_000 / 1_000);
            format!("{ms:>7}.{rest:03} ms  step {:>7}  {}", event.step, event.what)
        };
        self.last.iter().map(told).collect()
    }
}

thread_local! {
    static WORLD: std::cell::RefCell<Option<World>> = const { std::cell::RefCell::new(None) };
    static ERRORS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Errors that the broker has logged on this thread since [`log_into`].
#[must_use]
pub fn errors_logged() -> u64 {
    ERRORS.get()
}

/// Counts again from what [`errors_logged`] was.
pub fn forget_errors(logged: u64) {
    ERRORS.set(logged);
}

/// Runs `act` with what the broker logs going into the trace of `world`.
pub fn log_into<T>(world: &World, act: impl FnOnce() -> T) -> T {
    WORLD.with(|slot| *slot.borrow_mut() = Some(world.clone()));
    ERRORS.set(0);
    let result = tracing::subscriber::with_default(Logger, act);
    WORLD.with(|slot| *slot.borrow_mut() = None);
    result
}

/// Puts the broker's log lines into the trace.
struct Logger;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let written = if field.name() == "message" {
            write!(self.0, " {value:?}")
        } else {
            write!(self.0, " {}={value:?}", field.name())
        };
        written.expect("writing to a string succeeds");
    }
}

impl Subscriber for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let level = *event.metadata().level();
        if level == Level::ERROR {
            ERRORS.set(ERRORS.get() + 1);
        }
        let mut line = Line(format!("{level}"));
        event.record(&mut line);
        WORLD.with(|slot| {
            if let Some(world) = &*slot.borrow() {
                world.note(|| line.0);
            }
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
