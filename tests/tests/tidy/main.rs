//! The codebase checks itself: layering, sizes, and what must not be written. `cargo tidy` runs this alone.
//!
//! Invariants:
//! 1. A rule is a pure function from a file (or the crate graph) to findings, and has its own little test on a bad snippet.
//! 2. Text rules look at code only: comments, strings and characters are blanked first.
//! 3. [`EXCEPTIONS`] may only shrink: an exception that is no longer needed, or that is outgrown, is a failure.
//!
//! What clippy, rustfmt and cargo-deny check is not repeated here. Source: DESIGN's table of crates, kept in `layers.rs`.

mod layers;
mod rules;
mod source;
mod tree;

use std::fmt::Write;

use source::File;

/// A file that breaks a rule by a known amount: path, rule, the most it may measure.
type Exception = (&'static str, &'static str, usize);

const EXCEPTIONS: [Exception; 0] = [];

/// What is wrong, where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    rule: &'static str,
    path: String,
    line: usize,
    /// How much, for rules about sizes; otherwise 1.
    measure: usize,
    what: String,
}

impl Finding {
    pub(crate) fn new(rule: &'static str, file: &File, line: usize, what: &str) -> Self {
        Self { rule, path: file.path.clone(), line, measure: 1, what: what.to_owned() }
    }
}

/// Goal: no source file breaks a rule. Method: all rules over all files that git would commit.
#[test]
fn sources_are_tidy() {
    let findings: Vec<Finding> = tree::sources()
        .iter()
        .flat_map(|file| rules::ALL.iter().flat_map(|rule| rule(file)))
        .collect();
    let (excused, open): (Vec<_>, Vec<_>) = findings.into_iter().partition(is_excepted);
    let mut report = String::new();
    for finding in &open {
        let Finding { rule, path, line, what, .. } = finding;
        writeln!(report, "{path}:{line}: [{rule}] {what}").expect("strings take text");
    }
    for (path, rule, _) in EXCEPTIONS {
        if !excused.iter().any(|finding| finding.path == path && finding.rule == rule) {
            writeln!(
                report,
                "{path}: the exception from [{rule}] is not needed any more; remove it"
            )
            .expect("strings take text");
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

fn is_excepted(finding: &Finding) -> bool {
    EXCEPTIONS.iter().any(|(path, rule, most)| {
        finding.path == *path && finding.rule == *rule && finding.measure <= *most
    })
}

/// Goal: imports point downward only. Method: `cargo metadata` against the closed list of our crates and the deny list.
#[test]
fn crates_are_layered() {
    let graph = tree::crate_graph();
    let findings = layers::check(&graph);
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

/// Goal: the top level stays readable at a glance. Method: its entries against the closed list.
#[test]
fn top_level_is_as_designed() {
    let findings = tree::check_top_level(&tree::top_level());
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

/// Goal: a newcomer can navigate. Method: ARCHITECTURE.md has a section of decisions and names each crate.
#[test]
fn architecture_names_each_crate() {
    let text = tree::read("ARCHITECTURE.md");
    let names: Vec<String> = tree::crate_graph().into_iter().map(|each| each.name).collect();
    let findings = tree::check_architecture(&text, &names);
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}
