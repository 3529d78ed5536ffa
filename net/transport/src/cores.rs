//! Which cores this process may use: its affinity mask, cut to its cgroup's CPU quota.
//!
//! Never all online CPUs: pinning a thread would escape `taskset` and a container's CPU set.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::thread::CpuSet;

/// The cores to start shards on, in ascending order; never empty.
#[must_use]
pub fn available() -> Vec<usize> {
    let mut cores = affinity();
    if let Some(limit) = quota(Path::new("/proc/self/cgroup"), Path::new("/sys/fs/cgroup")) {
        cores.truncate(limit.max(1));
    }
    assert!(!cores.is_empty());
    cores
}

fn affinity() -> Vec<usize> {
    let cores: Vec<usize> = match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU)
            .filter(|&core| set.is_set(core))
            .collect(),
        Err(_) => Vec::new(),
    };
    // More CPUs than the mask type holds: still run, on the first.
    if cores.is_empty() { vec![0] } else { cores }
}

/// The number of CPUs that the quota amounts to, rounded up; the least along the path to the root counts.
fn quota(membership: &Path, mount: &Path) -> Option<usize> {
    let membership = fs::read_to_string(membership).ok()?;
    let limits = membership.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let path = path.trim_start_matches('/');
        if controllers.is_empty() {
            least(mount, path, quota_v2)
        } else if controllers.split(',').any(|name| name == "cpu") {
            let separate = mount.join("cpu");
            let joint = mount.join(controllers);
            least(&separate, path, quota_v1).or_else(|| least(&joint, path, quota_v1))
        } else {
            None
        }
    });
    limits.min()
}

/// The least limit of `path` under `root` and of its parents. Inside a container the path may not exist below the
/// mount; then the mount's own root is the group.
fn least(root: &Path, path: &str, read: fn(&Path) -> Option<usize>) -> Option<usize> {
    let mut folder: PathBuf = root.join(path);
    let mut least = None;
    while folder.starts_with(root) {
        least = match (least, read(&folder)) {
            (Some(known), Some(found)) => Some(usize::min(known, found)),
            (known, found) => known.or(found),
        };
        if !folder.pop() {
            break;
        }
    }
    least
}

fn quota_v2(folder: &Path) -> Option<usize> {
    let text = fs::read_to_string(folder.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    cpus(quota, period)
}

fn quota_v1(folder: &Path) -> Option<usize> {
    let quota = fs::read_to_string(folder.join("cpu.cfs_quota_us")).ok()?;
    let period = fs::read_to_string(folder.join("cpu.cfs_period_us")).ok()?;
    cpus(quota.trim(), period.trim())
}

/// `max` (v2) and −1 (v1) mean no limit and do not parse.
fn cpus(quota: &str, period: &str) -> Option<usize> {
    let quota: u64 = quota.parse().ok()?;
    let period: u64 = period.parse().ok()?;
    if period == 0 {
        return None;
    }
    usize::try_from(quota.div_ceil(period)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: the quota of both cgroup versions is found along the path. Method: a made-up mount.
    #[test]
    fn quota_of_made_up_groups() {
        fn check(membership: &str, files: &[(&str, &str)], expected: Option<usize>) {
            let folder = tempfile::tempdir().unwrap();
            let mount = folder.path().join("mount");
            let list = folder.path().join("membership");
            fs::create_dir(&mount).unwrap();
            fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(&list)
                .unwrap();
            put(&list, membership);
            for (name, text) in files {
                let path = mount.join(name);
                let parent = path.parent().unwrap();
                fs::DirBuilder::new()
                    .recursive(true)
                    .create(parent)
                    .unwrap();
                put(&path, text);
            }
            assert_eq!(quota(&list, &mount), expected, "{membership:?} {files:?}");
        }
        fn put(path: &Path, text: &str) {
            use std::io::Write;
            let mut options = fs::OpenOptions::new();
            let mut file = options
                .create(true)
                .truncate(true)
                .write(true)
                .open(path)
                .unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }
        check("0::/a/b\n", &[], None);
        check("0::/a/b\n", &[("a/b/cpu.max", "max 100000\n")], None);
        check("0::/a/b\n", &[("a/b/cpu.max", "150000 100000\n")], Some(2));
        check(
            "0::/a/b\n",
            &[
                ("a/b/cpu.max", "400000 100000"),
                ("a/cpu.max", "100000 100000"),
            ],
            Some(1),
        );
        check("0::/gone\n", &[("cpu.max", "50000 100000")], Some(1));
        check("0::/a\n", &[("a/cpu.max", "1 0")], None);
        let v1 = [
            ("cpu/d/cpu.cfs_quota_us", "250000\n"),
            ("cpu/d/cpu.cfs_period_us", "100000\n"),
        ];
        check("4:cpu,cpuacct:/d\n1:memory:/d\n", &v1, Some(3));
        let joint = [
            ("cpu,cpuacct/cpu.cfs_quota_us", "-1"),
            ("cpu,cpuacct/cpu.cfs_period_us", "100000"),
        ];
        check("4:cpu,cpuacct:/d\n", &joint, None);
        check("garbage\n", &[], None);
    }

    // Goal: this process gets at least one core. Method: ask.
    #[test]
    fn there_is_a_core() {
        assert!(!available().is_empty());
    }
}
