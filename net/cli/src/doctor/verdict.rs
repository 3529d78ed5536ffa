//! Judgements over facts: fine, costs something, or fails; what it costs and what to do.

use pelton_transport::checks::{IoUringRefused, Kernel, Limit};

use super::facts::{Directory, Facts, Machine};
use crate::output::bytes;
use crate::serve::ranges;

/// The oldest kernel the runtime works on.
const KERNEL_MIN: (u32, u32) = (5, 13);
/// From here a shard's ring does its work when the shard asks for it, and interrupts nothing else.
const KERNEL_GOOD: (u32, u32) = (6, 1);
/// Fewer open files than this limit connections and partitions of a serious broker.
const OPEN_FILES_GOOD: u64 = 65_536;
/// Less free space than one segment is no place for a log.
const FREE_BYTES_GOOD: u64 = 1 << 30;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grade {
    /// As it should be.
    Fine,
    /// A broker runs, at a cost.
    Costs,
    /// A broker does not run.
    Fails,
}

/// One thing that was looked at.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// What.
    pub(super) subject: &'static str,
    /// How bad.
    pub(super) grade: Grade,
    /// What it is like.
    pub(super) found: String,
    /// What that costs.
    pub(super) cost: Option<String>,
    /// What to do about it.
    pub(super) remedy: Option<String>,
}

impl Finding {
    fn fine(subject: &'static str, found: impl Into<String>) -> Self {
        Self {
            subject,
            grade: Grade::Fine,
            found: found.into(),
            cost: None,
            remedy: None,
        }
    }

    fn costs(subject: &'static str, found: impl Into<String>, cost: &str, remedy: &str) -> Self {
        Self {
            subject,
            grade: Grade::Costs,
            found: found.into(),
            cost: Some(cost.to_owned()),
            remedy: Some(remedy.to_owned()),
        }
    }

    fn fails(subject: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            subject,
            grade: Grade::Fails,
            found: found.into(),
            cost: None,
            remedy: Some(remedy.into()),
        }
    }
}

/// Judges everything.
pub(super) fn all(facts: &Facts) -> Vec<Finding> {
    let mut findings = machine(&facts.machine);
    findings.push(directory(&facts.directory));
    findings.push(space(&facts.directory));
    findings
}

/// Judges the machine alone.
pub(super) fn machine(facts: &Machine) -> Vec<Finding> {
    vec![
        kernel(&facts.kernel),
        io_uring(&facts.io_uring),
        open_files(facts.open_files),
        cores(&facts.cores, facts.cores_online),
        huge_pages(facts.huge_pages.as_deref()),
    ]
}

fn kernel(kernel: &Kernel) -> Finding {
    let found = format!("Linux {}", kernel.release);
    if kernel.version < KERNEL_MIN {
        return Finding::fails(
            "kernel",
            found,
            "update to Linux 5.13 or later, best 6.1 or later",
        );
    }
    if kernel.version < KERNEL_GOOD {
        return Finding::costs(
            "kernel",
            found,
            "the ring interrupts the shard where it should wait to be asked",
            "update to Linux 6.1 or later",
        );
    }
    Finding::fine("kernel", found)
}

fn io_uring(result: &Result<(), IoUringRefused>) -> Finding {
    match result {
        Ok(()) => Finding::fine("io_uring", "available"),
        Err(refused) => Finding::fails("io_uring", refused.to_string(), io_uring_remedy(refused)),
    }
}

/// What to do when the kernel refuses io_uring.
pub(super) fn io_uring_remedy(refused: &IoUringRefused) -> String {
    match refused {
        IoUringRefused::NotPermitted {
            disabled: Some(1..),
        } => "run: sysctl -w kernel.io_uring_disabled=0",
        IoUringRefused::NotPermitted {
            disabled: Some(0) | None,
        } => "allow the io_uring calls in the seccomp profile (docker: --security-opt seccomp=unconfined)",
        IoUringRefused::NotSupported => "use Linux 5.13 or later, outside of sandboxes such as gVisor",
        IoUringRefused::TooOld => "update to Linux 5.13 or later, best 6.1 or later",
        IoUringRefused::NoMemory => "give the process more memory (its control group's limit)",
        IoUringRefused::Other(_) => "run pelton doctor where the broker is to run",
    }
    .to_owned()
}

fn open_files(limit: Limit) -> Finding {
    match limit.hard {
        None => Finding::fine("open files", "unlimited"),
        Some(most) if most < OPEN_FILES_GOOD => Finding::costs(
            "open files",
            format!("at most {most}"),
            &format!("{} connections and {} segments at once", most / 2, most / 4),
            "ulimit -Hn 1048576, LimitNOFILE=1048576 in the unit, or docker --ulimit nofile=1048576",
        ),
        Some(most) => Finding::fine("open files", most.to_string()),
    }
}

fn cores(own: &[usize], online: Option<usize>) -> Finding {
    let list = ranges(own);
    match online {
        Some(online) if own.len() < online => Finding::fine(
            "cores",
            format!(
                "{list} ({} of {online} online: affinity mask or CPU quota)",
                own.len()
            ),
        ),
        Some(_) | None => Finding::fine("cores", list),
    }
}

