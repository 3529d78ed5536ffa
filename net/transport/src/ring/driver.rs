//! The io_uring of a shard: polls of descriptors, and the wait for the next of them.
//!
//! 1. One `io_uring_enter` both hands over what was asked since the last and waits; none is made while tasks are ready and
//!    the kernel has nothing to tell.
//! 2. A slot lives until the kernel's last word on its poll, whoever has lost interest meanwhile, so a completion never
//!    meets another poll's slot.
//! 3. The kernel is given no pointers: a poll names a descriptor and a slot, so nothing has to outlive an operation.
//!    A poll holds the file itself open, not the descriptor: closing a polled descriptor ends nothing until it is cancelled.
//! 4. Wakers run when nothing here is borrowed.
//!
//! Newer kernels are asked to run completions only when the shard asks for them (DEFER_TASKRUN, from 6.1), or at least
//! only within system calls (COOP_TASKRUN, from 5.19); older ones interrupt. All of them need what Linux 5.13 has.
//!
//! Source: io_uring_setup(2), io_uring_enter(2).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{Builder, EnterFlags, IoUring, cqueue, opcode, squeue};
use rustix::event::PollFlags;
use rustix::io::Errno;
use slab::Slab;

/// Polls asked for in one turn before an extra system call hands them over.
const SUBMISSIONS: u32 = 256;
/// Completions the kernel has room for; more wait on its side until these are taken.
const COMPLETIONS: u32 = 1024;
/// What marks the completion of a cancellation, which tells nothing.
const CANCELLATION: u64 = u64::MAX;

/// Whether one poll tells of one event or of all that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PollKind {
    /// The first event, also one of the past.
    Once,
    /// Every event from now on; the first also of the past.
    Multi,
}

/// What is known of one descriptor in one direction, and who waits for more.
#[derive(Debug)]
pub(super) struct Interest {
    /// What has happened and was not taken back since.
    events: Cell<PollFlags>,
    /// The slot of the poll under way.
    slot: Cell<Option<usize>>,
    waker: RefCell<Option<Waker>>,
}

impl Interest {
    /// Interest in a descriptor that may be `ready` already.
    pub(super) fn new(ready: PollFlags) -> Rc<Self> {
        Rc::new(Self {
            events: Cell::new(ready),
            slot: Cell::new(None),
            waker: RefCell::new(None),
        })
    }

    pub(super) fn events(&self) -> PollFlags {
        self.events.get()
    }

    /// Forgets events, all but `kept`.
    pub(super) fn retain(&self, kept: PollFlags) {
        self.events.set(self.events.get() & kept);
    }

    pub(super) fn is_polled(&self) -> bool {
        self.slot.get().is_some()
    }

    /// Makes `context` the one to be woken.
    pub(super) fn wait(&self, context: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        match waker.as_ref() {
            Some(known) if known.will_wake(context.waker()) => {}
            Some(_) | None => *waker = Some(context.waker().clone()),
        }
    }
}

/// The ring of the thread it was made on.
pub(super) struct Driver {
    ring: RefCell<IoUring>,
    interests: RefCell<Slab<Rc<Interest>>>,
    /// Used while reaping, kept for its memory.
    woken: RefCell<Vec<Waker>>,
    wait_flags: EnterFlags,
}

impl Driver {
    pub(super) fn new() -> io::Result<Self> {
        let ring = build(SUBMISSIONS, COMPLETIONS)?;
        let wait_flags = if ring.params().is_feature_no_iowait() {
            EnterFlags::NO_IOWAIT
        } else {
            EnterFlags::empty()
        };
        Ok(Self {
            ring: RefCell::new(ring),
            interests: RefCell::default(),
            woken: RefCell::default(),
            wait_flags,
        })
    }

    /// Asks to be told of `events` of `fd`. The interest must not be polled already.
    pub(super) fn poll(
        &self,
        fd: BorrowedFd<'_>,
        events: PollFlags,
        kind: PollKind,
        interest: &Rc<Interest>,
    ) {
        assert!(!interest.is_polled(), "one poll at a time");
        let slot = self.interests.borrow_mut().insert(Rc::clone(interest));
        interest.slot.set(Some(slot));
        let entry = opcode::PollAdd::new(Fd(fd.as_raw_fd()), u32::from(events.bits()))
            .multi(kind == PollKind::Multi)
            .build();
        self.push(&entry.user_data(slot as u64));
    }

    /// Ends the poll of `interest`, if there is one; it hears nothing more.
    pub(super) fn cancel(&self, interest: &Interest) {
        interest.waker.take();
        if let Some(slot) = interest.slot.take() {
            // Not a removal of the poll: that one does nothing when an event is just on its way to the shard, and then the
            // kernel would poll, and hold the file open, for ever.
            let entry = opcode::AsyncCancel::new(slot as u64).build();
            self.push(&entry.user_data(CANCELLATION));
        }
    }

    fn push(&self, entry: &squeue::Entry) {
        loop {
            let pushed = {
                let mut ring = self.ring.borrow_mut();
                let mut queue = ring.submission();
                #[expect(unsafe_code, reason = "the queue takes any operation, sound or not")]
                // SAFETY: polls and their cancellations hold no pointers, so no memory has to stay valid for them; a
                // descriptor that was closed meanwhile makes them fail, or tell a dead slot of another file.
                unsafe {
                    queue.push(entry)
                }
            };
            if pushed.is_ok() {
                return;
            }
            self.turn();
        }
    }

