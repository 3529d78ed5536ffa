//! Log directories at run time: which have failed, and what a failure means on this shard.
//!
//! Invariants:
//! 1. A directory fails once and for good: until the process starts again nothing is written to it, read from it or retried.
//! 2. Whichever shard meets the failure logs it and tells every other; each takes its own partitions of the directory offline, in the
//!    stretch without await in which it learns of it.
//! 3. What is only the trouble of one log (damage, a descriptor that could not be had) takes that log offline, not its directory.
//!
//! Source: KIP-112. Kafka halts when its last directory or the metadata directory fails; here whoever asks is told so instead.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use pelton_model::ErrorCode;
use pelton_storage::StorageError;
use pelton_storage::disk::DiskError;
use pelton_transport::net::{Net, TaskClass};

use super::Shard;
use super::message::Message;
use super::slot::Slot;
use crate::env::Env;

/// Which log directory of this node: its place in [`crate::boot::Identity::directories`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirIndex(pub u16);

impl DirIndex {
    /// The place in a list with one entry for each directory.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for DirIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which directories have failed, as this shard knows.
#[derive(Debug)]
pub(crate) struct DirectoryStates {
    failed: Vec<Cell<bool>>,
}

impl DirectoryStates {
    /// Of so many directories, none has failed.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            failed: (0..count).map(|_| Cell::new(false)).collect(),
        }
    }

    /// Whether the directory has failed.
    pub(crate) fn is_failed(&self, dir: DirIndex) -> bool {
        self.failed.get(dir.index()).is_none_or(Cell::get)
    }

    /// Notes the failure; whether it is news.
    fn fail(&self, dir: DirIndex) -> bool {
        let known = self.failed.get(dir.index());
        known.is_some_and(|failed| !failed.replace(true))
    }
}

impl<E: Env> Shard<E> {
    /// A log cannot go on: takes its directory offline, or itself where the directory is not to blame.
    pub(crate) fn fail_log(self: &Rc<Self>, slot: &Rc<Slot<E>>, error: &StorageError) {
        if blames_directory(error) {
            self.fail_directory(slot.dir, error);
        } else if !slot.state.borrow().is_offline() {
            tracing::error!(topic = %slot.topic, partition = %slot.id.partition, %error, "the log failed: its partition is offline");
        }
        // Also where the directory was known to have failed.
        self.take_offline(slot);
    }

    /// A log directory failed: its partitions are offline on every shard until the process starts again.
    pub(crate) fn fail_directory(self: &Rc<Self>, dir: DirIndex, error: &StorageError) {
        if !self.directories.fail(dir) {
            return;
        }
        let path = self
            .identity
            .get()
            .and_then(|identity| identity.directories.get(dir.index()));
        let path = path.map_or_else(String::new, |known| known.path.display().to_string());
        tracing::error!(directory = %path, %error, "a log directory failed: its partitions are offline until the next start");
        self.take_directory_offline(dir);
        for peer in self.shards().filter(|peer| *peer != self.id) {
            self.calls.post(peer, Message::DirectoryFailed(dir));
        }
    }

    /// Another shard met the failure.
    pub(crate) fn on_directory_failed(self: &Rc<Self>, dir: DirIndex) {
        if self.directories.fail(dir) {
            self.take_directory_offline(dir);
        }
    }

    fn take_directory_offline(self: &Rc<Self>, dir: DirIndex) {
        let slots: Vec<Rc<Slot<E>>> = self.all_slots();
        let slots = slots.into_iter().filter(|slot| slot.dir == dir);
        let slots: Vec<Rc<Slot<E>>> = slots.collect();
        for slot in &slots {
            self.take_offline(slot);
        }
        self.net.spawn(TaskClass::Background, async move {
            for slot in slots {
                slot.log.release_failed().await;
            }
        });
    }

    /// Everything that waits on the partition is answered KAFKA_STORAGE_ERROR; what is queued for it will be by its flush.
    fn take_offline(&self, slot: &Slot<E>) {
        slot.state.borrow_mut().go_offline();
        slot.log.abandon();
        self.refuse_commits(slot.id, ErrorCode::KafkaStorageError);
        self.on_gone(slot.id);
    }
}

/// Whether an error of one log means that its directory cannot be used.
fn blames_directory(error: &StorageError) -> bool {
    match error {
        StorageError::Disk(error) => !is_of_the_process(error),
        // The error that failed the log was told when it did.
        StorageError::Failed { .. }
        | StorageError::Closed { .. }
        | StorageError::Corrupt { .. } => false,
    }
}

/// Out of descriptors or memory: no directory would have done better.
fn is_of_the_process(error: &DiskError) -> bool {
    const ENOMEM: i32 = 12;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.source.raw_os_error(), Some(ENOMEM | ENFILE | EMFILE))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::{Path, PathBuf};

    use pelton_storage::Damage;

    use super::*;

    // Goal: one log's own trouble never takes its neighbours along, the device's always does. Method: a table of errors.
    #[test]
    fn whom_errors_blame() {
        fn check(error: &StorageError, is_directory: bool) {
            assert_eq!(blames_directory(error), is_directory, "{error}");
        }
        let disk = |errno| {
            let source = io::Error::from_raw_os_error(errno);
            StorageError::Disk(DiskError::new("write", Path::new("/d/t-0/0.log"), source))
        };
        for errno in [5, 28, 30, 13, 2, 117] {
            check(&disk(errno), true);
        }
        for errno in [12, 23, 24] {
            check(&disk(errno), false);
        }
        let path = PathBuf::from("/d/t-0");
        check(&StorageError::Failed { path: path.clone() }, false);
        check(&StorageError::Closed { path: path.clone() }, false);
        let damage = Damage::Checksum;
        check(
            &StorageError::Corrupt {
                path,
                position: 0,
                damage,
            },
            false,
        );
    }

    // Goal: a failure is news once, and a directory nobody knows serves nothing. Method: fail, ask, fail again.
    #[test]
    fn failures_are_news_once() {
        let states = DirectoryStates::new(2);
        assert!(!states.is_failed(DirIndex(1)));
        assert!(states.fail(DirIndex(1)));
        assert!(!states.fail(DirIndex(1)));
        assert!(states.is_failed(DirIndex(1)));
        assert!(!states.is_failed(DirIndex(0)));
        assert!(states.is_failed(DirIndex(2)));
        assert!(!states.fail(DirIndex(2)));
    }
}
