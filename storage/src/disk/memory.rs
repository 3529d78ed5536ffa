//! A deterministic filesystem in memory for tests and the simulator.
//!
//! Fault model:
//! 1. A process crash loses nothing: drop what uses the disk and open it anew.
//! 2. [`MemoryDisk::crash`] is a power cut: of each file's unsynced changes any 512-byte sectors may be lost, of each
//!    directory's unsynced changes a suffix in time. What was synced stays.
//! 3. [`MemoryDisk::fail_after`] makes one operation fail with the given errno; a failed write may have written a prefix.
//! 4. What a helper thread would do beside its caller (preparing a log's tail) is done at once, or, after
//!    [`MemoryDisk::delay_helper`], piece by piece between later operations, as a seed decides.
//! 5. [`MemoryDisk::fail_preparing`] lets those pieces fail, and nothing else.
//! 6. [`MemoryDisk::break_below`] is a device that has failed: every operation below a directory fails from then on;
//!    [`MemoryDisk::fail_below`] one that is full, read-only or cannot be read.
//! 7. [`MemoryDisk::fail_next_sync`] makes one sync below a path fail.
//! 8. A power cut ends every lock, and open files go stale: their later operations fail.
//!
//! Not modelled: rotten synced sectors (use [`MemoryDisk::corrupt`]), reordering between directories.

mod backlog;
mod failing;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use pelton_model::Timestamp;

use super::prepare::Preparation;
use super::{DirEntry, Disk, DiskError, DiskFile, OpenMode, Space, Stamp};

pub use failing::Failing;

const SECTOR_BYTES: usize = 512;
/// What a volume is said to hold; nothing is refused for want of it.
const VOLUME_BYTES: u64 = 1 << 40;

#[derive(Clone, Debug)]
enum FileChange {
    Write { position: usize, bytes: Bytes },
    Size(usize),
}

#[derive(Debug, Default)]
struct FileNode {
    current: Vec<u8>,
    durable: Vec<u8>,
    changes: Vec<FileChange>,
    modified: Option<Timestamp>,
}

/// One atomic change of a directory: names that appear (`Some`) or go (`None`).
type DirChange = Vec<(String, Option<usize>)>;

#[derive(Debug, Default)]
struct DirNode {
    current: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    changes: Vec<DirChange>,
}

#[derive(Debug)]
enum Node {
    File(FileNode),
    Dir(DirNode),
}

impl Node {
    fn size_bytes(&self) -> usize {
        match self {
            Self::File(file) => file.current.len(),
            Self::Dir(_) => 0,
        }
    }
}

#[derive(Debug)]
struct World {
    nodes: Vec<Node>,
    locks: BTreeSet<PathBuf>,
    /// Directories whose device has failed, in which respect and with which error.
    broken: BTreeMap<PathBuf, (Failing, i32)>,
    generation: u64,
}

/// Counts of operations since the disk was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCounts {
    /// Reads of file contents.
    pub reads: u64,
    /// Vectored writes.
    pub writes: u64,
    /// File and directory syncs.
    pub syncs: u64,
    /// Files opened.
    pub opens: u64,
    /// Directories listed.
    pub lists: u64,
}

#[derive(Debug, Default)]
struct Faults {
    countdown: Cell<Option<u64>>,
    errno: Cell<i32>,
    /// Below which path the next sync fails.
    sync: RefCell<Option<(PathBuf, i32)>>,
}

/// The filesystem; clones see the same one.
#[derive(Clone, Debug)]
pub struct MemoryDisk {
    world: Rc<RefCell<World>>,
    faults: Rc<Faults>,
    counts: Rc<Cell<OperationCounts>>,
    backlog: Rc<backlog::Backlog>,
}

/// An open file.
#[derive(Debug)]
pub struct MemoryFile {
    disk: MemoryDisk,
    node: usize,
    path: PathBuf,
    generation: u64,
}

/// A held lock.
#[derive(Debug)]
pub struct MemoryLock {
    disk: MemoryDisk,
    path: PathBuf,
    generation: u64,
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        let mut world = self.disk.world.borrow_mut();
        if world.generation == self.generation {
            world.locks.remove(&self.path);
        }
    }
}

impl Default for MemoryDisk {
    fn default() -> Self {
        Self {
            world: Rc::new(RefCell::new(World {
                nodes: vec![Node::Dir(DirNode::default())],
                locks: BTreeSet::new(),
                broken: BTreeMap::new(),
                generation: 0,
            })),
            faults: Rc::default(),
            counts: Rc::default(),
            backlog: Rc::default(),
        }
    }
}

