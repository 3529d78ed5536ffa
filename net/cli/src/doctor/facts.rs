//! Facts about this machine, without judgement. What cannot be found out is `None`.

use std::path::{Path, PathBuf};

use pelton_transport::checks::{self, IoUringRefused, Kernel, Limit};
use pelton_transport::cores;
use rustix::fs::Access;

/// What concerns the process wherever its data lies.
#[derive(Debug)]
pub(super) struct Machine {
    /// The kernel.
    pub(super) kernel: Kernel,
    /// Why there is no io_uring, if there is none.
    pub(super) io_uring: Result<(), IoUringRefused>,
    /// Files the process may open.
    pub(super) open_files: Limit,
    /// The cores it may use.
    pub(super) cores: Vec<usize>,
    /// The cores that are online.
    pub(super) cores_online: Option<usize>,
    /// The word in brackets of `transparent_hugepage/enabled`.
    pub(super) huge_pages: Option<String>,
}

/// What concerns a data directory.
#[derive(Debug)]
pub(super) struct Directory {
    /// The directory asked for.
    pub(super) asked: PathBuf,
    /// It, or its nearest parent that exists.
    pub(super) existing: PathBuf,
    /// Whether files can be made there.
    pub(super) writable: bool,
    /// The filesystem's magic number.
    pub(super) filesystem: Option<u64>,
    /// Free bytes for this user.
    pub(super) free_bytes: Option<u64>,
}

/// All facts.
#[derive(Debug)]
pub(super) struct Facts {
    /// The machine.
    pub(super) machine: Machine,
    /// The data directory.
    pub(super) directory: Directory,
}

/// Looks at everything.
pub(super) fn gather(data_dir: &Path) -> Facts {
    Facts {
        machine: machine(),
        directory: directory(data_dir),
    }
}

/// Looks at the machine alone.
pub(super) fn machine() -> Machine {
    Machine {
        kernel: checks::kernel(),
        io_uring: checks::io_uring(),
        open_files: checks::open_files(),
        cores: cores::available(),
        cores_online: std::fs::read_to_string("/sys/devices/system/cpu/online")
            .ok()
            .and_then(|text| count_of_ranges(&text)),
        huge_pages: std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
            .ok()
            .and_then(|text| chosen_word(&text)),
    }
}

fn directory(asked: &Path) -> Directory {
    let absolute = std::path::absolute(asked).unwrap_or_else(|_| asked.to_owned());
    let existing = absolute
        .ancestors()
        .find(|path| path.exists())
        .unwrap_or(Path::new("/"))
        .to_owned();
    let stat = rustix::fs::statfs(&existing).ok();
    Directory {
        asked: asked.to_owned(),
        writable: rustix::fs::access(&existing, Access::WRITE_OK | Access::EXEC_OK).is_ok()
            && existing.is_dir(),
        filesystem: stat.and_then(|stat| u64::try_from(stat.f_type).ok()),
        free_bytes: stat.and_then(|stat| {
            let block = u64::try_from(stat.f_bsize).ok()?;
            stat.f_bavail.checked_mul(block)
        }),
        existing,
    }
}

/// Counts the numbers in `0-3,5`.
fn count_of_ranges(text: &str) -> Option<usize> {
    text.trim().split(',').try_fold(0, |count: usize, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        count.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

/// The word in brackets: `always [madvise] never`.
fn chosen_word(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    let (word, _) = rest.split_once(']')?;
    Some(word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: the kernel's notations are understood. Method: tables.
    #[test]
    fn notations() {
        assert_eq!(count_of_ranges("0-3,5\n"), Some(5));
        assert_eq!(count_of_ranges("0"), Some(1));
        assert_eq!(count_of_ranges("3-1"), None);
        assert_eq!(count_of_ranges(""), None);
        assert_eq!(
            chosen_word("always [madvise] never\n").as_deref(),
            Some("madvise")
        );
        assert_eq!(chosen_word("x"), None);
    }

    // Goal: a directory that is not there yet is judged by its parent. Method: a missing path below a real one.
    #[test]
    fn missing_directory() {
        let dir = tempfile::tempdir().expect("a temp dir");
        let facts = directory(&dir.path().join("a/b"));
        assert_eq!(facts.existing, dir.path());
        assert!(facts.writable);
        assert!(facts.free_bytes.is_some());
    }
}
