//! The seam to the filesystem: everything storage does to a disk goes through [`Disk`] and [`DiskFile`].
//!
//! Invariants:
//! 1. Only `disk/kernel.rs` knows the system calls; the simulator's disk implements the same traits.
//! 2. A buffer handed to the kernel belongs to the operation until its completion, even if the future is dropped.
//! 3. A failed sync is final: the caller takes the log directory offline and never retries.

pub mod kernel;
pub mod memory;
pub mod prepare;
pub mod range;
mod residency;
mod write_back;

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use pelton_model::Timestamp;

use prepare::Preparation;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Existing, read only.
    Read,
    /// Existing, read and write.
    Write,
    /// Created if absent, read and write; existing contents stay.
    Create,
    /// Created anew; fails when the file exists.
    CreateNew,
    /// Created if absent, emptied if present.
    Truncate,
}

/// A failed disk operation and its object.
#[derive(Debug)]
pub struct DiskError {
    /// The operation, as a verb: `open`, `write`, `sync`.
    pub operation: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// What the kernel said.
    pub source: io::Error,
}

impl DiskError {
    /// Names the operation and the object of `source`.
    pub fn new(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self {
            operation,
            path: path.to_owned(),
            source,
        }
    }

    /// Whether the process or the machine is short of descriptors or memory: no fault of the disk.
    #[must_use]
    pub fn is_shortage(&self) -> bool {
        const ENOMEM: i32 = 12;
        const ENFILE: i32 = 23;
        const EMFILE: i32 = 24;
        matches!(self.source.raw_os_error(), Some(ENOMEM | ENFILE | EMFILE))
    }

    /// Whether the object does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot {} {}: {}",
            self.operation,
            self.path.display(),
            self.source
        )
    }
}

impl std::error::Error for DiskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name within the directory.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Its size in bytes (files).
    pub size_bytes: u64,
}

/// How full the volume of a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that it has.
    pub total_bytes: u64,
    /// Bytes that may still be written.
    pub usable_bytes: u64,
}

/// What tells whether somebody has changed a file's contents or a directory's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The size in bytes (files; 0 for directories).
    pub size_bytes: u64,
    /// When it changed last, in the disk's own measure: only equality means something.
    pub changed: i64,
}

/// A filesystem. Cheap to clone; one per shard.
#[expect(
    async_fn_in_trait,
    reason = "static generics on one thread: no Send bound wanted (DESIGN 8.1)"
)]
pub trait Disk: Clone + 'static {
    /// An open file.
    type File: DiskFile;
    /// Holds a directory's lock while it lives.
    type Lock: 'static;

    /// Opens a file.
    async fn open(&self, path: &Path, mode: OpenMode) -> Result<Self::File, DiskError>;
    /// Creates a directory and its parents; an existing one is fine.
    async fn create_dir_all(&self, path: &Path) -> Result<(), DiskError>;
    /// Lists a directory in no particular order.
    async fn read_dir(&self, path: &Path) -> Result<Vec<DirEntry>, DiskError>;
    /// The stamp of a file or directory, without opening it.
    async fn stamp(&self, path: &Path) -> Result<Stamp, DiskError>;
    /// Renames a file or directory, replacing a file that stands at `to`.
    async fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError>;
    /// Removes a file.
    async fn remove_file(&self, path: &Path) -> Result<(), DiskError>;
    /// Removes a directory with everything in it.
    async fn remove_dir_all(&self, path: &Path) -> Result<(), DiskError>;
    /// Makes created, renamed and removed entries of the directory durable.
    async fn sync_dir(&self, path: &Path) -> Result<(), DiskError>;
    /// Takes an exclusive lock on `path` (created if absent), or fails with `WouldBlock` when another process holds it.
    async fn lock(&self, path: &Path) -> Result<Self::Lock, DiskError>;
    /// How full the volume that holds `path` is.
    async fn space(&self, path: &Path) -> Result<Space, DiskError>;

    /// The same filesystem for work that nobody waits for: reads, writes and removals run beside the shard, at low priority.
    #[must_use]
    fn background(&self) -> Self {
        self.clone()
    }

    /// Runs `job` where this disk's slow calls run, so that computing does not hold the shard either.
    async fn offload<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        job()
    }

    /// Reads a whole small file of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// `InvalidData` when the file is larger.
    async fn read_file(&self, path: &Path, bytes_max: usize) -> Result<Bytes, DiskError> {
        let file = self.open(path, OpenMode::Read).await?;
        let size = file.size_bytes().await?;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size > bytes_max {
            let source = io::Error::new(
                io::ErrorKind::InvalidData,
                format!("larger than {bytes_max} bytes"),
            );
            return Err(DiskError::new("read", path, source));
        }
        file.read_at(0, size).await
    }

    /// Replaces a small file so that a crash leaves the old or the new contents: writes `path` + `.tmp`, syncs it,
    /// renames it over `path`, syncs the directory.
    async fn replace_file(&self, path: &Path, contents: &[u8]) -> Result<(), DiskError> {
        let contents = Bytes::copy_from_slice(contents);
        let (file, temporary) = self.write_temporary(path, contents).await?;
        file.sync_data().await?;
        self.rename(&temporary, path).await?;
        self.sync_dir(path.parent().unwrap_or(Path::new("."))).await
    }

    /// The first step of a replacement: writes `path` + `.tmp` and syncs nothing. A rename to `path` is the last one.
    async fn write_temporary(
        &self,
        path: &Path,
        contents: Bytes,
    ) -> Result<(Self::File, PathBuf), DiskError> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let temporary = PathBuf::from(temporary);
        let file = self.open(&temporary, OpenMode::Truncate).await?;
        file.write_all_at(&[contents], 0).await?;
        Ok((file, temporary))
    }
}

