//! What the kernel says about a process: CPU time, memory, context switches; and which process listens on a port.

use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde::{Deserialize, Serialize};

use crate::error::{PerfError, io_error};

/// A look at a process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Look {
    /// User and system time, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Resident memory.
    pub(crate) resident_bytes: u64,
    /// Voluntary and other context switches of all threads.
    pub(crate) switches: u64,
}

/// What a process used while it was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// The process.
    pub pid: u32,
    /// User and system time, in seconds.
    pub cpu_seconds: f64,
    /// Resident memory at the end, in bytes.
    pub resident_bytes: u64,
    /// The most resident memory that was seen while it was measured, in bytes.
    pub resident_bytes_peak: u64,
    /// Context switches of all threads, voluntary and not.
    pub context_switches: u64,
}

/// A process that is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pid: u32,
}

impl Process {
    pub(crate) fn new(pid: u32) -> Self {
        Self { pid }
    }

    /// This process.
    pub(crate) fn own() -> Self {
        Self { pid: std::process::id() }
    }

    pub(crate) fn pid(self) -> u32 {
        self.pid
    }

    /// How it does now.
    pub(crate) fn look(self) -> Result<Look, PerfError> {
        let status = self.read("status")?;
        Ok(Look {
            cpu_seconds: self.cpu_seconds(),
            resident_bytes: field(&status, "VmRSS:") * 1024,
            switches: self.switches(),
        })
    }

    /// User and system time so far; 0 when the process is gone.
    pub(crate) fn cpu_seconds(self) -> f64 {
        let ticks = self.read("stat").map_or(0, |stat| cpu_ticks(&stat));
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64
    }

    /// Resident memory now; 0 when the process is gone.
    pub(crate) fn resident_bytes(self) -> u64 {
        self.read("status").map_or(0, |status| field(&status, "VmRSS:") * 1024)
    }

    /// What it used between two looks.
    pub(crate) fn usage(self, before: Look, after: Look, peak: u64) -> Usage {
        Usage {
            pid: self.pid,
            cpu_seconds: after.cpu_seconds - before.cpu_seconds,
            resident_bytes: after.resident_bytes,
            resident_bytes_peak: peak.max(after.resident_bytes),
            context_switches: after.switches.saturating_sub(before.switches),
        }
    }

    /// Whether it is there and has not ended (a zombie has).
    pub(crate) fn is_alive(self) -> bool {
        let there =
            Pid::from_raw(self.pid as i32).is_some_and(|pid| test_kill_process(pid).is_ok());
        there && self.read("stat").is_ok_and(|stat| !after_name(&stat).starts_with('Z'))
    }

    /// Sends a signal; whoever is gone needs none.
    pub(crate) fn signal(self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid as i32) {
            kill_process(pid, signal).unwrap_or_default();
        }
    }

    /// Waits until it has ended, at most so long.
    pub(crate) fn wait(self, patience: Duration) -> bool {
        let deadline = std::time::Instant::now() + patience;
        while self.is_alive() {
            if deadline <= std::time::Instant::now() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    fn switches(self) -> u64 {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.pid)) else {
            return 0;
        };
        let status = |entry: std::io::Result<fs::DirEntry>| {
            fs::read_to_string(entry.ok()?.path().join("status")).ok()
        };
        threads
            .filter_map(status)
            .map(|text| {
                field(&text, "voluntary_ctxt_switches:")
                    + field(&text, "nonvoluntary_ctxt_switches:")
            })
            .sum()
    }

    fn read(self, file: &str) -> Result<String, PerfError> {
        let path = format!("/proc/{}/{file}", self.pid);
        fs::read_to_string(&path).map_err(io_error("reading", path))
    }
}

/// The process's name may hold anything; what is fixed comes after its closing parenthesis.
fn after_name(stat: &str) -> &str {
    stat.rfind(')').map_or("", |at| stat[at + 1..].trim_start())
}

fn cpu_ticks(stat: &str) -> u64 {
    // utime and stime are fields 14 and 15; the state, field 3, is the first after the name.
    let times = after_name(stat).split_whitespace().skip(11).take(2);
    times.filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The process that listens on a local port, if we may know.
pub(crate) fn listener(address: SocketAddr) -> Option<Process> {
    if !address.ip().is_loopback() && !address.ip().is_unspecified() {
        return None;
    }
    let mut inodes = HashSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let Ok(text) = fs::read_to_string(table) else {
            continue;
        };
        inodes.extend(text.lines().filter_map(|line| listening_inode(line, address.port())));
    }
    let processes = fs::read_dir("/proc").ok()?;
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .find(|&pid| holds(pid, &inodes))
        .map(Process::new)
}

/// The socket of a line of `/proc/net/tcp` that listens on the port.
fn listening_inode(line: &str, port: u16) -> Option<u64> {
    let mut columns = line.split_whitespace().skip(1);
    let (_, local_port) = columns.next()?.rsplit_once(':')?;
    let state = columns.nth(1)?;
    let inode = columns.nth(5)?;
    let listens = state == "0A" && u16::from_str_radix(local_port, 16).ok()? == port;
    if listens { inode.parse().ok() } else { None }
}

fn holds(pid: u32, inodes: &HashSet<u64>) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    files.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok()).any(|target| {
        let inode = target
            .to_str()
            .and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
        inode.is_some_and(|inode| inodes.contains(&inode))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: figures are read from the right columns. Method: lines as the kernel writes them, with odd names.
    #[test]
    fn columns() {
        let stat = "42 (a) b) S 1 2 3 4 5 6 7 8 9 10 1234 766 0 0 20 0 1 0";
        assert_eq!(cpu_ticks(stat), 2_000);
        assert_eq!(cpu_ticks(""), 0);
        assert_eq!(field("VmHWM:\t  100 kB\nVmRSS:\t   90 kB\n", "VmRSS:"), 90);
        assert_eq!(field("", "VmRSS:"), 0);
        let line = "   0: 0100007F:2384 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 777 1";
        assert_eq!(listening_inode(line, 9092), Some(777));
        assert_eq!(listening_inode(line, 9093), None);
        assert_eq!(listening_inode(&line.replace(" 0A ", " 01 "), 9092), None);
    }

    /// Goal: the process under test is found by its port. Method: a listener of our own.
    #[test]
    fn own_listener() {
        let listener_socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener_socket.local_addr().expect("an address");
        assert_eq!(listener(address).map(Process::pid), Some(std::process::id()));
        let look = Process::own().look().expect("we are alive");
        assert!(0 < look.resident_bytes);
        assert!(Process::own().is_alive());
    }
}
