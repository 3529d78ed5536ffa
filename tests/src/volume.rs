//! A small filesystem of a test's own, which outlives the broker on it: a tmpfs in namespaces that a child process holds.
//!
//! Needs no rights beyond those of namespaces; where they are not to be had, the test is skipped with a line that says so.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::peer::skip;

/// See the module.
#[derive(Debug)]
pub struct Volume {
    holder: Child,
    path: PathBuf,
}

impl Volume {
    /// Mounts `bytes` of memory at `path`, or says that this is skipped.
    ///
    /// # Panics
    /// When the place cannot be created.
    #[must_use]
    pub fn mount(path: &Path, bytes: u64) -> Option<Self> {
        std::fs::create_dir_all(path).expect("a place to mount");
        // The shell lives until its standard input is closed.
        let script = r#"mount -t tmpfs -o size="$1" tmpfs "$2" && echo mounted && exec cat"#;
        let holder = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
            .arg(bytes.to_string())
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut holder) = holder else {
            skip("there is no unshare(1)");
            return None;
        };
        let mut line = String::new();
        let stdout = holder.stdout.take().expect("stdout is piped");
        // An error leaves the line empty.
        drop(BufReader::new(stdout).read_line(&mut line));
        let volume = Self { holder, path: path.to_owned() };
        if line != "mounted\n" || !volume.mounts(&["--version"]) {
            skip("mounting a tmpfs in a namespace is not allowed here");
            return None;
        }
        Some(volume)
    }

    /// A command that runs `program` where the volume is mounted.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--preserve-credentials", "--user", "--mount", "--target"]);
        command.arg(self.holder.id().to_string()).arg("--").arg(program);
        command
    }

    /// Gives the volume another size.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn resize(&self, bytes: u64) {
        self.remount(&format!("remount,size={bytes}"));
    }

    /// Makes the volume read-only, or not any more; nothing may have a file of it open for writing.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn set_read_only(&self, is_read_only: bool) {
        self.remount(if is_read_only { "remount,ro" } else { "remount,rw" });
    }

    /// Where the volume's files are for processes outside, such as the test.
    #[must_use]
    pub fn seen_from_outside(&self) -> PathBuf {
        let below_root = self.path.strip_prefix("/").unwrap_or(&self.path);
        Path::new("/proc").join(self.holder.id().to_string()).join("root").join(below_root)
    }

    fn remount(&self, options: &str) {
        let path = self.path.to_str().expect("temp dirs are UTF-8");
        assert!(self.mounts(&["-o", options, path]), "mount -o {options} {path}");
    }

    fn mounts(&self, arguments: &[&str]) -> bool {
        let mut command = self.command(Path::new("mount"));
        command.args(arguments).stdout(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        drop(self.holder.kill());
        drop(self.holder.wait());
    }
}
