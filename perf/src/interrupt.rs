//! SIGINT and SIGTERM end the brokers that were started, and then this program: a measurement that is broken off leaves nothing running,
//! and nothing of theirs on the disk.

use std::fs;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use rustix::process::Signal;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use crate::process::Process;

/// What a shell says of a program that SIGINT ended.
const INTERRUPTED: i32 = 130;

/// How long a process may take to end.
const STOP: Duration = Duration::from_secs(10);

/// The processes to be ended, each with the directory that all of a run is in.
static STARTED: Mutex<Vec<(u32, PathBuf)>> = Mutex::new(Vec::new());

/// Ends a process too, and removes the run's directory, when this one is interrupted.
pub(crate) fn remember(pid: u32, directory: &Path) {
    change(|started| started.push((pid, directory.to_owned())));
}

/// It is gone.
pub(crate) fn forget(pid: u32) {
    change(|started| started.retain(|(known, _)| *known != pid));
}

fn change(change: impl FnOnce(&mut Vec<(u32, PathBuf)>)) {
    // A list is whole between two changes, also after a panic.
    let mut started = STARTED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    change(&mut started);
}

/// Waits for the signals on a thread of its own. Without that thread an interrupt merely ends this program.
pub(crate) fn watch() {
    let Ok((mut receiver, sender)) = UnixStream::pair() else { return };
    for signal in [SIGINT, SIGTERM] {
        let Ok(sender) = sender.try_clone() else { return };
        if pipe::register(signal, sender).is_err() {
            return;
        }
    }
    let waiting = std::thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
        let interrupted = receiver.read(&mut [0; 1]).is_ok_and(|count| 0 < count);
        if interrupted {
            change(|started| {
                started.iter().for_each(|(pid, _)| end(*pid));
                started.iter().for_each(|(_, all)| drop(fs::remove_dir_all(all)));
            });
            std::process::exit(INTERRUPTED);
        }
    });
    drop(waiting);
}

fn end(pid: u32) {
    let process = Process::new(pid);
    process.signal(Signal::TERM);
    if !process.wait(STOP) {
        process.signal(Signal::KILL);
        process.wait(STOP);
    }
}
