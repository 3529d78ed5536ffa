//! The sparse indexes of a segment: `.index` (offset → position) and `.timeindex` (time → offset).
//!
//! | file | entry | big-endian fields |
//! |---|---:|---|
//! | `.index` | 8 bytes | relative offset i32 of a batch's last record, position i32 where the batch begins |
//! | `.timeindex` | 12 bytes | largest timestamp so far i64, relative offset i32 of the batch that holds it |
//!
//! Invariants:
//! 1. Entries grow strictly in their key; what breaks that was never written by a broker.
//! 2. An index is a hint: whoever follows an entry checks the batch header it leads to.
//! 3. Trailing zero entries are unused space (Kafka preallocates the files) and are not counted.
//! 4. Entries gather in memory and are written in groups; a crash loses at most those, and recovery rebuilds the file.
//!
//! Deliberately absent: mmap, caching of pages (the kernel has them).

mod entry;

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use bytes::{BufMut, Bytes, BytesMut};

use crate::config::INDEX_PENDING_MAX;
use crate::disk::{Disk, DiskError, DiskFile, OpenMode};

pub use entry::{IndexEntry, OffsetEntry, TimeEntry};

/// Entries that a search reads at once.
const SEARCH_BLOCK: u64 = 128;
/// An index larger than this is rebuilt rather than read; Kafka's default is 10 MiB.
const KEEP_BYTES_MAX: usize = 64 * 1024 * 1024;
/// No index file is larger: Kafka's `segment.index.bytes` is an i32.
const INDEX_FILE_BYTES_MAX: u64 = i32::MAX as u64;

#[derive(Debug)]
struct State<F, E> {
    file: Option<Rc<F>>,
    on_file: u64,
    pending: Vec<E>,
    last: Option<E>,
    loaded: bool,
    /// Whether the file may hold something that was not synced.
    unsynced: bool,
}

/// One index file.
#[derive(Debug)]
pub(crate) struct Index<F, E> {
    state: RefCell<State<F, E>>,
}

impl<F: DiskFile, E: IndexEntry> Index<F, E> {
    /// An index that is read from its file when it is first needed.
    pub(crate) fn unloaded() -> Self {
        Self {
            state: RefCell::new(State {
                file: None,
                on_file: 0,
                pending: Vec::new(),
                last: None,
                loaded: false,
                unsynced: true,
            }),
        }
    }

    /// Opens and measures the file once.
    pub(crate) async fn load<D: Disk<File = F>>(
        &self,
        disk: &D,
        path: &Path,
    ) -> Result<(), DiskError> {
        let (loaded, open) = {
            let state = self.state.borrow();
            (state.loaded, state.file.is_some())
        };
        if loaded && open {
            return Ok(());
        }
        let file = Rc::new(disk.open(path, OpenMode::Create).await?);
        let mut count = file.size_bytes().await? / E::BYTES as u64;
        // A file that was cut since it was measured is measured again: less index, longer walks.
        if loaded && self.state.borrow().on_file <= count {
            self.state.borrow_mut().file = Some(file);
            return Ok(());
        }
        if count > 0
            && read_one::<F, E>(&file, count - 1)
                .await?
                .is_none_or(E::is_blank)
        {
            count = used_entries::<F, E>(&file, count - 1).await?;
        }
        let last = match count.checked_sub(1) {
            Some(index) => read_one::<F, E>(&file, index).await?,
            None => None,
        };
        let mut state = self.state.borrow_mut();
        state.file = Some(file);
        state.on_file = count;
        state.last = last;
        state.loaded = true;
        Ok(())
    }

    /// The number of entries on file and the last one, if they are known and nothing waits to be written.
    pub(crate) fn measured(&self) -> Option<(u64, Option<E>)> {
        let state = self.state.borrow();
        (state.loaded && state.pending.is_empty()).then_some((state.on_file, state.last))
    }

    /// Believes what [`Index::measured`] once said of the file; says whether that makes sense.
    pub(crate) fn take_measure(&self, count: u64, last: Option<E>) -> bool {
        let mut state = self.state.borrow_mut();
        state.on_file = count;
        state.last = last;
        state.loaded = true;
        (count == 0) == last.is_none() && count <= INDEX_FILE_BYTES_MAX / E::BYTES as u64
    }

    /// Empties the file (created if absent) to be filled anew.
    pub(crate) async fn reset<D: Disk<File = F>>(
        &self,
        disk: &D,
        path: &Path,
    ) -> Result<(), DiskError> {
        let file = Rc::new(disk.open(path, OpenMode::Create).await?);
        // Thousands of idle partitions: an empty file need not be changed to be empty.
        if file.size_bytes().await? != 0 {
            file.set_size(0).await?;
        }
        let mut state = self.state.borrow_mut();
        state.file = Some(file);
        state.on_file = 0;
        state.pending.clear();
        state.last = None;
        state.loaded = true;
        state.unsynced = true;
        Ok(())
    }

