//! Settings that change while a broker runs: for one broker, or for all of them.
//!
//! Invariants:
//! 1. one broker's value wins over the one for all brokers, that over the file's, that over the default;
//! 2. what cannot be used is refused when a client sets it; where it stands in the metadata all the same, it is left out
//!    and reported, and the rest holds;
//! 3. values of one level are judged together with everything else that is set.
//!
//! A name nobody knows is accepted, as Kafka does: plugins have such names. Source: KIP-226, Apache Kafka 4.3.1.

use std::collections::BTreeSet;

use super::ConfigError;
use super::broker::BrokerConfig;
use super::described::Source;
use super::key::{ConfigKey, Kind, Update};
use super::layers::{Layers, Settings};
use super::names::bare_name;
use super::table::{broker_key, broker_keys, topic_keys};

/// Kafka binds other listeners while it runs; Pelton cannot, so the name is read-only here.
const FIXED_HERE: &[&str] = &["listeners"];

/// Whom a dynamic setting is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// All brokers.
    Cluster,
    /// One broker.
    Node,
}

/// What is set while brokers run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Dynamic {
    pub(super) cluster: Settings,
    pub(super) node: Settings,
}

/// A value in one of the places that set it, as clients are shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerSynonym {
    /// The name there.
    pub name: String,
    /// The value there; `None` when it is secret.
    pub value: Option<String>,
    /// Which place it is.
    pub source: Source,
}

/// One line of a broker's configuration as clients are shown it.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerLine {
    /// The name.
    pub name: String,
    /// Type and description; `None` for a name nobody knows.
    pub key: Option<&'static ConfigKey>,
    /// The value; `None` is null, or a secret.
    pub value: Option<String>,
    /// Where it is set.
    pub source: Source,
    /// Whether it cannot change while the broker runs.
    pub is_read_only: bool,
    /// Whether the value is a secret; nobody knows what a plugin's value is.
    pub is_sensitive: bool,
    /// Every place that sets it, the winning one first.
    pub synonyms: Vec<BrokerSynonym>,
}

impl BrokerConfig {
    /// This broker's configuration with what is set while brokers run, and what of it had to be left out.
    #[must_use]
    pub fn with_dynamic(&self, cluster: Settings, node: Settings) -> (Self, Vec<ConfigError>) {
        let mut faults = Vec::new();
        let mut keep = |settings: Settings, level| -> Settings {
            let usable = settings.into_iter().filter(|(name, value)| {
                let fault = setting_fault(name, value, level);
                let is_usable = fault.is_none();
                faults.extend(fault);
                is_usable
            });
            usable.collect()
        };
        let dynamic = Dynamic {
            cluster: keep(cluster, Level::Cluster),
            node: keep(node, Level::Node),
        };
        match self.rebuilt(dynamic.clone()) {
            Ok(config) => (config, faults),
            Err(_) => {
                let config = self.one_by_one(dynamic, &mut faults);
                (config, faults)
            }
        }
    }

    /// Adds settings that contradict something, the cluster's first: each that fits what is there already stays.
    fn one_by_one(&self, dynamic: Dynamic, faults: &mut Vec<ConfigError>) -> Self {
        let mut kept = Dynamic::default();
        let mut config = self.rebuilt(kept.clone()).unwrap_or_else(|_| self.clone());
        let cluster = dynamic.cluster.into_iter().map(|it| (Level::Cluster, it));
        let node = dynamic.node.into_iter().map(|it| (Level::Node, it));
        for (level, (name, value)) in cluster.chain(node) {
            let mut more = kept.clone();
            match level {
                Level::Cluster => more.cluster.insert(name, value),
                Level::Node => more.node.insert(name, value),
            };
            match self.rebuilt(more.clone()) {
                Ok(fits) => (config, kept) = (fits, more),
                Err(fault) => faults.push(fault),
            }
        }
        config
    }

    /// Checks what one level would be set to as a whole.
    ///
    /// # Errors
    /// [`ConfigError`] with the text for the client.
    pub fn check_dynamic(&self, level: Level, settings: &Settings) -> Result<(), ConfigError> {
        let named = |judge: &dyn Fn(&str) -> bool| -> Vec<String> {
            settings
                .keys()
                .filter(|name| judge(name))
                .cloned()
                .collect()
        };
        refuse(NOT_DYNAMIC, named(&is_fixed))?;
        refuse(
            PER_LISTENER,
            named(&|name| !is_prefixed(name) && is_security(name)),
        )?;
        for (name, value) in settings {
            if let Some(key) = broker_key(bare_name(name)) {
                key.validate(value)?;
            }
        }
        if level == Level::Cluster {
            refuse(PER_BROKER, named(&is_per_broker))?;
        }
        let mut dynamic = self.dynamic.clone();
        match level {
            Level::Cluster => dynamic.cluster = settings.clone(),
            Level::Node => dynamic.node = settings.clone(),
        }
        self.rebuilt(dynamic).map(drop)
    }

    /// The typed form of everything that is set.
    fn rebuilt(&self, dynamic: Dynamic) -> Result<Self, ConfigError> {
        let mut merged = self.set_values().clone();
        for settings in [&dynamic.cluster, &dynamic.node] {
            let pairs = settings.iter();
            merged.extend(pairs.map(|(name, value)| (name.clone(), value.clone())));
        }
        let config = Self::resolve(merged, self.hostname())?;
        Ok(config.with_layers(self.set_values().clone(), dynamic))
    }

