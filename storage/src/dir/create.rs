//! Making a log directory that is there to stay.

use std::path::Path;

use crate::disk::{Disk, DiskError, OpenMode};

/// Creates `path` and its parents, and makes durable every name on the way that may be new. An earlier process may have made the last one
/// and ended too soon.
pub(super) async fn create_durably<D: Disk>(disk: &D, path: &Path) -> Result<(), DiskError> {
    let mut holders = vec![holder_of(path)];
    for dir in path.ancestors() {
        match disk.open(dir, OpenMode::Read).await {
            Err(error) if error.is_not_found() && !dir.as_os_str().is_empty() => {
                holders.push(holder_of(dir));
            }
            Ok(_) | Err(_) => break,
        }
    }
    holders.dedup();
    disk.create_dir_all(path).await?;
    for holder in holders.into_iter().flatten() {
        disk.sync_dir(holder).await?;
    }
    Ok(())
}

/// The directory that holds the name; none for a root.
fn holder_of(path: &Path) -> Option<&Path> {
    let parent = path.parent()?;
    Some(if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    })
}

#[cfg(test)]
mod tests {
    use futures_lite::future::block_on;

    use super::*;
    use crate::disk::memory::MemoryDisk;

    // Goal: a new log directory survives a power cut, however deep, whoever made a part of it. Method: create, cut, look.
    #[test]
    fn directories_survive_a_power_cut() {
        for seed in 0..50 {
            for path in ["/a", "/a/b", "/a/b/c/d"] {
                let disk = MemoryDisk::new();
                if seed % 2 == 0 {
                    block_on(disk.create_dir_all(Path::new("/a"))).expect("healthy disk");
                    block_on(disk.sync_dir(Path::new("/"))).expect("healthy disk");
                }
                block_on(create_durably(&disk, Path::new(path))).expect("healthy disk");
                disk.crash(seed);
                block_on(disk.read_dir(Path::new(path))).expect("it is there");
            }
        }
    }
}
