//! The end of a segment: its files get the suffix `.deleted` and go later ([`crate::trash`]).
//!
//! Invariants:
//! 1. The log file is renamed first: what a crash leaves of the others are orphans, which the next start removes.
//! 2. Whoever still holds a doomed segment goes on reading it, through its new names.
//! 3. Descriptors that were handed out are known until they are closed: a file somebody reads is not truncated.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Weak;

use pelton_model::Offset;

use super::{FileKind, Segment, file_path};
use crate::disk::range::lent;
use crate::disk::{Disk, DiskError};

/// What a segment remembers for its end.
#[derive(Debug, Default)]
pub(super) struct Doom {
    is_doomed: Cell<bool>,
    /// Descriptors that were handed out and still in use when the segment was released.
    lent: RefCell<Vec<Weak<OwnedFd>>>,
}

/// Files of a segment, the log first.
const KINDS: [FileKind; 5] = [
    FileKind::Log,
    FileKind::Index,
    FileKind::TimeIndex,
    FileKind::TxnIndex,
    FileKind::Snapshot,
];

/// The path of a file that is about to go.
pub(crate) fn deleted_path(directory: &Path, base: Offset, kind: FileKind) -> PathBuf {
    let mut path = file_path(directory, base, kind).into_os_string();
    path.push(".deleted");
    PathBuf::from(path)
}

impl<D: Disk> Segment<D> {
    /// Where a file of the segment is now.
    pub(crate) fn path(&self, kind: FileKind) -> PathBuf {
        if self.doom.is_doomed.get() {
            deleted_path(&self.home.directory, self.base, kind)
        } else {
            file_path(&self.home.directory, self.base, kind)
        }
    }

    /// Whether the files were renamed to be deleted.
    pub(crate) fn is_doomed(&self) -> bool {
        self.doom.is_doomed.get()
    }

    /// A sync that found the files of a doomed segment gone has not failed: nobody will read them again.
    pub(crate) fn forgive(&self, synced: Result<(), DiskError>) -> Result<(), DiskError> {
        match synced {
            Err(error) if self.is_doomed() && error.is_not_found() => Ok(()),
            synced => synced,
        }
    }

    /// Renames the files to `.deleted`; the producer snapshot at the base too unless it serves another segment.
    pub(crate) async fn doom(&self, with_snapshot: bool) -> Result<(), DiskError> {
        assert!(!self.is_doomed());
        for kind in KINDS {
            if kind == FileKind::Snapshot && !with_snapshot {
                continue;
            }
            let from = file_path(&self.home.directory, self.base, kind);
            let to = deleted_path(&self.home.directory, self.base, kind);
            match self.home.disk.rename(&from, &to).await {
                Err(error) if error.is_not_found() && kind != FileKind::Log => {}
                renamed => renamed?,
            }
            self.doom.is_doomed.set(true);
        }
        Ok(())
    }

    /// The files of a doomed segment, the log first. Not all need exist.
    pub(crate) fn doomed_files(&self) -> impl Iterator<Item = PathBuf> {
        KINDS
            .into_iter()
            .map(|kind| deleted_path(&self.home.directory, self.base, kind))
    }

    /// Takes note of a descriptor in use elsewhere, before the segment lets go of its own.
    pub(super) fn note_lent(&self) {
        let file = self.file.borrow().clone();
        let Some(descriptor) = file.and_then(|file| lent(&*file)) else {
            return;
        };
        let mut lent = self.doom.lent.borrow_mut();
        lent.retain(|lent| lent.strong_count() > 0);
        lent.push(descriptor);
    }

    /// The descriptors that readers may still hold. The segment gives up its own.
    pub(crate) fn take_lent(&self) -> Vec<Weak<OwnedFd>> {
        self.release();
        self.doom.lent.take()
    }

    /// Whether a reader (or another task of the shard) still holds the log file.
    pub(crate) fn is_read(self: &Rc<Self>) -> bool {
        self.note_lent();
        let lent = self.doom.lent.borrow();
        let file = self.file.borrow();
        Rc::strong_count(self) > 1
            || file.as_ref().is_some_and(|file| Rc::strong_count(file) > 1)
            || lent.iter().any(|lent| lent.strong_count() > 0)
    }
}
