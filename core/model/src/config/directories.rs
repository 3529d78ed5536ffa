//! The data directories of a broker: `log.dirs`, else `log.dir`, and `metadata.log.dir`.
//!
//! Invariants:
//! 1. At least one directory; none is named twice (also not as `/a` and `/a/`).
//! 2. The metadata directory is the first one unless it is set; it may stand apart from the others, and then holds the metadata log only.
//!
//! Source: KIP-112, KIP-631 (`metadata.log.dir`), KIP-1066 (`cordoned.log.dirs`).

use std::path::{Path, PathBuf};

use super::ConfigError;
use super::values::Values;

/// The directories as configured.
pub(super) struct Directories {
    pub(super) log_dirs: Vec<PathBuf>,
    pub(super) metadata_log_dir: PathBuf,
    pub(super) cordoned_log_dirs: Vec<PathBuf>,
}

pub(super) fn resolve(values: Values<'_>) -> Result<Directories, ConfigError> {
    let name = if values.set("log.dirs").is_some() {
        "log.dirs"
    } else {
        "log.dir"
    };
    let log_dirs = paths(values, name)?;
    let Some(first) = log_dirs.first() else {
        let shown = values.get(name).unwrap_or_default();
        return Err(ConfigError::invalid(name, shown, "must name a directory"));
    };
    let metadata_log_dir = match values.set("metadata.log.dir") {
        None => first.clone(),
        Some("") => {
            return Err(ConfigError::invalid(
                "metadata.log.dir",
                "",
                "must name a directory",
            ));
        }
        // As the list spells it, so that one directory has one name.
        Some(given) => {
            let given = Path::new(given);
            let listed = log_dirs.iter().find(|dir| is_same(dir, given));
            listed.map_or_else(|| given.to_owned(), PathBuf::clone)
        }
    };
    Ok(Directories {
        cordoned_log_dirs: cordoned(values, &log_dirs)?,
        log_dirs,
        metadata_log_dir,
    })
}

/// `*` cordons every directory.
fn cordoned(values: Values<'_>, log_dirs: &[PathBuf]) -> Result<Vec<PathBuf>, ConfigError> {
    const NAME: &str = "cordoned.log.dirs";
    if values.get(NAME).map(str::trim) == Some("*") {
        return Ok(log_dirs.to_vec());
    }
    let given = paths(values, NAME)?;
    let mut cordoned = Vec::with_capacity(given.len());
    for dir in given {
        let Some(listed) = log_dirs.iter().find(|listed| is_same(listed, &dir)) else {
            return Err(ConfigError::invalid(
                NAME,
                values.get(NAME).unwrap_or_default(),
                "must name directories of log.dirs only, or be *",
            ));
        };
        cordoned.push(listed.clone());
    }
    Ok(cordoned)
}

/// A list of directories: trimmed, none empty, none twice.
fn paths(values: Values<'_>, name: &str) -> Result<Vec<PathBuf>, ConfigError> {
    let invalid = |problem: &'static str| {
        Err(ConfigError::invalid(
            name,
            values.get(name).unwrap_or_default(),
            problem,
        ))
    };
    let mut paths: Vec<PathBuf> = Vec::new();
    for element in values.list(name) {
        if element.is_empty() {
            return invalid("must not have an empty element");
        }
        if paths.iter().any(|path| is_same(path, Path::new(element))) {
            return invalid("must not name a directory twice");
        }
        paths.push(PathBuf::from(element));
    }
    Ok(paths)
}

/// Compares by components: `/a//b/` is `/a/b`. What links point to is the disk's business.
fn is_same(a: &Path, b: &Path) -> bool {
    a.components().eq(b.components())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::super::broker::BrokerConfig;

    type Outcome = Result<(Vec<PathBuf>, PathBuf, Vec<PathBuf>), String>;

    fn resolve(settings: &[(&str, &str)]) -> Outcome {
        let set: BTreeMap<String, String> = settings
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        match BrokerConfig::resolve(set, "host") {
            Ok(config) => Ok((
                config.log_dirs,
                config.metadata_log_dir,
                config.cordoned_log_dirs,
            )),
            Err(error) => Err(error.to_string()),
        }
    }

    // Goal: directories are read as Kafka reads them. Method: a table of settings with what comes of them.
    #[test]
    fn directories() {
        fn check(settings: &[(&str, &str)], dirs: &[&str], metadata: &str, cordoned: &[&str]) {
            let path = |dir: &&str| PathBuf::from(dir);
            let expected = (
                dirs.iter().map(path).collect(),
                PathBuf::from(metadata),
                cordoned.iter().map(path).collect(),
            );
            assert_eq!(resolve(settings), Ok(expected), "{settings:?}");
        }
        check(&[], &["/tmp/kafka-logs"], "/tmp/kafka-logs", &[]);
        check(&[("log.dirs", " /a , /b ")], &["/a", "/b"], "/a", &[]);
        check(&[("log.dir", "/a,/b")], &["/a", "/b"], "/a", &[]);
        check(&[("log.dir", "/a"), ("log.dirs", "/b")], &["/b"], "/b", &[]);
        check(
            &[("log.dirs", "/a,/b"), ("metadata.log.dir", "/b/")],
            &["/a", "/b"],
            "/b",
            &[],
        );
        check(
            &[("log.dirs", "/a,/b"), ("metadata.log.dir", "/m")],
            &["/a", "/b"],
            "/m",
            &[],
        );
        check(
            &[("log.dirs", "/a,/b"), ("cordoned.log.dirs", "/b/")],
            &["/a", "/b"],
            "/a",
            &["/b"],
        );
        check(
            &[("log.dirs", "/a,/b"), ("cordoned.log.dirs", "*")],
            &["/a", "/b"],
            "/a",
            &["/a", "/b"],
        );
    }

    // Goal: a list that cannot be meant is refused by its name. Method: a table of settings.
    #[test]
    fn refusals() {
        fn check(settings: &[(&str, &str)], part: &str) {
            let error = resolve(settings).expect_err("refused");
            assert!(error.contains(part), "{settings:?}: {error}");
        }
        check(&[("log.dirs", "")], "must name a directory");
        check(&[("log.dirs", "/a,,/b")], "empty element");
        check(&[("log.dirs", "/a,")], "empty element");
        check(&[("log.dirs", "/a,/b,/a")], "twice");
        check(&[("log.dirs", "/a, /a//")], "twice");
        check(&[("metadata.log.dir", " ")], "must name a directory");
        check(
            &[("log.dirs", "/a,/b"), ("cordoned.log.dirs", "/c")],
            "directories of log.dirs only",
        );
    }
}
