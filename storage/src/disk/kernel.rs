//! The real filesystem.
//!
//! Invariants:
//! 1. Small and page-cached operations (open, read, write, truncate, rename, list) are plain system calls on the shard's
//!    thread: ext4 has no nowait buffered write, so the ring would punt each to a worker thread, which costs 15 times
//!    as much for a small append.
//! 2. What may wait for the device (fdatasync, directory sync, removal of large files, trimming) runs on a helper thread that the
//!    owner of the disk gives ([`Helper`]), so that the shard goes on working.
//! 3. Buffers are only borrowed by inline calls; a helper's job owns everything it touches.
//! 4. Reads and writes of a background disk run on a helper too: they may be cold, large or many, and nobody waits.
//! 5. A read of the foreground takes what is in the page cache at once; the rest is waited for on a helper.
//! 6. What nobody waits for (preparing a log's tail, starting write-back) runs there too, in short pieces.
//!
//! Deliberately absent: the runtime (its ring gains nothing here, see 1), mmap, O_DIRECT, an LRU of descriptors.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use pelton_model::Timestamp;
use rustix::fs::{self, FallocateFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::prepare::{Blank, FILL_PIECE_BYTES, FILLER, Preparation};
use super::residency::{self, Resident};
use super::{DirEntry, Disk, DiskError, DiskFile, OpenMode, Space, Stamp, write_back};

/// Runs what would block a shard somewhere else.
#[expect(
    async_fn_in_trait,
    reason = "static generics on one thread: no Send bound wanted"
)]
pub trait Helper: Clone + std::fmt::Debug + 'static {
    /// Runs `job` and gives its result. A job that was begun is finished, also when the future is dropped.
    async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T;

    /// As [`Helper::run`], for a job that waits for the device: many may be under way at once, in no order, and none
    /// waits for other jobs.
    async fn run_sync<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.run(job).await
    }

    /// As [`Helper::run_sync`], for a read that a request waits for.
    async fn run_read<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.run_sync(job).await
    }

    /// As [`Helper::run`], on a thread of low priority, for work that nobody waits for.
    async fn run_background<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        self.run(job).await
    }

    /// Starts `job` beside the caller, who never hears of it again.
    fn start(&self, job: impl FnOnce() + Send + 'static);

    /// As [`Helper::start`], for a job that waits for the device.
    fn start_sync(&self, job: impl FnOnce() + Send + 'static) {
        self.start(job);
    }
}

/// Runs jobs on the caller's thread: for tools and tests that have no shard to keep free.
#[derive(Clone, Copy, Debug, Default)]
pub struct InPlace;

impl Helper for InPlace {
    async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        job()
    }

    fn start(&self, job: impl FnOnce() + Send + 'static) {
        job();
    }
}

/// The filesystem as seen by one shard.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelDisk<H> {
    helper: H,
    /// Nobody waits for what is done through this one.
    is_background: bool,
}

impl<H: Helper> KernelDisk<H> {
    /// The filesystem, with a helper for what would block.
    pub fn new(helper: H) -> Self {
        Self {
            helper,
            is_background: false,
        }
    }

    async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        if self.is_background {
            self.helper.run_background(job).await
        } else {
            self.helper.run(job).await
        }
    }
}

/// An open file.
#[derive(Debug)]
pub struct KernelFile<H> {
    helper: H,
    is_background: bool,
    descriptor: Arc<OwnedFd>,
    path: Rc<Path>,
}

/// A held directory lock.
#[derive(Debug)]
pub struct KernelLock {
    _file: OwnedFd,
}

/// A file may hold so much more than its size without having reserved it: filesystems round up.
const RESERVED_SLACK_BYTES: u64 = 256 * 1024;
/// Bytes of one read that only fills the page cache.
const WARM_PIECE_BYTES: usize = 256 * 1024;
/// Pieces of one vectored write; longer lists take several.
const PIECES_MAX: usize = 64;

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(Errno) -> DiskError {
    move |errno| DiskError::new(operation, path, io::Error::from(errno))
}

fn open_file(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    fs::open(path, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o644))
}

impl<H: Helper> Disk for KernelDisk<H> {
    type File = KernelFile<H>;
    type Lock = KernelLock;

    async fn open(&self, path: &Path, mode: OpenMode) -> Result<KernelFile<H>, DiskError> {
        let flags = match mode {
            OpenMode::Read => OFlags::RDONLY,
            OpenMode::Write => OFlags::RDWR,
            OpenMode::Create => OFlags::RDWR | OFlags::CREATE,
            OpenMode::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
            OpenMode::Truncate => OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC,
        };
        let descriptor = open_file(path, flags).map_err(failed("open", path))?;
        Ok(KernelFile {
            helper: self.helper.clone(),
            is_background: self.is_background,
            descriptor: Arc::new(descriptor),
            path: Rc::from(path),
        })
    }

