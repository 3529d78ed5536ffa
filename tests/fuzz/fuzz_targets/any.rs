//! Every fuzz target: which one it is tells the binary's name.

#![no_main]

#[path = "../src/targets.rs"]
mod targets;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static RUN: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = env!("CARGO_BIN_NAME");
    let found = targets::all().into_iter().find(|(each, _)| each == name);
    found.expect("each binary is named after a target").1
});

fuzz_target!(|data: &[u8]| RUN(data));
