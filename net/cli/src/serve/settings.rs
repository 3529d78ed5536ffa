//! The settings of a broker: file, `--set` and options, laid over each other; what the names amount to.
//!
//! A later layer wins: the file (or the single-node defaults), then `--set`, then `--listen` and its like.

use std::collections::BTreeMap;
use std::path::Path;

use pelton_model::config::broker::{BrokerConfig, single_node_settings};
use pelton_model::config::listener::HostPort as ShownHostPort;
use pelton_model::config::names::{self, Review};
use pelton_model::config::properties::{self, Entry};

use crate::args::{HostPort, ServeArgs};
use crate::error::CliError;

/// A broker's configuration and what the operator should hear about it.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The typed form.
    pub(crate) config: BrokerConfig,
    /// What the names amount to.
    pub(crate) review: Review,
    /// The line of each name that came from the file.
    lines: BTreeMap<String, usize>,
}

/// Reads the file, if any, and lays the command line over it.
pub(crate) fn load(args: &ServeArgs, hostname: &str) -> Result<Settings, CliError> {
    let file = match &args.config {
        Some(path) => Some(parse(path, &read(path)?)?),
        None => None,
    };
    resolve(args, file, hostname)
}

fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the command line's own file, before any shard"
    )]
    std::fs::read(path).map_err(|error| {
        CliError::with_remedy(
            format!("cannot read the settings in {}: {error}", path.display()),
            "give --config a readable file, or leave it away",
        )
    })
}

fn parse(path: &Path, text: &[u8]) -> Result<BTreeMap<String, Entry>, CliError> {
    properties::parse(text).map_err(|error| {
        CliError::with_remedy(
            format!("cannot parse the settings in {}: {error}", path.display()),
            "double the backslash if none was meant as an escape",
        )
    })
}

fn resolve(
    args: &ServeArgs,
    file: Option<BTreeMap<String, Entry>>,
    hostname: &str,
) -> Result<Settings, CliError> {
    let mut lines = BTreeMap::new();
    let mut set = single_node_settings();
    if let Some(file) = file {
        set.clear();
        for (name, entry) in file {
            lines.insert(name.clone(), entry.line);
            set.insert(name, entry.value);
        }
    }
    for setting in &args.settings {
        lines.remove(&setting.name);
        set.insert(setting.name.clone(), setting.value.clone());
    }
    lay_options(args, &mut set);
    let review = names::review(set.keys().map(String::as_str));
    let config = BrokerConfig::resolve(set, hostname).map_err(|error| match &args.config {
        Some(path) => CliError::failed(format!("{error} (settings of {})", path.display())),
        None => CliError::failed(error.to_string()),
    })?;
    Ok(Settings {
        config,
        review,
        lines,
    })
}

/// `--listen`, `--advertise`, `--metrics` and `--data-dir` are settings under shorter names.
fn lay_options(args: &ServeArgs, set: &mut BTreeMap<String, String>) {
    let listener = |at: &HostPort| format!("PLAINTEXT://{}", ShownHostPort(&at.host, at.port));
    if let Some(listen) = &args.listen {
        set.insert("listeners".to_owned(), listener(listen));
        // What the file advertised belonged to the listeners that are gone now.
        set.remove("advertised.listeners");
    }
    if let Some(advertise) = &args.advertise {
        set.insert("advertised.listeners".to_owned(), listener(advertise));
    }
    if let Some(at) = &args.metrics {
        let shown = ShownHostPort(&at.host, at.port).to_string();
        set.insert("metrics.listener".to_owned(), shown);
    }
    if let Some(dir) = &args.data_dir {
        set.insert("log.dirs".to_owned(), dir.display().to_string());
    }
}

impl Settings {
    /// One line about each name nobody knows.
    pub(crate) fn unknown_lines(&self) -> Vec<String> {
        let line = |name: &str| match self.lines.get(name) {
            Some(line) => format!(" (line {line})"),
            None => String::new(),
        };
        self.review
            .unknown
            .iter()
            .map(|unknown| {
                let hint = match unknown.nearest {
                    Some(nearest) => format!("did you mean {nearest}?"),
                    None => "no known name is near it".to_owned(),
                };
                format!(
                    "unknown setting {}{}: {hint}",
                    unknown.name,
                    line(&unknown.name)
                )
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Setting;

    fn settings(args: &ServeArgs, file: Option<&str>) -> Result<Settings, CliError> {
        let file = file.map(|text| properties::parse(text.as_bytes()).expect("well-formed"));
        resolve(args, file, "machine.example")
    }

    fn with(sets: &[&str]) -> ServeArgs {
        ServeArgs {
            settings: sets
                .iter()
                .map(|text| text.parse().expect("KEY=VALUE"))
                .collect(),
            ..ServeArgs::default()
        }
    }

    // Goal: the layers win in their order. Method: one setting in each layer.
    #[test]
    fn layers() {
        let partitions =
            |args: &ServeArgs, file| settings(args, file).expect("valid").config.num_partitions;
        assert_eq!(partitions(&with(&[]), None), 1);
        assert_eq!(partitions(&with(&[]), Some("num.partitions=2")), 2);
        assert_eq!(
            partitions(&with(&["num.partitions=3"]), Some("num.partitions=2")),
            3
        );
        let mut args = with(&["listeners=PLAINTEXT://a:1", "log.dirs=/a"]);
        args.listen = Some("b:2".parse().expect("HOST:PORT"));
        args.data_dir = Some("/b".into());
        let config = settings(&args, None).expect("valid").config;
        assert_eq!(config.listeners[0].to_string(), "PLAINTEXT://b:2");
        assert_eq!(config.log_dirs[0].to_str(), Some("/b"));
    }

    // Goal: --listen replaces what a file advertised for its own listeners. Method: both.
    #[test]
    fn listen_over_a_file() {
        let file = "listeners=PLAINTEXT://a:1\nadvertised.listeners=PLAINTEXT://c:3";
        let mut args = with(&[]);
        args.listen = Some("b:2".parse().expect("HOST:PORT"));
        let told = |args: &ServeArgs| {
            settings(args, Some(file))
                .expect("valid")
                .config
                .advertised_listeners[0]
                .to_string()
        };
        assert_eq!(told(&args), "PLAINTEXT://b:2");
        args.advertise = Some("d:4".parse().expect("HOST:PORT"));
        assert_eq!(told(&args), "PLAINTEXT://d:4");
        args.listen = None;
        assert_eq!(told(&args), "PLAINTEXT://d:4");
    }

    // Goal: a typing error is reported with its place and the name meant. Method: in the file and on the line.
    #[test]
    fn unknown_names() {
        let lines = settings(&with(&["num.partition=1"]), Some("\nlog.dir.s=/a\nq=1"))
            .expect("valid")
            .unknown_lines();
        assert_eq!(
            lines,
            [
                "unknown setting log.dir.s (line 2): did you mean log.dirs?",
                "unknown setting num.partition: did you mean num.partitions?",
                "unknown setting q (line 3): no known name is near it",
            ]
        );
    }

    // Goal: a bad value ends the start with one line. Method: through --set.
    #[test]
    fn bad_value() {
        let args = ServeArgs {
            settings: vec![Setting {
                name: "num.partitions".to_owned(),
                value: "0".to_owned(),
            }],
            ..ServeArgs::default()
        };
        let error = settings(&args, None).expect_err("refused");
        assert_eq!(
            error.to_string(),
            "Invalid value 0 for configuration num.partitions: must be at least 1"
        );
    }
}
