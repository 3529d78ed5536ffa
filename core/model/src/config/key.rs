//! One configuration name: its type, default, rule and description, and the check of a value against them.
//!
//! Invariants:
//! 1. every default passes its own rule (a test walks the tables);
//! 2. checking a value never changes it: what was given is what is stored and shown.
//!
//! It does not know where a value was set, nor how values of several names depend on each other.
//! Source: Apache Kafka 4.3 (what it accepts and refuses was asked of a running broker).

use super::ConfigError;

/// The type of a value, as DescribeConfigs names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum Kind {
    /// `true` or `false`, in any case.
    Boolean = 1,
    /// Free text.
    String = 2,
    /// 32 bits, signed.
    Int = 3,
    /// 16 bits, signed.
    Short = 4,
    /// 64 bits, signed.
    Long = 5,
    /// A floating point number.
    Double = 6,
    /// Texts separated by commas.
    List = 7,
    /// The name of a Java class; never loaded here.
    Class = 8,
    /// A secret; never shown.
    Password = 9,
}

impl Kind {
    /// The wire number in DescribeConfigs answers.
    #[must_use]
    pub fn code(self) -> i8 {
        self as i8
    }

    /// Kafka's name of the type.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Boolean => "BOOLEAN",
            Self::String => "STRING",
            Self::Int => "INT",
            Self::Short => "SHORT",
            Self::Long => "LONG",
            Self::Double => "DOUBLE",
            Self::List => "LIST",
            Self::Class => "CLASS",
            Self::Password => "PASSWORD",
        }
    }
}

/// What a value must satisfy beyond its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Nothing.
    Any,
    /// A number of at least this.
    Min(i64),
    /// A number between these, both included.
    Range(i64, i64),
    /// A floating point number between these, both included.
    Ratio(f64, f64),
    /// One of these words; for a list, every element.
    OneOf(&'static [&'static str]),
    /// One of these words in any case.
    AnyCase(&'static [&'static str]),
    /// 1 to 9, or −1 for the library's default.
    GzipLevel,
    /// `*`, or partition:broker pairs.
    ThrottledReplicas,
    /// Not the empty text.
    NonEmpty,
    /// `earliest`, `latest`, or `by_duration:` and a duration as ISO 8601 writes it.
    ShareOffsetReset,
}

/// What setting the name does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It does what Kafka's does.
    Served,
    /// It is checked and kept, and waits for the part of Pelton that will use it.
    Planned,
    /// It is accepted and does nothing.
    Ignored,
}

/// How important Kafka calls a name; only shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Importance {
    /// Most installations set it.
    High,
    /// Some do.
    Medium,
    /// Few do.
    Low,
}

/// Whether a broker configuration can change while the broker runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Only by a restart.
    ReadOnly,
    /// For one broker.
    PerBroker,
    /// For one broker or for all of them at once.
    ClusterWide,
}

/// One broker configuration name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfigKey {
    /// Kafka's name.
    pub name: &'static str,
    /// The value's type.
    pub kind: Kind,
    /// Kafka's default in text form; `None` is Java's null.
    pub default: Option<&'static str>,
    /// What values must satisfy.
    pub rule: Rule,
    /// How important Kafka calls it.
    pub importance: Importance,
    /// Whether it can change while the broker runs.
    pub update: Update,
    /// What setting it does here.
    pub effect: Effect,
    /// Accepted when set, but not listed unless set.
    pub hidden: bool,
    /// One sentence about it.
    pub doc: &'static str,
}

/// The unit of a broker value that gives a topic's default in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The value is taken as it is.
    Same,
    /// Minutes.
    Minutes,
    /// Hours.
    Hours,
}

impl Unit {
    /// How many of the topic's units one of these is.
    #[must_use]
    pub fn factor(self) -> i64 {
        match self {
            Self::Same => 1,
            Self::Minutes => 60_000,
            Self::Hours => 3_600_000,
        }
    }
}

/// A broker configuration name that gives a resource's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synonym {
    /// The broker's name for it.
    pub name: &'static str,
    /// The unit of the broker's value.
    pub unit: Unit,
}

/// One configuration name of a topic, or of another resource that has defaults from its broker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopicKey {
    /// Name, type, default and rule.
    pub key: ConfigKey,
    /// Where its default comes from: the first that is set wins.
    pub synonyms: &'static [Synonym],
}

impl ConfigKey {
    /// Checks one value.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] when the text is not of the type or breaks the rule.
    pub fn validate(&self, value: &str) -> Result<(), ConfigError> {
        let shown = if self.kind == Kind::Password {
            "[hidden]"
        } else {
            value
        };
        self.fault(value.trim()).map_or(Ok(()), |reason| {
            Err(ConfigError::invalid(self.name, shown, reason))
        })
    }

