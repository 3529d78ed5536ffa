//! Brokers that are started by a command line, pinned, found by the port they listen on, and stopped by their process id.
//!
//! Invariants:
//! 1. The process under test is the one that listens on the port given, whatever the command did to start it.
//! 2. Whatever was started is ended, and its directory removed, also when a run fails. A command and all that it starts are one process
//!    group; a daemon that leaves the group is found by its port.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::connection::dial;
use crate::error::{PerfError, io_error};
use crate::interrupt;
use crate::process::{Process, listener};
use crate::setup::is_answered;

const START: Duration = Duration::from_secs(180);
const STOP: Duration = Duration::from_secs(30);
/// How much of what a broker wrote is shown when it fails.
const OUTPUT_BYTES_SHOWN: usize = 2_000;

/// A broker that can be started.
#[derive(Clone, Debug)]
pub(crate) struct Broker {
    /// How it is called in tables, and in scenarios.
    pub(crate) name: String,
    /// The command line, for `sh`, with `{port}`, `{dir}`, `{cpus}`, `{settings}` (NAME=VALUE …) and `{settings:PREFIX}` (each with PREFIX
    /// before it).
    pub(crate) command: String,
    /// It knows Produce, Fetch and ListOffsets only.
    pub(crate) is_bare: bool,
}

impl Broker {
    /// A program of our own that does the least for the bytes it is sent; `disk` is no program but write and fdatasync alone.
    pub(crate) fn limit(storing: &str) -> Result<Self, PerfError> {
        let name = "limit".to_owned();
        if storing == "disk" {
            return Ok(Self { name, command: String::new(), is_bare: true });
        }
        let own = std::env::current_exe().map_err(io_error("finding", "this program"))?;
        let command = format!(
            "exec '{}' limit-server 127.0.0.1:{{port}} {{dir}} --storing {storing}",
            own.display()
        );
        Ok(Self { name, command, is_bare: true })
    }

    /// Whether this stands for the disk.
    pub(crate) fn is_disk(&self) -> bool {
        self.command.is_empty()
    }
}

/// Where brokers are run.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    /// Everything they write goes below this directory.
    pub(crate) directory: PathBuf,
    pub(crate) broker_cores: Vec<usize>,
}

/// A broker that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) process: Process,
    /// Seconds from the command to the first answer.
    pub(crate) started_in: f64,
    child: Child,
    command: Command,
    directory: PathBuf,
    output: PathBuf,
    is_bare: bool,
    cores: Vec<usize>,
}

impl Running {
    /// Starts a broker in an empty directory.
    pub(crate) fn start(
        broker: &Broker,
        ground: &Ground,
        settings: &BTreeMap<String, String>,
    ) -> Result<Self, PerfError> {
        let directory = ground.directory.join(&broker.name);
        remove(&directory)?;
        let failed = || io_error("creating", directory.display().to_string());
        fs::create_dir_all(&directory).map_err(failed())?;
        let port = free_port()?;
        let line = expand(&broker.command, port, &directory, &ground.broker_cores, settings);
        let output = ground.directory.join(format!("{}.out", broker.name));
        let mut command = Command::new("sh");
        command.arg("-c").arg(line).stdin(Stdio::null()).process_group(0);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let (child, process, started_in) =
            launch(&mut command, broker, address, &output, &ground.broker_cores)?;
        Ok(Self {
            name: broker.name.clone(),
            address,
            process,
            started_in,
            child,
            command,
            directory,
            output,
            is_bare: broker.is_bare,
            cores: ground.broker_cores.clone(),
        })
    }

    /// Kills it as a power switch would, starts it again on what it left, and says how long that took.
    pub(crate) fn kill_and_restart(&mut self) -> Result<f64, PerfError> {
        self.process.signal(Signal::KILL);
        if !self.process.wait(STOP) {
            return Err(self.failure("survives SIGKILL"));
        }
        interrupt::forget(self.process.pid());
        drop(self.child.wait());
        let broker =
            Broker { name: self.name.clone(), command: String::new(), is_bare: self.is_bare };
        let (child, process, started_in) =
            launch(&mut self.command, &broker, self.address, &self.output, &self.cores)?;
        (self.child, self.process) = (child, process);
        Ok(started_in)
    }

    /// Ends it, and removes its directory.
    pub(crate) fn stop(mut self) -> Result<(), PerfError> {
        self.end();
        remove(&self.directory)
    }

    fn end(&mut self) {
        self.process.signal(Signal::TERM);
        if !self.process.wait(STOP) {
            self.process.signal(Signal::KILL);
            self.process.wait(STOP);
        }
        interrupt::forget(self.process.pid());
        end_group(&mut self.child);
    }

    fn failure(&self, what: &'static str) -> PerfError {
        PerfError::Broker { name: self.name.clone(), what, output: shown(&self.output) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.process.is_alive() {
            self.end();
        }
        drop(remove(&self.directory));
    }
}

/// Ends a command and what it left in its group.
fn end_group(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // Mostly there is nobody left.
        kill_process_group(group, Signal::KILL).unwrap_or_default();
    }
    drop(child.wait());
}

