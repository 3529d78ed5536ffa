//! The space behind a log's end, made ready by a helper thread ahead of the appends: blocks reserved, filler written.
//!
//! Two sides share a [`Preparation`]: the owner, who appends, and the helper's job, which works it off piece by piece. The
//! danger is a piece of filler that comes over an append. So:
//!
//! 1. Filler is written only at or beyond `ready`, and only with the lock held.
//! 2. Before an append writes beyond `ready` it calls [`Preparation::enter`], which moves `ready` behind the append, with
//!    the lock held. A piece that was begun has ended then, and a later one begins behind the append: the helper skips
//!    ahead, the append never waits for more than the one piece that is being written.
//! 3. After [`Preparation::stop`] nothing is reserved or written until the owner asks anew.
//! 4. A failed piece (a full disk, a filesystem without reservations) is nobody's error: appends then grow the file.
//! 5. One job at a time, whatever the number of helper threads.
//!
//! The filler is no run of zeros: [`FILLER`] reads as the begin of a batch that the file cannot hold. Kafka's recovery cuts either,
//! but DumpLogSegments ends with an exception where it reads a length of zero, and only names a torn end otherwise.
//!
//! It does not know how far ahead is worth while: the log's pace does.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Filler is written in pieces of this size: larger ones keep the file's lock, and whoever appends, for too long.
pub const FILL_PIECE_BYTES: u64 = 64 * 1024;

/// The byte that prepared space is filled with: any four make a length beyond what follows, save in a file of nearly 2 GiB that the topic
/// preallocates.
pub const FILLER: u8 = 0x7f;

/// What a piece does to a file.
pub trait Blank {
    /// Reserves blocks for `[from, to)`; neither contents nor size change.
    fn reserve(&mut self, from: u64, to: u64) -> io::Result<()>;
    /// Writes filler over `[from, to)`, at most [`FILL_PIECE_BYTES`].
    fn write_filler(&mut self, from: u64, to: u64) -> io::Result<()>;
}

#[derive(Debug, Default)]
struct State {
    /// Everything below was written, by an append or with filler.
    ready: u64,
    /// Filler is wanted up to here.
    filler_to: u64,
    /// Blocks are reserved up to here.
    reserved: u64,
    /// Blocks are wanted up to here.
    reserve_to: u64,
    /// A job works on it, or will.
    is_running: bool,
    /// A piece failed: nothing more is tried.
    has_failed: bool,
    /// The filesystem reserves nothing.
    no_reservations: bool,
}

/// A step of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Reserve { from: u64, to: u64 },
    Filler { from: u64, to: u64 },
}

impl State {
    fn next(&self) -> Option<Piece> {
        if self.has_failed {
            return None;
        }
        let (from, to) = (self.reserved.max(self.ready), self.reserve_to);
        if from < to && !self.no_reservations {
            return Some(Piece::Reserve { from, to });
        }
        let from = self.ready;
        let piece_end = (from / FILL_PIECE_BYTES + 1) * FILL_PIECE_BYTES;
        let to = piece_end.min(self.filler_to);
        (from < to).then_some(Piece::Filler { from, to })
    }