    /// What is wrong with a trimmed value, in words that follow "Invalid value … for configuration …: ".
    fn fault(&self, text: &str) -> Option<String> {
        match self.kind {
            Kind::Boolean => parse_bool(text)
                .is_none()
                .then(|| "must be true or false".to_owned()),
            Kind::Short => self.integer_fault(text.parse::<i16>().ok().map(i64::from)),
            Kind::Int => self.integer_fault(text.parse::<i32>().ok().map(i64::from)),
            Kind::Long => self.integer_fault(text.parse::<i64>().ok()),
            Kind::Double => self.double_fault(text),
            Kind::List => self.list_fault(text),
            Kind::String | Kind::Class | Kind::Password => self.word_fault(text),
        }
    }

    fn integer_fault(&self, number: Option<i64>) -> Option<String> {
        let Some(number) = number else {
            return Some(format!("not a number of type {}", self.kind.name()));
        };
        match self.rule {
            Rule::Min(min) => (number < min).then(|| format!("must be at least {min}")),
            Rule::Range(min, max) => {
                (number < min || max < number).then(|| format!("must be between {min} and {max}"))
            }
            Rule::GzipLevel => (number != -1 && !(1..=9).contains(&number))
                .then(|| "must be between 1 and 9, or -1".to_owned()),
            Rule::Any
            | Rule::Ratio(..)
            | Rule::OneOf(_)
            | Rule::AnyCase(_)
            | Rule::ThrottledReplicas
            | Rule::NonEmpty
            | Rule::ShareOffsetReset => None,
        }
    }

    fn double_fault(&self, text: &str) -> Option<String> {
        // Kafka lets NaN through every range; a NaN ratio makes no sense, so it is refused here.
        let Some(number) = parse_double(text).filter(|number| !number.is_nan()) else {
            return Some(format!("not a number of type {}", self.kind.name()));
        };
        match self.rule {
            Rule::Ratio(min, max) => {
                (number < min || max < number).then(|| format!("must be between {min} and {max}"))
            }
            Rule::Any
            | Rule::Min(_)
            | Rule::Range(..)
            | Rule::OneOf(_)
            | Rule::AnyCase(_)
            | Rule::GzipLevel
            | Rule::ThrottledReplicas
            | Rule::NonEmpty
            | Rule::ShareOffsetReset => None,
        }
    }

    fn list_fault(&self, text: &str) -> Option<String> {
        match self.rule {
            Rule::OneOf(words) => list(text)
                .find(|element| !words.contains(element))
                .map(|_| format!("every element must be one of: {}", words.join(", "))),
            Rule::ThrottledReplicas => (text != "*" && !list(text).all(is_replica)).then(|| {
                "must be * or a list of partition:broker pairs, such as 0:1,1:2".to_owned()
            }),
            Rule::NonEmpty => text.is_empty().then(|| "must not be empty".to_owned()),
            Rule::Any
            | Rule::Min(_)
            | Rule::Range(..)
            | Rule::Ratio(..)
            | Rule::AnyCase(_)
            | Rule::ShareOffsetReset
            | Rule::GzipLevel => None,
        }
    }

    fn word_fault(&self, text: &str) -> Option<String> {
        match self.rule {
            Rule::OneOf(words) => {
                (!words.contains(&text)).then(|| format!("must be one of: {}", words.join(", ")))
            }
            Rule::AnyCase(words) => (!words.iter().any(|word| word.eq_ignore_ascii_case(text)))
                .then(|| format!("must be one of, in any case: {}", words.join(", "))),
            Rule::NonEmpty => text.is_empty().then(|| "must not be empty".to_owned()),
            Rule::ShareOffsetReset => (!is_share_offset_reset(text)).then(|| {
                "must be earliest, latest, or by_duration: and a duration such as PT1H".to_owned()
            }),
            Rule::Any
            | Rule::Min(_)
            | Rule::Range(..)
            | Rule::Ratio(..)
            | Rule::GzipLevel
            | Rule::ThrottledReplicas => None,
        }
    }
}

/// Reads a boolean as Kafka does: any case, spaces around it.
#[must_use]
pub fn parse_bool(text: &str) -> Option<bool> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

/// Reads a floating point number as Java does, including its type suffixes (`0.5f`, `1e-3d`).
#[must_use]
pub fn parse_double(text: &str) -> Option<f64> {
    let text = text.trim();
    let plain = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
    let numeric = plain.ends_with(|last: char| last.is_ascii_digit() || last == '.');
    if numeric {
        plain.parse().ok()
    } else {
        text.parse().ok()
    }
}