    /// Keeps the first entries, those that grow and for which `holds`, and cuts the file behind them; says whether the file was small
    /// enough to be read for that.
    pub(crate) async fn keep<D: Disk<File = F>>(
        &self,
        disk: &D,
        path: &Path,
        holds: impl Fn(&E) -> bool,
    ) -> Result<bool, DiskError> {
        let file = Rc::new(disk.open(path, OpenMode::Create).await?);
        let size = file.size_bytes().await?;
        let Some(size) = usize::try_from(size).ok().filter(|&s| s <= KEEP_BYTES_MAX) else {
            return Ok(false);
        };
        let entries = decode_all::<E>(&file.read_at(0, size).await?);
        let kept = entries.partition_point(holds);
        if kept * E::BYTES != size {
            file.set_size((kept * E::BYTES) as u64).await?;
        }
        let mut state = self.state.borrow_mut();
        state.file = Some(file);
        state.on_file = kept as u64;
        state.pending.clear();
        state.last = kept.checked_sub(1).map(|last| entries[last]);
        state.loaded = true;
        Ok(true)
    }

    /// Closes the file; it is opened again when needed.
    pub(crate) fn release(&self) {
        let mut state = self.state.borrow_mut();
        if state.pending.is_empty() {
            state.file = None;
            state.pending = Vec::new();
        }
    }

    /// Whether the file was measured or filled since the segment was opened.
    pub(crate) fn is_loaded(&self) -> bool {
        self.state.borrow().loaded
    }

    /// Whether the file is open.
    pub(crate) fn is_open(&self) -> bool {
        self.state.borrow().file.is_some()
    }

    /// The latest entry. Loaded indexes only.
    pub(crate) fn last(&self) -> Option<E> {
        self.state.borrow().last
    }

    /// The number of entries. Loaded indexes only.
    pub(crate) fn count(&self) -> u64 {
        let state = self.state.borrow();
        state.on_file + state.pending.len() as u64
    }

