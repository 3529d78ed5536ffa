//! A real Apache Kafka and a Pelton, one after the other on one data directory.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pelton_tests::broker::binary;
use pelton_tests::peer::{run_ok, skip};
use pelton_tests::raw::Raw;
use rustix::process::{Pid, Signal, kill_process};

/// How long one of Kafka's programs may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// How somebody leaves the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// In order.
    Clean,
    /// By SIGKILL.
    Killed,
}

/// An instance of Kafka with its directory; wiped when dropped.
#[derive(Debug)]
pub(super) struct Kafka {
    peers: PathBuf,
    instance: String,
    port: u16,
    /// Several of them at once would take each other's time and memory.
    _turn: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());

impl Kafka {
    /// An instance of its own on `port` and the next one (below those that the kernel gives to clients), or `None` and a printed skip when there is no Kafka here.
    pub(super) fn find(port: u16) -> Option<Self> {
        let peers = std::env::var_os("PELTON_PEERS").map(PathBuf::from);
        let Some(peers) = peers.filter(|peers| peers.join("kafka").exists()) else {
            skip("PELTON_PEERS names no folder with a real Kafka");
            return None;
        };
        let instance = format!("adoption-{port}");
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let found = Self { peers, instance, port, _turn };
        run_ok(found.script("kafka", &["wipe"]), b"", PATIENCE);
        Some(found)
    }

    fn script(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.peers.join(name));
        command.args(arguments);
        command.env("KAFKA_PORT", self.port.to_string());
        command.env("KAFKA_INSTANCE", &self.instance);
        command.env("KAFKA_HEAP", "512m").env("TOOL_HEAP", "128m");
        command
    }

    /// Where brokers listen.
    pub(super) fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// What holds `server.properties`, `data` and Kafka's log.
    pub(super) fn home(&self) -> PathBuf {
        let peers_home = std::env::var_os("PEERS_HOME").map(PathBuf::from);
        let peers_home = peers_home.unwrap_or_else(|| {
            let home = std::env::var_os("HOME").expect("HOME is set");
            PathBuf::from(home).join(".cache/pelton-peers")
        });
        peers_home.join(format!("kafka-{}", self.instance))
    }

    pub(super) fn data_dir(&self) -> PathBuf {
        self.home().join("data")
    }

    /// Starts Kafka on the directory, which it formats when it is empty.
    pub(super) fn start(&self, settings: &[&str]) {
        let arguments: Vec<&str> = [&["start"][..], settings].concat();
        run_ok(self.script("kafka", &arguments), b"", PATIENCE);
    }

    /// Writes a `server.properties` as Kafka's start would, for a Pelton that comes first.
    pub(super) fn write_properties(&self, settings: &[&str]) {
        let at = self.address();
        let properties = format!(
            "process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://{at},CONTROLLER://127.0.0.1:{port}\n\
             controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=127.0.0.1:{port}\n\
             log.dirs={}\n{}\n",
            self.data_dir().display(),
            settings.join("\n"),
            port = at.port() + 1,
        );
        std::fs::write(self.home().join("server.properties"), properties).expect("written");
    }

    /// Another Kafka recovers a copy of the partitions from their log files alone, and must serve what `digest` says.
    pub(super) fn adopts(&self, digest: &str) {
        let expected = self.home().join("digest.txt");
        std::fs::write(&expected, digest).expect("written");
        let (expected, data_dir) = (expected.to_str(), self.data_dir());
        let paths = [data_dir.to_str(), expected].map(|path| path.expect("paths are UTF-8"));
        let arguments = [paths[0], "--expect", paths[1], "--unclean"];
        let mut command = self.script("adopt-check", &arguments);
        command.env("ADOPT_PORT", (self.port + 4).to_string());
        run_ok(command, b"", PATIENCE);
    }

    /// Ends Kafka.
    pub(super) fn end(&self, how: End) {
        if how == End::Killed {
            let pid = run_ok(self.script("kafka", &["pid"]), b"", PATIENCE);
            let pid = pid.trim().parse().ok().and_then(Pid::from_raw).expect("a process id");
            kill_process(pid, Signal::KILL).expect("Kafka runs");
            std::thread::sleep(Duration::from_millis(500));
        }
        run_ok(self.script("kafka", &["stop"]), b"", PATIENCE);
    }

    /// One of Kafka's tools against whoever listens; its output.
    pub(super) fn tool(&self, name: &str, arguments: &[&str]) -> String {
        let address = self.address().to_string();
        let common = ["tool", name, "--bootstrap-server", &address];
        run_ok(self.script("kafka", &[&common[..], arguments].concat()), b"", PATIENCE)
    }

    /// What whoever listens serves: earliest and latest offset, records and digest of each partition.
    pub(super) fn digest(&self) -> String {
        let address = self.address().to_string();
        run_ok(self.script("adopt-check", &["digest", &address]), b"", PATIENCE)
    }

    /// Topics with ids, partitions and settings, as Kafka's tool shows them.
    pub(super) fn describe(&self) -> Vec<String> {
        let text = self.tool("topics", &["--describe"]);
        let mut lines: Vec<String> = text
            .lines()
            .map(|line| line.split("\tElr:").next().unwrap_or(line).trim().to_owned())
            .filter(|line| !line.is_empty())
            .collect();
        lines.sort();
        lines
    }

    /// Lines of Kafka's own log that complain, save what it says at every start.
    pub(super) fn complaints(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.home().join("kafka.out")).expect("Kafka has a log");
        let is_complaint = |line: &&str| {
            [" WARN ", " ERROR ", " FATAL "].iter().any(|level| line.contains(level))
                && !line.contains("Performing controller activation")
        };
        log.lines().filter(is_complaint).map(str::to_owned).collect()
    }

    /// Kafka's dump of a file of the metadata log or of a snapshot.
    pub(super) fn dump(&self, path: &Path) -> String {
        let path = path.to_str().expect("paths are UTF-8");
        let arguments = ["tool", "dump-log", "--cluster-metadata-decoder", "--files", path];
        run_ok(self.script("kafka", &arguments), b"", PATIENCE)
    }

    /// Formats the directory for a static quorum, `kraft.version` 0.
    pub(super) fn format_static(&self) -> String {
        let voters = format!("controller.quorum.voters=1@127.0.0.1:{}", self.port + 1);
        std::fs::create_dir_all(self.data_dir()).expect("a directory");
        let properties = format!(
            "process.roles=broker,controller\nnode.id=1\n{voters}\ncontroller.listener.names=CONTROLLER\n\
             listeners=PLAINTEXT://{},CONTROLLER://127.0.0.1:{}\nlog.dirs={}\n",
            self.address(),
            self.port + 1,
            self.data_dir().display()
        );
        let path = self.home().join("format.properties");
        std::fs::write(&path, properties).expect("written");
        let path = path.to_str().expect("paths are UTF-8");
        let id = "NvWmjdZeTtmu22QaGbbr5Q";
        let arguments = ["tool", "storage", "format", "-t", id, "-c", path];
        run_ok(self.script("kafka", &arguments), b"", PATIENCE);
        voters
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.home().join("kafka.out")).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(30).collect();
            eprintln!("--- end of Kafka's log, newest first\n{}", tail.join("\n"));
        }
        let mut wipe = self.script("kafka", &["wipe"]);
        drop(wipe.stdout(Stdio::null()).stderr(Stdio::null()).status());
    }
}

