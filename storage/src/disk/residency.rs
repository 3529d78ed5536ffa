//! What is in the page cache: reading only that, and asking whether a range is. The system calls that the safe library lacks.
//!
//! A kernel or filesystem that does not know them counts as one whose every page is there: the read that follows waits, as it always did.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;

/// How a read of what is there ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resident {
    /// All that was asked, or all up to the end of the file.
    Whole,
    /// The next byte would have to be waited for.
    Absent,
    /// Nobody knows: this file cannot be read so.
    Unknown,
}

/// Reads into `bytes` until it holds `size_bytes`, from `position` of its first byte, without waiting for the device.
pub(super) fn read(
    file: &OwnedFd,
    bytes: &mut Vec<u8>,
    position: u64,
    size_bytes: usize,
) -> Result<Resident, Errno> {
    while bytes.len() < size_bytes {
        let Ok(at) = i64::try_from(position + bytes.len() as u64) else {
            return Err(Errno::INVAL);
        };
        let wanted = size_bytes - bytes.len();
        bytes.reserve(wanted);
        let vector = libc::iovec {
            iov_base: bytes.spare_capacity_mut().as_mut_ptr().cast(),
            iov_len: wanted,
        };
        #[expect(unsafe_code, reason = "rustix reads into initialised memory only")]
        // SAFETY: one vector, which lies in `bytes`' spare capacity of at least `wanted` bytes (reserved above); the call only writes
        // there, and both live until it returns. The descriptor is open for as long as `file` is borrowed.
        let read = unsafe { libc::preadv2(file.as_raw_fd(), &vector, 1, at, libc::RWF_NOWAIT) };
        match usize::try_from(read) {
            Ok(0) => return Ok(Resident::Whole),
            Ok(read) => {
                assert!(read <= wanted, "the kernel reads no more than was asked");
                let end = bytes.len() + read;
                #[expect(unsafe_code, reason = "the read initialised the spare capacity")]
                // SAFETY: `end` is within the capacity, and the kernel has just written the bytes up to it.
                unsafe {
                    bytes.set_len(end);
                }
            }
            Err(_) => match Errno::from_io_error(&io::Error::last_os_error()) {
                Some(Errno::INTR) => {}
                Some(Errno::AGAIN) => return Ok(Resident::Absent),
                Some(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) | None => {
                    return Ok(Resident::Unknown);
                }
                Some(errno) => return Err(errno),
            },
        }
    }
    Ok(Resident::Whole)
}

/// The number of the system call, the same on every architecture; libc does not name it everywhere.
const CACHESTAT: libc::c_long = 451;

/// The kernel's `struct cachestat_range`.
#[repr(C)]
struct Range {
    offset: u64,
    bytes: u64,
}

/// The kernel's `struct cachestat`: pages.
#[repr(C)]
#[derive(Default)]
struct Counts {
    cached: u64,
    dirty: u64,
    in_write_back: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Whether every page of a range is in the page cache, as far as the kernel tells (Linux 6.5).
pub(super) fn is_resident(file: &OwnedFd, position: u64, size_bytes: usize) -> bool {
    if size_bytes == 0 {
        return true;
    }
    let range = Range {
        offset: position,
        bytes: size_bytes as u64,
    };
    let mut counts = Counts::default();
    #[expect(unsafe_code, reason = "no library names cachestat")]
    // SAFETY: the call reads `range` and writes `counts`, both laid out as the kernel's and alive until it returns; the descriptor is
    // open for as long as `file` is borrowed.
    let code = unsafe {
        libc::syscall(
            CACHESTAT,
            file.as_raw_fd(),
            &raw const range,
            &raw mut counts,
            0_u32,
        )
    };
    let page_bytes = rustix::param::page_size() as u64;
    let first = position / page_bytes;
    let end = (position + size_bytes as u64).div_ceil(page_bytes);
    code != 0 || end - first <= counts.cached
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: what is cached is read at once, up to the end of the file, and told as there. Method: a real file, just written.
    #[test]
    fn reads_what_is_there() {
        fn check(file: &OwnedFd, position: u64, size_bytes: usize, expected: usize) {
            let mut bytes = Vec::new();
            let read = read(file, &mut bytes, position, size_bytes);
            if read == Ok(Resident::Unknown) {
                return;
            }
            assert_eq!(read, Ok(Resident::Whole));
            assert_eq!(bytes, vec![7; expected]);
        }
        let file = OwnedFd::from(tempfile::tempfile().expect("a temporary file"));
        rustix::io::pwrite(&file, &[7; 10_000], 0).expect("room");
        check(&file, 0, 10_000, 10_000);
        check(&file, 9_000, 5_000, 1_000);
        check(&file, 10_000, 5, 0);
        assert!(is_resident(&file, 0, 10_000));
        assert!(is_resident(&file, 4_000, 100));
        assert!(is_resident(&file, 0, 0));
        assert_eq!(
            read(&file, &mut Vec::new(), u64::MAX / 2 + 9, 1),
            Err(Errno::INVAL)
        );
    }

    // Goal: a range that was dropped from the cache is told as absent, and neither blocks. Method: written, synced, dropped; a filesystem
    // that keeps its pages anyway (tmpfs) shows nothing.
    #[test]
    fn tells_what_is_absent() {
        let file = tempfile::NamedTempFile::new_in(".").expect("a temporary file");
        let file = OwnedFd::from(file.into_file());
        rustix::io::pwrite(&file, &[7; 1 << 20], 0).expect("room");
        rustix::fs::fsync(&file).expect("a real file");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("a real file");
        if !is_resident(&file, 0, 1 << 20) {
            let mut bytes = Vec::new();
            let read = read(&file, &mut bytes, 0, 1 << 20).expect("no device fails here");
            assert!(
                read == Resident::Absent || bytes.len() == 1 << 20,
                "{read:?}"
            );
        }
    }
}
