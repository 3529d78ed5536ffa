//! Counts the instructions of the hot functions of `pelton_bench::hot` under valgrind's callgrind and compares them with what is
//! recorded in `bench/instructions.txt`. The counts are the same in every run, so a noisy machine hides nothing.
//!
//! `cargo bench -p pelton-bench --bench instructions` checks: it says what grew or shrank by more than 2 %, and fails when something grew.
//! `… --bench instructions -- record` writes the file anew. `… -- check NAME` looks at the cases whose names contain it.
//!
//! Method: the program runs itself under callgrind, once for a few and once for many repetitions of a case; the difference, divided, is
//! free of the start, of the preparation and of what only the first calls do. Without valgrind it says so and passes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use pelton_bench::hot;

/// Repetitions of the shorter run and of the longer one.
const FEW: u64 = 200;
const MANY: u64 = 1_200;
/// What may change without a word, in percent.
const TOLERANCE_PERCENT: f64 = 2.0;

/// Instructions of one call, by case.
type Counts = BTreeMap<String, u64>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .filter(|word| !word.starts_with("--"))
        .collect();
    match words[..] {
        ["run", name, times] => run(name, times),
        ["record"] => record(),
        [] | ["check"] => check(""),
        ["check", part] => check(part),
        _ => {
            say("usage: [check [NAME] | record]");
            ExitCode::FAILURE
        }
    }
}

/// Inside valgrind: repeats a case.
fn run(name: &str, times: &str) -> ExitCode {
    pelton_model::map::seed(1);
    let mut case = hot::find(name).expect("we named it ourselves");
    let times: u64 = times.parse().expect("we wrote it ourselves");
    for _ in 0..times {
        (case.step)();
    }
    ExitCode::SUCCESS
}

fn record() -> ExitCode {
    let Some(counts) = count_all("") else {
        return ExitCode::FAILURE;
    };
    let mut text = format!(
        "# Instructions of one call, counted by callgrind; made by `cargo bench -p pelton-bench --bench instructions -- record`\n# {}\n",
        compiler()
    );
    for name in hot::NAMES {
        text.push_str(&format!("{:>9} {name}\n", counts[name]));
    }
    write(&recorded_path(), &text);
    say(&text);
    ExitCode::SUCCESS
}

fn check(part: &str) -> ExitCode {
    let text = read(&recorded_path());
    if !text.contains(&compiler()) {
        say("recorded with another compiler: differences may be its own");
    }
    let recorded: Counts = text.lines().filter_map(parse).collect();
    let Some(counts) = count_all(part) else {
        return ExitCode::SUCCESS;
    };
    let mut grown = 0;
    for (name, count) in &counts {
        let Some(&before) = recorded.get(name) else {
            say(&format!("{count:>9} {name}: not recorded yet"));
            continue;
        };
        let percent = percent_of(*count, before);
        let note = if percent > TOLERANCE_PERCENT {
            grown += 1;
            "  GREW"
        } else if percent < -TOLERANCE_PERCENT {
            "  shrank; record it"
        } else {
            ""
        };
        say(&format!(
            "{count:>9} {name}: {percent:+.1} % of {before}{note}"
        ));
    }
    if grown > 0 {
        say(&format!("{grown} grew by more than {TOLERANCE_PERCENT} %"));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

#[expect(clippy::cast_precision_loss, reason = "counts of one call are small")]
fn percent_of(count: u64, before: u64) -> f64 {
    (count as f64 / before.max(1) as f64 - 1.0) * 100.0
}

fn parse(line: &str) -> Option<(String, u64)> {
    let (count, name) = line.trim_start().split_once(' ')?;
    Some((name.to_owned(), count.parse().ok()?))
}

/// Counts the cases whose names contain `part`; `None` without valgrind.
fn count_all(part: &str) -> Option<Counts> {
    let mut counts = Counts::new();
    for name in hot::NAMES.iter().filter(|name| name.contains(part)) {
        let (Some(few), Some(many)) = (collected(name, FEW), collected(name, MANY)) else {
            say("skipped: valgrind cannot be run");
            return None;
        };
        counts.insert((*name).to_owned(), (many - few) / (MANY - FEW));
    }
    Some(counts)
}

/// The instructions of a whole run, as callgrind tells them in the end.
fn collected(name: &str, times: u64) -> Option<u64> {
    let own = std::env::current_exe().ok()?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(own)
        .args(["run", name, &times.to_string()])
        .output()
        .ok()?;
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {told}");
    let line = told
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    let (_, count) = line.unwrap_or_else(|| panic!("{name}: callgrind counted nothing: {told}"));
    Some(count.trim().parse().expect("a count"))
}

fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output();
    version.map_or_else(
        |_| "an unknown compiler".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

fn recorded_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.txt")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("the folder of this crate can be written");
}

#[expect(clippy::print_stdout, reason = "a tool at a terminal")]
fn say(text: &str) {
    println!("{text}");
}
