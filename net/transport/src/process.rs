//! What this process and its threads take of the machine.

use std::io;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// What the process takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time of all threads, user and system, nanoseconds.
    pub cpu_ns: u64,
    /// Resident memory, bytes; 0 where `/proc` cannot be read.
    pub resident_bytes: u64,
    /// Open descriptors; 0 where `/proc` cannot be read.
    pub open_files: u64,
    /// Descriptors that it may open.
    pub open_files_max: Option<u64>,
}

/// Looks; reads two files of `/proc`, so not for a shard's own thread when many descriptors are open.
#[must_use]
pub fn usage() -> Usage {
    Usage {
        cpu_ns: nanoseconds(ClockId::ProcessCPUTime),
        resident_bytes: resident_bytes().unwrap_or(0),
        open_files: open_files().unwrap_or(0),
        open_files_max: getrlimit(Resource::Nofile).current,
    }
}

/// CPU time of the calling thread, nanoseconds.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The second column of statm, in pages.
fn resident_bytes() -> Option<u64> {
    let text = read("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn open_files() -> io::Result<u64> {
    let entries = std::fs::read_dir("/proc/self/fd")?.count();
    // The descriptor of the listing itself is among them.
    Ok(entries.saturating_sub(1) as u64)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the kernel's own account of this process, not a file of ours"
)]
fn read(path: &str) -> io::Result<String> {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: the numbers are of this process and in their units. Method: a few megabytes, a descriptor and some work more are seen.
    #[test]
    fn usage_is_seen() {
        let before = usage();
        assert!(before.resident_bytes > 100_000);
        let memory = vec![1_u8; 32 << 20];
        let files: Vec<_> = (0..20)
            .map(|_| tempfile::tempfile().expect("room"))
            .collect();
        let sum: u64 = memory.iter().map(|&byte| u64::from(byte)).sum();
        assert_eq!(sum, 32 << 20);
        let after = usage();
        assert!(before.resident_bytes + (16 << 20) < after.resident_bytes);
        assert!(before.cpu_ns < after.cpu_ns && after.cpu_ns - before.cpu_ns < 60_000_000_000);
        assert!(
            before.open_files + 10 < after.open_files,
            "{} files more",
            files.len()
        );
        assert!(thread_cpu_ns() <= usage().cpu_ns);
    }
}
