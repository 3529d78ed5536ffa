//! What the machine offers, for the start and for `pelton doctor`: facts only; the words to the user are the CLI's.

use std::fmt;
use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};

use crate::ring;

/// Why the kernel gives no io_uring.
#[derive(Debug)]
pub enum IoUringRefused {
    /// EPERM or EACCES: a seccomp filter (containers) or `kernel.io_uring_disabled`; its value when it is readable.
    NotPermitted {
        /// `kernel.io_uring_disabled`: 0 allows, 1 privileged processes only, 2 nobody.
        disabled: Option<u8>,
    },
    /// ENOSYS: a kernel without it, or a filter that pretends so.
    NotSupported,
    /// One older than Linux 5.13.
    TooOld,
    /// ENOMEM: the process's memory limit leaves no room for a ring.
    NoMemory,
    /// Something else.
    Other(io::Error),
}

impl IoUringRefused {
    fn from_errno(error: io::Error) -> Self {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::PERM | Errno::ACCESS) => Self::NotPermitted {
                disabled: io_uring_disabled(),
            },
            Some(Errno::NOSYS) => Self::NotSupported,
            Some(Errno::NOMEM) => Self::NoMemory,
            Some(_) | None => Self::Other(error),
        }
    }
}

impl fmt::Display for IoUringRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPermitted { disabled: Some(level @ 1..) } => {
                write!(f, "io_uring is not permitted: kernel.io_uring_disabled is {level}")
            }
            Self::NotPermitted { disabled: Some(0) | None } => f.write_str(
                "io_uring is not permitted: a seccomp filter (as of a container runtime) forbids it",
            ),
            Self::NotSupported => f.write_str("this kernel has no io_uring"),
            Self::TooOld => f.write_str("this kernel's io_uring is too old"),
            Self::NoMemory => f.write_str("no memory for an io_uring ring"),
            Self::Other(error) => write!(f, "io_uring cannot be used: {error}"),
        }
    }
}

impl std::error::Error for IoUringRefused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Other(error) => Some(error),
            Self::NotPermitted { .. } | Self::NotSupported | Self::TooOld | Self::NoMemory => None,
        }
    }
}

/// Tells whether this process gets an io_uring, by making one.
///
/// # Errors
/// Why not; the start of any shard would fail with the same.
pub fn io_uring() -> Result<(), IoUringRefused> {
    match ring::try_ring() {
        Ok(true) => Ok(()),
        Ok(false) => Err(IoUringRefused::TooOld),
        Err(error) => Err(IoUringRefused::from_errno(error)),
    }
}

fn io_uring_disabled() -> Option<u8> {
    let text = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok()?;
    text.trim().parse().ok()
}

/// A resource limit; `None` is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What holds now.
    pub soft: Option<u64>,
    /// What it may be raised to.
    pub hard: Option<u64>,
}

/// RLIMIT_NOFILE, descriptors.
#[must_use]
pub fn open_files() -> Limit {
    limit(Resource::Nofile)
}

/// Raises the soft limit of open files to the hard one; returns the limit then.
///
/// # Errors
/// What `setrlimit` says; the process runs on with what it has.
pub fn raise_limits() -> io::Result<Limit> {
    raise(Resource::Nofile)?;
    Ok(open_files())
}

fn limit(resource: Resource) -> Limit {
    let limit = rustix::process::getrlimit(resource);
    Limit {
        soft: limit.current,
        hard: limit.maximum,
    }
}

fn raise(resource: Resource) -> io::Result<()> {
    let limit = rustix::process::getrlimit(resource);
    if limit.current == limit.maximum {
        return Ok(());
    }
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    Ok(rustix::process::setrlimit(resource, raised)?)
}

/// The kernel that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The release as the kernel spells it.
    pub release: String,
    /// Its first two numbers; 0 where they cannot be read.
    pub version: (u32, u32),
}

/// Asks for the kernel's version.
#[must_use]
pub fn kernel() -> Kernel {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let version = version(&release);
    Kernel { release, version }
}

fn version(release: &str) -> (u32, u32) {
    let number = |text: &str| text.parse().unwrap_or(0);
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let major = numbers.next().map_or(0, number);
    let minor = numbers.next().map_or(0, number);
    (major, minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: kernel releases of any distribution parse. Method: a table.
    #[test]
    fn kernel_versions() {
        fn check(release: &str, expected: (u32, u32)) {
            assert_eq!(version(release), expected, "{release}");
        }
        check("6.18.44-fc-v857", (6, 18));
        check("5.14.0-503.el9", (5, 14));
        check("6-custom", (6, 0));
        check("", (0, 0));
    }

    // Goal: errors of io_uring_setup map to their cause. Method: a table.
    #[test]
    fn refusals() {
        fn check(error: Errno, expected: &str) {
            let refused = IoUringRefused::from_errno(error.into());
            assert!(refused.to_string().contains(expected), "{refused}");
        }
        check(Errno::PERM, "not permitted");
        check(Errno::NOSYS, "no io_uring");
        check(Errno::NOMEM, "no memory");
        check(Errno::INVAL, "cannot be used");
    }

    // Goal: the soft limit of open files ends at the hard one. Method: raise and look.
    #[test]
    fn limits_are_raised() {
        let limit = raise_limits().unwrap();
        assert_eq!(limit.soft, limit.hard);
    }
}
