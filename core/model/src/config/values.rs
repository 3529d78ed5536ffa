//! Typed look-ups in a broker's settings: what is set, else Kafka's default.

use std::collections::BTreeMap;

use super::ConfigError;
use super::key::{list, parse_bool};
use super::table::broker_key;

/// A broker's settings, checked name by name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values<'a> {
    set: &'a BTreeMap<String, String>,
}

impl<'a> Values<'a> {
    /// Checks every setting with a known name; unknown names are left to the review of names.
    pub(super) fn checked(set: &'a BTreeMap<String, String>) -> Result<Self, ConfigError> {
        for (name, value) in set {
            if let Some(key) = broker_key(name) {
                key.validate(value)?;
            }
        }
        Ok(Self { set })
    }

    /// The value as set, trimmed.
    pub(super) fn set(self, name: &str) -> Option<&'a str> {
        self.set.get(name).map(|value| value.trim())
    }

    /// The value, else the default; `None` is Java's null.
    pub(super) fn get(self, name: &str) -> Option<&'a str> {
        self.set(name)
            .or_else(|| broker_key(name).and_then(|key| key.default))
    }

    /// Reads the value with `read`; an unreadable or missing one is an error that names it.
    pub(super) fn read<T>(
        self,
        name: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, ConfigError> {
        let value = self.get(name);
        value.and_then(read).ok_or_else(|| {
            ConfigError::invalid(name, value.unwrap_or("null"), "has no usable value")
        })
    }

    pub(super) fn i16(self, name: &str) -> Result<i16, ConfigError> {
        self.read(name, |value| value.parse().ok())
    }

    pub(super) fn i32(self, name: &str) -> Result<i32, ConfigError> {
        self.read(name, |value| value.parse().ok())
    }

    /// A size: an INT whose rule keeps it at or above zero.
    pub(super) fn u32(self, name: &str) -> Result<u32, ConfigError> {
        self.read(name, |value| value.parse::<i32>().ok()?.try_into().ok())
    }

    pub(super) fn i64(self, name: &str) -> Result<i64, ConfigError> {
        self.read(name, |value| value.parse().ok())
    }

    pub(super) fn bool(self, name: &str) -> Result<bool, ConfigError> {
        self.read(name, parse_bool)
    }

    /// The elements of a list; none when it is unset without a default.
    pub(super) fn list(self, name: &str) -> impl Iterator<Item = &'a str> {
        list(self.get(name).unwrap_or(""))
    }
}