/// Starts a command on some cores and waits until it answers. What it says goes to `output`.
fn launch(
    command: &mut Command,
    broker: &Broker,
    address: SocketAddr,
    output: &Path,
    cores: &[usize],
) -> Result<(Child, Process, f64), PerfError> {
    let creating = || io_error("creating", output.display().to_string());
    let file = File::create(output).map_err(creating())?;
    let second = file.try_clone().map_err(creating())?;
    command.stdout(file).stderr(second);
    let begin = Instant::now();
    let mut child = spawn_on(command, cores, &broker.name)?;
    let fail = |child: &mut Child, what| {
        end_group(child);
        PerfError::Broker { name: broker.name.clone(), what, output: shown(output) }
    };
    while !answers(address, broker.is_bare) {
        if child.try_wait().is_ok_and(|ended| ended.is_some_and(|status| !status.success())) {
            return Err(fail(&mut child, "ended at its start"));
        }
        if START < begin.elapsed() {
            return Err(fail(&mut child, "does not answer"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let started_in = begin.elapsed().as_secs_f64();
    match listener(address) {
        Some(process) => {
            interrupt::remember(process.pid(), output.parent().unwrap_or(output));
            Ok((child, process, started_in))
        }
        None => Err(fail(&mut child, "answers, but no process listens on its port")),
    }
}

fn answers(address: SocketAddr, is_bare: bool) -> bool {
    dial(address).is_ok_and(|mut stream| {
        let patience = Some(Duration::from_secs(10));
        drop(stream.set_read_timeout(patience));
        is_bare || is_answered(&mut stream, address).is_ok()
    })
}

/// A child inherits the cores of the thread that starts it.
fn spawn_on(command: &mut Command, cores: &[usize], name: &str) -> Result<Child, PerfError> {
    let failed = || io_error("setting the cores for", name);
    let own = sched_getaffinity(None).map_err(failed())?;
    if !cores.is_empty() {
        let mut set = CpuSet::new();
        cores.iter().for_each(|&core| set.set(core));
        sched_setaffinity(None, &set).map_err(failed())?;
    }
    let child = command.spawn().map_err(io_error("starting", name));
    sched_setaffinity(None, &own).map_err(failed())?;
    child
}

/// Below the ports that the kernel gives to clients: one of those may be taken between two looks.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// A port that is free, and the one after it too: some brokers take a second one.
fn free_port() -> Result<u16, PerfError> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let count = PORTS.end - PORTS.start;
    let first = (std::process::id() * 64 % u32::from(count)) as u16;
    for _ in 0..count / 2 {
        let step = NEXT.fetch_add(2, Ordering::Relaxed);
        let port = PORTS.start + (first + step % count) % count;
        let both = [port, port + 1].map(|port| TcpListener::bind(("127.0.0.1", port)));
        if both.iter().all(Result::is_ok) {
            return Ok(port);
        }
    }
    let none = std::io::Error::from(std::io::ErrorKind::AddrInUse);
    Err(io_error("looking for", "a free port")(none))
}

fn expand(
    template: &str,
    port: u16,
    directory: &Path,
    cores: &[usize],
    settings: &BTreeMap<String, String>,
) -> String {
    let list: Vec<String> = cores.iter().map(usize::to_string).collect();
    let joined = |prefix: &str| {
        let each = settings.iter().map(|(name, value)| format!("{prefix}{name}={value}"));
        each.collect::<Vec<_>>().join(" ")
    };
    let mut line = template
        .replace("{port}", &port.to_string())
        .replace("{dir}", &directory.display().to_string())
        .replace("{cpus}", &list.join(","))
        .replace("{settings}", &joined(""));
    while let Some(start) = line.find("{settings:") {
        let Some(length) = line[start..].find('}') else { break };
        let prefix = line[start + "{settings:".len()..start + length].to_owned();
        line.replace_range(start..=start + length, &joined(&prefix));
    }
    line
}

fn shown(output: &Path) -> String {
    let text = fs::read_to_string(output).unwrap_or_default();
    let start = text.len().saturating_sub(OUTPUT_BYTES_SHOWN);
    let start = (start..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    text[start..].to_owned()
}

fn remove(directory: &Path) -> Result<(), PerfError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(io_error("removing", directory.display().to_string())(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: commands come out as their writer meant them. Method: templates with each placeholder.
    #[test]
    fn templates() {
        let settings = BTreeMap::from([
            ("a.b".to_owned(), "1".to_owned()),
            ("c".to_owned(), "two".to_owned()),
        ]);
        let check = |template: &str, expected: &str| {
            let line = expand(template, 9, Path::new("/x"), &[0, 2], &settings);
            assert_eq!(line, expected);
        };
        check("run {port} {dir} on {cpus}", "run 9 /x on 0,2");
        check("run {settings}", "run a.b=1 c=two");
        check("run {settings:--set }", "run --set a.b=1 --set c=two");
        check("run {settings:-o {", "run {settings:-o {");
    }

    /// Goal: a broker is found by its port, and gone with its directory afterwards. Method: a shell that starts a listener in
    /// the background, as daemons do.
    #[test]
    fn started_and_stopped() {
        let scratch = tempfile::tempdir().expect("a directory");
        let ground = Ground { directory: scratch.path().to_owned(), broker_cores: Vec::new() };
        let listener = "import socket,sys,time\ns=socket.socket();s.bind(('127.0.0.1',int(sys.argv[1])));s.listen();time.sleep(60)";
        if Command::new("python3").arg("-V").output().is_err() {
            eprintln!("skipped: needs python3");
            return;
        }
        let command = format!("touch {{dir}}/x; python3 -c \"{listener}\" {{port}} & exit 0");
        let broker = Broker { name: "daemon".to_owned(), command, is_bare: true };
        let running = Running::start(&broker, &ground, &BTreeMap::new()).expect("it starts");
        let process = running.process;
        assert!(process.is_alive());
        assert_ne!(process.pid(), std::process::id());
        running.stop().expect("it stops");
        assert!(!process.is_alive());
        assert!(!scratch.path().join("daemon").exists());
        let broken = Broker { command: "echo no way; exit 3".to_owned(), ..broker };
        let error = Running::start(&broken, &ground, &BTreeMap::new()).expect_err("it ends");
        assert!(error.to_string().contains("no way"), "{error}");
    }
}
