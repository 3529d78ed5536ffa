//! Verifying a segment batch by batch and rebuilding its indexes.
//!
//! Invariants:
//! 1. A batch counts when it is whole, its CRC matches, and its offsets lie in the segment behind its predecessor.
//! 2. Memory is bounded by a block and the largest batch that the file really holds.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::{Buf, Bytes};
use pelton_model::Offset;
use pelton_model::batch::{BatchError, BatchHeader, HEADER_BYTES, LOG_OVERHEAD_BYTES, verify_crc};
use pelton_model::task::yield_now;

use super::BatchFacts;
use crate::config::{RECOVERY_BLOCK_BYTES, SCAN_TURN_BYTES};
use crate::disk::prepare::FILLER;
use crate::disk::{Disk, DiskError, DiskFile, OpenMode};
use crate::error::Damage;
use crate::segment::{FileKind, Home, Segment, file_path};

/// What a scan found.
#[derive(Debug)]
pub(super) struct Scanned {
    /// The offset after the last good batch.
    pub(super) next_offset: Offset,
    /// Bytes of good batches.
    pub(super) good_bytes: u64,
    /// Bytes of the file.
    pub(super) file_bytes: u64,
    /// What ended the scan before the end of the file.
    pub(super) damage: Option<Damaged>,
}

/// The first bytes that are no good batch.
#[derive(Debug)]
pub(super) struct Damaged {
    pub(super) path: PathBuf,
    pub(super) damage: Damage,
    /// Whether a good batch follows: damage in the middle, not a torn tail. Looked for everywhere where records were durable.
    pub(super) inside: bool,
    /// Where the damaged batch would end, if it is there from its header to its last byte.
    pub(super) whole_to: Option<Offset>,
    /// Whether the length makes sense: not zeros or noise.
    pub(super) plausible: bool,
    /// Whether prepared space begins here, that no append has reached.
    pub(super) blank: bool,
}

struct Reader<F> {
    file: Rc<F>,
    file_bytes: u64,
    position: u64,
    block: Bytes,
    block_start: u64,
}

impl<F: DiskFile> Reader<F> {
    /// The bytes from the position on, at least `wanted` unless the file ends before.
    async fn bytes(&mut self, wanted: usize) -> Result<Bytes, DiskError> {
        let at =
            usize::try_from(self.position.wrapping_sub(self.block_start)).unwrap_or(usize::MAX);
        if at.saturating_add(wanted) > self.block.len() {
            let left = usize::try_from(self.file_bytes - self.position).unwrap_or(usize::MAX);
            let size = wanted.max(RECOVERY_BLOCK_BYTES).min(left);
            self.block = self.file.read_at(self.position, size).await?;
            self.block_start = self.position;
            return Ok(self.block.clone());
        }
        Ok(self.block.slice(at..))
    }

    /// The next whole batch with a good checksum.
    async fn next(&mut self) -> Result<Result<(BatchHeader, Bytes), Damage>, DiskError> {
        let start = self.bytes(HEADER_BYTES).await?;
        let header = match BatchHeader::parse(&start) {
            Ok(header) => header,
            Err(BatchError::Magic { magic: 0 | 1, .. }) => return Ok(Err(Damage::OldFormat)),
            Err(_) => return Ok(Err(Damage::Header)),
        };
        let size = header.size_bytes();
        if self.file_bytes - self.position < size as u64 {
            return Ok(Err(Damage::Header));
        }
        let bytes = self.bytes(size).await?;
        if bytes.len() < size {
            return Ok(Err(Damage::Header));
        }
        let batch = bytes.slice(..size);
        if !verify_crc(&batch) {
            return Ok(Err(Damage::Checksum));
        }
        Ok(Ok((header, batch)))
    }

    /// Whether the length at the position lies within the file and holds at least an old message's header.
    async fn length_fits(&mut self) -> Result<bool, DiskError> {
        let start = self.bytes(LOG_OVERHEAD_BYTES).await?;
        let length = start
            .get(8..LOG_OVERHEAD_BYTES)
            .map_or(0, |mut b| b.get_i32());
        let left = self.file_bytes - self.position;
        Ok(u64::try_from(length).is_ok_and(|length| 14 <= length && length + 12 <= left))
    }

    /// Whether there is only filler, or zeros, where a header should be.
    async fn is_blank(&mut self) -> Result<bool, DiskError> {
        let start = self.bytes(HEADER_BYTES).await?;
        let first = start.first().copied().unwrap_or_default();
        let is_filled = start.iter().take(HEADER_BYTES).all(|&byte| byte == first);
        Ok(is_filled && (first == FILLER || first == 0))
    }

    /// The offset behind the batch at the position, if all of its bytes are there and it continues the log at `expected`.
    async fn whole_to(&mut self, expected: Offset) -> Result<Option<Offset>, DiskError> {
        let start = self.bytes(HEADER_BYTES).await?;
        let Ok(header) = BatchHeader::parse(&start) else {
            return Ok(None);
        };
        let fits = header.size_bytes() as u64 <= self.file_bytes - self.position;
        let continues = header.base_offset == expected && header.last_offset_delta >= 0;
        Ok((fits && continues).then(|| header.next_offset()))
    }

