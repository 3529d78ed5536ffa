//! Reading by offset.
//!
//! Invariants:
//! 1. A read returns whole, consecutive batches of one segment, beginning with the batch that contains the offset.
//! 2. Record bytes of a range are never read to find its end: the index gives a boundary near it, headers the rest.
//! 3. Up to `READ_COPY_BYTES_MAX` come as bytes, more as a file range, whose pages are in the cache then; recent small batches come from
//!    memory.

use std::io;
use std::rc::Rc;

use bytes::Bytes;
use pelton_model::Offset;
use pelton_model::batch::HEADER_BYTES;
use pelton_model::slice::{FileRange, Slice};

use super::{Log, ReadOptions, ReadResult};
use crate::config::{READ_COPY_BYTES_MAX, TAIL_SLICES_MAX};
use crate::disk::{Disk, DiskError, DiskFile};
use crate::error::{Damage, ReadError, StorageError};
use crate::segment::{FileKind, Found, Segment, file_path};

/// Batches of a read near the log end.
enum TailRead {
    /// The list does not reach back so far.
    NotCovered,
    /// All bytes are in memory, or there are none to return.
    Memory(ReadResult),
    /// The bytes are in the active segment.
    Range(Range),
}

/// Whole batches within a segment.
struct Range {
    base_offset: Offset,
    /// No batch of the range has a record at or above it.
    end_offset: Offset,
    position: u64,
    end: u64,
}

impl<D: Disk> Log<D> {
    /// Returns whole batches in `[from, up_to)`, starting with the one that *contains* `from`. See [`ReadOptions`].
    ///
    /// A read ends with its segment: fewer bytes than asked do not mean the end of the log.
    ///
    /// # Errors
    /// `OutOfRange` when `from` is outside `[log_start, log_end]`.
    pub async fn read(&self, options: ReadOptions) -> Result<ReadResult, ReadError> {
        loop {
            let changes = self.changes.get();
            let result = self.read_once(options).await;
            // A segment replaced meanwhile may have been looked for under a name that is another's now.
            if self.holds(changes, &result).await {
                return result;
            }
        }
    }

    async fn read_once(&self, options: ReadOptions) -> Result<ReadResult, ReadError> {
        self.check_open()?;
        let (log_start, log_end) = (self.log_start.get(), self.log_end.get());
        let from = options.from;
        if from < log_start || log_end < from {
            return Err(ReadError::OutOfRange {
                from,
                log_start,
                log_end,
            });
        }
        let up_to = options.up_to.min(log_end);
        let options = ReadOptions { up_to, ..options };
        if up_to <= from {
            return Ok(ReadResult::default());
        }
        match self.read_tail(&options) {
            TailRead::Memory(result) => return Ok(result),
            TailRead::Range(range) => {
                let active = self.active();
                return Ok(self.fetch(&active, range).await?);
            }
            TailRead::NotCovered => {}
        }
        let (mut index, mut segment) = self.segment_of(from);
        loop {
            self.touch(&segment);
            let first = match segment.take_next(from) {
                Some(next) => Some(next),
                None => find(&segment, from).await?,
            };
            if let Some(first) = first {
                self.check_bound(&segment, &first)?;
                if options.bytes_max <= READ_COPY_BYTES_MAX {
                    return Ok(read_small(&segment, first, &options).await?);
                }
                let Some(range) = self.range(&segment, index, first, &options).await? else {
                    return Ok(ReadResult::default());
                };
                return Ok(self.fetch(&segment, range).await?);
            }
            // The offset lies in a gap at the end of this segment.
            index += 1;
            match self.segment_at(index) {
                Some(next) => segment = next,
                None => return Ok(ReadResult::default()),
            }
        }
    }

