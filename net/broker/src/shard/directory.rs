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
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use pelton_machine::controller::is_unassigned;
use pelton_machine::image::PartitionImage;
use pelton_model::{ErrorCode, TopicId};
use pelton_storage::StorageError;
use pelton_storage::dir::probe;
use pelton_storage::disk::DiskError;
use pelton_transport::net::{Net, TaskClass};

use super::Shard;
use super::message::{LogSize, Message, Response};
use super::slot::Slot;
use crate::boot::{Directory, Found};
use crate::controller::Command;
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

    /// Whether the directory has failed, or could not be opened at the start.
    pub(crate) fn is_failed(&self, dir: DirIndex) -> bool {
        self.failed.get(dir.index()).is_none_or(Cell::get)
    }

    /// Notes the directories that could not be opened at the start.
    pub(crate) fn take_offline(&self, dirs: impl Iterator<Item = DirIndex>) {
        for dir in dirs {
            self.fail(dir);
        }
    }

    /// Notes the failure; whether it is news.
    fn fail(&self, dir: DirIndex) -> bool {
        let known = self.failed.get(dir.index());
        known.is_some_and(|failed| !failed.replace(true))
    }
}

impl<E: Env> Shard<E> {
    /// The log directory of a partition of this node: where it was found, else where the metadata says. None where that directory is
    /// not there.
    pub(crate) fn place(
        &self,
        partition: &PartitionImage,
        found: Option<&Found>,
    ) -> Option<DirIndex> {
        if let Some(found) = found {
            return Some(found.dir);
        }
        let named = partition.directory(self.config.node_id)?;
        let identity = self.identity();
        if !is_unassigned(named) {
            return identity.directory(named);
        }
        let mut numbered = (0_u16..).map(DirIndex).zip(&identity.directories);
        let usable = numbered.find(|(dir, directory)| {
            directory.takes_partitions && !self.directories.is_failed(*dir)
        });
        usable.map(|(dir, _)| dir)
    }

    /// Whether this node's replica of a partition lies in a directory that is not there.
    pub(crate) fn is_replica_offline(&self, partition: &PartitionImage) -> bool {
        let named = partition.directory(self.config.node_id);
        named.is_some_and(|named| {
            !is_unassigned(named)
                && self
                    .identity()
                    .directory(named)
                    .is_none_or(|dir| self.directories.is_failed(dir))
        })
    }

    /// What lies in the log directories that are there.
    pub(crate) fn log_sizes(&self) -> Vec<LogSize> {
        let slots = self.all_slots();
        let slots = slots
            .iter()
            .filter(|slot| !self.directories.is_failed(slot.dir()));
        let sizes = slots.map(|slot| LogSize {
            topic: Arc::clone(&slot.topic),
            partition: slot.id.partition.0,
            dir: slot.dir(),
            size_bytes: slot.log().size_bytes(),
            // A leader is never behind its own high watermark.
            offset_lag: 0,
            is_future: false,
        });
        sizes.chain(self.copy_sizes()).collect()
    }

    /// Whether a directory takes no new partitions, as the settings are now.
    pub(crate) fn is_cordoned(&self, directory: &Directory) -> bool {
        self.settings().cordoned_log_dirs.contains(&directory.path)
    }

    /// The ids of the directories that take no new partitions.
    pub(crate) fn cordoned_ids(&self) -> Vec<TopicId> {
        let directories = self.identity().directories.iter();
        let cordoned = directories.filter(|directory| self.is_cordoned(directory));
        cordoned.filter_map(|directory| directory.id).collect()
    }

    /// The directory of the metadata log.
    pub(crate) fn metadata_dir(&self) -> DirIndex {
        let directories = &self.identity().directories;
        let mut numbered = (0_u16..).zip(directories);
        let found = numbered.find(|(_, dir)| dir.path == self.config.metadata_log_dir);
        DirIndex(found.expect("it is among the configured ones").0)
    }

    /// Whether no directory is left for partitions.
    pub(crate) fn has_no_directory(&self) -> bool {
        let mut numbered = (0_u16..).map(DirIndex).zip(&self.identity().directories);
        numbered
            .all(|(dir, directory)| !directory.takes_partitions || self.directories.is_failed(dir))
    }

    /// A log cannot go on: takes its directory offline, or itself where the directory is not to blame.
    pub(crate) fn fail_log(self: &Rc<Self>, slot: &Rc<Slot<E>>, error: &StorageError) {
        if blame(error) != Blame::Directory && !slot.state.borrow().is_offline() {
            tracing::error!(topic = %slot.topic, partition = %slot.id.partition, %error, "the log failed: its partition is offline");
        }
        self.blame(slot.dir(), error);
        // Also where the directory was known to have failed.
        self.take_offline(slot);
    }

    /// Takes a directory offline if this error of one of its logs means that it cannot be used.
    pub(crate) fn blame(self: &Rc<Self>, dir: DirIndex, error: &StorageError) {
        match blame(error) {
            Blame::Directory => self.fail_directory(dir, error),
            Blame::Log => {}
            Blame::Unclear => {
                let shard = Rc::clone(self);
                self.net
                    .spawn(TaskClass::Background, async move { shard.probe(dir).await });
            }
        }
    }

    /// A file was missing: somebody may have removed one log, or the whole directory may be gone.
    async fn probe(self: Rc<Self>, dir: DirIndex) {
        let path = &self.identity().directories[dir.index()].path;
        if let Err(error) = probe(self.store.disk(), path).await {
            self.fail_directory_unless_of_process(dir, &StorageError::Disk(error));
        }
    }

