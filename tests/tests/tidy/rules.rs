//! The rules about text: sizes, openings, forbidden words, and words that have one home.

use crate::Finding;
use crate::source::{File, has_word};

type Rule = fn(&File) -> Vec<Finding>;

pub(crate) const ALL: [Rule; 13] = [
    file_size,
    function_size,
    opening,
    forbidden_words,
    unsafe_code,
    runtime_names,
    no_surroundings_in_core,
    no_async_in_core,
    shared_state,
    snapshots,
    lone_handlers,
    lone_machines,
    ambient_configuration,
];

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

/// Where `unsafe` may be written.
const UNSAFE_FILES: [&str; 5] = [
    // The allocator is told to give memory back.
    "net/cli/src/allocator.rs",
    // The spare capacity that a receive has filled.
    "net/transport/src/ring/connection.rs",
    // Operations are put on the kernel's ring.
    "net/transport/src/ring/driver.rs",
    // Reads of what is cached, into memory that is not initialised; no library knows cachestat.
    "storage/src/disk/residency.rs",
    "storage/src/disk/write_back.rs",
];

/// What the runtime is made of, and where that may be named.
const RUNTIME_CRATES: [&str; 2] = ["io_uring", "async_task"];
const RUNTIME_HOMES: [&str; 1] = ["net/transport/src/ring/"];

/// Where `Arc`, locks and atomics may be used, and why.
const SHARED_STATE_HOMES: [&str; 10] = [
    // The seed of all maps is set once at boot.
    "core/model/src/map.rs",
    // A file range crosses the mesh; the file lives until its last range.
    "core/model/src/slice.rs",
    "storage/src/disk/",
    // The image is immutable and shared by all shards, and so is what the start found.
    "net/broker/src/shard/",
    "net/broker/src/boot",
    "net/broker/src/controller/",
    // A report crosses the mesh.
    "net/broker/src/metrics/report.rs",
    // Signals, stop and the first error cross threads.
    "net/transport/src/boot/",
    // Wakers, the bell, the helper threads and the mesh are how threads reach a shard.
    "net/transport/src/ring/",
    "net/cli/src/",
];

fn find(file: &File, rule: &'static str, words: &[&str], why: &str) -> Vec<Finding> {
    let lines = words.iter().flat_map(|word| {
        file.lines_with(word).into_iter().map(move |line| (line, format!("`{word}`: {why}")))
    });
    lines.map(|(line, what)| Finding::new(rule, file, line, &what)).collect()
}

fn file_size(file: &File) -> Vec<Finding> {
    let lines = file.text.lines().count();
    let what = format!("{lines} lines, at most {FILE_LINES_MAX}: split it by what it owns");
    let finding = Finding { measure: lines, ..Finding::new("file-size", file, lines, &what) };
    if lines > FILE_LINES_MAX { vec![finding] } else { Vec::new() }
}

/// Lines of code between a function's braces; blank lines and comments are free.
fn function_size(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (start, name) in function_starts(&file.code) {
        let Some(lines) = body_lines(&file.code[start..]) else { continue };
        if lines > FUNCTION_LINES_MAX {
            let line = file.code[..start].lines().count() + 1;
            let what = format!("`{name}` has {lines} lines, at most {FUNCTION_LINES_MAX}");
            let finding = Finding::new("function-size", file, line, &what);
            findings.push(Finding { measure: lines, ..finding });
        }
    }
    findings
}

fn function_starts(code: &str) -> Vec<(usize, String)> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices("fn ")
        .filter(|(at, _)| !code[..*at].ends_with(is_name))
        .map(|(at, _)| (at, code[at + 3..].chars().take_while(|c| is_name(*c)).collect()))
        .filter(|(_, name): &(usize, String)| !name.is_empty())
        .collect()
}

