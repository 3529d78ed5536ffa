//! Requests that wait: fetches for data, acks=all batches for replication.
//!
//! No lost wake-up. A fetch reads, finds too little, and only later watches; in between its partitions may move. So
//! [`Purgatory::watch`] takes for each partition the end that the read saw and the end as it is now, and refuses with
//! [`Watched::Moved`] when they differ: read again, then watch again. The caller takes both the current ends and the watch
//! in one stretch without await, and calls [`Purgatory::on_advance`] in the same stretch in which an end moves.
//! [`CommitWaiters::watch`] works likewise by the current high watermark.
//!
//! A fetch session's interests last from one request to the next: [`Standing`]. They are armed in the same stretch in which the read saw
//! that there is nothing more.
//!
//! Not here: what a waiter does when woken (it reads once more), and sessions.

mod commit;
mod fetch;
mod standing;
#[cfg(test)]
mod tests;

pub use commit::{CommitWaiters, CommitWatched};
pub use fetch::{Purgatory, Watched, WatchedEnd};
pub use standing::{Interest, Standing};

/// A waiting request: a number that the caller gives it, unique on its shard while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId(pub u64);
