//! The disk of a simulation: storage's own disk in memory, with operations that take time, so that everything else can happen
//! meanwhile, and writes that a kill can cut in two.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use pelton_model::Timestamp;
use pelton_storage::disk::memory::{MemoryDisk, MemoryFile, MemoryLock};
use pelton_storage::disk::prepare::Preparation;
use pelton_storage::disk::{DirEntry, Disk, DiskError, DiskFile, OpenMode, Space, Stamp};

use super::world::World;

/// See the module.
#[derive(Clone)]
pub struct SimDisk {
    world: World,
    inner: MemoryDisk,
    /// Longest time of one operation, nanoseconds.
    delay_max: u64,
}

impl SimDisk {
    /// Slows `inner` down.
    #[must_use]
    pub fn new(world: &World, inner: MemoryDisk, delay_max: u64) -> Self {
        Self { world: world.clone(), inner, delay_max }
    }

    /// Half of the operations are done at once, as those on the page cache are.
    async fn take_time(&self) {
        if self.world.draw(|random| random.percent(50)) {
            return;
        }
        let delay = self.world.draw(|random| random.magnitude(self.delay_max));
        self.world.sleep(delay).await;
    }
}

impl Disk for SimDisk {
    type File = SimFile;
    type Lock = MemoryLock;

    async fn open(&self, path: &Path, mode: OpenMode) -> Result<SimFile, DiskError> {
        self.take_time().await;
        let inner = self.inner.open(path, mode).await?;
        Ok(SimFile { disk: self.clone(), inner })
    }

    async fn create_dir_all(&self, path: &Path) -> Result<(), DiskError> {
        self.take_time().await;
        self.inner.create_dir_all(path).await
    }

    async fn stamp(&self, path: &Path) -> Result<Stamp, DiskError> {
        self.take_time().await;
        self.inner.stamp(path).await
    }

    async fn read_dir(&self, path: &Path) -> Result<Vec<DirEntry>, DiskError> {
        self.take_time().await;
        self.inner.read_dir(path).await
    }

    async fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.take_time().await;
        self.inner.rename(from, to).await
    }

    async fn remove_file(&self, path: &Path) -> Result<(), DiskError> {
        self.take_time().await;
        self.inner.remove_file(path).await
    }

    async fn remove_dir_all(&self, path: &Path) -> Result<(), DiskError> {
        self.take_time().await;
        self.inner.remove_dir_all(path).await
    }

    async fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.take_time().await;
        self.inner.sync_dir(path).await
    }

    async fn space(&self, path: &Path) -> Result<Space, DiskError> {
        self.inner.space(path).await
    }

    async fn lock(&self, path: &Path) -> Result<MemoryLock, DiskError> {
        self.take_time().await;
        self.inner.lock(path).await
    }
}

/// An open file.
#[derive(Debug)]
pub struct SimFile {
    disk: SimDisk,
    inner: MemoryFile,
}

impl std::fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

impl SimFile {
    fn world(&self) -> &World {
        &self.disk.world
    }

    /// Where to cut a write in two, if at all.
    fn cut(&self, buffers: &[Bytes]) -> Option<(Vec<Bytes>, Vec<Bytes>)> {
        let total: usize = buffers.iter().map(Bytes::len).sum();
        if total < 2 || !self.world().draw(|random| random.percent(10)) {
            return None;
        }
        let mut left = self.world().draw(|random| random.index(total - 1)) + 1;
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for buffer in buffers {
            let here = left.min(buffer.len());
            left -= here;
            first.push(buffer.slice(..here));
            second.push(buffer.slice(here..));
        }
        Some((first, second))
    }
}

impl DiskFile for SimFile {
    async fn write_all_at(&self, buffers: &[Bytes], position: u64) -> Result<(), DiskError> {
        self.disk.take_time().await;
        let Some((first, second)) = self.cut(buffers) else {
            return self.inner.write_all_at(buffers, position).await;
        };
        self.inner.write_all_at(&first, position).await?;
        let written: usize = first.iter().map(Bytes::len).sum();
        self.world().yield_now().await;
        self.inner.write_all_at(&second, position + written as u64).await
    }

    async fn read_at(&self, position: u64, size_bytes: usize) -> Result<Bytes, DiskError> {
        self.disk.take_time().await;
        self.inner.read_at(position, size_bytes).await
    }

    async fn set_size(&self, size_bytes: u64) -> Result<(), DiskError> {
        self.disk.take_time().await;
        self.inner.set_size(size_bytes).await
    }

    async fn trim(&self, size_bytes: u64) -> Result<(), DiskError> {
        self.disk.take_time().await;
        self.inner.trim(size_bytes).await
    }

    async fn allocate(&self, size_bytes: u64) -> Result<(), DiskError> {
        self.disk.take_time().await;
        self.inner.allocate(size_bytes).await
    }

    fn prepare(&self, preparation: &Preparation) {
        self.inner.prepare(preparation);
    }

    fn write_back(&self, from: u64, to: u64) {
        self.inner.write_back(from, to);
    }

    async fn sync_data(&self) -> Result<(), DiskError> {
        self.disk.take_time().await;
        self.inner.sync_data().await
    }

    async fn size_bytes(&self) -> Result<u64, DiskError> {
        self.inner.size_bytes().await
    }

    async fn modified(&self) -> Result<Option<Timestamp>, DiskError> {
        self.inner.modified().await
    }

    fn descriptor(&self) -> Option<Arc<OwnedFd>> {
        None
    }
}
