//! Which topic names are legal, and which topics are Kafka's own.

use std::fmt;

/// The longest topic name: with a partition suffix it must stay a legal file name.
const TOPIC_NAME_BYTES_MAX: usize = 249;

/// Where groups and their offsets are kept.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// Where transactional ids are kept.
pub const TRANSACTIONS_TOPIC: &str = "__transaction_state";

/// Kafka's own topics that clients may see.
const INTERNAL_TOPICS: [&str; 3] = [OFFSETS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state"];

/// The topics of coordinators that are served: created when they are first needed, with as many partitions as they will ever have.
pub(super) fn is_coordinator_topic(name: &str) -> bool {
    name == OFFSETS_TOPIC || name == TRANSACTIONS_TOPIC
}

/// The name of the metadata log, which is no topic that anyone can create.
pub(super) const CLUSTER_METADATA_TOPIC: &str = "__cluster_metadata";

/// Why a topic name is refused. Its text is Kafka's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidTopicName {
    /// It is empty.
    Empty,
    /// It is `.` or `..`.
    Dots(String),
    /// It has more than 249 characters.
    TooLong(String),
    /// It has a character other than ASCII alphanumerics, `.`, `_` and `-`.
    IllegalCharacter(String),
}

impl fmt::Display for InvalidTopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Topic name is invalid: ")?;
        match self {
            Self::Empty => f.write_str("the empty string is not allowed"),
            Self::Dots(name) => write!(f, "'{name}' is not allowed"),
            Self::TooLong(name) => write!(
                f,
                "the length of '{name}' is longer than the max allowed length {TOPIC_NAME_BYTES_MAX}"
            ),
            Self::IllegalCharacter(name) => write!(
                f,
                "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
            ),
        }
    }
}

impl std::error::Error for InvalidTopicName {}

/// Checks a topic name by Kafka's rules.
///
/// # Errors
/// The first rule it breaks, in Kafka's order.
pub fn validate_topic_name(name: &str) -> Result<(), InvalidTopicName> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() {
        Err(InvalidTopicName::Empty)
    } else if name == "." || name == ".." {
        Err(InvalidTopicName::Dots(name.to_owned()))
    } else if name.chars().count() > TOPIC_NAME_BYTES_MAX {
        Err(InvalidTopicName::TooLong(name.to_owned()))
    } else if !name.bytes().all(legal) {
        Err(InvalidTopicName::IllegalCharacter(name.to_owned()))
    } else {
        Ok(())
    }
}

/// Whether clients are told that a topic is internal.
#[must_use]
pub fn is_internal_topic(name: &str) -> bool {
    INTERNAL_TOPICS.contains(&name)
}
