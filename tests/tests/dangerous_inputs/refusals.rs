//! What stops a broker from starting: one clear line on stderr and a non-zero exit.

use std::fs;
use std::path::Path;
use std::process::Command;

use pelton_tests::broker::{Broker, Options, binary, refused, serve};

/// Runs a broker that must refuse, and looks for the word that tells the reason.
fn check(command: Command, words: &[&str]) {
    let shown = format!("{command:?}");
    let refusal = refused(command);
    let code = refusal.code.unwrap_or_else(|| panic!("{shown} runs on\n{}", refusal.stderr));
    assert!(code != 0 && code != 101, "{shown}: exit code {code}\n{}", refusal.stderr);
    assert!(!refusal.stderr.contains("panicked"), "{shown}:\n{}", refusal.stderr);
    let errors: Vec<&str> = refusal.stderr.lines().filter(|line| line.contains("error")).collect();
    assert_eq!(errors.len(), 1, "{shown}: one line says why\n{}", refusal.stderr);
    for word in words {
        assert!(errors[0].contains(word), "{shown}: `{word}` is missing\n{}", refusal.stderr);
    }
}

fn pelton(data_dir: &Path, listen: &str) -> Command {
    let mut command = Command::new(binary());
    command.args(serve(data_dir, listen, 1));
    command
}

fn start() -> Option<Broker> {
    Broker::start_own(Options::default())
}

/// Two brokers, two data directories, one port; the first goes on.
#[test]
fn a_port_in_use() {
    let Some(broker) = start() else { return };
    let other = tempfile::tempdir().expect("a temp dir");
    let listen = broker.bootstrap();
    check(pelton(other.path(), &listen), &[&listen]);
    assert!(broker.connect().is_alive());
}

/// Two brokers, one data directory; the first goes on.
#[test]
fn a_locked_data_directory() {
    let Some(broker) = start() else { return };
    let path = broker.data_dir().to_str().expect("UTF-8").to_owned();
    check(pelton(broker.data_dir(), "127.0.0.1:0"), &[&path]);
    assert!(broker.connect().is_alive());
}

/// A directory that cannot be made or written: below a file, and (root may write anywhere) in /proc.
#[test]
fn an_unwritable_data_directory() {
    if start().is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temp dir");
    let file = dir.path().join("file");
    fs::write(&file, b"in the way").expect("a temp dir takes files");
    check(pelton(&file, "127.0.0.1:0"), &[file.to_str().expect("UTF-8")]);
    let below = file.join("data");
    check(pelton(&below, "127.0.0.1:0"), &[below.to_str().expect("UTF-8")]);
    check(pelton(Path::new("/proc/pelton"), "127.0.0.1:0"), &["/proc/pelton"]);
}

/// `meta.properties` that is cut, empty, of another version, or of another node.
#[test]
fn corrupt_meta_properties() {
    let Some(mut broker) = start() else { return };
    assert!(broker.stop().success());
    let path = broker.data_dir().join("meta.properties");
    let good = fs::read_to_string(&path).expect("the broker wrote it");
    assert!(good.contains("cluster.id="), "{good}");
    let without = |key: &str| -> String {
        good.lines().filter(|line| !line.starts_with(key)).map(|line| format!("{line}\n")).collect()
    };
    for (name, bytes) in [
        ("empty", Vec::new()),
        ("zeros", vec![0; 100]),
        ("not text", vec![0xff; 100]),
        ("no version", without("version").into_bytes()),
        ("version 7", good.replace("version=1", "version=7").into_bytes()),
        ("no cluster id", without("cluster.id").into_bytes()),
        ("node id of letters", format!("{}node.id=abc\n", without("node.id")).into_bytes()),
    ] {
        println!("meta.properties: {name}");
        fs::write(&path, bytes).expect("writable");
        check(pelton(broker.data_dir(), "127.0.0.1:0"), &["meta.properties"]);
    }
    fs::write(&path, good).expect("writable");
    broker.start_again();
    assert!(broker.connect().is_alive(), "the mended directory serves again");
}

/// A kernel (or a container's profile) that refuses io_uring.
#[test]
fn no_io_uring() {
    if start().is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temp dir");
    let mut command = Command::new(env!("CARGO_BIN_EXE_without_io_uring"));
    command.arg(binary()).args(serve(dir.path(), "127.0.0.1:0", 1));
    check(command, &["io_uring"]);
}

/// Arguments and settings that make no sense.
#[test]
fn bad_arguments() {
    if start().is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temp dir");
    for (argument, value, word) in [
        ("--listen", "nowhere", "nowhere"),
        ("--listen", "127.0.0.1:99999", "99999"),
        ("--cores", "none", "none"),
        ("--set", "num.partitions=many", "num.partitions"),
        ("--config", "/no/such/file", "/no/such/file"),
    ] {
        let mut command = Command::new(binary());
        let data_dir = dir.path().to_str().expect("UTF-8");
        command.args(["serve", "--data-dir", data_dir]);
        if argument != "--listen" {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.args([argument, value]);
        check(command, &[word]);
    }
}
