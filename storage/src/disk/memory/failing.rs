//! Devices that fail, wholly or in one respect, until they are mended.

use std::path::Path;

use super::super::OpenMode;
use super::{MemoryDisk, World};

/// Which operations fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// All: the device is gone.
    Everything,
    /// Those that change anything: the filesystem was remounted read-only.
    Changes,
    /// Those that need room: the filesystem is full.
    Growth,
    /// Reads of file contents: bad sectors.
    Reads,
}

impl Failing {
    fn hits(self, operation: &str) -> bool {
        let needs_room = ["write", "allocate", "create directory"];
        let changes = ["truncate", "rename", "remove"];
        match self {
            Self::Everything => true,
            Self::Changes => needs_room.contains(&operation) || changes.contains(&operation),
            Self::Growth => needs_room.contains(&operation),
            Self::Reads => operation == "read",
        }
    }

    fn hits_open(self, mode: OpenMode, exists: bool) -> bool {
        match (self, mode) {
            (Self::Everything, _) => true,
            (Self::Reads, _) | (_, OpenMode::Read) => false,
            (Self::Changes, _) => true,
            (Self::Growth, _) => !exists,
        }
    }
}

impl World {
    fn failing(&self, path: &Path, hits: impl Fn(Failing) -> bool) -> Result<(), i32> {
        let mut all = self.broken.iter();
        let found =
            all.find(|(directory, (failing, _))| path.starts_with(directory) && hits(*failing));
        found.map_or(Ok(()), |(_, (_, errno))| Err(*errno))
    }

    pub(super) fn check_device(&self, operation: &str, path: &Path) -> Result<(), i32> {
        self.failing(path, |failing| failing.hits(operation))
    }

    pub(super) fn check_open(&self, path: &Path, mode: OpenMode) -> Result<(), i32> {
        let exists = self.find(path).is_ok();
        self.failing(path, |failing| failing.hits_open(mode, exists))
    }
}

impl MemoryDisk {
    /// Lets operations of a kind on `directory` and below it fail with `errno`, until [`MemoryDisk::mend`].
    pub fn fail_below(&self, directory: &Path, failing: Failing, errno: i32) {
        let mut world = self.world.borrow_mut();
        world.broken.insert(directory.to_owned(), (failing, errno));
    }

    /// Lets every operation on `directory` and below it fail with `errno`, until [`MemoryDisk::mend`].
    pub fn break_below(&self, directory: &Path, errno: i32) {
        self.fail_below(directory, Failing::Everything, errno);
    }

    /// Ends what [`MemoryDisk::fail_below`] and [`MemoryDisk::break_below`] began.
    pub fn mend(&self) {
        self.world.borrow_mut().broken.clear();
    }
}
