//! A descriptor whose readiness is known: what to try, and when to wait instead.
//!
//! 1. Edges are remembered: reading is worth a try until a call has shown the descriptor to be empty, and again from the next
//!    event on. One poll of the kernel's tells of all of them, so a wait costs no new request.
//! 2. An end or an error is not forgotten by a short read: what comes behind the last bytes makes no second edge.
//! 3. Writing is waited for by one poll each time, which also tells of room that was there before: a short `sendfile` need
//!    not mean a full socket, and so promises no edge.
//! 4. One task at a time waits in each direction.

use std::fmt;
use std::future::{Future, poll_fn};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use rustix::event::PollFlags;

use super::driver::{Driver, Interest, PollKind};

/// What a read would find besides bytes; stays until a call has taken it.
const ENDS: PollFlags = PollFlags::RDHUP.union(PollFlags::HUP).union(PollFlags::ERR);

/// A nonblocking descriptor on the ring of its shard.
pub(super) struct Polled {
    fd: OwnedFd,
    driver: Rc<Driver>,
    readable: Rc<Interest>,
}

impl Polled {
    /// Takes a nonblocking descriptor. The kernel hears of it when there is something to wait for.
    pub(super) fn new(driver: &Rc<Driver>, fd: OwnedFd) -> Self {
        Self {
            fd,
            driver: Rc::clone(driver),
            readable: Interest::new(PollFlags::IN),
        }
    }

    pub(super) fn get(&self) -> &OwnedFd {
        &self.fd
    }

    /// Whether a read is worth a try.
    pub(super) fn may_be_readable(&self) -> bool {
        !self.readable.events().is_empty()
    }

    /// Says that a read has got less than it asked for.
    pub(super) fn on_short_read(&self) {
        self.readable.retain(ENDS);
    }

    /// Says that a read (or accept) found nothing.
    pub(super) fn on_nothing_to_read(&self) {
        self.readable.retain(PollFlags::empty());
    }

    /// Waits until a read is worth a try.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    pub(super) async fn readable(&self) {
        poll_fn(|context| {
            if self.may_be_readable() {
                return Poll::Ready(());
            }
            self.readable.wait(context);
            if !self.readable.is_polled() {
                let events = PollFlags::IN | PollFlags::RDHUP;
                self.driver
                    .poll(self.fd.as_fd(), events, PollKind::Multi, &self.readable);
            }
            Poll::Pending
        })
        .await;
    }

    /// Waits until there is room to write, or an error to be told by trying.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    pub(super) fn writable(&self) -> Writable<'_> {
        Writable {
            polled: self,
            interest: Interest::new(PollFlags::empty()),
        }
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        // Before the descriptor closes; the kernel lets go of the file at the end of the turn.
        self.driver.cancel(&self.readable);
    }
}

impl fmt::Debug for Polled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Polled")
            .field("fd", &self.fd)
            .field("readable", &self.readable.events())
            .finish_non_exhaustive()
    }
}

/// The future of [`Polled::writable`].
pub(super) struct Writable<'a> {
    polled: &'a Polled,
    interest: Rc<Interest>,
}

impl Future for Writable<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if !self.interest.events().is_empty() {
            return Poll::Ready(());
        }
        self.interest.wait(context);
        if !self.interest.is_polled() {
            let fd = self.polled.fd.as_fd();
            self.polled
                .driver
                .poll(fd, PollFlags::OUT, PollKind::Once, &self.interest);
        }
        Poll::Pending
    }
}

impl Drop for Writable<'_> {
    fn drop(&mut self) {
        self.polled.driver.cancel(&self.interest);
    }
}
