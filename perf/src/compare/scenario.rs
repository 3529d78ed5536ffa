//! Scenario files: a load, how often, against what it is judged.
//!
//! Invariants:
//! 1. A key that nobody knows is an error: a misspelt target must not pass for a met one.
//! 2. The scenarios of `perf/scenarios/` are part of the program; a path names any other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::compare::figures::NAMES;
use crate::error::{PerfError, io_error};
use crate::load::Load;

macro_rules! own {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../scenarios/", $name, ".toml"))),)*]
    };
}

/// The scenarios that come with the program: name and text.
const OWN: &[(&str, &str)] = own! {
    "small-requests" "batches-16k" "small-records" "hundred-partitions" "one-at-a-time"
    "one-at-a-time-16k" "tail" "fetch-bulk" "fetch-small" "durable" "steady-50mb"
    "partitions-at-rest" "idle-memory" "start" "restart-10000" "many-producers" "keyed-records"
    "steady-50mb-10min" "long-run"
};

/// What a round does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Measure {
    /// Runs the load.
    #[default]
    Load,
    /// Starts in an empty directory; then, with the load's partitions and a record in each, starts again after SIGKILL.
    Start,
    /// Looks at the memory of a fresh broker before and after idle partitions and connections.
    Idle,
}

/// What is expected of the broker under test: a figure, alone or as a ratio to somebody else's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expectation {
    /// The figure's name.
    pub(crate) figure: String,
    /// Divided by the same figure of: `limit`, a broker, `best peer`; none: the figure itself.
    #[serde(default)]
    pub(crate) of: Option<String>,
    /// Divided by the same figure of the same broker in this variant.
    #[serde(default)]
    pub(crate) of_variant: Option<String>,
    /// Holds in this variant only.
    #[serde(default)]
    pub(crate) variant: Option<String>,
    /// The least that will do.
    #[serde(default)]
    pub(crate) at_least: Option<f64>,
    /// The most that will do.
    #[serde(default)]
    pub(crate) at_most: Option<f64>,
    /// Where it comes from, when that is not plain.
    #[serde(default)]
    pub(crate) note: String,
}

/// The load with something changed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VariantFile {
    name: String,
    load: toml::Table,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioFile {
    title: String,
    #[serde(default)]
    measure: Measure,
    figure: String,
    #[serde(default = "rounds")]
    rounds: u32,
    #[serde(default)]
    only: Vec<String>,
    #[serde(default)]
    limit: Option<String>,
    #[serde(default)]
    broker_settings: BTreeMap<String, String>,
    load: toml::Table,
    #[serde(default)]
    topic_settings: BTreeMap<String, BTreeMap<String, String>>,
    #[serde(default)]
    variants: Vec<VariantFile>,
    #[serde(default)]
    expect: Vec<Expectation>,
}

fn rounds() -> u32 {
    3
}

/// A load that every broker is put under.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    /// Empty when there is only one.
    pub(crate) name: String,
    /// The load.
    pub(crate) load: Load,
}

/// A scenario.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// The file's name.
    pub(crate) name: String,
    /// What it is about.
    pub(crate) title: String,
    /// What a round does.
    pub(crate) measure: Measure,
    /// The figure that it is about.
    pub(crate) figure: String,
    /// Rounds, unless the command line says otherwise.
    pub(crate) rounds: u32,
    /// The brokers that can take part; all when empty.
    pub(crate) only: Vec<String>,
    /// How the program stores that does the least; none when nothing compares.
    pub(crate) limit: Option<String>,
    /// Settings that brokers are started with.
    pub(crate) broker_settings: BTreeMap<String, String>,
    /// Settings of the topic for one broker, beside those of the load.
    pub(crate) topic_settings: BTreeMap<String, BTreeMap<String, String>>,
    /// The loads.
    pub(crate) variants: Vec<Variant>,
    /// What is expected.
    pub(crate) expect: Vec<Expectation>,
}

