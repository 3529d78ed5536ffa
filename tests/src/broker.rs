//! Starts, kills and restarts the real `pelton` binary.
//!
//! Invariants:
//! 1. The binary is built once per test process; `PELTON_BINARY` names one to be used instead.
//! 2. A [`Broker`] listens on a port that the kernel picked, keeps its data in a directory of its own, and is killed by its
//!    process id when dropped. Its stderr is kept, and shown when the test fails.
//! 3. With `PELTON_TEST_BROKER=host:port` every [`Broker::start`] stands for that (Apache Kafka) broker instead.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::raw::Raw;
use crate::volume::Volume;

/// How long a start may take, on a loaded machine and without optimisation.
const START: Duration = Duration::from_secs(20);
/// How long a controlled shutdown may take.
const STOP: Duration = Duration::from_secs(20);

/// How a broker is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Unpinned shards. One, unless a test wants requests to cross shards.
    pub shards: usize,
    /// `--set` arguments.
    pub settings: Vec<String>,
    /// Further arguments.
    pub arguments: Vec<String>,
    /// The log directories, in place of one of the broker's own.
    pub directories: Vec<PathBuf>,
    /// A volume that the process sees where it is mounted.
    pub volume: Option<Arc<Volume>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            shards: 1,
            settings: Vec::new(),
            arguments: Vec::new(),
            directories: Vec::new(),
            volume: None,
        }
    }
}

/// A broker to be tested.
#[derive(Debug)]
pub struct Broker {
    address: SocketAddr,
    options: Options,
    process: Option<Process>,
    data_dir: Option<TempDir>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    stderr: Arc<Mutex<String>>,
}

impl Broker {
    /// A broker with default settings and two shards: a new process, or the one that `PELTON_TEST_BROKER` names.
    ///
    /// # Panics
    /// When it does not come up; its stderr is in the message.
    #[must_use]
    pub fn start() -> Self {
        match foreign() {
            Some(address) => {
                Self { address, options: Options::default(), process: None, data_dir: None }
            }
            None => Self::start_with(Options { shards: 2, ..Options::default() }),
        }
    }

    /// A new Pelton process with settings, or `None` (and a printed skip) when the tests run against another broker.
    #[must_use]
    pub fn start_own(options: Options) -> Option<Self> {
        if foreign().is_some() {
            crate::peer::skip("needs a process of its own");
            return None;
        }
        Some(Self::start_with(options))
    }

    fn start_with(options: Options) -> Self {
        let data_dir = tempfile::Builder::new().prefix("pelton-").tempdir().expect("a temp dir");
        Self::start_in(data_dir, options)
    }

    /// A Pelton process on a directory that is there already.
    ///
    /// # Panics
    /// When it does not come up; its stderr is in the message.
    #[must_use]
    pub fn start_in(data_dir: TempDir, options: Options) -> Self {
        let (process, address) = launch(data_dir.path(), "127.0.0.1:0", &options);
        Self { address, options, process: Some(process), data_dir: Some(data_dir) }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens, as clients want it.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        self.address.to_string()
    }

    /// Whether this is Apache Kafka and not Pelton.
    #[must_use]
    pub fn is_kafka(&self) -> bool {
        self.data_dir.is_none()
    }

    /// Where its data lies.
    ///
    /// # Panics
    /// For a broker that we did not start.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        self.data_dir.as_ref().expect("a broker of our own").path()
    }

    /// Its process id.
    ///
    /// # Panics
    /// For a broker that we did not start, or that was stopped.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("a running process").child.id()
    }

    /// Resident memory in bytes.
    ///
    /// # Panics
    /// When the process is gone.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        let path = format!("/proc/{}/statm", self.pid());
        let text = std::fs::read_to_string(path).expect("the process lives");
        let pages = text.split_whitespace().nth(1).expect("statm has seven columns");
        pages.parse::<u64>().expect("a number") * rustix::param::page_size() as u64
    }

    /// What it has written to stderr since its last start.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.process.as_ref().map_or_else(String::new, |process| {
            process.stderr.lock().expect("no reader panics").clone()
        })
    }

    /// A new raw connection.
    #[must_use]
    pub fn connect(&self) -> Raw {
        Raw::connect(self.address)
    }

    /// Kills it as a power switch would, for the process.
    ///
    /// # Panics
    /// When it had ended before: a crash of its own is never part of a test.
    pub fn kill(&mut self) {
        let mut process = self.process.take().expect("a running process");
        if let Some(status) = process.child.try_wait().expect("our own child") {
            panic!("the broker ended by itself: {status}\n{}", process.text());
        }
        process.child.kill().expect("our own child");
        process.child.wait().expect("our own child");
    }

    /// Asks it to stop and returns its exit status.
    ///
    /// # Panics
    /// When it does not stop in time.
    pub fn stop(&mut self) -> ExitStatus {
        let mut process = self.process.take().expect("a running process");
        kill_process(Pid::from_child(&process.child), Signal::TERM).expect("our own child");
        let text = process.text();
        wait(&mut process.child, STOP).unwrap_or_else(|| {
            drop(process.child.kill());
            drop(process.child.wait());
            panic!("the broker did not stop within {STOP:?}\n{text}")
        })
    }

    /// Changes the log directories of its next start.
    pub fn set_directories(&mut self, directories: Vec<PathBuf>) {
        self.options.directories = directories;
    }

    /// Adds a `--set` argument for its next start.
    pub fn set(&mut self, setting: &str) {
        let name = setting.split('=').next().unwrap_or_default();
        self.options.settings.retain(|given| given.split('=').next() != Some(name));
        self.options.settings.push(setting.to_owned());
    }

    /// Starts it again on the same data and the same port.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn start_again(&mut self) {
        assert!(self.process.is_none(), "it still runs");
        let listen = self.address.to_string();
        let (process, address) = launch(self.data_dir(), &listen, &self.options);
        assert_eq!(address, self.address);
        self.process = Some(process);
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            drop(process.child.kill());
            drop(process.child.wait());
            if std::thread::panicking() {
                eprintln!("--- stderr of the broker\n{}---", process.text());
            }
        }
    }
}