    async fn create_dir_all(&self, path: &Path) -> Result<(), DiskError> {
        let mut missing = Vec::new();
        let mut current = Some(path);
        while let Some(dir) = current {
            if dir.as_os_str().is_empty() || fs::stat(dir).is_ok() {
                break;
            }
            missing.push(dir);
            current = dir.parent();
        }
        for dir in missing.into_iter().rev() {
            match fs::mkdir(dir, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed("create directory", dir)(errno)),
            }
        }
        match fs::stat(path) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_dir() => Ok(()),
            Ok(_) => Err(failed("create directory", path)(Errno::NOTDIR)),
            Err(errno) => Err(failed("create directory", path)(errno)),
        }
    }

    async fn read_dir(&self, path: &Path) -> Result<Vec<DirEntry>, DiskError> {
        let failed = failed("list", path);
        if !self.is_background {
            return list(path).map_err(failed);
        }
        let path = path.to_owned();
        self.run(move || list(&path)).await.map_err(failed)
    }

    async fn stamp(&self, path: &Path) -> Result<Stamp, DiskError> {
        let stat = fs::stat(path).map_err(failed("stat", path))?;
        let is_dir = FileType::from_raw_mode(stat.st_mode).is_dir();
        let size_bytes = u64::try_from(stat.st_size).unwrap_or(0);
        let nanoseconds = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
        Ok(Stamp {
            size_bytes: if is_dir { 0 } else { size_bytes },
            changed: stat
                .st_mtime
                .wrapping_mul(1_000_000_000)
                .wrapping_add(nanoseconds),
        })
    }

    async fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        fs::rename(from, to).map_err(failed("rename", from))
    }

    async fn remove_file(&self, path: &Path) -> Result<(), DiskError> {
        let target = path.to_owned();
        self.run(move || fs::unlink(&target))
            .await
            .map_err(failed("remove", path))
    }

    async fn remove_dir_all(&self, path: &Path) -> Result<(), DiskError> {
        let target = path.to_owned();
        self.run(move || std::fs::remove_dir_all(target))
            .await
            .map_err(|source| DiskError::new("remove", path, source))
    }

    async fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        let target = path.to_owned();
        let sync = move || -> Result<(), Errno> {
            fs::fsync(open_file(&target, OFlags::RDONLY | OFlags::DIRECTORY)?)
        };
        self.helper
            .run_sync(sync)
            .await
            .map_err(failed("sync", path))
    }

    fn background(&self) -> Self {
        Self {
            helper: self.helper.clone(),
            is_background: true,
        }
    }

    async fn offload<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.run(job).await
    }

    async fn space(&self, path: &Path) -> Result<Space, DiskError> {
        let target = path.to_owned();
        let space = self.run(move || space(&target)).await;
        space.map_err(failed("measure the volume of", path))
    }

    async fn lock(&self, path: &Path) -> Result<KernelLock, DiskError> {
        let file = open_file(path, OFlags::RDWR | OFlags::CREATE).map_err(failed("open", path))?;
        // flock keeps a second LogDir of this process out, the record lock any Java broker.
        fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(failed("lock", path))?;
        match fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(KernelLock { _file: file }),
            Err(Errno::ACCESS) => Err(failed("lock", path)(Errno::WOULDBLOCK)),
            Err(errno) => Err(failed("lock", path)(errno)),
        }
    }
}

fn space(path: &Path) -> Result<Space, Errno> {
    let volume = fs::statvfs(path)?;
    Ok(Space {
        total_bytes: volume.f_frsize.saturating_mul(volume.f_blocks),
        usable_bytes: volume.f_frsize.saturating_mul(volume.f_bavail),
    })
}

fn list(path: &Path) -> Result<Vec<DirEntry>, Errno> {
    let directory = open_file(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut entries = Vec::new();
    for entry in fs::Dir::read_from(&directory)? {
        let entry = entry?;
        // Kafka's names are ASCII; a file with another name is nobody's business here.
        let Ok(name) = entry.file_name().to_str() else {
            continue;
        };
        if name == "." || name == ".." {
            continue;
        }
        // Thousands of partitions: what is a directory need not be looked at.
        if entry.file_type() == FileType::Directory {
            entries.push(DirEntry {
                name: name.to_owned(),
                is_dir: true,
                size_bytes: 0,
            });
            continue;
        }
        let stat = match fs::statat(&directory, entry.file_name(), fs::AtFlags::empty()) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(errno),
        };
        entries.push(DirEntry {
            name: name.to_owned(),
            is_dir: FileType::from_raw_mode(stat.st_mode).is_dir(),
            size_bytes: u64::try_from(stat.st_size).unwrap_or(0),
        });
    }
    Ok(entries)
}