/// Pelton on the directory of a [`Kafka`], with that Kafka's `server.properties`; killed when dropped.
#[derive(Debug)]
pub(super) struct Pelton {
    child: Child,
    log: PathBuf,
}

impl Pelton {
    pub(super) fn start(kafka: &Kafka, settings: &[&str]) -> Self {
        let log = kafka.home().join("pelton.out");
        let out = std::fs::File::create(&log).expect("a file");
        let mut command = Command::new(binary());
        command.arg("serve").arg("--config").arg(kafka.home().join("server.properties"));
        command.args(["--cores", "1"]);
        for setting in settings {
            command.args(["--set", setting]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(out);
        let mut pelton = Self { child: command.spawn().expect("the binary starts"), log };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !pelton.text().contains("listening on") {
            let ended = pelton.child.try_wait().expect("our own child");
            assert!(ended.is_none() && Instant::now() < deadline, "{}", pelton.text());
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(Raw::connect(kafka.address()).is_alive());
        pelton
    }

    pub(super) fn end(mut self, how: End) {
        let signal = if how == End::Clean { Signal::TERM } else { Signal::KILL };
        kill_process(Pid::from_child(&self.child), signal).expect("our own child");
        let status = self.child.wait().expect("our own child");
        assert!(how == End::Killed || status.success(), "{}", self.text());
    }

    pub(super) fn text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Pelton {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            eprintln!("--- stderr of Pelton\n{}", self.text());
        }
    }
}

/// The contents of every log file of the topics whose name begins with `prefix`.
pub(super) fn log_files(data_dir: &Path, prefix: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(data_dir).expect("readable") {
        let entry = entry.expect("readable");
        if !entry.file_name().to_string_lossy().starts_with(prefix) {
            continue;
        }
        for file in std::fs::read_dir(entry.path()).expect("readable") {
            let path = file.expect("readable").path();
            if path.extension().is_some_and(|extension| extension == "log") {
                let contents = std::fs::read(&path).expect("readable");
                files.insert(path, contents);
            }
        }
    }
    files
}