/// Counts the body that follows; `None` for a declaration without one.
fn body_lines(code: &str) -> Option<usize> {
    let mut nesting = 0_i32;
    let mut open = None;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => nesting += 1,
            ')' | ']' => nesting -= 1,
            ';' if nesting == 0 => return None,
            '{' if nesting == 0 => {
                open = Some(at);
                break;
            }
            _ => {}
        }
    }
    let open = open?;
    let mut depth = 0;
    for (at, c) in code[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let inside = &code[open + 1..open + at];
            return Some(inside.lines().filter(|line| !line.trim().is_empty()).count());
        }
    }
    None
}

fn opening(file: &File) -> Vec<Finding> {
    if file.text.starts_with("//! ") {
        return Vec::new();
    }
    let what = "a file opens with `//!`: what it owns, its invariants, what it does not do";
    vec![Finding::new("opening", file, 1, what)]
}

fn forbidden_words(file: &File) -> Vec<Finding> {
    let unfinished = find(
        file,
        "unfinished",
        &["todo!", "unimplemented!", "dbg!"],
        "finish it, or return an error that says what is missing",
    );
    let attribute = |words: &[&str], why: &str| -> Vec<Finding> {
        let lines = file.code.lines().enumerate();
        lines
            .filter(|(_, line)| {
                let dense: String = line.chars().filter(|c| !c.is_whitespace()).collect();
                words.iter().any(|word| dense.contains(word))
            })
            .map(|(number, _)| Finding::new("attribute", file, number + 1, why))
            .collect()
    };
    [
        unfinished,
        attribute(&["#[ignore"], "a test runs or does not exist"),
        attribute(&["#[allow(", "#![allow("], "`#[expect(lint, reason = …)]` goes away by itself"),
        attribute(&["clippy::too_many_lines"], "split the function"),
    ]
    .concat()
}

fn unsafe_code(file: &File) -> Vec<Finding> {
    if UNSAFE_FILES.contains(&file.path.as_str()) {
        return Vec::new();
    }
    find(file, "unsafe", &["unsafe"], "only in the files that tidy lists")
}

/// The crates' names in a path; a function of ours may be called `io_uring`.
fn runtime_names(file: &File) -> Vec<Finding> {
    if RUNTIME_HOMES.iter().any(|home| file.is_below(home)) {
        return Vec::new();
    }
    let names = |line: &str, name: &str| {
        let paths = [format!("{name}::"), format!("extern crate {name}"), format!("use {name}")];
        paths.iter().any(|path| has_word(line, path))
    };
    let lines = file.code.lines().enumerate();
    lines
        .filter(|(_, line)| RUNTIME_CRATES.iter().any(|name| names(line, name)))
        .map(|(number, _)| {
            let what = "the ring and its tasks have one home: use `trait Net`";
            Finding::new("runtime", file, number + 1, what)
        })
        .collect()
}

/// Time, randomness and bytes come in as arguments.
fn no_surroundings_in_core(file: &File) -> Vec<Finding> {
    if !file.is_below("core/") || !file.path.contains("/src/") {
        return Vec::new();
    }
    let words = ["std::fs", "std::net", "std::thread", "Instant", "SystemTime", "std::process"];
    find(file, "surroundings", &words, "core decides; time and bytes come in as arguments")
}

fn no_async_in_core(file: &File) -> Vec<Finding> {
    if !file.is_below("core/") || file.path == "core/model/src/task.rs" {
        return Vec::new();
    }
    find(file, "async", &["async", ".await"], "core never waits")
}

fn shared_state(file: &File) -> Vec<Finding> {
    let rooms = ["core/", "storage/", "net/"];
    let inside = rooms.iter().any(|room| file.is_below(room)) && file.path.contains("/src/");
    if !inside || SHARED_STATE_HOMES.iter().any(|home| file.is_below(home)) {
        return Vec::new();
    }
    let words = ["Arc", "Mutex", "RwLock", "Condvar", "OnceLock", "LazyLock", "std::sync::atomic"];
    find(
        file,
        "shared-state",
        &words,
        "a shard shares nothing: `Rc` and `Cell`, or a listed module",
    )
}