    /// Every configuration of this broker, sorted by name.
    #[must_use]
    pub fn describe(&self) -> Vec<BrokerLine> {
        let layers = self.layers();
        let listed = broker_keys().filter(|key| !key.hidden).map(|key| key.name);
        let set = layers.places().into_iter().flat_map(|(_, set)| set.keys());
        let names: BTreeSet<&str> = listed.chain(set.map(String::as_str)).collect();
        names.into_iter().map(|name| self.line(name)).collect()
    }

    /// What is set on all brokers while they run, sorted by name.
    #[must_use]
    pub fn describe_cluster(&self) -> Vec<BrokerLine> {
        let only_cluster = |name: &String| {
            let mut line = self.line(name);
            let is_cluster =
                |synonym: &BrokerSynonym| synonym.source == Source::DynamicDefaultBroker;
            line.synonyms.retain(is_cluster);
            let value = self.layers().cluster.get(name);
            line.value = value.filter(|_| !line.is_sensitive).map(|value| {
                line.key
                    .map_or_else(|| value.clone(), |key| key.canonical(value))
            });
            line.source = Source::DynamicDefaultBroker;
            line
        };
        self.layers().cluster.keys().map(only_cluster).collect()
    }

    fn line(&self, name: &str) -> BrokerLine {
        let layers = self.layers();
        let key = broker_key(bare_name(name));
        let is_sensitive = key.is_none_or(|key| key.kind == Kind::Password);
        let synonyms = synonyms(name, layers, is_sensitive);
        let source = synonyms
            .first()
            .map_or(Source::Default, |synonym| synonym.source);
        let set = layers.get(name).map(|(value, _)| value);
        let default = || {
            key.filter(|key| key.name == name)
                .and_then(|key| key.default)
        };
        let value = set.or_else(default).filter(|_| !is_sensitive);
        let line = BrokerLine {
            name: name.to_owned(),
            key,
            value: value.map(|value| key.map_or_else(|| value.to_owned(), |k| k.canonical(value))),
            source,
            is_read_only: key.is_none_or(|key| key.name != name) || is_fixed(name),
            is_sensitive,
            synonyms,
        };
        if name == "node.id" {
            self.node_id_line(line)
        } else {
            line
        }
    }

    /// The id that this broker has, whether or not anyone chose it: tools look for it here.
    fn node_id_line(&self, line: BrokerLine) -> BrokerLine {
        let value = self.node_id.0.to_string();
        BrokerLine {
            synonyms: vec![BrokerSynonym {
                name: line.name.clone(),
                value: Some(value.clone()),
                source: Source::StaticBroker,
            }],
            value: Some(value),
            source: Source::StaticBroker,
            ..line
        }
    }
}

const NOT_DYNAMIC: &str = "Cannot update these configs dynamically";
const PER_LISTENER: &str =
    "These security configs can be dynamically updated only per-listener using the listener prefix";
const PER_BROKER: &str =
    "Cannot update these configs at default cluster level, broker id must be specified";

fn refuse(rule: &'static str, names: Vec<String>) -> Result<(), ConfigError> {
    if names.is_empty() {
        Ok(())
    } else {
        Err(ConfigError::Refused { rule, names })
    }
}

/// What is wrong with one setting that stands in the metadata.
fn setting_fault(name: &str, value: &str, level: Level) -> Option<ConfigError> {
    let refused = |rule| {
        let names = vec![name.to_owned()];
        Some(ConfigError::Refused { rule, names })
    };
    if is_fixed(name) {
        return refused(NOT_DYNAMIC);
    }
    if level == Level::Cluster && is_per_broker(name) {
        return refused(PER_BROKER);
    }
    broker_key(bare_name(name))?.validate(value).err()
}

fn is_fixed(name: &str) -> bool {
    let is_read_only = broker_key(name).is_some_and(|key| key.update == Update::ReadOnly);
    is_read_only || FIXED_HERE.contains(&name)
}

fn is_prefixed(name: &str) -> bool {
    bare_name(name) != name
}

fn is_security(name: &str) -> bool {
    name.starts_with("ssl.") && broker_key(name).is_some_and(|key| key.update == Update::PerBroker)
}

fn is_per_broker(name: &str) -> bool {
    broker_key(bare_name(name)).is_some_and(|key| key.update == Update::PerBroker)
}

/// The names that give one value in several units, the strongest first; the name alone for all others.
fn family(name: &str) -> Vec<&str> {
    let has = |names: &&[super::key::Synonym]| {
        names.len() > 1 && names.iter().any(|synonym| synonym.name == name)
    };
    match topic_keys().iter().map(|row| row.synonyms).find(has) {
        Some(names) => names.iter().map(|synonym| synonym.name).collect(),
        None if is_prefixed(name) => vec![name, bare_name(name)],
        None => vec![name],
    }
}

/// As Kafka lists them: place by place under every name, from the first line of the name that is asked about.
fn synonyms(name: &str, layers: Layers<'_>, is_sensitive: bool) -> Vec<BrokerSynonym> {
    let family = family(name);
    let of = |name: &str, value: &str, source| BrokerSynonym {
        name: name.to_owned(),
        value: (!is_sensitive).then(|| value.to_owned()),
        source,
    };
    let mut found = Vec::new();
    for (source, settings) in layers.places() {
        let set = family
            .iter()
            .filter_map(|name| Some((*name, settings.get(*name)?)));
        found.extend(set.map(|(name, value)| of(name, value, source)));
    }
    let defaults = family
        .iter()
        .filter_map(|name| Some((*name, broker_key(name)?.default?)));
    found.extend(defaults.map(|(name, value)| of(name, value, Source::Default)));
    found
        .into_iter()
        .skip_while(|synonym| synonym.name != name)
        .collect()
}

#[cfg(test)]
mod tests;