/// A small deterministic generator (splitmix64).
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..=last`.
    fn up_to(&mut self, last: usize) -> usize {
        usize::try_from(self.roll() % (last as u64 + 1)).expect("at most `last`")
    }
}

fn os_error(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

const ENOENT: i32 = 2;
const EIO: i32 = 5;
const EAGAIN: i32 = 11;
const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;
const ENOTEMPTY: i32 = 39;

fn names(path: &Path) -> Vec<String> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir => None,
        })
        .collect()
}

impl FileNode {
    fn apply(bytes: &mut Vec<u8>, change: &FileChange) {
        match change {
            FileChange::Write {
                position,
                bytes: piece,
            } => {
                let end = position + piece.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*position..end].copy_from_slice(piece);
            }
            FileChange::Size(size) => bytes.resize(*size, 0),
        }
    }

    fn change(&mut self, change: FileChange) {
        Self::apply(&mut self.current, &change);
        self.changes.push(change);
    }

    fn sync(&mut self) {
        self.changes.clear();
        self.durable.clone_from(&self.current);
    }

    /// Keeps all, none, a prefix or a random set of sectors of the unsynced changes.
    fn tear(&mut self, dice: &mut Dice) {
        let mode = dice.up_to(3);
        let prefix = dice.up_to(self.changes.len());
        let mut bytes = std::mem::take(&mut self.durable);
        for (index, change) in std::mem::take(&mut self.changes).into_iter().enumerate() {
            match (mode, &change) {
                (0, _) => Self::apply(&mut bytes, &change),
                (1, _) => {}
                (2, _) if index < prefix => Self::apply(&mut bytes, &change),
                (
                    2,
                    FileChange::Write {
                        position,
                        bytes: piece,
                    },
                ) if index == prefix => {
                    let part = piece.slice(..dice.up_to(piece.len()));
                    let position = *position;
                    Self::apply(
                        &mut bytes,
                        &FileChange::Write {
                            position,
                            bytes: part,
                        },
                    );
                }
                (2, _) => {}
                (_, FileChange::Size(_)) => Self::apply(&mut bytes, &change),
                (
                    _,
                    FileChange::Write {
                        position,
                        bytes: piece,
                    },
                ) => {
                    Self::tear_sectors(&mut bytes, *position, piece, dice);
                }
            }
        }
        self.current.clone_from(&bytes);
        self.durable = bytes;
    }

    fn tear_sectors(bytes: &mut Vec<u8>, position: usize, piece: &Bytes, dice: &mut Dice) {
        let mut at = 0;
        while at < piece.len() {
            let sector_end = (position + at) / SECTOR_BYTES * SECTOR_BYTES + SECTOR_BYTES;
            let end = (sector_end - position).min(piece.len());
            if dice.roll().is_multiple_of(2) {
                let (position, bytes_kept) = (position + at, piece.slice(at..end));
                let change = FileChange::Write {
                    position,
                    bytes: bytes_kept,
                };
                Self::apply(bytes, &change);
            }
            at = end;
        }
    }
}

impl DirNode {
    fn apply(entries: &mut BTreeMap<String, usize>, change: &DirChange) {
        for (name, node) in change {
            match node {
                Some(node) => {
                    entries.insert(name.clone(), *node);
                }
                None => {
                    entries.remove(name);
                }
            }
        }
    }

    fn change(&mut self, change: DirChange) {
        Self::apply(&mut self.current, &change);
        self.changes.push(change);
    }

    fn sync(&mut self) {
        self.changes.clear();
        self.durable.clone_from(&self.current);
    }

    fn tear(&mut self, dice: &mut Dice) {
        let kept = dice.up_to(self.changes.len());
        let mut entries = std::mem::take(&mut self.durable);
        for change in &std::mem::take(&mut self.changes)[..kept] {
            Self::apply(&mut entries, change);
        }
        self.current.clone_from(&entries);
        self.durable = entries;
    }
}

impl World {
    fn find(&self, path: &Path) -> Result<usize, i32> {
        let mut node = 0;
        for name in names(path) {
            node = *self.dir(node)?.current.get(&name).ok_or(ENOENT)?;
        }
        Ok(node)
    }

    fn parent(&self, path: &Path) -> Result<(usize, String), i32> {
        let mut names = names(path);
        let name = names.pop().ok_or(EEXIST)?;
        let parent: PathBuf = names.iter().collect();
        Ok((self.find(&parent)?, name))
    }

    fn dir(&self, node: usize) -> Result<&DirNode, i32> {
        match self.nodes.get(node) {
            Some(Node::Dir(dir)) => Ok(dir),
            Some(Node::File(_)) => Err(ENOTDIR),
            None => Err(ENOENT),
        }
    }

    fn dir_mut(&mut self, node: usize) -> Result<&mut DirNode, i32> {
        match self.nodes.get_mut(node) {
            Some(Node::Dir(dir)) => Ok(dir),
            Some(Node::File(_)) => Err(ENOTDIR),
            None => Err(ENOENT),
        }
    }

    fn file_mut(&mut self, node: usize) -> Result<&mut FileNode, i32> {
        match self.nodes.get_mut(node) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Dir(_)) => Err(EISDIR),
            None => Err(ENOENT),
        }
    }

    fn add(&mut self, parent: usize, name: &str, node: Node) -> Result<usize, i32> {
        let index = self.nodes.len();
        self.dir_mut(parent)?
            .change(vec![(name.to_owned(), Some(index))]);
        self.nodes.push(node);
        Ok(index)
    }

    fn open(&mut self, path: &Path, mode: OpenMode) -> Result<usize, i32> {
        match (self.find(path), mode) {
            (Ok(_), OpenMode::CreateNew) => Err(EEXIST),
            (Ok(node), OpenMode::Truncate) => {
                self.file_mut(node)?.change(FileChange::Size(0));
                Ok(node)
            }
            (Ok(node), OpenMode::Read | OpenMode::Write | OpenMode::Create) => {
                self.file_mut(node).map(|_| node)
            }
            (Err(ENOENT), OpenMode::Create | OpenMode::CreateNew | OpenMode::Truncate) => {
                let (parent, name) = self.parent(path)?;
                self.add(parent, &name, Node::File(FileNode::default()))
            }
            (Err(errno), _) => Err(errno),
        }
    }

    fn rename(&mut self, from: &Path, to: &Path) -> Result<(), i32> {
        let node = self.find(from)?;
        if let Ok(target) = self.find(to)
            && self.dir(target).is_ok_and(|dir| !dir.current.is_empty())
        {
            return Err(ENOTEMPTY);
        }
        let (from_dir, from_name) = self.parent(from)?;
        let (to_dir, to_name) = self.parent(to)?;
        if from_dir == to_dir {
            let change = vec![(from_name, None), (to_name, Some(node))];
            self.dir_mut(from_dir)?.change(change);
        } else {
            self.dir_mut(to_dir)?.change(vec![(to_name, Some(node))]);
            self.dir_mut(from_dir)?.change(vec![(from_name, None)]);
        }
        Ok(())
    }
}

impl MemoryDisk {
    /// Makes an empty filesystem.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cuts the power: unsynced changes are torn as `seed` decides, locks end, open files go stale.
    pub fn crash(&self, seed: u64) {
        let mut dice = Dice(seed);
        self.kill_helper();
        let mut world = self.world.borrow_mut();
        world.generation += 1;
        world.locks.clear();
        for node in &mut world.nodes {
            match node {
                Node::File(file) => file.tear(&mut dice),
                Node::Dir(dir) => dir.tear(&mut dice),
            }
        }
    }

    /// Lets the operation after `operations` further ones fail with `errno`, once.
    pub fn fail_after(&self, operations: u64, errno: i32) {
        self.faults.countdown.set(Some(operations));
        self.faults.errno.set(errno);
    }

    /// Lets the next sync of anything below `path` fail with `errno`, once: the kernel tells of a lost page once, and syncs
    /// after that succeed.
    pub fn fail_next_sync(&self, path: &Path, errno: i32) {
        *self.faults.sync.borrow_mut() = Some((path.to_owned(), errno));
    }

    fn sync_fault(&self, path: &Path) -> Result<(), i32> {
        let mut sync = self.faults.sync.borrow_mut();
        match &*sync {
            Some((below, errno)) if path.starts_with(below) => {
                let errno = *errno;
                *sync = None;
                Err(errno)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Changes contents behind everyone's back, durably: a rotten sector, or a file prepared by a test.
    ///
    /// # Panics
    /// When `path` is no file.
    pub fn corrupt(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut world = self.world.borrow_mut();
        let node = world.find(path).expect("the test names an existing file");
        let file = world.file_mut(node).expect("the test names a file");
        change(&mut file.current);
        file.sync();
    }

    /// Says when a file was last changed; there is no clock here.
    ///
    /// # Panics
    /// When `path` is no file.
    pub fn set_modified(&self, path: &Path, at: Timestamp) {
        let mut world = self.world.borrow_mut();
        let node = world.find(path).expect("the test names an existing file");
        let file = world.file_mut(node).expect("the test names a file");
        file.modified = Some(at);
    }

    /// The operations so far.
    #[must_use]
    pub fn counts(&self) -> OperationCounts {
        self.counts.get()
    }

    fn count(&self, count: impl FnOnce(&mut OperationCounts)) {
        let mut counts = self.counts.get();
        count(&mut counts);
        self.counts.set(counts);
    }

    /// Counts down to the injected fault.
    fn fault(&self) -> Result<(), i32> {
        match self.faults.countdown.get() {
            Some(0) => {
                self.faults.countdown.set(None);
                Err(self.faults.errno.get())
            }
            Some(left) => {
                self.faults.countdown.set(Some(left - 1));
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn run<T>(
        &self,
        operation: &'static str,
        path: &Path,
        act: impl FnOnce(&mut World) -> Result<T, i32>,
    ) -> Result<T, DiskError> {
        self.run_backlog();
        self.fault()
            .and_then(|()| self.world.borrow().check_device(operation, path))
            .and_then(|()| act(&mut self.world.borrow_mut()))
            .map_err(|errno| DiskError::new(operation, path, os_error(errno)))
    }
}

impl Disk for MemoryDisk {
    type File = MemoryFile;
    type Lock = MemoryLock;

    async fn open(&self, path: &Path, mode: OpenMode) -> Result<MemoryFile, DiskError> {
        self.count(|counts| counts.opens += 1);
        let node = self.run("open", path, |world| {
            world.check_open(path, mode)?;
            world.open(path, mode)
        })?;
        Ok(MemoryFile {
            disk: self.clone(),
            node,
            path: path.to_owned(),
            generation: self.world.borrow().generation,
        })
    }

    async fn create_dir_all(&self, path: &Path) -> Result<(), DiskError> {
        self.run("create directory", path, |world| {
            let mut node = 0;
            for name in names(path) {
                node = match world.dir(node)?.current.get(&name) {
                    Some(&child) => child,
                    None => world.add(node, &name, Node::Dir(DirNode::default()))?,
                };
            }
            world.dir(node).map(|_| ())
        })
    }

    async fn stamp(&self, path: &Path) -> Result<Stamp, DiskError> {
        self.run("stat", path, |world| {
            let node = world.find(path)?;
            Ok(match &world.nodes[node] {
                Node::Dir(dir) => Stamp {
                    size_bytes: 0,
                    changed: dir.current.iter().fold(0, |crc, (name, &node)| {
                        i64::from(crc32c::crc32c_append(
                            u32::try_from(crc).unwrap_or(0),
                            format!("{name}={node};").as_bytes(),
                        ))
                    }),
                },
                Node::File(file) => Stamp {
                    size_bytes: file.current.len() as u64,
                    changed: i64::from(crc32c::crc32c(&file.current)),
                },
            })
        })
    }

    async fn read_dir(&self, path: &Path) -> Result<Vec<DirEntry>, DiskError> {
        self.count(|counts| counts.lists += 1);
        self.run("list", path, |world| {
            let dir = world.dir(world.find(path)?)?;
            let entry = |(name, &node): (&String, &usize)| {
                let (is_dir, size) = match &world.nodes[node] {
                    Node::Dir(_) => (true, 0),
                    Node::File(file) => (false, file.current.len()),
                };
                DirEntry {
                    name: name.clone(),
                    is_dir,
                    size_bytes: size as u64,
                }
            };
            Ok(dir.current.iter().map(entry).collect())
        })
    }

    async fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.run("rename", from, |world| world.rename(from, to))
    }

    async fn remove_file(&self, path: &Path) -> Result<(), DiskError> {
        self.run("remove", path, |world| {
            let node = world.find(path)?;
            world.file_mut(node)?;
            let (parent, name) = world.parent(path)?;
            world.dir_mut(parent)?.change(vec![(name, None)]);
            Ok(())
        })
    }

    async fn remove_dir_all(&self, path: &Path) -> Result<(), DiskError> {
        self.run("remove", path, |world| {
            let node = world.find(path)?;
            let (parent, name) = world.parent(path)?;
            let gone: DirChange = world
                .dir(node)?
                .current
                .keys()
                .map(|name| (name.clone(), None))
                .collect();
            for entry in gone {
                world.dir_mut(node)?.change(vec![entry]);
            }
            world.dir_mut(parent)?.change(vec![(name, None)]);
            Ok(())
        })
    }

    async fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.count(|counts| counts.syncs += 1);
        self.run("sync", path, |world| {
            self.sync_fault(path)?;
            let node = world.find(path)?;
            world.dir_mut(node)?.sync();
            Ok(())
        })
    }

    async fn space(&self, path: &Path) -> Result<Space, DiskError> {
        self.run("measure the volume of", path, |world| {
            world.find(path)?;
            let used: usize = world.nodes.iter().map(Node::size_bytes).sum();
            Ok(Space {
                total_bytes: VOLUME_BYTES,
                usable_bytes: VOLUME_BYTES.saturating_sub(used as u64),
            })
        })
    }

    async fn lock(&self, path: &Path) -> Result<MemoryLock, DiskError> {
        self.run("lock", path, |world| {
            world.open(path, OpenMode::Create)?;
            if world.locks.insert(path.to_owned()) {
                Ok(world.generation)
            } else {
                Err(EAGAIN)
            }
        })
        .map(|generation| MemoryLock {
            disk: self.clone(),
            path: path.to_owned(),
            generation,
        })
    }
}

impl MemoryFile {
    fn run<T>(
        &self,
        operation: &'static str,
        act: impl FnOnce(&mut FileNode) -> Result<T, i32>,
    ) -> Result<T, DiskError> {
        self.disk.run(operation, &self.path, |world| {
            if world.generation != self.generation {
                return Err(EIO);
            }
            act(world.file_mut(self.node)?)
        })
    }
}

impl DiskFile for MemoryFile {
    async fn write_all_at(&self, buffers: &[Bytes], position: u64) -> Result<(), DiskError> {
        self.disk.count(|counts| counts.writes += 1);
        let mut position = usize::try_from(position).expect("files in memory are small");
        let result = self.run("write", |file| {
            for buffer in buffers {
                let bytes = Bytes::copy_from_slice(buffer);
                file.change(FileChange::Write { position, bytes });
                position += buffer.len();
            }
            Ok(())
        });
        let stale = self.generation != self.disk.world.borrow().generation;
        if result.is_err()
            && !stale
            && let (Some(first), Ok(node)) = (
                buffers.first(),
                self.disk.world.borrow_mut().file_mut(self.node),
            )
        {
            // A failed write may have got some way.
            let bytes = first.slice(..first.len() / 2);
            node.change(FileChange::Write { position, bytes });
        }
        result
    }

    async fn read_at(&self, position: u64, size_bytes: usize) -> Result<Bytes, DiskError> {
        self.disk.count(|counts| counts.reads += 1);
        self.run("read", |file| {
            let start = usize::try_from(position)
                .unwrap_or(usize::MAX)
                .min(file.current.len());
            let end = start.saturating_add(size_bytes).min(file.current.len());
            Ok(Bytes::copy_from_slice(&file.current[start..end]))
        })
    }

    async fn set_size(&self, size_bytes: u64) -> Result<(), DiskError> {
        let size = usize::try_from(size_bytes).expect("files in memory are small");
        self.run("truncate", |file| {
            file.change(FileChange::Size(size));
            Ok(())
        })
    }

    async fn trim(&self, size_bytes: u64) -> Result<(), DiskError> {
        self.set_size(size_bytes).await
    }

    async fn allocate(&self, size_bytes: u64) -> Result<(), DiskError> {
        let size = usize::try_from(size_bytes).expect("files in memory are small");
        self.run("allocate", |file| {
            if file.current.len() < size {
                file.change(FileChange::Size(size));
            }
            Ok(())
        })
    }

    fn prepare(&self, preparation: &Preparation) {
        self.start(preparation);
    }

    fn write_back(&self, _: u64, _: u64) {}

    async fn sync_data(&self) -> Result<(), DiskError> {
        self.disk.count(|counts| counts.syncs += 1);
        self.run("sync", |file| {
            self.disk.sync_fault(&self.path)?;
            file.sync();
            Ok(())
        })
    }

    async fn size_bytes(&self) -> Result<u64, DiskError> {
        self.run("stat", |file| Ok(file.current.len() as u64))
    }

    async fn modified(&self) -> Result<Option<Timestamp>, DiskError> {
        self.run("stat", |file| Ok(file.modified))
    }

    fn descriptor(&self) -> Option<Arc<OwnedFd>> {
        None
    }
}