fn snapshots(file: &File) -> Vec<Finding> {
    if file.is_below("storage/src/snapshot/") {
        return Vec::new();
    }
    find(file, "rkyv", &["rkyv"], "only storage's snapshots are archived with it")
}

/// `handler/produce.rs` may not import `handler/fetch.rs`: what two handlers share belongs below both.
fn lone_handlers(file: &File) -> Vec<Finding> {
    lone(file, "net/broker/src/handler/", "handler", &[])
}

/// A machine decides alone; all of them read the metadata image and compile patterns of names.
fn lone_machines(file: &File) -> Vec<Finding> {
    lone(file, "core/machine/src/", "", &["image", "pattern"])
}

fn lone(file: &File, folder: &str, module: &str, shared: &[&str]) -> Vec<Finding> {
    let Some(inside) = file.path.strip_prefix(folder) else { return Vec::new() };
    let own = inside.split(['/', '.']).next().unwrap_or_default();
    if own == "lib" || own == "mod" {
        return Vec::new();
    }
    let direct = !inside.contains('/');
    let path = if module.is_empty() { "crate::".to_owned() } else { format!("{module}::") };
    let mut findings = Vec::new();
    for (number, line) in file.code.lines().enumerate() {
        let mut named: Vec<&str> = after(line, &path);
        if direct {
            named.extend(after(line, "use super::"));
        }
        for name in named {
            let is_module = name.starts_with(|c: char| c.is_ascii_lowercase());
            if is_module && name != own && !shared.contains(&name) {
                let what = format!("`{own}` imports its sibling `{name}`");
                findings.push(Finding::new("siblings", file, number + 1, &what));
            }
        }
    }
    findings
}

/// The identifiers that follow each occurrence of `prefix`.
fn after<'a>(line: &'a str, prefix: &str) -> Vec<&'a str> {
    let end =
        |rest: &str| rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    line.match_indices(prefix)
        .map(|(at, _)| &line[at + prefix.len()..])
        .map(|rest| &rest[..end(rest)])
        .filter(|name| !name.is_empty())
        .collect()
}