    /// Whether the kernel has something to tell. Costs no system call.
    pub(super) fn has_news(&self) -> bool {
        let mut ring = self.ring.borrow_mut();
        if !ring.completion().is_empty() {
            return true;
        }
        let queue = ring.submission();
        queue.taskrun() || queue.cq_overflow()
    }

    /// Whether everything asked for was handed to the kernel.
    pub(super) fn is_handed_over(&self) -> bool {
        self.ring.borrow_mut().submission().is_empty()
    }

    /// Hands over what was asked and takes what is there, without waiting. Without either, no system call.
    pub(super) fn turn(&self) {
        let entered = {
            let mut ring = self.ring.borrow_mut();
            let queue = ring.submission();
            let is_wanted = !queue.is_empty() || queue.taskrun() || queue.cq_overflow();
            drop(queue);
            if is_wanted { ring.submit() } else { Ok(0) }
        };
        endure(entered);
        self.reap();
    }

    /// Hands over what was asked, waits for an event or until `timeout` is over, and takes what is there.
    pub(super) fn wait(&self, timeout: Option<Duration>) {
        let entered = {
            let ring = self.ring.borrow();
            let submitter = ring.submitter();
            let timespec = timeout.map(Timespec::from);
            let mut args = SubmitArgs::new();
            if let Some(timespec) = &timespec {
                args = args.timespec(timespec);
            }
            submitter.submit_with_args_and_flags(1, &args, self.wait_flags)
        };
        endure(entered);
        self.reap();
    }

    /// Waits until the kernel holds nothing more of what was cancelled; gives up when that takes long.
    pub(super) fn settle(&self) {
        const TURNS_MAX: u32 = 64;
        for _ in 0..TURNS_MAX {
            self.turn();
            let is_settled =
                |(slot, interest): (usize, &Rc<Interest>)| interest.slot.get() == Some(slot);
            if self.interests.borrow().iter().all(is_settled) {
                return;
            }
        }
    }

    fn reap(&self) {
        let mut woken = self.woken.take();
        {
            let mut ring = self.ring.borrow_mut();
            let mut interests = self.interests.borrow_mut();
            for completion in ring.completion() {
                woken.extend(complete(&mut interests, &completion));
            }
        }
        for waker in woken.drain(..) {
            waker.wake();
        }
        self.woken.replace(woken);
    }
}

/// Notes what one completion tells; returns whom to wake.
fn complete(interests: &mut Slab<Rc<Interest>>, completion: &cqueue::Entry) -> Option<Waker> {
    if completion.user_data() == CANCELLATION {
        return None;
    }
    let slot = usize::try_from(completion.user_data()).expect("slots were made from usize");
    let interest = Rc::clone(
        interests
            .get(slot)
            .expect("a slot lives until the last word on it"),
    );
    if !cqueue::more(completion.flags()) {
        interests.remove(slot);
        // After a cancellation the interest may have another poll already.
        if interest.slot.get() == Some(slot) {
            interest.slot.set(None);
        } else {
            return None;
        }
    } else if interest.slot.get() != Some(slot) {
        return None;
    }
    // What the kernel cannot poll is tried, and tells its error itself.
    let events =
        u16::try_from(completion.result()).map_or(PollFlags::ERR, PollFlags::from_bits_retain);
    interest.events.set(interest.events.get() | events);
    interest.waker.take()
}

/// Takes from the ring's errors what passes by itself; there are no others for what we ask.
fn endure(entered: io::Result<usize>) {
    let Err(error) = entered else { return };
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        // The time is up; a signal came; the kernel is short of memory or of room for completions.
        Some(Errno::TIME | Errno::INTR | Errno::AGAIN | Errno::BUSY | Errno::NOMEM) => {}
        Some(_) | None => panic!("io_uring_enter fails on a ring of ours: {error}"),
    }
}

/// Makes a ring with the best mode the kernel has.
fn build(submissions: u32, completions: u32) -> io::Result<IoUring> {
    type Mode = fn(&mut Builder);
    const MODES: [Mode; 3] = [
        |builder| {
            builder
                .setup_single_issuer()
                .setup_defer_taskrun()
                .setup_taskrun_flag();
        },
        |builder| {
            builder.setup_coop_taskrun().setup_taskrun_flag();
        },
        |_| {},
    ];
    let mut refused = io::Error::from(io::ErrorKind::Unsupported);
    for mode in MODES {
        let mut builder = IoUring::builder();
        builder.setup_cqsize(completions);
        mode(&mut builder);
        match builder.build(submissions) {
            // EINVAL: a flag that this kernel does not know.
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                refused = error
            }
            result => return result,
        }
    }
    Err(refused)
}

/// Makes a small ring and drops it; tells whether the kernel has all that a shard needs.
///
/// # Errors
/// Why the kernel gives no ring.
pub(crate) fn try_ring() -> io::Result<bool> {
    let ring = build(2, 4)?;
    let params = ring.params();
    // Timeouts of the wait came with 5.11; polls that tell of many events with 5.13, as did resource tags, which show.
    Ok(params.is_feature_ext_arg()
        && params.is_feature_nodrop()
        && params.is_feature_resource_tagging())
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("polls", &self.interests.borrow().len())
            .finish_non_exhaustive()
    }
}