    /// A batch ends before the next segment or the log does, else its header lies: it would be waited for in vain.
    fn check_bound(&self, segment: &Segment<D>, found: &Found) -> Result<(), StorageError> {
        let segments = self.segments.borrow();
        let next = segments.partition_point(|other| other.base <= segment.base);
        let bound = segments
            .get(next)
            .map_or(self.log_end.get(), |next| next.base);
        if found.header.next_offset() <= bound {
            return Ok(());
        }
        let path = segment.path(FileKind::Log);
        Err(StorageError::corrupt(
            &path,
            found.position,
            Damage::Offsets,
        ))
    }

    fn read_tail(&self, options: &ReadOptions) -> TailRead {
        let tail = self.tail.borrow();
        let Some(batches) = tail.from(options.from) else {
            return TailRead::NotCovered;
        };
        let mut range: Option<Range> = None;
        let mut slices = Vec::new();
        let mut in_memory = true;
        for batch in batches {
            let start = range
                .as_ref()
                .map_or(batch.position, |range| range.position);
            let size = usize::try_from(batch.end() - start).unwrap_or(usize::MAX);
            let forced = options.at_least_one && range.is_none();
            if options.up_to <= batch.last_offset || (options.bytes_max < size && !forced) {
                break;
            }
            let range = range.get_or_insert(Range {
                base_offset: batch.base_offset,
                end_offset: batch.base_offset,
                position: start,
                end: start,
            });
            range.end = batch.end();
            range.end_offset = batch.last_offset.plus(1);
            if in_memory {
                match tail.bytes(batch) {
                    Some(bytes) if slices.len() < TAIL_SLICES_MAX => {
                        slices.push(Slice::Bytes(bytes));
                    }
                    Some(_) | None => in_memory = false,
                }
            }
        }
        match range {
            None => TailRead::Memory(ReadResult::default()),
            Some(range) if !in_memory => TailRead::Range(range),
            Some(range) => TailRead::Memory(ReadResult {
                slices,
                size_bytes: usize::try_from(range.end - range.position).unwrap_or(usize::MAX),
                base_offset: Some(range.base_offset),
                end_offset: Some(range.end_offset),
            }),
        }
    }

    /// The batches from `first` on that the options admit; `None` when they do not even admit `first`.
    async fn range(
        &self,
        segment: &Rc<Segment<D>>,
        index: usize,
        first: Found,
        options: &ReadOptions,
    ) -> Result<Option<Range>, StorageError> {
        let fits = first.header.size_bytes() <= options.bytes_max;
        if options.up_to <= first.header.last_offset() || !(fits || options.at_least_one) {
            return Ok(None);
        }
        let range = |end, end_offset| {
            Some(Range {
                base_offset: first.header.base_offset,
                end_offset,
                position: first.position,
                end,
            })
        };
        if !fits {
            return Ok(range(first.end(), first.header.next_offset()));
        }
        let segment_end = match self.segment_at(index + 1) {
            Some(next) => next.base,
            None => self.log_end.get(),
        };
        let whole = segment_end <= options.up_to;
        let bound = segment_end.min(options.up_to);
        let mut limit = segment.size_bytes();
        if !whole {
            limit = match find(segment, options.up_to).await? {
                Some(beyond) => beyond.position,
                None => limit,
            };
        }
        assert!(first.end() <= limit);
        let wanted = first.position.saturating_add(options.bytes_max as u64);
        if limit <= wanted {
            return Ok(range(limit, bound));
        }
        let mut walk = segment.walk_before_position(wanted).await?;
        if walk.position() < first.end() {
            walk = segment.walk(first.end()).await?;
        }
        let mut end = walk.position();
        let mut end_offset = bound;
        while let Some(found) = walk.next().await? {
            if wanted < found.end() {
                end_offset = found.header.base_offset;
                segment.remember_next(found);
                break;
            }
            end = found.end();
        }
        Ok(range(end, end_offset))
    }