    /// The size the file will have.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.count() * E::BYTES as u64
    }

    /// Adds `entry` unless it does not grow the index; says whether a group is full and wants [`Index::write_out`].
    pub(crate) fn push(&self, entry: E) -> bool {
        let mut state = self.state.borrow_mut();
        debug_assert!(state.loaded);
        if entry.is_blank() || state.last.is_some_and(|last| !last.precedes(entry)) {
            return false;
        }
        state.pending.push(entry);
        state.last = Some(entry);
        state.pending.len() >= INDEX_PENDING_MAX
    }

    /// Writes the entries gathered so far.
    pub(crate) async fn write_out(&self) -> Result<(), DiskError> {
        let (file, position, bytes, written_to) = {
            let state = self.state.borrow();
            if state.pending.is_empty() {
                return Ok(());
            }
            let file = state
                .file
                .clone()
                .expect("entries are pushed to open files only");
            let mut bytes = BytesMut::with_capacity(state.pending.len() * E::BYTES);
            for entry in &state.pending {
                entry.encode(&mut bytes);
            }
            let written_to = state.on_file + state.pending.len() as u64;
            (
                file,
                state.on_file * E::BYTES as u64,
                bytes.freeze(),
                written_to,
            )
        };
        file.write_all_at(&[bytes], position).await?;
        // Another task may have written the same entries meanwhile: the same bytes at the same place.
        let mut state = self.state.borrow_mut();
        state.unsynced = true;
        let count = usize::try_from(written_to.saturating_sub(state.on_file))
            .expect("at most the pending entries");
        let count = count.min(state.pending.len());
        state.pending.drain(..count);
        state.on_file += count as u64;
        Ok(())
    }

    /// Writes what is gathered and makes the file durable, unless it is.
    pub(crate) async fn sync(&self) -> Result<(), DiskError> {
        self.write_out().await?;
        let file = {
            let mut state = self.state.borrow_mut();
            if !state.unsynced {
                return Ok(());
            }
            let file = state.file.clone();
            // What is written from here on is for the next sync. A failed one is never followed by another.
            state.unsynced = file.is_none();
            file
        };
        match file {
            Some(file) => file.sync_data().await,
            None => Ok(()),
        }
    }

    /// Cuts the file behind its last entry, so that it can grow from there.
    pub(crate) async fn trim(&self) -> Result<(), DiskError> {
        let (file, size) = {
            let state = self.state.borrow();
            (state.file.clone(), state.on_file * E::BYTES as u64)
        };
        match file {
            Some(file) if file.size_bytes().await? != size => {
                self.state.borrow_mut().unsynced = true;
                file.set_size(size).await
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The last entry that satisfies `holds` (true for a prefix of the entries). Looks around `guess` first.
    pub(crate) async fn search(
        &self,
        guess: u64,
        holds: impl Fn(&E) -> bool,
    ) -> Result<Option<E>, DiskError> {
        let count = self.count();
        // Held to the end: the index may be released meanwhile.
        let file = self.state.borrow().file.clone();
        let file = file.as_deref();
        // Entries before `low` satisfy, those from `high` on do not.
        let (mut low, mut high) = (0, count);
        let mut start = guess.min(count).saturating_sub(SEARCH_BLOCK / 2);
        loop {
            let end = (start + SEARCH_BLOCK).min(high);
            let block = self.entries(file, start, end).await?;
            let after = block.partition_point(&holds);
            let inside = 0 < after && after < block.len();
            if inside || (start == low && after < block.len()) || (end == high && after > 0) {
                return match after.checked_sub(1) {
                    Some(index) => Ok(block.get(index).copied()),
                    // The entry before the block is known to satisfy.
                    None => match low.checked_sub(1) {
                        Some(before) => self.entry(file, before).await,
                        None => Ok(None),
                    },
                };
            }
            if after == 0 {
                high = start;
            } else {
                low = end;
            }
            if high <= low {
                return match low.checked_sub(1) {
                    Some(last) => self.entry(file, last).await,
                    None => Ok(None),
                };
            }
            start = low + (high - low).saturating_sub(SEARCH_BLOCK) / 2;
        }
    }

    async fn entry(&self, file: Option<&F>, index: u64) -> Result<Option<E>, DiskError> {
        Ok(self.entries(file, index, index + 1).await?.first().copied())
    }

    async fn entries(&self, file: Option<&F>, from: u64, to: u64) -> Result<Vec<E>, DiskError> {
        let (file_to, pending) = {
            let state = self.state.borrow();
            let at = |index: u64| {
                usize::try_from(index.saturating_sub(state.on_file))
                    .unwrap_or(usize::MAX)
                    .min(state.pending.len())
            };
            let pending = state.pending[at(from)..at(to).max(at(from))].to_vec();
            (to.min(state.on_file), pending)
        };
        let Some(file) = file.filter(|_| from < file_to) else {
            return Ok(pending);
        };
        let size = usize::try_from((file_to - from) * E::BYTES as u64).expect("a block is small");
        let bytes = file.read_at(from * E::BYTES as u64, size).await?;
        let mut entries: Vec<E> = bytes.chunks_exact(E::BYTES).map(E::decode).collect();
        entries.extend(pending);
        Ok(entries)
    }
}

async fn read_one<F: DiskFile, E: IndexEntry>(
    file: &F,
    index: u64,
) -> Result<Option<E>, DiskError> {
    let bytes: Bytes = file.read_at(index * E::BYTES as u64, E::BYTES).await?;
    Ok((bytes.len() == E::BYTES).then(|| E::decode(&bytes)))
}

/// The number of entries before the unused space, which begins at or before `blank`.
async fn used_entries<F: DiskFile, E: IndexEntry>(file: &F, blank: u64) -> Result<u64, DiskError> {
    let (mut low, mut high) = (0, blank);
    while low < high {
        let middle = low + (high - low) / 2;
        if read_one::<F, E>(file, middle)
            .await?
            .is_none_or(E::is_blank)
        {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(low)
}

/// Decodes a whole index file up to its unused space; an entry that does not grow ends it. For tools and tests.
#[must_use]
pub fn decode_all<E: IndexEntry>(bytes: &[u8]) -> Vec<E> {
    let mut entries: Vec<E> = Vec::new();
    for entry in bytes.chunks_exact(E::BYTES).map(E::decode) {
        if entry.is_blank() || entries.last().is_some_and(|last| !last.precedes(entry)) {
            break;
        }
        entries.push(entry);
    }
    entries
}

/// Encodes entries one after the other.
pub fn encode_all<E: IndexEntry>(entries: &[E], out: &mut impl BufMut) {
    for entry in entries {
        entry.encode(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::memory::MemoryDisk;
    use futures_lite::future::block_on;

    // Goal: a search finds what a linear one finds, wherever it looks first, on file and in memory. Method: indexes of
    // several sizes, every wanted offset around the borders and a spread of others, good and bad guesses.
    #[test]
    fn search_is_exact() {
        for count in [0_u32, 1, 2, 127, 128, 129, 1_000, 3_000] {
            let disk = MemoryDisk::new();
            let index: Index<_, OffsetEntry> = Index::unloaded();
            block_on(index.load(&disk, Path::new("/index"))).expect("healthy disk");
            for number in 1..=count {
                let full = index.push(OffsetEntry {
                    relative_offset: number * 10,
                    position: number * 100,
                });
                if full {
                    block_on(index.write_out()).expect("healthy disk");
                }
            }
            assert_eq!(index.count(), u64::from(count));
            for wanted in (0..count * 10 + 20).step_by(7) {
                let expected = (wanted / 10).min(count);
                for guess in [0, u64::from(wanted / 10), u64::from(count / 2), u64::MAX] {
                    let found = block_on(index.search(guess, |e| e.relative_offset <= wanted));
                    let found = found.expect("healthy disk").map(|e| e.position / 100);
                    assert_eq!(found.unwrap_or(0), expected, "{count} {wanted} {guess}");
                }
            }
        }
    }
}
