//! Reading a file range into memory, for the few who need its bytes rather than send them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use bytes::{Bytes, BytesMut};
use pelton_model::slice::{FileRange, Slice};

use super::DiskFile;

/// A trace of the descriptors that were handed out for an open file, if any is still in use.
pub(crate) fn lent<F: DiskFile>(file: &F) -> Option<Weak<OwnedFd>> {
    let descriptor = file.descriptor()?;
    // One is the file's own, one is ours.
    let is_lent = Arc::strong_count(&descriptor) > 2;
    is_lent.then(|| Arc::downgrade(&descriptor))
}

/// The bytes of a slice, read from the file where they are not in memory yet. Blocks: for a start, not for requests.
///
/// # Errors
/// `UnexpectedEof` when the file ends within the range.
pub fn read_slice(slice: Slice) -> io::Result<Bytes> {
    match slice {
        Slice::Bytes(bytes) => Ok(bytes),
        Slice::File(range) => read_range(&range),
    }
}

fn read_range(range: &FileRange) -> io::Result<Bytes> {
    let mut buffer = BytesMut::zeroed(range.size_bytes);
    let mut filled = 0;
    while filled < buffer.len() {
        let position = range.position + filled as u64;
        let read = rustix::io::pread(&*range.file, &mut buffer[filled..], position)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += read;
    }
    Ok(buffer.freeze())
}
