//! Reading a segment in pieces of whole batches.
//!
//! Invariants:
//! 1. A piece is small enough for one turn of the helper, unless it is one large batch.
//! 2. Nothing is read beyond the segment's size: the file may be longer (a prepared tail).

use std::path::PathBuf;

use bytes::Bytes;
use pelton_model::batch::{BatchError, BatchHeader};

use super::CleanError;
use crate::config::{CLEAN_PIECE_BYTES, CLEAN_READ_BYTES};
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::Damage;

/// A segment being read.
#[derive(Debug)]
pub(super) struct Source<F> {
    file: F,
    path: PathBuf,
    position: u64,
    end: u64,
    block: Bytes,
}

/// Whole batches.
#[derive(Debug)]
pub(super) struct Piece {
    /// Never empty.
    pub(super) bytes: Bytes,
    /// Where they lie in the segment.
    pub(super) position: u64,
}

impl<F: DiskFile> Source<F> {
    /// Opens a log file of which the first `size_bytes` bytes are whole batches.
    pub(super) async fn open<D: Disk<File = F>>(
        disk: &D,
        path: PathBuf,
        size_bytes: u64,
    ) -> Result<Self, CleanError> {
        let file = disk.open(&path, OpenMode::Read).await?;
        Ok(Self {
            file,
            path,
            position: 0,
            end: size_bytes,
            block: Bytes::new(),
        })
    }

    /// Where the file is, for messages.
    pub(super) fn path(&self) -> &PathBuf {
        &self.path
    }

    /// The next batches; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Piece>, CleanError> {
        if self.position == self.end {
            return Ok(None);
        }
        let mut size = self.whole_batches()?;
        if size == 0 {
            size = self.refill().await?;
        }
        let piece = Piece {
            bytes: self.block.split_to(size),
            position: self.position,
        };
        self.position += size as u64;
        assert!(self.position <= self.end);
        Ok(Some(piece))
    }

    /// Reads on, at least one batch, and returns the size of the next piece.
    async fn refill(&mut self) -> Result<usize, CleanError> {
        let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        self.block = self
            .file
            .read_at(self.position, left.min(CLEAN_READ_BYTES))
            .await?;
        let size = self.whole_batches()?;
        if size > 0 {
            return Ok(size);
        }
        let header = BatchHeader::parse(&self.block).map_err(|_| self.damaged())?;
        if left < header.size_bytes() {
            return Err(self.damaged());
        }
        self.block = self
            .file
            .read_at(self.position, header.size_bytes())
            .await?;
        match self.whole_batches()? {
            0 => Err(self.damaged()),
            size => Ok(size),
        }
    }

    /// The size of the whole batches at the start of the block that make up a piece.
    fn whole_batches(&self) -> Result<usize, CleanError> {
        let mut size = 0;
        while size < CLEAN_PIECE_BYTES && size < self.block.len() {
            let header = match BatchHeader::parse(&self.block[size..]) {
                Ok(header) => header,
                Err(BatchError::Torn { .. }) => break,
                Err(_) => return Err(self.damaged()),
            };
            let next = size.saturating_add(header.size_bytes());
            let is_too_much = CLEAN_PIECE_BYTES < next && size > 0;
            if self.block.len() < next || is_too_much {
                break;
            }
            size = next;
        }
        Ok(size)
    }

    fn damaged(&self) -> CleanError {
        CleanError::Damaged {
            path: self.path.clone(),
            position: self.position,
            damage: Damage::Header,
        }
    }
}