    async fn fetch(&self, segment: &Segment<D>, range: Range) -> Result<ReadResult, StorageError> {
        assert!(range.position < range.end);
        let size_bytes =
            usize::try_from(range.end - range.position).expect("a segment is below 2 GiB");
        let file = segment.file().await?;
        let slice = match file.descriptor() {
            Some(descriptor) if READ_COPY_BYTES_MAX < size_bytes => {
                file.warm(range.position, size_bytes).await?;
                Slice::File(FileRange {
                    file: descriptor,
                    position: range.position,
                    size_bytes,
                })
            }
            Some(_) | None => {
                let bytes = file.read_at(range.position, size_bytes).await?;
                if bytes.len() < size_bytes {
                    let path = file_path(&self.home.directory, segment.base, FileKind::Log);
                    let source = io::Error::from(io::ErrorKind::UnexpectedEof);
                    return Err(DiskError::new("read", &path, source).into());
                }
                Slice::Bytes(bytes)
            }
        };
        Ok(ReadResult {
            slices: vec![slice],
            size_bytes,
            base_offset: Some(range.base_offset),
            end_offset: Some(range.end_offset),
        })
    }
}

/// The batches from `first` on that a small read admits: one read of the file tells where they end, and where the reader goes on.
async fn read_small<D: Disk>(
    segment: &Segment<D>,
    first: Found,
    options: &ReadOptions,
) -> Result<ReadResult, StorageError> {
    let first_bytes = first.header.size_bytes();
    let fits = first_bytes <= options.bytes_max;
    if options.up_to <= first.header.last_offset() || !(fits || options.at_least_one) {
        return Ok(ReadResult::default());
    }
    let wanted = options.bytes_max.max(first_bytes);
    let left = usize::try_from(segment.size_bytes() - first.position).unwrap_or(usize::MAX);
    assert!(first_bytes <= left);
    let mut walk = segment
        .walk_within(&first, left.min(wanted + HEADER_BYTES))
        .await?;
    let mut size_bytes = 0;
    let mut end_offset = None;
    while walk.block().1 {
        let found = match walk.next().await {
            Ok(Some(found)) => found,
            Ok(None) => break,
            // What stands before the damage is good; who goes on from there meets it.
            Err(StorageError::Corrupt { .. }) if size_bytes > 0 => break,
            Err(error) => return Err(error),
        };
        if size_bytes == 0 && found.header != first.header {
            // Where the last reader stopped stood another batch: somebody writes to the file.
            let path = segment.path(FileKind::Log);
            return Err(StorageError::corrupt(
                &path,
                found.position,
                Damage::Offsets,
            ));
        }
        let end = usize::try_from(found.end() - first.position).unwrap_or(usize::MAX);
        if options.up_to <= found.header.last_offset() || wanted < end {
            segment.remember_next(found);
            break;
        }
        size_bytes = end;
        end_offset = Some(found.header.next_offset());
    }
    let block = walk.block().0;
    // An answer that waits for its reader holds no more than twice its bytes.
    let bytes = if size_bytes < block.len() / 2 {
        Bytes::copy_from_slice(&block[..size_bytes])
    } else {
        block.slice(..size_bytes)
    };
    let slices = if bytes.is_empty() {
        Vec::new()
    } else {
        vec![Slice::Bytes(bytes)]
    };
    Ok(ReadResult {
        slices,
        size_bytes,
        base_offset: (size_bytes > 0).then_some(first.header.base_offset),
        end_offset,
    })
}

/// The first batch that ends at or after `offset`.
pub(super) async fn find<D: Disk>(
    segment: &Segment<D>,
    offset: Offset,
) -> Result<Option<Found>, StorageError> {
    let mut walk = segment.walk_before(offset).await?;
    while let Some(found) = walk.next().await? {
        if offset <= found.header.last_offset() {
            if offset < found.header.base_offset {
                // A gap, as compaction leaves them, or a base offset that lies: then it passes the next one's.
                let _more = walk.next().await?;
            }
            return Ok(Some(found));
        }
    }
    Ok(None)
}
