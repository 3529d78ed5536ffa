//! What a shard's logs have thrown away: files renamed to `.deleted` and directories renamed to `…-delete`, removed when
//! their time has come.
//!
//! Invariants:
//! 1. Nothing is removed before it is due, and never more than the budget of one call: large files are truncated in
//!    steps before they are unlinked, so that no single call makes the filesystem free gigabytes.
//! 2. A file that a reader still holds is only unlinked: its bytes stay readable until the last descriptor is closed.
//! 3. A path stands here once: what is renamed over it takes its place.
//! 4. What cannot be removed, or was not when the process ended, is left to the next start, which puts `.deleted` files and
//!    `…-delete` directories here again.
//!
//! Absent here: clocks and tasks. The owner calls [`Trash::empty`] from time to time.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Weak;

use pelton_model::Monotonic;

use crate::config::TRASH_FILE_BYTES_MIN;
use crate::disk::{Disk, DiskError, DiskFile, OpenMode};
use crate::segment::{FileKind, Segment};

/// What is thrown away.
enum Waste<D: Disk> {
    /// The files of a segment.
    Segment(Rc<Segment<D>>),
    /// A file that a start found, or put aside; nobody reads it.
    File,
    /// A directory with everything in it, and descriptors of its files that were in use when it was renamed.
    Directory(Vec<Weak<OwnedFd>>),
}

struct Entry<D: Disk> {
    due: Monotonic,
    waste: Waste<D>,
}

struct Contents<D: Disk> {
    by_path: BTreeMap<PathBuf, Entry<D>>,
    by_due: BTreeSet<(Monotonic, PathBuf)>,
}

struct Inner<D: Disk> {
    disk: D,
    contents: RefCell<Contents<D>>,
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct Trash<D: Disk>(Rc<Inner<D>>);

/// What one call of [`Trash::empty`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Emptied {
    /// Bytes given back, counting small files as [`TRASH_FILE_BYTES_MIN`] each.
    pub bytes: u64,
    /// Whether more is due already.
    pub has_more: bool,
}

/// Whether something is gone after a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Gone,
    More,
}

impl<D: Disk> Trash<D> {
    pub(crate) fn new(disk: D) -> Self {
        Self(Rc::new(Inner {
            disk,
            contents: RefCell::new(Contents {
                by_path: BTreeMap::new(),
                by_due: BTreeSet::new(),
            }),
        }))
    }