/// Settings are passed, not looked up.
fn ambient_configuration(file: &File) -> Vec<Finding> {
    let rooms = ["core/", "storage/src/", "net/broker/src/", "net/client/src/"];
    if !rooms.iter().any(|room| file.is_below(room)) || !file.path.contains("/src/") {
        return Vec::new();
    }
    find(file, "ambient", &["env::var", "env::var_os"], "settings are passed as arguments")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: Rule, path: &str, text: &str, expected_lines: &[usize]) {
        let findings = rule(&File::new(path, text));
        let lines: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, expected_lines, "{path}:\n{text}\n{findings:?}");
    }

    #[test]
    fn sizes() {
        check(file_size, "a.rs", &"\n".repeat(800), &[]);
        check(file_size, "a.rs", &"\n".repeat(801), &[801]);
        let function = |lines: usize| {
            format!(
                "//! x\n\nfn f(a: [u8; 3]) -> u8\nwhere\n    T: X,\n{{\n{}}}\n",
                "x;\n".repeat(lines)
            )
        };
        check(function_size, "a.rs", &function(70), &[]);
        check(function_size, "a.rs", &function(71), &[3]);
        let commented = format!("fn f() {{\n{}}}\n", "// why\n\n".repeat(100));
        check(function_size, "a.rs", &commented, &[]);
        check(function_size, "a.rs", "trait T {\n    fn f();\n}\n", &[]);
    }

    #[test]
    fn openings() {
        check(opening, "a.rs", "//! What it owns.\n", &[]);
        check(opening, "a.rs", "use x;\n//! Late.\n", &[1]);
        check(opening, "a.rs", "", &[1]);
    }

    #[test]
    fn words() {
        check(forbidden_words, "a.rs", "fn f() {\n    todo!()\n}", &[2]);
        check(forbidden_words, "a.rs", "unimplemented!();\ndbg!(1);", &[1, 2]);
        check(forbidden_words, "a.rs", "// todo!()\nlet x = \"dbg!\";", &[]);
        check(forbidden_words, "a.rs", "#[test]\n#[ignore]\nfn f() {}", &[2]);
        check(forbidden_words, "a.rs", "#[ allow(dead_code)]", &[1]);
        check(forbidden_words, "a.rs", "#[expect(dead_code, reason = \"x\")]", &[]);
        check(forbidden_words, "a.rs", "#[expect(clippy::too_many_lines)]", &[1]);
    }

    #[test]
    fn homes() {
        check(unsafe_code, "storage/src/a.rs", "x\nunsafe { y }", &[2]);
        check(unsafe_code, UNSAFE_FILES[0], "unsafe { y }", &[]);
        check(unsafe_code, "storage/src/a.rs", "#![forbid(unsafe_code)]", &[]);
        check(runtime_names, "net/broker/src/a.rs", "use io_uring::IoUring;", &[1]);
        check(runtime_names, "storage/src/a.rs", "fn f() { async_task::spawn() }", &[1]);
        check(runtime_names, "net/cli/src/a.rs", "match checks::io_uring() {}", &[]);
        check(runtime_names, "net/transport/src/ring/a.rs", "use io_uring::IoUring;", &[]);
        check(snapshots, "storage/src/log/mod.rs", "use rkyv::Archive;", &[1]);
    }

    #[test]
    fn core_is_pure() {
        let core = "core/machine/src/a.rs";
        check(no_surroundings_in_core, core, "use std::fs;\nuse std::time::Instant;", &[1, 2]);
        check(
            no_surroundings_in_core,
            core,
            "std::net::TcpStream::x();\nstd::thread::y();",
            &[1, 2],
        );
        check(no_surroundings_in_core, "core/model/src/slice.rs", "use std::os::fd::OwnedFd;", &[]);
        check(no_surroundings_in_core, "storage/src/a.rs", "use std::fs;", &[]);
        check(no_async_in_core, core, "async fn f() {}\nx.await;", &[1, 2]);
        check(no_async_in_core, "core/model/src/task.rs", "async fn f() {}", &[]);
        check(ambient_configuration, core, "std::env::var(X)", &[1]);
        check(ambient_configuration, "net/cli/src/a.rs", "std::env::var(X)", &[]);
    }

    #[test]
    fn shards_share_nothing() {
        check(shared_state, "net/broker/src/a.rs", "use std::sync::Arc;", &[1]);
        check(
            shared_state,
            "storage/src/log/a.rs",
            "static X: OnceLock<u8>;\nlet m: Mutex<u8>;",
            &[2, 1],
        );
        check(shared_state, "core/machine/src/a.rs", "use std::sync::atomic::AtomicU64;", &[1]);
        check(shared_state, "net/transport/src/ring/mesh.rs", "use std::sync::Arc;", &[]);
    }

    #[test]
    fn siblings() {
        let handler = "net/broker/src/handler/produce.rs";
        check(lone_handlers, handler, "use crate::handler::fetch::x;", &[1]);
        check(lone_handlers, handler, "use super::fetch;", &[1]);
        check(lone_handlers, handler, "use crate::handler::Context;\nuse super::Context;", &[]);
        check(lone_handlers, handler, "use crate::handler::produce::x;", &[]);
        check(lone_handlers, "net/broker/src/handler/produce/a.rs", "use super::b;", &[]);
        let machine = "core/machine/src/partition/mod.rs";
        check(lone_machines, machine, "use crate::purgatory::X;", &[1]);
        check(lone_machines, machine, "use crate::image::MetadataImage;", &[]);
        check(lone_machines, "core/machine/src/lib.rs", "use crate::purgatory::X;", &[]);
    }
}