fn huge_pages(setting: Option<&str>) -> Finding {
    match setting {
        Some("always") => Finding::costs(
            "huge pages",
            "always",
            "resident memory may grow beyond what is used",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        Some(setting) => Finding::fine("huge pages", setting),
        None => Finding::fine("huge pages", "not in this kernel"),
    }
}

/// What is known about a filesystem as the home of a log.
enum Home {
    Good(&'static str),
    Costs(&'static str, &'static str),
    Unknown,
}

fn home(magic: u64) -> Home {
    match magic {
        0x5846_5342 => Home::Good("xfs"),
        0x9123_683e => Home::Good("btrfs"),
        0xef53 => Home::Good("ext4"),
        0xf2f5_2010 => Home::Good("f2fs"),
        0x2fc1_2fc1 => Home::Good("zfs"),
        0x0102_1994 => Home::Costs("tmpfs", "all data is gone after a reboot"),
        0x794c_7630 => Home::Costs("overlayfs", "data goes with the container"),
        0x6969 => Home::Costs("nfs", "syncs and locks depend on the server"),
        0xff53_4d42 | 0xfe53_4d42 => Home::Costs("smb", "syncs and locks depend on the server"),
        0x6573_5546 => Home::Costs("fuse", "syncs depend on a user-space program"),
        _ => Home::Unknown,
    }
}

fn directory(facts: &Directory) -> Finding {
    let place = facts.existing.display();
    if !facts.writable {
        return Finding::fails(
            "data",
            format!("{place} is not a directory this user can write to"),
            "give --data-dir another directory, or change its owner",
        );
    }
    let asked = facts.asked.display();
    match facts.filesystem.map(home) {
        Some(Home::Good(name)) => Finding::fine("data", format!("{asked} on {name}")),
        Some(Home::Costs(name, cost)) => Finding::costs(
            "data",
            format!("{asked} on {name}"),
            cost,
            "put --data-dir on a local xfs or ext4 volume",
        ),
        Some(Home::Unknown) | None => Finding::costs(
            "data",
            format!("{asked} on a filesystem that Pelton was not tried on"),
            "its syncs may not mean what they should",
            "put --data-dir on a local xfs or ext4 volume",
        ),
    }
}

fn space(facts: &Directory) -> Finding {
    match facts.free_bytes {
        None => Finding::fine("free space", "unknown"),
        Some(free) if free < FREE_BYTES_GOOD => Finding::costs(
            "free space",
            bytes(free),
            "a full disk stops every append",
            "make room, or put --data-dir on a larger volume",
        ),
        Some(free) => Finding::fine("free space", bytes(free)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(hard: Option<u64>) -> Limit {
        Limit { soft: hard, hard }
    }

    // Goal: each fact gets its grade. Method: values on both sides of every edge.
    #[test]
    fn grades() {
        #[track_caller]
        fn check(finding: &Finding, expected: Grade) {
            assert_eq!(finding.grade, expected, "{finding:?}");
            assert_eq!(
                finding.remedy.is_some(),
                expected != Grade::Fine,
                "{finding:?}"
            );
        }
        let linux = |version| {
            kernel(&Kernel {
                release: "x".to_owned(),
                version,
            })
        };
        check(&linux((5, 12)), Grade::Fails);
        check(&linux((5, 13)), Grade::Costs);
        check(&linux((5, 15)), Grade::Costs);
        check(&linux((6, 1)), Grade::Fine);
        check(&io_uring(&Ok(())), Grade::Fine);
        check(&io_uring(&Err(IoUringRefused::NotSupported)), Grade::Fails);
        check(&open_files(limit(Some(4096))), Grade::Costs);
        check(&open_files(limit(Some(1 << 20))), Grade::Fine);
        check(&huge_pages(Some("always")), Grade::Costs);
        check(&huge_pages(Some("madvise")), Grade::Fine);
        let at = |filesystem, writable| {
            directory(&Directory {
                asked: "d".into(),
                existing: "/".into(),
                writable,
                filesystem,
                free_bytes: None,
            })
        };
        check(&at(Some(0xef53), true), Grade::Fine);
        check(&at(Some(0x0102_1994), true), Grade::Costs);
        check(&at(Some(1), true), Grade::Costs);
        check(&at(Some(0xef53), false), Grade::Fails);
    }

    // Goal: a refusal of io_uring names the remedy for its cause. Method: every cause.
    #[test]
    fn io_uring_remedies() {
        fn check(refused: &IoUringRefused, part: &str) {
            assert!(io_uring_remedy(refused).contains(part), "{refused:?}");
        }
        check(
            &IoUringRefused::NotPermitted { disabled: Some(2) },
            "sysctl",
        );
        check(
            &IoUringRefused::NotPermitted { disabled: Some(0) },
            "seccomp",
        );
        check(&IoUringRefused::NotPermitted { disabled: None }, "seccomp");
        check(&IoUringRefused::NotSupported, "Linux 5.13");
        check(&IoUringRefused::TooOld, "Linux 5.13");
        check(&IoUringRefused::NoMemory, "memory");
    }
}
