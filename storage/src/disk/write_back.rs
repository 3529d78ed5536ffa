//! Starting write-back of a file range: the one system call of storage that the safe library lacks.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Starts writing the dirty pages of `[from, to)` to the device; does not wait for them, and makes nothing durable.
///
/// # Errors
/// What the kernel says: EIO, ENOSPC for blocks not yet allocated, ESPIPE for what is no file.
pub(super) fn start(file: &OwnedFd, from: u64, to: u64) -> io::Result<()> {
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let offset = i64::try_from(from).map_err(invalid)?;
    let bytes = i64::try_from(to.saturating_sub(from)).map_err(invalid)?;
    if bytes == 0 {
        // The kernel would take it for "to the end of the file".
        return Ok(());
    }
    #[expect(unsafe_code, reason = "rustix has no sync_file_range")]
    // SAFETY: the descriptor is open for as long as `file` is borrowed; the call takes numbers only and touches no memory of
    // this process.
    let code = unsafe {
        libc::sync_file_range(file.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE)
    };
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: a file's range is taken, nonsense is refused. Method: a real file, a range beyond i64.
    #[test]
    fn takes_ranges_of_files() {
        let file = OwnedFd::from(tempfile::tempfile().expect("a temporary file"));
        rustix::io::pwrite(&file, &[1; 8192], 0).expect("room for two pages");
        start(&file, 0, 4096).expect("a range of a file");
        start(&file, 4096, 4096).expect("nothing to do");
        assert!(start(&file, u64::MAX - 1, u64::MAX).is_err());
    }
}