fn write_pieces(descriptor: &OwnedFd, buffers: &[Bytes], mut position: u64) -> Result<(), Errno> {
    let mut skip = 0;
    let mut rest = buffers;
    while let Some(first) = rest.first() {
        if skip == first.len() {
            (skip, rest) = (0, &rest[1..]);
            continue;
        }
        let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
        let count = rest.len().min(PIECES_MAX);
        for (piece, buffer) in pieces.iter_mut().zip(rest) {
            *piece = IoSlice::new(buffer);
        }
        pieces[0] = IoSlice::new(&first[skip..]);
        let mut written = match rustix::io::pwritev(descriptor, &pieces[..count], position) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(written) => written,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        };
        position += written as u64;
        while let Some(first) = rest.first() {
            let left = first.len() - skip;
            if written < left {
                skip += written;
                break;
            }
            written -= left;
            (skip, rest) = (0, &rest[1..]);
        }
    }
    Ok(())
}

/// Reads on until `bytes` holds `size_bytes`, from `position` of its first byte; fewer at the end of the file.
fn read_pieces(
    descriptor: &OwnedFd,
    mut bytes: Vec<u8>,
    position: u64,
    size_bytes: usize,
) -> Result<Bytes, Errno> {
    bytes.reserve(size_bytes - bytes.len());
    while bytes.len() < size_bytes {
        let at = position + bytes.len() as u64;
        let spare = rustix::buffer::spare_capacity(&mut bytes);
        match rustix::io::pread(descriptor, spare, at) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    let mut bytes = Bytes::from(bytes);
    if bytes.remaining() > size_bytes {
        bytes.truncate(size_bytes);
    }
    Ok(bytes)
}

/// Reads a range and keeps nothing: its pages are in the cache then.
fn read_through(descriptor: &OwnedFd, position: u64, size_bytes: usize) -> Result<(), Errno> {
    let mut scratch = vec![0; size_bytes.min(WARM_PIECE_BYTES)];
    let end = position + size_bytes as u64;
    let mut at = position;
    while at < end {
        let left = usize::try_from(end - at).unwrap_or(usize::MAX);
        let piece = left.min(scratch.len());
        match rustix::io::pread(descriptor, &mut scratch[..piece], at) {
            // The file is shorter than the range: whoever sends it will see.
            Ok(0) => break,
            Ok(read) => at += read as u64,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

impl<H: Helper> DiskFile for KernelFile<H> {
    async fn write_all_at(&self, buffers: &[Bytes], position: u64) -> Result<(), DiskError> {
        let failed = failed("write", &self.path);
        if !self.is_background {
            return write_pieces(&self.descriptor, buffers, position).map_err(failed);
        }
        let (descriptor, buffers) = (Arc::clone(&self.descriptor), buffers.to_vec());
        let write = move || write_pieces(&descriptor, &buffers, position);
        self.helper.run_background(write).await.map_err(failed)
    }

    async fn read_at(&self, position: u64, size_bytes: usize) -> Result<Bytes, DiskError> {
        let failed = failed("read", &self.path);
        let mut bytes = Vec::with_capacity(size_bytes);
        if self.is_background {
            let descriptor = Arc::clone(&self.descriptor);
            let read = move || read_pieces(&descriptor, bytes, position, size_bytes);
            return self.helper.run_background(read).await.map_err(failed);
        }
        match residency::read(&self.descriptor, &mut bytes, position, size_bytes) {
            Ok(Resident::Whole) => Ok(Bytes::from(bytes)),
            Ok(Resident::Absent) => {
                let descriptor = Arc::clone(&self.descriptor);
                let read = move || read_pieces(&descriptor, bytes, position, size_bytes);
                self.helper.run_read(read).await.map_err(failed)
            }
            Ok(Resident::Unknown) => {
                read_pieces(&self.descriptor, bytes, position, size_bytes).map_err(failed)
            }
            Err(errno) => Err(failed(errno)),
        }
    }

    async fn warm(&self, position: u64, size_bytes: usize) -> Result<(), DiskError> {
        if residency::is_resident(&self.descriptor, position, size_bytes) {
            return Ok(());
        }
        let descriptor = Arc::clone(&self.descriptor);
        let warm = move || read_through(&descriptor, position, size_bytes);
        let warmed = self.helper.run_read(warm).await;
        warmed.map_err(failed("read", &self.path))
    }

    async fn set_size(&self, size_bytes: u64) -> Result<(), DiskError> {
        let descriptor = Arc::clone(&self.descriptor);
        self.helper
            .run(move || fs::ftruncate(&*descriptor, size_bytes))
            .await
            .map_err(failed("truncate", &self.path))
    }

    async fn sync_data(&self) -> Result<(), DiskError> {
        let descriptor = Arc::clone(&self.descriptor);
        self.helper
            .run_sync(move || fs::fdatasync(&*descriptor))
            .await
            .map_err(failed("sync", &self.path))
    }

    async fn trim(&self, size_bytes: u64) -> Result<(), DiskError> {
        let descriptor = Arc::clone(&self.descriptor);
        // Also when the size stays: the kernel then frees what is reserved behind it.
        self.helper
            .run(move || fs::ftruncate(&*descriptor, size_bytes))
            .await
            .map_err(failed("truncate", &self.path))
    }

    async fn allocate(&self, size_bytes: u64) -> Result<(), DiskError> {
        let descriptor = Arc::clone(&self.descriptor);
        let allocate =
            move || match fs::fallocate(&*descriptor, FallocateFlags::empty(), 0, size_bytes) {
                Err(Errno::OPNOTSUPP) => fs::ftruncate(&*descriptor, size_bytes),
                result => result,
            };
        self.helper
            .run(allocate)
            .await
            .map_err(failed("allocate", &self.path))
    }

    fn prepare(&self, preparation: &Preparation) {
        let preparation = preparation.clone();
        let mut file = Ahead(Arc::clone(&self.descriptor));
        self.helper
            .start(move || while preparation.step(&mut file) {});
    }

    fn write_back(&self, from: u64, to: u64) {
        let descriptor = Arc::clone(&self.descriptor);
        self.helper.start_sync(move || {
            // A device that fails will say so to the next sync, which is the one that counts.
            if let Err(error) = write_back::start(&descriptor, from, to) {
                tracing::debug!(from, to, %error, "cannot start write-back");
            }
        });
    }

    async fn holds_more(&self, size_bytes: u64) -> Result<bool, DiskError> {
        let stat = fs::fstat(&*self.descriptor).map_err(failed("stat", &self.path))?;
        let held_bytes = u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
        let size_differs = u64::try_from(stat.st_size).ok() != Some(size_bytes);
        Ok(size_differs || size_bytes + RESERVED_SLACK_BYTES < held_bytes)
    }

    async fn size_bytes(&self) -> Result<u64, DiskError> {
        let stat = fs::fstat(&*self.descriptor).map_err(failed("stat", &self.path))?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    async fn modified(&self) -> Result<Option<Timestamp>, DiskError> {
        let stat = fs::fstat(&*self.descriptor).map_err(failed("stat", &self.path))?;
        let nanos = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
        let ms = stat
            .st_mtime
            .saturating_mul(1000)
            .saturating_add(nanos / 1_000_000);
        Ok(Some(Timestamp(ms)))
    }

    fn descriptor(&self) -> Option<Arc<OwnedFd>> {
        Some(Arc::clone(&self.descriptor))
    }
}

/// The space behind a log's end, on the helper thread.
struct Ahead(Arc<OwnedFd>);

static PIECE: [u8; 64 * 1024] = [FILLER; 64 * 1024];
const _: () = assert!(PIECE.len() as u64 == FILL_PIECE_BYTES);

impl Blank for Ahead {
    fn reserve(&mut self, from: u64, to: u64) -> io::Result<()> {
        fs::fallocate(&*self.0, FallocateFlags::KEEP_SIZE, from, to - from)?;
        Ok(())
    }

    fn write_filler(&mut self, from: u64, to: u64) -> io::Result<()> {
        let mut position = from;
        while position < to {
            let left = usize::try_from(to - position).unwrap_or(usize::MAX);
            let piece = &PIECE[..left.min(PIECE.len())];
            match rustix::io::pwrite(&*self.0, piece, position) {
                Ok(0) => return Err(Errno::NOSPC.into()),
                Ok(written) => position += written as u64,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

impl<H: Helper> KernelFile<H> {
    /// The path that the file was opened by.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.path.to_path_buf()
    }
}