    /// When the next thing is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Monotonic> {
        let contents = self.0.contents.borrow();
        contents.by_due.first().map(|(due, _)| *due)
    }

    /// How many segments and directories are due, counted up to `at_most`.
    #[must_use]
    pub fn due_count(&self, now: Monotonic, at_most: usize) -> usize {
        let contents = self.0.contents.borrow();
        let due = contents.by_due.iter().take_while(|(due, _)| *due <= now);
        due.take(at_most).count()
    }

    /// How many segments and directories wait to be removed.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.contents.borrow().by_path.len()
    }

    /// Takes the files of a doomed segment.
    pub(crate) fn put_segment(&self, segment: Rc<Segment<D>>, due: Monotonic) {
        assert!(segment.is_doomed());
        self.put(segment.path(FileKind::Log), due, Waste::Segment(segment));
    }

    /// Takes a file that nobody has open, under a name that nothing is renamed to.
    pub(crate) fn put_file(&self, path: PathBuf, due: Monotonic) {
        self.put(path, due, Waste::File);
    }

    /// Takes a directory that was renamed away, or that a start found so.
    pub fn put_directory(&self, path: PathBuf, due: Monotonic) {
        self.put(path, due, Waste::Directory(Vec::new()));
    }

    /// As [`Trash::put_directory`], with descriptors of its files that may be in use.
    pub(crate) fn put_log(&self, path: PathBuf, lent: Vec<Weak<OwnedFd>>, due: Monotonic) {
        self.put(path, due, Waste::Directory(lent));
    }

    fn put(&self, path: PathBuf, due: Monotonic, waste: Waste<D>) {
        let mut contents = self.0.contents.borrow_mut();
        let entry = Entry { due, waste };
        if let Some(old) = contents.by_path.insert(path.clone(), entry) {
            contents.by_due.remove(&(old.due, path.clone()));
        }
        contents.by_due.insert((due, path));
    }

    /// Whether something waits that lies in `directory`.
    pub(crate) fn has_below(&self, directory: &Path) -> bool {
        let contents = self.0.contents.borrow();
        let next = contents.by_path.range(directory.to_owned()..).next();
        next.is_some_and(|(path, _)| path.starts_with(directory))
    }

    /// Forgets what lies in `directory`: it was renamed, and goes as a whole.
    pub(crate) fn forget_below(&self, directory: &Path) {
        let mut contents = self.0.contents.borrow_mut();
        let from = directory.to_owned();
        let inside: Vec<PathBuf> = contents
            .by_path
            .range(from..)
            .map(|(path, _)| path)
            .take_while(|path| path.starts_with(directory))
            .cloned()
            .collect();
        for path in inside {
            if let Some(entry) = contents.by_path.remove(&path) {
                contents.by_due.remove(&(entry.due, path));
            }
        }
    }

    /// Removes what is due, at most about `bytes_max` bytes of it.
    pub async fn empty(&self, now: Monotonic, bytes_max: u64) -> Emptied {
        let mut left = bytes_max;
        while left > 0 {
            let Some((path, entry)) = self.take_due(now) else {
                break;
            };
            match self.remove(&path, &entry.waste, &mut left).await {
                Ok(Step::Gone) => {}
                Ok(Step::More) => {
                    self.put_back(path, entry);
                    break;
                }
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "cannot remove what was deleted; the next start will");
                }
            }
        }
        Emptied {
            bytes: bytes_max - left,
            has_more: self.next_due().is_some_and(|due| due <= now),
        }
    }

    fn take_due(&self, now: Monotonic) -> Option<(PathBuf, Entry<D>)> {
        let mut contents = self.0.contents.borrow_mut();
        let (due, _) = contents.by_due.first()?;
        if now < *due {
            return None;
        }
        let (_, path) = contents.by_due.pop_first()?;
        let entry = contents.by_path.remove(&path);
        Some((path, entry.expect("both maps hold the same paths")))
    }

    fn put_back(&self, path: PathBuf, entry: Entry<D>) {
        let is_replaced = self.0.contents.borrow().by_path.contains_key(&path);
        if !is_replaced {
            self.put(path, entry.due, entry.waste);
        }
    }

    async fn remove(
        &self,
        path: &Path,
        waste: &Waste<D>,
        left: &mut u64,
    ) -> Result<Step, DiskError> {
        match waste {
            Waste::Segment(segment) => {
                let is_read = segment.is_read();
                segment.release();
                for file in segment.doomed_files() {
                    if self.remove_file(&file, is_read, left).await? == Step::More {
                        return Ok(Step::More);
                    }
                }
                Ok(Step::Gone)
            }
            Waste::File => self.remove_file(path, false, left).await,
            Waste::Directory(lent) => {
                let is_read = lent.iter().any(|lent| lent.strong_count() > 0);
                self.remove_directory(path, is_read, left).await
            }
        }
    }

    async fn remove_directory(
        &self,
        path: &Path,
        is_read: bool,
        left: &mut u64,
    ) -> Result<Step, DiskError> {
        let entries = match self.0.disk.read_dir(path).await {
            Err(error) if error.is_not_found() => return Ok(Step::Gone),
            entries => entries?,
        };
        for entry in entries.into_iter().filter(|entry| !entry.is_dir) {
            if *left == 0 {
                return Ok(Step::More);
            }
            let file = path.join(entry.name);
            if self.remove_file(&file, is_read, left).await? == Step::More {
                return Ok(Step::More);
            }
        }
        match self.0.disk.remove_dir_all(path).await {
            Err(error) if error.is_not_found() => Ok(Step::Gone),
            removed => removed.map(|()| Step::Gone),
        }
    }

    /// Unlinks a file; a large one that nobody reads is cut first, as far as the budget goes.
    async fn remove_file(
        &self,
        path: &Path,
        is_read: bool,
        left: &mut u64,
    ) -> Result<Step, DiskError> {
        let disk = &self.0.disk;
        let file = match disk.open(path, OpenMode::Write).await {
            Err(error) if error.is_not_found() => return Ok(Step::Gone),
            file => file?,
        };
        let size = file.size_bytes().await?;
        if *left < size && !is_read {
            file.set_size(size - *left).await?;
            *left = 0;
            return Ok(Step::More);
        }
        drop(file);
        *left = left.saturating_sub(size.max(TRASH_FILE_BYTES_MIN));
        match disk.remove_file(path).await {
            Err(error) if error.is_not_found() => Ok(Step::Gone),
            removed => removed.map(|()| Step::Gone),
        }
    }
}

impl<D: Disk> fmt::Debug for Trash<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trash")
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}