impl Process {
    fn text(&self) -> String {
        self.stderr.lock().expect("no reader panics").clone()
    }
}

/// The end of a broker that was expected not to start.
#[derive(Debug)]
pub struct Refusal {
    /// Its exit code, if it ended by itself in time.
    pub code: Option<i32>,
    /// All of its stderr.
    pub stderr: String,
}

/// Runs a `pelton serve` that should refuse to start, and waits for its end.
///
/// # Panics
/// When the program cannot be started.
#[must_use]
pub fn refused(mut command: Command) -> Refusal {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary can be started");
    let stderr = child.stderr.take().expect("stderr is piped");
    let (text, _lines) = collect(stderr);
    let code = wait(&mut child, Duration::from_secs(10)).and_then(|status| status.code());
    if code.is_none() {
        drop(child.kill());
        drop(child.wait());
    }
    // The reader thread ends with the pipe; give it the moment it needs.
    std::thread::sleep(Duration::from_millis(50));
    let stderr = text.lock().expect("no reader panics").clone();
    Refusal { code, stderr }
}

/// The arguments of `pelton serve` on so many unpinned shards.
#[must_use]
pub fn serve(data_dir: &Path, listen: &str, shards: usize) -> Vec<String> {
    let data_dir = data_dir.to_str().expect("temp dirs are UTF-8");
    ["serve", "--listen", listen, "--data-dir", data_dir, "--cores", &shards.to_string()]
        .map(str::to_owned)
        .to_vec()
}

/// The binary under test, built once.
///
/// # Panics
/// When it does not build.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("PELTON_BINARY") {
        Some(path) => PathBuf::from(path),
        None => build(),
    })
}

/// A name that no other test and no earlier run has used.
#[must_use]
pub fn unique(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{name}-{:x}-{:x}-{next}", crate::batch::now_ms(), std::process::id())
}

fn foreign() -> Option<SocketAddr> {
    let text = std::env::var("PELTON_TEST_BROKER").ok()?;
    let mut addresses = text.to_socket_addrs().expect("PELTON_TEST_BROKER is host:port");
    addresses.next()
}

fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "-p", "pelton", "--profile", "ci", "--message-format=json"])
        .current_dir(crate::peer::own_file(".."))
        .stderr(Stdio::piped())
        .output()
        .expect("cargo can be started");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "pelton does not build\n{stderr}");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == "pelton")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .expect("cargo names the executable")
}

/// The binary, where the volume can be seen if there is one.
fn program(options: &Options) -> Command {
    match &options.volume {
        Some(volume) => volume.command(binary()),
        None => Command::new(binary()),
    }
}

fn launch(data_dir: &Path, listen: &str, options: &Options) -> (Process, SocketAddr) {
    let mut command = program(options);
    let directories: Vec<&str> =
        options.directories.iter().map(|dir| dir.to_str().expect("UTF-8")).collect();
    let directories = directories.join(",");
    let data_dir = if directories.is_empty() { data_dir } else { Path::new(&directories) };
    command.args(serve(data_dir, listen, options.shards)).args(&options.arguments);
    for setting in &options.settings {
        command.args(["--set", setting]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary can be started");
    let (stderr, lines) = collect(child.stderr.take().expect("stderr is piped"));
    let mut process = Process { child, stderr };
    let deadline = Instant::now() + START;
    let address = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(line) = lines.recv_timeout(left) else {
            drop(process.child.kill());
            drop(process.child.wait());
            panic!("the broker did not say where it listens\n{}", process.text());
        };
        if let Some(address) = listening_on(&line) {
            break address;
        }
    };
    while !answers(address) {
        if Instant::now() > deadline {
            drop(process.child.kill());
            panic!("the broker does not answer on {address}\n{}", process.text());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    (process, address)
}

fn listening_on(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("listening on ")?;
    rest.split(|c: char| c.is_whitespace() || c == ',').next()?.parse().ok()
}

fn answers(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
        && Raw::connect(address).is_alive()
}

/// Reads a pipe to its end on a thread of its own: all text so far, and line by line.
fn collect(pipe: std::process::ChildStderr) -> (Arc<Mutex<String>>, Receiver<String>) {
    let text = Arc::new(Mutex::new(String::new()));
    let (sender, lines) = channel();
    let kept = Arc::clone(&text);
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let mut text = kept.lock().expect("no holder panics");
            text.push_str(&line);
            text.push('\n');
            // Nobody listens after the start; the text is what remains.
            drop(sender.send(line));
        }
    });
    (text, lines)
}

fn wait(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(status) = child.try_wait().expect("our own child") {
            return Some(status);
        }
        if Instant::now() > deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