/// The elements of a list value: separated by commas, spaces around them dropped; none in an empty text.
pub fn list(text: &str) -> impl Iterator<Item = &str> {
    let text = text.trim();
    (!text.is_empty())
        .then(|| text.split(',').map(str::trim))
        .into_iter()
        .flatten()
}

/// Whether the text is `partition:broker`.
fn is_replica(text: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once(':')
        .is_some_and(|(partition, broker)| number(partition) && number(broker))
}

/// Whether the text says where a share group begins; of the duration it looks at letters and digits only.
fn is_share_offset_reset(text: &str) -> bool {
    let Some(duration) = text.strip_prefix("by_duration:") else {
        return text == "earliest" || text == "latest";
    };
    let upper = duration.to_ascii_uppercase();
    upper.strip_prefix('P').is_some_and(|rest| {
        rest.ends_with(['D', 'H', 'M', 'S'])
            && rest.starts_with(|first: char| first == 'T' || first.is_ascii_digit())
            && rest
                .chars()
                .all(|one| one.is_ascii_digit() || "DTHMS.".contains(one))
    })
}

/// The default column: a text or `null`.
macro_rules! default_value {
    (null) => {
        None
    };
    ($text:literal) => {
        Some($text)
    };
}

/// The rule column.
macro_rules! rule {
    (any) => {
        $crate::config::key::Rule::Any
    };
    (non_empty) => {
        $crate::config::key::Rule::NonEmpty
    };
    (gzip_level) => {
        $crate::config::key::Rule::GzipLevel
    };
    (throttled) => {
        $crate::config::key::Rule::ThrottledReplicas
    };
    (share_offset_reset) => {
        $crate::config::key::Rule::ShareOffsetReset
    };
    ((min $min:literal)) => {
        $crate::config::key::Rule::Min($min)
    };
    ((range $min:literal $max:literal)) => {
        $crate::config::key::Rule::Range($min, $max)
    };
    ((ratio $min:literal $max:literal)) => {
        $crate::config::key::Rule::Ratio($min, $max)
    };
    ((one_of $($word:literal)+)) => {
        $crate::config::key::Rule::OneOf(&[$($word),+])
    };
    ((any_case $($word:literal)+)) => {
        $crate::config::key::Rule::AnyCase(&[$($word),+])
    };
}

/// Whether the row began with `hidden`.
macro_rules! is_hidden {
    () => {
        false
    };
    (hidden) => {
        true
    };
}

/// The unit of a synonym.
macro_rules! unit {
    (same) => {
        $crate::config::key::Unit::Same
    };
    (minutes) => {
        $crate::config::key::Unit::Minutes
    };
    (hours) => {
        $crate::config::key::Unit::Hours
    };
}

/// A table of broker names: `[hidden] "name" Kind default rule Importance Update Effect "doc";`.
macro_rules! broker_keys {
    ($vis:vis $table:ident $($($hidden:ident)? $name:literal $kind:ident $default:tt $rule:tt
        $importance:ident $update:ident $effect:ident $doc:literal;)+) => {
        $vis const $table: &[ConfigKey] = &[$(ConfigKey {
            name: $name,
            kind: $crate::config::key::Kind::$kind,
            default: $crate::config::key::default_value!($default),
            rule: $crate::config::key::rule!($rule),
            importance: $crate::config::key::Importance::$importance,
            update: $crate::config::key::Update::$update,
            effect: $crate::config::key::Effect::$effect,
            hidden: $crate::config::key::is_hidden!($($hidden)?),
            doc: $doc,
        }),+];
    };
}

/// A table of names of topics, groups or client metrics: `[hidden] "name" Kind default rule Importance ["broker name" unit …] Effect "doc";`.
macro_rules! topic_keys {
    ($vis:vis $table:ident $($($hidden:ident)? $name:literal $kind:ident $default:tt $rule:tt
        $importance:ident [$($synonym:literal $unit:ident)*] $effect:ident $doc:literal;)+) => {
        $vis const $table: &[TopicKey] = &[$(TopicKey {
            key: $crate::config::key::ConfigKey {
                name: $name,
                kind: $crate::config::key::Kind::$kind,
                default: $crate::config::key::default_value!($default),
                rule: $crate::config::key::rule!($rule),
                importance: $crate::config::key::Importance::$importance,
                update: $crate::config::key::Update::ClusterWide,
                effect: $crate::config::key::Effect::$effect,
                hidden: $crate::config::key::is_hidden!($($hidden)?),
                doc: $doc,
            },
            synonyms: &[$($crate::config::key::Synonym {
                name: $synonym,
                unit: $crate::config::key::unit!($unit),
            }),*],
        }),+];
    };
}

pub(super) use {broker_keys, default_value, is_hidden, rule, topic_keys, unit};
