//! Other people's clients: where they are, and what happens when they are not.
//!
//! A client that is missing is a printed skip, unless `PELTON_REQUIRE` (a list such as `java,kcat,python`) names it: then
//! it is a failure, so that a CI machine cannot quietly stop testing.

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A kind of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Apache Kafka's own tools.
    Java,
    /// kcat, formerly kafkacat.
    Kcat,
    /// kafka-python in a virtual environment.
    Python,
}

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Self::Java => "java",
            Self::Kcat => "kcat",
            Self::Python => "python",
        }
    }

    /// A command that starts the client, or `None` (and a line on stderr) when it is not installed.
    ///
    /// # Panics
    /// When it is missing and `PELTON_REQUIRE` names it.
    #[must_use]
    pub fn command(self) -> Option<Command> {
        let found = match self {
            Self::Java => java(),
            Self::Kcat => runs("kcat", &["-V"]).then(|| Command::new("kcat")),
            Self::Python => python(),
        };
        if found.is_none() {
            missing(self.name());
        }
        found
    }
}

/// Prints a skip, or fails when `PELTON_REQUIRE` names the thing that is missing.
///
/// # Panics
/// When the thing is required.
pub fn missing(name: &str) {
    let required = std::env::var("PELTON_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|each| each.trim() == name),
        "{name} is required (PELTON_REQUIRE) but cannot be started"
    );
    skip(&format!("{name} is not installed"));
}

/// Says on stderr that the running test is skipped, and why.
pub fn skip(reason: &str) {
    let name = std::thread::current().name().unwrap_or("test").to_owned();
    // Written past the test runner's capture, so that a skip is seen in a green run.
    drop(writeln!(std::io::stderr(), "skipped: {name}: {reason}"));
}

/// Runs a command with `input` on its standard input and returns its output.
///
/// # Panics
/// When it does not start, or takes longer than `patience` (it is killed then).
pub fn run(mut command: Command, input: &[u8], patience: Duration) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let shown = format!("{command:?}");
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{shown}: {error}"));
    let pid = rustix::process::Pid::from_child(&child);
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // A client that stops reading early says so by its exit code.
        drop(stdin.write_all(&input));
    });
    let waiter = std::thread::spawn(move || child.wait_with_output());
    let deadline = Instant::now() + patience;
    while !waiter.is_finished() {
        if Instant::now() > deadline {
            // It may have ended this moment; joining shows how.
            let _ended = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            let output = waiter.join().expect("the waiter does not panic");
            panic!("{shown} took longer than {patience:?}: {output:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    writer.join().expect("the writer does not panic");
    waiter.join().expect("the waiter does not panic").expect("the child can be waited for")
}

/// Like [`run`], and the exit code must be zero; returns standard output.
///
/// # Panics
/// When the command fails; its output is shown.
pub fn run_ok(command: Command, input: &[u8], patience: Duration) -> String {
    let shown = format!("{command:?}");
    let output = run(command, input, patience);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shown}: {}\n{stdout}\n{stderr}", output.status);
    stdout
}

/// The directory that downloads and environments are kept in between runs.
#[must_use]
pub fn cache_dir() -> PathBuf {
    std::env::var_os("PELTON_CLIENTS").map_or_else(
        || {
            let home = std::env::var_os("HOME").map_or_else(std::env::temp_dir, PathBuf::from);
            home.join(".cache/pelton-clients")
        },
        PathBuf::from,
    )
}

/// A file of this crate, by its path below `tests/`.
#[must_use]
pub fn own_file(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn java() -> Option<Command> {
    let script = own_file("clients/kafka");
    let fetched = runs("java", &["-version"])
        && Command::new(&script)
            .arg("fetch")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
    fetched.then(|| Command::new(script))
}

fn python() -> Option<Command> {
    let python = std::env::var_os("PELTON_PYTHON")
        .map_or_else(|| cache_dir().join("venv/bin/python"), PathBuf::from);
    runs(&python, &["-c", "import kafka"]).then(|| Command::new(python))
}

fn runs(program: impl AsRef<OsStr>, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