    /// As [`Shard::fail_directory`], for an operation on the directory itself.
    pub(crate) fn fail_directory_unless_of_process(
        self: &Rc<Self>,
        dir: DirIndex,
        error: &StorageError,
    ) {
        match blame(error) {
            Blame::Directory | Blame::Unclear => self.fail_directory(dir, error),
            Blame::Log => {
                tracing::error!(dir = %dir, %error, "cannot use a log directory at the moment")
            }
        }
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
        self.after_failure(dir);
        for peer in self.shards().filter(|peer| *peer != self.id) {
            self.calls.post(peer, Message::DirectoryFailed(dir));
        }
    }

    /// Another shard met the failure.
    pub(crate) fn on_directory_failed(self: &Rc<Self>, dir: DirIndex) {
        if self.directories.fail(dir) {
            self.after_failure(dir);
        }
    }

    /// Has the controller write down what failed before it was there.
    pub(crate) fn report_failed_directories(self: &Rc<Self>) {
        let numbered = (0_u16..).map(DirIndex).zip(&self.identity().directories);
        for (dir, directory) in numbered {
            // What was offline at the start is not registered.
            if directory.id.is_some() && self.directories.is_failed(dir) {
                self.report(dir);
            }
        }
    }

    fn after_failure(self: &Rc<Self>, dir: DirIndex) {
        self.cancel_moves_to(dir);
        self.take_directory_offline(dir);
        self.report(dir);
    }

    /// On the controller's shard: the directory is no longer registered, and what lies there has no leader.
    fn report(self: &Rc<Self>, dir: DirIndex) {
        let Some(controller) = self.controller.get() else {
            return;
        };
        let directory = &self.identity().directories[dir.index()];
        if directory.path == self.config.metadata_log_dir {
            controller.fail();
        }
        if let Some(id) = directory.id {
            let controller = Rc::clone(controller);
            self.net.spawn(TaskClass::Background, async move {
                let _told: Response = controller.submit(Command::FailDirectory(id)).await;
            });
        }
    }

    fn take_directory_offline(self: &Rc<Self>, dir: DirIndex) {
        self.metadata_answers.clear();
        let slots: Vec<Rc<Slot<E>>> = self.all_slots();
        let slots = slots.into_iter().filter(|slot| slot.dir() == dir);
        let slots: Vec<Rc<Slot<E>>> = slots.collect();
        for slot in &slots {
            self.take_offline(slot);
        }
        self.follow_coordinators();
        self.net.spawn(TaskClass::Background, async move {
            for slot in slots {
                slot.log().release_failed().await;
            }
        });
    }

    /// Everything that waits on the partition is answered KAFKA_STORAGE_ERROR; what is queued for it will be by its flush.
    pub(crate) fn take_offline(&self, slot: &Slot<E>) {
        slot.state.borrow_mut().go_offline();
        slot.log().abandon();
        self.refuse_commits(slot.id, ErrorCode::KafkaStorageError);
        self.on_gone(slot.id);
    }
}

/// What an error of one log says of its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blame {
    /// It cannot be used.
    Directory,
    /// Nothing: the log, or the process, is in trouble.
    Log,
    /// Something is not there: the log alone, or all of it.
    Unclear,
}

fn blame(error: &StorageError) -> Blame {
    match error {
        StorageError::Disk(error) => blame_of_disk(error),
        // The error that failed the log was told when it did.
        StorageError::Failed { .. }
        | StorageError::Closed { .. }
        | StorageError::Corrupt { .. } => Blame::Log,
    }
}

fn blame_of_disk(error: &DiskError) -> Blame {
    // No directory would have done better.
    if error.is_shortage() {
        return Blame::Log;
    }
    let kind = error.source.kind();
    if kind == io::ErrorKind::NotFound {
        Blame::Unclear
    } else if matches!(
        kind,
        io::ErrorKind::AlreadyExists | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
    ) {
        // A log in the way of a new one; files that make no sense.
        Blame::Log
    } else {
        Blame::Directory
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use pelton_storage::Damage;

    use super::*;

    // Goal: one log's own trouble never takes its neighbours along, the device's always does. Method: a table of errors.
    #[test]
    fn whom_errors_blame() {
        fn check(error: &StorageError, expected: Blame) {
            assert_eq!(blame(error), expected, "{error}");
        }
        let disk = |errno| {
            let source = io::Error::from_raw_os_error(errno);
            StorageError::Disk(DiskError::new("write", Path::new("/d/t-0/0.log"), source))
        };
        // EIO, ENOSPC, EROFS, EACCES, EUCLEAN.
        for errno in [5, 28, 30, 13, 117] {
            check(&disk(errno), Blame::Directory);
        }
        // ENOMEM, ENFILE, EMFILE, EEXIST.
        for errno in [12, 23, 24, 17] {
            check(&disk(errno), Blame::Log);
        }
        check(&disk(2), Blame::Unclear);
        let path = PathBuf::from("/d/t-0");
        check(&StorageError::Failed { path: path.clone() }, Blame::Log);
        check(&StorageError::Closed { path: path.clone() }, Blame::Log);
        let damage = Damage::Checksum;
        check(
            &StorageError::Corrupt {
                path,
                position: 0,
                damage,
            },
            Blame::Log,
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