/// An open file.
#[expect(
    async_fn_in_trait,
    reason = "static generics on one thread: no Send bound wanted (DESIGN 8.1)"
)]
pub trait DiskFile: fmt::Debug + 'static {
    /// Writes all of `buffers`, one after the other, from `position`: one vectored write where the kernel takes it whole.
    async fn write_all_at(&self, buffers: &[Bytes], position: u64) -> Result<(), DiskError>;
    /// Reads up to `size_bytes` bytes from `position`; fewer only at the end of the file.
    async fn read_at(&self, position: u64, size_bytes: usize) -> Result<Bytes, DiskError>;
    /// Makes `[position, position + size_bytes)` ready to be sent from the descriptor without waiting for the device.
    ///
    /// # Errors
    /// What the device says of the bytes: where the descriptor is sent from, nobody could be told.
    async fn warm(&self, position: u64, size_bytes: usize) -> Result<(), DiskError> {
        self.read_at(position, size_bytes).await.map(drop)
    }
    /// Cuts or extends (with zeros) the file to `size_bytes`.
    async fn set_size(&self, size_bytes: u64) -> Result<(), DiskError>;
    /// Makes the contents durable (fdatasync).
    async fn sync_data(&self) -> Result<(), DiskError>;
    /// Whether cutting the file to `size_bytes` would change it or give blocks back.
    async fn holds_more(&self, size_bytes: u64) -> Result<bool, DiskError> {
        Ok(self.size_bytes().await? != size_bytes)
    }
    /// The current size in bytes.
    async fn size_bytes(&self) -> Result<u64, DiskError>;
    /// Cuts the file to `size_bytes` and gives back blocks reserved behind; may wait for the device.
    async fn trim(&self, size_bytes: u64) -> Result<(), DiskError>;
    /// Gives the file `size_bytes` at once: zeros, with blocks reserved where the filesystem can.
    async fn allocate(&self, size_bytes: u64) -> Result<(), DiskError>;
    /// Starts the job that works off what was asked of `preparation`, beside the caller.
    fn prepare(&self, preparation: &Preparation);
    /// Starts writing `[from, to)` back to the device, beside the caller; makes nothing durable and reports nothing.
    fn write_back(&self, from: u64, to: u64);
    /// When the contents last changed, by the wall clock; `None` where the disk does not know.
    async fn modified(&self) -> Result<Option<Timestamp>, DiskError>;
    /// The descriptor for `sendfile`, where the disk has real ones.
    fn descriptor(&self) -> Option<Arc<OwnedFd>>;
}
