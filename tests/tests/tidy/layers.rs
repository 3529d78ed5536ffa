//! Which crate may import which: a closed list for our own, a deny list for everybody else's.

use crate::tree::Crate;

/// A crate of ours and the crates of ours that it may import.
type Layer = (&'static str, &'static [&'static str]);

/// Strictly downward: model; storage, machine, protocol, transport (siblings); client; broker, cli, bench, perf, tests.
const LAYERS: [Layer; 11] = [
    ("pelton-model", &[]),
    ("pelton-protocol", &["pelton-model"]),
    ("pelton-machine", &["pelton-model"]),
    ("pelton-storage", &["pelton-model"]),
    ("pelton-transport", &["pelton-model"]),
    ("pelton-client", &["pelton-model", "pelton-protocol", "pelton-transport"]),
    (
        "pelton-broker",
        &[
            "pelton-model",
            "pelton-protocol",
            "pelton-machine",
            "pelton-storage",
            "pelton-transport",
            "pelton-client",
        ],
    ),
    (
        "pelton",
        &[
            "pelton-model",
            "pelton-protocol",
            "pelton-machine",
            "pelton-storage",
            "pelton-transport",
            "pelton-client",
            "pelton-broker",
        ],
    ),
    ("pelton-bench", &["pelton-model", "pelton-protocol", "pelton-machine", "pelton-storage"]),
    ("pelton-perf", &["pelton-model", "pelton-protocol", "pelton-transport", "pelton-client"]),
    (
        "pelton-tests",
        &[
            "pelton-model",
            "pelton-protocol",
            "pelton-machine",
            "pelton-storage",
            "pelton-transport",
            "pelton-client",
            "pelton-broker",
            "pelton",
            "pelton-perf",
        ],
    ),
];

/// Nothing under `core/` does I/O, has a runtime, or reads a clock.
const DENIED_IN_CORE: [&str; 23] = [
    "async-task",
    "io-uring",
    "libc",
    "nix",
    "rustix",
    "socket2",
    "mio",
    "polling",
    "signal-hook",
    "tokio",
    "async-std",
    "smol",
    "async-io",
    "async-executor",
    "futures",
    "futures-lite",
    "futures-executor",
    "pollster",
    "chrono",
    "time",
    "tempfile",
    "tracing",
    "rand",
];

/// Crates with one home.
const HOMES: [(&str, &[&str]); 7] = [
    ("io-uring", &["pelton-transport"]),
    ("async-task", &["pelton-transport"]),
    ("rkyv", &["pelton-storage"]),
    ("libmimalloc-sys", &["pelton"]),
    ("mimalloc", &["pelton"]),
    ("clap", &["pelton", "pelton-perf"]),
    // No async runtime but our own.
    ("tokio", &[]),
];

/// What is wrong with the crate graph.
pub(crate) fn check(graph: &[Crate]) -> Vec<String> {
    graph.iter().flat_map(check_one).collect()
}

fn check_one(each: &Crate) -> Vec<String> {
    let name = &each.name;
    let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| layer == name) else {
        return vec![format!("{name}: not a crate of the design")];
    };
    let mut findings = Vec::new();
    for import in &each.imports {
        let ours = LAYERS.iter().any(|(layer, _)| layer == import);
        if ours && !allowed.contains(&import.as_str()) {
            findings.push(format!("{name} may not import {import}: imports point downward"));
        }
    }
    for import in each.imports.iter().filter(|import| !each.development.contains(import)) {
        if each.folder.starts_with("core/") && DENIED_IN_CORE.contains(&import.as_str()) {
            findings.push(format!("{name} may not import {import}: core never waits nor looks"));
        }
        for (guest, homes) in HOMES {
            if import == guest && !homes.contains(&name.as_str()) {
                findings.push(format!("{name} may not import {guest}: its home is {homes:?}"));
            }
        }
    }
    let own_lints = ["pelton-tests", "pelton-perf", "pelton"].contains(&name.as_str());
    if !each.workspace_lints && !own_lints {
        findings.push(format!("{name}: `[lints] workspace = true` is missing"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(name: &str, folder: &str, imports: &[&str]) -> Crate {
        Crate {
            name: name.to_owned(),
            folder: folder.to_owned(),
            imports: imports.iter().map(|import| (*import).to_owned()).collect(),
            development: Vec::new(),
            workspace_lints: true,
        }
    }

    #[test]
    fn upward_and_sideways_imports_are_found() {
        let check = |name: &str, folder: &str, import: &str, expected: usize| {
            let findings = check(&[crate_of(name, folder, &[import])]);
            assert_eq!(findings.len(), expected, "{name} -> {import}: {findings:?}");
        };
        check("pelton-machine", "core/machine", "pelton-model", 0);
        check("pelton-machine", "core/machine", "pelton-protocol", 1);
        check("pelton-storage", "storage", "pelton-protocol", 1);
        check("pelton-transport", "net/transport", "pelton-storage", 1);
        check("pelton-client", "net/client", "pelton-broker", 1);
        check("pelton-model", "core/model", "bytes", 0);
        check("pelton-model", "core/model", "libc", 1);
        check("pelton-machine", "core/machine", "rustix", 1);
        check("pelton-broker", "net/broker", "io-uring", 1);
        check("pelton-broker", "net/broker", "tokio", 1);
        check("pelton-storage", "storage", "async-task", 1);
        check("pelton-extra", "extra", "bytes", 1);
    }

    #[test]
    fn development_imports_may_be_foreign_but_not_upward() {
        let mut each = crate_of("pelton-protocol", "core/protocol", &["tempfile"]);
        each.development = vec!["tempfile".to_owned()];
        assert!(check(&[each.clone()]).is_empty());
        each.imports = vec!["pelton-storage".to_owned()];
        each.development = each.imports.clone();
        assert_eq!(check(&[each]).len(), 1);
    }

    #[test]
    fn lints_are_shared() {
        let bare = Crate { workspace_lints: false, ..crate_of("pelton-model", "core/model", &[]) };
        assert_eq!(check(&[bare]).len(), 1);
        let own = Crate { workspace_lints: false, ..crate_of("pelton-tests", "tests", &[]) };
        assert!(check(&[own]).is_empty());
    }
}