    fn done(&mut self, piece: Piece, result: &io::Result<()>) {
        match (piece, result) {
            (Piece::Reserve { to, .. }, Ok(())) => self.reserved = to,
            (Piece::Filler { to, .. }, Ok(())) => self.ready = to,
            (Piece::Reserve { .. }, Err(error)) if error.kind() == io::ErrorKind::Unsupported => {
                self.no_reservations = true;
            }
            (Piece::Reserve { .. } | Piece::Filler { .. }, Err(_)) => self.has_failed = true,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Preparation(Arc<Mutex<State>>);

impl Preparation {
    /// Nothing is prepared behind `end`; blocks are reserved up to `reserved`.
    #[must_use]
    pub fn new(end: u64, reserved: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            ready: end,
            reserved,
            ..State::default()
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The owner is about to write up to `end`; returns up to where it may write without asking again.
    #[must_use]
    pub fn enter(&self, end: u64) -> u64 {
        let mut state = self.lock();
        state.ready = state.ready.max(end);
        state.ready
    }

    /// The owner, whose log ends at `end`, wants filler up to `filler_to` and blocks up to `reserve_to`. Says whether a job must
    /// be started for it.
    #[must_use]
    pub fn ask(&self, end: u64, filler_to: u64, reserve_to: u64) -> bool {
        let mut state = self.lock();
        state.ready = state.ready.max(end);
        state.filler_to = filler_to;
        state.reserve_to = reserve_to;
        let wants_job = !state.is_running && state.next().is_some();
        state.is_running |= wants_job;
        wants_job
    }

    /// Withdraws what was asked, before the file is cut. When it returns, no piece is being written, and none will be.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.filler_to = 0;
        state.reserve_to = 0;
    }

    /// The helper's side: does one piece; `false` when there is none, and the job ends.
    #[must_use]
    pub fn step(&self, file: &mut impl Blank) -> bool {
        let mut state = self.lock();
        let Some(piece) = state.next() else {
            state.is_running = false;
            return false;
        };
        let result = match piece {
            Piece::Reserve { from, to } => file.reserve(from, to),
            Piece::Filler { from, to } => file.write_filler(from, to),
        };
        state.done(piece, &result);
        if let Err(error) = result {
            tracing::debug!(?piece, %error, "cannot prepare a log's tail");
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Remembers what was done; fails with the error, if there is one.
    #[derive(Default)]
    struct Script {
        done: Vec<Piece>,
        error: Option<io::ErrorKind>,
    }

    impl Script {
        fn take(&mut self, piece: Piece) -> io::Result<()> {
            self.done.push(piece);
            self.error.map_or(Ok(()), |kind| Err(kind.into()))
        }
    }

    impl Blank for Script {
        fn reserve(&mut self, from: u64, to: u64) -> io::Result<()> {
            self.take(Piece::Reserve { from, to })
        }

        fn write_filler(&mut self, from: u64, to: u64) -> io::Result<()> {
            self.take(Piece::Filler { from, to })
        }
    }

    const KIB: u64 = 1024;

    fn filler(from: u64, to: u64) -> Piece {
        Piece::Filler {
            from: from * KIB,
            to: to * KIB,
        }
    }

    // Goal: blocks come before filler, filler in aligned pieces, one job at a time. Method: ask twice, work it off.
    #[test]
    fn works_off_what_is_asked() {
        let preparation = Preparation::new(10 * KIB, 0);
        assert!(preparation.ask(10 * KIB, 150 * KIB, 1024 * KIB));
        assert!(!preparation.ask(10 * KIB, 150 * KIB, 1024 * KIB));
        let mut script = Script::default();
        while preparation.step(&mut script) {}
        let reserve = Piece::Reserve {
            from: 10 * KIB,
            to: 1024 * KIB,
        };
        let expected = vec![reserve, filler(10, 64), filler(64, 128), filler(128, 150)];
        assert_eq!(script.done, expected);
        assert!(preparation.ask(10 * KIB, 160 * KIB, 1024 * KIB));
    }

    // Goal: no filler where an append is or was. Method: an append enters between pieces, in the middle of what was asked.
    #[test]
    fn skips_what_appends_took() {
        let preparation = Preparation::new(0, 0);
        assert!(preparation.ask(0, 256 * KIB, 0));
        let mut script = Script::default();
        assert!(preparation.step(&mut script));
        assert_eq!(preparation.enter(10 * KIB), 64 * KIB);
        assert_eq!(preparation.enter(100 * KIB), 100 * KIB);
        while preparation.step(&mut script) {}
        let expected = vec![
            filler(0, 64),
            filler(100, 128),
            filler(128, 192),
            filler(192, 256),
        ];
        assert_eq!(script.done, expected);
    }

    // Goal: a stop ends the work between pieces. Method: stop after the first.
    #[test]
    fn stops_between_pieces() {
        let preparation = Preparation::new(0, 0);
        assert!(preparation.ask(0, 256 * KIB, 0));
        let mut script = Script::default();
        assert!(preparation.step(&mut script));
        preparation.stop();
        assert!(!preparation.step(&mut script));
        assert_eq!(script.done, vec![filler(0, 64)]);
    }

    // Goal: failures end the work without noise; a filesystem that cannot reserve still gets filler. Method: both errors.
    #[test]
    fn failures_end_it() {
        let check = |kind, pieces| {
            let preparation = Preparation::new(0, 0);
            assert!(preparation.ask(0, 128 * KIB, 128 * KIB));
            let mut script = Script {
                error: Some(kind),
                ..Script::default()
            };
            assert!(preparation.step(&mut script));
            script.error = None;
            while preparation.step(&mut script) {}
            assert_eq!(script.done.len(), pieces, "{kind:?}");
        };
        check(io::ErrorKind::StorageFull, 1);
        check(io::ErrorKind::Unsupported, 3);
    }
}
