//! Reads the working tree: source files, crates, top-level entries, ARCHITECTURE.md.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::source::File;

/// One of our crates.
#[derive(Clone, Debug)]
pub(crate) struct Crate {
    pub(crate) name: String,
    /// Folder from the root.
    pub(crate) folder: String,
    /// Packages it imports, for whatever purpose.
    pub(crate) imports: Vec<String>,
    /// Those that only its tests import.
    pub(crate) development: Vec<String>,
    /// Whether it has the workspace's lints.
    pub(crate) workspace_lints: bool,
}

/// All Rust files that we wrote.
pub(crate) fn sources() -> Vec<File> {
    let mut files = Vec::new();
    for folder in ["core", "storage", "net", "tests", "bench", "perf"] {
        collect(&root().join(folder), &mut files);
    }
    assert!(files.len() > 50, "only {} files: looked in the wrong place", files.len());
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn collect(folder: &Path, files: &mut Vec<File>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            // What fuzzers and builds leave behind is not ours.
            if !["target", "corpus", "artifacts", "coverage"].contains(&name) {
                collect(&path, files);
            }
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).expect("sources are UTF-8");
            let relative = path.strip_prefix(root()).expect("below the root");
            files.push(File::new(relative.to_str().expect("paths are UTF-8"), &text));
        }
    }
}

/// Our crates and what they import.
pub(crate) fn crate_graph() -> Vec<Crate> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(root())
        .output()
        .expect("cargo can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages");
    packages.iter().map(read_crate).collect()
}

fn read_crate(package: &Value) -> Crate {
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    let manifest = PathBuf::from(text(&package["manifest_path"]));
    let folder = manifest.parent().and_then(|folder| folder.strip_prefix(root()).ok());
    let dependencies = package["dependencies"].as_array().expect("a list");
    let named = |kind: fn(&Value) -> bool| -> Vec<String> {
        dependencies
            .iter()
            .filter(|each| kind(&each["kind"]))
            .map(|each| text(&each["name"]))
            .collect()
    };
    let normal = named(|kind| kind.as_str() != Some("dev"));
    let development = named(|kind| kind.as_str() == Some("dev"));
    let manifest_text = fs::read_to_string(&manifest).expect("a readable manifest");
    Crate {
        name: text(&package["name"]),
        folder: folder.expect("a crate below the root").to_str().expect("UTF-8").to_owned(),
        imports: [normal.clone(), development.clone()].concat(),
        development: development.into_iter().filter(|each| !normal.contains(each)).collect(),
        workspace_lints: manifest_text.contains("[lints]\nworkspace = true"),
    }
}

const REQUIRED: [&str; 14] = [
    ".cargo",
    ".ci",
    ".clippy.toml",
    ".deny.toml",
    ".rustfmt.toml",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "core",
    "net",
    "storage",
];
/// Rooms that come later, and what tools leave in a working tree.
const ACCEPTED: [&str; 8] = [
    ".git",
    ".gitignore",
    "bench",
    "perf",
    "pelton-data",
    "rust-toolchain.toml",
    "target",
    "tests",
];

/// The names at the top of the tree.
pub(crate) fn top_level() -> Vec<String> {
    fs::read_dir(root())
        .expect("a readable root")
        .map(|entry| {
            entry.expect("a readable root").file_name().to_str().expect("UTF-8").to_owned()
        })
        .collect()
}

/// What is missing or too much.
pub(crate) fn check_top_level(entries: &[String]) -> Vec<String> {
    let missing = REQUIRED.iter().filter(|name| !entries.iter().any(|entry| entry == *name));
    let missing = missing.map(|name| format!("{name} is missing"));
    let known =
        |entry: &&String| REQUIRED.contains(&entry.as_str()) || ACCEPTED.contains(&entry.as_str());
    let extra = entries.iter().filter(|entry| !known(entry));
    missing.chain(extra.map(|name| format!("{name} has no place at the top level"))).collect()
}

/// Whether the text maps each crate and records decisions.
pub(crate) fn check_architecture(text: &str, crates: &[String]) -> Vec<String> {
    let unnamed = crates.iter().filter(|name| !text.contains(&format!("`{name}`")));
    let mut findings: Vec<String> =
        unnamed.map(|name| format!("ARCHITECTURE.md does not name `{name}`")).collect();
    if !text.lines().any(|line| line == "## Decisions") {
        findings.push("ARCHITECTURE.md has no `## Decisions`".to_owned());
    }
    findings
}

/// A file at the root, as text; empty when it is absent.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_default()
}

fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("tests/ lies below the root").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_at_the_top_are_found() {
        let mut entries: Vec<String> = REQUIRED.iter().map(|name| (*name).to_owned()).collect();
        assert!(check_top_level(&entries).is_empty());
        entries.push("src".to_owned());
        assert_eq!(check_top_level(&entries), ["src has no place at the top level"]);
        entries.retain(|entry| entry != "LICENSE" && entry != "src");
        assert_eq!(check_top_level(&entries), ["LICENSE is missing"]);
    }

    #[test]
    fn gaps_in_the_map_are_found() {
        let crates = ["pelton-model".to_owned(), "pelton".to_owned()];
        let good = "# Map\n`pelton-model` and `pelton`\n## Decisions\n";
        assert!(check_architecture(good, &crates).is_empty());
        assert_eq!(check_architecture("`pelton-model`", &crates).len(), 2);
    }
}