    /// Whether a good batch follows the bad one at the position, by its length.
    async fn good_follows(&mut self) -> Result<bool, DiskError> {
        let start = self.bytes(HEADER_BYTES).await?;
        let Ok(header) = BatchHeader::parse(&start) else {
            return Ok(false);
        };
        let bad = self.position;
        self.position += header.size_bytes() as u64;
        let follows = self.position < self.file_bytes && self.next().await?.is_ok();
        self.position = bad;
        Ok(follows)
    }

    /// Whether a good batch with offsets from `expected` on stands anywhere behind the position: a damaged length leads nowhere.
    async fn good_follows_somewhere(&mut self, expected: Offset) -> Result<bool, DiskError> {
        self.position += 1;
        while self.position + HEADER_BYTES as u64 <= self.file_bytes {
            let block = self.bytes(HEADER_BYTES).await?;
            if block.len() < HEADER_BYTES {
                break;
            }
            let starts = block.len() - HEADER_BYTES + 1;
            let candidate = (0..starts).find(|&at| may_begin_batch(&block[at..], expected));
            self.position += candidate.unwrap_or(starts) as u64;
            if candidate.is_some() {
                if self.next().await?.is_ok() {
                    return Ok(true);
                }
                self.position += 1;
            }
        }
        Ok(false)
    }

    /// What the damage at the position is.
    async fn damaged(
        &mut self,
        path: PathBuf,
        damage: Damage,
        expected: Offset,
        was_durable: bool,
    ) -> Result<Damaged, DiskError> {
        Ok(Damaged {
            path,
            plausible: self.length_fits().await?,
            blank: self.is_blank().await?,
            whole_to: self.whole_to(expected).await?,
            inside: self.good_follows().await?
                || (was_durable && self.good_follows_somewhere(expected).await?),
            damage,
        })
    }
}

fn may_begin_batch(bytes: &[u8], expected: Offset) -> bool {
    const MAGIC_AT: usize = 16;
    if bytes[MAGIC_AT] != 2 {
        return false;
    }
    let base_offset = (&bytes[..8]).get_i64();
    // A segment spans less than this.
    let span = i64::from(i32::MAX);
    expected.0 <= base_offset && base_offset - expected.0 <= span
}

/// What a scan starts with.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanOptions {
    /// The least offset that may come.
    pub(super) expected: Offset,
    /// Kafka's `index.interval.bytes`.
    pub(super) interval: u32,
    /// Records below were durable once.
    pub(super) durable_to: Offset,
    /// Whether to go on behind what the segment holds ([`Segment::resume_at`]), instead of at its first byte.
    pub(super) goes_on: bool,
}

/// Scans `segment`, rebuilding both indexes; `visit` sees every good batch.
///
/// The segment's size is then that of the good batches; the file itself is not cut.
pub(super) async fn scan<D: Disk>(
    segment: &Segment<D>,
    directory: &Path,
    options: ScanOptions,
    mut visit: impl FnMut(&BatchHeader, &Bytes),
) -> Result<Scanned, DiskError> {
    let file = segment.file().await?;
    let file_bytes = file.size_bytes().await?;
    if !options.goes_on {
        segment.restart();
        segment.reset_indexes().await?;
    }
    let mut reader = Reader {
        file,
        file_bytes,
        position: segment.size_bytes(),
        block: Bytes::new(),
        block_start: 0,
    };
    let mut yielded_at = reader.position;
    let mut next_offset = options.expected.max(segment.base);
    let mut damage = None;
    while reader.position < file_bytes {
        let verdict = reader.next().await?.and_then(|(header, batch)| {
            let ordered = next_offset <= header.base_offset && header.last_offset_delta >= 0;
            let fits = ordered && segment.relative(header.last_offset()).is_some();
            fits.then_some((header, batch)).ok_or(Damage::Offsets)
        });
        match verdict {
            Ok((header, batch)) => {
                let facts = BatchFacts::from(&header);
                if segment.note(&facts, batch.len(), options.interval) {
                    segment.write_out_indexes().await?;
                }
                visit(&header, &batch);
                reader.position += batch.len() as u64;
                if reader.position - yielded_at >= SCAN_TURN_BYTES {
                    yielded_at = reader.position;
                    yield_now().await;
                }
                next_offset = header.next_offset();
            }
            Err(found) => {
                damage = Some(found);
                break;
            }
        }
    }
    segment.write_out_indexes().await?;
    let good_bytes = segment.size_bytes();
    assert!(good_bytes <= file_bytes);
    let damage = match damage {
        Some(damage) => {
            let path = file_path(directory, segment.base, FileKind::Log);
            let was_durable = next_offset < options.durable_to;
            Some(
                reader
                    .damaged(path, damage, next_offset, was_durable)
                    .await?,
            )
        }
        None => None,
    };
    Ok(Scanned {
        next_offset,
        good_bytes,
        file_bytes,
        damage,
    })
}

/// The last offset of the good batches of a file that is no segment yet.
pub(super) async fn last_offset_of<D: Disk>(
    home: &Home<D>,
    path: &Path,
) -> Result<Option<Offset>, DiskError> {
    let file = Rc::new(home.disk.open(path, OpenMode::Read).await?);
    let mut reader = Reader {
        file_bytes: file.size_bytes().await?,
        file,
        position: 0,
        block: Bytes::new(),
        block_start: 0,
    };
    let mut last = None;
    while reader.position < reader.file_bytes {
        let Ok((header, batch)) = reader.next().await? else {
            break;
        };
        reader.position += batch.len() as u64;
        last = Some(header.last_offset());
    }
    Ok(last)
}
