//! Runs a program that the kernel refuses io_uring to, as containers with a strict seccomp profile do.
//!
//! Usage: `without_io_uring PROGRAM ARGUMENTS…`. The filter answers `io_uring_setup` with EPERM and outlives `exec`.

use std::os::unix::process::CommandExt;
use std::process::Command;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// The same number on every architecture, like all system calls since Linux 5.1.
const IO_URING_SETUP: i64 = 425;
const EPERM: u32 = 1;

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let program = arguments.next().expect("usage: without_io_uring PROGRAM ARGUMENTS…");
    let filter = SeccompFilter::new(
        [(IO_URING_SETUP, Vec::new())].into_iter().collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(EPERM),
        std::env::consts::ARCH.try_into().expect("a known architecture"),
    )
    .expect("the filter is well formed");
    let filter: BpfProgram = filter.try_into().expect("the filter compiles");
    seccompiler::apply_filter(&filter).expect("the kernel takes seccomp filters");
    panic!("cannot start the program: {}", Command::new(program).args(arguments).exec());
}
