//! The places that set a broker's values, one over the other: this broker, all brokers, the file.
//!
//! Source: KIP-226.

use std::collections::BTreeMap;

use super::described::Source;

/// Settings by name.
pub type Settings = BTreeMap<String, String>;

/// The settings of all places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layers<'a> {
    /// Set on this broker while it ran.
    pub(super) node: &'a Settings,
    /// Set on all brokers while they ran.
    pub(super) cluster: &'a Settings,
    /// From the file and the command line.
    pub(super) fixed: &'a Settings,
}

impl<'a> Layers<'a> {
    /// Only a file.
    pub(super) fn fixed(fixed: &'a Settings) -> Self {
        static NONE: Settings = Settings::new();
        Self {
            node: &NONE,
            cluster: &NONE,
            fixed,
        }
    }

    /// The places, the strongest first.
    pub(super) fn places(self) -> [(Source, &'a Settings); 3] {
        [
            (Source::DynamicBroker, self.node),
            (Source::DynamicDefaultBroker, self.cluster),
            (Source::StaticBroker, self.fixed),
        ]
    }

    /// The value that counts under one name, and where it is set.
    pub(super) fn get(self, name: &str) -> Option<(&'a str, Source)> {
        let found = |(source, settings): (Source, &'a Settings)| {
            settings.get(name).map(|value| (value.as_str(), source))
        };
        self.places().into_iter().find_map(found)
    }
}