impl Scenario {
    /// The scenario of a name, or in a file.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub(crate) fn find(name: &str) -> Result<Self, PerfError> {
        if let Some((name, text)) = OWN.iter().find(|(own, _)| *own == name) {
            return Self::parse(Path::new(name), text);
        }
        let path = PathBuf::from(name);
        if path.extension().is_none() {
            return Err(PerfError::UnknownScenario { name: name.to_owned() });
        }
        let text = std::fs::read_to_string(&path).map_err(io_error("reading", name))?;
        Self::parse(&path, &text)
    }

    /// The names of those that come with the program.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        OWN.iter().map(|(name, _)| *name)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, PerfError> {
        let failed = |source| PerfError::Scenario { path: path.to_owned(), source };
        let file: ScenarioFile = toml::from_str(text).map_err(failed)?;
        let figures = file.expect.iter().map(|expect| &expect.figure);
        for figure in figures.chain([&file.figure]) {
            if !NAMES.contains(&figure.as_str()) {
                let what = "a scenario names a figure that does not exist";
                return Err(PerfError::Load { setting: "figure", what });
            }
        }
        let load = |changes: &toml::Table| -> Result<Load, PerfError> {
            let mut table = file.load.clone();
            table.extend(changes.clone());
            let load: Load = table.try_into().map_err(failed)?;
            load.check()?;
            Ok(load)
        };
        let mut variants = Vec::new();
        for variant in &file.variants {
            variants.push(Variant { name: variant.name.clone(), load: load(&variant.load)? });
        }
        if variants.is_empty() {
            variants.push(Variant { name: String::new(), load: load(&toml::Table::new())? });
        }
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Ok(Self {
            name: name.unwrap_or_default(),
            title: file.title,
            measure: file.measure,
            figure: file.figure,
            rounds: file.rounds.clamp(1, 100),
            only: file.only,
            limit: file.limit,
            broker_settings: file.broker_settings,
            topic_settings: file.topic_settings,
            variants,
            expect: file.expect,
        })
    }

    /// The load for one broker.
    pub(crate) fn load_for(&self, variant: &Variant, broker: &str) -> Load {
        let mut load = variant.load.clone();
        if let Some(settings) = self.topic_settings.get(broker) {
            let pairs = settings.iter().map(|(name, value)| (name.clone(), value.clone()));
            load.topic_settings.extend(pairs);
        }
        load
    }

    /// Whether a broker can take part.
    pub(crate) fn takes(&self, broker: &str) -> bool {
        self.only.is_empty() || broker == "limit" || self.only.iter().any(|name| name == broker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every scenario that comes along can be run, and judges by variants that exist. Method: all of them.
    #[test]
    fn own_scenarios() {
        for name in Scenario::names() {
            let scenario = Scenario::find(name).unwrap_or_else(|error| panic!("{error}"));
            let is_variant =
                |name: &String| scenario.variants.iter().any(|variant| &variant.name == name);
            for expect in &scenario.expect {
                assert!(expect.at_least.is_some() != expect.at_most.is_some(), "{name}");
                assert!(expect.of_variant.iter().all(is_variant), "{name}");
                assert!(expect.variant.iter().all(is_variant), "{name}");
            }
        }
    }

    /// Goal: no scenario is forgotten. Method: the folder against the list.
    #[test]
    fn all_of_the_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let files = std::fs::read_dir(folder).expect("the folder").map(|entry| {
            let path = entry.expect("an entry").path();
            path.file_stem().expect("a name").to_string_lossy().into_owned()
        });
        let (mut files, mut own): (Vec<String>, Vec<&str>) =
            (files.collect(), Scenario::names().collect());
        files.sort();
        own.sort_unstable();
        assert_eq!(files, own);
    }

    /// Goal: what a file says is done, and nothing is guessed. Method: a small file, and broken ones.
    #[test]
    fn files() {
        let text = "title = 't'\nfigure = 'p50_us'\n[load]\nconnections = 3\n[topic_settings.kafka]\n'flush.messages' = '1'\n[[variants]]\nname = 'many'\nload = { partitions = 9 }\n";
        let scenario = Scenario::parse(Path::new("x/small.toml"), text).expect("it is good");
        assert_eq!((scenario.name.as_str(), scenario.rounds), ("small", 3));
        let load = scenario.load_for(&scenario.variants[0], "kafka");
        assert_eq!((load.connections, load.partitions), (3, 9));
        assert_eq!(load.topic_settings["flush.messages"], "1");
        assert!(scenario.load_for(&scenario.variants[0], "pelton").topic_settings.is_empty());
        for broken in ["titel = 't'", "rounds = 'many'", "figure = 'p51'"] {
            let text = format!("{broken}\n{text}");
            assert!(Scenario::parse(Path::new("x"), &text).is_err(), "{broken}");
        }
        assert!(Scenario::find("no-such-scenario").is_err());
    }
}
