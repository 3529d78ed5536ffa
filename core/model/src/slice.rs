//! Bytes on their way to a socket: in memory, or still in a file.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;

/// A piece of a response.
#[derive(Clone, Debug)]
pub enum Slice {
    /// Bytes in memory.
    Bytes(Bytes),
    /// Bytes of a file, sent by `sendfile`.
    File(FileRange),
}

impl Slice {
    /// Length in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(range) => range.size_bytes,
        }
    }
}

/// `size_bytes` bytes of `file` from `position`. May cross the mesh; dropping it closes nothing that others hold.
///
/// The bytes of a range handed out never change: logs only grow, and a deleted segment lives until its last range.
#[derive(Clone, Debug)]
pub struct FileRange {
    /// The file, kept open by this handle.
    pub file: Arc<OwnedFd>,
    /// The first byte.
    pub position: u64,
    /// The number of bytes.
    pub size_bytes: usize,
}
